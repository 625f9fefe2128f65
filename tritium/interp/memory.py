"""Memory as a kernel sees it: bytes at raw addresses.

Arguments register the memory they live in; loads, stores and atomics then work on whole tiles of addresses at once.
What lies outside every registered span is a `Fault`, with one exception: pointers the kernel made from integers or read
from memory (tables of addresses) may lead to memory nobody registered.

    >>> memory = Memory()
    >>> x = np.arange(4, dtype=np.float32)
    >>> p = memory.add(x, "x") + 4 * np.arange(2, dtype=np.uint64)
    >>> memory.load(T.f32, p)
    array([0., 1.], dtype=float32)
"""

from __future__ import annotations

import bisect
import ctypes
from typing import Any

import numpy as np

from ..ir import types as T
from ..locks import lock
from ..named_tuples import NamedTuple
from ..ops.meaning import np_dtype
from ..protocols import Held, from_dlpack, from_interface

_updating = lock()  # kernels launched from several threads may share a counter


class Fault(Exception):
    """Lanes that would touch memory they may not: `bad` marks them, `problem` says why, `store` whether they write."""

    def __init__(self, problem, bad, addresses, size, store):
        super().__init__(problem)
        self.problem, self.bad, self.addresses, self.size, self.store = problem, bad, addresses, size, store

    @property
    def first(self):
        """Index and address of the first lane at fault."""
        index = tuple(int(k) for k in np.argwhere(self.bad)[0]) if self.bad.ndim else ()
        return index, int(self.addresses[index])


class Argument(NamedTuple):
    """Where an argument's own elements lie (its storage may reach further), for messages and tools."""

    name: str
    low: int
    high: int
    itemsize: int
    dtype: str

    def where(self, address):
        """An address in words: how far it is from this argument."""
        if address < self.low:
            place = f"{self.low - address} bytes before the start"
        elif address >= self.high:
            place = f"{address - self.high} bytes past the end"
        else:
            place = "inside"
        count, element = (self.high - self.low) // self.itemsize, (address - self.low) // self.itemsize
        return f"{place} of `{self.name}` ({count} elements of {self.dtype}): it would be element {element}"


class Span:
    """A stretch of memory that may be touched, with its typed views."""

    __slots__ = ("base", "bytes", "end", "keep", "views", "writable")

    def __init__(self, base, size, writable, keep):
        self.base, self.end, self.writable, self.keep = base, base + size, writable, keep
        memory: Any = (ctypes.c_ubyte * size).from_address(base)
        self.bytes = np.frombuffer(memory, np.uint8)
        self.views = {}

    def view(self, dtype):
        """This memory as an array of `dtype` that starts at `base`."""
        found = self.views.get(dtype)
        if found is None:
            whole = len(self.bytes) // dtype.itemsize * dtype.itemsize
            found = self.views[dtype] = self.bytes[:whole].view(dtype)
        return found

    def read(self, addresses, dtype):
        """Elements at addresses that all lie inside."""
        offset, size = addresses - np.uint64(self.base), dtype.itemsize
        if size == 1 or not (offset & np.uint64(size - 1)).any():
            return np.asarray(self.view(dtype)[(offset // np.uint64(size)).astype(np.intp)])
        at = offset.astype(np.intp)[..., None] + np.arange(size)
        return self.bytes[at].view(dtype)[..., 0]

    def write(self, addresses, values):
        """Put elements at addresses that all lie inside; of several at one address the last stays."""
        offset, size = addresses - np.uint64(self.base), values.dtype.itemsize
        if size == 1 or not (offset & np.uint64(size - 1)).any():
            self.view(values.dtype)[(offset // np.uint64(size)).astype(np.intp)] = values
            return
        codes = np.ascontiguousarray(values)[..., None].view(np.uint8)
        for k in range(size):
            self.bytes[offset.astype(np.intp) + k] = codes[..., k]


class Spans:
    """Spans in the order of their addresses; they never overlap."""

    def __init__(self):
        self.bases: list[int] = []
        self.spans: list[Span] = []

    def add(self, base, size, writable, keep):
        """Add a stretch of memory; those it overlaps become one with it."""
        low, high, kept = base, base + size, [keep]
        first = bisect.bisect_right(self.bases, low)
        if first and self.spans[first - 1].end > low:
            first -= 1
        last = first
        while last < len(self.spans) and self.spans[last].base < high:
            span = self.spans[last]
            if span.base <= low and span.end >= high and span.writable >= writable:
                span.keep.append(keep)
                return
            low, high, writable = min(low, span.base), max(high, span.end), writable or span.writable
            kept += span.keep
            last += 1
        self.spans[first:last] = [Span(low, high - low, writable, kept)]
        self.bases[first:last] = [low]

    def at(self, address):
        """The last span that starts at or below an address, or None."""
        k = bisect.bisect_right(self.bases, address)
        return self.spans[k - 1] if k else None


class Memory:
    """All memory a launch may touch. With `strict` false, that is everything the process has mapped."""

    def __init__(self, strict=True):
        self.strict = strict
        self.arguments: list[Argument] = []
        self._own = Spans()
        self._mapped = Spans()            # what foreign pointers led to
        self._foreign: list[int] = []     # sorted addresses that came from integers and loaded pointers

    # --- what may be touched ------------------------------------------------------------------------------------------
    def add(self, buffer, name="") -> int:
        """Make a buffer's memory reachable; gives the address of its first element."""
        found = locate(buffer)
        if found.storage_high > found.storage_low:
            self._own.add(found.storage_low, found.storage_high - found.storage_low, found.writable, found.keep)
        self.arguments.append(Argument(name, found.low, found.high, found.itemsize, found.dtype))
        return found.address

    def admit(self, addresses):
        """Allow what integers and loaded pointers lead to: they may name memory that no argument brought along."""
        for address in np.unique(addresses).tolist():
            k = bisect.bisect_left(self._foreign, address)
            if address and (k == len(self._foreign) or self._foreign[k] != address):
                self._foreign.insert(k, address)

    def nearest(self, address):
        """The argument whose elements lie closest to an address, or None."""
        def distance(argument):
            return max(argument.low - address, address - argument.high + 1, 0)
        return min(self.arguments, key=distance, default=None)

    def holds(self, addresses, size, store):
        """Which lanes may touch `size` bytes at their addresses."""
        def inside(address):
            span = self._span_for(address, size)
            return span is not None and (span.writable or not store)
        lanes = [inside(address) for address in np.ravel(addresses).tolist()]
        return np.array(lanes, bool).reshape(np.shape(addresses))

    # --- access -------------------------------------------------------------------------------------------------------
    def load(self, t, addresses, mask=None, other=None):
        """Elements of type `t`; masked-off lanes are not touched and give `other`, or 0."""
        dtype = stored(t)
        if mask is None:
            return tested(t, self._read(addresses, dtype))
        out = np.zeros(addresses.shape, np_dtype(t)) if other is None else np.array(other)
        if np.any(mask):
            out[mask] = tested(t, self._read(addresses, dtype, mask))
        return out

    def store(self, t, addresses, values, mask=None):
        """Write elements of type `t`; masked-off lanes are not touched."""
        values = np.asarray(values).astype(stored(t), copy=False)
        if mask is None or np.any(mask):
            self._write(addresses, values, mask)

    def atomic(self, t, how, addresses, values, mask=None):
        """Read-modify-write of each lane in turn; gives what each lane found (0 where masked off)."""
        if how == "load":
            return self.load(t, addresses, mask, None)
        combine, values = COMBINE[how], np.ravel(values)
        return self._update(t, addresses, mask, lambda old, lanes: combine(old, values[lanes]))

    def atomic_cas(self, t, addresses, expected, values, mask=None):
        """Put `values` where memory holds the bits of `expected`; gives what each lane found."""
        expected, values = bits(np.ravel(expected)), np.ravel(values)
        return self._update(t, addresses, mask,
                            lambda old, lanes: np.where(bits(old) == expected[lanes], values[lanes], old))

    def _update(self, t, addresses, mask, change):
        """Apply `change` in the order of the lanes. Lanes at different addresses go together: round k takes every
        address's k-th lane."""
        dtype = stored(t)
        out = np.zeros(addresses.size, np_dtype(t))
        lanes = np.flatnonzero(np.ones(addresses.shape, bool) if mask is None else mask)
        if lanes.size:
            self._claims(addresses, mask, dtype.itemsize, store=True)
        at = np.ravel(addresses)[lanes]
        turn = occurrence(at)
        for k in range(int(turn.max(initial=-1)) + 1):
            now = turn == k
            with _updating:
                old = self._read(at[now], dtype)
                self._write(at[now], np.asarray(change(old, lanes[now])).astype(dtype, copy=False))
            out[lanes[now]] = tested(t, old)
        return out.reshape(addresses.shape)

    # --- from addresses to spans --------------------------------------------------------------------------------------
    def _read(self, addresses, dtype, mask=None):
        active = addresses if mask is None else addresses[mask]
        claims = self._claims(addresses, mask, dtype.itemsize, store=False)
        if len(claims) == 1:
            return claims[0][0].read(active, dtype)
        out = np.zeros(active.shape, dtype)
        for span, lanes in claims:
            out[lanes] = span.read(active[lanes], dtype)
        return out

    def _write(self, addresses, values, mask=None):
        active, values = (addresses, values) if mask is None else (addresses[mask], values[mask])
        for span, lanes in self._claims(addresses, mask, values.dtype.itemsize, store=True):
            span.write(active[lanes], values[lanes])

    def _claims(self, addresses, mask, size, store):
        """[(span, the active lanes that fall into it)]; raises Fault if a lane falls into none."""
        active = addresses if mask is None else addresses[mask]
        span = self._own.at(int(active.min()))
        if span is not None and int(active.max()) + size <= span.end and (span.writable or not store):
            return [(span, ...)]
        free, read_only, claims = np.ones(active.shape, bool), np.zeros(active.shape, bool), []
        while free.any():
            address = int(active[free][0])
            span = self._span_for(address, size)
            if span is None:
                break
            lanes = free & (active >= np.uint64(span.base)) & (active <= np.uint64(span.end - size))
            free &= ~lanes
            if store and not span.writable:
                read_only |= lanes
            claims.append((span, lanes))
        # the first lane without a span stopped the search: lanes behind it may have theirs
        lost = [bool(f) and self._span_for(int(a), size) is None for f, a in zip(free.flat, active.flat)]
        wrong = read_only | np.array(lost, bool).reshape(free.shape)
        if wrong.any():
            bad = np.zeros(addresses.shape, bool)
            bad[... if mask is None else mask] = wrong
            problem = "into read-only memory" if read_only.any() else "outside of memory"
            raise Fault(problem, bad, addresses, size, store)
        return claims

    def _span_for(self, address, size):
        """The span that holds `size` bytes at an address, or None."""
        own = self._own.at(address)
        if own is not None and address + size <= own.end:
            return own
        if self.strict:
            k = bisect.bisect_right(self._foreign, address)
            if not k or (own is not None and self._foreign[k - 1] < own.base):
                return None  # what lies closest below is an argument: it was left behind, not another one found
        span = self._mapped.at(address)
        if span is None or address + size > span.end:
            region = mapped_region(address, size)
            if region is None:
                return None
            self._mapped.add(*region, None)
            span = self._mapped.at(address)
        return span


def occurrence(x):
    """How many equal elements stand before each one.

    >>> occurrence(np.array([7, 5, 7, 7, 5])).tolist()
    [0, 0, 1, 2, 1]
    """
    order = np.argsort(x, kind="stable")
    position = np.arange(len(x))
    starts = np.r_[True, x[order][1:] != x[order][:-1]][:len(x)]
    out = np.empty(len(x), np.intp)
    out[order] = position - np.maximum.accumulate(np.where(starts, position, 0))
    return out


# --- element types in memory ----------------------------------------------------------------------------------------
def stored(t):
    """NumPy dtype of a type in memory, where a bool is a byte."""
    return np.dtype(np.uint8) if t is T.i1 else np_dtype(t)


def tested(t, values):
    """What a load makes of stored elements: a bool is any byte that is not 0."""
    return np.asarray(values != 0) if t is T.i1 else values


def bits(x):
    """The same bits as unsigned integers."""
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}").reshape(x.shape)


def ordered(x):
    """A key that sorts like the values; floats go by bit pattern, so that -0.0 is below 0.0 and NaNs are outermost."""
    if x.dtype.kind in "iu":
        return x
    code = np.ascontiguousarray(x).view(f"i{x.dtype.itemsize}").reshape(x.shape)
    return np.where(code < 0, code ^ np.iinfo(code.dtype).max, code)


COMBINE = {
    "add": np.add, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "xchg": lambda old, new: new, "store": lambda old, new: new,
    "max": lambda old, new: np.where(ordered(new) > ordered(old), new, old),
    "min": lambda old, new: np.where(ordered(new) < ordered(old), new, old),
}


# --- where buffers live ---------------------------------------------------------------------------------------------
class Located(NamedTuple):
    """The address of a buffer's first element, its elements' extent, and the storage around them."""

    address: int
    low: int
    high: int
    storage_low: int
    storage_high: int
    writable: bool
    itemsize: int
    dtype: str
    keep: object


def locate(buffer):
    """Find the host memory of a NumPy array, a torch CPU tensor, or anything that shows one of their protocols.

    >>> locate(np.zeros(4, np.int16)[1:]).high - locate(np.zeros(4, np.int16)[1:]).low
    6
    """
    if isinstance(buffer, np.ndarray):
        return _locate_array(buffer)
    if isinstance(buffer, Held):
        return _locate_held(buffer)
    if hasattr(buffer, "untyped_storage"):
        return _locate_torch(buffer)
    if hasattr(buffer, "base") and hasattr(buffer, "data_ptr"):  # another dtype over the same memory
        return locate(buffer.base)._replace(keep=buffer)
    if hasattr(buffer, "__array_interface__"):
        return _locate_held(from_interface(buffer))
    if hasattr(buffer, "__dlpack__"):
        return _locate_held(from_dlpack(buffer))
    raise TypeError(f"cannot find the memory of {type(buffer).__name__}: pass a NumPy array, a torch tensor, or an "
                    "object with __array_interface__ or __dlpack__")


def _locate_array(array):
    low, high = np.lib.array_utils.byte_bounds(array) if array.size else (array.ctypes.data,) * 2
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    storage = np.lib.array_utils.byte_bounds(owner) if owner.size else (low, high)
    return Located(array.ctypes.data, low, high, *storage, array.flags.writeable, array.itemsize, str(array.dtype),
                   array)


def _locate_held(x):
    return Located(x.address, x.low, x.high, x.low, x.high, x.writable, x.itemsize, x.element, x)


def _locate_torch(tensor):
    storage, size = tensor.untyped_storage(), tensor.element_size()
    low = tensor.data_ptr()
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride()))
    high = low + (last + 1) * size if tensor.numel() else low
    base = storage.data_ptr()
    return Located(low, low, high, base, base + storage.nbytes(), True, size, str(tensor.dtype), tensor)


def mapped_region(address, size):
    """(base, size, writable) of the mapped memory around an address, or None where the process has none.

    Where the system does not tell, the page of the address is trusted.
    """
    try:
        with open("/proc/self/maps") as maps:
            rows = maps.read().splitlines()
    except OSError:
        base = address & ~4095
        return base, max(4096, address + size - base), True
    for row in rows:
        extent, rights, *_ = row.split()
        low, high = (int(part, 16) for part in extent.split("-"))
        if low <= address and address + size <= high:
            return (low, high - low, "w" in rights) if "r" in rights else None
    return None
