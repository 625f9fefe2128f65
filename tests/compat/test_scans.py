"""Scans along either axis, forwards and back, short and long, of sums and of pairs."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl

pytestmark = pytest.mark.sampled


@triton.jit
def line(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def scans(x, out, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.load(x + at)
    tl.store(out + at, tl.cumsum(v, AXIS, reverse=REVERSE))
    _, b = tl.associative_scan((v * 0 + 2, v), AXIS, line, REVERSE)
    tl.store(out + M * N + at, b)
    tl.store(out + 2 * M * N + at, tl.associative_scan(v, AXIS, tl.standard._elementwise_max, reverse=REVERSE))


@pytest.mark.parametrize("m, n", [(4, 1024), (2048, 2), (16, 32), (1, 1), (512, 1)])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans(engine, m, n, axis, reverse):
    x, out = np.random.default_rng(0).integers(-9, 9, (m, n)).astype(np.int32), np.zeros((3, m, n), np.int32)
    engine(scans, [x, out, m, n, axis, reverse])
    turn = (lambda v: np.flip(v, axis)) if reverse else (lambda v: v)
    start = turn(x)
    doubled, rows = np.zeros_like(x), np.moveaxis(start, axis, 0)
    total = np.zeros_like(rows[0])
    for row, place in zip(rows, np.moveaxis(doubled, axis, 0)):
        total = total * np.int32(2) + row
        place[...] = total
    want = [np.cumsum(start, axis), doubled, np.maximum.accumulate(start, axis)]
    np.testing.assert_array_equal(out, [turn(w) for w in want])
