"""Every kernel of the collection as an operator of torch: `torch.ops.tritium.softmax(x)` and the like.

A row of the table is an operator: its schema, the host function, how `torch.vmap` treats it. Gradients are in
`gradients`, rules for DTensor in `sharding`, both by the operator's name. A new kernel is a row here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch

from tritium.named_tuples import NamedTuple
from tritium.torch import batching, gradients
from tritium.torch.rehearsal import quiet

__all__ = ["OPERATORS", "Row", "register"]


class Row(NamedTuple):
    """One operator: `wrapper` is a module of `tritium.kernels` and its function, called with the arguments in order, or
    a function here. Tensors are made contiguous unless the kernel takes any `strided` ones. `vmap` is a kind of
    `batching`, and `fake` computes shapes where the host function cannot."""

    schema: str
    wrapper: str | Callable
    vmap: str | None = "loop"
    strided: bool = False
    fake: Callable | None = None


def _cross_entropy(logits, target, ignore=-100):
    from tritium.kernels.cross_entropy import cross_entropy

    return cross_entropy(logits, target, False, ignore)[0]


def _cross_entropy_with_gradient(logits, target, ignore=-100):
    from tritium.kernels.cross_entropy import cross_entropy

    return cross_entropy(logits, target, True, ignore)


def _grouped_matmul(a, b):
    from tritium.kernels.grouped_matmul import grouped_matmul

    return grouped_matmul(list(zip(a, b)))


def _compact(x, threshold=0.0):
    from tritium.kernels.compaction import compact

    values, indices = compact(x, threshold)
    return values.clone(), indices.clone()


def _compact_fake(x, threshold=0.0):
    kept = torch.library.get_ctx().new_dynamic_size()
    return x.new_empty(kept), x.new_empty(kept, dtype=torch.int32)


def _mandelbrot(width, height, x=-0.75, y=0.0, span=3.0, limit=100, *, device):
    from tritium.kernels.mandelbrot import mandelbrot

    return mandelbrot(width, height, torch.empty(0, device=device), (x, y), span, limit)


ROWS = {
    "vector_add": Row("(Tensor x, Tensor y) -> Tensor", "vector_add:vector_add", "elementwise"),
    "add_relu_mul": Row("(Tensor x, Tensor bias, float scale) -> Tensor", "add_relu_mul:add_relu_mul", "elementwise"),
    "silu": Row("(Tensor x) -> Tensor", "silu:silu", "elementwise"),
    "dropout": Row("(Tensor x, float p, int seed) -> Tensor", "dropout:dropout"),
    "sum": Row("(Tensor x) -> Tensor", "summation:sum_of"),
    "digit_histogram": Row("(Tensor keys, int shift=0, int bits=8) -> Tensor", "histogram:digit_histogram"),
    "compact": Row("(Tensor x, float threshold=0.0) -> (Tensor values, Tensor indices)", _compact, None,
                   fake=_compact_fake),
    "transpose": Row("(Tensor x) -> Tensor", "transpose:transpose", strided=True),
    "first_column": Row("(Tensor x) -> Tensor", "first_column:first_column", "rows", strided=True),
    "softmax": Row("(Tensor x) -> Tensor", "softmax:softmax", "rows"),
    "softmax_persistent": Row("(Tensor x) -> Tensor", "softmax:persistent", "rows"),
    "rms_norm": Row("(Tensor x, Tensor weight, float eps=1e-06) -> Tensor", "rms_norm:rms_norm", "rows"),
    "rms_norm_vector": Row("(Tensor x, Tensor weight, float eps=1e-06) -> Tensor", "rms_norm:rms_norm_vector"),
    "layer_norm": Row("(Tensor x, Tensor weight, Tensor bias, float eps=1e-05) -> (Tensor out, Tensor mean, "
                      "Tensor rstd)", "layer_norm:layer_norm", "rows"),
    "layer_norm_backward": Row("(Tensor dout, Tensor x, Tensor weight, Tensor mean, Tensor rstd) -> (Tensor dx, "
                               "Tensor dweight, Tensor dbias)", "layer_norm:layer_norm_backward"),
    "cross_entropy": Row("(Tensor logits, Tensor target, int ignore=-100) -> Tensor", _cross_entropy),
    "cross_entropy_with_gradient": Row("(Tensor logits, Tensor target, int ignore=-100) -> (Tensor loss, "
                                       "Tensor gradient)", _cross_entropy_with_gradient),
    "topk": Row("(Tensor x, int k) -> (Tensor values, Tensor indices)", "topk:topk", "rows"),
    "rotary": Row("(Tensor x, Tensor cos, Tensor sin) -> Tensor", "rotary:rotary", "rows"),
    "matmul_plain": Row("(Tensor a, Tensor b, str? precision=None) -> Tensor", "matmul:matmul_plain", "rows",
                        strided=True),
    "matmul": Row("(Tensor a, Tensor b, str activation='', str? precision=None) -> Tensor", "matmul:matmul", "rows",
                  strided=True),
    "matmul_tuned": Row("(Tensor a, Tensor b, str activation='', str? precision=None) -> Tensor",
                        "matmul:matmul_tuned", "rows", strided=True),
    "matmul_persistent": Row("(Tensor a, Tensor b) -> Tensor", "persistent_matmul:persistent_matmul", "rows",
                             strided=True),
    "grouped_matmul": Row("(Tensor[] a, Tensor[] b) -> Tensor[]", _grouped_matmul, None,
                          fake=lambda a, b: [x.new_empty(x.shape[0], y.shape[1]) for x, y in zip(a, b)]),
    "fused_mlp": Row("(Tensor x, Tensor gain, Tensor weight, Tensor bias, float eps=1e-06) -> Tensor",
                     "fused_mlp:fused_mlp", "rows"),
    "conv2d": Row("(Tensor x, Tensor weight, int step=1, int pad=0) -> Tensor", "conv2d:conv2d", "rows"),
    "filter2d": Row("(Tensor x, Tensor weight) -> Tensor", "conv2d:filter2d"),
    "max_pool": Row("(Tensor x, int window=3, int step=2, int pad=0) -> Tensor", "max_pool:max_pool", "leading"),
    "attention": Row("(Tensor q, Tensor k, Tensor v, bool causal=False, float? scale=None) -> (Tensor out, "
                     "Tensor lse)", "attention:attention", "leading"),
    "attention_backward": Row("(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, "
                              "bool causal=False, float? scale=None) -> (Tensor dq, Tensor dk, Tensor dv)",
                              "attention:attention_backward"),
    "mandelbrot": Row("(int width, int height, float x=-0.75, float y=0.0, float span=3.0, int limit=100, *, "
                      "Device device) -> Tensor", _mandelbrot, None),
}

OPERATORS: dict[str, Any] = {}


def _function(row: Row) -> Callable:
    """The host function of a row, on tensors as its kernels take them."""
    def call(*args, **kwargs):
        function = row.wrapper
        if isinstance(function, str):
            module, _, name = function.partition(":")
            function = getattr(importlib.import_module(f"tritium.kernels.{module}"), name)
        return function(*(args if row.strided else map(_contiguous, args)), **kwargs)

    return call


def _contiguous(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return [_contiguous(part) for part in x]
    return x.contiguous() if isinstance(x, torch.Tensor) else x


def register() -> dict[str, Any]:
    """Make the operators, once; by name.

    >>> register()["softmax"](torch.zeros(1, 4))
    tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
    """
    for name, row in ROWS.items():
        if name in OPERATORS:
            continue
        function = _function(row)
        op = torch.library.custom_op(f"tritium::{name}", function, mutates_args=(), schema=row.schema)
        op.register_fake(row.fake or quiet(function))
        if name in gradients.GRADIENTS:
            gradients.register(op, gradients.GRADIENTS[name])
        if row.vmap is not None:
            batching.register(op, row.vmap)
        OPERATORS[name] = op
    return OPERATORS
