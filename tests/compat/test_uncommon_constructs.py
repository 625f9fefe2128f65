"""Constructs that libraries use now and then: aggregates, tuples of pointers, constexpr functions, odd launches."""

from typing import NamedTuple

import numpy as np
import pytest
import torch

import tritium as triton
import tritium.language as tl

torch.manual_seed(13)


def close(x, y, tol=1e-5):
    torch.testing.assert_close(x.double(), y.double(), rtol=tol, atol=tol)


# --- aggregates -------------------------------------------------------------------------------------------------------
@tl.core._aggregate
class Online:
    """The state of an online softmax."""
    top: tl.tensor
    total: tl.tensor
    SCALE: tl.constexpr

    @triton.constexpr_function
    def __init__(self, top, total, SCALE):
        self.top = top
        self.total = total
        self.SCALE = tl.constexpr(SCALE)

    @triton.jit
    def update(self, x):
        new = tl.maximum(self.top, tl.max(x * self.SCALE, 0))
        total = self.total * tl.exp(self.top - new) + tl.sum(tl.exp(x * self.SCALE - new), 0)
        return Online(new, total, self.SCALE)

    @triton.jit
    def lse(self):
        return self.top + tl.log(self.total)


@triton.jit
def online_lse(x, out, n, SCALE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    state = Online(tl.full((), float("-inf"), tl.float32), tl.full((), 0.0, tl.float32), SCALE)
    for start in range(0, n, BLOCK):
        state = state.update(tl.load(x + start + i, mask=start + i < n, other=float("-inf")))
    tl.store(out, state.lse())


def test_aggregate_carried_by_a_loop(run):
    x, out = torch.randn(100), torch.empty(1)
    run(online_lse, (1,), x, out, 100, SCALE=0.5, BLOCK=16)
    close(out[0], (x.double() * 0.5).logsumexp(0))


class View(NamedTuple):
    base: torch.Tensor
    rows: int
    stride: int


@triton.jit
def row_of(view, r, COLS: tl.constexpr, other: tl.constexpr = 0.0):
    c = tl.arange(0, COLS)
    return tl.load(view.base + r * view.stride + c, mask=r < view.rows, other=other)


@triton.jit
def sum_views(views, out, COLS: tl.constexpr):
    r = tl.program_id(0)
    acc = tl.zeros((COLS,), tl.float32)
    for k in tl.static_range(len(views)):
        acc += row_of(views[k], r, COLS)
    tl.store(out + r * COLS + tl.arange(0, COLS), acc)


def test_tuple_of_named_tuples_of_pointers(run):
    parts = [torch.randn(4, 8), torch.randn(2, 16)[:, ::2], torch.randn(1, 8)]
    parts[1] = parts[1].contiguous()
    out = torch.empty(4, 8)
    run(sum_views, (4,), tuple(View(p, p.shape[0], p.stride(0)) for p in parts), out, COLS=8)
    want = torch.zeros(4, 8, dtype=torch.float64)
    for p in parts:
        want[:p.shape[0]] += p
    close(out, want)


# --- functions --------------------------------------------------------------------------------------------------------
@triton.constexpr_function
def choose_block(n, limit=32):
    block = 1
    while block * 2 <= min(n, limit):
        block *= 2
    return block


@triton.jit
def apply(x, fn: tl.constexpr, factor: tl.constexpr = 2.0):
    return fn(x) * factor


@triton.jit
def square(x):
    return x * x


@triton.jit
def constants_computed(x, out, N: tl.constexpr, OPS: tl.constexpr):
    BLOCK: tl.constexpr = choose_block(N)
    tl.static_assert(BLOCK & (BLOCK - 1) == 0, "a power of two")
    tl.static_assert(N % BLOCK == 0, f"{N} is no multiple of {BLOCK}")
    for b in tl.static_range(N // BLOCK):
        i = b * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x + i)
        for k in tl.static_range(len(OPS)):
            v = apply(v, OPS[k]) if k % 2 == 0 else apply(v, OPS[k], factor=0.5)
        tl.store(out + i, v)


def test_constexpr_functions_and_functions_as_arguments(run):
    x, out = torch.rand(96), torch.empty(96)
    run(constants_computed, (1,), x, out, N=96, OPS=(square, tl.sqrt, tl.abs))
    close(out, 2 * (0.5 * (2 * x.double() ** 2).sqrt()).abs())


@triton.jit
def polynomial(x, coefficients, K: tl.constexpr):
    """Horner's rule over a tuple, by recursion that ends at compile time."""
    if K == len(coefficients) - 1:
        return coefficients[K] + x * 0
    else:
        return coefficients[K] + x * polynomial(x, coefficients, K + 1)


@triton.jit
def horner(x, out, coefficients, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, polynomial(tl.load(x + i), coefficients, 0))


def test_recursion_over_a_tuple(run):
    x, out = torch.randn(32), torch.empty(32)
    run(horner, (1,), x, out, (1.5, -2.0, 0.25, 3.0), BLOCK=32)
    x = x.double()
    close(out, 1.5 - 2 * x + 0.25 * x ** 2 + 3 * x ** 3)


@triton.jit
def early(x, out, flag, n, LIMIT: tl.constexpr):
    pid = tl.program_id(0)
    if pid >= n:
        return
    v = tl.load(x + pid)
    if v < 0:
        if flag == 0:
            return
        v = -v
    if LIMIT is not None:
        v = tl.minimum(v, LIMIT)
    tl.store(out + pid, v)


@pytest.mark.parametrize("flag", [0, 3])
@pytest.mark.parametrize("limit", [None, 1.0])
def test_early_returns(run, flag, limit):
    x, out = torch.randn(20) * 2, torch.full((20,), 9.0)
    run(early, (24,), x, out, flag, 20, LIMIT=limit)
    want = torch.where(x < 0, -x if flag else torch.full((20,), 9.0), x)
    if limit is not None:
        want = torch.where((x < 0) & (not flag), want, want.clamp(max=limit))
    assert torch.equal(out, want)


# --- loops ------------------------------------------------------------------------------------------------------------
@triton.jit
def gcd_steps(a, b, out, steps, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x, y = tl.load(a + i), tl.load(b + i)
    count = tl.zeros((BLOCK,), tl.int32)
    rounds = 0
    while tl.max((y != 0).to(tl.int32), 0) > 0:
        live = y != 0
        x, y = tl.where(live, y, x), tl.where(live, x % tl.where(live, y, 1), y)
        count += live.to(tl.int32)
        rounds += 1
    tl.store(out + i, x)
    tl.store(steps + i, count)
    tl.store(steps + BLOCK, rounds)


def test_while_with_several_carried_values(run):
    a, b = torch.randint(1, 1000, (2, 32))
    out, steps = torch.empty(32, dtype=torch.int64), torch.empty(33, dtype=torch.int32)
    run(gcd_steps, (1,), a, b, out, steps, BLOCK=32)
    assert torch.equal(out, torch.gcd(a, b))
    assert int(steps[32]) == int(steps[:32].max())


@triton.jit
def newton(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n, other=1.0)
    guess = a
    error = 1.0
    it = 0
    while (error > 1e-6) and (it < 50):
        better = 0.5 * (guess + a / guess)
        error = tl.max(tl.abs(better - guess) / better, 0)
        guess = better
        it += 1
    tl.store(out + i, guess, mask=i < n)


def test_while_with_and(run):
    x, out = torch.rand(50) * 100 + 0.1, torch.empty(50)
    run(newton, (2,), x, out, 50, BLOCK=32)
    close(out, x.double().sqrt())


@triton.jit
def backwards(x, out, n, decay, STEP: tl.constexpr):
    """Discounted returns, from the last reward to the first."""
    acc = 0.0
    for t in tl.range(n - 1, -1, -STEP, num_stages=1, loop_unroll_factor=2):
        acc = tl.load(x + t) + decay * acc
        tl.store(out + t, acc)


def test_range_downwards(run):
    x, out = torch.randn(17), torch.zeros(17)
    run(backwards, (1,), x, out, 17, 0.9, STEP=1)
    want, acc = torch.zeros(17, dtype=torch.float64), 0.0
    for t in range(16, -1, -1):
        acc = float(x[t]) + 0.9 * acc
        want[t] = acc
    close(out, want)


@triton.jit
def swap_roles(x, out, n, BLOCK: tl.constexpr):
    """Two variables exchange values at every turn."""
    i = tl.arange(0, BLOCK)
    a, b = tl.load(x + i), tl.load(x + BLOCK + i)
    for _ in range(n):
        a, b = b, a + b
    tl.store(out + i, a)
    tl.store(out + BLOCK + i, b)


def test_exchange_in_a_loop(run):
    x, out = torch.randint(0, 5, (16,)), torch.empty(16, dtype=torch.int64)
    run(swap_roles, (1,), x, out, 10, BLOCK=8)
    a, b = x[:8], x[8:]
    for _ in range(10):
        a, b = b, a + b
    assert torch.equal(out, torch.cat([a, b]))


# --- shapes -----------------------------------------------------------------------------------------------------------
@triton.jit
def fast_hadamard(x, out, N: tl.constexpr, LOG: tl.constexpr):
    """Butterflies by reshape, permute, split and join."""
    v = tl.load(x + tl.program_id(0) * N + tl.arange(0, N))
    for k in tl.static_range(LOG):
        v = tl.reshape(v, (N >> (k + 1), 2, 1 << k))
        a, b = tl.split(tl.permute(v, (0, 2, 1)))
        v = tl.permute(tl.join(a + b, a - b), (0, 2, 1))
        v = tl.ravel(v)
    tl.store(out + tl.program_id(0) * N + tl.arange(0, N), v)


def test_hadamard(run):
    x, out = torch.randn(3, 32), torch.empty(3, 32)
    run(fast_hadamard, (3,), x, out, N=32, LOG=5)
    h = torch.ones(1, 1, dtype=torch.float64)
    for _ in range(5):
        h = torch.cat([torch.cat([h, h], 1), torch.cat([h, -h], 1)])
    close(out, x.double() @ h)


@triton.jit
def flips(x, out, A: tl.constexpr, B: tl.constexpr):
    at = tl.arange(0, A)[:, None] * B + tl.arange(0, B)[None, :]
    v = tl.load(x + at)
    tl.store(out + at, tl.flip(v, 0) - tl.flip(v, -1) + tl.flip(tl.flip(v, 0), 1))


def test_flips(run):
    x, out = torch.randn(4, 8), torch.empty(4, 8)
    run(flips, (1,), x, out, A=4, B=8)
    assert torch.equal(out, x.flip(0) - x.flip(1) + x.flip(0, 1))


@triton.jit
def bit_tricks(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    bits = tl.cast(v, tl.int32, bitcast=True)
    exponent = ((bits >> 23) & 0xFF) - 127
    mantissa = tl.cast((bits & 0x007FFFFF) | 0x3F800000, tl.float32, bitcast=True)
    half = tl.cast(tl.cast(v, tl.float16), tl.int16, bitcast=True)
    tl.store(out + i, exponent)
    tl.store(out + BLOCK + i, (mantissa * (1 << 20)).to(tl.int32))
    tl.store(out + 2 * BLOCK + i, half)


def test_bits_of_floats(run):
    x = torch.randn(32) * 10
    out = torch.empty(96, dtype=torch.int32)
    run(bit_tricks, (1,), x, out, BLOCK=32)
    mantissa, exponent = np.frexp(np.abs(x.numpy()))
    assert np.array_equal(out[:32].numpy(), exponent - 1)
    assert np.array_equal(out[32:64].numpy(), (mantissa * 2 * (1 << 20)).astype(np.int32))
    assert torch.equal(out[64:].short(), x.half().view(torch.int16))


@triton.jit
def gather_rows(x, index, out, R: tl.constexpr, C: tl.constexpr):
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    v = tl.load(x + at)
    tl.store(out + at, tl.gather(v, tl.load(index + at), 1) + tl.gather(v, tl.load(index + at) % R, axis=0))


def test_gather_along_both_axes(run):
    x, index = torch.randn(8, 16), torch.randint(0, 16, (8, 16), dtype=torch.int32)
    out = torch.empty(8, 16)
    run(gather_rows, (1,), x, index, out, R=8, C=16)
    assert torch.equal(out, x.gather(1, index.long()) + x.gather(0, index.long() % 8))


# --- memory -----------------------------------------------------------------------------------------------------------
@triton.jit
def strided_copy(x, out, rows, cols, sr, sc, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < rows * cols
    v = tl.load(x + (i // cols) * sr + (i % cols) * sc, mask=inside)
    tl.store(out + i, v, mask=inside)


@pytest.mark.parametrize("view", [lambda x: x, lambda x: x.T, lambda x: x[::3, 1::2], lambda x: x[:0],
                                  lambda x: x[0].expand(7, -1)], ids="whole turned strided empty expanded".split())
def test_strides_of_torch(run, view):
    x = view(torch.randn(12, 20))
    out = torch.empty(x.shape)
    run(strided_copy, (triton.cdiv(x.numel(), 64),), x, out, *x.shape, *x.stride(), BLOCK=64)
    assert torch.equal(out, x)


@pytest.mark.parametrize("view", [lambda x: x[::-1], lambda x: x[:, ::-2], lambda x: x[::-1, ::-1].T])
def test_negative_strides_of_numpy(view):
    x = view(np.arange(60, dtype=np.float32).reshape(6, 10))
    out = np.empty(x.shape, np.float32)
    strides = [s // 4 for s in x.strides]
    strided_copy[(1,)](x, out, *x.shape, *strides, BLOCK=64)
    assert np.array_equal(out, x)


@triton.jit
def far(x, out, BIG, BLOCK: tl.constexpr):
    """An offset beyond 32 bits that comes back."""
    i = tl.arange(0, BLOCK)
    p = x + BIG * 4
    p += i.to(tl.int64) * BIG
    p -= (i.to(tl.int64) + 4) * BIG
    address = (p + i).to(tl.int64)
    tl.store(out + i, tl.load(address.to(tl.pointer_type(tl.int32))))


def test_offsets_beyond_32_bits(run):
    x, out = torch.arange(16, dtype=torch.int32), torch.zeros(16, dtype=torch.int32)
    run(far, (1,), x, out, 2 ** 33 + 1, BLOCK=16)
    assert torch.equal(out, x)


def test_nothing_to_do(run):
    out = torch.full((4,), 7.0)
    for grid in [(0,), (1, 0), (2, 2, 0)]:
        run(strided_copy, grid, torch.empty(0), out, 0, 0, 0, 1, BLOCK=4)
    assert out.tolist() == [7.0] * 4


@triton.jit
def masked_histogram(x, counts, n, lo, hi, BINS: tl.constexpr, BLOCK: tl.constexpr):
    total = tl.zeros((BINS,), tl.int32)
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        i = start + tl.arange(0, BLOCK)
        v = tl.load(x + i, mask=i < n, other=float("nan"))
        good = (v >= lo) & (v < hi)
        bin = tl.where(good, (v - lo) / (hi - lo) * BINS, 0.0).to(tl.int32)
        total += tl.histogram(bin, BINS, mask=good)
    tl.atomic_add(counts + tl.arange(0, BINS), total)


def test_histogram_with_a_mask(run):
    x = torch.randn(300)
    x[::17] = float("nan")
    counts = torch.zeros(16, dtype=torch.int32)
    run(masked_histogram, (3,), x, counts, 300, -1.0, 1.0, BINS=16, BLOCK=32)
    want, _ = np.histogram(x[~x.isnan()].numpy(), 16, (-1.0, 1.0))
    assert counts.tolist() == want.tolist()


@triton.jit
def fast_rcp(x, ASM: tl.constexpr):
    if ASM:
        return tl.inline_asm_elementwise("rcp.approx.f32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1)
    else:
        return 1.0 / x


@triton.jit
def reciprocals(x, out, ASM: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.device_assert(i < BLOCK, "inside")
    tl.store(out + i, fast_rcp(tl.load(x + i), ASM))


def test_assembly_behind_a_constant(run):
    x, out = torch.rand(32) + 0.5, torch.empty(32)
    run(reciprocals, (1,), x, out, ASM=False, BLOCK=32, debug=True)
    close(out, 1 / x.double())


@triton.jit
def optional_bias(x, bias, out, scale, N: tl.constexpr, EPS: tl.constexpr = 1e-6, ACT: tl.constexpr = "none"):
    i = tl.arange(0, N)
    v = tl.load(x + i).to(tl.float32)
    if bias is not None:
        v += tl.load(bias + i)
    v = v * scale + EPS
    if ACT == "relu":
        v = tl.maximum(v, 0)
    elif ACT == "silu":
        v = v * tl.sigmoid(v)
    else:
        tl.static_assert(ACT == "none", "unknown activation " + ACT)
    tl.store(out + i, v)


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("act", ["none", "relu", "silu"])
def test_optional_arguments(run, biased, act):
    x, bias, out = torch.randn(16).half(), torch.randn(16), torch.empty(16)
    run(optional_bias, (1,), x, bias if biased else None, out, 1, N=16, ACT=act)
    v = x.double() + (bias if biased else 0) + 1e-6
    close(out, {"none": v, "relu": v.relu(), "silu": v * v.sigmoid()}[act])


# --- functions without a name -----------------------------------------------------------------------------------------
@triton.jit
def combined_by_lambdas(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(out, tl.reduce(v, 0, lambda a, b: a if a * a > b * b else b))
    last, place = tl.associative_scan((v, i), 0, lambda a, i, b, j: (tl.where(b > a, b, a), tl.where(b > a, j, i)))
    tl.store(out + 1 + i, last)
    tl.store(out + 1 + BLOCK + i, place)


def test_combining_by_a_lambda(run):
    x, out = torch.randn(16), torch.empty(33)
    run(combined_by_lambdas, (2,), x, out, BLOCK=16)
    top, place = x.cummax(0)
    assert out[0] == x[x.abs().argmax()] and torch.equal(out[1:17], top) and torch.equal(out[17:].long(), place)


@triton.jit
def sum_of(v, WEIGHT: tl.constexpr):
    return tl.reduce(v * WEIGHT, 0, lambda a, b: a + b)


@triton.jit
def lambdas_elsewhere(x, out, LIMIT: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(out + i, tl.map_elementwise(lambda a: LIMIT if a > LIMIT else a, v))
    twice = lambda a: a * 2
    tl.store(out + BLOCK, twice(sum_of(v, 3.0)))


def test_lambdas_see_constants_and_stand_in_other_functions(run):
    x, out = torch.randn(16), torch.empty(17)
    run(lambdas_elsewhere, (1,), x, out, LIMIT=0.25, BLOCK=16)
    close(out[:16], x.double().clamp(max=0.25))
    close(out[16], x.double().sum() * 6)
