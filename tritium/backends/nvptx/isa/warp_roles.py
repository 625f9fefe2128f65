"""Warps with different work, the barriers in shared memory between them, and copies made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...gpu import ops as gpu_ops
from ...gpu.layout.linear import log2
from ...gpu.layout.swizzle import row_width
from ...gpu.lower.control import beside
from ...gpu.lower.function import llvm_type
from ...gpu.shared_memory.needs import Need, addresses, takes_shared
from .shared_memory import arrive, arrive_at, cluster_barrier, fetch_map, phase_over, start_phases
from .threads import barrier, meet, proxy_fence, set_registers, warp_barrier

if TYPE_CHECKING:
    from ....ir import types as T
    from ....ir.core import Op
    from ...llvm.writer import Val
    from .target import NvLowering

PING_PONG = 2  # named barrier of the first warpgroup; the second has the next


def warp_roles(g: NvLowering, op: Op) -> None:
    """A branch; in the second region the kernel's own warps meet without the others.

    Blocks that copy for each other know each other's barriers before, and none ends while others may write to it or
    arrive there.
    """
    w, registers = g.w, op.attrs["registers"]
    all_meet = cluster_barrier if op.attrs["blocks"] > 1 else barrier
    with w.when(w.compare("icmp eq", g.place("thread"), g.int(0))):
        for arg in g.module.args:
            if "tensor_map" in arg.attrs:
                fetch_map(g, g.get(arg)[0])
    all_meet(g)  # all know the barriers of the phases
    is_behind = w.compare("icmp uge", g.place("warp"), g.int(g.warps))
    behind, copying, working, end = (w.label(name) for name in ("behind", "copying", "working", "end"))
    parts = []
    for region, name, group in zip(op.regions, (copying, working), (1, g.warps)):
        with beside(w, name) as part:
            if name is working and registers[0]:
                set_registers(g, "inc", registers[2])
            with g.group(group):
                g.block(region)
            w.jump(end)
        parts.append(part)
    w.branch(is_behind, behind, working)
    w.block(behind)
    if registers[0]:
        set_registers(g, "dec", registers[1])
    w.branch(w.compare("icmp eq", g.place("warp"), g.int(g.warps)), copying, end)
    for part, name in zip(parts, (copying, working)):
        w.levels[-1].lines += [f"{name}:", *part.lines]
    w.block(end)
    if op.attrs["blocks"] > 1:
        all_meet(g)


@takes_shared(lambda op, room: Need([8 * op.attrs["count"]], alignment=8), kept=True, waits="", leaves="")
def mbarrier_init(g: NvLowering, op: Op) -> list[Val]:
    """Barriers side by side, made by the first thread; returns the address of the first."""
    (base,) = addresses(op)
    with g.w.when(g.w.compare("icmp eq", g.place("thread"), g.int(0))):
        for k in range(op.attrs["count"]):
            start_phases(g, g.shared.pointer(g, g.int(base + 8 * k)), op.attrs["arrivals"])
    return [g.int(base)]


def mbarrier_arrive(g: NvLowering, op: Op, barrier: Sequence[Val], condition: Sequence[Val] | None = None) -> None:
    """A warp arrives once, by its first lane, at its own block's barrier, or at those of all blocks by a lane each."""
    w, lane, blocks = g.w, g.place("lane"), op.attrs["blocks"]
    here = w.compare("icmp eq", lane, g.int(0)) if blocks == 1 else w.compare("icmp ult", lane, g.int(blocks))
    with w.when(here if condition is None else w.binary("and", here, condition[0])):
        pointer = g.shared.pointer(g, barrier[0])
        if blocks == 1:
            arrive(g, pointer)
        else:  # a lane for each
            arrive_at(g, pointer, w.binary("and", lane, g.int(blocks - 1)))


def await_phase(g: NvLowering, barrier: Val, parity: Val) -> None:
    """Wait until the mbarrier at this address is through with a phase of this parity."""
    w = g.w
    again, through = w.label("await"), w.label("through")
    address = g.shared.pointer(g, barrier)
    w.jump(again)
    w.block(again)
    w.branch(phase_over(g, address, parity), through, again)
    w.block(through)


def await_ping_pong(g: NvLowering, barrier: Sequence[Val], parity: Sequence[Val]) -> None:
    """Wait for a phase, and then until the other warpgroup lets this one multiply."""
    await_phase(g, barrier[0], parity[0])
    _await_other(g)


# Ping-pong scheduling: each warpgroup has a barrier, at which it waits until the other has arrived. The first begins as
# if the other had arrived before; the last arrival is left for loops to come.
def ping_pong_open(g: NvLowering, op: Op) -> None:
    with g.w.when(_is_group(g, 1)):
        meet(g, g.int(PING_PONG), g.warps, "arrive")


def _await_other(g: NvLowering) -> None:
    meet(g, g.w.binary("add", _group(g), g.int(PING_PONG)), g.warps)


def ping_pong_signal(g: NvLowering, op: Op) -> None:
    meet(g, g.w.binary("sub", g.int(PING_PONG + 1), _group(g)), g.warps, "arrive")


def ping_pong_close(g: NvLowering, op: Op) -> None:
    with g.w.when(_is_group(g, 0)):
        meet(g, g.int(PING_PONG), g.warps)


def _group(g: NvLowering) -> Val:
    """Which half of the warps this is one of: 0 or 1."""
    return g.w.binary("lshr", g.place("warp"), g.int(log2(g.warps // 2)))


def _is_group(g: NvLowering, number: int) -> Val:
    return g.w.compare("icmp eq", _group(g), g.int(number))


def element_load(g: NvLowering, op: Op, buffer: Sequence[Val], origin: Sequence[Val], *numbers: Sequence[Val]) -> None:
    """The lanes take elements in turn; TMA's readers see them when it ends."""
    w, tile, axis = g.w, op.attrs["tile"], op.attrs["axis"]
    bounds, wraps = _bounds([x[0] for x in numbers], op.attrs["wraps"])
    size, kind = tile.element.bytes, llvm_type(tile)
    with w.loop(g.place("lane"), g.int(tile.numel), g.int(g.lanes), type="i32") as loop:
        index = _index(g, loop.index, tile.shape)
        pointer, inside = _place(g, index, kind, origin[0], bounds, wraps)
        (element,) = g.target.load(g, pointer, kind, 1, inside, None, {})
        target = g.shared.pointer(g, w.binary("add", buffer[0], _swizzled(g, index, tile, axis, size)))
        w.effect(f"store {element.typed}, {target.typed}, align {size}")
    proxy_fence(g)
    warp_barrier(g)


def element_store(g: NvLowering, op: Op, buffer: int, part: T.Tile, first: Sequence[int], origin: Val,
                  numbers: Sequence[Val]) -> None:
    """All threads take elements in turn of a part of a tile that lies in a buffer, and write them or combine them with
    what is there; `part` is its type, `first` the index of its first element."""
    w, size, kind = g.w, part.element.bytes, llvm_type(part)
    bounds, wraps = _bounds(numbers, (False, False))
    with w.loop(g.place("thread"), g.int(part.numel), g.int(g.threads), type="i32") as loop:
        index = _index(g, loop.index, part.shape)
        source = g.shared.pointer(g, w.binary("add", g.int(buffer), _swizzled(g, index, part, op.attrs["axis"], size)))
        element = w.effect(f"load {kind}, {source.typed}, align {size}", kind)
        whole = [w.binary("add", x, g.int(start)) for x, start in zip(index, first)]
        pointer, inside = _place(g, whole, kind, origin, bounds, wraps)
        if op.attrs["how"]:
            g.target.atomic(g, op, pointer, part.element, [[element]], inside)
        else:
            g.target.store(g, pointer, [element], inside, {})


def _bounds(numbers: Sequence[Val], wraps: Sequence[bool]) -> tuple[list[Sequence[Val]], list[tuple[Val, Val] | None]]:
    """(step, low and high of each axis; start and modulus of each axis that wraps, None of the others)."""
    rest = iter(numbers[6:])
    return [numbers[3 * k : 3 * k + 3] for k in range(2)], [(next(rest), next(rest)) if x else None for x in wraps]


def _index(g: NvLowering, number: Val, shape: Sequence[int]) -> list[Val]:
    return [g.w.binary("udiv", number, g.int(shape[1])), g.w.binary("urem", number, g.int(shape[1]))]


def _place(g: NvLowering, index: Sequence[Val], kind: str, origin: Val, bounds: Sequence[Sequence[Val]],
           wraps: Sequence[tuple[Val, Val] | None]) -> tuple[Val, Val | None]:
    """(the address of an element, whether it is within bounds)."""
    w, inside, place = g.w, None, g.w.const("i64", 0)
    for narrow, (step, low, high), wrap in zip(index, bounds, wraps):
        i = w.cast("zext", narrow, "i64")
        for condition in (w.compare("icmp sge", i, low), w.compare("icmp slt", i, high)):
            inside = condition if inside is None else w.binary("and", inside, condition)
        if wrap:
            start = w.binary("add", narrow if wrap[0].type == "i32" else i, wrap[0])
            i = w.cast("sext", w.binary("srem", start, wrap[1]), "i64")
        place = w.binary("add", place, w.binary("mul", i, step))
    return w.emit("ptr addrspace(1)", f"getelementptr {kind}, {origin.typed}, i64 {place}", origin, place), inside


def _swizzled(g: NvLowering, index: Sequence[Val], tile: T.Tile, axis: int, size: int) -> Val:
    """Where an element lies in its buffer: as `swizzle.swizzled` has it, for an index known at run time."""
    w = g.w
    width, rows = row_width(tile.shape, axis, size), tile.shape[1 - axis]
    along = w.binary("mul", index[axis], g.int(size))
    chunk, inner = w.binary("udiv", along, g.int(width)), w.binary("urem", along, g.int(width))
    row = w.binary("add", w.binary("mul", chunk, g.int(rows)), index[1 - axis])
    at = w.binary("add", w.binary("mul", row, g.int(width)), inner)
    mask = {128: 7, 64: 3, 32: 1}.get(width, 0) if rows > 1 else 0
    swizzle = w.binary("shl", w.binary("and", w.binary("lshr", at, g.int(7)), g.int(mask)), g.int(4))
    return w.binary("xor", at, swizzle)


LOWER = {
    gpu_ops.warp_specialize: warp_roles,
    gpu_ops.mbarrier_init: mbarrier_init,
    gpu_ops.mbarrier_arrive: mbarrier_arrive,
    gpu_ops.mbarrier_wait: lambda g, op, barrier, parity: await_phase(g, barrier[0], parity[0]),
    gpu_ops.ping_pong_open: ping_pong_open,
    gpu_ops.ping_pong_wait: lambda g, op: _await_other(g),
    gpu_ops.ping_pong_signal: ping_pong_signal,
    gpu_ops.ping_pong_close: ping_pong_close,
    gpu_ops.element_load: element_load,
}
