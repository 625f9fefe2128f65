"""Every kind of file the cache holds: a program that makes and uses them all, and ways to damage them."""

import contextlib
import json
import os
import shutil
import stat
import sys
import types
from pathlib import Path

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium import cache, knobs
from tritium.backends.launcher import parts
from tritium.backends.llvm.target import cpu_target
from tritium.backends.nvptx.assemble import ptxas
from tritium.runtime.kept import Store
from tritium.runtime.tuning import Config


@triton.jit
def thrice(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 3, mask=i < n)


_module = types.ModuleType("tiny")
_module.__file__ = __file__
TINY = parts.Part("tiny", ("tiny",), (_module,), lambda target: "define i32 @tiny() {\n  ret i32 7\n}\n", "plain")
CONFIGS = [Config({"BLOCK": 16}), Config({"BLOCK": 32})]
TIMINGS = {config: [1.0, 1.0, 1.0] for config in CONFIGS}


def forget():
    """As a new process begins."""
    thrice.device_caches.clear()
    thrice.hash = None
    cache.fingerprint.cache_clear()
    ptxas.version.cache_clear()


def launch():
    """The compiled kernel, once its results were right."""
    x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    kernel = thrice[(2,)](x, y, 100, BLOCK=64)
    assert np.array_equal(y, x * 3)
    return kernel


def assembler(folder):
    """A program that tells a version."""
    program = Path(folder) / "assembler"
    if not program.exists():
        program.write_text("#!/bin/sh\necho release 12.8\n")
        program.chmod(0o755)
    return str(program)


def use_everything(program):
    """What a new process does that reads each kind of file; all it finds is right."""
    forget()
    kernel = launch()
    assert "fmul" in kernel.asm["llir"] and "thrice" in kernel.asm["ttir"] and len(kernel.asm["obj"]) > 500
    code = parts.made(TINY, cpu_target())
    assert code[:4] == b"\x7fELF" and b"tiny" in code
    store = Store.of(thrice, "thrice", (100,), CONFIGS)
    timings = store.read()
    assert timings in (None, TIMINGS)
    if timings is None:
        store.write((100,), TIMINGS)
    assert ptxas.version(program) == "release 12.8"
    assert len(cache.fingerprint()) == 64


def files(root):
    """The files of a cache, without those that only say how large it is."""
    return sorted(path for path in Path(root).rglob("*") if path.is_file() and path.name != ".size")


def _flip(path, where):
    data = bytearray(path.read_bytes())
    data[int(where * (len(data) - 1))] ^= 16
    path.write_bytes(data)


def _replace(path, make):
    path.unlink()
    make(path)


def _other(path):
    """A whole file of the same cache, in the wrong place."""
    others = [p for p in files(path.parents[1]) if p != path and p.suffix == path.suffix]
    path.write_bytes((others or [p for p in files(path.parents[1]) if p != path])[0].read_bytes())


DAMAGES = {
    "empty": lambda path: path.write_bytes(b""),
    "one byte": lambda path: path.write_bytes(path.read_bytes()[:1]),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "last byte missing": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "one byte more": lambda path: path.write_bytes(path.read_bytes() + b"\n"),
    "first bit": lambda path: _flip(path, 0),
    "a bit in the middle": lambda path: _flip(path, 0.5),
    "last bit": lambda path: _flip(path, 1),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "noise": lambda path: path.write_bytes(os.urandom(path.stat().st_size)),
    "nested": lambda path: path.write_bytes(b"[" * 100_000),
    "json of another shape": lambda path: path.write_text(json.dumps({"child_paths": {"../../x": 1, "a": []}})),
    "another file": _other,
    "removed": lambda path: path.unlink(),
    "unreadable": lambda path: path.chmod(0),
    "writable by all": lambda path: path.chmod(0o666),
    "a directory": lambda path: _replace(path, lambda p: (p.mkdir(), (p / "inside").write_text("x"))),
    "a link to nothing": lambda path: _replace(path, lambda p: p.symlink_to("nowhere")),
    "a link to itself": lambda path: _replace(path, lambda p: p.symlink_to(p.name)),
    "a pipe": lambda path: _replace(path, os.mkfifo),
    "no directory": lambda path: shutil.rmtree(path.parent),
    "a file for a directory": lambda path: (shutil.rmtree(path.parent), path.parent.write_text("x")),
}


def copy(source, target):
    """`target` becomes what `source` is, whatever is there."""
    if os.path.lexists(target):
        for folder, names, _ in os.walk(target):
            for name in names:
                with contextlib.suppress(OSError):
                    os.chmod(os.path.join(folder, name), stat.S_IRWXU)
        shutil.rmtree(target)
    shutil.copytree(source, target)


@contextlib.contextmanager
def cache_in(folder):
    """Within it, the cache is an empty one in `folder`, and nothing is known of another; no bytecode is written, so
    that the compiler's fingerprint is kept there as well."""
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        with knobs.cache.scope():
            knobs.cache.dir = str(folder / "cache")
            cache.reset_stats()
            yield
    finally:
        sys.dont_write_bytecode = writes
    forget()
    cache.reset_stats()
