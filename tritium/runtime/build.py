"""Build a C or C++ library, or an extension of Python, and import it.

tritium itself never needs a C compiler. Drivers of other frameworks' devices do: they compile their launchers here.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from tritium import cache, knobs
from tritium.named_tuples import NamedTuple

__all__ = ["compile_module_from_file", "compile_module_from_src", "compile_so_from_file", "compile_so_from_src"]

_COMPILERS = {"c": ("clang", "gcc", "cc"), "c++": ("clang++", "g++", "c++")}
_ENDINGS = {"c": ".c", "c++": ".cpp"}


def _compiler(language: str) -> str:
    chosen = knobs.build.cc if language == "c" else knobs.build.cxx
    found = chosen or next(filter(None, map(shutil.which, _COMPILERS[language])), None)
    if found is None:
        names, variable = ("C", "CC") if language == "c" else ("C++", "CXX")
        raise RuntimeError(f"no {names} compiler was found: install clang or gcc, or set the {variable} environment "
                           "variable")
    return found


def _build(name: str, src: str, srcdir: str, library_dirs: Sequence[str] = (), include_dirs: Sequence[str] = (),
           libraries: Sequence[str] = (), ccflags: Sequence[str] = (), language: str = "c") -> str:
    """Compile the file `src` into a Python extension in `srcdir`; its path."""
    compiler = _compiler(language)
    out = os.path.join(srcdir, name + sysconfig.get_config_var("EXT_SUFFIX"))
    include_dirs = [*include_dirs, srcdir, sysconfig.get_paths()["include"]]
    command = [compiler, src, "-O3", "-shared", "-fPIC", "-o", out, *ccflags, *(f"-l{lib}" for lib in libraries),
               *(f"-L{path}" for path in library_dirs), *(f"-I{path}" for path in include_dirs if path)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return out


class _Job(NamedTuple):
    """What is compiled, and how."""

    src: str
    name: str
    language: str
    dirs: tuple[tuple[str, ...], ...]  # library_dirs, include_dirs, libraries, ccflags

    @property
    def filename(self) -> str:
        return self.name + sysconfig.get_config_var("EXT_SUFFIX")

    @property
    def key(self) -> str:
        parts = [self.src, self.name, *(str(list(part)) for part in self.dirs), self.filename]
        parts += [self.language] if self.language != "c" else []
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def in_folder(self, folder: str) -> str:
        """Compile in a folder; the path of the library."""
        source = os.path.join(folder, self.name + _ENDINGS[self.language])
        Path(source).write_text(self.src)
        return _build(self.name, source, folder, *self.dirs, language=self.language)


def _library(job: _Job, folder: Callable[[], str]) -> str:
    """The path of a compiled library: in the cache, or in a folder where others may change what is in the cache."""
    manager, filename = cache.get_cache_manager(job.key), job.filename
    files = cache.read_group(manager, filename)
    code = files.read(filename) if files and filename in files.paths else None
    if files and code is not None and not cache.signing_key():
        return files.paths[filename]
    if code is not None:  # write the bytes that were verified: the file in the cache may change
        path = os.path.join(folder(), filename)
        Path(path).write_bytes(code)
        return path
    path = job.in_folder(folder())
    try:
        writer = cache.GroupWriter(manager, filename)
        writer.put(Path(path).read_bytes(), filename)
        writer.close()
        return path if cache.signing_key() else writer.paths[filename]
    except OSError as error:
        cache.tolerate(error)
        return path


def _lasting_folder() -> str:
    """A folder of this process, removed when it ends; its forked children leave it alone."""
    folder = tempfile.mkdtemp(prefix="tritium-build-")
    atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _job(src: str, name: str, language: str, *dirs: Sequence[str] | None) -> _Job:
    if language not in _COMPILERS:
        raise ValueError(f"{language!r} is no language to compile: use 'c' or 'c++'")
    return _Job(src, name, language, tuple(tuple(map(str, part or ())) for part in dirs))


def compile_so_from_src(src: str, name: str, library_dirs: Sequence[str] | None = None,
                        include_dirs: Sequence[str] | None = None, libraries: Sequence[str] | None = None,
                        ccflags: Sequence[str] | None = None, language: str = "c") -> str:
    """The path of the shared library `name` made from a text in C or C++, compiled once and kept in the cache.

    >>> import ctypes, pytest, shutil
    >>> if not any(map(shutil.which, ("clang", "gcc", "cc"))): pytest.skip("no C compiler")
    >>> ctypes.CDLL(compile_so_from_src("int seven(void) { return 7; }", "numbers")).seven()
    7
    """
    job = _job(src, name, language, library_dirs, include_dirs, libraries, ccflags)
    return _library(job, _lasting_folder)


def compile_so_from_file(path: str | os.PathLike, name: str, library_dirs: Sequence[str] | None = None,
                         include_dirs: Sequence[str] | None = None, libraries: Sequence[str] | None = None,
                         ccflags: Sequence[str] | None = None, language: str = "c") -> str:
    """As `compile_so_from_src`, from a file."""
    return compile_so_from_src(Path(path).read_text(), name, library_dirs, _beside(path, include_dirs), libraries,
                               ccflags, language)


def compile_module_from_src(src: str, name: str, library_dirs: Sequence[str] | None = None,
                            include_dirs: Sequence[str] | None = None, libraries: Sequence[str] | None = None,
                            ccflags: Sequence[str] | None = None, language: str = "c") -> ModuleType:
    """Import the Python extension `name` made from a text in C or C++, compiled once and kept in the cache.

    >>> import pytest, shutil
    >>> if not any(map(shutil.which, ("clang", "gcc", "cc"))): pytest.skip("no C compiler")
    >>> text = '''#include <Python.h>
    ... static struct PyModuleDef def = {PyModuleDef_HEAD_INIT, "empty"};
    ... PyMODINIT_FUNC PyInit_empty(void) { return PyModule_Create(&def); }'''
    >>> compile_module_from_src(text, "empty").__name__
    'empty'
    """
    with tempfile.TemporaryDirectory() as folder:
        job = _job(src, name, language, library_dirs, include_dirs, libraries, ccflags)
        return _import(name, _library(job, lambda: folder))


def compile_module_from_file(path: str | os.PathLike, name: str, library_dirs: Sequence[str] | None = None,
                             include_dirs: Sequence[str] | None = None, libraries: Sequence[str] | None = None,
                             ccflags: Sequence[str] | None = None, language: str = "c") -> ModuleType:
    """As `compile_module_from_src`, from a file."""
    return compile_module_from_src(Path(path).read_text(), name, library_dirs, _beside(path, include_dirs), libraries,
                                   ccflags, language)


def _beside(path: str | os.PathLike, include_dirs: Sequence[str] | None) -> list[str]:
    """Where a file's headers are looked for: also in its own folder, as by a compiler."""
    return [*(include_dirs or ()), str(Path(path).resolve().parent)]


def _import(name: str, path: str) -> ModuleType:
    spec: Any = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
