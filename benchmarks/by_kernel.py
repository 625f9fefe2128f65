"""The kernels of any program, one by one, beside Triton: their time on the GPU, as torch's profiler sees it.

    python benchmarks/by_kernel.py program.py                # tables of kernels, the slowest beside Triton first
    python benchmarks/by_kernel.py program.py --tuned        # each side chooses its own configurations
    python benchmarks/by_kernel.py program.py --before ../other   # beside another checkout of tritium as well
    python benchmarks/by_kernel.py program.py --json out.json     # written after each side's turn
    python benchmarks/by_kernel.py --show out.json                # the table of a run, finished or not

The program defines `cases()`, which gives pairs (name, function without arguments): calls of a library, forward and
backward passes, as `library_operators.py` does. torch's own kernels are left out. Each side runs it in its own process,
in turns. Tuners take the middle one of their configurations, so that code is compared and not choices. Needs a GPU,
torch and Triton.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import runpy
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SIDES = ("triton", "tritium", "before")


def middle_configuration() -> None:
    """Have tuners take one of their configurations, without timing any."""
    from triton.runtime.autotuner import Autotuner

    made = Autotuner.__init__

    def one(self, fn, arg_names, configs, *rest, **options):
        made(self, fn, arg_names, configs[len(configs) // 2 :][:1] if configs else configs, *rest, **options)

    Autotuner.__init__ = one


def times_of(function: Callable[[], object], calls: int) -> dict[str, float]:
    """Kernel -> microseconds of a call, after two that are not timed."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    for _ in range(2):
        function()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        for _ in range(calls):
            function()
        torch.cuda.synchronize()
    launches = defaultdict(list)
    for event in profiled.events():
        if event.device_time > 0 and re.fullmatch(r"\w+", event.name):  # names of C++ have types
            launches[event.name].append(event.device_time)
    return {name: statistics.median(times) * len(times) / calls for name, times in launches.items()}


def run(program: str, side: str, tuned: bool, calls: int, path: Path) -> None:
    """Write the times of each case's kernels, or its error, to `path`. Cases that it has already are passed over.

    A kernel that faults leaves a process without its GPU: the rest is for another process.
    """
    import torch

    if side != "triton":
        import tritium

        tritium.install_as_triton()
    if not tuned:
        middle_configuration()
    found: dict[str, dict[str, float] | str] = json.loads(path.read_text()) if path.exists() else {}
    for name, function in runpy.run_path(program)["cases"]():
        if name in found:
            continue
        found[name] = "the process died"
        path.write_text(json.dumps(found))
        try:
            found[name] = times_of(function, calls)
        except Exception as error:  # a case that one side refuses is a line of the table
            found[name] = f"{type(error).__name__}: {error}".splitlines()[0]
        path.write_text(json.dumps(found))
        torch.cuda.synchronize()


def least(rounds: list[dict]) -> dict[tuple[str, str], float]:
    """(case, kernel) -> the least time of several rounds."""
    out: dict[tuple[str, str], float] = {}
    for found in rounds:
        for case, times in found.items():
            for kernel, time in times.items() if isinstance(times, dict) else ():
                out[case, kernel] = min(time, out.get((case, kernel), math.inf))
    return out


def mean(ratios: list[float]) -> str:
    below = sum(ratio < 0.95 for ratio in ratios)
    return f"{math.exp(statistics.fmean(map(math.log, ratios))):.3f} by geometric mean, {below} below 0.95"


def table(results: dict[str, list[dict]]) -> str:
    """The kernels that all sides ran, and the cases that one did not."""
    times = {side: least(rounds) for side, rounds in results.items() if rounds}
    if "tritium" not in times:
        return "tritium has not had its turn"
    ratio = lambda key, side="triton": times[side][key] / times["tritium"][key]
    keys = sorted(set.intersection(*({*found} for found in times.values())), key=ratio)
    others = [side for side in times if side != "tritium"]
    rows = [["kernel", "case", *(f"{side}, us" for side in times), *(f"vs {side}" for side in others)]]
    rows += [["---"] * len(rows[0])]
    rows += [[key[1], key[0], *(f"{found[key]:.1f}" for found in times.values()),
              *(f"{ratio(key, side):.2f}" for side in others)] for key in keys]  # fmt: skip
    lines = [f"| {' | '.join(row)} |" for row in rows]
    if keys:
        lines += [f"\n{len(keys)} kernels vs {side}: {mean([ratio(key, side) for key in keys])}" for side in others]
    errors = {(case, side): what for side, rounds in results.items() for found in rounds for case, what in found.items()
              if isinstance(what, str)}  # fmt: skip
    return "\n".join(lines + [f"- {case} fails with {side}: {what}" for (case, side), what in errors.items()])


def until_the_end(command: list[str], path: Path, environment: dict[str, str]) -> dict:
    """What a side's processes found, each of which goes on where the one before it died."""
    found: dict = {}
    while subprocess.run(command, env=environment).returncode:
        if len(now := json.loads(path.read_text()) if path.exists() else {}) == len(found):
            raise SystemExit(f"no case of {command[2]} runs")
        found = now
    return json.loads(path.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?")
    parser.add_argument("--tuned", action="store_true", help="each side times its tuners' configurations")
    parser.add_argument("--before", type=Path, metavar="FOLDER", help="another checkout, to compare with")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--calls", type=int, default=8)
    parser.add_argument("--json", type=Path, help="write all times here")
    parser.add_argument("--show", type=Path, metavar="JSON", help="print the table of an earlier run")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        run(args.program, args.side, args.tuned, args.calls, args.json)
        return
    if args.show:
        print(table(json.loads(args.show.read_text())))
        return
    if not args.program:
        parser.error("which program?")
    roots = {"triton": "", "tritium": str(ROOT), **({"before": str(args.before.resolve())} if args.before else {})}
    results: dict[str, list[dict]] = {side: [] for side in roots}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(args.rounds):
            for side, root in roots.items():
                path = Path(folder) / f"{side}{turn}.json"
                command = [sys.executable, __file__, args.program, "--side", side, "--json", str(path), "--calls",
                           str(args.calls), *(["--tuned"] if args.tuned else [])]  # fmt: skip
                found = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
                own = {"PYTHONPATH": found, "TRITIUM_CACHE_DIR": str(Path(folder) / side)}
                results[side].append(until_the_end(command, path, {**os.environ, **own}))
                if args.json:
                    args.json.write_text(json.dumps(results))
    print(table(results))


if __name__ == "__main__":
    main()
