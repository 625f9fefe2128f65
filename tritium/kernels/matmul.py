"""C = A @ B: plain two-dimensional tiles, grouped tiles that reuse the cache, and tuned tile sizes.

Inputs may be float16, bfloat16, float32 or fp8 (e4m3, e5m2); sums are float32. float32 inputs use the matrix units'
tf32 where the target has it unless `precision="ieee"` is asked for.
"""

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays, checks
from tritium.kernels.registry import Kernel, nbytes, normal


@triton.jit
def plain_kernel(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
                 BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, PRECISION: tl.constexpr):
    """Program (i, j) computes tile (i, j) of C; all three edges are masked."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + m[:, None] * stride_am + k[None, :] * stride_ak,
                    mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * stride_bk + n[None, :] * stride_bn,
                    mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        total = tl.dot(a, b, total, input_precision=PRECISION)
    tl.store(c_ptr + m[:, None] * stride_cm + n[None, :] * stride_cn, total.to(c_ptr.dtype.element_ty),
             mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def grouped_tile(pid, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr):
    """Tile of program `pid`: GROUP_M rows of tiles are finished together, so that their inputs stay in the cache."""
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    per_group = GROUP_M * tiles_n
    first_m = pid // per_group * GROUP_M
    rows = min(tiles_m - first_m, GROUP_M)
    return first_m + pid % per_group % rows, pid % per_group // rows


@triton.jit
def leaky_relu(x):
    """x above zero, 0.01 x below."""
    return tl.where(x >= 0, x, 0.01 * x)


@triton.jit
def grouped_kernel(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
                   BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
                   ACTIVATION: tl.constexpr, PRECISION: tl.constexpr):
    """Tiles in grouped order; rows and columns past the edge wrap around, so the loop masks K alone."""
    i, j = grouped_tile(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    m = (i * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    n = (j * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + m[:, None] * stride_am + k[None, :] * stride_ak
    b_ptrs = b_ptr + k[:, None] * stride_bk + n[None, :] * stride_bn
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs, mask=k[None, :] < K - start, other=0.0)
        b = tl.load(b_ptrs, mask=k[:, None] < K - start, other=0.0)
        total = tl.dot(a, b, total, input_precision=PRECISION)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    if ACTIVATION == "leaky_relu":
        total = leaky_relu(total)
    m = i * BLOCK_M + tl.arange(0, BLOCK_M)
    n = j * BLOCK_N + tl.arange(0, BLOCK_N)
    tl.store(c_ptr + m[:, None] * stride_cm + n[None, :] * stride_cn, total.to(c_ptr.dtype.element_ty),
             mask=(m[:, None] < M) & (n[None, :] < N))


# Tiles for tensor cores and, the last two, for the caches of a CPU.
CONFIGS = [
    triton.Config({"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 8}, num_stages=3, num_warps=8),
    triton.Config({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8}, num_stages=4, num_warps=4),
    triton.Config({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32, "GROUP_M": 8}, num_stages=4, num_warps=4),
    triton.Config({"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 32, "GROUP_M": 8}, num_stages=4, num_warps=4),
    triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP_M": 8}, num_stages=3, num_warps=4),
    triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 256, "GROUP_M": 8}, num_stages=2, num_warps=4),
    triton.Config({"BLOCK_M": 256, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 4}, num_stages=1, num_warps=8),
]

# A CPU has no matrix unit to keep busy but caches to use well: large tiles are copied less often. Small ones are for
# small products on many threads.
CPU_CONFIGS = [
    triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 128, "GROUP_M": 8}, num_stages=1, num_warps=4),
    *CONFIGS[4:],
    triton.Config({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 256, "GROUP_M": 4}, num_stages=1, num_warps=4),
    triton.Config({"BLOCK_M": 256, "BLOCK_N": 256, "BLOCK_K": 256, "GROUP_M": 4}, num_stages=1, num_warps=4),
    triton.Config({"BLOCK_M": 256, "BLOCK_N": 256, "BLOCK_K": 512, "GROUP_M": 4}, num_stages=1, num_warps=4),
    triton.Config({"BLOCK_M": 256, "BLOCK_N": 512, "BLOCK_K": 512, "GROUP_M": 4}, num_stages=1, num_warps=4),
    triton.Config({"BLOCK_M": 512, "BLOCK_N": 512, "BLOCK_K": 256, "GROUP_M": 4}, num_stages=1, num_warps=4),
]

tuned_kernel = triton.autotune(configs=CONFIGS, key=["M", "N", "K"])(grouped_kernel)


PRECISIONS = (None, "ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")


def operands(function: str, a, b, out_dtype: str | None = None, precision: str | None = None, dtypes=None):
    """C, and what the kernels of this family take: the matrices, their sizes and strides; after checks.

    >>> import numpy as np
    >>> operands("matmul", np.zeros((2, 3), np.float32), np.zeros((3, 4), np.float32))[1][3:6]
    (2, 4, 3)
    """
    sizes = checks.arguments(function, dtypes or (*checks.FLOATS, *checks.FP8), a=(a, "M K"), b=(b, "K N"))
    checks.one_of(function, "precision", precision, PRECISIONS)
    checks.one_of(function, "out_dtype", out_dtype, (None, *checks.FLOATS, *checks.FP8))
    # fp8 has too few digits to hold a result.
    out_dtype = out_dtype or ("float16" if "float8" in arrays.dtype_name(a) else None)
    M, N, K = sizes["M"], sizes["N"], sizes["K"]
    c = arrays.empty(a, (M, N), out_dtype)
    return c, (a, b, c, M, N, K, *arrays.strides(a), *arrays.strides(b), *arrays.strides(c))


def usual_tiles(a, b) -> tuple[tuple[int, int, int], dict[str, int]]:
    """Tiles and options that are seldom bad: the largest that keep the device busy, on a GPU for short types.

    >>> import numpy as np
    >>> usual_tiles(np.zeros((64, 64)), np.zeros((64, 64)))
    ((64, 64, 64), {})
    """
    rows, columns = a.shape[0], b.shape[1]
    if not arrays.on_gpu(a):  # it reads its operands once for each tile, and wants two tiles or more for each thread
        large = (rows // 256) * (columns // 128) >= 2 * arrays.multiprocessors(a)
        return (256, 128, 128) if large else (64, 64, 64), {}
    if a.itemsize <= 2:
        for wide, stages in ((256, 3), (128, 4)):
            if triton.cdiv(rows, 128) * triton.cdiv(columns, wide) >= arrays.multiprocessors(a) // 2:
                return (128, wide, 128 // a.itemsize), {"num_warps": 8, "num_stages": stages}
    return (64, 64, 64), {}


def matmul_plain(a, b, precision: str | None = None, out_dtype: str | None = None, blocks=None, **options):
    """A @ B with one program per tile of C.

    >>> import numpy as np
    >>> matmul_plain(np.eye(2, dtype=np.float32), np.float32([[1, 2], [3, 4]]))
    array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    c, args = operands("matmul_plain", a, b, out_dtype, precision)
    (block_m, block_n, block_k), usual = usual_tiles(a, b) if blocks is None else (blocks, {})
    grid = (triton.cdiv(args[3], block_m), triton.cdiv(args[4], block_n))
    plain_kernel[grid](*args, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, PRECISION=precision,
                       **{**usual, **options})
    return c


def matmul(a, b, activation: str = "", precision: str | None = None, out_dtype: str | None = None,
           blocks=None, group: int = 8, **options):
    """A @ B with tiles in grouped order, and leaky ReLU on the way out if `activation` says so; any strides.

    `blocks` are the tile sizes (M, N, K); `options` are those of a launch, such as num_warps.

    >>> import numpy as np
    >>> matmul(np.eye(2, dtype=np.float32), np.float32([[1, -100], [3, 4]]), activation="leaky_relu")
    array([[ 1., -1.],
           [ 3.,  4.]], dtype=float32)
    """
    c, args = operands("matmul", a, b, out_dtype, precision)
    checks.one_of("matmul", "activation", activation, ("", "leaky_relu"))
    (block_m, block_n, block_k), usual = usual_tiles(a, b) if blocks is None else (blocks, {})
    options = {**usual, **options}
    grid = (triton.cdiv(args[3], block_m) * triton.cdiv(args[4], block_n),)
    grouped_kernel[grid](*args, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP_M=group,
                         ACTIVATION=activation, PRECISION=precision, **options)
    return c


def matmul_tuned(a, b, activation: str = "", precision: str | None = None, out_dtype: str | None = None):
    """A @ B with the tile sizes that were fastest for this shape when first tried: `CONFIGS` are tried.

    >>> import numpy as np
    >>> matmul_tuned(np.zeros((0, 2), np.float32), np.zeros((2, 3), np.float32)).shape
    (0, 3)
    """
    c, args = operands("matmul_tuned", a, b, out_dtype, precision)
    checks.one_of("matmul_tuned", "activation", activation, ("", "leaky_relu"))
    if args[3] * args[4] == 0:
        return c
    M, N = args[3:5]
    tuned_kernel[lambda meta: (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),)](
        *args, ACTIVATION=activation, PRECISION=precision)
    return c


def matmul_tf32(a, b):
    """A @ B of float32 matrices by the units for tf32: factors keep 10 bits after the point, sums are float32.

    A target without such units multiplies in float32.

    >>> import numpy as np
    >>> matmul_tf32(np.float32([[2]]), np.float32([[1.5]]))
    array([[3.]], dtype=float32)
    """
    c, _ = operands("matmul_tf32", a, b, dtypes=("float32",))
    return matmul(a, b) if arrays.numel(c) else c  # the default of every target with such units


def matmul_fp8(a, b, out_dtype: str = "float16"):
    """A @ B of fp8 matrices, e4m3 or e5m2; the sums are float32, the result is `out_dtype`.

    >>> import numpy as np
    >>> a = np.eye(2).astype(arrays.numpy_dtype("float8_e4m3fn"))
    >>> matmul_fp8(a, a)
    array([[1., 0.],
           [0., 1.]], dtype=float16)
    """
    operands("matmul_fp8", a, b, dtypes=checks.FP8)
    return matmul(a, b, out_dtype=out_dtype)


def reference(a, b):
    """The same in NumPy."""
    return a @ b


def rival(torch, a, b):
    """The same by torch, which has no fp8 product of plain matrices: it multiplies in float16 there."""
    return a.half() @ b.half() if "float8" in str(a.dtype) else a @ b


def record(name: str, title: str, wrapper, jit, dtypes=("float16", "bfloat16", "float32"), make=None, **more) -> Kernel:
    """The record of a function that multiplies two matrices.

    >>> record("product", "product", matmul, ()).flops(*record("product", "product", matmul, ()).make_arguments(
    ...     8, "float32", "numpy"))
    1024
    """
    def square(size, dtype, device):
        return normal((size, size), dtype, device), normal((size, size), dtype, device, 1)

    more = {"reference": reference, "rival": rival, "slack": 2.0, "scenario": "S23", "group": "matmul",
            "bytes": lambda a, b, *_: nbytes(a, b) + a.shape[0] * b.shape[1] * max(a.itemsize, 2),
            "flops": lambda a, b, *_: 2 * a.shape[0] * b.shape[1] * a.shape[1],
            "size_is": "rows and columns of square matrices", "sizes": {"cpu": 512, "cuda": 4096},
            "make_arguments": make or square, **more}  # fmt: skip
    return Kernel(name, wrapper, title=title, dtypes=dtypes, bound="compute", jit=jit, **more)


KERNELS = (
    record("matmul_plain", "matmul, plain tiles", lambda a, b: matmul_plain(a, b, "ieee"), (plain_kernel,)),
    record("matmul", "matmul, grouped tiles", lambda a, b: matmul(a, b, precision="ieee"), (grouped_kernel,)),
    record("matmul_tuned", "matmul, tuned", lambda a, b: matmul_tuned(a, b, precision="ieee"), (tuned_kernel,)),
    record("matmul_tf32", "matmul in tf32", matmul_tf32, (grouped_kernel,), ("float32",), slack=300.0),
    # NVIDIA's matrix units keep 14 bits of a sum of fp8 products: 5e-3 at K = 4096.
    record("matmul_fp8", "matmul of fp8", matmul_fp8, (grouped_kernel,), ("float8_e4m3fn", "float8_e5m2"), slack=5.0),
)
