"""Values that lanes of an AMD warp hand to each other: DPP, permutes, swizzles.

A row is 16 lanes, a bank four of a row. A lane that a permutation leaves without a source gets 0, or keeps what it had.
"""

import numpy as np

from tritium.insight.emulator.faults import Fault, Unknown

ROW = 16


def source_of(control, lane, warp_size, generation):
    """(the lane that each lane reads under a DPP control, whether there is one).

    >>> source_of(0x111, np.arange(4), 64, 9)  # row_shr:1
    (array([-1,  0,  1,  2]), array([False,  True,  True,  True]))
    """
    row, at, every = lane // ROW * ROW, lane % ROW, np.ones(len(lane), bool)
    kind, by = control >> 4, control & 15
    if control <= 0xFF:  # quad_perm
        return lane // 4 * 4 + (control >> 2 * (lane % 4) & 3), every
    if kind == 0x10 and by:  # row_shl
        return lane + by, at + by < ROW
    if kind == 0x11 and by:  # row_shr
        return lane - by, at >= by
    if kind == 0x12 and by:  # row_ror
        return row + (at - by) % ROW, every
    if control == 0x140:  # row_mirror
        return row + 15 - at, every
    if control == 0x141:  # row_half_mirror
        return lane // 8 * 8 + 7 - lane % 8, every
    if generation < 10 and control in _ACROSS:
        return _ACROSS[control](lane, warp_size)
    if kind == 0x15:  # row_newbcast on CDNA, row_share on RDNA
        return row + by, every
    if kind == 0x16 and generation >= 10:  # row_xmask
        return lane ^ by, every
    raise Unknown(f"the DPP control {control:#x} on generation {generation}")


_ACROSS = {
    0x130: lambda lane, n: (lane + 1, lane + 1 < n),  # wave_shl
    0x134: lambda lane, n: ((lane + 1) % n, lane >= 0),  # wave_rol
    0x138: lambda lane, n: (lane - 1, lane >= 1),  # wave_shr
    0x13C: lambda lane, n: ((lane - 1) % n, lane >= 0),  # wave_ror
    0x142: lambda lane, n: (lane // ROW * ROW - 1, lane >= ROW),  # row_bcast:15
    0x143: lambda lane, n: (0 * lane + 31, lane >= 32),  # row_bcast:31
}


def _lane(m):
    return m.lanes % m.warp_size


def _read(m, x, lane, there, otherwise):
    """x of other lanes of the warp, where they are active and there is one; else `otherwise`."""
    source = m.lanes - _lane(m) + np.where(there, lane, 0)
    there = there & m.active[source]
    return np.where(_wide(there, x), x[source], otherwise).astype(x.dtype)


def _wide(mask, x):
    return mask.reshape(-1, *[1] * (x.ndim - 1))


def _dpp(m, result, inputs, kind):
    """update.dpp(old, x, ...) keeps old where there is no source, or the masks leave lanes out; mov.dpp has no old."""
    old, x, *flags = inputs if kind == "update" else [None, *inputs]

    def step():
        value, (control, rows, banks, bound) = x(), (int(f()[0]) for f in flags)
        before, lane = old() if old else np.zeros_like(value), _lane(m)
        source, there = source_of(control, lane, m.warp_size, m.generation)
        made = _read(m, value, source, there, np.zeros_like(value) if bound else before)
        enabled = (rows >> lane // ROW % 4 & 1) & (banks >> lane % ROW // 4 & 1)
        return np.where(_wide(enabled.astype(bool), value), made, before)

    return step


def _dpp8(m, result, inputs):
    """Of each eight lanes, the one that three bits say."""
    x, selector = inputs

    def step():
        lane, bits = _lane(m), int(selector()[0])
        return _read(m, x(), lane // 8 * 8 + (bits >> 3 * (lane % 8) & 7), lane >= 0, np.zeros_like(x()))

    return step


def _first_lane(m, result, inputs):
    """Of the first active lane."""

    def step():
        rows = m.active.reshape(-1, m.warp_size)
        return inputs[0]()[m.lanes - _lane(m) + rows.argmax(1)[m.lanes // m.warp_size]]

    return step


def _read_lane(m, result, inputs):
    """Of a lane that all name alike."""
    x, which = inputs

    def step():
        wanted = which().astype(np.int64) % m.warp_size
        firsts = wanted[m.lanes - _lane(m) + m.active.reshape(-1, m.warp_size).argmax(1)[m.lanes // m.warp_size]]
        if np.any(m.active & (wanted != firsts)):
            raise Fault("the lanes of a warp name different lanes to read", "wrong operand",
                        threads=m.lanes[m.active & (wanted != firsts)])
        return x()[m.lanes - _lane(m) + firsts]

    return step


def _write_lane(m, result, inputs):
    """writelane(x, lane, old): old with x, which all have alike, in one lane."""
    x, which, old = inputs
    return lambda: np.where(_lane(m) == which().astype(np.int64) % m.warp_size, x(), old())


def _pull(m, result, inputs):
    """ds.bpermute: of the lane that an address of a word says; inactive lanes give 0."""
    at, x = inputs

    def step():
        wanted = at().astype(np.int64) // 4 % m.warp_size
        value = x()
        return _read(m, value, wanted, np.ones(m.threads, bool), np.zeros_like(value))

    return step


def _push(m, result, inputs):
    """ds.permute: each lane sends its value to the lane that an address says; the highest lane wins."""
    at, x = inputs

    def step():
        value = x()
        out = np.zeros_like(value)
        to = m.lanes - _lane(m) + at().astype(np.int64) // 4 % m.warp_size
        out[to[m.active]] = value[m.active]
        return out

    return step


def _swizzle(m, result, inputs):
    """ds.swizzle: masks of five bits of the lane's number, or a permutation of each four lanes."""
    x, pattern = inputs

    def step():
        bits, lane, value = int(pattern()[0]), _lane(m), x()
        if bits >> 15 == 0:
            low = (lane % 32 & bits & 31 | bits >> 5 & 31) ^ bits >> 10 & 31
            source = lane // 32 * 32 + low
        elif bits >> 8 == 0x80:
            source = lane // 4 * 4 + (bits >> 2 * (lane % 4) & 3)
        else:
            raise Unknown(f"a swizzle by {bits:#x}")
        return _read(m, value, source, np.ones(m.threads, bool), np.zeros_like(value))

    return step


def _permute_rows(m, result, inputs, crossed, variable):
    """permlane16: of the lane of the row, permlanex16: of the other row, that four bits for each lane say; with
    `variable`, each lane says its own."""
    old, x, *flags = inputs

    def step():
        lane, value, low = _lane(m), x(), flags[0]().astype(np.int64)
        if variable:
            wanted, (_, bound) = low & 15, (bool(f()[0]) for f in flags[1:])
        else:
            high, (_, bound) = flags[1]().astype(np.int64), (bool(f()[0]) for f in flags[2:])
            wanted = np.where(lane % ROW < 8, low, high) >> 4 * (lane % 8) & 15
        row = lane // ROW * ROW ^ (ROW if crossed else 0)
        return _read(m, value, row + wanted, np.ones(m.threads, bool), np.zeros_like(value) if bound else old())

    return step


def _other_half(m, result, inputs):
    """permlane64: of the lane 32 away, where a warp has so many."""

    def step():
        m.warps_of(m.active, "permlane64")
        return inputs[0]()[m.lanes ^ 32 if m.warp_size == 64 else m.lanes]

    return step


def _swap(m, result, inputs, size):
    """permlane16.swap, permlane32.swap: odd groups of lanes of the first operand trade places with the even ones,
    16 or 32 lanes before them, of the second."""
    size = int(size)

    def step():
        m.warps_of(m.active, f"permlane{size}.swap")
        x, y = inputs[0](), inputs[1]()
        odd = (m.lanes // size % 2).astype(bool)
        return np.where(odd, y[m.lanes ^ size], x), np.where(odd, y, x[m.lanes ^ size])

    return step


def _ballot(m, result, inputs):
    """A bit for each lane where the operand is true."""
    bits = int(result[1:])

    def step():
        rows = (inputs[0]() & m.active).reshape(-1, m.warp_size)
        masks = [sum(1 << int(k) for k in np.nonzero(row)[0]) for row in rows]
        return np.array(masks, np.dtype(f"u{bits // 8}"))[m.lanes // m.warp_size]

    return step


def _count_below(m, result, inputs, part):
    """mbcnt: bits of a mask below this lane's, of its lower or upper 32, added to a number."""
    mask, base = inputs

    def step():
        lane, x = _lane(m), mask()
        first = 0 if part == "lo" else 32
        below = np.clip(lane - first, 0, 32)
        kept = x & ((np.uint64(1) << below.astype(np.uint64)) - np.uint64(1)).astype(np.uint32)
        return np.array([int(v).bit_count() for v in kept], np.uint32) + base()

    return step


TABLE = [
    (r"llvm\.amdgcn\.(update|mov)\.dpp\.\w+", _dpp),
    (r"llvm\.amdgcn\.mov\.dpp8\.\w+", _dpp8),
    (r"llvm\.amdgcn\.readfirstlane(?:\.\w+)?", _first_lane),
    (r"llvm\.amdgcn\.readlane(?:\.\w+)?", _read_lane),
    (r"llvm\.amdgcn\.writelane(?:\.\w+)?", _write_lane),
    (r"llvm\.amdgcn\.ds\.bpermute", _pull),
    (r"llvm\.amdgcn\.ds\.permute", _push),
    (r"llvm\.amdgcn\.ds\.swizzle", _swizzle),
    (r"llvm\.amdgcn\.permlane(16|32)\.swap", _swap),
    (r"llvm\.amdgcn\.permlane(x?)16(\.var)?(?:\.\w+)?", _permute_rows),
    (r"llvm\.amdgcn\.permlane64(?:\.\w+)?", _other_half),
    (r"llvm\.amdgcn\.ballot\.\w+", _ballot),
    (r"llvm\.amdgcn\.mbcnt\.(lo|hi)", _count_below),
]
