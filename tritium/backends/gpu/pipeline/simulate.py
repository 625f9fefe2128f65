"""A multiprocessor that runs an iteration of a loop over and over: how many cycles it takes.

Each warpgroup runs the same steps:

    run       instructions of the threads
    issue     an MMA: it runs beside the steps that follow, those of a warpgroup one after the other
    wait      until at most `pending` MMAs of the warpgroup are unfinished
    meet      a barrier of all warpgroups of the block
    turn      wait until the other warpgroup of the block passes the turn
    pass      pass the turn to the other warpgroup

Jobs have the cycles they take alone, and the share of each unit that they use meanwhile. Units are shared fairly: where
the jobs that run ask for more than a unit has, all that use it slow down alike. But in turns, MMAs run in the order in
which they are issued.
"""

from __future__ import annotations

import functools

from tritium.named_tuples import NamedTuple

UNITS = ("tensor", "shared", "issue", "special")
Use = tuple[float, float, float, float]  # the share of each unit
NOTHING: Use = (0.0, 0.0, 0.0, 0.0)
ROUNDS, MEASURED = 4, 2  # iterations that are run, and how many of them count: the last ones
DRIFT = 1 / 8  # how far warpgroups of a block that do not meet are apart, of an iteration
TINY = 1e-6  # cycles


class Step(NamedTuple):
    """One step of a warpgroup."""

    kind: str
    cycles: float = 0.0
    use: Use = NOTHING
    pending: int = 0


class Mmas(NamedTuple):
    """How MMAs run: cycles until a result is there, and cycles of unfinished MMAs with which a warpgroup goes on."""

    latency: float
    queue: float


def used(steps: tuple[Step, ...]) -> list[float]:
    """Cycles in which each unit works for one warpgroup.

    >>> used((Step("run", 100.0, (0.0, 0.0, 0.5, 0.9)), Step("issue", 80.0, (1.0, 0.5, 0.0, 0.0))))
    [80.0, 40.0, 50.0, 90.0]
    """
    return [sum(step.cycles * step.use[unit] for step in steps) for unit in range(len(UNITS))]


def chain(steps: tuple[Step, ...], mmas: Mmas) -> float:
    """Cycles of an iteration of a warpgroup that has the multiprocessor to itself.

    An MMA that stays in flight, and one that is waited for at once:

    >>> mma = Step("issue", 500.0, (1.0, 0.0, 0.0, 0.0))
    >>> [chain((mma, Step("wait", pending=pending)), Mmas(60, 256)) for pending in (1, 0)]
    [500.0, 560.0]
    """
    now, ends, finished = 0.0, [], [0.0]
    for _ in range(ROUNDS):
        for kind, cycles, _, pending in steps:
            if kind == "issue":
                finished.append(max(now, finished[-1]) + cycles)
                now = max(now, finished[-1] - mmas.queue)
            elif kind == "wait":
                done = finished[-1 - pending] if pending < len(finished) else 0.0
                now = max(now, done + mmas.latency if done else 0.0)
            else:
                now += cycles
        ends.append(now)
    return (ends[-1] - ends[-1 - MEASURED]) / MEASURED


class _Group:
    """A warpgroup on its way through the steps."""

    __slots__ = ("at", "backlog", "block", "blocked", "ends", "job", "mmas", "ready", "turn")

    def __init__(self, block: int, start: float, turn: bool, at: int):
        self.block, self.turn, self.at = block, turn, at
        self.job: list | None = [start, NOTHING]  # [cycles left, use] of what the threads run
        self.mmas: list[list] = []  # the same of unfinished MMAs, and when each was issued
        self.backlog = 0.0  # cycles of these
        self.ready = 0.0  # when the result of the last finished MMA is there
        self.blocked = False  # at a barrier
        self.ends: list[float] = []  # of its iterations


@functools.lru_cache(maxsize=4096)
def cycles_of(steps: tuple[Step, ...], blocks: int, groups: int, mmas: Mmas) -> float:
    """Cycles in which each of the blocks, of so many warpgroups each, runs one iteration.

    Two warpgroups multiply and compute, as they come and in turns:

    >>> mma, run = Step("issue", 500.0, (1.0, 0.0, 0.0, 0.0)), Step("run", 500.0, (0.0, 0.0, 0.6, 0.0))
    >>> steps = (mma, Step("wait"), run), (mma, Step("pass"), Step("wait"), run, Step("turn"))
    >>> [round(cycles_of(x, 1, 2, Mmas(60, 256))) for x in steps]
    [1510, 1060]
    """
    alone = sum(step.cycles for step in steps)
    turns = any(step.kind == "turn" for step in steps)
    first = next((k for k, step in enumerate(steps) if step.kind == "turn"), 0)  # the first MMAs need a turn as well
    every = [_Group(b, alone * (b + DRIFT * k) / blocks, k == 0, first) for b in range(blocks) for k in range(groups)]
    now = 0.0
    while any(len(group.ends) < ROUNDS for group in every):
        for group in every:
            while group.job is None and group.backlog <= mmas.queue and _step(group, steps, every, now):
                pass
        passed = _pass_time(every, mmas.queue, turns)
        now += passed
        for group in every:
            if group.job and group.job[0] < TINY:
                group.job = None
            if group.mmas:
                if group.mmas[0][0] < TINY:
                    group.mmas.pop(0)
                    group.ready = now + mmas.latency
                group.backlog = sum([job[0] for job in group.mmas]) - TINY
    last = ROUNDS - 1
    return sum(group.ends[last] - group.ends[last - MEASURED] for group in every) / len(every) / MEASURED


def _pass_time(every: list[_Group], queue: float, turns: bool) -> float:
    """Run all jobs until one of them ends or lets its warpgroup go on; returns the cycles."""
    multiply = [group for group in every if group.mmas]
    if turns and multiply:
        multiply = [min(multiply, key=lambda group: group.mmas[0][2])]
    heads = [group.mmas[0] for group in multiply]
    jobs = [group.job for group in every if group.job] + heads
    a = b = c = d = 0.0
    for _, (p, q, r, s), *_ in jobs:
        a, b, c, d = a + p, b + q, c + r, d + s
    slow = [max(1.0, p and a, q and b, r and c, s and d) for _, (p, q, r, s), *_ in jobs]
    passed = min([job[0] * s for job, s in zip(jobs, slow)])
    for group, s in zip(multiply, slow[len(jobs) - len(heads) :]):
        if group.backlog > queue:
            passed = min(passed, (group.backlog - queue) * s)
    for job, s in zip(jobs, slow):
        job[0] -= passed / s
    return passed


def _step(group: _Group, steps: tuple[Step, ...], every: list[_Group], now: float) -> bool:
    """Take the next step of a warpgroup whose threads run nothing; False if it has to wait."""
    if group.at == len(steps):
        group.at = 0
        group.ends.append(now)
    kind, cycles, use, pending = steps[group.at]
    if kind == "run":
        group.job = [cycles, use]
    elif kind == "issue":
        group.mmas.append([cycles, use, now])
        group.backlog += cycles
    elif kind == "wait":
        if len(group.mmas) > pending:
            return False
        if group.ready > now:
            group.job = [group.ready - now, NOTHING]
    elif kind == "turn":
        if not group.turn:
            return False
        group.turn = False
    elif kind == "pass":
        next(x for x in every if x.block == group.block and x is not group).turn = True
    else:
        block = [x for x in every if x.block == group.block]
        group.blocked = True
        if not all(x.blocked for x in block):
            return False
        for x in block:
            x.blocked, x.job = False, [cycles, NOTHING]
            x.at += x is not group
    group.at += 1
    return True
