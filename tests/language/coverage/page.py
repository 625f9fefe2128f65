"""docs/coverage.md: the page that says which names work where."""

import itertools
from pathlib import Path

from .engines import ENGINES, GPUS
from .rows import all_rows

COLUMNS = {**ENGINES, **GPUS}
PAGE = Path(__file__).resolve().parents[3] / "docs" / "coverage.md"
RUNS = "runs"

# (name, engine) -> why it does not work there. Tests expect the rest to work, and these not to.
_ON_NVIDIA = {name: f"type {dtype} not supported in this architecture. The supported fp8 dtypes are (fp8e5, fp8e4b15, "
              "fp8e4nv)" for name, dtype in (("tl.float8e4b8", "fp8e4b8"), ("tl.float8e5b16", "fp8e5b16"))}  # fmt: skip
_ON_AMD = {
    "tl.float8e4b15":
        "type fp8e4b15 not supported in this architecture. The supported fp8 dtypes are (fp8e4nv, fp8e5, fp8e4b8, "
        "fp8e5b16)",
}  # fmt: skip
GAPS: dict[tuple[str, str], str] = {(name, gpu): why for gpu in GPUS
                                    for name, why in (_ON_AMD if gpu.startswith("gfx") else _ON_NVIDIA).items()}

HEAD = """# What works where

Every public name of the language, on every engine and target:

- **eager**: the kernel's own Python runs on NumPy arrays, program by program (`TRITON_INTERPRET=1`)
- **machine**: the compiler's IR, interpreted
- **cpu**: machine code of the machine that wrote this page
- **sm_90a**: NVIDIA's Hopper, compiled to PTX and, where `ptxas` is found, to machine code
- **gfx90a**, **gfx942**, **gfx950**: AMD's CDNA 2 to 4, warps of 64 lanes, compiled to code objects
- **gfx1100**, **gfx1201**: AMD's RDNA 3 and 4, warps of 32 lanes, compiled to code objects

A mark says how far a name gets:

- **runs**: it is compiled, it runs, and its results are right. Code for GPUs is compiled to the end, and run in the
  emulator: the LLVM text that machine code is made of, in NumPy.
- **compiles: why**: it is compiled to the end, and the emulator does not run it, or gives another result.
- **no: why**: it is refused when it is compiled.

A row stands for a kernel that uses the name in every form given in `tests/language/coverage/tables`, each compared in
value, dtype and shape with NumPy or mpmath. `python docs/make_coverage.py` runs them all and writes this page, on a
machine with an NVIDIA GPU on that as well. `tests/language/test_coverage.py` runs them one by one, and on an NVIDIA GPU
with `make test-gpu`; of the emulated GPUs it runs a sample. Nobody has run the machine code for AMD on a device yet.
"""


def render(results):
    """The page for results: (name, engine) -> the mark."""
    rows = all_rows()
    works = {engine: sum(results[row.name, engine] == RUNS for row in rows) for engine in COLUMNS}
    lines = [HEAD, f"| | names | {' | '.join(COLUMNS)} |", "|---|" + "---:|" * (1 + len(COLUMNS)),
             f"| all | {len(rows)} | {' | '.join(str(n) for n in works.values())} |"]
    for section, group in itertools.groupby(rows, lambda row: row.section):
        lines += ["", f"## {section}", "", f"| name | forms | {' | '.join(COLUMNS)} |",
                  "|---|---:|" + ":---:|" * len(COLUMNS)]
        for row in group:
            cells = [results[row.name, e] for e in COLUMNS]
            name = row.name.replace("|", "\\|")
            lines.append(f"| `{name}` | {len(row.forms)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def declared():
    """What the page says of every name and engine when tests pass."""
    marks = {place: f"no: {why}" for place, why in GAPS.items()}
    return {(row.name, engine): marks.get((row.name, engine), RUNS) for row in all_rows() for engine in COLUMNS}
