"""A failed assertion, or an overflow found with `debug=True`, names the line of the user's source."""

import inspect
import re

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium import frontend
from tritium.backends.compiler import GPUTarget
from tritium.errors import InterpreterError
from tritium.interp.eager import InterpretedFunction
from tritium.interp.machine import interpret


@triton.jit
def check(v):
    tl.device_assert(v < 3, "too large")  # in check


@triton.jit(noinline=True)
def check_apart(v):
    tl.device_assert(v < 3, "too large")  # in check_apart


@triton.jit
def asserting(x, n, CASE: tl.constexpr):
    i = tl.program_id(0)
    v = tl.load(x + tl.arange(0, 4)) + i
    if CASE == "inlined":
        check(v)
    elif CASE == "called":
        check_apart(i + 2)
    elif CASE == "silent":
        tl.device_assert(i < 1)  # without a message
    elif CASE == "statement":
        assert i < 1, "plain"  # as a statement
    elif CASE == "overflow":
        tl.store(x + 4, i * n)  # that overflows
    elif CASE == "library":
        tl.store(x + 4, tl.sum(v * 0 + n, 0))  # that overflows in the library


CASES = {  # case -> message, function, text of its line, program
    "inlined": ("too large", "check", "# in check", 1),
    "called": ("too large", "check_apart", "# in check_apart", 1),
    "silent": ("", "asserting", "# without a message", 1),
    "statement": ("plain", "asserting", "# as a statement", 1),
    "overflow": ("int32 overflow detected for operation mul", "asserting", "# that overflows", 2),
    "library": ("int32 overflow detected for operation add", "asserting", "# that overflows in the library", 0),
}
LINES = inspect.getsource(inspect.getmodule(check.fn)).splitlines()
BIG = 2**31 - 1


def arguments():
    return np.full(8, 2, np.int32), BIG


def line_of(text):
    return next(n for n, line in enumerate(LINES, 1) if line.endswith(text))


@pytest.mark.parametrize("case", CASES)
def test_on_the_processor(case):
    message, function, text, program = CASES[case]
    with pytest.raises(RuntimeError, match="device-side assert triggered") as caught:
        asserting[(4,)](*arguments(), CASE=case, debug=True)
    assert str(caught.value) == (f"device-side assert triggered: {message or 'assertion failed'}\n"
                                 f"  --> {__file__}:{line_of(text)} (in {function}) [program ({program}, 0, 0)]")


@pytest.mark.parametrize("case", CASES)
def test_in_the_interpreter(case):
    message, function, text, program = CASES[case]
    eager = InterpretedFunction(asserting.fn)
    with pytest.raises(InterpreterError) as caught:
        eager[(4,)](*arguments(), CASE=case, debug=True)
    said = str(caught.value)
    assert message in said and f"program ({program}, 0, 0)" in said
    assert f"\n  --> {__file__}:{line_of(text)} in {function}\n" in said


@pytest.mark.parametrize("case", CASES)
def test_in_the_interpreter_of_ir(case):
    message, _, text, program = CASES[case]
    options = triton.compiler.make_backend(GPUTarget("cpu", "host", 1)).parse_options({"debug": True})
    module = frontend.lower(asserting, {"x": "*i32", "n": "i32"}, {"CASE": case}, {}, options)
    with pytest.raises(AssertionError) as caught:
        interpret(module, arguments(), (4,))
    said = str(caught.value)
    assert said.startswith(f"device assertion failed in program ({program}, 0, 0)")
    assert message in said and f"\n  --> {__file__}:{line_of(text)}:" in said
    assert ("called from here" in said) == (case == "called")


@pytest.mark.parametrize("case", CASES)
def test_what_the_gpu_prints(case):
    message, function, text, _ = CASES[case]
    source = triton.compiler.ASTSource(asserting, {"x": "*i32", "n": "i32"}, {"CASE": case})
    llir = triton.compile(source, GPUTarget("cuda", 90, 32), {"debug": True}).asm["llir"]
    strings = dict(re.findall(r'(@str\d+) = .* c"(.*)\\00"', llir))
    calls = re.findall(r"call void @__assertfail\(ptr (@\w+), ptr (@\w+), i32 (\d+), ptr (@\w+), i64 1\)", llir)
    found = {(strings[m], strings[f], int(line), strings[fn]) for m, f, line, fn in calls}
    assert (message or "assertion failed", __file__, line_of(text), function) in found
