"""Every record of the collection: right results at odd sizes in each of its types, and figures that make sense."""

import numpy as np
import pytest

from tritium import knobs
from tritium.kernels.registry import find, kernels

# Sizes around the edges of tiles; squares of them are small enough for any machine.
SIZES = [1, 17, 100]
# Tuning times things: test_matmul.py does it briefly.
NOT_TUNED = [name for name in kernels() if "tuned" not in name and name != "gemm_v4"]


def has(record, device):
    if device != "numpy":
        pytest.importorskip("torch")


@pytest.mark.parametrize("device", ["numpy", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("name", NOT_TUNED)
def test_results(name, device):
    record = find(name)
    has(record, device)
    few = device == "cpu" or knobs.runtime.interpret  # torch's memory holds the same
    for size in [17] if few else SIZES:
        for dtype in record.dtypes[:1] if few else record.dtypes:
            error = record.error(*record.make_arguments(size, dtype, device))
            assert error <= record.tolerance(dtype), (size, dtype)


@pytest.mark.parametrize("name", kernels())
def test_figures(name):
    record = find(name)
    small, large = (record.make_arguments(size, record.dtypes[0], "numpy") for size in (32, 64))
    assert 0 < record.bytes(*small) < record.bytes(*large)
    assert 0 <= record.flops(*small) <= record.flops(*large)
    assert set(record.sizes) == {"cpu", "cuda"} and record.bound in ("memory", "compute")
    assert record.title and record.size_is and record.scenario and callable(record.wrapper)


@pytest.mark.parametrize("name", [name for name, record in kernels().items() if record.rival])
def test_rivals(name):
    """torch computes the same, so a ratio of times is one of equal work."""
    torch = pytest.importorskip("torch")
    record = find(name)
    arguments = record.make_arguments(48, record.dtypes[0], "cpu")
    theirs = record._compared(record.rival(torch, *arguments))
    expected = record.expected(*arguments)
    got = theirs[0].detach().double().numpy()
    np.testing.assert_allclose(got.reshape(expected[0].shape), expected[0], rtol=0.02,
                               atol=0.02 * np.abs(expected[0]).max())


def test_arguments_are_the_same_each_time():
    record = find("matmul")
    one, two = (record.make_arguments(33, "float32", "numpy") for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(one, two))


def test_a_wrong_result_is_seen():
    from dataclasses import replace

    record = replace(find("vector_add"), wrapper=lambda x, y: x + y * 1.01)
    assert record.error(*record.make_arguments(100, "float32", "numpy")) > record.tolerance("float32")
    nine = record.make_arguments(9, "float32", "numpy")
    assert replace(record, wrapper=lambda x, y: x[:1]).error(*nine) == np.inf
    assert replace(record, wrapper=lambda x, y: x * np.nan).error(*nine) == np.inf
