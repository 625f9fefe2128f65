"""For each operator of the library: arguments to call it with, and what torch computes for them."""

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F


class Sample(NamedTuple):
    """Arguments, and the reference; `grads` are the positions of arguments to compare the gradients of."""

    args: tuple
    reference: Any
    grads: tuple = ()
    kwargs: dict | None = None
    tolerance: float = 2e-4


def normal(device, *shape):
    return torch.randn(shape, device=device)


def rms(x, weight, eps=1e-6):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def layer_norm(x, weight, bias):
    mean = x.mean(-1)
    rstd = torch.rsqrt(x.var(-1, unbiased=False) + 1e-5)
    return F.layer_norm(x, weight.shape, weight, bias), mean, rstd


def scores(q, k, causal, scale):
    s = q @ k.transpose(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    return s.masked_fill(~torch.ones_like(s).tril().bool(), -math.inf) if causal else s


def attention(q, k, v, causal=False, scale=None):
    s = scores(q, k, causal, scale)
    return s.softmax(-1) @ v, s.logsumexp(-1) / math.log(2)


def rotary(x, cos, sin):
    a, b = x.chunk(2, -1)
    cos, sin = cos[None, :, None], sin[None, :, None]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def fused_mlp(x, gain, weight, bias):
    return F.linear(F.gelu(rms(x, gain)), weight, bias)


def topk(x, k):
    values, indices = torch.topk(x, k)
    return values, indices.int()


def cross_entropy(logits, target, ignore=-100):
    return F.cross_entropy(logits, target, ignore_index=ignore, reduction="none")


def cross_entropy_gradient(logits, target):
    one = F.one_hot(target, logits.shape[1])
    return cross_entropy(logits, target), logits.softmax(1) - one


def compact(x, threshold):
    at = torch.nonzero(x > threshold)[:, 0]
    return x[at], at.int()


def vjp(function, count):
    """The gradients of a function at the arguments behind the gradient of its first result."""
    def reference(d, *args):
        inputs = [x.detach().requires_grad_() for x in args[:count]]
        out = function(*inputs)
        return torch.autograd.grad(out[0] if isinstance(out, tuple) else out, inputs, d)

    return reference


def samples(device):
    """{operator: Sample}, the values the same each time."""
    torch.manual_seed(11)
    def n(*shape):
        return normal(device, *shape)

    x, row, heads = n(5, 33), n(33), n(2, 3, 20, 16)
    k, v = n(2, 3, 20, 16), n(2, 3, 20, 16)
    out, lse = attention(heads, k, v)
    a, b, d = n(40, 24), n(24, 56), n(5, 33)
    target = torch.randint(0, 33, (5,), device=device)
    angle = n(7, 8)
    mean, rstd = layer_norm(x, row, row)[1:]
    return {
        "vector_add": Sample((x, d), torch.add, (0, 1)),
        "add_relu_mul": Sample((x, d, 0.5), lambda x, b, s: F.relu(x + b) * s, (0, 1)),
        "silu": Sample((x,), F.silu, (0,)),
        "dropout": Sample((x, 0.25, 7), None, (0,)),
        "sum": Sample((x,), lambda x: x.sum()[None], (0,)),
        "digit_histogram": Sample((target.int(), 0, 4), lambda t, s, b: torch.bincount(t & 15, minlength=16).int()),
        "compact": Sample((row, 0.1), compact),
        "transpose": Sample((x,), lambda x: x.t().contiguous(), (0,)),
        "first_column": Sample((x,), lambda x: x[:, 0].clone(), (0,)),
        "softmax": Sample((x,), lambda x: x.softmax(1), (0,)),
        "softmax_persistent": Sample((x,), lambda x: x.softmax(1), (0,)),
        "rms_norm": Sample((x, row), rms, (0, 1)),
        "rms_norm_vector": Sample((row, n(33)), rms, (0, 1)),
        "layer_norm": Sample((x, row, n(33)), layer_norm, (0, 1, 2)),
        "layer_norm_backward": Sample((d, x, row, mean, rstd), lambda d, x, w, m, r: vjp(
            lambda x, w, b: layer_norm(x, w, b)[0], 3)(d, x, w, torch.zeros_like(w))),
        "cross_entropy": Sample((x, target), cross_entropy, (0,)),
        "cross_entropy_with_gradient": Sample((x, target), cross_entropy_gradient),
        "topk": Sample((x, 5), topk, (0,)),
        "rotary": Sample((n(2, 7, 3, 16), angle.cos(), angle.sin()), rotary, (0,)),
        "matmul_plain": Sample((a, b, "ieee"), lambda a, b, p: a @ b, (0, 1)),
        "matmul": Sample((a, b, "leaky_relu", "ieee"), lambda a, b, f, p: F.leaky_relu(a @ b), (0, 1)),
        "matmul_tuned": Sample((a, b, "", "ieee"), lambda a, b, f, p: a @ b, (0, 1)),
        "matmul_persistent": Sample((a, b), torch.matmul, (0, 1)),
        "grouped_matmul": Sample(([a, x], [b, n(33, 9)]), lambda a, b: [p @ q for p, q in zip(a, b)]),
        "fused_mlp": Sample((x, row, n(12, 33), n(12)), fused_mlp, (0, 1, 2, 3)),
        "conv2d": Sample((n(2, 3, 9, 10), n(4, 3, 3, 3), 2, 1), lambda x, w, s, p: F.conv2d(x, w, None, s, p), (0, 1)),
        "filter2d": Sample((n(2, 9, 10), n(3, 2)), lambda x, w: F.conv2d(x[:, None], w[None, None])[:, 0], (0, 1)),
        "max_pool": Sample((n(2, 9, 10), 3, 2, 1), F.max_pool2d, (0,)),
        "attention": Sample((heads, k, v, True, 0.3), attention, (0, 1, 2)),
        "attention_backward": Sample((v, heads, k, v, out, lse),
                                     lambda d, q, k, v, o, l: vjp(attention, 3)(d, q, k, v)),
        "mandelbrot": Sample((8, 6), None, kwargs={"device": torch.device(device)}),
    }
