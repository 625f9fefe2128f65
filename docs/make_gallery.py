"""The gallery of the site: pages that `tritium explain` makes of kernels of the collection. `make site` calls it.

    python docs/make_gallery.py build/gallery     # write the pages to a folder; no GPU is needed

Each page is one file of 50 to 400 KB that loads nothing. None of them is kept in the repository.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))


class Entry(NamedTuple):
    """A kernel of the gallery: a record of the collection, the launch, and what to look at."""

    record: str
    size: int
    dtype: str
    look: str
    beside: str = ""  # another record, whose differences the page shows, too


ENTRIES = (
    Entry("vector_add", 1 << 22, "float32", "How a good one looks: 16 bytes a lane, every sector used."),
    Entry("first_column", 1 << 18, "float32", "One element of each row: every lane brings a sector of 32 bytes along."),
    Entry("softmax", 2048, "float32", "Point at a program in the launch map: it loads and stores one row."),
    Entry("layer_norm", 2048, "float16", "Two passes over a row that is loaded once; the stages show where sums cross "
          "lanes and warps."),
    Entry("transpose_v1", 2048, "float32", "The first rung of a ladder: loads of columns."),
    Entry("transpose_v3", 2048, "float32", "Both sides along rows, turned in shared memory, with bank conflicts."),
    Entry("transpose_v4", 2048, "float32", "The same without bank conflicts, compared with V3.", "transpose_v3"),
    Entry("gemm_v2", 1024, "float16", "A product that waits for its loads in every step: see its pipeline."),
    Entry("gemm_v3", 2048, "float16", "The same task with four stages, copied by TMA and a warp group of its own.",
          "gemm_v2"),
    Entry("attention", 1024, "float16", "Causal: programs of the upper rows have shorter loops."),
)  # fmt: skip
TARGET = "cuda:90a"


def explained(entry: Entry) -> Any:
    """The explanation of an entry."""
    from tritium.insight.explain import explanation
    from tritium.insight.explain.capture import first_launch
    from tritium.kernels.registry import find

    def one(name: str) -> Any:
        record = find(name)
        arguments = record.make_arguments(entry.size, entry.dtype, "numpy")
        launch = first_launch(lambda: record.wrapper(*arguments))
        if launch is None:
            raise LookupError(f"{name} launches no kernel")
        return explanation.explained(launch.kernel, launch.grid, launch.args, launch.meta, TARGET, owned=True)

    found = one(entry.record)
    return found.compared(one(entry.beside)) if entry.beside else found


def row(entry: Entry, found: Any) -> str:
    """The item of the gallery that leads to a page."""
    from tritium.insight.explain.units import time_text
    from tritium.kernels.registry import find

    best, used = found.prediction, found.resources
    rules = ", ".join(dict.fromkeys(finding.rule for finding in found.findings)) or "none"
    facts = [f"Size {entry.size:,}, {entry.dtype}", f"findings: {rules}", f"{used.registers} registers"]
    if used.occupancy:
        facts.append(f"occupancy {used.occupancy.share:.0%}".replace("%", " %"))
    if best:
        facts.append(f"{time_text(best.seconds)} on an H200, bound by {best.bound}")
    return (f"- **[{find(entry.record).title}](gallery/{entry.record}.html)**. {entry.look}<br>\n"
            f"  <small>{'; '.join(facts)}.</small>")


HEAD = """# Gallery of explain pages

What [`tritium explain`](insight.md) shows of kernels of the collection, compiled for an H100 or H200 (`cuda:90a`). The
pages were made with this site, on a machine without a GPU; each is one file that loads nothing. Times are predicted.
Registers are those of ptxas, or an estimate where it was not installed: the page says which.

"""

TAIL = """
Your own kernel, from a file or from a running program:

    python -m tritium explain kernels.py:add_kernel x_ptr=fp32[n] y_ptr=fp32[n] z_ptr=fp32[n] n=65536 BLOCK=1024 \\
        --grid "cdiv(n, BLOCK)" -t cuda:90a -o add.html
"""


def made(entries: tuple[Entry, ...] = ENTRIES) -> dict[str, str]:
    """File of the site -> text: the pages, and `gallery.md`, which leads to them. They have no path of this machine."""
    files, rows = {}, []
    for entry in entries:
        found = explained(entry)
        files[f"gallery/{entry.record}.html"] = found.html().replace(f"{ROOT}/", "")
        rows.append(row(entry, found))
    return {**files, "gallery.md": HEAD + "\n".join(rows) + "\n" + TAIL}


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build/gallery")
    for name, text in made().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        print(f"written: {folder / name}")
