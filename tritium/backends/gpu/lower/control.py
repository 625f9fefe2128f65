"""Loops and branches: LLVM blocks carrying every register of every carried tile."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from .... import ops
from ....errors import innermost
from ....ir import types as T
from ....ir.core import Op, Value
from ....passes.regions import counts_down
from ...llvm.numbering import NumberingWriter
from ...llvm.writer import Level, Val, value
from ..analysis.held_sums import held_sums
from ..layout.linear import Layout
from ..shared_memory.needs import takes_shared
from .convert import pack
from .function import LOWER, Lowering, llvm_type, lower, spread_need

RARE_TOGETHER = 4  # registers that share a branch around rare values; their usual ones are all held before it


def _flat(lists: Sequence[Sequence[Val] | tuple] | Iterator) -> list[Val]:
    return [x for xs in lists for x in xs]


def _unflat(flat: Sequence[Val], lists: Sequence[Sequence[Val] | tuple]) -> list[list[Val]]:
    out, k = [], 0
    for xs in lists:
        out.append(list(flat[k : k + len(xs)]))
        k += len(xs)
    return out


@lower(ops.for_)
def for_(g: Lowering, op: Op, lo: Sequence[Val], hi: Sequence[Val], step: Sequence[Val],
         *inits: Sequence[Val]) -> tuple[Sequence[Val], ...]:
    (body,) = op.regions
    index_type = op.operands[0].type
    until = ("s" if index_type.signed else "u") + ("gt" if counts_down(op) else "lt")
    kind, nonempty = llvm_type(index_type), op.attrs["nonempty"]
    held = {k: g.target.mma.hold(g, dot, inits[k], nonempty) for k, dot in held_sums(body)}
    held = {k: sums for k, sums in held.items() if sums is not None}
    sizes = [_vector_size(g, y) for y in body.yields]
    inits = tuple(() if k in held else _vectors(g.w, xs, sizes[k]) for k, xs in enumerate(inits))
    with g.w.loop(lo[0], hi[0], step[0], _flat(inits), nonempty, kind, until) as loop:
        g.set(body.args[0], [loop.index])
        for k, xs in enumerate(_unflat(loop.carried, inits)):
            inside = held[k].inside(loop.index, lo[0]) if k in held else _elements(g.w, xs, sizes[k])
            g.set(body.args[1 + k], inside)
        g.loops.append(len(g.w.levels) - 1)
        ends = g.block(body)
        g.loops.pop()
        loop.next = _flat(() if k in held else _vectors(g.w, xs, sizes[k]) for k, xs in enumerate(ends))
    results = _unflat(loop.results, inits)
    return tuple(held[k].after(g) if k in held else _elements(g.w, xs, sizes[k]) for k, xs in enumerate(results))


_IN_WORDS = ("i8", "i16", "half", "bfloat")  # several of these have room in a register


def _vector_size(g: Lowering, yielded: Value) -> int:
    """How many registers of a carried tile are carried as one vector: as the MMA that computes it returns them, or as
    they are loaded, where several are in one word."""
    if type(yielded) is not Op:
        return 1
    if yielded.kind is ops.load and g.target.carries_words and type(yielded.type) is T.Tile:
        return yielded.attrs.get("vector") or 1 if llvm_type(yielded.type) in _IN_WORDS else 1
    return g.target.mma.vector(yielded, g.warps) if yielded.kind.mma else 1


def _vectors(w: NumberingWriter, xs: Sequence[Val], size: int) -> Sequence[Val]:
    """Registers as vectors."""
    return xs if size == 1 else [pack(w, xs[k : k + size]) for k in range(0, len(xs), size)]


def _elements(w: NumberingWriter, xs: Sequence[Val], size: int) -> Sequence[Val]:
    """The registers that vectors hold."""
    return xs if size == 1 else [w.extract(x, k) for x in xs for k in range(size)]


@lower(ops.if_)
def if_(g: Lowering, op: Op, cond: Sequence[Val]) -> tuple[list[Val], ...]:
    w = g.w
    names, end, parts = (w.label("then"), w.label("else")), w.label("end"), []
    for region, name in zip(op.regions, names):
        with beside(w, name) as part:
            # In a loop, what does not depend on the iteration is better computed before it; but not if it is for an
            # exception, as of `guard_masks`: the first region computes nothing.
            with g.kept_in_branch() if g.loops and len(op.regions[0].ops) > 1 else g.kept_here():
                flat = [list(xs) for xs in g.block(region)]
            w.jump(end)
        parts.append((part, flat))
    w.branch(cond[0], *names)
    for (part, _), name in zip(parts, names):
        w.levels[-1].lines += [f"{name}:", *part.lines]
    w.block(end)
    (then, a), (other, b) = parts
    return tuple([w.phi(x.type, (x, then.label), (y, other.label)) for x, y in zip(xs, ys)] for xs, ys in zip(a, b))


@contextmanager
def beside(w: NumberingWriter, label: str) -> Iterator[Level]:
    """Blocks written beside the open ones, to be put in place once the branch to them is written."""
    w.levels.append(Level(label))
    part = w.levels[-1]
    yield part
    w.levels.pop()


def guarded(g: Lowering, mask: Val | Callable[[], Val], make: Callable[[], Sequence[Val]], otherwise: Sequence[Val],
            names: tuple[str, str] = ("masked", "unmasked"), likely: bool | None = None) -> list[Val]:
    """The values that `make` emits, computed behind a branch by the threads whose mask is on; `otherwise` in others.

    For instructions without a predicate of their own, such as loads and atomics of most GPUs, and for what few threads
    need. A mask may be a function, which is called when `make` has emitted its part.
    """
    w, (label, end) = g.w, map(g.w.label, names)
    with beside(w, label) as part:
        with g.kept_here():
            made = make()
        w.jump(end)
    before = w.levels[-1].label
    w.branch(mask() if callable(mask) else mask, label, end, likely)
    w.levels[-1].lines += [f"{label}:", *part.lines]
    w.block(end)
    return [w.phi(x.type, (x, part.label), (y, before)) for x, y in zip(made, otherwise)]


@lower(ops.while_)
def while_(g: Lowering, op: Op, *inits: Sequence[Val]) -> tuple[list[Val], ...]:
    w, (cond, body) = g.w, op.regions
    test, inside, done = w.label("while"), w.label("do"), w.label("done")
    flat, depth = _flat(inits), len(w.levels)
    g.loops.append(depth)
    with beside(w, test) as part:
        carried = [value(x.type, f"%{test}.{k}", depth) for k, x in enumerate(flat)]
        for arg, xs in zip(cond.args, _unflat(carried, inits)):
            g.set(arg, xs)
        w.branch(g.block(cond)[0][0], inside, done)
        w.block(inside)
        for arg, xs in zip(body.args, _unflat(carried, inits)):
            g.set(arg, xs)
        after = _flat(g.block(body))
        w.jump(test)
    g.loops.pop()
    outer = w.levels[-1]
    phis = [f"  {c} = phi {c.type} [{x}, %{outer.label}], [{y}, %{part.label}]"
            for c, x, y in zip(carried, flat, after)]  # fmt: skip
    w.jump(test)
    outer.lines += [f"{test}:", *phis, *part.lines]
    w.block(done)
    return tuple(_unflat([value(c.type, str(c), depth - 1) for c in carried], inits))


@lower(ops.rare)
def rare(g: Lowering, op: Op, cond: Sequence[Val], usual: Sequence[Val], *arguments: Sequence[Val]) -> list[Val]:
    """A branch around the region for several registers: warps whose lanes all take the usual values skip it.

    The usual values stand together before it, so that they are computed beside each other; the region is written once,
    in a loop over the registers that need it.
    """
    out = []
    for first in range(0, len(usual), RARE_TOGETHER):
        part = slice(first, first + RARE_TOGETHER)
        out += _rare(g, op, *[list(xs[part]) for xs in (cond, usual, *arguments)])
    return out


def _rare(g: Lowering, op: Op, cond: list[Val], usual: list[Val], *arguments: list[Val]) -> list[Val]:
    w, names = g.w, ("rare", "usual")
    if len(usual) == 1:
        make = lambda: g.inline(op.regions[0], [xs[0] for xs in arguments])
        return guarded(g, cond[0], make, usual, names, likely=False)

    def one_by_one() -> Sequence[Val]:
        waiting = g.int(0)  # a bit for each register
        for r, x in enumerate(cond):
            waiting = w.binary("or", waiting, w.select(x, g.int(1 << r), g.int(0)))
        with w.loop(waiting, g.int(0), carry=usual, nonempty=True, type="i32", until="ne") as loop:
            loop.step = w.binary("or", loop.index, w.binary("sub", g.int(0), loop.index))  # minus the lowest bit
            lowest = w.binary("sub", g.int(0), loop.step)
            taken = [w.compare("icmp eq", lowest, g.int(1 << r)) for r in range(len(usual))]
            (made,) = g.inline(op.regions[0], [_picked(w, taken, xs) for xs in arguments])
            loop.next = [w.select(here, made, x) for here, x in zip(taken, loop.carried)]
        return loop.results

    return guarded(g, functools.reduce(functools.partial(w.binary, "or"), cond), one_by_one, usual, names, likely=False)


def _picked(w: NumberingWriter, taken: list[Val], xs: list[Val]) -> Val:
    """Of several values the one that is taken; the first if none is."""
    found = xs[0]
    for here, x in zip(taken[1:], xs[1:]):
        found = w.select(here, x, found)
    return found


@lower(ops.clock)
@takes_shared(lambda op, room: spread_need(T.i64, None) if op.attrs["what"] == "time" else None)
def clock(g: Lowering, op: Op) -> Sequence[Val]:
    if op.attrs["what"] == "time":  # branches on it must be taken by all threads together
        return g.spread_owned(op, [g.target.clock(g, "time")], T.i64, None)
    return [g.target.clock(g, op.attrs["what"])]


LOWER |= {
    ops.barrier: lambda g, op: g.target.barrier(g),
    ops.print_: lambda g, op, *values: g.target.print_values(g, op, values),
}


def coordinates(g: Lowering, layout: Layout | None, thread: Val | None, part: int) -> list[Val]:
    """The coordinates of an element, i32: of the one that a thread's part and a register's part of the index name."""
    if layout is None or thread is None:
        return []
    w, index, stride = g.w, [], layout.numel
    at = w.binary("xor", thread, g.int(part))
    for size in layout.shape:
        stride //= size
        index.append(w.binary("urem", w.binary("udiv", at, g.int(stride)), g.int(size)))
    return index


def columns(layout: Layout | None) -> list[int]:
    """How wide each coordinate of an element is printed."""
    return [] if layout is None else [max(1, len(str(size - 1))) for size in layout.shape]


def assertion(g: Lowering, op: Op) -> tuple[str, str, int, str]:
    """(message, file, line, function) of an `assert_`."""
    loc, message = innermost(op.loc) if op.loc else None, op.attrs["message"] or "assertion failed"
    return (message, loc.file, loc.line, loc.function) if loc else (message, "kernel", 0, g.module.name)


@lower(ops.assert_)
def assert_(g: Lowering, op: Op, cond: Sequence[Val], mask: Sequence[Val] | None = None) -> None:
    w = g.w
    for k, c in enumerate(cond):
        failed = w.binary("xor", c, w.const("i1", True))
        if mask is not None:
            failed = w.binary("and", failed, mask[k])
        with w.when(failed, likely=False):
            g.target.assert_failed(g, op)
