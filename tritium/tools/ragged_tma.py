"""Ragged tensors through tensor descriptors: the rows of one axis form batches of different lengths.

A descriptor drops what lies outside its shape, but a batch ends in the middle of the tensor. So the ragged axis is
declared HUGE rows long, and row i of a batch of s rows gets the coordinate HUGE - s + i: it leaves the bounds exactly
where the batch ends. Two more axes bring the address back: with o the first row of the batch,

    o + i  =  (HUGE - s + i)  +  (o + s)  -  HUGE

The last term is coordinate HUGE on an axis of stride 2**34 - stride(row): HUGE * 2**34 elements are 2**64 of them,
and addresses count modulo 2**64.

    desc = create_ragged_descriptor(x, [16, 32])                          # on the host
    tile = load_ragged(desc, first_row, number_of_rows, [i, j])           # in a kernel: zeros past the batch

The batch is called `slice_off, slice_size`, and in programs for Triton 3.6 `batch_offset, batch_size`.
"""

from __future__ import annotations

from typing import Any

import tritium
import tritium.language as tl
from tritium.tools.tensor_descriptor import TensorDescriptor, strides_of

__all__ = ["atomic_add_ragged", "create_ragged_descriptor", "load_ragged", "store_ragged", "to_ragged_indices"]

HUGE = tl.constexpr(2**30)
# More than any coordinate used on the two added axes.
UNBOUNDED = 2**31 - 2**16


def create_ragged_descriptor(T: Any, block_shape: list[int], ragged_dim: int = 0) -> TensorDescriptor:
    """A descriptor of `T` for `load_ragged` and its companions; `block_shape` has one entry per axis of `T`.

    >>> import numpy as np
    >>> create_ragged_descriptor(np.zeros((64, 32), np.float32), [16, 32]).block_shape
    [1, 1, 16, 32]
    """
    shape, strides = list(T.shape), strides_of(T)
    rank = len(shape)
    ragged_dim += rank if ragged_dim < 0 else 0
    if rank > 3:
        raise AssertionError(f"a ragged tensor has at most 3 axes, two fewer than a descriptor, not {rank}")
    if not 0 <= ragged_dim < rank - 1:
        raise AssertionError(f"ragged_dim must be one of the first {rank - 1} axes, not {ragged_dim}")
    if len(block_shape) != rank:
        raise AssertionError(f"block_shape has {len(block_shape)} entries for {rank} axes")
    row = strides[ragged_dim]
    shape[ragged_dim] = HUGE.value
    return TensorDescriptor(T, [UNBOUNDED, UNBOUNDED, *shape], [2**34 - row, row, *strides], [1, 1, *block_shape])


@tritium.jit
def to_ragged_indices(batch_offset, batch_size, row):
    """The three coordinates of row `row` in the batch that starts at `batch_offset`."""
    return HUGE, batch_offset + batch_size, HUGE - batch_size + row


@tl.core.builtin
def _coordinates(indices, coords, ragged_dim, _semantic=None):
    """One coordinate per axis of the descriptor; `coords` may be a list, which eager kernels leave as it is."""
    i, j, k = indices
    axis = tl.core._unwrap_if_constexpr(ragged_dim)
    return i, j, *coords[:axis], k, *coords[axis + 1:]


@tritium.jit
def _indices(slice_off, slice_size, batch_offset, batch_size, coords, ragged_dim: tl.constexpr):
    """The three coordinates of the batch that either pair of names gives."""
    tl.static_assert((slice_off is None) != (batch_offset is None), "name the batch once: slice_off and slice_size")
    tl.static_assert((slice_size is None) != (batch_size is None), "name the batch once: slice_off and slice_size")
    tl.static_assert(coords is not None, "a ragged descriptor is accessed at coords, one for each axis of the tensor")
    first = batch_offset if slice_off is None else slice_off
    size = batch_size if slice_size is None else slice_size
    return to_ragged_indices(first, size, coords[ragged_dim])


@tritium.jit
def load_ragged(TMA, slice_off=None, slice_size=None, coords: Any = None, ragged_dim: tl.constexpr = 0,
                batch_offset=None, batch_size=None):
    """The tile at `coords` of a batch; rows past the end of the batch read as zero."""
    indices = _indices(slice_off, slice_size, batch_offset, batch_size, coords, ragged_dim)
    data = TMA.load(_coordinates(indices, coords, ragged_dim))
    return tl.reshape(data, data.shape[2:])


@tritium.jit
def store_ragged(TMA, slice_off=None, slice_size=None, coords: Any = None, data: Any = None,
                 ragged_dim: tl.constexpr = 0, batch_offset=None, batch_size=None):
    """Write a tile at `coords` of a batch; rows past the end of the batch are dropped."""
    indices = _indices(slice_off, slice_size, batch_offset, batch_size, coords, ragged_dim)
    TMA.store(_coordinates(indices, coords, ragged_dim), tl.expand_dims(data, (0, 1)))


@tritium.jit
def atomic_add_ragged(TMA, slice_off=None, slice_size=None, coords: Any = None, data: Any = None,
                      ragged_dim: tl.constexpr = 0, batch_offset=None, batch_size=None):
    """Add a tile at `coords` of a batch, atomically; rows past the end of the batch are dropped."""
    indices = _indices(slice_off, slice_size, batch_offset, batch_size, coords, ragged_dim)
    TMA.atomic_add(_coordinates(indices, coords, ragged_dim), tl.expand_dims(data, (0, 1)))
