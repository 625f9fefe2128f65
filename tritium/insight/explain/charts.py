"""Plain SVG of the facts: colours come from the page's style sheet by class, so that light and dark both work."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from tritium.insight.facts.devices import DEVICES
from tritium.insight.facts.liveness import Live
from tritium.insight.facts.resources import Point
from tritium.insight.facts.roofline import Roofline
from tritium.insight.facts.timeline import Loop, schedule

_ROWS = (("load", "loads"), ("mma", "products"), ("other", "other work"))


def pipeline(loop: Loop, iterations: int = 7) -> str:
    """The schedule of a loop: a row for each unit, a bar for each iteration."""
    bars = schedule(loop, iterations)
    rows = [(row, name) for row, name in _ROWS if any(b.row == row for b in bars)]
    end = max((b.end for b in bars), default=1.0)
    width, left, height = 860, 100, 36
    scale = (width - left - 10) / end
    out = []
    for k, (row, name) in enumerate(rows):
        y = 8 + k * (height + 8)
        out.append(f'<text x="{left - 8}" y="{y + 20}" text-anchor="end">{name}</text>')
        lanes = min(3, loop.distance + 1) if row == "load" else 1  # loads in flight together lie above each other
        for b in (b for b in bars if b.row == row):
            top, high = y + height / lanes * (b.iteration % lanes), height / lanes - (lanes > 1)
            w = max(2.0, (b.end - b.start) * scale - 1)
            title = f"iteration {b.iteration}, {b.phase}: cycles {b.start:.0f} to {b.end:.0f}"
            x = left + b.start * scale
            out.append(f'<g class="bar {row} {b.phase}"><title>{title}</title>'
                       f'<rect x="{x:.1f}" y="{top:.1f}" width="{w:.1f}" height="{high:.1f}" rx="3"/>'
                       + (f'<text x="{x + w / 2:.1f}" y="{top + high / 2 + 4:.1f}" '
                          f'text-anchor="middle">{b.iteration}</text>' if w > 14 else "") + "</g>")  # fmt: skip
    bottom = 8 + len(rows) * (height + 8)
    out.append(f'<text x="{left}" y="{bottom + 14}">0</text><text x="{width - 10}" y="{bottom + 14}" '
               f'text-anchor="end">{end:.0f} cycles, estimated</text>')
    return _svg(width, bottom + 22, "".join(out), f"Schedule of the loop on line {loop.line}")


def live(points: Sequence[Live]) -> str:
    """Registers (line) and shared memory (area) that are live over the ops of a kernel."""
    if not points:
        return ""
    width, height, left = 860, 150, 100
    most = max(max(p.registers for p in points), 1)
    shared = max(max(p.shared for p in points), 1)
    x = lambda k: left + (width - left - 10) * k / max(1, len(points))
    area = "".join(f"L{x(k):.1f},{height - 20 - 110 * p.shared / shared:.1f} "
                   f"L{x(k + 1):.1f},{height - 20 - 110 * p.shared / shared:.1f} " for k, p in enumerate(points))
    line = " ".join(f"{x(k):.1f},{height - 20 - 110 * p.registers / most:.1f} "
                    f"{x(k + 1):.1f},{height - 20 - 110 * p.registers / most:.1f}" for k, p in enumerate(points))
    hover = "".join(f'<rect class="hover" x="{x(k):.1f}" y="10" width="{max(1.0, x(k + 1) - x(k)):.1f}" '
                    f'height="{height - 30}"><title>line {p.line}, {p.op}: {p.registers} registers, {p.shared} bytes '
                    "of shared memory</title></rect>" for k, p in enumerate(points))
    body = (f'<path class="shared" d="M{left},{height - 20} {area} L{x(len(points)):.1f},{height - 20} Z"/>'
            f'<polyline class="registers" points="{line}"/>{hover}'
            f'<text x="{left - 8}" y="20" text-anchor="end">{most} regs</text>'
            f'<text x="{left - 8}" y="36" text-anchor="end">{shared if shared > 1 else 0} B</text>'
            f'<text x="{left}" y="{height - 4}">first op</text>'
            f'<text x="{width - 10}" y="{height - 4}" text-anchor="end">last op</text>')
    return _svg(width, height, body, "Registers of a thread and shared memory live over the ops of the kernel")


def occupancy(points: Sequence[Point], here: int, unit: str) -> str:
    """The curve of occupancy over one resource, with a dot where the kernel is."""
    if not points:
        return ""
    width, height, left, bottom = 420, 190, 44, 34
    low, high = points[0].amount, max(points[-1].amount, 1)
    log = unit == "warps"
    at = (lambda v: math.log2(max(v, 1)) / math.log2(high)) if log else (lambda v: (v - low) / max(1, high - low))
    x = lambda v: left + (width - left - 12) * at(v)
    y = lambda s: height - bottom - (height - bottom - 14) * s
    line = " ".join(f"{x(p.amount):.1f},{y(p.share):.1f}" for p in points)
    now = min(points, key=lambda p: (p.amount < here, abs(p.amount - here)))
    grid = "".join(f'<line class="grid" x1="{left}" x2="{width - 12}" y1="{y(s):.1f}" y2="{y(s):.1f}"/>'
                   f'<text x="{left - 6}" y="{y(s) + 4:.1f}" text-anchor="end">{s:.0%}</text>' for s in (0, 0.5, 1))
    dots = "".join(f'<circle class="mark" cx="{x(p.amount):.1f}" cy="{y(p.share):.1f}" r="2.5"><title>'
                   f"{p.amount} {unit}: {p.programs} programs, {p.share:.0%}</title></circle>" for p in points)
    body = (f'{grid}<polyline class="curve" points="{line}"/>{dots}'
            f'<circle class="here" cx="{x(here):.1f}" cy="{y(now.share):.1f}" r="6"><title>this kernel: {here} {unit}'
            f"</title></circle>"
            f'<text x="{left}" y="{height - 8}">{low}</text>'
            f'<text x="{width - 12}" y="{height - 8}" text-anchor="end">{high} {unit}</text>')
    return _svg(width, height, body, f"Occupancy over {unit}")


def roofline(roof: Roofline) -> str:
    """Operations a second over arithmetic intensity, both on logarithmic axes, for each device; and as measured."""
    predictions = [p for p in roof.predictions if p.device in DEVICES]
    if not predictions or not roof.total_flops or not roof.minimum_bytes:
        return ""
    width, height, left, bottom = 860, 320, 96, 40
    kind = max(roof.flops, key=lambda name: roof.flops[name])
    devices = [DEVICES[p.device] for p in predictions]
    peak = max(d.rate(kind) for d in devices)
    achieved = [roof.total_flops / p.seconds for p in predictions]
    low_x, high_x = min(0.05, roof.intensity / 3), max(2000.0, roof.intensity * 3)
    real = None if roof.measured is None else roof.total_flops / roof.measured
    low_y = min(min(achieved) / 3, peak / 1e4, math.inf if real is None else real / 3)
    x = lambda v: left + (width - left - 12) * math.log(v / low_x) / math.log(high_x / low_x)
    decades = math.log(2 * peak / low_y)
    y = lambda v: height - bottom - (height - bottom - 14) * math.log(max(v, low_y) / low_y) / decades
    out = []
    for k in range(math.ceil(math.log10(low_x)), math.floor(math.log10(high_x)) + 1):
        out.append(f'<line class="grid" x1="{x(10**k):.1f}" x2="{x(10**k):.1f}" y1="14" y2="{height - bottom}"/>'
                   f'<text x="{x(10**k):.1f}" y="{height - bottom + 16}" text-anchor="middle">{10**k:g}</text>')
    for k in range(math.ceil(math.log10(low_y)), math.floor(math.log10(2 * peak)) + 1):
        out.append(f'<line class="grid" x1="{left}" x2="{width - 12}" y1="{y(10**k):.1f}" y2="{y(10**k):.1f}"/>'
                   f'<text x="{left - 6}" y="{y(10**k) + 4:.1f}" text-anchor="end">{_rate(10.0**k)}</text>')
    for n, (d, p, rate) in enumerate(zip(devices, predictions, achieved)):
        memory, top = d.dram * 1e9 * d.sustained_dram, d.rate(kind)
        ridge = min(max(top / memory, low_x), high_x)
        start = max(low_x, low_y / memory)
        path = f"{x(start):.1f},{y(start * memory):.1f} {x(ridge):.1f},{y(top):.1f} {x(high_x):.1f},{y(top):.1f}"
        key = 26 + 18 * n
        out.append(f'<polyline class="roof r{n % 3}" points="{path}"/>'
                   f'<line class="roof r{n % 3}" x1="{left + 12}" x2="{left + 34}" y1="{key}" y2="{key}"/>'
                   f'<text x="{left + 40}" y="{key + 4}">{escape(d.name)}: {_rate(top)}, '
                   f"{d.dram * d.sustained_dram:.0f} GB/s</text>"
                   f'<circle class="here" cx="{x(roof.intensity):.1f}" cy="{y(rate):.1f}" r="6"><title>'
                   f"{escape(d.name)}: {_rate(rate)} predicted, bound by {p.bound}</title></circle>")
    if real is not None:
        at_x, at_y = x(roof.intensity), y(real)
        out.append(f'<rect class="measured" x="{at_x - 6:.1f}" y="{at_y - 6:.1f}" width="12" height="12"><title>'
                   f"{_rate(real)} measured on this machine</title></rect>"
                   f'<text x="{at_x + 12:.1f}" y="{at_y + 4:.1f}">measured</text>')
    out.append(f'<text x="{width / 2}" y="{height - 6}" text-anchor="middle">operations for each byte of memory '
               f"({escape(kind)} work)</text>")
    return _svg(width, height, "".join(out), "Roofline")


def _rate(v: float) -> str:
    for unit, size in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if v >= size:
            return f"{v / size:.3g} {unit}FLOP/s"
    return f"{v:.3g} FLOP/s"


def _svg(width: int, height: float, body: str, title: str) -> str:
    """A chart; a wide one scrolls where the window is narrow, so that its text stays legible."""
    kind = "chart wide" if width > 600 else "chart"
    return (f'<div class="{kind}"><svg viewBox="0 0 {width} {height:.0f}" width="{width}" role="img" '
            f'aria-label="{escape(title)}">{body}</svg></div>')
