"""Ten kernels that are slow for one reason each: explain finds it, and its remedy makes the finding go away."""

import numpy as np
import pytest

import tritium
from tests.insight import kernels
from tests.insight import slow_kernels as K
from tritium.backends.nvptx.assemble import driver_link, ptxas


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def sums_in_a_column(stride):
    return (512,), zeros(16384, 64), zeros(16384 * stride), stride, dict(BM=32, BN=64)


def doubled(block):
    return (2**24 // block,), zeros(2**24), zeros(2**24), 2**24, dict(BLOCK=block)


def every_other(step):
    return (4096,), zeros(step * 2**22), zeros(2**22), step, dict(BLOCK=1024)


def whole_row(columns, warps):
    return (4096,), zeros(4096, columns), zeros(4096, columns), dict(BLOCK=columns, num_warps=warps)


def transposed(tile):
    return (4096 // tile,) * 2, zeros(4096, 4096), zeros(4096, 4096), 4096, dict(TILE=tile)


def softmax_in_passes(block):
    return (4096,), zeros(4096, 32768), zeros(4096, 32768), 32768, dict(BLOCK=block)  # rows at work do not fit L2


def product(tile, stages):
    x = lambda: zeros(2048, 2048, dtype=np.float16)
    grid = 2048 // tile[0], 2048 // tile[1]
    return grid, x(), x(), x(), *(2048,) * 4, dict(zip(("M", "N", "BK"), tile), num_stages=stages)


def summed(block):
    return (2**22 // block,), zeros(2**22), zeros(1), 2**22, dict(BLOCK=block)


def explained(kernel, launch, target="cuda:90a", programs=8):
    grid, *args, meta = launch
    return tritium.explain(kernel, grid, *args, **meta, target=target, programs=programs)


# name: (kernel, slow launch, text of the kernel's line, rule, words of the title, words of the remedy, mended launch)
CASES = {
    "stores down a column": (
        K.sums_in_a_column, sums_in_a_column(64), "tl.store", "coalescing", "stores 32 sectors in a request where 4",
        "let neighbouring offsets be neighbours in memory", (K.sums_in_a_column, sums_in_a_column(1))),
    "tiny blocks": (
        K.doubled, doubled(32), "def doubled", "small programs", "524 288 programs do too little",
        "use a larger block", (K.doubled, doubled(1024))),
    "loads that are apart": (
        K.every_other, every_other(32), "tl.load", "coalescing", "loads 32 sectors in a request where 4",
        "let neighbouring offsets be neighbours in memory", (K.every_other, every_other(1))),
    "too many registers": (
        K.whole_row, whole_row(16384, 4), "tl.sum", "spills", "registers", "smaller tiles or more warps",
        (K.whole_row, whole_row(16384, 16))),
    "too much shared memory": (
        K.transposed, transposed(128), "def transposed", "occupancy", "limited by registers and shared memory",
        "smaller tiles", (K.transposed, transposed(32))),
    "bank conflicts": (
        K.transposed, transposed(64), "tl.store", "bank conflicts", "2-way bank conflicts", "change the tile's sizes",
        (K.transposed, transposed(32))),
    "no pipeline": (
        kernels.product, product((64, 64, 32), 1), "for start", "pipeline", "waits for its loads in every iteration",
        "num_stages=3", (kernels.product, product((64, 64, 32), 3))),
    "low occupancy": (
        K.whole_row, whole_row(8192, 4), "def whole_row", "occupancy", "limited by registers", "more warps",
        (K.whole_row, whole_row(8192, 16))),
    "loads the same again": (
        K.softmax_in_passes, softmax_in_passes(1024), "total +=", "loaded again", "again that line",
        "a block that holds all of it needs no loop", (K.whole_row, whole_row(32768, 32))),
    "atomics on one address": (
        K.sum_by_atomics, summed(1024), "tl.atomic_add", "atomics", "4 194 304 atomics go to one element",
        "tl.atomic_add(p, tl.sum(x, 0))", (K.sum_by_programs, summed(8192))),
}  # fmt: skip


UNPRICED = ("spills", "occupancy", "bank conflicts")  # a kernel bound by DRAM has the same predicted time without them


@pytest.mark.parametrize("name", CASES)
def test_the_reason_is_found_and_its_remedy_holds(name):
    kernel, launch, code, rule, title, remedy, mended = CASES[name]
    found = explained(kernel, launch)
    finding = next((f for f in found.findings[:2] if f.rule == rule), None)
    assert finding is not None, found.findings
    lines = dict(found.launch.text)
    assert title in finding.title and remedy in finding.remedy and code in lines[finding.line]
    better = explained(*mended)
    assert rule not in [f.rule for f in better.findings], better.findings
    if rule not in UNPRICED:
        assert found.prediction.seconds > better.prediction.seconds


def test_too_many_registers_are_found_without_an_assembler(monkeypatch):
    monkeypatch.setattr(ptxas, "ptxas", lambda: None)
    monkeypatch.setattr(driver_link, "makes", lambda *_: False)
    found = explained(K.whole_row, whole_row(16384, 4))
    finding = next(f for f in found.findings[:2] if f.rule == "spills")
    assert found.resources.registers == 255 and "the compiler's estimate" in finding.title


@pytest.mark.skipif(ptxas.ptxas() is None, reason="ptxas is not installed")
def test_the_remedy_of_spills_is_compiled():
    """Warps and tile sizes are tried, and what is told of one is what a launch with it has."""
    def launch(**meta):
        x = zeros(1024, 128, dtype=np.float16)
        return (8,), x, x.copy(), zeros(1024, 128), 1024, dict(WIDTH=128, BLOCK=128) | meta

    found = explained(K.two_sums, launch())
    finding = next(f for f in found.findings if f.rule == "spills")
    for name in ("first", "second", "weights", "scores"):
        assert f"{name} (line" in finding.title
    by_change = {trial.change: trial for trial in found.trials}
    assert list(by_change)[:2] == ["num_warps=8", "num_warps=16"] and by_change["BLOCK=64"].spills == 0
    assert "BLOCK=64 spills nothing" in finding.remedy
    for change, meta in (("BLOCK=64", dict(BLOCK=64)), ("num_warps=8", dict(num_warps=8))):
        had = explained(K.two_sums, launch(**meta)).resources
        assert (had.registers, had.spills) == (by_change[change].registers, by_change[change].spills)
    assert not explained(K.two_sums, launch(BLOCK=64)).trials  # nothing to mend


def test_one_atomic_a_program_may_still_be_too_many():
    found = explained(K.sum_by_programs, summed(512))
    finding = next(f for f in found.findings if f.rule == "atomics")
    assert "8 192 atomics go to one element" in finding.title and "more of the data" in finding.remedy


def test_a_load_that_every_iteration_repeats():
    found = explained(K.adds_a_row, ((64,), zeros(64, 8192), zeros(64, 8192), zeros(256), 8192, dict(BLOCK=256)))
    finding = next(f for f in found.findings if f.rule == "loaded again")
    assert "the same elements of row_ptr in every iteration" in finding.title and "before the loop" in finding.remedy


def test_a_pipeline_that_leaves_no_room_for_a_second_program():
    found = explained(kernels.product, product((128, 128, 64), 4), target="cuda:80")
    assert any(f.rule == "occupancy" and "no second program" in f.title for f in found.findings[:2])
