"""The toy GPU in NumPy: the emulator's threads and memory, with instructions of its own."""

import re

import numpy as np

from tests.backends.gpu.toy.target import TOY
from tritium import passes
from tritium.backends import get
from tritium.backends.compiler import BaseBackend, GPUTarget
from tritium.insight.emulator import intrinsics
from tritium.insight.emulator.code import split_list, split_type
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

    warp_size = TOY.warp_size

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
            self.warps_of(self.active, "a shuffle")
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
