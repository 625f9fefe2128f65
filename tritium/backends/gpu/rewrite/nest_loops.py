"""Nest loops that count the steps of one task after another: a loop over tasks around a loop over steps.

    for _ in range(steps * tasks):              for task in range(tasks):
      step = 0 if step == steps - 1 else step + 1
      if step == 0:                               begin
        begin                           ->        for step in range(steps):
      body                                          body
      if step == steps - 1:                       end
        end

A persistent product is often written with one loop over all steps of all its tiles, so that it is pipelined across
tiles; `step` may also be the index modulo `steps`. Nested, its branches are gone: a producer warp, which runs ahead
into the next tile, can load for it. (The inverse of loop flattening.) Steps times tasks are taken not to overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .... import ops
from ....analysis.induction import increment
from ....analysis.polynomial import Scalars
from ....ir import types as T
from ....ir.builder import several
from ....ir.core import Block, Module, Op, Result, Value, op_of, walk
from ....ir.rewrite import Rewriter, captured, effects, inputs, substitute, sweep
from ....named_tuples import NamedTuple
from ....passes.dce import dce
from ....passes.functions import each_function
from ....passes.licm import licm
from ....passes.simplify import number, simplify

MOST = 64  # ops that are computed again for a branch outside of the inner loop


class _Nest(NamedTuple):
    """How a loop is nested.

    position: the op that gives the step of an iteration. counter: the place of the carried value that counts, None if
    the position is computed from the index. first, final: the branches of a task's first and last step. begun: place of
    a carried value -> what `first` makes of it, which stays for the whole task. ended: place of a carried value -> what
    `final` makes of it. opening, closing: what these branches do, behind the ops of the body that they need.
    """

    steps: Value
    tasks: Value
    position: Op
    counter: int | None
    first: Op | None
    final: Op | None
    begun: dict[int, Result | Op]
    ended: dict[int, Result | Op]
    opening: Block | None = None
    closing: Block | None = None


def nest_loops(module: Module, gains: Callable[[Module], bool] = lambda nested: True) -> Module:
    """Make two loops of one that counts the steps of one task after another, if that gains.

    Without a producer warp the copies of the inner loop would begin anew with each task.
    """
    nested = _nest_all(module)
    return nested if nested is not module and gains(nested) else module


@each_function
def _nest_all(module: Module) -> Module:
    if ops.for_ not in module.kinds or ops.if_ not in module.kinds:
        return module

    def rule(b: Rewriter, op: Op) -> tuple[Value, ...] | None:
        found = _nest_of(op) if op.kind is ops.for_ else None
        return None if found is None else _nested(b, op, found)

    return sweep(module, rule, simplify, licm, dce)


# --- what is found ----------------------------------------------------------------------------------------------------
def _nest_of(loop: Op) -> _Nest | None:
    """How a loop is nested; None if it does not count steps, or anything depends on its being one loop."""
    (lo, hi, step), body = loop.operands[:3], loop.regions[0]
    if number(lo) != 0 or number(step) != 1 or type(hi) is not Op or hi.kind is not ops.mul:
        return None
    for steps, tasks in (hi.operands, hi.operands[::-1]):
        for op in body.ops:
            if _is_modulo(body, op, steps):
                return _with_branches(loop, steps, tasks, op, None)
            counter = _counter(loop, op, steps)
            if counter is not None:
                return _with_branches(loop, steps, tasks, op, counter)
    return None


def _is_modulo(body: Block, op: Op, steps: Value) -> bool:
    """True if an op gives the step of an iteration as the index modulo the steps."""
    return op.kind is ops.rem and op.operands[0] is body.args[0] and op.operands[1] is steps


def _counter(loop: Op, op: Op, steps: Value) -> int | None:
    """The place of the carried counter from which an op makes the step of an iteration; None if it does not."""
    body = loop.regions[0]
    if op.kind is not ops.select or T.shape(op.type) or number(op.operands[1]) != 0:
        return None
    wraps, _, following = op.operands
    if type(wraps) is not Op or wraps.kind is not ops.eq:
        return None
    places = [k for k, arg in enumerate(body.args[1:]) if body.yields[k] is op and arg in wraps.operands]
    if len(places) != 1 or number(loop.operands[3 + places[0]]) != -1:
        return None
    arg = body.args[1 + places[0]]
    by = increment(arg, following)
    if by is None or number(by) != 1 or not _apart(wraps.operands[1 - wraps.operands.index(arg)], steps, -1):
        return None
    # Nobody else may see where the task before has ended.
    mine = {wraps, following}
    others = (x for x in walk(body) if x is not op and x not in mine)
    return None if any(arg in x.operands or mine.intersection(x.operands) for x in others) else places[0]


def _apart(x: Value, y: Value, by: int) -> bool:
    """True if x is y plus a number."""
    return (Scalars()(x) - Scalars()(y)).number == by


def _with_branches(loop: Op, steps: Value, tasks: Value, position: Op, counter: int | None) -> _Nest | None:
    """The nest of a loop whose iterations have a position, if it has a branch for the first or last step of a task."""
    body = loop.regions[0]
    branches = [op for op in body.ops if op.kind is ops.if_]
    at = lambda test: [op for op in branches if _compares(op.operands[0], position, test)]
    first = at(lambda x: number(x) == 0)
    final = at(lambda x: _apart(x, steps, -1))
    if len(first) > 1 or len(final) > 1 or not first and not final or first == final:
        return None
    only = lambda found: found[0] if found else None
    nest = _Nest(steps, tasks, position, counter, only(first), only(final), {}, {})
    if nest.first is not None:
        opening = _alone(body, nest.first, {nest.position, *body.args}) if _begins(body, nest) else None
        if opening is None:
            return None
        nest = nest._replace(opening=opening)
    if nest.final is not None:
        given = {nest.position, body.args[0], *nest.begun.values()}
        closing = _alone(body, nest.final, {*given, *_ends_of(body, nest)}) if _ends(body, nest) else None
        if closing is None:
            return None
        nest = nest._replace(closing=closing)
    return nest


def _compares(condition: Value, position: Op, test: Callable[[Value], bool]) -> bool:
    """True if a condition says that the position is a value that passes the test."""
    if type(condition) is not Op or condition.kind is not ops.eq or position not in condition.operands:
        return False
    return test(condition.operands[1 - condition.operands.index(position)])


def _begins(body: Block, nest: _Nest) -> bool:
    """Note what the first step's branch gives to carried values: nobody else sets them, nor reads what they were. False
    if it must stay where it is."""
    branch = nest.first
    assert branch is not None
    before = body.ops[: body.ops.index(branch)]
    if effects(branch) == "write" or any(effects(op) == "write" for op in before):
        return False
    for result, other in zip(branch.results, branch.regions[1].yields):
        places = [k for k, y in enumerate(body.yields) if y == result and body.args[1 + k] is other]
        if len(places) != 1:
            return False
        nest.begun[places[0]] = result
    old = {body.args[1 + k] for k in nest.begun}
    return not any(old.intersection(inputs(op)) for op in body.ops if op is not branch)


def _ends(body: Block, nest: _Nest) -> bool:
    """Note what the last step's branch gives to carried values. False if it must stay where it is."""
    branch = nest.final
    assert branch is not None
    behind = body.ops[body.ops.index(branch) + 1 : -1]
    if any(effects(op) == "write" or any(op_of(x) is branch for x in inputs(op)) for op in behind):
        return False
    for k, y in enumerate(body.yields):
        if op_of(y) is branch:
            nest.ended[k] = y
    return True


def _ends_of(body: Block, nest: _Nest) -> list[Value]:
    """What is carried out of each step of a task."""
    return [_else_of(nest.final, y) if nest.final and k in nest.ended else y for k, y in enumerate(body.yields)]


def _alone(body: Block, branch: Op, given: set[Value]) -> Block | None:
    """What a branch does if it is taken, with the ops before it that compute what it reads from given values; None if
    it reads anything else."""
    needed: set[Value] = set()
    inside, open_ = {*walk(body)}, captured(branch)
    while open_:
        x = open_.pop()
        if x in given or x in needed or op_of(x) not in inside and x not in body.args:
            continue
        if type(x) is not Op or x.regions or effects(x) or len(needed) == MOST:
            return None
        needed.add(x)
        open_ += x.operands
    region = branch.regions[0]
    return Block(region.args, [*(op for op in body.ops if op in needed), *region.ops])


def _index(x: Value) -> int:
    """The number of a result among those of its op."""
    return x.index if type(x) is Result else 0


def _else_of(branch: Op, y: Value) -> Value:
    """What a result is if the branch is not taken."""
    return branch.regions[1].yields[_index(y)]


# --- what is made of it -----------------------------------------------------------------------------------------------
def _nested(b: Rewriter, loop: Op, nest: _Nest) -> tuple[Value, ...]:
    """The two loops; returns the results of the one."""
    body, inits = loop.regions[0], loop.operands[3:]
    none, one = (ops.constant(b, value=value, type=nest.steps.type) for value in (0, 1))
    tasks = ops.select(b, ops.gt(b, nest.steps, none), nest.tasks, none)
    last = ops.sub(b, nest.steps, one)
    carried = [k for k in range(len(inits)) if k != nest.counter]
    with b.region([tasks.type, *(inits[k].type for k in carried)], _names(body, "task", carried)) as region:
        task, *values = region.args
        old: dict[int, Value] = dict(zip(carried, values))
        for k in nest.begun:  # a number that each task adds to is an induction variable
            by = _advance(body, nest, k)
            if by is not None:
                old[k] = ops.add(b, inits[k], ops.mul(b, task, by))
        before = ops.mul(b, task, nest.steps)  # steps of earlier tasks
        known = {body.args[1 + k]: x for k, x in old.items()}
        known |= dict.fromkeys(_quotients(body, nest), task)
        at = lambda step, index: {nest.position: step, body.args[0]: index}
        begun = substitute(b, nest.opening, (), known | at(none, before)) if nest.opening else ()
        ends = _steps(b, loop, nest, old, begun, task, before)
        ends |= {k: begun[_index(x)] for k, x in nest.begun.items()}
        if nest.closing:
            there = [(y, ends[k]) for k, y in enumerate(_ends_of(body, nest)) if k in ends]
            known = dict.fromkeys(_quotients(body, nest), task) | _by_op(there)
            results = substitute(b, nest.closing, (), known | at(last, ops.add(b, before, last)))
            ends |= {k: results[_index(x)] for k, x in nest.ended.items()}
        ops.yield_(b, *(ends[k] for k in carried))
    outs = b.emit_as_is(ops.for_, (none, tasks, one, *(inits[k] for k in carried)), ops.for_.defaults, (region.block,))
    outs = dict(zip(carried, several(outs)))
    if nest.counter is not None:
        outs[nest.counter] = ops.select(b, ops.gt(b, tasks, none), last, inits[nest.counter])
    return tuple(outs[k] for k in range(len(inits)))


def _steps(b: Rewriter, loop: Op, nest: _Nest, old: dict[int, Value], begun: tuple[Value, ...], task: Value,
           before: Value) -> dict[int, Value]:
    """Emit the loop over the steps of a task; place of a carried value -> its value behind it."""
    body = loop.regions[0]
    carried = [k for k in old if k not in nest.begun]
    kept = [op for op in body.ops[:-1] if op is not nest.final]
    block = Block(body.args, [*kept, body.ops[-1].replace(operands=tuple(_ends_of(body, nest)))])
    none, one = (ops.constant(b, value=value, type=nest.steps.type) for value in (0, 1))
    inits = [old[k] for k in carried]
    with b.region([nest.steps.type, *(x.type for x in inits)], _names(body, "step", carried)) as region:
        step, *values = region.args
        own = {**old, **dict(zip(carried, values))}
        # Nobody reads the counter but the op that gives the position.
        given = [ops.add(b, before, step), *(own.get(k, step) for k in range(len(body.yields)))]
        known = {**dict.fromkeys(_quotients(body, nest), task), nest.position: step}
        known |= {nest.first: begun} if nest.first else {}
        outs = substitute(b, block, given, known)
        ops.yield_(b, *(outs[k] for k in carried))
    attrs = {**loop.attrs, "nonempty": True}
    ends = b.emit_as_is(ops.for_, (none, nest.steps, one, *inits), attrs, (region.block,))
    return dict(zip(carried, several(ends)))


def _quotients(body: Block, nest: _Nest) -> list[Op]:
    """The ops that compute the number of the task from the index."""
    return [op for op in walk(body) if op.kind is ops.div and op.operands == (body.args[0], nest.steps)]


def _names(body: Block, index: str, carried: list[int]) -> list[str]:
    """The names of a loop's index and carried values."""
    return [index, *(body.args[1 + k].name for k in carried)]


def _advance(body: Block, nest: _Nest, k: int) -> Value | None:
    """What each task adds to an integer that its first step sets, if that comes from outside of the loop."""
    assert nest.first is not None
    y = nest.first.regions[0].yields[_index(nest.begun[k])]
    by = increment(body.args[1 + k], y) if y.type is nest.steps.type else None
    return by if by is not None and op_of(by) not in {*body.args, *walk(body)} else None


def _by_op(pairs: Iterable[tuple[Value, Value]]) -> dict[Value, Any]:
    """What stands for values, by the op that makes each: a tuple for one with several results."""
    made: dict[Value, Any] = {}
    for x, new in pairs:
        if type(x) is Result:
            several = made.setdefault(x.op, (None,) * len(x.op.types))
            made[x.op] = (*several[: x.index], new, *several[x.index + 1 :])
        else:
            made[x] = new
    return made
