"""How long a script takes that tunes a matmul: 24 configurations, two dtypes, a table of sizes, empty caches.

    python benchmarks/tuning.py [--device cuda|cpu] [--sizes 512,1024,2048] [--rounds 1] [--json out.json]

Each line is a process of its own (`tuning_kernels.py`) that begins with empty caches; rivals take turns. Times are
wall-clock seconds from the first tuned launch to the end of the script, imports not counted. `again` is a second
process that finds the caches of the first.

On a GPU the rival is Triton, where it is installed. On the CPU it is tritium itself: `serial` compiles in one process,
`everything` also measures every configuration to the end. TFLOP/s of the choices, as `do_bench` sees them, show that
less measuring does not choose worse; they vary by some per cent from run to run.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT = Path(__file__).with_name("tuning_kernels.py")
SIZES = {"cuda": "512,1024,1536,2048,3072,4096", "cpu": "128,192,256"}
# Name -> (what the script is asked for, settings).
SIDES = {
    "triton": ("triton", {}),
    "everything": ("everything", {"TRITIUM_COMPILE_WORKERS": "0"}),
    "serial": ("tritium", {"TRITIUM_COMPILE_WORKERS": "0"}),
    "tritium": ("tritium", {}),
}


def run(side, device, sizes, cache):
    """What one process of a side says, with the caches that lie in a folder."""
    who, settings = SIDES[side]
    env = {**os.environ, **settings, "TRITON_CACHE_DIR": cache, "TRITIUM_CACHE_DIR": cache, "CUDA_CACHE_DISABLE": "1"}
    if device == "cpu":
        env["TRITIUM_BACKEND"] = "cpu"
    if who == "everything":
        env["TRITON_CACHE_AUTOTUNING"] = "1"
    done = subprocess.run([sys.executable, str(SCRIPT), who, device, sizes], env=env, stdout=subprocess.PIPE, text=True,
                          check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def measure(sides, device, sizes, rounds):
    """Side -> [(first run, second run) of each round]."""
    found = {side: [] for side in sides}
    for _ in range(rounds):
        for side in sides:
            cache = tempfile.mkdtemp(prefix="tritium-tuning-")
            try:
                found[side].append((run(side, device, sizes, cache), run(side, device, sizes, cache)))
            finally:
                shutil.rmtree(cache, ignore_errors=True)
            first, again = found[side][-1]
            print(f"{side}: {first['seconds']:.1f} s, again {again['seconds']:.1f} s", file=sys.stderr, flush=True)
    return found


def show(found):
    """Print the medians, each against the first side, and the speed of what was chosen."""
    middle = {side: [statistics.median(pair[k][what] for pair in pairs)
                     for k, what in ((0, "seconds"), (0, "tuning"), (1, "seconds"))] for side, pairs in found.items()}
    first = next(iter(middle.values()))
    print("| | script, s | tuning, s | again, s | script against the first |\n|---|---|---|---|---|")
    for side, (seconds, tuning, again) in middle.items():
        print(f"| {side} | {seconds:.1f} | {tuning:.1f} | {again:.1f} | {seconds / first[0]:.2f} |")
    print("\nTFLOP/s of the choices\n")
    sides = list(found)
    print(f"| dtype, size | {' | '.join(sides)} |\n|---|{'---|' * len(sides)}")
    for k, (dtype, size, *_) in enumerate(found[sides[0]][0][0]["rows"]):
        speeds = [f"{max(first['rows'][k][2] for first, _ in found[side]):.2f}" for side in sides]
        print(f"| {dtype} {size} | {' | '.join(speeds)} |")


def main():
    import torch

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=SIZES, default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--sizes", help="comma-separated")
    parser.add_argument("--sides", help=f"comma-separated, of {', '.join(SIDES)}")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", help="write all figures to this file")
    arguments = parser.parse_args()
    rivals = ["triton"] if importlib.util.find_spec("triton") else []
    usual = [*(rivals if arguments.device == "cuda" else ["everything", "serial"]), "tritium"]
    sides = arguments.sides.split(",") if arguments.sides else usual
    found = measure(sides, arguments.device, arguments.sizes or SIZES[arguments.device], arguments.rounds)
    show(found)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
