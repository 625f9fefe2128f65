"""`python -m tritium run [--] script.py ...` or `run -m package.module ...`: `import triton` gets tritium there."""

from __future__ import annotations

import importlib.machinery
import io
import os
import runpy
import sys
from types import ModuleType

from tritium.alias import install_as_triton

USAGE = """usage: python -m tritium run [--] SCRIPT [ARGUMENT ...]
       python -m tritium run -m MODULE [ARGUMENT ...]

Runs the program as `python SCRIPT` would, with `import triton` answered by tritium; also in the Python processes it
starts."""

STAND_IN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stand_in")


def main(arguments: list[str]) -> int:
    """Run the program named by `arguments`; its own `sys.exit` ends the process.

    >>> main(["--help"])
    usage: python -m tritium run [--] SCRIPT [ARGUMENT ...]
    ...
    0
    """
    if arguments[:1] == ["--"]:
        arguments = arguments[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 2
    install_as_triton()
    _prepare_children()
    if arguments[0] == "-m":
        if len(arguments) < 2:
            print(USAGE, file=sys.stderr)
            return 2
        sys.argv = arguments[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        run_script(arguments)
    return 0


def _prepare_children() -> None:
    """Let Python processes started from here find tritium as `triton`, by the environment or by this one's path."""
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join([STAND_IN, *(path for path in paths if path not in ("", STAND_IN))])
    sys.path.insert(0, STAND_IN)  # multiprocessing hands it on


def run_script(arguments: list[str]) -> None:
    """Run a file as `__main__`, the way the interpreter itself does: kernels in it stay readable and picklable."""
    path = arguments[0]
    try:
        with io.open_code(os.path.abspath(path)) as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)  # this file's __future__ is not the script's
    except OSError as error:
        print(f"tritium run: cannot open {path!r}: {error.strerror}", file=sys.stderr)
        sys.exit(2)
    module = ModuleType("__main__")
    module.__dict__.update(__file__=path, __builtins__=__builtins__,
                           __loader__=importlib.machinery.SourceFileLoader("__main__", path))
    sys.modules["__main__"] = module
    sys.argv = list(arguments)
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    exec(code, module.__dict__)
