"""The code in the documents runs, and the commands print what is shown."""

import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests import processes

ROOT = Path(__file__).resolve().parents[1]
HEADER = "import numpy as np\nimport tritium as triton\nimport tritium.language as tl\n"


def blocks():
    pages = "language-differences.md", "dialects.md", "insight.md", "profile.md", "bench.md", \
        "cache.md", "tuning.md", "ladders.md", "tutorial-slow-kernel.md"
    for page in [ROOT / "README.md", *[ROOT / "docs" / name for name in pages]]:
        for i, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.S)):
            yield pytest.param(code, id=f"{page.name}-{i}")


@pytest.mark.parametrize("code", list(blocks()))
def test_code_blocks_run(tmp_path, code):
    script = tmp_path / "block.py"
    script.write_text(HEADER + code)
    names = runpy.run_path(str(script))
    assert "tl" in names


GUIDES = sorted([*(ROOT / "docs").glob("adding-*.md"), *(ROOT / "docs" / "tutorials").glob("*.md"),
                 *(ROOT / "docs" / f"{name}.md" for name in ("coming-from", "debugging", "environment"))])


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_guides_run(tmp_path, page):
    """The blocks of a guide are one program, in a process of its own: it adds to the tables of the compiler, or to
    torch's operators."""
    code = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.S))
    (tmp_path / "guide.py").write_text(HEADER + code)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if "import torch" in code:
        done = processes.run([tmp_path / "guide.py"], cwd=ROOT, env=environment)
    else:
        done = subprocess.run([sys.executable, tmp_path / "guide.py"], capture_output=True, text=True, cwd=ROOT,
                              env=environment)
    assert done.returncode == 0 and "assert" in code, done.stderr


CONSOLE = re.compile(r"(?<=```console\n)\$ ([^\n]*)\n(.*?)(?=```)", re.S)


def consoles():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return [pytest.param(page, id=page.name) for page in sorted(pages) if CONSOLE.search(page.read_text())]


def output(command):
    """What a terminal shows after a command, and the exit status if it failed."""
    done = subprocess.run(["sh", "-c", f"python() {{ {sys.executable} \"$@\"; }}; {command}"], text=True, cwd=ROOT,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout + (f"[exit status {done.returncode}]\n" if done.returncode else "")


@pytest.mark.parametrize("page", consoles())
def test_commands_print_what_is_shown(page, request):
    """One command to a block, which begins with `$ `; `pytest --update` writes down what it prints."""
    text = page.read_text()
    found = CONSOLE.sub(lambda block: f"$ {block[1]}\n{output(block[1])}", text)
    if request.config.getoption("--update"):
        page.write_text(found)
    assert found == text or request.config.getoption("--update")


COMMANDS = re.compile(r"^    python (?:mine.py|-m tritium (?:bench|cache|tune|why)) .*", re.M)
PAGES = [page for page in (ROOT / "docs" / f"{name}.md" for name in ("bench", "cache", "tuning")) if page.is_file()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_of_the_tools_run(tmp_path, page):
    """The indented commands of a page, one after another in one folder, with two seconds where one may take minutes;
    what needs a GPU is only parsed."""
    text = page.read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    (tmp_path / "mine.py").write_text(blocks[0] if blocks else "")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TRITIUM_CACHE_DIR": str(tmp_path / "cache")}
    found = [line.strip().split("  #")[0] for line in COMMANDS.findall(text)]
    assert len(found) > 3
    for command in found:
        if "--device cuda" in command:
            continue
        _, *arguments = shlex.split(re.sub(r"--seconds \d+", "--seconds 2", command))
        done = processes.run(arguments, cwd=tmp_path, env=environment)
        assert done.returncode in ((0, 1) if "compare" in command else (0,)), f"{command}\n{done.stdout}{done.stderr}"


def test_the_readme_adds():
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[1]
    assert "np.float32" in code and "add_kernel[" in code


def test_the_example(capsys):
    runpy.run_path(str(ROOT / "examples" / "vector_add.py"))
    out = capsys.readouterr().out
    assert "programs: 97" in out and "equal to NumPy: True" in out


def test_there_is_code_to_run():
    assert len(list(blocks())) >= 6 and len(consoles()) >= 1
