"""Many matrix products of different sizes in one launch: the kernel reads addresses and sizes from memory."""

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays, checks
from tritium.kernels.matmul import record
from tritium.kernels.registry import nbytes, normal


@triton.jit
def grouped_matmul_kernel(a_addresses, b_addresses, c_addresses, sizes_ptr, groups, ELEMENT: tl.constexpr,
                          ALIGNED: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """A fixed number of programs deals itself the tiles of all products, one after the other.

    What is loaded may be any number. ALIGNED says that addresses and sizes are multiples of 16: then rows are loaded in
    wide accesses.
    """
    tile = tl.program_id(0)
    first = 0
    for group in range(groups):
        M = tl.load(sizes_ptr + group * 3)
        N = tl.load(sizes_ptr + group * 3 + 1)
        K = tl.load(sizes_ptr + group * 3 + 2)
        if ALIGNED:
            N, K = tl.multiple_of(N, 16), tl.multiple_of(K, 16)
        tiles_n = tl.cdiv(N, BLOCK_N)
        tiles = tl.cdiv(M, BLOCK_M) * tiles_n
        while tile < first + tiles:
            a_ptr = tl.load(a_addresses + group).to(tl.pointer_type(ELEMENT))
            b_ptr = tl.load(b_addresses + group).to(tl.pointer_type(ELEMENT))
            c_ptr = tl.load(c_addresses + group).to(tl.pointer_type(ELEMENT))
            if ALIGNED:
                a_ptr, b_ptr, c_ptr = (tl.multiple_of(a_ptr, 16), tl.multiple_of(b_ptr, 16), tl.multiple_of(c_ptr, 16))
            m = (tile - first) // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
            n = (tile - first) % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
            total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
            for start in range(0, K, BLOCK_K):
                k = start + tl.arange(0, BLOCK_K)
                a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
                b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
                total = tl.dot(a, b, total, input_precision="ieee")
            tl.store(c_ptr + m[:, None] * N + n[None, :], total.to(ELEMENT),
                     mask=(m[:, None] < M) & (n[None, :] < N))
            tile += tl.num_programs(0)
        first += tiles


def grouped_matmul(pairs, programs: int | None = None, blocks=None, **options):
    """[a @ b for a, b in pairs] of matrices of one dtype, in one launch.

    >>> [c.shape for c in grouped_matmul([(np.ones((2, 3), np.float32), np.ones((3, 4), np.float32))])]
    [(2, 4)]
    """
    for i, (a, b) in enumerate(pairs):
        checks.arguments("grouped_matmul", **{f"pairs[{i}][0]": (a, "M K"), f"pairs[{i}][1]": (b, "K N")})
        if i:
            checks.alike("grouped_matmul", **{"pairs[0][0]": pairs[0][0], f"pairs[{i}][0]": a})
    if not pairs:
        return []
    first = pairs[0][0]
    results = [arrays.empty(a, (a.shape[0], b.shape[1])) for a, b in pairs]
    # The addresses are only valid as long as the arrays live, so the copies made contiguous are kept here.
    inputs = [(arrays.contiguous(a), arrays.contiguous(b)) for a, b in pairs]
    addresses = [[_address(x) for x in column] for column in (*zip(*inputs), results)]
    sizes = [n for a, b in inputs for n in (a.shape[0], b.shape[1], a.shape[1])]
    aligned = not any(n % 16 for a, b in inputs for n in b.shape) and not any(n % 16 for row in addresses for n in row)
    device = "numpy" if isinstance(first, np.ndarray) else first.device
    vectors = [arrays.like_device(np.array(values, kind), device)
               for values, kind in (*((row, np.int64) for row in addresses), (sizes, np.int32))]
    if blocks is None and not arrays.on_gpu(first):
        blocks = 64, 64, 128
    elif blocks is None:
        large = first.itemsize == 2 and max(sizes[::3]) >= 128
        blocks, options = ((128, 128, 64), {"num_warps": 8, **options}) if large else ((32, 32, 32), options)
    programs = arrays.multiprocessors(first) if programs is None else programs
    element = {"float16": tl.float16, "bfloat16": tl.bfloat16, "float32": tl.float32}[arrays.dtype_name(first)]
    grouped_matmul_kernel[(programs,)](*vectors, len(pairs), ELEMENT=element, ALIGNED=aligned, BLOCK_M=blocks[0],
                                       BLOCK_N=blocks[1], BLOCK_K=blocks[2], **options)
    return results


def _address(x) -> int:
    return x.ctypes.data if isinstance(x, np.ndarray) else x.data_ptr()


def reference(pairs):
    """The same in NumPy."""
    return [a @ b for a, b in pairs]


def _make(size, dtype, device):
    """Eight products, of sizes from an eighth of `size` to all of it."""
    sizes = [max(1, size * i // 8) for i in range(1, 9)]
    return ([(normal((n, size), dtype, device, i), normal((size, n), dtype, device, i + 10))
             for i, n in enumerate(sizes)],)


KERNELS = (record(
    "matmul_groups", "eight products in one launch", grouped_matmul, (grouped_matmul_kernel,), make=_make,
    reference=reference, rival=lambda torch, pairs: [a @ b for a, b in pairs], group="matmul of groups",
    bytes=lambda pairs: sum(nbytes(a, b) + a.itemsize * a.shape[0] * b.shape[1] for a, b in pairs),
    flops=lambda pairs: sum(2 * a.shape[0] * a.shape[1] * b.shape[1] for a, b in pairs),
    size_is="K, and the largest M and N", sizes={"cpu": 256, "cuda": 2048}),)
