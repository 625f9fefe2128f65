"""Insert barriers: before an op writes shared memory that others may still be reading.

Shared memory is reused, so a write must not overtake the reads of earlier contents (write after read). The reading op
does not wait; the next op that writes the same addresses does, unless all threads have met since: most ops have a
barrier of their own between their writes and their reads, so two that alternate between two addresses need no other.
Where control flow joins, memory is in use that any of the ways there has left in use. A TMA store reads shared memory
asynchronously: the thread that issued it waits for it, then all threads meet.

    %3 = convert %2 {layout=..., shared=((0, 4096),), sync="barrier"} : tile<32x32xf32>

`sync` says what comes before an op's first write: "barrier", or before that the wait until TMA has read ("tma_read") or
also written ("tma_written") what it was given. It is no op of its own, for a lowering places it: partial results of a
reduction are computed before the warps meet. Barriers between the writes and the reads of one op belong to its
lowering.

Atomic updates of one element have two barriers, too, which order them among the accesses of all threads
(`analysis/scalar_updates.py`). Where one is idle, `meets` says which are not: (before, behind).
"""

from __future__ import annotations

from collections.abc import Container

from .... import ops
from ....ir.core import Block, Module, Op, walk
from ....ir.rewrite import annotate
from .. import ops as gpu_ops
from ..analysis.scalar_updates import is_ordered_update, unobserved_updates
from ..target import Target
from .needs import Use, use_of, written


def insert_barriers(module: Module, target: Target) -> Module:
    """Mark ops that must wait for readers of the shared memory they write; wait for TMA stores at the end."""
    stores = gpu_ops.tma_store in module.kinds
    found: dict[Op, dict] = {}
    kernel = _Readers(target, stores, found, unobserved_updates(module) if ops.atomic in module.kinds else ())
    kernel.block(module.body)
    for function in module.functions:
        inside = _Readers(target, False, found, ())
        inside.join()  # another call may still be reading
        inside.block(function.body)
    functions = [function.replace(annotate(function.body, found)) for function in module.functions]
    body = annotate(module.body, found)
    if kernel.tma:  # TMA reads the memory of live programs only
        body = Block(body.args, (*body.ops, _wait(module)))
    return module.replace(body, functions=functions)


def _wait(module: Module) -> Op:
    loc = next((op.loc for op in walk(module.body) if op.loc), None)
    return Op(gpu_ops.tma_wait, (), {"written": False}, (), loc=loc)


_EVERYWHERE = (0, 1 << 62)  # a range of addresses


class _Readers:
    """The pending reads of shared memory: by other threads (`threads`, ranges of addresses), by TMA stores (`tma`).
    `unwritten`: TMA may not have written all of its stores to global memory.

    If TMA reads only addresses below `tma_end`, that is not 0. `stores`: the kernel has TMA stores. `touched`: threads
    may have accessed global memory since all met. `unobserved`: updates that need no barrier behind them."""

    def __init__(self, target: Target, stores: bool, found: dict[Op, dict], unobserved: Container[Op]):
        self.target, self.stores, self.found, self.unobserved = target, stores, found, unobserved
        self.touched = False
        self.threads: frozenset[tuple[int, int]] = frozenset()
        self.tma, self.unwritten, self.tma_end = False, False, 0

    def join(self) -> None:
        """Nothing is known of what happened before: assume that all shared memory is in use."""
        self.threads, self.touched = frozenset((_EVERYWHERE,)), True
        self.join_tma()

    def join_tma(self) -> None:
        self.tma, self.unwritten, self.tma_end = self.stores, self.stores, 0

    def block(self, block: Block) -> None:
        for op in block.ops:
            if op.kind.loop:
                self.loop(op)
            elif op.kind is ops.if_:
                self.branches(op)
            else:
                for region in op.regions:
                    if op.kind.control_flow:
                        self.join()
                    self.block(region)
                if op.kind.control_flow:
                    self.join()
            self.op(op)

    def loop(self, op: Op) -> None:
        """Iterations until nothing new is in use where one begins. A loop with a condition ends behind that."""
        head, before = self.threads, None
        while head != before:
            before = self.threads = head
            self.touched = True
            self.join_tma()
            first, *rest = op.regions
            self.block(first)
            end = self.threads
            for region in rest:
                self.block(region)
            head |= self.threads
        self.threads, self.touched = end if rest else head, True
        self.join_tma()

    def branches(self, op: Op) -> None:
        (before, touched), after, any_touched = (self.threads, self.touched), frozenset(), False
        for region in op.regions:
            self.threads, self.touched = before, touched
            self.join_tma()
            self.block(region)
            after |= self.threads
            any_touched = any_touched or self.touched
        self.threads, self.touched = after, any_touched
        self.join_tma()

    def op(self, op: Op) -> None:
        if op.kind is gpu_ops.release:
            self.threads = frozenset((_EVERYWHERE,))
        elif op.kind is gpu_ops.tma_wait:
            self.tma, self.tma_end, self.threads = False, 0, frozenset((_EVERYWHERE,))
            self.unwritten = self.unwritten and not op.attrs["written"]
        elif "shared" in op.attrs:
            use = use_of(self.target, op.kind)
            assert use is not None
            sync = self.awaited(op, use)
            attrs = {name: x for name, x in op.attrs.items() if name != "sync"} | ({"sync": sync} if sync else {})
            self.found.pop(op, None)  # what an earlier visit to the loop found
            if attrs != op.attrs:
                self.found[op] = attrs
            if use.meets and written(op):
                self.threads, self.touched = frozenset(), False
            if use.leaves:
                self.threads |= {(start, start + size) for start, size in op.attrs["shared"]}
            if use.leaves == "tma":
                start, size = op.attrs["shared"][-1]
                self.tma, self.unwritten, self.tma_end = True, True, start + size
        if op.kind is ops.barrier:
            self.touched = False
        elif is_ordered_update(op):
            self.update(op)
        elif op.kind.global_memory:
            self.touched = True

    def update(self, op: Op) -> None:
        """The barriers around an update of one element. The first thread alone has touched memory when it ends."""
        meets = self.touched, op not in self.unobserved
        attrs = {name: x for name, x in self.found.pop(op, op.attrs).items() if name != "meets"}
        attrs |= {} if all(meets) else {"meets": meets}
        if attrs != op.attrs:
            self.found[op] = attrs
        self.touched = False

    def awaited(self, op: Op, use: Use) -> str | None:
        """What an op waits for before it writes; from then on nobody reads that."""
        ordered = op.attrs.get("ordered")
        behind = use.leaves == "tma" and 0 < self.tma_end <= op.attrs["shared"][0][0]
        if not use.waits or behind and not ordered:
            return None
        sync = "tma_read" if self.tma else "barrier" if use.waits == "all" and self.is_read(op) else None
        if ordered and self.unwritten:
            sync, self.unwritten = "tma_written", False
        self.tma, self.tma_end = False, 0
        if sync or use.waits == "tma":
            self.threads = frozenset()
        return sync

    def is_read(self, op: Op) -> bool:
        """True if threads may be reading what an op overwrites."""
        return any(a < d and c < b for a, b in self.threads for c, d in written(op))
