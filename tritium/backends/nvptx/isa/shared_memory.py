"""The statements of PTX on shared memory: copies, matrices, boxes of tensors, mbarriers, other blocks' memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .statements import bracketed, statement
from .threads import special_register

if TYPE_CHECKING:
    from ...llvm.writer import Val
    from .target import NvLowering


# --- copies that run by themselves, and matrices ----------------------------------------------------------------------
def async_copy(g: NvLowering, target: Val, constant: int, source: Val, size: int, mask: Val | None,
               attrs: Mapping[str, Any]) -> None:
    """Copy `size` bytes from global to shared memory, `constant` bytes behind `target`; zeros where the mask is
    off."""
    how, (source, further) = "cg" if size == 16 else "ca", g.sum_of(source)
    amount = () if mask is None else (g.w.select(mask, g.int(size), g.int(0)),)
    listed = ", ".join((bracketed("$0", constant), bracketed("$1", further), str(size), *["$2"] * len(amount)))
    statement(g, f"cp.async.{how}.shared.global {listed};", target, source, *amount)


def async_commit(g: NvLowering) -> None:
    """Close a group of copies."""
    statement(g, "cp.async.commit_group;")


def async_wait(g: NvLowering, pending: int) -> None:
    """Wait until at most `pending` groups of copies are in flight."""
    statement(g, f"cp.async.wait_group {pending};")


def store_matrices(g: NvLowering, address: Val, words: Sequence[Val]) -> None:
    """Four 8x8 matrices of 16-bit elements to shared memory: 32-bit words of each lane, and its address of a row."""
    statement(g, "stmatrix.sync.aligned.m8n8.x4.shared.b16 [$0], {$1, $2, $3, $4};", address, *words)


def load_matrices(g: NvLowering, address: Val, constant: int, count: int, transposed: bool) -> list[Val]:
    """Words of `count` matrices whose rows of 16 bytes lie at the lanes' addresses, `constant` bytes behind."""
    outs = ", ".join(f"${k}" for k in range(count))
    how = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if transposed else ''}.shared.b16"
    return statement(g, f"{how} {{{outs}}}, {bracketed(f'${count}', constant)};", address, gives=["i32"] * count)


# --- TMA: boxes of tensors to and from shared memory ------------------------------------------------------------------
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


def copy_run(g: NvLowering, target: Val, source: Val, size: int, barrier: Val) -> None:
    """Have bytes copied to shared memory that lie in one piece; `barrier` counts them."""
    how = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    statement(g, f"{how} [$0], [$1], {size}, [$2];", target, source, barrier)


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


# --- barriers that count arrivals and bytes (mbarrier) ----------------------------------------------------------------
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


# --- the blocks of a cluster: who this is, where all meet, and the memory of the others -------------------------------
def block_rank(g: NvLowering) -> Val:
    """Index of this block in its cluster, i32."""
    return special_register(g, "cluster.ctarank")


def cluster_barrier(g: NvLowering) -> None:
    """All threads of the cluster meet, and see each other's memory."""
    statement(g, "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;")


def address_in_block(g: NvLowering, pointer: Val, block: Val) -> Val:
    """Where another block of the cluster has what this one has at an address in shared memory, i32."""
    call = f'call i32 asm "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r"({pointer.typed}, {block.typed})'
    return g.w.emit("i32", call, pointer, block)


def load_from_block(g: NvLowering, address: Val, constant: int, bits: int) -> Val:
    """An integer of `bits` bits, `constant` bytes behind an address in the cluster's shared memory."""
    body = f"ld.shared::cluster.b{bits} $0, {bracketed('$1', constant)};"
    (x,) = statement(g, body, address, gives=[f"i{max(bits, 16)}"])  # PTX has no registers of 8 bits
    return g.w.cast("trunc", x, "i8") if bits == 8 else x
