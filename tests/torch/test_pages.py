"""The code of the pages about torch runs: all blocks of a page are one program, in a process of its own."""

import os
import re
from pathlib import Path

import pytest

from tests import processes

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["operators.md", "distributed.md", "tutorial-regional-compile.md"]


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs(tmp_path, page):
    code = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.S))
    (tmp_path / "page.py").write_text(code)
    done = processes.run([tmp_path / "page.py"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0 and code.count("assert ") >= 2, done.stderr[-4000:]
