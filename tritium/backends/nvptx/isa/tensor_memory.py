"""Blackwell's tensor memory: 128 lanes of 512 columns of 32 bits, where the sums of tcgen05 products are.

An address has the lane in its upper and the column in its lower half. Each warp reads and writes the 32 lanes of its
place in its warpgroup. 128 rows of a result are 128 lanes (shape 32x32b: a thread has a row). 64 rows are the first 16
lanes of each warp's (shape 16x256b: threads have what they have of the result of mma.sync).

Products are asynchronous. A thread that issued some commits them to the next of eight mbarriers; how many commits
there were is counted in a register.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...gpu.layout.linear import Layout, log2
from ...gpu.shared_memory.needs import Need, addresses, takes_shared
from . import fragments
from .shared_memory import start_phases
from .statements import statement
from .threads import barrier
from .warp_roles import await_phase

if TYPE_CHECKING:
    from ....ir.core import Op
    from ...llvm.writer import Val
    from .target import NvLowering

COLUMNS, GRANULE = 512, 32  # that there are, and the fewest that are allocated at once
MBARRIERS = 8  # more products than that are never in flight
WORD = 8  # bytes of shared memory for the address, in front of the mbarriers
MOST = 64  # registers of one instruction: with 128, threads that begin with as many cannot be assembled
COMMITS = "commits_0"  # the register, of the whole kernel


@takes_shared(lambda op, room: Need([WORD + 8 * MBARRIERS], alignment=8), kept=True, waits="", leaves="")
def tensor_memory_alloc(g: NvLowering, op: Op) -> None:
    """The first warp allocates for all; nothing more will be allocated, so that other blocks may."""
    w, (base,) = g.w, addresses(op)
    statement(g, f".reg .b32 {COMMITS[:-1]}<1>;", memory=False, at=0)
    statement(g, f"mov.b32 {COMMITS}, 0;", memory=False)
    with w.when(w.compare("icmp eq", g.place("warp"), g.int(0))):
        statement(g, f"tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [$0], {op.attrs['columns']}; "
                  "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;", g.shared.pointer(g, g.int(base)))
    with w.when(w.compare("icmp eq", g.place("thread"), g.int(0))):
        for k in range(MBARRIERS):
            start_phases(g, g.shared.pointer(g, g.int(base + WORD + 8 * k)), 1)
    meet(g)
    read = lambda: w.effect(f"load i32, {g.shared.pointer(g, g.int(base)).typed}, align 4", "i32")
    g.once("tensor memory", lambda: (g.target.uniform(g, read()), base + WORD))


def tensor_memory_free(g: NvLowering, op: Op) -> None:
    """Nobody reads it any more, and the warp that allocated it gives it back."""
    w, (base, _) = g.w, place_of(g)
    meet(g)
    with w.when(w.compare("icmp eq", g.place("warp"), g.int(0))):
        statement(g, f"tcgen05.dealloc.cta_group::1.sync.aligned.b32 $0, {op.attrs['columns']};", base)


def place_of(g: NvLowering) -> tuple[Val, int]:
    """(where the kernel's columns begin, where its mbarriers begin in shared memory)."""
    return g.once("tensor memory", lambda: None)


def fence(g: NvLowering, side: str) -> None:
    """Accesses to tensor memory are ordered with the barrier that comes next ("before" it) or came last ("after")."""
    statement(g, f"tcgen05.fence::{side}_thread_sync;")


def meet(g: NvLowering) -> None:
    """All threads meet, and see what each other did to tensor memory."""
    fence(g, "before")
    barrier(g)
    fence(g, "after")


# --- commits ----------------------------------------------------------------------------------------------------------
def next_commit(g: NvLowering) -> Val:
    """The address (i32) of the mbarrier of the next commit, which is counted."""
    w, (_, barriers) = g.w, place_of(g)
    count = _commits(g)
    statement(g, f"mov.b32 {COMMITS}, $0;", w.binary("add", count, g.int(1)), memory=False)
    return _barrier_of(g, count, barriers)


def await_commits(g: NvLowering, pending: int) -> None:
    """Wait until at most so many commits are unfinished. Before the first all phases of odd parity count as over."""
    w, (_, barriers) = g.w, place_of(g)
    number = w.binary("sub", _commits(g), g.int(1 + pending))
    parity = w.binary("and", w.binary("lshr", number, g.int(log2(MBARRIERS))), g.int(1))
    await_phase(g, _barrier_of(g, number, barriers), parity)
    fence(g, "after")


def _commits(g: NvLowering) -> Val:
    return statement(g, f"mov.b32 $0, {COMMITS};", gives=["i32"], memory=False)[0]


def _barrier_of(g: NvLowering, number: Val, barriers: int) -> Val:
    w = g.w
    inside = w.binary("shl", w.binary("and", number, g.int(MBARRIERS - 1)), g.int(3))
    return w.binary("add", inside, g.int(barriers))


# --- the sums of a dot ------------------------------------------------------------------------------------------------
def split(shape: tuple[int, ...], warps: int) -> tuple[int, int]:
    """(warpgroups along M, parts of N): they stack along blocks of 128 rows first.

    >>> split((128, 64), 8), split((256, 64), 8)
    ((1, 2), (2, 1))
    """
    groups = warps // 4
    along_m = min(groups, max(1, shape[0] // 128))
    return along_m, groups // along_m


def layout(shape: tuple[int, ...], warps: int) -> Layout:
    """The layout of a result of this shape when it is read from tensor memory.

    >>> layout((128, 32), 4)
    Layout((128, 32), reg=(1, 2, 4, 8, 16), lane=(32, 64, 128, 256, 512), warp=(1024, 2048))
    """
    (m, n), (along_m, parts) = shape, split(shape, warps)
    if m == 64:
        return fragments.accumulator(shape, 4, parts, rows=64)
    powers = lambda low, high, step: [step << k for k in range(log2(low), log2(high))]
    mine, rows = n // parts, 128 * along_m
    reg = powers(1, mine, 1) + powers(rows, m, n)
    return Layout(shape, tuple(reg), tuple(powers(1, 32, n)), tuple(powers(32, rows, n) + powers(mine, n, 1)))


def allocated(count: int) -> int:
    """So many columns and a few more, as they are allocated.

    >>> allocated(8), allocated(136)
    (32, 160)
    """
    return -(-count // GRANULE) * GRANULE


def columns(shape: tuple[int, ...]) -> int:
    """How many columns the sums of a result of this shape take: blocks of 128 rows lie side by side.

    >>> columns((64, 32)), columns((256, 64))
    (32, 128)
    """
    return max(1, shape[0] // 128) * shape[1]


def load(g: NvLowering, shape: tuple[int, ...], column: int, kind: str) -> list[Val]:
    """The registers of a result, once its products are finished. Two instructions share a wait."""
    out, pieces = [], list(_pieces(g, shape, column))
    for pair in (pieces[k : k + 2] for k in range(0, len(pieces), 2)):
        total, body = sum(count for *_, count in pair), ""
        for k, (_, form, count) in enumerate(pair):
            names = ", ".join(f"${k * count + n}" for n in range(count))
            body += f"tcgen05.ld.sync.aligned.{form}.b32 {{{names}}}, [${total + k}]; "
        body += "tcgen05.wait::ld.sync.aligned;"
        out += statement(g, body, *(address for address, *_ in pair), gives=[kind] * total)
    fence(g, "before")
    return out


def store(g: NvLowering, shape: tuple[int, ...], column: int, values: Sequence[Val]) -> None:
    """Put sums where products are added to them, once all threads have met."""
    rest = list(values)
    for address, form, count in _pieces(g, shape, column):
        mine, rest = rest[:count], rest[count:]
        names = ", ".join(f"${k + 1}" for k in range(count))
        statement(g, f"tcgen05.st.sync.aligned.{form}.b32 [$0], {{{names}}};", address, *mine)
    statement(g, "tcgen05.wait::st.sync.aligned;")


def _pieces(g: NvLowering, shape: tuple[int, ...], column: int) -> Iterator[tuple[Val, str, int]]:
    """(address, shape and number, registers) of the instructions that move this thread's part of a result, in the order
    of its registers."""
    w, (m, n), (along_m, parts) = g.w, shape, split(shape, g.warps)
    mine, warp, (base, _) = n // parts, g.place("warp"), place_of(g)
    lane = w.binary("shl", w.binary("and", warp, g.int(3)), g.int(21))
    group = w.binary("lshr", warp, g.int(2))
    block = w.binary("and", group, g.int(along_m - 1))
    part = w.binary("lshr", group, g.int(log2(along_m)))
    inside = w.binary("add", w.binary("mul", block, g.int(n)), w.binary("mul", part, g.int(mine)))
    start = w.binary("add", w.binary("add", base, lane), inside)
    for row in range(0, max(1, m // 128), along_m):
        if m == 64:  # four registers for eight columns
            wide, step = min(mine, 2 * MOST), 2
            form, count = f"16x256b.x{wide // 8}", wide // step
        else:
            wide = count = min(mine, MOST)
            form = f"32x32b.x{count}"
        for first in range(0, mine, wide):
            yield w.binary("add", start, g.int(column + row * n + first)), form, count
