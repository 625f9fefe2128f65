"""What a kernel tells the host: failed assertions and printed values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....ir import types as T
from ...gpu.lower.control import assertion, columns, coordinates
from ...gpu.lower.shape import convert_scalar

if TYPE_CHECKING:
    from ....ir.core import Op
    from ...llvm.writer import Val
    from .target import NvLowering


def assert_failed(g: NvLowering, op: Op) -> None:
    """Report the message with its place and stop the kernel."""
    w, (message, file, line, function) = g.w, assertion(g, op)
    arguments = w.string(message), w.string(file), g.int(line), w.string(function), w.const("i64", 1)
    w.call("void", "__assertfail", *arguments, attributes="noreturn")


def print_values(g: NvLowering, op: Op, values: Sequence[Sequence[Val]]) -> None:
    """One vprintf line for each element a thread owns."""
    w, prefix = g.w, op.attrs["prefix"].replace("%", "%%")
    w.declare("vprintf", "i32", ["ptr", "ptr"])
    pids = [g.target.index(g, "program", a) for a in range(3)]
    if not values:
        _vprintf(g, f"pid (%u, %u, %u){prefix}\n", pids)
    for n, xs in enumerate(values):
        x = op.operands[n]
        layout = g.layout(x)
        operand = f"(operand {n}) " if len(values) > 1 else ""
        thread, parts = g.linear(layout, lambda e: e) if layout else (None, [0])
        owner = g.owns(layout) if layout else None
        xs = list(xs)  # written where every thread comes by
        with w.when(owner):
            for v, part in zip(xs, parts):
                index = coordinates(g, layout, thread, part)
                spec, args = _format(g, v, T.element(x.type), op.attrs["hex"], op.attrs["exponents"])
                idx = ", ".join(f"%{width}u" for width in columns(layout))
                _vprintf(g, f"pid (%u, %u, %u) idx ({idx}){prefix}{operand}{spec}\n", [*pids, *index, *args])


def _vprintf(g: NvLowering, text: str, args: Sequence[Val]) -> None:
    w = g.w
    wide = [w.cast("fpext", a, "double") if a.type == "float" else a for a in args]
    fields = ", ".join(a.type for a in wide) or "i32"
    frame = w.alloca(f"{{{fields}}}")
    for k, a in enumerate(wide):
        p = w.emit("ptr", f"getelementptr {{{fields}}}, ptr {frame}, i32 0, i32 {k}", frame)
        w.store(a, p)
    w.effect(f"call i32 @vprintf(ptr {w.string(text)}, ptr {frame})", "i32")


def _format(g: NvLowering, v: Val, t: T.Scalar | T.Ptr, hexadecimal: bool, exponents: bool) -> tuple[str, list[Val]]:
    """(conversion of printf, arguments) for one value."""
    w = g.w
    if type(t) is T.Ptr:
        return "0x%llx", [w.cast("ptrtoint", v, "i64")]
    if t.is_float and (exponents or not hexadecimal):
        return "%a" if exponents else "%f", [v if t in (T.f32, T.f64) else convert_scalar(g, v, t, T.f32)]
    if t.is_float:
        v = w.cast("bitcast", v, f"i{t.bits}")
    if t.bits < 32:
        v = w.cast("sext" if t.signed and not hexadecimal else "zext", v, "i32")
    long = "ll" if t.bits == 64 else ""
    if hexadecimal:
        return f"0x%0{max(1, t.bits // 4)}{long}x", [v]
    return f"%{long}{'d' if t.signed else 'u'}", [v]
