"""The peaks of devices, in one table: what predictions are made with.

Figures are the vendors' for dense work at boost clock, from the data sheets named; shares of a peak are what real
kernels reach. Those of the H200 were measured by `benchmarks/peaks.py`:

    copy of 1 GiB                       4224 GB/s, 0.88 of 4.8 TB/s; reads alone 4461
    read from L2, 32 MiB                9329 GB/s, 0.56 of 64 bytes of each SM in a cycle
    read from L1                        31.5 TB/s, 128 bytes of each SM in a cycle
    product f16 4096, one launch        748 TFLOP/s, 0.80 of 989 of the SMs that work; of fp8 the same share
    product f16 8192, for 2 s           664 TFLOP/s at the power limit, 0.69 of 989 of the SMs that work
    empty launch                        2.7 us; 0.61 ns more for each program
    load from L2                        0.147 us
    atomic add to one place             one in 1.77 ns
    multiply-adds, exp2, integer ops    63.5, 4.17 and 32.4 T/s: 128, 16 and 128 lanes of each SM in a cycle

Other devices, of which no such figures are at hand, have the defaults of the class.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from operator import and_, eq


@dataclass(frozen=True)
class Device:
    """Peaks of one device: bytes and operations a second."""

    name: str
    arch: int | str  # of its target: 90, "gfx942"
    processors: int
    clock: float  # GHz
    dram: float  # GB/s
    l2_bytes: int
    tensor: dict[str, float]  # TFLOP/s of the tensor cores by class
    fp32: float  # TFLOP/s of the ordinary units
    fp64: float
    source: str
    sustained_dram: float = 0.90
    sustained_tensor: float = 0.75
    burst_tensor: float = 0.80
    burst_seconds: float = 1e-3  # launches that last longer run at the sustained rate
    l2_share: float = 0.56  # of the ports' bandwidth, that L2 serves when all SMs ask
    launch: float = 2.7e-6  # seconds of an empty kernel, and of each of its programs
    program: float = 0.61e-9
    dram_latency: float = 0.6e-6  # seconds of a load from DRAM (about what is published), and of one from L2
    l2_latency: float = 0.15e-6
    atomic: float = 1.77e-9  # seconds between two atomics on one address
    measured: bool = False
    schedulers: int = 4  # of a processor: each issues an instruction of a warp in a cycle
    special_lanes: int = 16  # of a processor, that compute roots, exponentials and the like in a cycle

    @property
    def target(self) -> str:
        """The target to compile for, with what only this architecture has."""
        if isinstance(self.arch, str):
            return f"hip:{self.arch}"
        return f"cuda:{self.arch}{'a' if self.arch >= 90 else ''}"

    @property
    def l2_ports(self) -> float:
        """GB/s of the ports between L2 and the SMs: 64 bytes of each SM in a cycle."""
        return self.processors * 64 * self.clock

    @property
    def l2(self) -> float:
        """GB/s that L2 serves."""
        return self.l2_ports * self.l2_share

    @property
    def special(self) -> float:
        """T operations/s of the special function units."""
        return self.processors * self.special_lanes * self.clock / 1e3

    def lanes(self, unit: str) -> int:
        """Lanes of an SM that execute instructions of a unit in a cycle.

        >>> DEVICES["A100"].lanes("fp32"), DEVICES["H200"].lanes("fp32"), DEVICES["H200"].lanes("special")
        (64, 128, 16)
        """
        if isinstance(self.arch, str):
            return self._lanes_of_amd(unit)
        if unit == "fp32":
            return 64 if self.arch in (75, 80) else 128
        if unit == "fp64":
            return {80: 32, 90: 64, 100: 64}.get(self.arch, 2)
        if unit == "integer" and self.arch >= 90:  # ptxas gives half of them to the fp32 units
            return 128
        return _LANES[unit]

    def _lanes_of_amd(self, unit: str) -> int:
        """What the peaks say of floats; of a compute unit's other 64 lanes a quarter computes special functions."""
        peaks = {"fp32": self.fp32, "fp64": self.fp64}
        if unit in peaks:
            return max(1, round(peaks[unit] * 1e3 / (2 * self.processors * self.clock)))
        return self.special_lanes * (1 if unit == "special" else 4)

    def latency(self, from_dram: float) -> float:
        """Seconds of a load, this share of which comes from DRAM and the rest from L2."""
        return from_dram * self.dram_latency + (1 - from_dram) * self.l2_latency

    def rate(self, kind: str, burst: bool = False) -> float:
        """Operations a second that work of a class reaches at best: 'f16' to 'f64' on tensor cores, 'fp32', 'fp64',
        'special' elsewhere; for a long time, or in a `burst`.

        >>> round(DEVICES["A100"].rate("f16") / 1e12)
        234
        """
        if kind in self.tensor:
            return self.tensor[kind] * 1e12 * (self.burst_tensor if burst else self.sustained_tensor)
        return {"fp32": self.fp32, "fp64": self.fp64, "special": self.special}.get(kind, self.fp32) * 1e12


_MIB = 1 << 20

# Lanes of an SM in a cycle: CUDA C++ Programming Guide, "Arithmetic Instructions", the table of throughputs; loads,
# stores and shuffles: 32 lanes, as that table has for shuffles.
_LANES = {"integer": 64, "convert": 64, "special": 16, "load/store": 32}


def _cores(f16: float, tf32: float, f8: float = 0.0, i8: float = 0.0, f64: float = 0.0) -> dict[str, float]:
    return {name: rate for name, rate in
            (("f16", f16), ("tf32", tf32), ("f8", f8), ("i8", i8), ("f64", f64)) if rate}


DEVICES = {d.name: d for d in (
    Device("T4", 75, 40, 1.59, 320, 4 * _MIB, _cores(65, 0.0, i8=130), 8.1, 0.25, "NVIDIA T4 data sheet, 2019"),
    Device("A100", 80, 108, 1.41, 2039, 40 * _MIB, _cores(312, 156, i8=624, f64=19.5), 19.5, 9.7,
           "NVIDIA A100 80GB SXM data sheet, 2021"),
    Device("RTX 3090", 86, 82, 1.695, 936, 6 * _MIB, _cores(142, 35.6, i8=284), 35.6, 0.56,
           "NVIDIA GA102 whitepaper, 2020"),
    Device("RTX 4090", 89, 128, 2.52, 1008, 72 * _MIB, _cores(330, 82.6, 660, 660), 82.6, 1.3,
           "NVIDIA Ada whitepaper, 2022"),
    Device("L40S", 89, 142, 2.52, 864, 96 * _MIB, _cores(362, 183, 733, 733), 91.6, 1.4,
           "NVIDIA L40S data sheet, 2023"),
    Device("H100", 90, 132, 1.98, 3350, 50 * _MIB, _cores(989, 494, 1979, 1979, 67), 66.9, 33.5,
           "NVIDIA H100 SXM data sheet, 2023"),
    Device("H200", 90, 132, 1.98, 4800, 50 * _MIB, _cores(989, 494, 1979, 1979, 67), 66.9, 33.5,
           "NVIDIA H200 data sheet, 2024", sustained_dram=0.883, sustained_tensor=0.69, burst_tensor=0.80,
           measured=True),
    Device("B200", 100, 148, 1.85, 8000, 126 * _MIB, _cores(2250, 1100, 4500, 4500, 37), 75, 37,
           "NVIDIA DGX B200 data sheet, 2024"),
    Device("RTX 5090", 120, 170, 2.41, 1792, 96 * _MIB, _cores(419, 104.8, 838, 838), 104.8, 1.6,
           "NVIDIA Blackwell RTX whitepaper, 2025"),
    # Of RDNA a processor is two compute units, as the HIP runtime counts.
    Device("MI100", "gfx908", 120, 1.502, 1229, 8 * _MIB, _cores(184.6, 0.0, i8=184.6), 23.1, 11.5,
           "AMD Instinct MI100 data sheet, 2020"),
    Device("MI210", "gfx90a", 104, 1.7, 1638, 8 * _MIB, _cores(181, 0.0, i8=181, f64=45.3), 22.6, 22.6,
           "AMD Instinct MI210 data sheet, 2022"),
    Device("MI300X", "gfx942", 304, 2.1, 5325, 32 * _MIB, _cores(1307.4, 653.7, 2614.9, 2614.9, 163.4), 163.4, 81.7,
           "AMD Instinct MI300X data sheet, 2023"),
    Device("MI355X", "gfx950", 256, 2.4, 8000, 32 * _MIB, _cores(2516, 0.0, 5033, 5033, 78.6), 157.3, 78.6,
           "AMD Instinct MI355X data sheet, 2025"),
    Device("RX 7900 XTX", "gfx1100", 48, 2.5, 960, 6 * _MIB, _cores(122.8, 0.0, i8=122.8), 61.4, 1.92,
           "AMD Radeon RX 7900 XTX specifications, 2022", special_lanes=32),
    Device("RX 9070 XT", "gfx1201", 32, 2.97, 640, 8 * _MIB, _cores(195, 0.0, 389, 389), 48.7, 0.76,
           "AMD Radeon RX 9070 XT specifications, 2025", special_lanes=32),
)}  # fmt: skip


def devices_for(arch: int | str) -> list[Device]:
    """The devices of an architecture; for one that the table lacks, those of the nearest of its vendor: of NVIDIA's the
    next older one, of AMD's the one whose name is most alike.

    >>> [d.name for d in devices_for("90a")], [d.name for d in devices_for("gfx1101")]
    (['H100', 'H200'], ['RX 7900 XTX'])
    """
    if str(arch).startswith("gfx"):
        names = [d.arch for d in DEVICES.values() if isinstance(d.arch, str)]
        nearest = max(names, key=lambda name: sum(accumulate(map(eq, name, str(arch)), and_)))  # letters alike
    else:
        number = int("".join(c for c in str(arch) if c.isdigit()) or 0)
        known = sorted({d.arch for d in DEVICES.values() if isinstance(d.arch, int)})
        nearest = max((a for a in known if a <= number), default=known[0])
    return [d for d in DEVICES.values() if d.arch == nearest]


def named(text: str) -> Device | None:
    """The device of a name, however it is written; None if the table has none.

    >>> named("h100").name, named("rtx-4090").name, named("sm_90")
    ('H100', 'RTX 4090', None)
    """
    plain = lambda name: "".join(c for c in name.lower() if c.isalnum())
    return next((d for d in DEVICES.values() if plain(d.name) == plain(text)), None)
