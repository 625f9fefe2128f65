"""Arguments that kernels cannot use are refused by name; numbers and arrays of other libraries are taken."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tritium as triton
import tritium.language as tl
from tritium.interp import eager
from tritium.tensors import hold, read_only, reader_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def refusals():
    """What was said of each malformed argument on each road, in a process of its own."""
    where = {"TRITIUM_BACKEND": "cpu", "TRITON_INTERPRET": "0"}
    done = subprocess.run([sys.executable, "-m", "tests.runtime.malformed_arguments"], cwd=ROOT, text=True,
                          env={**os.environ, **where}, capture_output=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("road", ["first", "again", "interpreted"])
def test_every_malformed_argument_is_refused_by_name(refusals, road):
    unclear = {}
    for case, (kind, text, frames) in refusals[road].items():
        name = case.rpartition(" as ")[2]
        named = f"`{name}` of kernel `copy`" in text or f"`{name}` (" in text or \
            ("on meta" in text and "kernel `copy`" in text)
        if not case.startswith("loaded") and (kind == "launched" or not named or frames):
            unclear[case] = kind, text, frames
    assert not unclear and len(refusals[road]) > 120


@pytest.mark.parametrize("road", ["first", "again", "interpreted"])
def test_what_is_only_loaded_may_be_read_only(refusals, road):
    said = [answer for case, answer in refusals[road].items() if case.startswith("loaded")]
    assert len(said) == 10 and all(answer == ["launched", "", 0] for answer in said)


# -- numbers -----------------------------------------------------------------------------------------------------------


@triton.jit
def put(out, value, N: tl.constexpr = 4):
    tl.store(out + tl.arange(0, N), value)


@triton.jit
def typed(out, n: tl.int32, x: tl.float32, flag: tl.int1):
    tl.store(out, n + x + flag)


def interpreted(kernel, *args, **kwargs):
    eager.launch(kernel, (1,), args, kwargs)


def compiled(kernel, *args, **kwargs):
    kernel[(1,)](*args, **kwargs)


ROADS = pytest.mark.parametrize("launch", [compiled, interpreted])
NUMBERS = [np.int8(-3), np.uint8(200), np.int16(7), np.int32(1), np.int64(2**40), np.uint64(2**63), np.bool_(True),
           np.float16(0.5), np.float32(1.25), np.float64(2.5), np.longdouble(3.5)]  # fmt: skip


@ROADS
@pytest.mark.parametrize("number", NUMBERS, ids=lambda x: type(x).__name__)
def test_numpy_scalars_are_numbers(launch, number):
    one, other = np.zeros(4), np.zeros(4)
    for _ in range(2):
        launch(put, one, number)
        launch(put, other, number.item() if type(number) is not np.longdouble else float(number))
    assert (one == float(number)).all() and (one == other).all()


@ROADS
def test_scalars_of_ml_dtypes_are_numbers(launch):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    out = np.zeros(4, np.float32)
    launch(put, out, ml_dtypes.bfloat16(1.5))
    assert (out == 1.5).all()


@ROADS
@pytest.mark.parametrize("size", [np.int64(8), np.uint8(8), np.array(8)], ids=["int64", "uint8", "0-d"])
def test_numpy_scalars_are_constants(launch, size):
    out = np.zeros(16)
    launch(put, out, 1.0, N=size)
    assert out.sum() == 8


def test_a_numpy_constant_shares_the_kernel_of_a_python_one():
    out = np.zeros(16)
    assert put[(1,)](out, 2.0, N=np.int32(16)) is put[(1,)](out, 2.0, N=16)


@ROADS
def test_annotated_parameters_take_numbers_only(launch):
    out = np.zeros(1, np.float32)
    launch(typed, out, np.int64(3), np.float64(0.5), np.bool_(True))
    assert out[0] == 4.5
    for bad in ("4", [4], np.zeros(4), 1j, "x"):
        with pytest.raises(TypeError, match=r"(?s)argument `x` of kernel `typed`: the parameter is annotated as fp32"):
            launch(typed, out, 3, bad, True)


# -- arrays by protocol ------------------------------------------------------------------------------------------------


class Shown:
    def __init__(self, array, buffer=False):
        self.array = array
        self.__array_interface__ = dict(array.__array_interface__)
        if buffer:
            raw = array.base if array.base is not None else array
            offset = array.ctypes.data - raw.ctypes.data
            self.__array_interface__ |= {"data": memoryview(raw).cast("B"), "offset": offset}


class Exported:
    def __init__(self, array, versioned):
        self.array, self.versioned = array, versioned

    def __dlpack__(self, **wishes):
        return self.array.__dlpack__(**wishes) if self.versioned else self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


SHOWN = {
    "address": Shown, "buffer": lambda x: Shown(x, buffer=True), "dlpack": lambda x: Exported(x, False),
    "versioned": lambda x: Exported(x, True),
}  # fmt: skip


@st.composite
def views(draw):
    """A view into an array: any start and step along each axis, backwards too."""
    kind = draw(st.sampled_from("b1 i1 u1 i2 u2 i4 u4 i8 u8 f2 f4 f8".split()))
    shape = draw(st.lists(st.integers(0, 5), min_size=1, max_size=3))
    step = st.sampled_from([1, 2, -1, -2])
    raw = np.arange(int(np.prod(shape))).astype(kind).reshape(shape)
    view = raw[tuple(slice(None, None, draw(step)) for _ in shape)]
    view.flags.writeable = draw(st.booleans())
    return view


@settings(max_examples=60, deadline=None)
@given(views(), st.sampled_from(sorted(SHOWN)))
def test_protocols_show_what_numpy_sees(x, protocol):
    if protocol == "dlpack" and not x.flags.writeable:
        return  # the first version cannot say so: NumPy refuses
    held = hold(SHOWN[protocol](x))
    low, high = np.lib.array_utils.byte_bounds(x) if x.size else (held.low, held.low)
    assert held.element == reader_of(x).element(x) and held.address == x.ctypes.data or not x.size
    assert (held.low, held.high) == (low, high)
    if protocol != "buffer":  # there the buffer says it
        assert read_only(held) is not x.flags.writeable


@ROADS
@pytest.mark.parametrize("protocol", sorted(SHOWN))
@pytest.mark.parametrize("kind", ["f4", "i8", "u1", "f2", "b1"])
def test_arrays_shown_by_protocol_are_arguments(launch, protocol, kind):
    x, y = np.arange(8).astype(kind)[2:], np.zeros(8, kind)
    for _ in range(2):
        launch(copy, SHOWN[protocol](x), SHOWN[protocol](y), N=4)
    assert (y[:4] == x[:4]).all() and not y[4:].any()


@triton.jit
def copy(src, dst, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(dst + i, tl.load(src + i))


@ROADS
def test_a_reversed_view_starts_at_its_last_element(launch):
    """Strides are the kernel's business: it is given the address of x[::-1][0]."""
    x, y = np.arange(8, dtype=np.float32), np.zeros(1, np.float32)
    launch(copy, x[::-1], y, N=1)
    assert y[0] == 7


def test_an_array_in_a_tuple_is_held_too():
    @triton.jit
    def first(pair, out):
        tl.store(out, tl.load(pair[0]) + pair[1])

    out = np.zeros(1, np.float32)
    first[(1,)]((Exported(np.full(4, 2, np.float32), True), 5), out)
    assert out[0] == 7
    with pytest.raises(TypeError, match=r"argument `pair` of kernel `first`: failed to specialize .* list"):
        first[(1,)]((np.zeros(4), [5]), out)
