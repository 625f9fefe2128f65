"""Stores and loads at any addresses: what is found, how often, and in which lane."""

import numpy as np
import pytest
import torch

import tritium
import tritium as triton
import tritium.language as tl

BLOCK = 256
ORDERS = {"consecutive": np.arange(BLOCK), "backwards": np.arange(BLOCK)[::-1], "apart": np.arange(BLOCK) * 3,
          "any": np.random.default_rng(0).permutation(BLOCK)}
MASKS = {"all": np.ones(BLOCK, bool), "half": np.random.default_rng(1).random(BLOCK) < 0.5,
         "few": np.arange(BLOCK) % 50 == 7}  # fmt: skip


@triton.jit
def put(y, places, keep, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + tl.load(places + i), (i + tl.program_id(0)).to(y.dtype.element_ty), mask=tl.load(keep + i) != 0)


@triton.jit
def get(x, places, keep, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + tl.load(places + i), mask=tl.load(keep + i) != 0, other=0))


@triton.jit
def put_and_get(y, places, keep, others, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    on = tl.load(keep + i) != 0
    tl.store(y + tl.load(places + i), i.to(tl.float32), mask=on)
    tl.store(out + i, tl.load(y + tl.load(others + i), mask=on, other=0.0))


@pytest.fixture(params=ORDERS)
def order(request):
    return ORDERS[request.param]


@pytest.fixture(params=MASKS)
def on(request):
    return MASKS[request.param]


def packed(order, on):
    """The places of active lanes, so that those in a row follow each other, as compaction stores them."""
    places = np.zeros(BLOCK, np.int64)
    places[on] = order[:on.sum()]
    return places


def tensors(places, on):
    return torch.from_numpy(places.astype(np.int64)), torch.from_numpy(on.astype(np.int8))


def first(on):
    return (int(np.flatnonzero(on)[0]),)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8, torch.float64])
def test_programs_that_store_to_the_same_elements(order, on, dtype):
    y, places = torch.zeros(1000, dtype=dtype), packed(order, on)
    with tritium.sanitize() as report:
        put[(2,)](y, *tensors(places, on), BLOCK=BLOCK)
    (finding,) = report
    assert (finding.kind, finding.count, finding.lane) == ("race", on.sum(), first(on))
    with tritium.sanitize() as report:
        put[(1,)](y, *tensors(places, on), BLOCK=BLOCK)
    assert not report and (y.numpy()[places[on]] == np.arange(BLOCK)[on].astype(y.numpy().dtype)).all()


def test_elements_out_of_bounds(order, on):
    places = packed(order, on)
    size = int(np.sort(places[on])[len(places[on]) // 2])  # half of them lie behind
    y = torch.zeros(1000)
    with tritium.sanitize() as report:
        put[(1,)](y[:size], *tensors(places, on), BLOCK=BLOCK)
    (finding,) = report
    out = on & (places >= size)
    assert (finding.kind, finding.count, finding.lane) == ("out of bounds", out.sum(), first(out))
    assert not y[size:].any()


def test_lanes_with_one_address(order, on):
    places = packed(order, on)
    a, b = np.flatnonzero(on)[[1, -2]]
    places[b] = places[a]
    with tritium.sanitize() as report:
        put[(1,)](torch.zeros(1000), *tensors(places, on), BLOCK=BLOCK)
    (finding,) = report
    assert (finding.kind, finding.count, finding.lane) == ("double store", 1, (int(a),))


def test_elements_that_nobody_wrote(order, on):
    places, out = packed(order, on) * 2, torch.zeros(BLOCK, dtype=torch.float32)
    with tritium.sanitize() as report:
        x = torch.empty(2000)
        x[:100] = 1
        get[(1,)](x, *tensors(places, on), out, BLOCK=BLOCK)
    never = on & (places >= 100)
    if not never.any():
        assert not report
        return
    (finding,) = report
    assert (finding.kind, finding.count, finding.lane) == ("uninitialised", never.sum(), first(never))


def test_what_another_lane_has_stored(order, on):
    places, out = packed(order, on), torch.zeros(BLOCK)
    others = places.copy()
    a, b = np.flatnonzero(on)[[1, -2]]
    others[[a, b]] = places[[b, a]]
    with tritium.sanitize() as report:
        kept = tensors(places, on)
        put_and_get[(1,)](torch.zeros(1000), *kept, torch.from_numpy(others), out, BLOCK=BLOCK)
    (finding,) = report
    assert (finding.kind, finding.count, finding.lane) == ("race in program", 2, (int(a),))
