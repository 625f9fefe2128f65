"""How a GPU's warps pass through shared memory: the bank passes of what their threads load and store there.

The addresses are those of the lowered kernel (`lowered_threads`), so that each load and store of the lowering counts,
whatever op it is of, as often as the interpreter ran its place in the source.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from tritium import ops
from tritium.backends.gpu import ops as gpu_ops
from tritium.backends.gpu.lower import lower_kernel
from tritium.backends.gpu.lower.shared_memory import BANK_ROW, conflicts, lanes_at_once
from tritium.backends.llvm.lines import places_in
from tritium.errors import places_of
from tritium.insight.emulator.memory import Memory
from tritium.insight.emulator.targets import gpu_of, machine_of
from tritium.insight.facts.launch import Launch
from tritium.insight.facts.lowered_threads import Access, Threads
from tritium.ir.core import Block, Module, walk
from tritium.named_tuples import NamedTuple

Place = tuple[tuple, ...]  # as `errors.places_of` has it

_PASSAGES = {
    gpu_ops.convert: "layout conversion", gpu_ops.buffer_load: "multibuffer", gpu_ops.tma_store: "TMA store",
    gpu_ops.share: "operands", ops.dot: "operands", gpu_ops.dot_buffers: "operands", ops.reduce: "reduction",
    gpu_ops.cluster_all_gather: "cluster", gpu_ops.buffer_store: "multibuffer",
}  # fmt: skip
_OF_OTHERS = (gpu_ops.buffer_load, gpu_ops.buffer_store, gpu_ops.dot_buffers)  # these use what other ops took
_LOOPS = (ops.for_, ops.while_)


@dataclass(frozen=True)
class SharedAccess:
    """What a place of the source does with shared memory: bank passes of a program's warps against the fewest that
    their bytes need."""

    line: int
    op: str
    side: str  # "write", "read" or "atomic"
    bytes: int  # that the threads of a program move
    passes: int
    minimum: int
    times: float = 1.0  # that programs of the launch do it

    @property
    def total(self) -> float:
        """Bank passes of the launch."""
        return self.passes * self.times

    @property
    def total_conflicts(self) -> float:
        """Those of `total` that there would not be without conflicts."""
        return (self.passes - self.minimum) * self.times

    @property
    def conflicts(self) -> float:
        """Passes for each pass that was needed: 1 is free of bank conflicts."""
        return self.passes / self.minimum if self.minimum else 1.0


def shared_accesses(launch: Launch, executed: dict[Any, float] | None = None) -> tuple[SharedAccess, ...]:
    """The passages of a GPU launch through shared memory, in the order of its code. `executed` says how often the
    programs together ran each place of the source; without it, every place runs once.

    >>> from tritium.backends.compiler import GPUTarget
    >>> from tritium.insight.facts.launch import prepared
    >>> from tritium.kernels.transpose import transpose_kernel
    >>> x, sizes = np.zeros((64, 64), np.float32), {"BLOCK_M": 64, "BLOCK_N": 64}
    >>> args = (x, x.copy(), 64, 64, 64, 1, 64, 1)
    >>> launch = prepared(transpose_kernel, (1, 1), args, sizes, GPUTarget("cuda", 80, 32))
    >>> [(s.op, s.side, s.passes, s.minimum) for s in shared_accesses(launch)]
    [('layout conversion', 'write', 256, 128), ('layout conversion', 'read', 128, 128)]
    """
    module = launch.stages["ttgir"]
    if not module.attrs.get("shared_bytes"):
        return ()
    often: dict[Place, float] = {}
    for loc, times in (executed or {}).items():
        often[places_of(loc)] = max(times, often.get(places_of(loc), 0.0))
    known, blocks, out = _ops_by_place(module), launch.metadata.get("num_ctas", 1), []
    for (place, side), made in _passes_by_place(launch, module, known).items():
        times = often.get(place, 0.0) if executed is not None else 1.0
        what = ", ".join(dict.fromkeys(known[place].names)) if place in known else ""
        what, line = what or "other", _line(place)
        if side == "far":  # all blocks read the memory of each; the passes there are those of the block itself
            out.append(SharedAccess(line, what, "read", *made, times))
        else:
            out.append(SharedAccess(line, what, side, *made, times * blocks))
    return tuple(out)


def _line(place: Place) -> int:
    """The line of the kernel's file: that of the innermost call which stands there."""
    return next((at[1] for at in place if at[0] == place[-1][0]), 0)


class _Ops(NamedTuple):
    """The ops of one place: what those do that take shared memory, the fewest loops around one, and the places of what
    is in their regions."""

    names: list[str]
    depth: int
    inside: set[Place]


def _ops_by_place(module: Module) -> dict[Place, _Ops]:
    found: dict[Place, _Ops] = {}

    def look(block: Block, depth: int) -> None:
        for op in block.ops:
            if op.kind in _LOOPS or op.kind in (ops.if_, gpu_ops.warp_specialize):
                for region in op.regions:
                    look(region, depth + (op.kind in _LOOPS))
                continue
            place = places_of(op.loc)
            names, least, inside = found.get(place, _Ops([], depth, {place}))
            if op.attrs.get("shared") or op.kind in _OF_OTHERS:
                names.append(_PASSAGES.get(op.kind) or str(op.kind.name))
            inside |= {places_of(inner.loc) for region in op.regions for inner in walk(region)}
            found[place] = _Ops(names, min(depth, least), inside)

    for function in (module, *module.functions):
        look(function.body, 0)
    return found


def _passes_by_place(launch: Launch, module: Module,
                     known: dict[Place, _Ops]) -> dict[tuple[Place, str], tuple[int, int, int]]:
    """{(place, side): (bytes, passes, fewest passes) of a program}."""
    text = lower_kernel(module, gpu_of(launch.target), exact=True)
    places = places_in(text)
    threads = launch.target.warp_size * (launch.num_warps + launch.metadata.get("producer_warps", 0))
    machine = machine_of(launch.target)(text, threads, Memory([]), launch.metadata["shared"])

    def own(numbers: set[int], around: int) -> bool:
        at = {places[k] for k in numbers if k in places}
        return bool(at) and any(at <= known[p].inside and around >= known[p].depth for p in at if p in known)

    found: dict[tuple[Place, str], dict[int, np.ndarray]] = {}
    for access in Threads(machine, own).follow():
        by_depth = found.setdefault((places.get(access.place, ()), access.side), {})
        total = by_depth.setdefault(access.depth, np.zeros(3, np.int64))
        total += (access.size * len(access.threads), *_passes(access, launch.target.warp_size))
    # What stands outside of the loop that a place is in is an iteration of it, which was moved out.
    out, unrolled = {}, _unrolled(module)
    for key, by_depth in found.items():
        most, total = unrolled.get(key[0], (1, 1))
        size, passes, fewest = (int(x) * most // total for x in by_depth[max(by_depth)])
        out[key] = size, passes, fewest
    return out


def _unrolled(module: Module) -> dict[Place, tuple[int, int]]:
    """The copies of each place in the loop that is unrolled most, and in all loops, if others run what is left over:
    few iterations."""
    found: dict[Place, list[int]] = {}
    for loop in (op for op in walk(module.body) if op.kind is ops.for_):
        inside = [*walk(loop.regions[0])]
        if not any(op.kind in _LOOPS for op in inside):
            for place in {places_of(op.loc) for op in inside if op.attrs.get("shared") or op.kind in _OF_OTHERS}:
                found.setdefault(place, []).append(loop.attrs["copies"])
    return {place: (max(copies), sum(copies)) for place, copies in found.items() if max(copies) > min(copies)}


def _passes(access: Access, warp_size: int) -> tuple[int, int]:
    """(bank passes, the fewest) of an access."""
    passes = fewest = 0
    reads, warps = access.side in ("read", "far"), access.threads // warp_size
    for warp in dict.fromkeys(warps.tolist()):
        mine = warps == warp
        lanes, at = access.threads[mine] % warp_size, None
        if access.addresses is not None:
            at = access.addresses[mine]
            at = tuple((at - at.min() // BANK_ROW * BANK_ROW).tolist())
        made, least = _of_warp(tuple(lanes.tolist()), at, access.size, reads)
        passes, fewest = passes + made, fewest + least
    return passes, fewest


@functools.lru_cache(maxsize=4096)
def _of_warp(lanes: tuple[int, ...], addresses: tuple[int, ...] | None, size: int, reads: bool) -> tuple[int, int]:
    """(bank passes, the fewest) of a warp whose lanes have these addresses. The banks serve a part of the warp at a
    time, and twice as many lanes where those that read have their addresses in pairs."""
    together, found = lanes_at_once(size), addresses or lanes
    if addresses and reads and size > 4 and _paired(dict(zip(lanes, addresses))):
        together *= 2
    parts: dict[int, list[int]] = {}
    for lane, address in zip(lanes, found):
        parts.setdefault(lane // together, []).append(address)
    return sum(map(conflicts, parts.values())) if addresses else len(parts), len(parts)


def _paired(at: dict[int, int]) -> bool:
    """Whether every lane has the address of the next one, or of the next but one, in its pair."""
    return any(all(at.get(lane ^ bit, where) == where for lane, where in at.items()) for bit in (1, 2))
