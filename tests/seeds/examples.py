"""The kernels of examples/seeds without the programs around them, which need torch and run on import."""

import ast
import functools
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "seeds"


@functools.cache
def example(name):
    """A module with the `@jit` functions of a program, by name."""
    path = FOLDER / f"{name}.py"
    tree = ast.parse(path.read_text())
    tree.body = [x for x in tree.body if isinstance(x, ast.Import) and "tritium" in ast.unparse(x)
                 or isinstance(x, ast.FunctionDef) and any("jit" in ast.unparse(d) for d in x.decorator_list)]
    module = ModuleType(f"examples.seeds.{name}")
    module.__file__ = str(path)
    exec(compile(tree, path, "exec"), module.__dict__)
    return module


def source(name, function):
    """The text of one function of a program, with its decorators."""
    text = (FOLDER / f"{name}.py").read_text()
    found = next(x for x in ast.parse(text).body if isinstance(x, ast.FunctionDef) and x.name == function)
    return "\n".join(text.split("\n")[found.decorator_list[0].lineno - 1:found.end_lineno])
