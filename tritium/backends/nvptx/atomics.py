"""Atomic read-modify-write on global memory: one instruction where the architecture has it, else a loop around
compare-and-swap."""

from __future__ import annotations

from ...ir import types as T
from ..gpu.lower_shape import convert_scalar
from .words import LETTER

INTEGERS = (T.i32, T.u32, T.i64, T.u64)
_FLOAT_ADD = {T.f16: ("add.noftz", "f16", 70), T.bf16: ("add.noftz", "bf16", 90), T.f32: ("add", "f32", 20),
              T.f64: ("add", "f64", 60)}  # fmt: skip


def _table():
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


def atomic(g, op, pointer, t, values, mask):
    """One read-modify-write; returns the old value (0 where the mask is off)."""
    w, how, kind = g.w, op.attrs.get("how", "cas"), values[0].type
    if type(t) is T.Ptr:  # exchanged and compared as integers
        values, t = [w.cast("ptrtoint", x, "i64") for x in values], T.i64
    order = f"{op.attrs.get('sem', 'relaxed')}.{op.attrs.get('scope', 'gpu')}"
    words = [w.cast("bitcast", x, f"i{t.bits}") for x in values]
    name, type_, since = INSTRUCTIONS.get((how, t), (None, None, 0))
    if how == "cas":
        old = _atom(g, order, "cas", f"b{t.bits}", t.bits, pointer, words, mask)
    elif name and g.target.sm >= since:
        old = _atom(g, order, name, type_, t.bits, pointer, words, mask)
    elif how in ("min", "max") and t in (T.f32, T.f64):
        old = _float_extreme(g, how, order, t, pointer, words[0], mask)
    else:
        old = _swap_loop(g, how, order, t, pointer, values[0], mask)
    return w.cast("inttoptr" if kind.startswith("ptr") else "bitcast", old, kind)


def _atom(g, order, name, type_, bits, pointer, words, mask):
    """The instruction `name`, on integers of so many bits."""
    letter = LETTER[bits]
    ins = ", ".join(f"${2 + k}" for k in range(len(words)))
    body = f"atom.{order}.global.{name}.{type_} $0, [$1], {ins};"
    constraints = [f"={letter}", "l"] + [letter] * len(words)
    arguments = [pointer.typed] + [x.typed for x in words]
    if mask is not None:
        body = f"mov.b{bits} $0, 0; @${2 + len(words)} " + body
        constraints = [f"=&{letter}", *constraints[1:], "b"]
        arguments.append(f"i1 {mask}")
    text = f'call i{bits} asm sideeffect "{body}", "{",".join(constraints)},~{{memory}}"({", ".join(arguments)})'
    return g.w.effect(text, f"i{bits}")


def _float_extreme(g, how, order, t, pointer, word, mask):
    """Floats order like integers by their bits: non-negative ones as signed, negative ones reversed as unsigned."""
    w, bits = g.w, t.bits
    positive = w.compare("icmp sge", word, w.const(f"i{bits}", 0))
    negative = w.binary("xor", positive, w.const("i1", True))
    other = {"max": "min", "min": "max"}[how]
    both = lambda c: c if mask is None else w.binary("and", c, mask)
    a = _atom(g, order, how, f"s{bits}", bits, pointer, [word], both(positive))
    b = _atom(g, order, other, f"u{bits}", bits, pointer, [word], both(negative))
    return w.select(positive, a, b)


def _swap_loop(g, how, order, t, pointer, x, mask):
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
    seen = _atom(g, order, "cas", f"b{t.bits}", t.bits, pointer, [old, new], mask)
    lost = w.compare("icmp ne", seen, old)
    lost = lost if mask is None else w.binary("and", lost, mask)
    w.levels[-1].lines.insert(at, f"  {old} = phi {kind} [{first}, %{before}], [{seen}, %{again}]")
    w.branch(lost, again, done)
    w.block(done)
    return seen


_ROWS = {  # by kind of type: integer, unsigned, float
    "add": ("add", "add", "fadd"),
    "max": ("smax", "umax", "maxnum"),
    "min": ("smin", "umin", "minnum"),
    "and": ("and", "and", "and"),
    "or": ("or", "or", "or"),
    "xor": ("xor", "xor", "xor"),
}


def _combine(g, how, t, old, x):
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
