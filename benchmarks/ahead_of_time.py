"""Packages of AOTInductor with kernels of Triton and of tritium: time to compile, time of a call, side by side in one
run on an NVIDIA GPU. torch's C++ launches the kernels, so none has tensor maps, producer warps or preconditions.

    python benchmarks/ahead_of_time.py [--only "mm|norms"]

A call is the least of several bursts of calls, synchronised at the end. Each side compiles in a process of its own with
its cache as it is; both at once. If torch dies of loading the packages, see docs/torch.md.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SIDES = ("triton", "tritium")
TEMPLATES = {"max_autotune_gemm": True, "max_autotune_gemm_backends": "TRITON"}


def cases():
    """Name -> (module, inputs, Inductor's configuration)."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    def rand(*shape):
        return torch.randn(*shape, device="cuda", dtype=torch.float16) / 8

    class Norms(nn.Module):
        def forward(self, x):
            return torch.softmax(F.layer_norm(x, (x.shape[-1],)), -1) * x.amax(0)

    class Product(nn.Module):
        def forward(self, x, y):
            return x @ y

    class Gelu(nn.Module):
        def forward(self, x, y):
            return F.gelu(x @ y)

    class Block(nn.Module):
        def __init__(self, width=1024, heads=16):
            super().__init__()
            self.heads, self.norms = heads, nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            batch, length, width = x.shape
            split = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, width // self.heads)
            mixed = F.scaled_dot_product_attention(*split.permute(2, 0, 3, 1, 4), is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(F.gelu(self.up(self.norms[1](x))))

    def block():
        return Block().half().cuda().eval()

    return {
        "norms 4096": (Norms(), (rand(4096, 4096),), {}),
        "mm 2048, templates": (Product(), (rand(2048, 2048), rand(2048, 2048)), TEMPLATES),
        "mm and gelu 4096, templates": (Gelu(), (rand(4096, 4096), rand(4096, 4096)), TEMPLATES),
        "transformer block": (block(), (rand(4, 1024, 1024),), {}),
        "transformer block, templates": (block(), (rand(4, 1024, 1024),), TEMPLATES),
    }


def compile_all(side: str, only: str, folder: Path) -> None:
    """Packages of all cases, and the seconds they took."""
    import torch

    if side == "tritium":
        import tritium

        tritium.install_as_triton()
    torch.manual_seed(0)
    seconds = {}
    for k, (name, (module, inputs, config)) in enumerate(cases().items()):
        if re.search(only, name):
            begin = time.perf_counter()
            with torch.no_grad():
                program = torch.export.export(module, inputs)
                torch._inductor.aoti_compile_and_package(program, package_path=str(folder / f"{side}{k}.pt2"),
                                                         inductor_configs=config)  # fmt: skip
            seconds[name] = time.perf_counter() - begin
    (folder / f"{side}.json").write_text(json.dumps(seconds))


def time_of(call, bursts=10, calls=20) -> float:
    """Microseconds of a call."""
    import torch

    least = float("inf")
    for _ in range(bursts):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
        least = min(least, (time.perf_counter() - begin) / calls)
    return least * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a regular expression")
    parser.add_argument("--compile", nargs=2, metavar=("SIDE", "FOLDER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.compile:
        return compile_all(args.compile[0], args.only, Path(args.compile[1]))

    import torch

    with tempfile.TemporaryDirectory() as path:
        started = [subprocess.Popen([sys.executable, __file__, "--only", args.only, "--compile", side, path])
                   for side in SIDES]  # fmt: skip
        codes = [process.wait() for process in started]
        if any(codes):
            sys.exit("a side failed to compile")
        seconds = {side: json.loads((Path(path) / f"{side}.json").read_text()) for side in SIDES}
        torch.manual_seed(0)
        print("| module | compiling, s: Triton / tritium | a call, us: Triton / tritium | ratio | errors |")
        print("|---|---|---|---|---|")
        for k, (name, (module, inputs, _)) in enumerate(cases().items()):
            if name not in seconds["tritium"]:
                continue
            with torch.no_grad():
                expected, times, errors = module(*inputs).float(), [], []
            for side in SIDES:
                model = torch._inductor.aoti_load_package(str(Path(path) / f"{side}{k}.pt2"))
                errors.append(float((model(*inputs).float() - expected).norm() / expected.norm()))
                times.append(time_of(lambda model=model, inputs=inputs: model(*inputs)))
            print(f"| {name} | {seconds['triton'][name]:.1f} / {seconds['tritium'][name]:.1f} | {times[0]:.1f} / "
                  f"{times[1]:.1f} | {times[0] / times[1]:.2f} | {errors[0]:.0e}, {errors[1]:.0e} |", flush=True)


if __name__ == "__main__":
    main()
