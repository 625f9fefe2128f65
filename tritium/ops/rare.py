"""A path that few elements take: what a backend may jump over when no lane needs it."""

# The functions of an op's class have no `self`.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from ..ir import types as T
from ..ir.opdef import op
from ..later import np

__all__ = ["rare"]


@op("rare", traits=("positionwise", "rematerializable"))
class rare:
    """The region's value where a condition holds, else the usual one: operands (condition, usual, *arguments).

    The region maps the arguments' elements to one element, without effects, so it may also be computed everywhere.
    A backend with branches asks whether any lane of a vector needs it.
    """

    def infer(condition, usual, *arguments, regions):
        for t in (condition, *arguments):
            if T.shape(t) != T.shape(usual):
                raise TypeError(f"rare: {t} does not fit {usual}")
        if T.element(condition) is not T.i1:
            raise TypeError(f"rare: the condition must be i1, got {condition}")
        return usual

    def check(op):
        region, = op.regions
        _, usual, *arguments = [T.element(x.type) for x in op.operands]
        if [a.type for a in region.args] != arguments or [y.type for y in region.yields] != [usual]:
            return f"the region must map {arguments} to {usual}"
        return None

    def eval(m, op, condition, usual, *arguments):
        value, = m.map_region(op.regions[0], arguments)
        return np.where(condition, value, usual).astype(usual.dtype)
