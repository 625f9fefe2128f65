"""Launches where Python takes no builtins made by hand (PyPy, a free-threaded CPython): through ctypes."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

PROGRAM = """
import numpy as np
from tritium.backends.launcher import parts
parts.NATIVE = False  # before the runtime is made
import tritium as triton
import tritium.language as tl
from tritium.kernels.vector_add import add_kernel

x = np.arange(1000, dtype=np.float32)
for n in (1000, 999, 3):
    for block in (256, 1024):
        out = np.full_like(x, -1)
        add_kernel[(triton.cdiv(n, block),)](x, x, out, n, BLOCK=block)
        assert (out[:n] == 2 * x[:n]).all() and (out[n:] == -1).all(), (n, block)

@triton.jit
def careful(x, n: tl.constexpr, scale=2.0):
    tl.device_assert(tl.load(x) == 0, "x is not zero")
    tl.store(x, scale * n)

careful[lambda meta: (meta["n"],)](x, n=1, scale=0.5, debug=True)
assert x[0] == 0.5
try:
    careful[(1,)](x, 1, debug=True)
except RuntimeError as error:
    assert "x is not zero" in str(error), error
else:
    raise SystemExit("the assertion held")

from tritium.backends.cpu.runtime.image import Runtime
assert Runtime.get().launch_raw == Runtime.get().launch_raw_slowly
print("fine")
"""


def test_launches(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run([sys.executable, str(tmp_path / "program.py")], capture_output=True, text=True, timeout=600)
    assert done.stdout == "fine\n", done.stderr


def test_this_python_takes_builtins_if_it_has_a_global_lock():
    from tritium.backends.launcher.parts import NATIVE

    free = not getattr(sys, "_is_gil_enabled", lambda: True)()
    assert NATIVE == (sys.implementation.name == "cpython" and object.__basicsize__ == 16) and not (NATIVE and free)


def test_the_versions_the_project_names():
    """Those the tests have been run on."""
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    named = [c for c in project["classifiers"] if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", c)]
    assert [int(c.rpartition(".")[2]) for c in named] == [11, 12, 13, 14] and project["requires-python"] == ">=3.11"
