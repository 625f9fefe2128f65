"""Whether one thread or several run a launch: by what such launches take on machines that are made up here."""

import ctypes

import pytest

from tritium.backends.cpu.runtime import launch_times
from tritium.backends.llvm import jit
from tritium.backends.llvm.structs import resolve
from tritium.backends.llvm.target import compile_text, cpu_target

US = 1000  # ticks
WORTH_SHARING = 8 * US
ALONE, SEVERAL = 1, 2
PROGRAMS = 64
AROUND = f"""
@share_after = internal global i64 {WORTH_SHARING}
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
define internal i64 @ticks() nounwind {{
  ret i64 0
}}
define i64 @ask(i64 %programs) nounwind {{
  %known = getelementptr %known, ptr @known, i64 0
  ret i64 call i64 @settled(ptr %known, i1 true, i64 %programs)
}}
define void @tell(i64 %way, i64 %ticks) nounwind {{
  %known = getelementptr %known, ptr @known, i64 0
  call void @note_launch(ptr %known, i64 %way, i64 %ticks)
  ret void
}}
"""


class Launches:
    """A kernel that is launched over and over. `machine(way, before)` gives the ticks of a launch; `before` are the
    ways of the launches so far."""

    def __init__(self, machine, guess=ALONE):
        text = resolve("\n".join((launch_times.KNOWN.definition, launch_times.TEXT, AROUND)), launch_times.KNOWN)
        self.library = jit.load(compile_text(text, cpu_target()), exports=("ask", "tell"))
        address = self.library.address
        self.ask = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address("ask"))
        self.tell = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(address("tell"))
        self.machine, self.guess, self.ways = machine, guess, []

    def run(self, count, programs=PROGRAMS):
        """The mean ticks of so many launches."""
        spent = 0
        for _ in range(count):
            way = self.ask(programs) or self.guess
            ticks = self.machine(way, self.ways)
            self.ways.append(way)
            self.tell(way, ticks)
            spent += ticks
        return spent / count


def sleepy(way, before):
    """Several threads take a third of the time, but for the first launches after a pause, in which they sleep."""
    late = before[-2:].count(SEVERAL) < 2
    return 37 * US if way == ALONE else 150 * US if late else 12 * US


def crowded(way, before):
    """Other work keeps the other threads from coming."""
    return 37 * US if way == ALONE else 90 * US


@pytest.mark.parametrize("guess", [ALONE, SEVERAL])
def test_threads_that_wake_up_slowly_are_found_to_be_worth_it(guess):
    launches = Launches(sleepy, guess)
    launches.run(100)
    assert launches.run(1000) < 14 * US


@pytest.mark.parametrize("guess", [ALONE, SEVERAL])
def test_what_others_do_not_help_with_is_done_alone(guess):
    launches = Launches(crowded, guess)
    launches.run(100)
    assert launches.run(4000) < 38 * US


def test_a_machine_that_changes_is_noticed():
    launches = Launches(lambda way, before: (sleepy if len(before) < 500 else crowded)(way, before))
    assert launches.run(500) < 20 * US
    launches.run(50)
    assert launches.run(1000) < 39 * US


def test_starting_threads_once_is_not_held_against_them():
    """The first launch by several threads makes them, which takes a millisecond."""
    launches = Launches(lambda way, before: 1000 * US if way == SEVERAL and SEVERAL not in before else
                        sleepy(way, before))
    launches.run(100)
    assert launches.run(1000) < 14 * US


def test_a_slow_phase_is_not_remembered_for_long():
    """Threads lose their processors for a while, late, when the other way has not been tried for long."""
    launches = Launches(lambda way, before: crowded(way, before) if 20000 < len(before) < 20100 else
                        sleepy(way, before))
    launches.run(20100)
    launches.run(100)
    assert launches.run(1000) < 14 * US


def test_threads_that_do_not_come_are_not_woken():
    """One thread does all the work either way: several save nothing."""
    launches = Launches(lambda way, before: 40 * US if way == ALONE else 38 * US)
    launches.run(100)
    before = len(launches.ways)
    launches.run(4000)
    assert launches.ways[before:].count(SEVERAL) < 60


@pytest.mark.parametrize("guess", [ALONE, SEVERAL])
def test_what_one_thread_does_at_once_is_not_shared(guess):
    launches = Launches(lambda way, before: 5 * US if way == ALONE else 4 * US, guess)
    launches.run(20)
    before = len(launches.ways)
    launches.run(1000)
    assert set(launches.ways[before:]) == {ALONE}


def test_long_launches_are_left_to_the_estimate():
    launches = Launches(lambda way, before: 900 * US, SEVERAL)
    for _ in range(100):
        launches.run(1)
        assert launches.ask(PROGRAMS) == 0


def test_another_number_of_programs_begins_anew():
    launches = Launches(sleepy)
    launches.run(100)
    assert launches.ask(PROGRAMS) == SEVERAL
    assert launches.ask(PROGRAMS + 1) == 0
