"""Constants, ranges, casts and shape changes: what a thread can do with its own registers."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .... import ops
from ....ir import types as T
from ....ir.core import Op
from ....named_tuples import NamedTuple
from ...llvm.writer import Val, value
from ..layout.linear import axis_bits, coordinates, without_bits
from . import words
from .function import LOWER, Lowering, lower
from .registers import Affine, Registers, affine_of, distinct_values, in_pairs
from .words import llvm_type


@lower(ops.constant)
def constant(g: Lowering, op: Op) -> list[Val]:
    return [words.constant(g.w, op.attrs["type"], op.attrs["value"])]


@lower(ops.arange)
def arange(g: Lowering, op: Op) -> Registers:
    layout, start = g.layout(op), op.attrs["start"]
    base, numbers = g.base_and_numbers(layout, lambda x: x)
    below, most = 1 << (op.attrs["end"] - 1).bit_length(), sum({*layout.lane, *layout.warp})

    def element(r: int) -> Val:
        x = g.w.binary("or disjoint", base[r], g.int(numbers[r]))
        x = g.note_sum(g.w.binary("add", x, g.int(start)), base[r], numbers[r] + start, below)
        return g.note_range(x, numbers[r] + start, numbers[r] + start + most)

    out = Registers(len(numbers), element)
    out.affine = Affine(base, [x + start for x in numbers], exact=start >= 0)
    return out


def _pick(g: Lowering, op: Op, x: Sequence[Val], element_of: Callable[[int], int]) -> Sequence[Val]:
    """Result register r is the operand register that holds element_of(r's element)."""
    source, target = g.layout(op.operands[0]), g.layout(op)
    if source is None:
        return [x[0]] * (target.registers if target else 1)
    if target is None:
        return [x[0]]
    places = source.places()
    wanted = [places[element_of(e)] for e in target.register_elements()]

    def picked(xs: Sequence[Val]) -> Registers:
        out = Registers(len(wanted), lambda r: xs[wanted[r]], distinct_values(xs))
        affine = affine_of(xs)
        if affine is not None:
            numbers, scale = [affine.numbers[k] for k in wanted], affine.scale and picked(affine.scale)
            out.affine = affine._replace(base=picked(affine.base), numbers=numbers, scale=scale)
        return out

    out = picked(x)
    if type(x) is Registers:
        out.addends = tuple((picked(xs), *rest) for xs, *rest in x.addends)
    return out


@lower(ops.broadcast)
def broadcast(g: Lowering, op: Op, x: Sequence[Val]) -> Sequence[Val]:
    shape = T.shape(op.operands[0].type)
    lost = [axis_bits(op.type.shape, k) for k, d in enumerate(shape) if d == 1 and op.type.shape[k] != 1]

    def element_of(e: int) -> int:
        for low, width in lost:  # axes come first to last, so higher bits go first and lower positions stay right
            e = without_bits(low, width, e)
        return e

    return _pick(g, op, x, element_of)


@lower(ops.trans)
def trans(g: Lowering, op: Op, x: Sequence[Val]) -> Sequence[Val]:
    order, new = op.attrs["order"], op.type.shape
    old = T.shape(op.operands[0].type)

    def element_of(e: int) -> int:
        at = coordinates(new, e)
        index = 0
        for axis, size in enumerate(old):
            index = index * size + at[order.index(axis)]
        return index

    return _pick(g, op, x, element_of)


@lower(ops.join)
def join(g: Lowering, op: Op, x: Sequence[Val], y: Sequence[Val]) -> list[Val]:
    target, source = g.layout(op), g.layout(op.operands[0])
    if source is None:
        return [(x, y)[e & 1][0] for e in target.register_elements()]
    places = source.places()
    return [(x, y)[e & 1][places[e >> 1]] for e in target.register_elements()]


@lower(ops.split)
def split(g: Lowering, op: Op, x: Sequence[Val]) -> tuple[list[Val], ...]:
    places, layout = g.layout(op.operands[0]).places(), g.layout(op.results[0])
    elements = [0] if layout is None else layout.register_elements()  # of two scalars every thread has both
    return [x[places[e << 1]] for e in elements], [x[places[e << 1 | 1]] for e in elements]


@lower(ops.cat)
def cat(g: Lowering, op: Op, x: Sequence[Val], y: Sequence[Val]) -> list[Val]:
    low, width = axis_bits(op.type.shape, op.attrs["axis"])
    bit, places = low + width - 1, g.layout(op.operands[0]).places()
    return [(x, y)[e >> bit & 1][places[without_bits(bit, 1, e)]] for e in g.layout(op).register_elements()]


LOWER |= {
    ops.program_id: lambda g, op: [g.target.index(g, "program", op.attrs["axis"])],
    ops.num_programs: lambda g, op: [g.target.index(g, "programs", op.attrs["axis"])],
    ops.splat: lambda g, op, x: [x[0]] * g.layout(op).registers,
    ops.expand_dims: lambda g, op, x: _pick(g, op, x, lambda e: e),
    ops.reshape: lambda g, op, x: _pick(g, op, x, lambda e: e),
    ops.hint: lambda g, op, x: x,
    ops.assume: lambda g, op, cond: g.w.call("void", "llvm.assume", cond[0]),
    ops.select: lambda g, op, cond, x, y: Registers(len(x), lambda r: g.select(cond[r], x[r], y[r])),
}


@lower(ops.addptr)
def addptr(g: Lowering, op: Op, p: Sequence[Val], offset: Sequence[Val]) -> Registers:
    """Addresses of registers differ in few of the offsets that they are sums of. The offsets that registers share are
    added first, and those of outer loops before the others: the sums are shared, too, and what remains for each
    register are an offset of 32 bits and one instruction that adds it."""
    pointee = T.element(op.type).pointee
    widen = "sext" if T.element(op.operands[1].type).signed else "zext"
    stored = "i8" if pointee is T.i1 else llvm_type(pointee)
    before = p.addends if type(p) is Registers else ()
    addends = (*(before or ((p,),)), (offset, widen, stored, pointee.bytes))
    (pointers,), *offsets = addends
    added = [_offset(*each) for each in offsets]
    out = Registers(len(p), lambda r: _address(g, pointers, added, r))
    out.addends = addends
    return out


class Offset(NamedTuple):
    """A tile of offsets that are added to pointers: how to widen one, and what it counts."""

    registers: Sequence[Val]
    widen: str
    pointee: str
    size: int
    scaled: Affine | None  # the sums of strides that they are, if known
    distinct: int  # by how many values registers may differ: of the offsets, or of numbers of strides


def _offset(registers: Sequence[Val], widen: str, pointee: str, size: int) -> Offset:
    affine = affine_of(registers)
    if affine is None or affine.scale is None:
        return Offset(registers, widen, pointee, size, None, distinct_values(registers))
    return Offset(registers, widen, pointee, size, affine, len(set(affine.numbers)))


class Term(NamedTuple):
    """What is added to a pointer: by how many of its values registers may differ, and the loop that it is known in."""

    distinct: int
    level: int
    add: Callable[[Val], Val]


_ORDER = operator.itemgetter(0, 1)  # of terms


def _address(g: Lowering, pointers: Sequence[Val], offsets: Sequence[Offset], r: int) -> Val:
    """The sum of a register's pointer and offsets."""
    (at, total), terms = g.sum_of(pointers[r]), []
    for registers, widen, pointee, size, scaled, distinct in offsets:
        step = functools.partial(_step, g, widen, pointee)
        if scaled is not None and scaled.scale is not None:
            terms += _affine_terms(g, scaled, distinct, scaled.scale[r], step, r)
        else:
            index, constant = g.sum_of(registers[r])
            total += constant * size
            terms.append(Term(distinct, index.level, functools.partial(step, index)))
    for term in sorted(terms, key=_ORDER) if len(terms) > 1 else terms:
        at = term.add(at)
    if not total:
        return at
    far = g.w.emit("ptr addrspace(1)", f"getelementptr i8, {at.typed}, i64 {total}", at)
    return g.note_sum(far, at, total)


def _affine_terms(g: Lowering, affine: Affine, count: int, scale: Val, step: Callable[[Val, Val], Val],
                  r: int) -> Iterator[Term]:
    """What to add for register r's offset. One of 64 bits is added in parts: the base, which registers share, and a
    number of strides. One of 32 bits may wrap, so it is computed as a whole, but in the loop that needs it: two
    instructions cost less than a register through the loop."""
    base, number = affine.base[r], affine.numbers[r]
    if scale.type == "i64":
        yield Term(distinct_values(affine.base), base.level, functools.partial(step, base))
        yield Term(count, scale.level, lambda at: _strides(g, step, number, scale, at))
        return

    def add(at: Val) -> Val:
        with g.kept_in(at.level):  # the loop that the pointer is known in
            index = g.w.binary("add", base, g.w.binary("mul", g.w.const(scale.type, number), scale))
        return step(index, at)

    yield Term(count * distinct_values(affine.base), max(base.level, scale.level), add)


def _strides(g: Lowering, step: Callable[[Val, Val], Val], number: int, scale: Val, at: Val) -> Val:
    """A pointer a number of strides further on: by powers of two, which registers share."""
    if not number:
        return at
    lowest = number & -number if number > 0 else number
    before = _strides(g, step, number - lowest, scale, at)
    return step(g.w.binary("mul", g.w.const(scale.type, lowest), scale), before)


def _step(g: Lowering, widen: str, pointee: str, index: Val, at: Val) -> Val:
    """A pointer further on. The index is widened in the loop that needs it: until then it takes one register."""
    w, floor = g.w, g.w.floor
    w.floor = max(floor, at.level)  # the loop that the pointer is known in
    wide = w.cast(widen, index, "i64")
    w.floor = floor
    if wide == "0":
        return at
    return w.emit("ptr addrspace(1)", f"getelementptr {pointee}, {at.typed}, i64 {wide}", at, wide)


@lower(ops.bitcast)
def bitcast(g: Lowering, op: Op, x: Sequence[Val]) -> Registers:
    target = llvm_type(op.attrs["to"])
    return Registers(len(x), lambda r: _bitcast(g, x[r], target))


def _bitcast(g: Lowering, x: Val, target: str) -> Val:
    if x.type.startswith("ptr") != target.startswith("ptr"):
        return g.w.cast("ptrtoint" if x.type.startswith("ptr") else "inttoptr", x, target)
    back = g.same_bits.get(x)
    if back is not None and back.type == target:
        return back
    made = g.w.cast("bitcast", x, target)
    g.same_bits[made] = x
    return made


@lower(ops.cast)
def cast(g: Lowering, op: Op, x: Sequence[Val]) -> Registers:
    source, target = T.element(op.operands[0].type), op.attrs["to"]
    both = g.target.pair_cast(source, target)
    if both is None:
        out = Registers(len(x), lambda r: convert_scalar(g, x[r], source, target), distinct_values(x))
        affine = affine_of(x)
        if affine is not None and affine.exact and target.is_int and target.bits > source.bits:
            base = lambda r: convert_scalar(g, affine.base[r], source, target)
            out.affine = affine._replace(base=Registers(len(x), base, distinct_values(affine.base)))
        return out
    return in_pairs(len(x), lambda low: both(g, x[low], x[min(low + 1, len(x) - 1)]))


def convert_scalar(g: Lowering, x: Val, source: Any, target: Any) -> Val:
    """Value conversion of one register."""
    w, out = g.w, llvm_type(target)
    if source is target:
        return x
    if type(source) is T.Ptr or type(target) is T.Ptr:
        if target is T.i1:
            return w.compare("icmp ne", x, value(x.type, "null"))
        if type(source) is T.Ptr and type(target) is T.Ptr:
            return x
        return w.cast("ptrtoint" if type(source) is T.Ptr else "inttoptr", x, out)
    if target is T.i1:
        compare, zero = ("fcmp une", 0.0) if source.is_float else ("icmp ne", 0)
        return w.compare(compare, x, w.const(x.type, zero))
    if source.is_int and target.is_int:
        if target.bits == source.bits:
            return x
        if x[0] in "-0123456789" and source is not T.i1:
            signed = source.signed or target.bits < source.bits
            return w.const(out, _kept(int(x), min(source.bits, target.bits), signed))
        if target.bits < source.bits:
            return w.cast("trunc", x, out)
        widen = "sext" if source.signed else "zext"
        base, constant = g.sum_of(x)
        wide = w.cast(widen, x, out)
        return g.note_sum(wide, w.cast(widen, base, out), constant) if constant else wide
    if source.is_int:
        if target is T.bf16:
            return convert_scalar(g, convert_scalar(g, x, source, T.f32), T.f32, target)
        return w.cast("sitofp" if source.signed else "uitofp", x, out)
    if source.bits == 8:
        return convert_scalar(g, widen_fp8(g, x, source), T.f16, target)
    if target.is_int:
        return g.target.float_to_int(g, x, target)
    return w.cast("fpext" if target.bits > source.bits else "fptrunc", x, out)


def _kept(x: int, bits: int, signed: bool) -> int:
    """The lowest bits of an integer, as LLVM spells them.

    >>> _kept(0x1FFFF, 16, True), _kept(-1, 16, False), _kept(-8, 16, True)
    (-1, 65535, -8)
    """
    low = x & ((1 << bits) - 1)
    return low - (1 << bits) if signed and low >> (bits - 1) else low


def _widen_finite(g: Lowering, x: Val, t: T.Scalar) -> Val:
    """The float that equals an 8-bit float code of a type whose largest exponent is one like the others."""
    w = g.w
    code = w.cast("zext", x, "i32")
    sign = w.binary("shl", w.binary("and", code, w.const("i32", 0x80)), w.const("i32", 24))
    fields = w.binary("shl", w.binary("and", code, w.const("i32", 0x7F)), w.const("i32", 23 - t.mantissa))
    plain = w.cast("bitcast", w.binary("or", sign, fields), "float")
    wide = w.binary("fmul", plain, w.const("float", 2.0 ** (T.f32.bias - t.bias)))
    is_nan = w.compare("icmp eq", code, w.const("i32", 0x80))
    return w.select(is_nan, value("float", "0x7FF8000000000000"), wide)


def widen_fp8(g: Lowering, x: Val, t: T.Scalar) -> Val:
    """The half that equals an 8-bit float code: the same fields, moved into place and rescaled."""
    w = g.w
    code = w.cast("zext", x, "i16")
    if t is T.f8e5:
        return w.cast("bitcast", w.binary("shl", code, w.const("i16", 8)), "half")
    if t is T.f8e5b16:  # the largest exponent is no infinity
        return w.cast("fptrunc", _widen_finite(g, x, t), "half")
    sign = w.binary("shl", w.binary("and", code, w.const("i16", 0x80)), w.const("i16", 8))
    fields = w.binary("shl", w.binary("and", code, w.const("i16", 0x7F)), w.const("i16", 10 - t.mantissa))
    scale = 2.0 ** (T.f16.bias - t.bias)
    plain = w.cast("bitcast", w.binary("or", sign, fields), "half")
    half = w.binary("fmul", plain, w.const("half", scale)) if scale != 1 else plain
    if t.special == "fn":
        is_nan = w.compare("icmp eq", w.binary("and", code, w.const("i16", 0x7F)), w.const("i16", 0x7F))
        return w.select(is_nan, value("half", "0xH7E00"), half)
    if t.special == "fnuz":
        return w.select(w.compare("icmp eq", code, w.const("i16", 0x80)), value("half", "0xH7E00"), half)
    return half
