"""Launches that are told instead of made, and what they would store to."""

import threading

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.kernels.vector_add import add_kernel
from tritium.language.source.rehearsal import rehearsing
from tritium.runtime.stores import stored_arguments


@triton.jit
def exchange(a_ptr, b_ptr, n):
    for i in range(n):
        a, b = tl.load(a_ptr + i), tl.load(b_ptr + i)
        tl.store(a_ptr + i, b)
        tl.store(b_ptr + i, a)


@triton.jit
def put(pointers, at, x):
    tl.store(pointers + at, x)


@triton.jit
def branches(a_ptr, b_ptr, c_ptr, table_ptr, which, LAST: tl.constexpr):
    if which:
        pointers = a_ptr
    else:
        pointers = b_ptr
    put(pointers, tl.load(table_ptr), 1.0)
    if LAST:
        tl.atomic_max(c_ptr, 1.0)


def stored(kernel, args, **kwargs):
    found = stored_arguments(kernel, args, kwargs)
    return [next(k for k, x in enumerate(args) if x is tensor) for tensor in found]


def arrays(n):
    return tuple(np.zeros(4, np.float32) for _ in range(n))


def test_what_is_stored_to():
    assert stored(exchange, (*arrays(2), 4)) == [0, 1]
    table = np.zeros(1, np.int32)
    assert stored(branches, (*arrays(3), table, 1), LAST=False) == [0]  # an argument that is 1 is a constant
    assert stored(branches, (*arrays(3), table, 2), LAST=False) == [0, 1]
    assert stored(branches, (*arrays(3), table, 2), LAST=True) == [0, 1, 2]
    assert stored(add_kernel, (*arrays(3), 4), BLOCK=4, num_warps=2) == [2]


def test_tensors_in_a_tuple_count_together():
    @triton.jit
    def into(targets, x_ptr):
        tl.store(targets[1], tl.load(x_ptr))

    a, b, x = arrays(3)
    assert [tensor is a or tensor is b for tensor in stored_arguments(into, ((a, b), x), {})] == [True, True]


def test_tuned_and_computed_meta_parameters():
    sized = triton.heuristics({"BLOCK": lambda args: args["n"]})(add_kernel)
    tuned = triton.autotune([triton.Config({"BLOCK": 4}), triton.Config({"BLOCK": 8})], key=["n"])(add_kernel)
    assert stored(sized, (*arrays(3), 4)) == [2] and stored(tuned, (*arrays(3), 4)) == [2]


@pytest.mark.parametrize("make", [
    lambda: add_kernel,
    lambda: triton.heuristics({"BLOCK": lambda args: args["n"]})(add_kernel),
    lambda: triton.autotune([triton.Config({"BLOCK": 4}), triton.Config({"BLOCK": 8})], key=["n"])(add_kernel),
], ids=["jit", "heuristics", "autotune"])
def test_nothing_is_launched(make):
    class Strange:  # a tensor of a class that no launch has seen, as torch's fake ones are
        dtype, device = "fp32", "cpu"

        def data_ptr(self):
            raise AssertionError("nobody may ask")

    kernel, told = make(), []
    block = {"BLOCK": 4} if kernel is add_kernel else {}
    args = (Strange(), Strange(), Strange(), 4)
    with rehearsing(lambda kernel, grid, args, kwargs: told.append((grid, args))):
        kernel[(1,)](*args, **block)
        kernel[lambda meta: (1,)](*args, **block)
        kernel.run(*args, grid=(2,), warmup=False, **block)
        kernel.warmup(*args, grid=(1,), **block)
    assert [grid if isinstance(grid, tuple) else callable(grid) for grid, _ in told] == [(1,), True, (2,), False]
    assert all(given[:4] == args for _, given in told)


def test_other_threads_launch():
    x, out = np.ones(4, np.float32), np.zeros(4, np.float32)
    with rehearsing(lambda *told: pytest.fail("this is another thread's")):
        thread = threading.Thread(target=lambda: add_kernel[(1,)](x, x, out, 4, BLOCK=4))
        thread.start()
        thread.join()
    assert (out == 2).all()


def test_a_grid_of_symbols_is_never_hashed():
    class Symbol:
        __hash__ = None

    told = []
    with rehearsing(lambda kernel, grid, args, kwargs: told.append(grid)):
        add_kernel[(Symbol(), 1)](1, 2, 3, 4, BLOCK=4)
    assert len(told) == 1
