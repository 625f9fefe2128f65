"""torch.compile beside tritium, in a process where torch has not looked for Triton before."""

import os
import subprocess
import sys
from pathlib import Path

CHECKS = Path(__file__).with_name("torch_compile_checks.py")


def test_torch_compile():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(CHECKS)]
    root = CHECKS.parents[2]
    done = subprocess.run(
        command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout and "skipped" not in done.stdout
