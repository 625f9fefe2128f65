"""The CPU runtime, which runs kernels and which they call; compiled once per machine and cached on disk.

    runtime = Runtime.get()                                   the one of this process, made on first use
    library = runtime.load(object_code)                       link a kernel; keep `library` as long as its addresses
    runtime.launch_raw(entry, arena_bytes, gx, gy, gz, slots) launch with packed 8-byte slots
    runtime.binder(records)(grid)(*args, **kwargs)            kernel[grid](...): try records, else ask records[0]
    runtime.record(entry, arena_bytes, guards, ...)           such a record (see launcher/record.py)
    runtime.symbols                                           name -> address of everything a kernel may call
    runtime.symbols_for(target)                               the same for kernels compiled for another CPU
    runtime.num_threads, runtime.set_num_threads(n)

The runtime comes in parts, each an object file of its own that is compiled, or read from the cache, when first needed:
a kernel without a dot never pays for one. The core runs kernels of every level of the machine. The other parts are
those of the CPU that a kernel was compiled for: kernels allocate scratch memory by their sizes.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .... import knobs
from ....errors import InternalError
from ....language.builtins.grid import check_sizes
from ....locks import busy, imported, lock
from ...launcher import image, record
from ...launcher.parts import NATIVE, Part, Symbols, builtin, preferred
from ...llvm.target import CpuTarget, cpu_target

if TYPE_CHECKING:  # what was linked without LLVM needs no linker
    from ...llvm import jit


def _core() -> Sequence[Part]:
    return imported("tritium.backends.cpu.runtime.core").PARTS


def _called() -> Sequence[Part]:
    return imported("tritium.backends.cpu.runtime.called").PARTS


def _jit() -> Any:
    return imported("tritium.backends.llvm.jit")


class Runtime:
    """The CPU runtime of this process; use `Runtime.get()`.

    >>> runtime = Runtime.get()
    >>> runtime.symbols["tt.load.4"] > 0
    True
    """

    _lock = lock()
    _instance: Runtime | None = None

    @classmethod
    def get(cls) -> Runtime:
        """The runtime, made on first use.

        >>> Runtime.get() is Runtime.get()
        True
        """
        if cls._instance is None:
            with cls._lock, busy():
                if cls._instance is None:
                    cls._instance = cls()
        return cls._instance

    def __init__(self):
        self.core = Symbols(preferred.get("core") or cpu_target(), _core)
        self._levels: dict[CpuTarget, Mapping[str, int]] = {}
        self._looked_for_team = False
        self._limit = ctypes.c_int64.from_address(self.core["tt.pool.limit"])
        ctypes.CFUNCTYPE(None)(self.core["tt.pool.setup"])()
        ctypes.c_uint64.from_address(self.core["tt.pool.main"]).value = threading.main_thread().ident or 0
        if knobs.fault_handler:
            ctypes.CFUNCTYPE(ctypes.c_int32)(self.core["tt.fault.install"])()
        os.register_at_fork(after_in_child=ctypes.CFUNCTYPE(None)(self.core["tt.pool.reset"]))
        self.set_num_threads(knobs.num_threads)
        self.launch_raw: Callable[..., None] = (
            builtin(self.core["tt.def.launch_raw"]) if NATIVE else self.launch_raw_slowly)

    @property
    def target(self) -> CpuTarget:
        """The CPU that kernels of this process are compiled for."""
        return cpu_target()

    @property
    def symbols(self) -> Mapping[str, int]:
        """Name -> address of everything a kernel may call."""
        return self.symbols_for(cpu_target())

    def symbols_for(self, target: CpuTarget) -> Mapping[str, int]:
        """Name -> address of everything a kernel that was compiled for a CPU may call.

        >>> Runtime.get().symbols_for(cpu_target())["tt.load.4"] > 0
        True
        """
        found = self._levels.get(target)
        if found is None:
            both: Any = (self.core, Symbols(target, _called))
            found = self._levels.setdefault(target, ChainMap(*both))
        return found

    def _find_team(self) -> None:
        """Let jobs run on the threads that torch computes with, once torch is loaded (openmp.py)."""
        if self._looked_for_team or "torch" not in sys.modules or not knobs.openmp:
            return
        self._looked_for_team = True
        found = imported("tritium.backends.cpu.runtime.openmp").find()
        if found is not None:
            parallel, threads = (ctypes.c_void_p.from_address(self.core[f"tt.team.{name}"])
                                 for name in ("parallel", "threads"))
            threads.value, parallel.value = found[1], found[0]

    def ask(self, judge: Callable[..., bool]) -> None:
        """Let `judge(kernel, gx, gy, gz, address of the slots)` decide on launches that the native checks cannot.

        A false answer means that another kernel was launched.
        """
        self._judge = judge  # native code refers to it
        if NATIVE:
            ctypes.c_void_p.from_address(self.core["tt.judge"]).value = id(judge)

    def record(self, entry: int, arena_bytes: int, guards: Sequence[record.Guard], owner: Any = None,
               **form: Any) -> record.Record:
        """The record of a kernel of this runtime; see `launcher.record.record`.

        >>> Runtime.get().record(4096, 128, [record.INT32]).extra
        128
        """
        self._find_team()
        run = self.core["tt.finish"] if NATIVE else 0
        return record.record(run, entry, arena_bytes, guards, owner, **form)

    def binder(self, records: list[Any]) -> Callable[[Any], Callable[..., Any]]:
        """A function of a grid that gives a callable launching a kernel on it: `kernel[grid]` without Python code.

        `records[0]` is called as `records[0](grid, *args, **kwargs)` when no record applies to a call, and may append
        the record that does; the others are tried in order. A grid is one to three sizes in a tuple or a list, one int,
        or a function of the arguments by name that returns these; anything else is left to `records[0]` as well.

        >>> records = [lambda grid, x, y=0: (grid, x, y)]
        >>> bind = Runtime.get().binder(records)
        >>> bind((4,))(1, y=2)
        ((4,), 1, 2)
        """
        if NATIVE:
            return builtin(self.core["tt.def.bind"], records)
        return lambda grid: functools.partial(records[0], grid)

    @property
    def forward(self) -> int:
        """The address of what runs records of wrappers (`launcher.wrappers`).

        >>> Runtime.get().forward >= 0
        True
        """
        return self.core["tt.forward"] if NATIVE else 0

    def finder(self, records: list[Any]) -> Callable[..., Any]:
        """A function that gives the `result` of the first record that applies to a call, without launching anything.

        >>> Runtime.get().finder([lambda x, y=0: (x, y)])(1, y=2)
        (1, 2)
        """
        return builtin(self.core["tt.def.lookup"], records) if NATIVE else records[0]

    def load(self, object_code: bytes, *exports: str) -> image.Loaded | jit.Library:
        """Link a kernel's object file against the runtime and the process; `exports` as in `jit.load`.

        >>> from tritium.backends.llvm.target import compile_text
        >>> text = "define void @k(ptr %a, i64 %b, i64 %e, ptr %g, ptr %s) { ret void }"
        >>> Runtime.get().load(compile_text(text, cpu_target())).address("k") > 0
        True
        """
        return self.load_for("host", object_code, *exports)

    def load_for(self, name: str, object_code: bytes, *exports: str) -> image.Loaded | jit.Library:
        """Link a kernel that was compiled for the CPU called `name`, without LLVM where that can be.

        >>> from tritium.backends.llvm.target import compile_text
        >>> text = "define void @k(ptr %a, i64 %b, i64 %e, ptr %g, ptr %s) { ret void }"
        >>> Runtime.get().load_for("host", compile_text(text, cpu_target()), "k").address("k") > 0
        True
        """
        symbols = self.symbols_for(cpu_target(name))
        try:
            return image.Loaded(object_code, symbols)
        except image.UnknownObject:
            return _jit().load(object_code, symbols, exports)

    @property
    def launches(self) -> int:
        """A number that each launch on the CPU changes.

        >>> Runtime.get().launches >= 0
        True
        """
        return ctypes.c_int64.from_address(self.core["tt.pool.launches"]).value

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

    def launch_raw_slowly(self, entry: int, arena_bytes: int, gx: int, gy: int, gz: int, slots: bytes) -> None:
        """`launch_raw` through ctypes, for interpreters that take no native builtins. Signals do not stop it."""
        from . import cooperative, interrupt, job

        try:
            check_sizes((gx, gy, gz))
        except ValueError as error:
            raise TypeError(str(error)) from None
        if not gx * gy * gz:
            return
        grid = (ctypes.c_int64 * 3)(gx, gy, gz)
        together, arena_bytes = divmod(arena_bytes, job.BIT)
        packed = ctypes.cast(ctypes.c_char_p(slots), ctypes.c_void_p).value
        work = job.JOB.ctype(entry=entry, slots=packed, grid=ctypes.addressof(grid), total=gx * gy * gz,
                             arena=arena_bytes, together=together)
        # The function releases Python's lock itself, for it takes it to run handlers of signals; what they raise is
        # raised here.
        kind = ctypes.PYFUNCTYPE if interrupt.IS_CPYTHON else ctypes.CFUNCTYPE
        run = kind(ctypes.c_int32, ctypes.c_void_p)(self.core["tt.run.released"])
        status = run(ctypes.addressof(work))
        if status == 1:
            raise MemoryError
        if status == 2:
            message = ctypes.string_at(work.message).decode()
            x, y, z = work.program % gx, work.program // gx % gy, work.program // (gx * gy)
            raise RuntimeError(f"device-side assert triggered: {message} [program ({x}, {y}, {z})]")
        if (why := cooperative.refusal(status, gx * gy * gz)) is not None:
            raise RuntimeError(why)
        if status:
            raise InternalError(f"the pool returned status {status}")
