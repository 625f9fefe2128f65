"""A constant bound to a name without `tl.constexpr` is a run-time value that may still be the size of a tile."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.runtime import interpreter


@triton.jit
def sizes_kernel(out_ptr, BLOCK: tl.constexpr):
    n = BLOCK
    half = 8
    total = tl.zeros((n, half), tl.float32) + tl.full([n], 1.0, tl.float32)[:, None]
    tl.store(out_ptr + tl.arange(0, n), tl.sum(total, axis=1) + n)


@triton.jit
def changed_kernel(out_ptr, BLOCK: tl.constexpr):
    n = BLOCK
    n = n * 2
    tl.store(out_ptr + tl.arange(0, n), 1.0)


@triton.jit
def chosen_kernel(out_ptr, which, BLOCK: tl.constexpr):
    n = BLOCK
    if which > 0:
        n = 32
    tl.store(out_ptr + tl.arange(0, n), 1.0)


@triton.jit
def carried_kernel(out_ptr, rounds, BLOCK: tl.constexpr):
    n = BLOCK
    for _ in range(rounds):
        tl.store(out_ptr + tl.arange(0, n), 1.0)
        n = 32


@triton.jit
def address_kernel(x_ptr, out_ptr):
    start = (x_ptr + 15) // 16 * 16
    tl.store(out_ptr, start)
    tl.store(out_ptr + 1, x_ptr // 16)


def kernels(kernel):
    return [pytest.param(kernel, id="compiled"), pytest.param(interpreter.InterpretedFunction(kernel.fn), id="eager")]


@pytest.mark.parametrize("kernel", kernels(sizes_kernel))
def test_a_constant_in_a_variable_is_a_size(kernel):
    out = np.zeros(16, np.float32)
    kernel[(1,)](out, BLOCK=16)
    assert (out == 8 + 16).all()


@pytest.mark.parametrize("kernel, args", [(changed_kernel, ()), (chosen_kernel, (5,)), (carried_kernel, (5,))])
def test_what_is_computed_or_chosen_is_none(kernel, args):
    with pytest.raises(triton.CompilationError, match="arguments must be of type"):
        kernel[(1,)](np.zeros(64, np.float32), *args, BLOCK=16)


@pytest.mark.parametrize("kernel", kernels(address_kernel))
def test_a_pointer_divided_is_an_address(kernel):
    x, out = np.zeros(64, np.uint8), np.zeros(2, np.int64)
    kernel[(1,)](x[3:], out)
    address = x.ctypes.data + 3
    assert out.tolist() == [(address + 15) // 16 * 16, address // 16]
