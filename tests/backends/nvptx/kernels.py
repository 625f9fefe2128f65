"""Kernels and tensors for the tests of the CUDA driver, and what they count."""

import struct

import tritium as triton
import tritium.language as tl


@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask) + tl.load(y_ptr + offsets, mask), mask)


@triton.jit
def scalars(x_ptr, flag, f, g: tl.float64, h: tl.float16, big, small: tl.int8, SKIPPED: tl.constexpr, last=7):
    value = (f + g + h).to(tl.float32)
    tl.store(x_ptr, tl.where(flag, value, (big + small + last).to(tl.float32)))


@triton.jit
def tiles(x_ptr, y_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y_ptr + i[:, None] * N + i[None, :], tl.load(x_ptr + i[:, None] + i[None, :] * N, i[:, None] < n))


def f32(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


class Tensor:
    """A tensor of a framework: what kernels ask of one, and counters."""

    def __init__(self, address, dtype="fp32", device=0):
        self.address, self.dtype, self.index, self.asked = address, dtype, device, 0

    @property
    def device(self):
        return f"cuda:{self.index}" if self.index >= 0 else "cpu"

    def data_ptr(self):
        self.asked += 1
        return self.address

    def get_device(self):
        return self.index


X, Y, Z = (Tensor(4096 * (k + 1)) for k in range(3))


def slow_launches(monkeypatch):
    """Count how often the slow way is gone."""
    from tritium.runtime import dispatch
    seen, original = [], dispatch.launch
    monkeypatch.setattr(dispatch, "launch", lambda *args: seen.append(1) or original(*args))
    return seen
