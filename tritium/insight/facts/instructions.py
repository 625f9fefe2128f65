"""The instructions that the warps of a GPU launch issue, by the unit that executes them.

They are counted in the PTX: an instruction in a loop as often as the interpreter ran the source lines of the loop. What
ptxas folds into others (moves, parts of addresses, conjunctions of predicates) is not counted; what it expands is
weighed. So the counts are estimates.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tritium.insight.facts.places import in_kernel

_LABEL = re.compile(r"\s*([\w$]+):")
_BRANCH = re.compile(r"\bbra(?:\.uni)?\s+([\w$]+)")
_PRODUCER, _CONSUMER = "setmaxnreg.dec", "setmaxnreg.inc"  # where their parts of the code begin
_OPCODE = re.compile(r"(?:@!?%?\w+\s+)?([a-z][\w]*(?:\.[\w:]+)*)\b")

# The first words of an opcode -> (unit, instructions that ptxas makes of it). The first match counts.
_UNITS = [(re.compile(pattern), unit, count) for pattern, unit, count in (
    (r"mov\b|ld\.param|ret|bra|and\.pred|or\.pred|xor\.pred|not\.pred|cvt\.[su]64|shl\.b64|cvta|pragma", "", 0),
    (r"wgmma\.mma|mma\.|tcgen05\.mma", "tensor", 1),
    (r"(ld|st|atom|red)\.(?!param)|cp\.async|ldmatrix|stmatrix|prefetch", "load/store", 1),
    (r"shfl|movmatrix", "load/store", 1),
    (r"(ex2|lg2|sin|cos|tanh|rcp|rsqrt|sqrt)\.approx", "special", 1),
    (r"div\.(full|approx)", "special", 1),  # and its multiplications: see _EXTRA
    (r"(div|rcp|sqrt|fma|add|sub|mul|neg|abs|min|max)(\.\w+)*\.f64", "fp64", 1),
    (r"(div|rem)\.[su]", "integer", 20),
    (r"(add|sub|fma|mul|min|max|neg|abs)(\.\w+)*\.(f32|f16|f16x2|bf16|bf16x2)\b", "fp32", 1),
    (r"cvt", "convert", 1),
    (r"(add|sub|mul|mad|min|max|neg)(\.\w+)*\.[su]64", "integer", 2),
    (r"(wgmma|bar|barrier|mbarrier|fence|membar|elect|griddepcontrol|setmaxnreg|nanosleep|createpolicy)", "other", 1),
)]
_EXTRA = re.compile(r"div\.(full|approx)")


@dataclass(frozen=True)
class Instructions:
    """Instructions of warps in the whole launch, by unit: "fp32", "fp64", "integer", "convert", "special",
    "load/store", "tensor" and "other"."""

    by_unit: dict[str, float]
    synchronizes: bool  # whether warps of a program wait for each other
    repeated: float = 0.0  # share of the loads from global memory that repeat another: ptxas makes one of both

    @property
    def total(self) -> float:
        """All of them: what the schedulers issue."""
        return sum(self.by_unit.values())


def instructions(ptx: str, lines: list[int], executed: dict[Any, float], programs: int, warps: int) -> Instructions:
    """Count the instructions of a kernel. `lines` are the source lines of the PTX's lines, `executed` says how often
    the programs together ran each place of the source.

    >>> ptx = "{\\nadd.f32 %f1, %f2, %f3;\\nloop:\\nld.global.b32 %r1, [%rd1];\\n@%p1 bra loop;\\nret;\\n}"
    >>> from tritium.ir.core import Loc
    >>> runs = {Loc("f.py", 7, 0, 7, 1): 80.0}
    >>> instructions(ptx, [0, 6, 7, 7, 7, 8, 8], runs, programs=10, warps=4).by_unit
    {'fp32': 40.0, 'load/store': 320.0}
    """
    often: dict[int, float] = {}
    for loc, times in executed.items():
        if loc is not None:
            line = in_kernel(loc).line
            often[line] = max(times, often.get(line, 0.0))
    texts = [text.partition("//")[0] for text in ptx.split("\n")]
    times = _times(texts, lines, often, programs)
    counts: dict[str, float] = {}
    synchronizes, everyone = False, warps
    for text, factor in zip(texts, times):
        warps = 1 if _PRODUCER in text else everyone if _CONSUMER in text else warps
        # Descriptors of operands are stepped on the uniform units, beside the others.
        for statement in re.findall(r"wgmma\.mma[^;]*", text) or text.split(";"):
            unit, count = _unit(statement)
            synchronizes = synchronizes or "bar.sync" in statement or "barrier.sync" in statement
            if count:
                counts[unit] = counts.get(unit, 0.0) + count * factor * warps
                if _EXTRA.search(statement):
                    counts["fp32"] = counts.get("fp32", 0.0) + 4 * factor * warps
    return Instructions(counts, synchronizes, _repeated(texts))


def _repeated(texts: list[str]) -> float:
    """The share of loads whose width and address stand in another load, without a store or a label between."""
    seen: set[tuple[str, str]] = set()
    loads = again = 0
    for text in texts:
        if "st.global" in text or "atom." in text or "red." in text or _LABEL.match(text):
            seen.clear()
        for width, address in re.findall(r"ld\.global\.([\w.]+)\s+[^\[]*\[([^\]]*)\]", text):
            loads, again = loads + 1, again + ((width, address) in seen)
            seen.add((width, address))
    return again / loads if loads else 0.0


def _unit(statement: str) -> tuple[str, int]:
    statement = statement.strip().lstrip("{}").strip()
    if not statement or statement[0] in ".$/" or statement.endswith(":"):
        return "", 0
    found = _OPCODE.match(statement)
    if found is None:
        return "", 0
    for pattern, unit, count in _UNITS:
        if pattern.match(found[1]):
            return unit, count
    return "integer", 1


def _times(texts: list[str], lines: list[int], often: dict[int, float], programs: int) -> list[float]:
    """How often each line of PTX runs, all programs together: what is in no loop once for each program, a loop from a
    label to a branch back to it as often as the most frequent source line in it. In a loop around others, lines that
    run as often as those were moved out of them, and do not count."""
    out = [float(programs)] * len(texts)
    spans = _loops(texts)
    counts: dict[tuple[int, int], float] = {}
    for first, last in sorted(spans, key=lambda span: span[1] - span[0]):
        inner = [span for span in counts if first <= span[0] and span[1] <= last]
        below = max((counts[span] for span in inner), default=float("inf"))
        own = {lines[k] for k in range(first, min(last + 1, len(lines))) if not any(a <= k <= b for a, b in inner)}
        found = [often[line] for line in own if programs < often.get(line, 0.0) < below]
        counts[first, last] = max(found, default=float(programs))
    for (first, last), count in sorted(counts.items(), key=lambda item: item[0][0] - item[0][1]):
        out[first : last + 1] = [count] * (last + 1 - first)
    return out


def _loops(texts: list[str]) -> set[tuple[int, int]]:
    """(first, last) line of each loop. Those of a few lines wait for an mbarrier, most often in vain: they do not count
    as loops."""
    labels: dict[str, int] = {}
    found = set()
    for k, text in enumerate(texts):
        if label := _LABEL.match(text):
            labels[label[1]] = k
        for target in _BRANCH.findall(text):
            if target in labels and k - labels[target] > 12 or _is_loop(texts, labels.get(target, k), k):
                found.add((labels[target], k))
    return found


def _is_loop(texts: list[str], first: int, last: int) -> bool:
    return first < last and not any("try_wait" in text for text in texts[first : last + 1])
