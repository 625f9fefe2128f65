"""Checks before every access of memory: what `tritium sanitize` compiles.

    x = load(p, mask)   ->   ok = check(context, p, mask, ...)
                             x = load(p, ok)

The kernel gets one more parameter, `context`, through which checks know the arguments' memory and report. Lanes that
fail a check do not touch memory. Loops that wait for other programs get a bound.
"""

from __future__ import annotations

from .. import ops
from ..analysis.accesses import origins_of
from ..errors import places_of
from ..ir import types as T
from ..ir.core import Arg, Block, Op, walk
from ..ir.rewrite import sweep
from ..named_tuples import NamedTuple
from .inline_calls import inline_calls

__all__ = ["CONTEXT", "Site", "instrument", "rereads", "sites", "synchronises"]

CONTEXT = "sanitizer"  # the name of the added parameter
_SUMS = frozenset((ops.add, ops.sub, ops.mul, ops.shl))
_PICKS = frozenset((ops.min_, ops.max_))


class Site(NamedTuple):
    """One place of a kernel that is checked; `places` are (file, line, column, end line, end column, function), the
    user's line first, then those of the calls around it."""

    access: str
    origin: int
    element: str
    shape: tuple[int, ...]
    places: tuple[tuple, ...]


def instrument(module):
    """The module with checks, and the parameter `sanitizer` after its own.

    >>> from tritium.ir.text import parse_module
    >>> m = instrument(parse_module("kernel @f(%p: ptr<i32>, %x: i32) {\\n  store %p, %x\\n}"))
    >>> [op.kind.name for op in m.body.ops], m.args[-1].name, sites(m)[0].access
    (['check', 'store'], 'sanitizer', 'store')
    """
    module = inline_calls(module)
    context = Arg(T.Ptr(T.i8), CONTEXT)
    found = dict(origins_of(module))
    body = Block((*module.args, context), module.body.ops)
    return sweep(module.replace(body=body), _Rule(context, found))


def sites(module) -> list[Site]:
    """The places that an instrumented module checks, by number.

    >>> from tritium.ir.text import parse_module
    >>> sites(parse_module("kernel @f(%x: i32) { }"))
    []
    """
    found = {}
    for op in walk(module.body):
        if op.kind is ops.check:
            t = op.operands[1].type
            found[op.attrs["site"]] = Site(op.attrs["access"], op.attrs["origin"], T.element(t).pointee.name
                                           if type(T.element(t).pointee) is T.Scalar else "pointer", T.shape(t),
                                           places_of(op.loc))
        elif op.kind is ops.patience:
            found[op.attrs["site"]] = Site("wait", -1, "", (), places_of(op.loc))
        elif op.kind is ops.demand:
            found[op.attrs["site"]] = Site("demand", -1, op.attrs["what"], (), places_of(op.loc))
    missing = Site("", -1, "", (), ())  # its access was removed after all
    return [found.get(k, missing) for k in range(max(found, default=-1) + 1)]


def rereads(module) -> list[int]:
    """The parameters (-1: any) that a program of an instrumented module may load from after it has stored to them.

    >>> from tritium.ir.text import parse_module
    >>> rereads(instrument(parse_module("kernel @f(%p: ptr<i32>) {\\n  %0 = load %p : i32\\n  store %p, %0\\n}")))
    []
    """
    found = set()

    def visit(block, stored):
        for op in block.ops:
            if op.kind is ops.check:
                origin, access = op.attrs["origin"], op.attrs["access"]
                if access == "load" and (origin in stored or -1 in stored or origin == -1 and stored):
                    found.add(origin)
                if access == "store":
                    stored.add(origin)
            for region in op.regions * (2 if op.kind.loop else 1):  # what an iteration stores, the next may load
                visit(region, stored)

    visit(module.body, set())
    return sorted(found)


def synchronises(module) -> bool:
    """Whether programs of an instrumented module wait for each other, or their lanes.

    >>> from tritium.ir.text import parse_module
    >>> synchronises(instrument(parse_module("kernel @f() {\\n  barrier\\n}")))
    True
    """
    return any(op.kind is ops.notice or op.kind is ops.check and op.attrs["releases"] for op in walk(module.body))


class _Rule:
    """The rule of the sweep. Numbers the sites in the order of the program."""

    def __init__(self, context, found):
        self.context, self.found, self.count, self.wide = context, found, 0, {}

    def __call__(self, b, op):
        if op.kind is ops.while_:
            return self.bounded(b, op) if any(_waits(x) for region in op.regions for x in walk(region)) else None
        if op.kind is ops.demand and len(op.operands) == 1:
            b.emit_as_is(op.kind, (*op.operands, self.context), {**op.attrs, "site": self.number()}, (), op.loc)
            return ()
        if op.kind is ops.barrier:
            ops.notice(b, self.context, moment="barrier")
            return None
        if b.original not in self.found or op.kind is not b.original.kind:
            return None
        return self.access(b, op, self.found[b.original])

    def number(self):
        self.count += 1
        return self.count - 1

    def access(self, b, op, origins):
        """An access with its check before it."""
        ok = self.check(b, op, origins)
        if op.kind is ops.atomic_cas:
            return self.swap(b, op, ok)
        values = 1 if op.kind is ops.load else 2
        operands = (*op.operands[:values], ok, *op.operands[values + 1:])
        made = b.emit_as_is(op.kind, operands, op.attrs, (), op.loc)
        if op.kind is ops.store and T.shape(ok.type) and not _injective(op.operands[0]):
            b.emit_as_is(ops.verify, (self.context, *operands), {"site": ok.attrs["site"]}, (), op.loc)
        self.acquired(b, op)
        return () if made is None else made

    def check(self, b, op, origins):
        p, values = op.operands[0], {ops.load: 1, ops.atomic_cas: 3}.get(op.kind, 2)
        mask = op.operands[values:values + 1]
        access = "volatile" if op.attrs.get("volatile") else op.kind.name
        if op.kind.atomic:
            access = {"add": "atomic", "xor": "atomic", "load": "volatile"}.get(op.attrs.get("how", ""), "swap")
        attrs = {"access": access, "site": self.number(), "origin": next(iter(origins)) if len(origins) == 1 else -1,
                 "foreign": not origins, "masked": bool(mask), "releases": _orders(op, "release")}
        return b.emit_as_is(ops.check, (self.context, p, *mask, *self.indices(b, p)), attrs, (), op.loc)

    def swap(self, b, op, ok):
        """A compare-and-swap takes no mask: it is skipped as a whole."""
        shape = T.shape(op.type)
        if shape:
            flat = ops.reshape(b, ok, shape=(T.numel(ok.type),)) if len(shape) > 1 else ok
            with b.region([T.i1, T.i1]) as both:
                ops.yield_(b, ops.and_(b, *both.args))
            ok = b.emit_as_is(ops.reduce, (flat,), {**ops.reduce.defaults, "axis": 0}, (both.block,), op.loc)
        with b.region() as then:
            made = b.emit_as_is(op.kind, op.operands, op.attrs, (), op.loc)
            self.acquired(b, op)
            ops.yield_(b, made)
        with b.region() as other:
            zero = ops.constant(b, value=0, type=T.element(op.type))
            ops.yield_(b, ops.splat(b, zero, shape=shape) if shape else zero)
        return b.emit_as_is(ops.if_, (ok,), {}, (then.block, other.block), op.loc)

    def acquired(self, b, op):
        """After an atomic of one element, or a volatile load, a program may know what another has done."""
        if _orders(op, "acquire"):
            ops.notice(b, self.context, op.operands[0], moment="acquire")

    def bounded(self, b, op):
        """A loop that waits, with a bound."""
        ops.notice(b, self.context, moment="wait")
        cond, body = op.regions
        last = cond.ops[-1]
        may = Op(ops.patience, (self.context,), {"site": self.number()}, (T.i1,), (), op.loc)
        both = Op(ops.and_, (last.operands[0], may), {}, (T.i1,), (), op.loc)
        lines = [*cond.ops[:-1], may, both, last.replace(operands=(both,))]
        made = b.emit_as_is(ops.while_, op.operands, op.attrs, (Block(cond.args, lines), body), op.loc)
        return () if made is None else made

    # --- offsets that may overflow --------------------------------------------------------------------------------
    def indices(self, b, p):
        """The 32-bit offsets that a pointer is computed with, in 64 bits and in the shape of the pointer."""
        out, path = [], []
        while type(p) is Op and (p.kind is ops.addptr or p.kind.view):
            if p.kind is ops.addptr:
                out += self.roots(b, p.operands[1], path)
            else:
                path = [p, *path]
            p = p.operands[0]
        return list(dict.fromkeys(out))

    def roots(self, b, x, path):
        """The 32-bit sums and products in an offset."""
        if type(x) is not Op:
            return []
        t = T.element(x.type)
        if x.kind.view:
            return self.roots(b, x.operands[0], [x, *path])
        if x.kind is ops.cast and T.element(x.operands[0].type) is T.i32:
            return self.roots(b, x.operands[0], path)
        if t is T.i64 and x.kind in _SUMS:
            return [root for y in x.operands for root in self.roots(b, y, path)]
        if t is not T.i32 or x.kind not in _SUMS or _fits(x):
            return []
        wide = self.widened(b, x)
        for op in path:
            wide = _again(b, op, wide)
        return [wide]

    def widened(self, b, x):
        """A 32-bit value, computed in 64 bits from what is no sum or product."""
        if x not in self.wide or self.wide[x][0] is not b._blocks[-1]:
            self.wide[x] = b._blocks[-1], self._widened(b, x)  # a value is known in its own block only
        return self.wide[x][1]

    def _widened(self, b, x):
        if type(x) is not Op or x.kind not in _SUMS and x.kind not in _PICKS and not x.kind.view:
            return ops.cast(b, x, to=T.i64)
        if x.kind.view:
            return _again(b, x, self.widened(b, x.operands[0]))
        return x.kind(b, *[self.widened(b, y) for y in x.operands])


def _again(b, op, x):
    """A shape op on another operand. Promises about 32-bit values are dropped."""
    return x if op.kind is ops.hint else b.emit(op.kind, (x,), op.attrs)


def _fits(x):
    bounds = _bounds(x)
    return bounds is not None and -(1 << 31) <= bounds[0] and bounds[1] < 1 << 31


def _bounds(x):
    """The least and the largest value of what is made of constants and ranges; None for anything else."""
    if type(x) is not Op:
        return None
    if x.kind is ops.constant:
        return (int(x.attrs["value"]),) * 2
    if x.kind is ops.arange:
        return x.attrs["start"], x.attrs["end"] - 1
    if x.kind.view:
        return _bounds(x.operands[0])
    if x.kind not in (ops.add, ops.sub, ops.mul):
        return None
    a, c = map(_bounds, x.operands)
    if a is None or c is None:
        return None
    how = {ops.add: int.__add__, ops.sub: int.__sub__, ops.mul: int.__mul__}[x.kind]
    every = [how(i, j) for i in a for j in c]
    return min(every), max(every)


def _injective(p):
    """Whether plainly no two lanes of a tile of pointers are equal: one range, not scaled, is added to a scalar."""
    ranges, left = 0, [p]
    while left:
        x = left.pop()
        if type(x) is not Op:
            return False
        if x.kind in (ops.add, ops.sub, ops.addptr, ops.cast, ops.hint):
            left += x.operands
        elif x.kind is ops.arange:
            ranges += 1
        elif x.kind is not ops.splat:
            return False
    return ranges == 1


def _waits(op):
    return op.kind.atomic or op.kind is ops.load and op.attrs["volatile"]


def _orders(op, what):
    """Whether an access of one element orders others of its program: "release" those before it, "acquire" those
    after."""
    if T.shape(op.operands[0].type):
        return False
    if op.kind is ops.load:
        return what == "acquire" and op.attrs["volatile"]
    return op.kind.atomic and op.attrs["sem"] in (what, "acq_rel")
