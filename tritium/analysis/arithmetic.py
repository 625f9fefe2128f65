"""Index arithmetic: what each op computes of integers and pointers, written once for all analyses.

An analysis is a `Domain`. A *fact* is what it knows of one value; it says how facts are added, multiplied and
rearranged. `transfer` reads an op and asks the domain:

    constant                        constant(op, number)
    arange                          arange(op, start)
    add, sub, addptr                sum(op, x, y, by)           x + by * y
    mul                             product(op, x, y)
    shl by a constant n             scaled(op, x, 2^n)
    cast that keeps the integer     x
    cast of a pointer               repointed(op, x)
    hint                            hint(op, x)
    other views                     view(op, x)
    anything else                   None: the domain has its own rules, or nothing is known
"""

from __future__ import annotations

from .. import ops
from ..ir import types as T
from ..ir.core import Op, behind_views

__all__ = ["ARITHMETIC", "EVERYTHING", "Domain", "constant_of", "is_index", "keeps_integers", "lowest_bit", "transfer",
           "wraps"]  # fmt: skip

EVERYTHING = 1 << 40  # divides zero


def is_index(t) -> bool:
    """Whether values of a type are integers or pointers: what indices and addresses are made of.

    >>> is_index(T.i32), is_index(T.Tile((8,), T.Ptr(T.f32))), is_index(T.f32), is_index(T.i1)
    (True, True, False, False)
    """
    t = T.element(t)
    return type(t) is T.Ptr or type(t) is T.Scalar and t.is_int and t.kind != "bool"


def wraps(t) -> bool:
    """Whether arithmetic may wrap on purpose: on unsigned integers narrower than an address. Overflow of signed ones is
    undefined, as in C.

    >>> wraps(T.u32), wraps(T.i32), wraps(T.u64), wraps(T.Tile((8,), T.u8))
    (True, False, False, True)
    """
    t = T.element(t)
    return type(t) is T.Scalar and not t.signed and t.bits < 64


def keeps_integers(source, to) -> bool:
    """Whether a cast between two types preserves every integer.

    >>> keeps_integers(T.i32, T.i64), keeps_integers(T.u32, T.i64), keeps_integers(T.i32, T.u64)
    (True, True, False)
    """
    source, to = T.element(source), T.element(to)
    if not (type(source) is type(to) is T.Scalar and is_index(source) and is_index(to)):
        return False
    return to.bits >= source.bits if source.signed == to.signed else to.signed and to.bits > source.bits


def constant_of(x):
    """The number that a constant, or a tile made of one, stands for; None for other values.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f() {\\n %0 = constant {value=7, type=i32} : i32\\n"
    ...                  " %1 = splat %0 {shape=(8,)} : tile<8xi32>\\n}")
    >>> [constant_of(op) for op in m.body.ops]
    [7, 7]
    """
    x = behind_views(x)
    return x.attrs["value"] if type(x) is Op and x.kind is ops.constant else None


def lowest_bit(n: int) -> int:
    """The largest power of two that divides an integer.

    >>> lowest_bit(48), lowest_bit(-2), lowest_bit(0) == EVERYTHING
    (16, 2, True)
    """
    return n & -n if n else EVERYTHING


class Domain:
    """How an analysis computes with its facts. A method that returns None knows nothing of the result."""

    def size(self, op):
        """What `addptr` multiplies an offset by: 1 to count elements, the bytes of one to count bytes."""
        return 1

    def constant(self, op, number):
        return None

    def arange(self, op, start):
        return None

    def sum(self, op, x, y, by):
        return None

    def product(self, op, x, y):
        return None

    def scaled(self, op, x, by):
        return None

    def keeps(self, source, to):
        """Whether a cast leaves a fact as it is."""
        return keeps_integers(source, to)

    def cast(self, op, x):
        """What is known after a cast that does not keep a fact."""
        return None

    def repointed(self, op, x):
        return None

    def hint(self, op, x):
        return x

    def view(self, op, x):
        return None


def transfer(domain, op, of):
    """The fact of an op's result, of those of its operands: `of(operand)`. None for an op that is no index arithmetic,
    and where the domain says None.

    >>> from tritium.ir.text import parse_module
    >>> class Least(Domain):
    ...     constant = arange = lambda self, op, number: number
    ...     sum = lambda self, op, x, y, by: x + by * y
    >>> m = parse_module("kernel @f() {\\n %0 = constant {value=7, type=i32} : i32\\n %1 = add %0, %0 : i32\\n}")
    >>> of = lambda op: transfer(Least(), op, of)
    >>> of(m.body.ops[1])
    14
    """
    rule = _RULES.get(op.kind)
    return None if rule is None else rule(domain, op, of)


def _sum(by):
    def rule(domain, op, of):
        x, y = op.operands
        return domain.sum(op, of(x), of(y), by)
    return rule


def _addptr(domain, op, of):
    x, y = op.operands
    start, size = of(x), domain.size(op)
    return domain.sum(op, start, of(y), size)


def _mul(domain, op, of):
    x, y = op.operands
    return domain.product(op, of(x), of(y))


def _shl(domain, op, of):
    by = constant_of(op.operands[1])
    if by is None or not 0 <= by < T.element(op.type).bits:
        return None
    return domain.scaled(op, of(op.operands[0]), 1 << by)


def _bitcast(domain, op, of):
    between_pointers = T.is_ptr(op.operands[0].type) and T.is_ptr(op.type)
    return domain.repointed(op, of(op.operands[0])) if between_pointers else None


def _cast(domain, op, of):
    source, to = T.element(op.operands[0].type), T.element(op.type)
    if type(source) is T.Ptr and type(to) is T.Ptr:
        return domain.repointed(op, of(op.operands[0]))
    return of(op.operands[0]) if domain.keeps(source, to) else domain.cast(op, of)


def pointees(op):
    """Bytes of what a pointer points to, before and after a cast of it."""
    return [T.element(t).pointee.bytes for t in (op.operands[0].type, op.type)]


def _view(domain, op, of):
    return domain.view(op, of(op.operands[0]))


_RULES = {
    ops.constant: lambda domain, op, of: domain.constant(op, op.attrs["value"]),
    ops.arange: lambda domain, op, of: domain.arange(op, op.attrs["start"]),
    ops.add: _sum(1), ops.sub: _sum(-1), ops.addptr: _addptr, ops.mul: _mul, ops.shl: _shl, ops.cast: _cast,
    ops.bitcast: _bitcast,
    ops.hint: lambda domain, op, of: domain.hint(op, of(op.operands[0])),
    ops.splat: _view, ops.expand_dims: _view, ops.broadcast: _view, ops.trans: _view, ops.reshape: _view,
}  # fmt: skip
ARITHMETIC = frozenset(_RULES)
