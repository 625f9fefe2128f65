"""Ways to run a kernel: as plain Python, as interpreted IR, as machine code of this CPU or of the GPU, as the code of
an AMD GPU in the emulator."""

from tests import on_gpu
from tritium import knobs
from tritium.backends.compiler import BaseBackend, GPUTarget
from tritium.frontend import lower
from tritium.insight import emulator
from tritium.interp import eager as eagerly
from tritium.interp.machine import interpret
from tritium.ir.verify import verify
from tritium.runtime.specialize import attrs_of, constants_of


def eager(kernel, args, grid=(1,), **options):
    """The user's own function on NumPy arrays, program by program."""
    eagerly.launch(kernel, grid, args, options)


def machine(kernel, args, grid=(1,), **_):
    """The IR that the frontend makes of the kernel, interpreted."""
    interpret(*_lowered(kernel, args), grid)


def _lowered(kernel, args, **more):
    """(the IR that the frontend makes of a kernel for some arguments, those that it takes)."""
    pairs = [param.specialize(x) for param, x in zip(kernel.params, args)]
    constants, attrs = {}, {}
    for i, ((kind, promise), x) in enumerate(zip(pairs, args)):
        constants |= constants_of(kind, x, (i,))
        attrs |= attrs_of(kind, promise, (i,))
    signature = {name: kind for name, (kind, _) in zip(kernel.arg_names, pairs)}
    module = verify(lower(kernel, signature, constants, attrs, **more))
    return module, [leaf for x, (kind, _) in zip(args, pairs) for leaf in _leaves(kind, x)]


def _leaves(kind, x):
    """The run-time parts of an argument: those of a tuple one by one, of a constant none."""
    if isinstance(kind, tuple):
        return [leaf for k, part in zip(kind, x) for leaf in _leaves(k, part)]
    return [] if kind == "constexpr" else [x]


def cpu(kernel, args, grid=(1,), **options):
    """Machine code, compiled quickly: what is asked here is whether it is right, not whether it is fast."""
    before, knobs.cpu_opt = knobs.cpu_opt, 0
    try:
        kernel[grid](*args, **options)
    finally:
        knobs.cpu_opt = before


def cuda(kernel, args, grid=(1,), **options):
    """Machine code of the GPU, on copies of the arrays."""
    on_gpu.launch(kernel, grid, args, options)


def emulated(arch):
    """The code for an AMD GPU, run without one."""
    target = GPUTarget.parse(f"hip:{arch}")

    def run(kernel, args, grid=(1,), **_):
        module, values = _lowered(kernel, args, options=BaseBackend(target).parse_options({}), target=target)
        emulator.run(module, values, grid, arch, num_warps=1, num_stages=2)

    return run


ENGINES = {"eager": eager, "machine": machine, "cpu": cpu}
AMD = {arch: emulated(arch) for arch in ("gfx942", "gfx1201")}  # one with warps of 64 lanes, one with 32
