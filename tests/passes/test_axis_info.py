"""What axis_info says of values must be true of them: on random address arithmetic, against the interpreter."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tritium import ops
from tritium.interp.machine import Machine
from tritium.ir import types as T
from tritium.ir.builder import Builder
from tritium.ir.core import Module
from tritium.ir.text import parse_module
from tritium.passes.axis_info import AxisInfo, analyze

SCALARS = {"n": (T.i32, 16, (0, 16, 48, -32)), "m": (T.i32, 1, (1, 7, -5)), "k": (T.i64, 4, (4, 12, -8))}
SHAPES = ((16,), (8, 16), (4, 1), (1, 8), (2, 4, 8))


def holds(info, values, size=1):
    """None, or which fact is not true of the array `values`; pointers count up by `size` bytes."""
    values = np.atleast_1d(values).astype(np.int64)
    for axis, length in enumerate(values.shape):
        rows = np.moveaxis(values, axis, -1)
        run, same = info.contiguity[axis], info.constancy[axis]
        if length % run or length % same:
            return f"groups of {run}, {same} do not fit axis {axis}"
        groups = rows.reshape(*rows.shape[:-1], length // run, run)
        if (np.diff(groups, axis=-1) != size).any():
            return f"contiguity {run} on axis {axis}"
        if (groups[..., 0] % info.divisibility[axis]).any():
            return f"divisibility {info.divisibility[axis]} on axis {axis}"
        if (np.diff(rows.reshape(*rows.shape[:-1], length // same, same), axis=-1) != 0).any():
            return f"constancy {same} on axis {axis}"
    return None


@st.composite
def modules(draw):
    """A module of index arithmetic whose body yields every value, and values for its parameters."""
    b = Builder()
    pick = lambda xs: draw(st.sampled_from(list(xs)))
    args = [b.argument(t, name, divisible=d) for name, (t, d, _) in SCALARS.items()]
    pointer = b.argument(T.Ptr(T.f32), "p", divisible=16)
    pool = [*args, ops.program_id(b, axis=0)]
    for _ in range(draw(st.integers(4, 14))):
        pool.append(step(b, draw, pick, pool, pointer))
    ops.yield_(b, *pool)
    given_values = [np.array(pick(vs), np.dtype(f"i{t.bits // 8}")) for t, _, vs in SCALARS.values()]
    return Module("f", b.finish()), [*given_values, np.array(pick((16, 4096)), np.uint64)], (pick((0, 3)), 0, 0)


def step(b, draw, pick, pool, pointer):
    """One more value from those at hand."""
    kind = pick(("arange", "constant", "splat", "shape", "shape", *["binary"] * 4, "cast", "pointer"))
    ints = [x for x in pool if type(T.element(x.type)) is T.Scalar and T.element(x.type) is not T.i1]
    tiles = [x for x in ints if T.shape(x.type)]
    if kind == "constant":
        return ops.constant(b, value=pick((0, 1, 2, 3, 4, 8, 12, 64, -4, -16)), type=pick((T.i32, T.i64)))
    if kind == "splat":
        return ops.splat(b, pick([x for x in ints if not T.shape(x.type)]), shape=pick(SHAPES))
    if kind == "shape" and tiles:
        return reshaped(b, pick, pick(tiles))
    if kind == "cast" and tiles:
        return ops.cast(b, pick(tiles), to=pick((T.i32, T.i64, T.u32)))
    if kind == "pointer" and tiles:
        x = pick(tiles)
        return ops.addptr(b, ops.splat(b, pointer, shape=T.shape(x.type)), x)
    if kind == "binary":
        x = pick(ints)
        y = pick([y for y in ints if y.type is x.type])
        op = pick((ops.add, ops.add, ops.sub, ops.mul, ops.div, ops.rem, ops.min_, ops.max_, ops.lt, ops.ge, ops.gt,
                   ops.le, ops.eq, ops.shl, ops.shr, ops.and_))
        if op in (ops.shl, ops.shr, ops.and_):
            number = ops.constant(b, value=pick((0, 1, 3, 7)), type=T.element(x.type))
            y = ops.splat(b, number, shape=T.shape(x.type)) if T.shape(x.type) else number
        return op(b, x, y)
    start = pick((0, 4, 16, 3))
    return ops.arange(b, start=start, end=start + pick((8, 16)))


def reshaped(b, pick, x):
    dims = T.shape(x.type)
    choices = ["expand", "trans", "flat"] + (["broadcast"] if 1 in dims else [])
    choice = pick(choices)
    if choice == "expand" and len(dims) < 3:
        return ops.expand_dims(b, x, axis=pick(range(len(dims) + 1)))
    if choice == "broadcast":
        return ops.broadcast(b, x, shape=tuple(8 if d == 1 else d for d in dims))
    if choice == "flat":
        return ops.reshape(b, x, shape=pick([(T.numel(x.type),), (T.numel(x.type) // 4, 4), (2, T.numel(x.type) // 2)]
                                            if T.numel(x.type) % 4 == 0 else [(T.numel(x.type),)]))
    return ops.trans(b, x, order=tuple(range(len(dims)))[::-1])


@given(modules())
def test_what_it_says_is_true(case):
    module, args, pid = case
    info = analyze(module)
    machine = Machine()
    machine.pid = pid
    with np.errstate(all="ignore"):
        values = machine.run(module.body, args)
    for x, value in zip(module.body.yields, values):
        if abs(value.astype(np.int64)).max(initial=0) > 2**30:
            continue    # the analysis does not reckon with overflow
        size = T.element(x.type).pointee.bytes if T.is_ptr(x.type) else 1
        wrong = holds(info(x), value, size)
        assert wrong is None, f"{wrong} of {x!r}: {info(x)}\n{module}\n{value}"


def facts(text, *names):
    module = parse_module(text)
    info = analyze(module)
    return [info(op) for op in module.body.ops if op.kind.name in names]


def test_addresses_of_a_row_are_contiguous_and_aligned():
    row, = facts("""kernel @f(%p: ptr<f16> {divisible=16}, %stride: i32 {divisible=16}) {
      %0 = program_id {axis=0} : i32
      %1 = mul %0, %stride : i32
      %2 = addptr %p, %1 : ptr<f16>
      %3 = splat %2 {shape=(128,)} : tile<128xptr<f16>>
      %4 = arange {start=0, end=128} : tile<128xi32>
      %5 = addptr %3, %4 : tile<128xptr<f16>>
    }""", "addptr")[1:]
    assert row == AxisInfo((128,), (16,), (1,))


def test_a_mask_against_an_aligned_bound_is_constant_in_groups():
    mask, = facts("""kernel @f(%n: i32 {divisible=16}) {
      %0 = arange {start=0, end=64} : tile<64xi32>
      %1 = splat %n {shape=(64,)} : tile<64xi32>
      %2 = lt %0, %1 : tile<64xi1>
    }""", "lt")
    assert mask.constancy == (16,)


def test_a_pointer_carried_round_a_loop_keeps_what_every_round_keeps():
    text = """kernel @f(%p: ptr<f32> {divisible=16}, %n: i32) {
      %0 = constant {value=0, type=i32} : i32
      %1 = constant {value=1, type=i32} : i32
      %2 = splat %p {shape=(32,)} : tile<32xptr<f32>>
      %3 = arange {start=0, end=32} : tile<32xi32>
      %4 = addptr %2, %3 : tile<32xptr<f32>>
      %5 = constant {value=STEP, type=i32} : i32
      %6 = splat %5 {shape=(32,)} : tile<32xi32>
      %7 = for %0, %n, %1, %4 : tile<32xptr<f32>> {
      ^(%i: i32, %q: tile<32xptr<f32>>):
        %8 = addptr %q, %6 : tile<32xptr<f32>>
        yield %8
      }
    }"""
    assert facts(text.replace("STEP", "64"), "for") == [AxisInfo((32,), (16,), (1,))]
    assert facts(text.replace("STEP", "3"), "for") == [AxisInfo((32,), (4,), (1,))]


@pytest.mark.parametrize("op, field, wanted", [("div", "constancy", 8), ("rem", "contiguity", 8)])
def test_quotients_of_negative_numbers_promise_nothing(op, field, wanted):
    """-8 .. -1 divided by 8 towards zero is -1, 0, 0 ... : only for what is not negative do the groups hold."""
    text = f"""kernel @f() {{
      %0 = arange {{start=0, end=16}} : tile<16xi32>
      %1 = constant {{value=START, type=i32}} : i32
      %2 = splat %1 {{shape=(16,)}} : tile<16xi32>
      %3 = add %0, %2 : tile<16xi32>
      %4 = constant {{value=8, type=i32}} : i32
      %5 = splat %4 {{shape=(16,)}} : tile<16xi32>
      %6 = {op} %3, %5 : tile<16xi32>
    }}"""
    assert getattr(facts(text.replace("START", "8"), op)[0], field) == (wanted,)
    assert getattr(facts(text.replace("START", "-8"), op)[0], field) == (1,)


def test_a_wrapped_index_still_counts_up():
    """(start + arange) % n, as kernels address their operands: a scalar of unknown sign counts as not negative."""
    text = """kernel @f(%start: i32 {divisible=16}, %n: i32 {divisible=16}) {
      %0 = arange {start=0, end=64} : tile<64xi32>
      %1 = splat %start {shape=(64,)} : tile<64xi32>
      %2 = add %1, %0 : tile<64xi32>
      %3 = splat %n {shape=(64,)} : tile<64xi32>
      %4 = rem %2, %3 : tile<64xi32>
    }"""
    assert facts(text, "rem")[0].contiguity == (16,)
