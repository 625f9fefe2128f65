"""The search for the schedule of a loop: its legal candidates run on a model of the multiprocessor.

    Candidate      which dots stay in flight, which are issued first, who copies, whether warpgroups alternate
    trace          what a warpgroup does in one iteration, and the registers it needs
    cycles_of      the cycles of that on a multiprocessor with as many blocks as find room

The model is not exact: candidates within `TOLERANCE` of the fastest are equal. Of these the one is taken in which a
warpgroup alone is fastest, then the one with the fewest registers. A candidate is simulated only if its lower bound,
the busiest unit or the chain of a warpgroup, does not rule it out.
"""

from __future__ import annotations

from collections.abc import Iterable

from ....named_tuples import NamedTuple
from ..multiprocessor import Multiprocessor
from .simulate import Mmas, Step, chain, cycles_of, used
from .trace import Candidate, Setting, trace

TOLERANCE, CLEARLY = 1 / 16, 1 / 10


class Estimate(NamedTuple):
    """What an iteration of a block takes under a candidate: cycles, those of the busiest unit, registers of a thread
    for tiles, how many are spilled, and the blocks that share a multiprocessor."""

    cycles: float
    busy: float
    registers: int
    spilled: int
    blocks: int


class Choice(NamedTuple):
    """The best candidate, what it takes, the fewest cycles that any other takes (infinite without others), and whether
    some candidate spills."""

    candidate: Candidate
    estimate: Estimate
    others: float
    short: bool


class _Draft(NamedTuple):
    """A candidate before its simulation: `least` cycles are a lower bound, `chain` are those of a warpgroup alone."""

    candidate: Candidate
    steps: tuple[Step, ...]
    least: float
    chain: float
    serial: bool  # each MMA is waited for
    rest: Estimate


def search(setting: Setting, candidates: Iterable[Candidate], stages: int) -> Choice | None:
    """The best candidate for a loop with multibuffers of so many stages; None if there is none. Equal ones are taken in
    their order.

    Where tiles are spilled, the assembler has a warpgroup wait for each MMA: no candidate is left that would not.
    """
    mmas = Mmas(setting.threads.multiprocessor.mma, setting.threads.multiprocessor.mma_queue)
    drafts = [_draft(setting, x, stages, mmas) for x in candidates]
    short = any(x.rest.spilled for x in drafts)
    drafts = [x for x in drafts if not x.serial or not x.candidate.in_flight and not x.candidate.first]
    if not drafts:
        return None
    drafts.sort(key=lambda x: (x.chain, x.rest.registers))
    least, known = min(x.least for x in drafts), {}
    for draft in drafts:
        if draft.least >= min(known.values(), default=float("inf")):
            continue
        blocks = draft.rest.blocks
        cycles = cycles_of(draft.steps, blocks, setting.groups, mmas) / blocks
        known[draft.candidate] = max(draft.least, cycles + draft.rest.cycles)
        if known[draft.candidate] <= (1 + TOLERANCE) * least:
            break
    limit = (1 + TOLERANCE) * min(known.values())
    best = next(x for x in drafts if known.get(x.candidate, limit + 1) <= limit)
    others = [known.get(x.candidate, x.least) for x in drafts if x is not best]
    estimate = best.rest._replace(cycles=known[best.candidate])
    return Choice(best.candidate, estimate, min(others, default=float("inf")), short)


def _draft(setting: Setting, candidate: Candidate, stages: int, mmas: Mmas) -> _Draft:
    threads, (steps, words) = setting.threads, trace(setting, candidate)
    m = threads.multiprocessor
    registers = words // threads.count
    spilled = max(0, registers + m.beside_tiles - threads.registers)
    serial = spilled > m.spilled_beside_tiles
    if serial:
        steps = _spill(steps, 4 * spilled * threads.count / setting.groups, m)
    blocks, loaded = _blocks(setting, registers, stages), setting.loaded
    fixed = (m.store * setting.results + m.fill * (candidate.mode == "copies")) / m.trips / blocks**2
    alone = chain(steps, mmas)
    tensor, shared, *others = (setting.groups * cycles for cycles in used(steps))
    busy = max(tensor, shared + setting.staged / m.shared, *others, loaded / m.l2)
    least = max(busy, alone / blocks, (m.load + loaded / m.l2) / stages / blocks) + fixed
    return _Draft(candidate, steps, least, alone, serial, Estimate(fixed, busy, registers, spilled, blocks))


def _spill(steps: tuple[Step, ...], size: float, m: Multiprocessor) -> tuple[Step, ...]:
    """The steps of a warpgroup that spills so many bytes: it stores and loads them, to L2 as shared memory leaves no
    L1, and the assembler has it wait for each MMA, as their results are not in registers."""
    serial = [x for step in steps for x in ((step, Step("wait")) if step.kind == "issue" else (step,))]
    return (*serial, Step("run", round(m.load + 2 * size / m.l2, 1)))


def _blocks(setting: Setting, registers: int, stages: int) -> int:
    """How many blocks share a multiprocessor."""
    threads = setting.threads
    shared = stages * setting.staged + setting.outer
    taken = min(threads.registers, registers + threads.multiprocessor.beside_tiles_at_ease)
    by_registers = threads.blocks or threads.machine.programs_of(threads.warps, taken)
    return max(1, min(by_registers, threads.shared_bytes // max(1, shared)))


__all__ = ["CLEARLY", "TOLERANCE", "Candidate", "Choice", "Estimate", "Setting", "search"]
