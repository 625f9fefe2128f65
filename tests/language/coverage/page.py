"""docs/coverage.md: the page that says which names work where."""

import itertools
from pathlib import Path

from .engines import ENGINES
from .rows import all_rows

PAGE = Path(__file__).resolve().parents[3] / "docs" / "coverage.md"

# (name, engine) -> why it does not work there. Tests expect the rest to work, and these not to.
GAPS: dict[tuple[str, str], str] = {}

HEAD = """# What works where

Every public name of the language, on the three engines of a machine without a GPU:

- **eager**: the kernel's own Python runs on NumPy arrays, program by program (`TRITON_INTERPRET=1`)
- **machine**: the compiler's IR, interpreted
- **cpu**: machine code

A row stands for a kernel that uses the name in every form given in `tests/language/coverage/tables`, each compared in
value, dtype and shape with NumPy or mpmath. `python docs/make_coverage.py` runs them all and writes this page;
`tests/language/test_coverage.py` runs them one by one, and on an NVIDIA GPU with `make test-gpu`. All work there but
two fp8 formats that only AMD's hardware has, which are refused, and `target_info`, which tells another target.
"""


def render(results):
    """The page for results: (name, engine) -> "" where it works, or why it does not."""
    rows = all_rows()
    works = {engine: sum(not results[row.name, engine] for row in rows) for engine in ENGINES}
    lines = [HEAD, f"| | names | {' | '.join(ENGINES)} |", "|---|" + "---:|" * (1 + len(ENGINES)),
             f"| all | {len(rows)} | {' | '.join(str(n) for n in works.values())} |"]
    for section, group in itertools.groupby(rows, lambda row: row.section):
        lines += ["", f"## {section}", "", f"| name | forms | {' | '.join(ENGINES)} |",
                  "|---|---:|" + ":---:|" * len(ENGINES)]
        for row in group:
            cells = [f"no: {results[row.name, e]}" if results[row.name, e] else "yes" for e in ENGINES]
            name = row.name.replace("|", "\\|")
            lines.append(f"| `{name}` | {len(row.forms)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def declared():
    """What the page says of every name and engine when tests pass."""
    return {(row.name, engine): GAPS.get((row.name, engine), "") for row in all_rows() for engine in ENGINES}
