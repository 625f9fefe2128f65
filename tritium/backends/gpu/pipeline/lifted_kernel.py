"""A kernel with the coordinates of its program lifted to arguments, as warp specialization analyses it.

The producer warp computes scalars only, so the coordinates of boxes must follow from the kernel's arguments and the
program's index (`is_pure`), and the host must be able to describe the tensors before the launch.
"""

from __future__ import annotations

import functools

from .... import ops
from ....analysis.polynomial import ITERATION, Scalars, in_order
from ....ir import types as T
from ....ir.core import Arg, Block, Module, Op, Value, closure, walk
from ....ir.rewrite import Rewriter, sweep
from ....passes.assumed import Assumed
from .. import ops as gpu_ops
from ..analysis.affine import Access, NoBox, access, box_of
from ..analysis.preconditions import Row
from ..tma import HostValues
from .reordering import Reordering


class Refused(Exception):
    """Why a kernel gets no producer warp: the op that is refused, what is wrong with it, what helps, and the op that is
    the cause, if it is another."""

    def __init__(self, op: Op, why: str, remedy: str = "", cause: Value | None = None):
        super().__init__(why)
        self.op, self.why, self.remedy, self.cause = op, why, remedy, cause


class LiftedKernel:
    """A kernel whose program's `coordinates` are lifted to arguments: its index on each axis, then the grid sizes, then
    the block's `rank` if programs have several `blocks`."""

    def __init__(self, module: Module):
        self.original, self.blocks = module, module.attrs.get("num_ctas", 1)
        self.coordinates = tuple(Arg(T.i32, f"{name}.{x}") for name in ("program", "programs") for x in "xyz")
        self.rank = Arg(T.i32, "rank")
        if self.blocks > 1:
            self.coordinates += (self.rank,)
        swept = sweep(module, self._rule)
        self.module = swept.replace(body=Block([*module.args, *self.coordinates], swept.body.ops))
        self.known = HostValues(module.args, self.coordinates[3:6])

    @functools.cached_property
    def reordering(self) -> Reordering | None:
        """Legality of hoisting loads above stores, in terms of the original module."""
        of_memory = lambda module: [op for op in walk(module.body) if op.regions or op.kind.global_memory]
        before = dict(zip(of_memory(self.module), of_memory(self.original), strict=True))
        return Reordering.of(self.original, Assumed(self.original), before)

    def _rule(self, b: Rewriter, op: Op) -> Arg | None:
        if op.kind is gpu_ops.block_rank:
            return self.rank
        first = {ops.program_id: 0, ops.num_programs: 3}.get(op.kind)
        return None if first is None else self.coordinates[first + op.attrs["axis"]]

    @property
    def grid(self) -> dict[int, Row]:
        """{number of an argument in `coordinates`: the row of `ir.bounds` for it}."""
        rows = [(kind, "i32", axis) for kind in ("program_id", "num_programs") for axis in range(3)]
        rows += [("between", "i32", 0, self.blocks - 1)] * (self.blocks > 1)
        return dict(enumerate(rows, len(self.original.args)))

    def access(self, pointers: Value, mask: Value | None) -> Access | None:
        """The box of a tile of pointers, if the host can describe its tensor."""
        return access(pointers, mask, Scalars(), self.known.__contains__)

    def box(self, load: Op, scalars: Scalars) -> Access:
        """The box of a load; Refused is raised if the host cannot describe its tensor."""
        try:
            return box_of(load.operands[0], load.mask, scalars, self.known.__contains__)
        except NoBox as no:
            found = no.with_traceback(None)
        raise self._refused(load, found)

    def _refused(self, load: Op, no: NoBox) -> Refused:
        if not no.values:
            return Refused(load, no.what,
                           "use a tensor descriptor, or an argument + row * stride + column with bounds as the mask")
        unknown = in_order(x for x in no.values if x is not ITERATION and x not in self.known)
        behind = [y for x in unknown for y in computed_from(x)]
        loaded = next((x for x in behind if type(x) is Op and x.kind is ops.load), None)
        if loaded is not None:
            how = "is loaded in the kernel"
        elif any(x in self.coordinates for x in behind):
            how = "differs between programs"
        elif unknown and type(unknown[0]) is Op and all(type(x) is Op or x in self.known for x in behind):
            how = f"is computed by `{unknown[0].kind.name}`"
        else:
            how = "is computed in a loop or a branch"
        return Refused(load, f"the host cannot describe its tensor before the launch, because {no.what} {how}",
                       "pass it as an argument, the same for all programs", loaded)


def values_of(found: Access) -> set[Value]:
    """All values an access depends on except the iteration."""
    polys = [found.offset, found.form.offset]
    polys += [p for dim in found.dims for p in (dim.size, dim.stride, dim.start) if p is not None]
    polys += [p for _, low, high in found.limits for p in (low, high) if p is not None]
    polys += [p for axis in found.form.axes if axis.wrap for p in axis.wrap[:2]]
    polys += [axis.end for axis in found.form.axes if axis.end is not None]
    return {x for poly in polys for x in poly.values if x is not ITERATION}


def computed_from(x: Value) -> dict[Value, None]:
    """A scalar, and the values it is computed from, in order."""
    return dict.fromkeys(closure([x], _operands))


def is_pure(x: Value, barred: tuple[Arg, ...] = ()) -> bool:
    """True if a scalar depends on arguments and the program's index only, without memory or control flow, and on none
    of the `barred` values."""
    plain = lambda y: type(y) is Arg or type(y) is Op and not (y.kind.effects or y.regions or type(y.type) is T.Tile)
    return all(plain(y) and y not in barred for y in closure([x], _operands))


def _operands(x: Value) -> tuple[Value, ...]:
    return x.operands if type(x) is Op else ()
