"""The site of the documentation: its navigation, its links, its notebooks. MkDocs is not needed here."""

import importlib.util
import json
import linecache
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


def script(name):
    """A module of docs/."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    path = list(sys.path)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path[:] = path
    return module


def navigation():
    """The pages that mkdocs.yml lists, in their order."""
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    return re.findall(r"^ *- (?:.*: )?(\S+\.md)$", nav, re.M)


def test_the_navigation_has_every_page():
    listed, made = navigation(), script("site_pages").generated()
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert len(listed) == len(set(listed)) > 50
    assert set(listed) == pages | made


def test_the_navigation_goes_from_the_newcomer_to_the_contributor():
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    assert re.findall(r"^  - (.*):$", nav, re.M) == ["Start", "Tutorials", "How to", "Reference", "Contribute"]
    tutorials = [page for page in navigation() if page.startswith("tutorials/")]
    assert tutorials == sorted(tutorials) and len(tutorials) >= 7


def test_links_are_those_of_the_site():
    rewritten = script("site_pages").rewritten
    assert rewritten("[x](docs/map.md#a)", "README.md", "index.md") == "[x](map.md#a)"
    assert rewritten("[x](../README.md)", "docs/map.md", "map.md") == "[x](index.md)"
    assert rewritten("[x](../map.md)", "docs/tutorials/a.md", "tutorials/a.md") == "[x](../map.md)"
    assert rewritten("[`k`](tritium/kernels)", "README.md", "index.md") == "`k`"
    code = "```\n[x](docs/map.md)\n```\n`[x](docs/map.md)`"
    assert rewritten(code, "README.md", "index.md") == code
    assert rewritten("[x](no/such.md)", "README.md", "index.md") == "[x](no/such.md)"  # MkDocs will say so


def test_files_of_the_root_are_pages():
    pages = script("site_pages").ROOT_PAGES
    assert {path.name for path in ROOT.glob("*.md")} <= set(pages.values())
    assert all((ROOT / file).is_file() for file in pages.values())


def test_the_reference_has_the_language():
    page = script("site_pages").api_page("tritium.language", "tl", "The language.")
    assert "## load\n\n```python\ntl.load(pointer, mask=None" in page and "_semantic" not in page
    assert "```python\nx = tl.load(x_ptr + offsets" in page and " at 0x" not in page  # examples are code
    assert "```python\nlargest = tl.max(tl.abs(x), axis=0)\n```" in page


def test_nothing_is_fetched():
    text = (ROOT / "mkdocs.yml").read_text()
    assert "font: false" in text and not re.search(r"https?:", text)


def test_the_gallery_leads_to_its_pages():
    module = script("make_gallery")
    files = module.made((module.Entry("first_column", 4096, "float32", "Columns.", beside="vector_add"),))
    pages = re.findall(r"\]\((gallery/\w+\.html)\)", files["gallery.md"])
    assert [*pages, "gallery.md"] == [*files] and "coalescing" in files["gallery.md"]
    page, = (files[page] for page in pages)
    assert page.startswith("<!DOCTYPE html>") and "src=" not in page and str(ROOT) not in page

    from tritium.kernels import registry

    names = [name for entry in module.ENTRIES for name in (entry.record, entry.beside) if name]
    assert set(names) <= set(registry.kernels()) and len(module.ENTRIES) >= 8


# ---------------------------------------------------------------------------------------------------------------------
# Notebooks


def test_notebooks_are_written(tmp_path):
    module = script("make_notebooks")
    paths = module.write(tmp_path)
    assert [path.stem for path in paths] == sorted(page.stem for page in (DOCS / "tutorials").glob("*.md"))
    for path in paths:
        made = json.loads(path.read_text())
        assert made["nbformat"] == 4 and {cell["cell_type"] for cell in made["cells"]} == {"markdown", "code"}
        text = (DOCS / "tutorials" / f"{path.stem}.md").read_text()
        assert text.count("```python\n") == sum(cell["cell_type"] == "code" for cell in made["cells"])


def test_the_first_notebook_runs(tmp_path):
    """Its cells one after another, as Jupyter runs them: in one namespace, each with a source of its own."""
    made = json.loads(script("make_notebooks").write(tmp_path)[0].read_text())
    names = {"__name__": "__main__"}
    cells = ["".join(cell["source"]) for cell in made["cells"] if cell["cell_type"] == "code"]
    for i, code in enumerate(cells):
        file = f"<cell {i} of a notebook>"
        linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
        exec(compile(code, file, "exec"), names)
    assert len(cells) > 4 and (names["add"](names["x"], names["y"]) == names["x"] + names["y"]).all()


# ---------------------------------------------------------------------------------------------------------------------
# Pages


def test_every_variable_is_on_its_page():
    module = script("make_environment")
    assert (DOCS / "environment.md").read_text() == module.page()
    assert len(module.rows()) > 60


def test_the_pictures_show_every_row_of_their_tables():
    module = script("make_figures")
    for name, picture in module.figures().items():
        assert (DOCS / name).read_text() == picture, f"{name}: run `make docs`"
    (_, cpu), (_, gpu) = module.cpu_rows(), module.gpu_rows()
    assert len(cpu) == 13 and dict(cpu)["softmax 64x781"] == {"torch": 1.54}
    assert len(gpu) == 23 and all(f">{name}</text>" in module.draw("H200", gpu) for name, _ in gpu)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_the_c_program_runs(tmp_path):
    code = re.search(r"```c\n(.*?)```", (DOCS / "ahead-of-time.md").read_text(), re.S)[1]
    (tmp_path / "main.c").write_text(code)
    kernel = [sys.executable, "-m", "tritium", "compile", ROOT / "tritium/kernels/vector_add.py", "-n", "add_kernel",
              "-g", "(n + 1023) / 1024, 1, 1", "-t", "cpu", "-o", tmp_path / "build/add"]
    for hint in (":16", ""):
        subprocess.run([*kernel, "-s", f"{', '.join([f'*fp32{hint}'] * 3)}, i32, 1024"], check=True, cwd=ROOT)
    headers = sorted((tmp_path / "build").glob("*.h"))
    link = [sys.executable, "-m", "tritium", "link", *headers, "-o", tmp_path / "build/add"]
    subprocess.run(link, check=True, cwd=ROOT)
    subprocess.run("cc -O1 main.c build/*.c build/*.o -lm -o main", shell=True, check=True, cwd=tmp_path)
    assert subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout == "5000\n"
