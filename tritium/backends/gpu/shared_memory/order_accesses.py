"""Order accesses to global memory: all threads meet between two that may touch one element from different threads.

    store p, x {layout=A}            store p, x {layout=A}
    y = load p {layout=B}     ->     barrier
                                     y = load p {layout=B}

The language promises that a program reads what it wrote, element by element: accesses of different elements need
`tl.debug_barrier()`, those of the same element do not. Threads keep that promise alone if both accesses have the same
layout, without replicas: one thread has the element in both. Otherwise the layouts say nothing of who was first, be it
a load behind a store, a store behind a load, or two stores. Scalars are loaded by all threads, and stored by one.

Only accesses through the same parameter of the kernel are compared, of tiles of the same shape: others touch other
elements, or a caller's aliases. Ops that pass tiles through shared memory let threads meet as well. Not compared are
accesses through pointers that come from memory or from integers, and kernels that call functions which stay calls.
"""

from __future__ import annotations

from typing import Any

from .... import ops
from ....analysis.accesses import origins_of, writes
from ....ir import types as T
from ....ir.core import Block, Module, Op, walk
from ....ir.rewrite import Rewriter
from ..analysis.scalar_updates import is_ordered_update
from ..layout.values import layout_of
from ..target import Target
from .needs import use_of, written

Accesses = frozenset[Op]


def order_accesses(module: Module, target: Target) -> Module:
    """Insert barriers between accesses of the same elements by different threads."""
    if module.functions or not (ops.store in module.kinds or ops.atomic in module.kinds):
        return module
    clashing = _Clashes(module)
    if not clashing.found:
        return module
    order = _Order(target, clashing)
    order.block(module.body, frozenset())
    return _Barriers(order.waits).module(module) if order.waits else module


class _Clashes:
    """Which accesses of a kernel may touch the same element from different threads: `found` has those with any."""

    def __init__(self, module: Module):
        self.origins = {op: origins for op, origins in origins_of(module) if not is_ordered_update(op)}
        self.how = {op: (T.shape(op.pointer.type), layout_of(op.pointer), *_how(op)) for op in self.origins}
        through: dict[int, dict[Any, list[Op]]] = {}  # parameter -> how it is accessed -> the accesses
        for op, origins in self.origins.items():
            for k in origins:
                through.setdefault(k, {}).setdefault(self.how[op], []).append(op)
        self.found = {op for ways in through.values() for a, found in ways.items() if any(_clash(a, b) for b in ways)
                      for op in found}  # fmt: skip

    def between(self, a: Op, b: Op) -> bool:
        return bool(self.origins[a] & self.origins[b]) and _clash(self.how[a], self.how[b])


def _how(op: Op) -> tuple[bool, bool]:
    """(whether an access writes, whether it is atomic)."""
    return writes(op), op.kind.atomic


def _clash(a: Any, b: Any) -> bool:
    """True if two ways to access elements, at least one of which writes, may access one from different threads."""
    (shape, layout, writes_a, atomic_a), (other_shape, other, writes_b, atomic_b) = a, b
    if shape != other_shape or not (writes_a or writes_b) or atomic_a and atomic_b:
        return False
    if layout != other:
        return True
    alone = layout is not None and not layout.free("lane") and not layout.free("warp")
    return not (alone or writes_a and writes_b)  # of replicas the same one writes


class _Order:
    """Finds the ops that threads must meet in front of (`waits`). A state is what threads have accessed since all met.

    What comes before a loop is awaited in front of it, not in every iteration: threads that poll an element leave the
    loop when they please.
    """

    def __init__(self, target: Target, clashing: _Clashes):
        self.target, self.clashing = target, clashing
        self.waits: set[Op] = set()

    def block(self, block: Block, state: Accesses) -> Accesses:
        for op in block.ops:
            state = self.op(op, self.regions(op, state))
        return state

    def regions(self, op: Op, state: Accesses) -> Accesses:
        """The state behind the regions of an op."""
        if op.kind is ops.if_:
            return state.union(*(self.block(region, state) for region in op.regions))
        if not op.kind.loop:
            for region in op.regions:
                self.block(region, frozenset())
            return frozenset() if op.regions and op.kind.control_flow else state
        inside = [x for region in op.regions for x in walk(region) if x in self.clashing.found]
        if any(self.clashing.between(x, earlier) for x in inside for earlier in state):
            self.waits.add(op)
        before, state = None, frozenset() if op in self.waits else state
        while state != before:
            before = inside = state
            for region in op.regions:
                inside = self.block(region, inside)
            state |= inside
        return state

    def op(self, op: Op, state: Accesses) -> Accesses:
        use = use_of(self.target, op.kind) if "shared" in op.attrs else None
        meets = op.kind is ops.barrier or is_ordered_update(op) or use is not None and use.meets and written(op)
        if op in self.clashing.found:
            if any(self.clashing.between(op, earlier) for earlier in state):
                self.waits.add(op)
            state = (frozenset() if op in self.waits else state) | {op}
        return frozenset() if meets else state


class _Barriers(Rewriter):
    """Puts barriers in front of ops."""

    def __init__(self, waits: set[Op]):
        super().__init__(lambda b, op: None)
        self.waits = waits

    def rewrite(self, block: Block) -> None:
        with_barriers = [x for op in block.ops for x in ([_barrier(op), op] if op in self.waits else [op])]
        super().rewrite(Block(block.args, tuple(with_barriers)))


def _barrier(op: Op) -> Op:
    return Op(ops.barrier, (), {}, (), loc=op.loc)
