"""The facts of a launch for a terminal: tables by rich where it is installed, plain ones elsewhere."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tritium.insight.explain.units import amount, bytes_text, mean_text, share, time_text

if TYPE_CHECKING:
    from tritium.insight.explain.explanation import Explanation

WIDTH = 118
LEGEND = """vector: elements that a thread moves at a time, of those that 16 bytes hold
sectors: of 32 bytes, in a request of a warp or TMA; least: that would hold the bytes it asks for
moved: between L2 and the processors; needed: what lanes ask for
"""


def report(e: Explanation, color: bool = False) -> str:
    """The report; with `color`, for a terminal that shows colours."""
    out = [f"{e.name} for {e.target}: grid {' x '.join(map(str, e.launch.grid))}"]
    out += [("predicted: " + e.limits).replace(". ", "\n           ")] * bool(e.limits) + [e.accesses.sampling]
    if e.launch.note:
        out.append(e.launch.note)
    out += ["", *_findings(e), "", table("accesses", *accesses(e), color=color)]
    if e.launch.is_gpu:
        out[-1] += LEGEND
    if e.shared:
        rows = [(str(s.line), f"{s.op}, {s.side}", bytes_text(s.bytes), str(s.passes), str(s.minimum))
                for s in e.shared]
        heads = ("line", "passage", "bytes", "bank passes", "least")
        out.append(table("shared memory, of a program", heads, rows, color=color))
    out += _resources(e)
    out += _roofline(e)
    out += _loops(e)
    if e.comparison is not None:
        out.append(table("comparison", ("", *e.comparison.names), list(e.comparison.figures), color=color))
    return "\n".join(out).rstrip("\n") + "\n"


def _findings(e: Explanation) -> list[str]:
    if not e.findings:
        return ["nothing stands out"]
    out = []
    for k, f in enumerate(e.findings, 1):
        gain = f" [may save {share(f.gain)}]" if f.gain >= 0.005 else ""
        where = f"line {f.line}: " if f.line else ""
        out += [f"{k}. {f.kind}: {where}{f.title}{gain}", f"   remedy: {f.remedy}"]
    return out


def accesses(e: Explanation) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Heads and rows of the table of accesses."""
    known = {r.site: r for r in e.requests}
    heads = ("line", "access", "masked", "out of bounds")
    if e.launch.is_gpu:
        heads += ("by", "vector", "sectors", "least", "moved", "needed")
    rows = []
    for s in e.accesses.sites:
        row = (str(s.line), f"{s.kind} {', '.join(s.tensors)}", f"{s.masked / s.lanes if s.lanes else 0:.0%}",
               f"{s.out_of_bounds:.0f}")
        if e.launch.is_gpu:
            r = known[s.number]
            row += (r.how, f"{r.vector} of {r.widest}", mean_text(r.sectors_each), mean_text(r.minimum_each),
                    bytes_text(r.bytes_moved), bytes_text(s.bytes))  # fmt: skip
        rows.append(row)
    return heads, rows


def _resources(e: Explanation) -> list[str]:
    r = e.resources
    if not e.launch.is_gpu:
        return [f"scratch memory   {bytes_text(r.scratch)} for each worker"]
    said = " (the compiler's estimate)" if r.registers_estimated else f", {r.spills} words spilled"
    given = f" at launch, {r.consumer_registers} in warps that compute" if r.consumer_registers else ""
    out = [f"registers        {r.registers} a thread{given}{said}"]
    if r.held and r.pressure and (r.spills or r.registers_lacking or r.limiter == "registers"):
        out[-1] += f"; most are held at line {r.pressure.line}, about {r.pressure.registers} by the layouts of tiles:"
        out += [f"                 {h.registers:>7} {h.name}{_at(h.line)}, {'x'.join(map(str, h.shape))} {h.dtype}"
                for h in r.held]
    out.append(f"shared memory    {r.shared} bytes")
    scratch = [b for b in r.buffers if b.reused]
    out += [f"                 {b.bytes:>7} {b.what}{_at(b.line)}" for b in r.buffers if not b.reused]
    if scratch:
        out.append(f"                 {max(b.bytes for b in scratch):>7} scratch at most, which {len(scratch)} "
                   f"line{'s use' if len(scratch) > 1 else ' uses'} one after another")
    return [*out, f"occupancy        {r.occupancy}" if r.occupancy else "occupancy        not known"]


def _at(line: int) -> str:
    return f" (line {line})" if line else ""


def _roofline(e: Explanation) -> list[str]:
    roof = e.roofline
    work = ", ".join(f"{amount(n)} {kind}" for kind, n in roof.flops.items()) or "none"
    out = [f"operations       {work}", f"memory           {bytes_text(roof.minimum_bytes)} at least; "
           f"{bytes_text(roof.dram_bytes)} in sectors; {roof.intensity:.3g} operations for each byte"]  # fmt: skip
    out += [f"predicted        {time_text(p.seconds)} on {p.device}, bound by {p.bound}; {p.waves:.2f} waves"
            for p in roof.predictions]
    return out if roof.measured is None else [*out, f"measured         {time_text(roof.measured)} on this machine"]


def _loops(e: Explanation) -> list[str]:
    ahead = lambda loop: f", loads {loop.distance} iterations ahead in {loop.slots} slots" if loop.distance else ""
    found = [f"loop, line {loop.line:<5} {loop.how}{ahead(loop)}" for loop in e.timeline.loops]
    return [*dict.fromkeys(found)]  # one that is unrolled is several


def table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], color: bool = False) -> str:
    """A table with a title.

    >>> print(table("sizes", ("name", "bytes"), [("x", "4096")], color=False).splitlines()[0])
    sizes
    """
    try:
        from rich import box
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        return plain(title, heads, rows)
    drawn = Table(*heads, box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for row in rows:
        drawn.add_row(*(cell.replace("[", "\\[") for cell in row))
    buffer = io.StringIO()
    Console(file=buffer, width=WIDTH, force_terminal=color, color_system="standard" if color else None).print(drawn)
    lines = [line.rstrip() for line in buffer.getvalue().splitlines()]
    return "\n".join([title, *lines]) + "\n"


def plain(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table without rich.

    >>> print(plain("sizes", ("name", "bytes"), [("x", "4096")]), end="")
    sizes
    name  bytes
    x     4096
    """
    widths = [max(len(row[k]) for row in (heads, *rows)) for k in range(len(heads))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in (heads, *rows)]
    return "\n".join([title, *lines]) + "\n"
