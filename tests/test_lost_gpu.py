"""A worker of pytest-xdist whose GPU faults ends, and the tests behind the fault run in another one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PLUGIN = """
import sys
import types

import conftest

conftest._gpu = lambda: "nvidia"


class Driver:
    sticky = frozenset((700,))
    error = 0

    def available(self):
        return True

    def function(self, name):
        assert name == "synchronize"
        return lambda: self.error


sys.modules["tritium.backends.nvptx.runtime.cuda"] = types.SimpleNamespace(CUDA=Driver())
"""
TESTS = """
import sys

import pytest

pytestmark = pytest.mark.gpu
driver = sys.modules["tritium.backends.nvptx.runtime.cuda"].CUDA


@pytest.mark.parametrize("k", range(6))
def test_kernel(k):
    if k == 2:
        driver.error = 700
        assert False, "the first one"
    assert driver.error == 0, "one behind it"
    assert k != 4, "a wrong result"
"""


def test_one_fault_fails_one_test(tmp_path):
    pytest.importorskip("xdist")
    (tmp_path / "lost_plugin.py").write_text(PLUGIN)
    (tmp_path / "test_kernels.py").write_text(TESTS)
    env = {k: x for k, x in os.environ.items() if not k.startswith("PYTEST_")}
    env["PYTHONPATH"] = os.pathsep.join((str(tmp_path), str(ROOT)))
    command = [sys.executable, "-m", "pytest", "-n", "1", "-q", "-p", "no:cacheprovider", "-p", "conftest", "-p",
               "lost_plugin", "--rootdir", str(tmp_path), "-c", os.devnull, str(tmp_path)]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    text = done.stdout + done.stderr
    assert "2 failed, 4 passed" in text, text
    assert "crashed while running 'test_kernels.py::test_kernel[2]'" in text, text
    assert "test_kernels.py::test_kernel[2] faulted on the GPU" in text and "the first one" in text, text
    assert "AssertionError: a wrong result" in text and "AssertionError: one behind it" not in text, text
