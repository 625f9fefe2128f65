"""A constant in one of the do_not_specialize lists is refused, whichever way the kernel goes."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium import knobs
from tritium.backends.compiler import GPUTarget
from tritium.compiler import ASTSource
from tritium.frontend import lower
from tritium.interp import eager

X = np.zeros(4, np.float32)
TYPES = {"x": "*fp32", "BLOCK": "constexpr"}


def function(x, BLOCK: tl.constexpr):
    tl.store(x, BLOCK)


def compiled_for(*target):
    return lambda kernel: triton.compile(ASTSource(kernel, TYPES, {"BLOCK": 4}), target=GPUTarget(*target))


ROADS = {
    "launch": lambda kernel: kernel[(1,)](X, 4),
    "warmup": lambda kernel: kernel.warmup(X, 4, grid=(1,)),
    "cpu": compiled_for("cpu", "x86-64", 1),
    "cuda": compiled_for("cuda", 90, 32),
    "frontend": lambda kernel: lower(kernel, TYPES, {"BLOCK": 4}),
    "interpreter": lambda kernel: eager.launch(kernel, (1,), (X, 4), {}),
}


@pytest.mark.parametrize("listed", ["BLOCK", 1])
@pytest.mark.parametrize("which", ["do_not_specialize", "do_not_specialize_on_alignment"])
@pytest.mark.parametrize("road", ROADS)
def test_every_road_refuses(road, which, listed):
    triton.jit(function)[(1,)](X, 4)  # a kernel of the same text in the cache changes nothing
    kernel = triton.jit(**{which: [listed]})(function)
    with pytest.raises(triton.CompilationError, match="BLOCK is marked as constexpr and listed in do_not_specialize"):
        ROADS[road](kernel)


@pytest.mark.parametrize("which", ["do_not_specialize", "do_not_specialize_on_alignment"])
def test_interpreted_kernels_refuse(which):
    with knobs.runtime.scope():
        knobs.runtime.interpret = True
        kernel = triton.jit(**{which: ["BLOCK"]})(function)
    with pytest.raises(triton.CompilationError, match="listed in do_not_specialize"):
        kernel[(1,)](X, 4)


def test_other_parameters_may_be_listed():
    kernel = triton.jit(do_not_specialize=["x"])(function)
    for road in ROADS:
        ROADS[road](kernel)
    assert X[0] == 4
