"""Atomic read-modify-write on global memory: one instruction where the architecture has it, else a loop around
compare-and-swap.

One instruction updates several neighbours in memory that a thread holds, where there is a vector form of it; each is
still an update of its own. Where the old values have no use the instruction is `red`, which does not return them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....ir import types as T
from ...gpu.lower.shape import convert_scalar
from ...gpu.lower.words import pack_words, unpack_word
from .statements import bracketed, statement

if TYPE_CHECKING:
    from ....ir.core import Op
    from ...llvm.writer import Val
    from .target import NvLowering

INTEGERS = (T.i32, T.u32, T.i64, T.u64)
_FLOAT_ADD = {T.f16: ("add.noftz", "f16", 70), T.bf16: ("add.noftz", "bf16", 90), T.f32: ("add", "f32", 20),
              T.f64: ("add", "f64", 60)}  # fmt: skip
# How neighbours are added, as words of 32 bits: instruction, PTX type, first architecture for one word. Alone, a 16-bit
# float costs a loop around compare-and-swap that the assembler writes; a pair does not.
_NEIGHBOURS: dict[T.Type, tuple[str, str, int]] = {
    T.f16: ("add.noftz", "f16x2", 70), T.bf16: ("add.noftz", "bf16x2", 90), T.f32: ("add", "f32", 20),
}  # fmt: skip
_VECTORS = 90  # the first architecture for two and four words
_RED = ("relaxed", "release")  # orders of instructions that bring nothing
# A program that does not look at old values learns nothing of those who came before: what is left of their order.
_UNSEEN = {"acq_rel": "release", "acquire": "relaxed"}


def _table() -> dict[tuple[str, T.Scalar], tuple[str, str, int]]:
    """(operation, element type) -> (instruction, PTX type, first architecture)."""
    out = {("add", t): row for t, row in _FLOAT_ADD.items()}
    for t in INTEGERS:
        sign = "s" if t.signed else "u"
        out["add", t] = ("add", f"{'u' if t.bits == 64 else sign}{t.bits}", 20)
        out |= {(how, t): (how, f"{sign}{t.bits}", 32) for how in ("min", "max")}
        out |= {(how, t): (how, f"b{t.bits}", 32) for how in ("and", "or", "xor")}
    for t in (*INTEGERS, T.f32, T.f64):
        out["xchg", t] = ("exch", f"b{t.bits}", 20)
    return out


INSTRUCTIONS = _table()


def widest(sm: int, how: str, t: T.Scalar) -> int:
    """The most neighbours of type `t` that one instruction updates."""
    if how != "add" or t not in _NEIGHBOURS or sm < _NEIGHBOURS[t][2]:
        return 1
    return (16 if sm >= _VECTORS else 4) // t.bytes


def atomic(g: NvLowering, op: Op, pointer: Val, t: T.Scalar | T.Ptr, values: Sequence[Sequence[Val]],
           mask: Val | None) -> list[Val]:
    """Read-modify-write of neighbours; `values` has theirs for each operand. Returns the old ones (0 where the mask is
    off), or nothing if nobody wants them."""
    w, how, kind = g.w, op.attrs.get("how", "cas"), values[0][0].type
    order, wanted = (op.attrs.get("sem", "relaxed"), op.attrs.get("scope", "gpu")), op in g.used
    if len(values[0]) > 1:
        name, type_, _ = _NEIGHBOURS[t]
        old = _atom(g, order, name, type_, pointer, [pack_words(g, values[0])], mask, wanted)
        return [x for word in old for x in unpack_word(g, word, kind)]
    items = [x[0] for x in values]
    if type(t) is T.Ptr:  # exchanged and compared as integers
        items, t = [w.cast("ptrtoint", x, "i64") for x in items], T.i64
    words = [[w.cast("bitcast", x, f"i{t.bits}")] for x in items]
    name, type_, since = INSTRUCTIONS.get((how, t), ("", "", 0))
    if how in ("load", "store"):
        old = _access(g, how, order, t, pointer, words[0][0], mask)
    elif how == "cas":
        old = _atom(g, order, "cas", f"b{t.bits}", pointer, words, mask)
    elif name and g.target.sm >= since:
        old = _atom(g, order, name, type_, pointer, words, mask, wanted)
    elif how in ("min", "max") and t in (T.f32, T.f64):
        old = _float_extreme(g, how, order, t, pointer, words, mask, wanted)
    else:
        old = _swap_loop(g, how, order, t, pointer, items[0], mask)
    return [w.cast("inttoptr" if kind.startswith("ptr") else "bitcast", x, kind) for x in old]


def _atom(g: NvLowering, order: tuple[str, str], name: str, type_: str, pointer: Val, operands: Sequence[Sequence[Val]],
          mask: Val | None, wanted: bool = True) -> list[Val]:
    """The instruction `name`, on the integers of each operand; the old ones, or nothing if they are not wanted."""
    (sem, scope), (pointer, constant) = order, g.sum_of(pointer)
    count, kind = len(operands[0]), operands[0][0].type
    vector = f".v{count}" if count > 1 else ""
    if not wanted and name not in ("exch", "cas"):
        sem = _UNSEEN.get(sem, sem)
    red = not wanted and sem in _RED and name != "exch"
    outs = [] if red else [f"${k}" for k in range(count)]
    at, first = len(outs), len(outs) + 1
    ins = [_listed([f"${first + count * n + k}" for k in range(count)]) for n in range(len(operands))]
    body = ", ".join([*([] if red else [_listed(outs)]), bracketed(f"${at}", constant), *ins])
    body = f"{'red' if red else 'atom'}.{sem}.{scope}.global.{name}{vector}.{type_} {body};"
    inputs = [pointer, *(x for operand in operands for x in operand)]
    if mask is not None:  # results are written before the rest is read
        moves = "".join(f"mov.b{kind[1:]} {x}, 0; " for x in outs)
        body = f"{moves}@${at + len(inputs)} {body}"
        inputs.append(mask)
    return statement(g, body, *inputs, gives=[kind] * len(outs), early=mask is not None)


def _access(g: NvLowering, how: str, order: tuple[str, str], t: T.Scalar, pointer: Val, word: Val,
            mask: Val | None) -> list[Val]:
    """An ordered load or store: the element as an integer, or nothing. A byte travels in a register of 16 bits."""
    w, (sem, scope), (pointer, constant) = g.w, order, g.sum_of(pointer)
    kind = "i16" if t.bits < 16 else word.type
    load = how == "load"
    body = f"{'ld' if load else 'st'}.{sem}.{scope}.global.b{8 * t.bytes} "
    body += f"$0, {bracketed('$1', constant)};" if load else f"{bracketed('$0', constant)}, $1;"
    inputs = [pointer] if load else [pointer, w.cast("zext", word, kind)]
    if mask is not None:
        body = f"{f'mov.b{kind[1:]} $0, 0; ' if load else ''}@$2 {body}"
        inputs.append(mask)
    found = statement(g, body, *inputs, gives=[kind] if load else [], early=mask is not None)
    return [w.cast("trunc", x, word.type) for x in found]


def _listed(registers: Sequence[str]) -> str:
    """Registers as an operand of an instruction."""
    return registers[0] if len(registers) == 1 else f"{{{', '.join(registers)}}}"


def _float_extreme(g: NvLowering, how: str, order: tuple[str, str], t: T.Scalar, pointer: Val,
                   words: Sequence[Sequence[Val]], mask: Val | None, wanted: bool) -> list[Val]:
    """Floats order like integers by their bits: non-negative ones as signed, negative ones reversed as unsigned."""
    w, bits = g.w, t.bits
    positive = w.compare("icmp sge", words[0][0], w.const(f"i{bits}", 0))
    negative = w.binary("xor", positive, w.const("i1", True))
    other = {"max": "min", "min": "max"}[how]
    both = lambda c: c if mask is None else w.binary("and", c, mask)
    a = _atom(g, order, how, f"s{bits}", pointer, words, both(positive), wanted)
    b = _atom(g, order, other, f"u{bits}", pointer, words, both(negative), wanted)
    return [w.select(positive, x, y) for x, y in zip(a, b)]


def _swap_loop(g: NvLowering, how: str, order: tuple[str, str], t: T.Scalar, pointer: Val, x: Val,
               mask: Val | None) -> list[Val]:
    """old = memory; until nobody came between: memory = combine(old, x)."""
    w, kind = g.w, f"i{t.bits}"
    (first,) = g.target.load(g, pointer, kind, 1, mask, None, {"volatile": True})
    again, done = w.label("swap"), w.label("swapped")
    before = w.levels[-1].label
    w.jump(again)
    w.block(again)
    at = len(w.levels[-1].lines)  # the phi goes here, once its second value is known
    old = w.fresh(kind, len(w.levels) - 1)
    new = w.cast("bitcast", _combine(g, how, t, w.cast("bitcast", old, x.type), x), kind)
    (seen,) = _atom(g, order, "cas", f"b{t.bits}", pointer, [[old], [new]], mask)
    lost = w.compare("icmp ne", seen, old)
    lost = lost if mask is None else w.binary("and", lost, mask)
    w.levels[-1].lines.insert(at, f"  {old} = phi {kind} [{first}, %{before}], [{seen}, %{again}]")
    w.branch(lost, again, done)
    w.block(done)
    return [seen]


_ROWS = {  # by kind of type: integer, unsigned, float
    "add": ("add", "add", "fadd"),
    "max": ("smax", "umax", "maxnum"),
    "min": ("smin", "umin", "minnum"),
    "and": ("and", "and", "and"),
    "or": ("or", "or", "or"),
    "xor": ("xor", "xor", "xor"),
}


def _combine(g: NvLowering, how: str, t: T.Scalar, old: Val, x: Val) -> Val:
    """What memory holds after the operation; narrow floats are combined as f32."""
    if how == "xchg":
        return x
    spelled = _ROWS[how][("int", "uint", "float").index("uint" if t.kind == "bool" else t.kind)]
    if t.is_float and t.bits < 32:
        old, x = (convert_scalar(g, v, t, T.f32) for v in (old, x))
    if spelled in ("smax", "umax", "maxnum", "smin", "umin", "minnum"):
        made = g.w.intrinsic(spelled, x.type, old, x)
    else:
        made = g.w.binary(spelled, old, x)
    return convert_scalar(g, made, T.f32, t) if t.is_float and t.bits < 32 else made
