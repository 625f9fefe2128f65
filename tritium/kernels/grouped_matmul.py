"""Many matrix products of different sizes in one launch: the kernel reads addresses and sizes from memory."""

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays


@triton.jit
def grouped_matmul_kernel(a_addresses, b_addresses, c_addresses, sizes_ptr, groups, ELEMENT: tl.constexpr,
                          BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """A fixed number of programs deals itself the tiles of all products, one after the other."""
    tile = tl.program_id(0)
    first = 0
    for group in range(groups):
        M = tl.load(sizes_ptr + group * 3)
        N = tl.load(sizes_ptr + group * 3 + 1)
        K = tl.load(sizes_ptr + group * 3 + 2)
        tiles_n = tl.cdiv(N, BLOCK_N)
        tiles = tl.cdiv(M, BLOCK_M) * tiles_n
        while tile < first + tiles:
            a_ptr = tl.load(a_addresses + group).to(tl.pointer_type(ELEMENT))
            b_ptr = tl.load(b_addresses + group).to(tl.pointer_type(ELEMENT))
            c_ptr = tl.load(c_addresses + group).to(tl.pointer_type(ELEMENT))
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


def grouped_matmul(pairs, programs: int | None = None, blocks=(32, 32, 32)):
    """[a @ b for a, b in pairs] of contiguous matrices of one dtype, in one launch.

    >>> [c.shape for c in grouped_matmul([(np.ones((2, 3), np.float32), np.ones((3, 4), np.float32))])]
    [(2, 4)]
    """
    first = pairs[0][0]
    results = [arrays.empty(a, (a.shape[0], b.shape[1])) for a, b in pairs]
    # The addresses are only valid as long as the arrays live, so the copies made contiguous are kept here.
    inputs = [(arrays.contiguous(a), arrays.contiguous(b)) for a, b in pairs]
    addresses = [_vector(first, "int64", [_address(x) for x in column])
                 for column in (*zip(*inputs), results)]
    sizes = _vector(first, "int32", [n for a, b in inputs for n in (a.shape[0], b.shape[1], a.shape[1])])
    if programs is None:
        driver = triton.runtime.driver.active
        programs = driver.utils.get_device_properties(driver.get_current_device())["multiprocessor_count"]
    element = {"float16": tl.float16, "bfloat16": tl.bfloat16, "float32": tl.float32}[arrays.dtype_name(first)]
    grouped_matmul_kernel[(programs,)](*addresses, sizes, len(pairs), ELEMENT=element, BLOCK_M=blocks[0],
                                       BLOCK_N=blocks[1], BLOCK_K=blocks[2])
    return results


def _address(x) -> int:
    return x.ctypes.data if isinstance(x, np.ndarray) else x.data_ptr()


def _vector(like, dtype: str, values: list[int]):
    out = arrays.empty(like, (len(values),), dtype)
    for i, value in enumerate(values):
        out[i] = value
    return out


def reference(pairs):
    """The same in NumPy."""
    return [a @ b for a, b in pairs]
