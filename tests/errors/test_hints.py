"""Hints that only a launch, or the interpreter, can give."""

import math
import pdb
import warnings

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.interp.eager import launch
from tritium.language.source import spelling_hints


@triton.jit
def exp_of_numpy(x):
    tl.store(x, np.exp(tl.load(x)))


@triton.jit
def maximum_of_numpy(x):
    tl.store(x, np.maximum(tl.load(x), 0))


@triton.jit
def sort_of_numpy(x):
    tl.store(x, np.linalg.eigvals(tl.load(x)))


@triton.jit
def tanh_of_math(x):
    tl.store(x, math.tanh(tl.load(x)))


@triton.jit
def debugger(x):
    pdb.set_trace()
    tl.store(x, 1)


def host_only(x):
    return x + 1


@triton.jit
def plain_python(x):
    tl.store(x, host_only(tl.load(x)))


@triton.jit
def zeros_without_type(x):
    tl.store(x + tl.arange(0, 4), tl.zeros((4,)))


HINTS = [
    (zeros_without_type, triton.CompilationError, "zeros() is missing a required argument: 'dtype'", "tl.float32)"),
    (exp_of_numpy, RuntimeError, "np.exp", "use tl.exp"),
    (maximum_of_numpy, RuntimeError, "np.maximum", "use tl.maximum"),
    (sort_of_numpy, RuntimeError, "np.linalg.eigvals", "compute it before the launch"),
    (tanh_of_math, triton.CompilationError, "tanh runs in Python", "use tl.extra.libdevice.tanh"),
    (debugger, RuntimeError, "set_trace", "run the program with TRITON_INTERPRET=1"),
    (plain_python, RuntimeError, "host_only", "decorate host_only with @triton.jit"),
]


@pytest.mark.parametrize(("kernel", "kind", "phrase", "hint"), HINTS, ids=lambda x: getattr(x, "__name__", None))
def test_functions_of_the_host(kernel, kind, phrase, hint):
    with pytest.raises(kind) as caught:
        kernel[(1,)](np.ones(4, np.float32))
    head, _, tail = str(caught.value).partition("hint: ")
    assert phrase in head and hint in tail and "^" in head


def test_functions_of_torch():
    torch = pytest.importorskip("torch")
    for name in ("relu", "tanh", "matmul"):
        value = getattr(torch, name)
        assert spelling_hints.of_callable(value.__name__, "torch").startswith("use tl.")


@triton.jit
def blocks(out, n, BLOCK: tl.constexpr):
    tl.store(out, triton.cdiv(n, BLOCK))
    tl.store(out + 1, triton.cdiv(x=n + 1, y=BLOCK))
    tl.store(out + 2, triton.cdiv(BLOCK, 3))
    for i in range(triton.cdiv(n, BLOCK)):
        tl.store(out + 3, i)


def test_cdiv_of_run_time_values():
    for run in (lambda out: blocks[(1,)](out, 10, 4), lambda out: launch(blocks, (1,), (out, 10, 4), {})):
        out = np.zeros(4, np.int32)
        run(out)
        assert out.tolist() == [3, 3, 2, 2]


@triton.jit
def relu(x):
    tl.store(x, tl.relu(tl.load(x)))


@triton.jit
def mean(x):
    tl.store(x, tl.load(x + tl.arange(0, 4)).mean(0))


@triton.jit
def absolute(x):
    tl.store(x, abs(tl.load(x)))


@triton.jit
def largest(x):
    tl.store(x, max(tl.load(x + tl.arange(0, 4))))


@triton.jit
def sized(x, n):
    tl.store(x + tl.arange(0, n), 0)


@triton.jit
def returned(x):
    return tl.load(x)


@triton.jit
def pointer(x):
    tl.store(x, x)


@triton.jit
def dimension(x):
    tl.store(x, tl.sum(tl.load(x + tl.arange(0, 4)), dim=0))


@triton.jit
def misspelt(x):
    tl.store(x, tl.load(x, msk=True))


@triton.jit
def transposing(x):
    square = tl.load(x + tl.arange(0, 16)[:, None] * 0 + tl.arange(0, 16) * 0)
    tl.store(x, tl.sum(tl.sum(tl.dot(square, square, trans_b=True), 0), 0))


@triton.jit
def of_libdevice(x):
    tl.store(x, tl.libdevice.tanh(tl.load(x)))


@triton.jit
def printing(x):
    tl.printf("x", tl.load(x))


@triton.jit
def describing(x):
    tl._experimental_make_tensor_descriptor(x, [4], [1], [4])


@triton.jit
def untyped(x):
    tl.store(x + tl.arange(0, 4), tl.zeros((4,)))


@triton.jit
def stepped(x):
    tl.store(x + tl.arange(0, 4, 2), 1.0)


@triton.jit
def rounded(x):
    tl.store(x, round(tl.load(x)))


@triton.jit
def bounded_by_a_block(x):
    for i in range(tl.arange(0, 4)):
        tl.store(x + i, 1.0)


@triton.jit
def nothing_moved(x, bias=None):
    tl.store(x, tl.load(bias + 3))


@triton.jit
def bare(x):
    tl.store(x + arange(0, 4), 1.0)  # noqa: F821


EAGER = [
    (nothing_moved, (), "ask first: `if x is not None:`"), (bare, (), "use tl.arange"),
    (dimension, (), "did you mean `axis`?"), (misspelt, (), "did you mean `mask`? it is declared as load("),
    (transposing, (), "transpose the operand: tl.dot(a, tl.trans(b)); it is declared as dot("),
    (of_libdevice, (), "use tl.extra.libdevice"), (printing, (), "use tl.device_print(text, x)"),
    (describing, (), "use tl.make_tensor_descriptor(base, shape, strides, block_shape)"),
    (untyped, (), "say of what type, too"), (stepped, (), "it is declared as arange(start, end)"),
    (rounded, (), "use tl.extra.libdevice.round"), (bounded_by_a_block, (), "one bound for the whole program"),
    (relu, (), "use tl.maximum(x, 0)"), (mean, (), "use tl.sum(x, axis) / n"), (absolute, (), "use tl.abs"),
    (largest, (), "reduce a block with tl.max(x, axis)"), (sized, (3,), "mask what is past the end"),
    (returned, (), "store the result through a pointer"), (pointer, (), "did you mean tl.load("),
]  # fmt: skip


@pytest.mark.parametrize(("kernel", "more", "hint"), EAGER, ids=lambda x: getattr(x, "__name__", None))
def test_interpreted_and_compiled_kernels_get_one_hint(kernel, more, hint):
    for run in (lambda *args: kernel[(1,)](*args), lambda *args: launch(kernel, (1,), args, {})):
        with pytest.raises((triton.CompilationError, triton.InterpreterError)) as caught:
            run(np.ones(4, np.float32), *more)
        assert hint in str(caught.value).partition("hint: ")[2]


@triton.jit
def identical(x, n, LIMIT: tl.constexpr):
    if n is LIMIT:
        tl.store(x, 1.0)
    if n is not None:
        tl.store(x + 1, 2.0)


def test_a_run_time_value_is_never_identical_with_a_number():
    x = np.zeros(2, np.float32)
    with pytest.warns(UserWarning, match="always False; use == to compare"):
        identical[(1,)](x, 3, LIMIT=3)
    assert x.tolist() == [0, 2]


@pytest.mark.parametrize("name", sorted(spelling_hints._OTHERS))
def test_proposed_functions_exist(name):
    """Every `tl.` name in a hint is one that kernels have."""
    for word in spelling_hints.instead_of(name).replace("(", " ").replace(")", " ").replace(",", " ").split():
        if word.startswith("tl."):
            found = tl
            for part in word.split(".")[1:]:
                assert hasattr(found, part), word
                found = getattr(found, part)


@triton.jit
def and_before_less(x, n, HOW: tl.constexpr):
    i = tl.arange(0, 4)
    inner = i > 0
    if HOW == 0:
        mask = i < n & inner
    elif HOW == 1:
        mask = inner & i < n
    elif HOW == 2:
        mask = i < n & (i > 0)
    elif HOW == 3:
        mask = i < 3 & i > 0
    else:
        mask = (i < n) & inner & (i & 1 == 0) & (n == 3 & 3)
    tl.store(x + i, 1, mask=mask)


@pytest.mark.parametrize("how, text", [(0, "n & inner"), (1, "inner & i"), (2, "n & (i > 0)"), (3, "3 & i"), (4, "")])
def test_and_is_stronger_than_a_comparison(how, text):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        and_before_less.warmup(np.zeros(4, np.int32), 3, how, grid=(1,))
    assert [(entry.filename, f"compares with {text}; write" in str(entry.message)) for entry in caught] == \
        [(__file__, True)] * bool(text)
