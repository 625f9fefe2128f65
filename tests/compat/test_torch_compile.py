"""torch.compile beside tritium, in processes where torch has not looked for Triton before."""

import os
from pathlib import Path

import pytest

from tests import processes

HERE = Path(__file__).parent


def check(name, may_skip=False):
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--show-capture=no",
               str(HERE / name)]
    root = HERE.parents[1]
    done = processes.run(command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)})
    assert done.returncode == 0, done.stdout[-30000:] + done.stderr[-2000:]
    assert " passed" in done.stdout and (may_skip or "skipped" not in done.stdout)


def test_torch_compile():
    check("torch_compile_checks.py")


@pytest.mark.gpu
def test_torch_compile_on_a_gpu():
    check("torch_compile_gpu_checks.py", may_skip=True)  # without a C++ compiler


@pytest.mark.skipif(not os.environ.get("TRITIUM_TEST_LONG"), reason="takes minutes: TRITIUM_TEST_LONG=1 runs it")
def test_ahead_of_time():
    check("torch_ahead_of_time_checks.py")
