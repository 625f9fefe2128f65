"""Every stage of a kernel as text whose lines know the source line they come from, and the differences of two launches.

Python, `ttir`, `ttgir`, `llir`, then `ptx` and `sass`, or `asm` on a CPU. SASS needs cuobjdump; without it, the stage
is left out.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from tritium.insight.facts.launch import Launch
from tritium.insight.facts.places import in_kernel
from tritium.ir.core import Module

LINES = 3000  # of a stage that are kept


@dataclass(frozen=True)
class Stage:
    """One stage: its lines, and for each the line of the kernel's file that it comes from (0: of none)."""

    name: str
    lines: tuple[str, ...]
    source: tuple[int, ...]
    left_out: int = 0

    def of_line(self, line: int) -> list[str]:
        """The lines that come from a line of the source."""
        return [text for text, at in zip(self.lines, self.source) if at == line]


@dataclass(frozen=True)
class Comparison:
    """Two launches side by side: figures that differ, and unified diffs by stage."""

    names: tuple[str, str]
    figures: tuple[tuple[str, str, str], ...]
    diffs: dict[str, tuple[str, ...]]


def stages(launch: Launch) -> tuple[Stage, ...]:
    """The stages of a launch, the Python source first.

    >>> import numpy as np
    >>> from tritium.backends.compiler import GPUTarget
    >>> from tritium.insight.facts.launch import prepared
    >>> from tritium.kernels.vector_add import add_kernel
    >>> x = np.zeros(4, np.float32)
    >>> launch = prepared(add_kernel, (1,), (x, x, x, 4), {"BLOCK": 4}, GPUTarget("cuda", 80, 32))
    >>> python, ttir, *_ = stages(launch)
    >>> store = next(n for n, text in launch.text if "tl.store" in text)
    >>> [line.split()[0] for line in ttir.of_line(store)][-1]
    'store'
    """
    numbers, texts = zip(*launch.text)
    found = [Stage("python", texts, numbers)]
    for name in ("ttir", "ttgir"):
        if isinstance(module := launch.stages.get(name), Module):
            lines = str(module).rstrip("\n").split("\n")
            found.append(_cut(name, lines, _module_lines(module, launch.fn.file)))
    found.append(_text_stage("llir", launch.stages["llir"], _llvm_lines, launch))
    if isinstance(ptx := launch.stages.get("ptx"), str):
        found.append(_text_stage("ptx", ptx, _directive_lines, launch))
        if (sass := _sass(launch)) is not None:
            found.append(_text_stage("sass", sass, lambda lines, file: [0] * len(lines), launch))
    elif "asm" in launch.kernel.asm:
        found.append(_text_stage("asm", launch.kernel.asm["asm"], _directive_lines, launch))
    return tuple(found)


def _sass(launch: Launch) -> str | None:
    from tritium import knobs

    if knobs.nvidia.cuobjdump is None or not launch.stages["cubin"].startswith(b"\x7fELF"):
        return None
    return launch.kernel.asm["sass"]


def _cut(name: str, lines: list[str], source: list[int]) -> Stage:
    return Stage(name, tuple(lines[:LINES]), tuple(source[:LINES]), max(0, len(lines) - LINES))


def _text_stage(name: str, text: str, numbering, launch: Launch) -> Stage:
    lines = text.rstrip("\n").split("\n")
    return _cut(name, lines, numbering(lines, launch.fn.file))


def _module_lines(module: Module, file: str) -> list[int]:
    """The source line of each line that a module prints."""
    out: list[int] = []

    def line(op) -> int:
        at = in_kernel(op.loc) if op.loc else None
        return at.line if at is not None and at.file == file else 0

    def block(b) -> None:
        for op in b.ops:
            here = line(op)
            out.append(here)
            for k, region in enumerate(op.regions):
                out.extend([here] * (k > 0) + [here] * bool(region.args))
                block(region)
            out.extend([here] * bool(op.regions))

    for k, function in enumerate((module, *module.functions)):
        out.extend([0] * (1 if k == 0 else 2))
        block(function.body)
        out.append(0)
    return out


def _llvm_lines(lines: list[str], file: str) -> list[int]:
    """By the `!dbg` metadata at the end of LLVM's lines."""
    nodes = {found[1]: found[2] for text in lines if (found := re.match(r"(!\d+) = (.*)", text))}

    def in_file(scope: str) -> bool:
        node = nodes.get(scope, "")
        at = re.search(r"file: (!\d+)", node)
        return at is not None and f'"{file}"' in nodes.get(at[1], "")

    known = {}
    for number, node in nodes.items():
        found = re.search(r"!DILocation\(line: (\d+),.*scope: (!\d+)", node)
        known[number] = int(found[1]) if found and in_file(found[2]) else 0
    ends = (re.search(r"!dbg (!\d+)$", text) for text in lines)
    return [known.get(found[1], 0) if found else 0 for found in ends]


def source_lines(text: str, launch: Launch) -> list[int]:
    """The line of the kernel's file that each line of PTX or assembly comes from, 0 where of none."""
    return _directive_lines(text.split("\n"), launch.fn.file)


def _directive_lines(lines: list[str], file: str) -> list[int]:
    """By the `.loc` directives before lines of PTX or assembly."""
    files: dict[str, bool] = {}
    for text in lines:
        if found := re.match(r'\s*\.file\s+(\d+)\s+(.*)', text):
            names = re.findall(r'"([^"]*)"', found[2])
            files[found[1]] = "/".join(names) == file or names[-1:] == [file]
    out, now = [], 0
    for text in lines:
        if found := re.match(r"\s*\.loc\s+(\d+)\s+(\d+)", text):
            now = int(found[2]) if files.get(found[1]) else 0
        elif re.match(r"\s*(//.*)?$|\s*\.(file|section|visible|target|version)", text):
            out.append(0)
            continue
        out.append(now)
    return out


def compare(names: tuple[str, str], figures: tuple[dict[str, str], dict[str, str]], first: tuple[Stage, ...],
            second: tuple[Stage, ...]) -> Comparison:
    """What differs between two launches.

    >>> a, b = (Stage("ttir", (f"x = {n}", "y"), (1, 2)) for n in (1, 2))
    >>> made = compare(("a", "b"), ({"warps": "4", "stages": "3"}, {"warps": "8", "stages": "3"}), (a,), (b,))
    >>> made.figures, made.diffs["ttir"][-3:]
    ((('warps', '4', '8'),), ('-x = 1', '+x = 2', ' y'))
    """
    changed = tuple((name, value, figures[1].get(name, "")) for name, value in figures[0].items()
                    if figures[1].get(name, "") != value)
    others, diffs = {stage.name: stage for stage in second}, {}
    for stage in first:
        other = others.get(stage.name)
        if other is not None and stage.lines != other.lines:
            diffs[stage.name] = tuple(difflib.unified_diff(stage.lines, other.lines, *names, lineterm=""))[:LINES]
    return Comparison(names, changed, diffs)
