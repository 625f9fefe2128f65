"""`python -m tritium profile script.py ...`: run a program, and print the cost of each of its kernels.

    python -m tritium profile script.py arguments            # a table on stderr
    python -m tritium profile -o run.html -o run.trace.json script.py
    python -m tritium profile -m package.module arguments

`import triton` gives tritium in the program. Files: .html a page, .trace.json a trace for Perfetto, .json all data,
.txt the table. The exit status is the program's; 2 for a usage error.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import NoReturn

from tritium.tools.command import guarded

CLOCKS = ("auto", "cupti", "events")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"tritium profile: {message}\n")


def parser() -> argparse.ArgumentParser:
    """The command's arguments.

    >>> parser().parse_args(["-o", "a.html", "script.py", "--its", "own"]).program
    ['script.py', '--its', 'own']
    """
    p = _Parser("python -m tritium profile", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                usage="python -m tritium profile [-h] [-o FILE] [-q] [--clock CLOCK] [--no-limit] [--launches N]\n"
                      "       SCRIPT | -m MODULE [ARGUMENT ...]")
    p.add_argument("-o", "--output", action="append", default=[], metavar="FILE",
                   help="write a file: .html, .trace.json, .json or .txt; may be repeated")
    p.add_argument("-q", "--quiet", action="store_true", help="print no table")
    p.add_argument("--clock", choices=CLOCKS, default="auto", help="the clock for kernels on a GPU")
    p.add_argument("--no-limit", action="store_true", help="do not measure the copy bandwidth of this machine")
    p.add_argument("--launches", type=int, default=None, metavar="N", help="show at most N launches in traces")
    p.add_argument("-m", dest="module", metavar="MODULE", nargs=argparse.REMAINDER,
                   help="run a module instead of a script")
    p.add_argument("program", nargs=argparse.REMAINDER, metavar="SCRIPT ...", help="the program and its arguments")
    return p


def main(arguments: list[str]) -> int:
    """The command."""
    args = parser().parse_args(arguments)
    return guarded("profile", lambda: run(args))


def run(args: argparse.Namespace) -> int:
    """Run the program under the profiler, then draw. What the program exits with is the result."""
    from tritium.insight.profile.files import check_path
    from tritium.insight.profile.profiler import MOST, profile
    from tritium.tools import run as runner

    how, rest = ("-m", args.module) if args.module else _program(args)
    for path in args.output:
        check_path(path)
    paths = [os.path.abspath(path) for path in args.output]  # the program may go elsewhere
    most = MOST if args.launches is None else args.launches
    taken = profile(clock=args.clock, limit=not args.no_limit, launches=most)
    status = 0
    with taken:
        try:
            status = runner.status_of(lambda: runner.run(how, rest))
        except SystemExit as end:
            status = _status(end)
    sys.stdout.flush()
    if not args.quiet:
        print(taken.text(_width()), end="", file=sys.stderr)
    for path in paths:
        taken.save(path)
    return status


def _program(args: argparse.Namespace) -> tuple[str, list[str]]:
    program = args.program[1:] if args.program[:1] == ["--"] else args.program
    if not program:
        raise ValueError("name a script, or -m and a module; --help says more")
    if not os.path.isfile(program[0]):
        why = "it is a folder" if os.path.isdir(program[0]) else "no such file"
        raise ValueError(f"cannot open {program[0]!r}: {why}")
    return "--", program


def _status(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    print(end.code, file=sys.stderr)
    return 1


def _width() -> int | None:
    import shutil

    return max(shutil.get_terminal_size().columns, 100) if sys.stderr.isatty() else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
