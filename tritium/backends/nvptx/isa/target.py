"""NVIDIA GPUs as the shared stages see them: a record for each architecture."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ...gpu.cost_model import CostModel
from ...gpu.lower import LOWER as SHARED
from ...gpu.multiprocessor import Multiprocessor
from ...gpu.target import AsyncCopies, Target, UnknownArchitecture
from ...occupancy import MACHINES, sm_number
from . import (
    atomics,
    clusters,
    global_memory,
    inline_asm,
    messages,
    mma,
    native,
    shared_memory,
    tcgen05,
    tensor_memory,
    threads,
    tma,
    warp_roles,
)

if TYPE_CHECKING:
    from ...gpu.lower.function import Lowering

# The architectures there are, and the PTX version for each; products of 8-bit floats came with 8.4. LLVM is not asked
# about others: it ends the process.
_PTX = {70: 83, 72: 83, 75: 83, 80: 83, 86: 83, 87: 83, 88: 90, 89: 84, 90: 84, 100: 87, 101: 87, 103: 88, 110: 90,
        120: 87, 121: 88}  # fmt: skip

LOWER = {**SHARED, **clusters.LOWER, **warp_roles.LOWER, **mma.LOWER, **inline_asm.LOWER}
# What serves an H200 (sm_90). The other architectures have it, too: nobody has measured them. "Chosen" is what nobody
# has measured against other numbers.
H200 = CostModel(
    held_bytes=128,  # 32 registers; chosen
    operation_bytes=1,  # an iteration of paged decode attention moves 35328 bytes instead of 105472
    converted_registers=4,  # chosen
    idle_factor=2,  # chosen
    repeated_loads=2,  # chosen
    run_bits=3,  # eight lanes write whole sectors of 32 bytes
    # Attention in fp8 with a producer warp, so alone, is 1.05 to 1.4 times as fast by shuffles; two programs of 128x64
    # tiles and heads of 64 have 0.88 of their speed.
    barriers=8,
    barriers_alone=64,
    unrolled_trips=8,  # chosen, so that the text stays short
    unrolled_work=2048,
    idle_unrolled=8,
    unrolled_bytes=128,
    # 32 registers; chosen: a block of 512 threads keeps a row of 16384 floats, and three such blocks fit an SM
    kept_bytes=128,
    slow_operations=8,  # chosen
    scratch_per_warp=4608,  # chosen: 48 of the 64 warps of an SM have as much
    fenced_loads=4,  # ptxas leaves two or three together
    fenced_share=4,  # with 2, a gradient of GELU in 16 warps goes from 52 registers to 106: one block fits, not two
    fenced_work=8,  # chosen
    prefetch_share=4,  # a softmax of 8192 columns by 8 warps goes from 56 registers to 91
    prefetched_dots=0,  # only Turing and Volta have no asynchronous copies
    loaded_ahead=32768,  # chosen: eight slots of two 64x16 tiles, which wait for L2 with two
    # Of bf16 tiles of 64x128x64, 384 with 16 iterations each take 0.83 of the time if three blocks run one each on an
    # SM, not two persistent ones; 256 with two each take 1.2 times as long.
    single_trips=8,
    thread_copy_registers=64,  # with 128, a product of 64x64x128 by four warps spills and gains nothing
    registers_beside_dots=63,  # 192 of 255 are left for results
    fewest_beside_sums=28,  # 26 to 37 in products that only store their results
    least_slots=4,  # of 81 products of two and three slots, 55 take 0.4 to 0.95 of the time so
    beside_loaded_sums=56,  # 48 to 64 in Inductor's templates: three blocks of 64x128 results fit, not two
    beside_sums=40,  # 32 to 38 for 64x256 results: two blocks of five warps take 0.67 to 0.83 of the time of one
    dealt_together=48,  # in a model of causal masks with 64 heads and more, blocks end within 3 % of each other
    least_of_dot=16,  # with fewer rows or columns there is no MMA
    good_rows=64,  # of one wgmma
    far_element=16,  # chosen
    assumed_trips=8,  # chosen
)
# Blackwell's: one thread multiplies for the block, at twice the rate.
ONE_FOR_ALL = Multiprocessor(tensor=4096, warpgroup=0)
# The first architectures with copies to shared memory that run by themselves, with stmatrix, with ldmatrix.
COPIES_SINCE, STORES_MATRICES_SINCE, LOADS_MATRICES_SINCE = 80, 90, 75


class NvTarget(Target):
    """One architecture, and its number (90).

    >>> NvTarget.of(90).cpu
    'sm_90a'
    """

    sm: int

    @staticmethod
    def of(arch: str | int | None) -> NvTarget:
        """The target of `90`, `"90a"`, `"sm_90a"`, ..."""
        sm = sm_number(arch)
        if sm not in _PTX:
            raise UnknownArchitecture(f"there is no NVIDIA architecture {arch!r}\n"
                                      f"hint: the ones tritium knows are {', '.join(map(str, _PTX))}")
        return _target(sm)


@functools.cache
def _target(sm: int) -> NvTarget:
    has = MACHINES["cuda"][sm]
    copies_by_themselves = AsyncCopies(shared_memory.async_copy, shared_memory.async_commit, shared_memory.async_wait)
    return NvTarget(
        sm=sm,
        name="cuda",
        triple="nvptx64-nvidia-cuda",
        cpu=f"sm_{sm}{'a' if sm >= 90 else ''}",
        features=f"+ptx{_PTX[sm]}",
        machine=has,
        tensor_columns=tensor_memory.COLUMNS if sm in tcgen05.ARCHITECTURES else 0,
        cost=H200,
        multiprocessor=ONE_FOR_ALL if sm in tcgen05.ARCHITECTURES else Multiprocessor(),
        lower=LOWER,
        native=native.NATIVE,
        kernel=_kernel,
        index=threads.index,
        clock=threads.clock,
        barrier=threads.barrier,
        uniform=threads.uniform,
        shuffle=threads.shuffle,
        load=global_memory.load,
        store=global_memory.store,
        atomic=atomics.atomic,
        float_to_int=native.float_to_int,
        print_values=messages.print_values,
        assert_failed=messages.assert_failed,
        widest_atomic=functools.partial(atomics.widest, sm),
        pair_rows=native.pair_rows(sm),
        pair_cast=functools.partial(native.pair_cast, sm),
        wide_quotient=native.wide_quotient,
        reciprocal=native.reciprocal,
        schedule_fence=threads.schedule_fence,
        async_fence=threads.proxy_fence,
        load_matrices=shared_memory.load_matrices if sm >= LOADS_MATRICES_SINCE else None,
        store_matrices=shared_memory.store_matrices if sm >= STORES_MATRICES_SINCE else None,
        async_copies=copies_by_themselves if sm >= COPIES_SINCE else None,
        mma=mma.instructions(sm),
        tma=tma.support(sm, has.most_shared),
    )


def _kernel(count: int) -> tuple[str, str]:
    """The calling convention of kernels, and the number of threads they are launched with."""
    return "ptx_kernel void", f'"nvvm.reqntid"="{count}"'


if TYPE_CHECKING:

    class NvLowering(Lowering):
        """A `Lowering` whose target is an NVIDIA GPU."""

        target: NvTarget
