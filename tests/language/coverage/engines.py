"""Ways to run a kernel: as plain Python, as interpreted IR, as machine code of this CPU or of the GPU, as the code of
a GPU in the emulator."""

from tests import on_gpu
from tritium import knobs, passes
from tritium.backends import get
from tritium.backends.compiler import BaseBackend, GPUTarget
from tritium.backends.driver import driver
from tritium.backends.nvptx.isa.target import NvTarget
from tritium.compiler.sources import with_options
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
    interpret(*lowered(kernel, args), grid)


def lowered(kernel, args, **more):
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


class Emulated:
    """The code for a GPU, run without one. `compile` makes machine code of it, too."""

    def __init__(self, target):
        self.target = GPUTarget.parse(target)
        self._arch = self.target.arch if self.target.backend == "hip" else NvTarget.of(self.target.arch).sm

    def __call__(self, kernel, args, grid=(1,), **_):
        module, values = self._lowered(kernel, args)
        emulator.run(module, values, grid, self._arch, num_warps=1, num_stages=2)

    def compile(self, kernel, args):
        """Every stage to the last: PTX, which ptxas assembles where it is, or a code object of AMD's."""
        backend = BaseBackend(self.target)
        options = backend.parse_options({"num_warps": 1, "num_stages": 2})
        value = with_options(self._lowered(kernel, args)[0], self.target, options)
        value = passes.run(value, get(self.target).passes(self.target))
        metadata = {"name": value.name}
        for _, stage in get(self.target).stages:
            value = stage(value, self.target, options, metadata)

    def _lowered(self, kernel, args):
        return lowered(kernel, args, options=BaseBackend(self.target).parse_options({}), target=self.target)


ENGINES = {"eager": eager, "machine": machine, "cpu": cpu}
GPUS = {name: Emulated(name) for name in ("sm_90a", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")}


def target_of(engine):
    """(backend, architecture) that kernels are told of."""
    if engine is not cuda and not isinstance(engine, Emulated):
        return "cpu", "host"
    target = driver.active.get_current_target() if engine is cuda else engine.target
    return target.backend, str(target.arch)
