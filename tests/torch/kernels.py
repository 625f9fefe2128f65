"""Kernels and host functions of a user's, with the annotations that operators need."""

import torch

import tritium as triton
import tritium.language as tl
from tritium.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def scale_kernel(x_ptr, out_ptr, factor, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) * factor, mask=at < n)


def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    out = torch.empty_like(x)
    scale_kernel[(triton.cdiv(x.numel(), 128),)](x, out, factor, x.numel(), BLOCK=128)
    return out


def scale_(x: torch.Tensor, factor: float) -> None:
    scale_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, x, factor, x.numel(), BLOCK=128)


def scale_into(out: torch.Tensor, x: torch.Tensor, factor: float = 2.0) -> None:
    flat = out.view(-1)  # a view is memory of the argument too
    scale_kernel[(triton.cdiv(x.numel(), 128),)](x, flat, factor, x.numel(), BLOCK=128)


def maybe_in_place(x: torch.Tensor, in_place: bool = False) -> torch.Tensor:
    out = torch.empty_like(x)
    scale_kernel[(1,)](x, x if in_place else out, 3.0, x.numel(), BLOCK=1024)
    return out


@triton.jit
def count_kernel(x_ptr, count_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    positive = tl.load(x_ptr + at, mask=at < n, other=0.0) > 0
    tl.atomic_add(count_ptr, tl.sum(positive.to(tl.int32), axis=0))


def count_into(x: torch.Tensor, count: torch.Tensor) -> None:
    count_kernel[(1,)](x, count, x.numel(), BLOCK=1024)


@triton.jit
def tiles_kernel(source, target, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK
    target.store([at, 0], source.load([at, 0]) + 1)


def through_descriptors(x: torch.Tensor, out: torch.Tensor) -> None:
    rows, columns = x.shape
    source, target = (TensorDescriptor.from_tensor(t, [8, columns]) for t in (x, out))
    tiles_kernel[(triton.cdiv(rows, 8),)](source, target, BLOCK=8)


@triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 256})], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def tuned_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < (n if not EVEN else n + 1)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=mask & (at < n)) + 1, mask=mask & (at < n))


def tuned(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    n = x.numel()
    tuned_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
    return out


def in_place_by_torch(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.mul_(2)
    return scaled(y, 2.0)


def returns_its_argument(x: torch.Tensor) -> torch.Tensor:
    scale_(x, 2.0)
    return x


def of_matrices(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    (_, columns), (length,) = x.shape, weight.shape
    assert columns == length
    return scaled(x, 2.0)


def counted(x: torch.Tensor) -> torch.Tensor:
    kept = int((x > 0).sum())
    return scaled(x[x > 0], 2.0)[:kept].clone()


def several(xs: list[torch.Tensor], factor: float) -> list[torch.Tensor]:
    return [scaled(x, factor) for x in xs]


def optional(x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    out = scaled(x, 2.0)
    return out if bias is None else out + bias
