"""Libraries in C and C++ that drivers of other frameworks compile."""

import ctypes
import os
import shutil
import subprocess
import sys

import pytest

from tritium import knobs
from tritium.runtime import build

pytestmark = pytest.mark.skipif(not (shutil.which("cc") and shutil.which("c++")), reason="no C compiler")

MODULE = """
#include <Python.h>
#include "number.h"
static PyObject *value(PyObject *self, PyObject *args) { return PyLong_FromLong(NUMBER); }
static PyMethodDef methods[] = {{"value", value, METH_NOARGS, ""}, {0}};
static struct PyModuleDef def = {PyModuleDef_HEAD_INIT, "valued", "", -1, methods};
PyMODINIT_FUNC PyInit_valued(void) { return PyModule_Create(&def); }
"""
CPP = """
#include <vector>
extern "C" int total(int n) { std::vector<int> x(n, 2); int sum = 0; for (int y : x) sum += y; return sum; }
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path):
    with knobs.cache.scope():
        knobs.cache.dir = str(tmp_path / "cache")
        yield


def test_modules_from_files(tmp_path):
    """Headers beside the file are found; the file is read again when it has changed."""
    (tmp_path / "number.h").write_text("#define NUMBER 7")
    path = tmp_path / "valued.c"
    path.write_text(MODULE)
    assert build.compile_module_from_file(str(path), "valued").value() == 7
    (tmp_path / "number.h").write_text("#define NUMBER 8")
    path.write_text(MODULE + "/* changed */")
    assert build.compile_module_from_file(path, "valued").value() == 8


def test_libraries_are_compiled_once(tmp_path, monkeypatch):
    path = build.compile_so_from_src(CPP, "sums", language="c++")
    assert ctypes.CDLL(path).total(21) == 42 and path.startswith(str(tmp_path))
    source = tmp_path / "sums.cpp"
    source.write_text(CPP)
    assert ctypes.CDLL(build.compile_so_from_file(source, "sums", language="c++")).total(3) == 6
    monkeypatch.setattr(build, "_build", lambda *args, **kwargs: pytest.fail("compiled again"))
    assert build.compile_so_from_src(CPP, "sums", language="c++") == path


def test_libraries_of_a_shared_cache_are_copied(monkeypatch):
    """With a signing key others may write to the cache: what was checked is what is loaded."""
    monkeypatch.setenv("TRITIUM_CACHE_KEY", "open sesame, open sesame")
    program = ("from tritium.runtime import build; import ctypes\n"
               "paths = [build.compile_so_from_src('int f(void) { return 5; }', 'five') for _ in range(2)]\n"
               "print(*paths, *[ctypes.CDLL(path).f() for path in paths])")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    one, other, *values = done.stdout.split()
    assert values == ["5", "5"] and knobs.cache.dir not in one + other
    assert not os.path.exists(one) and not os.path.exists(other)  # they went with the process


def test_mistakes(monkeypatch):
    with pytest.raises(ValueError, match="'rust' is no language to compile"):
        build.compile_so_from_src("", "x", language="rust")
    with pytest.raises(RuntimeError, match="failed:\n"):
        build.compile_so_from_src("int f(void) { return }", "x")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with knobs.build.scope():
        knobs.build.cc = knobs.build.cxx = None
        for language, variable in (("c", "CC"), ("c++", "CXX")):
            with pytest.raises(RuntimeError, match=f"set the {variable} environment"):
                build.compile_so_from_src("int g;", "x", language=language)
