"""What is known of a tile's values along each axis: runs that count up by one, runs that are equal, divisors.

    contiguity    every aligned group of so many neighbours counts up by one
    divisibility  the first value of every such group is a multiple of it (for pointers, in bytes)
    constancy     every aligned group of so many neighbours is equal

All are powers of two. A scalar has one axis of length 1. They decide the width of memory accesses.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from .. import ops
from ..ir import types as T
from ..ir.bounds import bounds
from ..ir.core import Op, Result, behind_views
from .ranges import Derivations, assume
from .simplify import number

EVERYTHING = 1 << 40  # divides zero


class AxisInfo(NamedTuple):
    """The axis info of one value, a number for each axis."""

    contiguity: tuple
    divisibility: tuple
    constancy: tuple

    def at(self, axis, group):
        """Divisor of the values at multiples of `group` along an axis."""
        return self.divisibility[axis] if self.contiguity[axis] <= group else min(self.divisibility[axis], group)

    def meet(self, other):
        """What holds of either of two values."""
        return AxisInfo(*(tuple(map(min, x, y)) for x, y in zip(self, other)))


def analyze(module, preconditions=None, loads=False):
    """A function from a value of the module to its AxisInfo, computed lazily.

    Quotients and remainders keep runs only of nonnegative values. With a list `preconditions`, a value whose sign
    depends on the launch is assumed to be nonnegative and its rows (`passes.ranges`) are added to the list: the result
    holds for launches in which all of these are 0 or more. With `loads`, elements loaded from equal addresses are
    equal, which holds where one load instruction serves all elements of a group.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f(%x: ptr<f32> {divisible=16}) {\\n"
    ...                  " %0 = splat %x {shape=(64,)} : tile<64xptr<f32>>\\n"
    ...                  " %1 = arange {start=0, end=64} : tile<64xi32>\\n %2 = addptr %0, %1 : tile<64xptr<f32>>\\n}")
    >>> analyze(m)(m.body.ops[2])
    AxisInfo(contiguity=(64,), divisibility=(16,), constancy=(1,))
    """
    return AxisAnalysis(module, preconditions, loads)


class AxisAnalysis:
    """The AxisInfo of the values of a module; see `analyze`."""

    def __init__(self, module, preconditions, loads):
        self._known = functools.cache(lambda: _looked_through(module, preconditions, loads))

    def __call__(self, x):
        """The AxisInfo of a value."""
        return _get(self._known(), x)

    def is_nonnegative(self, x):
        """True if an integer is 0 or more: always, or by a precondition recorded so far."""
        known = self._known()
        rows = known.rows(x)
        return bounds(rows)[0] >= 0 or rows in (known.preconditions or ())


def _looked_through(module, preconditions, loads):
    known = _Known(module, preconditions, loads)
    for arg in module.args:
        known[arg] = (_nothing(arg.type) if T.shape(arg.type) else _scalar(arg.attrs.get("divisible", 1)),)
    _block(module.body, known)
    return known


class _Known(dict):
    """A value's op -> AxisInfo of its results; and queries of signs."""

    def __init__(self, module, preconditions, loads):
        super().__init__()
        self.loads = loads
        self.module, self.preconditions, self.derivations = module, preconditions, None

    def nonnegative(self, x):
        """True if a value is 0 or more, or assumed to be."""
        return assume([self.rows(x)], self.preconditions)

    def rows(self, x):
        """How a value is computed."""
        self.derivations = self.derivations or Derivations(self.module)
        return self.derivations.rows(x)


def _scalar(divisor):
    return AxisInfo((1,), (divisor,), (1,))


def _nothing(t):
    """Nothing is known."""
    ones = (1,) * max(1, len(T.shape(t)))
    return AxisInfo(ones, ones, ones)


def _get(known, x):
    """The AxisInfo of a value, computed on demand for values that a later pass has created."""
    op, k = (x.op, x.index) if type(x) is Result else (x, 0)
    if op not in known and type(op) is Op and not op.regions:
        _op(op, known)
    return known[op][k]


def _block(block, known):
    for op in block.ops:
        if op.kind.loop:
            _loop(op, known)
            continue
        for region in op.regions:
            for arg in region.args:
                known[arg] = (_nothing(arg.type),)
            _block(region, known)
        if op.kind is ops.if_:
            both = [[_get(known, y) for y in r.yields] for r in op.regions]
            known[op] = tuple(a.meet(b) for a, b in zip(*both))
        elif op.types:
            _op(op, known)


def _op(op, known):
    infos = [_get(known, x) for x in op.operands]
    if op.kind in _BY_SIGN:
        known[op] = (_BY_SIGN[op.kind](op, infos[0], infos[1], known.nonnegative),)
    elif op.kind is ops.load and known.loads and not op.attrs["volatile"]:
        known[op] = (_same(op, *infos),)
    else:
        rule = _RULES.get(op.kind)
        known[op] = (rule(op, *infos),) if rule else tuple(map(_nothing, op.types))


def _loop(op, known):
    """Assume what holds before the loop, and weaken it until the body keeps it."""
    heads, parameters = op.kind.loop
    carried = [_get(known, x) for x in op.operands[heads:]]
    body = op.regions[-1]
    while True:
        for region in op.regions:
            for arg, fact in zip(region.args[parameters:], carried):
                known[arg] = (fact,)
            if heads:
                first, step = (_get(known, x).divisibility[0] for x in (op.operands[0], op.operands[2]))
                known[region.args[0]] = (_scalar(min(first, step)),)
            _block(region, known)
        after = [fact.meet(_get(known, y)) for fact, y in zip(carried, body.yields)]
        if after == carried:
            break
        carried = after
    known[op] = tuple(carried)


# --- one rule for each op that preserves axis info -------------------------------------------------------------
def _lowest_bit(n):
    return n & -n if n else EVERYTHING


def _constant(op):
    value = op.attrs["value"]
    return _scalar(_lowest_bit(abs(value)) if isinstance(value, int) and not isinstance(value, bool) else 1)


def _arange(op):
    return AxisInfo((_lowest_bit(op.type.numel),), (_lowest_bit(op.attrs["start"]),), (1,))


def _splat(op, x):
    shape = op.attrs["shape"]
    return AxisInfo((1,) * len(shape), x.divisibility * len(shape), tuple(map(_lowest_bit, shape)))


def _expand_dims(op, x):
    axis = op.attrs["axis"]
    if not T.shape(op.operands[0].type):
        return x
    own = min(x.at(a, 1) for a in range(len(x.contiguity)))
    put = lambda xs, new: (*xs[:axis], new, *xs[axis:])
    return AxisInfo(put(x.contiguity, 1), put(x.divisibility, own), put(x.constancy, 1))


def _broadcast(op, x):
    old, new = op.operands[0].type.shape, op.type.shape
    return x._replace(constancy=tuple(n if o != n else k for o, n, k in zip(old, new, x.constancy)))


def _trans(op, x):
    return AxisInfo(*(tuple(xs[k] for k in op.attrs["order"]) for xs in x))


def _reshape(op, x):
    """Axes that survive keep their info; an axis split in two keeps it in its inner part."""
    old, new = T.shape(op.operands[0].type), T.shape(op.type)
    plain = [(d, k) for k, d in enumerate(old) if d != 1]
    wanted = [(d, k) for k, d in enumerate(new) if d != 1]
    if [d for d, _ in plain] == [d for d, _ in wanted]:
        out = [list(xs) for xs in _nothing(op.type)]
        for (_, a), (_, b) in zip(plain, wanted):
            for mine, theirs in zip(out, x):
                mine[b] = theirs[a]
        return AxisInfo(*map(tuple, out))
    if len(plain) == 1 and wanted:
        axis, inner = plain[0][1], wanted[-1][1]
        out = [list(xs) for xs in _nothing(op.type)]
        size = new[inner]
        out[0][inner], out[2][inner] = min(x.contiguity[axis], size), min(x.constancy[axis], size)
        out[1][inner] = x.at(axis, out[0][inner])
        return AxisInfo(*map(tuple, out))
    return _nothing(op.type)


def _sum(x, y, size=1, signed_right=False):
    """x + y (or x - y), where y counts in steps of `size`."""
    contiguity, divisibility, constancy = [], [], []
    for a in range(len(x.contiguity)):
        left = min(x.contiguity[a], y.constancy[a])
        right = 1 if signed_right else min(y.contiguity[a], x.constancy[a])
        run = max(left, right, 1)
        contiguity.append(run)
        divisibility.append(min(x.at(a, run), y.at(a, run) * size))
        constancy.append(min(x.constancy[a], y.constancy[a]))
    return AxisInfo(tuple(contiguity), tuple(divisibility), tuple(constancy))


def _add(op, x, y):
    return _sum(x, y)


def _sub(op, x, y):
    return _sum(x, y, signed_right=True)


def _addptr(op, x, y):
    return _sum(x, y, T.element(op.type).pointee.bytes)


def _mul(op, x, y):
    if _is_one(op.operands[1]):
        return x
    if _is_one(op.operands[0]):
        return y
    rank = range(len(x.contiguity))
    return AxisInfo(
        (1,) * len(rank),
        tuple(min(EVERYTHING, x.at(a, 1) * y.at(a, 1)) for a in rank),
        tuple(min(x.constancy[a], y.constancy[a]) for a in rank),
    )


def _is_one(x):
    x = behind_views(x)
    return type(x) is Op and x.kind is ops.constant and x.attrs["value"] == 1


def _aligned_runs(x, y):
    """On each axis, groups of x that count up from a multiple of their length and that y, the same, is a multiple of.

    Within such a group x rounded down to a multiple of y is the same, and what is left counts up.
    """
    return tuple(map(min, x.contiguity, x.divisibility, y.divisibility, y.constancy))


def _runs_of_quotient(op, x, y, nonnegative):
    """The aligned runs, if rounding is downwards: towards zero it turns round below 0."""
    alone = (1,) * len(x.contiguity)
    if not T.element(op.type).is_int:
        return alone
    runs = _aligned_runs(x, y)
    return runs if runs == alone or nonnegative(op.operands[0]) else alone


def _div(op, x, y, nonnegative):
    return _quotient(op, x, y, _runs_of_quotient(op, x, y, nonnegative))


def _rem(op, x, y, nonnegative):
    if not T.element(op.type).is_int:
        return _same(op, x, y)
    return _remainder(op, x, y, _runs_of_quotient(op, x, y, nonnegative))


def _quotient(op, x, y, runs):
    """Within a run that starts at a multiple of the divisor's power of two, the quotient stays."""
    same = map(min, x.constancy, y.constancy)
    return _nothing(op.type)._replace(constancy=tuple(map(max, runs, same)))


def _remainder(op, x, y, runs):
    """x % y counts up within runs that neither wrap nor start off a multiple of y's power of two."""
    divisors = tuple(min(x.at(a, run), y.at(a, run)) for a, run in enumerate(runs))
    return AxisInfo(runs, divisors, tuple(map(min, x.constancy, y.constancy)))


def _shl(op, x, y):
    """x << 3 is x * 8."""
    count = number(op.operands[1])
    if count is None or not 0 <= count < T.element(op.type).bits:
        return _same(op, x, y)
    divisors = tuple(min(EVERYTHING, x.at(a, 1) << count) for a in range(len(x.contiguity)))
    return x if count == 0 else AxisInfo((1,) * len(divisors), divisors, x.constancy)


def _shr(op, x, y):
    """x >> 3 is x / 8, rounded down."""
    count = number(op.operands[1])
    if count is None or not 0 <= count < T.element(op.type).bits:
        return _same(op, x, y)
    y = _multiples_of(y, 1 << count)
    return _quotient(op, x, y, _aligned_runs(x, y))


def _and(op, x, y):
    """x & 7 is x % 8, never negative."""
    mask = number(op.operands[1])
    if T.element(op.type) is T.i1 or mask is None or mask <= 0 or mask & (mask + 1):
        return _same(op, x, y)
    y = _multiples_of(y, mask + 1)
    return _remainder(op, x, y, _aligned_runs(x, y))


def _multiples_of(x, divisor):
    return x._replace(divisibility=(divisor,) * len(x.divisibility))


def _same(op, *infos):
    """Only equality survives."""
    rank = range(len(infos[0].contiguity))
    return _nothing(op.type)._replace(constancy=tuple(min(i.constancy[a] for i in infos) for a in rank))


def _compare(op, x, y):
    """A run and a bound that are both multiples of g cannot cross inside a group of g."""
    out = _same(op, x, y)
    if op.kind in (ops.gt, ops.le):
        x, y = y, x
    # now it reads x < y or x >= y
    groups = []
    for a in range(len(x.contiguity)):
        run = min(x.contiguity[a], x.divisibility[a], y.divisibility[a], y.constancy[a])
        groups.append(max(out.constancy[a], run))
    return out._replace(constancy=tuple(groups))


def _cast(op, x):
    source, target = T.element(op.operands[0].type), op.attrs["to"]
    integers = all(type(t) is T.Scalar and t.is_int and t.bits >= 32 for t in (source, target))
    return x if integers else _same(op, x)


def _keep(op, x):
    return x


def _select(op, c, x, y):
    both = x.meet(y)
    shared = tuple(min(both.contiguity[a], c.constancy[a]) for a in range(len(both.contiguity)))
    return AxisInfo(
        shared,
        tuple(min(x.at(a, shared[a]), y.at(a, shared[a])) for a in range(len(shared))),
        tuple(map(min, both.constancy, c.constancy)),
    )


def _load(op, *infos):
    """What lies at one address is one value."""
    return _nothing(op.type) if op.attrs["volatile"] else _same(op, *infos)


def _hint(op, x):
    fields = []
    for have, said in zip(x, (op.attrs["contiguous"], op.attrs["divisible"], op.attrs["constancy"])):
        said = said if said is None or isinstance(said, (tuple, list)) else (said,)
        fields.append(have if said is None else tuple(max(h, _lowest_bit(s)) for h, s in zip(have, said)))
    return AxisInfo(*fields)


_RULES = {
    ops.constant: _constant,
    ops.arange: _arange,
    ops.splat: _splat,
    ops.expand_dims: _expand_dims,
    ops.broadcast: _broadcast,
    ops.trans: _trans,
    ops.reshape: _reshape,
    ops.add: _add,
    ops.sub: _sub,
    ops.addptr: _addptr,
    ops.mul: _mul,
    ops.shl: _shl,
    ops.shr: _shr,
    ops.cast: _cast,
    ops.select: _select,
    ops.hint: _hint,
    ops.load: _load,
    ops.lt: _compare,
    ops.le: _compare,
    ops.gt: _compare,
    ops.ge: _compare,
    ops.eq: _same,
    ops.ne: _same,
    ops.and_: _and,
    ops.or_: _same,
    ops.xor: _same,
    ops.max_: _same,
    ops.min_: _same,
}

_BY_SIGN = {ops.div: _div, ops.rem: _rem}  # these ask about signs
