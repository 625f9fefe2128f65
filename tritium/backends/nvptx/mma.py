"""Tensor cores: which dots they take, where their accumulators live, and the instructions.

Hopper's wgmma reads both operands from shared memory, 128-byte swizzled; four warps own 64 rows of the result each.
"""

from __future__ import annotations

from ... import ops
from ...ir import types as T
from ..gpu import ops as gpu_ops
from ..gpu.layout import log2, mma_accumulator, mma_operand
from ..gpu.lower_convert import write
from ..gpu.pipeline_loops import Abilities
from ..gpu.swizzle import row_width, swizzled
from . import mma_sync
from .words import pack_words

_KIND = {T.f16: "f16", T.bf16: "bf16", T.f32: "tf32", T.f8e4nv: "e4m3", T.f8e5: "e5m2", T.i8: "s8"}
MAX_N = 256


def wgmma_fits(a, b, out, precision, warps, target):
    """True if Hopper's warpgroup instructions can do a dot of these tile types."""
    ta, tb = a.element, b.element
    if target.sm != 90 or len(out.shape) != 2 or warps % 4:
        return False
    if (
        ta not in _KIND
        or tb not in _KIND
        or (ta is not tb and not (ta.bits == tb.bits == 8 and ta.is_float and tb.is_float))
    ):
        return False
    if (ta is T.f32 and precision != "tf32") or out.element is not (T.i32 if ta is T.i8 else T.f32):
        return False
    _, columns = warp_split(out.shape[0], warps)
    return out.shape[0] >= 64 and out.shape[1] // columns >= 8 and a.shape[1] * ta.bytes >= 32


def warp_split(m, warps):
    """(warps along M, parts of N): warpgroups stack along M first."""
    groups = warps // 4
    along_m = min(groups, max(1, m // 64))
    return along_m * 4, groups // along_m


def dot_layout(target):
    """The accumulator layouts of `target`, for layout assignment; None means plain threads."""

    def choose(a, b, out, precision, warps):
        if wgmma_fits(a, b, out, precision, warps, target):
            return mma_accumulator(out.shape, *warp_split(out.shape[0], warps), rows=64)
        if mma_sync.fits(a, b, out, precision, warps, target):
            return mma_sync.accumulator(out, warps)
        return None

    return choose


def left_operand(a, out, warps):
    """Where wgmma wants its left operand when it comes in registers."""
    return mma_operand(a.shape, a.element.bits, *warp_split(out.shape[0], warps), "a")


def abilities(target, info, warps):
    """What `pipeline_loops` asks: which dots can start on buffers, how tiles lie in memory, how wide copies may be."""

    def fits(op):
        a, b = (x.type for x in op.operands[:2])
        return wgmma_fits(a, b, op.type, op.attrs["precision"], warps, target)

    def axis(load):
        return _longest_axis(info(load.operands[0]))

    def takes(dot, side, axis):
        return may_lie(dot.operands["ab".index(side)].type, side, axis, warp_split(dot.type.shape[0], warps))

    def vector(load):
        known, size = info(load.operands[0]), load.type.element.bytes
        along = axis(load)
        width = min(known.contiguity[along], known.divisibility[along] // size, load.type.shape[along], 16 // size)
        if len(load.operands) > 1:
            width = min(width, info(load.operands[1]).constancy[along])
        return width * size

    return Abilities(fits, axis, takes, vector)


def may_lie(tile, side, axis, split):
    """True if wgmma can read an operand whose rows lie along `axis` in shared memory.

    Along K always. Along M or N only 16-bit types, in rows of 32 bytes at least, each row the business of one group of
    warps.
    """
    along_k = 1 if side == "a" else 0
    if axis == along_k:
        return True
    rows, columns = split
    mine = tile.shape[axis] // (rows // 4 if side == "a" else columns) * tile.element.bytes
    width = row_width(tile.shape, axis, tile.element.bytes)
    return tile.element.bits == 16 and width >= 32 and mine >= width


def _longest_axis(known):
    return max(range(len(known.contiguity)), key=lambda axis: (known.contiguity[axis], axis))


def _descriptor_bits(width, stride, leading):
    """The constant part of a wgmma descriptor: everything but the start address."""
    mode = {128: 1, 64: 2, 32: 3}[width]
    return (mode << 62) | ((stride >> 4) << 32) | ((leading >> 4) << 16)


def wgmma(g, op, a, b, acc):
    """acc + a @ b by warpgroups."""
    target = g.target
    t = T.element(op.operands[0].type)
    m, n = op.type.shape
    k = T.shape(op.operands[0].type)[1]
    split = warp_split(m, g.warps)
    a_axis, b_axis = (_contiguous_axis(g.layout(x), x.type, side, split) for x, side in zip(op.operands, "ab"))
    sides = []
    for x, value, axis in ((a, op.operands[0], a_axis), (b, op.operands[1], b_axis)):
        images, width = swizzled(value.type.shape, axis, t.bytes)
        sides.append((x, value, images, width))
    base_a, base_b = g.shared.take_aligned([v.type.numel * t.bytes for _, v, _, _ in sides], 1024)
    g.shared.before_write(g)
    for (x, value, images, _), base in zip(sides, (base_a, base_b)):
        write(g, x, T.element(value.type), g.layout(value), images, base)
    target.proxy_fence(g)
    g.shared.after_write(g)
    return issue(
        g,
        T.element(op.operands[1].type),
        acc,
        g.int(base_a),
        g.int(base_b),
        a_axis,
        b_axis,
        sides[0][3],
        sides[1][3],
        (m, n, k),
        t,
    )


def _contiguous_axis(layout, tile, side, split):
    """The axis a tile's threads hold in runs, if an operand may lie so; else K."""
    along_k = 1 if side == "a" else 0
    other = 1 - along_k
    runs = layout.contiguous(other) > layout.contiguous(along_k)
    return other if runs and may_lie(tile, side, other, split) else along_k


def issue(g, tb, acc, base_a, base_b, a_axis, b_axis, width_a, width_b, sizes, t, pending=0):
    """All k-steps of one dot as one block of instructions; at its end at most `pending` dots are unfinished."""
    w, (m, n, k) = g.w, sizes
    rows, columns = warp_split(m, g.warps)
    group = w.binary("lshr", g.place("warp"), g.int(2))
    along_m = rows // 4
    group_m = w.binary("and", group, g.int(along_m - 1)) if along_m > 1 else g.int(0)
    group_n = w.binary("lshr", group, g.int(log2(along_m))) if columns > 1 else g.int(0)
    n_group = n // columns
    n_step = min(n_group, MAX_N)
    repeats_m = m // (16 * rows)
    k_bytes = 32
    out = list(acc)
    per = n_step // 2  # accumulator registers of one instruction
    for rm in range(repeats_m):
        for rn in range(n_group // n_step):
            start = (rm * (n_group // n_step) + rn) * per
            if isinstance(base_a, list):  # registers: the words of this row block, four for each k-step
                a_desc = base_a[rm * (len(base_a) // repeats_m) : (rm + 1) * (len(base_a) // repeats_m)]
            else:
                a_desc = _start(g, base_a, group_m, 64, rm * along_m * 64, m, k, a_axis == 1, width_a, t)
            b_desc = _start(g, base_b, group_n, n_group, rn * n_step, n, k, b_axis == 0, width_b, t)
            steps = [
                (_advance(step, a_axis == 1, width_a, m, t), _advance(step, b_axis == 0, width_b, n, t))
                for step in range(k * t.bytes // k_bytes)
            ]
            out[start : start + per] = _block(
                g, tb, out[start : start + per], a_desc, b_desc, steps, n_step, t, a_axis == 0, b_axis == 1, pending
            )
    return out


def _start(g, base, group, span, extra, outer, k, k_major, width, t):
    """Descriptor of the first k-step: `span` rows (or columns) per group from `extra` on."""
    w = g.w
    if k_major:
        unit, stride, leading = width, 8 * width, 16
    else:
        per_row = width // t.bytes
        unit, stride, leading = None, 8 * width, k * width
    if unit is not None:
        offset = w.binary("mul", group, g.int(span * unit)) if group != "0" else g.int(0)
        extra = extra * unit
    else:  # chunks of `width` bytes along M or N, each k rows high
        offset = w.binary("mul", group, g.int(span // per_row * k * width)) if group != "0" else g.int(0)
        extra = extra // per_row * k * width
    start = w.emit("i32", "ptrtoint ptr addrspace(3) @smem to i32")
    start = w.binary("add", start, base)
    start = w.binary("add", start, g.int(extra)) if extra else start
    start = start if offset == "0" else w.binary("add", start, offset)
    start = w.binary("lshr", w.binary("and", start, g.int(0x3FFFF)), g.int(4))
    return w.binary(
        "or", w.cast("zext", start, "i64"), w.const("i64", _signed(_descriptor_bits(width, stride, leading)))
    )


def _advance(step, k_major, width, outer, t):
    """How far (in 16-byte units) the start moves for a k-step."""
    if k_major:
        inside = width // 32
        return ((step // inside) * outer * width + (step % inside) * 32) >> 4
    return step * (32 // t.bytes) * width >> 4


def _signed(x):
    return x - (1 << 64) if x >> 63 else x


def _block(g, tb, acc, a_desc, b_desc, steps, n, t, trans_a, trans_b, pending):
    w, count = g.w, len(acc)
    integer = t is T.i8
    letter, kind = ("r", "i32") if integer else ("f", "float")
    k = 32 // t.bytes
    shape = f"m64n{n}k{k}.{'s32' if integer else 'f32'}.{_KIND[t]}.{_KIND[tb]}"
    outs = ", ".join(f"${i}" for i in range(count))
    tail = "p" if integer else "p, 1, 1"
    if t.bits == 16:
        tail += f", {int(trans_a)}, {int(trans_b)}"
    first = 2 * count
    in_registers = isinstance(a_desc, list)
    left = a_desc if in_registers else [a_desc]
    last = first + len(left)
    if in_registers and t.bits == 16:
        tail = f"p, 1, 1, {int(trans_b)}"
    lines = ["{ .reg .pred p; .reg .b64 da, db; setp.eq.b32 p, 1, 1; wgmma.fence.sync.aligned;"]
    for step, (a_step, b_step) in enumerate(steps):
        lines.append(f"add.s64 db, ${last}, {b_step};")
        if in_registers:
            source = "{" + ", ".join(f"${first + 4 * step + i}" for i in range(4)) + "}"
        else:
            source = "da"
            lines.append(f"add.s64 da, ${first}, {a_step};")
        lines.append(f"wgmma.mma_async.sync.aligned.{shape} {{{outs}}}, {source}, db, {tail};")
    lines.append(f"wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned {pending}; }}")
    letters = ["r" if in_registers else "l"] * len(left) + ["l"]
    constraints = ",".join([f"={letter}"] * count + [str(i) for i in range(count)] + letters)
    result = "{" + ", ".join([kind] * count) + "}"
    arguments = ", ".join(x.typed for x in (*acc, *left, b_desc))
    made = w.effect(
        f'call {result} asm sideeffect "{" ".join(lines)}", "{constraints},~{{memory}}"({arguments})', result
    )
    return [w.emit(kind, f"extractvalue {result} {made}, {i}", made) for i in range(count)]


def dot_shared(g, op, a, b, acc):
    """Start a dot on buffers that copies have filled; the left operand may be in registers."""
    lhs, rhs, t = op.attrs["lhs"], op.attrs["rhs"], op.attrs["lhs"].element
    g.target.proxy_fence(g)
    widths = [swizzled(x.shape, op.attrs[axis], t.bytes)[1] for x, axis in ((lhs, "a_axis"), (rhs, "b_axis"))]
    left = a[0] if type(op.operands[0].type) is not T.Tile else pack_words(g, a)
    return issue(
        g,
        rhs.element,
        acc,
        left,
        b[0],
        op.attrs["a_axis"],
        op.attrs["b_axis"],
        *widths,
        (lhs.shape[0], rhs.shape[1], lhs.shape[1]),
        t,
        op.attrs["pending"],
    )


def dot_wait(g, op, acc):
    """The accumulators, tied to the wait so that nothing reads them before it."""
    w, kind = g.w, acc[0].type
    letter = "r" if kind == "i32" else "f"
    count = len(acc)
    result = "{" + ", ".join([kind] * count) + "}"
    constraints = ",".join([f"={letter}"] * count + [str(i) for i in range(count)])
    made = w.effect(
        f'call {result} asm sideeffect "wgmma.wait_group.sync.aligned {op.attrs["pending"]};", '
        f'"{constraints},~{{memory}}"({", ".join(x.typed for x in acc)})',
        result,
    )
    return [w.emit(kind, f"extractvalue {result} {made}, {i}", made) for i in range(count)]


def dot(g, op, a, b, acc):
    """Tensor cores where they fit, plain threads elsewhere."""
    types = (*(x.type for x in op.operands[:2]), op.type, op.attrs["precision"], g.warps, g.target)
    if wgmma_fits(*types):
        return wgmma(g, op, a, b, acc)
    if mma_sync.fits(*types):
        return mma_sync.dot(g, op, a, b, acc)
    from ..gpu.lower_dot import dot as plain

    return plain(g, op, a, b, acc)


LOWER = {ops.dot: dot, gpu_ops.dot_shared: dot_shared, gpu_ops.dot_wait: dot_wait}
