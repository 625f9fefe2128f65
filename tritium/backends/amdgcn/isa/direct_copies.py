"""Copies from global memory straight to shared memory (LDS), through buffer resources.

A warp names one place; its lanes write one behind the other from there on. The mask chooses offsets, as for loads:
zeros come from beyond the end of the buffer. The hardware counts loads that are under way, not groups of them, and they
arrive in order: a wait for all but `pending` groups is one for all but as many loads as these have.

LLVM would wait for every such load before it reads shared memory, or meets at a barrier. What is read is never what is
being written, for waits and barriers are between them: metadata say so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...gpu.target import AsyncCopies
from . import buffers
from .threads import CONVERGENT, wait_for

if TYPE_CHECKING:
    from ...llvm.writer import Val
    from .target import AmdLowering

_SHARED = "ptr addrspace(3)"
_INTRINSIC = "llvm.amdgcn.raw.ptr.buffer.load.lds"
_SCOPE = "!999997"  # what is copied
_NODES = ["!999995 = distinct !{!999995}", "!999996 = distinct !{!999996, !999995}", f"{_SCOPE} = !{{!999996}}"]


@dataclass
class _Group:
    """Copies of every warp as the text is written: in the open group, and in the one closed last."""

    open: int = 0
    closed: int = 0


def _group(g: AmdLowering) -> _Group:
    return g.once("copies", _Group)


def copy(g: AmdLowering, to: Val, constant: int, source: Val, size: int, mask: Val | None,
         attrs: Mapping[str, Any]) -> None:
    """Copy `size` bytes to `constant` bytes behind `to`, whose first lane's is the warp's place."""
    w, first = g.w, "llvm.amdgcn.readfirstlane.p3"
    w.declare(first, _SHARED, [_SHARED], CONVERGENT)
    w.declare(_INTRINSIC, "void", ["ptr addrspace(8)", _SHARED, "i32 immarg", "i32", "i32", "i32 immarg", "i32 immarg"],
              "nounwind")  # fmt: skip
    resource, offset = buffers.resource(g, attrs["buffer"]), buffers.offset(g, attrs["buffer"], source, mask)
    place = w.effect(f"call {_SHARED} @{first}({to.typed})", _SHARED)
    if constant:
        place = w.effect(f"getelementptr i8, {place.typed}, i32 {constant}", _SHARED)
    arguments = f"{resource.typed}, {place.typed}, i32 {size}, {offset.typed}, i32 0, i32 0, i32 0"
    w.effect(f"call void @{_INTRINSIC}({arguments}), !alias.scope {_SCOPE}")
    _group(g).open += not attrs["layout"].free("warp")  # else some warps have nothing to copy


def commit(g: AmdLowering) -> None:
    """Close a group of copies."""
    group = _group(g)
    group.open, group.closed = 0, group.open


def wait(g: AmdLowering, pending: int) -> None:
    """Wait until at most `pending` groups are under way. All of a loop have as many copies as the one closed last; a
    warp that has more in a group waits for some of them, too."""
    wait_for(g, loads=pending * _group(g).closed)


def annotated(text: str) -> str:
    """The LLVM text with a note at accesses to shared memory: they touch nothing that is being copied.

    >>> annotated("%x = load i32, ptr addrspace(3) %p, align 4")
    '%x = load i32, ptr addrspace(3) %p, align 4'
    >>> annotated(f"call void @{_INTRINSIC}()\\nstore i32 %x, ptr addrspace(3) %p").splitlines()[1]
    'store i32 %x, ptr addrspace(3) %p, !noalias !999997'
    """
    if f"@{_INTRINSIC}(" not in text:
        return text
    return "\n".join([_ACCESS.sub(rf"\1, !noalias {_SCOPE}\2", text), *_NODES])


_ACCESS = re.compile(r"^(.*\b(?:load|store|atomicrmw) .*ptr addrspace\(3\) .*?)(, !dbg .*)?$", re.MULTILINE)
COPIES = AsyncCopies(copy, commit, wait, sizes=(4, 16), in_lane_order=True)
