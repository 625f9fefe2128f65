"""Which parameters of a kernel its loads, stores and atomics go through.

A pointer is traced back to the parameters that it may be computed from: through arithmetic, selects, branches, loops
and calls. A pointer that is made of an integer, or loaded from memory, comes from no parameter.
"""

from __future__ import annotations

from .. import ops
from ..ir import types as T
from ..ir.core import Op, Result, callees_first, walk

__all__ = ["accesses", "origins_of", "stored", "writes"]

_NONE: frozenset[int] = frozenset()


def accesses(module):
    """{number of a parameter: the ops that touch memory through it, in order}, for those with any.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f(%x: ptr<i32>, %y: ptr<i32>) {\\n  %0 = load %x : i32\\n  store %y, %0\\n}")
    >>> accesses(m)
    {0: [Op(load: i32)], 1: [Op(store: )]}
    """
    known = {}
    for function in callees_first(module):
        known[function.name] = _Body(function, known)
    found = {}
    for op, origins in _Body(module, known).found:
        for k in sorted(origins):
            found.setdefault(k, []).append(op)
    return found


def origins_of(module):
    """[(access, the numbers of the parameters that its pointer may be computed from)] of a kernel without calls.

    >>> from tritium.ir.text import parse_module
    >>> origins_of(parse_module("kernel @f(%x: i32, %p: ptr<i32>) {\\n  store %p, %x\\n}"))
    [(Op(store: ), frozenset({1}))]
    """
    return _Body(module, {}).found


def writes(op) -> bool:
    """Whether an access may change memory.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f(%x: ptr<i32>) {\\n  %0 = load %x : i32\\n  store %x, %0\\n}")
    >>> [writes(op) for op in m.body.ops]
    [False, True]
    """
    return op.kind.writes and op.attrs.get("how") != "load"


def stored(module) -> list[int]:
    """The numbers of the parameters that a kernel may store to, or change by atomics.

    >>> from tritium.ir.text import parse_module
    >>> stored(parse_module("kernel @f(%n: i32, %y: ptr<i32>) {\\n  store %y, %n\\n}"))
    [1]
    """
    return sorted(k for k, found in module.found_by(accesses).items() if any(map(writes, found)))


class _Body:
    """The accesses of one function: `found` holds (op, numbers of the parameters it may go through)."""

    def __init__(self, function, known):
        self.known = known
        self.numbers = {arg: k for k, arg in enumerate(function.args)}
        self.owners = {}  # parameter of a region -> (op of the region, its number counted from the last)
        self.traced = {}
        self.yields = function.body.yields
        touching = []
        for op in walk(function.body):
            for region in op.regions:
                self.owners |= {arg: (op, k - len(region.args)) for k, arg in enumerate(region.args)}
            if op.kind.access or op.kind is ops.call:
                touching.append(op)
        self.found = [pair for op in touching for pair in self.of(op)]

    def of(self, op):
        """What an op touches; a call, what its function does."""
        if op.kind is not ops.call:
            return [(op, self.origins(op.pointer))]
        callee = self.known[op.attrs["callee"]]
        return [(inner, self.through(op, numbers)) for inner, numbers in callee.found]

    def through(self, call, numbers):
        """The origins of these arguments of a call."""
        return _NONE.union(*(self.origins(call.operands[k]) for k in numbers))

    def origins(self, x):
        """The numbers of the parameters that a pointer may be computed from."""
        way, traced = [], self.traced
        while type(x) is Op and _moves(x) and x not in traced:
            way.append(x)
            x = x.operands[0]
        if x not in traced:
            traced[x] = self.trace(x)
        traced |= dict.fromkeys(way, traced[x])
        return traced[x]

    def trace(self, x):
        """Go back over all that a pointer is made of, each value once: loops lead back to where they began."""
        seen, left, out = set(), [x], set()
        while left:
            x = left.pop()
            while type(x) is Op and _moves(x):
                x = x.operands[0]
            if x in seen or not T.is_ptr(x.type):
                continue
            seen.add(x)
            if x in self.numbers:
                out.add(self.numbers[x])
            elif x in self.owners:
                op, k = self.owners[x]
                left += _carried(op, k) if op.kind.loop else op.operands
            else:
                left += self.sources(*((x.op, x.index) if type(x) is Result else (x, 0)))
        return frozenset(out)

    def sources(self, op, k):
        """The values that result `k` of an op may be."""
        if op.kind.loop:
            return _carried(op, k - len(op.types))
        if op.kind is ops.if_:
            return [region.yields[k] for region in op.regions]
        if op.kind is ops.call:
            callee = self.known[op.attrs["callee"]]
            return [op.operands[n] for n in callee.origins(callee.yields[k])]
        return () if op.kind is ops.load else op.operands


def _moves(op):
    """True if an op gives one pointer at another place: its first operand."""
    return op.kind.view or op.kind is ops.addptr


def _carried(loop, k):
    """What a loop starts from and what it hands on, of carried value `k` counted from the last. The index has none."""
    values = loop.regions[-1].yields
    return (loop.operands[k], values[k]) if -k <= len(values) else ()
