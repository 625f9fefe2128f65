"""Moving a tile between layouts, and the ops that read elements of other threads."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .... import ops
from ....ir import types as T
from ....ir.core import Op
from ...llvm.writer import Val, vector
from .. import ops as gpu_ops
from ..layout.linear import Layout, axis_bits, conversion, image, log2, pad, span_of
from ..layout.values import layout_of, splitting
from ..shared_memory.needs import FEW_CUTS, Need, Room, takes_shared
from ..target import Target
from .exchange import exchange, exchanges
from .function import Lowering, lower
from .registers import Registers
from .shared_memory import Matrices, Passage, loaded_matrices, passes, plan, stored_matrices, vector_bits
from .shuffles import shuffle, shuffled
from .words import llvm_type, memory_type, pack, to_memory, unpack


def _convert_need(op: Op, room: Room) -> Need | None:
    """A conversion through shared memory; a tile too large for it, or for another program beside it, is cut."""
    source, target = layout_of(op.operands[0]), layout_of(op)
    size, how = T.element(op.type).bytes, conversion(source, target)
    if how in ("same", "registers") or within_warp(room.target, source, target, size, room.alone):
        return None
    needed = gpu_ops.bytes_of(op.type)
    for free in room.spaces():
        bits = splitting(source, target, needed, free)
        if needed >> len(bits) <= free and len(bits) <= FEW_CUTS:
            break
    return Need([needed >> len(bits)], attrs={"cut": tuple(bits)} if bits else {})


@lower(gpu_ops.convert)
@takes_shared(_convert_need, meets=True)
def convert(g: Lowering, op: Op, x: Sequence[Val]) -> Sequence[Val]:
    source, target = g.layout(op.operands[0]), g.layout(op)
    how = conversion(source, target)
    if how == "same":
        return x
    if how == "registers":
        order = source.registers_in(target)
        return Registers(len(order), lambda r: x[order[r]])
    if "shared" in op.attrs:
        return _through_shared(g, op, x, source, target)
    found = within_warp(g.target, source, target, T.element(op.type).bytes)
    assert found is not None
    return found(g, T.element(op.type), x, source, target)


def within_warp(gpu: Target, source: Layout, target: Layout, size: int,
                alone: bool = True) -> Callable[..., list[Val]] | None:
    """What converts a tile without shared memory: (g, type, registers, source, target); None if nothing does, or
    shared memory is cheaper."""
    if steps := exchanges(gpu, source, target, size):
        return functools.partial(exchange, found=steps)
    barriers = gpu.cost.barriers_alone if alone else gpu.cost.barriers
    if barriers and (order := shuffled(source, target, size, barriers)):
        return functools.partial(shuffle, found=order)
    return None


def _through_shared(g: Lowering, op: Op, x: Sequence[Val], source: Layout, target: Layout) -> list[Val]:
    """Write in one layout, read in the other; a tile too large for shared memory goes in pieces."""
    t, bits, passage = T.element(op.type), op.attrs.get("cut", ()), Passage(g, op)
    if not bits:
        return _at_once(passage, x, t, source, target)
    from_part, to_part = without(source, bits), without(target, bits)
    out: list[Any] = [None] * target.registers
    for number in range(1 << len(bits)):
        chosen = {x: number >> k & 1 for k, x in enumerate(bits)}
        here = [x[r] for r in registers_with(source, chosen)]
        arrived = _at_once(passage, here, t, from_part, to_part, _has(g, source, chosen))
        for r, y in zip(registers_with(target, chosen), arrived):
            out[r] = y
    return out


def without(layout: Layout, bits: Sequence[int]) -> Layout:
    """The layout of a piece: a tile without these bits."""
    kept = [k for k in range(log2(layout.numel)) if 1 << k not in bits]
    squeeze = lambda e: sum((e >> k & 1) << n for n, k in enumerate(kept))
    return layout._replace(reg=tuple(x for x in layout.reg if x not in bits)).map(squeeze, (1 << len(kept),))


def registers_with(layout: Layout, chosen: dict[int, int]) -> list[int]:
    """The registers that hold a piece: those whose numbers have the chosen bits."""
    wanted = [(layout.reg.index(x), bit) for x, bit in chosen.items() if x in layout.reg]
    return [r for r in range(layout.registers) if all(r >> k & 1 == bit for k, bit in wanted)]


def _has(g: Lowering, layout: Layout, chosen: dict[int, int]) -> Val | None:
    """i1: this thread holds a part of the piece (None if every one does)."""
    w, tests = g.w, []
    for part, images in (("lane", layout.lane), ("warp", layout.warp)):
        mine = [(1 << images.index(x), bit) for x, bit in chosen.items() if x in images]
        if mine:
            place = w.binary("and", g.place(part), g.int(sum(mask for mask, _ in mine)))
            tests.append(w.compare("icmp eq", place, g.int(sum(mask * bit for mask, bit in mine))))
    return w.all_of(*tests)


def _at_once(passage: Passage, x: Sequence[Val], t: T.Scalar | T.Ptr, source: Layout, target: Layout,
             writes: Val | None = None) -> list[Val]:
    """One trip, with 16-byte accesses where both layouts allow; `writes` (i1) tells the threads that have something."""
    g, (base,) = passage.g, passage.bases
    own = g.target
    stores, loads = own.store_matrices is not None and writes is None, own.load_matrices is not None
    grouped, images = _trip(source, target, t.bytes, stores, loads)
    if grouped != source:
        x = [x[r] for r in source.registers_in(grouped)]
    passage.before_write()
    with g.w.when(writes):
        write(g, x, t, grouped, images, base, together=writes is None)
    passage.after_write()
    return read(g, t, target, images, base)


@functools.lru_cache(maxsize=4096)
def _trip(source: Layout, target: Layout, size: int, stores_matrices: bool,
          loads_matrices: bool) -> tuple[Layout, tuple[int, ...]]:
    """The writer's layout, perhaps with its registers in another order, and the address map. Neighbours in memory may
    be elements that writer and reader have in registers, although they are none in the tile."""
    kinds = (stored_matrices if stores_matrices else None, loaded_matrices if loads_matrices else None)

    def trip(first: Sequence[int]) -> tuple[tuple[int, int], int, Layout, tuple[int, ...]]:
        """The cost and the width of the narrower accesses if registers begin with these bits; layout and map."""
        written, read = _beginning(source, first), _beginning(target, first)
        images = plan(written, read, size, stores_matrices, loads_matrices)
        read = _beginning(read, _neighbours_first(read, images, size))
        (out, wide), (back, broad) = (passes(x, images, size, of) for x, of in zip((written, read), kinds))
        return (out + back, -(wide + broad)), min(wide, broad), written, images

    best = trip(())
    common = tuple(e for e in target.reg if e and e in source.reg)
    for first in (tuple(itertools.takewhile(common.__contains__, target.reg)), common):
        if min(1 << len(first), 16 // size) > best[1]:
            best = min(best, trip(first), key=lambda found: found[0])
    return best[2], best[3]


def _beginning(layout: Layout, first: Sequence[int]) -> Layout:
    """The layout with these register bits before the others."""
    return layout._replace(reg=(*first, *(e for e in layout.reg if e not in first)))


def _groups(g: Lowering, layout: Layout, images: Sequence[int], size: int,
            base: Val | int) -> Iterator[tuple[Val, int, int]]:
    """(pointer, first register, count) for each vector access of a thread."""
    width = vector_bits(layout, images, size)
    at = g.addresses(layout, lambda x: image(images, x))
    for r in range(0, layout.registers, 1 << width):
        yield g.shared.pointer(g, *g.shared.behind(g, base, *at[r])), r, 1 << width


def _write_matrices(g: Lowering, x: Sequence[Val], layout: Layout, images: Sequence[int], base: Val | int) -> None:
    """Four matrices at once: lane l gives the address of row l % 8 of matrix l / 8, its registers are parts of all."""
    w, place = g.w, lambda e: image(images, e)
    assert g.target.store_matrices is not None
    lane = g.spread([place(e) for e in (*layout.lane[2:], *layout.reg[1:3])], "lane")
    thread = w.binary("xor", lane, g.spread([place(e) for e in layout.warp], "warp"))
    for r, part in enumerate(span_of([place(e) for e in layout.reg[3:]])):
        offset = w.binary("xor", thread, g.int(part))
        offset = w.binary("add", offset, g.int(base) if isinstance(base, int) else base)
        pairs = [pack(w, x[8 * r + 2 * k : 8 * r + 2 * k + 2]) for k in range(4)]
        g.target.store_matrices(g, g.shared.pointer(g, offset), [w.cast("bitcast", pair, "i32") for pair in pairs])


def write(g: Lowering, x: Sequence[Val], t: T.Scalar | T.Ptr, layout: Layout, images: Sequence[int], base: Val | int,
          together: bool = True) -> None:
    """Store a tile to shared memory at byte address `base` by the address map `images`; mostly all threads together."""
    w, size = g.w, t.bytes
    if together and g.target.store_matrices is not None and stored_matrices(layout, images, size):
        _write_matrices(g, x, layout, images, base)
        return
    for pointer, r, count in _groups(g, layout, images, size, base):
        items = [to_memory(w, t, v) for v in x[r : r + count]]
        w.effect(f"store {pack(w, items).typed}, {pointer.typed}, align {size * count}")


def _read_matrices(g: Lowering, t: T.Scalar | T.Ptr, layout: Layout, images: Sequence[int], base: Val | int,
                   found: Matrices) -> list[Val]:
    """Up to four matrices at once: lane l gives the address of row l % 8 of matrix l / 8, and gets a word of each."""
    w, (inner, rows, transposed) = g.w, found
    count = min(2, len(layout.reg) - inner)
    taken = layout.reg[inner : inner + count]
    addresses = Layout(layout.shape, layout.reg[inner + count :], pad((*rows, *taken), len(layout.lane)), layout.warp)
    out = []
    assert g.target.load_matrices is not None
    for at in g.addresses(addresses, lambda x: image(images, x)):
        offset, constant = g.shared.behind(g, base, *at)
        address = g.shared.pointer(g, offset)
        for word in g.target.load_matrices(g, address, constant, 1 << count, transposed):
            out += unpack(w, w.cast("bitcast", word, vector(4 // t.bytes, llvm_type(t))))
    return out


def _neighbours_first(layout: Layout, images: Sequence[int], size: int) -> tuple[int, ...]:
    """The register bits, those first that walk neighbours in memory."""
    first = []
    while size << len(first) < 16:
        at = [x for x in layout.reg if image(images, x) == size << len(first)]
        if not at:
            break
        first += at[:1]
    return (*first, *(x for x in layout.reg if x not in first))


def write_piece(g: Lowering, x: Sequence[Val], t: T.Scalar | T.Ptr, layout: Layout, images: Sequence[int],
                base: Val | int, chosen: dict[int, int]) -> None:
    """Store the part of a tile whose elements' numbers have the `chosen` bits ({bit: 0 or 1}), highest in memory."""
    kept = [at for k, at in enumerate(images) if 1 << k not in chosen]
    here, writes = [x[r] for r in registers_with(layout, chosen)], _has(g, layout, chosen)
    with g.w.when(writes):
        write(g, here, t, without(layout, list(chosen)), kept, base, together=writes is None)


def read(g: Lowering, t: T.Scalar | T.Ptr, layout: Layout, images: Sequence[int], base: Val | int) -> list[Val]:
    """Load a tile from shared memory at byte address `base` (a number or an i32 value)."""
    w, size, kind = g.w, t.bytes, llvm_type(t)
    has = g.target.load_matrices is not None and kind != "i1"
    matrices = loaded_matrices(layout, images, size) if has else None
    if matrices is not None:
        return _read_matrices(g, t, layout, images, base, matrices)
    order = _neighbours_first(layout, images, size)
    if order != layout.reg:
        found = layout._replace(reg=order)
        out = read(g, t, found, images, base)
        return [out[r] for r in found.registers_in(layout)]
    out = []
    for pointer, _, count in _groups(g, layout, images, size, base):
        type_ = vector(count, memory_type(t))
        items = unpack(w, w.effect(f"load {type_}, {pointer.typed}, align {size * count}", type_))
        out += [w.cast("inttoptr" if type(t) is T.Ptr else "trunc", v, kind) for v in items]
    return out


def _first_operand(op: Op, room: Room) -> Need:
    """The whole of what an op picks elements of."""
    return Need([gpu_ops.bytes_of(op.operands[0].type)])


def _stage(g: Lowering, op: Op, x: Sequence[Val]) -> int:
    """Put the first operand into scratch in plain row-major order; returns its byte address. Readers may follow at
    once."""
    t, layout, passage = T.element(op.operands[0].type), g.layout(op.operands[0]), Passage(g, op)
    images, (base,) = tuple(t.bytes << k for k in range(log2(layout.numel))), passage.bases
    passage.before_write()
    write(g, x, t, layout, images, base)
    passage.after_write()
    return base


@lower(ops.gather)
@takes_shared(_first_operand, meets=True)
def gather(g: Lowering, op: Op, x: Sequence[Val], index: Sequence[Val]) -> list[Val]:
    w, axis = g.w, op.attrs["axis"]
    t, source, target = T.element(op.type), g.layout(op.operands[0]), g.layout(op)
    base = _stage(g, op, x)
    (low, width), (_, target_width) = axis_bits(source.shape, axis), axis_bits(target.shape, axis)
    # the element's own coordinates, with the axis replaced by the index
    squeeze = lambda e: (e & ((1 << low) - 1)) | (e >> (low + target_width) << (low + width))
    thread, parts = g.linear(target, squeeze)
    out = []
    for at, part in zip(index, parts):
        at = w.intrinsic("smax", "i32", _to_i32(g, at), g.int(0))
        at = w.intrinsic("smin", "i32", at, g.int(source.shape[axis] - 1))
        rest = w.binary("xor", thread, g.int(part))
        out.append(g.shared.load(g, base, w.binary("add", w.binary("mul", at, g.int(1 << low)), rest), t))
    return out


def _to_i32(g: Lowering, x: Val) -> Val:
    """A signed integer as i32."""
    return g.w.cast("trunc" if x.type == "i64" else "sext", x, "i32")


@lower(ops.extract)
@takes_shared(_first_operand, meets=True)
def extract(g: Lowering, op: Op, x: Sequence[Val], *index: Sequence[Val]) -> list[Val]:
    layout = g.layout(op.operands[0])
    base = _stage(g, op, x)
    return [g.shared.load(g, base, _flat_index(g, layout.shape, index), op.type)]


def _flat_index(g: Lowering, shape: Sequence[int], index: Sequence[Sequence[Val]]) -> Val:
    w, total = g.w, g.int(0)
    for size, (at,) in zip(shape, index):
        total = w.binary("add", w.binary("mul", total, g.int(size)), _to_i32(g, at))
    return total


@lower(ops.insert)
def insert(g: Lowering, op: Op, x: Sequence[Val], value: Sequence[Val], *index: Sequence[Val]) -> list[Val]:
    layout = g.layout(op)
    wanted = _flat_index(g, layout.shape, index)
    thread, parts = g.linear(layout, lambda e: e)
    out = []
    for old, part in zip(x, parts):
        here = g.w.binary("xor", thread, g.int(part))
        out.append(g.w.select(g.w.compare("icmp eq", here, wanted), value[0], old))
    return out


@lower(ops.histogram)
@takes_shared(lambda op, room: Need([4 * op.attrs["bins"]]), meets=True)
def histogram(g: Lowering, op: Op, x: Sequence[Val], mask: Sequence[Val] | None = None) -> list[Val]:
    """Counted with atomics on shared memory, each element once."""
    w, bins = g.w, op.attrs["bins"]
    layout, target = g.layout(op.operands[0]), g.layout(op)
    passage = Passage(g, op)
    (base,) = passage.bases
    passage.before_write()
    images = tuple(4 << k for k in range(log2(bins)))
    write(g, [g.int(0)] * target.registers, T.i32, target, images, base)
    passage.after_write()
    once = g.owns(layout)
    for k, v in enumerate(x):
        v = _to_i32(g, v)
        inside = w.compare("icmp ult", v, g.int(bins))
        with w.when(w.all_of(inside, once, None if mask is None else mask[k])):
            p = g.shared.pointer(g, w.binary("add", w.binary("shl", v, g.int(2)), g.int(base)))
            w.effect(f"atomicrmw add {p.typed}, i32 1 monotonic", "i32")
    g.target.barrier(g)
    return read(g, T.i32, target, images, base)
