"""More graphs of `torch_compile.py`: transformers, convolutions, recurrent, recommender and diffusion models."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch_compile_graphs import graph


# --- transformers -----------------------------------------------------------------------------------------------------
def heads_of(x, heads):
    b, t, d = x.shape
    return x.view(b, t, heads, d // heads).transpose(1, 2)


class Attention(nn.Module):
    def __init__(self, d, heads, causal):
        super().__init__()
        self.qkv, self.out, self.heads, self.causal = nn.Linear(d, 3 * d), nn.Linear(d, d), heads, causal

    def forward(self, x):
        q, k, v = (heads_of(y, self.heads) for y in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    def __init__(self, d, heads, causal=True):
        super().__init__()
        self.norm1, self.norm2, self.attention = nn.LayerNorm(d), nn.LayerNorm(d), Attention(d, heads, causal)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Words(nn.Module):
    """Embeddings, blocks and logits."""

    def __init__(self, words, d, heads, layers, causal=True):
        super().__init__()
        self.words, self.places = nn.Embedding(words, d), nn.Parameter(torch.randn(256, d) * 0.02)
        self.blocks, self.norm = nn.Sequential(*[Block(d, heads, causal) for _ in range(layers)]), nn.LayerNorm(d)

    def forward(self, i):
        x = self.norm(self.blocks(self.words(i) + self.places[: i.shape[1]]))
        return x @ self.words.weight.t()


def rotated(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


@graph(tolerance=3e-2)
def transformer_block(kit):
    d, b, t = kit.size((128, 2, 128), (768, 8, 512))
    return lambda m, x: m(x), kit.module(Block(d, d // 32), kit.half), kit.rand(b, t, d, dtype=kit.half)


@graph(train=True)
def transformer_block_training(kit):
    d, b, t = kit.size((128, 2, 128), (512, 8, 256))
    return lambda m, x: m(x).square().mean(), kit.module(Block(d, d // 32), train=True), kit.rand(b, t, d)


@graph(train=True, tolerance=1e-2)
def gpt_training(kit):
    words, d, layers, b = kit.size((2000, 128, 2, 2), (8000, 512, 4, 8))
    i, y = kit.ints(words, b, 128), kit.ints(words, b * 128)
    model = kit.module(Words(words, d, d // 32, layers), train=True)
    return lambda m, i, y: F.cross_entropy(m(i).view(-1, words), y), model, i, y


@graph(tolerance=3e-2)
def bert_inference(kit):
    words, d, layers, b = kit.size((2000, 128, 2, 2), (8000, 768, 4, 8))
    model = kit.module(Words(words, d, d // 32, layers, causal=False), kit.half)
    return lambda m, i: m(i)[:, 0].softmax(-1), model, kit.ints(words, b, 128)


@graph(tolerance=3e-2)
def rotary(kit):
    b, h, t = kit.size((2, 8, 256), (8, 32, 2048))
    q, k = (kit.rand(b, h, t, 64, dtype=kit.half) for _ in range(2))
    cos, sin = kit.rand(t, 32, dtype=kit.half), kit.rand(t, 32, dtype=kit.half)
    return lambda q, k, c, s: (rotated(q, c, s), rotated(k, c, s)), q, k, cos, sin


@graph(tolerance=3e-2)
def llama_block(kit):
    d, b, t = kit.size((128, 2, 128), (1024, 4, 512))
    h = d // 64
    x, cos, sin = (kit.rand(*s, dtype=kit.half) for s in ((b, t, d), (t, 32), (t, 32)))
    wq, wk, wv, wo = (kit.rand(d, d, dtype=kit.half, scale=d**-0.5) for _ in range(4))
    gate, up, down = (kit.rand(*s, dtype=kit.half, scale=d**-0.5) for s in ((d, 2 * d), (d, 2 * d), (2 * d, d)))

    def norm(x):
        return x * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6).to(x.dtype)

    def block(x, cos, sin, wq, wk, wv, wo, gate, up, down):
        y = norm(x)
        q, k, v = (heads_of(y @ w, h) for w in (wq, wk, wv))
        y = F.scaled_dot_product_attention(rotated(q, cos, sin), rotated(k, cos, sin), v, is_causal=True)
        x = x + y.transpose(1, 2).reshape(x.shape) @ wo
        y = norm(x)
        return x + (F.silu(y @ gate) * (y @ up)) @ down
    return block, x, cos, sin, wq, wk, wv, wo, gate, up, down


@graph()
def expert_routing(kit):
    tokens, experts, d = kit.size((1024, 16, 64), (16384, 64, 256))

    def route(x, w):
        weight, expert = (x @ w).softmax(-1).topk(2, -1)
        share = F.one_hot(expert, experts).to(x.dtype).sum(1).mean(0)
        weight = weight / weight.sum(-1, keepdim=True)
        return weight, share, torch.zeros(experts, d, dtype=x.dtype, device=x.device).index_add(0, expert[:, 0], x)
    return route, kit.rand(tokens, d), kit.rand(d, experts)


# --- convolutions -----------------------------------------------------------------------------------------------------
class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv1, self.conv2 = (nn.Conv2d(c, c, 3, padding=1, bias=False) for _ in range(2))
        self.norm1, self.norm2 = nn.BatchNorm2d(c), nn.BatchNorm2d(c)

    def forward(self, x):
        return F.relu(x + self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))))


@graph(tolerance=2e-2)
def convolutions(kit):
    n, c, s = kit.size((2, 16, 32), (32, 64, 56))
    stem = nn.Sequential(nn.Conv2d(3, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU(), nn.MaxPool2d(2), Residual(c))
    return lambda m, x: m(x).mean((2, 3)), kit.module(stem), kit.rand(n, 3, s, s)


@graph(train=True, tolerance=2e-2)
def residual_training(kit):
    n, c, s = kit.size((2, 16, 32), (32, 64, 28))
    return lambda m, x: m(x).square().mean(), kit.module(Residual(c), train=True), kit.rand(n, c, s, s)


@graph(train=True, tolerance=2e-2)
def convnext_training(kit):
    n, c, s = kit.size((2, 32, 28), (16, 128, 28))

    class Next(nn.Module):
        def __init__(self):
            super().__init__()
            self.depth, self.norm = nn.Conv2d(c, c, 7, padding=3, groups=c), nn.LayerNorm(c)
            self.up, self.down = nn.Linear(c, 4 * c), nn.Linear(4 * c, c)

        def forward(self, x):
            y = self.norm(self.depth(x).permute(0, 2, 3, 1))
            return x + self.down(F.gelu(self.up(y))).permute(0, 3, 1, 2)
    return lambda m, x: m(x).square().mean(), kit.module(Next(), train=True), kit.rand(n, c, s, s)


@graph(train=True)
def pooling_training(kit):
    x = kit.rand(kit.size(4, 32), 32, 32, 32, grad=True)
    return lambda x: (F.max_pool2d(x, 3, 2, 1).square().mean() + F.avg_pool2d(x, 2).abs().mean()), x


@graph()
def upsample(kit):
    x = kit.rand(kit.size(2, 16), 32, 32, 32)
    return lambda x: F.interpolate(x, scale_factor=2, mode="bilinear") + F.interpolate(x, scale_factor=2), x


# --- recurrent, recommender, diffusion --------------------------------------------------------------------------------
@graph()
def gru_steps(kit):
    b, d = kit.size((32, 64), (256, 256))

    def steps(cell, xs, h):
        for x in xs.unbind(0):
            h = cell(x, h)
        return h
    return steps, kit.module(nn.GRUCell(d, d)), kit.rand(4, b, d), kit.rand(b, d)


@graph(train=True)
def lstm_steps_training(kit):
    b, d = kit.size((32, 64), (256, 256))
    w = kit.rand(2 * d, 4 * d, grad=True, scale=d**-0.5)

    def steps(xs, h, w):
        c = h
        for x in xs.unbind(0):
            i, f, g, o = (torch.cat((x, h), 1) @ w).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        return h.square().mean()
    return steps, kit.rand(3, b, d), kit.rand(b, d), w


@graph(train=True)
def recommender_training(kit):
    b, words, d = kit.size((256, 1000, 16), (4096, 50000, 64))

    class Recommender(nn.Module):
        def __init__(self):
            super().__init__()
            self.tables = nn.ModuleList([nn.Embedding(words, d) for _ in range(4)])
            self.bottom = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, d))
            self.top = nn.Sequential(nn.Linear(10 + d, 64), nn.ReLU(), nn.Linear(64, 1))

        def forward(self, x, ids, y):
            x = self.bottom(x)
            f = torch.stack([x, *(t(i) for t, i in zip(self.tables, ids.unbind(1)))], 1)
            i, j = torch.tril_indices(5, 5, -1, device=x.device)
            pairs = (f @ f.transpose(1, 2))[:, i, j]
            return F.binary_cross_entropy_with_logits(self.top(torch.cat((x, pairs), 1)).squeeze(1), y)
    x, y = kit.rand(b, 13), kit.rand(b).sigmoid()
    return lambda m, x, i, y: m(x, i, y), kit.module(Recommender(), train=True), x, kit.ints(words, b, 4), y


@graph()
def bags_of_embeddings(kit):
    words, b, n, d = kit.size((10000, 256, 20, 64), (100000, 4096, 50, 128))
    weight = kit.rand(b, n)
    return lambda t, i, w: (t[i] * w.softmax(-1)[..., None]).sum(1), kit.rand(words, d), kit.ints(words, b, n), weight


@graph()
def factorization(kit):
    b, n, d = kit.size((512, 26, 16), (16384, 26, 64))

    def interact(x, w):
        y = x * w
        return 0.5 * (y.sum(1).square() - y.square().sum(1)).sum(1)
    return interact, kit.rand(b, n, d), kit.rand(n, 1)


class Denoise(nn.Module):
    """A residual block of a diffusion model: the time shifts and scales the channels."""

    def __init__(self, c):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, c), nn.GroupNorm(8, c)
        self.conv1, self.conv2 = (nn.Conv2d(c, c, 3, padding=1) for _ in range(2))
        self.time = nn.Linear(64, 2 * c)

    def forward(self, x, t):
        rates = torch.exp(torch.arange(32, device=t.device, dtype=x.dtype) * (-math.log(1e4) / 32))
        angle = t[:, None] * rates
        scale, shift = self.time(torch.cat((angle.sin(), angle.cos()), 1))[:, :, None, None].chunk(2, 1)
        y = self.conv1(F.silu(self.norm1(x)))
        return x + self.conv2(F.silu(self.norm2(y) * (1 + scale) + shift))


@graph(tolerance=2e-2)
def diffusion_block(kit):
    n, c, s = kit.size((2, 32, 16), (16, 128, 32))
    return lambda m, x, t: m(x, t), kit.module(Denoise(c)), kit.rand(n, c, s, s), kit.rand(n).abs() * 10


@graph(train=True, tolerance=2e-2)
def diffusion_training(kit):
    n, c, s = kit.size((2, 32, 16), (16, 64, 32))
    model, t = kit.module(Denoise(c), train=True), kit.rand(n).abs()
    x, noise = kit.rand(n, c, s, s), kit.rand(n, c, s, s)
    return lambda m, x, e, t: F.mse_loss(m(x + t[:, None, None, None] * e, t), e), model, x, noise, t


@graph()
def sampling_step(kit):
    x, e, z = (kit.rand(kit.size(4, 32), 3, 128, 128) for _ in range(3))
    alphas = kit.rand(1000).sigmoid()

    def step(x, e, z, t, alphas):
        a = alphas[t][:, None, None, None]
        start = ((x - (1 - a).sqrt() * e) / a.sqrt()).clamp(-1, 1)
        return a.sqrt() * start + (1 - a).sqrt() * e + 0.1 * z
    return step, x, e, z, kit.ints(1000, x.shape[0]), alphas


@graph(tolerance=3e-2)
def cross_attention(kit):
    b, t, d, h = kit.size((2, 256, 64, 2), (16, 1024, 320, 8))
    x, y = kit.rand(b, t, d, dtype=kit.half), kit.rand(b, 77, d, dtype=kit.half)
    wq, wk, wv = (kit.rand(d, d, dtype=kit.half, scale=d**-0.5) for _ in range(3))

    def attend(x, y, wq, wk, wv):
        q, k, v = heads_of(x @ wq, h), heads_of(y @ wk, h), heads_of(y @ wv, h)
        p = (q @ k.transpose(-1, -2) * (d // h) ** -0.5).softmax(-1)
        return (p @ v).transpose(1, 2).reshape(x.shape) + x
    return attend, x, y, wq, wk, wv
