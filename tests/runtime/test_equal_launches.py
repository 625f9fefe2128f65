"""Configurations whose launches are the same on a CPU: one of them is compiled and timed."""

import itertools

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium import knobs
from tritium.backends import get
from tritium.runtime.autotuner import Autotuner, Config, autotune


@pytest.fixture(autouse=True)
def on_the_host(monkeypatch, tmp_path):
    monkeypatch.setattr(knobs, "backend", "cpu")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TRITIUM_CACHE_DIR", raising=False)


@pytest.fixture
def tried(monkeypatch):
    """(block, warps, stages) of the configurations that are timed, at least once each."""
    seen, bench = {}, Autotuner._bench

    def noted(self, *args, config, **kwargs):
        seen[config.kwargs["BLOCK"], config.num_warps, config.num_stages] = None
        return bench(self, *args, config=config, **kwargs)

    monkeypatch.setattr(Autotuner.__mro__[1], "_bench", noted)
    monkeypatch.setattr(Autotuner, "_is_derived", lambda self: False)
    return seen


@pytest.fixture
def compiled(monkeypatch):
    """The options of the kernels that are compiled."""
    seen = []
    monkeypatch.setattr(knobs.compilation, "listener", lambda metadata, cache_hit, **_: seen.append(
        (metadata["num_warps"], metadata["num_stages"])))
    return seen


CONFIGS = [(block, warps, stages) for block in (16, 64) for warps in (2, 4, 8) for stages in (1, 3)]
BLOCKS = lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)


def launch(kernel, grid=BLOCKS, configs=CONFIGS, hooks=(), n=100, **options):
    """Tune a kernel that doubles its argument, and launch it."""
    made = [Config({"BLOCK": block}, num_warps=warps, num_stages=stages) for block, warps, stages in configs]
    for config, hook in zip(made, hooks):
        config.pre_hook = hook
    t = autotune(made, key=["n"], restore_value=["x"], **options)(kernel)
    x = np.ones(n, np.float32)
    t[grid](x, n)
    assert (x == 2).all()
    assert list(t.configs_timings) == made
    return t


def new_kernel():
    @triton.jit
    def double(x, n, BLOCK: tl.constexpr):
        for start in tl.range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
            i = start + tl.arange(0, BLOCK)
            tl.store(x + i, tl.load(x + i, i < n) * 2, i < n)

    return double


def test_one_of_those_with_the_same_code_is_compiled_and_timed(tried, compiled):
    kernel = new_kernel()
    t = launch(kernel)
    assert list(tried) == [(16, 2, 1), (64, 2, 1)] and compiled == [(2, 1)] * 2
    assert len({tuple(times) for times in t.configs_timings.values()}) == 2
    assert (t.best_config.num_warps, t.best_config.num_stages) == (2, 1)
    x = np.ones(100, np.float32)
    kernel[(1,)](x, 100, BLOCK=16, num_warps=8)  # those that were not compiled are when somebody asks for them
    assert (x == 2).all() and compiled[2:] == [(8, 3)]


def test_kernels_from_the_disk_are_known(tried, compiled):
    launch(new_kernel())
    compiled.clear(), tried.clear()
    launch(new_kernel(), n=101)
    assert list(tried) == [(16, 2, 1), (64, 2, 1)] and not compiled


def test_other_grids(tried):
    count = itertools.count(1)
    launch(new_kernel(), lambda meta: (next(count),), CONFIGS[:2])
    assert len(tried) == 2


def test_kernels_that_ask_for_their_warps(tried):
    @triton.jit
    def double(x, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(x + i, tl.load(x + i, i < n) * 2, (i < n) & (i < 64 * tl.extra.cuda.num_warps()))

    launch(double, (1,), [(128, warps, 1) for warps in (2, 4)])
    assert len(tried) == 2


def test_a_parameter_of_that_name(tried):
    @triton.jit
    def double(x, n, BLOCK: tl.constexpr, num_warps: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(x + i, tl.load(x + i, i < n) * 2, (i < n) & (i < 64 * num_warps))

    launch(double, (1,), [(128, warps, 1) for warps in (2, 4)])
    assert len(tried) == 2


def test_hooks_and_clocks_of_the_user(tried):
    calls = []
    hooks = [lambda args, k=k: calls.append(k) for k in range(2)]
    launch(new_kernel(), configs=CONFIGS[:2], hooks=hooks)
    assert len(tried) == 2 and {*calls} == {0, 1}
    timed = []
    launch(new_kernel(), configs=CONFIGS[:2], do_bench=lambda fn, quantiles: timed.append(fn()) or [1.0] * 3)
    assert len(timed) == 2


def test_heuristics_that_depend_on_warps(tried):
    @triton.heuristics({"SHARE": lambda args: args["num_warps"]})
    @triton.jit
    def double(x, n, BLOCK: tl.constexpr, SHARE: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(x + i, tl.load(x + i, i < n) * 2, (i < n) & (i < 64 * SHARE))

    launch(double, (1,), [(128, warps, stages) for warps in (2, 4) for stages in (1, 2)])
    assert len(tried) == 2


def test_code_for_cpus_does_not_depend_on_what_is_ignored():
    from tritium.kernels.matmul import grouped_kernel

    assert get("cpu").ignored == {"num_warps", "num_stages", "maxnreg"} and not get("cuda").ignored
    a = np.ones((64, 64), np.float32)
    sizes = dict(BLOCK_M=16, BLOCK_N=16, BLOCK_K=16, GROUP_M=4, ACTIVATION="", PRECISION="ieee")
    objects = [grouped_kernel.warmup(a, a, a, 64, 64, 64, *[64, 1] * 3, grid=(16,), **sizes, **options).asm["obj"]
               for options in ({}, {"num_warps": 8}, {"num_stages": 1}, {"maxnreg": 64})]
    assert len({*objects}) == 1
