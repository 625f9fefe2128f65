"""Constants, control flow and what a program knows about itself. Control ops hold regions; a region ends in `yield`."""

# The functions of an op's class have no `self`.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from ..ir import types as T
from ..ir.opdef import Carry, op
from ..later import np
from .meaning import scalar_of

__all__ = [
    "assert_", "assume", "barrier", "call", "clock", "constant", "for_", "hint", "if_", "num_programs",
    "print_", "program_id", "while_", "yield_",
]  # fmt: skip


@op("constant", attrs=("value", "type"), traits=("rematerializable",), cost="free")
class constant:
    """A number of a scalar type (or a null pointer)."""

    def infer(*, value, type):
        return type

    def check(op):
        value, t = op.attrs["value"], op.attrs["type"]
        if type(t) is T.Tile:
            return "a constant is a scalar; splat it"
        if type(t) is T.Scalar and t is not T.i1 and t.is_int and isinstance(value, float):
            return f"constant {value!r} is not an integer"
        return None

    def eval(m, op):
        return scalar_of(op.attrs["value"], op.attrs["type"])


@op("yield", terminator=True)
class yield_:
    """Hand values out of a region."""

    def infer(*types):
        return None


@op("for", traits=("control_flow",), loop=Carry(3, 1), num_stages=None, unroll=None, flatten=False,
    warp_specialize=False, nonempty=False, copies=1)
class for_:
    """for i in range(lo, hi, step), carrying values: operands (lo, hi, step, *inits), body (i, *carried) -> carried.

    lo, hi, step and i have one integer type; the comparison is signed (unsigned for unsigned types). A negative
    *constant* step counts down. The attributes are scheduling hints without meaning for the result; `nonempty` promises
    that there is an iteration at least, `copies` says how many iterations of the source one is.
    """

    def infer(lo, hi, step, *inits, regions, **hints):
        return tuple(inits)

    def check(op):
        lo, hi, step, *inits = [x.type for x in op.operands]
        body, = op.regions
        if not (lo is hi is step and type(lo) is T.Scalar and lo.is_int):
            return f"loop bounds must share one integer type, got {lo}, {hi}, {step}"
        if [a.type for a in body.args] != [lo, *inits]:
            return "the body's parameters must be the index and the carried types"
        if [y.type for y in body.yields] != inits:
            return "the body must yield the carried types"
        return None

    def eval(m, op, lo, hi, step, *carried):
        body, = op.regions
        for i in range(int(lo), int(hi), int(step) or 1):
            carried = m.run(body, (np.array(i, dtype=lo.dtype), *carried))
        return tuple(carried)


@op("while", traits=("control_flow",), loop=Carry(0, 0))
class while_:
    """while cond: regions (cond(*carried) -> i1, body(*carried) -> carried)."""

    def infer(*inits, regions):
        return tuple(inits)

    def check(op):
        inits = [x.type for x in op.operands]
        cond, body = op.regions
        if [a.type for a in cond.args] != inits or [a.type for a in body.args] != inits:
            return "both regions must take the carried types"
        if [y.type for y in cond.yields] != [T.i1]:
            return "the condition must yield one i1"
        if [y.type for y in body.yields] != inits:
            return "the body must yield the carried types"
        return None

    def eval(m, op, *carried):
        cond, body = op.regions
        while bool(m.run(cond, carried)[0]):
            carried = m.run(body, carried)
        return tuple(carried)


@op("if", traits=("control_flow",))
class if_:
    """Scalar condition; regions (then, else) take nothing and yield the same types."""

    def infer(cond, *, regions):
        return tuple(y.type for y in regions[0].yields)

    def check(op):
        then, other = op.regions
        if op.operands[0].type is not T.i1:
            return f"the condition must be i1, got {op.operands[0].type}"
        if [y.type for y in then.yields] != [y.type for y in other.yields]:
            return "both branches must yield the same types"
        return None

    def eval(m, op, cond):
        return m.run(op.regions[0 if bool(cond) else 1], ())


@op("call", attrs=("callee",), effects="write", traits=("global_memory",), returns=(), memory="write")
class call:
    """Run a function of the module. `returns` are the types of its results, `memory` is what it does at most: "",
    "read" or "write".
    """

    def infer(*operands, callee, returns, memory):
        return tuple(returns)

    def check(op):
        return None if op.attrs["memory"] in ("", "read", "write") else f"memory cannot be {op.attrs['memory']!r}"

    def effect(op):
        return op.attrs["memory"]

    def eval(m, op, *operands):
        return m.call(op, operands)


@op("program_id", attrs=("axis",))
class program_id:
    """This program's index along an axis of the grid."""

    def infer(*, axis):
        return T.i32

    def eval(m, op):
        return np.array(m.pid[op.attrs["axis"]], dtype=np.int32)


@op("num_programs", attrs=("axis",))
class num_programs:
    """Size of the grid along an axis."""

    def infer(*, axis):
        return T.i32

    def eval(m, op):
        return np.array(m.grid[op.attrs["axis"]], dtype=np.int32)


@op("hint", traits=("view", "positionwise"), divisible=None, contiguous=None, constancy=None)
class hint:
    """x, with a promise about its values: one number for each axis (one in all for a scalar)."""

    def infer(x, *, divisible, contiguous, constancy):
        return x

    def eval(m, op, x):
        return x


@op("assume", effects="write")
class assume:
    """A promise that a scalar condition holds."""

    def infer(cond):
        return None

    def eval(m, op, cond):
        m.check_assumption(op, cond)


@op("barrier", effects="write")
class barrier:
    """All lanes of the program see each other's memory effects from before."""

    def infer():
        return None

    def eval(m, op):
        return None


@op("print", attrs=("prefix",), effects="write", traits=("message",), hex=False, exponents=False)
class print_:
    """device_print of any number of values, one line for each element; with `exponents`, `hex` is %a for floats."""

    def infer(*values, prefix, hex, exponents):
        return None

    def eval(m, op, *values):
        m.print(op, values)


@op("assert", attrs=("message",), effects="write", traits=("positionwise", "message"))
class assert_:
    """Stop the kernel when a condition (and its mask, if given) has an element that fails: operands (cond[, mask])."""

    def infer(cond, mask=None, *, message):
        return None

    def eval(m, op, cond, mask=None):
        failed = ~np.asarray(cond) if mask is None else (~np.asarray(cond) & mask)
        if np.any(failed):
            m.assert_failed(op, failed)


@op("clock", attrs=("what",), effects="write")
class clock:
    """A reading of the hardware: "globaltimer" (nanoseconds, i64; "time" is one for all threads) or "smid" (i32)."""

    def infer(*, what):
        return T.i32 if what == "smid" else T.i64

    def eval(m, op):
        return m.clock(op.attrs["what"])
