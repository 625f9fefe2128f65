"""The tile IR: typed SSA with structured regions, immutable and acyclic.

An op *is* its value: operands point at the ops that made them, nothing points back. So parts that a pass leaves alone
are shared, Python's `match` is the pattern language, and reference counting frees everything.

    match value:
        case Op(ops.add, (x, Op(ops.mul, (y, z)))): ...
"""

from __future__ import annotations

from typing import Any, final

from tritium.named_tuples import NamedTuple


class Loc(NamedTuple):
    """Where in the user's source an op comes from; `caller` is the call that inlined it."""

    file: str
    line: int
    col: int
    end_line: int
    end_col: int
    function: str = ""
    caller: Loc | None = None


class Value:
    """Something an op can use: an Arg, an Op with one result, or a Result of an op with several."""

    __slots__ = ()
    type: Any  # a `types.Type`; readers know which of them


@final
class Arg(Value):
    """A parameter of a kernel or of a region. `attrs` holds what the caller promises, such as {"divisible": 16}."""

    __slots__ = ("attrs", "name", "type")

    def __init__(self, type, name="", attrs=None):
        self.type = type
        self.name = name
        self.attrs = attrs or {}

    def __repr__(self):
        return f"Arg({self.type}, {self.name!r})"


@final
class Op(Value):
    """One operation. Never changed after it is made; `replace` makes a copy with other parts.

    `type` is that of an op with one result, None of an op without.
    """

    __slots__ = ("attrs", "kind", "loc", "operands", "regions", "type", "types")
    __match_args__ = ("kind", "operands", "attrs")

    def __init__(self, kind, operands, attrs, types, regions=(), loc=None):
        self.kind = kind
        self.operands = operands
        self.attrs = attrs
        self.types = types
        self.type = types[0] if types else None
        self.regions = regions
        self.loc = loc

    @property
    def results(self):
        """The values this op makes: itself, or one `Result` for each of its several types."""
        if len(self.types) == 1:
            return (self,)
        return tuple(Result(self, k) for k in range(len(self.types)))

    @property
    def pointer(self):
        """The pointer, or tile of pointers, through which this op accesses global memory."""
        return self.operands[self.kind.access.pointer]

    @property
    def mask(self):
        """The mask of an op that accesses global memory; None if it has none."""
        at = self.kind.access.mask
        return self.operands[at] if at is not None and at < len(self.operands) else None

    def replace(self, operands=None, attrs=None, types=None, regions=None):
        """A copy with some parts exchanged."""
        return Op(self.kind,
                  self.operands if operands is None else operands,
                  self.attrs if attrs is None else attrs,
                  self.types if types is None else types,
                  self.regions if regions is None else regions,
                  self.loc)

    def __repr__(self):
        return f"Op({self.kind.name}: {', '.join(map(str, self.types))})"


@final
class Result(Value):
    """Result number `index` of an op with several. Two of the same op and index are equal."""

    __slots__ = ("index", "op")
    __match_args__ = ("op", "index")

    def __init__(self, op, index):
        self.op = op
        self.index = index

    @property
    def type(self):
        return self.op.types[self.index]

    def __eq__(self, other):
        return type(other) is Result and other.op is self.op and other.index == self.index

    def __hash__(self):
        return hash((self.op, self.index))

    def __repr__(self):
        return f"Result({self.op!r}, {self.index})"


def op_of(x) -> Any:
    """The op that makes a value; an argument is itself."""
    return x.op if type(x) is Result else x


class Block:
    """A list of ops with parameters. The last op of a region's block is its `yield`."""

    __slots__ = ("args", "ops")

    def __init__(self, args, ops):
        self.args = tuple(args)
        self.ops = tuple(ops)

    @property
    def yields(self):
        """The values the closing `yield` hands out (empty when there is none)."""
        return self.ops[-1].operands if self.ops and self.ops[-1].kind.terminator else ()

    def __repr__(self):
        return f"Block({len(self.args)} args, {len(self.ops)} ops)"


class Module:
    """One kernel: its name, parameters, body and attributes (target, options), and the functions it calls.

    Device functions are inlined unless they are marked `noinline`. Those are modules, too: a body whose closing `yield`
    hands out the results, and no functions of their own. Names are unique in a module; nothing calls itself.
    """

    __slots__ = ("_found", "attrs", "body", "functions", "name")

    def __init__(self, name, body, attrs=None, functions=()):
        self.name = name
        self.body = body
        self.attrs = attrs or {}
        self.functions = tuple(functions)
        self._found = {}

    @property
    def args(self):
        return self.body.args

    def replace(self, body=None, attrs=None, functions=None):
        """A copy with another body, attributes or functions; the same object when nothing differs."""
        body = self.body if body is None else body
        attrs = self.attrs if attrs is None else attrs
        functions = self.functions if functions is None else tuple(functions)
        if body is self.body and attrs == self.attrs and functions == self.functions:
            return self
        return Module(self.name, body, attrs, functions)

    def __reduce__(self):  # what analyses have found stays here
        return Module, (self.name, self.body, self.attrs, self.functions)

    def found_by(self, analysis):
        """What an analysis, a function of a module, finds out about this one. It runs once: a module never changes."""
        if analysis not in self._found:
            self._found[analysis] = analysis(self)
        return self._found[analysis]

    @property
    def kinds(self):
        """The kinds of the ops of the body: a pass that looks for some of them need not walk a module without.

        >>> from tritium.ir.text import parse_module
        >>> [kind.name for kind in parse_module("kernel @f(%x: i32) {\\n  %0 = add %x, %x : i32\\n}").kinds]
        ['add']
        """
        return self.found_by(_kinds)

    def __str__(self):
        from .text import print_module
        return print_module(self)

    def __repr__(self):
        return f"Module({self.name!r}, {len(self.body.ops)} ops)"


def _kinds(module):
    return frozenset([op.kind for op in walk(module.body)])


def behind_views(x):
    """The value whose elements a value shows: broadcasts, transposes and other views are taken off.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f(%x: f32) {\\n  %0 = splat %x {shape=(8,)} : tile<8xf32>\\n}")
    >>> behind_views(m.body.ops[0])
    Arg(f32, 'x')
    """
    while type(x) is Op and x.kind.view:
        x = x.operands[0]
    return x


def walk(block):
    """Every op of a block and of its regions, in order, an op before its regions."""
    stack = [iter(block.ops)]  # not recursive: each op would pass through a generator for each region around it
    while stack:
        for op in stack[-1]:
            yield op
            if op.regions:
                stack += [iter(region.ops) for region in reversed(op.regions)]
                break
        else:
            stack.pop()


def closure(values, onward):
    """`values`, and all that `onward(x)` gives for one of them in turn: each value once, the last one first.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f(%x: i32) {\\n %0 = add %x, %x : i32\\n %1 = mul %0, %x : i32\\n}")
    >>> list(closure(m.body.ops[1:], lambda x: x.operands if type(x) is Op else ()))
    [Op(mul: i32), Arg(i32, 'x'), Op(add: i32)]
    """
    seen, left = set(), [*values]
    while left:
        x = left.pop()
        if x not in seen:
            seen.add(x)
            yield x
            left += onward(x)


def called(block):
    """The names of the functions that a block calls, each once, in order."""
    return dict.fromkeys(op.attrs["callee"] for op in walk(block) if "callee" in op.attrs)


def callees_first(module):
    """The functions that a module's kernel calls, directly or through others, each after those it calls itself.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module('''kernel @k() { call {callee="f"} }
    ... function @g() { yield }  function @f() { call {callee="g"} yield }  function @unused() { yield }''')
    >>> [f.name for f in callees_first(m)]
    ['g', 'f']
    """
    if not module.functions:
        return []
    known, done = {f.name: f for f in module.functions}, {}

    def visit(block):
        for name in called(block):
            if name not in done:
                visit(known[name].body)
                done[name] = known[name]

    visit(module.body)
    return list(done.values())
