"""Rules of this repository that a machine can check: documents, file names and sizes, docstrings, tests."""

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "tritium"


def tracked():
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def texts(*suffixes):
    return [path for path in tracked() if path.suffix in suffixes]


def ids(path):
    return str(path.relative_to(ROOT))


MODULES = sorted(PACKAGE.rglob("*.py"))


# ---------------------------------------------------------------------------------------------------------------------
# Documents


def make_targets():
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))


@pytest.mark.parametrize("page", texts(".md"), ids=ids)
def test_commands_in_documents_exist(page):
    text = page.read_text()
    for target in re.findall(r"(?:^|`)(?:\$ )?make ([a-z-]+)", text, re.M):
        assert target in make_targets(), f"make {target}"
    for script in re.findall(r"python ((?:examples|benchmarks|docs|tools)/\S+\.py)", text):
        assert (ROOT / script).is_file(), script
    from tritium.__main__ import COMMANDS

    for command in re.findall(r"python -m tritium ([a-z]+)", text):
        assert command in COMMANDS, f"python -m tritium {command}"


@pytest.mark.parametrize("page", texts(".md"), ids=ids)
def test_links_in_documents_lead_somewhere(page):
    prose = re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(), flags=re.S | re.M)
    for link in re.findall(r"\]\(([^)#\s]+)", prose):
        if not link.startswith(("http:", "https:", "mailto:")):
            assert (page.parent / link).exists(), link


@pytest.mark.parametrize("page", texts(".md"), ids=ids)
def test_paths_in_documents_exist(page):
    for name in re.findall(r"`((?:tritium|tests|docs|benchmarks|examples)/[\w/.-]*\w)`", page.read_text()):
        assert (ROOT / name).exists(), name


def test_the_map_has_every_module():
    text = (ROOT / "docs" / "map.md").read_text()
    found = [path for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()]
    missing = [path.name for path in found if path.stem.strip("_") not in ("init", "main")
               and f"`tritium/{path.name}`" not in text]
    assert len(found) > 20 and not missing, f"docs/map.md says nothing about {', '.join(missing)}"


def test_the_readme_links_every_page():
    text = (ROOT / "README.md").read_text() + (ROOT / "CONTRIBUTING.md").read_text()
    pages = [page.relative_to(ROOT).as_posix() for page in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"))]
    missing = [page for page in pages if f"]({page})" not in text and page != "README.md"]
    assert len(pages) > 20 and not missing, f"no link to {', '.join(missing)}"


def test_every_term_of_the_glossary_names_a_file():
    rows = re.findall(r"^\| (.+) \| (.+) \| (.+) \|$", (ROOT / "docs" / "glossary.md").read_text(), re.M)
    terms = [(term, where) for term, _, where in rows if term != "term"]
    assert len(terms) > 60 and len({term for term, _ in terms}) == len(terms)
    for term, where in terms:
        paths = re.findall(r"`([^`]+)`", where)
        assert paths and all((ROOT / path).is_file() for path in paths), f"{term}: {where}"


def test_the_readme_says_how_to_start():
    text = (ROOT / "README.md").read_text()
    for needed in ("make demo", "make test", "docs/map.md"):
        assert needed in text


# ---------------------------------------------------------------------------------------------------------------------
# Checks


def test_every_check_runs_what_the_others_run():
    """A person, a commit hook, `.ci/run` and the hosted workflow run the same targets."""
    assert "exec make ci" in (ROOT / ".ci" / "run").read_text()
    assert "run: .ci/run" in (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    wanted = re.search(r"^ci: .* ##.*\n\t\$\(MAKE\) -j2 ([a-z -]+)$", (ROOT / "Makefile").read_text(), re.M)[1].split()
    assert {"lint", "types", "docs-check", "test"} == set(wanted) <= make_targets()
    hooks = re.findall(r"entry: make (\S+)", (ROOT / ".pre-commit-config.yaml").read_text())
    assert hooks and set(hooks) < set(wanted)


def test_what_the_checks_install_is_pinned():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for name in ("test", "lint", "types"):
        assert extras[name] and all("==" in package for package in extras[name]), name


# ---------------------------------------------------------------------------------------------------------------------
# Files

# Spelled in pieces, so that this file does not find itself.
FORBIDDEN = {
    "a path of somebody's machine": re.compile(r"/ro" + r"ot/|/wor" + r"k/|/op" + r"t/wheels"),
    "an unfinished thought": re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b"),
    "an address of a package registry": re.compile(r"pypi\." + r"org|python" + r"hosted|--(?:extra-)?index-" + r"url"),
    "a leftover of a merge": re.compile(r"^(?:<{7} |>{7} )", re.M),
}


@pytest.mark.parametrize("path", texts(".py", ".pyi", ".md", ".toml", ".tir", ".yml", ".yaml", ""), ids=ids)
def test_forbidden_text(path):
    text = path.read_text(errors="replace")
    for what, pattern in FORBIDDEN.items():
        found = pattern.search(text)
        assert not found, f"{what}: {found[0]!r} on line {text[:found.start()].count(chr(10)) + 1}"


@pytest.mark.parametrize("path", MODULES, ids=ids)
def test_names_and_sizes(path):
    assert path.stem not in {"utils", "helpers", "common", "misc"}, "name the file after what it is about"
    lines = path.read_text().count("\n")
    assert lines <= 700, f"{lines} lines: find the second idea in this file and give it its own"


# ---------------------------------------------------------------------------------------------------------------------
# Code


def public(tree):
    """Functions and classes of a module, and their methods, that have no underscore in front."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name, node
            for item in node.body:
                if isinstance(item, ast.FunctionDef) and not item.name.startswith("_"):
                    yield f"{node.name}.{item.name}", item
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield node.name, node


def speaks_for_itself(node):
    """What a decorator enters into a table under another name, and functions of one short statement."""
    short = isinstance(node, ast.FunctionDef) and len(node.body) == 1 and node.end_lineno - node.lineno < 3
    return short or (isinstance(node, ast.FunctionDef) and bool(node.decorator_list))


@pytest.mark.parametrize("path", MODULES, ids=ids)
def test_public_names_are_documented(path):
    tree = ast.parse(path.read_text())
    missing = [name for name, node in public(tree)
               if ast.get_docstring(node) is None and "." not in name and not speaks_for_itself(node)]
    assert not missing, f"no docstring: {', '.join(missing)}"
    assert ast.get_docstring(tree) or not tree.body, "the module says nothing about itself"


def swallows(handler):
    broad = handler.type is None or ast.unparse(handler.type) in ("Exception", "BaseException")
    return broad and all(isinstance(node, ast.Pass) for node in handler.body)


@pytest.mark.parametrize("path", MODULES, ids=ids)
def test_nothing_is_swallowed_or_left_out(path):
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        assert not (isinstance(node, ast.ExceptHandler) and swallows(node)), f"line {node.lineno} swallows errors"
        if isinstance(node, ast.Raise) and node.exc is not None:
            assert not ast.unparse(node.exc).startswith("NotImplementedError"), f"line {node.lineno}: not implemented"


CHECKERS = {"assert", "raises", "warns", "fail", "check", "expect", "compare", "close", "equal"}


def asserts(function):
    """Whether a function asserts something itself, or calls what by its name does."""
    inside = list(ast.walk(function))
    called = {ast.unparse(n.func).lower() for n in inside if isinstance(n, ast.Call)}
    called |= {n.arg for n in inside if isinstance(n, ast.keyword)} & {"check"}  # subprocess.run(check=True)
    return any(isinstance(n, ast.Assert | ast.Raise) for n in inside) or any(
        word in name for name in called for word in CHECKERS)


@pytest.mark.parametrize("path", sorted((ROOT / "tests").rglob("test_*.py")), ids=ids)
def test_tests_can_fail(path):
    """Every test asserts something: itself, or through a function or kernel of its file that does."""
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    asserting = {node.name for node in functions if asserts(node)}
    for node in functions:
        if node.name.startswith("test"):
            used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
            assert node.name in asserting or used & asserting, f"{node.name} cannot fail"
