"""How tuning spends its time, what it keeps on disk, and configurations that fail in earnest."""

import json
import math
import os
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium import cache, knobs
from tritium.backends.driver import driver
from tritium.compiler import pool
from tritium.errors import AutotunerError
from tritium.interp.eager import InterpretedFunction
from tritium.runtime import kept, readiness, trials, tuning
from tritium.runtime.autotuner import Autotuner, Config, autotune

ROOT = Path(__file__).resolve().parents[2]
LONG = os.environ.get("TRITIUM_TEST_LONG") == "1"


@pytest.fixture(autouse=True)
def on_the_host(monkeypatch, tmp_path):
    """Whatever device the machine has, with an empty cache."""
    monkeypatch.setattr(knobs, "backend", "cpu")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TRITIUM_CACHE_DIR", raising=False)


@triton.jit
def double(x, n, BLOCK: tl.constexpr, KIND: tl.constexpr = "plain"):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, i < n) * 2, i < n)


def tuned(kernel=double, blocks=(16, 32, 64), **options):
    return autotune([Config({"BLOCK": block}) for block in blocks], key=["n"],
                    **{"restore_value": ["x"], **options})(kernel)


def launch(t, n=100, **options):
    x = np.ones(n, np.float32)
    t[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, n, **options)
    return x


@pytest.fixture
def measured(monkeypatch):
    """Configurations that are measured, by a clock that takes no time: larger blocks are faster."""
    seen = []

    def measure(self, *args, config, **kwargs):
        seen.append(config.kwargs["BLOCK"])
        return [1.0 / config.kwargs["BLOCK"]] * 3

    monkeypatch.setattr(Autotuner, "_bench", measure)
    return seen


# -- how long is measured ----------------------------------------------------------------------------------------------


class Clock:
    """One whose time passes when it is told to."""

    on_host = True

    def __init__(self, cost):
        self.cost, self.calls = cost, 0

    def time(self, fn, n, before):
        times = []
        for _ in range(n):
            before()
            fn()
            times.append(self.cost)
        self.calls += n
        return times

    flush = synchronize = lambda self: None
    finishes = lambda self, seconds: True


def with_sum(times):
    return times, sum(times)


@pytest.fixture
def clock(monkeypatch):
    """The tuner's, which runs as it is told."""
    clock = Clock(1.0)
    monkeypatch.setattr(triton.testing, "clock", lambda: clock)
    monkeypatch.setattr(trials, "_timed", lambda trial, clock, n: with_sum(clock.time(trial, n, clock.flush)))
    return clock


LOOK, FULL = 5, 2 + 100  # calls that are timed if one takes a millisecond; two of them for the estimate


def race(clock, costs, **options):
    """(block -> calls timed, the tuner) for configurations that take so long."""
    calls = dict.fromkeys(costs, 0)

    def before(args, reset_only=False):
        clock.cost = costs[args["BLOCK"]]

    def time(fn, n, flush, time=clock.time):
        times = time(fn, n, flush)
        calls[next(block for block in costs if costs[block] == clock.cost)] += n
        return times

    clock.time = time
    t = tuned(blocks=tuple(costs), pre_hook=before, post_hook=lambda args, exception: None, **options)
    launch(t)
    return calls, t


def test_what_cannot_win_is_not_measured_to_the_end(clock):
    costs = {16: 2.0, 32: 1.0, 64: 1.24, 128: 1.01, 256: 1.3}
    calls, t = race(clock, costs)
    assert calls == {16: LOOK, 32: LOOK + FULL, 64: LOOK + 2 + 80 // 5, 128: LOOK + 2 + 99, 256: LOOK}
    assert t.best_config.kwargs == {"BLOCK": 32}
    assert {config.kwargs["BLOCK"]: times for config, times in t.configs_timings.items()} == {
        block: [cost] * 3 for block, cost in costs.items()}  # fmt: skip


def test_short_calls_are_looked_at_for_a_while(clock):
    calls, _ = race(clock, {16: 0.5, 32: 0.01})
    assert calls[16] == 11 and calls[32] >= 500 + 2 + 10_000


@pytest.mark.parametrize("on_host, first", [(True, 41), (False, 17)])
def test_launches_on_a_cpu_settle_how_many_threads_run_them(clock, on_host, first):
    clock.on_host = on_host
    calls, _ = race(clock, {16: 0.3, 32: 0.1})
    assert calls[16] == first


def test_a_short_budget_does_not_wait_for_that(clock):
    with pytest.warns(DeprecationWarning):
        calls, _ = race(clock, {16: 0.3, 32: 0.1}, warmup=1, rep=4)
    assert calls[16] == 14


def test_two_calls_are_enough_if_they_are_long(clock):
    """Short ones may have been interrupted."""
    calls, _ = race(clock, {16: 30.0, 32: 100.0})
    assert calls[32] == 2


def test_one_call_that_was_interrupted_does_not_count(clock, monkeypatch):
    late = iter([[1.0] * 5, [50.0, 0.9], [0.9] * 3])
    monkeypatch.setattr(trials, "_timed", lambda trial, clock, n: with_sum(next(late)))
    look = trials.Race()
    assert [look(lambda: None, (0.2,)) for _ in range(2)] == [[1.0], [0.9]]


def test_a_configuration_by_itself_is_measured_to_the_end(clock):
    t = tuned()
    t.nargs = {"x": np.ones(8, np.float32), "n": 8}
    assert t._bench(*t.nargs.values(), config=t.configs[0], grid=(1,), warmup=False) == [1.0] * 3
    assert clock.calls == LOOK + FULL


@pytest.mark.parametrize("budget, calls", [({"warmup": 1, "rep": 1}, 5 + 2 + 1), ({"warmup": 9, "rep": 300}, 307)])
def test_budgets_that_are_asked_for_count(clock, budget, calls):
    with pytest.warns(DeprecationWarning):
        t = tuned(blocks=(16, 32), **budget)
    launch(t)
    assert clock.calls == 2 * calls


@pytest.mark.parametrize("blocks", [(16, 32, 64), (64, 32, 16), (32, 64, 16)])
def test_the_best_does_not_depend_on_the_order(clock, blocks):
    costs = {16: 5.0, 32: 1.0, 64: 0.9}
    _, t = race(clock, {block: costs[block] for block in blocks})
    assert t.best_config.kwargs == {"BLOCK": 64}
    assert [config.kwargs["BLOCK"] for config in t.configs_timings] == list(blocks)


# -- compiling before and beside timing --------------------------------------------------------------------------------


class Kernel:
    """A promise that is kept when it is told to."""

    target = "cuda:90:32"

    def __init__(self, log, name, ready=False):
        self.log, self.name, self.ready = log, name, ready
        self.task = SimpleNamespace(take=lambda: False)

    def result(self, ignore_errors=False):
        self.log.append(self.name)
        self.ready = True


def test_configurations_come_as_they_are_ready(monkeypatch):
    log = []
    promises = {name: Kernel(log, name, ready=name == "b") for name in "abc"}

    class Workers:
        def wait_for_any(self, tasks):
            promises["c" if "c" in crew.left else "a"].ready = True

    monkeypatch.setattr(pool, "current", lambda target, start: None)
    crew = readiness._Crew(promises)
    crew.pool = Workers()
    assert list(crew.finished()) == ["b", "c", "a"] == log


def test_this_process_compiles_what_nobody_has_begun(monkeypatch):
    log = []
    promises = {name: Kernel(log, name) for name in "abc"}
    promises["b"].task = None
    monkeypatch.setattr(pool, "current", lambda target, start: None)
    crew = readiness._Crew(promises)
    assert next(crew.finished()) == "b"


@pytest.mark.parametrize("workers, seconds, expected", [
    (15, 0.0, [True]), (1, 0.05, [False]), (1, 0.1, [False, True]),
])  # fmt: skip
def test_workers_are_started_where_much_is_left(monkeypatch, workers, seconds, expected):
    """Eight kernels: seven are left after the first."""
    started, ticks = [], iter((0.0, seconds))
    monkeypatch.setattr(pool, "current", lambda target, start: started.append(start))
    monkeypatch.setenv("TRITIUM_COMPILE_WORKERS", str(workers))
    monkeypatch.setattr(readiness, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    promises = {name: Kernel([], name) for name in "abcdefgh"}
    for kernel in promises.values():
        kernel.task = None
    next(readiness._Crew(promises).finished())
    assert started == expected


def test_workers_compile_for_a_tuner(monkeypatch):
    """They are there, and the tuner uses them: it finds kernels that it did not compile."""
    monkeypatch.setenv("TRITIUM_COMPILE_WORKERS", "1")
    monkeypatch.setattr(pool, "_refused", False)
    workers = pool.current("cpu:host:1")
    while not workers.ready:
        time.sleep(0.01)
    double.device_caches.clear()
    replies, over = [], workers._over
    monkeypatch.setattr(workers, "_over", lambda worker, reply: (replies.append(len(reply)), over(worker, reply)))
    t = tuned(blocks=(16, 32, 64, 128, 256, 512), do_bench=lambda fn, quantiles: fn() or [1.0] * 3)
    assert (launch(t) == 2).all() and max(replies) > 1000  # a task that this process took back is answered with nothing


def test_hooks_that_set_the_blocks_of_descriptors_run_before_compiling(monkeypatch):
    seen = []

    class Descriptor:
        block_shape, base, shape, strides, padding = [1], np.ones(4, np.float32), [4], [1], "zero"

    monkeypatch.setattr(Autotuner, "_bench", lambda self, *args, config, **kwargs: [1.0] * 3)
    monkeypatch.setattr("tritium.runtime.measuring.is_descriptor", lambda x: isinstance(x, Descriptor))
    configs = [Config({"BLOCK": b}, pre_hook=lambda args: seen.append(args["BLOCK"])) for b in (2, 4)]
    t = Autotuner(double, double.arg_names, configs, ["n"], None, ["x"])
    for argument, expected in ((np.ones(4, np.float32), []), (Descriptor(), [2, 4])):
        t.nargs = {"x": argument, "n": 4}
        t._measure(configs, (argument, 4), {"grid": (1,), "warmup": False})
        assert seen == expected


# -- what is kept ------------------------------------------------------------------------------------------------------


def test_results_are_kept(measured):
    first = tuned()
    assert (launch(first) == 2).all() and measured[:3] == [16, 32, 64]
    measured.clear()
    again = tuned()
    assert (launch(again) == 2).all() and measured == []
    assert again.best_config.kwargs == {"BLOCK": 64} and again.configs_timings == first.configs_timings


@pytest.fixture
def ours(monkeypatch):
    """As `measured`, with the tuner's own way of measuring."""
    seen = []

    def look(self, trial, quantiles):
        trial()
        if not self.final:
            seen.append(1)
        return [1.0] * 3

    monkeypatch.setattr(trials.Race, "__call__", look)
    return seen


def times_measured(seen, t, n=100, **options):
    seen.clear()
    launch(t, n, **options)
    return len(seen)


@triton.jit
def double_other(x, n, BLOCK: tl.constexpr, KIND: tl.constexpr = "plain"):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, i < n) * 2.0, i < n)


CHANGES = {
    "nothing": (0, {}, lambda patch: None),
    "configurations": (2, {"blocks": (16, 128)}, lambda patch: None),
    "source": (3, {"kernel": double_other}, lambda patch: None),
    "compiler": (3, {}, lambda patch: patch.setattr(cache, "fingerprint", lambda: "another")),
    "device": (3, {}, lambda patch: patch.setattr(kept, "_device", lambda: "another")),
    "environment": (3, {}, lambda patch: patch.setenv("TRITON_DEFAULT_FP_FUSION", "0")),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_the_answer_depends_on(ours, monkeypatch, what):
    count, options, change = CHANGES[what]
    assert times_measured(ours, tuned()) == 3
    change(monkeypatch)
    assert times_measured(ours, tuned(**options)) == count


def test_other_arguments_are_another_question(ours):
    assert times_measured(ours, tuned()) == 3
    assert times_measured(ours, tuned(), n=101) == 3, "another value of the key"
    assert times_measured(ours, tuned(), KIND="other") == 3, "another constant"
    assert times_measured(ours, tuned()) == 0


def test_eager_kernels_are_tuned_in_every_process(ours):
    kernel = InterpretedFunction(double_other.fn)
    assert times_measured(ours, tuned(kernel=kernel)) == times_measured(ours, tuned(kernel=kernel)) == 3


def test_devices_of_one_kind_are_told_apart(monkeypatch):
    before = kept._device()
    figures = dict(driver.active.utils.get_device_properties(0))
    monkeypatch.setattr(type(driver.active.utils), "get_device_properties",
                        lambda self, device: {**figures, "multiprocessor_count": 999})
    assert kept._device() != before


def test_they_may_be_switched_off(ours, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_AUTOTUNING", "0")
    assert times_measured(ours, tuned()) == times_measured(ours, tuned()) == 3
    assert times_measured(ours, tuned(cache_results=True)) == 3, "unless asked for"
    assert times_measured(ours, tuned(cache_results=True)) == 0


def test_results_of_another_clock_are_kept_only_if_asked_for(monkeypatch):
    seen = []
    clock = lambda fn, quantiles: (fn(), seen.append(1), [1.0] * 3)[2]
    assert times_measured(seen, tuned(do_bench=clock)) == times_measured(seen, tuned(do_bench=clock)) == 3
    monkeypatch.setenv("TRITON_CACHE_AUTOTUNING", "1")
    assert times_measured(seen, tuned(do_bench=clock)) == 3 and times_measured(seen, tuned(do_bench=clock)) == 0


@pytest.mark.parametrize("damage", ["truncate", "change", "empty", "delete"])
def test_damaged_results_are_measured_again(ours, tmp_path, damage):
    assert times_measured(ours, tuned()) == 3
    (path,) = (tmp_path / "cache").rglob("double.autotune.json")
    text = path.read_text()
    if damage == "delete":
        path.unlink()
    else:
        path.write_text({"truncate": text[:40], "change": text.replace("1.0", "0.1", 1), "empty": ""}[damage])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert times_measured(ours, tuned()) == 3
    assert json.loads(path.read_text()) == json.loads(text)
    assert times_measured(ours, tuned()) == 0


def test_tuners_that_measure_in_their_own_way_are_asked_once():
    class Mine(Autotuner):
        def _bench(self, *args, config, **kwargs):
            seen.append(config.kwargs["BLOCK"])
            return super()._bench(*args, config=config, **kwargs)

    seen = []
    for _ in range(2):
        configs = [Config({"BLOCK": b}) for b in (16, 32)]
        launch(Mine(double, double.arg_names, configs, ["n"], None, ["x"]))
    assert seen == [16, 32] * 2, "and their results are not ours to keep"


# -- failures ----------------------------------------------------------------------------------------------------------


@triton.jit
def endless(x, n, BLOCK: tl.constexpr):
    if BLOCK > 16:
        while tl.load(x, volatile=True) > 0:
            pass
    tl.store(x, 5.0)


def test_a_launch_that_does_not_end_is_left_out(monkeypatch):
    monkeypatch.setenv("TRITIUM_TUNING_TIMEOUT", "1")
    t = tuned(endless, blocks=(16, 32), restore_value=["x"])
    x = np.ones(1, np.float32)
    with pytest.warns(UserWarning, match=r"leaves a configuration out: BLOCK: 32.*did not end within 1 seconds"):
        t[(1,)](x, 1)
    assert t.best_config.kwargs == {"BLOCK": 16} and x[0] == 5
    assert t.configs_timings[Config({"BLOCK": 32})] == [math.inf] * 3


def test_an_alarm_that_is_not_needed_leaves_nothing_behind():
    for _ in range(20):
        with trials._Alarm(0.5):
            pass
    time.sleep(0.6)
    with pytest.raises(KeyboardInterrupt), trials._Alarm(5.0):
        raise KeyboardInterrupt
    with pytest.raises(trials.Stuck), trials._Alarm(0.05):
        time.sleep(5)
    with pytest.raises(ZeroDivisionError), trials._Alarm(0.05):
        try:
            time.sleep(5)
        except KeyboardInterrupt:
            raise ZeroDivisionError from None


def test_other_threads_are_not_interrupted():
    seen = []

    def work():
        with trials._Alarm(0.01):
            time.sleep(0.1)
        seen.append("done")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == ["done"]


def test_a_configuration_that_brings_the_device_down_is_named_and_left_out_later(monkeypatch):
    """What has gone wrong on a GPU cannot be undone in the process: the next one knows."""
    lost = []

    def measure(self, *args, config, **kwargs):
        if config.kwargs["BLOCK"] == 32:
            lost.append(config)
            raise RuntimeError("an illegal memory access was encountered\nmore")
        return [1.0] * 3

    monkeypatch.setattr(Autotuner, "_bench", measure)
    monkeypatch.setattr(tuning, "device_is_lost", lambda: bool(lost))
    with pytest.raises(AutotunerError, match=r"brought the device down: BLOCK: 32, .*\nan illegal memory access was "
                                             r"encountered\nhint: .* later runs leave it out") as raised:
        launch(tuned(cache_results=True))
    assert isinstance(raised.value.__cause__, RuntimeError)
    lost.clear()
    t = tuned(cache_results=True)
    with pytest.warns(UserWarning, match="BLOCK: 32.*illegal memory access was encountered, in an earlier run"):
        launch(t)
    assert not lost and t.configs_timings[Config({"BLOCK": 32})] == [math.inf] * 3


def test_a_gpu_that_hangs_ends_the_tuning(monkeypatch):
    monkeypatch.setattr(Clock, "on_host", False)
    monkeypatch.setattr(Clock, "finishes", lambda self, seconds: False)
    monkeypatch.setattr(triton.testing, "clock", lambda: Clock(1.0))
    with pytest.raises(AutotunerError, match=r"BLOCK: 16.*\na launch did not end within 60 seconds"):
        launch(tuned())
    with pytest.raises(AutotunerError, match=r"BLOCK: 32"), pytest.warns(UserWarning, match="BLOCK: 16"):
        launch(tuned())
    with pytest.raises(AutotunerError, match=r"BLOCK: 64"), pytest.warns(UserWarning, match="BLOCK: (16|32)"):
        launch(tuned())
    with pytest.raises(AutotunerError, match="every configuration of double"), pytest.warns(UserWarning):
        launch(tuned())


def test_ordinary_errors_stay_what_they_are(monkeypatch):
    def measure(self, *args, config, **kwargs):
        raise ZeroDivisionError("mine")

    monkeypatch.setattr(Autotuner, "_bench", measure)
    with pytest.raises(ZeroDivisionError, match="mine"):
        launch(tuned())


# -- warnings ----------------------------------------------------------------------------------------------------------


@triton.jit
def accumulate(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(x + i, 1.0, i < n)


@triton.jit
def largest(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_max(x + i, 1.0, i < n)


@pytest.mark.parametrize("kernel, options, warned", [
    (accumulate, {}, True),
    (accumulate, {"reset_to_zero": ["x"]}, False), (accumulate, {"restore_value": ["x"]}, False),
    (accumulate, {"pre_hook": lambda args, reset_only=False: None}, False), (largest, {}, False), (double, {}, False),
], ids=["bare", "reset", "restore", "hook", "idempotent", "plain"])  # fmt: skip
def test_sums_that_nobody_puts_right(measured, kernel, options, warned):
    t = autotune([Config({"BLOCK": b}) for b in (16, 32)], key=["n"], **options)(kernel)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        launch(t)
    assert [w for w in seen if "updates memory atomically" in str(w.message)] if warned else not seen


# -- soak --------------------------------------------------------------------------------------------------------------

# Threads of several processes launch tuned kernels first, each with values of its own, over one cache.
SOAK = '''
import sys, threading, traceback
import numpy as np
import tritium as triton
import tritium.language as tl

PROCESS, THREADS, LAUNCHES = map(int, sys.argv[1:])


@triton.jit
def shift(x, out, n, K: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) + K, i < n)


def clock(run, quantiles):
    run()
    return 1.0


def tuner(k):
    ours = {} if k % 4 == 0 else {"do_bench": clock, "cache_results": k % 2 == 0}
    return triton.autotune([triton.Config({"BLOCK": b}) for b in (16, 32, 64, 128)[k % 3:]], key=["n"], **ours)(shift)


shared = [tuner(k) for k in range(4)]


def work(thread):
    start.wait()
    try:
        for k in range(LAUNCHES):
            n = 128 + 8 * k + thread  # each a first launch: no tuner of this process has seen it
            x, out = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
            tuned = shared[k % 4] if k % 2 else tuner(k)
            tuned[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n, K=(k + PROCESS) % 7)
            assert (out == x + (k + PROCESS) % 7).all(), (thread, k, out)
    except BaseException:
        failures.append(traceback.format_exc())


failures, start = [], threading.Barrier(THREADS)
threads = [threading.Thread(target=work, args=(k,)) for k in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit("".join(failures) or 0)
'''


def soak(tmp_path, processes, threads, launches):
    script = tmp_path / "soak.py"
    script.write_text(SOAK)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TRITIUM_CACHE_DIR": str(tmp_path / "soak"),
           "TRITIUM_COMPILE_WORKERS": "1", "TRITIUM_BACKEND": "cpu"}
    command = [sys.executable, "-X", "faulthandler", str(script)]
    started = [subprocess.Popen([*command, str(k), str(threads), str(launches)], env=env, stderr=subprocess.PIPE,
                                stdout=subprocess.DEVNULL, text=True) for k in range(processes)]  # fmt: skip
    for process in started:
        _, said = process.communicate(timeout=3000 if LONG else 300)
        assert process.returncode == 0, said[-4000:]


def test_threads_and_processes_tune_at_once(tmp_path):
    soak(tmp_path, processes=2, threads=4, launches=3)


@pytest.mark.slow
@pytest.mark.skipif(not LONG, reason="takes minutes: set TRITIUM_TEST_LONG=1")
def test_two_thousand_tuned_first_launches(tmp_path):
    soak(tmp_path, processes=8, threads=8, launches=32)
