"""Functions marked noinline: called in loops, branches and each other, with tuples, aggregates, atomics and prints."""

import re
from typing import NamedTuple

import numpy as np
import pytest
import torch

import tritium as triton
import tritium.language as tl
from tritium import knobs
from tritium.frontend import lower
from tritium.interp.machine import AccessError, interpret


@triton.jit(noinline=True)
def search(x, n, wanted):
    """Early returns from inside a loop."""
    if n == 0:
        return -1
    for i in range(n):
        if tl.load(x + i) == wanted:
            return i
    return n


@triton.jit(noinline=True)
def counted(counter, x, n, wanted):
    tl.atomic_add(counter, 1)
    return search(x, n, wanted) + 100 * tl.program_id(0) + 1000 * tl.num_programs(0)


@triton.jit
def early(x, out, counter, n):
    pid = tl.program_id(0)
    if pid == 2:
        tl.store(out + pid, search(x, 0, 7))
        return
    total = 0
    for k in range(2):
        total += counted(counter, x, n, pid + k)
    tl.store(out + pid, total)


def test_early_returns_loops_and_ids(engine):
    x = np.array([3, 1, 0, 2], np.int32)
    out, counter = np.zeros(3, np.int32), np.zeros(1, np.int32)
    engine(early, [x, out, counter, 4], (3,))
    assert out.tolist() == [6000 + 2 + 1, 6200 + 1 + 3, -1]
    assert counter.tolist() == [4]


class Pair(NamedTuple):
    first: object
    rest: object


@tl.core._aggregate
class Window:
    start: tl.tensor
    size: tl.constexpr

    def __init__(self, start, size):
        self.start = start
        self.size = tl.constexpr(size)

    @triton.jit(noinline=True)
    def moved(self, by):
        return Window(self.start + by * self.size, self.size)


@triton.jit(noinline=True)
def shuffled(p, t, KIND: tl.constexpr, w):
    return Pair(t[1], (t[0] + p.first, p.rest.to(KIND))), Window(w.start + 1, w.size * 2)


@triton.jit
def composite(out, a, b):
    q, w = shuffled(Pair(a, b), (a * 2, b * 3), tl.float32, Window(a, 4))
    tl.static_assert(w.size == 8)
    tl.static_assert(q.rest[1].dtype == tl.float32)
    w = w.moved(2)
    tl.store(out, q.first)
    tl.store(out + 1, q.rest[0])
    tl.store(out + 2, q.rest[1] / 2)
    tl.store(out + 3, w.start)


def test_tuples_and_aggregates(engine):
    out = np.zeros(4, np.float32)
    engine(composite, [out, 5, 7], (1,))
    assert out.tolist() == [21, 15, 3.5, 22]


@triton.jit(noinline=True)
def row_sum(x, N: tl.constexpr):
    return tl.sum(tl.load(x + tl.arange(0, N)).to(tl.float32), 0)


@triton.jit(noinline=True)
def normalised(x, N: tl.constexpr):
    return tl.load(x + tl.arange(0, N)) / row_sum(x, N)


@triton.jit
def rows(x, out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    kept = tl.sort(tl.load(x + i), 0)
    total = 0.0
    for row in range(n):
        total += row_sum(x + row * N, N)
    tl.store(out + i, normalised(x, N) + kept + total)


def test_tiles_inside_and_as_results(engine):
    x, out = np.random.default_rng(0).random((4, 32), np.float32), np.zeros(32, np.float32)
    engine(rows, [x, out, 4, 32], (1,))
    np.testing.assert_allclose(out, x[0] / x[0].sum() + np.sort(x[0]) + x.sum(), rtol=1e-5)


@triton.jit(noinline=True)
def running(p, q, n, N: tl.constexpr):
    """Scratch memory of its own, in several calls one after the other."""
    i = tl.arange(0, N)
    v = tl.load(p + i, mask=i < n, other=0)
    s = tl.cumsum(v, 0)
    tl.store(q + i, tl.flip(s, 0), mask=i < n)
    h = tl.histogram(v & 7, 8)
    return tl.sum(s, 0), tl.max(v, 0), tl.sum(tl.gather(h, tl.arange(0, 8) ^ 1, 0) * tl.arange(0, 8), 0)


@triton.jit
def several_runs(p, q, out, n):
    for r in range(3):
        total, top, weighted = running(p, q, n - r * 50, 256)
        tl.store(out + r * 3, total)
        tl.store(out + r * 3 + 1, top)
        tl.store(out + r * 3 + 2, weighted)
    if n > 100:
        total, top, weighted = running(p + 1, q + 100, 100, 128)
        tl.store(out + 9, total + top + weighted)


SEVERAL = [np.random.default_rng(1).integers(0, 50, 256, dtype=np.int32), np.zeros(256, np.int32),
           np.zeros(10, np.int32), 200]


def test_scratch_of_functions(engine):
    p, q, out, n = (x.copy() if isinstance(x, np.ndarray) else x for x in SEVERAL)
    engine(several_runs, [p, q, out, n], (1,))
    wanted = []
    for first, count in ((0, 200), (0, 150), (0, 100), (1, 100)):
        v = np.zeros(128 if first else 256, np.int64)
        v[:count] = p[first:first + count]
        h = np.bincount(v & 7, minlength=8)
        wanted.append((np.cumsum(v).sum(), v.max(), (h[np.arange(8) ^ 1] * np.arange(8)).sum()))
    assert out.tolist() == [*wanted[0], *wanted[1], *wanted[2], sum(wanted[3])]


@triton.jit(noinline=True)
def product(a, b, c, n, N: tl.constexpr):
    i = tl.arange(0, N)
    total = tl.zeros((N, N), tl.float32)
    for k in range(0, n, N):
        inner = k + i
        x = tl.load(a + i[:, None] * n + inner[None, :], mask=inner[None, :] < n, other=0.0)
        y = tl.load(b + inner[:, None] * N + i[None, :], mask=inner[:, None] < n, other=0.0)
        total = tl.dot(x, y, total, input_precision="ieee")
    tl.store(c + i[:, None] * N + i[None, :], total, mask=i[:, None] < N - 1)
    return tl.sum(tl.sum(total, 0), 0)


@triton.jit
def products(a, b, c, out, n):
    """Dots in the kernel and in functions, which share what they are made of."""
    i = tl.arange(0, 16)
    x = tl.load(b + i[:, None] * 16 + i[None, :], mask=i[:, None] < 13, other=0.0)
    tl.store(out, product(a, b, c, n, 16) + tl.sum(tl.sum(tl.dot(x, x, input_precision="ieee"), 0), 0))
    tl.store(out + 1, product(b, a, c + 256, 16, 16))


def test_dots_in_functions(engine):
    a, b = (np.random.default_rng(k).integers(0, 5, shape).astype(np.float32)
            for k, shape in enumerate([(16, 24), (24, 16)]))
    c, out = np.zeros((2, 16, 16), np.float32), np.zeros(2, np.float32)
    engine(products, [a, b, c, out, 24], (1,))
    x = np.where(np.arange(16)[:, None] < 13, b[:16], 0)
    second = b.reshape(-1)[:256].reshape(16, 16) @ a.reshape(-1)[:256].reshape(16, 16)
    assert out.tolist() == [(a @ b).sum() + (x @ x).sum(), second.sum()]
    np.testing.assert_array_equal(c[:, :15], [(a @ b)[:15], second[:15]])
    assert not c[:, 15].any()


@triton.jit(noinline=True)
def chosen(p, q, first):
    r = p if first else q
    return r + 1, r.to(tl.int64) == p.to(tl.int64)


@triton.jit
def pointers(p, q):
    for k in range(2):
        r, is_first = chosen(p, q, k == 1)
        tl.store(r, 5.0 + is_first.to(tl.float32))


def test_pointers_as_results(engine):
    p, q = np.zeros(2, np.float32), np.zeros(2, np.float32)
    engine(pointers, [p, q], (1,))
    assert p.tolist() == [0, 6] and q.tolist() == [0, 5]


@triton.jit(noinline=True)
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def combined(x, out, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    tl.store(out, tl.reduce(v, 0, larger))
    tl.store(out + 1 + tl.arange(0, N), tl.associative_scan(v, 0, larger))


def test_as_combine_functions(engine):
    x, out = np.array([1, 5, 2, 7, 3, 0, 9, 4], np.int32), np.zeros(9, np.int32)
    engine(combined, [x, out, 8], (1,))
    assert out.tolist() == [9, 1, 5, 5, 7, 7, 7, 9, 9]


@triton.jit(noinline=True)
def checked(x, limit):
    tl.device_assert(x < limit, "too large")
    return x + 1


@triton.jit(noinline=True)
def checked_twice(x, limit):
    return checked(checked(x, limit), limit), x


@triton.jit
def asserting(out, n):
    x, y = checked_twice(n, 5)
    tl.store(out, x + y)


def test_assertions_stop_the_callers(monkeypatch):
    out = torch.zeros(1, dtype=torch.int32)
    asserting[(1,)](out, 3, debug=True)
    assert out.item() == 8
    with pytest.raises(RuntimeError, match="too large"):
        asserting[(1,)](out, 4, debug=True)
    assert out.item() == 8, "the program went on after its assertion failed"


@triton.jit(noinline=True)
def says(x, i):
    tl.device_print("got", x * i)


@triton.jit
def printing(n):
    for i in range(2):
        says(n, i)
    says(1.5, 2)


def test_prints(capfd, monkeypatch):
    monkeypatch.setattr(knobs, "backend", "cpu")  # no argument says on which device to run
    printing[(1,)](3)
    assert capfd.readouterr().out.splitlines() == [
        f"pid (0, 0, 0) idx () got: {x}" for x in ("0", "3", "3.000000")]


def test_compiled_from_its_text(tmp_path, monkeypatch):
    monkeypatch.setattr(knobs, "backend", "cpu")
    out = torch.zeros(4)
    first = composite[(1,)](out, 5, 7)
    path = tmp_path / "composite.ttir"
    path.write_text(first.asm["ttir"])
    again = triton.compile(str(path))
    code = lambda kernel: re.sub(r"(?m)^@str.*", "", kernel.asm["llir"])  # a text of tile IR does not tell lines
    assert code(again) == code(first)


@triton.jit(noinline=True)
def beyond(x, n):
    return tl.load(x + n)


@triton.jit
def reads_beyond(x):
    tl.store(x, beyond(x, 1000))


def test_accesses_out_of_bounds_name_the_calls():
    module = lower(reads_beyond, {"x": "*fp32"})
    with pytest.raises(AccessError) as caught:
        interpret(module, [np.zeros(4, np.float32)])
    lines = [line.partition(":")[2] for line in str(caught.value).splitlines() if "-->" in line]
    first = beyond.fn.__code__.co_firstlineno
    assert [int(line.split(":")[0]) - first for line in lines] == [2, 7]
    assert "note: called from here" in str(caught.value)


def test_what_is_compiled():
    out = torch.zeros(3, dtype=torch.int32)
    x, counter = torch.tensor([3, 1, 0, 2], dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    asm = early[(3,)](x, out, counter, 4).asm
    assert asm["ttir"].count("function @search__ptr_i32_i32(") == 1
    assert asm["ttir"].count("function @") == 2, "where n is the constant 0 the result is known"
    assert len(re.findall(r"call i32 @fn\d.search__", asm["llir"])) == 1
    assert "noinline" in asm["llir"]
