"""Alias analysis: the dependence distances contain every distance at which elements overlap, and few others."""

import itertools

import numpy as np
import pytest

from tritium import ops
from tritium.analysis.alias import AliasAnalysis
from tritium.ir.bounds import bounds, dependence_distances, residues
from tritium.ir.core import walk
from tritium.ir.text import parse_module

TILES = """
  %pid = program_id {axis=0} : i32
  %i = arange {start=0, end=8} : tile<8xi32>
  %j = arange {start=0, end=8} : tile<8xi32>
  %ir = expand_dims %i {axis=1} : tile<8x1xi32>
  %ic = expand_dims %i {axis=0} : tile<1x8xi32>
  %r = broadcast %ir {shape=(8, 8)} : tile<8x8xi32>
  %c = broadcast %ic {shape=(8, 8)} : tile<8x8xi32>
  %n8 = splat %n {shape=(8, 8)} : tile<8x8xi32>
  %s8 = splat %s {shape=(8, 8)} : tile<8x8xi32>
  %base = mul %pid, %s : i32
  %b8 = splat %base {shape=(8, 8)} : tile<8x8xi32>
  %rs = mul %r, %s8 : tile<8x8xi32>
  %rc = mul %c, %s8 : tile<8x8xi32>
  %by_rows = add %rs, %c : tile<8x8xi32>
  %by_columns = add %rc, %r : tile<8x8xi32>
  %moved = add %b8, %by_rows : tile<8x8xi32>
  %few_rows = lt %r, %n8 : tile<8x8xi1>
  %few_columns = lt %c, %n8 : tile<8x8xi1>
  %few = lt %by_rows, %n8 : tile<8x8xi1>
  %both = and %few_rows, %few_columns : tile<8x8xi1>
  %all = ge %n8, %r : tile<8x8xi1>
"""


def pair_of(load, store, mask, identical=True):
    """The pair of a load and a store of 4 and 4 bytes at these offsets, both masked."""
    module = parse_module(f"""kernel @f(%x: ptr<i32>, %y: ptr<i32>, %n: i32, %s: i32) {{{TILES}
      %xs = splat %x {{shape=(8, 8)}} : tile<8x8xptr<i32>>
      %xp = addptr %xs, %{load} : tile<8x8xptr<i32>>
      %ys = splat %y {{shape=(8, 8)}} : tile<8x8xptr<i32>>
      %yp = addptr %ys, %{store} : tile<8x8xptr<i32>>
      %v = load %xp, %{mask} : tile<8x8xi32>
      store %yp, %v, %{mask}
    }}""")
    accesses = [op for op in walk(module.body) if op.kind in (ops.load, ops.store)]
    return AliasAnalysis(module).pair(*accesses, identical)


R, C = np.indices((8, 8))
OFFSETS = {"by_rows": lambda pid, s: R * s + C, "by_columns": lambda pid, s: C * s + R,
           "moved": lambda pid, s: pid * s + R * s + C}  # fmt: skip
MASKS = {"few_rows": lambda n, s: n > R, "few_columns": lambda n, s: n > C, "few": lambda n, s: R * s + C < n,
         "both": lambda n, s: (n > R) & (n > C), "all": lambda n, s: n >= R}  # fmt: skip


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("load, store", [*itertools.product(OFFSETS, repeat=2)])
def test_dependence_distances_hold_every_overlap(load, store, mask):
    pair = pair_of(load, store, mask)
    for n, s, programs in itertools.product((1, 3, 8, 20), (1, 8, 13, -2), (1, 3)):
        found = dependence_distances(pair, lambda rows, n=n, s=s, g=programs: bounds(rows, {2: n, 3: s}, (g, 1, 1)))
        inside = MASKS[mask](n, s)
        for pid in range(programs):
            x, y = (4 * OFFSETS[k](pid, s)[inside] for k in (load, store))
            if x.size:  # elements are 4 bytes: they overlap up to 3 bytes off
                assert found[0] <= x.min() - y.max() - 3 and x.max() - y.min() + 3 <= found[1], (n, s, pid)


def test_a_mask_of_columns_says_nothing_of_rows():
    pair = pair_of("by_rows", "by_rows", "few_columns")
    least, most = dependence_distances(pair, lambda rows: bounds(rows, {2: 2, 3: 8}, (1, 1, 1)))
    assert (least, most) == (-4 * (7 * 8 + 1) - 3, 4 * (7 * 8 + 1) + 3)


def test_what_moves_both_is_left_out():
    pair = pair_of("moved", "moved", "all")
    near, far = (dependence_distances(pair, lambda rows, g=g: bounds(rows, {2: 8, 3: 8}, (g, 1, 1))) for g in (1, 1000))
    assert near == far


@pytest.mark.parametrize("load, store, identical, same", [
    ("by_rows", "by_rows", True, ()), ("by_rows", "by_columns", True, None), ("by_rows", "by_rows", False, None),
])  # fmt: skip
def test_steps(load, store, identical, same):
    assert pair_of(load, store, "few", identical).same == same


STRIDED = """kernel @f(%x: ptr<f32>, %y: ptr<i32>, %z: ptr<i16>, %sx: i32, %sy: i32, %order: ptr<i32>) {
  %i = arange {start=0, end=8} : tile<8xi32>
  %sxs = splat %sx {shape=(8,)} : tile<8xi32>
  %sys = splat %sy {shape=(8,)} : tile<8xi32>
  %ix = mul %i, %sxs : tile<8xi32>
  %iy = mul %i, %sys : tile<8xi32>
  %xs = splat %x {shape=(8,)} : tile<8xptr<f32>>
  %ys = splat %y {shape=(8,)} : tile<8xptr<i32>>
  %zs = splat %z {shape=(8,)} : tile<8xptr<i16>>
  %os = splat %order {shape=(8,)} : tile<8xptr<i32>>
  %xp = addptr %xs, %ix : tile<8xptr<f32>>
  %yp = addptr %ys, %iy : tile<8xptr<i32>>
  %zp = addptr %zs, %ix : tile<8xptr<i16>>
  %op = addptr %os, %i : tile<8xptr<i32>>
  %a = load %xp : tile<8xf32>
  %b = load %yp : tile<8xi32>
  %c = load %zp : tile<8xi16>
  %o = load %op : tile<8xi32>
  %gp = addptr %ys, %o : tile<8xptr<i32>>
  %d = load %gp : tile<8xi32>
}"""


def test_strides_that_must_be_equal_and_sizes_that_differ():
    module = parse_module(STRIDED)
    x, y, z, order, gathered = (op for op in module.body.ops if op.kind is ops.load)
    accesses = AliasAnalysis(module)
    assert accesses.pair(x, y, True).same == ((3, 4),)
    assert accesses.pair(x, z, True).same is None
    assert accesses.pair(order, gathered, True) is None  # a loaded index may be anything


LOOP = """kernel @f(%x: ptr<i32>, %y: ptr<i32>, %n: i32) {
  %0 = constant {value=0, type=i32} : i32
  %1 = constant {value=1, type=i32} : i32
  %8 = constant {value=8, type=i32} : i32
  %i = arange {start=0, end=8} : tile<8xi32>
  %p:2 = for %0, %n, %1, %x, %y : ptr<i32>, ptr<i32> {
  ^(%t: i32, %a: ptr<i32>, %b: ptr<i32>):
    %as = splat %a {shape=(8,)} : tile<8xptr<i32>>
    %bs = splat %b {shape=(8,)} : tile<8xptr<i32>>
    %ap = addptr %as, %i : tile<8xptr<i32>>
    %bp = addptr %bs, %i : tile<8xptr<i32>>
    %v = load %ap : tile<8xi32>
    store %bp, %v
    %a1 = addptr %a, %8 : ptr<i32>
    %b1 = addptr %b, STEP : ptr<i32>
    yield %a1, %b1
  }
}"""


@pytest.mark.parametrize("step, same, wanted", [("%8", (), (-31, 31)), ("%1", None, (-55, 223))])
def test_pointers_that_a_loop_moves(step, same, wanted):
    module = parse_module(LOOP.replace("STEP", step))
    accesses = [op for op in walk(module.body) if op.kind in (ops.load, ops.store)]
    pair = AliasAnalysis(module).pair(*accesses, True)
    assert pair.same == same
    assert dependence_distances(pair, lambda rows: bounds(rows, {2: 6}, (1, 1, 1))) == wanted


@pytest.mark.parametrize(("pointer", "offset"), [("%p", "%at"), ("%q", "%at"), ("%p", "%by")])
@pytest.mark.parametrize(("first", "end", "step"), [(0, 48, 16), (0, 41, 16), (5, 6, 16), (3, 40, 7), (0, 0, 16)])
def test_rounds_that_overtake_each_other_meet_where_others_do_not(pointer, offset, first, end, step):
    """What differs from round to round moves no two accesses alike: the index, and pointers the loop moves."""
    module = parse_module(f"""kernel @f(%x: ptr<i32>, %y: ptr<i32>, %n: i32) {{
      %pid = program_id {{axis=0}} : i32
      %base = mul %pid, %n : i32
      %first = constant {{value={first}, type=i32}} : i32
      %step = constant {{value={step}, type=i32}} : i32
      %zero = constant {{value=0, type=i32}} : i32
      %p = addptr %x, %base : ptr<i32>
      %r:2 = for %first, %n, %step, %p, %zero : ptr<i32>, i32 {{
      ^(%i: i32, %q: ptr<i32>, %by: i32):
        %at = add %i, %zero : i32
        %from = addptr {pointer}, {offset} : ptr<i32>
        %v = load %from : i32
        %there = addptr %y, %base : ptr<i32>
        %to = addptr %there, {offset} : ptr<i32>
        store %to, %v
        %q2 = addptr %q, %step : ptr<i32>
        %by2 = add %by, %step : i32
        yield %q2, %by2
      }}
    }}""")
    load, store = (op for op in walk(module.body) if op.kind in (ops.load, ops.store))
    loop, = (op for op in walk(module.body) if op.kind is ops.for_)
    pair = AliasAnalysis(module).pair(load, store, False, loop)
    for programs in (1, 3):
        least, most = dependence_distances(pair, lambda rows, g=programs: bounds(rows, {2: end}, (g, 1, 1)))
        rounds = range(first, end, step)
        places = [(4 * ((i if offset == "%at" else k * step) + (pointer == "%q") * k * step),
                   4 * (i if offset == "%at" else k * step)) for k, i in enumerate(rounds)]
        for (x, _), (_, y) in itertools.product(places, repeat=2):
            assert least <= x - y <= most
        if (pointer, offset) == ("%p", "%at") and rounds:  # and no further
            assert (least, most) == (-4 * (rounds[-1] - first) - 3, 4 * (rounds[-1] - first) + 3)


def test_pointers_that_a_loop_moves_alike_do_not_keep_step_if_rounds_overtake_each_other():
    module = parse_module(LOOP.replace("STEP", "%8"))
    load, store = (op for op in walk(module.body) if op.kind in (ops.load, ops.store))
    loop, = (op for op in walk(module.body) if op.kind is ops.for_)
    reach = lambda *loop: dependence_distances(AliasAnalysis(module).pair(load, store, False, *loop),
                                    lambda rows: bounds(rows, {2: 5}, (1, 1, 1)))  # fmt: skip
    assert reach() == (-4 * 7 - 3, 4 * 7 + 3)
    least, most = reach(loop)
    assert least <= -4 * (7 + 4 * 8) - 3 and 4 * (7 + 4 * 8) + 3 <= most


def interleaved(row, width, first):
    """The pair of a load and a store of `width` neighbours of each row of elements, the store from `first` on."""
    module = parse_module(f"""kernel @f(%x: ptr<i32>, %y: ptr<i32>) {{
      %pid = program_id {{axis=0}} : i32
      %n = constant {{value=32, type=i32}} : i32
      %base = mul %pid, %n : i32
      %i = arange {{start=0, end=32}} : tile<32xi32>
      %b = splat %base {{shape=(32,)}} : tile<32xi32>
      %k = add %b, %i : tile<32xi32>
      %w = constant {{value={width}, type=i32}} : i32
      %ws = splat %w {{shape=(32,)}} : tile<32xi32>
      %column = rem %k, %ws : tile<32xi32>
      %number = div %k, %ws : tile<32xi32>
      %r = constant {{value={row}, type=i32}} : i32
      %rs = splat %r {{shape=(32,)}} : tile<32xi32>
      %begin = mul %number, %rs : tile<32xi32>
      %f = constant {{value={first}, type=i32}} : i32
      %fs = splat %f {{shape=(32,)}} : tile<32xi32>
      %from = add %column, %begin : tile<32xi32>
      %to = add %from, %fs : tile<32xi32>
      %xs = splat %x {{shape=(32,)}} : tile<32xptr<i32>>
      %xp = addptr %xs, %from : tile<32xptr<i32>>
      %ys = splat %y {{shape=(32,)}} : tile<32xptr<i32>>
      %yp = addptr %ys, %to : tile<32xptr<i32>>
      %v = load %xp : tile<32xi32>
      store %yp, %v
    }}""")
    accesses = [op for op in walk(module.body) if op.kind in (ops.load, ops.store)]
    return AliasAnalysis(module).pair(*accesses, False)


@pytest.mark.parametrize("row, width, first", [(16, 8, 0), (16, 8, 8), (20, 4, 0), (64, 16, -32), (-16, 8, 3),
                                               (9, 8, 0), (8, 8, 0), (4, 8, 0)])  # fmt: skip
def test_residues_at_which_accesses_meet(row, width, first):
    pair = interleaved(row, width, first)
    period, least, more = residues(pair, lambda rows: bounds(rows, {}, (3, 1, 1)))
    i = np.arange(3 * 32)
    x = 4 * (i % width + row * (i // width))
    y = x + 4 * first
    meet = {int(d) + e for d in (x[:, None] - y[None, :]).ravel() for e in range(-3, 4)}
    assert all(not period or (d - least) % period <= more for d in meet)
    assert (period, more) == ((4 * abs(row), 8 * width - 2) if abs(row) >= 2 * width else (0, 0))


def test_the_period_holds_in_launches_of_many_programs():
    """Halves of rows of 32: one program reaches two of 128 rows, and so would be kept apart by whole matrices too."""
    module = parse_module("""kernel @halves(%x: ptr<f32>, %y: ptr<f32>) {launch_checks=True} {
      %p = program_id {axis=0} : i32
      %n = constant {value=64, type=i32} : i32
      %start = mul %p, %n : i32
      %s = splat %start {shape=(64)} : tile<64xi32>
      %r = arange {start=0, end=64} : tile<64xi32>
      %i = add %s, %r : tile<64xi32>
      %c16 = constant {value=16, type=i32} : i32
      %c32 = constant {value=32, type=i32} : i32
      %c128 = constant {value=128, type=i32} : i32
      %c2048 = constant {value=2048, type=i32} : i32
      %c4096 = constant {value=4096, type=i32} : i32
      %k16 = splat %c16 {shape=(64)} : tile<64xi32>
      %k32 = splat %c32 {shape=(64)} : tile<64xi32>
      %k128 = splat %c128 {shape=(64)} : tile<64xi32>
      %k2048 = splat %c2048 {shape=(64)} : tile<64xi32>
      %k4096 = splat %c4096 {shape=(64)} : tile<64xi32>
      %column = rem %i, %k16 : tile<64xi32>
      %line = div %i, %k16 : tile<64xi32>
      %row = rem %line, %k128 : tile<64xi32>
      %matrix = div %i, %k2048 : tile<64xi32>
      %a = mul %row, %k32 : tile<64xi32>
      %b = mul %matrix, %k4096 : tile<64xi32>
      %ab = add %a, %b : tile<64xi32>
      %o = add %ab, %column : tile<64xi32>
      %xs = splat %x {shape=(64)} : tile<64xptr<f32>>
      %ys = splat %y {shape=(64)} : tile<64xptr<f32>>
      %xp = addptr %xs, %o : tile<64xptr<f32>>
      %yp = addptr %ys, %o : tile<64xptr<f32>>
      %v = load %xp : tile<64xf32>
      store %yp, %v
    }""")
    accesses = [op for op in walk(module.body) if op.kind in (ops.load, ops.store)]
    pair = AliasAnalysis(module).pair(*accesses, False)
    assert residues(pair, lambda rows: bounds(rows, {}, (1024, 1, 1)))[0] == 4 * 32


def test_a_row_length_that_is_an_argument_is_no_period():
    assert pair_of("by_rows", "moved", "all").period == ()
