"""Where a module can run on this machine: name -> run(module, args, grid), which changes arrays in place."""

import ctypes
import functools

import numpy as np

from tests.backends.gpu.cluster_machine import interpret_in_blocks
from tests.backends.launcher.guards_in_python import pack
from tritium import passes
from tritium.interp.machine import interpret
from tritium.ir.verify import verify

# How a scalar argument travels; the others are 64-bit integers.
_CODES = {"i1": "BOOL", "f32": "FLOAT32", "f64": "FLOAT64"}


def run_interpreter(module, args, grid=(1,)):
    """The specification."""
    interpret(module, args, grid)


def run_optimised(module, args, grid=(1,)):
    """The interpreter on what the passes make of the module."""
    interpret(verify(passes.run(module, passes.CLEANUP)), args, grid)


def run_legalised(module, args, grid=(1,)):
    """The interpreter on a module for a target that has f32, f64 and integers only."""
    interpret(verify(passes.run(module, (*passes.CLEANUP, passes.legalize(), passes.dce))), args, grid)


def run_fused(module, args, grid=(1,)):
    """The interpreter on the loop nests of the CPU."""
    from tritium.backends.cpu.compile import prepare
    from tritium.backends.llvm.target import cpu_target

    interpret(verify(prepare(passes.run(module, passes.CLEANUP), cpu_target())), args, grid)


def run_blocks(module, args, grid=(1,)):
    """The interpreter on what two blocks of a cluster do, the second first."""
    interpret_in_blocks(module, args, grid, blocks=2, backwards=True)


def run_cpu(module, args, grid=(1,)):
    """Machine code for this CPU."""
    from tritium.backends.cpu.runtime.image import Runtime

    address, arena, preconditions = _compiled(module)
    slots = b"".join(pack(["TENSOR"], [x.ctypes.data]) if isinstance(x, np.ndarray)
                     else pack([_CODES.get(a.type.name, "ANY64")], [x]) for a, x in zip(module.args, args, strict=True))
    grid = (*grid, 1, 1)[:3]
    if not preconditions.hold(grid, ctypes.cast(ctypes.c_char_p(slots), ctypes.c_void_p).value):
        address, arena, _ = _compiled(module, False)
    Runtime.get().launch_raw(address, arena, *grid, slots)


@functools.lru_cache(maxsize=16)
def _compiled(module, trusting=True):
    from tritium.backends.cpu.compile import prepare
    from tritium.backends.cpu.lower.function import lower
    from tritium.backends.cpu.runtime.image import Runtime
    from tritium.backends.launcher.preconditions import Guard
    from tritium.backends.llvm.target import compile_text, cpu_target

    cpu = cpu_target()
    module = module.replace(attrs={**module.attrs, "launch_checks": trusting})
    text, name, arena, preconditions = lower(prepare(passes.run(module, passes.CLEANUP), cpu), cpu)
    library = Runtime.get().load(compile_text(text, cpu, opt=2))
    _compiled.libraries.append(library)  # the code lives as long as its library
    return library.address(name), arena, Guard(preconditions)


_compiled.libraries = []


def backends_present():
    """Every way to run a module here, the interpreter first."""
    return {"interpreter": run_interpreter, "optimised": run_optimised, "legalised": run_legalised,
            "blocks": run_blocks, "fused": run_fused, "cpu": run_cpu}
