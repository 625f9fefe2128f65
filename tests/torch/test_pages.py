"""The code of the pages about torch runs: all blocks of a page are one program, in a process of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["operators.md", "distributed.md", "tutorial-regional-compile.md"]


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs(tmp_path, page):
    code = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.S))
    (tmp_path / "page.py").write_text(code)
    done = subprocess.run([sys.executable, tmp_path / "page.py"], capture_output=True, text=True, cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=500)
    assert done.returncode == 0 and code.count("assert ") >= 2, done.stderr[-4000:]
