"""The programs of a launch: which of them run, one after the other or in turns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from tritium.insight.emulator.faults import Fault
from tritium.insight.emulator.machine import LONGEST, Machine

__all__ = ["PROGRAMS", "chosen", "run_programs"]

PROGRAMS = 32  # programs of a launch that run by default
_TURN = 1 << 13  # segments after which a program may be waiting for another


def chosen(grid: tuple[int, int, int], most: int) -> list[tuple[int, int, int]]:
    """The programs that run: all, or the corners of the grid and others at equal distances, `most` of them.

    >>> chosen((2, 2, 1), 4), len(chosen((100, 100, 1), 16))
    ([(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)], 16)
    >>> chosen((9, 1, 1), 3)
    [(0, 0, 0), (4, 0, 0), (8, 0, 0)]
    """
    x, y, z = grid
    count = x * y * z
    if count <= most:
        numbers = list(range(count))
    else:
        corners = {i + x * (j + y * k) for k in (0, z - 1) for j in (0, y - 1) for i in (0, x - 1)}
        found = sorted(corners, key=lambda n: (n not in (0, count - 1), n))[:most]
        for parts in range(max(most - 1, 1), count):  # a finer comb, until there are enough
            found += [n for n in (round(i * (count - 1) / parts) for i in range(parts + 1)) if n not in found]
            if len(found) >= most:
                break
        numbers = sorted(found[:most])
    return [(n % x, n // x % y, n // (x * y)) for n in numbers]


def run_programs(make: Callable[[], Machine], programs: list[tuple[int, int, int]], grid: tuple[int, int, int],
                 hear: Callable[[tuple[int, int, int], Fault | None], None]) -> None:
    """Run programs, each to its end; those that take long may be waiting for others, and take turns with them.

    `hear(program, fault)` is told which program is next, and of faults that ended one.
    """
    machine, waiting = make(), []
    turn = _TURN if machine.blocks == 1 else LONGEST  # those of clusters watch memory by themselves
    for pid in programs:
        turns = machine.turns(pid, grid, turn)
        if _goes_on(pid, turns, machine, hear):
            waiting.append((pid, turns, machine))
            machine = make()
    for _ in range(math.ceil(LONGEST / turn)):
        waiting = [one for one in waiting if _goes_on(*one, hear)]
        if not waiting:
            return
    for pid, _, machine in waiting:
        hear(pid, Fault("the program does not end, and waits for others that do not come", "endless wait",
                        threads=machine.lanes[~machine.done]))


def _goes_on(pid: tuple[int, int, int], turns: Iterator[None], machine: Machine, hear: Callable) -> bool:
    """Whether a program has more to do after its turn."""
    hear(pid, None)
    try:
        next(turns)
    except StopIteration:
        return False
    except Fault as fault:
        fault.threads = fault.threads or machine.lanes[machine.active].tolist()
        hear(pid, fault)
        return False
    return True
