"""Launches of a tuned kernel after tuning: choices are found by the arguments themselves, and mean what `run` does."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.runtime.autotuner import Autotuner, Config, autotune, heuristics
from tritium.runtime.choices import Choices


@triton.jit
def note_block(x, out, n, BLOCK: tl.constexpr):
    tl.store(out, BLOCK + tl.load(x).to(tl.int32) * 0)
    tl.store(out + 1, n)


X = np.zeros(4, np.float32)


def tuned(blocks=(8, 16, 32), best=16, key=("n",), kernel=note_block, **options):
    """A tuner that finds `best` the fastest; `trials` counts how often it measured."""
    trials = []

    def do_bench(fn, quantiles):
        fn()
        trials.append(len(trials))
        return [0.0 if blocks[(len(trials) - 1) % len(blocks)] == best else 1.0] * 3

    tuner = autotune([Config({"BLOCK": block}) for block in blocks], list(key), do_bench=do_bench, **options)(kernel)
    tuner.trials = trials
    return tuner


def launch(tuner, n=4, x=X, grid=(1,), **kwargs):
    """(BLOCK, n) as the kernel saw them."""
    out = np.zeros(2, np.int32)
    tuner[grid](x, out, n, **kwargs)
    return tuple(int(v) for v in out)


def found(tuner):
    """Have making a tuning key fail: from here on choices must be found."""

    def forbidden(given):
        raise AssertionError("a tuning key was made")

    tuner._key = forbidden
    return tuner


def test_choices_are_found_without_their_keys():
    t = tuned()
    assert launch(t) == (16, 4) and launch(t, 5) == (16, 5) and len(t.trials) == 6
    found(t)
    for n in (4, 5, 4):
        assert launch(t, n) == (16, n) and t.best_config.kwargs == {"BLOCK": 16}
    assert launch(t, x=X + 1, grid=lambda meta: (meta["BLOCK"] // 16,)) == (16, 4)


def test_ways_of_writing_are_told_apart():
    t = tuned()
    out = np.zeros(2, np.int32)
    for _ in range(2):
        launch(t)
        t[(1,)](x=X, out=out, n=4)
        t[(1,)](X, out, n=4)
        t[(1,)](X, n=4, out=out)
        assert out.tolist() == [16, 4]
    assert len(t.trials) == 3
    found(t)[(1,)](X, n=4, out=out)


@pytest.mark.parametrize("other", [{"n": 5}, {"x": X.astype(np.float16)}])
def test_other_values_and_dtypes_are_other_choices(other):
    t = tuned()
    launch(t)
    launch(t, **other)
    assert len(t.trials) == 6 and len(t.cache) == 2


def test_a_number_may_become_something_with_a_dtype():
    choices = Choices(["x", "n"])
    choices.note((X, 3), {}, ["n"], "a number")
    find = choices.finders[2]
    assert find((X, 3), {}) == "a number" and find((X, np.int64(3)), {}) is None
    choices.note((X, np.int64(3)), {}, ["n"], "64 bits")
    choices.note((X, np.int32(3)), {}, ["n"], "32 bits")
    choices.note((X, 3), {}, ["n"], "a number")
    find = choices.finders[2]
    assert [find((X, kind(3)), {}) for kind in (np.int32, np.int64, int)] == ["32 bits", "64 bits", "a number"]
    assert find((None, 3), {}) is None


def test_what_cannot_be_hashed_is_said():
    t = tuned(key=["x"])
    with pytest.raises(TypeError, match="unhashable"):
        launch(t)


def test_the_cache_decides():
    t = tuned()
    launch(t)
    (key,) = t.cache
    t.cache[key] = t.configs[2]
    assert launch(t) == (32, 4) and launch(t) == (32, 4) and t.best_config is t.configs[2]
    t.cache.clear()
    assert launch(t) == (16, 4) and len(t.trials) == 6


def test_configurations_may_change():
    t = tuned()
    launch(t)
    launch(t)
    t.best_config.kwargs["BLOCK"] = 64
    assert launch(t) == (64, 4) and launch(t) == (64, 4)
    t.best_config.num_warps = 8
    t[(1,)](X, np.zeros(2, np.int32), 4)
    assert t.best_config.all_kwargs()["num_warps"] == 8
    seen = []
    t.best_config.pre_hook = seen.append
    launch(t)
    launch(t)
    assert len(seen) == 2


def test_a_single_configuration_may_get_company():
    t = tuned(blocks=(8,))
    assert launch(t) == launch(t) == (8, 4) and not t.trials and not t.cache
    t.configs.append(Config({"BLOCK": 16}))
    launch(t)
    assert len(t.trials) == 2


def test_hooks_run_before_every_launch():
    seen = []
    t = autotune([Config({"BLOCK": 8}, pre_hook=seen.append), Config({"BLOCK": 16}, pre_hook=seen.append)], ["n"],
                 do_bench=lambda fn, quantiles: [1.0] * 3)(note_block)  # fmt: skip
    launch(t)
    launch(t)
    launch(t)
    assert len(seen) == 3 and seen[0].keys() == seen[2].keys()
    assert {name: seen[2][name] for name in ("grid", "warmup", "n", "BLOCK", "num_warps")} == {
        "grid": (1,), "warmup": False, "n": 4, "BLOCK": 8, "num_warps": 4}  # fmt: skip


def test_arguments_are_put_right_only_while_tuning():
    t = tuned(reset_to_zero=["x"])
    x = np.ones(4, np.float32)
    launch(t, x=x)
    assert not x.any()
    x[:] = 1
    launch(t, x=x)
    assert x.all()


def test_grid_functions_may_ask_for_the_arguments():
    t, seen = tuned(), []

    def grid(meta):
        seen.append(sorted(t.nargs))
        return (1,)

    launch(t, grid=grid)
    launch(found(t), grid=grid)
    assert seen[-1] == ["n", "out", "x"] and t.nargs is None


def test_what_is_put_in_the_place_of_run_is_called():
    t = tuned()
    launch(t)
    launch(t)
    calls = []
    t.run = lambda *args, **kwargs: calls.append(kwargs["grid"])
    launch(t, grid=(2,))
    assert calls == [(2,)]

    class Derived(Autotuner):
        def run(self, *args, **kwargs):
            calls.append("derived")

    Derived(note_block, note_block.arg_names, [Config({"BLOCK": 8})], [], None, None)[(1,)](X, X, 1)
    assert calls[-1] == "derived"


def test_a_kernels_own_run_may_be_replaced():
    @triton.jit
    def kernel(x, out, n, BLOCK: tl.constexpr):
        tl.store(out, BLOCK)

    t, calls = tuned(kernel=kernel), []
    launch(t)
    launch(t)
    kernel.run = lambda *args, **kwargs: calls.append(kwargs["BLOCK"])
    launch(t)
    assert calls == [16]


def test_tuned_heuristics():
    double = heuristics({"n": lambda args: args["n"] * 2, "BLOCK": lambda args: args["BLOCK"] + args["n"]})(note_block)
    t = tuned(kernel=double)
    for _ in range(3):
        assert launch(t) == (24, 8)  # of what was tuned and passed, in order
    assert launch(double, 3, BLOCK=2) == (8, 6)
