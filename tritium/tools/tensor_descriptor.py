"""Host-side tensor descriptors: a tensor together with the shape of the tiles a kernel reads and writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tritium.language.source import rehearsal
from tritium.language.types.dtypes import parse_signature
from tritium.tensors import element_type

__all__ = ["TensorDescriptor"]


@dataclass
class TensorDescriptor:
    """`base` seen as a tensor of `shape` and `strides` (elements), accessed in tiles of `block_shape`.

    Out-of-range elements read as zero, or as NaN with `padding="nan"`. With `round_f32_to_tf32`, what is loaded is
    rounded to the 10 mantissa bits of tf32, to nearest even; stores write all bits. The fields may be changed after
    creation: an autotuned kernel sets `block_shape` from a Config's `pre_hook`.

    >>> import numpy as np
    >>> x = TensorDescriptor.from_tensor(np.zeros((64, 32), np.float32), [16, 32])
    >>> x.shape, x.strides
    ([64, 32], [32, 1])
    """

    base: Any
    shape: list[int]
    strides: list[int]
    block_shape: list[int]
    padding: str = "zero"
    round_f32_to_tf32: bool = False

    def __post_init__(self):
        self.shape, self.strides, self.block_shape = list(self.shape), list(self.strides), list(self.block_shape)
        rank = len(self.shape)
        size = _item_size(self.base)
        _require(1 <= rank <= 5, f"a descriptor has 1 to 5 axes, not {rank}")
        _require(len(self.strides) == rank, f"rank mismatch: {rank} sizes and {len(self.strides)} strides")
        _require(len(self.block_shape) == rank, f"rank mismatch: {rank} sizes and {len(self.block_shape)} block sizes")
        _require(_address(self.base) % 16 == 0, "base must be 16-byte aligned")
        for n in self.block_shape:
            _require(n > 0 and n & (n - 1) == 0, f"block_shape must be powers of two, not {self.block_shape}")
        for stride in self.strides[:-1]:
            _require(stride * size % 16 == 0, f"strides must be 16-byte aligned: {stride} x {size} bytes is not")
        for n in self.shape:
            _require(n > 0, f"shape must be positive, not {self.shape}")
        _require(self.strides[-1] == 1, f"Last dimension must be contiguous: its stride is {self.strides[-1]}, not 1")
        _require(self.padding in ("zero", "nan"), f"padding must be 'zero' or 'nan', not {self.padding!r}")
        _require(self.padding == "zero" or element_type(self.base.dtype).startswith(("fp", "bf")),
                 f"padding 'nan' needs a floating-point tensor, not {self.base.dtype}")
        _require(not self.round_f32_to_tf32 or element_type(self.base.dtype) == "fp32",
                 f"round_f32_to_tf32 needs a float32 tensor, not {self.base.dtype}")

    @staticmethod
    def from_tensor(tensor: Any, block_shape: list[int], padding: str = "zero",
                    round_f32_to_tf32: bool = False) -> TensorDescriptor:
        """The descriptor of a whole torch tensor or NumPy array.

        >>> import numpy as np
        >>> TensorDescriptor.from_tensor(np.zeros(8, np.float32), [8]).block_shape
        [8]
        """
        return TensorDescriptor(tensor, list(tensor.shape), strides_of(tensor), block_shape, padding,
                                round_f32_to_tf32)

    @property
    def dtype(self) -> Any:
        """The element type of the tensor."""
        return self.base.dtype


# A mistake here is an AssertionError: that is what Triton raises and callers catch.
def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _item_size(x: Any) -> int:
    if hasattr(x, "element_size"):
        return x.element_size()
    if hasattr(x.dtype, "itemsize"):
        return x.dtype.itemsize
    return parse_signature(element_type(x.dtype)).primitive_bitwidth // 8


def _address(x: Any) -> int:
    if rehearsal.current.get() is not None:
        return 0  # a tensor that has a shape and no memory
    return x.data_ptr() if hasattr(x, "data_ptr") else x.__array_interface__["data"][0]


def strides_of(x: Any) -> list[int]:
    """The strides of a torch tensor or NumPy array in elements.

    >>> import numpy as np
    >>> strides_of(np.zeros((2, 3), np.float32))
    [3, 1]
    """
    return list(x.stride()) if callable(getattr(x, "stride", None)) else [n // x.itemsize for n in x.strides]
