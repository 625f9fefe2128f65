"""Products, norms and attention that are split over the processes of a `torch.distributed` job.

Each process holds a part of the weights, or of the sequence, and calls the same function. Processes talk through a
process group: gloo on CPUs, NCCL on GPUs. All functions have gradients. DTensor does the same with rules (`sharding`);
here the communication is written out, and overlaps with computing.

    column_parallel(x, weight)          x whole, columns of the weight here: columns of the result here
    row_parallel(x, weight)             columns of x here, rows of the weight here: the whole result, summed
    row_parallel_norm(x, weight, gain)  the same, and its RMS norm
    ring_attention(q, k, v)             a stretch of the sequence here: attention over all of it
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from tritium.refusals import refusal
from tritium.torch.gradients import rms_norm_gradient
from tritium.torch.library import OPERATORS

__all__ = ["column_parallel", "ring_attention", "row_parallel", "row_parallel_norm"]


def _matmul(a: torch.Tensor, b: torch.Tensor, precision: str | None) -> torch.Tensor:
    return OPERATORS["matmul"](a, b, "", precision)


def _check_job() -> None:
    if not (dist.is_available() and dist.is_initialized()):
        raise refusal(RuntimeError, "there is no process group to talk through",
                      'start the program with torchrun, and call torch.distributed.init_process_group("gloo") or '
                      '("nccl") first')


def _size(group: Any) -> int:
    return dist.get_world_size(group)


# -- products ----------------------------------------------------------------------------------------------------------


class _ColumnParallel(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, group, precision):  # type: ignore[override]
        ctx.save_for_backward(x, weight)
        ctx.group, ctx.precision = group, precision
        return _matmul(x, weight, precision)

    @staticmethod
    def backward(ctx, d):  # type: ignore[override]
        x, weight = ctx.saved_tensors
        dx, handle = None, None
        if ctx.needs_input_grad[0]:  # its sum travels while the other product is computed
            dx = _matmul(d, weight.t(), ctx.precision)
            handle = dist.all_reduce(dx, group=ctx.group, async_op=True)
        dweight = _matmul(x.t(), d, ctx.precision) if ctx.needs_input_grad[1] else None
        if handle is not None:
            handle.wait()
        return dx, dweight, None, None


def column_parallel(x: torch.Tensor, weight: torch.Tensor, group: Any = None,
                    precision: str | None = None) -> torch.Tensor:
    """`x @ weight`, whose columns are here; x is the same in all processes. The backward pass sums its gradient."""
    _check_job()
    return _ColumnParallel.apply(x, weight, group, precision)


class _RowParallel(torch.autograd.Function):
    """The sum over processes of `x @ weight`, with a residual added and its RMS norm where they are given."""

    @staticmethod
    def forward(ctx, x, weight, residual, gain, eps, group, chunks, precision):  # type: ignore[override]
        pieces = x.chunk(chunks)
        added = [None] * len(pieces) if residual is None else residual.chunk(chunks)
        travelling = []
        for piece in pieces:  # while a piece is summed over the processes, the next is computed
            part = _matmul(piece, weight, precision)
            travelling.append((part, dist.all_reduce(part, group=group, async_op=True)))
        sums, normed = [], []
        for (part, handle), extra in zip(travelling, added):
            handle.wait()
            sums.append(part if extra is None else part.add_(extra))
            if gain is not None:  # rows are normed alone, so the first need not wait for the last
                normed.append(OPERATORS["rms_norm"](sums[-1], gain, eps))
        out = torch.cat(sums) if len(sums) > 1 else sums[0]
        ctx.eps, ctx.precision, ctx.has_residual = eps, precision, residual is not None
        ctx.save_for_backward(x, weight, *(() if gain is None else (gain, out)))
        if gain is None:
            return out
        return out, torch.cat(normed) if len(normed) > 1 else normed[0]

    @staticmethod
    def backward(ctx, d, *dnormed):  # type: ignore[override]
        x, weight, *rest = ctx.saved_tensors
        dgain = None
        if rest:
            gain, out = rest
            through, dgain = rms_norm_gradient(dnormed[0], out, gain, ctx.eps)
            d = d + through
        dx = _matmul(d, weight.t(), ctx.precision) if ctx.needs_input_grad[0] else None
        dweight = _matmul(x.t(), d, ctx.precision) if ctx.needs_input_grad[1] else None
        return dx, dweight, d if ctx.has_residual else None, dgain, None, None, None, None


def row_parallel(x: torch.Tensor, weight: torch.Tensor, group: Any = None, chunks: int = 1,
                 precision: str | None = None) -> torch.Tensor:
    """The sum over all processes of `x @ weight`: columns of x and rows of the weight are here.

    With `chunks` > 1, the rows go in that many pieces: the sum of one travels while the next is computed.
    """
    _check_job()
    return _RowParallel.apply(x, weight, None, None, 0.0, group, chunks, precision)


def row_parallel_norm(x: torch.Tensor, weight: torch.Tensor, gain: torch.Tensor,
                      residual: torch.Tensor | None = None, eps: float = 1e-6, group: Any = None, chunks: int = 1,
                      precision: str | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """`row_parallel`, plus the residual, and the RMS norm of that: what ends a layer and begins the next.

    A piece is normed as soon as it has arrived. The gain and the residual are the same in all processes.
    """
    _check_job()
    return _RowParallel.apply(x, weight, residual, gain, eps, group, chunks, precision)


# -- attention ---------------------------------------------------------------------------------------------------------


def _turn(x: torch.Tensor, group: Any) -> tuple[torch.Tensor, list]:
    """Begin to send a tensor to the next process of the ring; what comes from the one before, and what to wait for."""
    rank, size = dist.get_rank(group), _size(group)
    peers = [dist.get_global_rank(group, k % size) if group is not None else k % size for k in (rank + 1, rank - 1)]
    into = torch.empty_like(x)
    return into, dist.batch_isend_irecv([dist.P2POp(dist.isend, x, peers[0], group),
                                         dist.P2POp(dist.irecv, into, peers[1], group)])


def _merged(out, lse, part, part_lse):
    """Two results over different keys as one over all: weighed by the sums of their exponentials (base 2)."""
    total = torch.logaddexp2(lse, part_lse)
    return (out * torch.exp2(lse - total)[..., None] + part * torch.exp2(part_lse - total)[..., None]), total


class _Ring(torch.autograd.Function):
    """Keys and values go round; each process adds what its queries see of them."""

    @staticmethod
    def forward(ctx, q, k, v, causal, scale, group):  # type: ignore[override]
        rank, size = dist.get_rank(group), _size(group)
        keys_values, out, lse = torch.stack([k, v]), None, None
        for step in range(size):
            owner = (rank - step) % size
            coming, handles = _turn(keys_values, group) if step + 1 < size else (keys_values, [])
            if not causal or owner <= rank:
                part, part_lse = OPERATORS["attention"](q, *keys_values.unbind(), causal and owner == rank, scale)
                part = part.float()
                out, lse = (part, part_lse) if out is None else _merged(out, lse, part, part_lse)
            for handle in handles:
                handle.wait()
            keys_values = coming
        assert out is not None and lse is not None
        out = out.to(q.dtype)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.how = causal, scale, group
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(ctx, d, _):  # type: ignore[override]
        q, k, v, out, lse = ctx.saved_tensors
        causal, scale, group = ctx.how
        rank, size = dist.get_rank(group), _size(group)
        dq = torch.zeros_like(q, dtype=torch.float32)
        # Keys, values and their gradients so far, in one tensor: after a whole turn they are home again.
        going = torch.stack([k, v, torch.zeros_like(k), torch.zeros_like(v)]).float()
        for step in range(size):
            owner = (rank - step) % size
            if not causal or owner <= rank:
                k, v = going[0].to(q.dtype), going[1].to(q.dtype)
                more = OPERATORS["attention_backward"](d, q, k, v, out, lse, causal and owner == rank, scale)
                dq += more[0]
                going[2] += more[1]
                going[3] += more[2]
            if size > 1:
                going, handles = _turn(going, group)
                for handle in handles:
                    handle.wait()
        return dq.to(q.dtype), going[2].to(q.dtype), going[3].to(q.dtype), None, None, None


def ring_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, scale: float | None = None,
                   group: Any = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention over a sequence whose stretches lie in the processes, in their order: (result, base-2 row logarithms).

    q, k and v are (..., sequence / processes, D), equally long in all of them. Keys and values go round while products
    are computed, so no process ever holds the whole sequence.
    """
    _check_job()
    return _Ring.apply(q, k, v, causal, scale, group)
