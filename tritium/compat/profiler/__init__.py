"""Proton, Triton's profiler, is not part of tritium; files that import it can be imported.

    >>> import tritium.profiler as proton
    >>> proton.start("matmul")
    Traceback (most recent call last):
    RuntimeError: proton.start is not part of tritium: time kernels with triton.testing.do_bench, or ...
"""

import importlib

from ..experimental.absent import Absent

INSTEAD = ("time kernels with triton.testing.do_bench, or profile the program with torch.profiler, which sees kernels "
           "launched by tritium")

NAMES = ("activate", "cpu_timed_scope", "deactivate", "enter_scope", "enter_state", "exit_scope", "exit_state",
         "finalize", "profile", "scope", "start", "state")

__all__ = [*NAMES, "language"]


def __getattr__(name: str):
    if name in ("language", "viewer"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


globals().update({name: Absent(f"proton.{name}", INSTEAD) for name in NAMES})
