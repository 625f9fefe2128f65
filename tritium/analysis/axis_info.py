"""What is known of a tile's values along each axis: runs that count up by one, runs that are equal, divisors.

    contiguity    the size of aligned groups of neighbours that count up by one
    divisibility  a number that divides the first value of every such group (for pointers, in bytes)
    constancy     the size of aligned groups of neighbours that are equal

All are powers of two. A scalar has one axis of length 1. They decide the width of memory accesses.
"""

from __future__ import annotations

from .. import ops
from ..ir import types as T
from ..ir.bounds import bounds
from ..ir.core import Op, Result
from ..named_tuples import NamedTuple
from .arithmetic import EVERYTHING, Domain, constant_of, lowest_bit, pointees, transfer
from .ranges import Derivations, assume
from .views import moved


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


def analyze(module, preconditions=None):
    """A function from a value of the module to its AxisInfo, computed lazily, and once for a module.

    Quotients and remainders keep runs only of nonnegative values. With a list `preconditions`, a value whose sign
    depends on the launch is assumed to be nonnegative and its rows (`analysis.ranges`) are added to the list: the
    result holds for launches in which all of these are 0 or more.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f(%x: ptr<f32> {divisible=16}) {\\n"
    ...                  " %0 = splat %x {shape=(64,)} : tile<64xptr<f32>>\\n"
    ...                  " %1 = arange {start=0, end=64} : tile<64xi32>\\n %2 = addptr %0, %1 : tile<64xptr<f32>>\\n}")
    >>> analyze(m)(m.body.ops[2])
    AxisInfo(contiguity=(64,), divisibility=(16,), constancy=(1,))
    """
    return AxisAnalysis(module, preconditions)


class AxisAnalysis:
    """The AxisInfo of the values of a module; see `analyze`."""

    def __init__(self, module, preconditions):
        self._module, self._preconditions, self._stated = module, preconditions, 0

    def __call__(self, x):
        """The AxisInfo of a value."""
        known = self._known()
        info = known.of(x)
        self._state(known)
        return info

    def is_nonnegative(self, x):
        """True if an integer is 0 or more: always, or by a precondition recorded so far."""
        self._state(self._known())
        rows = self._module.found_by(Derivations).rows(x)
        return bounds(rows)[0] >= 0 or rows in (self._preconditions or ())

    def _known(self):
        return self._module.found_by(_certain if self._preconditions is None else _assuming)

    def _state(self, known):
        """Add what is assumed to the preconditions."""
        if self._preconditions is not None and self._stated < len(known.assumed):
            self._stated = len(known.assumed)
            self._preconditions += [rows for rows in known.assumed if rows not in self._preconditions]


def _certain(module):
    return _Axes(module, None)


def _assuming(module):
    return _Axes(module, [])


def _scalar(divisor):
    return AxisInfo((1,), (divisor,), (1,))


def _nothing(t):
    """Nothing is known."""
    ones = (1,) * max(1, len(T.shape(t)))
    return AxisInfo(ones, ones, ones)


class _Axes(Domain):
    """The AxisInfo of the values of a module, and what is `assumed` to be nonnegative for it (None: nothing may be)."""

    def __init__(self, module, assumed):
        self.known, self.assumed, self.derivations = {}, assumed, module.found_by(Derivations)
        for arg in module.args:
            self.known[arg] = (_nothing(arg.type) if T.shape(arg.type) else _scalar(arg.attrs.get("divisible", 1)),)
        self.block(module.body)

    def of(self, x):
        """The AxisInfo of a value, computed on demand for values that a later pass has created."""
        op, k = (x.op, x.index) if type(x) is Result else (x, 0)
        if op not in self.known and type(op) is Op and not op.regions:
            self.op(op)
        return self.known[op][k]

    def nonnegative(self, x):
        """True if a value is 0 or more, or assumed to be."""
        return assume([self.derivations.rows(x)], self.assumed)

    def block(self, block):
        """Compute the infos of a block."""
        known = self.known
        for op in block.ops:
            if op.kind.loop:
                self.loop(op)
                continue
            for region in op.regions:
                for arg in region.args:
                    known[arg] = (_nothing(arg.type),)
                self.block(region)
            if op.kind is ops.if_:
                both = [[self.of(y) for y in r.yields] for r in op.regions]
                known[op] = tuple(a.meet(b) for a, b in zip(*both))
            elif op.types:
                self.op(op)

    def op(self, op):
        """Compute the infos of an op's results."""
        found = transfer(self, op, self.of)
        if found is None:
            rule = _RULES.get(op.kind)
            found = rule(self, op, *map(self.of, op.operands)) if rule else None
        self.known[op] = tuple(map(_nothing, op.types)) if found is None else (found,)

    def loop(self, op):
        """Assume what holds before the loop, and weaken it until the body keeps it."""
        known, (heads, parameters) = self.known, op.kind.loop
        carried = [self.of(x) for x in op.operands[heads:]]
        body = op.regions[-1]
        while True:
            for region in op.regions:
                for arg, fact in zip(region.args[parameters:], carried):
                    known[arg] = (fact,)
                if heads:
                    first, step = (self.of(x).divisibility[0] for x in (op.operands[0], op.operands[2]))
                    known[region.args[0]] = (_scalar(min(first, step)),)
                self.block(region)
            after = [fact.meet(self.of(y)) for fact, y in zip(carried, body.yields)]
            if after == carried:
                break
            carried = after
        known[op] = tuple(carried)

    # -- index arithmetic ----------------------------------------------------------------------------------------------
    def size(self, op):
        return T.element(op.type).pointee.bytes

    def constant(self, op, number):
        return _scalar(lowest_bit(abs(number)) if isinstance(number, int) and not isinstance(number, bool) else 1)

    def arange(self, op, start):
        return AxisInfo((lowest_bit(op.type.numel),), (lowest_bit(start),), (1,))

    def sum(self, op, x, y, by):
        """x + y, x - y, or x plus y times a number of bytes."""
        contiguity, divisibility, constancy = [], [], []
        for a in range(len(x.contiguity)):
            left = min(x.contiguity[a], y.constancy[a])
            right = 1 if by < 0 else min(y.contiguity[a], x.constancy[a])
            run = max(left, right, 1)
            contiguity.append(run)
            divisibility.append(min(x.at(a, run), y.at(a, run) * abs(by)))
            constancy.append(min(x.constancy[a], y.constancy[a]))
        return AxisInfo(tuple(contiguity), tuple(divisibility), tuple(constancy))

    def product(self, op, x, y):
        if constant_of(op.operands[1]) == 1:
            return x
        if constant_of(op.operands[0]) == 1:
            return y
        rank = range(len(x.contiguity))
        divisors = tuple([min(EVERYTHING, x.at(a, 1) * y.at(a, 1)) for a in rank])
        return AxisInfo((1,) * len(rank), divisors, tuple(map(min, x.constancy, y.constancy)))

    def scaled(self, op, x, by):
        divisors = tuple([min(EVERYTHING, x.at(a, 1) * by) for a in range(len(x.contiguity))])
        return x if by == 1 else AxisInfo((1,) * len(divisors), divisors, x.constancy)

    def keeps(self, source, to):
        """Runs and divisors survive a cast between wide integers, signed or not."""
        return all(type(t) is T.Scalar and t.is_int and t.bits >= 32 for t in (source, to))

    def cast(self, op, of):
        return _same(op, of(op.operands[0]))

    def repointed(self, op, x):
        """Addresses stay as they are: elements of the same size still count up."""
        before, after = pointees(op)
        if before == after:
            return x
        return _same(op, x)._replace(divisibility=tuple([x.at(a, 1) for a in range(len(x.divisibility))]))

    def hint(self, op, x):
        fields = []
        for have, said in zip(x, (op.attrs["contiguous"], op.attrs["divisible"], op.attrs["constancy"])):
            said = said if said is None or isinstance(said, (tuple, list)) else (said,)
            fields.append(have if said is None else tuple(max(h, lowest_bit(s)) for h, s in zip(have, said)))
        return AxisInfo(*fields)

    def view(self, op, x):
        if op.kind is ops.reshape:
            return _reshape(op, x)
        if op.kind is ops.splat:
            shape = op.attrs["shape"]
            return AxisInfo((1,) * len(shape), x.divisibility * len(shape), tuple(map(lowest_bit, shape)))
        if op.kind is ops.expand_dims and not T.shape(op.operands[0].type):
            return x
        if op.kind is ops.broadcast:
            return x._replace(constancy=moved(op, x.constancy, 1, lambda _, length: length))
        divisor = min([x.at(a, 1) for a in range(len(x.contiguity))]) if op.kind is ops.expand_dims else 1
        return AxisInfo(moved(op, x.contiguity, 1), moved(op, x.divisibility, divisor), moved(op, x.constancy, 1))


def _reshape(op, x):
    """Axes that survive keep their info. Else the innermost one, split or joined, keeps groups that fit both shapes."""
    old, new = T.shape(op.operands[0].type), T.shape(op.type)
    plain = [(d, k) for k, d in enumerate(old) if d != 1]
    wanted = [(d, k) for k, d in enumerate(new) if d != 1]
    if [d for d, _ in plain] == [d for d, _ in wanted]:
        out = [list(xs) for xs in _nothing(op.type)]
        for (_, a), (_, b) in zip(plain, wanted):
            for mine, theirs in zip(out, x):
                mine[b] = theirs[a]
        return AxisInfo(*map(tuple, out))
    if plain and wanted:
        axis, inner = plain[-1][1], wanted[-1][1]
        out = [list(xs) for xs in _nothing(op.type)]
        size = new[inner]
        out[0][inner], out[2][inner] = min(x.contiguity[axis], size), min(x.constancy[axis], size)
        out[1][inner] = x.at(axis, out[0][inner])
        return AxisInfo(*map(tuple, out))
    return _nothing(op.type)


# --- one rule for each other op that preserves axis info --------------------------------------------------------------
def _aligned_runs(x, y):
    """On each axis, groups of x that count up from a multiple of their length and that y, the same, is a multiple of.

    Within such a group x rounded down to a multiple of y is the same, and what is left counts up.
    """
    return tuple(map(min, x.contiguity, x.divisibility, y.divisibility, y.constancy))


def _runs_of_quotient(known, op, x, y):
    """The aligned runs, if rounding is downwards: towards zero it turns round below 0."""
    alone = (1,) * len(x.contiguity)
    if not T.element(op.type).is_int:
        return alone
    runs = _aligned_runs(x, y)
    return runs if runs == alone or known.nonnegative(op.operands[0]) else alone


def _div(known, op, x, y):
    by = constant_of(op.operands[1]) if T.element(op.type).is_int else None
    return _quotient(op, x, y, _runs_of_quotient(known, op, x, y), by or 0)


def _rem(known, op, x, y):
    if not T.element(op.type).is_int:
        return _same(op, x, y)
    return _remainder(op, x, y, _runs_of_quotient(known, op, x, y))


def _quotient(op, x, y, runs, by):
    """Within a run that starts at a multiple of the divisor's power of two, the quotient stays. A multiple of 64 by 2
    is one of 32; `by` is 0 if the divisor is not known."""
    same, exact = map(min, x.constancy, y.constancy), by > 0 and by == lowest_bit(by)
    divisors = tuple(max(1, x.at(a, 1) // by) if exact else 1 for a in range(len(x.contiguity)))
    return AxisInfo((1,) * len(runs), divisors, tuple(map(max, runs, same)))


def _remainder(op, x, y, runs):
    """x % y counts up within runs that neither wrap nor start off a multiple of y's power of two."""
    divisors = tuple(min(x.at(a, run), y.at(a, run)) for a, run in enumerate(runs))
    return AxisInfo(runs, divisors, tuple(map(min, x.constancy, y.constancy)))


def _shr(known, op, x, y):
    """x >> 3 is x / 8, rounded down."""
    count = constant_of(op.operands[1])
    if count is None or not 0 <= count < T.element(op.type).bits:
        return _same(op, x, y)
    y = _multiples_of(y, 1 << count)
    return _quotient(op, x, y, _aligned_runs(x, y), 1 << count)


def _and(known, op, x, y):
    """x & 7 is x % 8, never negative."""
    mask = constant_of(op.operands[1])
    if T.element(op.type) is T.i1 or mask is None or mask <= 0 or mask & (mask + 1):
        return _same(op, x, y)
    y = _multiples_of(y, mask + 1)
    return _remainder(op, x, y, _aligned_runs(x, y))


def _multiples_of(x, divisor):
    return x._replace(divisibility=(divisor,) * len(x.divisibility))


def _equal(known, op, *infos):
    return _same(op, *infos)


def _same(op, *infos):
    """Only equality survives."""
    rank = range(len(infos[0].contiguity))
    return _nothing(op.type)._replace(constancy=tuple(min(i.constancy[a] for i in infos) for a in rank))


def _either(known, op, x, y):
    """The least or the greatest of two numbers is one of them."""
    divisors = tuple(min(x.at(a, 1), y.at(a, 1)) for a in range(len(x.contiguity)))
    return _same(op, x, y)._replace(divisibility=divisors)


def _compare(known, op, x, y):
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


def _select(known, op, c, x, y):
    both = x.meet(y)
    shared = tuple(min(both.contiguity[a], c.constancy[a]) for a in range(len(both.contiguity)))
    return AxisInfo(
        shared,
        tuple(min(x.at(a, shared[a]), y.at(a, shared[a])) for a in range(len(shared))),
        tuple(map(min, both.constancy, c.constancy)),
    )


def _load(known, op, *infos):
    """What lies at one address is one value, unless it changes."""
    return None if op.attrs["volatile"] else _same(op, *infos)


_RULES = {
    ops.shl: _equal, ops.shr: _shr, ops.div: _div, ops.rem: _rem, ops.select: _select, ops.load: _load,
    ops.lt: _compare, ops.le: _compare, ops.gt: _compare, ops.ge: _compare, ops.eq: _equal, ops.ne: _equal,
    ops.and_: _and, ops.or_: _equal, ops.xor: _equal, ops.max_: _either, ops.min_: _either,
    ops.abs_: lambda known, op, x: _either(known, op, x, x),
}  # fmt: skip
