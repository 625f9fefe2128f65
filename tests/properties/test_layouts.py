"""Laws of linear layouts, for random layouts: no GPU needed."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tritium.backends.gpu.layout.linear import (
    Layout,
    blocked,
    conversion,
    coordinates,
    image,
    log2,
    product,
    replicated,
    solve,
)
from tritium.backends.gpu.layout.swizzle import swizzled
from tritium.backends.gpu.lower import shuffles
from tritium.backends.gpu.lower.shared_memory import passes, plan, vector_bits
from tritium.backends.nvptx.isa import fragments

dims = st.sampled_from([1, 2, 4, 8, 16, 32])


@st.composite
def layouts(draw, rank=None, least=1):
    shape = tuple(draw(st.lists(dims, min_size=rank or 1, max_size=rank or 3)))
    while product(shape) < least:
        shape = (*shape[:-1], shape[-1] * 2)
    order = draw(st.permutations(range(len(shape))))
    per_thread, warps, lanes = (draw(st.sampled_from(some)) for some in ((1, 2, 4, 8), (1, 2, 4, 8), (32, 64)))
    return blocked(shape, per_thread, warps, lanes, order)


def like(layout, per_thread, order):
    """A blocked layout of the same tile for the same threads."""
    return blocked(layout.shape, per_thread, 1 << len(layout.warp), 1 << len(layout.lane), order)


def elements(layout):
    return {
        layout.element(r, lane, warp)
        for r in range(layout.registers)
        for lane in range(1 << len(layout.lane))
        for warp in range(1 << len(layout.warp))
    }


@given(layouts())
def test_a_blocked_layout_holds_every_element(layout):
    assert elements(layout) == set(range(layout.numel))


@given(layouts())
def test_owners_hold_every_element_exactly_once(layout):
    owned = []
    for lane in range(1 << len(layout.lane)):
        for warp in range(1 << len(layout.warp)):
            if not lane & layout.free("lane") and not warp & layout.free("warp"):
                owned += [layout.element(r, lane, warp) for r in range(layout.registers)]
    assert sorted(owned) == list(range(layout.numel))


@given(layouts(rank=3), st.permutations(range(3)))
def test_trans_moves_coordinates_and_untrans_undoes_it(layout, order):
    moved = layout.trans(order)
    assert moved.untrans(order) == layout
    for lane in range(0, 32, 5):
        before, after = (coordinates(x.shape, x.element(0, lane)) for x in (layout, moved))
        assert after == tuple(before[k] for k in order)


@given(layouts(rank=3), st.integers(0, 2))
def test_drop_forgets_one_coordinate(layout, axis):
    dropped = layout.drop(axis)
    for lane in range(0, 32, 3):
        before = coordinates(layout.shape, layout.element(0, lane))
        assert coordinates(dropped.shape, dropped.element(0, lane)) == before[:axis] + before[axis + 1 :]


@given(st.lists(st.integers(0, 255), max_size=8), st.integers(0, 255))
def test_solve_is_exact(images, choice):
    want = image(images, choice & ((1 << len(images)) - 1))
    assert image(images, solve(tuple(images), want)) == want


@given(layouts(least=64), st.data())
@settings(max_examples=40, deadline=None)
def test_conversions_are_classified_by_where_the_element_is(layout, data):
    order = data.draw(st.permutations(range(len(layout.shape))))
    other = like(layout, data.draw(st.sampled_from([1, 2, 4])), order)
    how = conversion(layout, other)
    if how in ("same", "registers"):
        for r, part in enumerate(layout.registers_in(other)):
            for lane in range(1 << len(layout.lane)):
                for warp in range(1 << len(layout.warp)):
                    assert layout.element(part, lane, warp) == other.element(r, lane, warp)


def test_a_register_chosen_by_the_warp_is_no_renaming():
    source = Layout((8, 16), (64,), (1, 2, 4, 8, 16), (32, 0))
    target = Layout((8, 16), (), (1, 2, 4, 8, 16), (32, 64))
    assert conversion(source, target) == "shared"


@pytest.mark.parametrize("rows", [16, 64])
@pytest.mark.parametrize("shape", [(64, 64), (128, 128), (128, 256), (64, 8)])
@pytest.mark.parametrize("warps", [4, 8])
def test_tensor_core_accumulators_hold_every_element(rows, shape, warps):
    along_m = min(warps, max(4 if rows == 64 else 1, shape[0] // 16))
    layout = fragments.accumulator(shape, along_m, warps // along_m, rows)
    assert elements(layout) == set(range(product(shape)))


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_operands_hold_what_their_accumulators_need(bits):
    """Each warp's a rows and b columns are those of its accumulators."""
    a, b, c = (
        fragments.operand((64, 64), bits, 2, 2, "a"),
        fragments.operand((64, 64), bits, 2, 2, "b"),
        fragments.accumulator((64, 64), 2, 2),
    )
    for warp in range(4):
        rows = {coordinates((64, 64), c.element(r, lane, warp))[0] for r in range(c.registers) for lane in range(32)}
        cols = {coordinates((64, 64), c.element(r, lane, warp))[1] for r in range(c.registers) for lane in range(32)}
        assert rows == {
            coordinates((64, 64), a.element(r, lane, warp))[0] for r in range(a.registers) for lane in range(32)
        }
        assert cols == {
            coordinates((64, 64), b.element(r, lane, warp))[1] for r in range(b.registers) for lane in range(32)
        }


@given(layouts(least=64), st.sampled_from([1, 2, 4, 8]), st.data())
@settings(max_examples=40, deadline=None)
def test_the_chosen_shared_memory_map_loses_nothing(layout, size, data):
    order = data.draw(st.permutations(range(len(layout.shape))))
    other = like(layout, 4, order)
    images = plan(layout, other, size)
    addresses = {image(images, e) for e in range(layout.numel)}
    assert len(addresses) == layout.numel and max(addresses) < layout.numel * size
    assert all(a % size == 0 for a in addresses)


@given(layouts(least=64), st.sampled_from([1, 2, 4, 8]), st.data())
@settings(max_examples=40, deadline=None)
def test_vector_accesses_are_aligned(layout, size, data):
    order = data.draw(st.permutations(range(len(layout.shape))))
    images = plan(layout, like(layout, 4, order), size)
    width = 1 << vector_bits(layout, images, size)
    for lane in range(1 << len(layout.lane)):
        for r in range(0, layout.registers, width):
            addresses = [image(images, layout.element(r + k, lane)) for k in range(width)]
            assert addresses[0] % (size * width) == 0
            assert addresses == list(range(addresses[0], addresses[0] + size * width, size))


def test_a_transposition_through_shared_memory_has_few_conflicts():
    rows, columns = blocked((64, 64), 4, 4, 32), blocked((64, 64), 4, 4, 32, (0, 1))
    images = plan(rows, columns, 4)
    plain = tuple(4 << k for k in range(12))
    assert (
        sum(passes(layout, images, 4)[0] for layout in (rows, columns))
        <= sum(passes(layout, plain, 4)[0] for layout in (rows, columns)) / 2
    )


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_swizzled_rows_are_a_permutation_of_addresses(axis, size):
    images, width = swizzled((64, 128), axis, size)
    assert {image(images, e) for e in range(64 * 128)} == set(range(0, 64 * 128 * size, size))
    assert width == 128 or width == 64 * size


def test_replicated_gives_everyone_everything():
    layout = replicated((8,), 4, 32)
    assert layout.registers == 8 and log2(layout.numel) == 3 and isinstance(layout, Layout)


# --- shuffles ---------------------------------------------------------------------------------------------------------
LANES = np.arange(32)


class OfLanes:
    """Stands for a lowering: values are arrays of what each lane has, words have an axis for their elements too."""

    int = staticmethod(lambda x: x)
    target = SimpleNamespace(shuffle=lambda g, word, how, lane: word[lane])
    w = SimpleNamespace(
        binary=lambda opcode, x, y: {"xor": np.bitwise_xor}[opcode](x, y),
        compare=lambda opcode, x, y: {"icmp ne": np.not_equal}[opcode](x, y)[:, None],
        select=np.where,
    )

    def spread(self, images, part):
        assert part == "lane"
        return np.bitwise_xor.reduce([np.where(LANES >> k & 1, x, 0) for k, x in enumerate(images)])


@given(st.data(), st.sampled_from([1, 2, 4]), st.integers(2, 5))
def test_shuffles_bring_every_lane_what_it_wants(data, size, registers):
    bits = [1 << k for k in range(5 + registers)]
    first = data.draw(st.permutations(bits))
    stays = data.draw(st.integers(0, registers))
    others = data.draw(st.permutations([x for x in bits if x not in first[:stays]]))
    kept = data.draw(st.permutations([*first[:stays], *others[: registers - stays]]))
    then = [*kept, *others[registers - stays :]]
    source, to = (Layout((1 << len(bits),), tuple(x[:registers]), tuple(x[registers:]), ())
                  for x in (first, then))  # fmt: skip
    per = 4 // size
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shuffles, "_shared_cost", lambda *of: 1 << 30)
        patch.setattr(shuffles, "pack_words",
                      lambda g, x: [np.stack(x[k : k + per], 1) for k in range(0, len(x), per)])  # fmt: skip
        patch.setattr(shuffles, "unpack_word", lambda g, word, kind: [*word.T])
        patch.setattr(shuffles, "llvm_type", str)
        found = shuffles.shuffled(source, to, size, 64)
        if found is None:
            staying = {*source.reg} & {*to.reg}
            assert conversion(source, to) != "lanes" or 1 << len(staying) < per
            return
        held = [np.array([source.element(r, lane) for lane in range(32)]) for r in range(source.registers)]
        moved = shuffles.shuffle(OfLanes(), None, held, source, to, found)
    assert [list(x) for x in moved] == [[to.element(r, lane) for lane in range(32)] for r in range(to.registers)]


def test_shared_memory_is_taken_where_it_is_cheaper():
    """Rows of floats become columns: four words that leave for each that stays."""
    rows, columns = (Layout((32, 32), tuple(x[:5]), tuple(x[5:]), ())
                     for x in ([1 << k for k in range(10)], [1 << k for k in (*range(5, 10), *range(5))]))  # fmt: skip
    assert conversion(rows, columns) == "lanes" and shuffles.shuffled(rows, columns, 4, 64) is None
