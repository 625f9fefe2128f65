"""Atomic updates without atomic instructions while nobody else runs programs, with them as soon as somebody does."""

import os
import threading

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.cpu.kernels import check, floats
from tritium import ops
from tritium.interp.eager import launch
from tritium.ir import types as T

N, BINS = 512, 48


@triton.jit
def update(p, index, given, olds, n, HOW: tl.constexpr, PLACE: tl.constexpr, OLD: tl.constexpr, SEM: tl.constexpr,
           BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = None
    if PLACE == "listed":
        at = p + tl.load(index + i)
    elif PLACE == "rows":
        at = p + tl.load(index + i // 32) % 8 * 32 + i % 32
    elif PLACE == "chunks":
        at = p + i
    elif PLACE == "one":
        at = p + i * 0
    elif PLACE == "masked chunks":
        at, mask = p + i, i < n
    else:
        at, mask = p + tl.load(index + i), (i < n) & (i % 3 != 0)
    x = tl.load(given + i)
    if HOW == "add":
        old = tl.atomic_add(at, x, mask, sem=SEM)
    elif HOW == "max":
        old = tl.atomic_max(at, x, mask, sem=SEM)
    elif HOW == "min":
        old = tl.atomic_min(at, x, mask, sem=SEM)
    elif HOW == "xchg":
        old = tl.atomic_xchg(at, x, mask, sem=SEM)
    elif HOW == "and":
        old = tl.atomic_and(at, x, mask, sem=SEM)
    elif HOW == "or":
        old = tl.atomic_or(at, x, mask, sem=SEM)
    else:
        old = tl.atomic_xor(at, x, mask, sem=SEM)
    if OLD:
        tl.store(olds + i, old, mask)


PLACES = ["listed", "rows", "chunks", "one", "masked chunks", "masked list"]


def compare(how, dtype, place, old, n=411, programs=2, sem="relaxed"):
    rng = np.random.default_rng(0)
    index = rng.integers(0, BINS, N).astype(np.int32)
    start, given = (rng.integers(0, 100, N).astype(dtype) for _ in range(2))
    outcomes = []
    for run in (lambda *args, **options: launch(update, (programs,), args, options), update[(programs,)]):
        p, olds = start.copy(), np.zeros(N, dtype)
        run(p, index, given, olds, n, HOW=how, PLACE=place, OLD=old, SEM=sem, BLOCK=N // programs)
        outcomes.append((p, olds))
    for expected, found in zip(*outcomes):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("old", [False, True], ids=["no old values", "old values"])
@pytest.mark.parametrize("sem", ["relaxed", "acq_rel"])
def test_places(place, old, sem, rt):
    rt.set_num_threads(1)
    compare("add", np.float32, place, old, sem=sem)


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.float32, np.float64, np.float16], ids=str)
@pytest.mark.parametrize("how", ["add", "max", "min", "xchg", "and", "or", "xor"])
def test_operations(how, dtype, rt):
    if np.dtype(dtype).kind == "f" and how in ("and", "or", "xor") or dtype == np.float16 and how != "add":
        return  # the language has none
    rt.set_num_threads(1)
    for place in ("listed", "chunks"):
        compare(how, dtype, place, how != "add")


@pytest.mark.parametrize("name", ["bf16", "f16"])
def test_floats_of_sixteen_bits(name):
    t, block = T.SCALARS[name], 256

    def build(b, x, y, index):
        at = ops.addptr(b, b.full(x, (block,)), b.get(index, (block,)))
        ops.atomic(b, at, b.get(y, (block,)), how="add", sem="relaxed")

    rng = np.random.default_rng(0)
    if name == "bf16":
        args = [(floats(n).view(np.uint32) >> 16).astype(np.uint16) for n in (BINS, block)]
    else:
        args = [floats(n, dtype=np.float16) for n in (BINS, block)]
    text = check(build, [T.Ptr(t), T.Ptr(t), T.Ptr(T.i32)], [*args, rng.integers(0, BINS, block).astype(np.int32)])
    assert "@tt.alone" in text


@triton.jit
def add_one(p, index, SEM: tl.constexpr, SCOPE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(p + tl.load(index + i), 1, sem=SEM, scope=SCOPE)


@pytest.mark.parametrize("sem, scope, plain", [("relaxed", "gpu", True), ("relaxed", "cta", True),
                                               ("acq_rel", "gpu", True), ("acq_rel", "sys", False)])  # fmt: skip
def test_not_where_other_processes_look(sem, scope, plain):
    p, index = np.zeros(1, np.int32), np.zeros(64, np.int32)
    kernel = add_one[(1,)](p, index, SEM=sem, SCOPE=scope, BLOCK=64)
    assert p[0] == 64 and ("@tt.alone" in kernel.asm["llir"]) == plain


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_launches_at_once(threads, rt):
    """Launches from several Python threads, each of them alone for a while, on the same elements."""
    rt.set_num_threads(threads)
    p, index = np.zeros(4, np.int32), (np.arange(1 << 20) % 4).astype(np.int32)
    rounds, users, failures = 8, 4, []

    def work():
        try:
            for _ in range(rounds):
                add_one[(2048,)](p, index, SEM="relaxed", SCOPE="gpu", BLOCK=512)
        except Exception as error:
            failures.append(error)
    crowd = [threading.Thread(target=work) for _ in range(users)]
    for t in crowd:
        t.start()
    for t in crowd:
        t.join()
    assert not failures
    assert p.tolist() == [rounds * users * (1 << 18)] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_after_a_fork(rt):
    """The child begins with no launch that runs, and counts right."""
    rt.set_num_threads(1)
    p, index = np.zeros(1, np.int32), np.zeros(512, np.int32)
    add_one[(1,)](p, index, SEM="relaxed", SCOPE="gpu", BLOCK=512)
    child = os.fork()
    if not child:
        add_one[(1,)](p, index, SEM="relaxed", SCOPE="gpu", BLOCK=512)
        os._exit(0 if p[0] == 1024 else 1)
    assert os.waitpid(child, 0)[1] == 0
