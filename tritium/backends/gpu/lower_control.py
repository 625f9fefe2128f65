"""Loops and branches: LLVM blocks carrying every register of every carried tile."""

from __future__ import annotations

from ... import ops
from .lower import llvm_type, lower


def _flat(lists):
    return [x for xs in lists for x in xs]


def _unflat(flat, lists):
    out, k = [], 0
    for xs in lists:
        out.append(list(flat[k:k + len(xs)]))
        k += len(xs)
    return out


@lower(ops.for_)
def for_(g, op, lo, hi, step, *inits):
    body, = op.regions
    index_type = op.operands[0].type
    down = _constant_step(op) < 0
    until = ("s" if index_type.signed else "u") + ("gt" if down else "lt")
    g.shared.fence_scratch()
    with g.w.loop(lo[0], hi[0], step[0], carry=_flat(inits), type=llvm_type(index_type), until=until) as loop:
        g.set(body.args[0], [loop.index])
        for arg, xs in zip(body.args[1:], _unflat(loop.carried, inits)):
            g.set(arg, xs)
        loop.next = _flat(g.block(body))
        g.shared.fence_scratch()
    return tuple(_unflat(loop.results, inits))


def _constant_step(op):
    step = op.operands[2]
    return step.attrs["value"] if getattr(step, "kind", None) is ops.constant else 1


@lower(ops.if_)
def if_(g, op, cond):
    w, (then, other) = g.w, op.regions
    names = w.label("then"), w.label("else"), w.label("end")
    w.branch(cond[0], names[0], names[1])
    ends = []
    for region, name in ((then, names[0]), (other, names[1])):
        with w.level():
            w.block(name)
            outs = g.block(region)
            w.jump(names[2])
            ends.append((outs, w.levels[-1].label))
        g.shared.fence_scratch()
    w.block(names[2])
    (a, from_a), (b, from_b) = ends
    return tuple([w.phi(x.type, (x, from_a), (y, from_b)) for x, y in zip(xs, ys)] for xs, ys in zip(a, b))


@lower(ops.while_)
def while_(g, op, *inits):
    w, (cond, body) = g.w, op.regions
    test, inside, done = w.label("while"), w.label("do"), w.label("done")
    g.shared.fence_scratch()
    flat = _flat(inits)
    before = w.levels[-1].label
    w.jump(test)
    w.block(test)
    carried = [w.effect(f"phi {x.type} [{x}, %{before}], [{_later(k, test)}, %{_tail(test)}]", x.type)
               for k, x in enumerate(flat)]
    with w.level():
        for arg, xs in zip(cond.args, _unflat(carried, inits)):
            g.set(arg, xs)
        again = g.block(cond)[0][0]
        w.branch(again, inside, done)
        w.block(inside)
        for arg, xs in zip(body.args, _unflat(carried, inits)):
            g.set(arg, xs)
        after = _flat(g.block(body))
        g.shared.fence_scratch()
        w.jump(_tail(test))
        w.block(_tail(test))
        for k, x in enumerate(after):  # names the phis above refer to
            w.levels[-1].lines.append(f"  {_later(k, test)} = {_copy(x)}")
        w.jump(test)
    w.block(done)
    return tuple(_unflat(carried, inits))


def _tail(test):
    return f"{test}.again"


def _later(k, test):
    return f"%{test}.{k}"


def _copy(x):
    return f"select i1 true, {x.typed}, {x.typed}" if not x.type.startswith("<") else f"bitcast {x.typed} to {x.type}"


@lower(ops.barrier)
def barrier(g, op):
    g.target.barrier(g)


@lower(ops.clock)
def clock(g, op):
    return [g.target.clock(g, op.attrs["what"])]


@lower(ops.print_)
def print_(g, op, *values):
    g.target.print(g, op, values)


@lower(ops.assert_)
def assert_(g, op, cond, mask=None):
    w = g.w
    for k, c in enumerate(cond):
        failed = w.binary("xor", c, w.const("i1", True))
        if mask is not None:
            failed = w.binary("and", failed, mask[k])
        with w.when(failed, likely=False):
            g.target.assert_failed(g, op)


