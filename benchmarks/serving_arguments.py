"""Arguments and calls for `serving_operators.py`: sizes of serving, tensors of every kind, functions by their path."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
from serving_stand_ins import FP8, of

DEVICE = os.environ.get("DEVICE", "cuda")
Build = Callable[[], Callable[[], object]]  # makes the arguments, gives the call


def pick(real: int, small: int) -> int:
    return small if DEVICE == "cpu" else real


HIDDEN, INNER, WORDS = pick(4096, 128), pick(14336, 256), pick(128256, 1000)
HEADS, KV_HEADS, SIZE = pick(32, 4), pick(8, 2), pick(128, 64)
BATCH, CONTEXT = pick(32, 2), pick(4096, 64)  # decode: requests and their length
PROMPT = pick(2048, 48)  # prefill: 4 of this length
TOKENS = 4 * PROMPT


def normal(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(*shape, device=DEVICE, dtype=dtype)


def single(*shape: int) -> torch.Tensor:
    return normal(*shape, dtype=torch.float32)


def half(*shape: int) -> torch.Tensor:
    return normal(*shape, dtype=torch.float16)


def positive(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, device=DEVICE) * 0.01 + 0.001


def integers(low: int, high: int, *shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.randint(low, high, shape, device=DEVICE, dtype=dtype)


def rows(tokens: int = 4 * PROMPT) -> torch.Tensor:
    return normal(tokens, HIDDEN)


def four_bits(columns: int, dtype: torch.dtype = torch.float16) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Weights of HIDDEN rows, 8 in a word, and their scales and zeros in groups of 128, as AWQ has them."""
    scales = normal(HIDDEN // 128, columns, dtype=dtype)
    return bits(HIDDEN, columns // 8), scales, bits(HIDDEN // 128, columns // 8)


def bits(*shape: int) -> torch.Tensor:
    return integers(-(2**31), 2**31 - 1, *shape)


def bytes8(*shape: int) -> torch.Tensor:
    return integers(-127, 128, *shape, dtype=torch.int8)


def fp8(*shape: int) -> torch.Tensor:
    return normal(*shape).to(FP8)


def empty(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(*shape, device=DEVICE, dtype=dtype)


def count(*numbers: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.tensor(numbers, device=DEVICE, dtype=dtype)


def full(value: float, *shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.full(shape, value, device=DEVICE, dtype=dtype)


def steps(parts: int, length: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    """Where each of `parts` of `length` starts, and where the last one ends."""
    return torch.arange(parts + 1, device=DEVICE, dtype=dtype) * length


def pages(requests: int, length: int, page: int) -> torch.Tensor:
    """A table of pages: requests x pages of each, in any order."""
    each = -(-length // page)
    return torch.randperm(requests * each, device=DEVICE, dtype=torch.int32).view(requests, each)


def call(path: str, make: Callable[[], Sequence[Any]], **options: Any) -> Build:
    """The function at `path`, called with what `make` gives."""

    def build() -> Callable[[], object]:
        function, arguments = of(path), make()
        return lambda: function(*arguments, **options)

    return build


def passes(path: str, make: Callable[[], Sequence[Any]], **options: Any) -> Build:
    """The function (or autograd function) at `path`, and its backward pass."""

    def build() -> Callable[[], object]:
        function = of(path)
        function = getattr(function, "apply", function)
        arguments = [x.requires_grad_() if torch.is_tensor(x) and x.is_floating_point() else x for x in make()]

        def both() -> None:
            out = function(*arguments, **options)
            out = out[0] if isinstance(out, (tuple, list)) else out
            out.backward(torch.ones_like(out))
            for x in arguments:
                if torch.is_tensor(x):
                    x.grad = None

        return both

    return build


MAMBA_HEADS, MAMBA_GROUPS, STATE, CHUNK = pick(64, 4), pick(8, 2), pick(128, 64), pick(256, 32)


def scaled(make: Callable[..., torch.Tensor]) -> Sequence[Any]:
    """Of products in 8 bits with scales of rows and columns: both operands, their scales, the type of the result."""
    return (make(PROMPT, HIDDEN), make(HIDDEN, HIDDEN).T, positive(PROMPT, 1), positive(HIDDEN, 1),
            torch.bfloat16)  # fmt: skip


def state_update(*between: Any) -> Sequence[Any]:
    """Of an update of a state-space model: state, x, dt, A, B, C, D, what is between, bias of dt."""
    wide = MAMBA_HEADS, 64
    each = lambda x: x.unsqueeze(-1).expand(*x.shape, 64)
    return (single(BATCH, *wide, STATE), normal(BATCH, *wide), each(normal(BATCH, MAMBA_HEADS)),
            -positive(MAMBA_HEADS).view(-1, 1, 1).expand(*wide, STATE), normal(BATCH, MAMBA_GROUPS, STATE),
            normal(BATCH, MAMBA_GROUPS, STATE), each(single(MAMBA_HEADS)), *between,
            each(single(MAMBA_HEADS)))  # fmt: skip


def experts(tokens: int, block: int, number: int = 8, top: int = 2) -> tuple[torch.Tensor, ...]:
    """Weights of the experts of each token, their numbers, and the tokens sorted by expert in blocks."""
    chosen = torch.rand(tokens, number, device=DEVICE).topk(top).indices.int()
    flat, sorted_ids, of_block = chosen.flatten(), [], []
    for expert in range(number):
        mine = (flat == expert).nonzero().flatten().int()
        blocks = -(-len(mine) // block)
        sorted_ids += [mine, full(tokens * top, blocks * block - len(mine))]
        of_block += [expert] * blocks
    ids = torch.cat(sorted_ids)
    return torch.rand(tokens, top, device=DEVICE), chosen, ids, count(*of_block), count(len(ids))


def built(build: Build) -> Callable[[], None]:
    """A call whose arguments are made by its first call."""
    made: list[Callable[[], object]] = []

    def once() -> None:
        if not made:
            made.append(build())
        made[0]()

    return once
