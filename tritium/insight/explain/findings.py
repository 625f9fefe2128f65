"""What a kernel's author should change first: findings in plain words, with a line and a remedy, ranked by gain.

`gain` is the share of the predicted time that a remedy could save; mistakes, which have no price, come first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tritium.insight.explain.explanation import Explanation

_FED = 0.2  # what a producer warp saves where tensor cores are the bound
_LINES = 6  # that are told of one finding
_HINTED = 0.05  # what wider accesses save where memory is the bound: fewer instructions, more bytes in flight


@dataclass(frozen=True)
class Finding:
    """One finding. `kind` is "error", "warning" or "note"."""

    kind: str
    rule: str
    line: int
    title: str
    remedy: str
    gain: float = 0.0


def findings(e: Explanation) -> tuple[Finding, ...]:
    """The findings about a launch, mistakes first, then by gain."""
    order = {"error": 0, "warning": 1, "note": 2}
    found = dict.fromkeys(finding for rule in RULES for finding in rule(e))  # a function may be called twice
    if e.bound == "launch" and e.prediction:  # nothing shortens the start of a kernel
        found = [replace(f, gain=min(f.gain, e.prediction.share_of_peak)) for f in found]
    return tuple(sorted(found, key=lambda f: (order[f.kind], -f.gain, f.line)))


# --- mistakes -------------------------------------------------------------------------------------------------------
def out_of_bounds(e: Explanation) -> Iterator[Finding]:
    """Accesses outside of the tensors they go through."""
    for site in e.accesses.sites:
        if site.out_of_bounds:
            verb = "reads" if site.kind == "load" else "writes"
            yield Finding("error", "out of bounds", site.line,
                          f"{verb} {_count(site.out_of_bounds)} elements out of bounds, first in {site.bad_example}",
                          "mask those lanes, as in tl.load(p, mask=offsets < n), or make the grid smaller")


def stored_by_two(e: Explanation) -> Iterator[Finding]:
    """Elements that several programs store: the last one wins, whichever that is; or they take turns at a lock."""
    locks = [s.line for s in e.accesses.sites if s.kind == "atomic" and not s.shape]
    for tensor in e.accesses.tensors:
        if tensor.stored_by_two:
            lines = [s.line for s in e.accesses.sites if s.kind == "store" and tensor.name in s.tensors]
            what = f"{tensor.stored_by_two} elements of {tensor.name} are stored by more than one program"
            if locks:
                yield Finding("note", "stored twice", min(lines, default=0),
                              f"{what}: their order is up to the atomics of line {min(locks)}",
                              "if these are a lock, nothing; `python -m tritium sanitize` follows locks, and says "
                              "whether two programs race")
                continue
            yield Finding("error", "stored twice", min(lines, default=0),
                          f"{what}: which value stays depends on their order",
                          "give each program elements of its own, or combine with tl.atomic_add")


def never_stored(e: Explanation) -> Iterator[Finding]:
    """Elements of a result that no program stores."""
    for tensor in e.accesses.tensors:
        if tensor.stored and tensor.never:
            lines = [s.line for s in e.accesses.sites if s.kind != "load" and tensor.name in s.tensors]
            yield Finding("warning", "never stored", min(lines, default=0),
                          f"{tensor.never} elements of {tensor.name} are neither stored nor loaded by any program",
                          "if the whole tensor is the result, the grid is too small or the mask too strict")


# --- memory ---------------------------------------------------------------------------------------------------------
def uncoalesced(e: Explanation) -> Iterator[Finding]:
    """Requests that touch more sectors than their bytes fill."""
    total, grouped = sum(r.sectors for r in e.requests), {}
    for r in e.requests:
        if r.excess >= 1.3 and total:
            told = f"{r.sectors_each:.0f} sectors in a request where {max(1, round(r.minimum_each))} would do"
            grouped.setdefault((f"{r.kind}s {told}", *_reason(e, r)), []).append(r)
    for (what, why, remedy), found in grouped.items():
        names = ", ".join(dict.fromkeys(_names(r.tensors) for r in found))
        spare = sum(r.sectors - r.minimum for r in found) / total
        yield Finding("warning", "coalescing", found[0].line, f"{what} ({names}): {why}{_others(found)}", remedy,
                      gain=spare * e.memory_share)


def _reason(e: Explanation, r) -> tuple[str, str]:
    """Why requests touch so many sectors, and what to do about it."""
    if r.run > r.vector == r.widest:
        return (f"each thread holds {r.run} neighbours and moves {r.vector} of them at a time, so lanes leave gaps",
                "accesses of one tile shape share a layout, and others of this shape have narrower elements: give this "
                "one another shape, or convert to the narrower type before")
    if r.excess < 2:
        return "rows start off a sector", "start at a multiple of 32 bytes: pad rows, or move tiles to aligned places"
    why = "neighbouring lanes touch addresses that are apart"
    verb = "load" if r.kind == "load" else "store"
    if len(e.accesses.sites[r.site].shape) > 1:
        return why, ("let the last axis of the tile run along the axis of stride 1: swap the order of the offsets, or "
                     f"{verb} the other way and tl.trans")
    return why, (f"let neighbouring offsets be neighbours in memory: change the layout of the data, or {verb} tiles "
                 "whose last axis has stride 1")


def narrow(e: Explanation) -> Iterator[Finding]:
    """Accesses that a promise about an argument would widen; those that the same one would are told together."""
    total = max(1.0, sum(r.sectors for r in e.requests))
    grouped: dict[tuple, list] = {}
    for r in e.requests:
        missing = [h for h in r.hints if not h.promised]
        if missing:
            best = max(missing, key=lambda h: h.width)
            grouped.setdefault((best.argument, r.vector, best.width), []).append(r)
    for (name, now, then), found in grouped.items():
        yield Finding("warning", "vector width", found[0].line,
                      f"moves {now} element{'s' if now > 1 else ''} at a time, and would move {then} if `{name}` were "
                      f"a multiple of 16{_others(found)}",
                      f"pass a `{name}` that is a multiple of 16 (pad the tensor, align the view), or say "
                      "tl.multiple_of where it is known",
                      gain=_HINTED * sum(r.sectors for r in found) / total * e.memory_share)


def bank_conflicts(e: Explanation) -> Iterator[Finding]:
    """Passages through shared memory that take several passes."""
    total, grouped = sum(s.total for s in e.shared), {}
    for s in e.shared:
        if s.conflicts >= 2:
            grouped.setdefault((s.op, s.side, round(s.conflicts)), []).append(s)
    for (op, side, ways), found in grouped.items():
        other = "; or store in the order of the load, which needs no conversion" if "conversion" in op else ""
        yield Finding("note", "bank conflicts", found[0].line,
                      f"{op}: {side}s shared memory with {ways}-way bank conflicts "
                      f"({max(s.bytes for s in found)} bytes a time){_others(found)}",
                      f"change the tile's sizes or num_warps{other}",
                      gain=sum(s.total_conflicts for s in found) / total * e.part("shared memory") if total else 0.0)


def masked_lanes(e: Explanation) -> Iterator[Finding]:
    """Accesses most of whose lanes are idle; those of one share are told together."""
    grouped: dict[str, list] = {}
    for site in e.accesses.sites:
        if site.lanes and site.masked / site.lanes > 0.25:
            grouped.setdefault(f"{site.masked / site.lanes:.0%}", []).append(site)
    for part, found in grouped.items():
        accesses = ", ".join(dict.fromkeys(f"{site.kind} of {_names(site.tensors)}" for site in found))
        yield Finding("note", "masked lanes", found[0].line, f"{part} of the lanes are masked off ({accesses})",
                      "choose a block size nearer to the size of the data, or loop over smaller blocks",
                      gain=0.2 * (found[0].masked / found[0].lanes - 0.25))


def reloaded(e: Explanation) -> Iterator[Finding]:
    """Tensors that are loaded many times over and fit no cache."""
    device = e.device
    for tensor in e.accesses.tensors:
        loads = [s for s in e.accesses.sites if s.kind == "load" and tensor.name in s.tensors]
        moved = sum(s.bytes for s in loads)
        if device is None or not loads or tensor.bytes <= device.l2_bytes or moved < 4 * tensor.bytes:
            continue
        yield Finding("note", "reuse", loads[0].line,
                      f"{tensor.name} is loaded {moved / tensor.bytes:.0f} times over, and at {tensor.bytes >> 20} MiB "
                      f"it does not fit into the L2 cache of {device.name} ({device.l2_bytes >> 20} MiB)",
                      "let programs that run together share what they load: order them in groups, or use larger tiles",
                      gain=0.05 * e.memory_share)


def loaded_again(e: Explanation) -> Iterator[Finding]:
    """Loads of what the program has loaded before; those of one tensor are told together."""
    total = max(1.0, sum(r.sectors for r in e.requests))
    sectors, sites, grouped = {r.site: r.sectors for r in e.requests}, e.accesses.sites, {}
    for site in e.accesses.repeated:
        grouped.setdefault((site.tensors, site.same_as), []).append(site)
    for (tensors, first), found in grouped.items():
        spare = sum(sectors.get(s.number, 0.0) for s in found) / total
        if spare < 0.05:
            continue
        where = sites[first].line
        if found[0].number == first:
            title, remedy = (f"loads the same elements of {_names(tensors)} in every iteration",
                             "load them once, before the loop")
        else:
            title = f"loads the elements of {_names(tensors)} again that line {where} has loaded{_others(found)}"
            remedy = (f"keep what line {where} loads: a block that holds all of it needs no loop; or compute what "
                      "both loops need in one of them (running maximum and sum)")
        yield Finding("warning", "loaded again", found[0].line, title, remedy, gain=spare * e.memory_share)


def contended_atomics(e: Explanation) -> Iterator[Finding]:
    """Atomics that wait for each other at one address."""
    if e.saved("atomics") < 0.05:
        return
    for site in (s for s in e.accesses.sites if s.kind == "atomic"):
        active = site.lanes - site.masked - site.out_of_bounds
        extent = min(e.accesses.tensor(name).extent for name in site.tensors) if site.tensors else 0
        if extent and active / extent > 32:
            few = "one element" if extent == 1 else f"{_count(extent)} elements"
            fewer = "give each program more of the data, so that there are fewer of them"
            if site.shape:
                fewer = "combine the values in the program first, as in tl.atomic_add(p, tl.sum(x, 0))"
            yield Finding("warning", "atomics", site.line,
                          f"{_count(active)} atomics go to {few} of {_names(site.tensors)}: those of one element are "
                          "done one after another",
                          f"{fewer}; or store one result a program and add these up in a second kernel",
                          gain=e.saved("atomics"))


# --- resources ------------------------------------------------------------------------------------------------------
def spills(e: Explanation) -> Iterator[Finding]:
    """Values that went from registers to memory."""
    r = e.resources
    words = r.spills or r.registers_lacking
    if words:
        has = r.consumer_registers or r.registers
        title = f"{words} words of each thread are spilled to memory: {has} registers are not enough"
        if not r.spills:
            title = (f"a thread needs about {r.registers + words} registers and has {r.registers}: the rest is spilled "
                     "to memory (the compiler's estimate)")
        yield Finding("warning", "spills", _peak(e), title + _holding(e), _without_spills(e),
                      gain=min(0.5, words / 400))


def _peak(e: Explanation) -> int:
    """The line where a thread holds most."""
    return e.resources.pressure.line if e.resources.pressure and e.resources.held else e.first_line


def _holding(e: Explanation) -> str:
    """What takes the registers, in words."""
    r = e.resources
    if not r.pressure or 2 * sum(h.registers for h in r.held) < r.pressure.registers:
        return ""  # scalars and short tiles, or pieces of what the source has
    most = [f"{h.name} (line {h.line}) {h.registers}" for h in r.held[:4]] + ["..."] * (len(r.held) > 4)
    return f". At line {r.pressure.line} a thread holds about {r.pressure.registers}: {', '.join(most)}"


def _without_spills(e: Explanation) -> str:
    """The remedy of spills: what was tried and ends them, else what comes nearest."""
    usual = "use smaller tiles or more warps, so that each thread holds fewer elements"
    helped = [t for t in e.trials if t.spills == 0]
    told = [f"{t.change} spills {f'{t.spills} words' if t.spills else 'nothing'} ({t.registers} registers)"
            for t in helped or sorted(e.trials, key=lambda t: t.spills)]
    return f"{usual}. Compiled for {e.target.arch}: {'; '.join(told)}" if told else usual


def low_occupancy(e: Explanation) -> Iterator[Finding]:
    """Few warps where latency is hidden by nothing else."""
    occupancy = e.resources.occupancy
    if occupancy is None or occupancy.share >= 0.25:
        return
    if occupancy.programs == 0:
        yield Finding("error", "shared memory", e.first_line,
                      f"a program needs {e.resources.shared} bytes of shared memory, more than the device has",
                      "use smaller tiles or fewer stages")
        return
    if e.bound == "launch":
        return
    remedy = {"registers": "smaller tiles or more warps leave room for another program",
              "shared memory": "smaller tiles or fewer stages leave room for another program",
              "scalar registers": "fewer pointers and numbers that all threads share leave room for another program",
              "warps": "fewer warps a program", "programs": "more warps a program"}[occupancy.limiter]
    if e.timeline.loops and all(loop.hides_latency for loop in e.timeline.loops):
        if occupancy.limiter == "shared memory" and occupancy.programs == 1 and e.resources.warps <= 4:
            yield Finding("note", "occupancy", e.first_line,
                          f"its {e.resources.shared} bytes of shared memory leave room for no second program on a "
                          f"processor: nothing runs while its {e.resources.warps} warps begin, end, or wait for each "
                          "other", remedy, gain=0.1)
        return
    limits = " and ".join(name for name, count in occupancy.limits.items() if count == occupancy.programs)
    yield Finding("warning", "occupancy", e.first_line,
                  f"{occupancy.warps} of {occupancy.most_warps} warps on a processor ({occupancy.share:.0%}), limited "
                  f"by {limits}: too few to hide the latency of memory{_holding(e) if 'registers' in limits else ''}",
                  remedy + _room(e), gain=_waiting(e, 0.15))


def _waiting(e: Explanation, most: float) -> float:
    """What less waiting may save: no more than the time in which the busiest unit has nothing to do."""
    return min(most, 1 - e.prediction.share_of_peak) if e.prediction else most


def _room(e: Explanation) -> str:
    """How many registers a thread may have for another program to fit."""
    r = e.resources
    if r.limiter != "registers" or not r.occupancy:
        return ""
    fewer = [p for p in r.by_registers if p.programs > r.occupancy.programs]
    if not fewer:
        return ""
    return (f": with {fewer[-1].amount} registers a thread, of now {r.registers}, {fewer[-1].programs} programs fit "
            f"instead of {r.occupancy.programs}")


def small_programs(e: Explanation) -> Iterator[Finding]:
    """Programs that take longer to start than to run."""
    if e.bound != "programs":
        return
    programs = math.prod(e.launch.grid)
    yield Finding("warning", "small programs", e.first_line,
                  f"its {_count(programs)} programs do too little each: starting them takes {e.part('programs'):.0%} "
                  "of the time", "use a larger block, or let a program loop over several blocks",
                  gain=e.saved("programs"))


def idle_processors(e: Explanation) -> Iterator[Finding]:
    """Grids that fill no wave, or leave a short last one."""
    p = e.prediction
    if p is None or p.busy >= 0.85:
        return
    if p.waves < 1:
        title = f"the grid has too few programs for {p.device}: {1 - p.busy:.0%} of its processors' time is idle"
    else:
        title = (f"some processors of {p.device} get one program more than the others: {1 - p.busy:.0%} of their time "
                 "is idle")
    yield Finding("warning" if p.bound != "launch" else "note", "grid", e.first_line, title,
                  "use smaller blocks, or split the work of a program (along K, along rows)",
                  gain=(1 - p.busy) * 0.5 if p.bound != "launch" else 0.0)


# --- compute --------------------------------------------------------------------------------------------------------
def without_tensor_cores(e: Explanation) -> Iterator[Finding]:
    """Products of full f32."""
    dots = [w for loop in e.timeline.loops for w in loop.body if w.kind == "mma" and "dot_buffers" in w.what]
    if dots:
        yield Finding("warning", "tensor cores", dots[0].line, "this product runs without tensor cores: its inputs are "
                      "multiplied in full precision", 'use input_precision="tf32", or f16 / bf16 inputs', gain=0.5)


def not_pipelined(e: Explanation) -> Iterator[Finding]:
    """Loops with products whose loads are waited for."""
    stages = e.launch.metadata.get("num_stages", 0)
    for loop in e.timeline.loops:
        if loop.how == "plain" and any(w.kind == "mma" for w in loop.body) and any(w.kind == "load" for w in loop.body):
            why, remedy = "", "ask for num_stages=3 or more"
            simple = "keep the addresses simple (base + offsets, stepped by a constant)"
            stores = [w for w in loop.body if w.kind == "store"]
            if stages > 2:
                why = f", although num_stages={stages} asks for it"
                remedy = "load outside of branches"
            if stages > 2 and stores:
                why += f"; it writes to memory ({stores[0].what}, line {stores[0].line})"
                remedy = "write after the loop, so that later loads need not wait for it"
            yield Finding("warning", "pipeline", loop.line,
                          f"the loop waits for its loads in every iteration: it is not pipelined{why}",
                          f"{remedy}, and {simple}", gain=_waiting(e, 0.3))


def without_producer(e: Explanation) -> Iterator[Finding]:
    """Loops around products that no producer warp loads for; not those that wait for their loads, which is worse."""
    found = e.timeline.obstacle
    products = [loop for loop in e.timeline.loops if any(w.kind == "mma" for w in loop.body)]
    if found is not None and products and all(loop.how != "plain" for loop in products):
        yield Finding("note", "producer warp", found.line or products[0].line,
                      f"the loop has no producer warp that loads by TMA: {found.why}",
                      found.remedy or "other tiles or num_warps may have one", gain=_FED * e.part("tensor cores"))


def removed(e: Explanation) -> Iterator[Finding]:
    """Accesses that the compiler needs none for."""
    for r in e.requests:
        if r.how == "removed":
            yield Finding("note", "removed", r.line,
                          f"the {r.kind} of {_names(r.tensors)} is not in the compiled kernel",
                          "its value is not used, or another access serves it")


RULES = (out_of_bounds, stored_by_two, never_stored, uncoalesced, narrow, bank_conflicts, masked_lanes, reloaded,
         loaded_again, contended_atomics, spills, low_occupancy, small_programs, idle_processors, without_tensor_cores,
         not_pipelined, without_producer, removed)  # fmt: skip


def _count(n: float) -> str:
    return f"{round(n):,}".replace(",", " ")


def _names(tensors: tuple[str, ...]) -> str:
    return " or ".join(tensors) or "memory"


def _others(found: list) -> str:
    """The lines behind the first that a finding is about, in words."""
    lines = [str(line) for line in dict.fromkeys(x.line for x in found) if line != found[0].line]
    if not lines:
        return ""
    if len(lines) > _LINES:
        return f" (so do lines {', '.join(lines[:_LINES])} and {len(lines) - _LINES} more)"
    return f" (so do lines {', '.join(lines)})" if len(lines) > 1 else f" (so does line {lines[0]})"
