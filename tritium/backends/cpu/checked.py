"""Launches of sanitized kernels: what their checks have to know of the arguments, and what they found.

For each parameter the context holds where its elements lie, and for memory that the kernel writes, cells that tell who
touched each element last (library/check). `knobs.sanitizer` hears of every launch that did something wrong.
"""

from __future__ import annotations

import ctypes
import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tritium import knobs
from tritium.backends.cpu.library import check
from tritium.backends.launcher.calls import pack
from tritium.backends.launcher.preconditions import Guard
from tritium.interp.memory import locate
from tritium.ir import types as T
from tritium.ir.preconditions import preconditions_of
from tritium.language.types.signature import flatten
from tritium.locks import lock
from tritium.named_tuples import NamedTuple
from tritium.tensors import hold, slots

CAPACITY = 8  # records of each kind that are kept for a site
MOST_CELLS = 1 << 30  # memory with more elements is not watched for races
PATIENCE = 20.0  # seconds that a loop may wait for another program

# Where memory begins that was made without contents, and filled with the pattern.
uninitialised: set[int] = set()
patience = PATIENCE


@dataclasses.dataclass
class Argument:
    """A pointer argument: its name, the extent of its elements and of its storage, and how it is laid out."""

    name: str
    address: int
    low: int = 0
    high: int = 0
    storage_low: int = 0
    storage_high: int = 0
    writable: bool = True
    itemsize: int = 1
    dtype: str = ""
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None  # in bytes
    keep: Any = None
    group: Any = None

    def index(self, address: int) -> tuple[int, ...] | None:
        """The index of the element at an address, where it is one."""
        if not self.shape or self.strides is None or any(s <= 0 for s in self.strides):
            return None
        strides, left, out = self.strides, address - self.address, [0] * len(self.shape)
        for axis in sorted(range(len(self.shape)), key=lambda a: -strides[a]):
            out[axis], left = divmod(left, strides[axis]) if self.shape[axis] > 1 else (0, left)
        inside = all(0 <= i < n for i, n in zip(out, self.shape))
        return tuple(out) if inside and 0 <= left < self.itemsize else None


@dataclasses.dataclass
class Found:
    """What a launch did wrong: `records` are rows of `check.RECORD`, with the other program of a race, `by` (-1:
    several); `counts` is how often by site and kind."""

    kernel: Any  # its metadata
    grid: tuple[int, int, int]
    arguments: dict[int, Argument]  # by slot
    records: list[dict[str, int]]
    counts: dict[tuple[int, int], int]


class _Cells:
    """Arrays of cells that launches reuse, and the next number of a segment: older numbers mean nothing."""

    def __init__(self):
        self.lock = lock()
        self.next, self.free = 0, []

    def number(self, count: int) -> int:
        """Numbers of segments: those after the result."""
        with self.lock:
            if self.next + count >= (1 << 31) - 2:
                self.next, self.free = 0, []
            base, self.next = self.next, self.next + count
            return base

    def take(self, count: int) -> np.ndarray:
        """An array of at least `count` cells."""
        with self.lock:
            fits = [k for k, cells in enumerate(self.free) if count <= len(cells) <= 4 * count + (1 << 16)]
            if fits:
                return self.free.pop(min(fits, key=lambda k: len(self.free[k])))
        return np.zeros(count, np.uint32)

    def give_back(self, arrays: list[np.ndarray]) -> None:
        """Keep some for later launches."""
        with self.lock:
            self.free = sorted([*self.free, *arrays], key=len)[-32:]
            while len(self.free) > 4 and sum(cells.nbytes for cells in self.free) > 4 << 30:
                self.free.pop()


_cells = _Cells()
_RACE = check.KINDS.index("race")
_WORDS, _ROW = check.CONTEXT.size // 8, check.REGION.size // 8  # of a table
_one_at_a_time = lock()  # two launches at a time would be taken for one another in the cells


class _Group:
    """Arguments that share memory: one storage, or several that overlap."""

    def __init__(self, low: int):
        self.low, self.high, self.members = low, low, []


def _set_groups(arguments: Iterable[Argument]) -> None:
    """Give each argument the group of those whose storages overlap."""
    group = None
    for argument in sorted(arguments, key=lambda a: a.storage_low):
        if group is None or argument.storage_low >= group.high:
            group = _Group(argument.storage_low)
        group.high = max(group.high, argument.storage_high)
        group.members.append(argument)
        argument.group = group


class CheckedLauncher:
    """Launches one sanitized kernel; a drop-in for the driver's launcher."""

    checks = 0
    fallback: Any = None

    def __init__(self, src: Any, metadata: Any, launch: Callable, room: int):
        self._metadata, self._launch, self._room = metadata, launch, room
        self._names, self._types = tuple(src.signature), tuple(src.signature.values())
        self._sites = [_Site(*site) for site in metadata.sites]
        self._uses = _Uses(self._sites, metadata.rereads)
        self._preconditions = None
        if metadata.preconditions:
            self._preconditions = Guard(preconditions_of(metadata))

    def __call__(self, gx: int, gy: int, gz: int, stream: Any, function: int, packed_metadata: Any, told: Any,
                 enter: Any, leave: Any, *args: Any) -> None:
        args = tuple([x if type_ == "constexpr" else hold(x) for type_, x in zip(self._types, args, strict=True)])
        parts = [part for type_, x, name in zip(self._types, args, self._names) for part in parts_of(type_, x, name)]
        packed = b"".join(pack(type_, value) for type_, value, _, _ in parts)
        at = ctypes.cast(ctypes.c_char_p(packed), ctypes.c_void_p).value or 0
        if self._preconditions is not None and not self._preconditions.hold((gx, gy, gz), at):
            other = self.fallback()
            other.run(gx, gy, gz, stream, other.function, packed_metadata, told, enter, leave, *args)
            return
        arguments = {slot: argument_of(name, value, x)
                     for slot, (_, value, x, name) in enumerate(parts) if x is not None}
        if enter is not None:
            enter(told)
        found = None
        try:
            with _one_at_a_time:
                context = Context(self._metadata, self._sites, self._uses, (gx, gy, gz), arguments, len(parts))
                try:
                    self._launch(function, self._room, gx, gy, gz, packed + pack("i64", context.address))
                finally:
                    found = context.found()
                    context.close()
        finally:  # a kernel that fails an assertion may have made mistakes before
            if found is not None:
                knobs.sanitizer(found)
        if leave is not None:
            leave(told)


class _Site:
    def __init__(self, access: str, origin: int, element: Any, shape: tuple[int, ...], places: Any):
        self.access, self.origin, self.element, self.shape, self.places = access, origin, element, shape, places

    @property
    def writes(self) -> bool:
        return self.access in ("store", "atomic", "swap")


class _Use(NamedTuple):
    """What a kernel does to the memory of a slot: `least` is the size of the smallest element it touches."""

    reads: bool
    writes: bool
    rereads: bool
    least: int


class _Uses:
    """What a kernel does to each slot: the same in every launch."""

    def __init__(self, sites: list[_Site], rereads: Iterable[int]):
        self._sites, self._rereads = sites, frozenset(rereads)
        self._known: dict[int, _Use] = {}

    def of(self, slot: int) -> _Use:
        """Of one slot; pointers that may lead anywhere lead there, too."""
        if slot not in self._known:
            touching = [s for s in self._sites if s.origin == slot or s.origin < 0 and s.access != "wait"]
            self._known[slot] = _Use(
                any(site.access in ("load", "volatile") for site in touching), any(site.writes for site in touching),
                any(origin == slot or origin < 0 for origin in self._rereads),
                min([_bytes(site.element) for site in touching], default=1 << 30))
        return self._known[slot]


def parts_of(type_: Any, x: Any, name: str) -> list[tuple]:
    """(type, value, tensor or None, name) of each slot of an argument."""
    if type_.__class__ is not str:
        return [part for k, (t, item) in enumerate(zip(type_, x)) for part in parts_of(t, item, f"{name}[{k}]")]
    tensor = x.base if type_.startswith("tensordesc") else x
    return [(t, value, tensor if t[0] == "*" else None, name) for t, value in slots(type_, x)]


def argument_of(name: str, address: int, x: Any) -> Argument:
    """What is known of the memory of a pointer argument."""
    try:
        found = locate(x)
    except TypeError:  # an address, or an object that does not tell its extent
        return Argument(name, address)
    shape = strides = None
    if isinstance(getattr(x, "strides", None), tuple) and hasattr(x, "shape"):
        shape, strides = tuple(x.shape), tuple(x.strides)
    elif hasattr(x, "untyped_storage"):
        shape, strides = tuple(x.shape), tuple(s * found.itemsize for s in x.stride())
    return Argument(name, address, found.low, found.high, min(found.storage_low, found.low),
                    max(found.storage_high, found.high), found.writable, found.itemsize, found.dtype, shape, strides, x)


class Context:
    """The table that the checks of one launch read, and where they write."""

    def __init__(self, metadata: Any, sites: list[_Site], uses: _Uses, grid: tuple[int, int, int],
                 arguments: dict[int, Argument], count: int):
        self.metadata, self.sites, self.uses, self.grid, self.arguments = metadata, sites, uses, grid, arguments
        self._keep: list[np.ndarray] = []
        self._taken: dict[tuple, np.ndarray] = {}
        self.programs = grid[0] * grid[1] * grid[2]
        self.words = np.zeros(_WORDS + count * _ROW, np.int64)
        self.counts = np.zeros(len(sites) * len(check.KINDS), np.int64)
        self.records = np.zeros((len(self.counts), CAPACITY, len(check.RECORD.fields)), np.int64)
        self._number()
        self._set(counts=self._at(self.counts), records=self._at(self.records), capacity=CAPACITY, regions=count,
                  slots=self._at(np.zeros(check.SLOTS, np.uint32)), patience=int(patience * 1e9),
                  pattern=check.PATTERN - (1 << 64), waits=self._at(np.zeros((self.programs, 2), np.int64)))
        _set_groups(a for a in arguments.values() if a.storage_high > a.storage_low)
        for slot, argument in arguments.items():
            self._region(slot, argument)

    @property
    def address(self) -> int:
        """Where it lies."""
        return self.words.ctypes.data

    def _at(self, array: np.ndarray) -> int:
        self._keep.append(array)
        return array.ctypes.data

    def _set(self, **words: int) -> None:
        for name, value in words.items():
            self.words[check.CONTEXT.index(name)] = value

    def _number(self) -> None:
        """Number the segments of this launch."""
        n = self.programs
        more = min(max(1 << 16, 64 * n), 1 << 22) if self.metadata.synchronises else 0
        self.base = _cells.number(n + more + 2)
        self._set(base=self.base, current=self._at(np.arange(self.base + 1, self.base + n + 1, dtype=np.uint32)),
                  next=self.base + n + 1, limit=self.base + n + more + 1)
        self.segments = None
        if more:
            self._taken[0, "segments"] = cells = _cells.take(4 * (n + more + 2))
            self.segments = cells[:4 * (n + more + 2)].reshape(-1, 4)
            self.segments[:n + 1] = 0
            self.segments[1:n + 1, 0] = np.arange(n)
            self._set(segments=cells.ctypes.data)

    def _region(self, slot: int, argument: Argument) -> None:
        row: dict[str, int] = dict.fromkeys(check.REGION.fields, 0)
        if argument.keep is None:  # its extent is not known
            ends = ("high", "storage_high", "read_high", "write_high")
            row.update(dict.fromkeys(ends, (1 << 63) - 1), flags=check.flag("writable"))
        else:
            row.update(self._row(slot, argument))
        start = _WORDS + slot * _ROW
        self.words[start:start + _ROW] = list(row.values())

    def _row(self, slot: int, a: Argument) -> dict[str, int]:
        row = {"low": a.low, "high": a.high, "storage_low": a.storage_low, "storage_high": a.storage_high}
        dims = _holes(a)
        made = a.storage_low in uninitialised
        known = {"writable": a.writable, "undefined": made, "holes": dims is not None}
        row["flags"] = check.flag(*(name for name, holds in known.items() if holds))
        if dims is not None:
            row["dims"] = self._at(dims)
        if a.group is not None:
            row.update(self._tracked(a.group))
        watched = "writers" in row
        plain = {"read": not (watched or dims is not None or made), "write": not (watched or dims is not None)}
        for how, is_plain in plain.items():
            is_plain = is_plain and (a.writable or how == "read")
            row[f"{how}_low"], row[f"{how}_high"] = (a.low, a.high) if is_plain else (1, 0)
        return row

    def _tracked(self, group: _Group) -> dict[str, int]:
        """The cells of memory that the kernel may write."""
        slots = [slot for slot, argument in self.arguments.items() if argument.group is group]
        uses = [self.uses.of(slot) for slot in slots]
        rereads = any(use.rereads for use in uses)
        if self.programs == 1 and not rereads or not any(use.writes for use in uses):
            return {}
        shift = min([argument.itemsize for argument in group.members] + [use.least for use in uses]).bit_length() - 1
        if group.high - group.low >> shift > MOST_CELLS:
            return {}
        roles = ["writers"]
        if any(use.reads for use in uses):
            roles.append("readers")
        if rereads:
            roles.append("writing_lanes")
        for role in roles:
            if (id(group), role) not in self._taken:
                self._taken[id(group), role] = _cells.take((group.high - group.low >> shift) + 16)
        return {"storage_low": group.low, "storage_high": group.high, "shift": shift,
                **{role: self._taken[id(group), role].ctypes.data for role in roles}}

    # --- afterwards ---------------------------------------------------------------------------------------------------
    def found(self) -> Found | None:
        """What the checks found; None for nothing."""
        crowded = self.segments is not None and self.words[check.CONTEXT.index("next")] >= \
            self.words[check.CONTEXT.index("limit")]
        records, counts = [], {}
        for index in np.flatnonzero(self.counts).tolist():
            site, kind = divmod(index, len(check.KINDS))
            written = [row for row in self.records[index].tolist() if row[0]]
            rows: list[dict[str, Any]] = [dict(zip(check.RECORD.fields, row)) for row in written]
            for row in rows:
                row["by"] = self._program((row["other"] & check.flag("by_reader") - 1) >> 1) if kind == _RACE else 0
            if check.KINDS[kind] == "race":
                rows = [] if crowded else [row for row in rows if self._differs(row)]
            if rows:
                records += rows
                counts[site, kind] = int(self.counts[index])
        return Found(self.metadata, self.grid, self.arguments, records, counts) if records else None

    def close(self) -> None:
        """Leave the cells to later launches."""
        _cells.give_back(list(self._taken.values()))
        self._taken, self.segments = {}, None

    def _differs(self, row: dict[str, int]) -> bool:
        """Whether a race matters: not where programs store what is there already."""
        site = self.sites[row["site"]]
        if not site.writes:
            return True
        size = _bytes(site.element)
        now = int.from_bytes(ctypes.string_at(row["address"], min(size, 8)), "little")
        return now != row["value"] & (1 << 8 * min(size, 8)) - 1

    def _program(self, segment: int) -> int:
        """The program of a segment; -1 for several."""
        if segment == self.words[check.CONTEXT.index("limit")]:
            return -1
        if self.segments is not None:
            return int(self.segments[segment - self.base, 0])
        return segment - self.base - 1


def updated(kernel: Any) -> list[Found]:
    """What is wrong with launching a sanitized kernel several times: it updates arguments that it has read."""
    sites, first, names = [_Site(*site) for site in kernel.metadata.sites], {}, _slot_names(kernel.src.signature)
    found = []
    for number, site in enumerate(sites):
        before = first.setdefault(site.origin, site)
        again = site.access == "atomic" or site.access == "store" and before.access == "load"
        if site.origin >= 0 and again and site.origin not in {row["origin"] for _, row in found}:
            found.append((number, dict.fromkeys(check.RECORD.fields, 0) | {
                "kind": check.KINDS.index("missing reset"), "site": number, "origin": site.origin}))
    return [Found(kernel.metadata, (1, 1, 1), {row["origin"]: Argument(names[row["origin"]], 0)}, [row],
                  {(number, row["kind"]): 1}) for number, row in found]


def _slot_names(signature: dict[str, Any]) -> list[str]:
    return [name for name, type_ in signature.items() for _ in flatten(type_)]


def _bytes(element: str) -> int:
    return T.SCALARS[element].bytes if element in T.SCALARS else 8


def _holes(a: Argument) -> np.ndarray | None:
    """Sizes and strides of a view whose elements do not fill its extent; None if they do, or where nobody knows."""
    if a.shape is None or a.strides is None or 0 in a.shape or any(s <= 0 for n, s in zip(a.shape, a.strides) if n > 1):
        return None
    axes = sorted(((s, n) for n, s in zip(a.shape, a.strides) if n > 1), reverse=True)
    filled = a.itemsize
    for stride, n in reversed(axes):
        if stride < filled:
            return None  # elements overlap
        filled = stride * (n - 1) + filled
    total = a.itemsize * math.prod(a.shape)
    if total == a.high - a.low:
        return None
    return np.array([len(axes), *(x for stride, n in axes for x in (n, stride)), a.itemsize], np.int64)
