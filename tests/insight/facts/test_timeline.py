"""Pipelines of loops, and stages by source line."""

import itertools

import numpy as np
import pytest

from tests.insight import kernels as K
from tritium.insight.facts.stages import compare, stages
from tritium.insight.facts.timeline import LATENCY, Loop, Work, schedule, timeline
from tritium.kernels.softmax import persistent_kernel
from tritium.kernels.vector_add import add_kernel


def product(**meta):
    a = K.floats(128, 128, dtype=np.float16)
    return K.launched(K.product, (2, 2), a, a, K.floats(128, 128), 128, 128, 128, 128, **dict(M=64, N=64, BK=32) | meta)


def line_of(launch, text):
    return next(n for n, line in launch.text if text in line)


@pytest.mark.parametrize("num_stages", [2, 3, 4])
def test_a_software_pipeline(num_stages):
    launch = product(num_stages=num_stages)
    found = timeline(launch)
    (loop,) = found.loops
    assert (loop.how, loop.distance, loop.slots) == ("software pipeline", num_stages - 1, num_stages)
    assert [w.kind for w in loop.prologue] == ["load"] * (2 * (num_stages - 1))
    assert [w.kind for w in loop.body] == ["wait", "load", "load", "mma"]
    assert [w.line for w in loop.body[1:]] == [line_of(launch, text) for text in ("a = tl.", "b = tl.", "tl.dot")]
    assert loop.body[1].amount == 64 * 32 * 2 and loop.body[-1].amount == 2 * 64 * 64 * 32
    assert loop.epilogue[-1].kind == "store" and found.roles == ("all warps",)


def test_a_loop_that_is_not_pipelined():
    (loop,) = timeline(product(num_stages=1)).loops
    assert (loop.how, loop.distance, loop.prologue) == ("plain", 0, ()) and not loop.hides_latency


def test_a_producer_warp():
    a = K.floats(256, 256, dtype=np.float16)
    launch = K.launched(K.product, (2, 2), a, a, K.floats(256, 256), 256, 256, 256, 256, M=128, N=128, BK=64,
                        target="cuda:90a")
    found = timeline(launch)
    (loop,) = found.loops
    assert found.roles == ("producer warp", "consumer warps") and (loop.how, loop.distance) == ("producer warp", 5)
    assert [w.what.split()[0] for w in loop.producer if w.kind == "load"] == ["TMA", "TMA"]
    assert [w.kind for w in loop.body] == ["wait", "mma"] and [w.kind for w in loop.epilogue] == ["store"]


def test_loads_one_iteration_ahead():
    x = K.floats(16, 64)
    launch = K.launched(persistent_kernel, (4,), x.copy(), x, 64, 64, 16, 64, BLOCK=64, num_stages=2)
    (loop,) = timeline(launch).loops
    assert (loop.how, loop.distance) == ("prefetch", 1)


def test_what_has_no_loop():
    x = K.floats(64)
    assert timeline(K.launched(add_kernel, (1,), x, x, x, 64, BLOCK=64)).loops == ()
    assert timeline(K.launched(add_kernel, (1,), x, x, x, 64, BLOCK=64, target="cpu")).loops == ()


def test_a_schedule_overlaps_what_runs_ahead():
    work = Work("load", 1, "", 0, LATENCY + 50), Work("mma", 2, "", 0, 400)
    bars = schedule(Loop(1, "software pipeline", 2, 3, (), work, ()), 5)
    loads, dots = ([b for b in bars if b.row == row] for row in ("load", "mma"))
    assert [b.phase for b in loads] == ["prologue"] * 2 + ["steady"] * 3
    assert [b.phase for b in dots] == ["steady"] * 3 + ["epilogue"] * 2
    assert loads[2].start == dots[0].start  # its slot is free when the first product begins to read another
    assert all(dot.start >= load.end for load, dot in zip(loads, dots))
    assert all(a.end <= b.start for a, b in itertools.pairwise(dots))
    one_by_one = schedule(Loop(1, "plain", 0, 1, (), work, ()), 5)
    assert max(b.end for b in bars) < max(b.end for b in one_by_one) == pytest.approx(5 * (LATENCY + 450))


# -- stages ------------------------------------------------------------------------------------------------------------


def test_every_stage_knows_the_source_lines():
    launch = product()
    found = {stage.name: stage for stage in stages(launch)}
    assert list(found)[:5] == ["python", "ttir", "ttgir", "llir", "ptx"]
    dot = line_of(launch, "tl.dot")
    assert [text.split(" = ")[1].split()[0] for text in found["ttir"].of_line(dot)] == ["dot"]
    assert any("async_load" in text for text in found["ttgir"].of_line(line_of(launch, "a = tl.")))
    assert any("mma.sync" in text for text in found["ptx"].of_line(dot))
    assert any("@llvm.nvvm" in text or "mma" in text for text in found["llir"].of_line(dot))
    for stage in found.values():
        assert len(stage.lines) == len(stage.source)
        numbers = {n for n, _ in launch.text}
        assert set(stage.source) <= numbers | {0}


def test_a_stage_of_a_cpu():
    x = K.floats(64)
    found = [stage.name for stage in stages(K.launched(add_kernel, (1,), x, x, x, 64, BLOCK=64, target="cpu"))]
    assert found == ["python", "ttir", "llir", "asm"]


def test_long_stages_are_cut(monkeypatch):
    monkeypatch.setattr("tritium.insight.facts.stages.LINES", 20)
    ptx = stages(product())[-1]
    assert len(ptx.lines) == 20 and ptx.left_out > 100


def test_two_configurations():
    first, second = (stages(product(num_stages=n)) for n in (2, 3))
    found = compare(("two", "three"), ({"stages": "2", "grid": "2x2"}, {"stages": "3", "grid": "2x2"}), first, second)
    assert found.figures == (("stages", "2", "3"),) and "python" not in found.diffs
    assert any(text.startswith("+") and "slots=3" in text for text in found.diffs["ttgir"])
