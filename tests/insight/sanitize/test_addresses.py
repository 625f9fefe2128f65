"""Pointers that are loaded from memory: they may lead anywhere, and what they lead to in arguments is known."""

import numpy as np
import pytest
import torch

import tritium
import tritium as triton
import tritium.language as tl


@triton.jit
def store_through(table, y, n, STEP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    p = tl.load(table).to(tl.pointer_type(tl.float32))
    tl.store(p + i * STEP, i.to(tl.float32) + tl.program_id(0), mask=i < n)


@triton.jit
def load_through(table, y, out, n, STEP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    p = tl.load(table).to(tl.pointer_type(tl.float32))
    tl.store(out + i, tl.load(p + i * STEP, mask=i < n, other=0.0))


@triton.jit
def pick_through(table, y, out, places, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    p = tl.load(table).to(tl.pointer_type(tl.float32))
    tl.store(out + i, tl.load(p + tl.load(places + i), mask=i < n, other=0.0))


def table(x):
    return torch.tensor([x if isinstance(x, int) else x.data_ptr()])


def found(report):
    return [(finding.kind, finding.count) for finding in report]


STEPS = pytest.mark.parametrize("step", [1, 2])


@STEPS
def test_memory_of_no_argument_is_fine(step):
    x, out = torch.arange(256.0), torch.zeros(128)
    with tritium.sanitize() as report:
        load_through[(1,)](table(x), out, out, 100, STEP=step, BLOCK=128)
        store_through[(4,)](table(x), out, 100, STEP=step, BLOCK=128)
    assert not report and out[:100].tolist() == list(range(0, 100 * step, step)) and not out[100:].any()


@STEPS
def test_addresses_near_0(step):
    out = torch.ones(128)
    with tritium.sanitize() as report:
        load_through[(1,)](table(64), out, out, 100, STEP=step, BLOCK=128)
        store_through[(1,)](table(64), out, 100, STEP=step, BLOCK=128)
    assert found(report) == [("out of bounds", 100)] * 2 and not out.any()


@STEPS
def test_races_in_an_argument(step):
    y = torch.zeros(256)
    with tritium.sanitize() as report:
        store_through[(2,)](table(y), y, 100, STEP=step, BLOCK=128)
    (finding,) = report
    assert (finding.kind, finding.count, finding.tensor, finding.lane) == ("race", 100, "y", (0,))


@STEPS
def test_an_argument_without_contents(step):
    out = torch.zeros(128)
    with tritium.sanitize() as report:
        y = torch.empty(256)
        y[:20] = 1
        load_through[(1,)](table(y), y, out, 100, STEP=step, BLOCK=128)
    (finding,) = report
    assert (finding.kind, finding.count, finding.lane) == ("uninitialised", 100 - 20 // step, (20 // step,))


@STEPS
def test_an_argument_that_may_not_be_written(step):
    y = np.zeros(256, np.float32)
    y.flags.writeable = False
    with tritium.sanitize() as report:
        store_through[(1,)](np.array([y.ctypes.data]), y, 100, STEP=step, BLOCK=128)
    assert found(report) == [("read-only", 100)] and not y.any()


@STEPS
def test_elements_before_and_behind_an_argument(step):
    whole = torch.zeros(300)
    with tritium.sanitize() as report:
        store_through[(2,)](table(whole), whole[50:60], 100, STEP=step, BLOCK=128)
    (finding,) = report
    assert (finding.kind, finding.count, finding.lane) == ("race", 10 // step, (50 // step,))


def test_any_order():
    x, out, places = torch.arange(256.0), torch.zeros(128), torch.randperm(128)
    with tritium.sanitize() as report:
        pick_through[(1,)](table(x), x, out, places, 128, BLOCK=128)
    assert not report and (out == places).all()
    with tritium.sanitize() as report:
        pick_through[(1,)](table(8), x, out, places, 100, BLOCK=128)
    assert found(report) == [("out of bounds", 100)]
