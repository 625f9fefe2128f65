"""An rhs that threads compute from prefetched loads: wgmma reads it from registers, with operands swapped."""

import re

import ml_dtypes
import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import data, rng
from tests.backends.gpu.test_redundant_loads import buffers, ttgir_of, words
from tritium.insight import emulator

pytestmark = pytest.mark.sampled

bf16, e4m3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn


def loop_of(text):
    """What is done in every iteration."""
    return "".join(re.findall(r" = for (.*?)\n +yield", text, re.DOTALL))


def moves(text):
    """How tiles change hands in every iteration."""
    return re.findall(r"(share|convert|dot_shared|dot) %", loop_of(text))


def starts(text):
    """The sizes of the dots that warpgroups start on tiles in registers and a buffer."""
    return re.findall(r"dot_shared .*lhs=tile<(\d+x\d+)x\w+>, rhs=tile<(\d+x\d+)x", text)


@triton.jit
def int4(a_ptr, q_ptr, scale_ptr, zero_ptr, c_ptr, M, trips, GROUP: tl.constexpr, TILES: tl.constexpr,
         BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Weights of four bits with a scale and a zero for each group of rows, loaded as rows or as tiles."""
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    a_ptrs = a_ptr + m[:, None] * (trips * BK) + k[None, :]
    q_ptrs = q_ptr + (k[:, None] // 8) * BN + n[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for step in range(0, trips):
        a = tl.load(a_ptrs, mask=m[:, None] < M, other=0.0)
        if TILES:
            at = (step * BK + k)[:, None] // GROUP * BN + n[None, :]
            scale, zero = tl.load(scale_ptr + at), tl.load(zero_ptr + at)
        else:
            at = step * BK // GROUP * BN + n
            scale, zero = tl.load(scale_ptr + at)[None, :], tl.load(zero_ptr + at)[None, :]
        w = (((tl.load(q_ptrs) >> (k % 8 * 4)[:, None]) & 0xF) - zero) * scale
        total = tl.dot(a, w.to(a.dtype), total)
        a_ptrs += BK
        q_ptrs += BK // 8 * BN
    tl.store(c_ptr + m[:, None] * BN + n[None, :], total, mask=m[:, None] < M)


def int4_args(m, trips, block, n=64, deep=64, group=128, tiles=False, dtype="f2"):
    groups, k = max(1, -(-trips * deep // group)), max(trips * deep, 8)
    scale = np.exp2(rng.integers(-2, 2, (groups, n))).astype(dtype)
    zero = rng.integers(0, 16, (groups, n)).astype("i4")
    return (data(dtype, m, k), words(k // 8, n), scale, zero, np.zeros((block, n), "f4"), m, trips, group, tiles,
            block, n, deep)  # fmt: skip


@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize(("arch", "block", "n", "warps"), [(90, 16, 64, 4), (90, 128, 64, 4), (90, 64, 128, 8),
                                                           (90, 16, 128, 4), (90, 64, 64, 8), (80, 16, 64, 4),
                                                           (80, 64, 64, 4)])
@pytest.mark.parametrize("tiles", [False, True])
def test_weights_of_four_bits(check, arch, block, n, warps, tiles, stages):
    """Any number of iterations, with all rows or some."""
    for trips, off in ((0, 0), (1, 3), (2, 0), (5, 5)):
        args = int4_args(block - off, trips, block, n, tiles=tiles)
        check(int4, *args, arch=arch, warps=warps, stages=stages)


@pytest.mark.parametrize(("block", "wanted"), [(16, ["dot"]), (64, ["convert", "dot"]), (128, ["convert", "dot"])])
def test_weights_that_several_warps_read_are_computed_once(block, wanted):
    """Before Hopper warps along M multiply the same weights, and 16 rows have one warp."""
    assert moves(ttgir_of(int4, int4_args(block, 4, block), arch=80)) == wanted


@pytest.mark.parametrize(("dtype", "group", "deep"), [(bf16, 128, 64), ("f2", 32, 64), (bf16, 32, 128), ("f2", 64, 32)])
def test_groups_and_types(check, dtype, group, deep):
    for trips in (1, 3):
        check(int4, *int4_args(64, trips, 64, 64, deep, group, True, dtype))


@pytest.mark.parametrize("deep", [64, 128])
@pytest.mark.parametrize(("m", "n"), [(16, 64), (128, 64), (16, 128), (128, 128)])
@pytest.mark.parametrize("tiles", [False, True])
def test_weights_stay_in_registers(m, n, deep, tiles):
    """No thread waits for another's weights, and a word of them is copied once."""
    text = ttgir_of(int4, int4_args(m, 3, m, n, deep, tiles=tiles))
    assert moves(text) == ["dot_shared"] and starts(text) == [(f"{n}x{deep}", f"{deep}x{m}")]
    row = f"1x{n}" if tiles else f"{n}"
    assert buffers(text) == sorted([f"{m}x{deep}xf16", f"{deep // 8}x{n}xi32", f"{row}xf16", f"{row}xi32"])


def test_what_several_groups_of_warps_would_compute_is_shared():
    assert moves(ttgir_of(int4, int4_args(64, 3, 64, 64), warps=8)) == ["share", "dot_shared"]
    assert moves(ttgir_of(int4, int4_args(64, 3, 64, 128), warps=8)) == ["dot_shared"]


@triton.jit
def eight(a_ptr, w_ptr, c_ptr, trips, ALONG_K: tl.constexpr, ROWS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
          BK: tl.constexpr, TOTAL: tl.constexpr):
    """Weights of eight bits in halves, which lie along either side; so do the rows of a."""
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), TOTAL)
    for s in range(0, trips):
        d = s * BK + k
        a = tl.load(a_ptr + (m[:, None] * (trips * BK) + d[None, :] if ROWS else m[:, None] + d[None, :] * BM))
        w = tl.load(w_ptr + (n[None, :] * (trips * BK) + d[:, None] if ALONG_K else n[None, :] + d[:, None] * BN))
        total = tl.dot(a, (w >> 1).to(a.dtype), total, input_precision="tf32", out_dtype=TOTAL)
    tl.store(c_ptr + m[:, None] * BN + n[None, :], total)


def eight_args(dtype, trips, along_k, rows, block, n=64, deep=64):
    k = max(trips * deep, 1)
    total = tl.int32 if dtype == "i1" else tl.float32
    return (data(dtype, block, k) if rows else data(dtype, k, block), data("i1", n, k), np.zeros((block, n), "f4"),
            trips, along_k, rows, block, n, deep, total)  # fmt: skip


@pytest.mark.parametrize("dtype", ["f2", bf16, "i1", e4m3, "f4"], ids=str)
@pytest.mark.parametrize(("along_k", "rows"), [(False, True), (True, True), (True, False)])
@pytest.mark.parametrize("block", [16, 64])
def test_weights_of_eight_bits(check, dtype, along_k, rows, block):
    for trips in (0, 1, 3):
        check(eight, *eight_args(dtype, trips, along_k, rows, block))


@pytest.mark.parametrize(("dtype", "rows", "turned"), [("f2", True, True), ("f2", False, True), (bf16, True, True),
                                                       (e4m3, True, True), (e4m3, False, False)])
def test_which_operands_are_swapped(dtype, rows, turned):
    """It is read from its buffer, where only 16-bit types may lie along M."""
    found = starts(ttgir_of(eight, eight_args(dtype, 3, True, rows, 32)))
    assert found == ([("64x64", "64x32")] if turned else [])


@triton.jit
def transposed(a_ptr, w_ptr, c_ptr, d_ptr, trips, STORES: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
               BK: tl.constexpr):
    """Weights that are computed first, and then transposed; in a loop that may store something besides."""
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for s in range(0, trips):
        a = tl.load(a_ptr + m[:, None] * (trips * BK) + (s * BK + k)[None, :])
        w = tl.load(w_ptr + n[:, None] * (trips * BK) + (s * BK + k)[None, :])
        total = tl.dot(a, (w * 2).to(a.dtype).T, total)
        if STORES:
            tl.store(d_ptr + s * BK + k, k)
    tl.store(c_ptr + m[:, None] * BN + n[None, :], total)


@pytest.mark.parametrize("stores", [False, True])
@pytest.mark.parametrize("block", [16, 64])
def test_transposed_weights(check, block, stores):
    for trips in (0, 1, 3):
        args = data("f2", block, max(64 * trips, 1)), data("i1", 64, max(64 * trips, 1)), np.zeros((block, 64), "f4")
        args = *args, np.zeros(max(64 * trips, 1), "i4"), trips, stores, block, 64, 64
        check(transposed, *args)
    if not stores:
        text = ttgir_of(transposed, args)
        assert moves(text) == ["dot_shared"] and starts(text) == [("64x64", f"64x{block}")]


@triton.jit
def other_uses(a_ptr, w_ptr, s_ptr, c_ptr, trips, CASE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
               BK: tl.constexpr):
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    total, held = tl.zeros((BM, BN), tl.float32), tl.zeros((BK, BN), tl.int32)
    for s in range(0, trips):
        d = s * BK + k
        a = tl.load(a_ptr + m[:, None] * (trips * BK) + d[None, :])
        w = tl.load(w_ptr + n[None, :] + d[:, None] * BN)
        if CASE == "scaled sums":
            total = total * 0.5 + tl.dot(a, w.to(a.dtype))
        elif CASE == "carried":
            held = held ^ w
            total = tl.dot(a, held.to(a.dtype), total)
        elif CASE == "reduced":
            total = tl.dot(a, (w - tl.min(w, 0)[None, :]).to(a.dtype), total)
        elif CASE == "both":
            total = tl.dot(a * 2, w.to(a.dtype), total)
        elif CASE == "unlike rows":
            total = tl.dot(a, (w * tl.load(s_ptr + 3 * n + s)[None, :]).to(a.dtype), total)
        elif CASE == "from a dot":
            total = tl.dot(a, tl.dot(w.to(a.dtype), w.to(a.dtype)).to(a.dtype), total)
        elif CASE == "costly":
            total = tl.dot(a, tl.exp2(w.to(tl.float32)).to(a.dtype), total)
        elif CASE == "twice":
            total = tl.dot(a, (w + 1).to(a.dtype), tl.dot(a, w.to(a.dtype), total))
    tl.store(c_ptr + m[:, None] * BN + n[None, :], total)


CASES = ["scaled sums", "carried", "reduced", "both", "unlike rows", "from a dot", "costly", "twice"]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("block", [16, 64])
def test_others_are_as_they_were(check, case, block):
    """Sums that are used in between, and operands that are computed of something else."""
    for trips in (0, 1, 3):
        args = data("f2", block, max(64 * trips, 1)), data("i4", max(64 * trips, 1), 64), data("i4", 256)
        args = *args, np.zeros((block, 64), "f4"), trips, case, block, 64, 64
        check(other_uses, *args)
    found = starts(ttgir_of(other_uses, args))
    assert [rhs for _, rhs in found if rhs != "64x64"] == (["64x16"] if (case, block) == ("unlike rows", 16) else [])


@triton.jit
def two_sums(a_ptr, b_ptr, w_ptr, c_ptr, d_ptr, trips, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """One sum to turn and one that stays, of the same weights."""
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    one, two = tl.zeros((BM, BN), tl.float32), tl.zeros((BM, BN), tl.float32)
    for s in range(0, trips):
        d = s * BK + k
        a = tl.load(a_ptr + m[:, None] * (trips * BK) + d[None, :])
        b = tl.load(b_ptr + m[:, None] * (trips * BK) + d[None, :])
        w = tl.load(w_ptr + n[None, :] + d[:, None] * BN).to(a.dtype)
        one = tl.dot(a, w, one)
        two = tl.dot(b, w, two) * 0.5
    tl.store(c_ptr + m[:, None] * BN + n[None, :], one)
    tl.store(d_ptr + m[:, None] * BN + n[None, :], two)


@pytest.mark.parametrize("block", [16, 64])
def test_independent_accumulators(check, block):
    for trips in (0, 1, 4):
        k = max(64 * trips, 1)
        args = data("f2", block, k), data("f2", block, k), data("i1", k, 64)
        args = *args, *(np.zeros((block, 64), "f4") for _ in range(2)), trips, block, 64, 64
        check(two_sums, *args)


@triton.jit
def beside(a_ptr, w_ptr, scale_ptr, v_ptr, x_ptr, y_ptr, N, EACH: tl.constexpr, OTHER: tl.constexpr, M: tl.constexpr,
           BN: tl.constexpr, D: tl.constexpr):
    """A sum with weights that are computed, and another sum of any kind with the same lhs or one made of it."""
    m, j, d = tl.arange(0, M), tl.arange(0, BN), tl.arange(0, D)
    x = tl.zeros((M, D), tl.float32)
    y = tl.zeros((M, D), tl.float32)
    for s in range(0, N, BN):
        n = s + j
        a = tl.load(a_ptr + m[:, None] * N + n[None, :])
        scale = tl.load(scale_ptr + n, mask=n < N - 3, other=1.0)
        w = tl.load(w_ptr + (n[:, None] // EACH) * D + d[None, :]) + (n % EACH)[:, None]
        x = tl.dot(a, (w * scale[:, None]).to(tl.float16), x)
        v = tl.load(v_ptr + n[:, None] * D + d[None, :])
        if OTHER == 1:
            y = tl.dot(a, v, y)
        elif OTHER == 2:
            y = y * 0.5 + tl.dot(a, v)
        elif OTHER == 3:
            y = tl.dot((a.to(tl.float32) * scale[None, :]).to(tl.float16), v, y)
    tl.store(x_ptr + m[:, None] * D + d[None, :], x)
    tl.store(y_ptr + m[:, None] * D + d[None, :], y)


@pytest.mark.parametrize("other", [0, 1, 2, 3])
@pytest.mark.parametrize(("arch", "m", "warps"), [(90, 16, 4), (90, 64, 4), (90, 128, 8), (80, 32, 4)])
def test_computed_operands_beside_other_accumulators(check, arch, m, warps, other):
    block, d, each = 32, 64, 8
    for trips, dtype in ((1, "i4"), (2, "f4"), (5, "i4")):
        n = trips * block
        scale = np.exp2(rng.integers(-1, 2, n)).astype("f4")
        args = data("f2", m, n), data(dtype, n // each, d), scale, data("f2", n, d)
        args = *args, np.zeros((m, d), "f4"), np.zeros((m, d), "f4"), n, each, other, m, block, d
        check(beside, *args, arch=arch, warps=warps, tolerance=2e-3)


@triton.jit
def states(q_ptr, k_ptr, v_ptr, o_ptr, trips, KEYS_FIRST: tl.constexpr, B: tl.constexpr):
    """The sums of one iteration are the rhs of the next, and a tile is multiplied as it lies and turned."""
    r, c = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    state = tl.zeros((B, B), tl.float32)
    for i in range(trips):
        at = i * B * B + (c * B + r if KEYS_FIRST else r * B + c)
        q, v = tl.load(q_ptr + i * B * B + r * B + c), tl.load(v_ptr + i * B * B + r * B + c)
        k = tl.load(k_ptr + at)
        s = tl.where(r >= c, tl.dot(q, k), 0.0)
        o = tl.dot(s.to(q.dtype), v) + tl.dot(q, state.to(q.dtype))
        state += tl.dot(tl.trans(v), tl.trans(k)) * 0.125
        tl.store(o_ptr + i * B * B + r * B + c, o)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(("arch", "warps", "block"), [(90, 1, 32), (90, 2, 64), (90, 8, 64), (80, 2, 32), (75, 2, 32)])
@pytest.mark.parametrize("dtype", ["f2", bf16], ids=str)
def test_sums_that_are_operands(check, dtype, arch, warps, block, first):
    """Matrices go through shared memory whole, stored and loaded as they lie or turned."""
    if arch == 75 and dtype is bf16:
        pytest.skip("Turing has no MMA for bf16")
    args = [data(dtype, 2, block, block) for _ in range(3)]
    check(states, *args, np.zeros((2, block, block), "f4"), 2, first, block, arch=arch, warps=warps, stages=1)


@triton.jit
def gated(x_ptr, g_ptr, w_ptr, out_ptr, n, B: tl.constexpr, RIGHT: tl.constexpr):
    """An operand is multiplied by the exponential of a loaded gate."""
    r = tl.arange(0, B)
    total = tl.zeros((B, B), tl.float32)
    for t in range(n):
        at = (t * B + r)[:, None] * B + r[None, :]
        x, w, gate = tl.load(x_ptr + at), tl.load(w_ptr + at), tl.exp2(tl.load(g_ptr + at).to(tl.float32))
        if RIGHT:
            total += tl.dot(x, (w * gate).to(w.dtype))
        else:
            total += tl.dot((x * gate).to(x.dtype), w)
    tl.store(out_ptr + r[:, None] * B + r[None, :], total)


def of_gated(n, right, b=64):
    return *(data(ml_dtypes.bfloat16, n, b, b) for _ in range(3)), np.zeros((b, b), "f4"), n, b, right


@pytest.mark.parametrize("arch", [90, 80])
@pytest.mark.parametrize("right", [False, True])
def test_gates(check, right, arch):
    for n in (1, 4):
        check(gated, *of_gated(n, right), arch=arch, tolerance=1e-2)


@pytest.mark.parametrize("right", [False, True])
def test_gates_are_copied(right):
    text, _ = emulator.llvm_of(module_of(gated, of_gated(4, right))[0])
    assert "ld.global" not in text and "cp.async" in text


@triton.jit
def decaying(k_ptr, v_ptr, g_ptr, c_ptr, trips, DECAYS: tl.constexpr, RHS: tl.constexpr, BM: tl.constexpr,
          BN: tl.constexpr, BK: tl.constexpr):
    """A state that decays by a gate for each row, and an operand that decays to the end of its chunk."""
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    state = tl.zeros((BM, BN), tl.float32)
    for s in range(0, trips):
        at = (s * BK + k)[None, :] * BM + m[:, None]
        rows, columns = tl.load(k_ptr + at), tl.load(v_ptr + (s * BK + k)[:, None] * BN + n[None, :])
        gates, last = tl.load(g_ptr + at), tl.load(g_ptr + (s * BK + BK - 1) * BM + m)
        if DECAYS:
            state *= tl.exp2(last)[:, None]
        decayed = (rows * tl.exp2(last[:, None] - gates)).to(rows.dtype)
        state = tl.dot(columns.T, decayed.T, state.T).T if RHS else tl.dot(decayed, columns, state)
    tl.store(c_ptr + m[:, None] * BN + n[None, :], state)


def decaying_args(trips, decays, rhs=False, m=64, n=32, deep=64, dtype=bf16):
    steps = max(trips * deep, 1)
    gates = -rng.integers(0, 4, (steps, m)).astype("f4")
    return (data(dtype, steps, m), data(dtype, steps, n), gates, np.zeros((m, n), "f4"), trips, decays, rhs, m, n,
            deep)  # fmt: skip


@pytest.mark.parametrize("warps", [1, 2, 4])
@pytest.mark.parametrize("rhs", [False, True])
@pytest.mark.parametrize("arch", [80, 90])
def test_states_and_operands_decay(check, arch, rhs, warps):
    for trips, dtype in ((0, bf16), (1, "f2"), (3, bf16)):
        check(decaying, *decaying_args(trips, True, rhs, dtype=dtype), arch=arch, warps=warps, stages=2, tolerance=1e-2)


@pytest.mark.parametrize(("rhs", "decays"), [(False, False), (False, True), (True, False)])
def test_exponentials_are_computed_where_tensor_cores_read_them(rhs, decays):
    """From buffers, which can be read in any layout; a few rows of gates are computed by several lanes."""
    assert moves(ttgir_of(decaying, decaying_args(3, decays, rhs), warps=1)) == ["dot"]


def test_what_other_threads_would_compute_again_is_converted():
    """Several warps need the same columns of the right operand."""
    assert moves(ttgir_of(decaying, decaying_args(3, False, True), warps=4)) == ["convert", "dot"]
