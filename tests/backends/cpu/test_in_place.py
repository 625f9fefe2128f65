"""Kernels that write to what they have loaded: a block is loaded as a whole before any of it is stored."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl

rng = np.random.default_rng(0)
N = 256  # several chunks


@triton.jit
def move(p, step, first, shift, n, N: tl.constexpr, HOW: tl.constexpr):
    i = tl.arange(0, N)
    if HOW == "reversed":
        tl.store(p + N - 1 - i, tl.load(p + i))
    elif HOW == "shifted":
        tl.store(p + i + shift, tl.load(p + i, mask=i < n), mask=i < n)
    elif HOW == "strided":
        tl.store(p + (first + step * i) % N, tl.load(p + i))
    elif HOW == "flipped":
        tl.store(p + i, tl.flip(tl.load(p + i), 0))
    elif HOW == "reshaped":
        x = tl.load(p + i).reshape(N // 4, 4)
        tl.store(p + i, tl.trans(x).reshape(N))
    elif HOW == "negated":
        tl.store(p + i, -tl.load(p + i))
    else:
        q = (p.to(tl.int64) + 4).to(tl.pointer_type(p.dtype.element_ty))
        tl.store(q + i, tl.load(p + i, mask=i < N - 1), mask=i < N - 1)


def moved(x, step, first, shift, n, how):
    """The same in NumPy; `x` is longer than what the kernel moves."""
    out, block = x.copy(), x[:N]
    if how in ("reversed", "flipped"):
        out[:N] = block[::-1]
    elif how == "shifted":
        out[shift:shift + n] = block[:n]
    elif how == "strided":
        out[(first + step * np.arange(N)) % N] = block
    elif how == "reshaped":
        out[:N] = block.reshape(N // 4, 4).T.reshape(-1)
    elif how == "negated":
        out[:N] = -block
    else:
        out[1:N] = block[:-1]
    return out


@pytest.mark.parametrize("how", ["reversed", "shifted", "strided", "flipped", "reshaped", "negated", "cast"])
@pytest.mark.parametrize("dtype", ["float32", "int8", "float64"])
def test_moves(how, dtype):
    if how == "cast" and dtype != "float32":
        pytest.skip("the kernel counts bytes of float32")
    x = rng.integers(-100, 100, 2 * N).astype(dtype)
    expected = moved(x, 5, 3, 1, 200, how)
    move[(1,)](x, 5, 3, 1, 200, N=N, HOW=how)
    np.testing.assert_array_equal(x, expected)


@triton.jit
def permute(p, q, N: tl.constexpr, STORE: tl.constexpr):
    i = tl.arange(0, N)
    to = tl.load(q + i)
    if STORE:
        tl.store(p + to, tl.load(p + i))
    else:
        tl.store(p + i, tl.load(p + to))


@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "int32", "int64"])
def test_random_permutations(store, dtype):
    order = rng.permutation(N).astype(np.int32)
    x = np.arange(N).astype(dtype)
    expected = x.copy()
    if store:
        expected[order] = x
    else:
        expected[:] = x[order]
    permute[(1,)](x, order, N=N, STORE=store)
    np.testing.assert_array_equal(x, expected)


@triton.jit
def transpose(p, rows, columns, N: tl.constexpr, HOW: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    if HOW == "pointers":
        tl.store(p + j * N + i, tl.load(p + i * N + j))
    elif HOW == "values":
        tl.store(p + i * N + j, tl.trans(tl.load(p + i * N + j)))
    elif HOW == "masked":
        inside = (i < rows) & (j < columns)
        x = tl.load(p + i * N + j, mask=inside, other=7)
        tl.store(p + j * N + i, x, mask=inside)
    else:  # every row becomes the first
        tl.store(p + i * N + j, tl.load(p + 0 * i + j).broadcast_to(N, N) + tl.load(p + i * N + j))


@pytest.mark.parametrize("how", ["pointers", "values", "masked", "rows"])
@pytest.mark.parametrize("n", [16, 64])
def test_squares(how, n):
    x = rng.integers(0, 1000, (n, n)).astype(np.float32)
    if how == "masked":
        expected = x.copy()
        expected[:n - 3, :n // 2] = x[:n // 2, :n - 3].T
    else:
        expected = x + x[0] if how == "rows" else x.T.copy()
    transpose[(1,)](x, n // 2, n - 3, N=n, HOW=how)
    np.testing.assert_array_equal(x, expected)


@triton.jit
def count(p, out, N: tl.constexpr, HOW: tl.constexpr):
    i = tl.arange(0, N)
    if HOW == "indices":  # of the array that is counted up
        tl.atomic_add(p + tl.load(p + i), 1)
    elif HOW == "old":
        tl.store(out + i, tl.atomic_add(p + tl.load(p + i), 1) * 0 + tl.load(p + i))
    elif HOW == "own":
        tl.atomic_add(p + i, tl.load(p + i))
    elif HOW == "cas":
        tl.atomic_cas(p + tl.load(p + i), i * 0, i * 0 + 1)
    else:  # several positions of the tile are one element of the array
        tl.store(p + i // 2, tl.load(p + i // 2) + 1)


@pytest.mark.parametrize("how", ["indices", "old", "own", "cas", "repeated"])
def test_counts(how):
    x = rng.integers(0, N, N).astype(np.int32)
    out, expected = np.zeros(N, np.int32), x.copy()
    if how in ("indices", "old"):
        np.add.at(expected, x, 1)
    elif how == "own":
        expected *= 2
    elif how == "cas":
        expected[x[x[x] == 0]] = 1
    else:
        expected[:N // 2] += 1
    count[(1,)](x, out, N=N, HOW=how)
    np.testing.assert_array_equal(x, expected)
    if how == "old":
        np.testing.assert_array_equal(out, expected)


@triton.jit
def both(a, b, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(a + N - 1 - i)
    tl.store(b + i, x)
    tl.store(a + i, i.to(tl.float32))  # may not join the loop of the store before it


@triton.jit
def walk(p, n, N: tl.constexpr):
    q = p
    for _ in range(n):
        x = tl.load(q + tl.arange(0, N))
        tl.store(p + 1 + tl.arange(0, N), x)  # through another name of the same array
        q += N


@triton.jit
def neighbours(p, n, N: tl.constexpr):
    i = tl.arange(0, N)
    left = tl.load(p + i - 1, mask=i > 0, other=0)
    right = tl.load(p + i + 1, mask=i < n - 1, other=0)
    tl.store(p + i, left + right, mask=i < n)


def test_two_stores():
    a, b = rng.standard_normal(N).astype(np.float32), np.empty(N, np.float32)
    expected = a[::-1].copy()
    both[(1,)](a, b, N=N)
    np.testing.assert_array_equal(b, expected)
    np.testing.assert_array_equal(a, np.arange(N))


def test_pointers_carried_by_a_loop():
    x = np.arange(4 * N, dtype=np.float32)
    expected = x.copy()
    for k in range(3):
        expected[1:N + 1] = expected[k * N:(k + 1) * N].copy()
    walk[(1,)](x, 3, N=N)
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("n", [N, 100])
def test_neighbours(n):
    x = rng.integers(0, 100, N).astype(np.int32)
    expected = x.copy()
    padded = np.concatenate([[0], x[:n], [0]])
    expected[:n] = padded[:-2] + padded[2:]
    neighbours[(1,)](x, n, N=N)
    np.testing.assert_array_equal(x, expected)


@triton.jit
def gather_pointers(table, N: tl.constexpr):
    i = tl.arange(0, N)
    where = tl.load(table + i).to(tl.pointer_type(tl.int64))
    x = tl.load(where)
    tl.store(table + N - 1 - i, x)  # the table may hold pointers to itself


def test_loaded_pointers():
    table = np.empty(N, np.int64)
    order = rng.permutation(N)
    table[:] = table.ctypes.data + 8 * order
    expected = table[order][::-1].copy()
    gather_pointers[(1,)](table, N=N)
    np.testing.assert_array_equal(table, expected)


def test_own_elements_stay_in_one_loop():
    """x[i] = f(x[i]) needs no scratch memory."""
    x = np.zeros(N, np.float32)
    compiled = move[(1,)](x, 5, 3, 1, 200, N=N, HOW="negated")
    assert compiled.metadata.arena_bytes == 0
    assert move[(1,)](x, 5, 3, 1, 200, N=N, HOW="reversed").metadata.arena_bytes > 0


@triton.jit
def masked_twice(p, q, r, N: tl.constexpr, HOW: tl.constexpr):
    """Two stores under one mask: the first changes what it was computed from, the second has loops of its own."""
    i = tl.arange(0, N)
    x = tl.load(p + i)
    if HOW == "and":
        m = (x > 1) & (x < 50) & (x != 7) & (x * x != 400)
        tl.store(p + i, x * 0, mask=m)
        tl.debug_barrier()
        tl.store(q + i, tl.load(r + N - 1 - i), mask=m)
    elif HOW == "bound":
        m = i[None, :] < x[:, None]
        tl.store(p + i, x * 0)
        tl.debug_barrier()
        tl.store(q + i[:, None] * N + i[None, :], i[:, None] + i[None, :], mask=m)
        tl.store(p + i[:, None] + i[None, :] * 0, -x[:, None] + i[None, :] * 0, mask=m)
        tl.debug_barrier()
        tl.store(q + i[:, None] * N + N - 1 - i[None, :], i[:, None] - i[None, :], mask=m)
    elif HOW == "clamp":
        y = x.to(tl.float32) * 0.5
        small = y < 9.0
        tl.store(p + i, tl.where(small, 9.0, y).to(tl.int32))
        tl.debug_barrier()
        tl.store(q + N - 1 - i, tl.load(r + i), mask=small)
    else:
        old = tl.atomic_cas(p + i, x * 0 + 5, x * 0 - 1)
        m = (x >= 0) & ((old == 5) | (old == 8))
        tl.store(q + i, x, mask=m)
        tl.store(q + N + i, tl.where(m.to(tl.int32) == 0, i, -i))
        tl.debug_barrier()
        tl.store(q + 2 * N + i, tl.load(r + N - 1 - i), mask=m)


@pytest.mark.parametrize("how", ["and", "bound", "clamp", "atomic"])
def test_a_mask_of_what_a_store_changes(how):
    n = 64
    x, r = rng.integers(0, n, n).astype(np.int32), np.arange(n, dtype=np.int32)
    p, q = x.copy(), np.full((n, n), -7, np.int32)
    masked_twice[(1,)](p, q, r, N=n, HOW=how)
    out, wanted = np.full((n, n), -7, np.int32), x.copy()
    i = np.arange(n)
    if how == "and":
        m = (x > 1) & (x < 50) & (x != 7) & (x != 20)
        wanted[m] = 0
        out[0, m] = r[::-1][m]
    elif how == "bound":
        m = i[None, :] < x[:, None]
        wanted = np.where(x > 0, -x, 0)
        out[m] = (i[:, None] + i[None, :])[m]
        out[:, ::-1][m] = (i[:, None] - i[None, :])[m]
    elif how == "clamp":
        wanted = np.maximum(9, x * 0.5).astype(np.int32)
        out[0, ::-1][x * 0.5 < 9] = r[x * 0.5 < 9]
    else:
        wanted[x == 5] = -1
        m = (x == 5) | (x == 8)
        out[0, m], out[1], out[2, m] = x[m], np.where(m, -i, i), r[::-1][m]
    np.testing.assert_array_equal(p, wanted)
    np.testing.assert_array_equal(q, out)


@triton.jit
def differences(p, out, last, n, N: tl.constexpr, FLIP: tl.constexpr):
    i = tl.arange(0, N)
    new = tl.load(p + i)
    total = tl.zeros_like(new)
    for k in range(1, n):
        old = new
        new = tl.load(p + k * N + i)
        total += new - (tl.flip(old, 0) if FLIP else old)
        total = tl.where(new > 0, total, 0.0)
        tl.store(out + (k - 1) * N + i, total)
    tl.store(last + i, total)


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("size", [16, N])
def test_next_element_of_a_loop_is_stored_after_the_old_one_is_read(size, flip):
    """Nothing that becomes the next `new` reads `old`, but the sum does, and the same loops compute both."""
    x = rng.standard_normal((5, size)).astype(np.float32)
    out, last, total = np.zeros((4, size), np.float32), np.zeros(size, np.float32), 0.0
    differences[(1,)](x, out, last, 5, N=size, FLIP=flip)
    for old, new, found in zip(x, x[1:], out, strict=False):
        total = np.where(new > 0, total + (new - (old[::-1] if flip else old)), 0.0)
        np.testing.assert_allclose(found, total, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(last, out[-1])
