"""THE TABLE: one row says everything about one elementwise op.

From a row come its op kind and type rule, constant folding and the interpreter (NumPy meaning), every backend's scalar
code (LLVM spelling, or an expansion into simpler rows), and a generated test. Other files add rows, never lists of ops.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..ir import types as T
from ..ir.opdef import OpKind
from ..later import functions as N
from ..later import np
from ..named_tuples import NamedTuple
from . import meaning as M


class Row(NamedTuple):
    """name; how many operands; element types accepted; NumPy meaning; LLVM spelling by type class.

    `llvm` maps "bool", "int", "uint", "float" (or "any") to an opcode, or to an intrinsic when it starts with "@".
    `result` is "same" (as the first operand), or a type. A row of several types says instead in `signature` which:
    tuples of the operands' types and the result's. `unit` is the right-hand value that changes nothing.
    `idempotent` ops commute and give x for x and x. `steps`: from an index that counts up and a number, the op makes
    runs that are equal or count up, as x // 4, x % 4 and x < 4 do.
    `exact` says that the result is one of the operands' values or bits: done in a wider type it needs no rounding back.
    `cost` is "cheap", or "slow" where a compiler should rather keep a value than compute it again.
    """

    name: str
    arity: int
    accepts: tuple
    numpy: Callable
    llvm: dict
    doc: str
    result: object = "same"
    signature: tuple = ()
    commutes: bool = False
    unit: object = None
    idempotent: bool = False
    steps: bool = False
    exact: bool = False
    cost: str = "cheap"


ROWS: dict[str, Row] = {}
INT = tuple(t for t in T.INTS if t is not T.i1)
BOOL_INT = T.INTS
FLOAT = T.FLOATS
ANY = (*T.INTS, *T.FLOATS)
WIDE = (T.f32, T.f64)


def row(name, arity, accepts, numpy, llvm, doc, table=ROWS, **rest):
    """Add a row to a table; returns the op kind `name`."""
    if isinstance(llvm, str):
        llvm = {"any": llvm}
    entry = table[name] = Row(name, arity, tuple(accepts), M.quiet(numpy), llvm, doc, **rest)
    return OpKind(name, infer=_infer(entry), doc=doc, elementwise=True, row=entry, eval=_eval(entry))


def _infer(entry):
    def infer(*types):
        if len(types) != entry.arity:
            raise TypeError(f"{entry.name} takes {entry.arity} operands, got {len(types)}")
        first = types[0]
        if entry.signature:
            return _by_signature(entry, types)
        for t in types[1:]:
            if t is not first:
                raise TypeError(f"{entry.name}: operands differ in type: {', '.join(map(str, types))}")
        if T.element(first) not in entry.accepts:
            raise TypeError(f"{entry.name} does not accept {first}")
        return first if entry.result == "same" else T.with_element(first, entry.result)
    return infer


def _by_signature(entry, types):
    """The result type of a row of several types."""
    if any(T.shape(t) != T.shape(types[0]) for t in types):
        raise TypeError(f"{entry.name}: operands differ in shape: {', '.join(map(str, types))}")
    elements = tuple(map(T.element, types))
    for *operands, result in entry.signature:
        if tuple(operands) == elements:
            return T.with_element(types[0], result)
    raise TypeError(f"{entry.name} does not accept {', '.join(map(str, types))}")


def _eval(entry):
    plain = entry.numpy
    by_type = {t: M.in_f32(plain, t, t if entry.result == "same" else entry.result, entry.exact)
               for t in FLOAT if t.bits == 8}

    def evaluate(m, op, *xs):
        fn: Any = by_type.get(T.element(op.operands[0].type), plain)
        return np.asarray(fn(*xs), dtype=M.np_dtype(op.types[0]))
    return evaluate


def _compare(name, fn, signed, unsigned, ordered, doc):
    return row(name, 2, ANY, fn, {"int": f"icmp {signed}", "uint": f"icmp {unsigned}", "bool": f"icmp {unsigned}",
                                  "float": f"fcmp {ordered}"}, doc, result=T.i1, commutes=name in ("eq", "ne"),
               steps=name not in ("eq", "ne"))


def _math(name, fn, doc, llvm=None, accepts=WIDE, cost="slow"):
    return row(name, 1, accepts, M.through_f64(fn), llvm or {}, doc, cost=cost)


# --- arithmetic -------------------------------------------------------------------------------------------------
add = row("add", 2, ANY, M.add, {"int": "add", "uint": "add", "bool": "add", "float": "fadd"}, "x + y; integers wrap.",
          commutes=True, unit=0)
sub = row("sub", 2, ANY, M.subtract,
          {"int": "sub", "uint": "sub", "bool": "sub", "float": "fsub"}, "x - y; integers wrap.", unit=0)
mul = row("mul", 2, ANY, N.multiply, {"int": "mul", "uint": "mul", "bool": "mul", "float": "fmul"},
          "x * y; integers wrap.", commutes=True, unit=1)
div = row("div", 2, (*INT, *FLOAT), M.divide, {"int": "sdiv", "uint": "udiv", "float": "fdiv"},
          "x / y; integers divide towards zero.", unit=1, steps=True, cost="slow")
rem = row("rem", 2, (*INT, *FLOAT), M.remainder, {"int": "srem", "uint": "urem", "float": "frem"},
          "Remainder with the sign of x.", steps=True, cost="slow", exact=True)
fma = row("fma", 3, FLOAT, M.fma, {"float": "@llvm.fma"}, "x * y + z with one rounding.")
mulhi = row("mulhi", 2, (T.i32, T.u32, T.i64, T.u64), M.mulhi, {}, "High half of the product.", commutes=True)
abs_ = row("abs", 1, ANY, N.abs, {"int": "@llvm.abs", "float": "@llvm.fabs"},
           "Absolute value; the smallest integer wraps to itself.", exact=True)
min_ = row("min", 2, ANY, M.fmin, {"int": "@llvm.smin", "uint": "@llvm.umin", "bool": "and", "float": "@llvm.minnum"},
           "The smaller; a NaN loses.", commutes=True, idempotent=True, exact=True)
max_ = row("max", 2, ANY, M.fmax, {"int": "@llvm.smax", "uint": "@llvm.umax", "bool": "or", "float": "@llvm.maxnum"},
           "The larger; a NaN loses.", commutes=True, idempotent=True, exact=True)
min_nan = row("min_nan", 2, FLOAT, N.minimum, {"float": "@llvm.minimum"}, "The smaller; NaN if either is.",
              commutes=True, idempotent=True, exact=True)
max_nan = row("max_nan", 2, FLOAT, N.maximum, {"float": "@llvm.maximum"}, "The larger; NaN if either is.",
              commutes=True, idempotent=True, exact=True)
copysign = row("copysign", 2, FLOAT, N.copysign, {"float": "@llvm.copysign"}, "Magnitude of x, sign of y.", exact=True)

# --- bits -------------------------------------------------------------------------------------------------------
and_ = row("and", 2, BOOL_INT, N.bitwise_and, "and", "Bitwise and.", commutes=True, unit=-1, idempotent=True,
           steps=True)
or_ = row("or", 2, BOOL_INT, N.bitwise_or, "or", "Bitwise or.", commutes=True, unit=0, idempotent=True)
xor = row("xor", 2, BOOL_INT, N.bitwise_xor, "xor", "Bitwise exclusive or.", commutes=True, unit=0)
shl = row("shl", 2, INT, M.shift_left, "shl", "Shift left.", unit=0)
shr = row("shr", 2, INT, M.shift_right, {"int": "ashr", "uint": "lshr"}, "Shift right; keeps the sign of signed types.",
          unit=0, steps=True)
popc = row("popc", 1, INT, M.popcount, "@llvm.ctpop", "Number of set bits.")
clz = row("clz", 1, INT, M.leading_zeros, "@llvm.ctlz", "Leading zero bits; the width for 0.")
brev = row("brev", 1, INT, M.reverse_bits, "@llvm.bitreverse", "Bits in reverse order.")

# --- comparison -------------------------------------------------------------------------------------------------
eq = _compare("eq", N.equal, "eq", "eq", "oeq", "x == y.")
ne = _compare("ne", N.not_equal, "ne", "ne", "une", "x != y; true when either is NaN.")
lt = _compare("lt", N.less, "slt", "ult", "olt", "x < y.")
le = _compare("le", N.less_equal, "sle", "ule", "ole", "x <= y.")
gt = _compare("gt", N.greater, "sgt", "ugt", "ogt", "x > y.")
ge = _compare("ge", N.greater_equal, "sge", "uge", "oge", "x >= y.")

# --- rounding ---------------------------------------------------------------------------------------------------
floor = _math("floor", N.floor, "Largest integer not above x.", {"float": "@llvm.floor"}, cost="cheap")
ceil = _math("ceil", N.ceil, "Smallest integer not below x.", {"float": "@llvm.ceil"}, cost="cheap")
trunc = _math("trunc", N.trunc, "x without its fraction.", {"float": "@llvm.trunc"}, cost="cheap")
rint = _math("rint", N.rint, "Nearest integer, halves to even.", {"float": "@llvm.roundeven"}, cost="cheap")
round_ = _math("round", M.round_away, "Nearest integer, halves away from zero.", {"float": "@llvm.round"}, cost="cheap")

# --- functions --------------------------------------------------------------------------------------------------
sqrt = _math("sqrt", N.sqrt, "Square root.", {"float": "@llvm.sqrt"})
rsqrt = _math("rsqrt", lambda x: 1 / np.sqrt(x), "Reciprocal square root.")
exp = _math("exp", N.exp, "e to the power x.")
exp2 = _math("exp2", N.exp2, "2 to the power x.")
log = _math("log", N.log, "Natural logarithm.")
log2 = _math("log2", N.log2, "Logarithm to base 2.")
sin = _math("sin", N.sin, "Sine of x radians.")
cos = _math("cos", N.cos, "Cosine of x radians.")
tanh = _math("tanh", N.tanh, "Hyperbolic tangent.")
erf = _math("erf", M.of_floats(math.erf), "Error function.")
