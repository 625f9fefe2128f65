"""What compiled kernels call and what calls them: the CPU runtime, itself compiled once per machine and kept on disk.

    runtime = Runtime.get()                                   the one of this process, made on first use
    library = runtime.load(object_code)                       link a kernel; keep `library` as long as its addresses
    runtime.launch(record, gx, gy, gz, *args)                 guarded launch (see record.py): None, or NotImplemented
    runtime.launch_raw(entry, arena_bytes, gx, gy, gz, slots) launch with packed 8-byte slots
    runtime.binder(records)(grid)(*args, **kwargs)            kernel[grid](...): try records, else ask records[0]
    runtime.symbols                                           name -> address of everything a kernel may call
    runtime.num_threads, runtime.set_num_threads(n)

The runtime comes in parts, each an object file of its own that is compiled, or read from the cache, when first needed:
a kernel without a dot never pays for one.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from ... import cache, knobs
from ...errors import InternalError
from ..llvm import jit, writer
from ..llvm.target import CpuTarget, compile_text, cpu_target, llvm_version
from . import dot, guards, launcher, partial, pool, sort
from .record import Record, check

__all__ = ["PARTS", "Part", "Runtime"]


class Part(NamedTuple):
    """A piece of the runtime: the symbols it defines, the modules that write it, and how."""

    name: str
    symbols: tuple[str, ...]
    modules: tuple[ModuleType, ...]
    text: Callable[[CpuTarget], str]


_NATIVE = sys.implementation.name == "cpython"  # takes builtins made by hand


def _core(target: CpuTarget) -> str:
    return "\n".join((pool.pool(target), partial.partial(), launcher.launcher() if _NATIVE else ""))


_CORE = pool.SYMBOLS + partial.SYMBOLS + (launcher.SYMBOLS if _NATIVE else ())
PARTS = (
    Part("core", _CORE, (pool, partial, guards, launcher), _core),
    *(Part(s, (s,), (dot, writer), functools.partial(dot.dot, kind=kind)) for kind, s in dot.SYMBOLS.items()),
    *(Part(s, (s,), (sort, writer), functools.partial(sort.sort, kind=kind)) for kind, s in sort.SYMBOLS.items()),
)


@functools.cache
def _source(module: ModuleType) -> str:
    return Path(module.__file__ or "").read_text()


def _object(part: Part, target: CpuTarget) -> bytes:
    """The object file of `part`, from the disk if this or another process has made it before."""
    # Writing a part's text takes longer than reading its object: the key holds the sources of what writes it.
    made_from = (*map(_source, part.modules), part.name, str(target), llvm_version(), str(_NATIVE),
                 str(object.__basicsize__))  # fmt: skip
    manager = cache.get_cache_manager(hashlib.sha256("\n".join(made_from).encode()).hexdigest())
    name = f"{part.name}.o"
    path = manager.get_file(name)
    if path is not None:
        return Path(path).read_bytes()
    code = compile_text(part.text(target), target)
    try:
        manager.put(code, name)
    except OSError as error:
        cache.tolerate(error)
    return code


class _Symbols(Mapping[str, int]):
    """The runtime's symbols; asking for an address brings in the part that defines it."""

    def __init__(self, target: CpuTarget):
        self._target = target
        self._owner = {name: part for part in PARTS for name in part.symbols}
        self._addresses: dict[str, int] = {}
        self._lock = threading.RLock()

    def __getitem__(self, name: str) -> int:
        found = self._addresses.get(name)
        if found is None:
            part = self._owner[name]
            with self._lock:
                if name not in self._addresses:
                    self._bring(part)
            found = self._addresses[name]
        return found

    def _bring(self, part: Part) -> None:
        objects = launcher.python_objects() if _NATIVE else {}
        library = jit.load(_object(part, self._target), objects, part.symbols).pin()
        self._addresses.update((name, library.address(name)) for name in part.symbols)

    def __iter__(self) -> Iterator[str]:
        return iter(self._owner)

    def __len__(self) -> int:
        return len(self._owner)


class _Job(ctypes.Structure):
    """The pool's %job, for launches without the native builtin."""

    _fields_ = (("entry", ctypes.c_void_p), ("slots", ctypes.c_char_p), ("grid", ctypes.c_void_p),
                ("total", ctypes.c_int64), ("chunk", ctypes.c_int64), ("arena", ctypes.c_int64),
                ("message", ctypes.c_char_p), ("program", ctypes.c_int64))  # fmt: skip


class Runtime:
    """The CPU runtime of this process; use `Runtime.get()`.

    >>> runtime = Runtime.get()
    >>> runtime.symbols["tt.load.4"] > 0
    True
    """

    _lock = threading.Lock()
    _instance: Runtime | None = None

    @classmethod
    def get(cls) -> Runtime:
        """The runtime, made on first use.

        >>> Runtime.get() is Runtime.get()
        True
        """
        if cls._instance is None:
            with cls._lock:
                if cls._instance is None:
                    cls._instance = cls()
        return cls._instance

    def __init__(self):
        self.target = cpu_target()
        self.symbols: Mapping[str, int] = _Symbols(self.target)
        self._limit = ctypes.c_int64.from_address(self.symbols["tt.pool.limit"])
        ctypes.CFUNCTYPE(None)(self.symbols["tt.pool.setup"])()
        os.register_at_fork(after_in_child=ctypes.CFUNCTYPE(None)(self.symbols["tt.pool.reset"]))
        self.set_num_threads(knobs.num_threads)
        self.launch: Callable[..., Any]
        self.launch_raw: Callable[..., None]
        if _NATIVE:
            self.launch, self.launch_raw = self._builtin("tt.def.launch"), self._builtin("tt.def.launch_raw")
        else:
            self.launch, self.launch_raw = self.launch_slowly, self.launch_raw_slowly

    def _builtin(self, definition: str, *owner: Any) -> Callable[..., Any]:
        pointer = ctypes.c_void_p
        kind = ctypes.PYFUNCTYPE(ctypes.py_object, pointer, ctypes.py_object if owner else pointer, pointer)
        make = kind(("PyCFunction_NewEx", ctypes.pythonapi))
        return make(self.symbols[definition], *(owner or (None,)), None)

    def binder(self, records: list[Any]) -> Callable[[Any], Callable[..., Any]]:
        """A function of a grid that gives a callable launching a kernel on it: `kernel[grid]` without Python code.

        `records[0]` is called as `records[0](grid, *args, **kwargs)` when no record applies to a call, and may append
        the record that does; the others are tried in order. A grid is a tuple of one to three sizes, or a function of
        the arguments by name that returns one; anything else is left to `records[0]` as well.

        >>> records = [lambda grid, x, y=0: (grid, x, y)]
        >>> bind = Runtime.get().binder(records)
        >>> bind((4,))(1, y=2)
        ((4,), 1, 2)
        """
        if _NATIVE:
            return self._builtin("tt.def.bind", records)
        return lambda grid: functools.partial(records[0], grid)

    def load(self, object_code: bytes) -> jit.Library:
        """Link a kernel's object file against the runtime and the process.

        >>> text = "define void @k(ptr %a, i64 %b, i64 %e, ptr %g, ptr %s) { ret void }"
        >>> Runtime.get().load(compile_text(text, cpu_target())).address("k") > 0
        True
        """
        return jit.load(object_code, self.symbols)

    @property
    def num_threads(self) -> int:
        """How many threads may work on one launch, the caller's included.

        >>> Runtime.get().num_threads >= 1
        True
        """
        return self._limit.value + 1

    def set_num_threads(self, n: int) -> None:
        """Let up to `n` threads work on one launch. Launches under way are not affected.

        >>> runtime = Runtime.get()
        >>> before = runtime.num_threads
        >>> runtime.set_num_threads(1); runtime.num_threads
        1
        >>> runtime.set_num_threads(before)
        """
        if not 1 <= n <= 1024:
            raise ValueError(f"the number of threads must be between 1 and 1024, got {n}")
        self._limit.value = n - 1

    # -- without native builtins ---------------------------------------------------------------------------------------

    def launch_slowly(self, record: Record, gx: int, gy: int, gz: int, *args: Any) -> Any:
        """`launch` in Python, for interpreters that take no native builtins."""
        slots = check(record, args)
        if slots is None or min(gx, gy, gz) < 0:
            return NotImplemented
        return self.launch_raw_slowly(record.entry, record.arena_bytes, gx, gy, gz, slots)

    def launch_raw_slowly(self, entry: int, arena_bytes: int, gx: int, gy: int, gz: int, slots: bytes) -> None:
        """`launch_raw` through ctypes."""
        if min(gx, gy, gz) < 0:
            raise TypeError(f"a grid cannot have negative sizes: ({gx}, {gy}, {gz})")
        if not gx * gy * gz:
            return
        grid = (ctypes.c_int64 * 3)(gx, gy, gz)
        job = _Job(entry, slots, ctypes.addressof(grid), gx * gy * gz, 0, arena_bytes, None, 0)
        status = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(self.symbols["tt.run"])(ctypes.addressof(job))
        if status == 1:
            raise MemoryError
        if status == 2:
            x, y, z = job.program % gx, job.program // gx % gy, job.program // (gx * gy)
            raise RuntimeError(f"device-side assert triggered: {job.message.decode()} [program ({x}, {y}, {z})]")
        if status:
            raise InternalError(f"the pool returned status {status}")
