"""More graphs of `torch_compile.py`: optimizers, dynamic shapes, CUDA graphs, tuned products, flex attention."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch_compile_graphs import BF16, graph
from torch_compile_models import Block


# --- optimizers -------------------------------------------------------------------------------------------------------
def parameters(kit):
    """Parameters of a small model, with gradients."""
    d = kit.size(128, 1024)
    params = [kit.rand(*shape, grad=True) for shape in ((d, d), (d,), (4 * d, d), (4 * d,), (d, 4 * d), (d,))]
    for p in params:
        p.grad = kit.rand(*p.shape)
    return params


def stepped(kit, make):
    """A function that takes one step of an optimizer; its state is there already."""
    params = parameters(kit)
    optimizer = make(params)
    optimizer.step()

    def step(params):
        optimizer.step()
        return params
    return step, params


@graph()
def sgd_momentum(kit):
    return stepped(kit, lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, weight_decay=1e-4))


@graph()
def adam(kit):
    return stepped(kit, lambda p: torch.optim.Adam(p, 1e-3))


@graph()
def adamw_clipped(kit):
    step, params = stepped(kit, lambda p: torch.optim.AdamW(p, 1e-3))

    def clipped(params):
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        return step(params)
    return clipped, params


@graph()
def moving_average(kit):
    kept, new = [p.detach() for p in parameters(kit)], [p.detach() for p in parameters(kit)]

    def average(kept, new):
        return [k.lerp(n, 0.01) for k, n in zip(kept, new)]
    return average, kept, new


# --- dynamic shapes ---------------------------------------------------------------------------------------------------
@graph(many=True, dynamic=True)
def dynamic_pointwise(kit):
    return lambda x, y: F.silu(x) * y + 1, *[(kit.rand(n, 100), kit.rand(n, 100)) for n in (64, 37, 128, 90)]


@graph(many=True, dynamic=True)
def dynamic_softmax(kit):
    return lambda x: (x * 2).softmax(-1).amax(0), *[(kit.rand(64, n),) for n in (300, 217, 512, 99)]


@graph(many=True, dynamic=True)
def dynamic_mlp(kit):
    model = kit.module(nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 64)))
    return lambda m, x: m(x), *[(model, kit.rand(n, 64)) for n in (30, 64, 17, 100)]


# --- CUDA graphs ------------------------------------------------------------------------------------------------------
@graph(on=("cuda",), mode="reduce-overhead", tolerance=3e-2)
def cuda_graph_block(kit):
    return lambda m, x: m(x), kit.module(Block(256, 8), BF16), kit.rand(4, 128, 256, dtype=BF16)


@graph(on=("cuda",), mode="reduce-overhead", train=True)
def cuda_graph_training(kit):
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, 256))
    return lambda m, x: m(x).square().mean(), kit.module(model, train=True), kit.rand(256, 256)


@graph(on=("cuda",), mode="reduce-overhead")
def cuda_graph_pointwise(kit):
    def function(x, y):
        for _ in range(4):
            x = (x * y).softmax(-1) + x.mean(0)
        return x
    return function, kit.rand(256, 512), kit.rand(256, 512)


# --- tuned templates --------------------------------------------------------------------------------------------------
# Only templates take part: beside cuBLAS a slow one would not be seen.
TUNED = {"max_autotune": True, "max_autotune_gemm_backends": "TRITON"}


@graph(on=("cuda",), options=TUNED, tolerance=3e-2)
def tuned_mm(kit):
    return lambda a, b: a @ b, kit.rand(2048, 1024, dtype=BF16), kit.rand(1024, 2048, dtype=BF16)


@graph(on=("cuda",), options=TUNED, tolerance=3e-2)
def tuned_mm_epilogue(kit):
    a, b, c = kit.rand(2048, 1024, dtype=BF16), kit.rand(1024, 2048, dtype=BF16), kit.rand(2048, 2048, dtype=BF16)
    return lambda a, b, c: F.gelu(a @ b) * c, a, b, c


@graph(on=("cuda",), options=TUNED, tolerance=3e-2)
def tuned_addmm_relu(kit):
    model, x = kit.module(nn.Linear(1024, 1536), BF16), kit.rand(2000, 1024, dtype=BF16)
    return lambda m, x: F.relu(m(x)), model, x


@graph(on=("cuda",), options=TUNED, tolerance=3e-2)
def tuned_bmm(kit):
    a, b = kit.rand(32, 512, 128, dtype=BF16), kit.rand(32, 128, 512, dtype=BF16)
    return lambda a, b: (a @ b * 0.125).float(), a, b


@graph(on=("cuda",), options=TUNED, tolerance=3e-2)
def tuned_mm_f32(kit):
    return lambda a, b: a @ b + 1, kit.rand(1024, 1024), kit.rand(1024, 1000)


@graph(on=("cuda",), options=TUNED, tolerance=3e-2)
def tuned_mm_odd(kit):
    return lambda a, b: (a @ b).sigmoid(), kit.rand(777, 501, dtype=BF16), kit.rand(501, 333, dtype=BF16)


@graph(on=("cuda",), options={**TUNED, "triton.enable_persistent_tma_matmul": True}, tolerance=3e-2)
def tuned_mm_descriptors(kit):
    return lambda a, b: a @ b, kit.rand(4096, 1024, dtype=BF16), kit.rand(1024, 2048, dtype=BF16)


@graph(on=("cuda",), options={**TUNED, "max_autotune_conv_backends": "TRITON"}, tolerance=3e-2)
def tuned_convolution(kit):
    x, w = kit.rand(16, 64, 56, 56, dtype=BF16), kit.rand(64, 64, 3, 3, dtype=BF16, scale=0.05)
    return lambda x, w: F.relu(F.conv2d(x, w, padding=1)), x, w


@graph(on=("cuda",), mode="max-autotune-no-cudagraphs", tolerance=3e-2)
def tuned_reductions(kit):
    return lambda x: F.layer_norm(x, (4096,)).softmax(-1), kit.rand(4096, 4096, dtype=BF16)


# --- flex attention ---------------------------------------------------------------------------------------------------
def attended(kit, b, h, t, d, score=None, mask=None, grad=False):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    q, k, v = (kit.rand(b, h, t, d, dtype=BF16, grad=grad) for _ in range(3))
    blocks = create_block_mask(mask, None, None, t, t, device=kit.device) if mask else None

    def attend(q, k, v):
        y = flex_attention(q, k, v, score_mod=score, block_mask=blocks)
        return y.float().square().mean() if grad else y
    return attend, q, k, v


def causal(b, h, i, j):
    return i >= j


@graph(on=("cuda",), tolerance=3e-2)
def flex_causal(kit):
    return attended(kit, 4, 8, 1024, 64, mask=causal)


@graph(on=("cuda",), tolerance=3e-2)
def flex_alibi(kit):
    return attended(kit, 2, 8, 1024, 128, score=lambda s, b, h, i, j: s + (j - i) * 2.0 ** (-h - 1))


@graph(on=("cuda",), train=True, tolerance=3e-2)
def flex_causal_training(kit):
    return attended(kit, 2, 8, 1024, 64, mask=causal, grad=True)


@graph(on=("cuda",), tolerance=3e-2)
def flex_sliding_window(kit):
    return attended(kit, 2, 8, 2048, 64, mask=lambda b, h, i, j: (i >= j) & (i - j < 256))
