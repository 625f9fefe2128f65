"""Signatures of the backends are annotated: every parameter has a type."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "tritium" / "backends"
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
    """The parameters of the files of a folder that have no annotation, as "file:line: name"."""
    files = [(path.name, ast.parse(path.read_text())) for path in sorted((ROOT / folder).glob("*.py"))]
    return [f"{name}:{x.lineno}: {x.arg}" for name, tree in files for x in parameters(tree) if x.annotation is None]


def test_parameters_are_counted():
    tree = ast.parse("class A:\n def f(self, x, *, y: int): ...\n @staticmethod\n def g(z): ...\ndef h(*a, **k): ...")
    assert [(x.arg, x.annotation is None) for x in parameters(tree)] == [
        ("a", True), ("k", True), ("x", True), ("y", False), ("z", True)]  # fmt: skip


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_parameter_has_a_type(folder):
    found = without(folder)
    assert not found, f"{folder} has parameters without a type: {', '.join(found)}"
