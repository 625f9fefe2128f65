"""Copies into shared memory that run beside the computation."""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.core import Op
from ...llvm.writer import Val
from .. import ops as gpu_ops
from ..layout.linear import image
from ..layout.swizzle import swizzled
from ..shared_memory.needs import BUFFER_ALIGNMENT, Need, addresses, takes_shared
from .convert import read, write
from .function import LOWER, Lowering, lower
from .memory import allowed
from .shared_memory import Passage, wait_for_tma


@lower(gpu_ops.multibuffer)
@takes_shared(lambda op, room: Need([op.attrs["slots"] * gpu_ops.bytes_of(op.attrs["tile"])], BUFFER_ALIGNMENT),
              kept=True, leaves="")
def multibuffer(g: Lowering, op: Op) -> list[Val]:
    """Copies start at once, where the scratch of a conversion may have been: its readers must be done."""
    Passage(g, op).before_write()
    return [g.int(base) for base in addresses(op)]


LOWER |= {
    gpu_ops.release: lambda g, op, address: None,  # allocation is done: nothing happens here
    gpu_ops.tma_wait: lambda g, op: wait_for_tma(g, op.attrs["written"]),
}


@lower(gpu_ops.share)
@takes_shared(lambda op, room: Need([gpu_ops.bytes_of(x.type) for x in op.operands], BUFFER_ALIGNMENT), kept=True,
              waits="tma", leaves="")
def share(g: Lowering, op: Op, *tiles: Sequence[Val]) -> tuple[list[Val], ...]:
    """Write tiles into buffers of their own, after a barrier: threads may still read the last iteration's tiles."""
    types, bases = [x.type for x in op.operands], addresses(op)
    Passage(g, op, always=True).before_write()
    for x, value, t, base in zip(tiles, op.operands, types, bases):
        images, _ = swizzled(t.shape, op.attrs["axis"], t.element.bytes)
        write(g, x, t.element, g.layout(value), images, base)
    g.target.async_fence(g)
    g.target.barrier(g)
    return tuple([g.int(base)] for base in bases)


@lower(gpu_ops.async_load)
def async_load(g: Lowering, op: Op, buffer: Sequence[Val], pointers: Sequence[Val],
               mask: Sequence[Val] | None = None) -> None:
    """One copy of up to 16 bytes for each vector of the thread; a masked-off one writes zeros."""
    assert g.target.async_copies is not None
    w, tile = g.w, op.attrs["tile"]
    layout, width, size = g.layout(op.operands[1]), op.attrs["vector"], tile.element.bytes
    images, _ = swizzled(tile.shape, op.attrs["axis"], size)
    at = g.addresses(layout, lambda x: image(images, x))
    once = g.owns(layout)
    with w.when(once):
        for r in range(0, layout.registers, width):
            offset, constant = at[r]
            address = g.shared.pointer(g, w.binary("add", buffer[0], offset))
            source, inside = pointers[r], allowed(mask, r)
            g.target.async_copies.copy(g, address, constant, source, width * size, inside, op.attrs)


@lower(gpu_ops.buffer_load)
def buffer_load(g: Lowering, op: Op, buffer: Sequence[Val]) -> list[Val]:
    images, _ = swizzled(op.type.shape, op.attrs["axis"], op.type.element.bytes)
    return read(g, op.type.element, g.layout(op), images, buffer[0])


@lower(gpu_ops.buffer_store)
def buffer_store(g: Lowering, op: Op, buffer: Sequence[Val], x: Sequence[Val]) -> None:
    tile = op.operands[1].type
    images, _ = swizzled(tile.shape, op.attrs["axis"], tile.element.bytes)
    write(g, x, tile.element, g.layout(op.operands[1]), images, buffer[0])


@lower(gpu_ops.async_commit)
def async_commit(g: Lowering, op: Op) -> None:
    assert g.target.async_copies is not None
    g.target.async_copies.commit(g)


@lower(gpu_ops.async_wait)
def async_wait(g: Lowering, op: Op) -> None:
    """Every thread makes its own copies visible to tensor cores that read buffers before all meet: none waits for fresh
    copies."""
    assert g.target.async_copies is not None
    g.target.async_copies.wait(g, op.attrs["pending"])
    if op.attrs["fenced"]:
        g.target.async_fence(g)
    g.target.barrier(g)
