"""A kernel may have any name: it never becomes a path, and it is a symbol every target takes."""

import os
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tritium as triton
import tritium.language as tl
from tritium import knobs
from tritium.backends.compiler import GPUTarget
from tritium.compiler import ASTSource, IRSource
from tritium.compiler.names import safe_name

NAMES = ["a/b", "../../escaped", "..", ".", "/etc/passwd", 'a"b\n@evil', "a b<c, d>::e()", "", None, "a\0b",
         "a" * 5000, "é" * 140, "main", "malloc", "memcpy", "tt.run", "llvm.sqrt.f32", "str0", "smem", "vprintf",
         "con", "1st", "%x", "kernel.add", "\ud800", "-o", "*", 7]  # fmt: skip


def named(name):
    @triton.jit(repr=lambda specialization: name)
    def kernel(p, n):
        tl.device_print("n is", n)
        tl.store(p, 1.0)

    return kernel


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache three folders down, so that a name that climbs out of it is seen."""
    inner = tmp_path / "one" / "two" / "cache"
    inner.mkdir(parents=True)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(inner))
    monkeypatch.delenv("TRITIUM_CACHE_DIR", raising=False)
    monkeypatch.setenv("TRITON_DUMP_DIR", str(inner / "dump"))
    yield tmp_path
    walk = os.walk(tmp_path)
    files = [os.path.relpath(os.path.join(place, file), inner) for place, _, files in walk for file in files]
    assert files and not [file for file in files if file.startswith("..") or not re.fullmatch(r"[\w./-]+", file)]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_runs(folder, name):
    with knobs.compilation.scope():
        knobs.compilation.dump_ir = True
        y = np.zeros(1, np.float32)
        named(name)[(1,)](y, 3)
    assert y[0] == 1
    y[0] = 0
    named(name)[(1,)](y, 3)  # what was stored is found
    assert y[0] == 1


@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_a_symbol_of_a_gpu(folder, name, tmp_path_factory):
    source = ASTSource(named(name), {"p": "*fp32", "n": "i32"})
    compiled = triton.compile(source, target=GPUTarget("cuda", 80, 32))
    assert re.search(rf"\.entry {re.escape(compiled.name)}\(", compiled.asm["ptx"])
    path = tmp_path_factory.mktemp("stages") / "again.ttir"
    path.write_text(str(compiled.asm["ttir"]))
    assert IRSource(path).name == compiled.name


def test_files_of_other_stages_may_have_any_name(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("stages") / "a name with blanks.ttir"
    path.write_text("kernel @nothing() {\n}\n")
    assert triton.compile(str(path), target=GPUTarget("cpu", "host", 1)).asm["obj"]


def test_ordinary_names_stay():
    for name in ("add_kernel", "_fwd", "A1", "a" * 200, "k0_d1c", "sum", "string0"):
        assert safe_name(name) == name


@given(st.text(), st.text())
def test_names_are_safe_and_told_apart(one, other):
    x, y = safe_name(one), safe_name(other)
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,199}", x)
    assert x == safe_name(x)
    assert (x == y) is ((one or "kernel") == (other or "kernel"))


def test_any_letters_in_parameters_and_functions(folder):
    @triton.jit(noinline=True)
    def größe(n):
        return n + 1

    @triton.jit
    def kernel(é, ñ):
        tl.store(é, größe(ñ))

    y = np.zeros(1, np.int32)
    kernel[(1,)](y, 5)
    assert y[0] == 6
    source = ASTSource(kernel, {"é": "*i32", "ñ": "i32"})
    assert ".entry kernel(" in triton.compile(source, target=GPUTarget("cuda", 80, 32)).asm["ptx"]
