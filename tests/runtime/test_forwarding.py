"""Launches of autotuners and heuristics without Python code: they mean what the first launch meant (S15, S16)."""

import copy
import gc
import sys
import threading

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium import knobs
from tritium.backends.launcher.parts import NATIVE
from tritium.runtime import forwarding
from tritium.runtime.autotuner import Config, autotune, heuristics

pytestmark = pytest.mark.skipif(not NATIVE, reason="this interpreter takes no builtins: launches go by Python")


def make():
    """A kernel of its own for each test: it stores what it sees."""

    @triton.jit
    def kernel(x, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr = False):
        tl.store(out, BLOCK + tl.load(x).to(tl.int32) * 0)
        tl.store(out + 1, n)
        tl.store(out + 2, 1 if EVEN else 0)
        tl.store(out + 3, tl.num_programs(0))

    return kernel


def tuned(kernel=None, blocks=(8, 16, 32), best=16, **options):
    """A tuner that finds `best` the fastest; `trials` counts how often it measured."""
    trials = []

    def do_bench(fn, quantiles):
        fn()
        trials.append(len(trials))
        return [0.0 if blocks[(len(trials) - 1) % len(blocks)] == best else 1.0] * 3

    t = autotune([Config({"BLOCK": b}) for b in blocks], ["n"], do_bench=do_bench, **options)(kernel or make())
    t.trials = trials
    return t


X = np.zeros(32, np.float32)


def launch(kernel, n=4, x=X, grid=(1,), **kwargs):
    """(BLOCK, n, EVEN, programs) as the kernel saw them."""
    out = np.zeros(4, np.int32)
    kernel[grid](x, out, n, **kwargs)
    return tuple(map(int, out))


class NotNative(Exception):
    pass


def sealed(wrapper):
    """Have Python code of the wrapper fail from now on."""

    def slow(grid, *args, **kwargs):
        raise NotNative

    wrapper._road[0] = slow
    return wrapper


GRIDS = {"tuple": (2,), "function": lambda meta: (2 + 0 * meta["BLOCK"],), "list": [2], "int": 2,
         "symbols": lambda meta: [triton.cdiv(meta["n"] * 8, meta["BLOCK"])]}  # fmt: skip


# -- autotuners --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
def test_a_known_choice_needs_no_python(grid):
    t = tuned()
    for n in (4, 5):
        launch(t, n)
    sealed(t)
    t.best_config = None
    for n in (4, 5, 4):
        programs = 2 if grid is not GRIDS["symbols"] else -(-n * 8 // 16)
        assert launch(t, n, grid=grid) == (16, n, 0, programs) and t.best_config is t.configs[1]
    with pytest.raises(NotNative):
        launch(t, 6, grid=grid)


def test_what_is_returned_is_the_compiled_kernel():
    t, out = tuned(), np.zeros(4, np.int32)
    first = t[(1,)](X, out, 4)
    assert sealed(t)[(1,)](X, out, 4) is first and first.name == "kernel"


def test_ways_to_write_a_launch_have_records_of_their_own():
    t, out = tuned(), np.zeros(4, np.int32)
    calls = [lambda: t[(1,)](X, out, 4), lambda: t[(1,)](x=X, out=out, n=4), lambda: t[(1,)](X, n=4, out=out),
             lambda: t[(1,)](X, out, n=4, EVEN=True), lambda: t[(1,)](X, out, 4, enable_fp_fusion=True)]  # fmt: skip
    for call in calls:
        call()
    sealed(t)
    for k, call in enumerate(calls):
        out[:] = 0
        call()
        assert out.tolist() == [16, 4, int(k == 3), 1]


def test_grid_functions_get_a_dict_of_their_own_with_all_parameters():
    t, seen = tuned(), []

    def grid(meta):
        seen.append(dict(meta))
        meta["BLOCK"] = meta["n"] = 1
        meta.clear()
        return (1,)

    for _ in range(3):
        assert launch(t, grid=grid) == (16, 4, 0, 1)
    assert all(found.keys() == {"x", "out", "n", "BLOCK", "EVEN"} for found in seen)
    assert all((found["n"], found["BLOCK"], found["EVEN"]) == (4, 16, False) and found["x"] is X for found in seen[-3:])


def test_grid_functions_may_ask_for_the_arguments():
    t, seen = tuned(), []
    launch(t)
    sealed(t)
    launch(t, grid=lambda meta: seen.append(t.nargs) or (1,))
    assert list(seen[0]) == ["x", "out", "n"] and seen[0]["x"] is X and t.nargs is None
    assert not t._launching


@pytest.mark.parametrize("wrap", [lambda k: tuned(k), lambda k: heuristics({"BLOCK": lambda args: 16})(k)])
def test_errors_of_grid_functions_come_through(wrap):
    t = wrap(make())
    launch(t)

    def grid(meta):
        raise ValueError("no such grid")

    with pytest.raises(ValueError, match="no such grid"):
        launch(t, grid=grid)
    with pytest.raises(KeyError, match="asks for 'BLOK'"):
        launch(t, grid=lambda meta: (meta["BLOK"],))
    with pytest.raises(TypeError, match="a grid is one to three ints"):
        launch(t, grid=lambda meta: (1.5,))
    assert getattr(t, "nargs", None) is None and not getattr(t, "_launching", None)
    assert launch(sealed(t)) == (16, 4, 0, 1)


def test_dtypes_have_choices_of_their_own():
    t = tuned()
    half = X.astype(np.float16)
    launch(t)
    assert launch(t, x=half) == (16, 4, 0, 1) and len(t.trials) == 6
    first, second = t.cache
    t.cache[second] = t.configs[2]
    for _ in range(2):
        assert launch(t) == (16, 4, 0, 1) and launch(t, x=half) == (32, 4, 0, 1)
    sealed(t)
    for _ in range(2):
        assert launch(t) == (16, 4, 0, 1) and t.best_config is t.cache[first]
        assert launch(t, x=half) == (32, 4, 0, 1) and t.best_config is t.cache[second]


def test_alignment_may_change_between_launches():
    t = tuned()
    buffer = np.zeros(64, np.float32)
    start = -buffer.ctypes.data % 64 // 4
    even, odd = buffer[start:], buffer[start + 1 :]
    for x in (even, odd, even, odd):
        assert launch(t, x=x) == (16, 4, 0, 1)
    sealed(t)
    for x in (even, odd):
        assert launch(t, x=x) == (16, 4, 0, 1)
    assert len(t.trials) == 3


def test_values_that_are_no_key_may_change():
    t = autotune([Config({"BLOCK": 8})], [])(make())
    for n in (4, 16, 1, 2**40):  # each is specialised
        launch(t, n)
    sealed(t)
    assert [launch(t, n)[1] for n in (5, 32, 1, 7)] == [5, 32, 1, 7]


def test_the_cache_decides():
    t = tuned()
    launch(t)
    (key,) = t.cache
    t.cache[key] = t.configs[2]
    assert launch(t) == launch(t) == (32, 4, 0, 1) and t.best_config is t.configs[2]
    t.cache = {key: t.configs[0]}
    assert launch(t) == launch(t) == (8, 4, 0, 1)
    t.cache.clear()
    assert launch(t) == (16, 4, 0, 1) and len(t.trials) == 6
    assert launch(sealed(t)) == (16, 4, 0, 1)


def test_configurations_may_change():
    t, seen = tuned(), []
    launch(t)
    t.best_config.kwargs["BLOCK"] = 64
    assert launch(t) == launch(t) == launch(t) == (64, 4, 0, 1)
    t.best_config.num_warps = 8
    assert launch(t) == (64, 4, 0, 1)
    t.best_config.pre_hook = lambda args: seen.append((args["n"], args["BLOCK"], args["grid"], args["num_warps"]))
    for _ in range(3):
        launch(t)
    assert seen == [(4, 64, (1,), 8)] * 3
    t.best_config.pre_hook = None
    launch(t)
    assert launch(sealed(t)) == (64, 4, 0, 1) and len(seen) == 3


def test_a_list_of_one_configuration_decides_alone():
    t = tuned()
    launch(t)
    t.configs = t.configs[2:]
    assert launch(t) == launch(t) == (32, 4, 0, 1)
    t.configs.append(Config({"BLOCK": 64}))
    assert launch(t) == launch(t) == (16, 4, 0, 1)  # what was measured


def test_another_run_is_called_and_may_go_again():
    t, calls = tuned(), []
    launch(t)
    kept = t[(3,)]
    t.run = lambda *args, **kwargs: calls.append(kwargs["grid"])
    launch(t)
    kept(X, X, 4)
    assert calls == [(1,), (3,)]
    del t.run
    assert launch(t) == (16, 4, 0, 1)
    t.fn.run = lambda *args, **kwargs: calls.append(kwargs["BLOCK"])
    launch(t)
    assert calls[2:] == [16]
    del t.fn.run
    assert launch(t) == (16, 4, 0, 1) and len(calls) == 3
    assert launch(sealed(t)) == (16, 4, 0, 1)


def test_a_tuner_may_get_another_kernel():
    t, seen = tuned(), []
    launch(t)
    t.fn = make()
    t.fn.add_pre_run_hook(lambda *args, **kwargs: seen.append(kwargs["BLOCK"]))
    launch(t)
    assert seen == [16]


@pytest.mark.parametrize("wrap", [lambda k: tuned(k), lambda k: heuristics({"BLOCK": lambda args: 16})(k)])
@pytest.mark.parametrize("exchange", [False, True])
def test_hooks_of_the_kernel_see_every_launch(wrap, exchange):
    kernel, seen = make(), []
    t = wrap(kernel)
    launch(t)
    hook = lambda *args, **kwargs: seen.append((len(args), kwargs["BLOCK"]))
    if exchange:
        kernel.pre_run_hooks = [hook]
    else:
        kernel.add_pre_run_hook(hook)
    for _ in range(3):
        launch(t)
    assert seen == [(3, 16)] * 3
    kernel.pre_run_hooks.clear()
    for _ in range(forwarding._PATIENCE):
        launch(t)
    assert launch(sealed(t)) == (16, 4, 0, 1) and len(seen) == 3


@pytest.mark.parametrize("wrap", [lambda k: tuned(k), lambda k: heuristics({"BLOCK": lambda args: 16})(k)])
def test_launch_hooks_and_metadata(wrap):
    @triton.jit(launch_metadata=lambda grid, metadata, args: {"flops": args["n"] * args["BLOCK"]})
    def kernel(x, out, n, BLOCK: tl.constexpr):
        tl.store(out + 3, n)

    t, seen = wrap(kernel), []
    launch(t)
    launch(t)
    told = lambda metadata: seen.append(metadata.get()["flops"])
    knobs.runtime.launch_enter_hook.add(told)
    try:
        for _ in range(3):
            launch(t)
    finally:
        knobs.runtime.launch_enter_hook.remove(told)
    launch(t)
    launch(t)
    assert seen == [64] * 3 and launch(sealed(t))[3] == 4


FACTOR = tl.constexpr(2)


@pytest.mark.parametrize("wrap", [lambda k: tuned(k), lambda k: heuristics({"BLOCK": lambda args: 16})(k)])
def test_changed_globals_are_noticed(wrap, monkeypatch):
    @triton.jit
    def kernel(x, out, n, BLOCK: tl.constexpr):
        tl.store(out, n * FACTOR)

    t = wrap(kernel)
    for _ in range(3):
        assert launch(t)[0] == 8
    monkeypatch.setitem(globals(), "FACTOR", tl.constexpr(3))
    with pytest.raises(RuntimeError, match="FACTOR"):
        launch(t)


def test_a_kernel_may_forget_what_it_has_compiled():
    t = tuned()
    launch(t)
    t.fn.device_caches.clear()
    assert launch(t) == launch(t) == (16, 4, 0, 1)
    assert launch(sealed(t)) == (16, 4, 0, 1)


def test_arguments_are_put_right_only_while_tuning():
    x = np.ones(4, np.float32)
    t = tuned(reset_to_zero=["x"])
    launch(t, x=x)
    x[:] = 1
    launch(t, x=x)
    assert x.all()


def test_more_keys_than_records():
    t = tuned()
    for _ in range(2):
        for n in range(2, 2 + 2 * forwarding._RECENT):
            assert launch(t, n) == (16, n, 0, 1)
    assert len(t._road) == 1 + forwarding._RECENT and len(t.trials) == 3 * 2 * forwarding._RECENT


def test_copies_arm_for_themselves():
    t = tuned()
    launch(t)
    other = copy.copy(t)
    other.cache = dict.fromkeys(t.cache, other.configs[0])
    assert launch(other) == launch(other) == (8, 4, 0, 1)
    assert launch(sealed(t)) == (16, 4, 0, 1) and launch(sealed(other)) == (8, 4, 0, 1)
    assert t.best_config is t.configs[1] and other.best_config is t.configs[0]


def test_threads_launch_their_own_choices():
    t = tuned()
    for n in range(2, 10):
        launch(t, n)
    sealed(t)
    wrong, start = [], threading.Barrier(8)

    def work(n):
        def grid(meta):
            if t.nargs["n"] != n or meta["n"] != n:
                wrong.append(n)
            return (n,)

        start.wait()
        for _ in range(200):
            if launch(t, n, grid=grid) != (16, n, 0, n):
                wrong.append(n)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(2, 10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong and not t._launching


# -- heuristics --------------------------------------------------------------------------------------------------------


def test_heuristics_need_no_python_of_ours():
    seen = []

    def even(args):
        seen.append(dict(args))
        args.clear()
        return seen[-1]["n"] % seen[-1]["BLOCK"] == 0

    h = heuristics({"BLOCK": lambda args: args.pop("n") * 2, "EVEN": even})(make())
    grid = lambda meta: (meta["BLOCK"],)
    launch(h, grid=grid)
    sealed(h)
    assert launch(h, 4, grid=grid) == (8, 4, 0, 8) and launch(h, 8, grid=(3,)) == (16, 8, 0, 3)
    assert seen[1].keys() == {"x", "out", "n", "BLOCK", "grid", "warmup"} == seen[0].keys()
    assert seen[1]["grid"] is grid and seen[1]["warmup"] is False and seen[2]["grid"] == (3,)


def test_computed_values_take_the_place_of_passed_ones():
    h, out = heuristics({"BLOCK": lambda args: args["BLOCK"] * 2, "n": lambda args: args["BLOCK"]})(make()), \
        np.zeros(4, np.int32)
    calls = [lambda: h[(1,)](X, out, 3, 8), lambda: h[(1,)](X, out, 3, BLOCK=8), lambda: h[(1,)](X, out, BLOCK=8),
             lambda: h[(1,)](X, BLOCK=8, out=out, EVEN=True)]  # fmt: skip
    for call in calls:
        call()
    sealed(h)
    for k, call in enumerate(calls):
        out[:] = 0
        call()
        assert out.tolist() == [16, 16, int(k == 3), 1]


def test_heuristics_may_change():
    h = heuristics({"BLOCK": lambda args: 16})(make())
    launch(h)
    h.values["BLOCK"] = lambda args: 32
    assert launch(h) == launch(h) == (32, 4, 0, 1)
    h.values = {"BLOCK": lambda args: 64, "EVEN": lambda args: True}
    assert launch(h) == launch(h) == (64, 4, 1, 1)
    h.fn = make()
    assert launch(h) == (64, 4, 1, 1)
    assert launch(sealed(h)) == (64, 4, 1, 1)


def test_errors_of_heuristics_come_through():
    wanted = {"BLOCK": 16, "EVEN": True}
    h = heuristics({name: lambda args, name=name: wanted[name] for name in wanted})(make())
    launch(h)
    sealed(h)
    del wanted["EVEN"]
    with pytest.raises(KeyError, match="EVEN"):
        launch(h)
    wanted["EVEN"] = True
    assert launch(h) == (16, 4, 1, 1)


def test_both_around_each_other():
    even = {"EVEN": lambda args: args["n"] % args["BLOCK"] == 0}
    inside = tuned(heuristics(even)(make()))
    outside = heuristics({"n": lambda args: args["n"] * 8, "EVEN": lambda args: args["n"] > 32})(tuned(make()))
    asked = []
    nargs = heuristics({"EVEN": lambda args: asked.append(inside.nargs) is not None})
    for n in (4, 16, 4, 16, 4, 16):  # whatever is tuned has kernels forget their records
        launch(inside, n), launch(outside, n)
    for wrapper in (inside, inside.fn, outside, outside.fn):
        sealed(wrapper)
    for grid in ((2,), lambda meta: (2,)):
        assert launch(inside, 16, grid=grid) == (16, 16, 1, 2) and launch(inside, 4, grid=grid) == (16, 4, 0, 2)
        assert launch(outside, 4, grid=grid) == (16, 32, 0, 2) and launch(outside, 16, grid=grid) == (16, 128, 1, 2)
    assert inside.best_config is inside.configs[1] and set(outside.fn.cache) == {(32, "float32", "int32"),
                                                                                 (128, "float32", "int32")}
    inside.fn.values["EVEN"] = nargs(inside.fn.fn).values["EVEN"]
    inside._road[0], inside.fn._road[0] = inside._launch, inside.fn._launch
    for _ in range(3):
        assert launch(inside, 4) == (16, 4, 0, 1)
    assert all(list(found) == ["x", "out", "n"] for found in asked) and inside.nargs is None


def test_heuristics_of_heuristics():
    h = heuristics({"n": lambda args: args["BLOCK"] + 1})(heuristics({"BLOCK": lambda args: args["n"] * 8})(make()))
    assert launch(h, 3, BLOCK=1) == launch(h, 3, BLOCK=1) == (16, 2, 0, 1)
    sealed(h), sealed(h.fn)
    assert launch(h, 3, BLOCK=3) == (32, 4, 0, 1)


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
def test_launches_leave_reference_counts_alone(grid):
    fixed = {16: 16, True: True}
    values = {"BLOCK": lambda args: fixed[16], "EVEN": lambda args: fixed[True]}
    for wrapper in (tuned(), heuristics(values)(make()), tuned(heuristics({"EVEN": lambda args: True})(make()))):
        n, out = 300, np.zeros(4, np.int32)
        for _ in range(3):
            wrapper[grid](X, out, n)
        sealed(wrapper)
        held = [X, out, n, grid, wrapper, vars(wrapper), wrapper._road, wrapper._road[1], None, True, 16]
        held += [*getattr(wrapper, "configs", ())]
        counts = []
        for _ in range(3):
            gc.collect()
            counts.append([sys.getrefcount(x) for x in held])
            for _ in range(50):
                wrapper[grid](X, out, n)
        assert all(abs(a - b) < 10 for a, b in zip(counts[1], counts[2], strict=True))


def test_wrappers_are_collected():
    import weakref

    seen = []
    for wrapper in (tuned(), heuristics({"BLOCK": lambda args: 16})(make())):
        launch(wrapper)
        launch(wrapper)
        seen.append(weakref.ref(wrapper))
    del wrapper
    gc.collect()
    assert [ref() for ref in seen] == [None, None]
