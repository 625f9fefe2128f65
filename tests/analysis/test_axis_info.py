"""What axis_info says of values must be true of them: on random address arithmetic, against the interpreter."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.analysis.index_modules import divides_by_zero, evaluated, modules
from tritium import ops
from tritium.analysis.axis_info import AxisInfo, analyze
from tritium.analysis.ranges import Derivations, bounds
from tritium.ir import types as T
from tritium.ir.builder import Builder
from tritium.ir.text import parse_module


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


@given(modules(), st.booleans())
def test_what_it_says_is_true(case, trusting):
    """Of every launch; or, where signs are preconditions, of those that satisfy them."""
    module, args, pid = case
    preconditions = [] if trusting else None
    info = analyze(module, preconditions)
    infos = {x: info(x) for x in module.body.yields}  # the preconditions are those of what was asked for
    launch = dict(enumerate(map(int, args))), (4, 1, 1)
    if any(bounds(rows, *launch)[0] < 0 for rows in preconditions or ()):
        return
    values = evaluated(module, args, pid)
    assume(not divides_by_zero(values))
    for x, value in values.items():
        if abs(value.astype(np.int64)).max(initial=0) > 2**30:
            continue    # the analysis does not reckon with overflow
        size = T.element(x.type).pointee.bytes if T.is_ptr(x.type) else 1
        wrong = holds(infos[x], value, size)
        assert wrong is None, f"{wrong} of {x!r}: {infos[x]}\n{module}\n{value}"


@given(modules())
def test_values_lie_within_their_bounds(case):
    module, args, pid = case
    known, values = module.found_by(Derivations), evaluated(module, args, pid)
    assume(not divides_by_zero(values))
    for x, value in values.items():
        if T.element(x.type).__class__ is T.Scalar and value.size:
            for launch in ((), (dict(enumerate(map(int, args))), (4, 1, 1))):
                low, high = bounds(known.rows(x), *launch)
                assert low <= int(value.min()) and int(value.max()) <= high, (x, known.rows(x))


def axis_info_of(text, *names, preconditions=None):
    module = parse_module(text)
    info = analyze(module, preconditions)
    return [info(op) for op in module.body.ops if op.kind.name in names]


def test_addresses_of_a_row_are_contiguous_and_aligned():
    row, = axis_info_of("""kernel @f(%p: ptr<f16> {divisible=16}, %stride: i32 {divisible=16}) {
      %0 = program_id {axis=0} : i32
      %1 = mul %0, %stride : i32
      %2 = addptr %p, %1 : ptr<f16>
      %3 = splat %2 {shape=(128,)} : tile<128xptr<f16>>
      %4 = arange {start=0, end=128} : tile<128xi32>
      %5 = addptr %3, %4 : tile<128xptr<f16>>
    }""", "addptr")[1:]
    assert row == AxisInfo((128,), (16,), (1,))


def test_a_pointer_to_bools_is_read_as_bytes_that_count_up():
    """Elements of the same size still count up behind a cast of their pointers; others keep their alignment."""
    bytes_, words = axis_info_of("""kernel @f(%p: ptr<i1> {divisible=16}) {
      %0 = splat %p {shape=(64,)} : tile<64xptr<i1>>
      %1 = arange {start=0, end=64} : tile<64xi32>
      %2 = addptr %0, %1 : tile<64xptr<i1>>
      %3 = bitcast %2 {to=ptr<i8>} : tile<64xptr<i8>>
      %4 = bitcast %2 {to=ptr<i32>} : tile<64xptr<i32>>
    }""", "bitcast")
    assert bytes_ == AxisInfo((64,), (16,), (1,)) and words == AxisInfo((1,), (1,), (1,))


def test_a_mask_against_an_aligned_bound_is_constant_in_groups():
    mask, = axis_info_of("""kernel @f(%n: i32 {divisible=16}) {
      %0 = arange {start=0, end=64} : tile<64xi32>
      %1 = splat %n {shape=(64,)} : tile<64xi32>
      %2 = lt %0, %1 : tile<64xi1>
    }""", "lt")
    assert mask.constancy == (16,)


@pytest.mark.parametrize("kind", ["min", "max"])
def test_the_least_and_the_greatest_of_multiples_are_multiples(kind):
    """The end of a part of a row, of which the last is shorter."""
    m = parse_module(f"""kernel @f(%n: i32 {{divisible=16}}, %each: i32 {{divisible=8}}, %odd: i32) {{
      %0 = arange {{start=0, end=64}} : tile<64xi32>
      %1 = program_id {{axis=0}} : i32
      %2 = mul %1, %each : i32
      %3 = {kind} %2, %n : i32
      %4 = splat %3 {{shape=(64,)}} : tile<64xi32>
      %5 = lt %0, %4 : tile<64xi1>
      %6 = {kind} %2, %odd : i32
    }}""")
    info = analyze(m, None)
    mask, odd = m.body.ops[-2:]
    assert info(mask).constancy == (8,) and info(mask.operands[1]).divisibility == (8,)
    assert info(odd).divisibility == (1,)


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
    assert axis_info_of(text.replace("STEP", "64"), "for") == [AxisInfo((32,), (16,), (1,))]
    assert axis_info_of(text.replace("STEP", "3"), "for") == [AxisInfo((32,), (4,), (1,))]


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
    assert getattr(axis_info_of(text.replace("START", "8"), op)[0], field) == (wanted,)
    assert getattr(axis_info_of(text.replace("START", "-8"), op)[0], field) == (1,)


WRAPPED = """kernel @f(%start: i32 {divisible=16}, %n: i32 {divisible=16}) {
  %0 = arange {start=0, end=64} : tile<64xi32>
  %1 = splat %start {shape=(64,)} : tile<64xi32>
  %2 = add %1, %0 : tile<64xi32>
  %3 = splat %n {shape=(64,)} : tile<64xi32>
  %4 = OP %2, %3 : tile<64xi32>
}"""


def test_a_wrapped_index_counts_up_in_launches_where_it_does_not_start_below_0():
    """(start + arange) % n, as kernels address their operands."""
    preconditions = []
    assert axis_info_of(WRAPPED.replace("OP", "rem"), "rem")[0].contiguity == (1,)
    assert axis_info_of(WRAPPED.replace("OP", "rem"), "rem", preconditions=preconditions)[0].contiguity == (16,)
    rows, = preconditions
    assert bounds(rows, {0: 0, 1: 32}, (1, 1, 1)) == (0, 63)
    assert bounds(rows, {0: -16, 1: 32}, (1, 1, 1)) == (-16, 47)
    assert bounds(rows, {0: 2**31 - 16, 1: 32}, (1, 1, 1))[0] < 0  # it wraps


def test_a_start_that_is_negative_for_certain_is_not_taken_for_anything_else():
    preconditions = []
    text = WRAPPED.replace("OP", "div").replace("add", "sub").replace("%1, %0", "%0, %1")
    assert axis_info_of(text, "div", preconditions=preconditions)[0].constancy == (1,) and not preconditions


@pytest.mark.parametrize("op, count, field", [("shr", 3, "constancy"), ("and", 7, "contiguity")])
def test_shifts_and_masks_round_down_and_need_no_sign(op, count, field):
    text = WRAPPED.replace("splat %n", "splat %c").replace("OP", op).replace(
        "%0 = arange", f"%c = constant {{value={count}, type=i32}} : i32\n  %0 = arange")
    assert getattr(axis_info_of(text, op)[0], field) == (8,)


GROUPED = """kernel @f(%M: i32, %N: i32 {divisible=16}) {
  %pid = program_id {axis=0} : i32
  %127 = constant {value=127, type=i32} : i32
  %128 = constant {value=128, type=i32} : i32
  %8 = constant {value=8, type=i32} : i32
  %m = add %M, %127 : i32
  %tiles_m = div %m, %128 : i32
  %n = add %N, %127 : i32
  %tiles_n = div %n, %128 : i32
  %per_group = mul %tiles_n, %8 : i32
  %group = div %pid, %per_group : i32
  %first = mul %group, %8 : i32
  %left = sub %tiles_m, %first : i32
  %rows = min %left, %8 : i32
  %inside = rem %pid, %per_group : i32
  %column = div %inside, %rows : i32
  %start = mul %column, %128 : i32
  %0 = splat %start {shape=(128,)} : tile<128xi32>
  %1 = arange {start=0, end=128} : tile<128xi32>
  %2 = add %0, %1 : tile<128xi32>
  %3 = splat %N {shape=(128,)} : tile<128xi32>
  %4 = rem %2, %3 : tile<128xi32>
}"""


@pytest.mark.parametrize("m, n, programs, fit", [
    (4096, 4096, 1024, True), (4093, 4095, 1024, True), (1, 16, 1, True), (100, 2**20, 8192, True),
    (4096, 4096, 1300, False), (0, 4096, 32, False), (-4096, 4096, 1024, False), (1100, 2**30, 9 * 2**23, False),
])  # fmt: skip
def test_the_columns_of_a_grouped_product(m, n, programs, fit):
    """Programs in groups of rows: their columns are not negative unless there are more programs than tiles, or so many
    columns that 32 bits may not hold them."""
    preconditions = []
    assert axis_info_of(GROUPED, "rem", preconditions=preconditions)[-1].contiguity == (16,)
    assert (bounds(preconditions[0], {0: m, 1: n}, (programs, 1, 1))[0] >= 0) is fit


def test_what_loops_count_and_carry_is_bounded_by_their_rounds():
    module = parse_module("""kernel @f(%n: i32, %step: i32) {
      %0 = constant {value=0, type=i32} : i32
      %64 = constant {value=64, type=i32} : i32
      %1 = for %0, %n, %64, %0 : i32 {
      ^(%i: i32, %at: i32):
        %2 = add %i, %64 : i32
        %3 = add %at, %step : i32
        yield %3
      }
    }""")
    loop = module.body.ops[-1]
    known = module.found_by(Derivations)
    inside, next_ = loop.regions[0].ops[:2]
    assert [bounds(known.rows(inside), {0: n}) for n in (640, 641, 0)] == [(64, 640), (64, 704), (64, 64)]
    assert bounds(known.rows(next_), {0: 640, 1: 5}) == (5, 55)
    assert bounds(known.rows(next_), {0: 640})[0] < 0  # a step below 0


def test_indices_of_loops_are_multiples_of_their_step():
    """A loop that begins with the program's own block ends with the last block, not in the middle of it."""
    module = parse_module("""kernel @f(%n: i32) {
      %64 = constant {value=64, type=i32} : i32
      %0 = program_id {axis=0} : i32
      %1 = mul %0, %64 : i32
      for %1, %n, %64 {
      ^(%i: i32):
        %2 = add %i, %64 : i32
        yield
      }
    }""")
    inside = module.found_by(Derivations).rows(module.body.ops[-1].regions[0].ops[0])
    assert [bounds(inside, {0: n}, (10, 1, 1)) for n in (640, 641, 700)] == [(64, 640), (64, 704), (64, 704)]


def test_promises_of_the_program_are_believed():
    module = parse_module("""kernel @f(%x: i32) {
      %0 = constant {value=0, type=i32} : i32
      %1 = ge %x, %0 : i1
      assume %1
      %2 = add %x, %0 : i32
    }""")
    assert bounds(Derivations(module).rows(module.body.ops[-1])) == (0, 2**31 - 1)


def test_values_that_a_pass_put_in_place_of_others_are_known_too():
    module = parse_module("""kernel @f(%n: i32 {divisible=16}) {
      %0 = arange {start=0, end=64} : tile<64xi32>
    }""")
    info, b = analyze(module), Builder()
    new = ops.add(b, module.body.ops[0], ops.splat(b, module.args[0], shape=(64,)))
    assert info(new) == AxisInfo((64,), (16,), (1,))


def test_what_is_loaded_from_one_address_is_one_value():
    """The index of a row is the same for all of its columns: what it leads to is contiguous along them."""
    module = parse_module("""kernel @f(%p: ptr<i32> {divisible=16}, %q: ptr<f32> {divisible=16}) {
      %0 = arange {start=0, end=8} : tile<8xi32>
      %1 = expand_dims %0 {axis=1} : tile<8x1xi32>
      %2 = broadcast %1 {shape=(8, 16)} : tile<8x16xi32>
      %3 = splat %p {shape=(8, 16)} : tile<8x16xptr<i32>>
      %4 = addptr %3, %2 : tile<8x16xptr<i32>>
      %5 = load %4 : tile<8x16xi32>
      %6 = load %4 {volatile=True} : tile<8x16xi32>
    }""")
    info, (plain, volatile) = analyze(module), module.body.ops[-2:]
    assert info(plain).constancy == (1, 16)
    assert info(volatile).constancy == (1, 1)


def test_one_module_is_analysed_once_and_every_client_gets_the_preconditions():
    module = parse_module("""kernel @f(%n: i32 {divisible=16}) {
      %0 = arange {start=0, end=16} : tile<16xi32>
      %1 = splat %n {shape=(16,)} : tile<16xi32>
      %2 = add %0, %1 : tile<16xi32>
      %3 = constant {value=16, type=i32} : i32
      %4 = splat %3 {shape=(16,)} : tile<16xi32>
      %5 = div %2, %4 : tile<16xi32>
    }""")
    quotient, first, second = module.body.ops[-1], [], []
    found = [analyze(module, rows)(quotient) for rows in (first, second)]
    assert found[0] is found[1] and found[0].constancy == (16,)
    assert first == second and len(first) == 1
    assert analyze(module)(quotient).constancy == (1,)


@pytest.mark.parametrize(("op", "by", "wanted"), [("div", 2, 32), ("div", 64, 1), ("div", 128, 1), ("div", 3, 1),
                                                  ("shr", 4, 4)])
def test_quotients_of_multiples(op, by, wanted):
    """Half a multiple of 64 is a multiple of 32, whatever its sign."""
    found, = axis_info_of(f"""kernel @f(%n: i32 {{divisible=64}}) {{
      %0 = constant {{value={by}, type=i32}} : i32
      %1 = {op} %n, %0 : i32
      print %1 {{prefix=""}}
    }}""", op)
    assert found.divisibility == (wanted,)


def test_rows_that_become_one_stay_contiguous():
    """As where a tile of tiles is stored as one row: 4 rows of 64, each from a multiple of 16."""
    flat, pairs = axis_info_of("""kernel @f(%n: i32 {divisible=16}) {
      %0 = arange {start=0, end=4} : tile<4xi32>
      %1 = expand_dims %0 {axis=1} : tile<4x1xi32>
      %2 = splat %n {shape=(4, 1)} : tile<4x1xi32>
      %3 = mul %1, %2 : tile<4x1xi32>
      %4 = broadcast %3 {shape=(4, 64)} : tile<4x64xi32>
      %5 = arange {start=0, end=64} : tile<64xi32>
      %6 = expand_dims %5 {axis=0} : tile<1x64xi32>
      %7 = broadcast %6 {shape=(4, 64)} : tile<4x64xi32>
      %8 = add %4, %7 : tile<4x64xi32>
      %9 = reshape %8 {shape=(256,)} : tile<256xi32>
      %10 = reshape %8 {shape=(128, 2)} : tile<128x2xi32>
    }""", "reshape")
    assert flat == AxisInfo((64,), (16,), (1,))
    assert (pairs.contiguity, pairs.divisibility[1]) == ((1, 2), 2)


def test_absolute_values():
    module = parse_module("""kernel @f(%n: i32 {divisible=16}) {
      %0 = program_id {axis=0} : i32
      %1 = constant {value=64, type=i32} : i32
      %2 = sub %0, %1 : i32
      %3 = abs %2 : i32
      %4 = abs %n : i32
    }""")
    assert bounds(Derivations(module).rows(module.body.ops[3]), {}, (100, 1, 1)) == (-35, 64)
    assert analyze(module)(module.body.ops[4]).divisibility == (16,)
