"""Microscaling formats on torch tensors: 4-bit floats (e2m1) and their power-of-two scales (e8m0).

    >>> import pytest; torch = pytest.importorskip("torch")
    >>> x = MXFP4Tensor(data=torch.tensor([[0.4, -6.0], [1.5, 100.0]]))
    >>> x.to(torch.float32)
    tensor([[ 0.5000, -6.0000],
            [ 1.5000,  6.0000]])
    >>> x.to_packed_tensor(dim=1)
    tensor([[241],
            [115]], dtype=torch.uint8)
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

__all__ = ["MXFP4Tensor", "MXScaleTensor", "fp8e8m0_to_float32"]

# The eight magnitudes of e2m1 by code; bit 3 is the sign.
MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
# A value above midway i has at least code i + 1; one exactly on it goes to the even code, as IEEE rounding does.
MIDWAYS = tuple((a + b) / 2 for a, b in pairwise(MAGNITUDES))
SCALE_NAN = 255


def _torch() -> Any:
    import torch

    return torch


def encode_e2m1(values: Any) -> Any:
    """The 4-bit codes of a float tensor: nearest, ties to even, saturating at 6."""
    torch = _torch()
    size = values.abs().to(torch.float32)
    code = torch.zeros_like(size, dtype=torch.uint8)
    for i, midway in enumerate(MIDWAYS):
        above = size > midway if i % 2 == 0 else size >= midway
        code += above.to(torch.uint8)
    return code | (torch.signbit(values).to(torch.uint8) << 3)


def decode_e2m1(codes: Any, dtype: Any) -> Any:
    """The values of 4-bit codes."""
    torch = _torch()
    table = torch.tensor(MAGNITUDES + tuple(-m for m in MAGNITUDES), dtype=dtype, device=codes.device)
    return table[codes.long()]


def fp8e8m0_to_float32(scale: Any) -> Any:
    """The values of e8m0 scales, bytes or `torch.float8_e8m0fnu`: byte s stands for 2**(s - 127), 255 for NaN.

    >>> import torch
    >>> fp8e8m0_to_float32(torch.tensor([126, 127, 130, 255], dtype=torch.uint8))
    tensor([0.5000, 1.0000, 8.0000,    nan])
    """
    torch = _torch()
    code = scale.view(torch.uint8).to(torch.int32)
    bits = torch.where(code == 0, 1 << 22, code << 23)  # 2**-127 is below the normal numbers
    return torch.where(code == SCALE_NAN, 0x7FC00000, bits).to(torch.int32).view(torch.float32)


class MXFP4Tensor:
    """A tensor of e2m1 codes, one per byte in `data`.

    Made from values (`data`), or empty with a `size` to be filled by `random()`.

    >>> import torch
    >>> MXFP4Tensor(torch.tensor([0.5, -6.0])).to(torch.float32)
    tensor([ 0.5000, -6.0000])
    """

    def __init__(self, data: Any = None, size: Any = None, device: Any = None):
        if (data is None) == (size is None):
            raise ValueError("give either data (values to convert) or size (a shape to fill with random())")
        self.device = device if device is not None else (data.device if data is not None else None)
        self.data: Any = None if data is None else encode_e2m1(data).to(self.device)  # None: `random` will fill it
        self.size = tuple(data.shape) if data is not None else (size if isinstance(size, tuple) else tuple(size))

    def random(self) -> MXFP4Tensor:
        """Fill with uniformly chosen codes."""
        torch = _torch()
        self.data = torch.randint(0, 16, self.size, dtype=torch.uint8, device=self.device)
        return self

    def to(self, dtype: Any) -> Any:
        """The values in a float type."""
        torch = _torch()
        if not dtype.is_floating_point:
            raise ValueError(f"e2m1 converts to float types, not {dtype}")
        return decode_e2m1(self.data, torch.float32).to(dtype)

    def to_packed_tensor(self, dim: int) -> Any:
        """Two codes per byte along `dim`, the first in the low half; an odd length is padded with zero."""
        torch = _torch()
        codes = self.data.movedim(dim, -1)
        if codes.shape[-1] % 2:
            codes = torch.nn.functional.pad(codes, (0, 1))
        return (codes[..., 0::2] | (codes[..., 1::2] << 4)).movedim(-1, dim)

    def unpack_packed_tensor(self, packed_tensor: Any, dim: int, original_shape: tuple) -> Any:
        """The inverse of `to_packed_tensor`: codes of `original_shape`."""
        torch = _torch()
        packed = packed_tensor.movedim(dim, -1)
        codes = torch.stack([packed & 0xF, packed >> 4], dim=-1).flatten(-2)
        return codes[..., :original_shape[dim]].movedim(-1, dim)


class MXScaleTensor:
    """A tensor of e8m0 scales: byte s stands for 2**(s - 127), 255 for NaN.

    >>> import torch
    >>> MXScaleTensor(torch.tensor([1.0, 8.0])).data
    tensor([127, 130], dtype=torch.uint8)
    """

    def __init__(self, data: Any = None, size: Any = None, device: Any = None):
        if (data is None) == (size is None):
            raise ValueError("give either data (values to convert) or size (a shape to fill with random())")
        self.device = device if device is not None else (data.device if data is not None else None)
        self.data: Any = None if data is None else self._encode(data).to(self.device)
        self.size = tuple(data.shape) if data is not None else (size if isinstance(size, tuple) else tuple(size))

    @staticmethod
    def _encode(values: Any) -> Any:
        torch = _torch()
        exponent = torch.floor(torch.log2(values.to(torch.float32)))
        valid = torch.isfinite(values) & (values > 0)
        code = torch.where(valid, (exponent + 127).clamp(0, 254), torch.full_like(exponent, SCALE_NAN))
        return code.to(torch.uint8)

    def random(self, low: float | None = None, high: float | None = None) -> MXScaleTensor:
        """Fill with uniformly chosen powers of two between `low` and `high` (all finite ones by default)."""
        torch = _torch()
        first = 0 if low is None else max(0, int(math.log2(low)) + 127)
        last = 254 if high is None else min(254, int(math.log2(high)) + 127)
        if first > last:
            raise ValueError(f"no power of two between {low} and {high}")
        self.data = torch.randint(first, last + 1, self.size, dtype=torch.uint8, device=self.device)
        return self

    def to(self, dtype: Any) -> Any:
        """The values in a float type."""
        if not dtype.is_floating_point:
            raise ValueError(f"e8m0 converts to float types, not {dtype}")
        return fp8e8m0_to_float32(self.data).to(dtype)
