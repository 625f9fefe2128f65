"""The parts that run kernels: the core, which has thread pool, launcher and interrupts, and what few processes need."""

from __future__ import annotations

from ...launcher.parts import NATIVE, Part
from ...launcher.writers import PARTS as FURTHER
from ...launcher.writers import WRITERS
from ...llvm import notation, structs
from ...llvm.target import CpuTarget
from . import (
    alone,
    arena,
    cooperative,
    fault_report,
    faults,
    float_state,
    interrupt,
    job,
    launch_times,
    launcher,
    openmp,
    pool,
    system,
)


def _core(target: CpuTarget) -> str:
    text = "\n".join((pool.pool(target), openmp.openmp(), alone.alone(), interrupt.interrupt(),
                      float_state.float_state(target), cooperative.cooperative(target),
                      launcher.launcher() if NATIVE else ""))
    return text.replace(" noinline cold {", " noinline optnone {")  # LLVM need not spend time on it


_CORE = (pool.SYMBOLS + openmp.SYMBOLS + alone.SYMBOLS + interrupt.SYMBOLS + (launcher.SYMBOLS if NATIVE else ()))
CORE = Part("core", _CORE, (*WRITERS, job, system, arena, launch_times, pool, openmp, alone, interrupt, float_state,
                            cooperative, launcher), _core, "written")
PARTS = (
    CORE,
    Part("faults", faults.SYMBOLS, (notation, structs, job, fault_report, faults), faults.faults, "quick"),
    *(FURTHER if NATIVE else ()),
)
