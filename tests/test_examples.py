"""Every public name shows how it is used.

Names of the host have examples that `pytest --doctest-modules tritium` runs. Names of the language work inside kernels
only: their examples are lines of a kernel, and tests/language/test_coverage.py runs each name.
"""

import ast
import contextlib
import importlib
import textwrap
import types

import pytest

HOST = "tritium tritium.runtime tritium.testing tritium.compiler tritium.errors tritium.tools.tensor_descriptor " \
       "tritium.tools.disasm tritium.tools.mxfp".split()
LANGUAGE = "tritium.language tritium.language.target_info tritium.language.extra.cuda tritium.language.extra.hip " \
           "tritium.language.extra.libdevice".split()

# What no example can show on every machine.
ELSEWHERE = {
    **dict.fromkeys(("cuda_graph_without_gc", "get_dram_gbps", "get_max_simd_tflops", "get_max_tensorcore_tflops",
                     "nvsmi", "set_gpu_clock"), "asks an NVIDIA GPU"),
    "RedisRemoteCacheBackend": "asks a server",
}  # fmt: skip
# Types that kernels do not call: of values that functions give, of options, of annotations.
GIVEN = {"PropagateNan", "const", "tensor", "tensor_descriptor"}


def public(modules):
    """(name, object) of what can be called, each object once."""
    found = {}
    for path in modules:
        module = importlib.import_module(path)
        for name in module.__all__ if hasattr(module, "__all__") else vars(module):
            value = getattr(module, name)
            ours = getattr(value, "__module__", "").startswith("tritium")
            if callable(value) and ours and not isinstance(value, types.ModuleType) and not name.startswith("_"):
                found.setdefault(id(value), (name, value))
    return list(found.values())


def named(pairs):
    return [pytest.param(name, value, id=name) for name, value in pairs]


@pytest.mark.parametrize("name, value", named(public(HOST)))
def test_names_of_the_host_have_an_example_that_runs(name, value):
    assert (">>>" in (value.__doc__ or "")) != (name in ELSEWHERE), "write an example, or say why there is none"


def shown(doc):
    """The names in the indented lines of a docstring that are code."""
    margin, rest = doc.rpartition("\n")[2], doc.split("\n")[1:]
    indented = [line for line in rest if line.startswith(margin + "    ") or not line.strip()]
    for lines in (rest, indented):  # since 3.13 Python takes away by how much all lines are indented
        with contextlib.suppress(SyntaxError):
            tree = ast.parse("\n".join(lines) if lines is rest else textwrap.dedent("\n".join(lines)))
            if tree.body:
                return {getattr(node, "attr", getattr(node, "id", None)) for node in ast.walk(tree)}
    return set()


@pytest.mark.parametrize("name, value", named(public(LANGUAGE)))
def test_names_of_the_language_have_an_example(name, value):
    doc = value.__doc__ or ""
    assert doc, "say what it is"
    assert ">>>" in doc or name in GIVEN or name in shown(doc) or getattr(value, "__name__", name) in shown(doc)
