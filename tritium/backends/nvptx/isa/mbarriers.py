"""Barriers in shared memory that count arrivals and bytes (mbarrier)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .cluster_memory import address_in_block
from .statements import statement

if TYPE_CHECKING:
    from ...llvm.writer import Val
    from .lowering import NvLowering


def start_phases(g: NvLowering, barrier: Val, arrivals: int) -> None:
    """Make a barrier of 8 bytes; TMA knows of it once the threads have met."""
    statement(g, f"mbarrier.init.shared::cta.b64 [$0], {arrivals}; fence.mbarrier_init.release.cluster;", barrier)


def arrive(g: NvLowering, barrier: Val) -> None:
    """Arrive at a barrier of this block."""
    statement(g, "mbarrier.arrive.shared::cta.b64 _, [$0];", barrier)


def arrive_at(g: NvLowering, barrier: Val, rank: Val) -> None:
    """Arrive at the barrier that lies so in another block of the cluster. No memory but what copies have brought
    goes with it: releasing it to the cluster would wait for all writes of the thread."""
    statement(g, "mbarrier.arrive.shared::cluster.b64 _, [$0];", address_in_block(g, barrier, rank))


def expect(g: NvLowering, barrier: Val, size: int) -> None:
    """Announce bytes that copies will bring."""
    statement(g, f"mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [$0], {size};", barrier)


def phase_over(g: NvLowering, barrier: Val, parity: Val) -> Val:
    """i1: the barrier is through with a phase of this parity; it may take a moment to answer no."""
    body = "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [$1], $2; selp.b32 $0, 1, 0, p; }"
    (over,) = statement(g, body, barrier, parity, gives=["i32"])
    return g.w.compare("icmp ne", over, g.int(0))
