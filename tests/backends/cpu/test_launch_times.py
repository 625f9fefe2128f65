"""Whether one thread or several run a launch: by what such launches take on machines that are made up here."""

import ctypes

import pytest

from tritium.backends.cpu.runtime import launch_times
from tritium.backends.llvm import jit
from tritium.backends.llvm.structs import resolve
from tritium.backends.llvm.target import compile_text, cpu_target

US = 1000  # ticks
WORTH_SHARING = 8 * US
ALONE, SEVERAL, LOOK = 1, 2, 3
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
define i1 @give_up(i64 %way, i64 %spent, i64 %whole) nounwind {{
  %known = getelementptr %known, ptr @known, i64 0
  ret i1 call i1 @is_given_up(ptr %known, i64 %way, i64 %spent, i64 %whole)
}}
define void @tell(i64 %way, i64 %ticks) nounwind {{
  %known = getelementptr %known, ptr @known, i64 0
  call void @note_launch(ptr %known, i64 %way, i64 %ticks)
  ret void
}}
"""


class Launches:
    """A kernel that is launched over and over. `machine(way, before)` gives the ticks of a launch; `before` are the
    ways of the launches so far. A launch that one thread begins, to see whether it is faster, looks at the clock every
    microsecond."""

    def __init__(self, machine, guess=ALONE):
        text = resolve("\n".join((launch_times.KNOWN.definition, launch_times.TEXT, AROUND)), launch_times.KNOWN)
        self.library = jit.load(compile_text(text, cpu_target()), exports=("ask", "give_up", "tell"))
        address = self.library.address
        self.ask = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address("ask"))
        self.give_up = ctypes.CFUNCTYPE(ctypes.c_bool, *[ctypes.c_int64] * 3)(address("give_up"))
        self.tell = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(address("tell"))
        self.machine, self.guess, self.ways = machine, guess, []

    def run(self, count, programs=PROGRAMS):
        """The mean ticks of so many launches."""
        spent = 0
        for _ in range(count):
            way = self.ask(programs) or self.guess
            ticks, lost = self.machine(ALONE if way == LOOK else way, self.ways), 0
            if way == LOOK:
                lost = next((at for at in range(US, ticks, US) if self.give_up(way, at, ticks)), 0)
                ticks = self.machine(SEVERAL, self.ways) * (ticks - lost) // ticks if lost else ticks
                way = SEVERAL if lost else ALONE
            self.ways.append(way)
            self.tell(way, lost + ticks)
            spent += lost + ticks
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
    launches = Launches(lambda way, before: 900 * US if way == SEVERAL else 1700 * US, SEVERAL)
    assert launches.run(1000) < 910 * US
    assert set(launches.ways) == {SEVERAL} and launches.ask(PROGRAMS) == 0


@pytest.mark.parametrize("alone, several", [(80, 2000), (5000, 60000)])
def test_long_launches_that_are_faster_alone_are_found(alone, several):
    """Atomic updates of tiles are plain ones where one thread is alone."""
    launches = Launches(lambda way, before: (alone if way == ALONE else several) * US, SEVERAL)
    launches.run(100)
    assert launches.run(1000) < 1.5 * alone * US


def test_long_launches_are_shared_again_when_that_is_faster():
    def machine(way, before):
        return (5000 if way == ALONE else 60000 if len(before) < 200 else 1000) * US
    launches = Launches(machine, SEVERAL)
    launches.run(1000)
    assert launches.run(1000) < 1010 * US


def test_another_number_of_programs_begins_anew():
    launches = Launches(sleepy)
    launches.run(100)
    assert launches.ask(PROGRAMS) == SEVERAL
    assert launches.ask(PROGRAMS + 1) == 0
