"""Draw the pictures of the README from the tables of docs/performance-*.md, and the stages of docs/architecture.md.

    python docs/make_figures.py            # write docs/performance-cpu.svg, performance-h200.svg and architecture.svg
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


def section(page: str, title: str) -> tuple[str, list[list[str]]]:
    """The heading of a page that begins with `title`, and the cells of the first table under it."""
    text = (DOCS / page).read_text()
    found = re.search(rf"^## ({re.escape(title)}.*?)\n(.*?)(?=^## |\Z)", text, re.S | re.M)
    if not found:
        raise SystemExit(f"docs/{page} has no section {title!r}")
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
    title, (_, *rows) = section("performance-cpu.md", "CPU: x86-64 with AVX-512 (16 cores")
    left = [row for cells in rows for row in spread(*cells[:2])]
    return title, left + [row for cells in rows for row in spread(*cells[3:5])]


def gpu_rows() -> tuple[str, list[Row]]:
    """The first table of the H200: beside torch and Triton."""
    title, (head, *rows) = section("performance-gpu.md", "GPU: one NVIDIA H200")
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


# ---------------------------------------------------------------------------------------------------------------------
# The stages of a kernel

# Box -> (column, row, what it holds, its stage).
BOXES = {
    "source": (1, 0, "Python function", "@triton.jit"),
    "ir": (1, 1, "tile IR", "stage: source"),
    "interp": (0, 1, "interpreter over NumPy", "the specification"),
    "ttir": (1, 2, "tile IR", "stage: ttir"),
    "cllir": (0, 3, "LLVM text", "stage: llir"),
    "obj": (0, 4, "machine code", "stage: obj"),
    "ttgir": (2, 3, "tile IR with layouts", "stage: ttgir"),
    "gllir": (2, 4, "LLVM text", "stage: llir"),
    "ptx": (2, 5, "PTX", "stage: ptx"),
    "cubin": (2, 6, "machine code", "stage: cubin"),
    "cache": (1, 6, "cache on disk", ""),
    "launch": (1, 7, "native launcher", "thread pool or CUDA driver"),
}
ARROWS = (
    ("source", "ir", "frontend"), ("ir", "interp", ""), ("ir", "ttir", "common passes"),
    ("ttir", "cllir", "cpu: legalize, loop nests"), ("cllir", "obj", "LLVM"), ("obj", "cache", ""),
    ("ttir", "ttgir", "gpu: layouts, pipelining, shared memory"), ("ttgir", "gllir", "nvptx"), ("gllir", "ptx", "LLVM"),
    ("ptx", "cubin", "ptxas or driver"), ("cubin", "cache", ""), ("cache", "launch", "guards"),
)  # fmt: skip
BOX_WIDTH, BOX_HEIGHT, COLUMN, LINE = 200, 46, 270, 84


def arrow(start: str, end: str, label: str) -> str:
    """A line from one box to another: down, sideways, or sideways and down."""
    (a, up, *_), (b, down, *_) = BOXES[start], BOXES[end]
    x, y = 20 + a * COLUMN + BOX_WIDTH / 2, 20 + up * LINE + BOX_HEIGHT / 2
    to_x, to_y = 20 + b * COLUMN + BOX_WIDTH / 2, 20 + down * LINE + BOX_HEIGHT / 2
    if up == down:
        side = BOX_WIDTH / 2 * (1 if b > a else -1)
        path, at = f"M{x + side:g} {y:g}H{to_x - side:g}", None
    elif a == b:
        path, at = f"M{x:g} {y + BOX_HEIGHT / 2:g}V{to_y - BOX_HEIGHT / 2:g}", (x + 8, (y + to_y) / 2 + 4, "start")
    elif b == 1:  # into the middle column
        path, at = f"M{x:g} {y + BOX_HEIGHT / 2:g}V{to_y:g}H{to_x + BOX_WIDTH / 2 * (1 if a > b else -1):g}", None
    else:
        side = BOX_WIDTH / 2 * (1 if b > a else -1)
        path, at = f"M{x + side:g} {y:g}H{to_x:g}V{to_y - BOX_HEIGHT / 2:g}", (to_x, y - 8, "middle")
    text = "" if at is None or not label else (
        f'<text x="{at[0]:g}" y="{at[1]:g}" text-anchor="{at[2]}" font-size="11" fill="#555">{escape(label)}</text>')
    return f'<path d="{path}" fill="none" stroke="#78909c" stroke-width="1.5" marker-end="url(#tip)"/>{text}'


def stages() -> str:
    """How a kernel goes through the compiler."""
    width, height = 40 + 2 * COLUMN + BOX_WIDTH, 40 + LINE * max(row for _, row, *_ in BOXES.values()) + BOX_HEIGHT
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
           'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="13">',
           "<title>The stages of a kernel: from Python to machine code for CPUs and GPUs</title>",
           '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
           '<path d="M0 0L8 4L0 8Z" fill="#78909c"/></marker></defs>',
           f'<rect width="{width}" height="{height}" rx="6" fill="#ffffff"/>']
    out += [arrow(*row) for row in ARROWS]
    for column, row, name, stage in BOXES.values():
        x, y = 20 + column * COLUMN, 20 + row * LINE
        middle, first = x + BOX_WIDTH / 2, y + (20 if stage else 28)
        out.append(f'<rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6" fill="#e0f2f1" '
                   f'stroke="#00897b"/><text x="{middle:g}" y="{first}" text-anchor="middle" fill="#1b1b1b">'
                   f'{escape(name)}</text>')
        if stage:
            out.append(f'<text x="{middle:g}" y="{y + 37}" text-anchor="middle" font-size="11" fill="#555">'
                       f'{escape(stage)}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def figures() -> dict[str, str]:
    """File -> picture."""
    return {"performance-cpu.svg": draw(*cpu_rows()), "performance-h200.svg": draw(*gpu_rows()),
            "architecture.svg": stages()}


if __name__ == "__main__":
    sys.exit(max(write_or_check(DOCS / name, text, sys.argv[1:]) for name, text in figures().items()))
