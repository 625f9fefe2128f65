"""`python -m tritium why script.py ...`: run a program, and say why its kernels were recompiled.

    python -m tritium why script.py arguments
    python -m tritium why --json why.json script.py
    python -m tritium why -m package.module arguments

`import triton` gives tritium in the program. The report goes to stderr. The exit status is the program's; 2 for a usage
error. Without this command, TRITIUM_WHY=1 prints a line for each compilation. docs/cache.md
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

from tritium.tools.command import guarded

__all__ = ["hints", "main", "parser", "report"]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"tritium why: {message}\n")


def parser() -> argparse.ArgumentParser:
    """The command's arguments.

    >>> parser().parse_args(["--json", "a.json", "script.py", "--its", "own"]).program
    ['script.py', '--its', 'own']
    """
    p = _Parser("python -m tritium why", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                usage="python -m tritium why [-h] [--json FILE] [--all] SCRIPT | -m MODULE [ARGUMENT ...]")
    p.add_argument("--json", metavar="FILE", help="write all compilations as JSON; - prints them on stderr instead")
    p.add_argument("--all", action="store_true", help="include kernels loaded from disk and the autotuner's trials")
    p.add_argument("-m", dest="module", metavar="MODULE", nargs=argparse.REMAINDER,
                   help="run a module instead of a script")
    p.add_argument("program", nargs=argparse.REMAINDER, metavar="SCRIPT ...", help="the program and its arguments")
    return p


def main(arguments: list[str]) -> int:
    """The command."""
    args = parser().parse_args(arguments)
    return guarded("why", lambda: run(args))


def run(args: argparse.Namespace) -> int:
    """Run the program, then report. What the program exits with is the result."""
    from tritium.runtime.recompile import watch_recompiles
    from tritium.tools import run as runner
    from tritium.tools.profile import _program, _status

    how, rest = ("-m", args.module) if args.module else _program(args)
    path = os.path.abspath(args.json) if args.json and args.json != "-" else args.json  # the program may go elsewhere
    if path and path != "-" and not os.path.isdir(os.path.dirname(path)):
        raise ValueError(f"cannot write {args.json!r}: there is no such folder")
    status = 0
    with watch_recompiles() as seen:
        try:
            status = runner.status_of(lambda: runner.run(how, rest))
        except SystemExit as end:
            status = _status(end)
    sys.stdout.flush()
    text = json.dumps([one.facts() for one in seen], indent=1) if path else ""
    if path == "-":
        print(text, file=sys.stderr)
    else:
        print(report(seen, args.all), end="", file=sys.stderr)
        if path:
            with open(path, "w") as file:
                file.write(text + "\n")
    return status


def report(seen: list[Any], everything: bool = False) -> str:
    """The compilations of a program, kernel by kernel.

    >>> print(report([]), end="")
    tritium why: no kernel was compiled
    """
    made = [one for one in seen if one.how != "loaded" and not one.tuning]
    trials, loaded = sum(one.tuning for one in seen), sum(one.how == "loaded" and not one.tuning for one in seen)
    counts = [f"{len(made)} compiled in {sum(one.seconds for one in made):.2f} s" if made else "no kernel was compiled",
              f"{loaded} loaded from disk" if loaded else "", f"{trials} trials of tuners" if trials else ""]
    lines = [f"tritium why: {', '.join(filter(None, counts))}"]
    shown = seen if everything else made
    for name in dict.fromkeys(one.kernel for one in shown):
        own = [one for one in shown if one.kernel == name]
        lines.append(f"{name}: {len(own)} time{'s' if len(own) > 1 else ''}")
        lines += [f"  {_line(one)}" for one in own]
        lines += [f"  hint: {hint}" for hint in hints(own)]
    return "\n".join(lines) + "\n"


def _line(one: Any) -> str:
    first = "for the first time" if one.how != "loaded" else "loaded from disk"
    why = "; ".join(reason.text for reason in one.reasons) or first
    more = [one.where, "loaded from disk" if one.how == "loaded" and one.reasons else "",
            "a trial of a tuner" if one.tuning else ""]
    return f"{why} ({', '.join(filter(None, more))})" if any(more) else why


def hints(own: list[Any]) -> Iterator[str]:
    """What keeps one kernel from being compiled again and again."""
    found = dict.fromkeys((reason.kind, reason.name, reason.after.startswith("*") or reason.before.startswith("*"))
                          for one in own for reason in one.reasons)
    for kind, name, is_pointer in found:
        values = {reason.after for one in own for reason in one.reasons if (reason.kind, reason.name) == (kind, name)}
        if kind == "alignment":
            where = "tensors that begin at multiples of 16 bytes, or" if is_pointer else "multiples of 16, or write"
            yield f"pass {where} @triton.jit(do_not_specialize_on_alignment=[{name!r}])"
        elif kind == "one":
            yield f"@triton.jit(do_not_specialize=[{name!r}]) compiles one kernel for all values of {name}"
        elif kind == "constant" and len(values) > 1:
            yield f"{name} is a constant, compiled in: an ordinary argument may take many values"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
