"""The facts of a launch as one HTML file: no network, no other file. Tables and charts are plain HTML and SVG; the
launch map and the listings are drawn by `page.js` from the facts, which the page carries as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources as files
from typing import TYPE_CHECKING, Any

from tritium.insight.explain import charts
from tritium.insight.explain.units import amount, bytes_text, mean_text, share, time_text

if TYPE_CHECKING:
    from tritium.insight.explain.explanation import Explanation

FRAME = 760  # pixels: the height of the page inside a notebook


def page(e: Explanation) -> str:
    """The page of an explanation."""
    parts = [("overview", "Overview", overview(e)), ("map", "Launch map", launch_map(e)),
             ("accesses", "Accesses", access_table(e)), ("pipeline", "Pipeline", pipelines(e)),
             ("resources", "Resources", resource_part(e)), ("roofline", "Roofline", roofline_part(e)),
             ("stages", "Stages", stage_part()), ("compare", "Comparison", comparison(e))]  # fmt: skip
    parts = [part for part in parts if part[2]]
    links = "".join(f'<a href="#{name}">{title}</a>' for name, title, _ in parts)
    sections = "".join(f'<section id="{name}"><h2>{title}</h2>{body}</section>' for name, title, body in parts)
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(e.name)} on {escape(str(e.target))}</title><style>{_asset('page.css')}</style></head>"
            f"<body><header><h1>{escape(e.name)}</h1><div class=\"dim\">{escape(_subtitle(e))}</div></header>"
            f'<nav aria-label="Parts of the page">{links}<button id="theme" type="button">Light / dark</button></nav>'
            f"<main>{sections}</main>"
            f'<script type="application/json" id="facts">{_json(facts(e))}</script>'
            f"<script>{_asset('page.js')}</script></body></html>\n")


def framed(e: Explanation) -> str:
    """The page in a frame of its own, for notebooks."""
    return (f'<iframe srcdoc="{escape(page(e))}" style="width:100%;height:{FRAME}px;border:0" '
            f'title="{escape(e.name)} explained"></iframe>')


def facts(e: Explanation) -> dict[str, Any]:
    """What the page's script draws."""
    a = e.accesses
    tensors = [{"name": t.name, "cells": t.cells, "cell": t.cell, "pitch": t.pitch, "twice": bool(t.stored_by_two)}
               for t in a.tensors]
    programs = [{"pid": p.pid, "l": p.loads, "s": p.stores} for p in a.programs]
    steps = [{"pid": pid, "steps": [
        {"ln": s.line, "w": s.what, "i": s.iteration, "k": s.kind, "t": s.tensor, "r": s.runs, "n": s.lanes,
         "m": s.masked, "o": s.out_of_bounds} for s in found]} for pid, found in a.steps.items() if found]  # fmt: skip
    stages = [{"name": s.name, "lines": s.lines, "source": s.source, "left": s.left_out} for s in e.stages]
    return {"grid": a.grid, "complete": a.complete, "tensors": tensors, "programs": programs, "steps": steps,
            "stages": stages}


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _asset(name: str) -> str:
    return files.files("tritium.insight.explain").joinpath(name).read_text("utf-8")


def _subtitle(e: Explanation) -> str:
    constants = ", ".join(f"{name}={value!r}" for name, value in e.launch.constants.items())
    note = f"; {e.launch.note}" if e.launch.note else ""
    return f"{e.target}; grid {' x '.join(map(str, e.launch.grid))}; {constants or 'no constants'}{note}"


def _line(line: int) -> str:
    return f'<a href="#map" data-line="{line}">line {line}</a>' if line else ""


# --- parts ----------------------------------------------------------------------------------------------------------
def overview(e: Explanation) -> str:
    """Figures, and the findings."""
    r, roof = e.resources, e.roofline
    cards = [(amount(roof.total_flops), "operations"), (bytes_text(roof.minimum_bytes), "must be moved")]
    if roof.dram_bytes > 1.05 * roof.minimum_bytes:
        cards.append((bytes_text(roof.dram_bytes), "in the sectors they lie in"))
    if e.launch.is_gpu:
        cards.append((bytes_text(roof.moved_bytes), "moved between SMs and L2"))
        cards.append((f"{r.registers}{' (estimate)' if r.registers_estimated else ''}", "registers a thread"))
        cards.append((bytes_text(r.shared), "shared memory"))
        if r.occupancy:
            cards.append((f"{r.occupancy.share:.0%}", f"occupancy, limited by {r.limiter}"))
    cards += [(time_text(p.seconds), f"predicted on {p.device}, bound by {p.bound}") for p in roof.predictions]
    shown = "".join(f'<div class="card"><b>{escape(value)}</b>{escape(name)}</div>' for value, name in cards)
    rows = "".join(
        f'<li class="{f.kind}"><b>{f.rule}</b> {_line(f.line)}: {escape(f.title)}.'
        f'<div class="remedy">{escape(f.remedy)}.'
        + (f" May save {share(f.gain)} of the time." if f.gain >= 0.005 else "") + "</div></li>" for f in e.findings)
    limits = f"<p>Predicted: {escape(e.limits)}.</p>" if e.limits else ""
    return (f'<div class="cards">{shown}</div>{limits}<h3>Findings</h3>'
            + (f'<ol class="findings">{rows}</ol>' if rows else "<p>Nothing stands out.</p>"))


def launch_map(e: Explanation) -> str:
    """The grid and the tensors, which the script draws and animates."""
    a = e.accesses
    colours = (("load", "loaded by the program"), ("store", "stored"), ("both", "both"), ("touch", "touched by one"),
               ("shared", "loaded by several"), ("conflict", "stored by several"),
               ("never", "never touched" if a.complete else "touched by none that was run"))
    legend = "".join(f'<span><i style="background:var(--{name})"></i>{text}</span>' for name, text in colours)
    figures = "".join(
        f'<figure><canvas id="tensor{n}" tabindex="0" role="img" aria-label="{escape(t.name)}: arrow keys move over '
        f'its elements"></canvas><figcaption><b>{escape(t.name)}</b> {escape(t.dtype)} [{", ".join(map(str, t.shape))}]'
        f"{_counts(t)}</figcaption></figure>" for n, t in enumerate(a.tensors))
    return (f'<p class="dim">{escape(a.sampling)}. Point at a program to see what it touches, at an element to see who '
            "touches it; click to hold a program. With the keyboard: Tab, then the arrow keys.</p>"
            f'<div class="legend">{legend}</div><div class="map"><div>'
            '<h3>Programs</h3><canvas id="grid" tabindex="0" role="img" '
            'aria-label="grid of programs: arrow keys move over it"></canvas>'
            '<p class="said mono" id="said" aria-live="polite">&nbsp;</p>'
            '<h3>Step by step</h3><div class="player"><select id="stepped" aria-label="program"></select>'
            '<button id="prev" type="button">Back</button><button id="next" type="button">Step</button>'
            '<button id="play" type="button">Play</button>'
            '<input id="step" type="range" min="0" value="0" aria-label="step"></div>'
            '<p class="said mono" id="stepsaid" aria-live="polite">&nbsp;</p>'
            '<pre class="listing" id="source" tabindex="0" aria-label="source of the kernel"></pre></div>'
            f'<div class="tensors">{figures}</div></div>')


def _counts(t) -> str:
    said = []
    if t.loads_each and t.loads_each > 1.01:
        said.append(f'<span class="tag reuse">each element loaded {t.loads_each:.3g} times</span>')
    if t.stored_by_two:
        said.append(f'<span class="tag bad">{t.stored_by_two} elements stored by several programs</span>')
    if t.never:
        said.append(f'<span class="tag warn">{t.never} elements never touched</span>')
    return "".join(f"<br>{text}" for text in said)


def access_table(e: Explanation) -> str:
    """A row for each access of the source."""
    known = {r.site: r for r in e.requests}
    heads = ["line", "access", "tensor", "lanes masked"]
    gpu = e.launch.is_gpu
    if gpu:
        heads += ["by", "vector", "sectors / request", "least", "moved", "needed", "hints"]
    rows = []
    for s in e.accesses.sites:
        masked = s.masked / s.lanes if s.lanes else 0.0
        bad = f' <span class="tag bad">{s.out_of_bounds:.0f} out of bounds</span>' if s.out_of_bounds else ""
        cells = [_line(s.line), f"<code>{escape(s.code)}</code>", escape(", ".join(s.tensors)), f"{masked:.0%}{bad}"]
        if gpu:
            cells += _request_cells(known[s.number], s)
        rows.append(cells)
    return _table(heads, ["", "code", "", "n", "", "n", "n", "n", "n", "n", "words"], rows) + _shared_table(e)


def _table(heads: Sequence[str], kinds: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table that scrolls by itself where the window is narrow; a head stands as the cells below it do."""
    head = "".join(f'<th class="{kind}">{name}</th>' for name, kind in zip(heads, kinds))
    body = "".join("<tr>" + "".join(f'<td class="{kind}">{cell}</td>' for cell, kind in zip(row, kinds)) + "</tr>"
                   for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _request_cells(r, site) -> list[str]:
    if r.how == "removed":
        return ["not in the compiled kernel", "", "", "", "", "", ""]
    grade = "good" if r.excess <= 1.05 else "bad" if r.excess >= 1.3 else "warn"
    if r.how == "TMA":
        each = f'<span class="tag {grade}">{r.excess:.2f} x the least</span>'
        vector, least = "boxes", f"{r.minimum_each:.0f}"
    else:
        each = f'<span class="tag {grade}">{mean_text(r.sectors_each)}</span>'
        vector, least = f"{r.vector} of {r.widest}", mean_text(r.minimum_each)
    return [r.how, vector, each, least, bytes_text(r.bytes_moved), bytes_text(site.bytes), _hints(r.hints)]


def _hints(hints) -> str:
    """The promises that made an access as wide as it is, in one sentence; then those that would make it wider."""
    made = [f"<code>{escape(h.argument)}</code>" for h in hints if h.promised]
    out = []
    if len(made) == 1:
        out.append(f"as wide as it is because {made[0]} is a multiple of 16")
    elif made:
        out.append(f"as wide as it is because {', '.join(made[:-1])} and {made[-1]} are multiples of 16")
    out += [f'<span class="warn">{h.width} wide if <code>{escape(h.argument)}</code> were a multiple of 16</span>'
            for h in hints if not h.promised]
    return "<br>".join(out)


def _shared_table(e: Explanation) -> str:
    if not e.shared:
        return ""
    rows = [(_line(s.line), f"{s.op}, {s.side}", bytes_text(s.bytes),
             f'<span class="tag {"good" if s.conflicts < 1.5 else "warn"}">{s.passes}</span>', str(s.minimum))
            for s in e.shared]
    heads = ("line", "passage", "bytes", "bank passes of a program", "least")
    return "<h3>Shared memory</h3>" + _table(heads, ("", "", "n", "n", "n"), rows)


def pipelines(e: Explanation) -> str:
    """The schedule of each loop, and what is live."""
    out = []
    for loop in e.timeline.loops:
        ahead = f", loads {loop.distance} iterations ahead in {loop.slots} slots" if loop.distance else ""
        out.append(f"<h3>Loop on line {loop.line}: {loop.how}{ahead}</h3>{charts.pipeline(loop)}")
        parts = [("before", loop.prologue), ("producer warps", loop.producer), ("each iteration", loop.body),
                 ("after", loop.epilogue)]  # fmt: skip
        rows = "".join(f"<tr><th>{name}</th><td>{'<br>'.join(map(_work, works))}</td></tr>" for name, works in parts
                       if works)
        out.append(f'<div class="scroll"><table>{rows}</table></div>')
    if e.timeline.live:
        out.append("<h3>Live over the ops: registers of a thread (line, estimated) and shared memory (area)</h3>"
                   + charts.live(e.timeline.live))
    if not out:
        return ""
    peaks = f'<p class="dim">Cycles are estimates from the peaks of {escape(e.timeline.device)}; they show what hides '
    return peaks + "what. Faded bars are prologue and epilogue.</p>" + "".join(out)


def _work(w) -> str:
    size = bytes_text(w.amount) if w.kind in ("load", "store", "convert") else f"{amount(w.amount)} operations"
    return f"{_line(w.line)} {escape(w.what)}" + (f": {size}, {w.cycles:.0f} cycles" if w.kind != "wait" else "")


def resource_part(e: Explanation) -> str:
    """Registers, shared memory, occupancy and its curves."""
    r = e.resources
    if not e.launch.is_gpu:
        return f"<p>A worker thread keeps {bytes_text(r.scratch)} of scratch memory for a program's tiles.</p>"
    spilled = "not known: there is no assembler here" if r.spills is None else f"{r.spills} words"
    rows = [("registers of a thread", f"{r.registers}{', estimated by the compiler' if r.registers_estimated else ''}"),
            ("spilled", spilled), ("shared memory", f"{r.shared} bytes"),
            ("warps", f"{r.warps}" + (f" and {r.producer_warps} producers" if r.producer_warps else ""))]  # fmt: skip
    if r.occupancy:
        rows.append(("occupancy", str(r.occupancy)))
        rows.append(("programs that would fit by", ", ".join(f"{k}: {v}" for k, v in r.occupancy.limits.items())))
    table = "".join(f"<tr><th>{k}</th><td>{escape(v)}</td></tr>" for k, v in rows)
    buffers = "".join(f"<tr><td>{_line(b.line)}</td><td>{escape(b.what)}{', written over later' if b.reused else ''}"
                      f"</td><td class=n>{b.bytes}</td></tr>" for b in r.buffers)
    if buffers:
        buffers = f"<h3>Shared memory by buffer (bytes)</h3><table>{buffers}</table>"
    held = "".join(f"<tr><td>{_line(h.line)}</td><td><code>{escape(h.name)}</code></td><td>"
                   f"{'x'.join(map(str, h.shape))} {h.dtype}</td><td class=n>{h.registers}</td></tr>" for h in r.held)
    if held and r.pressure:
        held = (f"<h3>Registers of a thread at {_line(r.pressure.line)}, where it holds most: about "
                f"{r.pressure.registers}</h3><table>{held}</table>")
    tried = "".join(f"<tr><td>{escape(t.change)}</td><td class=n>{t.registers} registers</td><td class=n>{t.spills} "
                    "words spilled</td></tr>" for t in e.trials)
    if tried:
        held += f"<h3>Compiled with other warps and tiles</h3><table>{tried}</table>"
    warps = r.warps + r.producer_warps
    curves = "".join(charts.occupancy(points, here, unit) for points, here, unit in (
        (r.by_registers, r.registers, "registers"), (r.by_warps, warps, "warps"),
        (r.by_shared, r.shared, "bytes of shared memory")))
    curves = f'<h3>Occupancy if one resource changes</h3><div class="charts">{curves}</div>'
    return f"<table>{table}</table>{held}{buffers}{curves}"


def roofline_part(e: Explanation) -> str:
    """The roofline and the predictions."""
    roof = e.roofline
    work = ", ".join(f"{amount(n)} {kind}" for kind, n in roof.flops.items()) or "none"
    out = (f"<p>Operations: {escape(work)}. Memory: {bytes_text(roof.minimum_bytes)} at least. "
           f"Intensity: {roof.intensity:.3g} operations for each byte.</p>")
    rows = [(escape(p.device), time_text(p.seconds), p.bound,
             ", ".join(f"{k} {time_text(v)}" for k, v in p.parts.items()), f"{p.waves:.2f}", f"{p.busy:.0%}")
            for p in roof.predictions]
    if rows:
        heads = ("device", "predicted", "bound", "each resource alone", "waves", "processors busy")
        out += _table(heads, ("", "n", "", "words", "n", "n"), rows)
    if roof.measured is not None:
        out += f"<p>Measured on this machine: {time_text(roof.measured)}.</p>"
    return out + charts.roofline(roof)


def stage_part() -> str:
    """The stages side by side, which the script fills."""
    return ('<p class="dim">Lines of one source line light up together; click to bring them into view.</p>'
            '<div id="pick" role="group" aria-label="stages to show"></div><div class="columns" id="columns"></div>')


def comparison(e: Explanation) -> str:
    """Differences to another launch, if there is one."""
    c = e.comparison
    if c is None:
        return ""
    rows = "".join(f"<tr><th>{escape(k)}</th><td>{escape(a)}</td><td>{escape(b)}</td></tr>" for k, a, b in c.figures)
    diffs = "".join(f"<details><summary>{name}: {sum(t[:1] in '+-' for t in d)} lines differ</summary>"
                    f'<pre class="listing diff">{"".join(map(_diff_line, d))}</pre></details>'
                    for name, d in c.diffs.items())
    head = "".join(f"<th>{escape(name)}</th>" for name in ("", *c.names))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{diffs}"


def _diff_line(text: str) -> str:
    kind = {"+": "add", "-": "del"}.get(text[:1], "")
    return f'<span class="src {kind}">{escape(text) or " "}</span>'
