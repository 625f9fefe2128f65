"""What programs touch, counted by hand and by the interpreter."""

import numpy as np
import pytest

from tests.insight import kernels as K
from tritium.insight.facts.accesses import observe
from tritium.insight.facts.needed import without_values
from tritium.insight.facts.sampling import sample, weights
from tritium.kernels.matmul import plain_kernel


def facts(kernel, grid, *args, programs=256, **meta):
    return observe(K.launched(kernel, grid, *args, **meta), programs=programs)


def test_lanes_and_masks_of_a_ragged_launch():
    found = facts(K.shifted, (4,), K.floats(100), K.floats(100), 100, BLOCK=32, target="cpu")
    load, store = found.sites
    assert (load.kind, load.tensors, load.shape, load.itemsize) == ("load", ("x_ptr",), (32,), 4)
    assert (load.executions, load.lanes, load.masked, load.out_of_bounds) == (4, 128, 29, 0)
    assert (store.kind, store.lanes, store.masked, store.bytes) == ("store", 128, 28, 400)
    assert load.code.startswith("tl.load(x_ptr + i + 1") and found.complete and "all 4 programs" in found.sampling
    x, out = found.tensor("x_ptr"), found.tensor("out_ptr")
    assert (x.loaded, x.never, x.loads_each) == (99, 1, 1.0) and (out.stored, out.loaded, out.never) == (100, 0, 0)


def test_arguments_stay_as_they_are():
    x, out = K.floats(64), np.full(64, -1, np.float32)
    facts(K.unmasked, (2,), x, out, BLOCK=32)
    assert (out == -1).all() and (x == K.floats(64)).all()


def test_memory_that_a_table_of_addresses_leads_to_stays_as_it_is():
    x = K.floats(32)
    found = facts(K.through_a_table, (1,), np.array([x.ctypes.data]), K.floats(32), BLOCK=32, target="cpu")
    assert (x == K.floats(32)).all() and [s.tensors for s in found.sites][1:] == [(), ("out_ptr",), (), ()]
    assert [s.lanes for s in found.sites] == [1, 32, 32, 32, 32] and not any(s.out_of_bounds for s in found.sites)


def test_out_of_bounds():
    """The last program goes past both arrays, which is found although memory may lie behind them."""
    found = facts(K.unmasked, (4,), K.floats(100), K.floats(100), BLOCK=32)
    for site in found.sites:
        assert site.out_of_bounds == 28
        assert "program (3, 0, 0), lane (4,): element 100 of `" in site.bad_example and "has 100" in site.bad_example
    assert found.tensor("out_ptr").stored == 100


def test_out_of_bounds_of_a_view_inside_its_storage():
    whole = K.floats(256)
    found = facts(K.unmasked, (2,), whole[:48], K.floats(64), BLOCK=32)
    assert [s.out_of_bounds for s in found.sites] == [16, 0]


def test_elements_stored_by_two_programs():
    found = facts(K.overlapping, (3,), K.floats(64), K.floats(64), 64, BLOCK=32)
    assert found.tensor("out_ptr").stored_by_two == 32 and found.tensor("x_ptr").stored_by_two == 0


def test_atomics_are_no_conflict():
    found = facts(K.counting, (4,), K.floats(128, dtype=np.int32), np.zeros(8, np.int32), 128, BLOCK=32)
    assert [s.kind for s in found.sites] == ["load", "atomic"] and found.tensor("bins_ptr").stored_by_two == 0
    assert found.tensor("bins_ptr").stored == 7


def test_programs_and_cells():
    """A small tensor has a cell for each element, so a program's cells are its elements."""
    found = facts(K.unmasked, (2,), K.floats(64), K.floats(64), BLOCK=32)
    assert found.tensor("x_ptr").cell == (1, 1)
    assert [p.loads["x_ptr"] for p in found.programs] == [((0, 31),), ((32, 63),)]
    assert found.programs[1].stores == {"out_ptr": ((32, 63),)} and found.programs[1].pid == (1, 0, 0)


def test_memory_order_of_a_transposed_tensor():
    x = K.floats(16, 8).T
    found = facts(K.columns, (1,), x, K.floats(8), 1, BLOCK=8)
    assert found.tensor("x_ptr").shape == (8, 16) and found.tensor("x_ptr").pitch == 8


def test_loops_are_stepped_through():
    found = facts(K.row_sums, (2,), K.floats(2, 128), K.floats(2), 128, 128, BLOCK=32, target="cpu")
    steps = found.steps[1, 0, 0]
    loads = [s for s in steps if s.kind == "load"]
    assert [s.iteration for s in loads] == [(0,), (1,), (2,), (3,)] and [s.lanes for s in loads] == [32] * 4
    assert found.tensor("x_ptr").cell == (1, 2) and [s.runs[0][0] for s in loads] == [64, 80, 96, 112]
    assert steps[-1].kind == "store" and any(s.kind == "reduce" for s in steps)


def test_data_dependent_addresses_are_computed():
    index = np.arange(64, dtype=np.int32)[::-1].copy()
    found = facts(K.gather, (2,), K.floats(64), index, K.floats(64), 64, BLOCK=32)
    assert found.programs[0].loads["x_ptr"] == ((32, 63),)


def test_values_that_decide_nothing_are_skipped():
    launch = K.launched(K.product, (1, 1), *(K.floats(64, 64, dtype=np.float16),) * 2, K.floats(64, 64), 64, 64, 64, 64,
                        M=64, N=64, BK=32)
    module = launch.stages["ttir"]
    skipped = without_values(module)
    loop = next(op for op in module.body.ops if op.kind.name == "for")
    assert {op.kind.name for op in loop.regions[0].ops if id(op) in skipped} == {"dot"}
    gather = K.launched(K.gather, (1,), K.floats(64), np.zeros(64, np.int32), K.floats(64), 64, BLOCK=32)
    assert not any(op.kind.name == "load" and id(op) in without_values(gather.stages["ttir"])
                   for op in gather.stages["ttir"].body.ops)


def test_large_grids_are_sampled():
    """Estimates of a regular launch are exact, though only some programs run."""
    a = np.zeros((320, 320), np.float16)
    args = (a, a.copy(), a.copy(), 310, 320, 320, 320, 1, 320, 1, 320, 1)
    meta = dict(BLOCK_M=32, BLOCK_N=32, BLOCK_K=32, PRECISION=None)
    few, all_ = (facts(plain_kernel, (10, 10), *args, programs=n, **meta) for n in (12, 100))
    assert not few.complete and "12 of 100 programs were run" in few.sampling and all_.complete
    for some, whole in zip(few.sites, all_.sites):
        assert some.lanes == pytest.approx(whole.lanes) and some.masked == pytest.approx(whole.masked)
    assert few.tensor("a_ptr").never is None and all_.tensor("a_ptr").never == 10 * 320


def test_programs_of_many_accesses_are_sampled(monkeypatch):
    """Not only those of many elements: a short row takes as long to look at as a tile."""
    monkeypatch.setattr("tritium.insight.facts.accesses.WORK", 5000)
    found = facts(K.row_sums, (64,), K.floats(64, 1024), K.floats(64), 1024, 1024, BLOCK=32)
    load = found.at(found.sites[0].line, "load")[0]
    assert not found.complete and 4 < len(found.programs) < 32 and load.lanes == pytest.approx(64 * 1024)


@pytest.mark.parametrize("grid", [(1, 1, 1), (7, 1, 1), (1000, 1, 1), (40, 50, 1), (9, 9, 9)])
def test_weights_add_up_to_the_grid(grid):
    chosen = sample(grid, 30)
    assert len(set(chosen)) == len(chosen) <= 30 and chosen[0] == (0, 0, 0)
    assert tuple(n - 1 for n in grid) in chosen
    assert sum(weights(grid, chosen)) == pytest.approx(np.prod(grid))


def test_a_program_that_never_ends_is_cut(monkeypatch):
    monkeypatch.setattr("tritium.insight.facts.accesses.OPS", 200)
    found = facts(K.row_sums, (1,), K.floats(1, 4096), K.floats(1), 4096, 4096, BLOCK=32)
    assert not found.complete and "1 stopped after 200 ops" in found.sampling
