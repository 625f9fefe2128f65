"""Object files of our own put into memory without LLVM, whose library takes longer to load than a kernel to start.

Only what LLVM writes for the launcher is understood: ELF for x86-64 and AArch64, compiled position-independent for the
small code model. Functions elsewhere are reached through stubs, objects elsewhere through a table of their addresses.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ...locks import once
from ...named_tuples import NamedTuple
from ..llvm import elf


class UnknownObject(Exception):
    """An object file that needs a real linker."""


class Host(NamedTuple):
    """Any CPU of this machine's kind, as LLVM calls it: what needs no special instructions is compiled for it."""

    triple: str
    cpu: str
    features: str = ""


HOSTS = {"x86_64": Host("x86_64-unknown-linux-gnu", "x86-64"),
          "aarch64": Host("aarch64-unknown-linux-gnu", "generic")}  # fmt: skip


def host() -> Host | None:
    """What to compile objects for that `load` understands; None on other kinds of machines.

    >>> host() in (None, *HOSTS.values())
    True
    """
    known = sys.platform == "linux" and sys.byteorder == "little" and struct.calcsize("P") == 8
    return HOSTS.get(os.uname().machine) if known else None


# -- relocations: (value of the field, from the place and the symbol) --------------------------------------------------


def _word64(memory: Any, at: int, place: int, value: int) -> None:
    struct.pack_into("<Q", memory, at, value & (1 << 64) - 1)


def _relative32(memory: Any, at: int, place: int, value: int) -> None:
    struct.pack_into("<i", memory, at, value - place)


_instruction = struct.Struct("<I")


def _bits(shift: int, count: int, place_bits: int, relative: bool = False) -> Callable:
    """Put `count` bits of a value, from bit `shift` on, into an instruction at bit `place_bits`."""
    mask = (1 << count) - 1

    def patch(memory: Any, at: int, place: int, value: int) -> None:
        field = ((value - place if relative else value) >> shift) & mask
        word, = _instruction.unpack_from(memory, at)
        _instruction.pack_into(memory, at, word | field << place_bits)

    return patch


def _page(memory: Any, at: int, place: int, value: int) -> None:
    """ADRP: the two lowest bits of the distance in pages stand apart."""
    pages = (value >> 12) - (place >> 12)
    word, = _instruction.unpack_from(memory, at)
    _instruction.pack_into(memory, at, word | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5)


class _Kind(NamedTuple):
    """How a relocation is carried out; `via` says whether the symbol is reached by a stub or by the table."""

    patch: Callable
    via: str = ""


def _low12(size: int) -> _Kind:
    return _Kind(_bits(size, 12 - size, 10))


class _Machine(NamedTuple):
    """A kind of CPU: its number in ELF, its relocations, and the code that jumps to the address behind it."""

    number: int
    kinds: dict[int, _Kind]
    jump: bytes


_MACHINES = {
    "x86_64": _Machine(62, {
        1: _Kind(_word64), 2: _Kind(_relative32), 4: _Kind(_relative32, "stub"),
        **dict.fromkeys((9, 41, 42), _Kind(_relative32, "table")),
    }, bytes.fromhex("ff25020000009090")),  # jmp *2(%rip); nop; nop
    "aarch64": _Machine(183, {
        257: _Kind(_word64), 275: _Kind(_page), 277: _low12(0), 278: _low12(0), 284: _low12(1), 285: _low12(2),
        286: _low12(3), 299: _low12(4), 311: _Kind(_page, "table"), 312: _low12(3)._replace(via="table"),
        **dict.fromkeys((282, 283), _Kind(_bits(2, 26, 0, relative=True), "stub")),
    }, bytes.fromhex("50000058" "00021fd6")),  # ldr x16, 8; br x16
}  # fmt: skip

# -- loading -----------------------------------------------------------------------------------------------------------

_PAGE, _STUB, _SLOT = 65536, 16, 8  # the largest pages of either kind of machine


def _read(code: bytes, machine: str) -> tuple[elf.File, _Machine]:
    """A relocatable object file of a kind of machine, and what is known of that."""
    found = _MACHINES.get(machine)
    file = elf.read(code) if code.startswith(elf.MAGIC) else None
    if file is None or found is None or (file.kind, file.machine) != (elf.REL, found.number):
        raise UnknownObject("not a relocatable ELF file of this machine")
    return file, found


@once
def _process():
    return ctypes.CDLL(None)


def _address(name: str, symbols: Mapping[str, int]) -> int:
    found = symbols.get(name)
    if found is None:
        try:
            found = ctypes.addressof(ctypes.c_char.in_dll(_process(), name))
        except ValueError:
            raise UnknownObject(f"nothing is called {name}") from None
    return found or 0


class _Plan:
    """Where everything goes: code and stubs, from the next page on data and the table of addresses.

    Sections that unwind stacks are left out.
    """

    def __init__(self, file: elf.File, machine: _Machine):
        self.file, self.machine, self.symbols = file, machine, file.symbols()
        self.kept = [k for k, section in enumerate(file.sections)
                     if section.flags & elf.ALLOC and section.name != ".eh_frame"]  # fmt: skip
        self.relocations = list(self._relocations())
        self.stubs, self.table = self._named("stub"), self._named("table")
        self.places: dict[int, int] = {}
        at = self._place(0, executable=True)
        self.first_stub = (at + 15) & -16
        self.data = (self.first_stub + _STUB * len(self.stubs) + _PAGE - 1) & -_PAGE
        at = self._place(self.data, executable=False)
        self.first_slot = (at + 7) & -8
        self.size = self.first_slot + _SLOT * max(len(self.table), 1)

    def _relocations(self) -> Iterator[tuple[int, int, elf.Symbol, _Kind, int]]:
        """(section, offset, symbol, kind, addend)."""
        for table in self.file.of_kind(elf.RELA):
            for offset, info, addend in elf.RELOCATION.iter_unpack(table.data) if table.info in self.kept else ():
                kind = self.machine.kinds.get(info & 0xFFFFFFFF)
                if kind is None:
                    raise UnknownObject(f"relocation {info & 0xFFFFFFFF}")
                yield table.info, offset, self.symbols[info >> 32], kind, addend

    def _named(self, via: str) -> dict[str, int]:
        """Symbols reached this way, numbered; what is in the file needs no stub."""
        names = (symbol.name for _, _, symbol, kind, _ in self.relocations
                 if kind.via == via and (via == "table" or symbol.section == elf.UNDEFINED))
        return {name: k for k, name in enumerate(dict.fromkeys(names))}

    def _place(self, at: int, executable: bool) -> int:
        for k in self.kept:
            section = self.file.sections[k]
            if bool(section.flags & elf.EXECUTE) is executable:
                self.places[k] = at = elf.aligned(at, section.align)
                at += section.size
        return at

    def write(self, memory: Any, base: int, symbols: Mapping[str, int]) -> dict[str, int]:
        """Fill the memory that begins at `base`; name -> address of what the file defines."""
        defined = {}
        for k, place in self.places.items():
            data = self.file.sections[k].data
            memory[place: place + len(data)] = data
        for symbol in self.symbols:
            if symbol.section in self.places and symbol.name:
                defined[symbol.name] = base + self.places[symbol.section] + symbol.value
        known = {name: _address(name, symbols) for name in {**self.stubs, **self.table} if name not in defined}
        known |= defined
        for name, k in self.stubs.items():
            at = self.first_stub + _STUB * k
            memory[at: at + _STUB] = self.machine.jump + struct.pack("<Q", known[name])
        for name, k in self.table.items():
            struct.pack_into("<Q", memory, self.first_slot + _SLOT * k, known[name])
        for section, offset, symbol, kind, addend in self.relocations:
            at = self.places[section] + offset
            kind.patch(memory, at, base + at, self._target(symbol, kind, base, known, symbols) + addend)
        return defined

    def _target(self, symbol: elf.Symbol, kind: _Kind, base: int, known: Mapping[str, int],
                symbols: Mapping[str, int]) -> int:
        if kind.via == "table":
            return base + self.first_slot + _SLOT * self.table[symbol.name]
        if symbol.section in self.places:
            return base + self.places[symbol.section] + symbol.value
        if symbol.section != elf.UNDEFINED:
            raise UnknownObject(f"symbol {symbol.name} in section {symbol.section}")
        if kind.via == "stub":
            return base + self.first_stub + _STUB * self.stubs[symbol.name]
        if kind.patch is not _word64:
            raise UnknownObject(f"{symbol.name} may be out of reach")
        return known.get(symbol.name) or _address(symbol.name, symbols)


class Loaded:
    """An object file in the memory of this process, which is given back with the last reference.

    >>> Loaded(b"no object", {})
    Traceback (most recent call last):
    tritium.backends.launcher.image.UnknownObject: not a relocatable ELF file of this machine
    """

    __slots__ = ("_addresses", "_memory")

    def __init__(self, object_code: bytes, symbols: Mapping[str, int]):
        import mmap

        plan = _Plan(*_read(object_code, os.uname().machine))
        memory = mmap.mmap(-1, plan.size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        defined = plan.write(memory, base, symbols)
        code = (ctypes.c_void_p(base), ctypes.c_size_t(plan.data), mmap.PROT_READ | mmap.PROT_EXEC)
        if _process().mprotect(*code):  # Linux makes what was written visible to the instruction cache as it does so
            raise UnknownObject("code may not be made executable")
        self._memory: mmap.mmap | None = memory
        self._addresses = defined

    def address(self, name: str) -> int:
        """Where something that the file defines lies."""
        return self._addresses[name]

    def unload(self) -> None:
        """Give the memory back now, regardless of other references."""
        self._memory = None
        self._addresses.clear()

    def pin(self) -> Loaded:
        """Keep the code for good: threads may still run it while Python shuts down."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
        return self


def load(object_code: bytes, symbols: Mapping[str, int], exports: Iterable[str]) -> dict[str, int]:
    """Put an object file into this process for good; where each of `exports` lies.

    `symbols` gives the addresses of what it refers to; what is not there is looked up among the process's own.
    Raises UnknownObject for files that need LLVM's linker.

    >>> load(b"no object", {}, ())
    Traceback (most recent call last):
    tritium.backends.launcher.image.UnknownObject: not a relocatable ELF file of this machine
    """
    loaded = Loaded(object_code, symbols).pin()
    return {name: loaded.address(name) for name in exports}


def undefined(object_code: bytes, machine: str) -> set[str]:
    """The symbols that an object file for such a machine refers to and does not define."""
    file, _ = _read(object_code, machine)
    return {symbol.name for symbol in file.symbols() if symbol.section == elf.UNDEFINED} - {""}
