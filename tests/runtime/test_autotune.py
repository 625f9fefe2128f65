"""Autotuning (S16): on a kernel object that records its launches, so every rule is seen by itself."""

import json
import pickle
from types import SimpleNamespace

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.runtime.tuned_kernels import Recorder, double_kernel, launch, timer, tuner
from tritium import knobs
from tritium.backends.driver import driver
from tritium.errors import AutotunerError, CompileTimeAssertionFailure, OutOfResources, PTXASError
from tritium.kernels.vector_add import add_kernel
from tritium.runtime.autotuner import Autotuner, Config, autotune


class Tensor:
    def __init__(self, dtype="torch.float32"):
        self.dtype = dtype


def test_chooses_the_fastest_and_remembers_it_per_key():
    kernel = Recorder({1: 3.0, 2: 1.0, 4: 2.0})
    t = tuner(kernel)
    assert launch(t, None, 8) == "launched"
    assert t.best_config.kwargs == {"BLOCK": 2}
    assert len(kernel.launches) == 4  # three trials and the launch
    launch(t, None, 8)
    assert len(kernel.launches) == 5
    launch(t, None, 9)
    assert len(kernel.launches) == 9
    assert set(t.cache) == {(8,), (9,)}
    assert kernel.launches[-1][1] == {"grid": (1,), "warmup": False, "BLOCK": 2, "num_warps": 4, "num_ctas": 1,
                                      "num_stages": 3}
    assert t.bench_time > 0 and t.nargs is None
    assert t.configs_timings[Config({"BLOCK": 2})] == [1.0] * 3


def test_ties_are_broken_by_the_later_quantiles():
    kernel = Recorder()
    times = iter([[1.0, 0.9, 1.2], [1.0, 0.8, 1.3]])
    configs = [Config({"BLOCK": 1}), Config({"BLOCK": 2})]
    t = autotune(configs, ["n"], do_bench=lambda fn, quantiles: next(times))(kernel)
    launch(t, None, 8)
    assert t.best_config.kwargs == {"BLOCK": 2}


def test_a_timer_may_give_one_number():
    times = iter([2.0, 1.0])
    configs = [Config({"BLOCK": 1}), Config({"BLOCK": 2})]
    t = autotune(configs, ["n"], do_bench=lambda fn, quantiles: next(times))(Recorder())
    launch(t, None, 8)
    assert t.best_config.kwargs == {"BLOCK": 2} and t.configs_timings[configs[0]] == [2.0] * 3


def test_the_key_is_values_then_dtypes_however_passed():
    with pytest.warns(UserWarning, match="the key 'x_is_not_named' is no parameter, so it is ignored"):
        t = tuner(Recorder(), key=("n", "x_is_not_named"))
    launch(t, Tensor(), n=8)
    assert list(t.cache) == [(8, "torch.float32")]
    launch(t, Tensor("torch.float16"), 8)
    assert list(t.cache)[1] == (8, "torch.float16")


def test_one_config_is_neither_timed_nor_pruned():
    kernel = Recorder()

    def boom(*args, **kwargs):
        raise AssertionError("must not be called")

    t = autotune([Config({"BLOCK": 64}, num_warps=2)], [], do_bench=boom,
                 prune_configs_by={"early_config_prune": boom})(kernel)
    launch(t, None, 1)
    assert kernel.launches[0][1]["num_warps"] == 2 and t.cache == {}
    assert autotune([], [])(kernel).configs == [Config({})]


@pytest.mark.parametrize("error", [
    OutOfResources(10, 5, "shared memory"), PTXASError("bad"), CompileTimeAssertionFailure(None, None, "no"),
], ids=lambda e: type(e).__name__)
def test_unfit_configs_lose(error):
    t = tuner(Recorder({1: error, 2: 5.0}), blocks=(1, 2))
    launch(t, None, 8)
    assert t.best_config.kwargs == {"BLOCK": 2}
    assert t.configs_timings[Config({"BLOCK": 1})] == [float("inf")] * 3


def test_when_no_config_fits_the_launch_says_why():
    t = tuner(Recorder(dict.fromkeys((1, 2), OutOfResources(10, 5, "shared memory"))), blocks=(1, 2))
    with pytest.raises(OutOfResources, match="shared memory"):
        launch(t, None, 8)


def test_other_errors_propagate():
    with pytest.raises(ZeroDivisionError):
        launch(tuner(Recorder({1: ZeroDivisionError()})), None, 8)


def test_what_is_captured_is_not_tuned(monkeypatch):
    """Timing waits for the GPU, and that would spoil the graph: better say so before."""
    kernel = Recorder()
    t = tuner(kernel)
    launch(t, None, 8)
    done = len(kernel.launches)
    captured = SimpleNamespace(is_current_stream_capturing=lambda: True)
    monkeypatch.setattr(type(driver.active), "get_device_interface", lambda self: captured)
    with pytest.raises(RuntimeError, match=r"cannot be tuned while .* captured into a graph\nhint: launch it once"):
        launch(t, None, 16)
    assert len(kernel.launches) == done
    launch(t, None, 8)  # this one is tuned
    assert len(kernel.launches) == done + 1


def test_conflicting_meta_parameters():
    with pytest.raises(ValueError, match="Conflicting meta-parameters: BLOCK"):
        launch(tuner(Recorder()), None, 8, BLOCK=3)


@pytest.mark.parametrize("given", [{"BLOCK": 3}, {"num_warps": 8}], ids=str)
def test_a_single_configuration_conflicts_as_well(given):
    @triton.autotune(configs=[triton.Config({"BLOCK": 16}, num_warps=2)], key=[])
    @triton.jit
    def fill(x, BLOCK: tl.constexpr):
        tl.store(x + tl.arange(0, BLOCK), 1.0)

    with pytest.raises(ValueError, match=f"Conflicting meta-parameters: {next(iter(given))}"):
        fill[(1,)](np.zeros(16, np.float32), **given)


class TestPruning:
    def test_early_prune_sees_arguments(self):
        seen = {}

        def prune(configs, named_args, **kwargs):
            seen.update(named=dict(named_args), kwargs=kwargs)
            return [c for c in configs if c.kwargs["BLOCK"] > 1]

        kernel = Recorder({1: 0.1, 2: 3.0, 4: 2.0})
        t = tuner(kernel, prune_configs_by={"early_config_prune": prune})
        launch(t, None, 8)
        assert t.best_config.kwargs == {"BLOCK": 4}
        assert seen == {"named": {"x": None, "n": 8}, "kwargs": {"grid": (1,), "warmup": False}}

    def test_pruning_everything_is_an_error(self):
        with pytest.raises(AutotunerError, match="at least one"):
            launch(tuner(Recorder(), prune_configs_by={"early_config_prune": lambda *a, **k: []}), None, 8)

    @pytest.mark.parametrize("top_k, timed", [(2, 2), (0.7, 2), (1.0, 3)])
    def test_top_k_of_the_model(self, top_k, timed):
        model = lambda n, BLOCK, num_warps, **rest: -BLOCK  # the largest block looks best
        kernel = Recorder()
        t = tuner(kernel, prune_configs_by={"perf_model": model, "top_k": top_k})
        launch(t, None, 8)
        assert len(t.configs_timings) == timed
        assert next(iter(t.configs_timings)).kwargs["BLOCK"] == (1 if top_k == 1.0 else 4)

    @pytest.mark.parametrize("top_k, timed", [(0.5, [4, 2]), (0.1, []), (3, [4, 2, 1])])
    def test_a_share_is_one_of_what_early_pruning_left(self, top_k, timed):
        """At least one is kept, and one alone is not timed."""
        rules = {"perf_model": lambda **kw: -kw["BLOCK"], "top_k": top_k,
                 "early_config_prune": lambda configs, named, **kw: [c for c in configs if c.kwargs["BLOCK"] < 8]}
        kernel = Recorder()
        t = tuner(kernel, (1, 2, 4, 0, 8, 16), prune_configs_by=rules)
        launch(t, None, 8)
        assert [config.kwargs["BLOCK"] for config in t.configs_timings] == timed
        assert kernel.launches[-1][1]["BLOCK"] == 4 and len(kernel.launches) == len(timed) + 1

    def test_one_that_is_left_may_not_be_passed_besides(self):
        t = tuner(Recorder(), prune_configs_by={"early_config_prune": lambda configs, named, **kw: configs[:1]})
        with pytest.raises(ValueError, match="Conflicting meta-parameters: BLOCK"):
            launch(t, None, 8, BLOCK=4)

    def test_bad_top_k(self):
        with pytest.raises(TypeError, match="top_k"):
            launch(tuner(Recorder(), prune_configs_by={"perf_model": lambda **k: 0, "top_k": 1.5}), None, 8)


def test_rules_of_pruning_that_do_not_exist():
    with pytest.warns(UserWarning, match="prune_configs_by has no rule 'early_prune', so it is ignored") as told:
        autotune([Config({"BLOCK": 1})], ["n"], prune_configs_by={"early_prune": list, "top_k": 3})(Recorder())
    assert len(told) == 1 and told[0].filename == __file__


class TestHooks:
    class Adder(Recorder):
        def run(self, x, n, **kwargs):
            x += 1
            return super().run(x, n, **kwargs)

    def test_restore_value(self):
        x = np.full(3, 7.0)
        launch(tuner(self.Adder(), restore_value=["x"]), x, 8)
        assert x.tolist() == [8.0] * 3

    def test_reset_to_zero_once_more_before_the_real_launch_only(self):
        x = np.full(3, 7.0)
        t = tuner(self.Adder(), reset_to_zero=["x"])
        launch(t, x, 8)
        assert x.tolist() == [1.0] * 3
        launch(t, x, 8)
        assert x.tolist() == [2.0] * 3

    @pytest.mark.parametrize("option", ["reset_to_zero", "restore_value"])
    def test_names_that_no_argument_has(self, option):
        with pytest.raises(KeyError, match=r"'xx' is none\nhint: did you mean x\?"):
            launch(tuner(self.Adder(), **{option: ["xx"]}), np.full(3, 7.0), 8)

    def test_arguments_that_are_none_are_left_alone(self):
        t = tuner(Recorder(), reset_to_zero=["x"], restore_value=["EVEN", "x"])
        launch(t, None, 8, None, EVEN=None)
        assert len(t.configs_timings) == 3

    def test_torch_tensors(self):
        torch = pytest.importorskip("torch")
        x = torch.full((3,), 7.0)
        launch(tuner(self.Adder(), restore_value=["x"]), x, 8)
        assert x.tolist() == [8.0] * 3
        launch(tuner(self.Adder(), reset_to_zero=["x"]), x, 8)
        assert x.tolist() == [1.0] * 3

    def test_own_hooks_replace_the_defaults(self):
        calls = []
        t = tuner(self.Adder(), blocks=(1, 2), reset_to_zero=["x"],
                  pre_hook=lambda args, reset_only=False: calls.append(("pre", args["BLOCK"], reset_only)),
                  post_hook=lambda args, exception: calls.append(("post", args["BLOCK"], exception)))
        x = np.zeros(1)
        launch(t, x, 8)
        assert calls == [("pre", 1, False), ("post", 1, None), ("pre", 2, False), ("post", 2, None), ("pre", 1, True)]
        assert x[0] == 3

    def test_the_post_hook_sees_the_exception(self):
        seen = []
        error = OutOfResources(1, 0, "registers")
        t = tuner(Recorder({1: error}), blocks=(1, 2), post_hook=lambda args, exception: seen.append(exception))
        launch(t, None, 8)
        assert seen == [error, None]

    def test_config_pre_hook_runs_before_trials_and_launches(self):
        seen = []
        configs = [Config({"BLOCK": b}, pre_hook=lambda args: seen.append((args["n"], args["BLOCK"]))) for b in (1, 2)]
        kernel = Recorder({1: 2.0, 2: 1.0})
        t = autotune(configs, ["n"], do_bench=timer(kernel))(kernel)
        launch(t, None, 8)
        launch(t, None, 8)
        assert seen == [(8, 1), (8, 2), (8, 2), (8, 2)]


def test_config():
    config = Config({"BLOCK": 64}, num_warps=2, num_stages=5)
    assert str(config) == "BLOCK: 64, num_warps: 2, num_ctas: 1, num_stages: 5, maxnreg: None"
    assert config.all_kwargs() == {"BLOCK": 64, "num_warps": 2, "num_ctas": 1, "num_stages": 5}
    assert pickle.loads(pickle.dumps(config)) == config and hash(pickle.loads(pickle.dumps(config))) == hash(config)
    assert config != Config({"BLOCK": 64}, num_warps=2) and config != Config({"BLOCK": 64}, 2, 5, maxnreg=8)
    assert Config({}, pre_hook=print) != Config({})


def test_deprecated_arguments_warn_and_count():
    with pytest.warns(DeprecationWarning, match="do_bench"):
        t = autotune([Config({"BLOCK": 1}), Config({"BLOCK": 2})], ["n"], warmup=1, rep=1)(Recorder())
    launch(t, None, 8)
    assert all(times[0] < 1e3 for times in t.configs_timings.values())


def test_subclassing_with_positional_arguments():
    class Mine(Autotuner):
        def run(self, *args, **kwargs):
            return "mine", super().run(*args, **kwargs)

    kernel = Recorder()
    t = Mine(kernel, kernel.arg_names, [Config({"BLOCK": 1})], ["n"], None, None)
    assert t[(1,)](None, 8) == ("mine", "launched")
    assert t.base_fn is kernel.fn and t.keys == ["n"] and t.fn is kernel


def test_warmup_compiles_every_config():
    kernel = Recorder()
    t = tuner(kernel, prune_configs_by={"early_config_prune": lambda configs, named, **kw: configs[1:]})
    assert t.warmup(None, 8, grid=(1,)) == ["kernel 2", "kernel 4"]
    assert kernel.launches == []


def test_results_can_be_saved_merged_and_shipped(tmp_path):
    a, b = Recorder({1: 3.0, 2: 1.0, 4: 2.0}), Recorder({1: 0.5, 2: 1.0, 4: 2.0})
    for kernel, name in ((a, "a"), (b, "b")):
        t = tuner(kernel)
        launch(t, Tensor(), 8)
        t.save(tmp_path / f"{name}.json")
    fresh = Recorder()
    t = tuner(fresh)
    t.load(tmp_path / "a.json", tmp_path / "b.json")
    launch(t, Tensor(), 8)
    assert t.best_config.kwargs == {"BLOCK": 1} and len(fresh.launches) == 1
    other = json.loads((tmp_path / "a.json").read_text()) | {"function": "another"}
    (tmp_path / "c.json").write_text(json.dumps(other))
    with pytest.raises(ValueError, match="another"):
        t.load(tmp_path / "c.json")


def test_a_listener_is_told_of_timings(monkeypatch, tmp_path):
    """After they were measured, or read from disk; not for one configuration, nor for a key that is known."""
    monkeypatch.setattr(driver, "_chosen", None)
    x, told = np.ones(64, np.float32), []
    with knobs.autotuning.scope(), knobs.cache.scope():
        knobs.cache.dir = str(tmp_path)
        knobs.autotuning.listener = lambda **what: told.append(what)
        for _ in range(2):
            tuned = autotune([Config({"BLOCK": b}) for b in (16, 32)], ["n"], cache_results=True,
                             do_bench=lambda fn, quantiles: fn() or [1.0] * 3)(add_kernel)
            for _ in range(2):
                tuned[(4,)](x, x, np.empty_like(x), 64)
        alone = autotune([Config({"BLOCK": 64})], ["n"])(add_kernel)
        alone[(1,)](x, x, np.empty_like(x), 64)
    first, second = told
    assert set(first) == {"fn", "key", "best_config", "configs_timings", "duration", "cache_hit"}
    assert first["fn"] is add_kernel and first["key"][0] == 64 and not first["cache_hit"] and first["duration"] > 0
    assert second["cache_hit"] and second["duration"] is None and second["configs_timings"] == first["configs_timings"]
    assert first["best_config"] == second["best_config"] == Config({"BLOCK": 16})


def test_printing(monkeypatch, capsys):
    monkeypatch.setenv("TRITON_PRINT_AUTOTUNING", "1")
    launch(tuner(Recorder({1: OutOfResources(2, 1, "registers")}), blocks=(1, 2)), None, 8)
    out = capsys.readouterr().out
    assert "kernel" in out and "best config selected: BLOCK: 2" in out and "left out" in out
    monkeypatch.setenv("TRITON_PRINT_AUTOTUNING", "0")
    launch(tuner(Recorder()), None, 8)
    assert capsys.readouterr() == ("", "")


def test_exported_names():
    from tritium.runtime import autotuner

    assert triton.Config is Config and triton.autotune is autotune and autotuner.Autotuner is Autotuner


# ---------------------------------------------------------------------------------------------------------------------
# Real kernels


def counted(blocks=(16, 32, 64), **options):
    """An autotuner over the real kernel, and the list of functions it timed."""
    timed = []

    def do_bench(fn, quantiles):
        fn()
        timed.append(fn)
        return [float(len(timed))] * 3

    configs = [Config({"BLOCK": b}) for b in blocks]
    return autotune(configs, key=["n"], restore_value=["x_ptr"], do_bench=do_bench, **options)(double_kernel), timed


def launch_real(t, n=100):
    x = np.ones(n, np.float32)
    t[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, n)
    assert (x == 2).all()


def test_configs_are_compiled_before_the_first_is_timed(monkeypatch):
    monkeypatch.setattr(triton.knobs, "num_threads", 2)
    double_kernel.device_caches.clear()
    compiled = []
    t, _ = counted()
    do_bench = t.do_bench

    def noting(fn, quantiles):
        (cache,) = double_kernel.device_caches.values()
        compiled.append(len(cache[0]))
        return do_bench(fn, quantiles)

    t.do_bench = noting
    launch_real(t)
    assert compiled == [3, 3, 3]


@pytest.mark.parametrize("how", ["argument", "environment"])
def test_results_stay_on_disk(how, monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    if how == "environment":
        monkeypatch.setenv("TRITON_CACHE_AUTOTUNING", "1")
    options = {"cache_results": True} if how == "argument" else {}
    first, timed = counted(**options)
    launch_real(first)
    assert len(timed) == 3
    (file,) = tmp_path.rglob("double_kernel.autotune.json")
    content = json.loads(file.read_text())
    assert content["key"] == ["100", "float32"] and len(content["configs_timings"]) == 3

    again, timed = counted(**options)
    launch_real(again)
    assert timed == [] and again.best_config == first.best_config
    assert again.configs_timings == first.configs_timings

    other, timed = counted(blocks=(16, 128), **options)
    launch_real(other)
    assert len(timed) == 2, "other configs are another question"


def test_results_are_not_kept_unless_asked(monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    t, _ = counted()
    launch_real(t)
    t = autotune([Config({"BLOCK": b}, pre_hook=lambda args: None) for b in (16, 32)], ["n"], cache_results=True,
                 restore_value=["x_ptr"], do_bench=lambda fn, quantiles: [1.0] * 3)(double_kernel)
    launch_real(t)
    assert not list(tmp_path.rglob("*.autotune.json"))


def test_a_mistake_in_a_config_is_told():
    t, timed = counted(blocks=(3, 16))  # 3 is no power of two: an ordinary mistake, not a lack of resources
    with pytest.raises(triton.CompilationError, match="power of 2"):
        launch_real(t)
    assert timed == []


@triton.jit
def at_most_kernel(x_ptr, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK <= 32, "too large")
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, 2.0, mask=offsets < n)


def test_static_assertions_prune():
    t = autotune([Config({"BLOCK": b}) for b in (64, 32)], ["n"], do_bench=lambda fn, quantiles: fn() or [1.0] * 3)(
        at_most_kernel)
    launch_real(t)
    assert t.best_config.kwargs == {"BLOCK": 32}


class OtherDevice:
    """The driver of a GPU in whose memory no argument lies: to ask it about a launch is a mistake."""

    emulates = False

    def __getattr__(self, name):
        raise AssertionError(f"the GPU was asked for {name}")


def test_arrays_of_the_host_are_tuned_by_the_host_beside_a_gpu(monkeypatch, tmp_path):
    """Its clock, its number of threads in what is kept, its kernels."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(driver, "_default", OtherDevice())
    x, out = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    t = autotune([Config({"BLOCK": b}) for b in (16, 32)], ["n"])(add_kernel)
    before = triton.get_num_threads()
    try:
        for threads in (1, 2):
            triton.set_num_threads(threads)
            t.cache.clear()
            t[lambda meta: (triton.cdiv(100, meta["BLOCK"]),)](x, x, out, 100)
            kept = {path.parent for path in tmp_path.rglob("*.autotune.json")}
            assert (out == 2 * x).all() and len(kept) == threads
    finally:
        triton.set_num_threads(before)
    with pytest.raises(AssertionError, match="the GPU was asked"):
        driver.active.get_current_target()
