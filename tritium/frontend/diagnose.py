"""Turns what went wrong into an error that points at the user's source and proposes the next step."""

from __future__ import annotations

import ast
import os

from .. import knobs, ops
from ..errors import (
    CompilationError,
    InternalError,
    TritonError,
    UnsupportedLanguageConstruct,
    UnsupportedOperator,
)
from ..ir.core import Arg, Op
from ..language.builtins import indexing, shaping
from ..language.source import dependencies, dialect
from ..language.types import values
from .scope import MISSING, Deferred, Unbound, describe

_PACKAGE = os.path.dirname(os.path.dirname(__file__))  # as code objects spell it
# Layers that check nothing a user wrote: what they raise on their own account is our mistake.
_INNER = tuple(os.path.join(_PACKAGE, layer) + os.sep for layer in ("frontend", "ir", "ops"))


def error(b, node, message, *, hint=None, notes=(), kind=CompilationError, at=None, label=""):
    """An error of `kind` about `node`; `at` is the node to underline if another, notes are (text, place) pairs.

    A place is a node of the function at hand, or a Span.
    """
    source = b.frame.source
    notes = [(text, source.span(place) if isinstance(place, ast.AST) else place) for text, place in notes]
    return kind(source.src, node, message, span=_span(source, node, at or node, label), notes=notes, hint=hint)


def _span(source, node, underlined, label):
    """Where to look; of a statement with a body, its first line."""
    span = source.span(underlined, label)
    if isinstance(underlined, ast.stmt) and hasattr(underlined, "body"):
        line = span.text.partition("\n")[0]
        span = span._replace(end_line=span.line, end_col=len(line), text=line)
    if underlined is not node:
        whole = source.span(node)
        span = span._replace(node=(whole.line, whole.col))
    return span


def heading(b, node):
    """The span of a statement; of one with a body, its first line."""
    return _span(b.frame.source, node, node, "")


def unsupported(b, node, message, *, hint=None, at=None):
    """An error about Python that kernels may not contain."""
    return error(b, node, message, hint=hint, at=at, kind=UnsupportedLanguageConstruct)


def from_exception(b, node, raised):
    """The error to raise for an exception that visiting `node` met."""
    if isinstance(raised, TritonError) or knobs.compilation.front_end_debugging:
        return raised
    if _is_internal(raised):
        return _internal(b, node, raised)
    lacking = _operand_without_value(b, node)
    if lacking is not None:
        return _returns_nothing(b, node, raised, *lacking)
    kind = UnsupportedLanguageConstruct if isinstance(raised, UnsupportedOperator) else CompilationError
    made = error(b, node, _message(raised), hint=_hint(b, node, raised), notes=_notes(b, node, raised), kind=kind,
                 label=getattr(raised, "label", ""))
    if _tells_cause(b, node):
        made.__cause__ = raised
    return made


def _tells_cause(b, node):
    """`x[i]` counts as a call, whose error has a cause; other operators do from 3.9 on."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.ctx, ast.Load)
    return isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Compare)) and dialect.of_builder(b).operators_have_causes


def from_builtin(b, node, raised, signature=None, count=0):
    """The error to raise for an exception inside a builtin called by `node`: it keeps the exception as its cause.

    `signature` and `count`, the number of positional arguments, tell which argument the exception blames.
    """
    if isinstance(raised, CompilationError) and raised.node is None:  # static_assert knows no place
        return error(b, node, raised.error_message, hint=raised.hint, kind=type(raised))
    made = from_exception(b, node, raised)
    if type(made) is CompilationError and made is not raised and not _operand_without_value(b, node):
        name = getattr(raised, "argument", None)
        blamed = _blamed(node, name, signature, count)
        hint = made.hint if blamed is None or not made.hint else \
            made.hint.replace(f"({name})", f"({ast.unparse(blamed)})")  # in the user's own words
        made = error(b, node, str(raised) or repr(raised), hint=hint, label=getattr(raised, "label", ""), at=blamed)
        made.__cause__ = raised
    return made


def _operand_without_value(b, node):
    """(operand, function) for the first operand of `node` that is the result of a function without `return`."""
    for operand in _operands(node):
        place = operand
        if type(operand) is ast.Name and b.frame.names.get(operand.id, MISSING) is None:
            place = b.frame.places.get(operand.id)
        function = b.nothing.get(place)
        if function is not None:
            return operand, function
    return None


def _operands(node):
    if type(node) is ast.Call:
        return *node.args, *(keyword.value for keyword in node.keywords)
    if isinstance(node, (ast.BinOp, ast.Compare)):
        return _sides(node)
    if isinstance(node, ast.AugAssign):
        return node.target, node.value
    inner = getattr(node, "operand", None) or getattr(node, "value", None)
    return (inner,) if isinstance(inner, ast.expr) else ()


def _returns_nothing(b, node, raised, operand, function):
    made = error(b, node, f"{function.name} returns nothing, so that there is no value here", at=operand,
                 notes=[(f"{function.name} has no `return` with a value", function.heading())],
                 hint=f"end {function.name} with `return ...`")
    made.__cause__ = raised
    return made


def from_callee(b, node, inner, callee):
    """The error of a function, as its caller reports it: the same text, and from where it was called."""
    source = b.frame.source
    if inner.span.file == callee.file and dependencies.is_language(callee) and not dependencies.is_language(source):
        # The user did not write the library: the call is what can be changed.
        made = error(b, node, inner.error_message, hint=_hint(b, node, inner), kind=type(inner))
        made.__cause__ = inner.__cause__ or inner
        return made
    made = type(inner)(source.src, node, inner.error_message, span=inner.span, hint=inner.hint,
                       notes=_trail(inner, source.span(node)))
    made.__cause__ = inner
    return made


_SHOWN = 4  # calls at the inner end of a long chain


def _trail(inner, span):
    """The notes of an error, and one more call; of a long chain both ends."""
    here, first, calls = ("called from here", span), inner, 0
    while isinstance(first.__cause__, CompilationError):
        first, calls = first.__cause__, calls + 1
    if calls <= _SHOWN:
        return (*inner.notes, here)
    return (*inner.notes[:len(first.notes) + _SHOWN], (f"{calls - _SHOWN} calls in between", None), here)


def _message(raised):
    """A sentence written for the user stands as it is; a foreign exception shows its class too."""
    if hasattr(raised, "argument"):  # made by errors.fail
        return str(raised)
    return repr(raised)


def _notes(b, node, raised):
    if hasattr(raised, "note"):
        return [raised.note]
    if isinstance(node, (ast.BinOp, ast.Compare)) and hasattr(raised, "argument"):
        return list(dict.fromkeys(note for side in _sides(node) for note in origin(b, side)))
    return ()


def _sides(node):
    return (node.left, node.right) if isinstance(node, ast.BinOp) else (node.left, node.comparators[0])


def origin(b, node):
    """Where a name got its value, and of which type it is: the second place an error about two operands shows."""
    if type(node) is not ast.Name:
        return []
    value, place = b.frame.names.get(node.id, MISSING), b.frame.places.get(node.id)
    if place is None or value is MISSING or isinstance(value, (Deferred, Unbound)):
        return []
    return [(f"{node.id} is {describe(value)} from here", place)]


def _blamed(node, name, signature, count):
    """The argument of a call that an exception names, if it is written out there."""
    if name is None or signature is None or type(node) is not ast.Call:
        return None
    for keyword in node.keywords:
        if keyword.arg == name:
            return keyword.value
    hidden = count - len(node.args)  # the object of a method comes first
    if hidden not in (0, 1) or name not in signature.parameters or any(type(a) is ast.Starred for a in node.args):
        return None
    place = list(signature.parameters).index(name) - hidden
    if place == -1:
        return node.func.value if type(node.func) is ast.Attribute else None
    return node.args[place] if place < len(node.args) else None


def _hint(b, node, raised):
    """The next step: what the exception proposes, in the user's own names where possible."""
    given = getattr(raised, "hint", None)
    if isinstance(node, (ast.BinOp, ast.Compare)) and isinstance(raised, TypeError):
        return _pointer_hint(b, node) or _text_hint(b, node) or given
    if isinstance(raised, IndexError) and given is None:
        return _shape_hint(b, node)
    if type(node) is ast.Subscript and given is not None:
        return given.replace("(ptr + index", f"({ast.unparse(node.value)} + {ast.unparse(node.slice)}")
    told = f"{getattr(raised, 'error_message', raised)} {given}"
    told = told.replace("constexpr[", "")  # tiles are printed with sizes such as constexpr[64]
    if type(node) is ast.Call and "constexpr" in told and given != shaping.START_AT_ZERO:
        found = _constexpr_hint(b, node, given)
        if found is not None:
            return f"{found}; or {given}" if given and "constexpr" not in given else found
    return given


def _text_hint(b, node):
    """Text made of run-time values, and text where a number is meant."""
    for side in _sides(node):
        if type(side) is ast.Name and isinstance(b.frame.names.get(side.id), str):
            return f"{side.id} is text: pass a number"
    if type(node) is ast.BinOp and any(type(x) is ast.Constant and isinstance(x.value, str) for x in _sides(node)):
        return 'print values at run time with tl.device_print("x", x)'
    return None


def _shape_hint(b, node):
    """`x.shape[0]` of a pointer."""
    owner = node.value if type(node) is ast.Subscript else None
    if type(owner) is not ast.Attribute or owner.attr != "shape" or type(owner.value) is not ast.Name:
        return None
    value = b.frame.names.get(owner.value.id)
    return indexing.NO_SHAPE if type(value) is values.tensor and value.dtype.is_ptr() else None


_OF_ADDRESSES = (ast.FloorDiv, ast.LShift, ast.RShift)  # what one rounds an address with


def _pointer_hint(b, node):
    """A pointer where a value was meant."""
    texts = []
    for side in (side for side in _sides(node) if type(side) is ast.Name):
        value = b.frame.names.get(side.id)
        if type(value) is values.tensor and value.dtype.is_ptr():
            texts.append(side.id)
    moves = type(node) is ast.BinOp and type(node.op) in (ast.Add, ast.Sub)
    if not texts or (moves and len(texts) < 2):
        return None
    loads = " and ".join(f"tl.load({text})" for text in dict.fromkeys(texts))
    also = ", or add an integer offset to one pointer" if moves else ""
    if isinstance(getattr(node, "op", None), _OF_ADDRESSES) and not moves:
        also = f", or its address, {texts[0]}.to(tl.int64)"
    return f"{' and '.join(dict.fromkeys(texts))} is a pointer: did you mean {loads}{also}?".replace(
        " is a pointer", " are pointers" if len(set(texts)) > 1 else " is a pointer")


def _constexpr_hint(b, node, given):
    """Which parameter lacks its `tl.constexpr`, when a builtin wants a constant and got a run-time value.

    A name in small letters is the size of the data: that of a block is another.
    """
    parts = [n for argument in (*node.args, *(k.value for k in node.keywords)) for n in ast.walk(argument)]
    for name in (part for part in parts if type(part) is ast.Name):
        value = b.frame.names.get(name.id)
        if type(value) is not values.tensor:
            continue
        literal = isinstance(value.handle, Op) and value.handle.kind is ops.constant
        if given is not None and shaping.BLOCK_AND_MASK in given and not name.id.isupper() and not literal:
            return f"{name.id} is a run-time value, and {given}".replace("offsets < n", f"offsets < {name.id}")
        if type(value.handle) is Arg and value.handle.name:
            return (f"{name.id} is a run-time argument: declare the parameter `{value.handle.name}: tl.constexpr` in "
                    f"{b.kernel.__name__}")
        if b.frame.entry.get(name.id) is value:
            return f"{b.frame.source.__name__} is called with a run-time value as {name.id}: pass a constant"
        return f"{name.id} is a run-time value: bind it with `{name.id}: tl.constexpr = ...`"
    return None


def _is_internal(raised):
    if hasattr(raised, "hint") or hasattr(raised, "argument"):
        return False
    tb = raised.__traceback__
    if tb is None or tb.tb_next is None:  # raised by the call itself: it has wrong arguments
        return False
    while tb.tb_next is not None:
        tb = tb.tb_next
    return tb.tb_frame.f_code.co_filename.startswith(_INNER)


def _internal(b, node, raised):
    made = InternalError(f"{raised!r} while lowering {b.frame.source.__name__}, line "
                         f"{b.frame.source.span(node).line} of {b.frame.source.file}")
    made.__cause__ = raised
    return made
