"""Kernels launched first by several threads at once, as backward passes and data loaders do."""

import sys
import threading
import time

import pytest
import torch

import tritium as triton
import tritium.language as tl
from tests.compat.conftest import HOST_ONLY
from tritium.runtime import choices

THREADS = 8


@pytest.fixture
def at_once():
    """`at_once(work)`: `work(i)` on eight threads that change over as often as they can; raises what they raised."""
    def go(work):
        errors, start = [], threading.Barrier(THREADS)

        def enter(i):
            start.wait()
            try:
                work(i)
            except Exception as error:
                errors.append(error)

        workers = [threading.Thread(target=enter, args=(i,)) for i in range(THREADS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        for error in errors:
            raise error

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield go
    sys.setswitchinterval(before)


def test_a_new_kernel(at_once):
    for _ in range(5):  # the race is for a kernel that nobody has looked at
        @triton.jit
        def inner(x):
            return tl.sum(x, 0)

        @triton.jit
        def kernel(x, out, N: tl.constexpr):
            tl.store(out, inner(tl.load(x + tl.arange(0, N))))

        x, out = torch.arange(16.0), torch.zeros(THREADS)
        at_once(lambda i, kernel=kernel, x=x, out=out: kernel[(1,)](x, out[i:], N=8 if i % 2 else 16))
        assert out.tolist() == [120.0, 28.0] * (THREADS // 2)
        assert len(kernel.device_caches) == 1


def test_a_tuner(at_once):
    """Every thread is tuned with its own arguments, one after the other."""
    running = []

    def bench(fn, quantiles):
        running.append(1)
        assert len(running) == 1, "two measurements at a time"
        fn()
        running.pop()
        return [1.0, 1.0, 1.0]

    @triton.autotune([triton.Config({"N": 8}), triton.Config({"N": 16})], key=["n"], do_bench=bench,
                     reset_to_zero=["out"])
    @triton.jit
    def kernel(out, n, N: tl.constexpr):
        tl.atomic_add(out + tl.arange(0, N), n)

    outs = torch.zeros(THREADS, 16)
    at_once(lambda i: kernel[(1,)](outs[i], i + 2))
    assert outs[:, 0].tolist() == [i + 2.0 for i in range(THREADS)]
    assert len(kernel.cache) == THREADS and kernel.nargs is None


@HOST_ONLY  # which share one memory: copies of it on a GPU would not
def test_a_shared_counter(run, at_once):
    @triton.jit
    def kernel(counter):
        tl.atomic_add(counter, 1)

    counter = torch.zeros(1, dtype=torch.int32)
    at_once(lambda i: run(kernel, (20,), counter))
    assert counter.item() == THREADS * 20


def test_choices_of_threads_that_note_at_once(at_once, monkeypatch):
    """A thread that finds another at work on the functions for its form waits for them, and no choice is lost."""
    made = choices._functions

    def slowly(*args):
        time.sleep(0.01)
        return made(*args)

    monkeypatch.setattr(choices, "_functions", slowly)
    noted = choices.Choices(["x", "n"])
    at_once(lambda i: noted.note((torch.zeros(1), i), {}, ["n"], i))
    assert [noted.finders[2]((torch.zeros(1), i), {}) for i in range(THREADS)] == list(range(THREADS))
