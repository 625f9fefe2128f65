"""The graphs of `torch_compile.py`: what training and inference hand to torch.compile, in small.

A maker gets a `Kit` and returns a function and its arguments. The kit decides on sizes and on the device, and makes
everything a second time in float64 for the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F

GRAPHS: dict[str, Graph] = {}
BF16 = torch.bfloat16


@dataclass(frozen=True)
class Graph:
    """A function to compile. `train`: its result is a loss, and all gradients are wanted. `many`: every argument is a
    tuple of arguments, called in turn. `tolerance`: of a relative error. `options`: for torch.compile."""

    name: str
    make: Callable[[Kit], tuple]
    on: tuple[str, ...] = ("cpu", "cuda")
    train: bool = False
    many: bool = False
    tolerance: float = 1e-3
    options: dict[str, Any] = field(default_factory=dict)


def graph(**how):
    """Register a maker under its name."""
    def register(make):
        name = make.__name__.replace("_", " ")
        options = {k: how.pop(k) for k in ("mode", "dynamic", "options") if k in how}
        GRAPHS[name] = Graph(name, make, options=options, **how)
        return make
    return register


class Kit:
    """Makes tensors and modules: the same values every time, on one device, `exact` ones as float64."""

    def __init__(self, device: str, exact: bool = False):
        self.device, self.exact = device, exact
        torch.manual_seed(0)

    def size(self, cpu, cuda):
        """One of two sizes: what keeps the device busy for a while."""
        return cuda if self.device == "cuda" else cpu

    @property
    def half(self):
        """The narrow type that models are run in on this device."""
        return BF16 if self.device == "cuda" else torch.float32

    def rand(self, *shape, dtype=torch.float32, grad=False, scale=1.0):
        x = (torch.randn(shape, device=self.device) * scale).to(dtype)
        x = x.double() if self.exact else x
        return x.requires_grad_(grad)

    def ints(self, high, *shape, low=0, dtype=torch.int64):
        return torch.randint(low, high, shape, device=self.device, dtype=dtype)

    def module(self, module, dtype=torch.float32, train=False):
        module = module.to(self.device, dtype)
        module = module.double() if self.exact else module
        return module.train() if train else module.eval().requires_grad_(False)


# --- elementwise, norms, losses ---------------------------------------------------------------------------------------
@graph()
def pointwise(kit):
    n = kit.size(2**20, 2**24)
    return lambda x, y: torch.sigmoid(x) * y + torch.tanh(y).square() - x.abs().sqrt(), kit.rand(n), kit.rand(n)


@graph(train=True)
def bias_gelu_training(kit):
    x, b = kit.rand(kit.size(512, 4096), 1024, grad=True), kit.rand(1024, grad=True)
    return lambda x, b: (F.gelu(x + b) * 0.5).square().mean(), x, b


@graph()
def softmax(kit):
    return lambda x: (x * 0.125).softmax(-1), kit.rand(kit.size(512, 8192), 1000)


@graph(train=True)
def layer_norm_training(kit):
    x, w, b = kit.rand(kit.size(1024, 8192), 768, grad=True), kit.rand(768, grad=True), kit.rand(768, grad=True)
    return lambda x, w, b: (F.layer_norm(x, (768,), w, b) + x).square().mean(), x, w, b


@graph(tolerance=2e-2)
def rms_norm_bf16(kit):
    n = kit.size(1024, 4096)
    x, w = kit.rand(kit.size(256, 8192), n, dtype=BF16), kit.rand(n, dtype=BF16)

    def rms_norm(x, w):
        y = x.float()
        return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w
    return rms_norm, x, w


@graph(train=True)
def batch_norm_training(kit):
    x = kit.rand(kit.size(8, 64), 64, 28, 28, grad=True)
    w, b = kit.rand(64, grad=True), kit.rand(64, grad=True)
    return lambda x, w, b: F.relu(F.batch_norm(x, None, None, w, b, training=True)).square().mean(), x, w, b


@graph()
def group_norm_silu(kit):
    x, w, b = kit.rand(kit.size(4, 16), 64, 32, 32), kit.rand(64), kit.rand(64)
    return lambda x, w, b: F.silu(F.group_norm(x, 8, w, b)), x, w, b


@graph()
def moments(kit):
    x = kit.rand(kit.size(256, 4096), 2048)
    return lambda x: (x.var(1), x.std(1), x.logsumexp(1), x.amax(1), x.norm(dim=1)), x


@graph()
def column_sums(kit):
    return lambda x: ((x * x).sum(0), x.mean(0), x.amin(0)), kit.rand(kit.size(2048, 16384), 512)


@graph(train=True, tolerance=1e-2)
def cross_entropy_training(kit):
    rows, words = kit.size((256, 8000), (2048, 32000))
    return lambda x, y: F.cross_entropy(x, y), kit.rand(rows, words, grad=True), kit.ints(words, rows)


@graph(train=True)
def regression_losses_training(kit):
    n = kit.size(2**18, 2**22)
    x, y = kit.rand(n, grad=True), kit.rand(n)

    def losses(x, y):
        binary = F.binary_cross_entropy_with_logits(x, (y > 0).to(x.dtype))
        return binary + F.smooth_l1_loss(x, y) + F.mse_loss(x, y)
    return losses, x, y


@graph(train=True)
def distillation_training(kit):
    rows = kit.size(256, 4096)

    def loss(x, y):
        return F.kl_div((x / 2).log_softmax(-1), (y / 2).log_softmax(-1), reduction="batchmean", log_target=True)
    return loss, kit.rand(rows, 2000, grad=True), kit.rand(rows, 2000)


@graph(tolerance=1e-2)
def dropout(kit):
    """torch draws other numbers when it compiles, so the share of what is kept is compared."""
    x = kit.rand(kit.size(512, 8192), 2048)
    return lambda x: F.dropout(x + 1, 0.25, training=True).ne(0).to(x.dtype).mean(-1).mean(), x


@graph()
def views(kit):
    x = kit.rand(kit.size(16, 128), 128, 256)
    return lambda x: torch.cat([x.transpose(1, 2).reshape(x.shape[0], -1, 64) * 2, x.flip(2)[..., ::4] + 1], 1), x


@graph()
def transpose(kit):
    x = kit.rand(*kit.size((1024, 1024), (8192, 4096)))
    return lambda x: (x + 1).t().contiguous(), x


@graph()
def integers(kit):
    n = kit.size(2**20, 2**24)
    x, y = kit.ints(2**31 - 1, n, dtype=torch.int32), kit.ints(1000, n, low=1, dtype=torch.int32)
    return lambda x, y: ((x // y) ^ (x % y), (x >> 3) & y, (x.long() * y + 1).abs()), x, y


@graph()
def doubles(kit):
    n = kit.size(2**19, 2**23)
    return lambda x, y: (x.exp() + y.abs()).log1p() * y.cos(), kit.rand(n).double(), kit.rand(n).double()


@graph(tolerance=2e-2)
def casts(kit):
    n = kit.size(2**20, 2**24)
    x, y = kit.rand(n, dtype=BF16), kit.rand(n, dtype=torch.float16)
    return lambda x, y: ((x * 2 + y).to(torch.float16), x.to(torch.int32), (y > x).to(torch.uint8)), x, y


# --- scans, sorts, gathers, scatters ----------------------------------------------------------------------------------
@graph()
def cumsum(kit):
    return lambda x: (x + 1).cumsum(-1) * 0.5, kit.rand(kit.size(256, 4096), 1024)


@graph()
def scans(kit):
    return lambda x: (x.logcumsumexp(-1), (x * 0.01 + 1).cumprod(-1)), kit.rand(kit.size(256, 2048), 512)


@graph()
def sort(kit):
    return lambda x: (x * 2).sort(dim=-1, stable=True), kit.rand(kit.size(512, 8192), 256)


@graph()
def topk(kit):
    return lambda x: x.softmax(-1).topk(8, -1), kit.rand(kit.size(512, 8192), 128)


@graph()
def argmax(kit):
    return lambda x: ((x + 1).argmax(-1), x.argmin(-1), x.argmax(0)), kit.rand(kit.size(512, 4096), 1024)


@graph()
def scatter(kit):
    rows, n, d = kit.size((2048, 4096, 64), (16384, 65536, 128))

    def add(x, index, source):
        return torch.zeros_like(x).index_add(0, index, source * 2) + x
    return add, kit.rand(rows, d), kit.ints(rows, n), kit.rand(n, d)


@graph()
def scatter_elements(kit):
    rows, n, m = kit.size((512, 512, 256), (4096, 1024, 1024))
    x, index, source = kit.rand(rows, n), kit.ints(n, rows, m), kit.rand(rows, m)
    return lambda x, i, s: x.sin().scatter_add(1, i, s.square()), x, index, source


@graph()
def histogram(kit):
    n, bins = kit.size((2**18, 1000), (2**22, 4096))

    def count(x):
        counts = torch.zeros(bins, dtype=torch.int64, device=x.device)
        return counts.index_put((x,), torch.ones_like(x), accumulate=True)
    return count, kit.ints(bins, n)


@graph()
def gather(kit):
    rows, n = kit.size((512, 1024), (8192, 1024))
    x, index = kit.rand(rows, n), kit.ints(n, rows, n)
    return lambda x, i: x.gather(1, i) * 2 + x[:, :1], x, index


@graph(train=True)
def embedding_training(kit):
    words, d, n = kit.size((8000, 128, (8, 128)), (32000, 512, (16, 1024)))
    table, w = kit.rand(words, d, grad=True), kit.rand(d, grad=True)
    i = kit.ints(words, *n)
    return lambda i, table, w: F.layer_norm(F.embedding(i, table), (d,), w).square().mean(), i, table, w


@graph()
def masked_choice(kit):
    x, y = kit.rand(kit.size(512, 4096), 1024), kit.rand(kit.size(512, 4096), 1024)

    def choose(x, y):
        causal = torch.ones(x.shape, dtype=torch.bool, device=x.device).tril()
        return torch.where(causal, x, y).masked_fill(y > 1, -1.0).clamp(-2, 2)
    return choose, x, y
