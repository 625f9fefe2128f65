"""Jobs on the threads that torch computes with."""

import doctest
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.backends.cpu.torch_threads import CASES
from tritium.backends.cpu.runtime import openmp

ROOT = Path(__file__).resolve().parents[3]


def test_docstring_examples():
    assert doctest.testmod(openmp).failed == 0


def test_without_torch_there_is_no_team(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert openmp.find() is None


@pytest.fixture(scope="module")
def outcomes():
    pytest.importorskip("torch")
    if not sys.platform.startswith("linux"):
        pytest.skip("a team is looked for on Linux only")
    env = {**os.environ, "TRITIUM_BACKEND": "cpu", "TRITIUM_OPENMP": "1"}
    done = subprocess.run([sys.executable, "-m", "tests.backends.cpu.torch_threads"], cwd=ROOT, env=env,
                          capture_output=True, text=True, timeout=300)
    return done.stdout + done.stderr


@pytest.mark.parametrize("case", [case.__name__ for case in CASES])
def test_jobs_on_torchs_threads(outcomes, case):
    assert f"{case} True\n" in outcomes, outcomes
