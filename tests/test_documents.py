"""The code in the documents runs."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HEADER = "import numpy as np\nimport tritium as triton\nimport tritium.language as tl\n"


def blocks():
    for page in [ROOT / "README.md", *[ROOT / "docs" / name for name in ("language-differences.md", "dialects.md")]]:
        for i, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.S)):
            yield pytest.param(code, id=f"{page.name}-{i}")


@pytest.mark.parametrize("code", list(blocks()))
def test_code_blocks_run(tmp_path, code):
    script = tmp_path / "block.py"
    script.write_text(HEADER + code)
    names = runpy.run_path(str(script))
    assert "tl" in names


def test_the_readme_adds():
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[1]
    assert "np.float32" in code and "add_kernel[" in code


def test_the_example(capsys):
    runpy.run_path(str(ROOT / "examples" / "vector_add.py"))
    out = capsys.readouterr().out
    assert "programs: 97" in out and "equal to NumPy: True" in out


def test_there_is_code_to_run():
    assert len(list(blocks())) >= 6
