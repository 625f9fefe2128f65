"""How many programs of a kernel one processor of a GPU holds at once, and what keeps it from holding more.

    kernel = softmax.warmup(x, y, 781, BLOCK=1024, grid=(1,))
    found = occupancy(kernel)
    print(found)                                         # 8 programs of 8 warps on each SM ..., limited by warps
    kernel[(processors * found.programs, 1, 1)](...)     # a grid that fills the GPU once

No GPU is needed: what an architecture has stands in a table.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Machine(NamedTuple):
    """What one processor has: an SM of NVIDIA's, a compute unit of AMD's.

    A warp gets registers in multiples of `unit`, from one of the processor's four quarters; a program gets shared
    memory in multiples of 128 bytes, and `reserved` bytes go with each.
    """

    warps: int
    programs: int
    registers: int
    shared: int
    most_shared: int  # of one program
    reserved: int = 1024
    unit: int = 256
    warp_size: int = 32


_QUARTERS, _SHARED_UNIT = 4, 128
_KIB = 1024


def _sm(warps: int, programs: int, shared: int, reserved: int = 1024) -> Machine:
    return Machine(warps, programs, 65536, shared * _KIB, shared * _KIB - reserved, reserved)


def _cdna(lds: int) -> Machine:
    """512 vector registers for each lane, ordinary and accumulation ones together, handed out by eight."""
    return Machine(32, 32, 4 * 512 * 64, lds * _KIB, lds * _KIB, 0, 8 * 64, 64)


MACHINES = {
    "cuda": {70: _sm(64, 32, 96, 0), 72: _sm(64, 32, 96, 0), 75: _sm(32, 16, 64, 0), 80: _sm(64, 32, 164),
             86: _sm(48, 16, 100), 87: _sm(48, 16, 164), 88: _sm(48, 16, 100), 89: _sm(48, 24, 100),
             90: _sm(64, 32, 228), 100: _sm(64, 32, 228), 101: _sm(48, 24, 228), 103: _sm(64, 32, 228),
             110: _sm(48, 24, 228), 120: _sm(48, 24, 100), 121: _sm(48, 24, 100)},
    "hip": {"gfx90a": _cdna(64), "gfx940": _cdna(64), "gfx941": _cdna(64), "gfx942": _cdna(64), "gfx950": _cdna(160)},
}  # fmt: skip


def machine(target: Any) -> Machine:
    """What a processor of a target has.

    >>> from tritium.backends.compiler import GPUTarget
    >>> machine(GPUTarget("cuda", "90a", 32)).warps, machine(GPUTarget("hip", "gfx942", 64)).registers
    (64, 131072)
    """
    known = MACHINES.get(target.backend, {})
    text = str(target.arch).removeprefix("sm").removeprefix("_").rstrip("af")
    found = known.get(int(text) if text.isdigit() else target.arch)
    if found is None:
        listed = ", ".join(f"{backend}:{arch}" for backend, rows in MACHINES.items() for arch in rows)
        raise ValueError(f"the occupancy of {target} is not known\nhint: it is for {listed}")
    return found


class Occupancy(NamedTuple):
    """Programs on one processor, what each limit alone would allow, and of how many warps a program is."""

    limits: dict[str, int]
    warps_each: int
    most_warps: int

    @property
    def programs(self) -> int:
        """Programs on one processor at once."""
        return min(self.limits.values())

    @property
    def warps(self) -> int:
        """Warps on one processor at once."""
        return self.programs * self.warps_each

    @property
    def share(self) -> float:
        """Warps there are, of those there could be."""
        return self.warps / self.most_warps

    @property
    def limiter(self) -> str:
        """What keeps more programs out: of several, what the machine has of warps or programs."""
        return min(self.limits, key=lambda name: self.limits[name])

    def __str__(self) -> str:
        return (f"{self.programs} programs of {self.warps_each} warps on each processor, {self.warps} of "
                f"{self.most_warps} warps ({self.share:.0%}); limited by {self.limiter}")


def occupancy(kernel: Any) -> Occupancy:
    """The occupancy of a compiled kernel on the machine it is compiled for.

    >>> from types import SimpleNamespace as Kernel
    >>> from tritium.backends.compiler import GPUTarget
    >>> metadata = Kernel(num_warps=4, shared=0, target=GPUTarget("cuda", 86, 32))
    >>> occupancy(Kernel(metadata=metadata, n_regs=32)).limiter
    'warps'
    """
    warps = kernel.metadata.num_warps + getattr(kernel.metadata, "producer_warps", 0)
    return occupancy_of(kernel.n_regs, kernel.metadata.shared, warps, kernel.metadata.target)


def occupancy_of(registers: int, shared: int, warps: int, target: Any) -> Occupancy:
    """The occupancy of programs of `warps` warps that use `registers` per thread and `shared` bytes of shared memory.

    >>> from tritium.backends.compiler import GPUTarget
    >>> found = occupancy_of(64, 40000, 8, GPUTarget("cuda", 90, 32))
    >>> found.limits
    {'warps': 8, 'programs': 32, 'registers': 4, 'shared memory': 5}
    >>> print(found)
    4 programs of 8 warps on each processor, 32 of 64 warps (50%); limited by registers
    """
    has = machine(target)
    for_warp = _up(max(registers, 1) * has.warp_size, has.unit)
    by_registers = has.registers // _QUARTERS // for_warp * _QUARTERS // warps
    each = _up(shared, _SHARED_UNIT) + has.reserved
    by_shared = has.programs if each == 0 else has.shared // each
    limits = {"warps": has.warps // warps, "programs": has.programs, "registers": by_registers,
              "shared memory": 0 if shared > has.most_shared else by_shared}
    return Occupancy(limits, warps, has.warps)


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
