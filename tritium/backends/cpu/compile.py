"""The stages of a CPU kernel: ttir -> llir (vector loops as LLVM text) -> obj (machine code)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ... import knobs, passes
from ...ir import types as T
from ...ir.core import Module
from ...passes.instrument import rereads, sites, synchronises
from ...passes.legalize import BETWEEN_WIDE, WIDE
from ..llvm import target as machines

if TYPE_CHECKING:
    from ..compiler import GPUTarget, Options
    from ..llvm.target import CpuTarget


def target_info(cpu: CpuTarget) -> passes.TargetInfo:
    """What a CPU does in one instruction. bf16 and 8-bit floats are carried as their codes everywhere.

    >>> T.f16 in target_info(machines.cpu_target("aarch64")).floats
    True
    """
    from .library.dot_amx import MULTIPLES
    from .lower import erf, exp

    units = _units(cpu, T.bf16, T.f16)
    half = {(T.f16, T.f32), (T.f32, T.f16)} if cpu.has_f16_convert else set()
    return passes.TargetInfo(floats=WIDE | ({T.f16} if cpu.has_fp16 else set()), casts=BETWEEN_WIDE | half,
                        rows=exp.NATIVE | erf.NATIVE if cpu.simd == "avx512" else frozenset(), rare=True,
                        dot=WIDE | units, fits=MULTIPLES,
                        dot_as={t: T.bf16 for t in T.FLOATS if t.bits == 8} if T.bf16 in units else {})


def _units(cpu: CpuTarget, *types: T.Scalar) -> set[T.Scalar]:
    """Those of the types that the tile unit multiplies."""
    from .library.dot_amx import is_amx

    return {t for t in types if is_amx(cpu, str(t))}


def pipeline(target: GPUTarget) -> tuple:
    """The passes to the stage `ttir`: the same for every CPU."""
    return passes.expand_ptx, *passes.CLEANUP


def prepare(module: Module, cpu: machines.CpuTarget, watch: Callable | None = None) -> Module:
    """The module as it is lowered. `watch` sees every pass, as in `passes.run`."""
    return passes.run(simplify(module, cpu, watch), arrangement(cpu), watch)


def simplify(module: Module, cpu: machines.CpuTarget, watch: Callable | None = None) -> Module:
    """Have loops and branches hand on less through memory, and leave only ops that `cpu` has instructions for: calls on
    scalars."""
    from .fuse.flatten_branches import flatten_branches

    has = target_info(cpu)
    if module.functions:
        module = passes.run(module, (WITHOUT_TILES, *passes.CLEANUP), watch)
    moved = passes.run(module, (flatten_branches, passes.reduce_early, passes.sink_stores), watch)
    if moved is module and not module.functions and passes.is_legal(module, has):
        return module  # hoisted and swept before
    return passes.run(moved, (passes.legalize(has), passes.licm, passes.dce), watch)


def arrangement(cpu: machines.CpuTarget) -> tuple[Callable[[Module], Module], ...]:
    """The passes behind `simplify`: in which order of axes tiles are computed, and which ops share loops.

    >>> [passes.name_of(run) for run in arrangement(machines.cpu_target("aarch64"))]
    ['transpose_dots', 'load_columns', 'fuse_loops']
    """
    from .fuse.load_columns import load_columns
    from .fuse.transpose_dots import transpose_dots

    columns = functools.partial(load_columns, types=_units(cpu, T.bf16, T.f16, T.i8, T.u8))
    return transpose_dots, columns, fusion()


def fusion() -> Callable[[Module], Module]:
    """The pass `fuse_loops`: which ops have loops of their own, the tables of the lowering say."""
    from .fuse.fuse_loops import fuse_loops
    from .lower import table

    table.fill()
    return functools.partial(fuse_loops, is_lazy=table.is_lazy, visits=table.visits)


WITHOUT_TILES = functools.partial(passes.inline_calls, wanted=passes.has_tiles)


def llir(module: Module, target: GPUTarget, options: Options, metadata: Any) -> str:
    """LLVM text; the metadata gets the scratch memory of a worker and the preconditions of the kernel."""
    from .lower.function import lower

    cpu, written = machines.cpu_target(target.arch), module
    if options.sanitized:
        module = passes.instrument(module)
        metadata["sites"], metadata["rereads"] = sites(module), rereads(module)
        metadata["synchronises"] = synchronises(module)
    text, metadata["name"], metadata["arena_bytes"], assumed = lower(
        prepare(module, cpu, passes.dumping(module.name)), cpu, written
    )
    metadata["preconditions"] = assumed.stated()
    metadata["shared"] = max(metadata["arena_bytes"], 1)  # host code divides by it to size its grid
    return text


def obj(text: str, target: GPUTarget, options: Options, metadata: Any) -> bytes:
    """Machine code. The text is folded and hoisted already: LLVM's passes would take their time for nothing."""
    return machines.compile_text(text, machines.cpu_target(target.arch), passes=(), opt=knobs.cpu_opt)


def assembly_view(asm: Mapping[str, Any], target: GPUTarget) -> str:
    """The machine code in words."""
    return machines.assembly(asm["llir"], machines.cpu_target(target.arch), passes=(), opt=knobs.cpu_opt)
