"""What a launch asks of a GPU, put together from the other facts: the input of the time model (`timing`)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from tritium.backends.gpu import ops as gpu_ops
from tritium.insight.facts.accesses import Accesses
from tritium.insight.facts.coalescing import Requests
from tritium.insight.facts.instructions import instructions
from tritium.insight.facts.launch import Launch
from tritium.insight.facts.places import in_kernel
from tritium.insight.facts.resources import Resources
from tritium.insight.facts.roofline import FlopMeter, Traffic
from tritium.insight.facts.shared_memory import SharedAccess
from tritium.insight.facts.stages import source_lines
from tritium.insight.facts.timeline import LATENCY, Loop
from tritium.insight.facts.timing import Work
from tritium.ir import types as T
from tritium.ir.core import walk

BANK_ROW = 128  # bytes that shared memory serves in one pass
_GROUP = 4  # warps that make one product of wgmma together


def demand(launch: Launch, accesses: Accesses, traffic: Traffic, found: tuple[Requests, ...], flops: FlopMeter,
           used: Resources, shared: Iterable[SharedAccess], loops: tuple[Loop, ...]) -> Work:
    """The work of a launch on a GPU."""
    grid, blocks = math.prod(launch.grid), math.prod(launch.grid) * launch.metadata.get("num_ctas", 1)
    counted, executed = None, flops.executed
    if isinstance(ptx := launch.stages.get("ptx"), str):
        counted = instructions(ptx, source_lines(ptx, launch), executed, blocks, launch.num_warps)
    repeated = counted.repeated if counted else 0.0
    tied = counted is None or counted.synchronizes
    streams = 1 if tied else launch.num_warps
    if used.producer_warps:
        streams = max(1, launch.num_warps // _GROUP)
    spilled = 2 * (used.spills or 0) * launch.num_warps * blocks  # each word is stored and loaded again
    again = {s.number for s in accesses.repeated if s.same_as != s.number}
    loading = [loop for loop in loops if any(w.kind == "load" for w in (*loop.body, *loop.producer))]
    return Work(
        programs=blocks,
        resident=max(1, used.occupancy.programs if used.occupancy else 1),
        streams=streams,
        dram_bytes=traffic.dram,
        repeated_bytes=tuple(r.bytes_moved for r in found if r.site in again),
        l2_bytes=traffic.moved,
        l1_lines=sum(r.lines for r in found if r.how == "threads") * (1 - repeated) + spilled,
        shared_passes=sum(s.total for s in shared),
        operand_passes=_operand_passes(launch, executed),
        flops=dict(flops.flops),
        instructions=counted,
        atomics=_atomics(accesses),
        waits=1.0 + sum(_waits(loop, executed, grid) for loop in loading),
        from_dram=traffic.misses,
        pipelined=bool(loading) and all(loop.distance for loop in loading),
        rounds=not launch.metadata.get("persistent", False),
    )


def _waits(loop: Loop, executed: dict[Any, float], programs: int) -> float:
    """Latencies that a program sees in a loop: those of iterations whose loads have no work to hide behind."""
    often = times_by_line(executed)
    trips = max((often.get(w.line, 0.0) for w in loop.body), default=0.0) / max(1, programs)
    hidden = min(1.0, loop.distance * max(loop.work_cycles, loop.load_cycles) / LATENCY)
    return max(0.0, trips - 1) * (1 - hidden)


def times_by_line(executed: dict[Any, float]) -> dict[int, float]:
    """How often the programs together ran the most frequent op of each line."""
    out: dict[int, float] = {}
    for loc, times in executed.items():
        if loc is not None:
            line = in_kernel(loc).line
            out[line] = max(times, out.get(line, 0.0))
    return out


def _operand_passes(launch: Launch, executed: dict[Any, float]) -> float:
    """Passes through shared memory of the operands that products read there themselves (wgmma)."""
    total, groups = 0.0, max(1, launch.num_warps // _GROUP)
    for op in walk(launch.stages["ttgir"].body):
        if op.kind is not gpu_ops.dot_shared:
            continue
        lhs, rhs = op.attrs["lhs"], op.attrs["rhs"]
        inside = 0 if type(op.operands[0].type) is T.Tile else T.numel(lhs) * lhs.element.bytes
        size = inside + T.numel(rhs) * rhs.element.bytes * groups
        total += size / BANK_ROW * executed.get(op.loc, 0.0)
    return total


def _atomics(accesses: Accesses) -> float:
    """Atomics on an address, on average, where that is the most of all tensors."""
    most = 0.0
    for tensor in accesses.tensors:
        active = sum((s.lanes - s.masked - s.out_of_bounds) / len(s.tensors) for s in accesses.sites
                     if s.kind == "atomic" and tensor.name in s.tensors)
        most = max(most, active / max(1, tensor.stored or tensor.extent))
    return most
