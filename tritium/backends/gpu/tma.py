"""TMA: the description of the target's unit for the passes, and templates of tensor maps for the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import ops
from ...analysis.arithmetic import EVERYTHING
from ...analysis.polynomial import Poly, Scalars
from ...ir import types as T
from ...ir.builder import Builder
from ...ir.core import Arg, Op, Value
from ...named_tuples import NamedTuple
from .analysis.affine import ENDLESS, Access, limits


class Roles(NamedTuple):
    """How the warps of a block share out registers: the number of warps that are added for the producer, and the
    registers of a thread at launch, and then of producers and of consumers (setmaxnreg). None change hands if those at
    launch are 0: all threads have what consumers have."""

    extra: int
    launched: int
    producers: int
    consumers: int

    @property
    def registers(self) -> tuple[int, int, int]:
        """The registers of a thread at launch, of producers, of consumers."""
        return self.launched, self.producers, self.consumers

    @property
    def first(self) -> int:
        """The registers that a thread begins with: as many decide how many blocks find room."""
        return self.launched or self.consumers


class Tma(NamedTuple):
    """The TMA unit of a target.

    misfit(tile, axis, access): why it cannot move this tile, "" if it can. room: bytes of shared memory for
    multibuffers. warps(number, columns): the ways to give `number` consumer warps a producer, those first that leave
    room for more blocks; `columns` are those of the widest dot. describe(tile, axis, access, blocks): element type, box
    and swizzle of the tensor map; `blocks` multicast it. combines(how, element): it has this atomic update. maps: how
    many tensor maps a kernel may have. divides(tile, axis, blocks): each of `blocks` blocks can multicast a part of
    this tile. parameter: the LLVM type of a tensor map as a parameter of a kernel. wait(g, pending, written): until at
    most `pending` groups of boxes have still to be read from shared memory, or, if `written`, to be written.
    """

    misfit: Callable
    room: int
    warps: Callable[[int, int], tuple[Roles, ...]]
    describe: Callable
    combines: Callable
    maps: int
    divides: Callable
    parameter: str
    wait: Callable


COMPUTED = {ops.div: "div", ops.rem: "rem", ops.min_: "min", ops.max_: "max"}  # what the host computes, and its names
ALIGNMENT = 16  # bytes: addresses and strides are multiples of it


class HostValues:
    """The values that the host knows before a launch: the kernel's own arguments, the sizes of the grid, and quotients
    and the like of their sums and products.

    `sizes` are the arguments that hold the grid; without them, `num_programs` does.
    """

    def __init__(self, arguments: Sequence[Arg], sizes: Sequence[Arg] = ()):
        own, grid = enumerate(arguments), enumerate(sizes)
        self._slots: dict[Value, int] = {**{x: k for k, x in own}, **{x: ~k for k, x in grid}}
        self._asked, self._scalars = not sizes, Scalars()
        self._computed: dict[Op, bool] = {}  # ops of which that is known: whether the host computes them

    def slot(self, x: Value) -> Any:
        """The number of an argument, ~axis for the size of the grid on an axis, or (name, left, right) for what is
        computed of two sums."""
        if type(x) is not Op:
            return self._slots[x]
        return (COMPUTED[x.kind], *map(self.sum, self._operands(x))) if x.kind in COMPUTED else ~x.attrs["axis"]

    def sum(self, poly: Poly) -> tuple:
        """A polynomial as the host evaluates it: the sum of (factor, slots)."""
        return tuple((c, tuple(sorted(map(self.slot, m), key=_order))) for m, c in poly.terms.items())

    def __contains__(self, x: Value) -> bool:
        if type(x) is not Op:
            return x in self._slots
        if x.kind not in COMPUTED or x.type not in (T.i32, T.i64):
            return self._asked and x.kind is ops.num_programs
        if x not in self._computed:
            self._computed[x] = all(y in self for poly in self._operands(x) for y in poly.values)
        return self._computed[x]

    def _operands(self, x: Op) -> list[Poly]:
        return [self._scalars(y) for y in x.operands]


def _order(slot: Any) -> tuple[int, int, str]:
    """Sorts numbers before computed slots."""
    return (0, slot, "") if isinstance(slot, int) else (1, 0, str(slot))


def divisor(x: Value) -> int:
    """A power of two that divides a value the host knows.

    A quotient of something that is promised to be a multiple of 16 counts as aligned: no promise says more, and the
    driver refuses tensors whose address or strides are not.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f(%n: i32 {divisible=16}) {\\n  %0 = constant {value=8, type=i32} : i32\\n"
    ...                  "  %1 = div %n, %0 : i32\\n  %2 = min %n, %0 : i32\\n}")
    >>> divisor(m.args[0]), divisor(m.body.ops[1]) == EVERYTHING, divisor(m.body.ops[2])
    (16, True, 8)
    """
    if type(x) is not Op or x.kind not in COMPUTED:
        return x.attrs.get("divisible", 1) if type(x) is Arg else 1
    sides = [Scalars()(y) for y in x.operands]
    if x.kind is ops.div:
        varying = Poly({m: c for m, c in sides[0].terms.items() if m})
        return EVERYTHING if varying and varying.divisor(divisor) >= ALIGNMENT else 1
    return min(side.divisor(divisor) for side in sides)


def tensor_map(tma: Tma, known: HostValues, tile: T.Tile, axis: int, access: Access, blocks: int = 1) -> tuple:
    """The template of the tensor map of an access that `blocks` blocks multicast; numbers are sums of (factor,
    slots)."""
    element, boxes, swizzle = tma.describe(tile, axis, access, blocks)
    return (element, *span(known, tile, access), boxes, swizzle)


def span(known: HostValues, tile: T.Tile, access: Access) -> tuple[int, int, tuple, tuple]:
    """The memory of the tensor of an access: bytes of an element, base argument, offset, and dims, as in a template."""
    size = lambda dim: Poly.of(ENDLESS) if dim.size is None else dim.size
    dims = tuple((known.sum(size(dim)), known.sum(dim.stride)) for dim in access.dims)
    return (tile.element.bytes, known.slot(access.base), known.sum(access.offset), dims)


def reached(b: Builder, access: Access, starts: Sequence[Value], sure: bool = False,
            from_zero: bool = False) -> Value | None:
    """i1: TMA moves the box as the language defines; None if it always does. `starts` are the coordinates, as i64.

    TMA takes 32-bit coordinates, which are checked unless they are `sure` to be in range; with `from_zero`, none may be
    negative. Elements outside of the tensor are read as zeros, and not written.
    """
    out = None
    for dim, start in zip(access.dims, starts):
        least, most = limits(dim, from_zero)
        number = dim.start.number
        if number is not None and least <= number <= most:
            continue
        looked_at = [] if sure and least else [(ops.ge, least)]
        looked_at += [] if sure else [(ops.le, most)]
        for compare, limit in looked_at:
            fine = compare(b, start, ops.constant(b, value=limit, type=T.i64))
            out = fine if out is None else ops.and_(b, out, fine)
    return out


def by_element(b: Builder, access: Access, shape: tuple[int, ...],
               spell: Callable[[Poly], Value]) -> tuple[Value, list[Value], tuple[bool, ...]]:
    """The operands to move a tile of this shape element by element: (address of its first element; step, low and high
    of each axis, then start and modulus of axes that wrap; which axes wrap). `spell` emits a polynomial as an i64. The
    tile has no rows where bounds without an axis do not hold."""
    form, bounds = access.form, access.limits
    empty = [ops.le(b, spell(high), spell(Poly())) for axis, _, high in bounds if axis is None and high is not None]
    out, wraps = [], tuple(bool(axis.wrap) for axis in form.axes)
    for k, axis in enumerate(form.axes):
        lows = [spell(low) for n, low, _ in bounds if n == k and low is not None]
        highs = [spell(high) for n, _, high in bounds if n == k and high is not None]
        step, low = spell(axis.step), lows[0] if lows else spell(Poly())
        high = highs[0] if highs else spell(Poly.of(shape[k]))
        for none in empty if k == 0 else ():
            high = ops.select(b, none, low, high)
        out += [step, low, high]
    for start, modulus, kind in (axis.wrap for axis in form.axes if axis.wrap):
        wide = spell(start), spell(modulus)
        out += wide if kind.bits == 64 else [ops.cast(b, x, to=kind) for x in wide]
    return ops.addptr(b, access.base, spell(form.offset)), out, wraps
