"""Functions: called, passed, closed over, kept out of line, with tuples, named tuples, aggregates and defaults."""

import math
from typing import NamedTuple

import pytest
import torch

import tritium as triton
import tritium.language as tl
from tritium.compiler.errors import CompilationError


@triton.jit(noinline=True)
def device_store(ptr, value, n):
    tl.store(ptr + n, value)
    return n + 1


@triton.jit(noinline=True)
def pair_of(a, b):
    return a + b, a * b


@triton.jit(noinline=True)
def clamped(x, LOW: tl.constexpr):
    if x < LOW:
        return LOW + 0.0
    return x


@triton.jit
def out_of_line(x, out):
    v = tl.load(x)
    at = device_store(out, v, 0)
    at = device_store(out, v * 2, at)
    s, p = pair_of(v, 3.0)
    at = device_store(out, s, at)
    device_store(out, p + clamped(-5.0, 1), at)


def test_functions_out_of_line(run):
    x, out = torch.tensor([2.0]), torch.zeros(4)
    run(out_of_line, (1,), x, out)
    assert out.tolist() == [2, 4, 5, 7]


@triton.jit
def blocks_out_of_line(x):
    v = tl.load(x + tl.arange(0, 4))
    pair_of(v, v)


def test_blocks_do_not_go_out_of_line():
    with pytest.raises(triton.compiler.errors.UnsupportedLanguageConstruct, match="is marked noinline, but was called"):
        blocks_out_of_line[(1,)](torch.zeros(4))


class Function(NamedTuple):
    fn: object
    captured: tuple


class Point(NamedTuple):
    x: object
    y: object = 3


@triton.jit
def call(f):
    return f.fn(*f.captured)


@triton.jit
def twice_first(a, b):
    return 2 * a - b


@triton.jit
def named_tuples(out, p, f):
    tl.store(out, call(f))
    tl.store(out + 1, p.x + p.y)
    q = Point(p.y, y=p.x)
    tl.store(out + 2, q.x * 10 + q[1])
    for _ in range(3):
        q = Point(q.y, q.x)
    tl.store(out + 3, q.x)


def test_named_tuples(run):
    out = torch.zeros(4)
    run(named_tuples, (1,), out, Point(5.0, 6.5), Function(twice_first, (4.0, 2)))
    assert out.tolist() == [6, 11.5, 70, 5.0]


@triton.jit
def swap_parts(t):
    return t[1], (t[0], t[1] + 1)


@triton.jit
def nested_tuples(ptrs, scales, strides, out, N: tl.constexpr):
    i = tl.arange(0, N)
    total = tl.zeros([N], tl.float32)
    for k in tl.static_range(len(ptrs)):
        if ptrs[k] is not None:
            total += tl.load(ptrs[k] + i * strides[k][0]) * scales[k]
    a, (b, c) = swap_parts((total, total * 2))
    parts = (a, b) + (c,)
    tl.static_assert(len(parts) == 3)
    tl.static_assert(len(parts[1:]) == 2)
    tl.store(out + i, parts[-1] + parts[0] + parts[1:][0])


def test_nested_tuples(run):
    xs = (torch.randn(8), None, torch.randn(8))
    out = torch.zeros(8)
    run(nested_tuples, (1,), xs, (1, 2, 0.5), ((1,), (1,), (1, 9)), out, N=8)
    total = xs[0] + xs[2] * 0.5
    torch.testing.assert_close(out, (2 * total + 1) + 2 * total + total)


@triton.jit
def constants_in_tuples(out, sizes, n):
    tl.store(out + tl.arange(0, sizes[1][0]), tl.arange(0, sizes[1][0]) + sizes[0] + n)


def test_constants_in_tuples(run):
    """`tl.constexpr(...)` stays a constant wherever it stands in the arguments."""
    out = torch.zeros(4, dtype=torch.int32)
    run(constants_in_tuples, (1,), out, (3, (tl.constexpr(4), None)), tl.constexpr(2))
    assert out.tolist() == [5, 6, 7, 8]


@triton.jit
def tuple_state(x_ptr, out_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    state = (tl.zeros([N], tl.float32), tl.full([N], float("-inf"), tl.float32), 0)
    for k in range(n):
        x = tl.load(x_ptr + k * N + i)
        state = (state[0] + x, tl.maximum(state[1], x), state[2] + 1)
    s, m, count = state
    tl.store(out_ptr + i, s / count + m)


def test_tuples_carried_by_loops(run):
    x, out = torch.randn(5, 8), torch.zeros(8)
    run(tuple_state, (1,), x, out, 5, N=8)
    torch.testing.assert_close(out, x.mean(0) + x.amax(0))


# --- closures and functions as values ---------------------------------------------------------------------------------
def scaled_by(scale, activation):
    SCALE = tl.constexpr(scale)

    @triton.jit
    def kernel(x, out, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(out + i, activation(tl.load(x + i)) * SCALE)

    return kernel


@triton.jit
def relu(x):
    return tl.maximum(x, 0)


@triton.jit
def negate(x):
    return -x


def test_closures(run):
    x = torch.randn(8)
    for scale, f, want in ((2, relu, torch.relu), (3, negate, torch.neg), (2, negate, torch.neg)):
        out = torch.zeros(8)
        run(scaled_by(scale, f), (1,), x, out, N=8)
        torch.testing.assert_close(out, want(x) * scale)


@triton.jit
def chosen(x, out, F: tl.constexpr, G, OP: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    H: tl.constexpr = F
    tl.store(out + i, G(H(v), getattr(tl, OP)(v)))


@triton.jit
def plus(a, b):
    return a + b


def test_functions_as_arguments(run):
    x, out = torch.rand(8) + 1, torch.zeros(8)
    run(chosen, (1,), x, out, tl.sqrt, plus, "exp", N=8)
    torch.testing.assert_close(out, x.sqrt() + x.exp())
    run(chosen, (1,), x, out, relu, plus, "abs", 8)
    torch.testing.assert_close(out, 2 * x)


# --- constants --------------------------------------------------------------------------------------------------------
@triton.constexpr_function
def halves(n):
    return int(math.log2(n))


@triton.constexpr_function
def shape_of(n, wide=False):
    return (n, n * 2 if wide else n)


@triton.jit
def at_compile_time(out, N: tl.constexpr, NAME: tl.constexpr = "gelu", KIND: tl.constexpr = tl.int32,
                    DIMS: tl.constexpr = (2, 4)):
    L: tl.constexpr = halves(N)
    tl.store(out, tl.sum(tl.full(shape_of(4, wide=True), L, KIND)))
    tl.store(out + 1, triton.next_power_of_2(N + 1))
    tl.store(out + 2, triton.cdiv(N, 3) + math.floor(math.pi))
    tl.store(out + 3, len(NAME) + DIMS[1])
    tl.store(out + 4, N**2 // 7 % 5)
    tl.store(out + 5, -7 // 2)
    tl.store(out + 6, N.bit_length() if hasattr(N, "bit_length") else 0)
    if NAME.upper() == "GELU" and DIMS[0] == 2:
        tl.store(out + 7, 1)


def test_compile_time_arithmetic(run):
    out = torch.zeros(8, dtype=torch.int32)
    run(at_compile_time, (1,), out, N=16)
    assert out.tolist() == [128, 32, 9, 8, 1, -4, 5, 1]
    assert halves(8) == 3 and shape_of(3) == (3, 3)


@triton.jit
def with_defaults(x, scale=2.0, bias: tl.constexpr = None):
    y = x * scale
    if bias is not None:
        y += bias
    return y


@triton.jit
def default_arguments(out, x=1.5, n: tl.constexpr = 4):
    tl.store(out, with_defaults(x))
    tl.store(out + 1, with_defaults(x, bias=3))
    tl.store(out + 2, with_defaults(scale=n, x=x))


def test_default_arguments(run):
    out = torch.zeros(3)
    run(default_arguments, (1,), out)
    assert out.tolist() == [3, 6, 6]
    run(default_arguments, (1,), out, n=10)
    assert out.tolist() == [3, 6, 15]


@triton.jit
def depth(x, LEVEL: tl.constexpr):
    if LEVEL == 0:
        return x
    else:
        return depth(x * 2, LEVEL - 1) + 1


@triton.jit
def recursive(out):
    tl.store(out, depth(tl.load(out), 5))


def test_recursion_that_ends_at_compile_time(run):
    out = torch.ones(1)
    run(recursive, (1,), out)
    assert out.item() == 32 + 5


# --- aggregates -------------------------------------------------------------------------------------------------------
@tl.core._aggregate
class Running:
    total: tl.tensor
    largest: tl.tensor
    size: tl.constexpr

    def __init__(self, total, largest, size):
        self.total = total
        self.largest = largest
        self.size = tl.constexpr(size)

    @staticmethod
    @triton.jit
    def start(N: tl.constexpr):
        return Running(tl.zeros([N], tl.float32), tl.full([N], float("-inf"), tl.float32), N)

    @triton.jit
    def take(self, x):
        return Running(self.total + x, tl.maximum(self.largest, x), self.size)

    @triton.jit
    def result(self, n):
        return self.total / n + self.largest

    @triton.constexpr_function
    def doubled(self):
        return self.size * 2


@triton.jit
def advance(state, x):
    return state.take(x)


@triton.jit
def aggregates(x_ptr, out_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    state = Running.start(N)
    for k in range(n):
        state = advance(state, tl.load(x_ptr + k * N + i))
    if n > 100:
        state = Running.start(N)
    tl.store(out_ptr + i, state.result(n) + state.doubled())


def test_aggregates(run):
    x, out = torch.randn(5, 8), torch.zeros(8)
    run(aggregates, (1,), x, out, 5, N=8)
    torch.testing.assert_close(out, x.mean(0) + x.amax(0) + 16)


# --- results ----------------------------------------------------------------------------------------------------------
@triton.must_use_result("use the sum.")
@triton.jit
def must_use(a, b):
    return a + b


@triton.jit
def forgets(x):
    must_use(tl.load(x), 1)


@triton.jit
def remembers(x):
    tl.store(x, must_use(tl.load(x), 1))


def test_results_that_must_be_used(run):
    with pytest.raises(CompilationError, match=r"The result of must_use is not being used"):
        forgets[(1,)](torch.zeros(1))
    x = torch.zeros(1)
    run(remembers, (1,), x)
    assert x.item() == 1


@tl.core.builtin
def square_plus(x, n, _semantic=None):
    doubled = tl.core.to_tensor(n, _semantic=_semantic)
    return x.__mul__(x, _semantic=_semantic).__add__(doubled, _semantic=_semantic)


@tl.core.extern
def library_asin(x, _semantic=None):
    return tl.core.extern_elementwise("", "", [x], {(tl.float32,): ("__nv_asinf", tl.float32),
                                                    (tl.float64,): ("__nv_asin", tl.float64)}, is_pure=True,
                                      _semantic=_semantic)


@triton.jit
def own_builtins(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(out + i, square_plus(v, 3) + library_asin(v))


def test_builtins_of_users(run):
    x, out = torch.rand(8) * 0.9, torch.zeros(8)
    run(own_builtins, (1,), x, out, N=8)
    torch.testing.assert_close(out, x * x + 3 + torch.asin(x))


exp = tl.math.exp


@triton.jit
def aliased(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, exp(tl.load(x + i)))


def test_aliases_made_at_import(run):
    x, out = torch.rand(8), torch.zeros(8)
    run(aliased, (1,), x, out, N=8)
    torch.testing.assert_close(out, x.exp())
