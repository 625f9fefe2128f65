"""Linear layouts: the one algebra of who holds which element of a tile.

All sizes are powers of two, so an element of a tile is a string of bits (its row-major index), and so is a place
(register, lane, warp). A layout says which element each *bit* of the place stands for; the element of a place is the
XOR of its bits' images. Reshapes cost nothing, transposes permute bits, and whether a conversion needs registers,
shuffles or shared memory is a question of linear algebra over GF(2), answered with Python integers.

    >>> blocked((4, 32), per_thread=4, warps=1, lanes=32)
    Layout((4, 32), reg=(1, 2), lane=(4, 8, 16, 32, 64), warp=())
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from math import prod as product

from tritium.named_tuples import NamedTuple

PARTS = ("reg", "lane", "warp")


class Layout(NamedTuple):
    """Images of the bits of register, lane and warp as row-major element indices of a tile of `shape`.

    A zero image means replication: both values of that bit hold the same element.
    """

    shape: tuple[int, ...]
    reg: tuple[int, ...]
    lane: tuple[int, ...]
    warp: tuple[int, ...]

    def __repr__(self) -> str:
        return f"Layout({self.shape}, reg={self.reg}, lane={self.lane}, warp={self.warp})"

    # --- size -----------------------------------------------------------------------------------------------------
    @property
    def registers(self) -> int:
        """How many elements each thread holds."""
        return 1 << len(self.reg)

    @property
    def numel(self) -> int:
        return product(self.shape)

    @property
    def threads(self) -> int:
        return 1 << (len(self.lane) + len(self.warp))

    # --- use ------------------------------------------------------------------------------------------------------
    def element(self, reg: int = 0, lane: int = 0, warp: int = 0) -> int:
        """Row-major index of the element at a place."""
        return image(self.reg, reg) ^ image(self.lane, lane) ^ image(self.warp, warp)

    def register_elements(self) -> list[int]:
        """The part of the element index that each register adds, in register order."""
        return span_of(self.reg)

    def places(self) -> dict[int, int]:
        """{part of the element index: the first register that adds it}."""
        return {e: r for r, e in reversed(list(enumerate(self.register_elements())))}

    def within(self, groups: tuple[int, ...]) -> int:
        """The register bits that stay within aligned groups of `groups[axis]` neighbours along each axis.

        >>> Layout((8, 8), (1, 2, 8), (4, 16, 32), ()).within((2, 2))
        5
        """
        inside = 0
        for axis, size in enumerate(groups):
            inside |= (size - 1) << axis_bits(self.shape, axis)[0]
        return sum(1 << k for k, x in enumerate(self.reg) if x and not x & ~inside)

    def map(self, fn: Callable[[int], int], shape: tuple[int, ...] | None = None) -> Layout:
        """Another layout with `fn` applied to every image."""
        return Layout(tuple(self.shape if shape is None else shape), *(tuple(map(fn, part)) for part in self[1:]))

    # --- shape changes: the layout of the result of an op on a value in this layout -------------------------------
    def reshape(self, shape: tuple[int, ...]) -> Layout:
        """Row-major order is kept, so are the images."""
        return Layout(tuple(shape), *self[1:])

    def trans(self, order: Sequence[int]) -> Layout:
        """Axis k of the result is axis order[k] of this one."""
        move = _moves(self.shape, tuple(order))
        return self.map(lambda x: permute_bits(x, move), tuple(self.shape[k] for k in order))

    def untrans(self, order: tuple[int, ...]) -> Layout:
        """The layout whose `trans(order)` is this one."""
        inverse = [0] * len(order)
        for k, axis in enumerate(order):
            inverse[axis] = k
        return self.trans(inverse)

    def reorder(self, axis: int, order: tuple[int, ...]) -> Layout:
        """Bit k of the index along `axis` becomes bit order[k]."""
        low, width = axis_bits(self.shape, axis)
        moves = (*range(low), *(low + k for k in order), *range(low + width, log2(self.numel)))
        return self.map(lambda x: permute_bits(x, moves))

    def drop(self, axis: int) -> Layout:
        """The layout along the other axes: bits of `axis` vanish (its places become replicas)."""
        squeeze = functools.partial(without_bits, *axis_bits(self.shape, axis))
        return self.map(squeeze, self.shape[:axis] + self.shape[axis + 1 :])

    def squash(self, shape: tuple[int, ...]) -> Layout:
        """The layout of an operand of `shape` that is broadcast to this one (axes of size 1 lose their bits)."""
        out = self
        for axis, (have, want) in enumerate(zip(self.shape, shape, strict=True)):
            if want == 1 and have != 1:
                out = out.drop(axis)
                out = out.reshape((*out.shape[:axis], 1, *out.shape[axis:]))
        return out

    def spread(self, shape: tuple[int, ...]) -> Layout:
        """The layout of a tile that is broadcast to `shape`: a thread has all copies of its elements.

        >>> Layout((4, 1), (1,), (2,), ()).spread((4, 2))
        Layout((4, 2), reg=(1, 2), lane=(4,), warp=())
        """
        out = self
        for axis, (have, want) in enumerate(zip(self.shape, shape, strict=True)):
            if have != want:
                wide = (*out.shape[:axis], want, *out.shape[axis + 1 :])
                low, width = axis_bits(wide, axis)
                out = out.map(functools.partial(with_bits, low, width), wide)
                out = out._replace(reg=tuple(sorted((*out.reg, *powers(1 << low, 1 << (low + width))))))
        return out

    def batched(self, shape: tuple[int, ...], warps: int) -> Layout:
        """The layout of a batch of matrices that each have this one. Warps that no matrix needs deal the batch out: two
        that share a matrix would both hold an operand of its product, and copies if the matrix is small.

        >>> Layout((2, 2), (1,), (2,), ()).batched((8, 2, 2), 2)
        Layout((8, 2, 2), reg=(1, 4, 8), lane=(2,), warp=(16,))
        """
        batch, spare = powers(product(self.shape), product(shape)), log2(warps) - len(self.warp)
        kept = len(batch) - spare
        return Layout(tuple(shape), (*self.reg, *batch[:kept]), self.lane, (*self.warp, *batch[kept:]))

    def dedupe(self) -> Layout:
        """Without register bits that add nothing (zero, or dependent on earlier register bits)."""
        kept, seen = [], Space()
        for x in self.reg:
            if seen.add(x):
                kept.append(x)
        return self._replace(reg=tuple(kept))

    def registers_in(self, other: Layout) -> list[int]:
        """The registers of this layout that hold what the registers of another one hold, in the other's order.

        >>> Layout((4,), (1, 2), (), ()).registers_in(Layout((4,), (2, 1), (), ()))
        [0, 2, 1, 3]
        """
        out = []
        for e in other.register_elements():
            r = solve(self.reg, e)
            assert r is not None, "the thread holds what it has in the other layout"
            out.append(r)
        return out

    def free(self, part: str) -> int:
        """Mask of the bits of "lane" or "warp" that replicate what lower places hold."""
        seen = Space(self.reg)
        mask = 0
        for name in ("lane", "warp"):
            for k, x in enumerate(getattr(self, name)):
                if not seen.add(x) and name == part:
                    mask |= 1 << k
        return mask

    def contiguous(self, axis: int = -1) -> int:
        """How many consecutive elements along an axis the lowest registers of a thread hold in order."""
        low, width = axis_bits(self.shape, axis)
        count = 0
        while count < min(width, len(self.reg)) and self.reg[count] == 1 << (low + count):
            count += 1
        return 1 << count


# --- making layouts ---------------------------------------------------------------------------------------------
def blocked(shape: Sequence[int], per_thread: int, warps: int, lanes: int, order: Sequence[int] | None = None,
            also: tuple[int, int] | None = None, within_warp: int | None = None) -> Layout:
    """Neighbouring lanes hold neighbouring runs of `per_thread` elements along the fastest axis, then warps, then
    registers.

    `order` lists the axes from fastest to slowest (default: last axis first). With also=(axis, count), a thread has up
    to `count` neighbours along that axis, too, if it has so many elements. As few warps as possible share the elements
    along the axis `within_warp`.

    >>> blocked((32, 128), 8, 4, 64, also=(0, 4))
    Layout((32, 128), reg=(1, 2, 4, 128), lane=(8, 16, 32, 64, 256, 512), warp=(1024, 2048))
    >>> blocked((4, 256), 1, 4, 32, within_warp=1)
    Layout((4, 256), reg=(32, 64, 128), lane=(1, 2, 4, 8, 16), warp=(256, 512))
    >>> blocked((2, 256), 1, 4, 32, within_warp=1)
    Layout((2, 256), reg=(64, 128), lane=(1, 2, 4, 8, 16), warp=(256, 32))
    """
    order = tuple(order or reversed(range(len(shape))))
    bits = [1 << k for low, width in (axis_bits(shape, axis) for axis in order) for k in range(low, low + width)]
    inside, places = log2(lanes), log2(warps)
    inner = min(log2(per_thread), log2(shape[order[0]]))
    reg, rest = bits[:inner], bits[inner:]
    if also:
        low, width = axis_bits(shape, also[0])
        count = min(log2(also[1]), width, max(0, len(rest) - inside - places))
        mine = [1 << (low + k) for k in range(count)]
        reg, rest = reg + mine, [x for x in rest if x not in mine]
    lane, rest = rest[:inside], rest[inside:]
    if within_warp is not None:
        low, width = axis_bits(shape, within_warp)
        others = [x for x in rest if not 1 << low <= x < 1 << (low + width)][:places]
        rest = others + [x for x in rest if x not in others]
    warp, rest = rest[:places], rest[places:]
    return Layout(tuple(shape), tuple(reg + rest), pad(lane, inside), pad(warp, places))


def transposing(shape: Sequence[int], size: int, axis: int, warps: int, lanes: int) -> Layout:
    """A layout for transposing a 2-D tile with rows along `axis`: 16 bytes of the other axis in a thread's registers,
    lanes along the rows. Short rows leave lanes and warps to the other axis, those of small tiles even these bytes.

    >>> transposing((32, 16), 2, 1, 2, 32)
    Layout((32, 16), reg=(16, 32, 64), lane=(1, 2, 4, 8, 128), warp=(256,))
    >>> transposing((32, 4), 4, 1, 4, 32)
    Layout((32, 4), reg=(), lane=(1, 2, 4, 8, 16), warp=(32, 64))
    """
    bit = lambda a, k: 1 << (k + (log2(shape[1]) if a == 0 else 0))
    across = [bit(1 - axis, k) for k in range(log2(shape[1 - axis]))]
    along = [bit(axis, k) for k in range(log2(shape[axis]))]
    inside, places = log2(lanes), log2(warps)
    mine = min(log2(16 // size), max(0, len(along) + len(across) - inside - places))
    others = along + across[mine:]
    rest = others[inside:]
    lane, warp = pad(others[:inside], inside), pad(rest[:places], places)
    return Layout(tuple(shape), (*across[:mine], *rest[places:]), lane, warp)


def replicated(shape: Sequence[int], warps: int, lanes: int) -> Layout:
    """Every thread holds every element."""
    reg = tuple(1 << k for k in range(log2(product(shape))))
    return Layout(tuple(shape), reg, (0,) * log2(lanes), (0,) * log2(warps))


def reducing(shape: Sequence[int], axis: int, warps: int, lanes: int) -> Layout:
    """The layout in which threads have as much as possible of `axis`: lanes, then warps go along the others. Warps
    that find nothing there hold the same elements.

    >>> reducing((16, 16), 0, 4, 32)
    Layout((16, 16), reg=(16, 32, 64), lane=(1, 2, 4, 8, 128), warp=(0, 0))
    """
    low, width = axis_bits(shape, axis)
    along = [1 << k for k in range(low, low + width)]
    others = [1 << k for k in range(log2(product(shape))) if 1 << k not in along]
    lane, rest = others[: log2(lanes)], others[log2(lanes) :]
    warp, rest = rest[: log2(warps)], rest[log2(warps) :]
    few = min(log2(lanes) - len(lane), len(along))
    reg, lane = along[: len(along) - few], [*lane, *along[len(along) - few :]]
    return Layout(tuple(shape), (*reg, *rest), pad(lane, log2(lanes)), pad(warp, log2(warps)))


def stacked(layout: Layout, shape: Sequence[int]) -> Layout:
    """Tiles of one layout along a new first axis, one after the other in each thread's registers."""
    last = range(log2(layout.numel), log2(product(shape)))
    return Layout(tuple(shape), (*layout.reg, *(1 << k for k in last)), layout.lane, layout.warp)


def pad(images: Sequence[int], count: int) -> tuple[int, ...]:
    """Replicate over the places that are left when the tile is small."""
    return tuple(images) + (0,) * (count - len(images))


def multiplied(shape: Sequence[int], warps: int, lanes: int, sizes: Sequence[int] = (4, 4),
               axes: Sequence[int] = (1, 1)) -> Layout:
    """Where plain threads keep the result of a dot whose operands have elements of `sizes` bytes, in rows along `axes`.

    A thread has about as many rows as columns. Along an operand that lies so in memory, it has 16 bytes of neighbours,
    and lanes follow; otherwise neighbouring lanes have neighbouring rows (or columns), which swizzled buffers keep in
    different banks.

    >>> multiplied((64, 64), 4, 32)
    Layout((64, 64), reg=(1, 2, 512, 1024, 2048), lane=(4, 8, 16, 64, 128), warp=(32, 256))
    """
    (m, n), inside = shape[-2:], log2(lanes)
    row, col = [n << k for k in range(log2(m))], [1 << k for k in range(log2(n))]
    mine = max(0, len(row) + len(col) - inside - log2(warps))
    cols = min(len(col), max(mine // 2, mine - len(row)))
    rows = mine - cols
    across = min(3, len(col) - cols)
    down = min(inside - across, len(row) - rows)
    across = min(inside - down, len(col) - cols)
    first = [min(log2(max(1, 16 // size)), have) if lies else 0
             for size, have, lies in zip(sizes, (rows, cols), (axes[0] == 0, axes[1] == 1))]  # fmt: skip
    reg, lane, rest, last = [], [], [], []
    for bits, there, count, low in ((col, across, cols, first[1]), (row, down, rows, first[0])):
        reg += bits[:low]
        lane += bits[low : low + there]
        rest += bits[low + there : len(bits) - (count - low)]
        last += bits[len(bits) - (count - low) :]
    places = [*rest, *powers(m * n, product(shape))]
    kept = places[log2(warps) :]
    return Layout(tuple(shape), (*reg, *last, *kept), pad(lane, inside), pad(places[: log2(warps)], log2(warps)))


def spread(count: int, stride: int, size: int, warps: int) -> tuple[list[int], list[int]]:
    """(images of the warps, images of the repeats) of pieces of `size` along an axis of `count` elements, `stride`
    apart; warps left over hold copies.

    >>> spread(64, 128, 16, 2), spread(16, 1, 16, 2)
    (([2048], [4096]), ([0], []))
    """
    own = [stride * size << k if size << k < count else 0 for k in range(log2(warps))]
    return own, [stride * k for k in powers(size * warps, count)]


def spread_operand(which: str, grid: tuple[int, int], count: int, stride: int,
                   size: int) -> tuple[list[int], list[int]]:
    """As `spread`, of operand "a" or "b" of a dot whose result a grid of warps (along M, along N) shares."""
    mine, others = grid if which == "a" else grid[::-1]
    own, repeats = spread(count, stride, size, mine)
    spare = [0] * log2(others)
    return own + spare if which == "a" else spare + own, repeats


def warps_of_matrix(shape: Sequence[int], warps: int) -> int:
    """How many warps share each matrix of a batch, see `Layout.batched`.

    >>> warps_of_matrix((2, 16, 16), 4), warps_of_matrix((16, 16, 16), 4)
    (2, 1)
    """
    return max(1, warps // product(shape[:-2]))


# --- conversions ------------------------------------------------------------------------------------------------
def conversion(source: Layout, target: Layout) -> str:
    """How a value gets from one layout to another: "same", "registers", "lanes" (shuffles) or "shared"."""
    if source == target:
        return "same"
    if _agree(source, target, ("lane", "warp")):
        return "registers"
    if _agree(source, target, ("warp",)):
        return "lanes"
    return "shared"


def _agree(source: Layout, target: Layout, parts: tuple[str, ...]) -> bool:
    """True if every place finds what it wants without leaving the lane and warp (or the warp) it is in."""
    if any(getattr(source, part) != getattr(target, part) for part in parts):
        return False
    inside = ("reg",) if "lane" in parts else ("reg", "lane")
    reachable = Space(x for part in inside for x in getattr(source, part))
    return all(reachable.has(x) for part in inside for x in getattr(target, part))


# --- GF(2) ------------------------------------------------------------------------------------------------------
class Space:
    """The XOR-span of some vectors, kept in echelon form."""

    def __init__(self, vectors: Iterable[int] = ()):
        self.rows = []
        for v in vectors:
            self.add(v)

    def reduce(self, v: int) -> int:
        for r in self.rows:
            v = min(v, v ^ r)
        return v

    def add(self, v: int) -> bool:
        """Add a vector; False if it was in the span already."""
        v = self.reduce(v)
        if v:
            self.rows.append(v)
            self.rows.sort(reverse=True)
        return bool(v)

    def has(self, v: int) -> bool:
        return self.reduce(v) == 0


@functools.cache
def _echelon(images: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Rows (pivot value, combination of inputs) that solve for a vector by elimination."""
    rows = []
    for k, image_ in enumerate(images):
        value, combination = image_, 1 << k
        for v, c in rows:
            if value ^ v < value:
                value, combination = value ^ v, combination ^ c
        if value:
            rows.append((value, combination))
            rows.sort(reverse=True)
    return tuple(rows)


def solve(images: Iterable[int], want: int) -> int | None:
    """The bits whose images XOR to `want`, as an integer; None if there are none.

    >>> solve((1, 2, 4), 6)
    6
    """
    combination = 0
    for value, c in _echelon(tuple(images)):
        if want ^ value < want:
            want, combination = want ^ value, combination ^ c
    return combination if want == 0 else None


def image(images: Sequence[int], bits: int) -> int:
    """XOR of the images of the set bits."""
    out = 0
    while bits:
        lowest = bits & -bits
        out ^= images[lowest.bit_length() - 1]
        bits ^= lowest
    return out


def span_of(images: Sequence[int]) -> list[int]:
    """image(images, i) for every i, in order."""
    out = [0]
    for x in images:
        out += [y ^ x for y in out]
    return out


# --- bits of shapes ---------------------------------------------------------------------------------------------
def log2(n: int) -> int:
    return int(n).bit_length() - 1


def powers(start: int, stop: int) -> list[int]:
    """Powers of two times `start`, below `stop`.

    >>> powers(3, 20)
    [3, 6, 12]
    """
    out = []
    while start < stop:
        out.append(start)
        start *= 2
    return out


def axis_bits(shape: Sequence[int], axis: int) -> tuple[int, int]:
    """(lowest bit, number of bits) of an axis in the row-major index."""
    axis %= len(shape)
    return log2(product(shape[axis + 1 :])), log2(shape[axis])


def with_bits(low: int, width: int, x: int) -> int:
    """An index with `width` zero bits put in at bit `low`.

    >>> with_bits(1, 2, 0b111)
    25
    """
    return (x & ((1 << low) - 1)) | (x >> low << (low + width))


def without_bits(low: int, width: int, x: int) -> int:
    """x without `width` bits from `low` on; those above move down.

    >>> bin(without_bits(1, 2, 0b1011))
    '0b11'
    """
    return (x & ((1 << low) - 1)) | (x >> (low + width) << low)


def coordinates(shape: tuple[int, ...], element: int) -> tuple[int, ...]:
    """Per-axis coordinates of a row-major index."""
    out = []
    for d in reversed(shape):
        out.append(element % d)
        element //= d
    return tuple(reversed(out))


def in_matrix(shape: Sequence[int], element: int) -> tuple[int, int, int]:
    """(batch, row, column) of a row-major index."""
    rows, cols = map(log2, shape[-2:])
    return element >> rows + cols, element >> cols & shape[-2] - 1, element & shape[-1] - 1


@functools.cache
def _moves(shape: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, ...]:
    """For each bit of the old row-major index, its bit in the transposed one."""
    new_shape = tuple(shape[k] for k in order)
    moves = [0] * log2(product(shape))
    for new_axis, axis in enumerate(order):
        (low, width), (new_low, _) = axis_bits(shape, axis), axis_bits(new_shape, new_axis)
        for k in range(width):
            moves[low + k] = new_low + k
    return tuple(moves)


def permute_bits(x: int, moves: tuple[int, ...]) -> int:
    """Each set bit k of x goes to bit moves[k]."""
    out, k = 0, 0
    while x:
        if x & 1:
            out |= 1 << moves[k]
        x >>= 1
        k += 1
    return out
