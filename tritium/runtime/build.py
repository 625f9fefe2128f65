"""Build a C extension and import it.

tritium itself never needs a C compiler. Drivers of other frameworks' devices do: they compile their launchers here.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from tritium import cache, knobs

__all__ = ["compile_module_from_src"]


def _build(name: str, src: str, srcdir: str, library_dirs: Sequence[str] = (), include_dirs: Sequence[str] = (),
           libraries: Sequence[str] = (), ccflags: Sequence[str] = ()) -> str:
    """Compile the C file `src` into a Python extension in `srcdir`; its path."""
    compiler = knobs.build.cc or next(filter(None, map(shutil.which, ("clang", "gcc", "cc"))), None)
    if compiler is None:
        raise RuntimeError("no C compiler was found: install clang or gcc, or set the CC environment variable")
    out = os.path.join(srcdir, name + sysconfig.get_config_var("EXT_SUFFIX"))
    include_dirs = [*include_dirs, srcdir, sysconfig.get_paths()["include"]]
    command = [compiler, src, "-O3", "-shared", "-fPIC", "-o", out, *ccflags, *(f"-l{lib}" for lib in libraries),
               *(f"-L{path}" for path in library_dirs), *(f"-I{path}" for path in include_dirs if path)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return out


def compile_module_from_src(src: str, name: str, library_dirs: Sequence[str] | None = None,
                            include_dirs: Sequence[str] | None = None, libraries: Sequence[str] | None = None,
                            ccflags: Sequence[str] | None = None) -> ModuleType:
    """Import the Python extension `name` made from the C text `src`, compiled once and kept in the cache.

    >>> import pytest, shutil
    >>> if not any(map(shutil.which, ("clang", "gcc", "cc"))): pytest.skip("no C compiler")
    >>> text = '''#include <Python.h>
    ... static struct PyModuleDef def = {PyModuleDef_HEAD_INIT, "empty"};
    ... PyMODINIT_FUNC PyInit_empty(void) { return PyModule_Create(&def); }'''
    >>> compile_module_from_src(text, "empty").__name__
    'empty'
    """
    parts = [src, name, *(str(list(x or ())) for x in (library_dirs, include_dirs, libraries, ccflags)),
             sysconfig.get_config_var("EXT_SUFFIX")]
    manager = cache.get_cache_manager(hashlib.sha256("\0".join(parts).encode()).hexdigest())
    filename = name + sysconfig.get_config_var("EXT_SUFFIX")
    files = cache.read_group(manager, filename)
    code = files.read(filename) if files and filename in files.paths else None
    if files and code is not None and not cache.signing_key():
        return _import(name, files.paths[filename])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, filename)
        if code is not None:  # what was checked, wherever it came from and whoever may change it there
            Path(path).write_bytes(code)
            return _import(name, path)
        source = os.path.join(folder, f"{name}.c")
        with open(source, "w") as file:
            file.write(src)
        path = _build(name, source, folder, library_dirs or (), include_dirs or (), libraries or (), ccflags or ())
        try:
            writer = cache.GroupWriter(manager, filename)
            writer.put(Path(path).read_bytes(), filename)
            writer.close()
            path = path if cache.signing_key() else writer.paths[filename]
        except OSError as error:
            cache.tolerate(error)
        return _import(name, path)


def _import(name: str, path: str) -> ModuleType:
    spec: Any = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
