"""A profile as one HTML file that loads nothing else: a table that sorts, and a timeline."""

from __future__ import annotations

import html
import json

from tritium.insight.profile.facts import Profile
from tritium.insight.profile.text import COLUMNS, cells, summary

__all__ = ["page"]

SHOWN = 4000  # launches in the timeline

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --bar: #3b7dd8; --dim: #777; }
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1200px; padding: 0 1rem; }
h1 { font-size: 1.3rem; } table { border-collapse: collapse; width: 100%; }
.wide { overflow-x: auto; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:nth-child(-n+2), td:nth-child(-n+2) { text-align: left; white-space: normal; }
th button { all: unset; cursor: pointer; font-weight: 600; } th button:focus-visible { outline: 2px solid var(--bar); }
td:first-child { font-family: ui-monospace, monospace; overflow-wrap: anywhere; }
.bar { height: 4px; background: var(--bar); min-width: 1px; } ul { color: var(--dim); padding-left: 1.2rem; }
svg { width: 100%; border: 1px solid var(--line); } svg rect:hover { opacity: .6; }
"""

_SCRIPT = """
for (const button of document.querySelectorAll('th button')) button.onclick = () => {
  const cell = button.parentElement, k = cell.cellIndex, body = document.querySelector('tbody');
  const up = cell.getAttribute('aria-sort') === 'descending';
  for (const other of cell.parentElement.children) other.removeAttribute('aria-sort');
  cell.setAttribute('aria-sort', up ? 'ascending' : 'descending');
  const key = row => { const v = row.children[k].dataset.v; return v === '' ? -1 : isNaN(+v) ? v : +v; };
  [...body.rows].sort((a, b) => { const x = key(a), y = key(b);
    return (x < y ? -1 : x > y ? 1 : 0) * (up ? 1 : -1); }).forEach(row => body.append(row));
};
"""


def page(facts: Profile) -> str:
    """The text of the file.

    >>> page(Profile(0, (), (), (), (), (), (), notes=("no kernel was launched",))).count("no kernel was launched")
    1
    """
    notes = "".join(f"<li>{html.escape(line)}</li>" for line in summary(facts))
    return (f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
            f"<title>tritium profile</title><style>{_STYLE}</style><h1>Profile</h1>{_table(facts)}{_timeline(facts)}"
            f"<ul>{notes}</ul><script>{_SCRIPT}</script></html>\n")  # fmt: skip


def _table(facts: Profile) -> str:
    if not facts.rows:
        return ""
    longest = max(row.total_ns for row in facts.rows) or 1
    head = "".join(f"<th scope=col><button>{html.escape(name)}</button></th>" for name in COLUMNS)
    body = []
    for row in facts.rows:
        plain = (row.configuration.kernel, row.configuration.text, row.count, row.total_ns, row.median_ns,
                 row.bytes_per_second, row.flops_per_second, row.percent_of_limit, row.compile_ns, row.tuning_ns,
                 row.cache_hits)  # fmt: skip
        shown = []
        for k, (text, value) in enumerate(zip(cells(row), plain)):
            bar = f"<div class=bar style='width:{100 * row.total_ns / longest:.1f}%'></div>" if k == 0 else ""
            key = html.escape("" if value is None else str(value), quote=True)
            shown.append(f'<td data-v="{key}">{html.escape(text)}{bar}</td>')
        body.append(f"<tr>{''.join(shown)}</tr>")
    return (f"<div class=wide><table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>")


def _timeline(facts: Profile) -> str:
    """One lane for each thread or stream; each kernel has a colour."""
    timed = [launch for launch in facts.launches if launch.duration_ns][:SHOWN]
    if not timed:
        return ""
    first = min(launch.start_ns for launch in timed)
    span = max(launch.start_ns + (launch.duration_ns or 0) for launch in timed) - first or 1
    lanes = sorted({(launch.device, launch.lane) for launch in timed})
    kernels = list(dict.fromkeys(row.configuration.kernel for row in facts.rows))
    drawn = []
    for launch in timed:
        kernel = facts.rows[launch.row].configuration.kernel
        x, width = 1000 * (launch.start_ns - first) / span, max(1000 * (launch.duration_ns or 0) / span, 0.3)
        y = 24 * lanes.index((launch.device, launch.lane)) + 2
        title = html.escape(f"{kernel}: {(launch.duration_ns or 0) / 1e3:.1f} us at {launch.start_ns / 1e6:.3f} ms")
        hue = 137 * kernels.index(kernel) % 360
        drawn.append(f"<rect x={x:.2f} y={y} width={width:.2f} height=20 fill='hsl({hue} 60% 50%)'>"
                     f"<title>{title}</title></rect>")  # fmt: skip
    more = "" if len(timed) == len(facts.launches) else f" (the first {len(timed)} launches)"
    label = html.escape(json.dumps(f"timeline of {span / 1e6:.3g} ms{more}"))
    return (f"<h2>Timeline, {span / 1e6:.3g} ms{more}</h2><svg role=img aria-label={label} preserveAspectRatio=none "
            f"viewBox='0 0 1000 {24 * len(lanes)}' height={24 * len(lanes)}>{''.join(drawn)}</svg>")  # fmt: skip
