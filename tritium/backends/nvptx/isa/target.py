"""NVIDIA GPUs as the shared stages see them: a record for each architecture."""

from __future__ import annotations

import functools
import re

from ....errors import TritonError
from ...gpu.lower import LOWER as SHARED
from ...gpu.multiprocessor import Multiprocessor
from ...gpu.target import AsyncCopies, Target
from ...occupancy import MACHINES
from . import (
    atomics,
    clusters,
    copies,
    cost,
    global_memory,
    inline_asm,
    messages,
    mma,
    native,
    tcgen05,
    tensor_memory,
    threads,
    tma,
    warp_roles,
)

# The architectures there are, and the PTX version for each; products of 8-bit floats came with 8.4. LLVM is not asked
# about others: it ends the process.
_PTX = {70: 83, 72: 83, 75: 83, 80: 83, 86: 83, 87: 83, 88: 90, 89: 84, 90: 84, 100: 87, 101: 87, 103: 88, 110: 90,
        120: 87, 121: 88}  # fmt: skip

LOWER = {**SHARED, **clusters.LOWER, **warp_roles.LOWER, **mma.LOWER, **inline_asm.LOWER}
# Blackwell's: one thread multiplies for the block, at twice the rate.
ONE_FOR_ALL = Multiprocessor(tensor=4096, warpgroup=0)
# The first architectures with copies to shared memory that run by themselves, with stmatrix, with ldmatrix.
COPIES_SINCE, STORES_MATRICES_SINCE, LOADS_MATRICES_SINCE = 80, 90, 75


class UnknownArchitecture(TritonError, ValueError):
    """A name that stands for no NVIDIA GPU."""


class NvTarget(Target):
    """One architecture, and its number (90).

    >>> NvTarget.of(90).cpu
    'sm_90a'
    """

    sm: int

    @staticmethod
    def of(arch: str | int | None) -> NvTarget:
        """The target of `90`, `"90a"`, `"sm_90a"`, ..."""
        number = re.fullmatch(r"(?:sm_?)?(\d+)[af]?", str(arch))
        sm = int(number[1]) if number else 0
        if sm not in _PTX:
            raise UnknownArchitecture(f"there is no NVIDIA architecture {arch!r}\n"
                                      f"hint: the ones tritium knows are {', '.join(map(str, _PTX))}")
        return _target(sm)


@functools.cache
def _target(sm: int) -> NvTarget:
    has = MACHINES["cuda"][sm]
    copies_by_themselves = AsyncCopies(copies.async_copy, copies.async_commit, copies.async_wait)
    return NvTarget(
        sm=sm,
        name="cuda",
        triple="nvptx64-nvidia-cuda",
        cpu=f"sm_{sm}{'a' if sm >= 90 else ''}",
        features=f"+ptx{_PTX[sm]}",
        warp_size=32,
        shared_bytes=has.most_shared,
        most_threads=32 * has.warps,
        tensor_columns=tensor_memory.COLUMNS if sm in tcgen05.ARCHITECTURES else 0,
        cost=cost.H200,
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
        pair_cast=functools.partial(native.pair_cast, sm),
        reciprocal=native.reciprocal,
        async_fence=threads.proxy_fence,
        load_matrices=copies.load_matrices if sm >= LOADS_MATRICES_SINCE else None,
        store_matrices=copies.store_matrices if sm >= STORES_MATRICES_SINCE else None,
        async_copies=copies_by_themselves if sm >= COPIES_SINCE else None,
        mma=mma.instructions(sm),
        tma=tma.support(sm, has.most_shared),
    )


def _kernel(count: int) -> tuple[str, str]:
    """The calling convention of kernels, and the number of threads they are launched with."""
    return "ptx_kernel void", f'"nvvm.reqntid"="{count}"'
