"""What a kernel tells the host: printed values and failed assertions.

There is no service on the host that kernels call. They write records into a buffer, which the host reads after the
kernel. Kernels with messages have a global variable, `tritium_messages` (8 bytes): the host writes the address of the
buffer there, once, when it has loaded the code. While it is 0, nothing is written.

The buffer consists of words of 32 bits: how many words of records are claimed so far (the kernel adds), how many there
is room for (the host writes it), how many assertions failed, and 0. Records follow. A record is claimed by one atomic
addition; what finds no room is lost, and the first word says how much that was. The words of a record are

    1 + the number of its message, the program's three numbers, the element's coordinates, the value

where values below 32 bits are extended, and those of 64 bits take two words, the lower first. What the messages are
stands in the LLVM text, one comment for each, and in the metadata (`messages`): `amdgcn.records` reads both.
A failed assertion ends its warp; warps that wait at a barrier go on without it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ....ir import types as T
from ...gpu.lower.control import assertion, columns, coordinates
from ...gpu.lower.shape import convert_scalar
from ...llvm.writer import Val, value
from ..records import ASSERTED, CAPACITY, CLAIMED, COMMENT, HEADER, VARIABLE
from .atomics import SCOPES

if TYPE_CHECKING:
    from ....ir.core import Op
    from ...llvm.numbering import NumberingWriter
    from .target import AmdLowering


def assert_failed(g: AmdLowering, op: Op) -> None:
    """Report the message with its place and end the warp."""
    site = {"kind": "assert", **dict(zip(("text", "file", "line", "function"), assertion(g, op)))}
    buffer = _buffer(g)
    with g.w.when(_is_there(g, buffer)):
        _add(g, buffer, ASSERTED, 1)
        _record(g, buffer, site, [])
    g.w.call("void", "llvm.amdgcn.endpgm", attributes="noreturn nounwind")


def print_values(g: AmdLowering, op: Op, values: Sequence[Sequence[Val]]) -> None:
    """One record for each element, by the thread that owns it."""
    w, prefix = g.w, op.attrs["prefix"]
    buffer = _buffer(g)
    for n, xs in enumerate(values or [None]):
        layout = g.layout(op.operands[n]) if values else None
        operand = f"(operand {n}) " if len(values) > 1 else ""
        thread, parts = g.linear(layout, lambda e: e) if layout else (None, [0])
        listed = [None] if xs is None else list(xs)  # written where every thread comes by
        owner, there = g.owns(layout), _is_there(g, buffer)
        site = {"kind": "print", "text": prefix + operand, "columns": columns(layout), "hex": op.attrs["hex"],
                "exponents": op.attrs["exponents"]}  # fmt: skip
        with w.when(there), w.when(owner):
            for v, part in zip(listed, parts):
                words, t = ([], None) if v is None else _words(g, v, T.element(op.operands[n].type))
                _record(g, buffer, {**site, "type": t}, [*coordinates(g, layout, thread, part), *words])


def _words(g: AmdLowering, v: Val, t: T.Scalar | T.Ptr) -> tuple[list[Val], str]:
    """(words of a value, the type they are of)."""
    w = g.w
    if type(t) is T.Ptr:
        return _halves(w, w.cast("ptrtoint", v, "i64")), "ptr"
    if t.is_float and t not in (T.f32, T.f64):
        v, t = convert_scalar(g, v, t, T.f32), T.f32
    if t.is_float:
        v = w.cast("bitcast", v, f"i{t.bits}")
    if t.bits == 64:
        return _halves(w, v), str(t)
    return [w.cast("sext" if t.signed else "zext", v, "i32")], str(t)


def _halves(w: NumberingWriter, x: Val) -> list[Val]:
    pair = w.cast("bitcast", x, "<2 x i32>")
    return [w.extract(pair, k) for k in range(2)]


def _buffer(g: AmdLowering) -> Val:
    """The address of the buffer, as the host has left it."""
    definition = f"@{VARIABLE} = protected addrspace(1) externally_initialized global ptr addrspace(1) null, align 8"
    sites = _sites(g)
    if definition not in sites:
        sites[definition] = 0
        g.w.raw(definition)
    return g.w.effect(f"load ptr addrspace(1), ptr addrspace(1) @{VARIABLE}, align 8", "ptr addrspace(1)")


def _is_there(g: AmdLowering, buffer: Val) -> Val:
    return g.w.compare("icmp ne", buffer, value(buffer.type, "null"))


def _sites(g: AmdLowering) -> dict[str, int]:
    """The messages of the module so far and their numbers, and the variable; functions share a writer."""
    return g.w.__dict__.setdefault("message_sites", {})


def _number(g: AmdLowering, site: Mapping[str, Any]) -> int:
    """The number of a message, written down as a comment when it is new."""
    sites, text = _sites(g), json.dumps(site)
    if text not in sites:
        sites[text] = len(sites) - 1  # the variable is among them
        g.w.raw(f"{COMMENT}{text}")
    return sites[text]


def _word(g: AmdLowering, buffer: Val, at: int | Val) -> Val:
    """The address of a word."""
    kind = "i32" if isinstance(at, int) else at.type
    return g.w.effect(f"getelementptr i32, {buffer.typed}, {kind} {at}", buffer.type)


def _add(g: AmdLowering, buffer: Val, at: int | Val, count: int) -> Val:
    text = f"atomicrmw add {_word(g, buffer, at).typed}, i32 {count} {SCOPES['sys']} monotonic"
    return g.w.effect(text, "i32")


def _record(g: AmdLowering, buffer: Val, site: Mapping[str, Any], words: Sequence[Val]) -> None:
    """Claim a record and write it, if there is room."""
    w = g.w
    words = [g.int(1 + _number(g, site)), *(g.target.index(g, "program", a) for a in range(3)), *words]
    start = _add(g, buffer, CLAIMED, len(words))
    room = w.effect(f"load i32, {_word(g, buffer, CAPACITY).typed}, align 4", "i32")
    with w.when(w.compare("icmp ule", w.binary("add", start, g.int(len(words))), room)):
        for k, x in enumerate(words):
            at = w.binary("add", start, g.int(HEADER + k))
            w.effect(f"store {x.typed}, {_word(g, buffer, at).typed}, align 4")
