"""The stubs are what docs/make_stubs.py writes, say what the objects say, and are of use to a type checker."""

import ast
import importlib.util
import inspect
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tritium.language as tl
from tritium.language.builtins.calling import Builtin
from tritium.language.extra import libdevice
from tritium.language.source.function import Source

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


@pytest.fixture(scope="module")
def made():
    """{path: text} as the generator writes them now."""
    spec = importlib.util.spec_from_file_location("make_stubs", ROOT / "docs/make_stubs.py")
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module.stubs()


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="since 3.13 Python forgets how examples in docstrings are "
                                                       "indented: stubs are made by an earlier one")
def test_stubs_are_up_to_date(made):
    stale = [str(path.relative_to(ROOT)) for path, text in made.items()
             if not path.is_file() or path.read_text() != text]
    assert not stale, f"run python docs/make_stubs.py: {', '.join(stale)}"
    written = set((ROOT / "tritium").rglob("*.pyi"))
    assert written == set(made), "a stub that nobody writes"


def parameters(path):
    """{function: its parameters' names} of the module-level functions of a stub."""
    tree = ast.parse((ROOT / path).read_text())
    return {node.name: [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("name", [name for name in tl.__all__ if isinstance(getattr(tl, name), (Builtin, Source))])
def test_functions_have_their_parameters(name):
    function = getattr(tl, name)
    home = {"standard": "standard", "random": "random"}.get(function.__module__.rpartition(".")[2], "core")
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    expected = [p.name for p in function.signature.parameters.values() if p.kind not in kinds]
    assert parameters(f"tritium/language/{home}.pyi")[name] == expected


def test_the_device_library_is_complete():
    shown = parameters("tritium/language/extra/libdevice.pyi")
    assert shown["pow"] == ["arg0", "arg1"]
    assert set(libdevice.__all__) <= set(shown)


def test_tensors_have_all_their_methods():
    tree = ast.parse((ROOT / "tritium/language/core.pyi").read_text())
    tensor = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "tensor")
    shown = {node.name for node in tensor.body if isinstance(node, ast.FunctionDef)}
    public = {name for name in dir(tl.tensor) if not name.startswith("_")} - {"handle"}
    assert public <= shown
    assert {"__add__", "__rmul__", "__getitem__", "__lt__", "__neg__"} <= shown


# ---------------------------------------------------------------------------------------------------------------------
# With a type checker


@pytest.fixture(scope="module")
def complaints():
    """{(file, line): rules} of what pyright says about the two programs."""
    program = shutil.which("pyright", path=Path(sys.executable).parent) or shutil.which("pyright")
    if program is None:
        pytest.skip("pyright is not installed: make types installs it")
    command = [program, "--outputjson", "--pythonpath", sys.executable, "program.py", "mistakes.py"]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
    found = {}
    for problem in json.loads(done.stdout)["generalDiagnostics"]:
        if problem["severity"] == "error":
            place = Path(problem["file"]).name, problem["range"]["start"]["line"] + 1
            found.setdefault(place, set()).add(problem["rule"])
    return found


def test_a_program_has_no_errors(complaints):
    assert {place: rules for place, rules in complaints.items() if place[0] == "program.py"} == {}


def test_mistakes_are_found(complaints):
    lines = (HERE / "mistakes.py").read_text().split("\n")
    expected = {("mistakes.py", k): {found[1]} for k, line in enumerate(lines, 1)
                if (found := re.search(r"# (report\w+)$", line))}
    assert {place: rules for place, rules in complaints.items() if place[0] == "mistakes.py"} == expected
