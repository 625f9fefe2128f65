"""A kernel that prints and asserts, run program by program (S08)."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.seeds.examples import source

ROOT = Path(__file__).resolve().parents[2]

# The kernel of the example, with a sentence that needs UTF-8, in a program without torch.
KERNEL = source("printing", "vector_add_kernel").replace("the kernel runs", "内核将执行")
KERNEL = KERNEL.replace(" times (programs)", " 次（块数）。")
PROGRAM = f"""
import numpy as np
import tritium as triton
import tritium.language as tl

{KERNEL}

N = 50
X, Y = np.random.default_rng(0).random((2, N), dtype=np.float32)
Z = np.empty_like(X)
vector_add_kernel[(triton.cdiv(N, 32),)](X, Y, Z, N, BLOCK_SIZE=32)
assert np.array_equal(Z, X + Y)
"""


def run(tmp_path, text, **environment):
    script = tmp_path / "program.py"
    script.write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", **environment}
    return subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=environment,
                          encoding="utf-8")


def test_printing_inside_a_kernel(tmp_path):
    done = run(tmp_path, PROGRAM, TRITON_INTERPRET="1")
    assert done.returncode == 0, done.stderr
    lines = []
    for pid in range(2):
        offsets = np.arange(32)
        lines += ["内核将执行 [2] 次（块数）。", f"pid:  [{pid}]", f"block_start:  [{pid * 32}]",
                  f"offsets:  {offsets}", f"idx:  {pid * 32 + offsets}"]
    assert done.stdout == "\n".join(lines) + "\n"


def test_the_other_spelling_of_the_switch(tmp_path):
    done = run(tmp_path, PROGRAM, TRITIUM_INTERPRET="1")
    assert done.returncode == 0 and "pid:  [1]" in done.stdout


def test_a_false_assertion_stops_the_program(tmp_path):
    done = run(tmp_path, PROGRAM.replace("== triton.cdiv", "!= triton.cdiv"), TRITON_INTERPRET="1")
    assert done.returncode != 0 and "AssertionError" in done.stderr


def test_loading_and_plain_python_in_the_interpreter(tmp_path):
    """Everything of the language works there too: reductions, loops, dot, atomics."""
    done = run(tmp_path, """
import numpy as np
from tritium.kernels.softmax import softmax, naive
from tritium.kernels.matmul import matmul
from tritium.kernels.summation import sum_of
from tritium.kernels.topk import topk
x = np.random.default_rng(0).standard_normal((3, 20), dtype=np.float32)
np.testing.assert_allclose(softmax(x), naive(x.astype(np.float64)), rtol=1e-5)
np.testing.assert_allclose(matmul(x, x.T.copy(), blocks=(16, 16, 16)), x.astype(np.float64) @ x.T, rtol=1e-4, atol=1e-5)
np.testing.assert_allclose(sum_of(x), x.sum(), rtol=1e-4)
assert (topk(x, 4)[0] == -np.sort(-x, 1)[:, :4]).all()
print("done")
""", TRITON_INTERPRET="1")
    assert done.stdout == "done\n", done.stderr
