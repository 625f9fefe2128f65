"""Every program of examples/ runs, on the CPU and on a GPU where there is one; each checks its own results."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import processes

ROOT = Path(__file__).resolve().parents[2]
# Those of the container are a server: tests/tools/test_container.py.
FILES = sorted(path for path in (ROOT / "examples").rglob("*.py") if path.parent.name != "container")


def run(path, **environment):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", **environment}
    if "torch" in path.read_text():
        return processes.run([path], cwd=ROOT, env=environment)
    return subprocess.run([sys.executable, str(path)], capture_output=True, text=True, cwd=ROOT, encoding="utf-8",
                          env=environment)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_program_runs(path):
    if "torch" in path.read_text():
        pytest.importorskip("torch")
    done = run(path, CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 0 and done.stdout, done.stderr[-3000:]


@pytest.mark.gpu
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_program_runs_on_a_gpu(path):
    done = run(path)
    assert done.returncode == 0 and done.stdout, done.stderr[-3000:]


def test_the_list_names_every_program():
    page = (ROOT / "docs" / "examples.md").read_text()
    for path in FILES:
        assert path.relative_to(ROOT).as_posix() in page, f"docs/examples.md lacks {path.name}"
