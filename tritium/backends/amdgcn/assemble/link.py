"""A linker for one relocatable object of LLVM's AMDGPU target: what the HIP runtime loads is a shared object.

The file has three segments, each in pages of its own: what is read (notes, symbols, kernel descriptors, constants),
code, and what is written. The offset in a page is the same in the file and in memory, so the file has no holes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from ....errors import InternalError
from ....named_tuples import NamedTuple
from ...llvm import elf
from ...llvm.elf import ALLOC, EXECUTE, WRITE, Section, Symbol, aligned

PAGE = 0x1000
# Relocations: a width in bytes, a shift, and whether the value counts from the place.
_KINDS = {1: (4, 0, False), 2: (4, 32, False), 3: (8, 0, False), 4: (4, 0, True), 5: (8, 0, True), 6: (4, 0, False),
          10: (4, 0, True), 11: (4, 32, True)}  # fmt: skip
_LOAD, _DYNAMIC, _NOTE, _PHDR, _STACK = 1, 2, 4, 6, 0x6474E551
_DEBUG = ".debug_"
_DT = {"hash": 4, "strtab": 5, "symtab": 6, "strsz": 10, "syment": 11}


class _Piece(NamedTuple):
    """A section of the output: its number in the object (0 if it is new), and its bytes, perhaps known later."""

    number: int
    section: Section


def link(data: bytes) -> bytes:
    """The shared object of a relocatable object.

    >>> from tritium.backends.amdgcn.isa.target import AmdTarget
    >>> from tritium.backends.llvm.target import compile_text
    >>> made = link(compile_text("define amdgpu_kernel void @k() { ret void }", AmdTarget.of("gfx942")))
    >>> [symbol.name for symbol in elf.read(made).symbols(elf.DYNSYM)]
    ['', 'k', 'k.kd']
    """
    file = elf.read(data)
    if file.kind != elf.REL:
        raise InternalError("the linker takes one relocatable object")
    symbols = file.symbols()
    missing = [s.name for s in symbols if s.section == elf.UNDEFINED and s.name and s.binding != elf.WEAK]
    if missing:
        raise InternalError(f"the code calls functions that nobody defines: {', '.join(missing)}")
    exported = [s for s in symbols if s.exported]
    pieces = _pieces(file, exported)
    placed, segments, end = _place(pieces, _segment_count(pieces))
    addresses = {piece.number: at for piece, (at, _) in zip(pieces, placed) if piece.number}
    contents = [_relocated(file, symbols, piece, addresses) for piece in pieces]
    at = {piece.section.name: where for piece, (where, _) in zip(pieces, placed)}
    order = {piece.number: k + 1 for k, piece in enumerate(pieces) if piece.number}
    for k, piece in enumerate(pieces):
        if piece.section.name == ".dynsym":
            contents[k] = _symbol_table(exported, pieces, addresses, order)
        elif piece.section.name == ".dynamic":
            contents[k] = _dynamic(at, pieces)
    return _written(file, pieces, placed, contents, segments, end)


# --- what there is ----------------------------------------------------------------------------------------------------
def _pieces(file: elf.File, exported: Sequence[Symbol]) -> list[_Piece]:
    """The sections of the output in the order of their addresses; those that are not loaded come last."""
    kept = [(k, s) for k, s in enumerate(file.sections) if s.flags & ALLOC or s.name.startswith(_DEBUG)]
    loaded = [_Piece(k, s) for k, s in kept if s.flags & ALLOC and (s.size or s.kind == elf.NOTE_SECTION)]
    names = _strings(s.name for s in exported)
    make = lambda name, kind, data, flags=ALLOC, align=8: _Piece(
        0, Section(name, kind, flags, 0, data, len(data), 0, 0, align))
    tables = [
        make(".dynsym", elf.DYNSYM, bytes(elf.SYMBOL.size * (len(exported) + 1))),
        make(".hash", elf.HASH, _hash_table([s.name for s in exported]), align=4),
        make(".dynstr", elf.STRTAB, names, align=1),
    ]
    notes = [p for p in loaded if p.section.kind == elf.NOTE_SECTION]
    constants = [p for p in loaded if not p.section.flags & (WRITE | EXECUTE) and p not in notes]
    code = [p for p in loaded if p.section.flags & EXECUTE]
    written = sorted((p for p in loaded if p.section.flags & WRITE), key=lambda p: p.section.kind == elf.NOBITS)
    dynamic = make(".dynamic", elf.DYNAMIC_SECTION, bytes(elf.DYNAMIC.size * (len(_DT) + 1)), ALLOC | WRITE)
    rest = [_Piece(k, s) for k, s in kept if not s.flags & ALLOC]
    return [*notes, *tables, *constants, *code, dynamic, *written, *rest]


def _strings(names: Iterable[str]) -> bytes:
    return b"\0" + b"".join(name.encode() + b"\0" for name in names)


def _hash(name: str) -> int:
    h = 0
    for c in name.encode():
        h = (h << 4) + c
        high = h & 0xF0000000
        h = (h ^ high >> 24) & ~high & 0xFFFFFFFF
    return h


def _hash_table(names: Sequence[str]) -> bytes:
    """One bucket for each symbol, chains of those that share one."""
    count = len(names)
    buckets, chains = [0] * max(count, 1), [0] * (count + 1)
    for k, name in enumerate(names, 1):
        where = _hash(name) % len(buckets)
        chains[k], buckets[where] = buckets[where], k
    return struct.pack(f"<{2 + len(buckets) + len(chains)}I", len(buckets), len(chains), *buckets, *chains)


# --- where it goes ----------------------------------------------------------------------------------------------------
def _rights(section: Section) -> int:
    """The rights of a segment, as program headers have them: read 4, write 2, execute 1."""
    return 4 | (2 if section.flags & WRITE else 0) | (1 if section.flags & EXECUTE else 0)


def _segment_count(pieces: Sequence[_Piece]) -> int:
    return len({_rights(p.section) for p in pieces if p.section.flags & ALLOC}) + 4


class _Segment(NamedTuple):
    rights: int
    offset: int
    address: int
    file_size: int
    size: int


def _place(pieces: Sequence[_Piece], headers: int) -> tuple[list[tuple[int, int]], list[_Segment], int]:
    """((address, offset) of each piece, the segments, the size of the file so far)."""
    at = elf.HEADER.size + headers * elf.SEGMENT.size
    bias, placed, segments = 0, [], []
    start, rights, memory = 0, 4, at
    for piece in pieces:
        section = piece.section
        loaded = bool(section.flags & ALLOC)
        if loaded and _rights(section) != rights or not loaded and rights:
            segments.append(_Segment(rights, start, start + bias, at - start, memory - start - bias))
            start = at = aligned(at, section.align)
            bias, rights = aligned(memory, PAGE) + at % PAGE - at, _rights(section) if loaded else 0
        at = aligned(at, section.align) if section.kind != elf.NOBITS else at
        address = aligned(at + bias if section.kind != elf.NOBITS else memory, section.align)
        placed.append((address if loaded else 0, at))
        at += 0 if section.kind == elf.NOBITS else section.size
        memory = address + section.size
    if rights:
        segments.append(_Segment(rights, start, start + bias, at - start, memory - start - bias))
    return placed, segments, at


# --- what is in it ----------------------------------------------------------------------------------------------------
def _relocated(file: elf.File, symbols: Sequence[Symbol], piece: _Piece, addresses: dict[int, int]) -> bytes:
    """The bytes of a section with its relocations done."""
    data = bytearray(piece.section.data)
    if not piece.number:
        return bytes(data)
    for table in file.of_kind(elf.RELA):
        if table.info != piece.number:
            continue
        for offset, info, addend in elf.RELOCATION.iter_unpack(table.data):
            symbol, kind = symbols[info >> 32], info & 0xFFFFFFFF
            if kind not in _KINDS or kind == 3 and piece.section.flags & ALLOC:
                raise InternalError(f"a relocation of kind {kind} against {symbol.name!r} in {piece.section.name}")
            size, shift, relative = _KINDS[kind]
            value = _address(symbol, addresses) + addend
            value -= addresses[piece.number] + offset if relative else 0
            data[offset : offset + size] = (value >> shift & (1 << 8 * size) - 1).to_bytes(size, "little")
    return bytes(data)


def _address(symbol: Symbol, addresses: dict[int, int]) -> int:
    base = 0 if symbol.section in (elf.ABSOLUTE, elf.UNDEFINED) else addresses[symbol.section]
    return base + symbol.value


def _symbol_table(exported: Sequence[Symbol], pieces: Sequence[_Piece], addresses: dict[int, int],
                  order: dict[int, int]) -> bytes:
    names, out = next(p.section.data for p in pieces if p.section.name == ".dynstr"), [bytes(elf.SYMBOL.size)]
    at = 1
    for s in exported:
        out.append(elf.SYMBOL.pack(at, s.info, s.other, order.get(s.section, elf.ABSOLUTE), _address(s, addresses),
                                   s.size))  # fmt: skip
        at = names.index(b"\0", at) + 1
    return b"".join(out)


def _dynamic(at: dict[str, int], pieces: Sequence[_Piece]) -> bytes:
    size = next(p.section.size for p in pieces if p.section.name == ".dynstr")
    values = {"hash": at[".hash"], "strtab": at[".dynstr"], "symtab": at[".dynsym"], "strsz": size,
              "syment": elf.SYMBOL.size}  # fmt: skip
    return b"".join(elf.DYNAMIC.pack(_DT[name], value) for name, value in values.items()) + bytes(elf.DYNAMIC.size)


# --- the file ---------------------------------------------------------------------------------------------------------
def _written(file: elf.File, pieces: Sequence[_Piece], placed: Sequence[tuple[int, int]], contents: Sequence[bytes],
             segments: Sequence[_Segment], end: int) -> bytes:
    names = _strings([*(p.section.name for p in pieces), ".shstrtab"])
    table = aligned(end + len(names), 8)
    out = bytearray(table + elf.SECTION.size * (len(pieces) + 2))
    headers = _program_headers(pieces, placed, segments)
    elf.HEADER.pack_into(out, 0, file.ident, elf.DYN, file.machine, 1, 0, elf.HEADER.size, table, file.flags,
                         elf.HEADER.size, elf.SEGMENT.size, len(headers), elf.SECTION.size, len(pieces) + 2,
                         len(pieces) + 1)  # fmt: skip
    for k, header in enumerate(headers):
        elf.SEGMENT.pack_into(out, elf.HEADER.size + k * elf.SEGMENT.size, *header)
    strings = {p.section.name: k + 1 for k, p in enumerate(pieces)}
    name, row = 1, table + elf.SECTION.size
    for piece, (address, offset), data in zip(pieces, placed, contents):
        s = piece.section
        link, info = {".dynsym": (strings[".dynstr"], 1), ".hash": (strings[".dynsym"], 0),
                      ".dynamic": (strings[".dynstr"], 0)}.get(s.name, (0, 0))  # fmt: skip
        each = {".dynsym": elf.SYMBOL.size, ".hash": 4, ".dynamic": elf.DYNAMIC.size}.get(s.name, 0)
        out[offset : offset + len(data)] = data
        elf.SECTION.pack_into(out, row, name, s.kind, s.flags & 7, address, offset, s.size, link, info, s.align, each)
        name, row = name + len(s.name.encode()) + 1, row + elf.SECTION.size
    out[end : end + len(names)] = names
    elf.SECTION.pack_into(out, row, name, elf.STRTAB, 0, 0, end, len(names), 0, 0, 1, 0)
    return bytes(out)


def _program_headers(pieces: Sequence[_Piece], placed: Sequence[tuple[int, int]],
                     segments: Sequence[_Segment]) -> list[tuple[int, ...]]:
    by_name = {p.section.name: (p.section, *where) for p, where in zip(pieces, placed)}
    count, size = len(segments) + 4, elf.SEGMENT.size
    out = [(_PHDR, 4, elf.HEADER.size, elf.HEADER.size, elf.HEADER.size, count * size, count * size, 8)]
    out += [(_LOAD, s.rights, s.offset, s.address, s.address, s.file_size, s.size, PAGE) for s in segments]
    dynamic, address, offset = by_name[".dynamic"]
    out.append((_DYNAMIC, 6, offset, address, address, dynamic.size, dynamic.size, 8))
    out.append((_STACK, 6, 0, 0, 0, 0, 0, 0))
    notes = [(p.section, *where) for p, where in zip(pieces, placed) if p.section.kind == elf.NOTE_SECTION]
    if notes:
        (_, first, start), (last, address, _) = notes[0], notes[-1]
        length = address + last.size - first
        out.append((_NOTE, 4, start, first, first, length, length, 4))
    return out + [(0,) * 8] * (count - len(out))
