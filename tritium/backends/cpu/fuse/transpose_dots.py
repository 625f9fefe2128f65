"""Transpose dots: c' = b' @ a', where that is how a, b and c lie in memory.

    for ..., acc:                          for ..., t:
      a, b = load, load         ->           a', b' = load, load
      acc = dot a, b, acc                    t = dot b', a', t
    store p, acc                           store p', t

A dot reads its operands and writes its sums row by row. If the rows of c are contiguous in memory along the other axis,
as the positions of a convolution are, and so are those of a, every tile would be transposed on its way. Here none is:
loads, stores and what is computed between them have the other order of axes from the start. The GPU's pass of this
kind is `swap_operands`.
"""

from __future__ import annotations

from typing import Any

from .... import ops
from ....analysis.polynomial import Scalars
from ....analysis.runs import Growth
from ....ir import types as T
from ....ir.builder import several
from ....ir.core import Module, Op, Value, walk
from ....ir.rewrite import ERASE, Rewriter, effects, substitute, sweep
from ....passes.dce import dce
from ....passes.licm import licm
from ....passes.transposes import Transposes, transposed

LEAST = 8  # shorter runs do not count as contiguous
_TYPES = (T.f32, T.f64)  # bytes and bf16 have products that pack their operands anyway


def transpose_dots(module: Module) -> Module:
    """Swap and transpose the operands of dots whose sums are stored, and lhs loaded, along the first axis."""
    if ops.dot not in module.kinds:
        return module
    found = _Search(module)
    if not found.stores:
        return module

    def rule(b: Rewriter, op: Op) -> Any:
        if op.kind is ops.for_ and b.original in found.loops:
            return _transposed_loop(b, op, found.loops[b.original])
        if op.kind is ops.dot and b.original in found.dots:
            return transposed(b, Transposes(b).dot(op))
        if op.kind is ops.store and b.original in found.stores:
            transposes = Transposes(b)
            b.emit_as_is(ops.store, tuple([transposes.of(x) for x in op.operands]), op.attrs, (), op.loc)
            return ERASE
        return None

    return licm(dce(sweep(module, rule)))


class _Search:
    """The dots to transpose: those outside of loops, accumulators of loops (loop -> their numbers); stores of both."""

    def __init__(self, module: Module):
        self.forms = Scalars()
        self.users: dict[Value, list[Op]] = {}
        self.dots: set[Op] = set()
        self.loops: dict[Op, set[int]] = {}
        self.stores: set[Op] = set()
        for op in walk(module.body):
            for x in op.operands:
                self.users.setdefault(x, []).append(op)
        for block in (module.body, *[region for op in walk(module.body) for region in op.regions]):
            for op in block.ops:
                if op.kind is ops.for_:
                    self.loop(op)
                elif op.kind is ops.dot:
                    self.dot(op, op, None)

    def loop(self, loop: Op) -> None:
        """Look at the accumulators of a loop."""
        body = loop.regions[0]
        if any(effects(op) == "write" or op.regions for op in body.ops):
            return
        args = body.args[1:]
        for k, (arg, x) in enumerate(zip(args, body.yields, strict=True)):
            if type(x) is Op and x.kind is ops.dot and x.operands[2] is arg and self.users[arg] == [x]:
                self.dot(x, loop.results[k], (loop, k))

    def dot(self, op: Op, result: Value, carried: tuple[Op, int] | None) -> None:
        """Note a dot if it gains, the loop that carries its sum, and the stores of `result`."""
        a, b, _ = op.operands
        if len(T.shape(op.type)) != 2 or T.element(a.type) not in _TYPES or T.element(op.type) not in _TYPES:
            return
        if carried is not None and self.users[op] != [carried[0].regions[0].ops[-1]]:
            return
        stores: list[Op] = []
        if not self.stored(result, stores) or not stores or not (self.alone(a) and self.alone(b)):
            return
        if self.axis(a) != 0 or self.axis(b) == 1 and T.numel(b.type) > T.numel(a.type):
            return
        self.stores.update(stores)
        if carried is None:
            self.dots.add(op)
        else:
            self.loops.setdefault(carried[0], set()).add(carried[1])

    def stored(self, x: Value, stores: list[Op]) -> bool:
        """Whether a tile is only stored, or what is computed from it, along the first axis; adds the stores."""
        for user in self.users.get(x, ()):
            if user.kind is ops.store and user.operands[1] is x and self.contiguous(user.operands[0]) == 0:
                stores.append(user)
            elif not user.kind.elementwise or not self.stored(user, stores):
                return False
        return True

    def alone(self, x: Value) -> bool:
        """Whether an operand, and the loads that it is computed from, have one user."""
        if len(self.users.get(x, ())) > 1:
            return False
        return type(x) is not Op or not (x.kind.elementwise or x.kind.view) or \
            all(type(y.type) is not T.Tile or not self.loads(y) or self.alone(y) for y in x.operands)

    def loads(self, x: Value) -> bool:
        """Whether a tile is computed from loads."""
        return type(x) is Op and (x.kind is ops.load or (x.kind.elementwise or x.kind.view) and
                                  any(map(self.loads, x.operands)))

    def axis(self, x: Value) -> int | None:
        """The axis along which a tile's source in memory is contiguous; None if there is none."""
        if type(x) is not Op or len(T.shape(x.type)) != 2:
            return None
        if x.kind is ops.load:
            return self.contiguous(x.operands[0])
        if x.kind is ops.trans:
            inner = self.axis(x.operands[0])
            return inner if inner is None else 1 - inner
        found = [self.axis(y) for y in x.operands] if x.kind.elementwise else []
        return next((axis for axis in found if axis is not None), None)

    def contiguous(self, pointers: Value) -> int | None:
        """The axis along which pointers are contiguous, but for ends of runs; None if there is none."""
        form, shape = self.forms.of(pointers), T.shape(pointers.type)
        if form.pointer is None or len(shape) != 2:
            return None
        for axis in (1, 0):
            growth = Growth(self.forms.of, self.forms.number_of, least=LEAST)
            if shape[axis] > 1 and growth.along(form, axis) == 1:
                return axis
        return None


def _transposed_loop(b: Rewriter, loop: Op, chosen: set[int]) -> tuple[Value, ...]:
    """The loop with the chosen accumulators transposed."""
    lo, hi, step, *inits = loop.operands
    transposes = Transposes(b)
    inits = [transposes.of(x) if k in chosen else x for k, x in enumerate(inits)]
    body = loop.regions[0]
    with b.region([lo.type, *(x.type for x in inits)], [a.name for a in body.args]) as region:
        i, *own = region.args
        ends: list[Any] = list(substitute(b, body, [i, *[transposed(b, x) if k in chosen else x
                                                         for k, x in enumerate(own)]]))
        inner = Transposes(b)
        for k in chosen:
            ends[k] = inner.dot(ends[k], own[k])
        ops.yield_(b, *ends)
    outs = several(b.emit_as_is(ops.for_, (lo, hi, step, *inits), loop.attrs, (region.block,), loop.loc))
    return tuple([transposed(b, x) if k in chosen else x for k, x in enumerate(outs)])
