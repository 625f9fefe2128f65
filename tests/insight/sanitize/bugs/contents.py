"""Writes to read-only memory, and reads of memory that nobody has written."""

import numpy as np
import torch

import tritium as triton
import tritium.language as tl
from tests.insight.sanitize.bugs.collection import bug


@bug("read-only")
def store_to_read_only_array():
    y = np.zeros(8, np.float32)
    y.flags.writeable = False
    one_store_to_fixed[(1,)](y)


@triton.jit
def one_store_to_fixed(y):
    tl.store(y + tl.arange(0, 8), 1.0)  # BUG


@triton.jit
def add_to_fixed(y):
    tl.atomic_add(y + tl.arange(0, 8), 1.0)  # BUG


@bug("read-only")
def atomic_on_bytes():
    add_to_fixed[(1,)](np.frombuffer(bytes(32), np.float32))


# --- uninitialised memory ---------------------------------------------------------------------------------------------
@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)  # BUG
    tl.store(y + i, v, mask=i < n)


for _make in ("torch.empty(1000)", "torch.empty_like(torch.ones(1000))", "torch.ones(1).new_empty(1000)",
              "np.empty(1000, np.float32)", "np.empty_like(np.ones(1000))",
              "torch.empty(1000, dtype=torch.float16)", "torch.empty(1000, dtype=torch.int8)"):
    @bug("uninitialised", f"reads {_make}")
    def _reads(make=_make):
        x = eval(make)
        copy[(4,)](x, np.zeros(1000, x.dtype) if isinstance(x, np.ndarray) else torch.zeros(1000, dtype=x.dtype), 1000,
                   BLOCK=256)


@bug("uninitialised")
def half_is_filled():
    x = torch.empty(1000)
    x[:600] = 1
    copy[(4,)](x, torch.zeros(1000), 1000, BLOCK=256)


@triton.jit
def accumulate(x, out, BLOCK: tl.constexpr):
    v = tl.sum(tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)))
    tl.atomic_add(out + tl.arange(0, 2), v)  # BUG


@bug("uninitialised")
def accumulator_not_zeroed():
    accumulate[(4,)](torch.ones(1024), torch.empty(2), BLOCK=256)
