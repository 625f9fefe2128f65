"""Write the tutorials as Jupyter notebooks: prose and code of each page become cells.

    python docs/make_notebooks.py build/notebooks

`make site` writes them to build/site/notebooks. Blocks of Python become cells of code; everything else is prose.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

TUTORIALS = Path(__file__).resolve().parent / "tutorials"
PYTHON = re.compile(r"^```python\n(.*?)^```\n?", re.S | re.M)


def cells(text: str) -> list[tuple[str, str]]:
    """The cells of a page: ("markdown" or "code", text).

    >>> cells("# Add\\n\\n```python\\nx = 1\\n```\\n\\nDone.\\n")
    [('markdown', '# Add'), ('code', 'x = 1'), ('markdown', 'Done.')]
    """
    kinds = [("code" if i % 2 else "markdown", part.strip("\n")) for i, part in enumerate(PYTHON.split(text))]
    return [(kind, part) for kind, part in kinds if part.strip()]


def notebook(text: str) -> dict[str, Any]:
    """A page as a notebook of format 4.5.

    >>> notebook("# Add")["cells"][0]["source"]
    ['# Add']
    """
    made = []
    for i, (kind, part) in enumerate(cells(text)):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{i}", "metadata": {},
                                "source": part.splitlines(keepends=True)}
        made.append(cell | {"execution_count": None, "outputs": []} if kind == "code" else cell)
    metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
                "language_info": {"name": "python"}}
    return {"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def write(folder: Path) -> list[Path]:
    """Write one notebook for each tutorial; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for page in sorted(TUTORIALS.glob("[0-9]*.md")):
        path = folder / f"{page.stem}.ipynb"
        path.write_text(json.dumps(notebook(page.read_text()), indent=1) + "\n")
        written.append(path)
    return written


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python docs/make_notebooks.py FOLDER")
    print(*write(Path(sys.argv[1])), sep="\n")
