"""The driver's names, and descriptors as arguments of launchers that other frameworks make."""

from __future__ import annotations

from typing import Any

from tritium.backends.nvptx.driver import Driver as CudaDriver
from tritium.backends.nvptx.runtime.launch import Launcher as CudaLauncher
from tritium.backends.nvptx.runtime.services import Utils as CudaUtils
from tritium.tensors import address_of

__all__ = ["CudaDriver", "CudaLauncher", "CudaUtils", "make_tensordesc_arg"]


def make_tensordesc_arg(arg: Any, metadata: dict[str, Any] | None = None, _: Any = None) -> list:
    """A host descriptor as the values that a launcher passes for it.

    Without `metadata` they are base, shape, strides, whether NaN is padded, whether loads round to tf32, shape and
    strides. With it, the entry for this parameter in a kernel's `tensordesc_meta` (swizzle, elem_size, elem_type,
    block_size), they are a tensor map, shape and strides. The third argument of 3.8 is ignored.

    >>> import numpy as np
    >>> from tritium.tools.tensor_descriptor import TensorDescriptor
    >>> x = np.zeros((8, 4), np.float32)
    >>> make_tensordesc_arg(TensorDescriptor.from_tensor(x, [4, 4]), None)[1:]
    [8, 4, 4, 1, False, False, 8, 4, 4, 1]
    """
    shape, strides, nan = list(arg.shape), list(arg.strides), arg.padding == "nan"
    rounds = bool(getattr(arg, "round_f32_to_tf32", False))
    if metadata is None:
        return [arg.base, *shape, *strides, nan, rounds, *shape, *strides]
    from tritium.backends.driver import driver

    utils, kind = driver.active.utils, metadata["elem_type"]
    if metadata.get("fp4_padded"):  # two elements to a byte
        shape[-1] *= 2
    made = utils.fill_tma_descriptor_tiled(
        address_of(arg.base), metadata["swizzle"], metadata["elem_size"], _TF32 if rounds else kind,
        metadata["block_size"], shape, strides, int(nan))
    return [made, *arg.shape, *strides]


_TF32 = 11  # CUtensorMapDataType: float32 that TMA rounds
