"""Program ids, prints, assertions, clocks and inline assembly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from .... import ops
from ....errors import arrow, innermost
from ....ir import types as T
from ....ir.core import Op
from ...llvm.rows import llvm_type
from ...llvm.writer import Val, results_type, vector
from ..fuse.index import Index, chunks, unravel
from ..library.debug import print_line
from .assembly import check as check_assembly
from .function import Lowering
from .reduce import each
from .table import pulled, statement


@pulled(ops.program_id)
def _program_id(lo: Lowering, op: Op, idx: Index) -> Val:
    return lo.w.cast("trunc", lo.axis(op.attrs["axis"]), "i32")


@pulled(ops.num_programs)
def _num_programs(lo: Lowering, op: Op, idx: Index) -> Val:
    return lo.w.cast("trunc", lo.axis(op.attrs["axis"], count=True), "i32")


@statement(ops.barrier, ops.assume)
def _nothing(lo: Lowering, op: Op) -> None:
    """One thread runs a program, and planning does not move loads across a barrier. Assumptions are of no use here."""


@statement(ops.clock)
def _clock(lo: Lowering, op: Op) -> None:
    w = lo.w
    if op.attrs["what"] == "smid":
        lo.values[op] = w.const("i32", 0)  # one "multiprocessor"
        return
    slot = lo.slot("clock", 16)
    w.call("i32", "clock_gettime", w.const("i32", 1), slot)
    seconds = w.load("i64", slot)
    rest = w.load("i64", w.gep("i64", slot, lo.const(1)))
    lo.values[op] = w.effect(f"add i64 {lo.w.effect(f'mul i64 {seconds}, 1000000000', 'i64')}, {rest}", "i64")


# --- prints and assertions --------------------------------------------------------------------------------------
@statement(ops.print_, visits="elements")
def _print(lo: Lowering, op: Op) -> None:
    w = lo.w
    program = [lo.axis(k) for k in range(3)]
    if not op.operands:
        print_line(w, op.attrs["prefix"], "none", program)
    for k, x in enumerate(op.operands):
        t, shape = T.element(x.type), T.shape(x.type)
        text = op.attrs["prefix"] + (f"(operand {k}) " if len(op.operands) > 1 else "")
        with lo.counted(math.prod(shape)) as i:
            idx = tuple(unravel(lo, (i, None), shape)) if shape else ()
            kind, value, digits = _printed(lo, lo.ev(x, idx), t, op.attrs["hex"], op.attrs["exponents"])
            where = [lo.pinned(b) for b, _ in idx]
            print_line(w, text, kind, program, shape, where, value, digits)


def _printed(lo: Lowering, x: Val, t: Any, hexadecimal: bool, exponents: bool) -> tuple:
    """(kind, value as it is passed, digits) of an element."""
    w, pointer = lo.w, isinstance(t, T.Ptr)
    if exponents and not pointer and t.is_float:
        return "exponent", w.cast("fpext", x, "double"), 0
    if hexadecimal:
        bits = 64 if pointer else t.bits
        if pointer:
            x = w.cast("ptrtoint", x, "i64")
        elif llvm_type(t)[0] != "i":
            x = w.cast("bitcast", x, f"i{bits}")
        return "hex", w.cast("zext", x, "i64"), max(2, bits // 4)
    if pointer:
        return "pointer", x, 0
    if t.is_float:
        return "float", w.cast("fpext", x, "double"), 0
    return "int" if t.signed else "uint", w.cast("sext" if t.signed else "zext", x, "i64"), 0


@statement(ops.assert_)
def _assert(lo: Lowering, op: Op) -> None:
    """A false element ends the launch."""
    w = lo.w
    condition, *masks = op.operands
    mask = masks[0] if masks else None
    shape = T.shape(condition.type)
    with chunks(shape, lo.width).each(lo) if shape else nullcontext(()) as idx:
        bad = lo.ev(condition, idx)
        bad = w.binary("xor", bad, w.const(bad.type, True))
        if mask is not None:
            bad = w.binary("and", *lo.spread([bad, lo.ev(mask, idx)]))
        with lo.when(lo.any_lane(bad), likely=False):
            w.call("void", "tt.assert_fail", lo.base, w.string(_complaint(op)), lo.program)
            lo.stop()
            w.block(w.label("unreachable"))


def _complaint(op: Op) -> str:
    """The message of an assertion, and the line it stands on."""
    said = op.attrs["message"] or "assertion failed"
    if op.loc is None:
        return said
    loc = innermost(op.loc)
    return f"{said}\n{arrow(loc.file, loc.line, loc.function)}"


# --- inline assembly --------------------------------------------------------------------------------------------
@statement(ops.inline_asm, visits="elements")
def _inline_asm(lo: Lowering, op: Op) -> None:
    """The host's assembly, once for every `pack` elements."""
    shape = T.shape(op.types[0])
    if shape:
        each(lo, op, shape, op.attrs["pack"], lambda xs: _call_asm(lo, op, xs, op.attrs["pack"]))
        return
    made = _call_asm(lo, op, [lo.scalar(x) for x in op.operands], 1)
    lo.values.update(zip(op.results, made, strict=True))


def _call_asm(lo: Lowering, op: Op, xs: Sequence[Val], pack: int) -> list[Val]:
    w = lo.w
    registers = []
    for k, x in enumerate(op.operands):
        registers += _packed(lo, xs[k * pack:(k + 1) * pack], T.element(x.type))
    outs = [(t, r) for t in op.attrs["types"] for r in _registers(t, pack)]
    types = [r for _, r in outs]
    result = results_type(types)
    asm = op.attrs["asm"].replace("\\", "\\5C").replace('"', "\\22").replace("\n", "\\0A")
    effect = "" if op.attrs["pure"] else "sideeffect "
    statement = f'call {result} asm {effect}"{asm}", "{op.attrs["constraints"]}"'
    _check_asm(lo, op, result, statement, [x.type for x in registers])
    parts = w.results(w.effect(f"{statement}({', '.join(x.typed for x in registers)})", result), types)
    elements = []
    for t in op.attrs["types"]:
        n = len(_registers(t, pack))
        elements += _unpacked(lo, parts[:n], t, pack)
        parts = parts[n:]
    return elements


def _check_asm(lo: Lowering, op: Op, result: str, statement: str, types: Sequence[str]) -> None:
    """Check that the statement assembles: inside the kernel, LLVM would end the process."""
    listed = ", ".join(f"{t} %x{k}" for k, t in enumerate(types))
    check_assembly(op, f"define {result} @f({listed}) {{ %y = {statement}({listed}) ret {result} %y }}", lo.target)


def _registers(t: T.Scalar, pack: int) -> Any:
    """LLVM types of the registers that `pack` elements take: narrow ones share 32 bits."""
    if pack == 1 or type(t) is T.Ptr or t.bits >= 32:
        return [llvm_type(t)] * pack
    return ["i32"] * -(-pack * t.bytes // 4)


def _packed(lo: Lowering, xs: Sequence[Val], t: T.Scalar) -> Any:
    registers = _registers(t, len(xs))
    if registers == [llvm_type(t)] * len(xs):
        return xs
    w, share = lo.w, 4 // t.bytes
    out = []
    for k in range(0, len(xs), share):
        group = w.const(vector(share, llvm_type(t)), 0)
        for l, x in enumerate(xs[k:k + share]):
            group = w.insert(group, x, l)
        out.append(w.cast("bitcast", group, "i32"))
    return out


def _unpacked(lo: Lowering, registers: Any, t: T.Scalar, pack: int) -> Any:
    if len(registers) == pack:
        return registers
    w, share = lo.w, 4 // t.bytes
    groups = [w.cast("bitcast", r, vector(share, llvm_type(t))) for r in registers]
    return [w.extract(groups[k // share], k % share) for k in range(pack)]
