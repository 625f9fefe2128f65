"""Elementwise ops that a row of the table spells: one LLVM line for each register that differs from the others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .... import ops
from ....analysis.arithmetic import constant_of
from ....errors import CompilationError
from ....ir import types as T
from ....ir.core import Module, Op, Value, walk
from ...llvm.rows import instruction
from ..analysis.division import divides
from .registers import Affine, Registers, affine_of, distinct_values, in_pairs
from .words import pack, unpack

if TYPE_CHECKING:
    from ...llvm.writer import Val
    from .function import Lowering

_QUOTIENTS = ("sdiv", "udiv", "srem", "urem")
MOST_HELD = 8  # comparisons of a tile that are held in registers through a loop


def row(g: Lowering, op: Op, *operands: Sequence[Val]) -> Sequence[Val]:
    """Any elementwise op with a row: its LLVM spelling on each register."""
    if g.small_quotients and divides(op):
        return [_small(g, op, *(x[0] for x in operands))]
    t = T.element(op.operands[0].type)
    native = g.target.native.get((op.kind.name, t))
    if native:
        return Registers(len(operands[0]), lambda r: native(g, *[x[r] for x in operands]))
    spell = op.kind.row.llvm.get("uint" if op.attrs.get("unsigned") else t.kind) or op.kind.row.llvm.get("any")
    if spell is None:
        raise CompilationError(None, None, f"op {op.kind.name} on {t} reached the GPU lowering unexpanded")
    if (op.kind.name, t) in g.target.pair_rows:
        return _by_pairs(g, op, spell, operands)
    if spell == "urem" or spell == "and" and t is not T.i1:
        operands = (_periodic(g, op, spell, operands[0]), operands[1])
    alike, distinct = op.attrs.get("alike"), math.prod(map(distinct_values, operands))
    known = op.kind is ops.rem and constant_of(op.operands[1]) is None and op.operands in g.module.found_by(_quotients)
    scalar = _remainder if known else _scalar
    if alike:
        one = lambda r: scalar(g, spell, *[x[r & ~alike] for x in operands])
        return Registers(len(operands[0]), one, distinct)
    joined = _joined(g, spell, t, *operands) if op.kind in (ops.add, ops.sub) and t.is_int else None
    if joined is not None:
        return joined
    if spell.startswith("icmp") and g.loops and distinct > MOST_HELD:
        return _compared_here(g, spell, t, operands, distinct)
    plain = lambda r: scalar(g, spell, *[x[r] for x in operands])
    if spell in _QUOTIENTS and t.bits > 32 and constant_of(op.operands[1]) is None:
        return [plain(r) for r in range(len(operands[0]))]  # they branch, and loads on both sides would wait
    note: Any = _NOTE.get(op.kind) if t.is_int and t is not T.i1 else None
    noted = lambda r: note(g, *[x[r] for x in operands], plain(r))
    out = Registers(len(operands[0]), noted if note else plain, distinct)
    if note and distinct > 1:
        out.affine = _AFFINE[op.kind](g, spell, t.bits, *operands)
    return out


def _by_pairs(g: Lowering, op: Op, spell: str, operands: Sequence[Sequence[Val]]) -> Registers:
    """Two neighbours by one instruction. Each op rounds, as it does where the type is computed in a wider one."""
    w, alike, distinct = g.w, op.attrs.get("alike", 0), math.prod(map(distinct_values, operands))
    compute = lambda xs: instruction(w, spell, xs, contract=False)
    if len(operands[0]) == 1 or distinct == 1:
        return Registers(len(operands[0]), lambda r: compute([x[0] for x in operands]), distinct)
    both = lambda low: unpack(w, compute([pack(w, [x[low & ~alike], x[(low + 1) & ~alike]]) for x in operands]))
    return in_pairs(len(operands[0]), both, distinct)


def _joined(g: Lowering, spell: str, t: Any, x: Sequence[Val], y: Sequence[Val]) -> Registers | None:
    """A sum or difference of two sums, if fewer of its values differ than of pairs: that of the bases, and of the
    numbers. Distances between rows and columns, n[None, :] - m[:, None], are the same along diagonals."""
    a, b = affine_of(x), affine_of(y)
    if a is None or b is None or a.scale is not None or b.scale is not None:
        return None
    numbers = [p + q if spell == "add" else p - q for p, q in zip(a.numbers, b.numbers)]
    count = distinct_values(a.base) * distinct_values(b.base)
    if count * len(set(numbers)) >= min(len(x), distinct_values(x) * distinct_values(y)):
        return None
    base = Registers(len(x), lambda r: _scalar(g, spell, a.base[r], b.base[r]), count)
    out = Registers(len(x), lambda r: g.w.binary("add", base[r], g.const(t, numbers[r])), count * len(set(numbers)))
    out.affine = Affine(base, numbers)
    return out


def _periodic(g: Lowering, op: Op, spell: str, x: Sequence[Val]) -> Sequence[Val]:
    """The dividend of a remainder by a power of two, which is an `and` as well: what registers add to one base counts
    modulo that power. Registers whose numbers agree have one remainder, and load what it leads to once."""
    affine, divisor = affine_of(x), constant_of(op.operands[1])
    if affine is None or affine.scale is not None or divisor is None:
        return x
    period = divisor + (spell == "and")
    if period < 1 or period & (period - 1) or all(number < period for number in affine.numbers):
        return x
    base, numbers = affine.base, [number % period for number in affine.numbers]
    reduced = lambda r: g.w.binary("add", base[r], g.w.const(base[r].type, numbers[r]))
    return Registers(len(x), reduced, distinct_values(base) * len(set(numbers)))


def _compared_here(g: Lowering, spell: str, t: Any, operands: Sequence[Sequence[Val]], distinct: int) -> Registers:
    """Comparisons that are written in the loop they stand in, with the sums they compare: two instructions cost less
    than a register through the loop."""
    level, sums = len(g.w.levels) - 1, [affine_of(x) for x in operands]

    def operand(x: Sequence[Val], known: Affine | None, r: int) -> Val:
        if known is None or known.scale is not None:
            return x[r]
        return g.w.binary("add", known.base[r], g.const(t, known.numbers[r]))

    def one(r: int) -> Val:
        with g.kept_in(level):
            return _scalar(g, spell, *[operand(x, known, r) for x, known in zip(operands, sums)])

    return Registers(len(operands[0]), one, distinct)


def _affine_sum(g: Lowering, spell: str, bits: int, x: Sequence[Val], y: Sequence[Val]) -> Affine | None:
    """One operand's sums and the other operand. Where a number of 32 bits may go with the access (`Lowering.add`), that
    is better still."""
    for known, other in ((x, y), (y, x)):
        affine = affine_of(known)
        keeps_number = affine and affine.scale and affine_of(other) and bits < 64 and g.zeros_of(affine.scale[0])
        if affine is not None and not keeps_number:
            add = lambda r, base=affine.base, other=other: _scalar(g, spell, base[r], other[r])
            count = distinct_values(affine.base) * distinct_values(other)
            return affine._replace(base=Registers(len(x), add, count), exact=False)
    return None


def _affine_product(g: Lowering, spell: str, bits: int, x: Sequence[Val], y: Sequence[Val]) -> Affine | None:
    """One operand's sums by the other operand, if that is one stride for all registers."""
    for known, other in ((x, y), (y, x)):
        affine = affine_of(known)
        if affine is not None and affine.scale is None and distinct_values(other) == 1:
            scaled = lambda r, base=affine.base, other=other: _scalar(g, spell, base[r], other[r])
            return Affine(Registers(len(x), scaled, distinct_values(affine.base)), affine.numbers, other)
    return None


def _small(g: Lowering, op: Op, x: Val, y: Val) -> Val:
    """A quotient or a remainder of a small number; see `small_quotients`."""
    w = g.w
    dividend = w.binary("fadd", w.cast("sitofp", x, "float"), w.const("float", 0.5))
    product = w.binary("fmul", dividend, g.target.reciprocal(g, w.cast("sitofp", y, "float")))
    quotient = w.cast("fptosi", product, "i32")
    return quotient if op.kind is ops.div else g.w.binary("sub", x, g.w.binary("mul", quotient, y))


# What addresses are made of: the lowering notes what it knows of such sums and products.
_NOTE = {ops.add: lambda g, *xs: g.add(*xs), ops.mul: lambda g, *xs: g.mul(*xs)}
_AFFINE = {ops.add: _affine_sum, ops.mul: _affine_product}


def _quotients(module: Module) -> set[tuple[Value, ...]]:
    """The operands of the quotients of a module."""
    return {op.operands for op in walk(module.body) if op.kind is ops.div}


def _remainder(g: Lowering, spell: str, x: Val, y: Val) -> Val:
    """What a quotient that there is leaves."""
    return g.w.binary("sub", x, g.w.binary("mul", _scalar(g, spell.replace("rem", "div"), x, y), y))


def _scalar(g: Lowering, spell: str, *xs: Val) -> Val:
    """A row of the table on one register of each operand."""
    w = g.w
    if spell.startswith("icmp"):
        known = g.decided(spell, *xs)
        if known is not None:
            return known
        xs = g.aligned(spell, *xs)
    if spell == "xor":
        return g.xor(*xs)
    if spell in _QUOTIENTS and xs[0].type == "i64" and xs[1][0] == "%":
        return g.target.wide_quotient(g, spell, *xs)
    return instruction(w, spell, xs, g.module.attrs.get("enable_fp_fusion", True))
