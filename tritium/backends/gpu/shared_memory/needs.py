"""How much shared memory an op takes: declared once, beside its lowering.

    @lower(ops.histogram)
    @takes_shared(lambda op, room: Need([4 * op.attrs["bins"]]))
    def histogram(g, op, x, mask=None): ...

`allocate_shared` asks for it, and the lowering finds the answer in the op's `shared`: (address, bytes) of each buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any

from .... import ops
from ....ir.core import Op, Value
from ....ir.opdef import OpKind
from ....named_tuples import NamedTuple
from .. import ops as gpu_ops
from ..target import Target

SCRATCH_ALIGNMENT = 16  # bytes: the widest access
BUFFER_ALIGNMENT = 1024  # bytes: where swizzled rows repeat
FEW_CUTS = 2  # halvings of a tile, so that another program finds room: each piece takes two barriers


class Room(NamedTuple):
    """What an op may know of where it takes shared memory: `top` is where free memory begins, `used` has the ops whose
    results somebody reads. `alone`: no other program shares the multiprocessor, so nobody computes while warps meet.
    `programs`: how many a multiprocessor has registers for at once, 1 if that is not known."""

    target: Any
    warps: int
    top: int
    used: Container[Op]
    alone: bool = False
    programs: int = 1

    @property
    def bytes(self) -> int:
        """How much is free."""
        return self.target.shared_bytes - self.top

    @property
    def threads(self) -> int:
        return self.target.warp_size * self.warps

    def spaces(self) -> Iterator[int]:
        """How much is free if as many programs as there are registers for find room at once, and if fewer do."""
        return (self.target.machine.shared_of(count) - self.top for count in range(self.programs, 0, -1))


class Need(NamedTuple):
    """Buffers of these sizes, one behind the other. `attrs` tell the lowering how the op makes do with the room:

    cut: the bits of an element's number by which a tile is cut into pieces that go one after the other
    together: the bytes of a thread that go at once
    segments: a scan goes through shared memory whole, in segments

    `contents` says what each buffer holds when the op ends: an op that needs an equal one finds it there.
    """

    sizes: Sequence[int]
    alignment: int = SCRATCH_ALIGNMENT
    attrs: Mapping[str, Any] = {}
    contents: Sequence[Any] = ()


HOW = ("shared", "cut", "together", "segments", "filled")  # attributes that `allocate_shared` gives ops


class Use(NamedTuple):
    """How a lowering uses shared memory. needs(op, room): what it takes, None if nothing. kept: the buffers live until
    they are released, those of other ops only during the op.

    waits: for whom the op waits before it writes: "all" that may be reading, "tma" (threads meet in any case), or ""
    for nobody. leaves: who may still be reading when the op ends: "threads", "tma", or "" for nobody. meets: the op
    always has a barrier of its own, before which all threads have read what earlier ops wrote; unless it writes
    nothing. keeps: its needs have `contents`.
    """

    needs: Callable[[Op, Room], Need | None]
    kept: bool = False
    waits: str = "all"
    leaves: str = "threads"
    meets: bool = False
    keeps: bool = False


_USES: dict[Any, Use] = {}  # of lowerings


def takes_shared(needs: Callable[[Op, Room], Need | None], **how: Any) -> Callable[[Callable], Callable]:
    """Declare what a lowering takes of shared memory; the arguments are those of `Use`."""

    def declare(lowering: Callable) -> Callable:
        _USES[lowering] = Use(needs, **how)
        return lowering

    return declare


def use_of(target: Target, kind: OpKind) -> Use | None:
    """How ops of a kind take shared memory on a target; None if they never do.

    >>> from tritium import ops
    >>> from tritium.backends.nvptx.isa.target import NvTarget
    >>> use_of(NvTarget.of(80), ops.sort) is None, use_of(NvTarget.of(80), ops.add) is None
    (False, True)
    """
    return _USES.get(target.lower.get(kind))


def addresses(op: Op) -> list[int]:
    """Where the buffers of an op begin, in bytes."""
    return [start for start, _ in op.attrs.get("shared", ())]


def written(op: Op) -> list[tuple[int, int]]:
    """(start, end) of the buffers that an op writes: those that no earlier op has filled."""
    filled = op.attrs.get("filled", ())
    return [(start, start + size) for k, (start, size) in enumerate(op.attrs.get("shared", ())) if k not in filled]


def content(x: Value, axis: int) -> tuple[Value, int]:
    """What a buffer holds that a tile was written to in rows along `axis`: (tile, axis), the same for transposed tiles
    and layouts of one tile."""
    while type(x) is Op and (x.kind is gpu_ops.convert or x.kind is ops.trans and x.attrs["order"] == (1, 0)):
        x, axis = x.operands[0], axis if x.kind is gpu_ops.convert else 1 - axis
    return x, axis


def side_by_side(start: int, sizes: Sequence[int], alignment: int = SCRATCH_ALIGNMENT) -> tuple[list[int], int]:
    """The addresses of buffers from `start` on, each at a multiple of `alignment`; and where free memory begins behind
    them.

    >>> side_by_side(8, [10, 32])
    ([16, 32], 64)
    """
    out, at = [], aligned(start, alignment)
    for size in sizes:
        out.append(at)
        at += aligned(size, alignment)
    return out, at


def aligned(x: int, alignment: int) -> int:
    """The next multiple of `alignment`.

    >>> aligned(17, 16), aligned(32, 16)
    (32, 32)
    """
    return -(-x // alignment) * alignment
