"""`python -m tritium profile`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = """
import os, sys
import numpy as np
import triton, triton.language as tl

@triton.jit
def fill(x, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + i, 1.0, mask=i < n)

if __name__ == "__main__":
    for _ in range(3):
        fill[(2,)](np.zeros(100, np.float32), 100, B=64)
    print("arguments", sys.argv[1:])
    os.chdir("/")
    sys.exit(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
"""


@pytest.fixture
def here(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "fails.py").write_text("def f():\n    return 1 / 0\nf()\n")
    (tmp_path / "words.py").write_text("import sys\nsys.exit('no data')\n")
    return tmp_path


def run(here, *arguments):
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TRITIUM_AS_TRITON": ""}
    return subprocess.run([sys.executable, "-m", "tritium", "profile", *arguments], cwd=here, env=env, text=True,
                          capture_output=True)  # fmt: skip


def test_a_script_is_profiled_and_keeps_its_arguments_and_status(here):
    done = run(here, "--no-limit", "-o", "p.json", "-o", "p.html", "script.py", "3", "--own", "option")
    assert done.returncode == 3 and done.stdout == "arguments ['3', '--own', 'option']\n"
    assert "fill" in done.stderr and "3 launches" in done.stderr
    (row,) = json.loads((here / "p.json").read_text())["rows"]
    assert row["count"] == 3 and row["bytes"] == 400 and (here / "p.html").stat().st_size < 100_000


def test_modules_and_silence(here):
    done = run(here, "-q", "--no-limit", "-o", "p.txt", "-m", "script", "0")
    assert done.returncode == 0 and done.stderr == "" and "fill" in (here / "p.txt").read_text()


def test_a_program_that_fails_shows_its_own_lines(here):
    done = run(here, "--no-limit", "fails.py")
    assert done.returncode == 1 and "return 1 / 0" in done.stderr and "tritium/tools" not in done.stderr
    done = run(here, "--no-limit", "words.py")
    assert done.returncode == 1 and done.stderr.startswith("no data\n")


@pytest.mark.parametrize("arguments, line", [
    ((), "name a script, or -m and a module; --help says more"),
    (("missing.py",), "cannot open 'missing.py': no such file"),
    (("-o", "p.pdf", "script.py"), "p.pdf: a profile is written to a file that ends in .trace.json, .json,"),
    (("-o", "nowhere/p.json", "script.py"), "there is no folder"),
    (("--clock", "sun", "script.py"), "argument --clock: invalid choice: 'sun'"),
    (("--launches", "-3", "script.py"), "the number of launches to keep is 0 or more, not -3"),
])  # fmt: skip
def test_mistakes_are_one_line(here, arguments, line):
    done = run(here, *arguments)
    assert done.returncode == 2 and done.stderr.startswith("tritium profile: ") and line in done.stderr
    assert done.stderr.count("\n") == 1 and done.stdout == ""
