"""What tritium says when something is wrong, and where it points.

A user's mistake names the two things that disagree, underlines the source and proposes a next step:

    >>> span = Span("k.py", 5, 8, 5, 13, "    z = x + y", def_line=3, function="kernel")
    >>> print(render("cannot add f32[128] and f32[64]", [span], hint="make BX and BY equal"))
    cannot add f32[128] and f32[64]
      --> k.py:5:9 (at 3:8: in kernel)
      5 |     z = x + y
        |         ^^^^^
    hint: make BX and BY equal
"""

from __future__ import annotations

import ast
import os
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, TypeVar

from tritium.named_tuples import NamedTuple

Failure = TypeVar("Failure", bound=BaseException)

__all__ = [
    "AutotunerError", "CompilationError", "CompileTimeAssertionFailure", "InternalError", "InterpreterError",
    "OutOfResources", "PTXASError", "Span", "TritonError", "UnsupportedLanguageConstruct", "arrow", "cut", "fail",
    "innermost", "is_ours", "is_told", "node_span", "outermost", "place_of", "places_of", "render",
    "users_frames",
]  # fmt: skip


class Span(NamedTuple):
    """A range of a kernel's source.

    `line` and `end_line` are lines of the file; `col` and `end_col` are 0-based characters of `text`, which holds the
    lines from `line` to `end_line` after `indent` columns of the function's own indentation were removed.

    >>> Span("k.py", 12, 4, 12, 9, "    x + y", def_line=10, function="kernel", indent=4).position
    (3, 4)
    """

    file: str
    line: int
    col: int
    end_line: int
    end_col: int
    text: str
    def_line: int = 1
    function: str = ""
    indent: int = 0
    label: str = ""  # said after the caret: "128 against 64"
    node: tuple[int, int] | None = None  # where the syntax node at fault starts, if only a part of it is underlined

    @property
    def position(self) -> tuple[int, int]:
        """Line counted from the `def` line = 1, and the column of the syntax node: what Triton's errors name."""
        line, col = self.node or (self.line, self.col)
        return line - self.def_line + 1, col

    def __str__(self) -> str:
        within = f" in {self.function}" if self.function else ""
        at = "at {}:{}:".format(*self.position)
        return f"{self.file}:{self.line}:{self.col + self.indent + 1} ({at}{within})" if self.file else f"{at}{within}"


# A span taller than this shows its first lines and its last.
_TALLEST = 6


def render(message: str, spans: Sequence[Span] = (), notes: Iterable[tuple[str, Span | None]] = (),
           hint: str | None = None) -> str:
    """The text of an error: message, underlined source, further places, next step.

    >>> print(render("no block size", notes=[("the kernel is f", None)], hint="pass BLOCK"))
    no block size
    note: the kernel is f
    hint: pass BLOCK
    """
    lines = [message]
    for span in spans:
        lines += _excerpt(span)
    for text, span in notes:
        lines.append(f"note: {text}")
        if span is not None:
            lines += _excerpt(span)
    if hint:
        lines.append(f"hint: {hint}")
    return "\n".join(lines)


def _excerpt(span: Span) -> list[str]:
    """The arrow to a place, its source lines, and a caret line under each."""
    rows = span.text.split("\n") if span.text else []
    last = len(rows) - 1
    gutter = len(str(span.line + max(last, 0)))
    out = [f"  --> {span}"]
    for i, row in enumerate(rows):
        if last >= _TALLEST and 2 < i < last:
            if i == 3:
                out.append(f"  {'':>{gutter}} ...")
            continue
        start = span.col if i == 0 else len(row) - len(row.lstrip())
        end = span.end_col if i == last else len(row.rstrip())
        out.append(f"  {span.line + i:>{gutter}} | {row}".rstrip())
        if start < end or last == 0:
            carets = "^" * max(_width(row[start:end]), 1)
            label = f" {span.label}" if span.label and i == last else ""
            out.append(f"  {'':>{gutter}} | {_blank(row[:start])}{carets}{label}")
    return out


def _width(text: str) -> int:
    """Columns a terminal gives to `text`: East Asian wide characters take two."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _blank(text: str) -> str:
    """Blanks as wide as `text`, keeping its tabs so that the caret lines up."""
    return "".join("\t" if c == "\t" else " " * _width(c) for c in text)


def fail(kind: type[Exception], message: str, *, hint: str | None = None, argument: str | None = None,
         label: str = "") -> Exception:
    """An exception that carries a next step, and which argument of the call to underline.

    >>> error = fail(ValueError, "axis 3 is out of range", hint="use -2..1", argument="axis")
    >>> raise error
    Traceback (most recent call last):
    ValueError: axis 3 is out of range
    """
    return explain(kind(message), hint=hint, argument=argument, label=label)


def explain(error: Failure, **facts) -> Failure:
    """The same exception with facts that its report shows: `hint`, `note`, `argument`, `label`.

    >>> explain(NameError("x is not defined"), hint="bind x first").hint
    'bind x first'
    """
    vars(error).update(facts)
    return error


def cut(error: Failure, keep: bool = False) -> Failure:
    """`error` as its reader should see it: without tritium's own frames, and without causes that say the same again.

    A function that users call catches the error, cuts it and ends with a bare `raise`, which adds no frame. A defect of
    ours keeps everything, and so does every error with `keep`. `__cause__` stays for programs that ask for it.

    >>> cut(fail(ValueError, "x")).__traceback__ is None
    True
    """
    if keep or not is_told(error):
        return error
    chain: list[BaseException] = [error]
    while (cause := chain[-1].__cause__) is not None and cause not in chain:
        chain.append(cause)
    for link in chain:  # also of causes: frames that nobody sees would keep their values alive
        link.__traceback__ = users_frames(link.__traceback__)
    if isinstance(error, TritonError):
        error.hide_cause()
    return error


def is_told(error: BaseException) -> bool:
    """Whether an error tells a user about a mistake; any other that comes from tritium is a defect of it.

    >>> is_told(fail(ValueError, "axis 3 is out of range")), is_told(ValueError()), is_told(InternalError("dce"))
    (True, False, False)
    """
    return isinstance(error, TritonError) and not isinstance(error, InternalError) or hasattr(error, "hint")


# As the code objects of this package spell it: a search path such as "../lib" is left as it is.
_PACKAGE = os.path.dirname(__file__) + os.sep
_KERNELS = os.path.join(_PACKAGE, "kernels") + os.sep
_PYTHON = os.path.dirname(os.__file__) + os.sep
_INSTALLED = os.path.join(_PYTHON, "site-packages") + os.sep


def is_ours(file: str) -> bool:
    """Whether a file is part of tritium, except its collection of kernels: those are users too.

    >>> is_ours(__file__), is_ours("k.py")
    (True, False)
    """
    return file.startswith(_PACKAGE) and not file.startswith(_KERNELS)


def users_frames(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames that are tritium's own, and those of Python's library that these called.

    >>> users_frames(None) is None
    True
    """
    kept, inside = [], False
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        inside = is_ours(file) or inside and file.startswith(_PYTHON) and not file.startswith(_INSTALLED)
        if not inside:
            kept.append(trace)
        trace = trace.tb_next
    made = None
    for link in reversed(kept):
        made = TracebackType(made, link.tb_frame, link.tb_lasti, link.tb_lineno)
    return made


_cause: Any = BaseException.__dict__["__cause__"]  # the field itself, which Python prints


class TritonError(Exception):
    """Base of every error tritium raises on its own account.

    >>> issubclass(CompilationError, TritonError)
    True
    """

    _hidden: BaseException | None = None

    @property
    def __cause__(self) -> BaseException | None:
        """What led to this error. A traceback that is printed does not ask for it where the message says it all."""
        if self._hidden is None:
            return _cause.__get__(self)
        return None if sys._getframe(1).f_globals.get("__name__") == "traceback" else self._hidden

    @__cause__.setter
    def __cause__(self, cause: BaseException | None) -> None:
        self._hidden = None
        _cause.__set__(self, cause)

    def hide_cause(self) -> None:
        """Let only programs see the cause, not the reader of a traceback."""
        found = _cause.__get__(self)
        if found is not None:
            self.__cause__ = None
            self._hidden = found


class CompilationError(TritonError):
    """A kernel that cannot be compiled: `src` is its text from the `def` line on, `node` the syntax node at fault.

    `span`, `notes` and `hint` give the full picture when the place in the file is known.

    >>> text = "def k(x):\\n    y = x + z"
    >>> print(CompilationError(text, ast.parse(text).body[0].body[0].value, "z is not defined"))
    z is not defined
      --> at 2:8:
      2 |     y = x + z
        |         ^^^^^
    """

    def __init__(self, src: str | None, node: ast.AST | None, error_message: str | None = None, *,
                 span: Span | None = None, notes: Iterable[tuple[str, Span | None]] = (), hint: str | None = None):
        self.src, self.node, self.error_message = src, node, error_message
        self.span = span if span is not None else _span(src, node)
        self.notes, self.hint = tuple(notes), hint
        self.message = render(
            error_message or "this cannot be compiled", [self.span] if self.span else [], self.notes, hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message

    def __reduce__(self):
        state = {name: getattr(self, name) for name in ("span", "notes", "hint", "message")}
        return type(self), (self.src, self.node, self.error_message), state


def _span(src: str | None, node: ast.AST | None) -> Span | None:
    """Where `node` stands in `src`, when nothing is known of the file."""
    if src is None or node is None or getattr(node, "lineno", None) is None:
        return None
    return node_span(node, src.split("\n"))


def node_span(node: Any, lines: Sequence[str], **place) -> Span:
    """The span of a syntax node; `lines` are those the node was parsed from, and `place` fills the other fields.

    `first_line` in `place` is the line of the file on which `lines` start.

    >>> lines = ["def k(x):", "    return x"]
    >>> node_span(ast.parse("\\n".join(lines)).body[0].body[0], lines, file="k.py", first_line=7).line
    8
    """
    first = place.pop("first_line", 1)
    end_line = node.end_lineno or node.lineno
    end_col = node.end_col_offset if node.end_lineno else node.col_offset + 1
    rows = list(lines[node.lineno - 1:end_line])
    return Span(
        place.pop("file", ""), first + node.lineno - 1, _characters(rows[:1], node.col_offset),
        first + end_line - 1, _characters(rows[-1:], end_col), "\n".join(rows),
        **{"def_line": first, **place})


def place_of(loc) -> Span | None:
    """The span of an op's `loc`, with the lines read from its file.

    >>> place_of(None) is None
    True
    """
    if loc is None:
        return None
    import linecache  # its imports are slow, errors are rare

    lines = linecache.getlines(loc.file)
    head = f"def {loc.function}("
    defs = [n for n, line in enumerate(lines[:loc.line], 1) if line.lstrip().startswith(head)]
    text = "".join(lines[loc.line - 1:loc.end_line]).rstrip("\n")
    return Span(loc.file, loc.line, loc.col, loc.end_line, loc.end_col, text, defs[-1] if defs else loc.line,
                loc.function)


# The language's own library counts as the line that calls it.
_LIBRARY = os.path.join(os.path.dirname(__file__), "language", "")


def innermost(loc):
    """The user's line that a place belongs to: what the library inlined belongs to the call of it.

    >>> from tritium.ir.core import Loc
    >>> innermost(Loc(f"{_LIBRARY}standard.py", 9, 0, 9, 5, "sum", Loc("k.py", 3, 0, 3, 9, "kernel"))).line
    3
    """
    while loc.caller is not None and loc.file.startswith(_LIBRARY):
        loc = loc.caller
    return loc


def places_of(loc):
    """The user's line of a place, then those of the calls around it: tuples of file, line, column, end line, end
    column and function.

    >>> from tritium.ir.core import Loc
    >>> places_of(Loc("k.py", 7, 0, 7, 9, "device", Loc("k.py", 3, 0, 3, 9, "kernel")))
    (('k.py', 7, 0, 7, 9, 'device'), ('k.py', 3, 0, 3, 9, 'kernel'))
    """
    out, loc = [], None if loc is None else innermost(loc)
    while loc is not None:
        out.append(tuple(loc[:6]))
        loc = None if loc.caller is None else innermost(loc.caller)
    return tuple(out)


def outermost(loc):
    """The line of the function itself that a place comes from, whatever was inlined there.

    >>> from tritium.ir.core import Loc
    >>> outermost(Loc("k.py", 7, 0, 7, 9, "device", Loc("k.py", 3, 0, 3, 9, "kernel"))).line
    3
    """
    while loc.caller is not None:
        loc = loc.caller
    return loc


def arrow(file: str, line: int, function: str = "") -> str:
    """The line of a report that leads to a place, where the source may not be at hand.

    >>> arrow("k.py", 7, "kernel")
    '  --> k.py:7 (in kernel)'
    """
    return f"  --> {file}:{line}{f' (in {function})' if function else ''}"


def _characters(row: Sequence[str], offset: int) -> int:
    """The syntax tree counts UTF-8 bytes; the reader counts characters."""
    return len(row[0].encode()[:offset].decode(errors="ignore")) if row else offset


class CompileTimeAssertionFailure(CompilationError):
    """A `tl.static_assert` that does not hold.

    >>> issubclass(CompileTimeAssertionFailure, CompilationError)
    True
    """


class UnsupportedLanguageConstruct(CompilationError):
    """Python that a kernel may not contain.

    >>> issubclass(UnsupportedLanguageConstruct, CompilationError)
    True
    """


class UnsupportedOperator(AttributeError):
    """An operator of Python that tensors do not have; in a kernel, an UnsupportedLanguageConstruct.

    >>> issubclass(UnsupportedOperator, AttributeError)
    True
    """


class _Message(TritonError):
    """An error that is one sentence, `error_message`, after a fixed prefix."""

    prefix = ""

    def __init__(self, error_message: str | None = None):
        self.error_message = error_message
        super().__init__(error_message)

    def __str__(self) -> str:
        return self.prefix + (self.error_message or "")


class InterpreterError(_Message):
    """An exception raised while a kernel ran in the interpreter.

    >>> str(InterpreterError("boom"))
    'boom'
    """


class PTXASError(_Message):
    """The assembler refused the code.

    >>> str(PTXASError("unknown symbol"))
    'PTXAS error: unknown symbol'
    """

    prefix = "PTXAS error: "


class AutotunerError(_Message):
    """Tuning has nothing to choose from.

    >>> str(AutotunerError("no config left"))
    'Autotuner error: no config left'
    """

    prefix = "Autotuner error: "


_REMEDIES = {"threads": "fewer `num_warps`", "registers": "smaller blocks, or a larger `maxnreg`"}


class OutOfResources(TritonError):
    """A kernel that needs more of something than the device has.

    >>> str(OutOfResources(300, 228, "shared memory"))
    'out of resource: shared memory, Required: 300, Hardware limit: 228. Use smaller blocks or fewer `num_stages`.'
    >>> str(OutOfResources(2048, 1024, "threads"))
    'out of resource: threads, Required: 2048, Hardware limit: 1024. Use fewer `num_warps`.'
    """

    def __init__(self, required, limit, name):
        self.required, self.limit, self.name = required, limit, name
        super().__init__(required, limit, name)

    def __str__(self) -> str:
        remedy = _REMEDIES.get(self.name, "smaller blocks or fewer `num_stages`")
        return (f"out of resource: {self.name}, Required: {self.required}, Hardware limit: {self.limit}. "
                f"Use {remedy}.")


class InternalError(TritonError):
    """A defect of tritium, never of the user's kernel; `reproducer` is a file that shows it again.

    The code that finds a defect may have only a module; the code that catches the error writes it to a file.

    >>> print(InternalError("dce: lost a store", "k.ttir"))
    internal error: dce: lost a store
    reproduce with: python -c "import tritium; tritium.compile('k.ttir')"
    """

    loc: Any = None  # of the op at fault, where there is one

    def __init__(self, message: str, reproducer=None, target=None):
        self.message, self.reproducer, self.target = message, reproducer, target
        super().__init__(message, reproducer, target)

    def __str__(self) -> str:
        if not isinstance(self.reproducer, str):
            return f"internal error: {self.message}"
        machine = "" if self.target is None else f", tritium.backends.compiler.GPUTarget.parse({str(self.target)!r})"
        again = f'python -c "import tritium; tritium.compile({self.reproducer!r}{machine})"'
        return f"internal error: {self.message}\nreproduce with: {again}"
