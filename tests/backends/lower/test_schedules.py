"""The pipeline schedules of loops, by themselves: what `schedules.txt` says of the kernels that the passes' tests use.

`pytest --update` writes what came out. Nothing is emitted here.
"""

import dataclasses
import re
from pathlib import Path

import pytest

from tests import cases
from tests.backends.lower.schedule_text import schedule_text
from tritium import ops
from tritium.backends.gpu.pipeline.capabilities import NO_DOTS, capabilities
from tritium.backends.gpu.pipeline.loop_info import LoopInfo, stages_of
from tritium.backends.gpu.pipeline.reordering import Reordering
from tritium.backends.gpu.pipeline.schedule import prefetched_loads, register_loads, schedule_dots, staged_loads
from tritium.backends.nvptx.isa.target import NvTarget
from tritium.ir.core import walk
from tritium.ir.text import parse_module, print_module
from tritium.passes.assumed import Assumed

HERE = Path(__file__).parent
EXPECTED = HERE / "schedules.txt"
FILES = ("gpu/software_pipeline", "gpu/specialize_warps", "nvptx/attention", "nvptx/attention_ping_pong")
CASES = [case for name in FILES for case in cases.read(HERE / f"{name}.tir")]


def loops_of(case):
    """(the module of a case, its loops around dots that ask for stages, the capabilities of threads that copy for
    themselves and of those beside a producer warp, the reordering)."""
    arch, warps, stages = re.search(r"# target: sm_(\d+) warps=(\d+)(?: stages=(\d+))?", case.given).groups()
    module = parse_module(case.kernel)
    module = module.replace(attrs={**module.attrs, "num_warps": int(warps), "num_stages": int(stages or 3)})
    target = NvTarget.of(arch)
    can = capabilities(target, module, [])
    loops = [op for op in walk(module.body) if op.kind is ops.for_ and stages_of(op, module) > 1]
    loops = [op for op in loops if any(x.kind is ops.dot for x in op.regions[0].ops)]
    dots = [op for loop in loops for op in loop.regions[0].ops if op.kind is ops.dot]
    ways = target.tma.warps(int(warps), max(dot.type.shape[-1] for dot in dots)) if target.tma and dots else ()
    beside = can._replace(threads=can.threads.consumers(ways[0])) if ways else can
    return module, loops, can, beside, Reordering.of(module, Assumed(module))


def schedules(case):
    """The text of the schedules of a case: of a producer warp, and of copies by all threads."""
    module, loops, can, beside, reordering = loops_of(case)
    for loop in loops:
        for name, info, find in (
            ("producer", LoopInfo.of(loop, beside), staged_loads),
            ("copies", LoopInfo.of(loop, can, reordering), prefetched_loads),
        ):
            loads = find(info)
            schedule = None if loads is None else schedule_dots(info, loads, name, stages_of(loop, module))
            found = "none" if schedule is None else schedule_text(schedule)
            yield "\n".join([f"{name}:", *(f"  {line}" for line in found.splitlines())])


def name_of(case):
    return f"{case.path.stem}: {case.title}"


def expectations():
    parts = re.split(r"(?m)^# ", EXPECTED.read_text())[1:] if EXPECTED.exists() else []
    return dict(part.split("\n", 1) for part in parts)


@pytest.mark.parametrize("case", [pytest.param(case, id=name_of(case)) for case in CASES])
def test_schedule(case, request):
    found = "".join(f"{text}\n" for text in schedules(case))
    if request.config.getoption("--update"):
        known = {**expectations(), name_of(case): found}
        order = [name for name in map(name_of, CASES) if name in known]
        EXPECTED.write_text("".join(f"# {name}\n{known[name]}" for name in order))
        return
    assert found == expectations()[name_of(case)]


def test_a_schedule_is_not_changed_and_changes_nothing():
    module, (loop, *_), can, _, reordering = loops_of(CASES[0])
    before = print_module(module)
    info = LoopInfo.of(loop, can, reordering)
    schedule = schedule_dots(info, prefetched_loads(info))
    assert print_module(module) == before
    with pytest.raises(dataclasses.FrozenInstanceError):
        schedule.dots = ()
    with pytest.raises(dataclasses.FrozenInstanceError):
        info.dots = ()
    assert schedule_text(schedule) == schedule_text(schedule_dots(info, prefetched_loads(info)))


def test_few_registers_keep_dots_from_staying_in_flight():
    """Where tiles are spilled, the assembler has warps wait for each dot."""
    _, (loop, *_), can, *_ = loops_of(CASES[0])
    for registers, expected in ((255, (0,)), (32, ())):
        info = LoopInfo.of(loop, can._replace(threads=can.threads._replace(registers=registers)))
        assert schedule_dots(info, staged_loads(info)).in_flight == expected


def test_loads_into_registers_take_the_room_there_is():
    module = parse_module("""kernel @sums(%p: ptr<f32>, %q: ptr<f32>, %n: i32) {
      %0 = constant {value=0, type=i32} : i32
      %1 = constant {value=1, type=i32} : i32
      for %0, %n, %1 {
      ^(%i: i32):
        %2 = addptr %p, %i : ptr<f32>
        %3 = load %2 : f32
        %4 = addptr %q, %i : ptr<f32>
        %5 = load %4 : f32
        yield
      }
    }""")
    loop = next(op for op in module.body.ops if op.kind is ops.for_)
    info = LoopInfo.of(loop, NO_DOTS)
    names = lambda room: schedule_text(schedule_dots(info, register_loads(info, lambda load: 1, room)))
    assert names(1) == "prefetch nothing; ahead: the index; in registers: load 1"
    assert names(2) == "prefetch nothing; ahead: the index; in registers: load 1, load 3"
    assert register_loads(info, lambda load: 1, 0) is None
