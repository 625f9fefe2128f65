"""`python -m tritium run [--] script.py ...`, or `-m module` or `-c text`: `import triton` gets tritium there."""

from __future__ import annotations

import importlib.machinery
import linecache
import os
import runpy
import sys
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any

from tritium.alias import install_as_triton
from tritium.tools.command import code_of, from_program

USAGE = """usage: python -m tritium run [--] SCRIPT [ARGUMENT ...]
       python -m tritium run -m MODULE [ARGUMENT ...]
       python -m tritium run -c TEXT [ARGUMENT ...]
       python -m tritium run - [ARGUMENT ...]

Runs the program as `python SCRIPT` does (`-` reads it from stdin). `import triton` gives tritium in it, and in
the Python processes it starts."""


def main(arguments: list[str]) -> int:
    """Run the program named by `arguments`; its own `sys.exit` ends the process.

    >>> main(["--help"])
    usage: python -m tritium run [--] SCRIPT [ARGUMENT ...]
    ...
    0
    """
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 2
    how, *rest = arguments
    if how in ("--", "-m", "-c") and not rest:
        print(USAGE, file=sys.stderr)
        return 2
    if how.startswith("-") and how not in ("--", "-m", "-c", "-"):
        print(f"tritium run: unknown option {how}\n\n{USAGE}", file=sys.stderr)
        return 2
    return status_of(lambda: run(how, rest))


def run(how: str, rest: list[str]) -> None:
    """Run a program as Python would: `-m` a module, `-c` a text, `-` what comes from stdin, otherwise a file."""
    install_as_triton()
    if how == "-m":
        sys.argv = rest
        sys.path.insert(0, os.getcwd())
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif how == "-c":
        run_text(rest[0], "<string>", ["-c", *rest[1:]])
    elif how == "-":
        run_text(sys.stdin.read(), "<stdin>", ["-", *rest])
    else:
        run_script(rest if how == "--" else [how, *rest])


def status_of(body: Callable[[], None]) -> int:
    """The exit status of a program; an exception is shown as Python would, with none of our frames above."""
    try:
        body()
    except Exception as error:
        missing = isinstance(error, ImportError) and from_program(error.__traceback__) is None
        if missing:  # there is no such module to run
            print(f"tritium run: {error}", file=sys.stderr)
        else:
            sys.excepthook(type(error), error.with_traceback(from_program(error.__traceback__)), error.__traceback__)
        return 1
    except KeyboardInterrupt as error:
        sys.excepthook(type(error), error.with_traceback(from_program(error.__traceback__)), error.__traceback__)
        return 130
    return 0


def run_script(arguments: list[str]) -> None:
    """Run a file as `__main__`, the way the interpreter itself does: kernels in it stay readable and picklable."""
    path = arguments[0]
    try:
        code = code_of(path)
    except OSError as error:
        print(f"tritium run: cannot open {path!r}: {error.strerror}", file=sys.stderr)
        sys.exit(2)
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    _run_code(code, arguments, __file__=path, __loader__=importlib.machinery.SourceFileLoader("__main__", path))


def run_text(text: str, name: str, arguments: list[str]) -> None:
    """Run a text that is no file as `__main__`; its kernels find their lines under its name."""
    linecache.cache[name] = (len(text), None, [line + "\n" for line in text.split("\n")], name)
    sys.path.insert(0, "")
    _run_code(compile(text, name, "exec", dont_inherit=True), arguments)


def _run_code(code: CodeType, arguments: list[str], **names: Any) -> None:
    module = ModuleType("__main__")
    module.__dict__.update(names, __builtins__=__builtins__)
    sys.modules["__main__"] = module
    sys.argv = list(arguments)
    exec(code, module.__dict__)
