"""Functions under torch.compile, one with a mistake: `test_torch_compile.py` runs this under the sanitizer."""

import sys

import torch
import triton
import triton.language as tl
from torch._inductor import config


@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i), mask=i < n)  # the load needs a mask, too


@triton.jit
def add_to(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(y + i, mask=i < n) + tl.load(x + i, mask=i < n), mask=i < n)


def softmax_of(kernel, x):
    """A kernel of the user's, and one that Inductor writes for what follows."""
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return torch.softmax(y.view(-1, 20), -1)


def main(kernel: str, size: str) -> None:
    """Call the function twice: the second time, everything is compiled."""
    chosen = globals()[kernel]
    compiled = torch.compile(lambda x: softmax_of(chosen, x), fullgraph=True)
    with config.patch(cpu_backend="triton"):
        x = torch.ones(int(size))
        compiled(x)
        print(f"done {compiled(x).sum().item():g}")


if __name__ == "__main__":
    main(*sys.argv[1:])
