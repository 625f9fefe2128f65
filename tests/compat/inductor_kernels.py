"""Kernels as torch's Inductor writes them, less what only its own decorators read."""

import importlib.util

import tritium as triton
from tritium.backends.compiler import GPUTarget
from tritium.compiler import ASTSource

H200 = GPUTarget("cuda", 90, 32)
ALIGNED = [["tt.divisibility", 16]]

TEXT = """
import tritium as triton
import tritium.language as tl

def pointwise(**kwargs):
    return lambda fn: fn

@pointwise(
    size_hints={{'x': 524288}},
    triton_meta={{'device': object(), 'configs': [{{(0,): []}}]}},
    inductor_meta={{'grid_type': '{grid}', 'autotune_hints': {{object()}}, 'store_cubin': {store},
                   'kernel_name': 'turned'}},
    min_elem_per_thread=0
)
@triton.jit
def turned(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = (xindex % 64)
    x1 = xindex // 64
    tl.store(out_ptr0 + xindex, tl.load(in_ptr0 + (x0 + 128 * x1), xmask), xmask)

@pointwise(inductor_meta={{'grid_type': 'FixedGrid', 'store_cubin': {store}}})
@triton.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, am, bk, cm, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
            BLOCK_K: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a, b = a_ptr + m[:, None] * am + k[None, :], b_ptr + k[:, None] * bk + n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        acc += tl.dot(tl.load(a, mask=(m[:, None] < M) & (start + k[None, :] < K), other=0.0),
                      tl.load(b, mask=(start + k[:, None] < K) & (n[None, :] < N), other=0.0))
        a += BLOCK_K
        b += BLOCK_K * bk
    tl.store(c_ptr + m[:, None] * cm + n[None, :], acc.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))
"""


def write(folder, grid="Grid1D", store=False):
    """A module of them; `store` says that C++ will start them."""
    path = folder / f"kernels_{grid}_{store}.py"
    path.write_text(TEXT.format(grid=grid, store=store))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def turned(module, target=H200, **options):
    types = {"in_ptr0": "*fp32", "out_ptr0": "*fp32", "xnumel": "i32", "XBLOCK": "constexpr"}
    source = ASTSource(module.turned, types, {"XBLOCK": 1024}, {(0,): ALIGNED, (1,): ALIGNED})
    return triton.compile(source, target, options)


def product(module):
    pointers = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16")
    sizes = dict.fromkeys(("M", "N", "K", "am", "bk", "cm"), "i32")
    blocks = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64}
    types = pointers | sizes | dict.fromkeys(blocks, "constexpr")
    source = ASTSource(module.product, types, blocks, {(k,): ALIGNED for k in range(9)})
    return triton.compile(source, H200, {"num_warps": 8})
