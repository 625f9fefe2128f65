"""What users get today: the sanitizer's seeded mistakes, run without it, each in a process of its own.

    python benchmarks/sanitize_baseline.py             # a table by kind, and what each mistake did
    python benchmarks/sanitize_baseline.py --seconds 5 --only race

A mistake is told by an `error`, ends in a `crash` or a `hang`, gives another result in `silence`, or leaves `no sign`:
the memory of every argument is as it is under the sanitizer, where accesses at fault do not happen. Each mistake is run
three times; the worst counts.
"""

from __future__ import annotations

import argparse
import collections
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

import tritium
from tests.insight.sanitize import bugs
from tritium.backends.cpu.checked import argument_of
from tritium.runtime.jit import JITFunction

OUTCOMES = ("hang", "crash", "error", "silence", "no sign")
_STATUS = {"no sign": 0, "silence": 40, "error": 41}


def contents(run: Callable[[], object]) -> list[bytes]:
    """The memory of all arguments of all launches after a run."""
    found: dict[int, tuple[int, object]] = {}
    usual = JITFunction.__getitem__

    def watching(self, grid):
        launch = usual(self, grid)

        def call(*args, **options):
            for x in args:
                if hasattr(x, "data_ptr") or hasattr(x, "__array_interface__"):
                    a = argument_of("", 0, x)
                    if a.high - a.low < 1 << 24:  # of sparse mappings only the beginning would matter
                        found[a.low] = a.high - a.low, x
            return launch(*args, **options)

        return call

    JITFunction.__getitem__ = watching
    try:
        run()
    finally:
        JITFunction.__getitem__ = usual
    return [ctypes.string_at(low, size) for low, (size, _) in found.items()]


def outcome(run: Callable[[], object]) -> str:
    """What a mistake does without the sanitizer, in this process."""
    torch.manual_seed(0)
    with tritium.sanitize(patience=0.5):
        wanted = contents(run)
    torch.manual_seed(0)
    try:
        got = contents(run)
    except Exception:
        return "error"
    return "no sign" if got == wanted else "silence"


def apart(run: Callable[[], object], seconds: float) -> str:
    """The same in a child, which may crash or hang."""
    child = os.fork()
    if not child:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        os._exit(_STATUS[outcome(run)])
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return next((name for name, known in _STATUS.items() if known == code), "crash")
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hang"


def table(rows: list[tuple[str, str, str]]) -> str:
    """How often each kind of mistake had each outcome, as Markdown."""
    kinds = collections.Counter(kind for _, kind, _ in rows)
    seen = collections.Counter((kind, what) for _, kind, what in rows)
    lines = ["| kind | mistakes | " + " | ".join(OUTCOMES) + " |", "|---" * (len(OUTCOMES) + 2) + "|"]
    for kind, count in kinds.items():
        lines.append(f"| {kind} | {count} | " + " | ".join(str(seen[kind, what] or "") for what in OUTCOMES) + " |")
    totals = collections.Counter(what for _, _, what in rows)
    lines.append(f"| all | {len(rows)} | " + " | ".join(str(totals[what] or "") for what in OUTCOMES) + " |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="mistakes whose name or kind contains this")
    parser.add_argument("--seconds", type=float, default=20.0, help="after which a mistake hangs")
    parser.add_argument("--times", type=int, default=3, help="how often each is run; the worst counts")
    args = parser.parse_args()
    rows = []
    for name, kind, run in bugs.BUGS:
        if args.only in name or args.only in kind:
            seen = [apart(run, args.seconds) for _ in range(args.times)]
            rows.append((name, kind, min(seen, key=OUTCOMES.index)))
            print(f"{kind:<18} {name:<36} {rows[-1][2]}", flush=True)
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
