"""`python -m tritium sanitize script.py ...`: run a program on the CPU, and check every memory access of its kernels.

    python -m tritium sanitize script.py ARGUMENT ...
    python -m tritium sanitize --json report.json -m module ARGUMENT ...
    python -m tritium sanitize --target cuda:90a script.py ARGUMENT ...

The program runs as with `tritium run`. With --target, kernels are compiled for that GPU and run on an emulated one.
Each finding is reported on stderr when it first occurs, with a summary at the end.

Exit status: the program's own; 3 if that is 0 and there are findings; 2 for a usage error.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

from tritium.insight.sanitize.sanitizer import Report, sanitize
from tritium.insight.sanitize.whole_process import FOUND
from tritium.tools import run as programs
from tritium.tools.command import guarded
from tritium.tools.compile import parse_target


def parser() -> argparse.ArgumentParser:
    """The command's own arguments, which stand before the program.

    >>> parser().parse_args(["--json", "out.json"]).json
    'out.json'
    """
    p = argparse.ArgumentParser("python -m tritium sanitize", description=__doc__,
                                usage="python -m tritium sanitize [-h] [--json FILE] [--patience SECONDS] "
                                      "[--target TARGET [--programs COUNT]]\n       "
                                      "SCRIPT | -m MODULE | -c TEXT [ARGUMENT ...]",
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--json", metavar="FILE", help="write the findings as JSON, too; - writes to stdout")
    p.add_argument("--patience", type=float, default=20.0, metavar="SECONDS",
                   help="how long a loop may wait for another program (default: %(default)s)")
    p.add_argument("--target", metavar="TARGET", help="run what is compiled for this GPU (sm_90, gfx942, ...) on "
                   "an emulated one, with its barriers and copies")
    p.add_argument("--programs", type=int, default=32, metavar="COUNT",
                   help="how many programs of a launch the emulated GPU runs (default: %(default)s)")
    return p


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The command's own arguments, and the program with its.

    >>> split(["--json", "out.json", "-m", "module", "--json"])
    (['--json', 'out.json'], ['-m', 'module', '--json'])
    """
    k = 0
    while k < len(arguments) and arguments[k].startswith("-") and arguments[k] not in ("-m", "-c", "--", "-"):
        k += 2 if arguments[k] in ("--json", "--patience", "--target", "--programs") else 1
    return arguments[:k], arguments[k:]


def main(arguments: list[str]) -> int:
    """The command."""
    p = parser()
    own, program = split(arguments)
    args = p.parse_args(own)
    how, *rest = program or [""]
    if not how or how in ("-m", "-c", "--") and not rest:
        p.error("name a script, or -m and a module, or -c and a text")
    if args.patience <= 0:
        p.error(f"--patience must be above 0, not {args.patience:g}")
    if args.programs < 1:
        p.error(f"--programs must be at least 1, not {args.programs}")
    return guarded("sanitize", lambda: _sanitized(how, rest, args))


def _sanitized(how: str, rest: list[str], args: argparse.Namespace) -> int:
    json = args.json
    if json not in (None, "-"):
        open(json, "a").close()  # what cannot be written or read is known before anything runs
    if how not in ("-m", "-c", "-"):
        open(rest[0] if how == "--" else how).close()
    try:
        import torch  # noqa: F401  (before, so that memory it makes without contents is known)
    except ImportError:
        pass
    target = None if args.target is None else str(parse_target(args.target))
    report = Report(tell=lambda finding: print(finding.text(), end="\n\n", file=sys.stderr, flush=True))
    with sanitize(patience=args.patience, report=report, target=target, programs=args.programs):
        status = _status(lambda: programs.status_of(lambda: programs.run(how, rest)))
    sys.stdout.flush()
    if status and not report:
        report.note(f"the program ended with status {status}: what it did not reach is not checked")
    print(report.summary(), file=sys.stderr)
    if json == "-":
        print(report.json())
    elif json is not None:
        with open(json, "w") as file:
            file.write(report.json() + os.linesep)
    return status or (FOUND if report else 0)


def _status(body: Callable[[], int]) -> int:
    """The exit status of a program that may call `sys.exit`."""
    try:
        return body()
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or 0
        print(stop.code, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
