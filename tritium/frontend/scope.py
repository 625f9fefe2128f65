"""What the names of a function stand for while it is lowered, where they were bound, who reads and writes them.

A compile-time constant is the bare Python object; a run-time value is one of the language's (`tensor`, `tuple`, ...).
"""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable
from functools import cached_property
from types import FunctionType, ModuleType
from weakref import WeakKeyDictionary

from .. import knobs
from ..errors import explain, fail
from ..ir.core import Loc
from ..language.source import dependencies, dialect, spelling_hints
from ..language.types import values
from ..language.types.aggregate import Aggregate
from ..named_tuples import NamedTuple


class Missing:
    """Stands for "no such name"; there is one."""

    def __repr__(self):
        return "nothing"


MISSING = Missing()


class Unbound:
    """A name that some path leaves without a value: why, and the node that binds it on the others."""

    def __init__(self, reason, node):
        self.reason, self.node = reason, node


class Deferred:
    """A value made only when somebody reads the name (a loop variable after its loop)."""

    def __init__(self, make):
        self.make = make


class Closure:
    """A lambda and the frame whose names it sees."""

    def __init__(self, node, frame):
        self.node, self.frame = node, frame
        self.__name__ = "<lambda>"

    def __repr__(self):
        return self.__name__


# --- which names a piece of syntax reads and writes ---------------------------------------------------------------
class Names(NamedTuple):
    """Names read, names bound, and names of which a method is called: a method may change an aggregate."""

    reads: frozenset
    writes: frozenset
    called: frozenset = frozenset()


# Syntax trees are parsed once per function and shared by all its compilations, so this is computed once too.
_NAMES: WeakKeyDictionary[ast.AST, Names] = WeakKeyDictionary()
_SCOPES = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)


def names_of(node):
    """The names a statement may read and may bind, nested statements included.

    >>> sorted(names_of(ast.parse("x[i] += y").body[0]).writes)
    ['x']
    """
    found = _NAMES.get(node)
    if found is None:
        reads, writes, called = set(), set(), set()
        _collect(node, reads, writes, called)
        found = _NAMES[node] = Names(frozenset(reads), frozenset(writes), frozenset(called))
    return found


def _collect(node, reads, writes, called):
    kind = type(node)
    if kind is ast.Name:
        (reads if type(node.ctx) is ast.Load else writes).add(node.id)
        return
    if kind is ast.AugAssign and type(node.target) is ast.Name:
        reads.add(node.target.id)
    elif kind is ast.Subscript and type(node.ctx) is ast.Store and type(node.value) is ast.Name:
        writes.add(node.value.id)
    elif kind is ast.Call and type(node.func) is ast.Attribute and type(node.func.value) is ast.Name:
        called.add(node.func.value.id)
    if kind in _SCOPES:
        writes = set()  # what it binds is its own
    for field in node._fields:
        child = getattr(node, field)
        if isinstance(child, ast.AST):
            _collect(child, reads, writes, called)
        elif type(child) is list:
            for item in child:
                if isinstance(item, ast.AST):
                    _collect(item, reads, writes, called)


def reads(steps):
    """Every name the steps may read."""
    return frozenset().union(*[step.names.reads if type(step) is Step else names_of(step).reads for step in steps])


def writes(steps):
    """Every name the statements may bind."""
    return frozenset().union(*[names_of(step).writes for step in steps])


def called(steps):
    """Every name of which the statements call a method."""
    return frozenset().union(*[names_of(step).called for step in steps])


class Step(NamedTuple):
    """Something to lower in a list of statements that is not a statement: one turn of an unrolled loop."""

    node: ast.AST
    run: Callable[[object], object]
    names: Names


# A write that certainly happens before a read hides the value from before.
def exposed(steps):
    """The names whose value from before the statements may be read by them.

    >>> sorted(exposed(ast.parse("x = a\\nfor i in range(n): y = x + i + z").body))
    ['a', 'n', 'range', 'z']
    """
    return _exposed(steps)[0]


def _exposed(steps):
    found, written = set(), set()
    for step in steps:
        uses, sure = _exposed_by(step)
        found |= uses - written
        written |= sure
    return found, written


def _exposed_by(node):
    kind = type(node)
    if kind is ast.If:
        (then, sure), (other, sure_too) = _exposed(node.body), _exposed(node.orelse)
        return names_of(node.test).reads | then | other, sure & sure_too
    if kind is ast.For:
        inside, _ = _exposed(node.body)
        return names_of(node.iter).reads | (inside - names_of(node.target).writes), set()
    if kind is ast.While:
        return names_of(node.test).reads | _exposed(node.body)[0], set()
    names = names_of(node)
    return names.reads, names.writes


def captured_names(function):
    """The names that lambdas of a function read: they are looked up at each call, so they may be read at any time."""
    return frozenset().union(*[names_of(node).reads for node in ast.walk(function) if type(node) is ast.Lambda])


# --- values -------------------------------------------------------------------------------------------------------
def same(x, y):
    """Whether two values may stand for one another where paths meet: equal types at run time, equal constants."""
    if x is y:
        return True
    if type(x) is not type(y):
        return False
    if type(x) is values.tensor:
        return x.handle.type is y.handle.type
    one, two = values.parts_of(x), values.parts_of(y)
    if one is None or two is None:
        return one is two and _equal(x, y)
    return len(one[0]) == len(two[0]) and all(map(same, one[0], two[0])) and _kind(x) == _kind(y)


def _equal(x, y):
    return x == y or (x != x and y != y)


def _kind(value):
    """What a composite value fixes besides its parts: the names of its fields, the shape of its tile."""
    return None if isinstance(value, tuple) else values.type_of(value)


def own_copies(names):
    """The names with aggregates of their own: Python methods change those in place, on one path only."""
    return {name: Aggregate.remade(value, Aggregate.parts(value)) if isinstance(value, Aggregate) else value
            for name, value in names.items()}


def describe(value):
    """The type of a value, as errors name it.

    >>> describe(3), describe((1, None))
    ('the constant 3', '(the constant 1, None)')
    """
    if type(value) is values.tensor:
        return describe_type(value.type)
    if value is None:
        return "None"
    if isinstance(value, tuple):
        return f"({', '.join(map(describe, value))})"
    if values.parts_of(value) is not None:
        return type(value).__name__
    return f"the constant {_short(value)}"


def describe_type(kind):
    """`fp32`, `fp32[128]`, `pointer<fp16>[64, 32]`."""
    return f"{kind.scalar}{list(kind.shape)}" if kind.is_block() else str(kind)


# --- functions and frames -----------------------------------------------------------------------------------------
class Parameters(NamedTuple):
    """What a function takes: names it accepts by position, and the kind of each."""

    positional: tuple
    kinds: dict
    simple: bool  # every parameter has a place and no other rules
    annotations: dict

    def is_constant(self, name):
        """Whether a parameter is annotated with tl.constexpr."""
        return "constexpr" in str(self.annotations[name])


class Function:
    """What is known of a function (or a lambda) before it is called: its syntax and its place in the file."""

    def __init__(self, source, node):
        self.source, self.node, self.name = source, node, source.__name__
        self.file, self.first = source.file, source.def_line - 1
        self.indent = source.span(node).indent
        self.captured = captured_names(node) if "lambda" in source.src else frozenset()
        self._parts = {}

    @cached_property
    def parameters(self):
        """Its parameters, from its signature."""
        kinds = {name: p.kind for name, p in self.source.signature.parameters.items()}
        positional = tuple(name for name, kind in kinds.items() if kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD)
        annotations = {name: p.annotation for name, p in self.source.signature.parameters.items()}
        return Parameters(positional, kinds, len(positional) == len(kinds), annotations)

    @cached_property
    def arguments(self):
        """The nodes that declare the parameters: where a parameter's value comes from."""
        spec = self.node.args
        rest = [argument for argument in (spec.vararg, spec.kwarg) if argument is not None]
        return {argument.arg: argument for argument in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs, *rest)}

    def part(self, node):
        """A lambda inside this function."""
        if node not in self._parts:
            self._parts[node] = Function(self.source, node)
        return self._parts[node]

    def heading(self):
        """The line with its `def`."""
        span = self.source.span(self.node)
        line = span.text.partition("\n")[0]
        return span._replace(end_line=span.line, end_col=len(line), text=line)


def function_of(source):
    """The Function of a Source; computed once for each version of its text, and kept with it."""
    node = source.parse().body[0]
    found = vars(source).get("_function")
    if found is None or found.node is not node:
        found = source._function = Function(source, node)
    return found


class Frame:
    """One call of a function being lowered.

    `names` maps each local name to its value, `places` to the node that bound it last, `entry` holds the arguments.
    `live` are the names that may still be read after the statement list at hand, `tail` says that nothing at all comes
    after it in the function; `loop` is the innermost loop.
    `caller` is the location of the call that brought us here, `parent` its frame; `within` is the frame whose locals
    a lambda sees. `declared` names keep the constants of their next assignment. `dialect` is the level of the function;
    functions of the language follow their caller.
    """

    __slots__ = ("caller", "captured", "declared", "dialect", "entry", "function", "is_kernel", "live", "loop", "names",
                 "parent", "places", "resolved", "source", "tail", "within")

    def __init__(self, function, names, *, caller=None, parent=None, within=None, is_kernel=False):
        self.function, self.source, self.names = function, function.source, names
        self.entry = dict(names)
        self.places = dict(function.arguments)
        self.live = self.captured = function.captured
        self.loop, self.tail = None, True
        self.caller, self.parent, self.within, self.is_kernel = caller, parent, within, is_kernel
        self.resolved = {}
        self.declared = frozenset()  # names whose next assignment keeps constants
        self.dialect = parent.dialect if parent is not None and dependencies.is_language(self.source) \
            else dialect.of(self.source)

    def loc(self, node):
        """Where `node` stands in the file."""
        function = self.function
        return Loc(function.file, function.first + node.lineno, function.indent + node.col_offset,
                   function.first + node.end_lineno, function.indent + node.end_col_offset, function.name, self.caller)

    def bind(self, name, value, node):
        """Give a name its value; `node` is what a later error points at."""
        self.names[name] = value
        self.places[name] = node

    def lookup(self, name):
        """The value of a name: local, captured, global, or one of the few Python builtins kernels know."""
        value = self.names.get(name, MISSING)
        if value is MISSING:
            if self.within is not None:
                return self.within.lookup(name)
            value = self.resolved.get(name, MISSING)
            if value is MISSING:
                value = self.resolved[name] = self._outer(name)
            return value
        kind = type(value)
        if kind is Deferred:
            return value.make()
        if kind is Unbound:
            raise explain(NameError(f"{name} is not defined"), note=(value.reason, value.node),
                          hint=f"bind {name} before, so that every path gives it a value")
        return value

    def _outer(self, name):
        closure, module = self.source.closure, self.source.__globals__
        if name in closure:
            return self._allowed(name, closure[name])
        if name in module:
            return self._allowed(name, module[name])
        if name in PYTHON:
            return getattr(builtins, name)
        if name == "NotImplemented":  # what an operator of an aggregate gives
            return NotImplemented
        raise explain(NameError(f"{name} is not defined"), hint=self._suggestion(name))

    def _allowed(self, name, value):
        """Only what is part of the kernel's hash, or cannot change, may be used from outside."""
        if isinstance(value, values.constexpr):
            return values.unwrap(value)
        if _is_allowed(value) or knobs.compilation.allow_non_constexpr_globals or name in PYTHON:
            return value
        if isinstance(value, FunctionType):
            raise fail(NameError, f"Unsupported function referenced: {name} is plain Python",
                       hint=spelling_hints.of_callable(name, value.__module__ or ""))
        raise fail(
            NameError, f"Cannot access global variable {name} from within @jit'ed function: a kernel only sees globals "
            "that are constexpr, since the compiled code would not notice a change",
            hint=f"pass {name} as an argument: memory is reached through pointers" if _is_array(value) else
            f"write `{name} = tl.constexpr({_short(value)})` where it is defined, or pass it as a "
            f"`{name}: tl.constexpr` argument")

    def _suggestion(self, name):
        from difflib import get_close_matches  # for errors alone

        instead = spelling_hints.instead_of_builtin(name)
        if instead is not None:
            return instead
        if spelling_hints.is_of_language(name):
            return f"use tl.{name}"
        known = [*self.names, *self.source.closure, *self.source.__globals__, *PYTHON]
        close = get_close_matches(name, known, 1, 0.7)
        if close:
            return f"did you mean `{close[0]}`?"
        if hasattr(builtins, name):
            return f"Python's `{name}` cannot be used in a kernel"
        return None


def _is_array(value):
    """Whether `value` is an array or a tensor of a library."""
    return not isinstance(value, type) and hasattr(value, "shape") and hasattr(value, "dtype")


def _short(value):
    text = repr(value)
    return text if len(text) <= 20 else str(value) if isinstance(value, values.dtypes.dtype) else "..."


def is_namedtuple(value):
    """Whether `value` is a class of named tuples."""
    return isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields")


def is_aggregate(value):
    """Whether `value` is a class made by `tl.core._aggregate`."""
    return isinstance(value, type) and getattr(value, "__triton_aggregate__", False)


def _is_allowed(value):
    if value is None or isinstance(value, (ModuleType, dependencies.Compilable)) or dependencies.is_language(value):
        return True
    if isinstance(value, type):
        return is_namedtuple(value) or is_aggregate(value)
    # A function of the standard library written in C, such as math.floor, has no text that could change.
    return type(value) is type(len)


# Python builtins a kernel may use.
PYTHON = ("len", "list", "range", "float", "int", "isinstance", "getattr", "hasattr", "print", "min", "max")
