"""TMA: tensor maps, the boxes they read, and their layout in shared memory."""


import ml_dtypes
import numpy as np

from tritium.insight.emulator.faults import Fault
from tritium.insight.emulator.memory import SHARED_BASE

_TURNS = {0: 0, 32: 1, 64: 3, 128: 7}


class TensorMap:
    """A tensor in memory, axes from slowest to fastest; strides in bytes."""

    def __init__(self, address, shape, strides, box, element, size, swizzle):
        self.address, self.shape, self.strides, self.box = address, shape, strides, box
        self.element, self.size, self.swizzle = _ELEMENTS.get(element, f"{element[0]}{size}"), size, swizzle
        if any(b > 256 for b in box) or (swizzle and box[-1] * size > swizzle) or box[-1] * size % 16:
            raise Fault(f"TMA takes no boxes of {box}")
        if address % 16 or any(s % 16 for s in strides[:-1]):
            raise Fault("TMA wants addresses and strides that are multiples of 16")

    def _places(self, start, shared):
        """(addresses of the box's elements, which of them lie in the tensor, places of its bytes in shared memory)."""
        if shared % 128:
            raise Fault("TMA works on multiples of 128")
        places = np.stack(np.meshgrid(*[np.arange(b) for b in self.box], indexing="ij")).reshape(len(self.box), -1)
        at = places + np.array(start)[:, None]
        inside = np.all((at >= 0) & (at < np.array(self.shape)[:, None]), axis=0)
        index = shared + np.arange(at.shape[1] * self.size)
        index ^= (index >> 7 & _TURNS[self.swizzle]) << 4
        return self.address + (at * np.array(self.strides)[:, None]).sum(0), inside, index - SHARED_BASE

    def read(self, memory, start, target):
        """(places in shared memory, bytes) of the box at `start`; zeros outside of the tensor."""
        address, inside, index = self._places(start, target)
        data = np.zeros((len(address), self.size), np.uint8)
        if inside.any():
            data[inside] = memory.load(address[inside], self.size, None)
        return index, data.reshape(-1)

    def write(self, memory, start, source, how):
        """(places in shared memory, a function that writes their bytes to the box at `start`, or combines them)."""
        if min(start) < 0:
            raise Fault("TMA writes no boxes that start before a tensor")
        address, inside, index = self._places(start, source)

        def write(data):
            new = data.reshape(-1, self.size)[inside]
            if how:
                old = memory.load(address[inside], self.size, None)
                both = zip(*(np.ascontiguousarray(x).view(self.element)[:, 0] for x in (old, new)))
                with np.errstate(over="ignore"):
                    new = np.array([how(x, y) for x, y in both], self.element)[:, None].view(np.uint8)
            memory.store(address[inside], new, None)

        return index, write if inside.any() else lambda data: None


def run_of(memory, address, size, target):
    """(places in shared memory, bytes) of a run of bytes that is copied there."""
    if address % 16 or size % 16 or target % 16:
        raise Fault("a copy of bytes in one piece wants multiples of 16")
    data = memory.load(address + np.arange(0, size, 16), 16, None)
    return target - SHARED_BASE + np.arange(size), data.reshape(-1)


_ELEMENTS = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp32": np.float32, "fp64": np.float64}


def encodable(template, values, grid):
    """Whether the driver encodes the tensor of a template at a launch: it refuses sizes that are not positive or too
    large, and addresses and strides that are no multiples of 16.

    >>> from tritium.backends.nvptx.runtime.tensor_map import Template
    >>> row = ((1, ()),), ((8, ()),)
    >>> template = Template("fp16", 2, 0, (), (row, (((1, (1,)),), ((1, ()),))), (1, 8), 0)
    >>> [encodable(template, [address, size], (1, 1, 1)) for address, size in ((64, 8), (64, 0), (64, -8), (8, 8))]
    [True, False, False, False]
    """
    address, shape, strides = template.tensor(values, grid)
    sizes = all(1 <= n <= 1 << 32 for n in shape) and all(0 < s < 1 << 40 for s in strides)
    return sizes and not any(x % 16 for x in (address, *strides[:-1]))


def tensor_of(template, values, grid):
    """The TensorMap of a template for the values of a kernel's arguments and its grid, as the driver encodes it at a
    launch."""
    if not encodable(template, values, grid):
        raise Fault("TMA has no such tensors: another kernel should have been launched")
    address, shape, strides = template.tensor(values, grid)
    return TensorMap(address, shape, strides, template.box, template.element, template.size, template.swizzle)
