"""A program that `tests/processes.py` starts cannot tell."""

import os
import subprocess
import sys

import pytest

from tests import processes

PROGRAM = """
import atexit, os, sys
atexit.register(print, "over")
print(__name__, sys.argv, sys.path[:2], os.getcwd(), os.environ.get("ONLY_HERE"), sys.stdin.read(), "héllo")
print([name for name in ("tritium", "tests", "json.tool") if name in sys.modules], globals().get("__file__"))
print("said", file=sys.stderr)
"""


@pytest.mark.parametrize("end", ["", "sys.exit()", "sys.exit(7)", "sys.exit('no')", "os._exit(5)", "os.abort()"])
@pytest.mark.parametrize("kind", ["script", "-c", "-m"])
def test_a_program_is_as_if_python_had_started_it(tmp_path, kind, end):
    (tmp_path / "program.py").write_text(PROGRAM + end)
    first = {"script": ["program.py"], "-c": ["-c", PROGRAM + end], "-m": ["-m", "program"]}[kind]
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "modules"), "ONLY_HERE": "yes", "PYTHONIOENCODING": "utf-8"}
    got = processes.run([*first, "1", "--two"], cwd=tmp_path, env=env)
    wanted = subprocess.run([sys.executable, *first, "1", "--two"], cwd=tmp_path, env=env, capture_output=True,
                            text=True, encoding="utf-8", stdin=subprocess.DEVNULL)  # fmt: skip
    assert (got.returncode, got.stdout, got.stderr) == (wanted.returncode, wanted.stdout, wanted.stderr)


def test_errors_are_told_as_python_does():
    done = processes.run(["-c", "import torch\n1 / 0"])
    assert done.returncode == 1 and done.stderr.endswith('File "<string>", line 2, in <module>\nZeroDivisionError: '
                                                         "division by zero\n")
    assert processes.run(["no_such_script.py"]).returncode != 0


def test_a_program_that_takes_too_long_is_ended():
    assert processes.run(["-c", "import time; time.sleep(60)"], timeout=1).returncode != 0
