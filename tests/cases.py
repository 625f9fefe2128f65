"""Test files of IR text: cases between lines of `# ====`, each an input, a line `# ----`, and what is expected.

The first comment line of a case is its title. `pytest --update` writes what came out in place of what is expected.
"""

import re
from pathlib import Path
from typing import NamedTuple

import pytest


class Case(NamedTuple):
    """One case of a file, `index` among its cases."""

    path: Path
    index: int
    title: str
    given: str
    expected: str

    @property
    def kernel(self):
        """The input without its comments."""
        return "".join(line for line in self.given.splitlines(True) if not line.startswith("#"))


def read(path):
    """The cases of a file."""
    cases = []
    for index, part in enumerate(re.split(r"(?m)^# ====\n", path.read_text())):
        given, _, expected = part.partition("# ----\n")
        title = re.match(r"# *(.*)", given)
        cases.append(Case(path, index, title[1] if title else str(index), given, expected))
    return cases


def parameters(folder, pattern="*.tir"):
    """Every case of every file of a folder, as pytest parameters."""
    return [pytest.param(case, id=f"{path.stem}-{case.title}")
            for path in sorted(Path(folder).glob(pattern)) for case in read(path)]


def check(case, found, update):
    """Compare what came out with what is expected, or write it down."""
    if update and found != case.expected:
        parts = [c.given + "# ----\n" + (found if c.index == case.index else c.expected) for c in read(case.path)]
        case.path.write_text("# ====\n".join(parts))
        return
    assert found == case.expected
