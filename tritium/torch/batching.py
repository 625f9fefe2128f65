"""The library's operators under `torch.vmap`: the batch goes where the kernel has room for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

__all__ = ["register"]


def register(op: Any, kind: str) -> None:
    """Have `torch.vmap` of an operator work in one of these ways.

    elementwise: tensors of one shape, of which any may have the batch as an axis more.
    leading: the first tensors have any number of leading axes, and the batch becomes one; the others have none.
    rows: the first argument is a matrix of rows that are worked on alone; the batch gives more of them.
    loop: one call for each member, whose results are stacked. All fall back to this where their rule does not apply.
    """
    rule = {"elementwise": _elementwise, "leading": _leading, "rows": _rows, "loop": _loop}[kind]

    def batched(info, in_dims, *args):
        front = [x.movedim(dim, 0) if dim is not None and isinstance(x, torch.Tensor) else x
                 for x, dim in zip(args, in_dims)]
        has = [dim is not None for dim in in_dims]
        results = rule(op, info.batch_size, has, front)
        if results is None:
            results = _loop(op, info.batch_size, has, front)
        return results, (0,) * len(results) if isinstance(results, (tuple, list)) else 0

    op.register_vmap(batched)


def _elementwise(op: Callable, size: int, has: list[bool], args: list) -> Any:
    return op(*(x if batched or not isinstance(x, torch.Tensor) else x.expand(size, *x.shape)
                for batched, x in zip(has, args)))


def _leading(op: Callable, size: int, has: list[bool], args: list) -> Any:
    """Tensors of as many axes as the first go along with it; where another has the batch, there is no room for it."""
    rank = args[0].dim() - has[0]
    along = [isinstance(x, torch.Tensor) and x.dim() - batched == rank for batched, x in zip(has, args)]
    if any(batched and not goes for batched, goes in zip(has, along)):
        return None
    return op(*(x if batched or not goes else x.expand(size, *x.shape) for batched, goes, x in zip(has, along, args)))


def _rows(op: Callable, size: int, has: list[bool], args: list) -> Any:
    if not has[0] or any(has[1:]):
        return None
    results = op(args[0].flatten(0, 1), *args[1:])
    several = isinstance(results, (tuple, list))
    apart = tuple(x.unflatten(0, (size, -1)) for x in (results if several else (results,)))
    return apart if several else apart[0]


def _loop(op: Callable, size: int, has: list[bool], args: list) -> Any:
    results = [op(*(x[k] if batched else x for batched, x in zip(has, args))) for k in range(size)]
    if isinstance(results[0], (tuple, list)):
        return tuple(torch.stack(parts) for parts in zip(*results))
    return torch.stack(results)
