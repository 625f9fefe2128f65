"""Loops. A plain `for` becomes a `for` op; one that may be left early becomes a `while` op with its index spelled out.

The names a loop carries are those its body binds that had a value before; the body is lowered once.
"""

from __future__ import annotations

import ast
import builtins
import os
from typing import Any

from .. import ops
from ..ir import types as T
from ..ir.builder import several
from ..ir.core import Arg, Block, Op
from ..language.builtins import casting, program
from ..language.source import spelling_hints
from ..language.types import promotion, values
from ..language.types.aggregate import Aggregate
from ..language.types.limits import limits
from ..named_tuples import NamedTuple
from . import budget, calls, diagnose
from .control import RESULT, Exits, agree, any_of, close, condition, fill, flag, is_bound, run, zero
from .scope import (
    MISSING,
    Deferred,
    Names,
    Step,
    Unbound,
    called,
    describe,
    exposed,
    names_of,
    own_copies,
    reads,
    same,
    writes,
)


class Loop(NamedTuple):
    """The loop whose body is being lowered.

    `carried` names must keep their types wherever the body is left; `unrolled` is the variable of a compile-time loop.
    """

    carried: frozenset
    unrolled: str | None = None


class Carry:
    """The names a run-time loop hands from one turn to the next: those it binds that had a value before.

    One that nobody reads before it is bound again needs no place in the loop, but keeps its type all the same.
    """

    def __init__(self, b, node, needed):
        frame = b.frame
        self.node, self.names, self.watched, self.parts, self.inits = node, [], [], [], []
        self.before, self.places = frame.names, dict(frame.places)
        bound, changed = writes(node.body), called(node.body)
        target = node.target.id if type(node) is ast.For and type(node.target) is ast.Name else None
        for name, value in frame.names.items():
            aggregate = isinstance(value, Aggregate) and name in changed
            if (name not in bound and not aggregate) or name == target or not is_bound(value):
                continue
            if name not in needed:
                if type(value) is not Deferred:
                    self.watched.append(name)
                continue
            self.add(name, frame.lookup(name))

    def add(self, name, initial):
        """Carry one more value that the body does not read."""
        handles, rebuild = values.flatten(initial)
        self.names.append((name, initial, len(handles)))
        self.parts.append(rebuild)
        self.inits += handles

    @property
    def carried(self):
        """The carried names."""
        return frozenset(name for name, _, _ in self.names)

    @property
    def types(self):
        """The types of the carried values."""
        return [handle.type for handle in self.inits]

    @property
    def labels(self):
        """A readable name for each carried value."""
        return [name for name, _, count in self.names for _ in range(count)]

    def bind(self, handles):
        """The names, standing for these values; all others as before the loop."""
        names, at = own_copies(self.before), 0
        for (name, _, count), rebuild in zip(self.names, self.parts):
            if count:
                names[name] = rebuild(handles[at:at + count])
            at += count
        return names

    def finals(self, b, exits):
        """The values at the end of the body."""
        frame, found = b.frame, []
        # On a path that returns from the function nobody reads them.
        returned = exits is not None and exits.always and set(exits.flags) == {"return"}
        for name, initial, _ in self.names:
            value = frame.names.get(name, MISSING)
            if type(value) is Deferred:
                value = value.make()
            if not is_bound(value) or not same(initial, value):
                if not returned:
                    raise self._changed(b, name, initial, value)
                value = fill(b, initial)
            found += values.flatten(value)[0]
        for name in self.watched:
            value = frame.names.get(name, MISSING)
            if is_bound(value) and type(value) is not Deferred and not returned \
                    and not same(self.before[name], value):
                raise self._changed(b, name, self.before[name], value)
        return found

    def _changed(self, b, name, initial, value):
        place = self.places.get(name)
        first = [(f"{name} is first bound here, as {describe(initial)}", place)] if place is not None else ()
        at = b.frame.places.get(name)
        if not is_bound(value):
            return diagnose.error(b, self.node, f"{name} has no value on one path through the loop's body", notes=first,
                                  hint=value.reason if type(value) is Unbound else None)
        if values.is_constant(initial):
            return diagnose.error(
                b, self.node, f"Loop carried variable {name} changed type: it is {describe(initial)} before the loop "
                f"and {describe(value)} after a turn", at=at, notes=first,
                hint=f"write `{name} = {name}` before the loop: a plain assignment makes it a run-time value")
        return diagnose.error(
            b, self.node, f"Loop-carried variable {name} has initial type {describe(initial)} but is re-assigned to "
            f"{describe(value)} in loop! Please make sure that the type stays consistent.", at=at, notes=first,
            hint=self._stay(name, initial, value))

    @staticmethod
    def _stay(name, initial, value):
        """How a name can keep its type."""
        if type(initial) is not values.tensor or type(value) is not values.tensor:
            return None
        if initial.shape != value.shape and not value.dtype.is_ptr():
            return f"start with the final shape: `{name} = tl.zeros({value.shape}, tl.{value.dtype.codegen_name()})`"
        return f"make {name} {describe(value)} before the loop, or {agree(name, initial, value)}"

    def leave(self, b, results):
        """Names after the loop: carried ones have its results, those first bound in its body are gone."""
        frame = b.frame
        inside, frame.names = frame.names, self.bind(results)
        for name in inside:
            if name not in frame.names and name != RESULT:
                frame.names[name] = Unbound(f"{name} is bound here, inside the loop only", frame.places.get(name))


class Early(NamedTuple):
    """What a loop that may be left early carries besides its names: flags, and the function's return value."""

    finals: list  # stop[, returned, parts of the return value]
    returns: bool
    breaks: bool
    rebuild: object  # makes the return value of its parts


def _early(b, exits):
    """Emit the flags at the end of a body; None when the loop only ends by itself."""
    exits = exits and exits.without("continue")
    if exits is None:
        return None
    finals = [any_of(b, exits.flags.values())]
    handles, rebuild = values.flatten(b.frame.names.get(RESULT))
    if "return" in exits.flags:
        finals += [flag(b, exits.flags["return"]), *handles]
    return Early(finals, "return" in exits.flags, "break" in exits.flags, rebuild)


def _lower_body(b, node, names, carried):
    """Lower the statements of a loop in a scope of their own; the names at their end stay in the frame."""
    frame = b.frame
    outer = frame.live, frame.loop, frame.tail
    frame.names, frame.live, frame.loop, frame.tail = names, carried | frame.captured, Loop(carried), False
    exits = run(b, node.body)
    frame.live, frame.loop, frame.tail = outer
    return exits


def _leave(b, carry, early, results, endless=False):
    """Give the names the results of the loop op; returns how the loop leaves the function, if it can."""
    count = len(carry.inits)
    carry.leave(b, results[:count])
    if early is None or not early.returns:
        return Exits({"return": True}, always=True) if endless else None
    _, returned, *handles = results[count:]
    if not b.frame.is_kernel:
        b.frame.names[RESULT] = early.rebuild(handles)
    return Exits({"return": True if endless else returned}, always=endless)


def _inits(b, carry, early):
    return [*carry.inits, *[zero(b, x.type) for x in (early.finals if early else ())]]


def _no_else(b, node):
    if node.orelse:
        raise diagnose.unsupported(b, node, f"`else` of a `{type(node).__name__.lower()}` loop is not supported",
                                   at=node.orelse[0], hint="set a flag in the loop and test it afterwards")


# --- while --------------------------------------------------------------------------------------------------------
def while_(b, node, rest):
    """`while test:`; a test known to be true makes a loop that only `break` or `return` ends."""
    _no_else(b, node)
    frame = b.frame
    after = frame.live | reads(rest)
    carry = Carry(b, node, after | exposed(node.body) | names_of(node.test).reads)
    with b.region(carry.types, carry.labels) as testing:
        frame.names = carry.bind(testing.args)
        test = condition(b, node.test, node)
    if test is False:
        frame.names = carry.before
        return None
    with b.region(carry.types, carry.labels) as body:
        exits = _lower_body(b, node, carry.bind(body.args), carry.carried)
        b.at(node)
        finals = carry.finals(b, exits)
        early = _early(b, exits)
        if early is not None:
            finals += early.finals
            body.args += [Arg(x.type) for x in early.finals]
    if test is True and early is None:
        raise diagnose.error(b, node, "this loop never ends: its test is always true, and nothing leaves it",
                             at=node.test, hint="write a test that changes, or leave the loop by `break` or `return`")
    regions = _test_block(b, testing.block, test, early), close(b, body.block, finals)
    endless = test is True and (early is None or not early.breaks)
    results = several(b.emit(ops.while_, _inits(b, carry, early), {}, regions))
    return _leave(b, carry, early, results, endless)


def _test_block(b, block, test, early):
    """The region that decides whether a `while` goes on: not when it was left, and then without evaluating the test."""
    if early is None:
        return close(b, block, [flag(b, test)])
    args = [Arg(x.type, "" if k else "stop") for k, x in enumerate(early.finals)]
    before, inside = block.ops, block.ops
    with b.region() as region:
        if type(test) is not bool and any(op.kind.effects or op.regions for op in inside):
            before = ()
            goes_on, = several(b.emit(ops.if_, (args[0],), {}, (close(b, Block((), ()), [flag(b, False)]),
                                                               close(b, Block((), inside), [test]))))
        else:
            goes_on = ops.xor(b, args[0], flag(b, True))
            if type(test) is not bool:
                goes_on = ops.and_(b, test, goes_on)
    return close(b, Block((*block.args, *args), (*before, *region.block.ops)), [goes_on])


# --- for ----------------------------------------------------------------------------------------------------------
class Bounds(NamedTuple):
    """start, stop and step of a loop as the program gives them: ints, or integer scalars."""

    start: Any
    stop: Any
    step: Any
    hints: dict

    @property
    def known(self):
        """The Python range, when all three are constants."""
        parts = (self.start, self.stop, self.step)
        return builtins.range(*parts) if all(type(x) is int for x in parts) else None

    @property
    def counts_down(self):
        """Whether the step is a negative constant."""
        return type(self.step) is int and self.step < 0


def for_(b, node, rest):
    """`for i in range(...)`, `tl.range(...)` or `tl.static_range(...)`."""
    _no_else(b, node)
    if type(node.target) is not ast.Name:
        raise diagnose.unsupported(b, node, "the target of a `for` loop must be a simple name", at=node.target,
                                   hint=_one_name(node))
    iterator = b.visit(node.iter.func) if type(node.iter) is ast.Call else None
    if iterator is program.static_range:
        return _unrolled(b, node, _bounds(b, node, iterator), rest)
    if iterator is builtins.range or iterator is program.range:
        return _counted(b, node, _bounds(b, node, program.range), rest)
    raise diagnose.error(b, node, "Only `range` and `static_range` iterators are currently supported", at=node.iter,
                         hint=_instead(b, node.iter))


def _one_name(node):
    """How to write a loop with several targets."""
    name = node.iter.func.id if type(node.iter) is ast.Call and type(node.iter.func) is ast.Name else ""
    return spelling_hints.instead_of_builtin(name) or "write `for i in range(n)` and compute the others from i"


def _instead(b, node):
    """How to write a loop over something else than a range."""
    value = b.visit(node)
    if type(value) is values.tensor:
        if value.shape:
            return "operations on a block work on all of its elements: no loop is needed"
        return f"count up to it: `for i in range({ast.unparse(node)})`"
    return "write `for i in tl.static_range(len(t))` and use t[i] to walk through a tuple"


def _bounds(b, node, iterator):
    """Start, stop, step and hints, checked."""
    args, kwargs = calls.arguments(b, node.iter)
    made = calls.run_python(b, node.iter, iterator, args, kwargs)
    given = (made.start, made.end, made.step)
    parts = [_whole(value) for value in given]
    for value, part in zip(given, parts):
        if part is None:
            kinds = ", ".join(describe(b.checked(node.iter, values.to_tensor, x)) for x in given)
            raise diagnose.error(b, node.iter, f"For loop bounds and step must all be ints, are ({kinds})",
                                 at=_argument_of(b, node.iter, value),
                                 hint=_to_bound(value))
    if type(parts[2]) is int and parts[2] == 0:
        raise diagnose.error(b, node.iter, "the step of a loop must not be zero")
    hints = {} if iterator is program.static_range else {
        "num_stages": made.num_stages, "unroll": made.loop_unroll_factor, "flatten": bool(made.flatten),
        "warp_specialize": bool(made.warp_specialize)}
    start, stop, step = parts
    return Bounds(start, stop, step, hints)


def _to_bound(value):
    """How to make a bound of a loop out of something else."""
    if type(value) is values.tensor and value.shape:
        return "a loop has one bound for the whole program: use a scalar, such as tl.max(x, 0)"
    return "divide with //, convert with .to(tl.int32), or int() of a constant"


def _whole(value):
    """An integer scalar or an int; None for anything else."""
    if type(value) is values.tensor:
        return value if value.handle.type in T.INTS else None
    number = values.number(value)
    return int(number) if isinstance(number, int) else None


def _argument_of(b, call, value):
    """The argument that gave a value, when it is a plain name or constant."""
    for argument in call.args:
        if type(argument) is ast.Name and b.frame.names.get(argument.id, MISSING) is value:
            return argument
        if type(argument) is ast.Constant and argument.value is value:
            return argument
    return call


def _counted(b, node, bounds, rest):
    """A loop at run time."""
    frame, name = b.frame, node.target.id
    after = frame.live | reads(rest)
    prior = frame.names.get(name, MISSING)
    carry = Carry(b, node, after | exposed(node.body) - {name})
    b.at(node.iter)
    kind, start, stop, step = _induction(b, bounds)
    if type(bounds.step) is values.tensor and not _is_nonzero(step):
        stop = _without_step_zero(b, node, kind, start, stop, step)
    rebinds = name in writes(node.body) and name in after
    with b.region([kind, *carry.types], [name, *carry.labels]) as body:
        index = body.args[0]
        names = carry.bind(body.args[1:])
        names[name], frame.places[name] = values.tensor(index), node.target
        needed = carry.carried | {name} if rebinds else carry.carried
        exits = _lower_body(b, node, names, needed)
        b.at(node)
        finals = carry.finals(b, exits)
        if rebinds:  # carry what it is at the end of a turn: it is read afterwards
            last = frame.names[name]
            finals += values.flatten(last)[0]
            body.args += [Arg(x.type, name) for x in values.flatten(last)[0]]
        early = _early(b, exits)
        if early is not None:
            finals = [ops.add(b, index, step), *finals, *early.finals]
            body.args += [Arg(x.type) for x in early.finals]
    body = close(b, body.block, finals)
    if rebinds:
        before = prior.make() if type(prior) is Deferred else prior
        carry.add(name, before if is_bound(before) and same(before, last) else fill(b, last))
    if early is None:
        inits = [start, stop, step, *carry.inits]
        results = several(b.emit(ops.for_, inits, {**ops.for_.defaults, **bounds.hints}, (body,)))
        last = _Last(bounds, kind, start, stop, step, None, prior)
    else:
        test = _counting_test(b, body.args, 1 + len(carry.inits), stop, bounds)
        ended, *results = several(b.emit(ops.while_, [start, *_inits(b, carry, early)], {}, (test, body)))
        last = _Last(bounds, kind, start, stop, step, ended, prior)
    exits = _leave(b, carry, early, results)
    if not rebinds:
        frame.bind(name, Deferred(lambda: last.value(b)), node.target)
    return exits


def _induction(b, bounds):
    """The type of the index and the bounds as values of it."""
    kind = T.i32
    parts = bounds[:3]
    kinds = [x.handle.type if type(x) is values.tensor else values.literal_type(x) for x in parts]
    for other in kinds:
        kind = promotion.promote(kind, other)
    return kind, *[casting.convert(b, x, kind).handle if type(x) is values.tensor
                   else values.constant(b, x, kind).handle for x in parts]


def _is_nonzero(x):
    """Whether a step is surely not 0: the number of programs, or a multiple of it, as loops over tiles have."""
    if type(x) is not Op:
        return False
    if x.kind is ops.mul:
        return all(map(_is_nonzero, x.operands))
    return x.kind is ops.num_programs or (x.kind is ops.constant and bool(x.attrs["value"]))


def _without_step_zero(b, node, kind, start, stop, step):
    """The stop of a loop that would not end with a step of 0: it is reported, or the loop has no turn."""
    zero_step = ops.eq(b, step, values.constant(b, 0, kind).handle)
    if limits(b).reports_steps or b.options.debug:
        function = b.frame.function
        place = f"{os.path.basename(function.file)}:{function.first + node.lineno}"
        ops.assert_(b, ops.xor(b, zero_step, flag(b, True)),
                    message=f"the step of the loop at {place} in {function.name} is 0 (kernel {b.kernel.__name__})")
        return stop
    return ops.select(b, zero_step, start, stop)


def _counting_test(b, args, left, stop, bounds):
    """The region of a `while` op that counts: on below the stop (above, counting down) unless flag `left` is set."""
    with b.region([a.type for a in args], [a.name for a in args]) as region:
        index = region.args[0]
        inside = (ops.gt if bounds.counts_down else ops.lt)(b, index, stop)
        goes_on = ops.and_(b, inside, ops.xor(b, region.args[left], flag(b, True)))
    return close(b, region.block, [goes_on])


class _Last(NamedTuple):
    """The loop variable after its loop: its value in the last turn; in a loop without turns, what it was before.

    `ended` is the final index of a loop left early (one step past the last turn), None for a `for` op.
    """

    bounds: Bounds
    kind: object
    start: object
    stop: object
    step: object
    ended: object
    prior: object

    def value(self, b):
        known = self.bounds.known
        if known is not None and self.ended is None and known:
            return values.constant(b, known[-1], self.kind)
        prior = self.prior.make() if type(self.prior) is Deferred else self.prior
        down = self.bounds.counts_down
        if self.ended is not None:
            last = ops.sub(b, self.ended, self.step)
        else:
            one = values.constant(b, 1, self.kind).handle
            distance = (ops.add if down else ops.sub)(b, ops.sub(b, self.stop, self.start), one)
            last = ops.add(b, self.start, ops.mul(b, ops.div(b, distance, self.step), self.step))
        if type(prior) is values.tensor and prior.handle.type is self.kind:
            turned = (ops.gt if down else ops.lt)(b, self.start, self.stop)
            last = ops.select(b, turned, last, prior.handle)
        return values.tensor(last)


def _unrolled(b, node, bounds, rest):
    """A loop at compile time: its body once for each value, the loop variable a constant."""
    frame, name = b.frame, node.target.id
    outer = frame.live, frame.loop, frame.tail
    again = frozenset(exposed(node.body) - {name})
    needed = frame.live | reads(rest) | again
    frame.live, frame.loop, frame.tail = needed, Loop(needed, name), False
    names = Names(again, names_of(node).writes)

    def turn(value):
        def lower(b):
            loop.turn()
            frame.bind(name, value, node.target)
            exits = run(b, node.body)
            return exits and exits.without("continue")
        return Step(node, lower, names)

    turns = bounds.known
    with budget.unrolling(b, node, budget.size(turns), "this static_range") as loop:
        exits = run(b, [turn(value) for value in turns])
    frame.live, frame.loop, frame.tail = outer
    return exits and exits.without("break")
