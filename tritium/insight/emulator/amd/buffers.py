"""Buffer resources: a base, a size and flags. Loads beyond the size give zero, stores there are dropped."""

import numpy as np

from tritium.insight.emulator.atomics import UPDATES, compare_and_swap, one_by_one
from tritium.insight.emulator.code import RESOURCE, numpy_type, vector_of
from tritium.insight.emulator.faults import Fault, Unknown

_WORD = 4  # bounds are checked for each so many bytes


def _make(m, result, inputs):
    """make.buffer.rsrc(base, stride, records, flags)."""
    base, stride, records, flags = inputs

    def step():
        if np.any(stride()[m.active]):
            raise Unknown("a buffer resource with a stride")
        out = np.zeros(m.threads, RESOURCE)
        out["base"], out["records"], out["flags"] = base(), records(), flags()
        return out

    return step


def _where(m, resource, offset, soffset, size):
    """(address, which words of the access are inside, [thread, word]): `soffset` moves the bound, too."""
    base, records, at = resource()["base"], resource()["records"], offset().astype(np.uint64)
    start = base + at + soffset().astype(np.uint64)
    count = -(-size // _WORD)
    first = at[:, None] + np.arange(count, dtype=np.uint64) * np.uint64(_WORD) + soffset().astype(np.uint64)[:, None]
    last = first + np.uint64(min(size, _WORD))
    inside = last <= records[:, None]
    torn = (first < records[:, None]) & ~inside & m.active[:, None]
    if torn.any():
        m.log.tell(Fault("the end of a buffer lies within a word that is accessed", "out of bounds",
                         threads=m.lanes[torn.any(1)]))
    return start, inside


def _load(m, result, inputs):
    resource, offset, soffset, _ = inputs
    count, element = vector_of(result)
    dtype = numpy_type(element)
    size = dtype.itemsize * max(count, 1)

    def step():
        values = _fetched(m, resource, offset, soffset, size).view(dtype)
        return values if count else values[:, 0]

    return step


def _fetched(m, resource, offset, soffset, size):
    """The bytes of each thread's access; zeros beyond the end."""
    start, inside = _where(m, resource, offset, soffset, size)
    data = np.zeros((m.threads, size), np.uint8)
    for part, whole in _parts(m, inside, size):
        which = m.active & whole
        if which.any():
            data[which, part] = m.global_memory.load(start[which] + np.uint64(part.start), part.stop - part.start,
                                                     m.lanes[which], align=min(_WORD, size))
    return data


def _parts(m, inside, size):
    """(bytes, threads) of accesses: whole ones, and those of which only the first words are inside, word by word."""
    every = inside.all(1)
    yield slice(0, size), every
    if not (every | ~inside.any(1))[m.active].all():
        for k in range(inside.shape[1]):
            yield slice(_WORD * k, min(size, _WORD * k + _WORD)), inside[:, k] & ~every


def _store(m, result, inputs):
    value, resource, offset, soffset, _ = inputs

    def step():
        x = value()
        data = np.ascontiguousarray(x.reshape(m.threads, -1)).view(np.uint8)
        size = data.shape[1]
        start, inside = _where(m, resource, offset, soffset, size)
        for part, whole in _parts(m, inside, size):
            which = m.active & whole
            if which.any():
                m.global_memory.store(start[which] + np.uint64(part.start), data[which, part], m.lanes[which],
                                      align=min(_WORD, size))

    return step


_NAMES = {"swap": "xchg", "smax": "max", "smin": "min"}


def _atomic(m, result, inputs, how):
    """raw.ptr.buffer.atomic: where the place is outside, nothing happens, and the old value is 0."""
    values, (resource, offset, soffset, _) = inputs[:-4], inputs[-4:]
    name = _NAMES.get(how, how)
    if how == "cmpswap":
        values, fn = [inputs[1], inputs[0]], compare_and_swap
    elif name in UPDATES:
        fn = UPDATES[name]
    else:
        raise Unknown(f"a buffer atomic {how}")
    count, element = vector_of(result)
    size = numpy_type(element).itemsize * max(count, 1)
    address = lambda: _where(m, resource, offset, soffset, size)[0]
    update = one_by_one(m, address, values, result, fn)

    def step():
        before = m.active
        m.active = before & _where(m, resource, offset, soffset, size)[1].all(1)
        try:
            return update()
        finally:
            m.active = before

    return step


def _to_shared(m, target, size, offset, fetch):
    """A function that loads straight to shared memory what fetch(size, offset) gives: the place is the warp's, and
    each lane has its own behind it."""

    def step():
        bytes_, extra = int(size()[0]), int(offset()[0])
        place, rows = target(), m.active.reshape(-1, m.warp_size)
        first = m.lanes - m.lanes % m.warp_size + rows.argmax(1)[m.lanes // m.warp_size]
        if np.any(m.active & (place != place[first])):
            raise Fault("the lanes of a warp name different places for a load to shared memory", "wrong operand",
                        threads=m.lanes[m.active & (place != place[first])])
        lane = (m.lanes % m.warp_size).astype(np.uint64)
        to = place[first] + np.uint64(extra) + lane * np.uint64(max(bytes_, _WORD))
        data = np.zeros((m.threads, max(bytes_, _WORD)), np.uint8)
        data[:, :bytes_] = fetch(bytes_, extra)
        m.shared.start_load(to[m.active], data[m.active], m.lanes[m.active])

    return step


def _global_to_shared(m, result, inputs):
    pointer, target, size, offset, _ = inputs

    def fetch(size, extra):
        return m.spread(m.global_memory.load(pointer()[m.active] + np.uint64(extra), size, m.lanes[m.active],
                                             align=min(_WORD, size)), size)

    return _to_shared(m, target, size, offset, fetch)


def _buffer_to_shared(m, result, inputs):
    resource, target, size, vector_offset, soffset, offset, _ = inputs

    def fetch(size, extra):
        return _fetched(m, resource, lambda: vector_offset() + np.uint32(extra), soffset, size)

    return _to_shared(m, target, size, offset, fetch)


TABLE = [
    (r"llvm\.amdgcn\.make\.buffer\.rsrc[\w.]*", _make),
    (r"llvm\.amdgcn\.raw\.ptr\.buffer\.load(?:\.[vif]\w+|\.bf16)", _load),
    (r"llvm\.amdgcn\.raw\.ptr\.buffer\.store\.\w+", _store),
    (r"llvm\.amdgcn\.raw\.ptr\.buffer\.atomic\.(\w+)\.[\w.]+", _atomic),
    (r"llvm\.amdgcn\.global\.load\.lds", _global_to_shared),
    (r"llvm\.amdgcn\.raw\.ptr\.buffer\.load\.lds", _buffer_to_shared),
]
