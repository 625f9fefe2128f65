"""What a terminal shows: the message once, the user's frames and nobody else's."""

import io
import logging
import os
import subprocess
import sys
import traceback

import numpy as np
import pytest

import tritium
import tritium as triton
import tritium.language as tl
from tritium import errors, knobs
from tritium.interp.eager import launch

MESSAGE = "arange's range must be a power of 2"
PACKAGE = os.path.dirname(tritium.__file__) + os.sep

KERNEL = """
import numpy as np
import tritium as triton
import tritium.language as tl
from tritium.backends.compiler import GPUTarget
from tritium.compiler import ASTSource


@triton.jit
def helper(out, N: tl.constexpr):
    tl.store(out + tl.arange(0, N), 1.0)


@triton.jit
def kernel(out, N: tl.constexpr):
    helper(out, N)


configs = [triton.Config({"N": 3})]
tuned = triton.autotune(configs, key=[])(kernel)
sized = triton.heuristics({"N": lambda args: 3})(kernel)
both = triton.autotune([triton.Config({})], key=[])(sized)
out = np.zeros(3, np.float32)
source = ASTSource(kernel, {"out": "*fp32", "N": "constexpr"}, {"N": 3})
"""

LAUNCHES = [
    "kernel[(1,)](out, 3)", "kernel[1,](out, N=3)", "kernel[lambda meta: (1,)](out, 3)", "tuned[(1,)](out)",
    "sized[(1,)](out)", "both[(1,)](out)", "kernel.warmup(out, 3, grid=(1,))",
    "triton.compile(source, GPUTarget('cpu', 'host', 1))",
]  # fmt: skip


@triton.jit
def three(out, N: tl.constexpr):
    tl.store(out + tl.arange(0, N), 1.0)


def shown(text, folder, **env):
    """What Python prints about a script that fails."""
    path = folder / "script.py"
    path.write_text(text)
    done = subprocess.run([sys.executable, str(path)], env={**os.environ, **env}, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    return done.stderr


def test_a_script_that_fails_shows_the_message_once_under_the_line_of_the_launch(tmp_path):
    text = shown(f"{KERNEL}\nkernel[(1,)](out, 3)", tmp_path)
    assert text.count(MESSAGE) == 1 and text.count("Traceback") == 1 and text.count("hint:") == 1
    assert [line.strip() for line in text.splitlines() if "File " in line or "kernel[" in line] == [
        f'File "{tmp_path / "script.py"}", line {len(KERNEL.splitlines()) + 2}, in <module>', "kernel[(1,)](out, 3)"]


def test_an_interpreted_script_shows_the_users_way_to_the_line(tmp_path):
    text = shown(f"{KERNEL}\nkernel[(1,)](out, 3)", tmp_path, TRITON_INTERPRET="1")
    assert text.count(MESSAGE) == 1 and text.count("Traceback") == 1 and text.count("hint:") == 1
    assert [line.rpartition(" ")[2] for line in text.splitlines() if 'File "' in line] == [
        "<module>", "kernel", "helper"]


@pytest.fixture(scope="module")
def scope(tmp_path_factory):
    """The script's names; it is a file, so that its kernels have a text."""
    path = tmp_path_factory.mktemp("reports") / "script.py"
    path.write_text(KERNEL)
    names = {"__name__": "script"}
    exec(compile(KERNEL, str(path), "exec"), names)
    return names


@pytest.mark.parametrize("call", LAUNCHES)
def test_every_way_of_a_launch(scope, call):
    with pytest.raises(errors.CompilationError, match=MESSAGE) as caught:
        eval(call, scope)
    text = "".join(traceback.format_exception(caught.value))
    assert text.count(MESSAGE) == 1 and text.count("Traceback") == 1
    assert PACKAGE not in text
    cause = caught.value.__cause__.__cause__  # still there for a program that asks
    assert isinstance(cause, ValueError)
    assert not any(PACKAGE in frame.filename for frame in traceback.extract_tb(cause.__traceback__))


def test_a_log_shows_it_once_too():
    logger, text = logging.getLogger("script"), io.StringIO()
    logger.addHandler(handler := logging.StreamHandler(text))
    try:
        three[(1,)](np.zeros(3, np.float32), 3)
    except errors.CompilationError:
        logger.exception("failed")
    finally:
        logger.removeHandler(handler)
    assert text.getvalue().count(MESSAGE) == 1


def test_a_mistake_of_pythons_own_keeps_its_cause_and_loses_our_frames():
    with pytest.raises(errors.InterpreterError, match="ZeroDivisionError") as caught:
        launch(divides, (1,), (np.zeros(1, np.float32),), {})
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    text = "".join(traceback.format_exception(caught.value))
    assert "1 // 0" in text and "Traceback" in text and text.count("Traceback") == 1


@triton.jit
def divides(out):
    tl.static_assert(1 // 0 == 1)


def test_nothing_is_cut_on_demand():
    with knobs.compilation.scope():
        knobs.compilation.front_end_debugging = True
        with pytest.raises(ValueError, match=MESSAGE) as caught:
            three[(1,)](np.zeros(3, np.float32), 3)
    assert PACKAGE in "".join(traceback.format_exception(caught.value))


def test_a_defect_of_ours_keeps_its_frames_and_its_cause(monkeypatch):
    def broken(*args, **kwargs):
        raise errors.InternalError("dce: lost a store") from KeyError("store")

    monkeypatch.setattr("tritium.frontend.lower", broken)
    with pytest.raises(errors.InternalError) as caught:
        three[(1,)](np.zeros(3, np.float32), 5)
    text = "".join(traceback.format_exception(caught.value))
    assert PACKAGE in text and "KeyError: 'store'" in text


def test_a_cause_can_be_set_shown_and_hidden():
    error = errors.InterpreterError("boom")
    assert error.__cause__ is None
    error.hide_cause()  # nothing to hide
    error.__cause__ = cause = ValueError("inner")
    assert "inner" in "".join(traceback.format_exception(error))
    error.hide_cause()
    assert error.__cause__ is cause and "inner" not in "".join(traceback.format_exception(error))
    error.__cause__ = None
    assert error.__cause__ is None


def test_frames_of_the_user_stay_in_order():
    def outer():
        inner()

    def inner():
        raise errors.fail(ValueError, "no")

    try:
        outer()
    except ValueError as error:
        names = [frame.name for frame in traceback.extract_tb(errors.cut(error).__traceback__)]
    assert names == ["test_frames_of_the_user_stay_in_order", "outer", "inner"]


@triton.jit
def unrolled(o):
    for i in tl.static_range(10**6):
        tl.store(o + i, i)


def test_frames_of_the_library_that_we_call_are_cut_too():
    with pytest.raises(errors.CompilationError) as caught:
        unrolled[(1,)](np.zeros(4, np.int32))
    files = {entry.filename for entry in traceback.extract_tb(caught.value.__traceback__)}
    assert files == {__file__}
