"""What a kernel that spills would need with more warps, or with smaller tiles: each is compiled, not guessed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tritium.compiler import ASTSource
from tritium.errors import CompilationError, OutOfResources, PTXASError
from tritium.insight.facts.launch import Launch, compiled
from tritium.insight.facts.resources import Resources, registers_of

MOST = 4  # compilations
_MOST_WARPS = 32
_LEAST = 16  # elements of a tile's axis
# A size of tiles by its name, as in BLOCK_M, BLOCK, BK, TILE_SIZE: other constants are sizes of the problem.
_TILE = re.compile(r"[A-Z]*(BLOCK|TILE|CHUNK)\w*|B[A-Z0-9]{0,2}|B_\w+|\w+_B[A-Z]?", re.IGNORECASE)


@dataclass(frozen=True)
class Trial:
    """A change to a launch, such as "num_warps=8", and the registers and spilled words of a thread that come of it."""

    change: str
    registers: int
    spills: int


def trials(launch: Launch, used: Resources) -> tuple[Trial, ...]:
    """Changes that could end the spills of a launch: twice the warps, then half of each size of the tiles that a thread
    holds. Empty if it spills nothing."""
    if not (used.spills or used.registers_lacking):
        return ()
    out: list[Trial] = []
    warps = launch.num_warps
    while len(out) < 2 and 2 * warps <= _MOST_WARPS and not any(trial.spills == 0 for trial in out):
        warps *= 2
        out += _tried(launch, f"num_warps={warps}", launch.source, {**launch.options, "num_warps": warps})
    for name in _sizes(launch, used)[: MOST - len(out)]:
        path, half = (launch.fn.arg_names.index(name),), launch.constants[name] // 2
        source = launch.source
        halved = ASTSource(source.fn, source.signature, {**source.constants, path: half}, source.attrs)
        out += _tried(launch, f"{name}={half}", halved, launch.options)
    return tuple(out)


def _tried(launch: Launch, change: str, source: ASTSource, options: dict) -> list[Trial]:
    """The trial of a change; none where the kernel does not compile with it."""
    try:
        stages, metadata, _ = compiled(source, launch.target, options)
    except (CompilationError, OutOfResources, PTXASError, ValueError):  # asserted constants; no room; too many warps
        return []
    registers, lacking = registers_of(launch.target, stages["ttgir"], metadata)
    spills = metadata.get("n_spills", lacking)
    return [Trial(change, registers, spills)]


def _sizes(launch: Launch, used: Resources) -> list[str]:
    """The constants that are sizes of the tiles a thread holds, those of the most registers first."""
    weights: dict[str, int] = {}
    for name, value in launch.constants.items():
        if type(value) is int and value >= 2 * _LEAST and name in launch.fn.arg_names and _TILE.fullmatch(name):
            weights[name] = sum(h.registers for h in used.held if value in h.shape)
    return sorted((name for name, weight in weights.items() if weight), key=lambda name: -weights[name])
