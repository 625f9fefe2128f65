"""The IR of small kernels, word for word: one for each kind of statement. `pytest --update` writes `expected/*.tir`."""

from pathlib import Path

import pytest

import tritium as triton
import tritium.language as tl
from tritium.frontend import lower
from tritium.ir.text import parse_module
from tritium.ir.verify import verify

EXPECTED = Path(__file__).parent / "expected"
KERNELS = {}


def expect(**parameters):
    """Register a kernel with the types (strings) and constants of its parameters."""
    def register(fn):
        KERNELS[fn.__name__] = triton.jit(fn), parameters
        return fn
    return register


@expect(x="*fp32", y="*fp32", out="*fp32", n="i32", BLOCK=128)
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    """Adds."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask) + tl.load(y + offsets, mask), mask=mask)


@expect(out="*i32", n="i32")
def assignments(out, n):
    a, (b, c) = n, (1, 2)
    a += b
    a *= c
    kept: tl.constexpr = 7
    tl.store(out, a - kept)


@expect(out="*i32", n="i32")
def branch_with_results(out, n):
    x = 0
    if n > 3:
        x = n
        y = 1
    else:
        y = n * 2
    tl.store(out + y, x)


@expect(out="*i32", n="i32", FLAG=True)
def branch_known_now(out, n, FLAG: tl.constexpr):
    if FLAG:
        x = n
    else:
        x = undefined  # noqa: F821
    tl.store(out, x)


@expect(out="*i32", n="i32")
def early_return(out, n):
    if n > 3:
        return
    tl.store(out, n)


@expect(out="*i32", n="i32")
def conditional_expression(out, n):
    tl.store(out, n if n > 0 else 0)


@expect(out="*fp32", n="i32")
def plain_loop(out, n):
    total = 0.0
    for i in tl.range(0, n, 2, num_stages=3):
        total += tl.load(out + i)
    tl.store(out, total)


@expect(out="*i32", n="i32")
def loop_with_continue(out, n):
    for i in range(n):
        if i == 3:
            continue
        tl.store(out + i, i)


@expect(out="*i32", n="i32")
def loop_with_break(out, n):
    for i in range(n):
        if tl.load(out + i) == 0:
            break
    tl.store(out, i)


@expect(out="*i32", n="i32")
def loop_with_return(out, n):
    total = 0
    for i in range(n):
        total += i
        if total > 10:
            return
    tl.store(out, total)


@expect(out="*i32", n="i32")
def while_loop(out, n):
    steps = 0
    while n > 1:
        n = n // 2
        steps += 1
    tl.store(out, steps)


@expect(out="*i32", n="i32")
def while_with_break(out, n):
    while tl.load(out) < n:
        if tl.atomic_add(out, 1) > 5:
            break


@expect(out="*i32")
def unrolled_loop(out):
    for i in tl.static_range(2):
        tl.store(out + i, i * i)


@expect(out="*i32", i="i32")
def elements(out, i):
    x = tl.arange(0, 8)
    x[i] = x[i + 1] * 2
    tl.store(out + tl.arange(0, 8), x)


@triton.jit
def clamped(x, LIMIT: tl.constexpr):
    if x > LIMIT:
        return LIMIT + 0
    return x


@expect(out="*i32", n="i32")
def inlined_call(out, n):
    tl.store(out, clamped(n, 9))


@expect(out="*fp32")
def combine_function(out):
    x = tl.load(out + tl.arange(0, 8))
    tl.store(out, tl.reduce(x, 0, lambda a, b: a * 2 + b))


@pytest.mark.parametrize("name", KERNELS)
def test_text(name, request):
    kernel, parameters = KERNELS[name]
    constants = {key: value for key, value in parameters.items() if not isinstance(value, str)}
    signature = {key: "constexpr" if key in constants else kind for key, kind in parameters.items()}
    text = str(verify(lower(kernel, signature, constants)))
    assert verify(parse_module(text)).name == name
    path = EXPECTED / f"{name}.tir"
    if request.config.getoption("--update"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()
