"""Dot without tensor cores: operands staged in shared memory, each thread multiplies what its accumulators need."""

from __future__ import annotations

from .... import ops
from ....ir import types as T
from ..layout.linear import log2
from .convert import write
from .function import llvm_type, lower
from .shape import convert_scalar


@lower(ops.dot)
def dot(g, op, a, b, acc):
    w, t = g.w, T.element(op.type)
    layout = g.layout(op)
    (m, k), n = T.shape(op.operands[0].type)[-2:], op.type.shape[-1]
    ta, tb = (T.element(x.type) for x in op.operands[:2])
    bases = g.shared.take([a_or_b.type.numel * e.bytes for a_or_b, e in zip(op.operands, (ta, tb))])
    g.shared.before_write(g)
    for x, value, e, base in zip((a, b), op.operands, (ta, tb), bases):
        source = g.layout(value)
        write(g, x, e, source, tuple(e.bytes << i for i in range(log2(source.numel))), base)
    g.shared.after_write(g)
    # element (batch, row, col) of the result: row part of a's address, column part of b's
    row_bits, col_bits = log2(m), log2(n)
    batch = lambda e: e >> (row_bits + col_bits)
    a_at = lambda e: (batch(e) * m + (e >> col_bits & (m - 1))) * k
    b_at = lambda e: batch(e) * k * n + (e & (n - 1))
    (a_thread, a_parts), (b_thread, b_parts) = g.linear(layout, a_at), g.linear(layout, b_at)
    with w.loop(0, k, 1, carry=acc, type="i32", nonempty=True) as loop:
        step = w.binary("mul", loop.index, g.int(n))

        def fetch(thread, part, extra, base, e):
            at = w.binary("add", w.binary("xor", thread, g.int(part)) if part else thread, extra)
            return convert_scalar(g, g.shared.load(g, base, at, e), e, t)

        rows = {p: fetch(a_thread, p, loop.index, bases[0], ta) for p in dict.fromkeys(a_parts)}
        cols = {p: fetch(b_thread, p, step, bases[1], tb) for p in dict.fromkeys(b_parts)}
        loop.next = [_multiply_add(g, t, rows[i], cols[j], c) for i, j, c in zip(a_parts, b_parts, loop.carried)]
    return list(loop.results)


def _multiply_add(g, t, x, y, z):
    if t.is_float:
        return g.w.intrinsic("fma", llvm_type(t), x, y, z)
    return g.w.binary("add", g.w.binary("mul", x, y), z)
