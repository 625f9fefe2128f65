"""How many programs of a kernel one processor of a GPU holds at once, and what keeps it from holding more.

    kernel = softmax.warmup(x, y, 781, BLOCK=1024, grid=(1,))
    found = occupancy(kernel)
    print(found)                                         # 8 programs of 8 warps on each processor ..., limited by warps
    kernel[(processors * found.programs, 1, 1)](...)     # a grid that fills the GPU once

No GPU is needed: what an architecture has stands in a table. Its figures are those of

- the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", and for the units that registers
  and shared memory are handed out in, NVIDIA's calculator, `cuda_occupancy.h` of the CUDA toolkit;
- ROCm's documentation, "AMD GPU specifications", for registers, LDS and caches; AMD's instruction set manuals (CDNA 1
  to 4, RDNA 1 to 4) for warps and barriers; LLVM's "User Guide for AMDGPU Backend" for the units.

Tests compare: the table with these pages, the results with NVIDIA's calculator, with what LLVM says of a kernel for AMD
(`; Occupancy:`), and on an NVIDIA GPU with the driver's own call.

A processor is what the vendor's driver counts as one: an SM of NVIDIA's, a compute unit of CDNA and GCN, and of RDNA a
work-group processor, two compute units that share their local memory. Warps are AMD's waves, shared memory is the LDS.
"""

from __future__ import annotations

import re
from typing import Any

from tritium.named_tuples import NamedTuple


class Machine(NamedTuple):
    """What one processor has: the one table of it, which compilers, assemblers and tools read.

    A warp gets registers in multiples of `unit`, from one of the processor's four quarters, which AMD calls SIMDs. A
    program gets shared memory in multiples of `shared_unit` bytes, and `reserved` bytes go with each.
    """

    warps: int
    programs: int  # of several warps: those of one need no barrier
    registers: int  # 32-bit words
    shared: int
    most_shared: int  # of one program
    reserved: int = 1024
    unit: int = 256
    warp_size: int = 32
    shared_unit: int = 128
    most_registers: int = 255  # of a thread
    single: int = 0  # programs of one warp, where more of them fit
    scalars: int = 0  # scalar registers of a quarter that warps share; 0 where each has all it can name
    cache: int = 0  # bytes of L1 beside the shared memory; 0 where L1 is what shared memory leaves
    files: int = 1  # of so many `registers`: 2 where those for accumulation are apart

    @property
    def threads(self) -> int:
        """The most threads of all programs."""
        return self.warps * self.warp_size

    @property
    def register_file(self) -> int:
        """The registers of all threads, in all files."""
        return self.files * self.registers

    @property
    def thread_registers(self) -> int:
        """The most registers of a thread, in all files."""
        return self.files * self.most_registers

    def shared_of(self, programs: int) -> int:
        """The shared memory of each of so many programs that the processor holds at once.

        >>> hopper = MACHINES["cuda"][90]
        >>> hopper.shared_of(1), hopper.shared_of(2)
        (232448, 115712)
        """
        return min(self.most_shared, self.shared // programs - self.reserved)

    def warps_of(self, registers: int, files: int | None = None) -> int:
        """How many warps find registers, with so many for a thread. A quarter of the processor has a quarter of them.

        >>> hopper = MACHINES["cuda"][90]
        >>> hopper.warps_of(128), hopper.warps_of(136), hopper.warps_of(168)
        (16, 12, 12)
        """
        for_warp = _up(max(registers, 1) * self.warp_size, self.unit)
        return (files or self.files) * self.registers // _QUARTERS // for_warp * _QUARTERS

    def programs_of(self, warps: int, registers: int) -> int:
        """How many programs of so many warps, with so many registers for a thread, the processor holds at once, shared
        memory aside; at least 1.

        >>> hopper = MACHINES["cuda"][90]
        >>> hopper.programs_of(8, 128), hopper.programs_of(12, 168), hopper.programs_of(5, 136)
        (2, 1, 2)
        """
        return max(1, min(self.warps_of(registers), self.warps) // warps)

    def registers_of(self, warps: int, most: int | None = None) -> int:
        """The most registers of a thread with which the processor holds so many warps at once, at most `most`.

        >>> hopper = MACHINES["cuda"][90]
        >>> hopper.registers_of(4), hopper.registers_of(15), hopper.registers_of(16), hopper.registers_of(16, most=64)
        (255, 128, 128, 64)
        """
        unit = self.unit // self.warp_size
        each = self.register_file // _QUARTERS // -(-warps // _QUARTERS) // self.warp_size
        return min(self.thread_registers, most or self.thread_registers, each // unit * unit)


_QUARTERS, _SCALAR_UNIT = 4, 16
_KIB = 1024


def _sm(warps: int, programs: int, shared: int) -> Machine:
    return Machine(warps, programs, 65536, shared * _KIB, shared * _KIB - 1024)


def _sm_7x(warps: int, programs: int, shared: int) -> Machine:
    """An SM before sm_80: nothing is reserved, and shared memory comes by 256 bytes."""
    return Machine(warps, programs, 65536, shared * _KIB, shared * _KIB, 0, shared_unit=256)


def _gcn(waves: int, registers: int, unit: int, lds: int = 64, lds_unit: int = 512, cache: int = 16) -> Machine:
    """A compute unit: four SIMDs of 64 lanes, each with `waves` waves, `registers` vector and 800 scalar registers.

    It has 16 barriers. From gfx90a on, ordinary and accumulation registers come out of one file of 512. On gfx908 each
    kind has a file of 256, and the larger of the two numbers counts.
    """
    return Machine(_QUARTERS * waves, 16, _QUARTERS * registers * 64, lds * _KIB, lds * _KIB, 0, unit * 64, 64,
                   lds_unit, registers, _QUARTERS * waves, 800, cache * _KIB)


def _rdna(waves: int, registers: int, unit: int, lds_unit: int = 1024, cache: int = 32) -> Machine:
    """A work-group processor: 32 lanes, four SIMDs, 32 barriers, 128 KiB of LDS, of which a program sees 64."""
    return Machine(_QUARTERS * waves, 32, _QUARTERS * registers * 32, 128 * _KIB, 64 * _KIB, 0, unit * 32, 32,
                   lds_unit, 256, _QUARTERS * waves, 0, 2 * cache * _KIB)


_GCN5, _CDNA1 = _gcn(10, 256, 4), _gcn(10, 256, 4)._replace(files=2)
_CDNA2, _CDNA3, _CDNA4 = _gcn(8, 512, 8), _gcn(8, 512, 8, cache=32), _gcn(8, 512, 8, 160, 1280, 32)
_RDNA1, _RDNA2 = _rdna(20, 1024, 8, 512, 16), _rdna(16, 1024, 16, cache=16)
_RDNA3, _RDNA3_LARGE = _rdna(16, 1024, 16), _rdna(16, 1536, 24)  # the large chips have half as many registers again
_GFX1250 = Machine(64, 32, _QUARTERS * 1024 * 32, 320 * _KIB, 320 * _KIB, 0, 16 * 32, 32, 2048, 1024, 64)


def _all(names: str, what: Machine) -> dict[int | str, Machine]:
    return dict.fromkeys(names.split(), what)


MACHINES: dict[str, dict[int | str, Machine]] = {
    "cuda": {70: _sm_7x(64, 32, 96), 72: _sm_7x(64, 32, 96), 75: _sm_7x(32, 16, 64), 80: _sm(64, 32, 164),
             86: _sm(48, 16, 100), 87: _sm(48, 16, 164), 88: _sm(48, 16, 100), 89: _sm(48, 24, 100),
             90: _sm(64, 32, 228), 100: _sm(64, 32, 228), 101: _sm(48, 24, 228), 103: _sm(64, 32, 228),
             110: _sm(48, 24, 228), 120: _sm(48, 24, 100), 121: _sm(48, 24, 100)},
    "hip": {**_all("gfx900 gfx906", _GCN5), **_all("gfx908", _CDNA1), **_all("gfx90a", _CDNA2),
            **_all("gfx940 gfx941 gfx942", _CDNA3), **_all("gfx950", _CDNA4),
            **_all("gfx1010 gfx1011 gfx1012 gfx1013", _RDNA1),
            **_all("gfx1030 gfx1031 gfx1032 gfx1033 gfx1034 gfx1035 gfx1036", _RDNA2),
            **_all("gfx1100 gfx1101", _RDNA3_LARGE), **_all("gfx1102 gfx1103 gfx1150", _RDNA3),
            **_all("gfx1151", _RDNA3_LARGE), **_all("gfx1152 gfx1153", _RDNA3),
            **_all("gfx1200 gfx1201", _RDNA3_LARGE), **_all("gfx1250", _GFX1250)},
}  # fmt: skip


def machine(target: Any) -> Machine:
    """What a processor of a target has.

    >>> from tritium.backends.compiler import GPUTarget
    >>> machine(GPUTarget("cuda", "90a", 32)).warps, machine(GPUTarget("hip", "gfx942", 64)).registers
    (64, 131072)
    """
    known = MACHINES.get(target.backend, {})
    found = known.get(sm_number(target.arch) or target.arch)
    if found is None:
        listed = ", ".join(f"{backend}:{arch}" for backend, rows in MACHINES.items() for arch in rows)
        raise ValueError(f"the occupancy of {target} is not known\nhint: it is for {listed}")
    return found


def sm_number(arch: Any) -> int | None:
    """The number of an NVIDIA architecture, None of other names.

    >>> sm_number("sm_90a"), sm_number(80), sm_number("gfx942")
    (90, 80, None)
    """
    found = re.fullmatch(r"(?:sm_?)?(\d+)[af]?", str(arch))
    return int(found[1]) if found else None


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
        programs, warps = (f"{n} {what}{'s' * (n != 1)}" for n, what in ((self.programs, "program"),
                                                                         (self.warps_each, "warp")))
        return (f"{programs} of {warps} on each processor, {self.warps} of "
                f"{self.most_warps} warps ({self.share:.0%}); limited by {self.limiter}")


def occupancy(kernel: Any) -> Occupancy:
    """The occupancy of a compiled kernel on the machine it is compiled for.

    >>> from types import SimpleNamespace as Kernel
    >>> from tritium.backends.compiler import GPUTarget
    >>> metadata = Kernel(num_warps=4, shared=0, target=GPUTarget("cuda", 86, 32))
    >>> occupancy(Kernel(metadata=metadata, n_regs=32)).limiter
    'warps'
    """
    meta = kernel.metadata
    warps = meta.num_warps + getattr(meta, "producer_warps", 0)
    return occupancy_of(kernel.n_regs, meta.shared, warps, meta.target, getattr(meta, "n_sgprs", 0) or 0)


def occupancy_of(registers: int, shared: int, warps: int, target: Any, scalars: int = 0) -> Occupancy:
    """The occupancy of programs of `warps` warps that use `registers` per thread and `shared` bytes of shared memory.

    `registers` are a thread's: on AMD's GPUs its vector registers, accumulation registers included as the code
    object's `.vgpr_count` does. `scalars` are AMD's scalar registers of a warp; up to 80 they limit nothing.

    >>> from tritium.backends.compiler import GPUTarget
    >>> found = occupancy_of(64, 40000, 8, GPUTarget("cuda", 90, 32))
    >>> found.limits
    {'warps': 8, 'programs': 32, 'registers': 4, 'shared memory': 5}
    >>> print(found)
    4 programs of 8 warps on each processor, 32 of 64 warps (50%); limited by registers
    """
    has = machine(target)
    programs = has.single if warps == 1 and has.single else has.programs
    each = _up(shared, has.shared_unit) + has.reserved
    by_shared = programs if each == 0 else has.shared // each
    limits = {"warps": has.warps // warps, "programs": programs,
              "registers": has.warps_of(registers, files=1) // warps,
              "shared memory": 0 if shared > has.most_shared else by_shared}  # fmt: skip
    if has.scalars and scalars:
        limits["scalar registers"] = has.scalars // _up(scalars, _SCALAR_UNIT) * _QUARTERS // warps
    return Occupancy(limits, warps, has.warps)


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
