"""Every expansion, evaluated by the meaning of its simple rows, against the row's own meaning in float64.

TABLE states how many units in the last place each may be off, by type. For f64 the reference is itself a float64
computation, so its bounds hold for both errors together.
"""

from typing import NamedTuple

import numpy as np
import pytest

from tritium import ops
from tritium.interp.machine import Machine
from tritium.ir import types as T
from tritium.ir.builder import Builder
from tritium.ir.core import Module, Op, walk
from tritium.ir.opdef import KINDS, types_of
from tritium.ir.verify import verify
from tritium.ops.expand import EXPAND
from tritium.passes import dce, run
from tritium.passes.legalize import TargetInfo, legalize

DTYPES = {T.f32: np.float32, T.f64: np.float64, T.i32: np.int32, T.u32: np.uint32, T.i64: np.int64, T.u64: np.uint64}


# --- evaluating -----------------------------------------------------------------------------------------------------
def expanded(kind, elements, shape, target_info=None):
    """A module whose body yields the op's value, with only simple rows left."""
    b = Builder()
    args = [b.argument(T.Tile(shape, t) if shape else t) for t in elements]
    ops.yield_(b, kind(b, *args))
    return verify(run(Module("f", b.finish()), (legalize(target_info or TargetInfo()), dce)))


def by_expansion(kind, elements, *xs):
    module = expanded(kind, elements, xs[0].shape)
    with np.errstate(all="ignore"):
        out, = Machine().run(module.body, xs)
    return out


def by_meaning(kind, elements, *xs):
    args = tuple(Op(ops.constant, (), {}, (T.Tile(x.shape, t) if x.shape else t,)) for x, t in zip(xs, elements))
    op = Op(kind, args, {}, types_of(kind, [a.type for a in args], {}))
    with np.errstate(all="ignore"):
        return kind.eval(None, op, *xs)


def error_in_ulps(got, wanted, dtype, scale=0.0):
    """Units in the last place of `dtype` between `got` and float64 `wanted`; not below those of `scale`."""
    with np.errstate(all="ignore"):
        near = wanted.astype(dtype)
        size = np.maximum(np.abs(near), np.asarray(scale, dtype))
        ulp = np.abs(np.spacing(np.where(np.isfinite(size), size, dtype(1)))).astype(np.float64)
        error = np.abs(got.astype(np.float64) - wanted) / ulp
    same = (np.isnan(got) & np.isnan(near)) | (got == near)
    return np.where(same, np.where(np.isfinite(near), error, 0.0), np.where(np.isfinite(error), error, np.inf))


# --- functions ------------------------------------------------------------------------------------------------------
class Case(NamedTuple):
    """Bounds in ulp, and where to look: spans (low, high), or (low, high, "log"). `wide` are f64's if they differ.

    `scale` is the size below which errors are absolute: around zeros of an oscillating function its amplitude.
    """

    f32: float
    f64: float
    spans: tuple
    wide: tuple = ()
    scale: object = 0.0
    count: int = 1500


SMALL, POSITIVE = (1e-30, 1.0, "log"), (1e-44, 3e38, "log")
WIDE_POSITIVE = (1e-320, 1e308, "log")
NEAR_ONE = (0.5, 2.0)


def amplitude(x):
    """Of a Bessel function."""
    with np.errstate(all="ignore"):
        return np.minimum(1.0, np.sqrt(2 / (np.pi * np.abs(x.astype(np.float64)))))


TABLE = {
    # f32, f64 bounds and spans of the first operand
    "exp": Case(1.0, 1.5, ((-104, 89), (-1, 1)), ((-746, 710), (-1, 1))),
    "exp2": Case(1.0, 1.5, ((-150, 129),), ((-1075, 1025),)),
    "exp10": Case(1.0, 1.6, ((-45, 38.6),), ((-324, 308.4),)),
    "expm1": Case(1.5, 2.2, ((-20, 89), (-1, 1), SMALL), ((-40, 710), (-1, 1), SMALL)),
    "log": Case(1.0, 1.5, (POSITIVE, NEAR_ONE), (WIDE_POSITIVE, NEAR_ONE)),
    "log2": Case(1.4, 1.9, (POSITIVE, NEAR_ONE), (WIDE_POSITIVE, NEAR_ONE)),
    "log10": Case(1.2, 2.1, (POSITIVE, NEAR_ONE), (WIDE_POSITIVE, NEAR_ONE)),
    "log1p": Case(1.6, 2.0, ((-0.9999, 3), (1e-20, 1e30, "log"))),
    "sin": Case(1.6, 1.5, ((-10, 10), (-1e5, 1e5), (1e5, 3e38, "log")), ((-10, 10), (-1e5, 1e5), (1e5, 1e300, "log"))),
    "cos": Case(1.6, 1.5, ((-10, 10), (-1e5, 1e5), (1e5, 3e38, "log")), ((-10, 10), (-1e5, 1e5), (1e5, 1e300, "log"))),
    "tan": Case(3.0, 2.7, ((-10, 10), (-1e5, 1e5), (1e5, 3e38, "log")), ((-10, 10), (-1e5, 1e5), (1e5, 1e300, "log"))),
    "sinpi": Case(1.0, 2.6, ((-10, 10), (-1e5, 1e5))),
    "cospi": Case(1.0, 2.6, ((-10, 10), (-1e5, 1e5))),
    "asin": Case(1.3, 1.6, ((-1, 1), SMALL)),
    "acos": Case(1.0, 1.6, ((-1, 1), SMALL)),
    "atan": Case(1.5, 2.0, ((-3, 3), (1e-30, 1e30, "log"))),
    "sinh": Case(1.6, 2.2, ((-90, 90), (-3, 3), SMALL), ((-711, 711), (-3, 3), SMALL)),
    "cosh": Case(1.4, 1.9, ((-90, 90), (-3, 3)), ((-711, 711), (-3, 3))),
    "tanh": Case(1.4, 2.0, ((-10, 10), (-1, 1), SMALL)),
    "asinh": Case(2.0, 2.3, ((-10, 10), (1e-20, 1e37, "log"))),
    "acosh": Case(2.0, 2.3, ((1, 4), (1, 1e37, "log"))),
    "atanh": Case(2.1, 2.5, ((-1, 1), SMALL)),
    "rsqrt": Case(0.6, 2.0, (POSITIVE,), (WIDE_POSITIVE,)),
    "cbrt": Case(0.8, 1.7, (POSITIVE, (-3, 3)), (WIDE_POSITIVE, (-3, 3))),
    "rcbrt": Case(2.0, 2.7, (POSITIVE, (-3, 3)), (WIDE_POSITIVE, (-3, 3))),
    "erf": Case(1.0, 1.9, ((-6, 6), SMALL)),
    "erfc": Case(0.6, 3.5, ((-6, 10.1), (-1, 1)), ((-6, 26.6), (-1, 1), (26, 27.3))),
    "erfcx": Case(0.6, 4.5, ((-9, 30), (1e-5, 1e15, "log")), ((-26, 30), (1e-5, 1e15, "log"))),
    "erfinv": Case(0.6, 4.0, ((-1, 1), (0.999, 1), SMALL), count=800),
    "erfcinv": Case(0.6, 4.0, ((0, 2), (1e-37, 1, "log")), ((0, 2), (1e-307, 1, "log")), count=800),
    "normcdf": Case(0.6, 5.0, ((-14, 8), (-1, 1)), ((-38.4, 8), (-1, 1))),
    "normcdfinv": Case(0.6, 5.0, ((0, 1), (1e-37, 1, "log")), ((0, 1), (1e-307, 1, "log")), count=800),
    "lgamma": Case(0.6, 12.0, ((0.01, 12), (1e-20, 1e30, "log"), (-20, 0)), scale=1.0),
    "tgamma": Case(0.6, 8.0, ((-5, 12), (-34, 35), SMALL), ((-5, 12), (-182, 171), SMALL)),
    "j0": Case(0.6, 9.0, ((-8, 8), (8, 100), (100, 1e5)), scale=amplitude, count=200),
    "j1": Case(0.6, 9.0, ((-8, 8), (8, 100), (100, 1e5), SMALL), scale=amplitude, count=200),
    "y0": Case(0.6, 9.0, ((0, 8), (8, 100), (100, 1e5), SMALL), scale=amplitude, count=200),
    "y1": Case(0.6, 9.0, ((0, 8), (8, 100), (100, 1e5), SMALL), scale=amplitude, count=200),
    "cyl_bessel_i0": Case(0.6, 6.5, ((-20, 20), (15, 80)), ((-20, 20), (15, 713)), count=200),
    "cyl_bessel_i1": Case(0.6, 6.5, ((-20, 20), (15, 80), SMALL), ((-20, 20), (15, 713), SMALL), count=200),
    "rsqrt_rn": Case(0.5001, 0, (POSITIVE,)),
}
SPECIAL_VALUES = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 2.0, 1e-40, -1e-40, 1e-45, 1e-310, -5e-324,
                  1e30, -1e30, 3.4e38, 1.7e308, 1e-20, -2.0, -3.0, 170.5, 88.72, 88.73, -87.34, -103.9, 709.7, -745.1]


def samples(case, t):
    rng = np.random.default_rng(11)
    parts = [np.array(SPECIAL_VALUES)]
    for span in case.wide if case.wide and t is T.f64 else case.spans:
        low, high, *log = span
        if log:
            parts.append(np.exp(rng.uniform(np.log(low), np.log(high), case.count)))
        else:
            parts.append(rng.uniform(low, high, case.count))
    with np.errstate(all="ignore"):
        return np.concatenate(parts).astype(DTYPES[t])


FUNCTIONS = [pytest.param(name, t, id=f"{name}-{t}") for name in TABLE for t in KINDS[name].row.accepts]


@pytest.mark.parametrize("name, t", FUNCTIONS)
def test_functions_are_within_their_bounds(name, t):
    case, kind = TABLE[name], KINDS[name]
    x = samples(case, t)
    got = by_expansion(kind, (t,), x)
    assert got.dtype == DTYPES[t]
    # f32 operands are exact in float64, where the meaning is the reference
    wanted = by_meaning(kind, (t,), x).astype(np.float64) if t is T.f64 or name == "rsqrt_rn" else \
        by_meaning(kind, (T.f64,), x.astype(np.float64))
    scale = case.scale(x) if callable(case.scale) else case.scale
    error = error_in_ulps(got, wanted, DTYPES[t], scale)
    worst = int(np.argmax(error))
    bound = case.f32 if t is T.f32 else case.f64
    assert error[worst] <= bound, \
        f"{name}({x[worst]!r}) is {got[worst]!r}, expected {wanted[worst]!r}: {error[worst]:.2f} ulp"


ODD = ("sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "expm1", "log1p", "erf", "cbrt", "sinpi", "j1",
       "cyl_bessel_i1", "erfinv")


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("t", [T.f32, T.f64], ids=str)
def test_odd_functions_keep_the_sign_of_zero(name, t):
    out = by_expansion(KINDS[name], (t,), np.array([0.0, -0.0], DTYPES[t]))
    assert list(out) == [0, 0] and list(np.signbit(out)) == [False, True]


# --- functions of two and more ----------------------------------------------------------------------------------------
def pairs_for_pow(t):
    rng = np.random.default_rng(5)
    top = 88 if t is T.f32 else 700
    base = np.exp(rng.uniform(-20, 20, 3000))
    power = rng.uniform(-top, top, 3000) / np.log(base)
    special = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, np.inf, -np.inf, np.nan, 1e30, -1e30, 2.0**24 + 2]
    x, y = np.meshgrid(special, special)
    return [np.concatenate(p).astype(DTYPES[t]) for p in ((base, x.ravel()), (power, y.ravel()))]


def points(t, count):
    rng = np.random.default_rng(6)
    special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, 1e-20]
    grid = [g.ravel() for g in np.meshgrid(*[special] * min(count, 2))]
    grid += [grid[0][::-1]] * (count - len(grid))
    random = [rng.normal(size=2000) * np.exp(rng.uniform(-40, 40, 2000)) for _ in range(count)]
    return [np.concatenate([r, s]).astype(DTYPES[t]) for r, s in zip(random, grid)]


SEVERAL = {"pow": (1.0, 1.9), "atan2": (1.6, 2.4), "hypot": (0.6, 1.9), "rhypot": (0.6, 2.9), "norm3d": (0.6, 1.9),
           "rnorm3d": (0.6, 2.9), "norm4d": (0.6, 1.9), "rnorm4d": (0.6, 2.9)}


@pytest.mark.parametrize("t", [T.f32, T.f64], ids=str)
@pytest.mark.parametrize("name", SEVERAL)
def test_functions_of_several(name, t):
    kind = KINDS[name]
    xs = pairs_for_pow(t) if name == "pow" else points(t, kind.row.arity)
    elements = (t,) * len(xs)
    got = by_expansion(kind, elements, *xs)
    wide = [x.astype(np.float64) for x in xs]
    wanted = by_meaning(kind, (T.f64,) * len(xs), *wide)
    error = error_in_ulps(got, wanted, DTYPES[t])
    worst = int(np.argmax(error))
    assert error[worst] <= SEVERAL[name][t is T.f64], \
        f"{name}({[x[worst] for x in xs]}) is {got[worst]!r}, expected {wanted[worst]!r}: {error[worst]:.2f} ulp"


@pytest.mark.parametrize("t", [T.f32, T.f64], ids=str)
@pytest.mark.parametrize("name", ["jn", "yn"])
def test_bessel_functions_of_any_order(name, t):
    rng = np.random.default_rng(8)
    n = np.array([0, 1, 2, 3, -2, -3, 7, 20, 40, 5, 0, 1, 3], np.int32)
    x = np.array([*rng.uniform(0.1, 60, len(n) - 3), 0.0, np.inf, np.nan], DTYPES[t])
    got = by_expansion(KINDS[name], (T.i32, t), n, x)
    wanted = by_meaning(KINDS[name], (T.i32, T.f64), n, x.astype(np.float64))
    error = error_in_ulps(got, wanted, DTYPES[t], amplitude(x) if name == "jn" else np.abs(wanted))
    assert error.max() <= (1.0 if t is T.f32 else 60.0), list(zip(n, x, got, wanted, error))


# --- what is exact ----------------------------------------------------------------------------------------------------
EXACT = [name for name in ops.SPECIAL if name.endswith(("_rn", "_rz", "_rd", "_ru")) and KINDS[name] in EXPAND
         and name != "rsqrt_rn"] + ["ldexp", "scalbn", "logb", "nextafter", "remainder", "mulhi", "abs"]


def values(t, seed, count=400):
    """Random bits, ordinary numbers, and what is special."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2**t.bits - 1, count, dtype=f"u{t.bits // 8}", endpoint=True)
    if t.is_int:
        x = bits.view(DTYPES[t])
        return np.where(rng.uniform(size=count) < 0.5, x >> DTYPES[t](t.bits // 2), x)
    x = bits.view(DTYPES[t])
    x = np.where(rng.uniform(size=count) < 0.5, rng.normal(size=count).astype(DTYPES[t]), x)
    info = np.finfo(DTYPES[t])
    least = info.smallest_subnormal
    special = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, info.max, -info.max, info.tiny, least, -least, 0.5, 3],
                       DTYPES[t])
    return np.where(rng.uniform(size=count) < 0.3, rng.choice(special, count), x)


def operands(name, elements):
    xs = [values(t, seed) for seed, t in enumerate(elements)]
    if name in ("ldexp", "scalbn"):
        xs[1] = np.random.default_rng(3).integers(-2300, 2300, len(xs[1])).astype(np.int32) // np.int32(7)
    half = len(xs[0]) // 2
    with np.errstate(all="ignore"):
        if name.startswith(("add", "sub")):     # what nearly cancels
            xs[1][half:] = -xs[0][half:] * xs[0].dtype.type(1 + 3e-7)
        elif name.startswith("fma"):
            xs[2][half:] = -(xs[0] * xs[1])[half:]
    return xs


def signatures(row):
    """The types of operands for which a row has no instruction."""
    same = [(t,) * row.arity for t in row.accepts if t in DTYPES and t.kind not in row.llvm]
    return [s[:-1] for s in row.signature] or same


CASES = [pytest.param(name, elements, id=f"{name}-{'-'.join(map(str, elements))}")
         for name in EXACT for elements in signatures(KINDS[name].row)]


@pytest.mark.parametrize("name, elements", CASES)
def test_exact_expansions(name, elements):
    kind = KINDS[name]
    xs = operands(name, elements)
    expand = EXPAND[kind]
    b = Builder()
    args = [b.argument(T.Tile(x.shape, t)) for x, t in zip(xs, elements)]
    op = Op(kind, tuple(args), {}, types_of(kind, [a.type for a in args], {}))
    ops.yield_(b, expand(b, op, *args))     # even where a target would have an instruction
    module = run(Module("f", b.finish()), (legalize(), dce))
    with np.errstate(all="ignore"):
        got, = Machine().run(module.body, xs)
    wanted = by_meaning(kind, elements, *xs)
    same = (got == wanted) & (np.signbit(got) == np.signbit(wanted)) if got.dtype.kind == "f" else got == wanted
    wrong = np.flatnonzero(~(same | ((got != got) & (wanted != wanted))))
    assert not len(wrong), f"{name}({[x[wrong[0]] for x in xs]}) is {got[wrong[0]]!r}, expected {wanted[wrong[0]]!r}"


# --- the table of expansions ------------------------------------------------------------------------------------------
def test_every_row_without_an_instruction_has_an_expansion():
    for row in (*ops.ROWS.values(), *ops.SPECIAL.values()):
        for t in (*row.accepts, *[s[0] for s in row.signature]):
            spelled = t.kind in row.llvm or "any" in row.llvm
            assert spelled or KINDS[row.name] in EXPAND, f"{row.name} of {t}"


def test_every_expansion_is_tested():
    assert {kind.name for kind in EXPAND} == {*TABLE, *SEVERAL, *EXACT, "jn", "yn"}


@pytest.mark.parametrize("kind", EXPAND, ids=lambda kind: kind.name)
def test_expansions_hold_only_simple_rows(kind):
    """What is left has an LLVM spelling, or is a cast, select, splat or constant; and it works on scalars too."""
    for elements in signatures(kind.row):
        for shape in ((), (4,)):
            for op in walk(expanded(kind, elements, shape).body):
                row = op.kind.row
                assert row is None or T.element(op.operands[0].type).kind in row.llvm or "any" in row.llvm, op


def test_exp_is_short():
    """It decides the speed of softmax: constants apart, about twenty ops."""
    free = (ops.constant, ops.splat, ops.bitcast, ops.yield_)
    body = expanded(ops.exp, (T.f32,), (16,)).body
    assert len([op for op in body.ops if op.kind not in free]) <= 22


def test_rare_paths_may_branch():
    """A target with branches keeps the reduction of huge angles out of the way; the result is the same."""
    x = np.array([1.0, 1e6, -3e38, 0.5, np.inf, 12345.678], np.float32)
    module = expanded(ops.sin, (T.f32,), x.shape, TargetInfo(rare=True))
    assert [op.kind for op in module.body.ops].count(ops.rare) == 1
    with np.errstate(all="ignore"):
        out, = Machine().run(module.body, (x,))
    np.testing.assert_array_equal(out, by_expansion(ops.sin, (T.f32,), x))
