"""Proton, Triton's profiler, over tritium's own: kernels' times under the scopes of a program. `docs/profile.md`

    import triton.profiler as proton

    proton.start("matmul", hook="triton")
    with proton.scope("forward"):
        kernel[grid](...)
    proton.finalize()                       # matmul.hatchet: `proton-viewer -m time/ms matmul.hatchet`
"""

import importlib

from .scopes import cpu_timed_scope, enter_scope, enter_state, exit_scope, exit_state, scope, state
from .sessions import activate, deactivate, finalize, profile, start

__all__ = ["activate", "cpu_timed_scope", "deactivate", "enter_scope", "enter_state", "exit_scope", "exit_state",
           "finalize", "language", "profile", "scope", "start", "state", "viewer"]  # fmt: skip


def __getattr__(name: str):
    if name in ("language", "viewer", "proton"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
