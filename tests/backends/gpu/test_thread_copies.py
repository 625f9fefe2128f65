"""Loops around dots whose tiles no asynchronous copy can bring, as rows of an odd number of small elements: threads
load them an iteration early and write them to buffers. Against the interpreter."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.samples import data
from tests.backends.gpu.test_redundant_loads import ttgir_of
from tritium import ops
from tritium.backends.gpu import ops as gpu_ops
from tritium.ir.core import walk
from tritium.ir.text import parse_module

pytestmark = pytest.mark.sampled


@triton.jit
def odd(a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, SA: tl.constexpr, SB: tl.constexpr,
        TA: tl.constexpr, TB: tl.constexpr):  # fmt: skip
    """Matrices whose rows have SA and SB elements, along K or across it; the last iteration is not full."""
    i, j = tl.arange(0, M), tl.arange(0, N)
    total = tl.zeros((M, N), c_ptr.dtype.element_ty)
    for s in range(0, K, BK):
        k = s + tl.arange(0, BK)
        at_a = k[None, :] * SA + i[:, None] if TA else i[:, None] * SA + k[None, :]
        at_b = j[None, :] * SB + k[:, None] if TB else k[:, None] * SB + j[None, :]
        a = tl.load(a_ptr + at_a, mask=k[None, :] < K, other=0)
        b = tl.load(b_ptr + at_b, mask=k[:, None] < K, other=0)
        total = tl.dot(a, b, total, out_dtype=total.dtype)
    tl.store(c_ptr + i[:, None] * N + j[None, :], total)


def of_odd(dtype, m, n, k, block, turned=(False, False), rows=None):
    """Arguments of `odd`; `rows`: the elements of a row of each matrix, by default one more than it needs."""
    sa, sb = rows or ((m if turned[0] else k) | 1, (k if turned[1] else n) | 1)
    a, b = data(dtype, k if turned[0] else m, sa), data(dtype, n if turned[1] else k, sb)
    return a, b, np.zeros((m, n), "i4" if dtype == "i1" else "f4"), k, m, n, block, sa, sb, *turned


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("arch", [90, 80])
@pytest.mark.parametrize(("shape", "warps"), [
    ((64, 64, 32), 4), ((64, 64, 64), 8), ((32, 32, 64), 4), ((16, 64, 32), 2),
])  # fmt: skip
def test_rows_of_odd_length(check, shape, warps, arch, turned):
    m, n, block = shape
    for trips in (1, 3):
        args = of_odd("f2", m, n, trips * block - 5, block, turned)
        check(odd, *args, arch=arch, warps=warps, tolerance=1e-3)


@pytest.mark.parametrize("turned", [(False, False), (False, True)])
def test_bytes(check, turned):
    check(odd, *of_odd("i1", 64, 64, 150, 64, turned), warps=4)


def test_a_loop_without_iterations(check):
    check(odd, *of_odd("f2", 64, 64, 0, 32, rows=(33, 65)), warps=4)


@pytest.mark.parametrize("stages", [2, 4])
def test_one_tile_by_threads_and_one_by_copies(check, stages):
    """The rows of B are aligned, those of A are not."""
    args = of_odd("f2", 64, 64, 160, 32, rows=(161, 64))
    assert kinds(args, 4, stages) == {gpu_ops.buffer_store: 1, gpu_ops.async_load: 1}
    check(odd, *args, stages=stages, tolerance=1e-3)


def kinds(args, warps, stages=3):
    """How many tiles an iteration has copied, by what copies them."""
    module = parse_module(ttgir_of(odd, args, warps=warps, num_stages=stages))
    (loop,) = [op for op in walk(module.body) if op.kind.loop]
    found = [op.kind for op in walk(loop.regions[0]) if op.kind in (gpu_ops.buffer_store, gpu_ops.async_load)]
    return {kind: found.count(kind) for kind in found}


def test_what_finds_no_room_in_registers_is_not_copied_early():
    assert kinds(of_odd("f2", 128, 128, 256, 64), 8) == {gpu_ops.buffer_store: 2}
    assert kinds(of_odd("f2", 128, 128, 256, 64), 4) == {}
    assert kinds(of_odd("f2", 128, 128, 256, 64, rows=(257, 128)), 4) == {gpu_ops.async_load: 1}  # beside 128 sums


def test_fragments_of_dots_take_registers_too():
    """32 rows are too few for dots that read shared memory."""
    assert kinds(of_odd("f2", 32, 32, 256, 64), 4) == {gpu_ops.buffer_store: 2}
    assert kinds(of_odd("f2", 32, 32, 256, 128), 4) == {}


def test_buffers_have_rows_that_a_thread_writes():
    """Lanes load neighbours in memory, so a thread has neighbours along the other axis: 16 bytes of a row."""
    module = parse_module(ttgir_of(odd, of_odd("f2", 64, 64, 256, 64)))
    stores = [op for op in walk(module.body) if op.kind is gpu_ops.buffer_store]
    assert [op.attrs["axis"] for op in stores] == [0] * len(stores)
    loads = [op for op in walk(module.body) if op.kind is ops.load]
    assert len(loads) == 6 and all(op.attrs["layout"][1][:3] == (64, 128, 256) for op in loads)
    assert gpu_ops.convert not in [op.kind for op in walk(module.body)][:-2]  # but for the result
