"""The toy GPU in NumPy: the emulator's threads and memory, with instructions of its own."""

import re

import numpy as np

from tests.backends.gpu.toy.target import TOY
from tritium import passes
from tritium.backends import get
from tritium.backends.compiler import BaseBackend, GPUTarget
from tritium.insight.emulator import intrinsics
from tritium.insight.emulator.arithmetic import signed
from tritium.insight.emulator.code import numpy_type, split_list, split_type
from tritium.insight.emulator.machine import Machine
from tritium.insight.emulator.memory import Fault, Memory

TARGET = GPUTarget("toy", "v1", TOY.warp_size)


def compiled(module, num_warps=4, num_stages=3, enable_fp_fusion=True):
    """(LLVM text that LLVM has verified, metadata) of a module."""
    attrs = {"num_warps": num_warps, "num_stages": num_stages, "enable_fp_fusion": enable_fp_fusion}
    options, module = BaseBackend(TARGET).parse_options(attrs), module.replace(attrs={**module.attrs, **attrs})
    value, metadata = passes.run(module, get(TARGET).passes(TARGET)), {}
    for _, stage in get(TARGET).stages:
        value = stage(value, TARGET, options, metadata)
    return value.decode(), metadata


def run(module, args, grid=(1,), num_warps=4, **options):
    """Run every program of the grid, one after the other; changes the arrays in place."""
    text, metadata = compiled(module, num_warps, **options)
    memory, (x, y, z) = Memory(args), (*grid, 1, 1)[:3]
    machine = ToyMachine(text, TOY.warp_size * num_warps, memory, metadata["shared"])
    for pid in ((i, j, k) for k in range(z) for j in range(y) for i in range(x)):
        machine.program(pid, (x, y, z))
    memory.read_back()
    return "".join(machine.printed)


class ToyMachine(Machine):
    """A program of warps with 64 lanes."""

    def warps_in_step(self):
        """All lanes of a warp must be at the same place."""
        rows = self.active.reshape(-1, TOY.warp_size)
        if not (rows.all(1) == rows.any(1)).all():
            raise Fault("a shuffle that not all lanes of a warp reach")

    def _call(self, rest, callee):
        _, called = split_type(rest)
        found = re.match(r"@toy\.([\w.]+)\((.*)\)$", called)
        if not found:
            return super()._call(rest, callee)
        inputs = [self.typed(x) for x in split_list(found[2])]
        name, _, which = found[1].partition(".")
        return getattr(self, f"_toy_{name}")(which, inputs)

    def _toy_thread(self, which, inputs):
        return lambda: self.lanes.astype(np.uint32)

    def _toy_program(self, which, inputs):
        return lambda: np.full(self.threads, self.pid["xyz".index(which)], np.uint32)

    def _toy_programs(self, which, inputs):
        return lambda: np.full(self.threads, self.grid["xyz".index(which)], np.uint32)

    def _toy_barrier(self, which, inputs):
        return lambda: self.barriers.come(self.active, np.zeros(self.threads, int))

    def _toy_first_lane(self, which, inputs):
        return lambda: inputs[0]()[self.lanes // TOY.warp_size * TOY.warp_size]

    def _toy_shuffle(self, which, inputs):
        def step():
            self.warps_in_step()
            lane, by = self.lanes % TOY.warp_size, inputs[1]().astype(int)
            wanted = lane ^ by if which == "xor" else by
            if np.any((wanted < 0) | (wanted >= TOY.warp_size)):
                raise Fault("a shuffle from a lane that does not exist")
            return inputs[0]()[self.lanes - lane + wanted]

        return step

    def _toy_abort(self, which, inputs):
        return intrinsics._assertion(self, "void", inputs)

    def _toy_time(self, which, inputs):
        return lambda: np.zeros(self.threads, np.uint64)

    def _toy_processor(self, which, inputs):
        return lambda: np.zeros(self.threads, np.uint32)

    def _toy_print(self, which, inputs):
        def step():
            text, x = self.string_at[int(inputs[0]()[0])], inputs[1]()
            self.printed += [f"{text}{v}\n" for v in x[self.active]]

        return step

    # --- LLVM's atomics -----------------------------------------------------------------------------------------------
    def _atomicrmw(self, rest):
        how, rest = rest.split(" ", 1)
        pointer, x = split_list(rest.rsplit(" ", 1)[0])
        if "addrspace(3)" in pointer:
            return super()._atomicrmw(f"{how} {pointer}, {x} monotonic")
        return self._update(pointer, [x], _UPDATES[how])

    def _cmpxchg(self, rest):
        pointer, expected, new = split_list(rest.rsplit(" ", 2)[0])
        step = self._update(pointer, [expected, new], lambda old, x, y: y if old == x else old)
        return lambda: (step(), None)

    def _update(self, pointer, values, fn):
        """One thread after the other; the old values."""
        p, xs, dtype = self.typed(pointer), [self.typed(x) for x in values], numpy_type(split_type(values[0])[0])

        def step():
            olds, operands, address = np.zeros(self.threads, dtype), [x() for x in xs], p()
            for t in np.nonzero(self.active)[0]:
                at, who = address[t : t + 1], self.lanes[t : t + 1]
                olds[t] = np.ascontiguousarray(self.memory.load(at, dtype.itemsize, who, atomic=True)).view(dtype)[0, 0]
                with np.errstate(all="ignore"):
                    new = np.array([[fn(olds[t], *(x[t] for x in operands))]]).astype(dtype)
                self.memory.store(at, new.view(np.uint8), who, atomic=True)
            return olds

        return step


def _signed(fn):
    return lambda old, x: fn((old, x), key=lambda v: int(signed(np.asarray(v))))


_UPDATES = {
    "add": lambda old, x: old + x,
    "fadd": lambda old, x: old + x,
    "max": _signed(max),
    "min": _signed(min),
    "umax": max,
    "umin": min,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "and": lambda old, x: old & x,
    "or": lambda old, x: old | x,
    "xor": lambda old, x: old ^ x,
    "xchg": lambda old, x: x,
}
