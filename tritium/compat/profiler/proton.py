"""`proton script.py ...`, also `python -m triton.profiler.proton script.py`: profile a program without changing it.

The one session, 0, is started before the program and written after it; what the program says about starting and
finalizing is ignored.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from tritium.alias import install_as_triton
from tritium.errors import users_frames

from . import sessions

__all__ = ["main"]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"proton: {message}\n")


def parser() -> argparse.ArgumentParser:
    """The command's arguments.

    >>> parser().parse_args(["-n", "p", "script.py", "-x"]).target_args
    ['script.py', '-x']
    """
    p = _Parser("proton", usage="proton [options] SCRIPT [ARGUMENT ...]\n       proton [options] pytest [ARGUMENT ...]",
                description="Profile the kernels of a program. proton-viewer shows what is written.")
    p.add_argument("-n", "--name", help="path of the profile, without its ending; by default proton")
    p.add_argument("-b", "--backend", choices=["cupti"], help="who times kernels on a GPU; by default who is there")
    p.add_argument("-c", "--context", choices=sessions.CONTEXTS, default="shadow", help="scopes, or frames of Python")
    p.add_argument("-m", "--mode", default=None, help="periodic_flushing, which changes nothing here")
    p.add_argument("-d", "--data", choices=sessions.DATAS, default="tree", help="sums, or single launches")
    p.add_argument("-k", "--hook", choices=["triton"], help="take names and metrics from launch_metadata")
    p.add_argument("target_args", nargs=argparse.REMAINDER, metavar="SCRIPT ...", help="the program and its arguments")
    return p


def main(arguments: list[str] | None = None) -> int:
    """`proton`."""
    args = parser().parse_args(arguments)
    program = args.target_args[1:] if args.target_args[:1] == ["--"] else args.target_args
    if not program:
        return _refused("name a script, or pytest; --help says more")
    if program[0] != "pytest" and not os.path.isfile(program[0]):
        return _refused(f"cannot open {program[0]!r}: no such file")
    install_as_triton()
    name = os.path.abspath(args.name or "proton")  # the program may go elsewhere
    try:
        sessions.start(name, context=args.context, data=args.data, backend=args.backend, mode=args.mode, hook=args.hook)
    except ValueError as error:
        return _refused(str(error))
    sessions.command_line = True
    try:
        return _status(lambda: _pytest(program[1:]) if program[0] == "pytest" else _script(program))
    finally:
        sessions.command_line = False
        sessions.finalize()


def _refused(why: str) -> int:
    print(f"proton: {why}", file=sys.stderr)
    return 2


def _pytest(arguments: list[str]) -> int:
    import pytest

    return int(pytest.main(arguments))


def _script(program: list[str]) -> int:
    from tritium.tools.run import run_script

    run_script(program)
    return 0


def _status(body: Callable[[], int]) -> int:
    """The exit status of the program; an exception is shown as Python would."""
    try:
        return body()
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    except Exception as error:
        sys.excepthook(type(error), error.with_traceback(users_frames(error.__traceback__)), error.__traceback__)
        return 1


if __name__ == "__main__":
    sys.exit(main())
