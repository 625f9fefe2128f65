"""A little of `make test-arch`: some execution tests at each level of this machine, and what the runner says."""

import os
import subprocess
import sys

import pytest

from tests.arch import run
from tritium.backends.llvm.target import runnable_levels

# One of each kind: arithmetic of every type, conversions, masks and atomics, functions, a dot, a sort.
SOME = ["tests/exec/test_exec.py", "tests/backends/cpu/test_parts.py", "-k",
        "(cpu and (memory or casts or functions)) or test_dot[f32] or test_dot[i8] or test_sort[f16]"]  # fmt: skip


@pytest.mark.parametrize("level", [level for level in runnable_levels() if level != "host"])
def test_execution(level):
    """The host's own level is what all the other tests run at."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *SOME], cwd=run.ROOT,
                          env={**environment, "TRITIUM_CPU": level}, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(run.counts(done.stdout).split()[0]) >= 20


@pytest.mark.parametrize("output, line", [
    ("..F [100%]\n1 failed, 1082 passed, 5 skipped, 284 deselected in 140.21s (0:02:20)\n",
     "1 failed, 1082 passed, 5 skipped"),
    ("12 passed, 2 warnings in 3s\n", "12 passed"),
    ("=== 3 passed, 1 error in 0.1s ===\n", "3 passed, 1 error"),
    ("Illegal instruction\n", ""),
])
def test_counts(output, line):
    assert run.counts(output) == line


def test_a_level_that_fails_is_reported(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(run.tempfile, "gettempdir", lambda: str(tmp_path))
    code = "print('FAILED tests/x.py::test_y - no'); print('1 failed, 2 passed in 1s'); raise SystemExit(1)"
    result = run.run("x86-64", [sys.executable, "-c", code], "x86-64", [], 1, 60)
    said = capsys.readouterr().out
    assert not result.good and "FAILED tests/x.py::test_y - no" in said and "1 failed, 2 passed in" in said
    assert (tmp_path / "tritium-arch-x86-64.txt").read_text().startswith("FAILED")


def test_a_level_that_crashes_is_reported(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(run.tempfile, "gettempdir", lambda: str(tmp_path))
    code = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
    result = run.run("host", [sys.executable, "-c", code], "host", [], 1, 60)
    assert not result.good and "ended with status -4" in capsys.readouterr().out


def test_what_is_not_run_has_a_reason(monkeypatch, tmp_path):
    monkeypatch.setattr(run.sys, "platform", "linux")
    monkeypatch.setattr(run.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(run.shutil, "which", lambda name: None)
    assert "qemu-aarch64 is not installed" in run.foreign_python(str(tmp_path))[1]
    monkeypatch.setattr(run.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert "TRITIUM_FOREIGN_ROOT names no folder" in run.foreign_python(None)[1]
    assert f"no usr/bin/python3.x in {tmp_path}" in run.foreign_python(str(tmp_path))[1]


def test_the_other_python_goes_through_the_emulator(monkeypatch, tmp_path):
    monkeypatch.setattr(run.sys, "platform", "linux")
    monkeypatch.setattr(run.platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(run.shutil, "which", lambda name: f"/usr/bin/{name}")
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/python3.11").touch()
    command, why = run.foreign_python(str(tmp_path))
    assert not why and command[0] == str(tmp_path / "python") and command[1] == "-c"
    script = (tmp_path / "python").read_text()
    assert f"/usr/bin/qemu-x86_64 -cpu max -L {tmp_path} {tmp_path}/usr/bin/python3.11" in script
