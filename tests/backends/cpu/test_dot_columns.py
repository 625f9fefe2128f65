"""Dots whose rhs has contiguous columns: weights of a linear layer, keys of attention."""

import pytest

import tritium as triton
import tritium.language as tl
from tritium.backends.cpu.fuse.load_columns import load_columns
from tritium.ir import types as T
from tritium.ir.text import parse_module

torch = pytest.importorskip("torch")


@triton.jit
def linear_kernel(x_ptr, w_ptr, y_ptr, M, N, K, HOW: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                  BK: tl.constexpr):
    """y = x @ w.T"""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        x = tl.load(x_ptr + m[:, None] * K + (start + k)[None, :],
                    (m[:, None] < M) & ((start + k)[None, :] < K), other=0.0)
        if HOW == "turned":
            w = tl.trans(tl.load(w_ptr + n[:, None] * K + (start + k)[None, :],
                                 (n[:, None] < N) & ((start + k)[None, :] < K), other=0.0))
        elif HOW == "wrapped":
            w = tl.load(w_ptr + (n % N)[None, :] * K + (start + k)[:, None], (start + k)[:, None] < K, other=0.0)
        else:
            w = tl.load(w_ptr + n[None, :] * K + (start + k)[:, None],
                        (n[None, :] < N) & ((start + k)[:, None] < K), other=0.0)
        total = tl.dot(x, w, total, input_precision="ieee")
    tl.store(y_ptr + m[:, None] * N + n[None, :], total, (m[:, None] < M) & (n[None, :] < N))


@pytest.mark.parametrize("how", ["strided", "turned", "wrapped"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("size", [(64, 64, 64), (32, 128, 320), (70, 33, 100), (16, 96, 31), (1, 200, 96)], ids=str)
def test_linear(size, dtype, how):
    m, n, k = size
    x, w = (torch.randn(rows, k, generator=torch.Generator().manual_seed(rows)).to(getattr(torch, dtype))
            for rows in (m, n))
    y = torch.full((m, n), torch.nan)
    blocks = {"BM": 16 if m <= 16 else 32, "BN": 64, "BK": 32}
    linear_kernel[triton.cdiv(m, blocks["BM"]), triton.cdiv(n, 64)](x, w, y, m, n, k, HOW=how, **blocks)
    expected = x.double() @ w.double().T
    assert (y - expected).abs().max() <= 2e-6 * k ** 0.5 * expected.abs().max()


@pytest.mark.parametrize("size", [(32, 128, 192), (40, 50, 100), (16, 64, 32)], ids=str)
@pytest.mark.parametrize("depth", [32, 64])
def test_bytes(size, depth):
    m, n, k = size
    x, w = (torch.randint(-128, 128, (rows, k), dtype=torch.int8) for rows in (m, n))
    y = torch.full((m, n), 7, dtype=torch.int32)

    @triton.jit
    def kernel(x_ptr, w_ptr, y_ptr, M, N, K, BK: tl.constexpr):
        m, n = tl.program_id(0) * 32 + tl.arange(0, 32), tl.program_id(1) * 64 + tl.arange(0, 64)
        total = tl.zeros((32, 64), tl.int32)
        for start in range(0, K, BK):
            k = start + tl.arange(0, BK)
            x = tl.load(x_ptr + m[:, None] * K + k[None, :], (m[:, None] < M) & (k[None, :] < K), other=0)
            w = tl.load(w_ptr + n[:, None] * K + k[None, :], (n[:, None] < N) & (k[None, :] < K), other=0)
            total = tl.dot(x, w.T, total)
        tl.store(y_ptr + m[:, None] * N + n[None, :], total, (m[:, None] < M) & (n[None, :] < N))

    kernel[triton.cdiv(m, 32), triton.cdiv(n, 64)](x, w, y, m, n, k, BK=depth)
    assert torch.equal(y, (x.long() @ w.long().T).int())


@triton.jit
def gram_kernel(x_ptr, y_ptr, z_ptr, B: tl.constexpr):
    """Tiles that are read as they lie and turned, and one that is overwritten before its transpose is multiplied."""
    i = tl.arange(0, B)
    at = i[:, None] * B + i[None, :]
    x = tl.load(x_ptr + at)
    tl.store(y_ptr + at, tl.dot(x, tl.trans(x)))
    y = tl.load(z_ptr + at)
    turned = tl.trans(y)
    tl.store(z_ptr + at, y + 1)
    tl.store(y_ptr + B * B + at, tl.dot(x, turned))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_tiles_that_others_read_or_write(dtype):
    x, z = (torch.randint(-3, 4, (32, 32)).to(dtype) for _ in range(2))
    y, before = torch.empty(2, 32, 32), z.clone()
    gram_kernel[1,](x, y, z, B=32)
    assert torch.equal(y[0], x.float() @ x.float().T) and torch.equal(y[1], x.float() @ before.float().T)
    assert torch.equal(z, before + 1)


def kernel(*between):
    """A dot with a turned load, and these lines between the load and its transpose."""
    lines = "\n".join(between)
    parameters = "%p: tile<32x32xptr<bf16>>, %m: tile<32x32xi1>, %a: tile<32x32xbf16>, %c: tile<32x32xf32>"
    return parse_module(f"""kernel @f({parameters}, %q: tile<32x32xptr<f32>>) {{
  %z = constant {{value=0.0, type=bf16}} : bf16
  %zs = splat %z {{shape=(32, 32)}} : tile<32x32xbf16>
  %x = load %p, %m, %zs : tile<32x32xbf16>
  {lines}
  %b = trans %x {{order=(1, 0)}} : tile<32x32xbf16>
  %d = dot %a, %b, %c : tile<32x32xf32>
  store %q, %d
}}""")


def test_masks_are_turned_too():
    made = load_columns(kernel(), {T.bf16})
    (load,) = [op for op in made.body.ops if op.kind.name == "load"]
    assert [x.kind.name for x in load.operands] == ["trans", "trans", "splat"]


@pytest.mark.parametrize("module", [kernel("store %p, %a"), kernel("store %p, %x")], ids=["written", "read twice"])
def test_what_stays(module):
    assert load_columns(module, {T.bf16}) is module


def test_only_types_of_the_unit():
    module = kernel()
    assert load_columns(module, {T.f16}) is module
