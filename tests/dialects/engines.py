"""Ways to run a kernel: as plain Python, as interpreted IR, as machine code, on the emulated and on a real GPU."""

import numpy as np
import pytest

from tests.backends.gpu.modules import module_of
from tests.language.coverage import engines
from tritium.insight import emulator


def emulated(kernel, args, grid=(1,), **_):
    """The GPU's code, run without a GPU."""
    module, values = module_of(kernel, args)
    emulator.run(module, values, grid, num_warps=1)


ENGINES = {**engines.ENGINES, "emulated": emulated, "cuda": engines.cuda}
NAMES = [*engines.ENGINES, "emulated", pytest.param("cuda", marks=pytest.mark.gpu)]
LEVELS = ["3.6", "3.7", "3.9"]
HALF = np.full(8, 0.1, np.float16)
