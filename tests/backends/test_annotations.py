"""Signatures of the backends are annotated, folder by folder: the number of parameters without a type only shrinks.

A folder that has fewer than its number here gets the new one; when it is 0 the folder leaves the table.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "tritium" / "backends"
WITHOUT: dict[str, int] = {}
FOLDERS = sorted({path.parent.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py")})


def parameters(tree):
    """The parameters of every function of a file, without the `self` or `cls` of methods."""
    methods = {fn for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for fn in node.body}
    for fn in ast.walk(tree):
        if isinstance(fn, ast.FunctionDef | ast.AsyncFunctionDef):
            own = fn in methods and not any(ast.unparse(x) == "staticmethod" for x in fn.decorator_list)
            yield from [*fn.args.posonlyargs, *fn.args.args][own:]
            yield from fn.args.kwonlyargs
            yield from (x for x in (fn.args.vararg, fn.args.kwarg) if x is not None)


def without(folder):
    """How many parameters of the files of a folder have no annotation."""
    trees = (ast.parse(path.read_text()) for path in (ROOT / folder).glob("*.py"))
    return sum(x.annotation is None for tree in trees for x in parameters(tree))


def test_parameters_are_counted():
    tree = ast.parse("class A:\n def f(self, x, *, y: int): ...\n @staticmethod\n def g(z): ...\ndef h(*a, **k): ...")
    assert [(x.arg, x.annotation is None) for x in parameters(tree)] == [
        ("a", True), ("k", True), ("x", True), ("y", False), ("z", True)]  # fmt: skip


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_parameter_loses_its_type(folder):
    found, most = without(folder), WITHOUT.get(folder, 0)
    assert found <= most, f"{folder} has {found} parameters without a type, {most} before: annotate the new ones"
    assert found == most, f"{folder} has only {found} parameters without a type: write that number down"


def test_the_table_names_folders():
    assert {*WITHOUT} <= {*FOLDERS} and all(WITHOUT.values())
