"""Faults of a launch as findings of the sanitizer."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from tritium.backends.cpu.checked import Argument, Found
from tritium.backends.cpu.library.check import KINDS
from tritium.insight.emulator.faults import Fault, Log
from tritium.insight.sanitize.report import Finding, findings

__all__ = ["Collector", "described"]

_COMPILER = ("the compiler places barriers and waits: if the kernel has no inline assembly, this is a defect of the "
             "compiler, and worth a report")
_HINTS = {
    "misaligned": "tl.multiple_of, or an argument's alignment, promises what does not hold",
    "broken assumption": "tl.assume promises what does not hold",
    "endless wait": "programs need not run at the same time: launch fewer than the device holds, or use "
                    "launch_cooperative_grid=True",
}


class Collector(Log):
    """Keeps the faults of a launch, each mistake once; programs go on where they can."""

    keeps = True

    def __init__(self):
        self.program: tuple[int, int, int] = (0, 0, 0)
        self.found: dict[tuple, list] = {}  # (fault, program, count)

    def tell(self, fault: Fault) -> None:
        """Keep a fault of the line that is executed."""
        fault.place = self.place
        key = fault.kind, fault.place, fault.other_place
        known = self.found.setdefault(key, [fault, self.program, 0])
        known[2] += max(1, len(fault.threads))

    def hear(self, program: tuple[int, int, int], fault: Fault | None) -> None:
        """A program is next, or was ended by a fault."""
        self.program = program
        if fault is not None:
            self.tell(fault)

    def findings(self, kernel: str, grid: tuple[int, int, int], arguments: list[Argument],
                 places: dict[int, tuple[tuple, ...]], threads: int, blocks: int = 1,
                 warp_size: int = 32) -> Iterator[Finding]:
        """The findings of a launch; a program has `blocks` blocks of `threads` threads."""
        who = functools.partial(described, members=threads, blocks=blocks, warp_size=warp_size)
        for fault, program, count in self.found.values():
            if fault.kind == "assertion":
                continue
            at = places.get(fault.place, ())
            finding = Finding(fault.kind, kernel, fault.message.removeprefix("race: ").removeprefix("deadlock: "),
                              hint=_HINTS.get(fault.kind, _COMPILER))
            if fault.kind in ("out of bounds", "read-only", "misaligned") and fault.did in ("load", "store", "atomic"):
                finding = _of_memory(fault, kernel, grid, arguments, at)
            yield dataclasses.replace(
                finding, program=program, grid=grid, places=at, count=count, lane=None,
                threads=who(fault.threads) or None, other=_other(fault, places, who))


def _of_memory(fault: Fault, kernel: str, grid: tuple[int, int, int], arguments: list[Argument],
               at: tuple[tuple, ...]) -> Finding:
    """A fault in the memory of arguments, told as CPU kernels do."""
    kind = "out of bounds" if fault.kind == "misaligned" else fault.kind
    site = (fault.did, -1, "", (), at)
    row = {"site": 0, "kind": KINDS.index(kind), "address": fault.address, "program": 0, "lane": 0, "value": 0}
    found: Any = Found(SimpleNamespace(sites=[site], name=kernel), grid, dict(enumerate(arguments)), [row],
                       {(0, row["kind"]): 1})
    finding, = findings(found)
    if fault.kind != "misaligned":
        return finding
    size = fault.message.split()[2]
    return dataclasses.replace(finding, kind="misaligned", hint=_HINTS["misaligned"], message=(
        f"the {fault.message} begins at element {finding.index} of `{finding.tensor}`, whose address is no multiple of "
        f"{size}: a GPU cannot do it"))


def _other(fault: Fault, places: dict[int, tuple[tuple, ...]], described: Callable[..., str]) -> dict[str, Any] | None:
    if not fault.other and fault.other_place is None:
        return None
    who = described(fault.other) or "another thread"
    at = places.get(fault.other_place or 0, ())
    return {"text": f"{who} {fault.did}", "program": None, "access": fault.did, "places": at[:1]}


def described(threads: list[int], members: int, blocks: int = 1, warp_size: int = 32) -> str:
    """Threads by warp and lane, those of other blocks of a cluster by block; numbers behind them are TMA's.

    >>> described([3], 128), described(list(range(32, 96)), 128), described([130], 128, 2), described([128], 128)
    ('warp 0, lane 3', 'warps 1-2', 'block 1, warp 0, lane 2', 'TMA')
    >>> described([70], 128, warp_size=64)
    'warp 1, lane 6'
    """
    if not threads:
        return ""
    if not 0 <= threads[0] < members * blocks:
        return "TMA"
    block = f"block {threads[0] // members}, " if threads[0] >= members else ""
    mine = [t % members for t in threads if t // members == threads[0] // members]
    warps = sorted({t // warp_size for t in mine})
    name = f"warps {warps[0]}-{warps[-1]}" if len(warps) > 1 else f"warp {warps[0]}"
    lanes = sorted({t % warp_size for t in mine})
    if len(warps) > 1 or len(lanes) == warp_size:
        return block + name
    return f"{block}{name}, lane{'s' * (len(lanes) > 1)} " + (
        f"{lanes[0]}-{lanes[-1]}" if len(lanes) > 1 else str(lanes[0]))
