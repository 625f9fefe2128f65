"""Tensor maps: what the copy engine reads for a box, and where it puts it."""

import math

import numpy as np

from tests.gpu.emulator.memory import SHARED_BASE, Fault

_TURNS = {0: 0, 32: 1, 64: 3, 128: 7}


class TensorMap:
    """A tensor in memory, axes from slowest to fastest; strides in bytes."""

    def __init__(self, address, shape, strides, box, size, swizzle):
        self.address, self.shape, self.strides, self.box = address, shape, strides, box
        self.size, self.swizzle = size, swizzle
        if any(b > 256 for b in box) or (swizzle and box[-1] * size > swizzle) or box[-1] * size % 16:
            raise Fault(f"the copy engine takes no boxes of {box}")
        if address % 16 or any(s % 16 for s in strides[:-1]):
            raise Fault("the copy engine wants addresses and strides that are multiples of 16")

    def read(self, memory, start, target):
        """(places in shared memory, bytes) of the box at `start`; zeros outside of the tensor."""
        if target % 128:
            raise Fault("the copy engine writes to multiples of 128")
        places = np.stack(np.meshgrid(*[np.arange(b) for b in self.box], indexing="ij")).reshape(len(self.box), -1)
        at = places + np.array(start)[:, None]
        inside = np.all((at >= 0) & (at < np.array(self.shape)[:, None]), axis=0)
        data = np.zeros((at.shape[1], self.size), np.uint8)
        address = self.address + (at * np.array(self.strides)[:, None]).sum(0)
        if inside.any():
            data[inside] = memory.load(address[inside], self.size, None)
        index = target + np.arange(data.size)
        index ^= (index >> 7 & _TURNS[self.swizzle]) << 4
        return index - SHARED_BASE, data.reshape(-1)


def tensor_of(recipe, values):
    """The TensorMap of a recipe for the values of a kernel's arguments: what the launcher has the driver encode."""
    total = lambda terms: sum(factor * math.prod(int(values[k]) for k in slots) for factor, slots in terms)
    address = int(values[recipe.base]) + total(recipe.offset) * recipe.size
    shape = [total(elements) for elements, _ in recipe.sides]
    strides = [total(distance) * recipe.size for _, distance in recipe.sides]
    if not all(1 <= n <= 1 << 32 for n in shape) or not all(0 < s < 1 << 40 for s in strides):
        raise Fault("the copy engine has no such tensors: another kernel should have been launched")
    return TensorMap(address, shape, strides, recipe.box, recipe.size, recipe.swizzle)
