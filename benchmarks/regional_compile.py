"""A transformer block over a schedule of sequence lengths: compiled as a whole, or eager with its MLP in one kernel?

    python benchmarks/regional_compile.py [--device cpu|cuda] [--lengths 64,96,128] [--width 256] [--iterations 20]
                                          [--only "eager;whole"] [--processor-time] [--json out.json]

`whole` gives the block to `torch.compile`; each new length may compile again. `whole, dynamic` tells it that lengths
change. `regional` leaves the block eager and replaces RMSNorm -> GELU -> Linear by the operator
`torch.ops.tritium.fused_mlp`, one kernel for all lengths. `regional, compiled` compiles that hot path alone. The first
call at each length is timed by itself: that is where compiling is paid. Steady state is the median of the calls that
follow. Each side runs in a process of its own, with empty caches. All results are compared with the eager block. On a
CPU that others use, `--processor-time` runs one thread and counts what the processor spends on it in steady state.

    python -m tritium bench run benchmarks/regional_compile.py     # steady state alone, in turns and with intervals
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from tritium.tools.bench import Case, benchmark

SIDES = ["eager", "whole", "whole, dynamic", "regional", "regional, compiled"]
LENGTHS = {"cpu": "64,96,128,64,160", "cuda": "512,768,1024,512,1536"}
WIDTHS = {"cpu": 256, "cuda": 2048}


def block_class():
    """A transformer block whose MLP is what the fused kernel computes; torch is imported by those who measure."""
    import torch
    import torch.nn.functional as F

    class Block(torch.nn.Module):
        """Attention and an MLP, each with a residual; `mlp` computes RMSNorm -> GELU -> Linear."""

        def __init__(self, width: int, heads: int, mlp):
            super().__init__()
            self.heads, self.compute = heads, mlp
            self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
            self.norm, self.gain = torch.nn.LayerNorm(width), torch.nn.Parameter(torch.ones(width))
            self.mlp = torch.nn.Linear(width, width)

        def forward(self, x):
            batch, length, width = x.shape
            q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2)
                       for t in self.qkv(self.norm(x)).chunk(3, -1))
            seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
            y = self.compute(x.reshape(batch * length, width), self.gain, self.mlp.weight, self.mlp.bias)
            return x + y.view(batch, length, width)

    return Block


def plain_mlp(x, gain, weight, bias):
    """The hot path by torch's operators."""
    import torch
    import torch.nn.functional as F

    y = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * gain
    return F.linear(F.gelu(y), weight, bias)


def fused_mlp(x, gain, weight, bias):
    """The hot path in one kernel."""
    import torch

    return torch.ops.tritium.fused_mlp(x, gain, weight, bias)


def made(side: str, width: int, device: str):
    """The block of a side, and the eager one with the same weights."""
    import torch

    torch.manual_seed(0)
    Block = block_class()
    reference = Block(width, width // 64, plain_mlp).to(device)
    mlp = {"regional": fused_mlp, "regional, compiled": torch.compile(fused_mlp, dynamic=True)}.get(side, plain_mlp)
    block = Block(width, width // 64, mlp).to(device)
    block.load_state_dict(reference.state_dict())
    if side.startswith("whole"):
        return torch.compile(block, dynamic=True if "dynamic" in side else None), reference
    return block, reference


def measure(side: str, device: str, lengths: list[int], width: int, iterations: int,
            processor_time: bool = False) -> dict:
    """First calls and steady state at each length of the schedule, in milliseconds."""
    import torch

    import tritium.torch

    if processor_time:
        torch.set_num_threads(1)
        tritium.set_num_threads(1)
    block, reference = made(side, width, device)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    first, steady, error = [], [], 0.0

    def timed(x, clock=time.perf_counter):
        wait()
        start = clock()
        out = block(x)
        wait()
        return out, (clock() - start) * 1e3

    with torch.no_grad():
        reference(torch.randn(1, 16, width, device=device))  # what torch itself sets up is nobody's
        for length in lengths:
            x = torch.randn(2, length, width, device=device)
            out, ms = timed(x)
            first.append(ms)
            clock = time.thread_time if processor_time else time.perf_counter
            steady.append(statistics.median(timed(x, clock)[1] for _ in range(iterations)))
            error = max(error, float((out - reference(x)).abs().max()))
    return {"side": side, "lengths": lengths, "first_ms": first, "steady_ms": steady, "error": error}


def in_a_process(side: str, args) -> dict:
    """The figures of a side from a process of its own, with empty caches."""
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "TRITIUM_CACHE_DIR": f"{folder}/tritium", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
               "TRITON_CACHE_DIR": f"{folder}/triton"}
        command = [sys.executable, __file__, "--device", args.device, "--lengths", args.lengths, "--width",
                   str(args.width), "--iterations", str(args.iterations), "--side", side]
        command += ["--processor-time"] if args.processor_time else []
        done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{side}: {done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def table(rows: list[dict]) -> str:
    """First calls and steady state, side by side."""
    lengths = rows[0]["lengths"]
    cells = "".join(f"{n:>9}" for n in lengths)
    lines = [f"{'first call, ms':22}{cells}{'sum':>10}"]
    lines += [f"{r['side']:22}" + "".join(f"{ms:9.1f}" for ms in r["first_ms"]) + f"{sum(r['first_ms']):10.1f}"
              for r in rows]
    lines += ["", f"{'steady state, ms':22}{cells}{'sum':>10}{'error':>10}"]
    lines += [f"{r['side']:22}" + "".join(f"{ms:9.2f}" for ms in r["steady_ms"])
              + f"{sum(r['steady_ms']):10.2f}{r['error']:10.1e}" for r in rows]
    return "\n".join(lines)


@benchmark(sizes=[64, 160])
def regional_block(size, device):
    """An eager block with its MLP in one kernel; `size` is the length of the sequences."""
    import torch

    import tritium.torch  # noqa: F401

    block, eager = made("regional", WIDTHS[device], device)
    whole, _ = made("whole, dynamic", WIDTHS[device], device)
    x = torch.randn(2, size, WIDTHS[device], device=device)

    def without_gradients(side):
        return lambda: torch.no_grad()(side)(x)

    run, reference, compiled = map(without_gradients, (block, eager, whole))
    return Case(run, reference, {"eager": reference, "whole": compiled}, tolerance=1e-2 if device == "cuda" else 1e-4)


def main() -> None:
    """Measure the sides one after another, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--lengths")
    parser.add_argument("--width", type=int)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--only", default=";".join(SIDES), help="sides, with ; between them")
    parser.add_argument("--processor-time", action="store_true", help="one thread, and what it takes of the processor")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--json")
    args = parser.parse_args()
    args.lengths, args.width = args.lengths or LENGTHS[args.device], args.width or WIDTHS[args.device]
    if args.side:
        lengths = [int(n) for n in args.lengths.split(",")]
        print(json.dumps(measure(args.side, args.device, lengths, args.width, args.iterations, args.processor_time)))
        return
    rows = []
    for side in args.only.split(";"):
        rows.append(in_a_process(side.strip(), args))
        print(f"{side.strip()}: done", file=sys.stderr)
    print(table(rows))
    if args.json:
        with open(args.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
