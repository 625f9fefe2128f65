"""The peaks of devices, in one table: what predictions are made with.

Figures are the vendors' for dense work at boost clock, from the data sheets named; `sustained` are shares of a peak
that real kernels reach. Those of the H200 were measured: a copy of 1 GiB moves 4238 GB/s (0.88 of 4.8 TB/s), a product
of large f16 matrices makes 655 TFLOP/s at the power limit (0.66 of 989).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Device:
    """Peaks of one device: bytes and operations a second."""

    name: str
    arch: int  # of its target, cuda:arch
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
    measured: bool = False

    @property
    def l2(self) -> float:
        """GB/s between L2 and the SMs: 64 bytes of each SM in a cycle."""
        return self.processors * 64 * self.clock

    @property
    def special(self) -> float:
        """T operations/s of the special function units: 16 of each SM in a cycle."""
        return self.processors * 16 * self.clock / 1e3

    def rate(self, kind: str) -> float:
        """Operations a second that work of a class reaches at best: 'f16' to 'f64' on tensor cores, 'fp32', 'fp64',
        'special' elsewhere.

        >>> round(DEVICES["A100"].rate("f16") / 1e12)
        234
        """
        if kind in self.tensor:
            return self.tensor[kind] * 1e12 * self.sustained_tensor
        return {"fp32": self.fp32, "fp64": self.fp64, "special": self.special}.get(kind, self.fp32) * 1e12


_MIB = 1 << 20


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
    Device("H100", 90, 132, 1.83, 3350, 50 * _MIB, _cores(989, 494, 1979, 1979, 67), 66.9, 33.5,
           "NVIDIA H100 SXM data sheet, 2023"),
    Device("H200", 90, 132, 1.83, 4800, 50 * _MIB, _cores(989, 494, 1979, 1979, 67), 66.9, 33.5,
           "NVIDIA H200 data sheet, 2024", sustained_dram=0.883, sustained_tensor=0.66, measured=True),
    Device("B200", 100, 148, 1.85, 8000, 126 * _MIB, _cores(2250, 1100, 4500, 4500, 37), 75, 37,
           "NVIDIA DGX B200 data sheet, 2024"),
    Device("RTX 5090", 120, 170, 2.41, 1792, 96 * _MIB, _cores(419, 104.8, 838, 838), 104.8, 1.6,
           "NVIDIA Blackwell RTX whitepaper, 2025"),
)}  # fmt: skip


def devices_for(arch: int | str) -> list[Device]:
    """The devices of an architecture; for one that the table lacks, those of the nearest older one.

    >>> [d.name for d in devices_for("90a")]
    ['H100', 'H200']
    """
    number = int("".join(c for c in str(arch) if c.isdigit()) or 0)
    known = sorted({d.arch for d in DEVICES.values()})
    nearest = max((a for a in known if a <= number), default=known[0])
    return [d for d in DEVICES.values() if d.arch == nearest]
