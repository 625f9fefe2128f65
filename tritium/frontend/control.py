"""Control flow: statement lists, run-time branches, and what leaves them early (loops are in `loops`).

`break`, `continue` and `return` under a run-time condition become i1 flags; whatever follows them in the same list goes
into the branch that does not leave, or under an `if` on the flag. Every loop body and branch is lowered once.
"""

from __future__ import annotations

import ast
from typing import Any

from .. import ops
from ..ir import types as T
from ..ir.builder import several
from ..ir.core import Block, Op
from ..language.builtins import operators, program
from ..language.source.dependencies import Compilable
from ..language.types import values
from ..language.types.returned_constants import plain, returned
from ..named_tuples import NamedTuple
from . import binding, diagnose
from .scope import MISSING, Closure, Deferred, Names, Step, Unbound, describe, own_copies, reads, same

# The function's return value travels with its names, under one that no Python name can be.
RESULT = "<result>"


class Exits(NamedTuple):
    """How control may leave a list of statements before its end.

    `flags` maps "break", "continue" and "return" to True or to an i1 value; `always` says that no path gets to the end.
    """

    flags: dict
    always: bool

    def without(self, *kinds):
        """What is left when the construct around has dealt with some kinds."""
        flags = {kind: flag for kind, flag in self.flags.items() if kind not in kinds}
        return Exits(flags, self.always and len(flags) == len(self.flags)) if flags else None


# --- statement lists ----------------------------------------------------------------------------------------------
def run(b, steps):
    """Lower statements in order; returns how control may leave them early (None: it does not)."""
    steps, at = list(steps), 0
    while at < len(steps):
        step = steps[at]
        at += 1
        kind = type(step)
        if kind is ast.If:
            test = condition(b, step.test, step)
            if type(test) is bool:  # only the branch taken exists; what follows continues it
                steps, at = [*(step.body if test else step.orelse), *steps[at:]], 0
                continue
            exits, done = branch(b, step, test, steps[at:])
            if done:
                return exits
        elif kind is Step:
            exits = step.run(b)
        else:
            exits = b.statement(step, steps[at:])
        if exits is None:
            continue
        if exits.always or at == len(steps):
            return exits
        return guard(b, step.node if kind is Step else step, exits, steps[at:])
    return None


def condition(b, test, owner):
    """The value of a condition: a bool when it is known now, else an i1 value."""
    value = plain(b.visit(test))
    if type(value) is program.condition:  # its hint about loops means nothing here
        value = value.condition
    if values.is_constant(value):
        if value is not None and type(value) not in (bool, int):
            raise diagnose.unsupported(
                b, owner, "`if` conditionals can only accept values of type {bool, int, NoneType}, not objects of type "
                f"{type(value).__name__}", at=test, hint="compare it, so that the condition is a bool")
        return bool(value)
    b.at(test)
    if type(value) is values.tensor and value.numel != 1:
        raise diagnose.unsupported(
            b, owner, f"Boolean value of Tensor with more than one value is ambiguous: this is {describe(value)}",
            at=test, hint="choose element by element with tl.where, or reduce the condition, with tl.max(x, axis=0)")
    return b.checked(test, operators.truth, value).handle


def break_(b, node):
    """Nothing more of the loop runs."""
    return _leave_loop(b, node, "break")


def continue_(b, node):
    """Nothing more of this turn of the loop runs."""
    return _leave_loop(b, node, "continue")


def _leave_loop(b, node, kind):
    if b.frame.loop is None:
        raise diagnose.unsupported(b, node, f"`{kind}` outside a loop")
    return Exits({kind: True}, always=True)


def return_(b, node):
    """End the function; its value, if it is not the kernel, becomes the value of the call."""
    value = None if node.value is None else b.visit(node.value)
    if b.frame.is_kernel and value is not None:
        raise diagnose.error(b, node, f"{b.frame.function.name} is a kernel, which returns nothing: this is "
                             f"{describe(value)}", at=node.value,
                             hint="store the result through a pointer: `tl.store(out_ptr, ...)`, then a bare `return`")
    if not b.frame.is_kernel:
        if node.value is not None:
            b.at(node)
            value = _returned(b, node, value)
        b.frame.bind(RESULT, value, node)
    return Exits({"return": True}, always=True)


def check_returns(b, function, exits):
    """A function that returns a value does so on every path."""
    frame = b.frame
    result = frame.names.get(RESULT)
    if result is None or (exits is not None and exits.always):
        return
    last = function.node.body[-1]
    raise diagnose.error(
        b, frame.places.get(RESULT, last), f"{function.name} returns {describe(result)} here, but nothing on another "
        "path", hint="end the function with a `return` of the same type",
        notes=[("that path goes by here, and on to the end of the function", diagnose.heading(b, last))])


_CONSTANTS = (str, values.Builtin, Compilable, Closure, type(None), type(NotImplemented))


def _returned(b, node, value):
    """What a `return` hands to the caller: numbers, texts, functions and None stay constants, also in tuples."""
    if isinstance(value, tuple):
        parts, remake = values.parts_of(value)  # pyright: ignore[reportGeneralTypeIssues]  (a tuple has parts)
        return remake([_returned(b, node, part) for part in parts])
    if isinstance(value, _CONSTANTS) or values.number(value) is not None:
        return returned(b, value)
    if values.is_constant(value) and values.parts_of(value) is None:
        return b.checked(node, values.to_tensor, value)  # says why not
    return binding.decay(b, value)


# --- branches -----------------------------------------------------------------------------------------------------
class Pair(NamedTuple):
    """The values that a name or a flag has at the end of the two arms; of one structure."""

    x: object
    y: object


class Arm(NamedTuple):
    """One side of a branch, lowered: its ops, the names at its end, how it leaves early."""

    block: Block
    names: dict
    exits: Exits | None

    @property
    def never_ends(self):
        return self.exits is not None and self.exits.always


def branch(b, node, test, rest):
    """An `if` on a run-time value. Returns the exits, and whether `rest` was lowered as part of a branch."""
    frame = b.frame
    before, live = frame.names, frame.live
    after = live | reads(rest)
    flip = _leaves(node.orelse) and not _leaves(node.body)
    first, second = (node.orelse, node.body) if flip else (node.body, node.orelse)
    tail = frame.tail
    frame.tail = tail and not rest
    one = _arm(b, first, before, after)
    done = one.never_ends  # so what follows belongs to the other arm, with no flag to test
    frame.tail = tail and (done or not rest)
    two = _arm(b, second, before, live, rest) if done else _arm(b, second, before, after)
    then, other = (two, one) if flip else (one, two)
    frame.live = live if done else after
    exits = merge(b, node, test, then, other, before)
    frame.live, frame.tail = live, tail
    return exits, done


def guard(b, node, exits, rest):
    """Lower `rest` so that it only runs where nothing has left yet."""
    b.at(node)
    frame = b.frame
    before = frame.names
    left = Arm(Block((), ()), before, Exits(exits.flags, always=True))
    going = _arm(b, (), {name: value for name, value in before.items() if name != RESULT}, frame.live, rest)
    return merge(b, node, any_of(b, exits.flags.values()), left, going, before)


def _arm(b, steps, before, live, rest=()):
    """Lower one side of a branch, and `rest` after it."""
    frame = b.frame
    frame.names, frame.live = own_copies(before), live
    end = Step(ast.Pass(), lambda _: _end_constants(frame, before), Names(frozenset(), frozenset()))
    with b.region() as region, b.budget.deeper(b, [*steps, *rest]):
        exits = run(b, [*steps, end, *rest] if rest else steps)
        if not rest:
            _end_constants(frame, before)
        _settle(frame, before, live)
    return Arm(region.block, frame.names, exits)


def _end_constants(frame, before):
    """End what `name: tl.constexpr = e` bound: the side of the branch is its scope."""
    for name, value in frame.names.items():
        place = frame.places.get(name)
        if type(place) is ast.AnnAssign and is_bound(value) and value is not before.get(name, MISSING):
            frame.names[name] = Unbound(f"{name} is a constant of this side of the branch", place)


def _settle(frame, before, live):
    """Make the values that were put off, while the ops they need are still in scope."""
    for name, value in frame.names.items():
        if type(value) is Deferred and value is not before.get(name):
            frame.names[name] = value.make() if name in live else Unbound(f"{name} is the variable of this loop",
                                                                          frame.places.get(name))


def _leaves(statements):
    return bool(statements) and type(statements[-1]) in (ast.Return, ast.Break, ast.Continue)


def merge(b, node, test, then, other, before):
    """Emit the `if` op: names that its arms bind differently become its results, flags too."""
    frame = b.frame
    names, pairs = {}, {}
    frame.names = names
    for name in {**then.names, **other.names}:
        x, y = then.names.get(name, MISSING), other.names.get(name, MISSING)
        if x is y:
            names[name] = x
            continue
        if type(x) is Deferred or type(y) is Deferred:
            if name not in frame.live:
                continue
            x, y = (value.make() if type(value) is Deferred else value for value in (x, y))
        met = _meet(b, node, name, x, y, then, other, before)
        if type(met) is Pair:
            pairs[name] = met
        elif met is not MISSING:
            names[name] = met
    b.at(node)
    flags = _meet_flags(b, test, then.exits, other.exits)
    _emit_if(b, test, then.block, other.block, names, pairs, flags)
    always = then.never_ends and other.never_ends
    return Exits(flags, always) if flags else None


def _meet(b, node, name, x, y, then, other, before):
    """What a name stands for after the branch: a Pair to merge, a value, Unbound, or MISSING to forget it."""
    if name == RESULT:
        return _meet_results(b, node, x, y)
    if not then.never_ends and not other.never_ends:
        return _meet_strictly(b, node, name, x, y, before)
    if name not in b.frame.live:
        return MISSING
    if b.frame.loop is not None and name == b.frame.loop.unrolled and is_bound(x) and is_bound(y):
        x, y = values.to_tensor(b, x), values.to_tensor(b, y)  # which turn was the last is known at run time only
    if is_bound(x) and is_bound(y) and same(x, y):
        return Pair(x, y)
    carried = b.frame.loop is not None and name in b.frame.loop.carried
    jumps = any(arm.never_ends and set(arm.exits.flags) - {"return"} for arm in (then, other))
    if carried and jumps:
        return _meet_strictly(b, node, name, x, y, before)
    # Nobody reads the value of the arm that left.
    kept = y if then.never_ends else x
    if not is_bound(kept) or values.is_constant(kept):
        return kept
    return Pair(fill(b, kept), kept) if then.never_ends else Pair(kept, fill(b, kept))


def is_bound(value):
    """Whether this stands for a value at all."""
    return value is not MISSING and type(value) is not Unbound


def _meet_strictly(b, node, name, x, y, before):
    """Both arms go on: a name needs a value of one type in both to exist afterwards."""
    if not is_bound(x) or not is_bound(y):
        if not is_bound(x) and not is_bound(y):
            return x if type(x) is Unbound else y
        place = b.frame.places.get(name)
        return Unbound(f"{name} is bound here, on one side of the branch only", place)
    if same(x, y):
        if name not in b.frame.live:
            return MISSING
        return x if values.is_constant(x) else Pair(x, y)
    initial = before.get(name, MISSING)
    if not is_bound(initial):
        raise diagnose.error(
            b, node, f"Mismatched type for {name} between then block ({describe(x)}) and else block ({describe(y)})",
            at=b.frame.places.get(name), hint=agree(name, x, y))
    which, changed = ("else", y) if same(initial, x) else ("then", x)
    hint = agree(name, initial, changed)
    if values.is_constant(initial):
        hint = f"write `{name} = {name}` before the `if`: a plain assignment makes it a run-time value"
    raise diagnose.error(
        b, node, f"initial value for `{name}` is of type {describe(initial)}, but the {which} block redefines it as "
        f"{describe(changed)}", at=b.frame.places.get(name), hint=hint,
        notes=[(f"the branch starts here, with {name} of type {describe(initial)}", node.test)]
        if type(node) is ast.If else ())


def agree(name, x, y):
    """How to give two tensors one type."""
    if type(x) is not values.tensor or type(y) is not values.tensor:
        return None
    if x.shape == y.shape:
        return f"convert one of them, for example `{name}.to({_dtype_text(x)})`"
    return "give both the same shape, for example with tl.broadcast_to"


def _dtype_text(x):
    return f"tl.{x.dtype.codegen_name()}" if not x.dtype.is_ptr() else f"tl.{x.dtype!r}"


def _meet_results(b, node, x, y):
    if x is MISSING or y is MISSING:  # that arm goes on, or falls off the end: nobody reads its value
        kept = y if x is MISSING else x
        if values.is_constant(kept):
            return kept
        return Pair(fill(b, kept), kept) if x is MISSING else Pair(kept, fill(b, kept))
    x, y = _of_one_kind(b, x, y)
    if same(x, y):
        return x if values.is_constant(x) else Pair(x, y)
    raise diagnose.error(
        b, b.frame.places.get(RESULT, node), f"Inconsistent return types: {describe(x)} and {describe(y)}. "
        f"Return type mismatch: {_type_text(x)} and {_type_text(y)}", hint="return values of one type on every path")


def _type_text(value):
    return str(values.type_of(value)) if value is not None else "None"


def _of_one_kind(b, x, y):
    """Two results with tensors in place of numbers that differ, or that meet a tensor; in tuples too."""
    if isinstance(x, tuple) and isinstance(y, tuple) and len(x) == len(y):
        pairs = [_of_one_kind(b, one, other) for one, other in zip(x, y)]
        made: list[Any] = [values.parts_of(value) for value in (x, y)]
        return tuple(remake([pair[k] for pair in pairs]) for k, (_, remake) in enumerate(made))
    numbers = [values.number(value) is not None for value in (x, y)]
    equal = all(numbers) and type(x) is type(y) and repr(x) == repr(y)  # 0.0 is not -0.0
    if equal or not any(numbers) or not all(number or type(value) is values.tensor
                                            for number, value in zip(numbers, (x, y))):
        return x, y
    return values.to_tensor(b, x), values.to_tensor(b, y)


def _meet_flags(b, test, one, two):
    """For each way out True, an i1 value, or the Pair that the branch must merge."""
    left, right = (exits.flags if exits is not None else {} for exits in (one, two))
    flags = {}
    for kind in {**left, **right}:
        x, y = left.get(kind, False), right.get(kind, False)
        if b.frame.tail or (x is True and y is True):
            flags[kind] = True  # at the end of the function nobody asks
        elif type(x) is bool and type(y) is bool:
            flags[kind] = test if x else ops.xor(b, test, flag(b, True))
        else:
            flags[kind] = Pair(flag(b, x), flag(b, y))
    return flags


def _emit_if(b, test, then, other, names, pairs, flags):
    """Emit the op and put its results where the pairs (names and flags) were."""
    left, right, rebuilds = [], [], []
    for name, pair in pairs.items():
        xs, rebuild = values.flatten(pair.x)
        ys = values.flatten(pair.y)[0]
        if all(x is y for x, y in zip(xs, ys)):
            names[name] = pair.x
            continue
        left += xs
        right += ys
        rebuilds.append((name, len(xs), rebuild))
    merged = [kind for kind, pair in flags.items() if type(pair) is Pair]
    left += [flags[kind].x for kind in merged]
    right += [flags[kind].y for kind in merged]
    if not left and not then.ops and not other.ops:
        return
    results = several(b.emit(ops.if_, (test,), {}, (close(b, then, left), close(b, other, right))))
    at = 0
    for name, count, rebuild in rebuilds:
        names[name] = rebuild(results[at:at + count])
        at += count
    for kind, result in zip(merged, results[at:], strict=True):
        flags[kind] = result


# --- small values -------------------------------------------------------------------------------------------------
def close(b, block, results):
    """The block with its closing `yield`."""
    return Block(block.args, (*block.ops, Op(ops.yield_, tuple(results), {}, (), (), b.loc)))


def flag(b, value):
    """An i1 value of a flag that may be known already."""
    return ops.constant(b, value=value, type=T.i1) if type(value) is bool else value


def any_of(b, flags):
    """Whether one of some flags is set."""
    found = None
    for one in flags:
        found = flag(b, one) if found is None else ops.or_(b, found, flag(b, one))
    return flag(b, False) if found is None else found


def fill(b, value):
    """A value of the same structure that nobody will look at."""
    handles, rebuild = values.flatten(value)
    return rebuild([zero(b, handle.type) for handle in handles])


def zero(b, kind):
    """Zero of any type."""
    element = T.element(kind)
    is_float = type(element) is T.Scalar and element.is_float
    made = ops.constant(b, value=0.0 if is_float else False if element is T.i1 else 0, type=element)
    return ops.splat(b, made, shape=kind.shape) if type(kind) is T.Tile else made
