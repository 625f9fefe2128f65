"""Disjunctions of conditions, and choices by them, in fewer instructions.

    x > y or x == y                             ->      x >= y
    p and q or p and not q                      ->      p
    p or p and q                                ->      p
    p ? (p ? x : y) : z                         ->      p ? x : z

Inductor's `argmax` over a window asks for the larger of two, or a NaN, or the first of equals: seven conditions that
are two. Its `cat` chooses zero for each part where the part is not, and then among the parts by the same conditions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from .... import ops
from ....ir import types as T
from ....ir.core import Module, Op, Value
from ....ir.rewrite import Rewriter, sweep
from ....passes.dce import dce
from ....passes.functions import each_function
from ....passes.simplify import number, truth

Literal: TypeAlias = "tuple[Value, bool]"  # a condition, or its opposite
Term: TypeAlias = "frozenset[Literal]"  # a conjunction

MOST_TERMS = 8
_WITH_EQUAL = {ops.gt: ops.ge, ops.lt: ops.le}


@each_function
def shorten_conditions(module: Module) -> Module:
    """Rewrite disjunctions that fewer terms express, and choices that were made already.

    >>> from tritium.ir.text import parse_module
    >>> print(shorten_conditions(parse_module('''kernel @f(%x: f32, %y: f32) {
    ...   %0 = gt %x, %y : i1
    ...   %1 = eq %x, %y : i1
    ...   %2 = or %0, %1 : i1
    ...   print %2 {prefix=""}
    ... }''')), end="")
    kernel @f(%x: f32, %y: f32) {
      %2 = ge %x, %y : i1
      print %2 {prefix=""}
    }
    """
    if ops.or_ not in module.kinds and ops.select not in module.kinds:
        return module
    return sweep(module, _shortened, dce)


def _shortened(b: Rewriter, op: Op) -> Value | None:
    if op.kind is ops.select:
        return _chosen_once(b, op)
    if op.kind is not ops.or_ or T.element(op.type) is not T.i1:
        return None
    values = list(_alternatives(op))
    if len(values) > MOST_TERMS:
        return None
    spelled = {frozenset(_conditions(x)): x for x in values}
    terms = _merged(list(spelled))
    if frozenset() in terms:
        return truth(b, True, op.type)
    made, terms = _with_equal(b, terms)
    if made is None and len(terms) == len(values):
        return None
    literals = dict.fromkeys(literal for x in values for literal in _conditions(x))  # in order
    for term in terms:
        x = spelled.get(term) or _spelled(b, [literal for literal in literals if literal in term])
        made = x if made is None else b.emit_as_is(ops.or_, (made, x))
    return made


def _chosen_once(b: Rewriter, op: Op) -> Value | None:
    """A choice of what the same condition chose before. Of what it did not choose there may be a sum, which is one
    instruction where the condition holds: p ? s + x : s."""
    condition, x, y = op.operands
    if type(x) is not Op or x.kind is not ops.select or x.operands[0] is not condition:
        return None
    return b.emit(ops.select, (condition, x.operands[1], y))


def _alternatives(x: Value) -> Iterator[Value]:
    """The values whose disjunction a value is."""
    if type(x) is Op and x.kind is ops.or_:
        for y in x.operands:
            yield from _alternatives(y)
    else:
        yield x


def _conditions(x: Value) -> list[Literal]:
    """The conditions whose conjunction a value is."""
    if type(x) is Op and x.operands and T.element(x.operands[0].type) is T.i1:
        if x.kind is ops.and_:
            return [literal for y in x.operands for literal in _conditions(y)]
        if x.kind in _WITH_EQUAL:  # of truth values: one and not the other
            yes, no = x.operands if x.kind is ops.gt else x.operands[::-1]
            return [*_conditions(yes), (no, False)]
        if x.kind is ops.xor and number(x.operands[1]):
            return [(x.operands[0], False)]
    return [(x, True)]


def _merged(terms: list[Term]) -> list[Term]:
    """The terms that are left if two are merged as long as they can be, in order."""
    for k, x in enumerate(terms):
        for y in terms[:k]:
            common = x & y
            opposite = len(x) == len(y) == len(common) + 1 and {(v, not sign) for v, sign in x - y} == y - x
            if opposite or common in (x, y):
                merged = [common if z is y else z for z in terms if z is not x]
                return _merged(list(dict.fromkeys(merged)))
    return terms


def _with_equal(b: Rewriter, terms: list[Term]) -> tuple[Value | None, list[Term]]:
    """x >= y if the terms have x > y and x == y, and those that are left."""
    alone = {op: term for term in terms for op, sign in term if sign and len(term) == 1 and type(op) is Op}
    for equal in (op for op in alone if op.kind is ops.eq):
        for op in (op for op in alone if op.kind in _WITH_EQUAL):
            if op.operands in (equal.operands, equal.operands[::-1]):
                left = [term for term in terms if term not in (alone[op], alone[equal])]
                return b.emit_as_is(_WITH_EQUAL[op.kind], op.operands), left
    return None, terms


def _spelled(b: Rewriter, literals: Sequence[Literal]) -> Value:
    """The conjunction of conditions."""
    made = None
    for x, sign in literals:
        x = x if sign else b.emit_as_is(ops.xor, (x, truth(b, True, x.type)))
        made = x if made is None else b.emit_as_is(ops.and_, (made, x))
    assert made is not None  # an empty term is true
    return made
