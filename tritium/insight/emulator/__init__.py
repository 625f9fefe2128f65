"""A GPU in NumPy, NVIDIA's or AMD's: runs the LLVM that the compiler writes, all threads of a program side by side.

It knows what a real GPU does not tell: an access outside every buffer, a vector that is not aligned, a shuffle or a
barrier that not all threads reach, and above all races. Two threads that touch one byte of shared memory, at least one
of them writing, must have a barrier between them; copies in flight may not be read, operands of a running matrix
product not overwritten. A program may be a cluster of blocks: these read each other's memory only after they met, and
none ends while another may still touch its memory.

    run(module, [array, 3], grid=(2,), arch=80)      # changes the arrays in place
    run(module, [array, 3], grid=(2,), num_ctas=4)   # each program is a cluster of four blocks
    run(module, [array, 3], grid=(2,), arch="gfx942")  # an AMD GPU
"""

import ctypes
from typing import Any

import numpy as np

from tritium import passes
from tritium.backends import get
from tritium.backends.compiler import BaseBackend
from tritium.backends.launcher.preconditions import Guard
from tritium.backends.llvm.target import verify
from tritium.backends.nvptx.runtime.tensor_map import Template
from tritium.compiler.sources import with_options
from tritium.insight.emulator.machine import Machine
from tritium.insight.emulator.memory import Fault, Memory
from tritium.insight.emulator.targets import gpu_of, machine_of, target_of
from tritium.insight.emulator.tma import encodable, tensor_of
from tritium.ir.preconditions import preconditions_of

__all__ = ["Fault", "execute", "fit", "llvm_of", "machine_of", "run", "target_of"]


def llvm_of(module, arch=90, num_warps=4, num_stages=3, **options):
    """(LLVM text, metadata) of a module for an architecture; LLVM has parsed and verified the text."""
    target = target_of(arch)
    backend = BaseBackend(target)
    chosen = backend.parse_options({"num_warps": num_warps, "num_stages": num_stages, **options})
    module = with_options(module, target, chosen)
    value, metadata = passes.run(module, get(target).passes(target)), {}
    for name, stage in get(target).stages:
        value = stage(value, target, chosen, metadata)
        if name == "llir":
            room = gpu_of(target).shared_bytes
            assert metadata["shared"] <= room, f"{metadata['shared']} bytes of shared memory, {target} has {room}"
            verify(value)
            return value, metadata
    raise AssertionError("no LLVM stage")


def run(module, args, grid=(1,), arch=90, num_warps=4, num_stages=3, **options):
    """Run every program of the grid, one after the other; returns what it printed."""
    text, metadata = llvm_of(module, arch, num_warps, num_stages, **options)
    x, y, z = grid = (*grid, 1, 1)[:3]
    if not fit(metadata, args, grid):
        return run(module, args, grid, arch, num_warps, num_stages, **options, launch_checks=False)
    memory = Memory(args)
    maps = [tensor_of(Template(*template), memory.arguments, grid) for template in metadata["tensor_maps"]]
    if metadata["persistent"]:
        memory.arguments += grid
        grid = min(BLOCKS, x * y * z), 1, 1
    target = target_of(arch)
    threads, blocks = target.warp_size * (num_warps + metadata["producer_warps"]), options.get("num_ctas", 1)
    return execute(text, memory, grid, threads, metadata["shared"], maps, blocks, machine_of(target))


def execute(text, memory, grid, threads, shared, maps=(), blocks=1, make: Any = Machine):
    """Run LLVM text for every program of a grid, each a block of `threads` or several; returns what it printed."""
    machine, (x, y, z) = make(text, threads, memory, shared, maps, blocks), grid
    for pid in ((i, j, k) for k in range(z) for j in range(y) for i in range(x)):
        machine.program(pid, grid)
    memory.read_back()
    return "".join(machine.printed)


def fit(metadata, args, grid):
    """Whether a launch is as the kernel takes for granted; the launcher would launch another, too."""
    bits = lambda x: int(x if isinstance(x, int | np.integer) else np.float32(x).view(np.int32))
    values = Memory(args).arguments
    slots = (ctypes.c_int64 * len(args))(*map(bits, values))
    held = Guard(preconditions_of(metadata)).hold(grid, ctypes.addressof(slots))
    return held and all(encodable(Template(*x), values, grid) for x in metadata.get("tensor_maps", ()))


BLOCKS = 2  # places for programs that kernels share out among themselves
