"""What is a vendor's stays in the vendor's folder: shared code names no NVIDIA instruction, backend or warp size.

Strings and numbers are read from the syntax tree; docstrings and comments may give NVIDIA as an example.
"""

import ast
import re
from pathlib import Path

import pytest

from tests.test_layers import imports

ROOT = Path(__file__).resolve().parents[1] / "tritium"
SHARED = ("backends/gpu", "backends/llvm", "backends/launcher", "backends/gpu_runtime", "runtime", "compiler")
FILES = sorted(path for folder in SHARED for path in (ROOT / folder).rglob("*.py"))
NVIDIA = re.compile(r"nvvm|ptx|cuda", re.IGNORECASE)

# (file, part of a string): why it is there.
STRINGS = {
    ("runtime/autotuner.py", "PTXASError"): "an exception that Triton's users catch",
    ("runtime/measuring.py", "use_cuda_graph"): "a parameter of Triton's",
    ("backends/gpu_runtime/library.py", "cuda"): "torch's name of a GPU, for every vendor",
    ("backends/gpu_runtime/launch.py", "cuda_stream"): "the handle of torch's streams, on ROCm too",
    ("backends/gpu_runtime/launch.py", "torch.cuda.Stream"): "their class",
}
# (file, import): why it is there.
IMPORTS: dict[tuple[str, str], str] = {}
# A line with one of these words is about something else than a warp of 32 lanes, or the five bits of a lane.
OTHER_NUMBERS = re.compile(r"bits|width|BITS|1 << 31|MOST_AXES|count < 32|XOR|unit")


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def documents(tree):
    """The docstrings of a file."""
    scopes = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, scopes) and node.body and isinstance(node.body[0], ast.Expr):
            yield node.body[0].value


def strings(text):
    """The strings of a file, and what stands between the braces of f-strings, without docstrings."""
    tree = ast.parse(text)
    left_out = set(map(id, documents(tree)))
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in left_out)
    return [node for node in found if isinstance(node.value, str)]


def warp_sizes(text):
    """(number, text) of lines with a number that may be the size of a warp, or the bits of a lane."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value in (32, 31, 5):
            yield node.lineno, lines[node.lineno - 1].strip()


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_shared_code_spells_nothing_of_a_vendor(path):
    allowed = [part for file, part in STRINGS if file == name_of(path)]
    bad = [f"line {node.lineno}: {node.value!r}" for node in strings(path.read_text())
           if NVIDIA.search(node.value) and not any(part in node.value for part in allowed)]  # fmt: skip
    assert not bad, f"{name_of(path)} spells what belongs to backends/nvptx: {bad}"


@pytest.mark.parametrize("path", [p for p in FILES if "backends/gpu" in p.as_posix()], ids=name_of)
def test_shared_code_has_no_size_of_a_warp(path):
    bad = [f"line {line}: {text}" for line, text in warp_sizes(path.read_text()) if not OTHER_NUMBERS.search(text)]
    assert not bad, f"{name_of(path)}: ask the target for its warp_size: {bad}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_shared_code_imports_no_vendor(path):
    package = path.relative_to(ROOT.parent).parts[:-1]
    found = {name for name, _ in imports(ast.parse(path.read_text()), list(package)) if "nvptx" in name}
    assert {name for name in found if (name_of(path), name.rpartition(".")[0]) not in IMPORTS} == set()


def test_the_exceptions_are_needed():
    for (file, part), _ in STRINGS.items():
        assert any(part in node.value for node in strings((ROOT / file).read_text())), f"{file} has no {part}"
    for file, name in IMPORTS:
        found = imports(ast.parse((ROOT / file).read_text()), ["tritium", *Path(file).parts[:-1]])
        assert any(used.rpartition(".")[0] == name for used, _ in found), f"{file} does not import {name}"


def test_it_would_be_noticed():
    """The tests above can fail."""
    assert [n.value for n in strings('"""cuda"""\nx = f"call @llvm.nvvm.{y}"') if NVIDIA.search(n.value)]
    assert [line for line, text in warp_sizes("x = 1\nthreads = 32 * warps") if not OTHER_NUMBERS.search(text)] == [2]
