"""How passes change a module: one forward sweep that rebuilds only what differs, and copies of regions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .builder import Builder, several, value_of
from .core import Block, Op, Result, walk
from .opdef import types_of

ERASE = ()


def sweep(module, rule, *then):
    """Apply `rule(b, op)` to every op, operands and regions first, and if anything changed the passes `then`; returns
    the same module if nothing did.

    The rule gives None to keep the op, a Value (or a tuple of them, one per result) to put in its place, or `ERASE`.
    What it emits through `b` is given to the rule in turn, and equal pure ops are merged on the way.

    >>> from tritium import ops
    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f(%x: i32) {  %0 = add %x, %x : i32  print %0 {prefix=\\"\\"} }")
    >>> print(sweep(m, lambda b, op: ops.mul(b, *op.operands) if op.kind is ops.add else None), end="")
    kernel @f(%x: i32) {
      %1 = mul %x, %x : i32
      print %1 {prefix=""}
    }
    """
    made = Rewriter(rule).module(module)
    for step in then if made is not module else ():
        made = step(made)
    return made


class Rewriter(Builder):
    """A builder that gives whatever is emitted to a rule first.

    `map` holds what stands for a replaced op; `original` is the op of the old module being rewritten.
    """

    def __init__(self, rule):
        super().__init__()
        self.rule = rule
        self.map = {}
        self.original = None

    def module(self, module):
        """The rewritten module, itself if nothing changed."""
        self.arguments = list(module.args)
        self.rewrite(module.body)
        return module.replace(body=_same_or_new(module.body, self.finish().ops))

    def emit(self, kind, operands, attrs=None, regions=(), loc=None) -> Any:
        """As the builder's, but the rule may put something else in the op's place."""
        attrs = attrs or {}
        operands, regions = tuple(operands), tuple(regions)
        types = types_of(kind, [x.type for x in operands], attrs, regions)
        op, before = Op(kind, operands, attrs, types, regions, loc or self.loc), self.loc
        self.loc = op.loc  # of what the rule makes of it
        made = self.rule(self, op)
        self.loc = before
        if made is None:
            return value_of(self.place(op))
        return made[0] if type(made) is tuple and len(op.types) == 1 else made

    def emit_as_is(self, kind, operands, attrs=None, regions=(), loc=None) -> Any:
        """Emit without asking the rule."""
        return super().emit(kind, operands, attrs, regions, loc)

    def value(self, x):
        """What stands for `x` now."""
        if type(x) is Result:
            found = self.map.get(x.op)
            return x if found is None else found[x.index]
        found = self.map.get(x)
        return x if found is None else found[0]

    def rewrite(self, block):
        """Rewrite the ops of `block` into the innermost open block."""
        rule, get, place = self.rule, self.map.get, self.place
        for op in block.ops:
            self.loc = op.loc
            operands, changed = op.operands, False
            for x in operands:
                if get(x.op if type(x) is Result else x) is not None:
                    operands, changed = tuple([self.value(x) for x in operands]), True
                    break
            regions = op.regions
            if regions:
                regions = tuple([self.region_of(r, op) for r in regions])
                changed = changed or not same(regions, op.regions)
            new = op.replace(operands=operands, regions=regions) if changed else op
            self.original = op
            made = rule(self, new)
            if made is not None:
                self.map[op] = several(made)
            elif (placed := place(new)) is not op:
                self.map[op] = placed.results

    def here(self):
        """The ops of the innermost open block so far."""
        return self._blocks[-1]

    def is_here(self, op):
        """True when `op` stands in the innermost open block."""
        return any(x is op for x in self._blocks[-1])

    def region_of(self, block, owner):
        """The rewritten form of a region of `owner`, itself if nothing changed."""
        self._blocks.append([])
        self._seen.append({})
        self.rewrite(block)
        self._seen.pop()
        return _same_or_new(block, self._blocks.pop())


def same(xs, ys):
    """True when two sequences hold the same objects.

    >>> x = object()
    >>> same([x, x], (x, x)), same([x], (x, x))
    (True, False)
    """
    if len(xs) != len(ys):
        return False
    for x, y in zip(xs, ys):
        if x is not y:
            return False
    return True


def _same_or_new(block, done):
    return block if same(done, block.ops) else Block(block.args, done)


def substitute(b, block, values, known=None):
    """Emit a fresh copy of `block`'s ops through `b` with its parameters replaced; returns what it yields.

    `known` has values for ops that are not to be emitted, and for parameters of other blocks: a tuple for an op with
    several results.

    >>> from tritium import ops
    >>> from tritium.ir import types as T
    >>> b = Builder()
    >>> x = b.argument(T.i32, "x")
    >>> with b.region([T.i32]) as r: ops.yield_(b, ops.add(b, r.args[0], r.args[0]))
    >>> substitute(b, r.block, [x])
    (Op(add: i32),)
    """
    names = dict(zip(block.args, [(v,) for v in values], strict=True))
    return _copy(b, block, {**names, **{key: several(x) for key, x in (known or {}).items()}})


def _copy(b, block, names):
    def value(x):
        found = names.get(x.op if type(x) is Result else x)
        return x if found is None else found[x.index if type(x) is Result else 0]

    for op in block.ops:
        if op in names:
            continue
        operands = [value(x) for x in op.operands]
        if op.kind.terminator:
            return tuple(operands)
        made = b.emit(op.kind, operands, op.attrs, [copy_region(b, r, names) for r in op.regions], op.loc)
        names[op] = several(made)
    return ()


def copy_region(b, block, names, begin: Callable[[], dict] = dict):
    """A fresh copy of a region, its own parameters renewed; `names` maps outer ops and parameters to values. `begin`
    emits ops at its beginning, and returns more names."""
    with b.region([a.type for a in block.args], [a.name for a in block.args]) as region:
        names = {**names, **{old: (new,) for old, new in zip(block.args, region.args)}, **begin()}
        yields = _copy(b, block, names)
        b.emit(block.ops[-1].kind, yields)
    return region.block


def annotate(block, attrs):
    """The block with other attributes of some ops (op -> all its attributes), itself if there are none.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f(%x: ptr<f32>) {  %0 = load %x : f32  store %x, %0 }")
    >>> load = m.body.ops[0]
    >>> print(m.replace(annotate(m.body, {load: {**load.attrs, "volatile": True}})), end="")
    kernel @f(%x: ptr<f32>) {
      %1 = load %x {volatile=True} : f32
      store %x, %1
    }
    """
    return _annotated(block, attrs, {}) if attrs else block


def _annotated(block, attrs, made):
    """`made` has the new ops by the old ones."""
    done = []
    for op in block.ops:
        operands, regions = op.operands, op.regions
        for x in operands:
            if (x.op if type(x) is Result else x) in made:
                operands = tuple([_in_new(x, made) for x in operands])
                break
        if regions:
            regions = tuple([_annotated(r, attrs, made) for r in regions])
            regions = op.regions if same(regions, op.regions) else regions
        if op in attrs or operands is not op.operands or regions is not op.regions:
            made[op] = op = op.replace(operands=operands, attrs=attrs.get(op), regions=regions)
        done.append(op)
    return _same_or_new(block, done)


def _in_new(x, made):
    if type(x) is Result:
        return Result(made[x.op], x.index) if x.op in made else x
    return made.get(x, x)


def uses(block, counts=None):
    """How often each op or parameter is used in a block and its regions; a result counts for its op.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f(%x: i32) {\\n  %0 = add %x, %x : i32\\n}")
    >>> uses(m.body)[m.args[0]]
    2
    """
    counts = {} if counts is None else counts
    for op in block.ops:
        for x in op.operands:
            key = x.op if type(x) is Result else x
            counts[key] = counts.get(key, 0) + 1
        for region in op.regions:
            uses(region, counts)
    return counts


def effects(op):
    """The strongest effect of an op and of what its regions hold: "", "read" or "write".

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f(%p: ptr<i32>) {\\n  %0 = load %p : i32\\n  store %p, %0\\n}")
    >>> [effects(op) for op in m.body.ops]
    ['read', 'write']
    """
    own = op.kind.effects_of(op)
    if not op.regions:
        return own
    for region in op.regions:
        if own == "write":
            break
        for inner in region.ops:
            theirs = effects(inner)
            if theirs == "write":
                return "write"
            own = own or theirs
    return own


def captured(op):
    """The values that the regions of an op read and do not make.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f(%c: i1, %p: ptr<i32>, %x: i32) { if %c { store %p, %x yield } { yield } }")
    >>> [x.name for x in captured(m.body.ops[0])]
    ['p', 'x']
    """
    inside = [inner for region in op.regions for inner in walk(region)]
    own = {*inside, *(arg for x in (op, *inside) for region in x.regions for arg in region.args)}
    return [x for inner in inside for x in inner.operands if (x.op if type(x) is Result else x) not in own]


def inputs(op):
    """What an op reads: its operands, and the values that its regions capture."""
    return (*op.operands, *captured(op)) if op.regions else op.operands


__all__ = ["ERASE", "Rewriter", "annotate", "captured", "copy_region", "effects", "inputs", "same", "substitute",
           "sweep", "uses"]  # fmt: skip
