"""ELF files as LLVM and ptxas write them: a header, sections and symbols."""

from __future__ import annotations

import struct

from tritium.named_tuples import NamedTuple

MAGIC = b"\x7fELF\x02\x01"  # of 64 bits, little-endian
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SEGMENT = struct.Struct("<IIQQQQQQ")
SYMBOL = struct.Struct("<IBBHQQ")
RELOCATION = struct.Struct("<QQq")
NOTE = struct.Struct("<III")
DYNAMIC = struct.Struct("<QQ")

REL, DYN = 1, 3  # kinds of files: to be linked, to be loaded
SYMTAB, STRTAB, RELA, HASH, DYNAMIC_SECTION, NOTE_SECTION, NOBITS, DYNSYM = 2, 3, 4, 5, 6, 7, 8, 11  # of sections
WRITE, ALLOC, EXECUTE = 1, 2, 4  # flags of sections
LOCAL, WEAK = 0, 2  # bindings of symbols
UNDEFINED, ABSOLUTE = 0, 0xFFF1  # in place of a symbol's section
HIDDEN, INTERNAL = 2, 1  # visibilities of symbols


class Section(NamedTuple):
    """A section and its bytes; `size` alone counts where there are none."""

    name: str
    kind: int
    flags: int
    address: int
    data: bytes
    size: int
    link: int
    info: int
    align: int


class Symbol(NamedTuple):
    """A symbol: its value is an offset in a section before linking, an address after."""

    name: str
    info: int
    other: int
    section: int
    value: int
    size: int

    @property
    def binding(self) -> int:
        """LOCAL, WEAK, or 1 for global."""
        return self.info >> 4

    @property
    def exported(self) -> bool:
        """Whether a loader of the file finds the symbol by name."""
        return self.binding != LOCAL and self.section != UNDEFINED and self.other & 3 not in (HIDDEN, INTERNAL)


class File(NamedTuple):
    """An ELF file: what identifies it, its kind and machine, flags, sections."""

    ident: bytes
    kind: int
    machine: int
    flags: int
    sections: tuple[Section, ...]

    def named(self, name: str) -> Section | None:
        """The section of that name."""
        return next((section for section in self.sections if section.name == name), None)

    def of_kind(self, kind: int) -> list[Section]:
        """The sections of a kind."""
        return [section for section in self.sections if section.kind == kind]

    def symbols(self, kind: int = SYMTAB) -> list[Symbol]:
        """The symbols of a table, with the empty one that each begins with."""
        out = []
        for table in self.of_kind(kind):
            names = self.sections[table.link].data
            for name, info, other, section, value, size in SYMBOL.iter_unpack(table.data):
                out.append(Symbol(text_at(names, name), info, other, section, value, size))
        return out

    def notes(self) -> list[tuple[str, int, bytes]]:
        """(owner, kind, description) of the notes."""
        out = []
        for section in self.of_kind(NOTE_SECTION):
            at, data = 0, section.data
            while at < len(data):
                name, size, kind = NOTE.unpack_from(data, at)
                at += NOTE.size
                start = at + aligned(name, 4)
                out.append((data[at : at + name].rstrip(b"\0").decode(), kind, data[start : start + size]))
                at = start + aligned(size, 4)
        return out


def text_at(data: bytes, at: int) -> str:
    """The zero-terminated text at an offset.

    >>> text_at(bytes([0, 97, 98, 0]), 1)
    'ab'
    """
    return data[at : data.index(b"\0", at)].decode()


def aligned(x: int, to: int) -> int:
    """The first multiple of `to` that is not below x.

    >>> aligned(5, 4), aligned(8, 4)
    (8, 8)
    """
    return -(-x // max(to, 1)) * max(to, 1)


def read(data: bytes) -> File:
    """The file that `data` is."""
    if not data.startswith(MAGIC):
        raise ValueError("not a 64-bit little-endian ELF file")
    ident, kind, machine, _, _, _, table, flags, _, _, _, _, count, names = HEADER.unpack_from(data)
    rows = [SECTION.unpack_from(data, table + k * SECTION.size) for k in range(count)]
    offset, size = rows[names][4:6]
    texts = data[offset : offset + size]
    sections = tuple(
        Section(text_at(texts, name), kind_, flags_, address, b"" if kind_ in (0, NOBITS) else data[at : at + size],
                size, link, info, align)
        for name, kind_, flags_, address, at, size, link, info, align, _ in rows)  # fmt: skip
    return File(ident, kind, machine, flags, sections)
