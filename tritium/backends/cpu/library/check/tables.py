"""The tables that checks read and write: what Python and LLVM text both know of them, by name.

Text names fields as `llvm/structs.py` says, and besides

    flag(writes), kind(race), kinds()             a flag, the number of a kind, how many kinds there are
"""

from __future__ import annotations

import re

from ....llvm.structs import Struct, resolve

# What the checks of a launch know. The rows of its parameters come after it.
CONTEXT = Struct(
    "context",
    base="i64",  # the number of a segment; those up to it are of earlier launches
    current="ptr",  # the segment of each program
    segments="ptr",  # null: programs do not synchronise
    next="i64",  # the next segment
    limit="i64",  # the last one, which stands for several readers
    counts="ptr",  # how often, by site and kind
    records="ptr",
    capacity="i64",  # how many records of a site and kind are kept
    regions="i64",  # how many rows there are
    slots="ptr",  # when was released, by the hash of an address
    waits="ptr",  # of each program
    patience="i64",  # nanoseconds
    pattern="i64",  # what memory holds that nobody has written
)

# A row: where the elements of a parameter lie.
REGION = Struct(
    "region",
    low="i64",  # the extent of the elements
    high="i64",
    storage_low="i64",  # of the storage; where tracked, of all storages that overlap
    storage_high="i64",
    flags="i64",
    writers="ptr",  # the cells; null: nobody watches
    readers="ptr",
    shift="i64",  # the size of a cell's element, as a power of two
    read_low="i64",  # what may be read without a closer look
    read_high="i64",
    write_low="i64",  # and written
    write_high="i64",
    dims="ptr",  # of a view with holes: how many axes, size and stride of each, the size of an element
    writing_lanes="ptr",  # cells
)

# A site is an access in the kernel's text.
SITE = Struct("site", number="i64", origin="i64", size="i64", flags="i64")  # origin: a parameter's slot; -1: any
RECORD = Struct("record", kind="i64", program="i64", lane="i64", address="i64", other="i64", value="i64", site="i64")
SEGMENT = Struct("segment", program="i32", closed="i32", seen="i32", spare="i32")
WAIT = Struct("wait", count="i64", begun="i64")
STRUCTS = (CONTEXT, REGION, SITE, RECORD, SEGMENT, WAIT)

# What a record tells, by number; 0 is no kind.
KINDS = ("", "out of bounds", "read-only", "uninitialised", "overflow", "race", "race in program", "endless wait",
         "double store", "misaligned", "missing reset")  # fmt: skip
SLOTS = 4096  # of addresses that programs synchronise on, by hash
# What memory that nobody has written holds: NaN as f32 and as f64.
PATTERN = 0xFFF7A5C3FFF7A5C3

_FLAGS = {
    "reads": 1, "writes": 2, "atomic": 4, "foreign": 8,  # of a site; foreign: pointers may lead out of the parameters
    "writable": 1, "undefined": 2, "holes": 4,  # of a row
    "by_reader": 1 << 40,  # of the other access of a race
}  # fmt: skip
_NAMED = re.compile(r"\b(?:flag\((\w+)\)|kind\(([\w -]+)\)|kinds\(\))")


def flag(*names: str) -> int:
    """The bits of flags.

    >>> flag("reads", "writes")
    3
    """
    return sum(_FLAGS[name] for name in names)


def named(text: str) -> str:
    """LLVM text for a text that names fields, flags and kinds.

    >>> named("and i64 %x, flag(writes)"), named("i64 kind(race), i64 kinds()")
    ('and i64 %x, 2', 'i64 5, i64 11')
    """
    number = lambda m: flag(m[1]) if m[1] else KINDS.index(m[2]) if m[2] else len(KINDS)
    return _NAMED.sub(lambda m: str(number(m)), resolve(text, *STRUCTS))
