"""`python -m tritium explain`, its description of arguments, and its mistakes."""

import os
import subprocess
import sys

import numpy as np
import pytest

from tritium.__main__ import main
from tritium.insight.explain.arguments import arguments, evaluate, grid_of
from tritium.insight.explain.capture import first_launch
from tritium.kernels.vector_add import vector_add

KERNELS = """
import triton
import triton.language as tl

@triton.jit
def scale(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)

@triton.jit
def wrong(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), tl.relu(1.0))
"""
PROGRAM = KERNELS + """
import sys
import numpy as np

if __name__ == "__main__":
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 96
    x = np.ones(n, np.float32)
    for block in (32, 64):
        scale[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, x.copy(), n, BLOCK=block)
    print("the end")
"""
DESCRIBED = ["x_ptr=fp32[n]", "out_ptr=fp32[n]", "n=96", "BLOCK=32", "--grid", "cdiv(n, BLOCK)"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "raises.py").write_text("1 / 0\n")
    return tmp_path


def run(capsys, *words):
    """(exit status, what it printed, what it complained of)."""
    status = main(["explain", *words])
    return status, *capsys.readouterr()


def test_a_page(here, capsys):
    status, out, said = run(capsys, "kernels.py:scale", *DESCRIBED, "-t", "cuda:90a", "-o", "scale.html")
    assert status == 0 and out.startswith("wrote scale.html: ") and said == ""
    assert (here / "scale.html").read_text().startswith("<!DOCTYPE html>")


def test_a_report(here, capsys):
    status, out, _ = run(capsys, "kernels.py:scale", *DESCRIBED, "-t", "cuda:80", "--text", "--devices", "A100, H200")
    assert status == 0 and "scale for cuda:80:32: grid 3 x 1 x 1" in out and "on A100" in out and "on H200" in out
    assert not list(here.glob("*.html"))


def test_sizes_that_are_no_parameters(here, capsys):
    described = ["x_ptr=fp32[M]", "out_ptr=fp32[M]", "M=96", "n=M", "BLOCK=32", "--grid", "cdiv(M, BLOCK)"]
    status, out, said = run(capsys, "kernels.py:scale", *described, "-t", "cuda:80", "--text")
    assert status == 0 and "grid 3 x 1 x 1" in out and said == ""


def test_a_device_is_a_target(here, capsys):
    status, out, _ = run(capsys, "kernels.py:scale", *DESCRIBED, "-t", "h100", "--text")
    assert status == 0 and "scale for cuda:90a:32" in out and "on H100" in out and "H200" not in out
    status, out, _ = run(capsys, "kernels.py:scale", *DESCRIBED, "-t", "MI300X", "--text")
    assert status == 0 and "scale for hip:gfx942:64" in out and "on MI300X" in out


def test_comparing(here, capsys):
    status, out, _ = run(capsys, "kernels.py:scale", *DESCRIBED, "-t", "cuda:80", "--text", "--compare", "BLOCK=64",
                         "num_warps=1")
    assert status == 0 and "BLOCK" in out.split("comparison")[1] and "64" in out.split("comparison")[1]


def test_a_program_is_run_until_its_launch(here):
    """In a process of its own, as people run it: the arguments are the program's, and it goes no further."""
    command = [sys.executable, *"-m tritium explain program.py:scale -t cuda:80 --text --launch 2".split()]
    done = subprocess.run([*command, "--", "200"], capture_output=True, text=True, cwd=here)
    assert done.returncode == 0, done.stderr
    assert "scale for cuda:80:32: grid 4 x 1 x 1" in done.stdout and "the end" not in done.stdout


def test_the_first_launch_of_a_function():
    found = first_launch(lambda: vector_add(np.ones(8), np.ones(8), block=16), "add_kernel")
    assert found.meta == {"BLOCK": 16} and found.args[0].shape == (8,)
    assert first_launch(lambda: None, "add_kernel") is None
    assert vector_add(np.float32([1]), np.float32([2])).tolist() == [3]  # launches are as they were


@pytest.mark.parametrize(("words", "status", "message"), [
    (["kernels.py"], 2, "names no kernel: write kernels.py:scale or kernels.py:wrong"),
    (["raises.py"], 2, "names no kernel: write raises.py:KERNEL; it defines none by @triton.jit"),
    (["nowhere.py"], 2, "names no kernel: write FILE.py:KERNEL"),
    (["kernels.py:scale", *DESCRIBED[:4], "--grid", "n / BLOCK"], 2, "3.0 is not a size: divide by // or cdiv"),
    (["kernels.py:scale", *DESCRIBED, "num_warp=2"], 1, "did you mean num_warps?"),
    (["kernels.py:scale", "x_ptr=fp32[4]", "--grid", "1"], 2, "scale needs out_ptr, n, BLOCK as well"),
    (["kernels.py:scale", *DESCRIBED[:4]], 2, "say over which grid"),
    (["kernels.py:scal", *DESCRIBED], 2, "did you mean 'scale'?"),
    (["nowhere.py:scale", *DESCRIBED], 2, "cannot open 'nowhere.py'"),
    (["nowhere.py:scale"], 2, "cannot open 'nowhere.py'"),
    (["kernels.py:scale"], 2, "ran to its end and did not launch 'scale'"),
    (["kernels.py:scale", "--launch", "2"], 2, "made no launch 2 of 'scale'"),
    (["raises.py:scale"], 1, "ZeroDivisionError"),
    (["kernels.py:wrong", "x_ptr=fp32[64]", "BLOCK=64", "--grid", "1"], 1, "relu"),
    (["kernels.py:scale", *DESCRIBED, "-o", "no/such/folder.html"], 2, "cannot write 'no/such/folder.html'"),
    (["kernels.py:scale", *DESCRIBED, "-t", "hip:gfx12345"], 2, "gfx12345"),
    (["kernels.py:scale", *DESCRIBED, "-t", "gpu"], 2, "gpu"),
    (["kernels.py:scale", *DESCRIBED, "-t", "cuda:fast"], 2, "'cuda:fast' is not a target"),
    (["kernels.py:scale", *DESCRIBED, "-o", "."], 2, "cannot write '.': choose another path with -o"),
    (["kernels.py:scale", *DESCRIBED, "--devices", "H300"], 2, "there is no device 'H300'"),
    (["kernels.py:scale", "x_ptr=fp33[4]", *DESCRIBED[1:]], 2, "x_ptr"),
    (["kernels.py:scale", *DESCRIBED[:-1], "cdiv(m, BLOCK)"], 2, "'m' is neither an argument nor a function"),
    (["kernels.py:scale", *DESCRIBED[:-1], "1, 2, 3, 4"], 2, "one to three sizes"),
    (["kernels.py:scale", *DESCRIBED, "num_wraps=4"], 1, "num_wraps"),
])  # fmt: skip
def test_mistakes_are_one_message(here, capsys, words, status, message):
    found, _, said = run(capsys, *words, *([] if "-t" in words else ["-t", "cuda:80"]))
    assert found == status and message in said and "tritium/insight" not in said


@pytest.mark.parametrize(("words", "message"), [
    ([], "name a kernel, as in kernels.py:add_kernel"),
    (["kernels.py:scale", *DESCRIBED, "--programs", "0"], "--programs must be at least 1, not 0"),
    (["kernels.py:scale", "--launch", "0"], "--launch must be at least 1, not 0"),
])  # fmt: skip
def test_wrong_options(here, capsys, words, message):
    with pytest.raises(SystemExit, match="2"):
        main(["explain", *words])
    assert capsys.readouterr().err.endswith(f"error: {message}\n")


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(here, capsys):
    (here / "closed").mkdir(mode=0o500)
    assert "cannot write" in run(capsys, "kernels.py:scale", *DESCRIBED, "-o", "closed/x.html")[2]


# -- descriptions ------------------------------------------------------------------------------------------------------


def test_tensors():
    made = arguments(["x=bf16[M, 4]@(1, M)", "M=8", "i=i64[6]:random(3)", "name='relu'", "flag=True", "none=None"])
    assert made["x"].shape == (8, 4) and made["x"].strides == (2, 16) and made["x"].dtype.name == "bfloat16"
    assert set(made["i"].tolist()) <= {0, 1, 2} and (made["name"], made["flag"], made["none"]) == ("relu", True, None)


def test_expressions():
    assert evaluate("2**4 + -3 * max(n, 2)", {"n": 5}) == 1 and grid_of("(cdiv(n, 2), 1)", {"n": 5}) == (3, 1)
    assert arguments(["a=b+1", "b=c*2", "c=3"]) == {"a": 7, "b": 6, "c": 3}


@pytest.mark.parametrize(("texts", "message"), [
    (["4"], "describes no argument"),
    (["a=b", "b=a"], "defined by each other"),
    (["a=1 +"], "neither a value nor a tensor"),
    (["a=__import__('os')"], "neither an argument nor a function"),
    (["a=(1).real"], "is not a number"),
    (["a=1 // 0"], "cannot be computed"),
    (["x=fp32[-4]"], "is not a size"),
    (["x=fp32[4, 4]@(1)"], "2 sizes and 1 strides"),
    (["x=fp32[4]:ones"], "filled by :arange or :random"),
])  # fmt: skip
def test_mistakes_in_descriptions(texts, message):
    with pytest.raises(ValueError, match=message):
        arguments(texts)
