"""Jobs on the threads that torch computes with, and who runs them on machines that are made up here."""

import ctypes
import doctest
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.backends.cpu.torch_threads import CASES
from tritium.backends.cpu.runtime import openmp
from tritium.backends.llvm import jit
from tritium.backends.llvm.structs import resolve
from tritium.backends.llvm.target import compile_text, cpu_target

ROOT = Path(__file__).resolve().parents[3]
US = 1000  # ticks
WORKERS, TEAM = 0, 1
AROUND = f"""
@opened_at = internal global i64 0
@spin_for = internal global i64 {20 * US}
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.fptoui.sat.i64.f64(double)
define internal i1 @has_team(i64 %threads) nounwind {{
  ret i1 true
}}
define i64 @ask(double %ticks) nounwind {{
  ret i64 call i64 @choose_team(i64 2, double %ticks)
}}
define void @tell(i64 %ticks) nounwind {{
  call void @note_cost(i64 %ticks)
  ret void
}}
"""


def test_docstring_examples():
    assert doctest.testmod(openmp).failed == 0


def test_without_torch_there_is_no_team(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert openmp.find() is None


class Jobs:
    """Jobs of 100 us for two threads. `late(way, ways)` gives the ticks that one takes beyond its 50 us; `ways` are
    those of the jobs so far."""

    def __init__(self, late):
        self.library = jit.load(compile_text(resolve(openmp.COSTS + AROUND), cpu_target()), exports=("ask", "tell"))
        address = self.library.address
        self.ask = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_double)(address("ask"))
        self.tell = ctypes.CFUNCTYPE(None, ctypes.c_int64)(address("tell"))
        self.late, self.ways = late, []

    def run(self, count):
        """Who ran so many jobs."""
        for _ in range(count):
            way = self.ask(100.0 * US)
            late = self.late(way, self.ways)
            self.ways.append(way)
            self.tell(50 * US + late)
        return self.ways[-count:]


@pytest.mark.parametrize("better", [WORKERS, TEAM])
def test_the_better_one_is_found_and_the_other_is_tried(better):
    jobs = Jobs(lambda way, ways: 10 * US if way == better else 90 * US)
    jobs.run(100)
    found = jobs.run(10000)
    assert 0 < found.count(1 - better) < 20


@pytest.mark.parametrize("better", [WORKERS, TEAM])
def test_one_slow_job_is_forgiven(better):
    """A thread lost its processor for 50 ms."""
    jobs = Jobs(lambda way, ways: 50000 * US if len(ways) == 500 else 10 * US if way == better else 90 * US)
    jobs.run(501)
    assert jobs.ways[500] == better and set(jobs.run(25)) == {better}


def test_a_machine_that_changes_is_noticed():
    jobs = Jobs(lambda way, ways: 10 * US if (way == TEAM) == (len(ways) < 500) else 90 * US)
    assert jobs.run(500).count(TEAM) > 480
    jobs.run(20)
    assert jobs.run(1000).count(WORKERS) > 980


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
