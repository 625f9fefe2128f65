"""The exact remainder of floats, as a function of its own beside the kernel.

Long division of the mantissas, a bit for each step the exponents differ: the quotient is never rounded, so the result
is exact, denormals included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...llvm.numbering import NumberingWriter
    from ...llvm.writer import Val
    from .target import NvLowering

_SHAPES = {"float": ("i32", 32, 23), "double": ("i64", 64, 52)}


def emit(g: NvLowering, x: Val, y: Val) -> Val:
    """x - y * trunc(x / y), with the sign of x."""
    name = f"tritium.remainder.{x.type}"
    g.once(name, lambda: _define(g.w, x.type))
    return g.w.emit(x.type, f"call {x.type} @{name}({x.typed}, {y.typed})", x, y)


def _define(w: NumberingWriter, kind: str) -> None:
    integer = _SHAPES[kind][0]
    w.declare(f"llvm.ctlz.{integer}", integer, [integer, "i1"])
    w.declare(f"llvm.smax.{integer}", integer, [integer, integer])
    w.raw(function(kind))


def function(kind: str) -> str:
    """LLVM text of the function for "float" or "double"."""
    integer, bits, mantissa = _SHAPES[kind]
    hidden, sign = 1 << mantissa, 1 << (bits - 1)
    infinity = ((1 << (bits - 1 - mantissa)) - 1) << mantissa
    return _TEXT.format(
        kind=kind, i=integer, bits=bits, mantissa=mantissa, hidden=hidden, fraction=hidden - 1, sign=sign - (1 << bits),
        rest=sign - 1, infinity=infinity, spare=bits - 1 - mantissa,
        nan="0x7FF8000000000000",
    )  # fmt: skip


# With a leading one at bit `mantissa` in both, take the divisor from the dividend wherever it fits, from the highest
# bit of the quotient to the lowest; then bring the leading one of what is left back to its place.
_TEXT = """\
define internal {kind} @tritium.remainder.{kind}({kind} %x, {kind} %y) nounwind memory(none) {{
entry:
  %xbits = bitcast {kind} %x to {i}
  %ybits = bitcast {kind} %y to {i}
  %sign = and {i} %xbits, {sign}
  %a = and {i} %xbits, {rest}
  %b = and {i} %ybits, {rest}
  %xwild = icmp uge {i} %a, {infinity}
  %ynan = icmp ugt {i} %b, {infinity}
  %yzero = icmp eq {i} %b, 0
  %wild = or i1 %xwild, %ynan
  %bad = or i1 %wild, %yzero
  br i1 %bad, label %invalid, label %valid
invalid:
  ret {kind} {nan}
valid:
  %small = icmp ult {i} %a, %b
  br i1 %small, label %same, label %divide
same:
  ret {kind} %x
divide:
  %azeros = call {i} @llvm.ctlz.{i}({i} %a, i1 false)
  %bzeros = call {i} @llvm.ctlz.{i}({i} %b, i1 false)
  %afield = lshr {i} %a, {mantissa}
  %bfield = lshr {i} %b, {mantissa}
  %atiny = icmp eq {i} %afield, 0
  %btiny = icmp eq {i} %bfield, 0
  %ashift = sub {i} %azeros, {spare}
  %bshift = sub {i} %bzeros, {spare}
  %apart = and {i} %a, {fraction}
  %bpart = and {i} %b, {fraction}
  %anormal = or {i} %apart, {hidden}
  %bnormal = or {i} %bpart, {hidden}
  %aup = shl {i} %a, %ashift
  %bup = shl {i} %b, %bshift
  %adown = sub {i} 1, %ashift
  %bdown = sub {i} 1, %bshift
  %m = select i1 %atiny, {i} %aup, {i} %anormal
  %n = select i1 %btiny, {i} %bup, {i} %bnormal
  %ae = select i1 %atiny, {i} %adown, {i} %afield
  %be = select i1 %btiny, {i} %bdown, {i} %bfield
  %distance = sub {i} %ae, %be
  br label %step
step:
  %left = phi {i} [%m, %divide], [%next, %step]
  %count = phi {i} [%distance, %divide], [%fewer, %step]
  %less = sub {i} %left, %n
  %fits = icmp sge {i} %less, 0
  %kept = select i1 %fits, {i} %less, {i} %left
  %next = shl {i} %kept, 1
  %fewer = sub {i} %count, 1
  %more = icmp sgt {i} %count, 0
  br i1 %more, label %step, label %pack
pack:
  %none = icmp eq {i} %kept, 0
  br i1 %none, label %zero, label %number
zero:
  %nothing = bitcast {i} %sign to {kind}
  ret {kind} %nothing
number:
  %zeros = call {i} @llvm.ctlz.{i}({i} %kept, i1 false)
  %up = sub {i} %zeros, {spare}
  %high = shl {i} %kept, %up
  %e = sub {i} %be, %up
  %normal = icmp sgt {i} %e, 0
  %field = shl {i} %e, {mantissa}
  %cut = and {i} %high, {fraction}
  %regular = or {i} %cut, %field
  %short = sub {i} 1, %e
  %down = call {i} @llvm.smax.{i}({i} %short, {i} 0)
  %denormal = lshr {i} %high, %down
  %magnitude = select i1 %normal, {i} %regular, {i} %denormal
  %whole = or {i} %magnitude, %sign
  %result = bitcast {i} %whole to {kind}
  ret {kind} %result
}}"""
