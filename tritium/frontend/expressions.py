"""Expressions: one function for each kind of syntax node, found in `EXPRESSIONS`.

Each takes the builder and the node and gives a language value: a bare Python object when it is known at compile time.
"""

from __future__ import annotations

import ast
import builtins

from .. import ops
from ..ir.builder import several
from ..ir.core import Block
from ..language.builtins import calling, indexing, operators, program
from ..language.types import values
from ..language.types.limits import LETTERS, is_wide
from . import attributes, binding, budget, calls, diagnose
from .control import close, condition
from .scope import Closure, describe, describe_type, same

_BINARY = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
}  # fmt: skip
_UNARY = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not"}
_COMPARE = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


def constant(b, node):
    """A literal is itself."""
    if isinstance(node.value, (complex, bytes)):
        raise diagnose.unsupported(b, node, f"unsupported AST node type: {type(node.value).__name__} literal")
    return node.value


def name(b, node):
    """What the name stands for."""
    return b.frame.lookup(node.id)


def display(b, node):
    """`(a, b)` and `[a, b]`: a tuple of the language."""
    parts = calls.elements(b, node.elts)
    budget.check_parts(b, node, parts)
    return values.tuple(parts)


# --- operators ----------------------------------------------------------------------------------------------------
def binary(b, node):
    """`x + y`"""
    x, y = b.visit(node.left), b.visit(node.right)
    b.at(node)
    return apply(b, _BINARY[type(node.op)], x, y)


def apply(b, symbol, x, y):
    """`x symbol y`; also of `x symbol= y`."""
    made = operators.binary(b, symbol, x, y)
    return values.tuple(made) if type(made) is builtins.tuple else made


def symbol_of(operator):
    """The text of a binary operator's node."""
    return _BINARY[type(operator)]


def unary(b, node):
    """`-x`"""
    x = b.visit(node.operand)
    b.at(node)
    return operators.unary(b, _UNARY[type(node.op)], x)


def compare(b, node):
    """`x < y < z`: both must hold, a constant that is false decides; `is` asks at compile time."""
    x, found = b.visit(node.left), None
    for how, right in zip(map(type, node.ops), node.comparators):
        if how is ast.In or how is ast.NotIn:
            word, kinds = "in" if how is ast.In else "not in", [type(x).__name__ for x in (x, b.visit(right))]
            raise diagnose.unsupported(b, node, f"unsupported AST node type: {how.__name__}: unsupported operand "
                                       f"type(s) for {word}: {kinds[0]!r} and {kinds[1]!r}",
                                       hint="compare with each of the values: `(x == a) or (x == b)`")
        y = b.visit(right)
        b.at(node)
        _warn_of_precedence(b, node, right)
        if how is ast.Is or how is ast.IsNot:
            holds = (x is y) is (how is ast.Is)
            _warn_of_identity(b, holds, x, y)
        else:
            holds = operators.compare(b, _COMPARE[how], x, y)
        found = holds if found is None else operators.logical_and(b, found, holds)
        if values.is_constant(found) and not found:
            break
        x = y
    return found


def _warn_of_precedence(b, node, right):
    """`i < n & mask`, where `&` comes first, as if it were `and`."""
    for side in (node.left, right):
        if type(side) is not ast.BinOp or type(side.op) not in (ast.BitAnd, ast.BitOr):
            continue
        if len(node.ops) > 1 or _is_condition(b, side.left) is not _is_condition(b, side.right):
            symbol = symbol_of(side.op)
            calling.warn(b, f"`{symbol}` is stronger than a comparison, so this compares with {ast.unparse(side)}; "
                         f"write parentheses: `(i < n) {symbol} (j < m)`")


def _is_condition(b, node):
    """Whether a syntax node is a comparison, or the name of one's result."""
    value = b.frame.names.get(node.id) if type(node) is ast.Name else None
    return type(node) is ast.Compare or type(value) is values.tensor and value.dtype == values.dtypes.int1


def _warn_of_identity(b, holds, x, y):
    """`is` between a run-time value and a constant other than None is decided before either is known."""
    kinds = [type(z) is values.tensor for z in (x, y)]
    if any(kinds) and not all(kinds) and x is not None and y is not None:
        calling.warn(b, f"`is` compares objects when the kernel is compiled, so this is always {holds}; use "
                     f"{'!=' if holds else '=='} to compare a run-time value")


def bind_and_give(b, node):
    """`(x := e)`: binds as `x = e` does, and is what was bound."""
    value = binding.decay(b, b.visit(node.value))
    b.frame.bind(node.target.id, value, node.target)
    return value


def both_or_either(b, node):
    """`and`, `or`: a constant decides at compile time, and then what follows is not even looked at."""
    is_and = type(node.op) is ast.And
    combine = operators.logical_and if is_and else operators.logical_or
    found = value = None
    for operand in node.values:
        value = b.visit(operand)
        if values.is_constant(value) or isinstance(value, builtins.tuple):
            if bool(value) is not is_and:
                return value
            continue
        if type(value) is values.tensor and value.shape:
            b.at(node)
            calling.warn(b, "Logical operators 'and' and 'or' are deprecated for non-scalar tensors; use "
                         f"{'&' if is_and else '|'} instead")
        b.at(node)
        found = value if found is None else combine(b, found, value)
    return value if found is None else found


def conditional(b, node):
    """`x if test else y`: a known test leaves one side; otherwise both become scalars or tiles of one type.

    Two sides without a value, such as calls of functions without `return`, have none together.
    """
    test = condition(b, node.test, node)
    if type(test) is bool:
        return b.visit(node.body if test else node.orelse)
    sides, blocks = [], []
    for side in (node.body, node.orelse):
        with b.region() as region:
            value = b.visit(side)
            b.at(side)
            sides.append(value if value is None else b.checked(side, values.to_tensor, value))
        blocks.append(region.block)
    if all(value is None for value in sides):
        b.at(node)
        b.emit(ops.if_, (test,), {}, [close(b, Block((), block.ops), []) for block in blocks])
        return None
    # A side without a value is an error that says so.
    x, y = (b.checked(side, values.to_tensor, value) for side, value in zip((node.body, node.orelse), sides))
    if not same(x, y):
        raise diagnose.error(
            b, node, "Ternary expression with dynamic condition has inconsistent types "
            f"{describe_type(x.type)} and {describe_type(y.type)}",
            hint="convert one side so that both have one type" if x.shape == y.shape else
            "give both sides one shape, or choose element by element with tl.where")
    b.at(node)
    regions = [close(b, Block((), block.ops), [side.handle]) for block, side in zip(blocks, sides)]
    result, = several(b.emit(ops.if_, (test,), {}, regions))
    return values.tensor(result)


# --- parts of values ----------------------------------------------------------------------------------------------
def attribute(b, node):
    """`x.name`"""
    owner = b.visit(node.value)
    b.at(node)
    return attributes.read(b, owner, node.attr)


def subscript(b, node):
    """`x[index]`"""
    owner = b.visit(node.value)
    index = b.visit(node.slice)
    b.at(node)
    if isinstance(owner, (builtins.tuple, list, str, dict)):
        index = _python_index(index)
    found = indexing.getitem(b, owner, index)
    return values.tuple(found) if type(found) is builtins.tuple and type(owner) is values.tuple else found


def _python_index(index):
    """Slices of tuples are Python's own."""
    if type(index) is values.slice:
        return slice(index.start, index.stop, index.step)
    return index


def slice_(b, node):
    """`start:stop:step` inside an index."""
    return values.slice(*[part and b.visit(part) for part in (node.lower, node.upper, node.step)])


# --- strings, comprehensions, functions ---------------------------------------------------------------------------
def f_string(b, node):
    """A string made of constants."""
    return "".join(_field(b, node, part) if type(part) is ast.FormattedValue else b.visit(part) for part in node.values)


def _field(b, node, part):
    """One field of an f-string. Errors are the string's: before Python 3.12 fields have no place of their own."""
    value = b.visit(part.value)
    if not values.is_constant(value):
        raise diagnose.unsupported(
            b, node, f"Cannot evaluate f-string containing non-constexpr conversion values, found {describe(value)}",
            at=part.value, hint="print values at run time with tl.device_print(\"x\", x)")
    if part.conversion != -1:
        value = {"r": repr, "s": str, "a": ascii}[chr(part.conversion)](value)
    spec = b.visit(part.format_spec) if part.format_spec else ""
    if is_wide(spec):
        raise diagnose.error(b, node, f"a field of this f-string has more than {LETTERS} letters", at=part.value)
    return calls.by_python(format, value, spec)


def comprehension(b, node):
    """`[f(x) for x in t if c]`: unrolled at compile time, over a tuple or a range of constants."""
    frame = b.frame
    outer = frame.names
    frame.names = dict(outer)
    found = []
    _comprehend(b, node, node.generators, found)
    frame.names = outer
    return values.tuple(found)


def _comprehend(b, node, generators, found):
    if not generators:
        found.append(b.visit(node.elt))
        return
    generator, *inner = generators
    items = _iterated(b, generator.iter)
    with budget.unrolling(b, node, budget.size(items), "this list comprehension") as loop:
        for item in items:
            loop.turn()
            binding.store(b, generator.target, item)
            if all(_known(b, test) for test in generator.ifs):
                _comprehend(b, node, inner, found)


def _iterated(b, node):
    if type(node) is ast.Call:
        function = b.visit(node.func)
        if function in (builtins.range, program.range, program.static_range):
            args, _ = calls.arguments(b, node)
            if not all(isinstance(arg, int) for arg in args):
                raise diagnose.error(b, node, "the range of a list comprehension must be known at compile time",
                                     hint="make its bounds tl.constexpr, or write a `for` loop")
            return calls.by_python(builtins.range, *args)
    items = b.visit(node)
    if not isinstance(items, (builtins.tuple, list)):
        raise diagnose.error(b, node, f"a list comprehension goes through a tuple or a range, not {describe(items)}")
    return items


def _known(b, test):
    value = condition(b, test, test)
    if type(value) is not bool:
        raise diagnose.error(b, test, "the condition of a list comprehension must be known at compile time",
                             hint="use tl.where on the elements")
    return value


def lambda_(b, node):
    """A function that is inlined where it is called; it sees the names around it."""
    return Closure(node, b.frame)


EXPRESSIONS = {
    ast.Constant: constant, ast.Name: name, ast.Tuple: display, ast.List: display, ast.BinOp: binary,
    ast.UnaryOp: unary, ast.Compare: compare, ast.BoolOp: both_or_either, ast.IfExp: conditional,
    ast.Attribute: attribute, ast.Subscript: subscript, ast.Slice: slice_, ast.Call: calls.call,
    ast.JoinedStr: f_string, ast.ListComp: comprehension, ast.Lambda: lambda_, ast.NamedExpr: bind_and_give,
}  # fmt: skip

# What to write instead of an expression that kernels do not have.
INSTEAD = {
    "Yield": "store the results through a pointer",
    "Dict": "pass the entries as separate tl.constexpr arguments, or use a tuple",
    "DictComp": "use a list comprehension over a tuple",
    "Set": "use a tuple",
    "SetComp": "use a list comprehension",
    "GeneratorExp": "use a list comprehension: [f(x) for x in t]",
    "Starred": "unpack with a name for each value: `a, b = t`",
}
