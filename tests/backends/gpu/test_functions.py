"""Functions marked noinline on GPUs: called where tiles stay inside, with shared memory and barriers in them."""

import re

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import H100, binary, run_cuda
from tests.compat import test_functions_apart as apart
from tritium.frontend import lower
from tritium.insight import emulator
from tritium.interp.machine import interpret


@triton.jit(noinline=True)
def row_sum(x, N: tl.constexpr):
    return tl.sum(tl.load(x + tl.arange(0, N)), 0)


@triton.jit(noinline=True)
def both_ends(x, n, N: tl.constexpr):
    ordered = tl.sort(tl.load(x + tl.arange(0, N)), 0)
    total = row_sum(x, N) + row_sum(x + N, N)
    return tl.min(ordered, 0) - total, tl.max(ordered, 0) * n > 0, x + N


@triton.jit
def sums(x, out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    kept = tl.flip(tl.load(x + i), 0)
    total = 0
    for row in range(n):
        total += row_sum(x + row * N, N)
    least, positive, following = both_ends(x, n, N)
    if positive:
        total += least
    total += row_sum(following, N)
    tl.store(out + i, tl.flip(kept, 0) + tl.cumsum(kept, 0) + total)


@triton.jit
def products(a, out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(a + i[:, None] * N + i[None, :])
    tl.store(out + i[:, None] * N + i[None, :], tl.dot(x, x) + row_sum(a, N))


INTS = {"x": "*i32", "out": "*i32", "n": "i32", "N": "constexpr"}
CASES = {
    "sums": (sums, INTS, {"N": 256},
             [np.random.default_rng(0).integers(-99, 99, 1024, dtype=np.int32), np.zeros(256, np.int32), 4]),
    "early": (apart.early, {"x": "*i32", "out": "*i32", "counter": "*i32", "n": "i32"}, {},
              [np.array([3, 1, 0, 2], np.int32), np.zeros(3, np.int32), np.zeros(1, np.int32), 4]),
    "several_runs": (apart.several_runs, {"p": "*i32", "q": "*i32", "out": "*i32", "n": "i32"}, {}, apart.SEVERAL),
    "pointers": (apart.pointers, {"p": "*fp32", "q": "*fp32"}, {}, [np.zeros(2, np.float32) for _ in range(2)]),
    "composite": (apart.composite, {"out": "*fp32", "a": "i32", "b": "i32"}, {}, [np.zeros(4, np.float32), 5, 7]),
    "combined": (apart.combined, {"x": "*i32", "out": "*i32", "N": "constexpr"}, {"N": 8},
                 [np.arange(8, dtype=np.int32)[::-1].copy(), np.zeros(9, np.int32)]),
}


@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("name", CASES)
def test_emulated(name, warps):
    kernel, signature, constants, args = CASES[name]
    check(lower(kernel, signature, constants), args,
          lambda module, args, grid: emulator.run(module, args, grid, num_warps=warps))


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_on_the_gpu(name):
    kernel, signature, constants, args = CASES[name]
    check(lower(kernel, signature, constants), args, run_cuda)


def check(module, args, run):
    theirs, mine = ([x.copy() if isinstance(x, np.ndarray) else x for x in args] for _ in range(2))
    interpret(module, theirs, (3,))
    run(module, mine, (3,))
    for x, y in zip(theirs, mine, strict=True):
        np.testing.assert_array_equal(x, y)


def test_prints_and_assertions_are_made_in_functions():
    text, _ = emulator.llvm_of(lower(apart.printing, {"n": "i32"}))
    assert len(re.findall(r"call void @fn\d\.says__", text)) == 2
    assert emulator.run(lower(apart.printing, {"n": "i32"}), [3], num_warps=1).splitlines()[-1].endswith("3.000000")


def test_functions_have_shared_memory_above_their_callers():
    text, metadata = emulator.llvm_of(lower(sums, INTS, {"N": 256}))
    assert len(re.findall("^define internal", text, re.M)) == 2
    assert metadata["shared"] > 2048


def test_dots_are_not_beside_calls():
    module = lower(products, {"a": "*fp32", "out": "*fp32", "n": "i32", "N": "constexpr"}, {"N": 32})
    text, _ = emulator.llvm_of(module)
    assert module.functions and "@fn" not in text


@pytest.mark.parametrize("name", CASES)
def test_ptx(name):
    """LLVM has a function and its calls."""
    kernel, signature, constants, _ = CASES[name]
    code, _ = binary(lower(kernel, signature, constants), H100)
    if code[:4] != b"\x7fELF":  # without an assembler it is the PTX
        assert (b".func" in code) == (name != "combined")
