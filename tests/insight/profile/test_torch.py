"""Kernels by name in torch's profiler, on the CPU."""

import pytest

import tritium as triton
import tritium.language as tl
from tritium import knobs
from tritium.runtime import torch_names

torch = pytest.importorskip("torch")
from torch.profiler import ProfilerActivity, profile, schedule  # noqa: E402


@triton.jit
def named(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


X = torch.ones(100)
OUT = torch.empty(100)


def counts(profiler):
    return {event.key: event.count for event in profiler.key_averages()}


def test_kernels_have_names_while_the_profiler_is_on():
    named[(2,)](X, OUT, 100, B=64)
    for _ in range(2):
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            for _ in range(3):
                named[(2,)](X, OUT, 100, B=64)
        assert counts(profiler)["named"] == 3
        assert not knobs.runtime.launch_enter_hook and not knobs.runtime.launch_exit_hook
    assert (OUT == 2).all()


def test_launches_go_the_fast_way_again_afterwards(monkeypatch):
    from tritium.runtime import dispatch

    with profile(activities=[ProfilerActivity.CPU]):
        named[(2,)](X, OUT, 100, B=64)
    named[(2,)](X, OUT, 100, B=64)
    seen, original = [], dispatch.launch
    monkeypatch.setattr(dispatch, "launch", lambda *args: seen.append(1) or original(*args))
    named[(2,)](X, OUT, 100, B=64)
    assert seen == []


def test_a_schedule_turns_names_on_and_off():
    named[(2,)](X, OUT, 100, B=64)
    with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=2)) as profiler:
        for _ in range(4):
            named[(2,)](X, OUT, 100, B=64)
            profiler.step()
    assert counts(profiler)["named"] == 2


def test_the_first_launch_may_come_while_it_is_on(monkeypatch):
    @triton.jit
    def late(x):
        tl.store(x, 1.0)

    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        late[(1,)](OUT)
        late[(1,)](OUT)
    assert counts(profiler)["late"] >= 1


def test_names_come_from_launch_metadata():
    @triton.jit(launch_metadata=lambda grid, metadata, args: {"name": "fill [n=7]"})
    def fill(x):
        tl.store(x, 1.0)

    fill[(1,)](OUT)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        fill[(1,)](OUT)
    assert counts(profiler)["fill [n=7]"] == 1


def test_a_torch_that_says_nothing_is_left_alone(monkeypatch):
    import sys
    from types import SimpleNamespace

    torch_names.follow_torch.cache_clear()
    monkeypatch.setitem(sys.modules, "torch.autograd.profiler", SimpleNamespace())
    assert torch_names.follow_torch() is False
    torch_names.follow_torch.cache_clear()
