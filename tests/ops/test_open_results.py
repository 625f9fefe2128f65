"""What the language leaves open, on every backend: a result is one of the allowed ones, and nothing else.

Open are the sign of the zero that min and max give for +0 and -0, and the sign of a NaN, which shows where a NaN
becomes the largest value of a type that has none. docs/language-differences.md says so to users.
"""

import itertools

import numpy as np
import pytest

from tests.exec.backends import backends_present
from tests.ops.exact import codes
from tests.ops.samples import array_of
from tritium import ops
from tritium.insight import emulator
from tritium.ir import types as T
from tritium.ir.builder import Builder
from tritium.ir.core import Module
from tritium.ir.opdef import KINDS
from tritium.ir.verify import verify
from tritium.ops.meaning import np_dtype

BACKENDS = {**backends_present(), "emulated": emulator.run}
EXTREMES = ("min", "max", "min_nan", "max_nan")
LARGEST = {0x7E, 0xFE}  # 1.75 and -1.75 in f8e4b15


def kernel(lanes, inputs, outputs, body):
    """A module that loads `lanes` elements of each input type and stores what `body` makes of them."""
    b = Builder()
    args = [b.argument(T.Ptr(t), f"a{k}") for k, t in enumerate((*inputs, *outputs))]
    index = ops.arange(b, start=0, end=lanes)
    pointers = [ops.addptr(b, ops.splat(b, p, shape=(lanes,)), index) for p in args]
    results = body(b, *[ops.load(b, p) for p in pointers[:len(inputs)]])
    for p, x in zip(pointers[len(inputs):], results, strict=True):
        ops.store(b, p, x)
    return verify(Module("open", b.finish(), {"enable_fp_fusion": False}))


def results(backend, lanes, inputs, outputs, body):
    """The output arrays of `body` on arrays of the input types, as bits."""
    module = kernel(lanes, [t for t, _ in inputs], outputs, body)
    out = [np.zeros(lanes, np_dtype(t)) for t in outputs]
    BACKENDS[backend](module, [*(array_of(t, given) for t, given in inputs), *out])
    return [codes(x) for x in out]


@pytest.mark.parametrize("t", [T.f16, T.bf16, T.f32, T.f64], ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_extremes_of_zeros(backend, t):
    """Two zeros of one sign give that zero, zeros of both signs one of the two."""
    minus = 1 << t.bits - 1
    x, y = (list(side) * 32 for side in zip(*itertools.product((0, minus), repeat=2)))
    found = results(backend, 128, [(t, x), (t, y)], [t] * 4,
                    lambda b, x, y: [KINDS[name](b, x, y) for name in EXTREMES])
    for name, out in zip(EXTREMES, found):
        for *given, got in zip(x, y, out):
            assert got in given, f"{name} of {given} is {got:#x}"


@pytest.mark.parametrize("how", ["min", "max"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_atomic_extremes_of_zeros(backend, how):
    minus = 1 << 31
    x, y = zip(*itertools.product((0, minus), repeat=2))
    b = Builder()
    memory, operand = (b.argument(T.Ptr(T.f32), name) for name in "xy")
    index = ops.arange(b, start=0, end=4)
    pointers = [ops.addptr(b, ops.splat(b, p, shape=(4,)), index) for p in (memory, operand)]
    ops.atomic(b, pointers[0], ops.load(b, pointers[1]), how=how)
    module = verify(Module("atomics", b.finish()))
    args = [array_of(T.f32, x), array_of(T.f32, y)]
    BACKENDS[backend](module, args)
    for *given, got in zip(x, y, codes(args[0])):
        assert got in given, f"atomic {how} of {given} is {got:#x}"


@pytest.mark.parametrize("backend", BACKENDS)
def test_invalid_operations_of_a_type_without_nan(backend):
    """0/0 and the remainder by 0 are +1.75 or -1.75: the machine's own NaN decides."""
    minus = 0x80
    x, y = (list(side) * 32 for side in zip(*itertools.product((0, minus), repeat=2)))
    quotient, remainder = results(backend, 128, [(T.f8e4b15, x), (T.f8e4b15, y)], [T.f8e4b15] * 2,
                                  lambda b, x, y: [ops.div(b, x, y), ops.rem(b, x, y)])
    assert set(quotient) <= LARGEST and set(remainder) <= LARGEST


@pytest.mark.parametrize("source", [T.f16, T.bf16, T.f32, T.f64], ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_nan_in_a_type_without_nan(backend, source):
    """Quiet and signalling NaNs of both signs, and of any payload."""
    infinity = (1 << source.exponent) - 1 << source.mantissa
    payloads = [1, 2, 1 << source.mantissa - 1, (1 << source.mantissa) - 1]
    nans = [infinity | p | sign << source.bits - 1 for sign in (0, 1) for p in payloads] * 16
    out, = results(backend, 128, [(source, nans)], [T.f8e4b15], lambda b, x: [ops.cast(b, x, to=T.f8e4b15)])
    assert set(out) <= LARGEST
