"""S08: the whole collection as plain Python over NumPy, with TRITON_INTERPRET=1."""

import os
import re
from pathlib import Path

import pytest

from tests import processes

HERE = Path(__file__).parent
# The interpreter changes nothing in what these look at: checks of arguments, on the host; machine code.
WITHOUT = {Path(__file__).name, "test_arguments.py", "test_blackwell.py"}
FILES = sorted(path.name for path in HERE.glob("test_*.py") if path.name not in WITHOUT)


@pytest.mark.slow
@pytest.mark.parametrize("names", [FILES[::2], FILES[1::2]], ids=["one half", "the other half"])
def test_kernels_interpreted(names):
    """The same tests in a process of their own, as the switch is read when kernels are decorated."""
    chosen = "numpy and not 98432 and not 100000"
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    environment.pop("PYTEST_XDIST_WORKER", None)
    command = ["-m", "pytest", "-q", "-rA", "-p", "no:xdist", "-p", "no:cacheprovider", "-k", chosen,
               *(str(HERE / name) for name in names)]
    done = processes.run(command, env=environment, cwd=HERE.parents[1])
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    idle = [name for name in names if not re.search(rf"^PASSED .*{re.escape(name)}::", done.stdout, re.M)]
    assert not idle, f"no test of {idle} was run"
