"""`tritium.profile()`: what it counts, times and estimates, on the CPU."""

import json
import threading

import numpy as np
import pytest

import tritium
import tritium as triton
import tritium.language as tl
from tritium import knobs
from tritium.insight.profile import clocks, limits
from tritium.insight.profile.launches import watch

N = 5000


@triton.jit
def scale(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


@triton.jit
def bump(x, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(x + i, 1.0, mask=i < n)


def told(grid, metadata, args):
    return {"name": f"told_{args['n']}", "flops16": 3 * args["n"], "flops8": args["n"], "bytes": 8 * args["n"]}


@triton.jit(launch_metadata=told)
def tells(x, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + i, 1.0, mask=i < n)


def arrays(n=N):
    return np.ones(n, np.float32), np.empty(n, np.float32)


def test_rows_are_by_kernel_and_configuration():
    x, out = arrays()
    with tritium.profile(limit=False) as p:
        for _ in range(3):
            scale[(5,)](x, out, N, B=1024)
        scale[(10,)](x, out, N, B=512)
        scale[(10,)](x, out, N, B=512, num_warps=8)
    found = {(row.configuration.text, row.count) for row in p.rows}
    assert found == {("5 programs, B=1024", 3), ("10 programs, B=512", 1), ("10 programs, B=512, num_warps=8", 1)}
    assert all(row.total_ns >= row.count * row.fastest_ns > 0 and row.timed == row.count for row in p.rows)
    assert (out == 2).all() and len(p.facts.launches) == 5 and p.facts.wall_ns >= sum(r.total_ns for r in p.rows)


def test_bytes_are_estimated_from_what_is_read_and_written():
    x, out = arrays()
    wide = np.broadcast_to(np.float32(3), (7, N))  # one element, seen often
    with tritium.profile(limit=False) as p:
        scale[(5,)](x, out, N, B=1024)
        scale[(5,)](out, out, N, B=1024)
        bump[(5,)](x, N, B=1024)
        scale[(5,)](wide, out, N, B=1024)
    sizes = sorted((row.configuration.kernel, row.count, row.bytes) for row in p.rows)
    assert sizes == [("bump", 1, 8.0 * N), ("scale", 1, 4.0 * N + 4), ("scale", 2, 8.0 * N)]
    assert all(row.bytes_are_estimated for row in p.rows) and "~" in p.text()


def test_launch_metadata_tells_more_than_an_estimate():
    x, _ = arrays()
    with tritium.profile(limit=False) as p:
        for _ in range(2):
            tells[(5,)](x, N, B=1024)
    (row,) = p.rows
    assert (row.configuration.kernel, row.bytes, row.flops) == (f"told_{N}", 8.0 * N, 4.0 * N)
    assert not row.bytes_are_estimated and row.flops_per_second == pytest.approx(8 * N * 1e9 / row.total_ns)
    assert "~" not in p.text()


def test_nothing_stays_behind():
    x, out = arrays()
    before = knobs.compilation.listener, knobs.autotuning.listener
    with tritium.profile(limit=False):
        assert knobs.runtime.launch_enter_hook and knobs.runtime.launch_exit_hook
    assert not knobs.runtime.launch_enter_hook and not knobs.runtime.launch_exit_hook
    assert (knobs.compilation.listener, knobs.autotuning.listener) == before
    with pytest.raises(ZeroDivisionError), tritium.profile(limit=False) as p:
        scale[(5,)](x, out, N, B=1024)
        1 / 0
    assert p.rows[0].count == 1 and not knobs.runtime.launch_enter_hook and not watch.clocks


def test_listeners_that_were_there_are_told_too():
    seen = []
    with knobs.compilation.scope(), tritium.profile(limit=False):
        pass
    with knobs.compilation.scope():
        knobs.compilation.listener = lambda **what: seen.append(what["cache_hit"])
        knobs.compilation.always_compile = True
        with tritium.profile(limit=False) as p:

            @triton.jit
            def fresh(x):
                tl.store(x, 1.0)

            fresh[(1,)](np.zeros(1, np.float32))
    assert seen == [False] and p.rows[0].compiled == 1 and p.rows[0].compile_ns > 0
    assert "1 kernels compiled" in p.text() and "1 miss" in p.text()


def test_two_profiles_at_once_count_the_same_launch():
    x, out = arrays()
    with tritium.profile(limit=False) as outer:
        scale[(5,)](x, out, N, B=1024)
        with tritium.profile(limit=False) as inner:
            scale[(5,)](x, out, N, B=1024)
        scale[(5,)](x, out, N, B=1024)
    assert outer.rows[0].count == 3 and inner.rows[0].count == 1


def test_threads_have_lanes_of_their_own():
    x, _ = arrays()

    def work():
        for _ in range(5):
            scale[(5,)](x, np.empty(N, np.float32), N, B=1024)

    with tritium.profile(limit=False) as p:
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum(row.count for row in p.rows) == 15 and len(p.facts.launches) == 15


def test_tuning_is_told_and_its_trials_are_not_launches():
    @triton.autotune([triton.Config({"B": 128}), triton.Config({"B": 1024})], key=["n"])
    @triton.jit
    def tuned(x, n, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        tl.store(x + i, 1.0, mask=i < n)

    hooked = []
    x, _ = arrays()
    with knobs.autotuning.scope(), tritium.profile(limit=False) as p:
        knobs.autotuning.cache = False

        def grid(meta):
            hooked.append(bool(knobs.runtime.launch_enter_hook))
            return (triton.cdiv(N, meta["B"]),)

        tuned[grid](x, N)
    (row,), (tuning,) = p.rows, p.facts.tunings
    assert row.count == 1 and tuning.configurations == 2 and row.tuning_ns == tuning.duration_ns > 0
    assert hooked[-1] and not any(hooked[:-1]), "the hooks are away while the tuner measures, and back afterwards"
    assert "tuned tuned: 2 configurations" in p.text()


def test_a_limit_is_measured_once(monkeypatch, fresh_cache):
    asked = []
    monkeypatch.setattr(limits, "measured", lambda backend: asked.append(backend) or 5e9)
    x, out = arrays()
    for _ in range(2):
        with tritium.profile() as p:
            scale[(5,)](x, out, N, B=1024)
    (row,) = p.rows
    assert asked == ["cpu"] and row.limit == 5e9 and p.facts.limits[0].device == "cpu"
    assert row.percent_of_limit == pytest.approx(100 * row.bytes_per_second / 5e9)
    assert len(p.rows) == 1, "the measurement itself is not in the profile"


@pytest.fixture
def fresh_cache(tmp_path):
    with knobs.cache.scope():
        knobs.cache.dir = str(tmp_path / "cache")
        limits._best.cache_clear()
        yield
        limits._best.cache_clear()


def test_a_measured_limit_is_a_bandwidth():
    assert 1e7 < limits.measured("cpu", 1 << 16) < 1e14


def test_what_is_compiled_during_a_launch_does_not_count():
    clock, sample = clocks.HostClock(), clocks.Sample()
    clock.begin(sample)
    sample.excluded = 10**12
    clock.end(sample)
    assert sample.duration == 0


def test_a_trace_keeps_at_most_so_many_launches():
    x, out = arrays()
    with tritium.profile(limit=False, launches=2) as p:
        for _ in range(5):
            scale[(5,)](x, out, N, B=1024)
    assert len(p.facts.launches) == 2 and p.facts.dropped == 3 and p.rows[0].count == 5


def test_long_runs_keep_times_and_forget_launches():
    x, out = arrays(64)
    p = tritium.profile(limit=False, launches=1)
    with p:
        for _ in range(1100):
            scale[(1,)](x, out, 64, B=64)
        p._shrink()
        scale[(1,)](x, out, 64, B=64)
    assert p.rows[0].count == p.rows[0].timed == 1101 and p.facts.dropped == 1100


def test_no_launch_is_told_in_one_line():
    with tritium.profile() as p:
        pass
    assert p.text() == "no kernel was launched\n" and not p.rows and "no kernel was launched" in p.html()


@pytest.mark.parametrize("options, error", [
    ({"clock": "sun"}, "there is no clock 'sun': it is one of auto, events, cupti"),
    ({"launches": -1}, "the number of launches to keep is 0 or more, not -1"),
])  # fmt: skip
def test_mistakes(options, error):
    with pytest.raises(ValueError, match=error):
        tritium.profile(**options)


def test_a_profile_is_looked_at_afterwards_and_taken_once():
    p = tritium.profile(limit=False)
    with pytest.raises(RuntimeError, match="was not started"):
        p.stop()
    with p:
        with pytest.raises(RuntimeError, match="still being taken"):
            p.rows
    with pytest.raises(RuntimeError, match="is taken once"):
        p.start()


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def taken():
    x, out = arrays()
    with tritium.profile(limit=False) as p:
        for _ in range(4):
            scale[(5,)](x, out, N, B=1024)
        tells[(5,)](x, N, B=1024)
    return p


def test_json_has_all_facts(taken, tmp_path):
    taken.save(tmp_path / "p.json")
    found = json.loads((tmp_path / "p.json").read_text())
    assert sorted(row["count"] for row in found["rows"]) == [1, 4] and len(found["launches"]) == 5
    assert {row["configuration"]["kernel"] for row in found["rows"]} == {"scale", f"told_{N}"}
    assert all(row["bytes_per_second"] > 0 for row in found["rows"])


def test_a_trace_is_what_perfetto_reads(taken, tmp_path):
    taken.save(tmp_path / "p.trace.json")
    found = json.loads((tmp_path / "p.trace.json").read_text())
    events = [event for event in found["traceEvents"] if event["ph"] == "X" and event["cat"] == "kernel"]
    assert len(events) == 5 and [event["ts"] for event in events] == sorted(event["ts"] for event in events)
    assert all(event["dur"] > 0 and event["args"]["grid"] == [5, 1, 1] for event in events)
    lanes = {event["tid"] for event in found["traceEvents"] if event["ph"] == "M"}
    assert lanes == {event["tid"] for event in found["traceEvents"]}


def test_a_page_needs_nothing_else(taken, tmp_path):
    taken.save(tmp_path / "p.html")
    text = (tmp_path / "p.html").read_text()
    assert text.count("<tr>") == 3 and text.count("<rect ") == 5 and "http" not in text and "src=" not in text
    assert taken._repr_html_() == text


def test_names_are_escaped():
    facts = tritium.profile(limit=False)
    x, _ = arrays(8)

    @triton.jit(launch_metadata=lambda grid, metadata, args: {"name": "<script>alert(1)</script>"})
    def odd(x):
        tl.store(x, 1.0)

    with facts:
        odd[(1,)](x)
    assert "<script>alert" not in facts.html() and "&lt;script&gt;" in facts.html()


def test_tables_without_rich(taken, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "rich", None)
    first, *rest = taken.text().split("\n")
    assert first.split()[:3] == ["kernel", "configuration", "count"] and any("scale" in line for line in rest)


def test_the_best_of_the_first_processes_is_kept(monkeypatch, fresh_cache):
    """A process on a busy machine does not set the limit for all that follow."""
    rates = iter([2e9, 7e9, 3e9, 1e9, 1e9, 9e9])
    monkeypatch.setattr(limits, "measured", lambda backend: next(rates))
    found = []
    for _ in range(7):
        limits._best.cache_clear()  # as a new process
        found += [limits.copy_bandwidth("cpu").bytes_per_second, limits.copy_bandwidth("cpu").bytes_per_second]
    assert found == [2e9, 2e9, *[7e9] * 12] and next(rates) == 9e9
