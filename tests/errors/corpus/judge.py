"""Runs malformed programs and judges what comes of them: a result or a clear error.

An error is clear when it was raised on purpose, by us with a text or by Python about the user's own values. What went
wrong by accident inside tritium (a missing attribute, a key, an internal error) is a defect; so is a crash or a hang.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import os
import re
import signal
import sys
import tempfile
import warnings

from tritium import errors
from tritium.frontend import diagnose
from tritium.interp import eager

from .generate import Case

ENDLESS = 10.0  # seconds of an interpreted program: it may be right and never end

# What Python says about values that do not go together; the values are the user's.
_OF_VALUES = re.compile(r"unsupported operand|not supported between|must be real number|can only concatenate|"
                        r"bad operand type|can't multiply sequence|indices must be integers|is not iterable|has no len|"
                        r"argument must be|"
                        r"takes (?:from )?\d+|missing \d+ required|unexpected keyword|multiple values|not callable|"
                        r"not subscriptable|unhashable type|expected \d+|expected at (?:most|least)|not an integer|"
                        r"cannot be interpreted as an integer|required argument|takes (?:at most|no|exactly)|"
                        r"got an invalid keyword|object of type 'NoneType'")
_IN_WORDS = re.compile(r"(AttributeError|KeyError|UnboundLocalError|RecursionError)\(")
_ACCIDENTS = (AttributeError, KeyError, IndexError, UnboundLocalError, RecursionError, TypeError, AssertionError)


class Endless(BaseException):
    """A program that may run for ever was stopped."""


def accident(error: BaseException) -> str | None:
    """Why an exception is no clear error; None if it is one."""
    if isinstance(error, errors.InternalError):
        if "was it changed by hand?" in str(error):
            return None
        return f"internal error: {error}"
    if not str(error) and not isinstance(error, Endless | SystemExit) and _ends_in_our_code(error):
        return f"{type(error).__name__} without a text"
    if isinstance(error, errors.CompilationError) and _IN_WORDS.match(str(error)):
        return f"an accident in words: {str(error).partition(chr(10))[0]}"
    if errors.is_told(error) or not isinstance(error, _ACCIDENTS) or not _is_raised_by_us(error):
        return None
    if isinstance(error, TypeError) and _OF_VALUES.search(str(error)):
        return None
    return f"{type(error).__name__}: {error} at {_place(error)}"


def _innermost(error: BaseException):
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def _ends_in_our_code(error: BaseException) -> bool:
    trace = _innermost(error)
    return trace is not None and errors.is_ours(trace.tb_frame.f_code.co_filename)


def _is_raised_by_us(error: BaseException) -> bool:
    """Whether an exception comes out of a line of tritium that is no `raise`."""
    trace = _innermost(error)
    if not _ends_in_our_code(error):
        return False
    return not re.match(r"\s*(raise|assert)\b", linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno))


def _place(error: BaseException) -> str:
    trace = _innermost(error)
    return f"{os.path.relpath(trace.tb_frame.f_code.co_filename, os.path.dirname(errors.__file__))}:{trace.tb_lineno}"


class Judge:
    """Runs cases one after the other and collects what is wrong with them."""

    def __init__(self, folder: str):
        self.folder, self.faults = folder, []

    def note(self, error: BaseException) -> None:
        """Look at an exception, also one that is about to become another."""
        found = accident(error)
        if found is not None and found not in self.faults:
            self.faults.append(found)

    @contextlib.contextmanager
    def watching(self):
        """See the exceptions that the compiler and the interpreter turn into errors of the user."""
        made, told = diagnose.from_exception, eager.explained
        def from_exception(b, node, raised):
            self.note(raised)
            return made(b, node, raised)

        def explained(raised, pid):
            text = str(told(raised, pid))
            if "\nhint: " not in text:
                self.note(raised)
            return errors.InterpreterError(text)

        diagnose.from_exception, eager.explained = from_exception, explained
        try:
            yield
        finally:
            diagnose.from_exception, eager.explained = made, told

    def run(self, case: Case) -> tuple[str, list[str]]:
        """How a case ended, and what is wrong about that."""
        self.faults = []
        out = io.StringIO()
        try:
            with (self.watching(), warnings.catch_warnings(), contextlib.redirect_stdout(out),
                  contextlib.redirect_stderr(out)):
                warnings.simplefilter("ignore")
                getattr(self, f"_{case.how}")(case)
            ended = "result"
        except Endless:
            ended = "endless"
        except (Exception, SystemExit) as error:
            self.note(error)
            ended = type(error).__name__
        if case.how == "command" and re.search(r"Traceback(?s:.)*tritium/", out.getvalue()):
            self.faults.append("a traceback of ours")
        return ended, self.faults

    def _program(self, case: Case) -> None:
        name = f"<{case.name}>"
        linecache.cache[name] = (len(case.text), None, case.text.splitlines(True), name)
        exec(compile(case.text, name, "exec", dont_inherit=True), {"__name__": "case", "compiled": self._compiled})

    def _compiled(self, kernel, *args) -> None:
        """Compile a kernel, and interpret it, where every access is checked: mutations may touch any address."""
        first = None
        for run in (lambda: kernel.warmup(*args, grid=(1,)), lambda: _interpreted(kernel, args)):
            try:
                run()
            except Exception as error:
                self.note(error)
                first = first or error
        if first is not None:
            raise first

    def _stage(self, case: Case) -> None:
        import tritium
        from tritium.backends.compiler import GPUTarget

        path = os.path.join(self.folder, f"case.{case.how}")
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            file.write(case.text)
        tritium.compile(path, GPUTarget("cpu", "x86-64-v3", 1))

    _ttir = _llir = _stage

    def _command(self, case: Case) -> None:
        from tritium.__main__ import main

        before, path = os.getcwd(), list(sys.path)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            for name, text in FILES.items():
                with open(name, "w") as file:
                    file.write(text)
            try:
                main(case.text.split("\n"))
            finally:
                os.chdir(before)
                sys.path[:] = path


def _interpreted(kernel, args) -> None:
    def stop(*_):
        raise Endless

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, ENDLESS)
    try:
        eager.launch(kernel, (1,), args, {})
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


FILES = {
    "kernels.py": "import triton\nimport triton.language as tl\n\n@triton.jit\ndef kernel(x, n, B: tl.constexpr):\n"
    "    tl.store(x + tl.arange(0, B), n)\n\ndef plain(x):\n    return x\n",
    "bad.py": "def f(:\n", "header.h": "int x;\n", "kernels.ttir": "kernel @k(%x: i32) {\n}\n",
}  # fmt: skip
