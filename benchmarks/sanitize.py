"""What the sanitizer costs: every kernel of the collection, plain and sanitized, taking turns.

    python benchmarks/sanitize.py                  # a table; exit status 1 if a kernel takes more than 5 times as long
    python benchmarks/sanitize.py --only softmax --seconds 2
    python benchmarks/sanitize.py --cpu            # on a machine that others use

The first three columns are the kernels' own time. The others are that of the whole call, which also makes its results:
memory without contents is filled with a pattern. A finding is an error: the collection has no mistakes.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tritium
from tritium import knobs
from tritium.insight.sanitize.sanitizer import Report
from tritium.tools import demo
from tritium.tools.bench.running import Plan

LIMIT = 5.0


class Clock:
    """The time between the hooks of launches: that of the kernels, and of handing them their arguments."""

    def __init__(self, now):
        self.total, self.now = 0.0, now
        knobs.runtime.launch_enter_hook.add(self.enter)
        knobs.runtime.launch_exit_hook.add(self.leave)

    def enter(self, told) -> None:
        self.total -= self.now()

    def leave(self, told) -> None:
        self.total += self.now()


def seconds(run, budget: float, clock: Clock) -> tuple[float, float]:
    """(kernels, whole call): the shortest, after a call that compiles; neighbours on the machine only add to it."""
    run()
    times, end = [], clock.now() + budget
    while len(times) < 5 or clock.now() < end:
        clock.total, begun = 0.0, clock.now()
        run()
        times.append((clock.total, clock.now() - begun))
    return min(kernel for kernel, _ in times), min(whole for _, whole in times)


def measure(row: Plan, budget: float, rounds: int, clock: Clock) -> tuple[tuple, tuple, Report]:
    """(plain, sanitized, what was found): the shortest of all rounds, which take turns."""
    case = row.target.make(row.size, row.dtype, "numpy" if demo.import_torch() is None else "cpu")
    run, plain, checked, report = case.run, [], [], Report()
    for _ in range(rounds):
        plain.append(seconds(run, budget, clock))
        with tritium.sanitize(report=report):
            checked.append(seconds(run, budget, clock))
    return tuple(map(min, zip(*plain))), tuple(map(min, zip(*checked))), report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--seconds", type=float, default=0.2, help="for each measurement")
    parser.add_argument("--rounds", type=int, default=5, help="of which the shortest is told")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cpu", action="store_true", help="time of the processor, on a busy machine; with one thread")
    args = parser.parse_args()
    tritium.set_num_threads(args.threads)
    worst, wrong, clock = 0.0, 0, Clock(time.thread_time if args.cpu else time.perf_counter)
    print(f"{'kernel':<52} {'plain ms':>9} {'checked':>9} {'times':>6}   {'call ms':>9} {'checked':>9} {'times':>6}")
    for row in demo.rows():
        name = demo.name_of(row)
        if args.only not in name or not (row.target.record and row.target.record.jit):
            continue
        plain, checked, report = measure(row, args.seconds, args.rounds, clock)
        worst, wrong = max(worst, checked[0] / plain[0]), wrong + len(report)
        print(f"{name:<52} " + "   ".join(f"{x * 1e3:>9.3f} {y * 1e3:>9.3f} {y / x:>6.2f}"
                                               for x, y in zip(plain, checked)), flush=True)
        if report:
            print(report.text())
    print(f"worst {worst:.2f}, limit {LIMIT}; findings {wrong}")
    return int(worst > LIMIT or wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
