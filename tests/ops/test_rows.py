"""Every row of the table x every type it accepts x ordinary and special values, against exact arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.ops.exact import allowed, decode, is_special, rounded, same, values, wrap
from tests.ops.samples import operands
from tritium import ops
from tritium.ir import types as T
from tritium.ir.core import Arg, Op
from tritium.ir.opdef import KINDS, types_of


def evaluate(kind, element, *arrays):
    """The op's meaning on arrays of one element type: (result element type, array)."""
    args = tuple(Arg(T.Tile(a.shape, element)) for a in arrays)
    op = Op(kind, args, {}, types_of(kind, [a.type for a in args], {}))
    out = kind.eval(None, op, *arrays)
    assert out.shape == arrays[0].shape
    return T.element(op.type), out


# --- exact float arithmetic on Fractions and special floats -----------------------------------------------------------
def f_add(x, y):
    if (is_special(x) and is_special(y)) or x == y == 0:
        return x + y
    if is_special(x) or is_special(y):
        return x if is_special(x) else y
    return Fraction(x) + Fraction(y) or 0.0


def negative(x):
    return math.copysign(1, x) < 0 if isinstance(x, float) else x < 0


def f_mul(x, y):
    if is_special(x) or is_special(y) or x == 0 or y == 0:
        sign = -1 if negative(x) != negative(y) else 1
        infinite = is_special(x) or is_special(y)
        if any(isinstance(v, float) and math.isnan(v) for v in (x, y)) or (infinite and (x == 0 or y == 0)):
            return math.nan
        return sign * (math.inf if infinite else 0.0)
    return x * y


def f_div(x, y):
    if any(isinstance(v, float) and math.isnan(v) for v in (x, y)) or (is_special(x) and is_special(y)) or x == y == 0:
        return math.nan
    sign = -1 if negative(x) != negative(y) else 1
    if is_special(x) or y == 0:
        return sign * math.inf
    if is_special(y) or x == 0:
        return sign * 0.0
    return x / y


def f_rem(x, y):
    if is_special(x) or y == 0 or (isinstance(y, float) and math.isnan(y)):
        return math.nan
    if is_special(y) or x == 0:
        return x
    return x - math.trunc(x / y) * y or (-0.0 if x < 0 else 0.0)


def f_fma(x, y, z):
    product = f_mul(x, y)
    if is_special(product) or is_special(z) or product == 0:
        return f_add(product, z)
    return Fraction(product) + (0 if z == 0 else Fraction(z)) or 0.0


def f_pick(better):
    """minnum/maxnum: a nan loses; which zero wins is not said, so either is accepted (see `agrees`)."""
    def pick(x, y):
        if is_special(x) and math.isnan(x):
            return y
        if is_special(y) and math.isnan(y):
            return x
        return x if better(x, y) else y
    return pick


def f_pick_nan(better):
    pick = f_pick(better)
    return lambda x, y: math.nan if any(is_special(v) and math.isnan(v) for v in (x, y)) else pick(x, y)


def f_copysign(x, y):
    return abs(x) * math.copysign(1, y) if isinstance(x, float) else abs(x) * int(math.copysign(1, y))


FLOAT = {
    "add": f_add, "sub": lambda x, y: f_add(x, -y), "mul": f_mul, "div": f_div, "rem": f_rem, "fma": f_fma, "abs": abs,
    "min": f_pick(lambda x, y: x < y), "max": f_pick(lambda x, y: x > y),
    "min_nan": f_pick_nan(lambda x, y: x < y), "max_nan": f_pick_nan(lambda x, y: x > y), "copysign": f_copysign,
}
COMPARE = {
    "eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y, "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y,
}


# --- integers as Python ints ------------------------------------------------------------------------------------------
def i_div(t, x, y):
    return 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def i_shift(t, x, n, by):
    return by(x, n) if 0 <= n < t.bits else -1 if t.signed and x < 0 and by(1, 1) == 0 else 0


def unsigned(t, x):
    return x & (1 << t.bits) - 1


INT = {
    "add": lambda t, x, y: x + y, "sub": lambda t, x, y: x - y, "mul": lambda t, x, y: x * y, "div": i_div,
    "rem": lambda t, x, y: x - i_div(t, x, y) * y, "mulhi": lambda t, x, y: x * y >> t.bits, "abs": lambda t, x: abs(x),
    "min": lambda t, x, y: min(x, y), "max": lambda t, x, y: max(x, y),
    "and": lambda t, x, y: x & y, "or": lambda t, x, y: x | y, "xor": lambda t, x, y: x ^ y,
    "shl": lambda t, x, n: i_shift(t, x, n, lambda a, b: a << b),
    "shr": lambda t, x, n: i_shift(t, x, n, lambda a, b: a >> b),
    "popc": lambda t, x: unsigned(t, x).bit_count(), "clz": lambda t, x: t.bits - unsigned(t, x).bit_length(),
    "brev": lambda t, x: int(f"{unsigned(t, x):0{t.bits}b}"[::-1], 2),
}

# --- rounding to integers ---------------------------------------------------------------------------------------------
ITERATION = {
    "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "rint": round,
    "round": lambda x: math.floor(abs(x) + Fraction(1, 2)) * (1 if x > 0 else -1),
}


def agrees(row, t, got, exact, expected):
    if row.name in ("min", "max", "min_nan", "max_nan") and got == expected == 0:
        return True
    return allowed(t, got, exact, expected)


EXACT = {"div", "rem", *INT, *FLOAT, *COMPARE, *ITERATION}
CASES = [(row, t) for row in ops.ROWS.values() for t in row.accepts if row.name in EXACT]


@pytest.mark.parametrize("row, t", CASES, ids=lambda v: getattr(v, "name", None))
def test_exact_rows(row, t):
    """Arithmetic, bits, comparison and rounding: the one right answer."""
    xs = operands(t, row.arity)
    result, out = evaluate(KINDS[row.name], t, *xs)
    for *x, got in zip(*[values(t, a) for a in xs], values(result, out)):
        if row.name in COMPARE:
            exact = expected = int(COMPARE[row.name](*x))
        elif t.is_int:
            exact = expected = wrap(t, INT[row.name](t, *x))
        elif row.name in ITERATION:
            exact = expected = x[0] if is_special(x[0]) or x[0] == 0 else \
                Fraction(ITERATION[row.name](x[0])) or math.copysign(0.0, x[0])
        else:
            exact = expected = FLOAT[row.name](*x)
            if t.bits == 8 and not row.exact:  # computed in f32, converted back as a cast
                expected = rounded(t, rounded(T.f32, expected), saturate=True)
            elif t is not T.f8e4b15 or abs(expected) != Fraction(15, 8):  # which only the code 0x7F gives
                expected = rounded(t, expected)
        assert agrees(row, result, got, exact, expected), \
            f"{row.name}({', '.join(map(repr, x))}) is {got!r}, expected {expected!r}"


def mp_function(name):
    mp = pytest.importorskip("mpmath")
    table = {
        "sqrt": mp.sqrt, "rsqrt": lambda x: 1 / mp.sqrt(x), "exp": mp.exp, "exp2": lambda x: mp.power(2, x),
        "log": mp.log, "log2": lambda x: mp.log(x, 2), "sin": mp.sin, "cos": mp.cos, "tanh": mp.tanh, "erf": mp.erf,
    }
    return mp, table[name]


# where mathematics has no finite real answer
POLES = {
    "sqrt": {math.inf: math.inf}, "rsqrt": {math.inf: 0.0},
    "exp": {math.inf: math.inf, -math.inf: 0.0}, "exp2": {math.inf: math.inf, -math.inf: 0.0},
    "log": {math.inf: math.inf}, "log2": {math.inf: math.inf}, "sin": {}, "cos": {},
    "tanh": {math.inf: 1.0, -math.inf: -1.0}, "erf": {math.inf: 1.0, -math.inf: -1.0},
}
FUNCTIONS = [(row, t) for row in ops.ROWS.values() for t in row.accepts if row.name in POLES]


@pytest.mark.parametrize("row, t", FUNCTIONS, ids=lambda v: getattr(v, "name", None))
def test_function_rows(row, t):
    """Transcendental functions: right but for the last bit of float64, nearest for f32, against many digits."""
    mp, exact = mp_function(row.name)
    rng = np.random.default_rng(3)
    dtype = np.float32 if t is T.f32 else np.float64
    span = np.array(rng.uniform(-20, 20, 150), dtype)
    x = np.concatenate([operands(t, 1)[0], span, np.exp(span).astype(dtype)])
    _, out = evaluate(KINDS[row.name], t, x)
    with mp.workprec(1200):
        for a, got in zip(values(t, x), out):
            if is_special(a):
                expected = POLES[row.name].get(a, math.nan)
                assert same(float(got), expected), f"{row.name}({a}) is {got}, expected {expected}"
            elif a < 0 and row.name in ("sqrt", "rsqrt", "log", "log2"):
                assert math.isnan(got), f"{row.name}({float(a)}) is {got}"
            elif a == 0 and row.name in ("rsqrt", "log", "log2"):
                assert got == (math.copysign(math.inf, a) if row.name == "rsqrt" else -math.inf)
            elif abs(a) > 2**12 and row.name in ("exp", "exp2"):
                assert got == (math.inf if a > 0 else 0.0)
            else:
                check_close(t, row.name, a, got, exact(mp.mpf(Fraction(a).numerator) / Fraction(a).denominator), mp)


def check_close(t, name, x, got, expected, mp):
    exp = mp.frexp(expected)[1] if expected else 0
    ulp = mp.ldexp(1, max(int(exp) - 1, 1 - t.bias) - t.mantissa)
    if abs(expected) > mp.mpf(float(decode(t, ((1 << t.exponent) - 1 << t.mantissa) - 1))):
        assert abs(got) == math.inf or abs(mp.mpf(float(got)) - expected) <= ulp, f"{name}({float(x)!r}) is {got!r}"
        return
    error = abs(mp.mpf(float(got)) - expected) / ulp
    assert error <= (0.51 if t is T.f32 else 1.5), f"{name}({float(x)!r}) is {got!r}, {float(error):.2f} ulp off"


def test_every_row_has_a_reference():
    """A row added to the table needs an independent reference here."""
    for row in ops.ROWS.values():
        known = row.name in COMPARE or row.name in ITERATION or row.name in POLES or \
            all(row.name in (INT if t.is_int else FLOAT) for t in row.accepts)
        assert known, f"row {row.name} has no reference in {__file__}"


@pytest.mark.parametrize("name", sorted(ops.ROWS))
def test_scalars_are_zero_dimensional(name):
    """A scalar stays a 0-d array of the result's dtype: what regions and loops carry."""
    row = ops.ROWS[name]
    t = row.accepts[-1]
    xs = [np.asarray(a[3]) for a in operands(t, row.arity)]
    op = Op(KINDS[name], tuple(Arg(t) for _ in xs), {}, types_of(KINDS[name], [t] * row.arity, {}))
    out = KINDS[name].eval(None, op, *xs)
    assert isinstance(out, np.ndarray) and out.shape == ()


def test_rows_refuse_other_types():
    x = Arg(T.f32)
    with pytest.raises(TypeError, match="and does not accept f32"):
        types_of(ops.and_, [x.type, x.type], {})
    with pytest.raises(TypeError, match="operands differ in type: f32, f64"):
        types_of(ops.add, [T.f32, T.f64], {})
    with pytest.raises(TypeError, match="takes 2 operands, got 1"):
        types_of(ops.add, [T.f32], {})


def test_one_number_is_like_many():
    """NumPy takes other roads for scalars than for arrays; the meaning of a row is the same on both."""
    for kind in KINDS.values():
        for t in kind.row.accepts if kind.row is not None else ():
            arrays = operands(t, min(kind.row.arity, 3))
            arrays = (*arrays, arrays[0])[:kind.row.arity]
            few = [a[:: max(1, len(a) // 12)] for a in arrays]
            with np.errstate(all="ignore"):
                _, many = evaluate(kind, t, *few)
                singly = [_of_scalars(kind, t, [np.asarray(a[k]) for a in few]) for k in range(len(many))]
                got, want = np.array(singly).astype(np.float64), many.astype(np.float64)
            assert {x.dtype for x in singly} == {many.dtype}, f"{kind.name} {t}"
            np.testing.assert_allclose(got, want, rtol=4e-7, err_msg=f"{kind.name} {t}")


def _of_scalars(kind, t, numbers):
    args = tuple(Arg(t) for _ in numbers)
    return np.asarray(kind.eval(None, Op(kind, args, {}, types_of(kind, [t] * len(numbers), {})), *numbers))


def test_small_arguments_of_bessel_functions():
    for name in ("y0", "y1"):
        _, out = evaluate(KINDS[name], T.f64, np.array([5e-324, 1e-300]))
        assert (out < -400).all()


@pytest.mark.parametrize("name", [name for name, row in ops.ROWS.items() if row.commutes and row.result == "same"])
def test_rows_are_idempotent_if_they_say_so(name):
    row = ops.ROWS[name]
    element, dtype = (T.i32, np.int32) if T.i32 in row.accepts else (T.f32, np.float32)
    x = np.array([0, 1, 2, 5], dtype)
    assert np.array_equal(evaluate(KINDS[name], element, x, x)[1], x) == row.idempotent


@pytest.mark.parametrize("name", [name for name, row in ops.ROWS.items() if row.steps])
def test_rows_make_runs_that_say_so(name):
    """Of four neighbours from a multiple of four on: they become equal, or count up still."""
    x = np.arange(64, dtype=np.int32)
    made = [evaluate(KINDS[name], T.i32, x, np.full_like(x, y))[1].astype(int).reshape(-1, 4) for y in (4, 3, 2)]
    assert any(np.all(np.ptp(rows, axis=1) == 0) or np.all(np.diff(rows, axis=1) == 1) for rows in made)
