"""C = A @ B with tensor descriptors: tiles are addressed by coordinates, and the hardware checks the bounds.

A descriptor knows base, sizes, strides and tile. `load([row, column])` needs no pointers and no masks: elements outside
are zero, and stores outside are dropped. On an H100 or later a tile is copied by one instruction (TMA). The hardware
asks for rows that are contiguous and start at multiples of 16 bytes.
"""

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays
from tritium.kernels.matmul import grouped_tile, operands, record, usual_tiles
from tritium.kernels.registry import normal


@triton.jit
def descriptor_kernel(a_ptr, b_ptr, c_ptr, M, N, K, stride_a, stride_b, stride_c, BLOCK_M: tl.constexpr,
                      BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr):
    """Tiles in grouped order; no mask anywhere."""
    a_desc = tl.make_tensor_descriptor(a_ptr, [M, K], [stride_a, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, [K, N], [stride_b, 1], [BLOCK_K, BLOCK_N])
    c_desc = tl.make_tensor_descriptor(c_ptr, [M, N], [stride_c, 1], [BLOCK_M, BLOCK_N])
    i, j = grouped_tile(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        a = a_desc.load([i * BLOCK_M, start])
        b = b_desc.load([start, j * BLOCK_N])
        total = tl.dot(a, b, total, input_precision="ieee")
    c_desc.store([i * BLOCK_M, j * BLOCK_N], total.to(c_ptr.dtype.element_ty))


def descriptor_matmul(a, b, blocks=None, group: int = 8, **options):
    """A @ B by descriptors; rows of A, B and C start at multiples of 16 bytes.

    >>> import numpy as np
    >>> a = np.arange(16, dtype=np.float32).reshape(4, 4)
    >>> bool((descriptor_matmul(a, a) == a @ a).all())
    True
    """
    c, (_, _, _, M, N, K, *_) = operands("descriptor_matmul", a, b)
    if M * N * K == 0:
        return arrays.zeros(c)
    a, b = _aligned("a", a), _aligned("b", b)
    if N * c.itemsize % 16:
        columns = -(-N * c.itemsize // 16) * 16 // c.itemsize
        raise ValueError(f"descriptor_matmul: the result has rows of {N * c.itemsize} bytes; for a descriptor it must "
                         f"be a multiple of 16. Add columns to b until there are {columns}, or use matmul.")
    blocks, usual = usual_tiles(a, b) if blocks is None else (blocks, {})
    grid = (triton.cdiv(M, blocks[0]) * triton.cdiv(N, blocks[1]),)
    descriptor_kernel[grid](a, b, c, M, N, K, arrays.strides(a)[0], arrays.strides(b)[0], arrays.strides(c)[0],
                            BLOCK_M=blocks[0], BLOCK_N=blocks[1], BLOCK_K=blocks[2], GROUP_M=group,
                            **{**usual, **options})
    return c


def _aligned(name, x):
    """The matrix, or a copy with contiguous rows; an error if its rows cannot be described."""
    x = arrays.with_rows(x)
    step = arrays.strides(x)[0] * x.itemsize
    address = x.ctypes.data if isinstance(x, np.ndarray) else x.data_ptr()
    if x.shape[0] > 1 and step % 16 or address % 16:
        what = f"starts at a multiple of {address & -address} bytes" if address % 16 else f"has rows {step} bytes apart"
        raise ValueError(f"descriptor_matmul: {name} {what}; for a descriptor it must be a multiple of 16. Copy {name} "
                         "into rows that are padded with zeros, or use matmul.")
    return x


def reference(a, b):
    """The same in NumPy."""
    return a @ b


def _padded(size, dtype, device):
    """Square matrices of a size that 16 divides."""
    size = -(-size // 16) * 16
    return normal((size, size), dtype, device), normal((size, size), dtype, device, 1)


KERNELS = (record("matmul_descriptors", "matmul with descriptors", descriptor_matmul, (descriptor_kernel,),
                  make=_padded),)
