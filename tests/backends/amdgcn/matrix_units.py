"""The matrix instructions of AMD GPUs on NumPy arrays, by the formulas of the vendor's documents: a second description
beside the bits in `isa/fragments.py`.

A register of all threads is an array [warps, lanes]; a vector in one is [warps, lanes, elements].
"""

import re

import numpy as np


class Shape:
    """Who holds what, by the name of an LLVM intrinsic."""

    def __init__(self, intrinsic, per_lane):
        self.wmma = intrinsic.startswith("wmma")
        self.size, _, self.depth = map(int, re.search(r"(\d+)x(\d+)x(\d+)", intrinsic).groups())
        self.lanes, self.per_lane, self.f64 = 32 if self.wmma else 64, per_lane, intrinsic.startswith("mfma.f64")
        self.sums = self.size * self.size // self.lanes

    def operand(self, lane, element):
        """(row of A or column of B, place along K)."""
        if self.wmma and self.per_lane == 16:  # RDNA 3
            return lane % 16, element
        return lane % self.size, self.per_lane * (lane // self.size) + element

    def result(self, lane, register):
        """(row, column) of D."""
        if self.wmma:
            row = 2 * register + lane // 16 if self.per_lane == 16 else register + 8 * (lane // 16)
        elif self.f64:
            row = 4 * register + lane // 16
        elif self.size == 16:
            row = 4 * (lane // 16) + register
        else:
            row = 8 * (register // 4) + 4 * (lane // 32) + register % 4
        return row, lane % self.size

    def multiply(self, a, b, c):
        """D of every warp: a, b [warps, lanes, per lane], c [warps, lanes, sums]."""
        warps = a.shape[0]
        matrices = [np.full((warps, self.size, self.depth), np.nan) for _ in range(2)]
        for fragment, matrix in zip((a, b), matrices):
            for lane in range(self.lanes):
                for element in range(self.per_lane):
                    matrix[:, *self.operand(lane, element)] = fragment[:, lane, element]
        product = matrices[0] @ matrices[1].transpose(0, 2, 1)
        out = np.array(c)
        for lane in range(self.lanes):
            for register in range(self.sums):
                out[:, lane, register] += product[:, *self.result(lane, register)]
        return out


class Writer:
    """Writes nothing: computes what the instructions of a `dot` would."""

    def __init__(self):
        self.called = []

    def const(self, kind, value):
        return value

    def cast(self, how, x, to):
        return x

    def extract(self, x, k):
        return x[..., k]

    def intrinsic(self, name, result, *arguments, overload):
        self.called.append(name.removeprefix("amdgcn."))
        a, b, c = (x for x in arguments if isinstance(x, np.ndarray))
        return Shape(self.called[-1], a.shape[-1]).multiply(a, b, c)


def pack(w, items):
    """Elements as a vector."""
    return np.stack(items, axis=-1)


class Lowering:
    """What a lowering of `dot` asks for; values are those of threads."""

    def __init__(self, target, warps, layouts):
        self.w, self.target, self.warps, self.layouts = Writer(), target, warps, layouts
        self.int = int

    def layout(self, value):
        return self.layouts[id(value)]


def spread(tile, layout):
    """The registers of all threads that hold a tile, each [warps, lanes]."""
    flat, lanes, warps = tile.reshape(-1), 1 << len(layout.lane), 1 << len(layout.warp)
    places = [[layout.element(0, lane, warp) for lane in range(lanes)] for warp in range(warps)]
    return [flat[np.array(places) ^ part] for part in layout.register_elements()]


def gather(registers, layout):
    """The tile that such registers hold; every copy must be the same."""
    out, lanes, warps = np.full(layout.numel, np.nan), 1 << len(layout.lane), 1 << len(layout.warp)
    places = np.array([[layout.element(0, lane, warp) for lane in range(lanes)] for warp in range(warps)])
    for register, part in zip(registers, layout.register_elements()):
        out[places ^ part] = register
        assert np.array_equal(out[places ^ part], register)
    return out.reshape(layout.shape)
