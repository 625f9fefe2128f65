"""A model of torch's with a kernel in it, served without a compiler: an exported program, and a bundle of its kernels.

    python examples/aot_inductor.py all                # torch.export
    python examples/aot_inductor.py all --package      # AOTInductor, which needs a C++ compiler and a minute

The first process exports the model and records its kernels, as a build does. The second one, the server, loads both:
torch runs the graph, the operator launches its kernel from the bundle, and a launch that the bundle has nothing for
would be an error. docs/bundles.md
"""

import os
import subprocess
import sys
import tempfile

import torch

import tritium as triton
import tritium.language as tl
import tritium.torch


@triton.jit
def gate_kernel(x_ptr, gate_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    gate = tl.load(gate_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x / (1 + tl.exp(-gate)), mask=at < n)


@tritium.torch.operator("examples::gate")
def gate(x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    """x * sigmoid(by)"""
    out = torch.empty_like(x)
    gate_kernel[(triton.cdiv(x.numel(), 256),)](x, by, out, x.numel(), BLOCK=256)
    return out


class Model(torch.nn.Module):
    """A gated layer."""

    def __init__(self):
        super().__init__()
        self.up, self.by = torch.nn.Linear(32, 64), torch.nn.Linear(32, 64)

    def forward(self, x):
        """One step."""
        return gate(self.up(x), self.by(x))


def inputs():
    """What the model is exported with, and asked for."""
    return torch.linspace(-1, 1, 8 * 32).reshape(8, 32)


@torch.no_grad()
def build(path: str, package: bool) -> None:
    """Export the model, and launch its kernels once for those who record."""
    torch.manual_seed(0)
    model = Model().eval()
    expected = model(inputs())
    program = torch.export.export(model, (inputs(),))
    if package:
        torch._inductor.aoti_compile_and_package(program, package_path=path)
    else:
        torch.export.save(program, path)
    torch.save(expected, f"{path}.expected")


@torch.no_grad()
def serve(path: str, package: bool, bundle: str) -> None:
    """Answer a request."""
    tritium.load_bundle(bundle, missing="error")
    model = torch._inductor.aoti_load_package(path) if package else torch.export.load(path).module()
    torch.testing.assert_close(model(inputs()), torch.load(f"{path}.expected"))
    print("served without LLVM" if "llvmlite.binding" not in sys.modules else "served, and LLVM was imported")


def main() -> None:
    """Both processes, one after the other; a build machine and a server in earnest."""
    package = "--package" in sys.argv
    rest = [word for word in sys.argv[1:] if word != "--package"]
    if not rest:
        print(__doc__)
        return
    if rest != ["all"]:
        {"build": build, "serve": serve}[rest[0]](rest[1], package, *rest[2:])
        return
    with tempfile.TemporaryDirectory() as folder:
        model, bundle = os.path.join(folder, "model.pt2"), os.path.join(folder, "kernels.tbundle")
        kind = ["--package"] if package else []
        record = [sys.executable, "-m", "tritium", "bundle", "record", "-o", bundle]
        subprocess.run([*record, __file__, "build", model, *kind], check=True)
        subprocess.run([sys.executable, __file__, "serve", model, bundle, *kind], check=True)


if __name__ == "__main__":
    main()
