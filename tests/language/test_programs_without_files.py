"""Kernels of programs that are no files: they work where Python has their text, and say what to do where it has not."""

import linecache
import os
import subprocess
import sys

import pytest

import tritium as triton

PROGRAM = """\
import numpy as np
import tritium as triton
import tritium.language as tl

if True:
    @triton.jit
    def fill(out, N: tl.constexpr):
        tl.store(out + tl.arange(0, N), 3.0)

out = np.zeros(4, np.float32)
fill[(1,)](out, N=4)
print(out.tolist())
"""
RESULT = "[3.0, 3.0, 3.0, 3.0]"


def run(*arguments, **options):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=os.environ, **options)


def test_a_program_on_the_command_line():
    done = run("-c", PROGRAM)
    assert done.stdout.strip() == RESULT, done.stderr


def test_a_file_redirected_to_stdin(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    with path.open() as file:
        done = run("-", stdin=file)
    assert done.stdout.strip() == RESULT, done.stderr


def test_a_program_from_a_pipe_says_what_to_do():
    done = run("-", input=PROGRAM)
    assert done.returncode == 1 and done.stderr.count("Traceback") == 1
    assert "that of fill, defined in <stdin>, cannot be read" in done.stderr
    assert done.stderr.strip().endswith("hint: save the program as a file and run that: `python file.py`")
    assert os.path.join("tritium", "") not in done.stderr  # no frame of ours


def test_an_interpreted_program_from_a_pipe_works():
    done = subprocess.run([sys.executable, "-"], input=PROGRAM, capture_output=True, text=True,
                          env={**os.environ, "TRITON_INTERPRET": "1"})
    assert done.stdout.strip() == RESULT, done.stderr


def test_exec_inside_a_program_on_the_command_line_is_not_taken_for_it():
    other = PROGRAM.replace("3.0", "4.0")
    done = run("-c", f"exec({other!r})\n{PROGRAM}")
    assert done.returncode == 1 and "cannot be read" in done.stderr, done.stdout


def test_exec_names_the_way_out():
    with pytest.raises(ValueError, match="should be defined in a Python file") as caught:
        exec(PROGRAM, {})
    assert "linecache.cache[name] = (len(text), None, text.splitlines(True), name)" in str(caught.value)


def test_the_way_out_of_exec_works():
    text, name, scope = PROGRAM, "<made by a test>", {}
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    exec(compile(text, name, "exec"), scope)
    assert scope["out"].tolist() == [3.0] * 4


def test_a_notebook_cell():
    """A cell is registered with `linecache` under a made-up name, at every run anew."""
    for value in ("3.0", "5.0"):
        text, name, scope = PROGRAM.replace("3.0", value), "<ipython-input-1-abc>", {}
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        exec(compile(text, name, "exec"), scope)
        assert scope["out"].tolist() == [float(value)] * 4


def test_errors_in_a_program_on_the_command_line_have_their_carets():
    done = run("-c", PROGRAM.replace("N=4", "N=3"))
    assert "--> <string>:8:24 (at 2:19: in fill)" in done.stderr and "^^^^^^^^^^^^^^^ 3 elements" in done.stderr


def test_a_lambda_is_no_kernel():
    with pytest.raises(ValueError, match="should be defined with `def`"):
        triton.jit(lambda out: out)
