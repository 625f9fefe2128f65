"""The instructions of TMA: boxes of tensors to and from shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...llvm.writer import Val
    from .lowering import NvLowering


def fetch_map(g: NvLowering, tensor: Val) -> None:
    """Have TMA read what it must know of a tensor, before it is asked to copy."""
    g.w.effect(f'call void asm sideeffect "prefetch.tensormap [$0];", "l,~{{memory}}"({tensor.typed})')


def copy_box(g: NvLowering, target: Val, tensor: Val, coordinates: Sequence[Val], barrier: Val,
             blocks: int = 1) -> None:
    """Have a box copied to shared memory; `coordinates` of its start, slowest axis first. The box is
    multicast to `blocks` blocks of the cluster: to `target` in each, and `barrier` in each counts its bytes."""
    rank = len(coordinates)
    listed = ", ".join(f"${3 + k}" for k in range(rank))
    how = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    body, letters = f"[$0], [$1, {{{listed}}}], [$2]", f"r,l,r{',r' * rank}"
    values = [target, tensor, barrier, *reversed(coordinates)]
    if blocks > 1:
        how, body, letters = f"{how}.multicast::cluster", f"{body}, ${3 + rank}", f"{letters},h"
        values.append(g.const("i16", (1 << blocks) - 1))
    arguments = ", ".join(x.typed for x in values)
    g.w.effect(f'call void asm sideeffect "{how} {body};", "{letters},~{{memory}}"({arguments})')


def store_box(g: NvLowering, tensor: Val, coordinates: Sequence[Val], source: Val, how: str | None) -> None:
    """Have a box written from shared memory, or combined with what is there (`how`)."""
    rank = len(coordinates)
    listed = ", ".join(f"${2 + k}" for k in range(rank))
    start, kind = ("cp.reduce.async", f".{how}") if how else ("cp.async", "")
    body = f"{start}.bulk.tensor.{rank}d.global.shared::cta{kind}.tile.bulk_group [$0, {{{listed}}}], [$1];"
    arguments = ", ".join(x.typed for x in (tensor, source, *reversed(coordinates)))
    g.w.effect(f'call void asm sideeffect "{body}", "l,r{",r" * rank},~{{memory}}"({arguments})')


def end_boxes(g: NvLowering) -> None:
    """Close a group of boxes that are written."""
    g.w.effect('call void asm sideeffect "cp.async.bulk.commit_group;", "~{memory}"()')


def await_boxes(g: NvLowering, pending: int, written: bool) -> None:
    """Wait until all but `pending` groups have been read from shared memory, or have been `written` too."""
    body = f"cp.async.bulk.wait_group{'' if written else '.read'} {pending};"
    g.w.effect(f'call void asm sideeffect "{body}", "~{{memory}}"()')
