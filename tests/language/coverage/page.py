"""docs/coverage.md: the page that says which names work where."""

import itertools
from pathlib import Path

from .engines import AMD, ENGINES
from .rows import all_rows

COLUMNS = {**ENGINES, **AMD}
PAGE = Path(__file__).resolve().parents[3] / "docs" / "coverage.md"

# (name, engine) -> why it does not work there. Tests expect the rest to work, and these not to.
_ON_AMD = {
    "tl.float8e4b15":
        "type fp8e4b15 not supported in this architecture. The supported fp8 dtypes are (fp8e4nv, fp8e5, fp8e4b8, "
        "fp8e5b16)",
    "tl.target_info":
        "tl.full([1], tl.target_info.is_hip(), tl.int1) gives True at (0,), expected False; 1 of 1 differ",
}  # fmt: skip
GAPS: dict[tuple[str, str], str] = {(name, arch): why for name, why in _ON_AMD.items() for arch in AMD}

HEAD = """# What works where

Every public name of the language, on the three engines of a machine without a GPU, and on two AMD GPUs:

- **eager**: the kernel's own Python runs on NumPy arrays, program by program (`TRITON_INTERPRET=1`)
- **machine**: the compiler's IR, interpreted
- **cpu**: machine code
- **gfx942**, **gfx1201**: the code for AMD's CDNA 3 (warps of 64 lanes) and RDNA 4 (32), in the emulator: the LLVM text
  that machine code is made of, run in NumPy. Nobody has run the machine code on a device yet.

A row stands for a kernel that uses the name in every form given in `tests/language/coverage/tables`, each compared in
value, dtype and shape with NumPy or mpmath. `python docs/make_coverage.py` runs them all and writes this page;
`tests/language/test_coverage.py` runs them one by one, and on an NVIDIA GPU with `make test-gpu`. All work there but
two fp8 formats that only AMD's hardware has, which are refused, and `target_info`, which tells another target. It does
so on AMD's, too: the table expects what is said on a CPU.
"""


def render(results):
    """The page for results: (name, engine) -> "" where it works, or why it does not."""
    rows = all_rows()
    works = {engine: sum(not results[row.name, engine] for row in rows) for engine in COLUMNS}
    lines = [HEAD, f"| | names | {' | '.join(COLUMNS)} |", "|---|" + "---:|" * (1 + len(COLUMNS)),
             f"| all | {len(rows)} | {' | '.join(str(n) for n in works.values())} |"]
    for section, group in itertools.groupby(rows, lambda row: row.section):
        lines += ["", f"## {section}", "", f"| name | forms | {' | '.join(COLUMNS)} |",
                  "|---|---:|" + ":---:|" * len(COLUMNS)]
        for row in group:
            cells = [f"no: {results[row.name, e]}" if results[row.name, e] else "yes" for e in COLUMNS]
            name = row.name.replace("|", "\\|")
            lines.append(f"| `{name}` | {len(row.forms)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def declared():
    """What the page says of every name and engine when tests pass."""
    return {(row.name, engine): GAPS.get((row.name, engine), "") for row in all_rows() for engine in COLUMNS}
