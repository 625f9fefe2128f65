"""How a GPU's warps meet memory: the vector width of each access, 32-byte sectors of each request.

An access of the source is lowered in the layout that the compiler gave it (`ttgir`). A warp's request for one vector of
each lane then touches sectors, counted from the addresses that the interpreter saw; the least is what its bytes fill.
"""

from __future__ import annotations

import functools
import hashlib
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tritium import ops
from tritium.backends.gpu import ops as gpu_ops
from tritium.backends.gpu.layout.linear import Layout, span_of
from tritium.backends.gpu.layout.values import layout_of
from tritium.compiler import ASTSource
from tritium.insight.facts.accesses import Event
from tritium.insight.facts.launch import Launch, gpu_module
from tritium.insight.facts.pictures import SECTOR
from tritium.insight.facts.repetitions import sum_of
from tritium.ir import types as T
from tritium.ir.core import walk

WIDEST = 16  # bytes of the widest access of a thread
LINE = 128  # bytes of a line of L1
_MEMORY = (ops.load, ops.store, ops.atomic, ops.atomic_cas, gpu_ops.async_load)
_BY_PRODUCER = (gpu_ops.tma_load, gpu_ops.row_load, gpu_ops.element_load)
_TMA = (*_BY_PRODUCER, gpu_ops.tma_store)  # no request of a thread that computes


@dataclass(frozen=True)
class Hint:
    """A promise about an argument and the vector width of an access with and without it (in elements)."""

    argument: str
    promised: bool
    without: int
    width: int


@dataclass(frozen=True)
class Requests:
    """How the warps of a launch make the requests of one access site.

    `how` is "threads", "cp.async", "TMA", or "removed" where the compiler needs no access there. A thread moves
    `vector` elements at once, of the `run` of neighbours that it holds. `requests`, `sectors`, `minimum`, `missed` (the
    sectors that L1 does not have) and `lines` (of 128 bytes) are totals of the launch.
    """

    site: int
    line: int
    kind: str
    tensors: tuple[str, ...]
    how: str
    vector: int
    itemsize: int
    requests: float
    sectors: float
    minimum: float
    missed: float = 0.0
    lines: float = 0.0
    run: int = 1
    hints: tuple[Hint, ...] = ()

    @property
    def sectors_each(self) -> float:
        """Sectors of a request on average."""
        return self.sectors / self.requests if self.requests else 0.0

    @property
    def minimum_each(self) -> float:
        """The fewest sectors that the bytes of a request fill, on average."""
        return self.minimum / self.requests if self.requests else 0.0

    @property
    def excess(self) -> float:
        """Sectors moved for each sector that was needed: 1 is coalesced."""
        return self.sectors / self.minimum if self.minimum else 1.0

    @property
    def bytes_moved(self) -> float:
        """Bytes between the SMs and the L2 cache, in sectors."""
        return self.missed * SECTOR

    @property
    def widest(self) -> int:
        """The most elements that one access of a thread could take."""
        return max(1, WIDEST // self.itemsize)


class RequestMeter:
    """Counts the requests and sectors of accesses as their `ttgir` layouts have them; see `accesses.Meter`."""

    def __init__(self, launch: Launch, l1: int = 0, processors: int = 1):
        self.warps, self.cache, self.common = launch.num_warps, _Cache(l1), _Common()
        self.programs, self.processors = math.prod(launch.grid), processors
        self.lowered = lowered_accesses(launch.stages["ttgir"])
        self.totals: dict[int, np.ndarray] = {}
        self.matches: dict[int, Any] = {}
        self.known: dict[bytes, np.ndarray] = {}  # what accesses with the same pattern of addresses came to

    def match(self, op) -> Any:
        """The op of the GPU stage that an access became: of those from its place, one with its shape."""
        found = self.lowered.get(_place(op), [])
        shape = T.shape(op.operands[0].type)
        same = [made for made in found if made.kind in _TMA or T.shape(_pointer(made).type) == shape]
        return (same or found or [None])[0]

    def measure(self, event: Event) -> np.ndarray:
        """(requests, sectors, fewest sectors, sectors that L1 does not have, lines) of one execution."""
        if event.site not in self.matches:
            self.matches[event.site] = self.match(event.op)
        made = self.matches[event.site]
        addresses, active = event.addresses.ravel(), event.active.ravel()
        if made is None or not active.any():
            return np.zeros(5)
        if T.shape(event.op.operands[0].type) == () and made.kind not in _TMA:
            alone = made.kind is not ops.load  # one thread stores a scalar; all threads load it
            missed = self._missed(event.site, addresses[:1]) if made.kind is ops.load else 1
            return np.array([1, 1, 1, 0, 1]) * (1 if alone else self.warps) + np.array([0, 0, 0, missed, 0])
        pattern = (addresses - addresses[0] // np.uint64(LINE) * np.uint64(LINE)).tobytes() + active.tobytes()
        key = hashlib.blake2b(b"%d %b" % (event.site, pattern), digest_size=16).digest()
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._measured(event, made)
        if made.kind is ops.load:
            return np.array([*found[:3], self._missed(event.site, addresses[active]), found[4]])
        return found

    def _measured(self, event: Event, made: Any) -> np.ndarray:
        """As `measure`, without L1: the same wherever the addresses begin in lines of L1."""
        part = T.shape(_pointer(made).type)
        parts = None if made.kind in _TMA else _blocks(event.addresses, part)
        if parts is None:
            return _whole(event.addresses[event.active], event.op)
        vector, found = made.attrs.get("vector") or 1, np.zeros(4)
        places = _places(layout_of(_pointer(made)), vector, made.kind in _WRITES)
        for at, on in zip(parts, _blocks(event.active, part)):
            found += _requests(at[places], on[places], _itemsize(event.op), vector)
        return np.array([*found[:3], found[1], found[3]])

    def _missed(self, site: int, addresses: np.ndarray) -> int:
        self.common.note(site, addresses)
        return self.cache.missed(addresses)

    def first_on_processor(self, site: int) -> float:
        """The share of programs that do not find what a site loads in L1: all, unless every program loads the same
        there and it stays, so that only the first on each processor misses it."""
        if self.cache.overflowed or not self.common.holds(site):
            return 1.0
        return min(1.0, self.processors / self.programs)

    def add(self, site: int, op, numbers: np.ndarray) -> None:
        """Add what an execution stands for."""
        self.totals[site] = self.totals.get(site, np.zeros(5)) + numbers

    def begin(self) -> None:
        """A program begins: it finds nothing of its own in L1."""
        self.cache.forget()
        self.common.begin()


class _Common:
    """Finds the sites that load the same addresses in every program, by sums over them."""

    def __init__(self):
        self.programs, self.first, self.apart = 0, {}, set()
        self.now: dict[int, int] = {}  # site -> its executions in the program that runs

    def begin(self) -> None:
        """A program begins."""
        self.programs, self.now = self.programs + 1, {}

    def note(self, site: int, addresses: np.ndarray) -> None:
        """A site loads these addresses."""
        if site in self.apart:
            return
        number = self.now[site] = self.now.get(site, 0) + 1
        made = sum_of(addresses)
        if self.first.setdefault((site, number), made) != made:
            self.apart.add(site)

    def holds(self, site: int) -> bool:
        """Whether all programs so far, and not only one, loaded the same there."""
        return self.programs > 1 and (site, 1) in self.first and site not in self.apart


class _Cache:
    """Sectors that the loads of one program have brought to L1. When more come than it holds, all are forgotten."""

    def __init__(self, size: int):
        self.most, self.now, self.held, self.overflowed = size // SECTOR, 1, 0, False
        self.stamps: dict[int, np.ndarray] = {}

    def forget(self) -> None:
        """Empty it."""
        self.now, self.held = self.now + 1, 0

    def missed(self, addresses: np.ndarray) -> int:
        """How many sectors of these addresses are not there; they are afterwards."""
        sectors = addresses // np.uint64(SECTOR)
        pages, count = sectors >> _PAGE, 0
        found = [pages[0]] if pages.min() == pages.max() else np.unique(pages)
        for page in found:
            inside = sectors if len(found) == 1 else sectors[pages == page]
            inside = (inside & _WITHIN).astype(np.int64)
            stamps = self._stamps(int(page), int(inside.max()))
            fresh = inside[stamps[inside] != self.now]
            if fresh.size:
                stamps[fresh] = self.now
                count += int(_distinct(fresh[None].astype(np.uint64))[0])
        self.held += count
        if self.held > self.most:
            self.overflowed = True
            self.forget()
        return count

    def _stamps(self, page: int, last: int) -> np.ndarray:
        known = self.stamps.get(page)
        if known is None or len(known) <= last:
            grown = np.zeros(min(max(2 * last, 1024), 1 << int(_PAGE)), np.uint32)
            if known is not None:
                grown[: len(known)] = known
            known = self.stamps[page] = grown
        return known


_PAGE = np.uint64(20)  # bits of a sector's number within a page; kernels may load addresses far from any storage
_WITHIN = np.uint64((1 << 20) - 1)


_WRITES = (ops.store, ops.atomic, ops.atomic_cas)


def lowered_accesses(module) -> dict[Any, list]:
    """{place in the source: the memory ops of a GPU module that come from there}."""
    found: dict[Any, list] = {}
    for op in walk(module.body):
        if op.kind in (*_MEMORY, *_TMA):
            found.setdefault(_place(op), []).append(op)
    for function in module.functions:
        for op in walk(function.body):
            if op.kind in _MEMORY:
                found.setdefault(_place(op), []).append(op)
    return found


def _place(op):
    kind = "load" if op.kind in (ops.load, gpu_ops.async_load, *_BY_PRODUCER) else "store"
    return op.loc, kind


def _pointer(op):
    return op.operands[1 if op.kind is gpu_ops.async_load else 0]


def _itemsize(op) -> int:
    pointee = T.element(op.operands[0].type).pointee
    return 8 if type(pointee) is T.Ptr else pointee.bytes


@functools.lru_cache(maxsize=256)
def _places(layout: Layout, vector: int, owned: bool) -> np.ndarray:
    """Elements of a tile by (request of a warp, lane): the first of each vector. With `owned`, places that replicate
    others' elements are left out (as the lane's own first one, which adds no sector)."""
    distinct, images = [], []
    for x in layout.reg:
        if x and x not in images:
            images.append(x)
    registers = span_of(images)[::vector] if vector > 1 else span_of(images)
    lanes, warps = span_of(layout.lane), span_of(layout.warp)
    if owned:
        free = layout.free("warp")
        warps = [w for k, w in enumerate(warps) if not k & free]
        free = layout.free("lane")
        lanes = [w for k, w in enumerate(lanes) if not k & free]
    for w in warps:
        for r in registers:
            distinct.append([w ^ r ^ lane for lane in lanes])
    return np.array(distinct, np.int64)


def _blocks(x: np.ndarray, part: tuple[int, ...]) -> Any:
    """What each block of a cluster has of a tile that is cut into parts of this shape, in rows; a single block has it
    whole. None if parts of this shape do not make the tile.

    >>> _blocks(np.arange(8).reshape(2, 4), (2, 2)).tolist()
    [[0, 1, 4, 5], [2, 3, 6, 7]]
    """
    if x.size == math.prod(part):
        return x.reshape(1, -1)
    if len(x.shape) != len(part) or any(whole % d for whole, d in zip(x.shape, part)):
        return None
    axes = [n for whole, d in zip(x.shape, part) for n in (whole // d, d)]
    order = [*range(0, len(axes), 2), *range(1, len(axes), 2)]
    return x.reshape(axes).transpose(order).reshape(-1, math.prod(part))


def _requests(addresses: np.ndarray, active: np.ndarray, size: int, vector: int) -> np.ndarray:
    """(requests, sectors, fewest sectors, lines) of rows of lane addresses, each the first of `vector` elements."""
    none = np.uint64(2**64 - 1)
    sectors = _distinct(np.where(active, addresses // np.uint64(SECTOR), none))
    vectors = _distinct(np.where(active, addresses, none))
    issued = active.any(axis=1)
    fewest = -(-vectors * size * vector // SECTOR)
    lines = _distinct(np.where(active, addresses // np.uint64(LINE), none))
    return np.array([issued.sum(), sectors[issued].sum(), fewest[issued].sum(), lines[issued].sum()], float)


def _distinct(rows: np.ndarray) -> np.ndarray:
    """How many different values each row has, the largest of all numbers not counted."""
    rows = np.sort(rows, axis=1)
    changes = np.ones(rows.shape, bool)
    changes[:, 1:] = rows[:, 1:] != rows[:, :-1]
    return (changes & (rows != np.uint64(2**64 - 1))).sum(axis=1)


def _whole(addresses: np.ndarray, op) -> np.ndarray:
    """One request for a whole tile, as TMA makes it."""
    sectors = int(_distinct(addresses[None] // np.uint64(SECTOR))[0])  # np.unique takes ten times as long
    return np.array([1, sectors, min(sectors, -(-len(addresses) * _itemsize(op) // SECTOR)), sectors, 0], float)


def requests(launch: Launch, meter: RequestMeter, sites) -> tuple[Requests, ...]:
    """The facts that a meter has added up, in the order of the sites."""
    out = []
    for site in sites:
        made = meter.matches.get(site.number)
        totals = meter.totals.get(site.number, np.zeros(5)) * (1, 1, 1, meter.first_on_processor(site.number), 1)
        count, moved, fewest, missed, lines = map(float, np.round(totals, 3))
        vector = made.attrs.get("vector") or 1 if made is not None else 1
        how = "removed" if made is None else _HOW.get(made.kind, "threads")
        if how == "TMA":
            vector = max(1, WIDEST // site.itemsize)
        layout = layout_of(_pointer(made)) if how in ("threads", "cp.async") and site.shape else None
        run = max(map(layout.contiguous, range(len(layout.shape)))) if layout else vector
        out.append(Requests(site.number, site.line, site.kind, site.tensors, how, vector, site.itemsize,
                            count, moved, fewest, missed, lines, run))
    return tuple(out)


_HOW = {gpu_ops.async_load: "cp.async", **dict.fromkeys(_TMA, "TMA")}


# --- which promises matter ------------------------------------------------------------------------------------------
def with_hints(launch: Launch, found: tuple[Requests, ...], meter: RequestMeter) -> tuple[Requests, ...]:
    """The same with `hints`: the kernel is compiled again with each promise of divisibility by 16 taken away, and with
    each that is missing added. What makes a difference to an access's width is a hint of it."""
    hints: dict[int, list[Hint]] = {}
    for promised, paths in _divisible_arguments(launch):
        other = {path: what for path, what in launch.source.attrs.items() if path not in paths}
        if not promised:
            other |= {path: [["tt.divisibility", 16]] for path in paths}
        module = gpu_module(_with_attrs(launch.source, other), launch.target, launch.options)
        changed, names = lowered_accesses(module), [launch.fn.arg_names[path[0]] for path in paths]
        for r in found:
            made = meter.matches.get(r.site)
            if made is None or r.how == "TMA":
                continue
            like = [op for op in changed.get(_place(made), []) if op.kind not in _TMA]
            if not like:
                continue
            width = max(op.attrs.get("vector") or 1 for op in like)
            if (width < r.vector) if promised else (width > r.vector):
                without, with_it = (width, r.vector) if promised else (r.vector, width)
                of = names if len(names) == 1 else [name for name in names if name in r.tensors]
                hints.setdefault(r.site, []).extend(Hint(name, promised, without, with_it) for name in of)
    return tuple(replace(r, hints=tuple(hints.get(r.site, ()))) for r in found)


def _divisible_arguments(launch: Launch) -> list[tuple[bool, list[tuple[int, ...]]]]:
    """Whether they are promised, and the index paths of pointers and integers that are no constants. Promises about
    pointers come together: they change the accesses through each pointer alone."""
    types = list(enumerate(launch.source.signature.values()))
    pointers = [(k,) for k, t in types if isinstance(t, str) and t.startswith("*")]
    numbers = [[(k,)] for k, t in types if t in ("i32", "i64", "u64")]
    attrs = launch.source.attrs
    together = [[path for path in pointers if (path in attrs) is promised] for promised in (True, False)]
    return [(paths[0] in attrs, paths) for paths in (*together, *numbers) if paths]


def _with_attrs(source: ASTSource, attrs: dict) -> ASTSource:
    return ASTSource(source.fn, source.signature, source.constants, attrs)
