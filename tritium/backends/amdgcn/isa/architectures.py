"""The architectures there are: generation, lanes of a warp, sizes."""

from __future__ import annotations

from collections.abc import Sequence

from tritium.named_tuples import NamedTuple


class Architecture(NamedTuple):
    """The sizes of an architecture: of one thread, and of a SIMD."""

    name: str
    family: str  # "cdna1", ..., "rdna4"
    lds: int = 65536  # bytes of shared memory of a program
    registers: int = 512  # vector registers of a thread: half of CDNA's are for accumulation
    file: int = 512  # vector registers of a lane's column in a SIMD, ordinary and accumulation ones
    waves: int = 8  # warps that a SIMD holds

    @property
    def warp_size(self) -> int:
        """Lanes of a warp."""
        return 64 if self.family.startswith(("gcn", "cdna")) else 32

    @property
    def generation(self) -> int:
        """The number of the instruction set: 9 (GCN, CDNA), 10, 11, 12 (RDNA)."""
        return {"gcn5": 9, "rdna1": 10, "rdna2": 10, "rdna3": 11, "rdna3.5": 11, "rdna4": 12}.get(self.family, 9)


def _rdna(family: str, names: Sequence[str], file: int, waves: int = 16) -> list[Architecture]:
    return [Architecture(name, family, registers=256, file=file, waves=waves) for name in names]


# RDNA has two SIMDs in a compute unit, and work-groups may span two compute units.
_ALL = [
    *(Architecture(name, "gcn5", registers=256, file=256, waves=10) for name in ("gfx900", "gfx906")),
    Architecture("gfx908", "cdna1", waves=10),
    Architecture("gfx90a", "cdna2"),
    Architecture("gfx942", "cdna3"),
    Architecture("gfx950", "cdna4", lds=163840),
    *_rdna("rdna1", ("gfx1010", "gfx1011", "gfx1012"), 1024, 20),
    *_rdna("rdna2", ("gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"), 1024),
    *_rdna("rdna3", ("gfx1100", "gfx1101"), 1536),
    *_rdna("rdna3", ("gfx1102", "gfx1103"), 1024),
    *_rdna("rdna3.5", ("gfx1150", "gfx1152", "gfx1153"), 1024),
    *_rdna("rdna3.5", ("gfx1151",), 1536),
    *_rdna("rdna4", ("gfx1200", "gfx1201"), 1536),
]
ARCHITECTURES = {architecture.name: architecture for architecture in _ALL}
