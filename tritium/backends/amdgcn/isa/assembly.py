"""The vector instructions that inline assembly may use, each as the LLVM code that becomes this instruction.

llvmlite's LLVM has no assembler for AMD GPUs, and ends the process if it meets inline assembly. So tritium reads it
itself, and LLVM is given what the instructions do. An instruction that is not here is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tritium.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ...llvm.numbering import NumberingWriter
    from ...llvm.writer import Val

    Emit = Callable[..., Val]  # (writer, operands)


class Instruction(NamedTuple):
    """LLVM's types of result and operands, and the code. `accumulates`: the result is also the last operand."""

    result: str
    operands: tuple[str, ...]
    emit: Emit
    accumulates: bool = False


_FLOATS = {"f16": "half", "f32": "float", "f64": "double"}


def _op(opcode: str, swapped: bool = False) -> Emit:
    return lambda w, x, y: w.binary(opcode, y, x) if swapped else w.binary(opcode, x, y)


def _call(name: str) -> Emit:
    return lambda w, *xs: w.intrinsic(name, xs[0].type, *xs)


def _cast(opcode: str, to: str) -> Emit:
    return lambda w, x: w.cast(opcode, x, to)


def _saturating(name: str, to: str) -> Emit:
    return lambda w, x: w.intrinsic(name, to, x, overload=(to, x.type))


def _twice(first: Emit, second: Emit) -> Emit:
    """second(first(x, y), z)."""
    return lambda w, x, y, z: second(w, first(w, x, y), z)


def _shift(opcode: str) -> Emit:
    """Shifts by the lowest bits of the first operand, as `v_lshlrev_b32` does."""
    return lambda w, by, x: w.binary(opcode, x, w.binary("and", by, w.const("i32", 31)))


def _high(extend: str) -> Emit:
    """The upper half of a product."""

    def emit(w: NumberingWriter, x: Val, y: Val) -> Val:
        product = w.binary("mul", *(w.cast(extend, v, "i64") for v in (x, y)))
        return w.cast("trunc", w.binary("lshr", product, w.const("i64", 32)), "i32")

    return emit


def _low24(w: NumberingWriter, x: Val, y: Val) -> Val:
    return w.binary("mul", *(w.binary("and", v, w.const("i32", (1 << 24) - 1)) for v in (x, y)))


def _not(w: NumberingWriter, x: Val) -> Val:
    return w.binary("xor", x, w.const("i32", -1))


def _field(name: str) -> Emit:
    """Bits of a word: hardware takes offset and width modulo 32."""
    return lambda w, x, *at: w.intrinsic(name, "i32", x, *(w.binary("and", v, w.const("i32", 31)) for v in at))


def _byte_permute(w: NumberingWriter, *xs: Val) -> Val:
    return w.intrinsic("amdgcn.perm", "i32", *xs, overload=())


def _on_floats() -> dict[str, Instruction]:
    found: dict[str, Instruction] = {}
    for suffix, t in (*_FLOATS.items(), ("pk_f16", "<2 x half>")):
        packed = suffix == "pk_f16"
        name = (lambda what: f"v_pk_{what}_f16") if packed else (lambda what, suffix=suffix: f"v_{what}_{suffix}")
        rows: dict[str, Any] = {"add": _op("fadd"), "mul": _op("fmul"), "max": _call("maxnum"), "min": _call("minnum")}
        if not packed and t != "double":
            rows |= {"sub": _op("fsub"), "subrev": _op("fsub", swapped=True)}
        found |= {name(what): Instruction(t, (t, t), emit) for what, emit in rows.items()}
        found[name("fma")] = Instruction(t, (t, t, t), _call("fma"))
        if packed:
            continue
        unary = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "rndne": "roundeven", "rcp": "amdgcn.rcp",
                 "rsq": "amdgcn.rsq", "sqrt": "amdgcn.sqrt", "fract": "amdgcn.fract"}  # fmt: skip
        if t == "float":
            unary |= {"exp": "amdgcn.exp2", "log": "amdgcn.log", "sin": "amdgcn.sin", "cos": "amdgcn.cos"}
            found["v_fmac_f32"] = Instruction(t, (t, t), _call("fma"), accumulates=True)
            found["v_med3_f32"] = Instruction(t, (t, t, t), _call("amdgcn.fmed3"))
            for what in ("max", "min"):
                found[f"v_{what}3_f32"] = Instruction(t, (t, t, t), _twice(_call(f"{what}num"), _call(f"{what}num")))
        found |= {name(what): Instruction(t, (t,), _call(full)) for what, full in unary.items()}
    return found


def _on_integers() -> dict[str, Instruction]:
    two: dict[str, Emit] = {
        "add_u32": _op("add"), "add_nc_u32": _op("add"), "sub_u32": _op("sub"), "sub_nc_u32": _op("sub"),
        "subrev_u32": _op("sub", swapped=True), "subrev_nc_u32": _op("sub", swapped=True), "mul_lo_u32": _op("mul"),
        "mul_hi_u32": _high("zext"), "mul_hi_i32": _high("sext"), "mul_u32_u24": _low24, "and_b32": _op("and"),
        "or_b32": _op("or"), "xor_b32": _op("xor"), "lshlrev_b32": _shift("shl"), "lshrrev_b32": _shift("lshr"),
        "ashrrev_i32": _shift("ashr"), "max_i32": _call("smax"), "min_i32": _call("smin"), "max_u32": _call("umax"),
        "min_u32": _call("umin"),
    }  # fmt: skip
    left: Emit = lambda w, x, by: _shift("shl")(w, by, x)
    three: dict[str, Emit] = {
        "add3_u32": _twice(_op("add"), _op("add")), "or3_b32": _twice(_op("or"), _op("or")),
        "and_or_b32": _twice(_op("and"), _op("or")), "xad_u32": _twice(_op("xor"), _op("add")),
        "lshl_add_u32": _twice(left, _op("add")), "lshl_or_b32": _twice(left, _op("or")),
        "add_lshl_u32": _twice(_op("add"), left), "bfe_u32": _field("amdgcn.ubfe"), "bfe_i32": _field("amdgcn.sbfe"),
        "perm_b32": _byte_permute, "alignbit_b32": _call("fshr"),
    }  # fmt: skip
    one: dict[str, Emit] = {"mov_b32": lambda w, x: x, "not_b32": _not, "bfrev_b32": _call("bitreverse")}
    return {f"v_{name}": Instruction("i32", ("i32",) * count, emit)
            for count, rows in ((1, one), (2, two), (3, three)) for name, emit in rows.items()}


_CASTS = {
    ("f32", "i32"): _cast("sitofp", "float"), ("f32", "u32"): _cast("uitofp", "float"),
    ("i32", "f32"): _saturating("fptosi.sat", "i32"), ("u32", "f32"): _saturating("fptoui.sat", "i32"),
    ("f16", "f32"): _cast("fptrunc", "half"), ("f32", "f16"): _cast("fpext", "float"),
    ("f64", "f32"): _cast("fpext", "double"), ("f32", "f64"): _cast("fptrunc", "float"),
    ("f64", "i32"): _cast("sitofp", "double"), ("i32", "f64"): _saturating("fptosi.sat", "i32"),
}  # fmt: skip
_KINDS = {**_FLOATS, "i32": "i32", "u32": "i32"}

INSTRUCTIONS: dict[str, Instruction] = {
    **_on_floats(),
    **_on_integers(),
    **{f"v_cvt_{to}_{source}": Instruction(_KINDS[to], (_KINDS[source],), emit)
       for (to, source), emit in _CASTS.items()},
}  # fmt: skip
