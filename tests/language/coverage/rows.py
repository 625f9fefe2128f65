"""The rows of the coverage table: the names of the language, each with the forms it is used in.

A file of `tables/` reads

    # Section
    name
        kernel text -> what it must give ~ units in the last place

where the kernel text may take several lines, ends in an expression, and speaks of the values of `pool`; what it must
give is NumPy, with the words of `references`, and says the dtype and shape as well. `backend` and `arch` are those of
the machine.
"""

import functools
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from . import references
from .pool import POOL

TABLES = ("programs", "shapes", "memory", "math", "reductions", "types", "methods", "operators", "library_functions",
          "library_rounding", "library_bits")  # fmt: skip


class Form(NamedTuple):
    """One way to use a name: kernel text, what it must give, and how many units in the last place it may be off."""

    text: str
    reference: str
    ulps: float

    @property
    def expected(self):
        """The arrays it must give."""
        return self.expected_on(("cpu", "host"))

    def expected_on(self, target):
        """The arrays it must give on a machine, (backend, architecture): few forms ask for that."""
        return _evaluate(self.reference, target if "backend" in self.reference else ("cpu", "host"))


class Row(NamedTuple):
    """A name, the section it belongs to, and its forms."""

    name: str
    section: str
    forms: tuple[Form, ...]


@functools.cache
def _evaluate(text, target):
    scope = vars(references) | {k: np.copy(v) if isinstance(v, np.ndarray) else v for k, v in POOL.items()}
    with np.errstate(all="ignore"):
        result = eval(text, scope | {"np": np, "backend": target[0], "arch": target[1]})
    parts = [np.asarray(part) for part in (result if isinstance(result, tuple) else (result,))]
    return [np.ascontiguousarray(part).reshape(part.shape) for part in parts]


def read(path):
    """The rows of one file."""
    section, rows, lines = "", [], []
    for line in path.read_text().splitlines():
        if line.startswith("# "):
            section = line[2:]
        elif line and not line.startswith(" "):
            rows.append(Row(line, section, ()))
        elif line:
            lines.append(line[4:])
            found = re.fullmatch(r"(.*?) -> (.*?)(?: ~ (\d+))?", line[4:])
            if found:
                lines[-1] = found[1]
                form = Form("\n".join(lines), found[2], float(found[3] or 0))
                rows[-1] = rows[-1]._replace(forms=(*rows[-1].forms, form))
                lines = []
    if lines:
        raise ValueError(f"{path}: {lines} gives nothing")
    return rows


@functools.cache
def all_rows():
    """Every row of every table."""
    folder = Path(__file__).parent / "tables"
    return tuple(row for name in TABLES for row in read(folder / f"{name}.txt"))
