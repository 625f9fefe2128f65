"""Memory by address: spans, masks, types, atomics, pointers from elsewhere."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from tritium.interp.memory import Fault, Memory, locate, occurrence
from tritium.ir import types as T


def pointers(memory, array, *index):
    """Addresses of elements of a registered array, by flat index."""
    return np.uint64(memory.add(array, "x")) + np.array(index, np.int64).astype(np.uint64) * np.uint64(array.itemsize)


DTYPES = [(T.f32, np.float32), (T.i8, np.int8), (T.u64, np.uint64), (T.bf16, ml_dtypes.bfloat16),
          (T.f8e4nv, ml_dtypes.float8_e4m3fn), (T.f16, np.float16)]


@pytest.mark.parametrize("t, dtype", DTYPES, ids=str)
def test_load_and_store(t, dtype):
    memory, x = Memory(), np.arange(8).astype(dtype)
    p = pointers(memory, x, 7, 0, 3, 3)
    assert memory.load(t, p).astype(float).tolist() == [7, 0, 3, 3]
    memory.store(t, p, np.array([1, 2, 4, 5]).astype(dtype))
    assert x.astype(float).tolist() == [2, 1, 2, 5, 4, 5, 6, 1]  # of two lanes at one address the last stays


def test_masked_lanes_are_not_touched():
    memory, x = Memory(), np.arange(4, dtype=np.int32)
    p = pointers(memory, x, 0, 1, 1000, -1000)
    mask = np.array([True, False, False, False])
    assert memory.load(T.i32, p, mask).tolist() == [0, 0, 0, 0]
    assert memory.load(T.i32, p, mask, np.full(4, 9, np.int32)).tolist() == [0, 9, 9, 9]
    memory.store(T.i32, p, np.full(4, 5, np.int32), mask)
    assert x.tolist() == [5, 1, 2, 3]
    memory.store(T.i32, p, np.full(4, 5, np.int32), np.zeros(4, bool))
    assert x.tolist() == [5, 1, 2, 3]


def test_scalars():
    memory, x = Memory(), np.array([3.5, 1.0])
    p = np.array(memory.add(x), np.uint64)
    assert memory.load(T.f64, p).shape == () and memory.load(T.f64, p) == 3.5
    memory.store(T.f64, p, np.array(2.5))
    assert memory.load(T.f64, p, np.array(False)) == 0 and memory.load(T.f64, p, np.array(True)) == 2.5
    assert memory.atomic(T.f64, "add", p, np.array(1.0)) == 2.5 and x[0] == 3.5


def test_a_bool_is_a_byte():
    memory, x = Memory(), np.array([0, 1, 2, 255], np.uint8)
    p = pointers(memory, x, 0, 1, 2, 3)
    assert memory.load(T.i1, p).tolist() == [False, True, True, True]
    memory.store(T.i1, p, np.array([True, False, True, False]))
    assert x.tolist() == [1, 0, 1, 0]


def test_unaligned_access():
    memory = Memory()
    raw = np.arange(16, dtype=np.uint8)
    base = np.uint64(memory.add(raw))
    at = base + np.array([1, 6, 4], np.uint64)
    assert memory.load(T.u32, at).tolist() == [int.from_bytes(raw[k:k + 4].tobytes(), "little") for k in (1, 6, 4)]
    memory.store(T.u16, base + np.array([1, 5], np.uint64), np.array([0xBBAA, 0xDDCC], np.uint16))
    assert raw[:8].tolist() == [0, 0xAA, 0xBB, 3, 4, 0xCC, 0xDD, 7]


def test_lanes_may_fall_into_several_arrays():
    memory, x, y = Memory(), np.arange(4, dtype=np.int32), np.arange(10, 14, dtype=np.int32)
    p = np.concatenate([pointers(memory, x, 0, 3), pointers(memory, y, 1, 2)])
    assert memory.load(T.i32, p).tolist() == [0, 3, 11, 12]
    memory.store(T.i32, p[::-1], np.array([1, 2, 3, 4], np.int32))
    assert x.tolist() == [4, 1, 2, 3] and y.tolist() == [10, 2, 1, 13]


@pytest.mark.parametrize("at, bad", [((0, 4), [False, True]), ((-1, 2), [True, False]), ((4, 5), [True, True])])
def test_outside_is_a_fault(at, bad):
    memory, x = Memory(), np.arange(4, dtype=np.int32)
    p = pointers(memory, x, *at)
    for access in (lambda: memory.load(T.i32, p), lambda: memory.store(T.i32, p, np.zeros(2, np.int32)),
                   lambda: memory.atomic(T.i32, "add", p, np.ones(2, np.int32))):
        with pytest.raises(Fault, match="outside of memory") as caught:
            access()
        assert caught.value.bad.tolist() == bad
    assert x.tolist() == [0, 1, 2, 3]  # nothing was written


def test_the_last_byte_counts():
    """An element that begins inside and ends outside is outside."""
    memory, x = Memory(), np.zeros(6, np.uint8)
    base = np.uint64(memory.add(x))
    assert memory.load(T.u32, base + np.array([2], np.uint64)).tolist() == [0]
    with pytest.raises(Fault):
        memory.load(T.u32, base + np.array([3], np.uint64))


def test_read_only_memory():
    memory, x = Memory(), np.arange(4, dtype=np.int32)
    x.flags.writeable = False
    p = pointers(memory, x, 1)
    assert memory.load(T.i32, p).tolist() == [1]
    with pytest.raises(Fault, match="read-only"):
        memory.store(T.i32, p, np.zeros(1, np.int32))


def test_views_reach_their_storage():
    """A slice may be left within its storage, as strided kernels do; the message still speaks of the slice."""
    memory, whole = Memory(), np.arange(12, dtype=np.int32)
    p = pointers(memory, whole[4:8], -1, 4)
    assert memory.load(T.i32, p).tolist() == [3, 8]
    argument, = memory.arguments
    assert (argument.high - argument.low) // 4 == 4


def test_where_words():
    memory, x = Memory(), np.zeros(10, np.float32)
    base = memory.add(x, "x_ptr")
    argument = memory.nearest(base + 48)
    assert argument.where(base + 48) == \
        "8 bytes past the end of `x_ptr` (10 elements of float32): it would be element 12"
    assert "4 bytes before the start" in argument.where(base - 4) and "element -1" in argument.where(base - 4)


def test_pointers_from_integers_lead_elsewhere():
    memory, x, other = Memory(), np.arange(4, dtype=np.int32), np.arange(100, dtype=np.int32)
    memory.add(x)
    p = np.uint64(other.ctypes.data) + np.arange(0, 40, 4, dtype=np.uint64)
    with pytest.raises(Fault):
        memory.load(T.i32, p)
    memory.admit(np.array([other.ctypes.data], np.uint64))
    assert memory.load(T.i32, p).tolist() == list(range(10))
    memory.store(T.i32, p, np.zeros(10, np.int32))
    assert not other[:10].any() and other[10] == 10


def test_unmapped_addresses_do_not_crash():
    memory = Memory(strict=False)
    for address in (0, 8, 2**63, 2**64 - 8):
        with pytest.raises(Fault):
            memory.load(T.i32, np.array([address], np.uint64))


def test_without_strictness_the_whole_process_is_readable():
    other = np.arange(5, dtype=np.int16)
    assert Memory(strict=False).load(T.i16, np.array([other.ctypes.data + 4], np.uint64)).tolist() == [2]


# --- atomics --------------------------------------------------------------------------------------------------------
HOW = {
    "add": lambda old, new: old + new, "and": lambda old, new: old & new, "or": lambda old, new: old | new,
    "xor": lambda old, new: old ^ new, "xchg": lambda old, new: new, "max": max, "min": min,
}


@pytest.mark.parametrize("how, t", list(itertools.product(HOW, [T.i32, T.u32, T.i64])), ids=str)
def test_atomics_apply_every_lane_in_order(how, t):
    rng = np.random.default_rng(1)
    dtype = np.dtype(t.name.replace("i", "int").replace("u", "uint"))
    x = rng.integers(-50, 50, 4).astype(dtype)
    at, v = rng.integers(0, 4, (8, 4)), rng.integers(-50, 50, (8, 4)).astype(dtype)
    mask = rng.random((8, 4)) < 0.8
    expected, old = x.tolist(), np.zeros((8, 4), dtype)
    for k in np.ndindex(8, 4):
        if mask[k]:
            old[k] = expected[at[k]]
            expected[at[k]] = int(np.array(HOW[how](expected[at[k]], int(v[k]))).astype(dtype))
    memory = Memory()
    p = np.uint64(memory.add(x)) + at.astype(np.uint64) * np.uint64(x.itemsize)
    found = memory.atomic(t, how, p, v, mask)
    assert x.tolist() == expected and np.array_equal(found, old)


def test_atomic_float_add_in_16_bits():
    memory, x = Memory(), np.zeros(1, ml_dtypes.bfloat16)
    p = np.uint64(memory.add(x)) + np.zeros(3, np.uint64)
    memory.atomic(T.bf16, "add", p, np.array([1, 2, 0.5], ml_dtypes.bfloat16))
    assert float(x[0]) == 3.5


def test_atomic_float_extremes_order_by_bits():
    """Negative zero lies below zero."""
    memory, x = Memory(), np.array([-0.0, 0.0, -1.0, -2.0], np.float32)
    p = pointers(memory, x, 0, 1, 2, 3)
    memory.atomic(T.f32, "max", p, np.array([0.0, -0.0, -3.0, 5.0], np.float32))
    assert np.signbit(x).tolist() == [False, False, True, False] and x[2:].tolist() == [-1.0, 5.0]
    memory.atomic(T.f32, "min", p, np.array([-0.0, 1.0, -3.0, 6.0], np.float32))
    assert np.signbit(x).tolist() == [True, False, True, False] and x[2:].tolist() == [-3.0, 5.0]


def test_compare_and_swap():
    memory, x = Memory(), np.array([0, 5], np.int32)
    p = pointers(memory, x, 0, 0, 1)
    old = memory.atomic_cas(T.i32, p, np.array([0, 0, 0], np.int32), np.array([1, 2, 3], np.int32))
    assert old.tolist() == [0, 1, 5] and x.tolist() == [1, 5]


def test_compare_and_swap_compares_bits():
    memory, x = Memory(), np.array([-0.0, np.nan], np.float32)
    p = pointers(memory, x, 0, 1)
    memory.atomic_cas(T.f32, p, np.array([0.0, np.nan], np.float32), np.array([1, 2], np.float32))
    assert np.signbit(x[0]) and x[1] == 2


def test_occurrence():
    assert occurrence(np.array([], np.uint64)).tolist() == []
    assert occurrence(np.array([3, 3, 1, 3, 1])).tolist() == [0, 1, 0, 2, 1]


# --- where buffers live ---------------------------------------------------------------------------------------------
def test_locate_torch():
    torch = pytest.importorskip("torch")
    x = torch.arange(12, dtype=torch.float32).reshape(3, 4)[1:, ::2]
    found = locate(x)
    assert found.address == x.data_ptr() and found.storage_high - found.storage_low == 48
    assert found.high - found.low == 4 * 7  # rows 1 and 2, columns 0 and 2
    memory = Memory()
    p = np.uint64(memory.add(x)) + np.array([0, 8, 16], np.uint64)
    assert memory.load(T.f32, p).tolist() == [4, 6, 8]


def test_locate_protocols():
    x = np.arange(3, dtype=np.int32)

    class Interface:
        __array_interface__ = x.__array_interface__

    class Pack:
        def __dlpack__(self, **kwargs):
            return x.__dlpack__(**kwargs)

        def __dlpack_device__(self):
            return x.__dlpack_device__()

    assert locate(Interface()).address == locate(Pack()).address == x.ctypes.data
    with pytest.raises(TypeError, match="cannot find the memory of list"):
        locate([1, 2])


def test_empty_arrays_have_no_memory():
    memory = Memory()
    p = np.array([memory.add(np.zeros(0, np.float32))], np.uint64)
    assert memory.load(T.f32, p, np.array([False])).tolist() == [0]
    with pytest.raises(Fault):
        memory.load(T.f32, p)
