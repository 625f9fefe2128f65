"""Every row x type x special values on every backend present, against the interpreter."""

import numpy as np
import pytest

from tests.exec.backends import backends_present
from tests.ops.exact import allowed, codes, decode, is_special, values
from tests.ops.samples import array_of, operands, special_codes
from tritium import ops
from tritium.interp.machine import interpret
from tritium.ir import types as T
from tritium.ir.builder import Builder
from tritium.ir.core import Arg, Module, Op
from tritium.ir.opdef import KINDS, types_of
from tritium.ir.verify import verify
from tritium.ops.meaning import convert

LANES = 1024
BACKENDS = [name for name in backends_present() if name not in ("interpreter", "optimised", "blocks", "fused")]
# Units in the last place that a function of the target may be off. Arithmetic and rounding are exact.
ULPS = {"exp": 2, "exp2": 2, "log": 2, "log2": 2, "sin": 2, "cos": 2, "tanh": 2, "erf": 2, "rsqrt": 2}
# Which zero min and max give is not said.
ANY_ZERO = ("min", "max", "min_nan", "max_nan")


def rows_of(t):
    return [row for row in ops.ROWS.values() if t in row.accepts]


def module_of(t):
    """One kernel that applies every row of a type to the same operands, each result in its own array."""
    b = Builder()
    ptr = T.Ptr(t)
    inputs = [b.argument(ptr, name) for name in "xyz"]
    rows = rows_of(t)
    outs = [b.argument(T.Ptr(t if row.result == "same" else row.result), f"out_{row.name}") for row in rows]
    lanes = ops.arange(b, start=0, end=LANES)

    def pointers(p):
        return ops.addptr(b, ops.splat(b, p, shape=(LANES,)), lanes)

    loaded = [ops.load(b, pointers(p)) for p in inputs]
    for row, out in zip(rows, outs):
        ops.store(b, pointers(out), KINDS[row.name](b, *loaded[:row.arity]))
    return verify(Module("rows", b.finish(), {"enable_fp_fusion": False})), rows


def inputs_of(t):
    arity = max(row.arity for row in rows_of(t))
    xs = [np.resize(x, LANES) for x in operands(t, max(arity, 2))]
    return [*xs, np.resize(xs[0][::-1], LANES)][:3]


def run(backend, t):
    module, rows = module_of(t)
    outs = [np.zeros(LANES, array_of(t if row.result == "same" else row.result, [0]).dtype) for row in rows]
    args = [*inputs_of(t), *outs]
    backend(module, args)
    return rows, args[:3], outs


@pytest.mark.parametrize("t", T.SCALARS.values(), ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_rows(backend, t):
    rows, inputs, mine = run(backends_present()[backend], t)
    _, _, theirs = run(lambda module, args: interpret(module, args), t)
    for row, x, y in zip(rows, mine, theirs):
        result = t if row.result == "same" else row.result
        wide = values(T.f32, in_f32(row, t, inputs)) if result.special == "none" else values(result, y)
        wrong = [k for k, (got, wanted) in enumerate(zip(values(result, x), values(result, y)))
                 if not agrees(row, result, got, wide[k], wanted, x[k], y[k]) and not is_unspecified(row, t, k, inputs)]
        if wrong:
            k = wrong[0]
            shown = [values(t, v[k:k + 1])[0] for v in inputs[:row.arity]]
            pytest.fail(f"{row.name}({', '.join(map(str, shown))}) of {t} is {values(result, x[k:k + 1])[0]}, expected "
                        f"{values(result, y[k:k + 1])[0]}; {len(wrong)} of {LANES} differ")


def is_unspecified(row, t, k, inputs):
    """The sign of a NaN that has none; whether a signalling NaN loses in min and max."""
    given = [codes(x[k:k + 1])[0] for x in inputs[:row.arity]]
    if row.name == "copysign":
        return t.special == "fnuz" and given[1] == 0x80
    quiet = 1 << t.mantissa - 1
    return row.name in ANY_ZERO and t.is_float and any(np.isnan(float(decode(t, c))) and not c & quiet for c in given)


def in_f32(row, t, inputs):
    """A row of a small type in f32: which results would be NaN, if the type had one."""
    xs = [np.asarray(convert(x, t, T.f32)) for x in inputs[:row.arity]]
    args = tuple(Arg(T.Tile(x.shape, T.f32)) for x in xs)
    kind = KINDS[row.name]
    with np.errstate(all="ignore"):
        return kind.eval(None, Op(kind, args, {}, types_of(kind, [a.type for a in args], {})), *xs)


def agrees(row, t, got, exact, wanted, x, y):
    if row.name in ANY_ZERO and got == wanted == 0:
        return True
    if row.name not in ULPS or is_special(got) or is_special(wanted):
        return allowed(t, got, exact, wanted)
    return abs(distance(x, y)) <= ULPS[row.name]


def distance(x, y):
    """How many values of the type lie between two floats."""
    def place(v):
        code, = codes(np.asarray(v))
        top = 1 << (v.dtype.itemsize * 8 - 1)
        return top - code if code >= top else code
    return place(x) - place(y)


def test_distance():
    one = np.float32(1)
    assert distance(one, np.nextafter(one, np.float32(2))) == -1
    assert distance(np.float32(-0.0), np.float32(0.0)) == 0 and distance(np.float32(1e-45), np.float32(-1e-45)) == 2


def test_the_samples_are_special():
    t = T.f32
    found = [float(v) for v in array_of(t, special_codes(t))]
    assert np.isnan(found).any() and np.inf in found and -np.inf in found and 1.0 in found
    assert any(0 < v < 1e-40 for v in found)
