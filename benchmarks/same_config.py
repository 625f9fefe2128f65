"""Triton and tritium on the kernels that torch.compile generates, with the same configurations, on an NVIDIA GPU.

    python benchmarks/torch_compile.py --device cuda --keep kept
    python benchmarks/same_config.py kept [--kinds red,mm] [--rounds 2] [--worst 40] [--json out.json]

`torch_compile.py` lets each side tune its kernels, so noise in the tuning is noise in its table. Here both sides run
each kernel with each of a few configurations that Inductor would try. A point of the table is one kernel with one
configuration: the time of a launch in a CUDA graph, the least of all rounds. Operands are shared buffers, large enough
for any kernel, so no result is checked; `torch_compile.py` does that.

Kinds: poi (pointwise), per and red (reductions of whole rows, and in a loop), tem (templates: products, convolutions).
"""

from __future__ import annotations

import argparse
import ast
import functools
import importlib.util
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SIDES = "triton", "tritium"
ELEMENTS = 1 << 28  # of each buffer
HEADER = """import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math


@triton.jit
"""
DECORATED = re.compile(r"@triton_heuristics\.(\w+)\((.*?)\n\)\n@triton\.jit\ndef (\w+)\((.*?)\):\n(.*)", re.DOTALL)
KINDS = {"pointwise": "poi", "persistent_reduction": "per", "reduction": "red", "template": "tem"}


# --- kernels ----------------------------------------------------------------------------------------------------------
def kernels(folder: Path) -> list[dict]:
    """The kernels in Inductor's caches, each once."""
    found = {}
    for path in sorted(folder.glob("*/*/*.py")):
        text = path.read_text()
        if "async_compile.triton(" not in text and (kernel := read(text)) is not None:
            found.setdefault(kernel["source"].partition("):\n")[2], kernel)
    return list(found.values())


def read(text: str) -> dict | None:
    """What is needed to run a generated kernel; None for one whose arguments are not known."""
    match = DECORATED.search(text)
    if not match or match[1] not in KINDS:
        return None
    _, said, name, parameters, body = match.groups()
    literal = lambda pattern: ast.literal_eval(m[1]) if (m := re.search(pattern, said, re.DOTALL)) else {}
    kernel = {
        "name": name,
        "kind": KINDS[match[1]],
        "signature": literal(r"'signature': (\{.*?\})"),
        "sizes": literal(r"size_hints=(\{.*?\})"),
        "hint": m[1] if (m := re.search(r"ReductionHint\.(\w+)", said)) else None,
        "numbers": {a: int(b) for a, b in re.findall(r"(?m)^    (\w+)(?: *: tl\.constexpr)? = (\d+)$", body)},
        "launch": {a: int(b) for a, b in re.findall(r"(num_warps|num_stages)=(\d+)", said)},
        "source": f"{HEADER}def kernel({parameters}):\n{body}",
    }
    return kernel if grid(kernel, next(iter(configurations(kernel)), {})) else None


def configurations(kernel: dict) -> list[dict]:
    """A few of those that Inductor tries for kernels of this kind and size."""
    names, sizes = kernel["signature"], kernel["sizes"]
    if kernel["kind"] == "tem":
        return [kernel["launch"]]
    if kernel["kind"] == "poi":
        if "YBLOCK" in names:
            tiles = (32, 32, 4), (16, 64, 4), (64, 64, 8), (256, 16, 4), (16, 256, 4)
            return [{"XBLOCK": x, "YBLOCK": y, "num_warps": warps} for x, y, warps in tiles]
        block = max(256, min(sizes["x"] // 128, 1024))
        pairs = dict.fromkeys([(block, 4), (block // 2, min(8, max(4, block // 128))), (128, 4)])
        return [{"XBLOCK": x, "num_warps": warps} for x, warps in pairs]
    if not {"x", "r0_"} == set(sizes):
        return []
    x, r = sizes["x"], sizes["r0_"]
    if kernel["kind"] == "per":
        fits = [k for k in (1, 8, 32, 64) if k * r <= 8192 and k <= x] or [1]
        return [{"XBLOCK": k, "num_warps": power(min(max(k * r // 128, 1), 8))} for k in fits]
    tiles = [(64, 8), (32, min(r, 64)), (8, min(r, 128))]
    if kernel["hint"] not in ("OUTER", "OUTER_TINY"):
        tiles = [(1, min(r, 2048)), (8, min(r, 512)), (1, min(r, 4096))]
    return [{"XBLOCK": k, "R0_BLOCK": n, "num_warps": min(16, max(2, power(k * n // 256)))} for k, n in tiles if k <= x]


def power(n: int) -> int:
    """The least power of two that is not below n."""
    return 1 << max(0, (n - 1).bit_length())


def grid(kernel: dict, config: dict) -> tuple[int, ...] | None:
    """The programs of a launch; None if they are not known."""
    numbers, sizes = kernel["numbers"], kernel["sizes"]
    count = lambda axis: -(-numbers.get(f"{axis}numel", sizes[axis]) // config[f"{axis.upper()}BLOCK"])
    if kernel["kind"] != "tem":
        known = set(kernel["signature"].values()) <= {*DTYPES, "i32", "i64", "constexpr"}
        return tuple(map(count, ("x", "y") if "YBLOCK" in config else ("x",))) if config and known else None
    blocks = lambda size, block: -(-numbers[size] // numbers[block])
    try:
        if "OUT_C" in kernel["source"]:
            pixels = numbers.get("BATCH", 1) * numbers["OUT_H"] * numbers["OUT_W"]
            return -(-pixels // numbers["BLOCK_M"]), blocks("OUT_C", "BLOCK_N"), 1
        tiles = blocks("M", "BLOCK_M") * blocks("N", "BLOCK_N")
    except KeyError:
        return None
    return (min(numbers["NUM_SMS"], tiles) if "NUM_SMS" in numbers else tiles), 16 if "bmm" in kernel["name"] else 1, 1


DTYPES = {"*fp64": "float64", "*fp32": "float32", "*fp16": "float16", "*bf16": "bfloat16", "*i64": "int64",
          "*i32": "int32", "*i16": "int16", "*i8": "int8", "*u8": "uint8", "*i1": "bool"}  # fmt: skip


# --- one side, in a process of its own --------------------------------------------------------------------------------
class Side:
    """The kernels as one of the compilers has them; buffers are made when a kernel needs them."""

    def __init__(self, elements: int):
        import torch

        self.torch, self.elements, self.buffers = torch, elements, {}
        self.folder = Path(tempfile.mkdtemp())

    def buffer(self, kind: str, number: int):
        """An array of a type, for the argument at a position."""
        key = kind, number % 8
        if key not in self.buffers:
            dtype = getattr(self.torch, DTYPES[kind])
            made = self.torch.empty(self.elements, device="cuda", dtype=dtype)
            if dtype.is_floating_point:
                part = made[: 1 << 24].normal_()
                for start in range(0, self.elements, len(part)):
                    made[start : start + len(part)].copy_(part)
            else:
                made.random_(0, 2 if kind == "*i1" else 32)
            self.buffers[key] = made
        return self.buffers[key]

    def kernel(self, number: int, source: str):
        """The compiled function; its source must be in a file."""
        path = self.folder / f"kernel_{number}.py"
        path.write_text(source)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.kernel

    def arguments(self, kernel: dict) -> list:
        """Buffers, and the numbers that sizes are; one for others, such as seeds."""
        numbers, sizes = kernel["numbers"], kernel["sizes"]
        values = {name: numbers.get(name, sizes.get(name[:-5])) for name in kernel["signature"] if "numel" in name}
        values["ks0"] = sizes.get("r0_", 1)
        given = [(name, kind) for name, kind in kernel["signature"].items() if kind != "constexpr"]
        return [self.buffer(kind, k) if kind in DTYPES else values.get(name, 1) for k, (name, kind) in enumerate(given)]

    def microseconds(self, launch) -> float:
        """The time of a launch: the least of several replays of a graph of many."""
        torch = self.torch
        timed = lambda fn: (begin.record(), fn(), end.record(), end.synchronize(), begin.elapsed_time(end))[-1]
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        launch()
        torch.cuda.synchronize()
        count = max(4, min(50, int(3 / max(timed(launch), 0.003))))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(count):
                launch()
        return min(timed(graph.replay) for _ in range(6)) / count * 1e3


def serve(side: str, listed: str, part: int, parts: int, out: str | None) -> None:
    """Compile a part of the kernels, or time them and write what they take."""
    if side == "tritium":
        sys.path.insert(0, str(ROOT))
        import tritium

        tritium.install_as_triton()
    worker, found = Side(ELEMENTS if out else 1 << 16), {}
    for number, kernel in enumerate(json.loads(Path(listed).read_text())):
        if number % parts != part:
            continue
        function, args = worker.kernel(number, kernel["source"]), worker.arguments(kernel)
        for config in configurations(kernel):
            options, programs = {"num_stages": 1, **config}, grid(kernel, config)
            key = f"{number} {kernel['name']} {' '.join(f'{a}={b}' for a, b in config.items())}"
            try:
                if out:
                    found[key] = worker.microseconds(functools.partial(function[programs], *args, **options))
                else:
                    function.warmup(*args, grid=programs, **options)
            except Exception as error:  # whatever a compiler raises: the point is left out, and says why
                if "CUDA error" in str(error):
                    raise  # nothing after it can be trusted
                found[key] = None
                if out:
                    print(f"{side}: {key}: {type(error).__name__}: {str(error).splitlines()[:1]}", file=sys.stderr)
    if out:
        Path(out).write_text(json.dumps(found))


# --- both -------------------------------------------------------------------------------------------------------------
def measure(listed: Path, jobs: int, rounds: int) -> dict[str, dict[str, float | None]]:
    """Microseconds by point and side."""
    start = lambda *rest: subprocess.Popen([sys.executable, __file__, "--serve", *map(str, rest), str(listed)])
    for side in SIDES:
        for process in [start(side, part, jobs, "-") for part in range(jobs)]:
            process.wait()
    found: dict[str, dict[str, float | None]] = {}
    for _ in range(rounds):
        for side in SIDES:
            out = listed.with_suffix(f".{side}")
            if start(side, 0, 1, out).wait():
                sys.exit(f"{side} failed")
            for key, time in json.loads(out.read_text()).items():
                sides = found.setdefault(key, {})
                sides[side] = time if time is None else min(time, sides.get(side) or math.inf)
    return found


def report(found: dict[str, dict[str, float | None]], worst: int) -> str:
    """The means, and the points where tritium is furthest behind."""
    ratios = {key: s["triton"] / s["tritium"] for key, s in found.items() if s.get("triton") and s.get("tritium")}
    best: dict[str, list[float]] = {}
    for key in ratios:
        least = best.setdefault(key.split()[0], [math.inf, math.inf])
        least[:] = [min(old, found[key][side]) for old, side in zip(least, SIDES)]
    mean = lambda values: math.exp(sum(map(math.log, values)) / len(values))
    below = lambda values, limit: sum(x < limit for x in values)
    tuned = [a / b for a, b in best.values()]
    lines = [f"{found[key]['triton']:10.2f}{found[key]['tritium']:10.2f}{ratios[key]:8.2f}  {key}"
             for key in sorted(ratios, key=ratios.get)[:worst]]  # fmt: skip
    failed = [key for key, s in found.items() if s.get("triton") and not s.get("tritium")]
    return "\n".join([f"{'Triton':>10}{'tritium':>10}{'ratio':>8}  us, kernel and configuration", *lines, "",
                      f"{len(ratios)} points: {mean(ratios.values()):.3f} by geometric mean, "
                      f"{below(ratios.values(), 0.95)} below 0.95, {below(ratios.values(), 0.9)} below 0.9",
                      f"{len(tuned)} kernels, each side with its best configuration: {mean(tuned):.3f}, "
                      f"{below(tuned, 0.95)} below 0.95",
                      f"{len(failed)} points fail with tritium alone{': ' if failed else ''}{', '.join(failed[:5])}"])


def main() -> None:
    """Measure and print the points that are furthest behind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", help="what `torch_compile.py --keep` left")
    parser.add_argument("--kinds", default="poi,per,red,tem", help="kinds of kernels to take")
    parser.add_argument("--rounds", type=int, default=2, help="processes of each side that time")
    parser.add_argument("--jobs", type=int, default=min(16, os.cpu_count() or 2), help="processes that compile at once")
    parser.add_argument("--worst", type=int, default=40, help="points to show")
    parser.add_argument("--json", help="a file for the figures")
    parser.add_argument("--serve", nargs=5, metavar="PART", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        side, part, parts, out, listed = args.serve
        serve(side, listed, int(part), int(parts), None if out == "-" else out)
        return
    if not args.folder:
        parser.error("which folder did `torch_compile.py --device cuda --keep FOLDER` leave?")
    taken = [kernel for kernel in kernels(Path(args.folder)) if kernel["kind"] in args.kinds.split(",")]
    if not taken:
        parser.error(f"there is no kernel of Inductor's in {args.folder}")
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "kernels.json"
        listed.write_text(json.dumps(taken))
        found = measure(listed, args.jobs, args.rounds)
    print(report(found, args.worst))
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
