"""Tuning on a GPU, in processes of their own: a configuration may take the device down."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.gpu

SCRIPT = """
import os, sys, warnings
import numpy as np
import tritium as triton
import tritium.language as tl
from tritium.compiler import pool
from tritium.runtime import memory


@triton.jit
def scale(x, n, far, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, i < n) * 2, i < n)
    if BLOCK == 512:
        tl.store(x + far, 1.0)


configs = [triton.Config({"BLOCK": block}) for block in (64, 128, 256, 512, 1024, 2048)]
tuned = triton.autotune(configs, key=["n"], restore_value=["x"])(scale)
n, far = 5000, int(sys.argv[1])
x = memory.to_device(np.ones(n, np.float32))  # the context is there before the workers are
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    tuned[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, n, far)
got = x.numpy()
assert (got[1:] == 2).all(), got
workers = pool.current("cuda:90:32", start=False)
if workers is not None:
    pids = open(f"/proc/{workers.process.pid}/task/{workers.process.pid}/children").read().split()
    for pid in [workers.process.pid, *pids]:
        files = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        assert not [file for file in files if "nvidia" in file], files
print(len(tuned.configs_timings), *[w.message for w in seen])
"""


def run(tmp_path, far):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    cache = str(tmp_path / "cache")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TRITIUM_CACHE_DIR": cache, "TRITIUM_BACKEND": "cuda"}
    return subprocess.run([sys.executable, str(script), str(far)], env=env, capture_output=True, text=True, timeout=300,
                          check=False)


def test_configurations_are_compiled_by_workers_without_a_gpu(tmp_path):
    done = run(tmp_path, 0)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("6")


def test_a_configuration_that_takes_the_gpu_down_is_left_out_next_time(tmp_path):
    first = run(tmp_path, 1 << 44)
    assert first.returncode == 1 and "brought the device down: BLOCK: 512" in first.stderr, first.stderr
    again = run(tmp_path, 1 << 44)
    assert again.returncode == 0, again.stderr
    assert "BLOCK: 512" in again.stdout and "in an earlier run" in again.stdout
