"""Which layouts are chosen, and what it costs to leave them: the first two steps of `assign_layouts`, by themselves."""

import pytest

from tritium import ops
from tritium.backends.gpu.layout.access import Accesses
from tritium.backends.gpu.layout.choose import choose_layouts
from tritium.backends.gpu.layout.cost import conversion_cost, recompute_cost, replicates_work
from tritium.backends.gpu.layout.place import place_layouts
from tritium.backends.nvptx.isa.target import NvTarget
from tritium.ir.core import walk
from tritium.ir.text import parse_module, print_module

TRANSPOSE = """kernel @f(%p: ptr<f32> {divisible=16}, %q: ptr<f32> {divisible=16}) {num_warps=4} {
  %0 = arange {start=0, end=64} : tile<64xi32>
  %1 = expand_dims %0 {axis=0} : tile<1x64xi32>
  %2 = expand_dims %0 {axis=1} : tile<64x1xi32>
  %3 = constant {value=64, type=i32} : i32
  %4 = splat %3 {shape=(64, 1)} : tile<64x1xi32>
  %5 = mul %2, %4 : tile<64x1xi32>
  %6 = broadcast %5 {shape=(64, 64)} : tile<64x64xi32>
  %7 = broadcast %1 {shape=(64, 64)} : tile<64x64xi32>
  %8 = add %6, %7 : tile<64x64xi32>
  %9 = splat %p {shape=(64, 64)} : tile<64x64xptr<f32>>
  %10 = addptr %9, %8 : tile<64x64xptr<f32>>
  %11 = load %10 : tile<64x64xf32>
  %12 = mul %11, %11 : tile<64x64xf32>
  %13 = trans %12 {order=(1, 0)} : tile<64x64xf32>
  %14 = splat %q {shape=(64, 64)} : tile<64x64xptr<f32>>
  %15 = addptr %14, %8 : tile<64x64xptr<f32>>
  store %15, %13
}
"""


def chosen_for(module):
    target = NvTarget.of(90)
    return choose_layouts(module, target, Accesses.of(module, target, None))


@pytest.fixture
def chosen():
    module = parse_module(TRANSPOSE)
    found = {op.kind.name: op for op in walk(module.body)}  # the last of each kind
    return module, found, chosen_for(module)


def test_memory_decides_and_others_follow(chosen):
    _, found, choice = chosen
    coalesced = choice.accesses.coalesced(found["load"])
    assert choice.anchor(found["load"]) == coalesced and coalesced.contiguous(1) == 4
    square, turned = found["trans"].operands[0], found["trans"]
    assert choice.anchor(square) == coalesced
    assert choice.anchor(turned) == coalesced.trans((1, 0))


def test_ranges_are_free_and_loads_are_anchored(chosen):
    _, found, choice = chosen
    assert choice.is_rematerializable(found["addptr"]) and choice.is_rematerializable(found["arange"])
    assert choice.remat.cost(found["load"]) is None and choice.remat.cost(found["trans"]) is None


def test_costs_of_another_layout(chosen):
    _, found, choice = chosen
    turned, ideal = found["trans"], choice.accesses.coalesced(found["store"])
    nothing = lambda x, layout: None
    bytes_ = 64 * 64 * 4
    assert conversion_cost(choice, turned, choice.anchor(turned)) == 0
    assert conversion_cost(choice, turned, ideal) == bytes_
    assert recompute_cost(choice, nothing, turned, ideal, bytes_) == bytes_  # its operand would change threads as well
    already = lambda x, layout: x  # every operand is there in the layout that is needed
    assert recompute_cost(choice, already, turned, ideal, bytes_) == 0  # a transpose only renames registers
    assert recompute_cost(choice, already, turned.operands[0], ideal, bytes_) == 64 * 64
    assert not replicates_work(choice, found["arange"], ideal)


def test_a_choice_is_placed_with_one_conversion(chosen):
    module, _, choice = chosen
    before = print_module(module)
    made, loads = place_layouts(module, choice)
    assert not loads  # all are large
    assert print_module(module) == before
    assert [op.kind.name for op in walk(made.body)].count("convert") == 1
    tiles = [op for op in walk(made.body) if any(hasattr(t, "shape") for t in op.types)]
    assert tiles and all("layout" in op.attrs for op in tiles)
    (store,) = (op for op in walk(made.body) if op.kind is ops.store)
    assert store.attrs["vector"] == 4


ROWS = """kernel @f(%p: ptr<f32>, %q: ptr<f32>, %s: i32, %t: i32) {{num_warps=4}} {{
  %0 = arange {{start=0, end=16}} : tile<16xi32>
  %1 = expand_dims %0 {{axis=1}} : tile<16x1xi32>
  %2 = splat %s {{shape=(16, 1)}} : tile<16x1xi32>
  %3 = mul %1, %2 : tile<16x1xi32>
  %4 = broadcast %3 {{shape=(16, 128)}} : tile<16x128xi32>
  %5 = arange {{start=0, end=128}} : tile<128xi32>
  %6 = expand_dims %5 {{axis=0}} : tile<1x128xi32>
  %7 = splat %t {{shape=(1, 128)}} : tile<1x128xi32>
  %8 = mul %6, %7 : tile<1x128xi32>
  %9 = broadcast %8 {{shape=(16, 128)}} : tile<16x128xi32>
  %10 = add %4, %9 : tile<16x128xi32>
  %11 = splat %p {{shape=(16, 128)}} : tile<16x128xptr<f32>>
  %12 = addptr %11, %10 : tile<16x128xptr<f32>>
  %13 = load %12 : tile<16x128xf32>
  {weights}
  %19 = reduce %18 {{axis=1}} : tile<16xf32> {{
  ^(%a: f32, %b: f32):
    %21 = add %a, %b : f32
    yield %21
  }}
  %20 = splat %q {{shape=(16,)}} : tile<16xptr<f32>>
  %22 = addptr %20, %0 : tile<16xptr<f32>>
  store %22, %19
}}
"""
NO_WEIGHTS = "%18 = mul %13, %13 : tile<16x128xf32>"
WEIGHTS = """%14 = splat %q {shape=(1, 128)} : tile<1x128xptr<f32>>
  %15 = addptr %14, %6 : tile<1x128xptr<f32>>
  %16 = load %15 : tile<1x128xf32>
  %17 = broadcast %16 {shape=(16, 128)} : tile<16x128xf32>
  %18 = mul %13, %17 : tile<16x128xf32>"""


@pytest.mark.parametrize(("weights", "warps"), [(NO_WEIGHTS, (128, 256)), (WEIGHTS, (32, 64))])
def test_warps_have_rows_of_their_own_unless_they_share_weights(weights, warps):
    module = parse_module(ROWS.format(weights=weights))
    choice = chosen_for(module)
    load = next(op for op in walk(module.body) if op.kind is ops.load)
    assert choice.anchor(load).warp == warps and choice.anchor(load).lane == (1, 2, 4, 8, 16)


@pytest.mark.parametrize("near, lanes", [(8, (128, 256, 512, 1, 2)), (64, (1, 2, 4, 8, 16)), (0, (1, 2, 4, 8, 16))])
def test_lanes_follow_the_axis_whose_neighbours_share_cache_lines(near, lanes):
    """Rows that are `near` elements apart, and columns that are 128 apart: none of them are neighbours in memory."""
    module = parse_module(f"""kernel @f(%p: ptr<f32> {{divisible=16}}) {{num_warps=2}} {{
  %0 = program_id {{axis=0}} : i32
  %1 = constant {{value=8, type=i32}} : i32
  %2 = mul %0, %1 : i32
  %3 = splat %2 {{shape=(8,)}} : tile<8xi32>
  %4 = arange {{start=0, end=8}} : tile<8xi32>
  %5 = add %3, %4 : tile<8xi32>
  %6 = constant {{value=16, type=i32}} : i32
  %7 = splat %6 {{shape=(8,)}} : tile<8xi32>
  %8 = rem %5, %7 : tile<8xi32>
  %9 = constant {{value={near}, type=i32}} : i32
  %10 = splat %9 {{shape=(8,)}} : tile<8xi32>
  %11 = mul %8, %10 : tile<8xi32>
  %12 = expand_dims %11 {{axis=1}} : tile<8x1xi32>
  %13 = broadcast %12 {{shape=(8, 128)}} : tile<8x128xi32>
  %14 = arange {{start=0, end=128}} : tile<128xi32>
  %15 = constant {{value=128, type=i32}} : i32
  %16 = splat %15 {{shape=(128,)}} : tile<128xi32>
  %17 = mul %14, %16 : tile<128xi32>
  %18 = expand_dims %17 {{axis=0}} : tile<1x128xi32>
  %19 = broadcast %18 {{shape=(8, 128)}} : tile<8x128xi32>
  %20 = add %13, %19 : tile<8x128xi32>
  %21 = splat %p {{shape=(8, 128)}} : tile<8x128xptr<f32>>
  %22 = addptr %21, %20 : tile<8x128xptr<f32>>
  %23 = load %22 : tile<8x128xf32>
}}
""")
    load = module.body.ops[-1]
    assert chosen_for(module).anchor(load).lane == lanes


# Columns and weights that meet in a tile of three axes, which is stored as rows: a combination of streams.
STREAMS = """kernel @f(%p: ptr<f32> {divisible=16}, %q: ptr<f32> {divisible=16}) {num_warps=1} {
  %0 = arange {start=0, end=64} : tile<64xi32>
  %1 = splat %p {shape=(64,)} : tile<64xptr<f32>>
  %2 = addptr %1, %0 : tile<64xptr<f32>>
  %3 = load %2 : tile<64xf32>
  %4 = arange {start=0, end=4} : tile<4xi32>
  %5 = splat %p {shape=(4,)} : tile<4xptr<f32>>
  %6 = addptr %5, %4 : tile<4xptr<f32>>
  %7 = load %6 : tile<4xf32>
  %8 = expand_dims %3 {axis=1} : tile<64x1xf32>
  %9 = broadcast %8 {shape=(64, 4)} : tile<64x4xf32>
  %10 = expand_dims %7 {axis=0} : tile<1x4xf32>
  %11 = broadcast %10 {shape=(64, 4)} : tile<64x4xf32>
  %12 = mul %9, %11 : tile<64x4xf32>
  %13 = reshape %12 {shape=(256,)} : tile<256xf32>
  %14 = arange {start=0, end=256} : tile<256xi32>
  %15 = splat %q {shape=(256,)} : tile<256xptr<f32>>
  %16 = addptr %15, %14 : tile<256xptr<f32>>
  store %16, %13
}
"""


def test_what_is_reshaped_for_a_store_is_computed_in_its_layout():
    module = parse_module(STREAMS)
    found = {op.kind.name: op for op in walk(module.body)}  # the last of each kind
    choice = chosen_for(module)
    stored = choice.accesses.coalesced(found["store"])
    assert choice.anchor(found["mul"]) == stored.reshape((64, 4))
    made, _ = place_layouts(module, choice)
    assert all(op.type.shape != (256,) for op in walk(made.body) if op.kind.name == "convert")
