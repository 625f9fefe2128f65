"""Nothing a kernel asks for while it is compiled goes on for ever.

Loops, calls, constants and branches have a limit, and an error that names them.
"""

import importlib
import linecache
import math
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.frontend.running import ints, module_of
from tritium import knobs
from tritium.backends.compiler import GPUTarget
from tritium.errors import CompilationError
from tritium.frontend import lower
from tritium.interp.eager import InterpretedFunction
from tritium.ir.core import walk


@pytest.fixture
def small():
    """A budget that is used up soon."""
    with knobs.compilation.scope():
        knobs.compilation.budget = 5000
        yield


def kernel_of(text, name="kernel"):
    """A kernel from text; what it calls is written above it."""
    file = f"<budget {len(linecache.cache)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    scope = {"tl": tl, "triton": triton, "math": math, "__name__": "budget"}
    exec(compile(text, file, "exec"), scope)
    return scope[name]


def refused(text, message, hint=""):
    with pytest.raises(CompilationError, match=message) as caught:
        module_of(kernel_of(text), ints(1))
    shown = str(caught.value)
    assert "^" in shown and hint in shown
    return shown


def body(*lines):
    return "@triton.jit\ndef kernel(p):\n" + "".join(f"    {line}\n" for line in lines) + "    tl.store(p, 1)\n"


# -- loops -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", ["10**6", "10**18", "-(10**9), 10**9, 3", "10**9, 0, -1", "2**200"])
def test_a_loop_of_too_many_turns(count):
    shown = refused(body(f"for i in tl.static_range({count}):", "    tl.store(p + i, 1)"),
                    r"this static_range would be unrolled \d+ times", "`tl.range`")
    assert "for i in tl.static_range" in shown and "TRITIUM_COMPILE_BUDGET=600000" in shown


def test_loops_within_loops():
    shown = refused(body("for i in tl.static_range(3000):", "    for j in tl.static_range(3000):",
                         "        tl.store(p + i, j)"), "this static_range makes the kernel too large.* unrolled 3000")
    assert "for i in" in shown.partition("hint")[0]


def test_a_loop_with_a_long_body(small):
    shown = refused(body("for i in tl.static_range(900):", *["    tl.store(p + i, i * 2 + 1)"] * 8),
                    "this static_range makes the kernel too large.* 900 times, it has more than 5000 expressions")
    assert "static_range(900)" in shown


def test_a_loop_in_a_callee_is_named_where_it_stands(small):
    shown = refused("@triton.jit\ndef fill(p):\n    for i in tl.static_range(2000):\n        tl.store(p + i, i)\n\n"
                    + body("fill(p)"), "this static_range makes the kernel too large")
    assert "static_range(2000)" in shown and "called from here" in shown


@pytest.mark.parametrize("text", [
    "[i for i in range(10**7)]", "[i for i in range(10**30)]", "[i for i in range(10**9) if i < 0]",
    "[i + j for i in range(10**4) for j in range(10**4)]",
])
def test_list_comprehensions(text):
    refused(body(f"a = {text}"), "this list comprehension", "`tl.range`")


def test_thousands_of_turns_are_fine():
    module = module_of(kernel_of(body("for i in tl.static_range(2000):", "    tl.store(p + i, i)")), ints(1))
    assert sum(op.kind.name == "store" for op in walk(module.body)) == 2001


def test_the_limit_can_be_raised(small):
    kernel = kernel_of(body("for i in tl.static_range(1500):", "    tl.store(p + i, i)"))
    with pytest.raises(CompilationError, match="too large"):
        module_of(kernel, ints(1))
    knobs.compilation.budget = 50_000
    assert module_of(kernel, ints(1))


# -- calls -------------------------------------------------------------------------------------------------------------


def doubling(depth, decorator="@triton.jit"):
    text = f"{decorator}\ndef f0(x):\n    return x + 1\n\n"
    for i in range(1, depth + 1):
        text += f"{decorator}\ndef f{i}(x):\n    return f{i - 1}(x) + f{i - 1}(x * 2)\n\n"
    return text + f"@triton.jit\ndef kernel(p):\n    tl.store(p, f{depth}(tl.load(p)))\n"


def test_calls_that_double(small):
    shown = refused(doubling(30), r"f0 is inlined \d+ times, which makes kernel too large", "noinline=True")
    assert "def f0(x)" in shown


def test_calls_that_double_and_are_not_inlined(small):
    assert len(module_of(kernel_of(doubling(30, "@triton.jit(noinline=True)")), ints(1)).functions) == 31


def test_recursion_that_branches(small):
    refused("@triton.jit\ndef fib(x, N: tl.constexpr):\n    if N < 2:\n        return x + N\n    else:\n"
            "        return fib(x, N - 1) + fib(x, N - 2)\n\n@triton.jit\ndef kernel(p):\n"
            "    tl.store(p, fib(tl.load(p), 40))\n", r"fib is inlined \d+ times")


def test_recursion_without_an_end():
    refused("@triton.jit\ndef f(x, N: tl.constexpr):\n    return f(x, N + 1)\n\n@triton.jit\ndef kernel(p):\n"
            "    tl.store(p, f(tl.load(p), 0))\n", "calls nest more than 200 deep")


def test_lambdas_that_double(small):
    lines = [f"f{i} = lambda x: f{i - 1}(x) + f{i - 1}(x)" for i in range(1, 31)]
    refused(body("f0 = lambda x: x + 1", *lines, "tl.store(p, f30(tl.load(p)))"), r"is inlined \d+ times")


# -- constants ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text, message", [
    ("10**10**8", "int of more than 65536 bits"), ("-10**10**8", "int of more than"),
    ("7**7**7**7", "int of more than"),
    ("1 << 10**11", "int of more than"), ("(1 << 60000) * (1 << 60000)", "int of more than"),
    ("'a' * 10**10", "text of more than 1048576 letters"), ("10**10 * 'a'", "text of more than"),
    ("(1, 2) * 10**9", "tuple of more than 65536 values"), ("[0] * 10**9", "tuple of more than"),
    ("'%10000000000d' % 3", "text of more than"), ("'%*d' % (10**10, 3)", "text of more than"),
    ("f'{1:10000000000}'", "f-string has more than"), ("'a'.ljust(10**10)", "text of more than"),
    ("'a'.zfill(10**10)", "text of more than"), ("math.factorial(10**8)", "int of more than"),
    ("math.comb(10**8, 5 * 10**7)", "int of more than"), ("math.perm(10**8)", "int of more than"),
])
def test_constants_that_would_fill_the_memory(text, message):
    refused(body(f"a: tl.constexpr = {text}"), message)


@pytest.mark.parametrize("text, value", [
    ("2**64", 2**64), ("2**-1", 0.5), ("(-1)**10**9", 1), ("0 << 10**9", 0), ("1.5**2000000", None),
    ("'ab' * 3", "ababab"),
    ("'%5d|' % 3", "    3|"), ("math.factorial(20)", math.factorial(20)), ("f'{3:>4}'", "   3"), ("7 % 4", 3),
])
def test_constants_of_a_usual_size(text, value):
    if value is None:
        refused(body(f"a: tl.constexpr = {text}"), "OverflowError")
    else:
        assert module_of(kernel_of(body(f"tl.static_assert({text} == {value!r})")), ints(1))


def test_tuples_that_double():
    loop = "for i in tl.static_range(60):"
    refused(body("t = (1, 2)", loop, "    t = t + t"), "tuple of more than 65536 values")
    refused(body("t = (1, 2)", loop, "    t = (t, t)"), "this tuple holds more than 65536 values")


def test_tiles_that_are_too_large():
    refused(body("x = tl.zeros((2**20, 2**20), tl.float32)"), "exceeds triton maximum tensor numel")
    refused(body("x = tl.arange(0, 2**30)"), "exceeds triton maximum tensor numel|2\\*\\*30|1048576")


# -- depth -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lines", [
    [line for i in range(400) for line in (f"if n == {i}:", "    return")],
    ["if n == 0:", "    pass", *[line for i in range(400) for line in (f"elif n == {i}:", f"    tl.store(p, {i})")]],
    ["for i in tl.static_range(400):", "    if n == i:", "        break", "    tl.store(p + i, 1)"],
], ids=["returns", "elif", "breaks"])
def test_branches_that_nest_too_deeply(lines):
    refused(body("n = tl.load(p)", *lines), "branches nest more than 200 deep", "use fewer")


def test_expressions_that_nest_too_deeply():
    kernel = kernel_of(body("x = tl.load(p)", "y = x" + ".to(tl.int32)" * 950))
    with pytest.raises(CompilationError, match="nests too deeply"):
        kernel.warmup(np.zeros(4, np.int32), grid=(1,))


# -- a step of zero ----------------------------------------------------------------------------------------------------


def count(p, n, step):
    total = 0
    for i in range(0, n, step):
        total += i
    tl.store(p, total)


def count_until(p, n, step):
    total = 0
    for i in range(0, n, step):
        total += i
        if total > 100:
            break
    tl.store(p, total)


@pytest.mark.parametrize("function", [count, count_until])
def test_a_run_time_step_of_zero_stops_the_kernel(function):
    y = np.zeros(1, np.int32)
    kernel = triton.jit(function)
    kernel[(1,)](y, 10, 3)
    assert y[0] == 18
    place = rf"the step of the loop at test_budgets\.py:\d+ in {function.__name__} is 0"
    with pytest.raises(RuntimeError, match=place):
        kernel[(4,)](y, 10, 0)
    kernel[(1,)](y, 10, 3)
    assert y[0] == 18
    with pytest.raises(Exception, match="must not be zero"):
        InterpretedFunction(function)[(1,)](y, 10, 0)


def test_a_constant_step_of_zero():
    refused(body("for i in range(0, 10, 0):", "    tl.store(p + i, 1)"), "the step of a loop must not be zero")


def text_for(function, target, debug=False):
    options = SimpleNamespace(num_warps=4, num_stages=3, num_ctas=1, debug=debug, sanitize_overflow=False,
                              enable_fp_fusion=True)
    kernel = triton.jit(function)
    names = {"p": "*i32", "n": "i32", "step": "i32"}
    return str(lower(kernel, {name: names[name] for name in kernel.arg_names}, {}, {}, options, target))


def over_tiles(p, n):
    for i in range(tl.program_id(0), n, tl.num_programs(0)):
        tl.store(p + i, 1)


def by_two(p, n):
    for i in range(0, n, 2):
        tl.store(p + i, 1)


def test_what_a_step_costs():
    gpu, cpu = GPUTarget("cuda", 80, 32), GPUTarget("cpu", "host", 1)
    assert "assert" in text_for(count, cpu) and "assert" not in text_for(count, gpu)
    assert re.search(r"select", text_for(count, gpu))  # the loop has no turn
    assert "assert" in text_for(count, gpu, debug=True)
    for function in (over_tiles, by_two):  # steps that are not zero cost nothing
        for target in (gpu, cpu):
            assert not re.search("assert|select", text_for(function, target))


def test_threads_that_lower_at_once_share_the_recursion_limit():
    deep, before = importlib.import_module("tritium.frontend.lower")._deep_recursion, sys.getrecursionlimit()
    first, second = deep(), deep()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert sys.getrecursionlimit() >= 20_000  # the other still lowers
    second.__exit__(None, None, None)
    assert sys.getrecursionlimit() == before
