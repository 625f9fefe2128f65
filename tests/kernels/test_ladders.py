"""S25, S26: the rungs compute the same, and differ as docs/ladders.md says."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from tritium.kernels.ladders import gemm, transpose

pytestmark = pytest.mark.sampled

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def ladders():
    spec = importlib.util.spec_from_file_location("ladders_benchmark", ROOT / "benchmarks" / "ladders.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("rung", transpose.RUNGS, ids=lambda rung: rung.name)
@pytest.mark.parametrize("shape", [(1, 1), (33, 70), (1100, 5)])
def test_transpose(arrays, rng, rung, shape):
    x = rng.standard_normal(shape, dtype=np.float32)
    assert np.array_equal(arrays.back(rung.record.wrapper(arrays.of(x))), x.T.astype(np.float64))


@pytest.mark.parametrize("rung", gemm.RUNGS[:4], ids=lambda rung: rung.name)
@pytest.mark.parametrize("shape", [(1, 1, 1), (33, 70, 50), (130, 129, 65)])
def test_gemm(arrays, rng, rung, shape):
    M, N, K = shape
    a, b = rng.standard_normal((M, K), dtype=np.float32), rng.standard_normal((K, N), dtype=np.float32)
    got = arrays.back(rung.record.wrapper(arrays.of(a), arrays.of(b)))
    np.testing.assert_allclose(got, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)


def test_coalescing_of_the_transposes(ladders):
    """V1 loads 8 times the sectors, V2 stores them, V3 neither, but it has bank conflicts, and V4 has none."""
    found = {rung.name: ladders.facts(rung) for rung in transpose.RUNGS[1:]}
    waste = {name: [sectors / least for *_, sectors, least in f["accesses"]] for name, f in found.items()}
    assert waste == {"V1": [8, 1], "V2": [1, 8], "V3": [1, 1], "V4": [1, 1]}
    assert not found["V1"]["bank passes"] and not found["V2"]["bank passes"]
    passes = {name: [(side, passes / least) for side, passes, least in found[name]["bank passes"]] for name in found}
    assert passes["V3"] == [("write", 2), ("read", 1)] and passes["V4"] == [("write", 1), ("read", 1)]
    assert found["V4"]["shared"] == found["V3"]["shared"] == 16384


def test_what_the_products_use(ladders):
    found = {rung.name: ladders.facts(rung, np.float16) for rung in gemm.RUNGS[1:4]}
    columns = found["V1"]["accesses"][0]
    assert columns[3] == 8 * columns[4]  # eight elements of a column of A: eight sectors, one would hold them
    assert all(sectors == least for *_, sectors, least in found["V2"]["accesses"])
    assert [how for _, _, how, *_ in found["V3"]["accesses"]] == ["TMA"] * 3
    assert found["V3"]["shared"] > 4 * found["V2"]["shared"]


def test_the_table(ladders, capsys, monkeypatch):
    """The script prints a line for each rung."""
    monkeypatch.setattr(ladders, "milliseconds", lambda fn: (fn(), (1.0, 0.9, 1.1))[1])
    monkeypatch.setattr(sys, "argv", ["ladders.py", "--device", "numpy", "--only", "transpose", "--size", "64"])
    ladders.main()
    out = capsys.readouterr().out
    assert all(f"| {rung.name}: {rung.changed} | 1.000" in out for rung in transpose.RUNGS) and "GB/s" in out
