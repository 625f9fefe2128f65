"""Write docs/tour.md: one kernel after every stage, as the compiler of this checkout produces it.

    python docs/make_tour.py            # write it
    python docs/make_tour.py --check    # say whether it is up to date

Both targets are named, so the page is the same on every machine; neither device need be present.
"""

from __future__ import annotations

import inspect
import os
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "tour.md"
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

from generated import write_or_check  # noqa: E402

CPU, GPU = "cpu:x86-64-v3:1", "cuda:90:32"


class Stop(NamedTuple):
    """One stage to look at: from the line that contains `start` on, at most `lines` lines."""

    heading: str
    text: str
    target: str
    stage: str
    language: str
    lines: int
    start: str = ""


STOPS = [
    Stop("Tile IR", """
The frontend walks the function's syntax tree and emits one op per operation. Values are whole tiles: `tile<256xf32>` is
a row. Constants are folded, equal ops merged while building, and the combine functions of the two reductions are
regions.""", CPU, "source", "", 60),
    Stop("Tile IR after the passes", """
The same language, simplified. Each pass is a function from module to module; what it prints can be parsed again.""",
         CPU, "ttir", "", 60),
    Stop("CPU: LLVM", """
Each run of elementwise ops between reductions has become one loop over chunks of 16 elements, small enough for the
registers. The mask is needed only in the last chunk.""", CPU, "llir", "llvm", 64, "define void @"),
    Stop("CPU: machine code", """
What LLVM makes of it for x86-64 with AVX2.""", CPU, "asm", "asm", 60, "softmax_kernel:"),
    Stop("GPU: tile IR with layouts", """
On a GPU every tile gets a *layout*: which bits of an element's position are block, register, lane and warp numbers.
Four warps share the row here.""", GPU, "ttgir", "", 60),
    Stop("GPU: PTX", """
The reductions are shuffles inside a warp, then a few words of shared memory between warps.""", GPU, "ptx", "", 100,
         ".visible .entry"),
]


def kernel_text() -> str:
    """The kernel's own source."""
    from tritium.kernels.softmax import softmax_kernel

    return inspect.getsource(softmax_kernel.fn)


def compiled() -> dict:
    """Target -> the kernel compiled for it, rows of up to 256 columns."""
    import tritium
    from tritium import knobs
    from tritium.compiler import ASTSource
    from tritium.kernels.softmax import softmax_kernel
    from tritium.tools.compile import parse_target

    types = {"out_ptr": "*fp32", "x_ptr": "*fp32", "x_stride": "i32", "out_stride": "i32", "n_cols": "i32",
             "BLOCK": "constexpr"}
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(4)}
    source = ASTSource(softmax_kernel, types, {"BLOCK": 256}, aligned)
    with knobs.compilation.scope():
        knobs.compilation.disable_line_info = True  # lines name files of this machine
        return {text: tritium.compile(source, target=parse_target(text)) for text in (CPU, GPU)}


def excerpt(text: str, stop: Stop) -> str:
    """The lines of a stage to show, and how many follow; an assembler's directives say nothing here."""
    rows = [row.rstrip() for row in text.strip("\n").expandtabs(8).split("\n")]
    first = next(i for i, row in enumerate(rows) if stop.start in row)
    rows = [row for row in rows[first:] if stop.stage != "asm" or not row.startswith("        .")]
    rest = len(rows) - stop.lines
    return "\n".join(rows[:stop.lines]) + (f"\n... {rest} more lines" if rest > 0 else "")


def page() -> str:
    """The whole document."""
    kernels = compiled()
    parts = [
        "# One kernel, every stage\n",
        "This page is written by `docs/make_tour.py` from what the compiler prints; `make docs` writes it again. Any "
        "kernel shows its stages: `kernel[grid](...).asm` maps their names to their text.\n",
        "## Python\n",
        "Softmax of one row per program, from `tritium/kernels/softmax.py`.\n",
        f"```python\n{kernel_text().rstrip()}\n```\n",
    ]
    for stop in STOPS:
        parts += [f"## {stop.heading}\n", f"{stop.text.strip()}\n", f"`{stop.target}`, stage `{stop.stage}`:\n",
                  f"```{stop.language}\n{excerpt(kernels[stop.target].asm[stop.stage], stop)}\n```\n"]
    return "\n".join(parts)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        text = page()
    return write_or_check(PAGE, text, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
