"""Cutting functions out of their files: as `inspect` does it, without its tokenizer."""

import importlib
import inspect
import pkgutil
import textwrap
from types import FunctionType

import pytest

import tritium.kernels
from tritium.language.source import lines as cutting
from tritium.language.source.function import Source

MODULES = [f"tritium.kernels.{m.name}" for m in pkgutil.iter_modules(tritium.kernels.__path__)]
MODULES += ["tritium.language.standard", "tritium.language.random", "inspect", "textwrap", "dataclasses", "argparse"]


@pytest.mark.parametrize("name", MODULES)
def test_functions_of_a_module_are_cut_as_inspect_cuts_them(name):
    module = importlib.import_module(name)
    found = [x.fn if isinstance(x, Source) else x for x in vars(module).values()]
    functions = [x for x in found if isinstance(x, FunctionType) and x.__module__ == name]
    functions += [f for x in found if inspect.isclass(x) and x.__module__ == name
                  for f in vars(x).values() if isinstance(f, FunctionType)]
    functions = [f for f in functions if f.__code__.co_filename == module.__file__ and f.__name__ != "<lambda>"]
    assert functions or name.endswith("__init__")
    for fn in functions:
        assert cutting.lines_of(fn) == inspect.getsourcelines(fn), fn


CASES = {
    "one line": "def f(x): return x\ng = 1\n",
    "last": "def f(x):\n    return x",
    "header that goes on": "def f(\n    x,\n):\n    return x\n\n\ng = 1\n",
    "brackets to the left": "def f(x):\n    return g(\nx\n)\ny = 1\n",
    "string to the left": "def f(x):\n    '''a\nb # c\ndef g\n'''\n    return x\ny = 1\n",
    "continued": "def f(x):\n    return x + \\\nx\ny = 1\n",
    "quotes in strings": "def f(x):\n    a = '\"' + \"it's (\" + '\\'('\n    return a\ny = 1\n",
    "comments": "def f(x):  # (\n    # (\n    return x  # '\n    # in\n  # out\n# out\ny = 1\n",
    "comment to the left inside": "def f(x):\n    y = 1\n# left\n    return y\nz = 1\n",
    "decorated": "@dec(\n  1\n)\n@dec\n\ndef f(x):\n    return x\ny = 1\n",
    "nested": "def f(x):\n    def g(y):\n        return y\n\n    return g\n\ndef h(): pass\n",
    "in a class": "    def f(self):\n        if 1:\n            pass\n    y = 1\n",
    "formatted": "def f(x):\n    return f'{x['a']}('\ny = 1\n",
    "blank lines": "def f(x):\n\n    y = 1\n\n\n    return y\n\n\n\n",
    "tabs": "def f(x):\n\tif x:\n\t\treturn x\n\treturn 1\ny = 1\n",
}


@pytest.mark.parametrize("code", CASES.values(), ids=CASES)
def test_definitions_end_where_inspect_says(code):
    lines = code.splitlines(keepends=True)
    assert cutting._block(lines) == inspect.getblock(lines)


def test_a_decorated_function_is_the_one_beneath():
    import functools

    def plain(x):
        return x

    @functools.wraps(plain)
    def wrapper(x):
        return -x

    assert textwrap.dedent("".join(cutting.lines_of(wrapper)[0])) == "def plain(x):\n    return x\n"
