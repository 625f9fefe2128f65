"""The gradients of the library's operators: by kernels where there is one for it, else by torch's own operators.

A `Gradient` says which arguments and results the backward pass needs, and computes from them, and from the gradients of
the results, those of the arguments. Arguments that nobody wants the gradient of are not in `saved.needs`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from tritium.named_tuples import NamedTuple

__all__ = ["GRADIENTS", "Gradient", "register", "rms_norm_gradient"]

ops = torch.ops.tritium


class Gradient(NamedTuple):
    """What is kept, as names of arguments and `out0`, `out1`; and the function of (saved, *gradients of results) that
    gives the gradients of arguments by name."""

    keep: str
    backward: Callable[..., dict[str, Any]]


def register(op: Any, gradient: Gradient) -> None:
    """Have torch's autograd use a gradient for an operator."""
    names = [argument.name for argument in op._opoverload._schema.arguments]
    keep = gradient.keep.split()

    def setup(ctx, inputs, output) -> None:
        results = output if isinstance(output, (tuple, list)) else (output,)
        known = {**dict(zip(names, inputs)), **{f"out{k}": x for k, x in enumerate(results)}}
        kept = {name: known[name] for name in keep}
        ctx.tensors = [name for name, x in kept.items() if isinstance(x, torch.Tensor)]
        ctx.others = {name: x for name, x in kept.items() if name not in ctx.tensors}
        ctx.save_for_backward(*(kept[name] for name in ctx.tensors))
        ctx.set_materialize_grads(True)

    def backward(ctx, *grads):
        needs = {name for name, needed in zip(names, ctx.needs_input_grad) if needed}
        saved = SimpleNamespace(**dict(zip(ctx.tensors, ctx.saved_tensors)), **ctx.others, needs=needs)
        found = gradient.backward(saved, *grads)
        return tuple(found.get(name) for name in names)

    op.register_autograd(backward, setup_context=setup)


# -- element by element ------------------------------------------------------------------------------------------------


def _add_relu_mul(s, d):
    each = torch.where(s.out0 != 0, d * s.scale, 0)
    return {"x": each, "bias": each}


def _silu(s, d):
    y = torch.sigmoid(s.x.float())
    return {"x": (d.float() * y * (1 + s.x.float() * (1 - y))).to(s.x.dtype)}


def _first_column(s, d):
    return {"x": torch.cat([d[:, None], d.new_zeros(d.shape[0], s.columns - 1)], 1)}


# -- rows --------------------------------------------------------------------------------------------------------------


def _softmax(s, d):
    y, d32 = s.out0.float(), d.float()
    return {"x": (y * (d32 - (d32 * y).sum(-1, keepdim=True))).to(d.dtype)}


def rms_norm_gradient(d: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, eps: float) -> tuple:
    """The gradients of rows and of weight of an RMS norm, for that of its result.

    >>> d, x, weight = torch.ones(1, 2), torch.ones(1, 2), torch.ones(2)
    >>> rms_norm_gradient(d, x, weight, 0.0)
    (tensor([[0., 0.]]), tensor([1., 1.]))
    """
    x32, d32, weight32 = x.float(), d.float(), weight.float()
    scale = torch.rsqrt((x32 * x32).mean(-1, keepdim=True) + eps)
    xhat, wd = x32 * scale, d32 * weight32
    dx = (wd - xhat * (wd * xhat).mean(-1, keepdim=True)) * scale
    dweight = (d32 * xhat).reshape(-1, weight.shape[0]).sum(0)
    return dx.to(x.dtype), dweight.to(weight.dtype)


def _rms_norm(s, d):
    dx, dweight = rms_norm_gradient(d, s.x, s.weight, s.eps)
    return {"x": dx, "weight": dweight}


def _layer_norm(s, d, _mean, _rstd):
    dx, dweight, dbias = ops.layer_norm_backward(d, s.x, s.weight, s.out1, s.out2)
    return {"x": dx, "weight": dweight, "bias": dbias}


def _cross_entropy(s, d):
    gradient = ops.cross_entropy_with_gradient(s.logits, s.target, s.ignore)[1]
    return {"logits": gradient * d[:, None].to(gradient.dtype)}


def _topk(s, d, _indices):
    out = torch.zeros(d.shape[0], s.x.shape[1], dtype=d.dtype, device=d.device)
    return {"x": out.scatter(1, s.out1.long(), d).to(s.x.dtype)}


# -- products ----------------------------------------------------------------------------------------------------------


def _matmul(s, d):
    if getattr(s, "activation", "") == "leaky_relu":
        d = torch.where(s.out0 >= 0, d, 0.01 * d)
    d, found = d.to(s.a.dtype), {}
    if "a" in s.needs:
        found["a"] = ops.matmul(d, s.b.t(), "", getattr(s, "precision", "ieee"))
    if "b" in s.needs:
        found["b"] = ops.matmul(s.a.t(), d, "", getattr(s, "precision", "ieee"))
    return found


def _fused_mlp(s, d):
    x, d32, gain = s.x.float(), d.float(), s.gain.float()
    scale = torch.rsqrt((x * x).mean(-1, keepdim=True) + s.eps)
    xhat = x * scale
    y = xhat * gain
    normal = 0.5 * (1 + torch.erf(y * 0.5**0.5))
    bell = torch.exp(-0.5 * y * y) * 0.3989422804014327
    active = (y * normal).to(s.weight.dtype)
    found = {"bias": d32.sum(0).to(s.bias.dtype)}
    if "weight" in s.needs:
        found["weight"] = ops.matmul(d.t(), active, "", "ieee")
    if s.needs & {"x", "gain"}:
        dy = ops.matmul(d.to(s.weight.dtype), s.weight, "", "ieee").float() * (normal + y * bell)
        found["gain"] = (dy * xhat).sum(0).to(s.gain.dtype)
        wd = dy * gain
        found["x"] = ((wd - xhat * (wd * xhat).mean(-1, keepdim=True)) * scale).to(s.x.dtype)
    return found


# -- images ------------------------------------------------------------------------------------------------------------


def _conv2d(s, d):
    mask = ["x" in s.needs, "weight" in s.needs, False]
    dx, dweight, _ = torch.ops.aten.convolution_backward(d, s.x, s.weight, None, [s.step] * 2, [s.pad] * 2, [1, 1],
                                                         False, [0, 0], 1, mask)
    return {"x": dx, "weight": dweight}


def _filter2d(s, d):
    planes = s.x.reshape(-1, 1, *s.x.shape[-2:])
    mask = ["x" in s.needs, "weight" in s.needs, False]
    dx, dweight, _ = torch.ops.aten.convolution_backward(
        d.reshape(-1, 1, *d.shape[-2:]), planes, s.weight[None, None], None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1,
        mask)
    return {"x": None if dx is None else dx.reshape(s.x.shape),
            "weight": None if dweight is None else dweight.reshape(s.weight.shape)}


def _max_pool(s, d):
    """The gradient goes to the first of equal elements, as torch has it."""
    planes, how = s.x.reshape(1, -1, *s.x.shape[-2:]), ([s.window] * 2, [s.step] * 2, [s.pad] * 2, [1, 1], False)
    places = torch.ops.aten.max_pool2d_with_indices(planes, *how)[1]
    dx = torch.ops.aten.max_pool2d_with_indices_backward(d.reshape(places.shape), planes, *how, places)
    return {"x": dx.reshape(s.x.shape)}


# -- attention ---------------------------------------------------------------------------------------------------------


def _attention(s, d, _lse):
    dq, dk, dv = ops.attention_backward(d, s.q, s.k, s.v, s.out0, s.out1, s.causal, s.scale)
    return {"q": dq, "k": dk, "v": dv}


GRADIENTS = {
    "vector_add": Gradient("", lambda s, d: {"x": d, "y": d}),
    "add_relu_mul": Gradient("out0 scale", _add_relu_mul),
    "silu": Gradient("x", _silu),
    "dropout": Gradient("p seed", lambda s, d: {"x": ops.dropout(d, s.p, s.seed)}),
    "sum": Gradient("x", lambda s, d: {"x": d.to(s.x.dtype).expand(s.x.shape)}),
    "transpose": Gradient("", lambda s, d: {"x": ops.transpose(d)}),
    "first_column": Gradient("x", lambda s, d: _first_column(SimpleNamespace(columns=s.x.shape[1]), d)),
    "softmax": Gradient("out0", _softmax),
    "softmax_persistent": Gradient("out0", _softmax),
    "rms_norm": Gradient("x weight eps", _rms_norm),
    "rms_norm_vector": Gradient("x weight eps", _rms_norm),
    "layer_norm": Gradient("x weight out1 out2", _layer_norm),
    "cross_entropy": Gradient("logits target ignore", _cross_entropy),
    "topk": Gradient("x out1", _topk),
    "rotary": Gradient("cos sin", lambda s, d: {"x": ops.rotary(d, s.cos, -s.sin)}),
    "matmul_plain": Gradient("a b precision", _matmul),
    "matmul": Gradient("a b activation precision out0", _matmul),
    "matmul_tuned": Gradient("a b activation precision out0", _matmul),
    "matmul_persistent": Gradient("a b", _matmul),
    "fused_mlp": Gradient("x gain weight bias eps", _fused_mlp),
    "conv2d": Gradient("x weight step pad", _conv2d),
    "filter2d": Gradient("x weight", _filter2d),
    "max_pool": Gradient("x window step pad", _max_pool),
    "attention": Gradient("q k v causal scale out0 out1", _attention),
}
