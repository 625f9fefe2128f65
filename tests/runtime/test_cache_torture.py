"""Kills and damages while processes share a cache. TRITIUM_TEST_LONG=1: 8 processes, 200 kills."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def torture(folder, processes, kills):
    environment = {name: text for name, text in os.environ.items() if name not in ("TRITIUM_CACHE_DIR", "HOME")}
    command = [sys.executable, "-m", "tests.runtime.cache_torture", str(folder), str(processes), str(kills), "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, cwd=ROOT,
                          env={**environment, "HOME": str(folder), "TRITIUM_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["failures"] == 0 == found["healing"], done.stderr
    assert found["kills"] == kills and found["launches"] > 0 and found["swept"] == found["unfinished"]


def test_a_cache_under_torture(tmp_path):
    torture(tmp_path / "cache", 2, 10)


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("TRITIUM_TEST_LONG"), reason="takes minutes: TRITIUM_TEST_LONG=1 runs it")
def test_a_cache_under_long_torture(tmp_path):
    torture(tmp_path / "cache", 8, 200)
