"""Draw the pictures of the README from the tables of docs/performance.md: docs/performance-cpu.svg and -h200.svg.

    python docs/make_figures.py            # write them
    python docs/make_figures.py --check    # say whether they are up to date

Every row of a table is drawn, in its order; no figure is typed in here.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.sax.saxutils import escape

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS))

from generated import write_or_check  # noqa: E402

WIDTH, LABELS, RIGHT, BAR = 780, 250, 90, 13
COLOURS = {"torch": "#00897b", "Triton": "#7e57c2"}
Row = tuple[str, dict[str, float]]  # what was measured, and speed beside each rival


def section(title: str) -> tuple[str, list[list[str]]]:
    """The heading that begins with `title`, and the cells of the first table under it."""
    text = (DOCS / "performance.md").read_text()
    found = re.search(rf"^## ({re.escape(title)}.*?)\n(.*?)(?=^## |\Z)", text, re.S | re.M)
    if not found:
        raise SystemExit(f"docs/performance.md has no section {title!r}")
    lines = re.search(r"(?:^\|.*\n)+", found[2], re.M)
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[0].splitlines()] if lines else []
    return found[1], [row for row in cells if not set("".join(row)) <= set("-:")]


def ratio(text: str) -> float:
    """A speed such as 1.22x as a number.

    >>> ratio("1.22x")
    1.22
    """
    return float(text.removesuffix("x"))


def spread(work: str, ratios: str) -> list[Row]:
    """The rows of one cell that holds several.

    >>> spread("vector add 16K / 4M", "1.22x / 1.00x")
    [('vector add 16K', {'torch': 1.22}), ('vector add 4M', {'torch': 1.0})]
    """
    if not work:
        return []
    first, *others = work.split(" / ")
    stem, _, last = first.rpartition(" ")
    # "matmul 256^3 / 1024^3 f32" and "matmul 256^3 f16 / bf16": what follows the last alternative belongs to all.
    tail = others[-1].partition(" ")[2] if others else ""
    names = [first + (f" {tail}" if tail else ""), *(f"{stem} {other}" for other in others)]
    if tail:
        names[-1] = f"{stem} {others[-1]}"
    if "x" in last and tail == "" and others and re.fullmatch(r"\d+x\d+", last):  # softmax 64x1024 / 1000 / 781
        names[1:] = [f"{stem} {last.split('x')[0]}x{other}" for other in others]
    return [(name, {"torch": ratio(value)}) for name, value in zip(names, ratios.split(" / "), strict=True)]


def cpu_rows() -> tuple[str, list[Row]]:
    """The table of one thread with AVX-512: two columns of rows beside torch."""
    title, (_, *rows) = section("CPU: x86-64 with AVX-512")
    left = [row for cells in rows for row in spread(*cells[:2])]
    return title, left + [row for cells in rows for row in spread(*cells[3:5])]


def gpu_rows() -> tuple[str, list[Row]]:
    """The first table of the H200: beside torch and Triton."""
    title, (head, *rows) = section("GPU: one NVIDIA H200")
    at = {rival: head.index(f"vs {rival}") for rival in ("torch", "Triton")}
    return title, [(cells[0], {rival: ratio(cells[i]) for rival, i in at.items()}) for cells in rows]


def draw(title: str, rows: list[Row], limit: float = 3.0) -> str:
    """A chart of bars: longer is faster, 1 is as fast as the rival; bars beyond the limit are cut and say so."""
    rivals = list(rows[0][1])
    step = BAR * len(rivals) + 9
    top, height = 74, 74 + step * len(rows) + 34
    scale = (WIDTH - LABELS - RIGHT) / limit
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
           'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="12">',
           f"<title>{escape(title)}: speed of tritium beside {escape(' and '.join(rivals))}</title>",
           f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#ffffff"/>',
           f'<text x="16" y="26" font-size="15" font-weight="600" fill="#1b1b1b">{escape(title)}</text>']
    x = 16.0
    for rival in rivals:
        out.append(f'<rect x="{x:g}" y="39" width="12" height="12" rx="2" fill="{COLOURS[rival]}"/>'
                   f'<text x="{x + 18:g}" y="49" fill="#444">speed of tritium / speed of {rival}</text>')
        x += 240
    for mark in range(int(limit) + 1):
        at = LABELS + mark * scale
        out.append(f'<line x1="{at:g}" y1="{top - 6}" x2="{at:g}" y2="{height - 30}" '
                   f'stroke="{"#9e9e9e" if mark == 1 else "#e6e6e6"}"/>'
                   f'<text x="{at:g}" y="{height - 14}" text-anchor="middle" fill="#666">{mark}x</text>')
    for i, (name, speeds) in enumerate(rows):
        y = top + i * step
        middle = y + BAR * len(rivals) / 2 + 4
        out.append(f'<text x="{LABELS - 10}" y="{middle:g}" text-anchor="end" fill="#1b1b1b">{escape(name)}</text>')
        for j, rival in enumerate(rivals):
            length, at, colour = min(speeds[rival], limit) * scale, y + j * BAR, COLOURS[rival]
            out.append(f'<rect x="{LABELS}" y="{at:g}" width="{length:.1f}" height="{BAR - 2}" fill="{colour}"/>'
                       f'<text x="{LABELS + length + 5:.1f}" y="{at + BAR - 3:g}" font-size="11" fill="#333">'
                       f'{speeds[rival]:.2f}x{" (cut)" if speeds[rival] > limit else ""}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def figures() -> dict[str, str]:
    """File -> picture."""
    return {"performance-cpu.svg": draw(*cpu_rows()), "performance-h200.svg": draw(*gpu_rows())}


if __name__ == "__main__":
    sys.exit(max(write_or_check(DOCS / name, text, sys.argv[1:]) for name, text in figures().items()))
