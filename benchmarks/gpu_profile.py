"""What holds a row of `gpu.py` back: the same launch of tritium and Triton under Nsight Compute, side by side.

    python benchmarks/gpu_profile.py [--of gpu_survey] [--rows softmax,matmul] [--json out.json]

Every row runs in a process of its own under `ncu` with the clock left alone, each rival with the configuration that
was fastest for it in a short trial. Printed: cycles, instructions, registers, how busy the memory and the tensor cores
were, and for what the warps waited.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SECTIONS = ("SpeedOfLight", "ComputeWorkloadAnalysis", "WarpStateStats", "Occupancy", "LaunchStats")
FIGURES = {
    "cycles": "gpc__cycles_elapsed.max",
    "us": "gpu__time_duration.sum",
    "instructions": "smsp__inst_executed.sum",
    "registers": "launch__registers_per_thread",
    "warps/SM": "sm__warps_active.avg.per_cycle_active",
    "memory %": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "DRAM %": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "issue %": "sm__inst_issued.avg.pct_of_peak_sustained_active",
    "tensor cores %": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
}
STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")


def child(of: str, group: str, name: str, who: str) -> None:
    """Launch one row once between the profiler's marks; what runs under ncu."""
    import gpu
    import torch

    table = importlib.import_module(of)
    row = next(r for r in table.GROUPS[group]() if r.name == name)
    kernels = table.SIDES[who]
    times = {}
    for number, config in enumerate(row.configs):
        try:
            row.launch(kernels, **config)
            times[number] = gpu.trial(row, lambda config=config: row.launch(kernels, **config))
        except Exception as error:
            print(f"{who} {name} {config}: {str(error).splitlines()[0]}", file=sys.stderr)
    best = row.configs[min(times, key=times.__getitem__)]
    print("configuration:", best, file=sys.stderr)
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    row.launch(kernels, **best)
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


def profile(of: str, group: str, name: str, who: str) -> dict:
    """The counters of one launch, and the configuration it ran with."""
    command = ["ncu", "--csv", "--page", "raw", "--clock-control", "none", "--profile-from-start", "off"]
    command += ["-k", "regex:_kernel$"]
    command += [word for section in SECTIONS for word in ("--section", section)]
    command += [sys.executable, __file__, "--child", of, group, name, who]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(HERE.parent)})
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    if len(lines) < 3:
        raise RuntimeError(f"ncu found no kernel in {name} ({who}): {done.stdout[-800:]} {done.stderr[-800:]}")
    names, units, values = (next(csv.reader([line])) for line in (lines[0], lines[1], lines[-1]))
    found = {n: number(v) * scale(u) for n, u, v in zip(names, units, values) if is_number(v)}
    chosen = [line for line in done.stderr.splitlines() if line.startswith("configuration:")]
    return {"configuration": chosen[0].split(":", 1)[1].strip() if chosen else "?", "counters": found}


def number(text: str) -> float:
    return float(text.replace(",", ""))


def is_number(text: str) -> bool:
    try:
        number(text)
    except ValueError:
        return False
    return True


def scale(unit: str) -> float:
    """Times in microseconds, whatever unit ncu chose."""
    return {"ns": 1e-3, "nsecond": 1e-3, "ms": 1e3, "msecond": 1e3, "s": 1e6, "second": 1e6}.get(unit, 1.0)


def stall(counter: str) -> str | None:
    match = STALL.fullmatch(counter)
    return match and match[1]


def describe(who: str, result: dict) -> list[str]:
    counters = result["counters"]
    figures = [f"{label} {counters[key]:,.4g}" for label, key in FIGURES.items() if key in counters]
    waits = {stall(k): v for k, v in counters.items() if stall(k)}
    longest = sorted(waits.items(), key=lambda kv: -kv[1])[:6]
    return [
        f"  {who:8} {result['configuration']}",
        "           " + ", ".join(figures),
        "           waits (warps per issue): " + ", ".join(f"{k} {v:.2f}" for k, v in longest),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--of", default="gpu", help="the benchmark whose rows are meant: gpu or gpu_survey")
    parser.add_argument("--rows", default="softmax,matmul,attention", help="its groups, or parts of row names")
    parser.add_argument("--json", type=Path, help="write all counters here")
    parser.add_argument("--child", nargs=4, metavar=("OF", "GROUP", "ROW", "WHO"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.path.insert(0, str(HERE))
    if options.child:
        return child(*options.child)
    if not shutil.which("ncu"):
        sys.exit("ncu (Nsight Compute) is not on PATH: install the CUDA toolkit's profiler")
    table = importlib.import_module(options.of)
    wanted, results = options.rows.split(","), {}
    for group, rows in table.GROUPS.items():
        for name in [row.name for row in rows()]:
            if not any(w == group or w in name for w in wanted):
                continue
            print(name, flush=True)
            for who in table.SIDES:
                try:
                    results[f"{name} / {who}"] = result = profile(options.of, group, name, who)
                    print("\n".join(describe(who, result)), flush=True)
                except RuntimeError as error:
                    print(f"  {who:8} {error}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
