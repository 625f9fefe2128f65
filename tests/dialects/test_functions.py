"""Functions that Triton 3.7 to 3.9 added or changed, with one behaviour at every level, on every engine."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.language.builders import Bench, target
from tritium.frontend import lower
from tritium.insight import emulator
from tritium.interp.eager import launch


@triton.jit
def negates(x, out):
    v = tl.load(x + tl.arange(0, 4))
    tl.store(out + tl.arange(0, 4), -v)
    tl.store(out + 4 + tl.arange(0, 4), (-(v.to(tl.float16))).to(tl.float32))


def test_minus_changes_the_sign_of_zero(engine):
    x, out = np.array([0.0, -0.0, 1.5, -2.0], np.float32), np.ones(8, np.float32)
    engine(negates, (x, out))
    assert np.signbit(out).tolist() == [True, False, True, False] * 2 and out[:4].tolist() == (-x).tolist()


@triton.jit
def shapes(x, out):
    n, m = tl.arange(0, 8), tl.arange(0, 16)
    a, b = tl.load(x + n), tl.load(x + 8 + n)
    tl.store(out + m, tl.cat(a, b))
    tall = tl.cat(a[:, None], b[:, None], dim=-1)
    tl.store(out + 16 + 2 * n[:, None] + tl.arange(0, 2)[None, :], tall)
    tl.static_assert(tl.unsqueeze(a, -1).shape == [8, 1])
    tl.static_assert(tl.unsqueeze(a, 0).shape == [1, 8])
    tl.store(out + 32 + n, tl.squeeze(a[:, None], -1))
    tl.store(out + 40 + n, tl.flip(a))
    tl.store(out + 48 + n, tl.softmax(a * 0.0))


def test_shapes(engine):
    x, out = np.arange(16, dtype=np.float32), np.zeros(56, np.float32)
    engine(shapes, (x, out))
    assert out[:16].tolist() == x.tolist()
    assert out[16:32].reshape(8, 2).tolist() == np.stack([x[:8], x[8:]], 1).tolist()
    assert out[32:40].tolist() == x[:8].tolist() and out[40:48].tolist() == x[7::-1].tolist()
    np.testing.assert_allclose(out[48:], 1 / 8)


@triton.jit
def softmax_of_rows(x, out):
    at = tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :]
    tl.store(out + at, tl.softmax(tl.load(x + at), 1))


def test_softmax_keeps_the_shape(engine):
    x, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    engine(softmax_of_rows, (x, out))
    rows = np.exp(x.reshape(4, 8) - x.reshape(4, 8).max(1, keepdims=True))
    np.testing.assert_allclose(out.reshape(4, 8), rows / rows.sum(1, keepdims=True), rtol=1e-5)


@triton.jit
def best(x, out):
    v = tl.load(x + tl.arange(0, 16))
    tl.store(out + tl.arange(0, 4), tl.topk(v, 4))
    tl.store(out + 4 + tl.arange(0, 4), tl.topk(v, 4, descending=False))
    tl.store(out + 8 + tl.arange(0, 1), tl.topk(v, 1))
    tl.store(out + 9 + tl.arange(0, 1), tl.topk(v, 1, descending=False))


def test_topk(engine):
    x = np.random.default_rng(1).permutation(16).astype(np.float32)
    out = np.zeros(10, np.float32)
    engine(best, (x, out))
    assert out.tolist() == [15, 14, 13, 12, 0, 1, 2, 3, 15, 0]


@triton.jit
def counts(x, out):
    tl.store(out + tl.arange(0, 4), tl.histogram(tl.load(x + tl.arange(0, 8)), 4))


def test_histogram_drops_what_has_no_bin(engine):
    out = np.zeros(4, np.int32)
    engine(counts, (np.array([0, 1, 2, 3, 4, 4, 5, -1], np.int32), out))
    assert out.tolist() == [1, 1, 1, 1]


@triton.jit
def bools(x, out):
    tl.store(out + tl.arange(0, 4), tl.load(x + tl.arange(0, 4)))


def test_numbers_stored_as_bools(engine):
    out = np.zeros(4, bool)
    engine(bools, (np.array([0, 1, 2, 256], np.int32), out))
    assert out.view(np.uint8).tolist() == [0, 1, 1, 1]


@triton.jit
def narrow(x, out):
    v = tl.load(x + tl.arange(0, 4)).to(tl.float8e5)
    tl.store(out + tl.arange(0, 4), v / 2)
    tl.store(out + 4 + tl.arange(0, 4), v % 2.0)
    tl.store(out + 8 + tl.arange(0, 4), v / tl.arange(1, 5))
    tl.store(out + 12 + tl.arange(0, 4), tl.full([4], 1.5, tl.float8e5).to(tl.float32))


def test_eight_bit_floats(engine):
    out = np.zeros(16, np.float32)
    engine(narrow, (np.array([1, 3, 6, 7], np.float32), out))
    assert out.tolist() == [0.5, 1.5, 3, 3.5, 1, 1, 0, 1, 1, 1.5, 2, 1.75, 1.5, 1.5, 1.5, 1.5]


@triton.jit
def divides(x, y, out):
    a, b = tl.load(x + tl.arange(0, 8)), tl.load(y + tl.arange(0, 8))
    tl.store(out + tl.arange(0, 8), tl.fdiv(a, b, ieee_rounding=True))
    tl.store(out + 8 + tl.arange(0, 8), tl.fdiv(a, b, approx=True))


def test_correctly_rounded_quotients(engine):
    rng = np.random.default_rng(2)
    x, y, out = rng.random(8, np.float32), rng.random(8, np.float32) + 0.5, np.zeros(16, np.float32)
    engine(divides, (x, y.astype(np.float32), out))
    assert out[:8].tolist() == (x / y).tolist()
    np.testing.assert_array_max_ulp(out[8:], x / y, 2)


@triton.jit
def by_method(x, out):
    v = tl.load(x + tl.arange(0, 4)).exp()
    tl.static_assert(v.dtype == tl.float16)
    tl.store(out + tl.arange(0, 4), v)


def test_math_methods_of_narrow_floats(engine):
    x, out = np.array([0, 1, -1, 2], np.float16), np.zeros(4, np.float16)
    engine(by_method, (x, out))
    np.testing.assert_array_max_ulp(out, np.exp(x.astype(np.float32)).astype(np.float16), 1)


@triton.jit
def clamps(x, out):
    tl.store(out + tl.arange(0, 4), tl.clamp(tl.load(x + tl.arange(0, 4)), -1, 2))


def test_integers_are_clamped(engine):
    out = np.zeros(4, np.int32)
    engine(clamps, (np.array([-5, 0, 2, 9], np.int32), out))
    assert out.tolist() == [-1, 0, 2, 2]


@triton.jit
def broadcasts(x, out):
    at = tl.arange(0, 2)[:, None] * 4 + tl.arange(0, 4)[None, :]
    tl.atomic_add(out + at, tl.load(x + tl.arange(0, 4)), mask=True)
    tl.atomic_add(out + at, 1, mask=tl.arange(0, 4) < 2)


def test_atomics_broadcast(engine):
    out = np.zeros(8, np.int32)
    engine(broadcasts, (np.arange(4, dtype=np.int32), out))
    assert out.tolist() == [1, 2, 2, 3] * 2


@triton.jit
def accesses(x, out, n):
    at = tl.arange(0, 8)
    v = tl.atomic_load(x + at, mask=at < n, sem="relaxed")
    tl.atomic_store(out + at, v, mask=at < n)
    tl.atomic_store(out + 8, x.atomic_load())
    (out + 9).atomic_store(2.5, sem="relaxed", scope="sys")


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "f2", "f4", "f8"])
def test_atomic_loads_and_stores(engine, dtype):
    x, out = np.arange(3, 19).astype(dtype), np.zeros(16, dtype)
    engine(accesses, (x, out, 5))
    assert out.tolist() == [*x[:5].tolist(), 0, 0, 0, 3, np.array(2.5).astype(dtype).item(), *[0] * 6]


@triton.jit
def bool_accesses(x, out):
    at = tl.arange(0, 4)
    tl.atomic_store(out + at, tl.atomic_load(x + at))
    tl.atomic_store(out + 4, 2)


def test_atomic_loads_and_stores_of_bools(engine):
    x, out = np.array([True, False, True, True]), np.zeros(8, bool)
    engine(bool_accesses, (x, out))
    assert out.view(np.uint8).tolist() == [1, 0, 1, 1, 1, 0, 0, 0]


def test_an_atomic_load_leaves_memory_alone():
    x, out = np.arange(8, dtype=np.float32), np.zeros(16, np.float32)
    x.flags.writeable = False
    compiled = accesses[(1,)](x, out, 8)
    assert compiled.metadata.stores == (1,) and out[:8].tolist() == x.tolist()
    launch(accesses, (1,), (x, out, 8), {})


@triton.jit
def polls(flag, out):
    tl.store(out, tl.atomic_poll(flag, 1).to(tl.int32))
    tl.store(out + 1, tl.atomic_poll(flag, 2, timeout_ns=0).to(tl.int32))
    tl.store(out + 2, flag.atomic_poll(2, sem="relaxed", timeout_ns=1000).to(tl.int32))
    both = tl.atomic_poll(flag + tl.arange(0, 2), 1, timeout_ns=500)
    tl.store(out + 3 + tl.arange(0, 2), both.to(tl.int32))


def test_polls(engine):
    out = np.full(5, 7, np.int32)
    engine(polls, (np.array([1, 0], np.int32), out))
    assert out.tolist() == [1, 0, 0, 1, 0]


@triton.jit
def hands_over(data, flag, out):
    if tl.program_id(0) == 0:
        tl.store(data, 42)
        tl.atomic_store(flag, 1)
    else:
        tl.atomic_poll(flag, 1)
        tl.store(out, tl.load(data))


def test_one_program_waits_for_another():
    for run in (lambda *args: hands_over[(2,)](*args, launch_cooperative_grid=True),
                lambda *args: launch(hands_over, (2,), args, {"launch_cooperative_grid": True})):
        data, flag, out = (np.zeros(1, np.int32) for _ in range(3))
        run(data, flag, out)
        assert out[0] == 42


@triton.jit
def hints(x, out):
    v = tl.load(x, cache_modifier=".cs") + tl.load(x, cache_modifier="ca", eviction_policy="evict_normal")
    v += tl.load(x, None, None, (), "", ".cg") + tl.load(x, cache_modifier="none")
    tl.store(out, v, cache_modifier="wb")


def test_hints(engine):
    out = np.zeros(1, np.float32)
    engine(hints, (np.ones(1, np.float32), out))
    assert out[0] == 4


@triton.jit
def expects(x, out, n):
    at = tl.arange(0, 8)
    tl.store(out + at, tl.expect_zero(tl.load(x + at), at >= n))


def test_expected_zeros():
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    expects[(1,)](x, out, 4)
    assert out.tolist() == x.tolist()
    x[4:] = 0
    launch(expects, (1,), (x, out, 4), {"debug": True})
    x[6] = 1
    with pytest.raises(triton.InterpreterError, match="expect_zero"):
        launch(expects, (1,), (x, out, 4), {"debug": True})


@triton.jit
def multiplies(a, b, out, K: tl.constexpr, N: tl.constexpr):
    m, k, n = tl.arange(0, 16), tl.arange(0, K), tl.arange(0, N)
    x, y = tl.load(a + m[:, None] * K + k[None, :]), tl.load(b + k[:, None] * N + n[None, :])
    tl.store(out + m[:, None] * N + n[None, :], tl.dot(x, y, tl.load(out + m[:, None] * N + n[None, :])))


@pytest.mark.parametrize(("dtype", "summed", "k"), [
    ("f4", "f4", 8), ("f8", "f8", 4), ("f2", "f2", 16), ("i1", "i4", 32), ("f8", "f8", 16),
])  # fmt: skip
def test_the_accumulator_says_in_what_is_summed(engine, dtype, summed, k):
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-3, 4, shape).astype(dtype) for shape in ((16, k), (k, 16)))
    out = np.ones((16, 16), summed)
    engine(multiplies, (a, b, out, k, 16))
    assert (out == a.astype(np.float64) @ b.astype(np.float64) + 1).all()


def test_the_smallest_products():
    for kind, k in (("*fp32", 4), ("*fp64", 2), ("*fp16", 8)):
        types = {"a": kind, "b": kind, "out": kind, "K": "constexpr", "N": "constexpr"}
        with pytest.raises(triton.CompilationError, match="K >= "):
            lower(multiplies, types, {"K": k, "N": 16}, target=target("cuda", 90))


@pytest.mark.parametrize(("fn", "arguments", "error", "message"), [
    (tl.topk, (("f32", 16), 3), ValueError, "power of two"),
    (tl.topk, (("f32", 16), 32), ValueError, "must not exceed"),
    (tl.zeros, ([0], tl.float32), ValueError, "power of 2"),
    (tl.squeeze, (("f32", 8, 2), 1), Exception, "size of the axis must be 1"),
    (tl.unsqueeze, (("f32", 8), 2), Exception, "out of range"),
    (tl.cat, (("f32", 8), ("f32", 16)), ValueError, "requires tensors of the same shape"),
    (tl.fdiv, (("f32", 8), ("f32", 8), True, True), ValueError, "exclude each other"),
    (tl.histogram, (("f32", 8), 4), ValueError, "only supports 32-bit integer input, but got fp32"),
    (tl.split, (("f32", 16),), ValueError, "expected last dimension to be 2 for split, got 16"),
    (tl.atomic_poll, (("ptr<f32>",), 1), ValueError, "integers of 16, 32 or 64 bits"),
    (tl.atomic_load, (("ptr<i32>",), None, "release"), ValueError, "Memory semantic release"),
    (tl.atomic_store, (("ptr<i32>",), 1, None, "acquire"), ValueError, "Memory semantic acquire"),
    (tl.load, (("ptr<f32>",), None, None, (), "", ".xx"), ValueError, "Unsupported cache modifier 'xx'"),
    (tl.atomic_add, (("ptr<i32>", 8), ("i32", 2, 8)), ValueError, "Expected pointer argument to have shape"),
])  # fmt: skip
def test_mistakes(fn, arguments, error, message):
    b = Bench()
    with pytest.raises((error, triton.CompilationError), match=message):
        b.call(fn, [b.tile(*x) if isinstance(x, tuple) and x and isinstance(x[0], str) else x for x in arguments])


def test_accumulators_that_are_refused():
    b = Bench()
    for operands, acc in (("f32", "bf16"), ("bf16", "f16"), ("f32", "f16")):
        with pytest.raises((AssertionError, triton.CompilationError), match="expected accumulator dtype fp32"):
            b.call(tl.dot, [b.tile(operands, 16, 16), b.tile(operands, 16, 16), b.tile(acc, 16, 16)])


def test_groups_of_scales():
    b = Bench()
    x, y = b.tile("f8e4nv", 32, 64), b.tile("f8e4nv", 64, 32)
    four, two, eight = (b.tile("u8", 32, n) for n in (4, 2, 8))
    b.call(tl.dot_scaled, [x, four, "e4m3", y, four, "e4m3"])
    with pytest.raises((AssertionError, triton.CompilationError), match=r"must be 16 or 32\. Got 8"):
        b.call(tl.dot_scaled, [x, eight, "e4m3", y, None, "e4m3"])
    with pytest.raises((AssertionError, triton.CompilationError), match="the same scale factor"):
        b.call(tl.dot_scaled, [x, four, "e4m3", y, two, "e4m3"])


@pytest.mark.parametrize("arch", [75, 80, 90])
def test_gpu_code_of_atomics(arch):
    """The instructions, for each architecture."""
    x, out = np.arange(16, dtype=np.int8), np.zeros(16, np.int8)
    text, _ = emulator.llvm_of(module_of(accesses, (x, out, 5))[0], arch, 4)
    assert "ld.relaxed.gpu.global.b8" in text and "st.release.gpu.global.b8" in text and "ld.acquire.gpu" in text
