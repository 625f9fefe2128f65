"""AMD GPUs as the shared stages see them: a record for each architecture."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

from ...gpu.cost_model import CostModel
from ...gpu.lower import LOWER as SHARED
from ...gpu.target import Target, UnknownArchitecture
from ...occupancy import MACHINES
from . import atomics, direct_copies, global_memory, inline_asm, messages, mma, native, shuffles, threads
from .architectures import ARCHITECTURES, GENERATIONS

if TYPE_CHECKING:
    from ...compiler import Options
    from ...gpu.lower.function import Lowering

LOWER = {**SHARED, **mma.LOWER, **inline_asm.LOWER}

# Nobody has measured these on a device; most are those of NVIDIA's GPUs. On CDNA sums of matrix products have registers
# of their own, so half of the others may wait for the next iteration's tiles. On RDNA they all share 256, and fragments
# take many.
_RDNA = CostModel(
    held_bytes=128, operation_bytes=1, converted_registers=4, idle_factor=2, repeated_loads=2, run_bits=3,
    unrolled_trips=8, unrolled_work=2048, idle_unrolled=8, unrolled_bytes=128, kept_bytes=128,
    slow_operations=8, prefetch_share=4, prefetched_dots=64, registers_beside_dots=96, scratch_per_warp=2048,
)  # fmt: skip
_CDNA = replace(_RDNA, prefetched_dots=128, prefetch_share=8, registers_beside_dots=63)


class AmdTarget(Target):
    """One architecture: its family ("cdna3", "rdna4"), the number of its instruction set, and warps of a SIMD; and the
    options of `mma.instructions` that a kernel is compiled with.

    >>> AmdTarget.of("gfx942").warp_size, AmdTarget.of("gfx1201").warp_size
    (64, 32)
    """

    family: str
    generation: int
    most_waves: int
    nonkdim: int = 0
    kpack: int = 1

    @staticmethod
    def of(arch: str | int | None, nonkdim: int = 0, kpack: int = 1) -> AmdTarget:
        """The target of "gfx942"; features behind the name ("gfx942:sramecc+:xnack-") are LLVM's to know."""
        name = str(arch).partition(":")[0]
        if name not in ARCHITECTURES:
            raise UnknownArchitecture(f"there is no AMD architecture {arch!r} that tritium compiles for\n"
                                      f"hint: the ones it knows are {', '.join(ARCHITECTURES)}")
        return _target(name, nonkdim, kpack)

    @staticmethod
    def of_options(options: Options) -> AmdTarget:
        """The target that a kernel with these launch options is compiled for."""
        return AmdTarget.of(options.arch, options.matrix_instr_nonkdim, options.kpack)


@functools.cache
def _target(name: str, nonkdim: int, kpack: int) -> AmdTarget:
    has, family = MACHINES["hip"][name], ARCHITECTURES[name]
    generation = GENERATIONS.get(family, 9)
    return AmdTarget(
        family=family,
        generation=generation,
        most_waves=has.warps // 4,
        nonkdim=nonkdim,
        kpack=kpack,
        name="hip",
        triple="amdgcn-amd-amdhsa",
        cpu=name,
        # A program stays on one compute unit: its warps share a cache, and barriers need not wait for loads.
        features="+cumode" if generation >= 10 else "",
        machine=has,
        cost=_CDNA if generation == 9 else _RDNA,
        lower=LOWER,
        native=native.NATIVE,
        kernel=_kernel,
        index=threads.index,
        clock=threads.clock,
        barrier=threads.barrier,
        uniform=threads.uniform,
        shuffle=shuffles.shuffle,
        load=global_memory.load,
        store=global_memory.store,
        atomic=atomics.atomic,
        float_to_int=native.float_to_int,
        print_values=messages.print_values,
        assert_failed=messages.assert_failed,
        widest_atomic=functools.partial(atomics.widest, family),
        carries_words=True,
        pair_cast=functools.partial(native.pair_cast, family),
        reciprocal=native.reciprocal,
        async_copies=direct_copies.COPIES if family == "cdna4" else None,
        exchange=shuffles.exchange if family == "cdna4" else None,
        exchange_bits=(4, 5),
        mma=mma.instructions(name, nonkdim, kpack),
    )


def _kernel(count: int) -> tuple[str, str]:
    """The calling convention of kernels, and the number of threads they are launched with."""
    return "amdgpu_kernel void", f'"amdgpu-flat-work-group-size"="{count},{count}" "uniform-work-group-size"="true"'


if TYPE_CHECKING:

    class AmdLowering(Lowering):
        """A `Lowering` whose target is an AMD GPU."""

        target: AmdTarget
