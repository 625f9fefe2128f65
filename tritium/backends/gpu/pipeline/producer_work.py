"""The work of a producer warp in a kernel: the loops it loads for, and loop-invariant tiles that it loads before them.

It must be able to load for all loops around dots. It runs ahead, so the program must not have written the memory it
loads: the kernel writes nothing before the last of these loops, except in a loop around them, to other tensors.
"""

from __future__ import annotations

from .... import ops
from ....ir import types as T
from ....ir.core import Arg, Block, Op, walk
from ....ir.rewrite import effects
from ....named_tuples import NamedTuple
from ..analysis.affine import Access, narrow
from ..ops import bytes_of
from ..tma import Tma
from .capabilities import Capabilities
from .lifted_kernel import LiftedKernel, Refused, is_pure, values_of
from .ping_pong import alternating
from .producer_loop import Load, ProducerLoop, loaded_bounds, producer_loop


def has_dots(op: Op) -> bool:
    """True for a dot, and for ops with a dot in a region."""
    return op.kind is ops.dot or any(inner.kind is ops.dot for region in op.regions for inner in walk(region))


class Written(NamedTuple):
    """A store in the loop around the producer loops: it must be disjoint from the memory they load."""

    op: Op
    access: Access


class ProducerWork(NamedTuple):
    """The producer loops of a kernel, the loop around them or None, and the stores of that loop. `ahead` are
    loop-invariant loads before them that TMA does as well, prefetched for the next program."""

    loops: list[ProducerLoop]
    outer: Op | None = None
    writes: tuple[Written, ...] = ()
    ahead: tuple[Load, ...] = ()

    @property
    def loads(self) -> tuple[Load, ...]:
        """All loads of boxes, in the order of their tensor maps."""
        return *(load for loop in self.loops for load in loop.loads.values()), *self.ahead


def find_producer_work(lifted: LiftedKernel, can: Capabilities, tma: Tma) -> list[ProducerWork]:
    """The work of a producer warp, for each way to schedule the loops: first with warpgroups that alternate, if they
    can and gain. Refused is raised unless all loops around dots can be specialized."""
    body = lifted.module.body
    # These need too much shared memory beside the multibuffers, may depend on thread indices, or synchronize the
    # cluster. Dots are checked one by one.
    for op in walk(body):
        if op.kind.cross_lane:
            raise Refused(op, f"`{op.kind.name}` lets all threads exchange elements", "do that in another kernel")
    outer, *others = filter(has_dots, body.ops)
    if others or any(op.kind is ops.dot for region in outer.regions for op in region.ops):
        return [ProducerWork(_multicast(lifted, loops, None, can, tma), ahead=_ahead(lifted, body, loops, can, tma))
                for loops in _loops_of(lifted, body, can, tma)]  # fmt: skip
    if outer.kind is not ops.for_:
        raise Refused(outer, "dots are in a branch or a `while` loop", "let a `for` loop over a range have them")
    if not all(map(is_pure, outer.operands[:3])):
        raise loaded_bounds(outer)
    _check_unwritten(body, outer)
    found = [_inside(lifted, outer, loops, can, tma)
             for loops in _loops_of(lifted, outer.regions[0], can, tma, outer.regions[0].args[1:])]  # fmt: skip
    if not any(found):
        raise Refused(outer, "what the loop around it writes may be what it loads ahead",
                      "store through descriptors, or with bounds on both axes as the mask, to tensors it does not load")
    return [x for x in found if x is not None]


def _inside(lifted: LiftedKernel, outer: Op, loops: list[ProducerLoop], can: Capabilities,
            tma: Tma) -> ProducerWork | None:
    """Producer loops in a loop; None if its stores may write what they load."""
    inside = outer.regions[0]
    ahead = tuple(x for x in _ahead(lifted, inside, loops, can, tma, inside.args[1:]) if _bounded(x.access))
    writes = _writes(lifted, inside, loops, ahead)
    if writes is None and ahead:
        ahead, writes = (), _writes(lifted, inside, loops)
    if writes is None or len(writes) > tma.maps:
        return None
    return ProducerWork(_multicast(lifted, loops, outer, can, tma), outer, writes, ahead)


def _multicast(lifted: LiftedKernel, loops: list[ProducerLoop], outer: Op | None, can: Capabilities,
               tma: Tma) -> list[ProducerLoop]:
    """The loops, with boxes that all blocks of a cluster load marked for multicast. The blocks share the mbarriers of
    the slots, so all must run the same iterations."""
    same = lambda values: all(is_pure(x, (lifted.rank,)) for x in values)
    nest = [*(loop.op for loop in loops), *([] if outer is None else [outer])]
    if lifted.blocks == 1 or not all(same(loop.operands[:3]) for loop in nest):
        return loops
    shared = lambda x: same(values_of(x.access)) and tma.divides(x.op.type, can.axis(x.op), lifted.blocks)
    mark = lambda x: x._replace(blocks=lifted.blocks) if shared(x) else x
    return [loop._replace(loads={key: mark(load) for key, load in loop.loads.items()}) for loop in loops]


def _check_unwritten(block: Block, loop: Op) -> None:
    """Raise Refused if a block writes memory before one of its loops."""
    before = block.ops[: next(k for k, op in enumerate(block.ops) if op is loop)]
    if any(effects(op) == "write" and op.kind is not ops.assume for op in before):
        raise Refused(loop, "memory is written before the loop", "store behind it, or in another kernel")


def _loops_of(lifted: LiftedKernel, block: Block, can: Capabilities, tma: Tma,
              barred: tuple[Arg, ...] = ()) -> list[list[ProducerLoop]]:
    """The loops of a block to specialize, with each of their schedules; their loads must not depend on the `barred`
    values."""
    loops: list[ProducerLoop] = []
    for op in filter(has_dots, block.ops):
        if op.kind is not ops.for_:
            raise Refused(op, "a dot is not in a `for` loop", "let every dot be in a `for` loop over a range")
        loops.append(producer_loop(lifted, block, op, can, tma, _boxes(loops), barred))
    last = loops[-1].op
    if _boxes(loops) > tma.maps:
        raise Refused(last, f"the loops load more than {tma.maps} tensors")
    _check_unwritten(block, last)
    alike = lambda loops: len({len(loop.groups) for loop in loops}) == 1  # they share their barriers
    every = [x for x in (alternating(loops), loops) if x is not None]
    found = [x for x in every if alike(x) and slots_of(x, can, tma) > 1]
    if not found and not any(map(alike, every)):
        raise Refused(last, "the loops have different numbers of dots, which wait for their tiles apart")
    if not found:
        raise Refused(last, "the tiles of two iterations do not fit into shared memory", "use smaller tiles")
    return found


def _boxes(loops: list[ProducerLoop]) -> int:
    """The number of boxes that loops load, each with a tensor map."""
    return sum(len(loop.loads) for loop in loops)


def _writes(lifted: LiftedKernel, block: Block, loops: list[ProducerLoop],
            ahead: tuple[Load, ...] = ()) -> tuple[Written, ...] | None:
    """The stores of the loop around the producer loops; None if it writes anything but bounded boxes, or a tensor that
    is also loaded."""
    found = [load.access for load in ProducerWork(loops, ahead=ahead).loads]
    if not all(map(_bounded, found)):
        return None
    loaded, writes = {x.base for x in found}, []
    for op in walk(block):
        if op.kind.effects_of(op) != "write" or op.kind is ops.assume:
            continue
        target = lifted.access(op.pointer, op.mask) if op.kind is ops.store else None
        if target is None or not _bounded(target) or target.base in loaded:
            return None
        writes.append(Written(op, target))
    return tuple(writes)


def _bounded(found: Access) -> bool:
    """True if the host knows the size of the tensor of an access."""
    return all(dim.size is not None for dim in found.dims)


AHEAD = 2  # programs with buffers: the current and the next


def _ahead(lifted: LiftedKernel, block: Block, loops: list[ProducerLoop], can: Capabilities, tma: Tma,
           barred: tuple[Arg, ...] = ()) -> tuple[Load, ...]:
    """The loop-invariant loads that only dots of the loops read, in the layout of memory, if buffers for two programs
    fit. Where several blocks share a multiprocessor, one multiplies while these tiles of another arrive."""
    read, found = {}, []
    for schedule in (loop.schedule for loop in loops):
        for dot in schedule.dots:
            for operand, x in zip("ab", dot.operands):
                if type(x) is Op and x.kind is ops.load and any(x is op for op in block.ops):
                    read.setdefault(x, []).append((schedule, dot, operand))
    readers = lambda x: [op for op in walk(lifted.module.body) if any(y is x for y in op.operands)]
    for x, places in read.items():
        if {*readers(x)} == {dot for _, dot, _ in places} and all(
            schedule.info.can_copy(x) and dot.operands[2] is not x and schedule.info.layout_fits(dot, x, operand, False)
            for schedule, dot, operand in places
        ):
            box = lifted.access(x.pointer, x.mask)
            if box and not box.ends and not x.attrs["volatile"] and not tma.misfit(x.type, can.axis(x), box):
                if all(is_pure(y, barred) for y in values_of(box)):
                    found.append(Load(x, box, narrow(box, x.mask), _boxes(loops) + len(found)))
    used = slots_of(loops, can, tma) * slot_bytes(loops, can)
    wanted = AHEAD * sum(bytes_of(load.op.type) for load in found)
    fits = used + wanted <= tma.room and found and found[-1].number < tma.maps
    return tuple(found) if fits and can.threads.blocks == 1 else ()


def buffers_of(loops: list[ProducerLoop], can: Capabilities) -> dict[tuple[T.Tile, int, int, int], list[Op]]:
    """{(tile, axis, group, position): the loads that use the buffer}. Loops run one after the other and share
    the mbarriers of their slots, so they share buffers as well."""
    out = {}
    for loop in loops:
        for number, group in enumerate(loop.groups):
            for place, load in enumerate(group.loads):
                out.setdefault((load.type, can.axis(load), number, place), []).append(load)
    return out


def slots_of(loops: list[ProducerLoop], can: Capabilities, tma: Tma) -> int:
    """The number of pipeline stages that fit into shared memory, at most those that the loops ask for."""
    return min(*(loop.stages + _is_held_over(loop) for loop in loops), tma.room // slot_bytes(loops, can))


def slot_bytes(loops: list[ProducerLoop], can: Capabilities) -> int:
    """The bytes of one slot of all buffers."""
    return sum(bytes_of(tile) for tile, *_ in buffers_of(loops, can))


def _is_held_over(loop: ProducerLoop) -> bool:
    """True if a slot is held into the next iteration: it cannot be refilled meanwhile."""
    return any(group.first is not group.last and loop.schedule.stays_in_flight(group.last) for group in loop.groups)
