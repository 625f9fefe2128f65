"""Ctrl-C, handlers of signals and failed assertions stop CPU kernels; afterwards the process is as good as new."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.cpu.interrupted_launches import CASES
from tritium import knobs
from tritium.backends.cpu.fuse import polls
from tritium.backends.cpu.runtime import float_state, interrupt
from tritium.backends.cpu.runtime.image import Runtime

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    monkeypatch.setenv("TRITIUM_BACKEND", "cpu")


@pytest.mark.parametrize("module", [float_state, interrupt, polls], ids=lambda m: m.__name__)
def test_docstring_examples(module):
    assert doctest.testmod(module).failed == 0


@pytest.fixture(scope="module", params=["1", "2", "2 torch"], ids=["one thread", "two threads", "torch's threads"])
def outcomes(request):
    """What each case of `interrupted_launches` found. A launch that does not stop runs into the time limit."""
    if "torch" in request.param:
        pytest.importorskip("torch")
    command = [sys.executable, "-m", "tests.backends.cpu.interrupted_launches", *request.param.split()]
    env = {**os.environ, "TRITIUM_BACKEND": "cpu"}
    with subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True) as process:
        try:
            out, _ = process.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
    return out


@pytest.mark.parametrize("case", [case.__name__ for case in CASES])
def test_launches_stop_and_the_process_goes_on(outcomes, case):
    assert f"{case} True\n" in outcomes, outcomes


# -- which loops ask, and that they compute what they did --------------------------------------------------------------


@triton.jit
def count_up(out, start, stop, step):
    n = 0
    last = tl.full((), -1, tl.int64)
    for i in range(start, stop, step):
        n += 1
        last = i.to(tl.int64)
    tl.store(out, n)
    tl.store(out + 1, last)


@triton.jit
def count_down(out, start, stop, STEP: tl.constexpr):
    n = 0
    last = tl.full((), -1, tl.int64)
    for i in range(start, stop, STEP):
        n += 1
        last = i.to(tl.int64)
    tl.store(out, n)
    tl.store(out + 1, last)


@pytest.mark.parametrize("bounds", [
    (0, 0, 1), (0, 1, 1), (5, 3, 1), (0, 100_000, 1), (-70_000, 70_001, 1), (3, 200_000, 7), (0, 65_536, 1),
    (0, 65_537, 1), (2**31 - 70_000, 2**31 - 1, 3), (-2**31, 2**31 - 1, 2**30), (0, 2**31 - 1, 2**31 - 2),
    (2**62, 2**62 + 70_000, 1), (-2**63, 2**62, 2**61), (2**63 - 70_001, 2**63 - 2, 1), (0, 2**62, 2**62 - 1),
])  # fmt: skip
def test_loops_that_ask_make_every_round(bounds):
    """The limit at which a loop asks lies between here and the end, wherever these are."""
    out = np.zeros(2, np.int64)
    kernel = count_up[(1,)](out, *bounds)
    iterations = range(*bounds)
    assert out.tolist() == [len(iterations), iterations[-1] if iterations else -1]
    assert "@tt.poll" in kernel.asm["llir"]


@pytest.mark.parametrize("start, stop, step", [
    (0, 0, -1), (1, 0, -1), (100_000, -1, -1), (70_000, -70_001, -7), (2**31 - 1, -2**31 + 1, -(2**30)),
    (2**62 + 70_000, 2**62, -1),
])  # fmt: skip
def test_loops_that_count_down_make_every_round(start, stop, step):
    out = np.zeros(2, np.int64)
    count_down[(1,)](out, start, stop, STEP=step)
    iterations = range(start, stop, step)
    assert out.tolist() == [len(iterations), iterations[-1] if iterations else -1]


@triton.jit
def collatz(out, limit):
    """Rounds of a `while`, far more than pass before it asks."""
    longest = 0
    for first in range(1, limit):
        x = first.to(tl.int64)
        n = 0
        while x != 1:
            x = tl.where(x % 2 == 0, x // 2, 3 * x + 1)
            n += 1
        longest = max(longest, n)
    tl.store(out, longest)


def test_loops_inside_of_loops():
    out = np.zeros(1, np.int32)
    collatz[(1,)](out, 3000)

    def length(x):
        n = 0
        while x != 1:
            x, n = (x // 2 if x % 2 == 0 else 3 * x + 1), n + 1
        return n

    assert out[0] == max(map(length, range(1, 3000)))


@triton.jit
def add(x_ptr, y_ptr, z_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + i, tl.load(x_ptr + i) + tl.load(y_ptr + i))


def test_what_is_short_does_not_ask():
    x = np.ones(4096, np.float32)
    short = add[(64,)](x, x, np.zeros_like(x), BLOCK=64)
    long = add[(1,)](x, x, np.zeros_like(x), BLOCK=4096)
    assert "@tt.poll" not in short.asm["llir"] and "@tt.poll" in long.asm["llir"]


@pytest.mark.parametrize("block, every", [(2048, 4), (4096, 2), (8192, 1)])
def test_one_of_a_few_programs_asks_where_they_are_not_long(block, every):
    x = np.arange(9 * block, dtype=np.float32)
    z = np.zeros_like(x)
    text = add[(9,)](x, x, z, BLOCK=block).asm["llir"]
    assert np.array_equal(z, 2 * x)
    assert re.findall(r"%x\.\d+ = and i64 %i\.\d+, (\d+)", text) == [str(every - 1)] * (every > 1)


def test_grids_of_more_programs_than_run_without_asking():
    before, rt = knobs.num_threads, Runtime.get()
    try:
        for threads in (1, 2):
            rt.set_num_threads(threads)
            x = np.arange(16 * 5000, dtype=np.float32)
            z = np.zeros_like(x)
            add[(5000,)](x, x, z, BLOCK=16)
            assert np.array_equal(z, 2 * x)
    finally:
        rt.set_num_threads(before)
