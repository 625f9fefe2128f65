"""The instructions of TMA: boxes of tensors to and from shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .statements import statement

if TYPE_CHECKING:
    from ...llvm.writer import Val
    from .lowering import NvLowering


def fetch_map(g: NvLowering, tensor: Val) -> None:
    """Have TMA read what it must know of a tensor, before it is asked to copy."""
    statement(g, "prefetch.tensormap [$0];", tensor)


def copy_box(g: NvLowering, target: Val, tensor: Val, coordinates: Sequence[Val], barrier: Val,
             blocks: int = 1) -> None:
    """Have a box copied to shared memory; `coordinates` of its start, slowest axis first. The box is
    multicast to `blocks` blocks of the cluster: to `target` in each, and `barrier` in each counts its bytes."""
    rank = len(coordinates)
    listed = ", ".join(f"${3 + k}" for k in range(rank))
    how = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    body, values = f"[$0], [$1, {{{listed}}}], [$2]", [target, tensor, barrier, *reversed(coordinates)]
    if blocks > 1:
        how, body = f"{how}.multicast::cluster", f"{body}, ${3 + rank}"
        values.append(g.const("i16", (1 << blocks) - 1))
    statement(g, f"{how} {body};", *values)


def store_box(g: NvLowering, tensor: Val, coordinates: Sequence[Val], source: Val, how: str | None) -> None:
    """Have a box written from shared memory, or combined with what is there (`how`)."""
    rank = len(coordinates)
    listed = ", ".join(f"${2 + k}" for k in range(rank))
    start, kind = ("cp.reduce.async", f".{how}") if how else ("cp.async", "")
    body = f"{start}.bulk.tensor.{rank}d.global.shared::cta{kind}.tile.bulk_group [$0, {{{listed}}}], [$1];"
    statement(g, body, tensor, source, *reversed(coordinates))


def end_boxes(g: NvLowering) -> None:
    """Close a group of boxes that are written."""
    statement(g, "cp.async.bulk.commit_group;")


def await_boxes(g: NvLowering, pending: int, written: bool) -> None:
    """Wait until all but `pending` groups have been read from shared memory, or have been `written` too."""
    statement(g, f"cp.async.bulk.wait_group{'' if written else '.read'} {pending};")
