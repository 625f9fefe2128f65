"""How DTensor may split the library's operators over devices.

A rule gives, for the arguments of a call, pairs (placements of the results, placements of the tensors among the
arguments); DTensor chooses the one that moves the fewest bytes. That everything is replicated is always one of them.
`Partial` results are sums still to be taken over the devices.

    import tritium.torch.sharding as sharding
    sharding.register()         # once, in every process

The rules are given to `torch.distributed.tensor.experimental.register_sharding` (torch 2.5 and later).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from tritium.locks import once
from tritium.refusals import refusal
from tritium.torch.library import OPERATORS

__all__ = ["RULES", "register"]

Pairs = Sequence[tuple[list, list]]


def _placements() -> Any:
    try:
        import torch.distributed.tensor as placements
        from torch.distributed.tensor.experimental import register_sharding  # noqa: F401
    except ImportError:
        raise refusal(RuntimeError, f"torch {torch.__version__} cannot be told how to shard operators: it has no "
                      "torch.distributed.tensor.experimental.register_sharding",
                      "use torch 2.5 or later, built with distributed; on plain tensors tritium.torch.parallel works "
                      "without DTensor") from None
    return placements


def _shard(axis: int) -> Any:
    return _placements().Shard(axis)


def _whole() -> Any:
    return _placements().Replicate()


def _sum() -> Any:
    return _placements().Partial("sum")


def _is_tensor(x: Any) -> bool:
    """Whether an argument of a rule stands for a tensor: DTensor passes what describes one."""
    return hasattr(x, "shape") and hasattr(x, "ndim")


# -- rules: functions of the arguments ---------------------------------------------------------------------------------


def _elementwise(*args: Any) -> Pairs:
    """Any axis, the same for all."""
    return [([_shard(axis)], [_shard(axis) for x in args if _is_tensor(x)]) for axis in range(args[0].ndim)]


def _rows(along: int = 1, results: int = 1) -> Callable[..., Pairs]:
    """The first axis of the first `along` tensors and of the results; the other tensors are whole."""
    def rule(*args: Any) -> Pairs:
        count = sum(map(_is_tensor, args))
        return [([_shard(0)] * results, [_shard(0)] * along + [_whole()] * (count - along))]

    return rule


def _leading(trailing: int, along: int, results: int = 1) -> Callable[..., Pairs]:
    """All axes but the last ones, for the first `along` tensors and the results."""
    def rule(*args: Any) -> Pairs:
        count = sum(map(_is_tensor, args))
        return [([_shard(axis)] * results, [_shard(axis)] * along + [_whole()] * (count - along))
                for axis in range(args[0].ndim - trailing)]

    return rule


def _matmul(a: Any, b: Any, activation: str = "", *rest: Any) -> Pairs:
    """Rows of A, columns of B, or both along what is summed over: then results are parts of a sum."""
    pairs = [([_shard(0)], [_shard(0), _whole()]), ([_shard(1)], [_whole(), _shard(1)])]
    return pairs if activation == "leaky_relu" else [*pairs, ([_sum()], [_shard(1), _shard(0)])]


def _fused_mlp(*args: Any) -> Pairs:
    """Rows of x, or outputs: rows of the weight and the bias."""
    return [([_shard(0)], [_shard(0), _whole(), _whole(), _whole()]),
            ([_shard(1)], [_whole(), _whole(), _shard(0), _shard(0)])]


def _conv2d(*args: Any) -> Pairs:
    """Images, or output channels."""
    return [([_shard(0)], [_shard(0), _whole()]), ([_shard(1)], [_whole(), _shard(0)])]


def _rotary(*args: Any) -> Pairs:
    """Batch, heads, or positions with their angles."""
    return [*(([_shard(axis)], [_shard(axis), _whole(), _whole()]) for axis in (0, 2)),
            ([_shard(1)], [_shard(1), _shard(0), _shard(0)])]


def _sums(x: Any, *rest: Any) -> Pairs:
    """Each device counts its part."""
    return [([_sum()], [_shard(axis)]) for axis in range(x.ndim)]


def _transpose(*args: Any) -> Pairs:
    return [([_shard(1)], [_shard(0)]), ([_shard(0)], [_shard(1)])]


def _layer_norm_backward(*args: Any) -> Pairs:
    """Rows; the gradients of weight and bias are sums over them."""
    return [([_shard(0), _sum(), _sum()], [_shard(0), _shard(0), _whole(), _shard(0), _shard(0)])]


def _replicated(*args: Any) -> Pairs:
    """No way but whole."""
    return []


# Dropout draws by the place in the whole tensor, `compact` and `grouped_matmul` have results that no rule describes.
RULES: dict[str, Callable[..., Pairs]] = {
    "vector_add": _elementwise,
    "add_relu_mul": _elementwise,
    "silu": _elementwise,
    "dropout": _replicated,
    "sum": _sums,
    "digit_histogram": _sums,
    "transpose": _transpose,
    "first_column": _rows(),
    "softmax": _rows(),
    "softmax_persistent": _rows(),
    "rms_norm": _rows(),
    "rms_norm_vector": _replicated,
    "layer_norm": _rows(results=3),
    "layer_norm_backward": _layer_norm_backward,
    "cross_entropy": _rows(2),
    "cross_entropy_with_gradient": _rows(2, results=2),
    "topk": _rows(results=2),
    "rotary": _rotary,
    "matmul": _matmul,
    "matmul_plain": lambda a, b, *rest: _matmul(a, b),
    "matmul_tuned": _matmul,
    "matmul_persistent": _matmul,
    "fused_mlp": _fused_mlp,
    "conv2d": _conv2d,
    "filter2d": _leading(2, 1),
    "max_pool": _leading(2, 1),
    "attention": _leading(2, 3, results=2),
    "attention_backward": _leading(2, 6, results=3),
}


@once
def register() -> None:
    """Tell DTensor the rules, once in a process."""
    _placements()
    from torch.distributed.tensor.experimental import register_sharding

    for name, rule in RULES.items():
        register_sharding(OPERATORS[name]._opoverload)(_complete(name, rule))


def _complete(name: str, rule: Callable[..., Pairs]) -> Callable[..., Pairs]:
    """A rule as DTensor wants it: with all whole as one choice, and None for arguments that are no tensors."""
    results = len(OPERATORS[name]._opoverload._schema.returns)

    def complete(*args: Any, **kwargs: Any) -> Pairs:
        given = [*args, *kwargs.values()]
        count = sum(map(_is_tensor, given))
        pairs = [([_whole()] * results, [_whole()] * count), *rule(*args, **kwargs)]
        out = []
        for done, wanted in pairs:
            left = iter(wanted)
            out.append((list(done), [next(left) if _is_tensor(x) else None for x in given]))
        return out

    return complete
