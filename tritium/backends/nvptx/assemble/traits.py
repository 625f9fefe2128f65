"""What LLVM and the assemblers want to know of a kernel besides its text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tritium.named_tuples import NamedTuple


class Traits(NamedTuple):
    """Traits of a kernel.

    >>> Traits(threads=128).asking(64).registers
    64
    """

    threads: int  # of a block
    registers: int | None = None  # a thread's, where that many are asked for
    products: bool = False  # on tensor cores
    async_copies: bool = False
    exchanges: bool = False  # warps give registers to others
    sums: tuple[int, ...] = ()  # registers of each accumulator of Hopper's products
    calls: bool = False  # functions that only the driver has
    short_loops: bool = False  # around products, of constant length, which the assembler may unroll
    loads_little: bool = False  # its loops load a word or two of a thread in an iteration

    @classmethod
    def read(cls, metadata: Mapping[str, Any]) -> Traits | None:
        """Those in a kernel's metadata, which may come from a file; None where they are not known.

        >>> Traits.read({"traits": [128, None, True]}).products, Traits.read({})
        (True, None)
        """
        found = metadata.get("traits")
        return None if found is None else cls(*found)

    def asking(self, registers: int) -> Traits:
        """The same kernel, with `registers` per thread asked for."""
        return self._replace(registers=registers)
