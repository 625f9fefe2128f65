"""The blocks of a cluster: who this is, where all meet, and the memory of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .statements import bracketed, statement
from .threads import special_register

if TYPE_CHECKING:
    from ...llvm.writer import Val
    from .lowering import NvLowering


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
