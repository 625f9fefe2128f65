"""Affine access analysis: a tile of addresses as a box in a tensor, with a start, a stride and bounds on each axis.

    a_ptr + m[:, None] * stride + k[None, :]      k < K      ->      base a_ptr, rows stride apart, columns below K

Descriptors and pointer arithmetic look the same here. The host encodes tensor maps, so base, strides and sizes must
follow from the kernel's arguments and the grid; only the start of the box may depend on the program and the iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from .... import ops
from ....analysis.affine import Form as Terms
from ....analysis.affine import is_uniform, strides_behind
from ....analysis.polynomial import ZERO, Poly, Scalars
from ....ir import types as T
from ....ir.core import Arg, Op, Value, closure
from ....named_tuples import NamedTuple

Limit: TypeAlias = "tuple[int | None, Poly | None, Poly | None]"  # (axis, low, high); no axis: 0 < high

ONE = Poly.of(1)
ENDLESS = (1 << 31) - 1  # the size of an axis without a bound
MOST_AXES = 5
LARGEST = (1 << 31) - 1  # coordinate that TMA takes


class Wrap(NamedTuple):
    """(start + element) % modulus, computed in integers of a type."""

    start: Poly
    modulus: Poly
    type: T.Scalar


class Axis(NamedTuple):
    """The contribution of an axis to an affine tile: `step` per element, or per wrapped element. From index `end` on,
    the program reads another element instead, or the first ones again where it wraps."""

    step: Poly = ZERO
    wrap: Wrap | None = None
    end: Poly | None = None


class Form(NamedTuple):
    """An affine tile: base (an argument, or None) + offset + the sum of its axes."""

    base: Arg | None
    offset: Poly
    axes: tuple


def form(x: Value, scalars: Scalars) -> Form | None:
    """The Form of a tile of integers or pointers, or of a scalar; None if it has loose terms that are no ranges with an
    end."""
    found = scalars.of(x)
    if found.pointer is not None and type(found.pointer) is not Arg:
        return None
    axes, offset = [Axis(step) for step in found.strides], found.base
    for loose in found.loose:
        ended = _ended(loose.value, scalars)
        strides = None if ended is None else strides_behind(loose.path, [bool(s) for s in ended.strides], False)
        if ended is None or strides is None or True not in strides or axes[strides.index(True)].step:
            return None
        axes[strides.index(True)] = Axis(loose.scale, ended.wrap, ended.size - ended.start)
        offset = offset if ended.wrap else offset + ended.start * loose.scale
    return Form(found.pointer, offset, tuple(axes))


class _Ended(NamedTuple):
    """A range from `start` that begins again, or stands still, from `size` on."""

    start: Poly
    size: Poly
    strides: tuple
    wrap: Wrap | None


def _ended(op: Value, scalars: Scalars) -> _Ended | None:
    """start + index up to a size: `x % size`, `where(x < size, x, 0)` or `min(x, size - 1)`; None for others."""
    if type(op) is not Op or op.kind not in (ops.rem, ops.select, ops.min_) or T.element(op.type) not in (T.i32, T.i64):
        return None
    left, right = op.operands[:2]
    if op.kind is ops.select:
        below, left, other = op.operands
        if type(below) is not Op or below.kind is not ops.lt or below.operands[0] is not left:
            return None
        if not is_uniform(scalars.of(other)):
            return None
        right = below.operands[1]
    x, y = scalars.of(left), scalars.of(right)
    if x.loose or not is_uniform(y) or [step for step in x.strides if step] != [ONE]:
        return None
    wrap = Wrap(x.base, y.base, T.element(op.type)) if op.kind is ops.rem else None
    return _Ended(x.base, y.base + ONE if op.kind is ops.min_ else y.base, x.strides, wrap)


# --- masks ------------------------------------------------------------------------------------------------------------
def bounds(mask: Value, scalars: Scalars) -> list[Limit] | None:
    """[(axis, low, high)] whose conjunction is the mask, relative to the box's start: low <= index < high, one of them
    None, or 0 < high if there is no axis; None if the mask is something else."""
    found = _conditions(mask, scalars)
    if found is None:
        return None
    out = []
    for x in found:
        axes = [k for k, step in enumerate(x.strides) if step]
        if len(axes) > 1 or x.loose:
            return None
        if not axes:
            out.append((None, None, x.base * -1))
            continue
        step = x.strides[axes[0]].number
        if step == 1:  # index + base < 0
            out.append((axes[0], None, x.base * -1))
        elif step == -1:  # base - index < 0
            out.append((axes[0], x.base + ONE, None))
        else:
            return None
    return out


def _conditions(mask: Value, scalars: Scalars) -> list[Terms] | None:
    """Affine forms that must be negative; None if there are others."""
    if type(mask) is not Op:
        return None
    if mask.kind is ops.and_:
        x, y = (_conditions(x, scalars) for x in mask.operands)
        return None if x is None or y is None else x + y
    if mask.kind.view:
        inner = _conditions(mask.operands[0], scalars)
        moved: list[Any] = [scalars.view(mask, x) for x in inner or ()]
        return None if inner is None or None in moved else moved
    if mask.kind not in _COMPARES:
        return None
    swap, one_less = _COMPARES[mask.kind]
    x, y = (scalars.of(z) for z in (reversed(mask.operands) if swap else mask.operands))
    difference = scalars.sum(mask, x, y, -1)
    return None if difference is None else [difference._replace(base=difference.base - Poly.of(one_less))]


_COMPARES = {ops.lt: (False, 0), ops.le: (False, 1), ops.gt: (True, 0), ops.ge: (True, 1)}  # x <= y is x - y - 1 < 0


def narrow(found: Access, mask: Value | None) -> bool:
    """True if the mask of an access only says that it is inside of its tensor, and every index it compares is a 32-bit
    integer, as with descriptors."""
    if mask is None or not all(dim.closed for dim in found.dims):
        return False
    joins = lambda x: type(x) is Op and (x.kind is ops.and_ or x.kind.broadcasts)
    compares = lambda x: type(x) is Op and x.kind in (ops.lt, ops.ge) and all(_integers(y) <= 1 for y in x.operands)
    return all(joins(x) or compares(x) for x in closure([mask], lambda x: x.operands if joins(x) else ()))


def _integers(x: Value) -> int:
    """The number of 32-bit integers that are summed in indices; `_MANY` if they contain something else."""
    if type(x.type) is not T.Tile:
        return _scalars(x)
    if type(x) is not Op:
        return _MANY
    if x.kind is ops.arange:
        return 0
    if x.kind is ops.splat:
        return _scalars(x.operands[0])
    passes = x.kind is ops.add or x.kind is ops.cast or x.kind.broadcasts
    return sum(map(_integers, x.operands)) if passes else _MANY


def _scalars(scalar: Value) -> int:
    """1 for a 32-bit integer, `_MANY` for other numbers."""
    while type(scalar) is Op and scalar.kind is ops.cast:
        scalar = scalar.operands[0]
    if type(scalar) is Op and scalar.kind is ops.constant:
        return 1 if abs(scalar.attrs["value"]) <= ENDLESS else _MANY
    return 1 if scalar.type is T.i32 else _MANY


_MANY = 1 << 10


# --- accesses ---------------------------------------------------------------------------------------------------------
class Dim(NamedTuple):
    """One dimension of the tensor of a box: its size (None if unbounded), its stride, the start and the size of the
    box, and whether elements before 0 are masked off."""

    size: Poly | None
    stride: Poly
    start: Poly
    box: int
    closed: bool = False


class Access(NamedTuple):
    """A box in memory: base argument, offset, and the dimensions of its tensor from slowest to fastest. `tile` are the
    positions of the tile's two axes among them; `ends` the tile's axes whose `end` is that of the tensor: from there on
    the box has zeros, and the program reads elements that nobody may observe."""

    base: Arg
    offset: Poly
    dims: tuple
    tile: tuple
    ends: tuple
    form: Form
    limits: tuple


class NoBox(Exception):
    """Why a tile of pointers is no box that the host can describe: what is wrong, or what of its tensor the host does
    not know, with the values that this depends on."""

    def __init__(self, what: str, values: Iterable[Value] = ()):
        super().__init__(what)
        self.what, self.values = what, tuple(values)


def access(pointers: Value, mask: Value | None, scalars: Scalars, uniform: Callable[[Value], bool]) -> Access | None:
    """The Access of a 2-D tile of pointers under a mask (or None); None if it is not a box. `uniform(x)` says whether a
    value is the same in all programs, and known before the launch."""
    try:
        return box_of(pointers, mask, scalars, uniform)
    except NoBox:
        return None


def box_of(pointers: Value, mask: Value | None, scalars: Scalars, uniform: Callable[[Value], bool]) -> Access:
    """As `access`; NoBox is raised if it is not a box."""
    f = form(pointers, scalars)
    limits = () if mask is None else bounds(mask, scalars)
    if f is None:
        raise NoBox("its addresses are not an argument + row * stride + column")
    if limits is None:
        raise NoBox("its mask is more than bounds of rows and columns")
    if f.base is None or not uniform(f.base):
        raise NoBox("its base pointer is no argument of the kernel")
    if len(f.axes) != 2:
        raise NoBox(f"it has {len(f.axes)} axes, not two")
    ended = [(k, None, axis.end) for k, axis in enumerate(f.axes) if axis.end is not None and not axis.wrap]
    limits = (*limits, *ended)
    steps = [axis.step for axis in f.axes]
    fast = next((k for k in (1, 0) if steps[k] == ONE), None)
    if fast is None:
        raise NoBox("neither its rows nor its columns are contiguous, as far as the compiler knows")
    if not all(map(uniform, steps[1 - fast].values)):
        raise NoBox("the stride", steps[1 - fast].values)
    if len(steps[1 - fast].terms) != 1:
        raise NoBox("the stride of its tensor is a sum")
    return _Box(f, limits, fast, pointers.type.shape, uniform).access()


class _Box:
    """Assigns the terms of the offset to the axes."""

    def __init__(self, f: Form, limits: Sequence[Limit], fast: int,
                 shape: tuple[int, ...], uniform: Callable[[Value], bool]):
        self.form, self.limits, self.fast, self.shape, self.uniform = f, limits, fast, shape, uniform
        self.rest = f.offset
        self.extra = []
        self.conditions = [high for k, _, high in limits if k is None]  # 0 < high: those of extra dimensions

    def access(self) -> Access:
        dims = {k: self.bounded(k) for k in (0, 1)}
        for k in (1 - self.fast, self.fast):
            if dims[k] is None:
                dims[k] = self.endless(k)
        self.settle_rest()
        assert self.form.base is not None
        order = [*self.extra, dims[1 - self.fast], dims[self.fast]]
        if len(order) > MOST_AXES:
            raise NoBox(f"its tensor has more than {MOST_AXES} axes")
        places = (len(order) - 1, len(order) - 2) if self.fast == 0 else (len(order) - 2, len(order) - 1)
        ends = tuple(k for k in (0, 1) if self.form.axes[k].end is not None)
        return Access(self.form.base, self.rest, tuple(order), places, ends, self.form, tuple(self.limits))

    def bounded(self, k: int) -> Dim | None:
        """The Dim of an axis that wraps or has bounds; None if it has neither."""
        axis, box = self.form.axes[k], self.shape[k]
        mine = [limit for limit in self.limits if limit[0] == k]
        if axis.wrap:
            if mine:
                raise NoBox("its rows wrap, and its mask bounds them as well")
            if not all(map(self.uniform, axis.wrap.modulus.values)):
                raise NoBox("the size", axis.wrap.modulus.values)
            return Dim(axis.wrap.modulus, axis.step, axis.wrap.start, box)
        highs, lows = [h for _, _, h in mine if h is not None], [low for _, low, _ in mine if low is not None]
        if not mine:
            return None
        if not highs or len(set(highs)) > 1 or len(set(lows)) > 1:
            raise NoBox("its mask has several bounds on one axis, or no upper one")
        # the tensor begins at the lower bound; without one, the box starts where what the host does not know vanishes
        start = (lows[0] if lows else highs[0].split(self.uniform)[1]) * -1
        size = highs[0] + start
        if not all(map(self.uniform, size.values)):
            raise NoBox("the size", size.values)
        self.rest = self.rest - start * axis.step
        return Dim(size, axis.step, start, box, bool(lows))

    def endless(self, k: int) -> Dim:
        """An unbounded axis takes the multiples of its step; the fastest one, terms without arguments and the grid: in
        its start, a quotient needs no alignment."""
        step = self.form.axes[k].step
        if k != self.fast:
            start, self.rest = self.rest.divided(step)
        else:
            given = lambda x: self.uniform(x) and (type(x) is not Op or x.kind is ops.num_programs)
            plain = Poly({m: c for m, c in self.rest.terms.items() if not any(map(given, m))})
            start, self.rest = plain, self.rest - plain
        return Dim(None, step, start, self.shape[k])

    def settle_rest(self) -> None:
        """Terms that are left are uniform, or a value times a uniform stride: an extra dimension."""
        self.rest, others = self.rest.split(self.uniform)
        for product, times in others.terms.items():
            stride = tuple(x for x in product if self.uniform(x))
            moving = tuple(x for x in product if not self.uniform(x))
            if not stride or times < 0:
                raise NoBox("the place in memory", moving)
            self.extra.append(self.conditioned(Dim(None, Poly({stride: times}), Poly({moving: 1}), 1)))
        if self.conditions:
            raise NoBox("its mask is more than bounds of its tensor")

    def conditioned(self, dim: Dim) -> Dim:
        """An extra dimension with the bounds that the mask has for it; its tensor begins at the lower one."""
        known = lambda poly: all(map(self.uniform, poly.values))
        lows = [low for high in self.conditions if known(low := dim.start - high + ONE)]
        ends = [end for high in self.conditions if known(end := dim.start + high)]
        self.conditions = [x for x in self.conditions if not known(dim.start - x) and not known(dim.start + x)]
        if len(set(lows)) > 1 or len(set(ends)) > 1:
            raise NoBox("its mask has several bounds on one axis")
        low = lows[0] if lows else Poly()
        self.rest = self.rest + low * dim.stride
        return dim._replace(size=ends[0] - low if ends else None, start=dim.start - low, closed=bool(lows))


def limits(dim: Dim, from_zero: bool = False) -> tuple[int, int]:
    """(least, greatest) coordinate of a box's start in a dimension that TMA takes."""
    least = -LARGEST - 1 if dim.closed and not from_zero else 0
    return least, LARGEST - dim.box if dim.size is None else LARGEST
