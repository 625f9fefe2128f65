"""benchmarks/regional_compile.py: its sides compute the same, and `tritium bench` finds it."""

import pytest

from tests.torch.scripts import BENCHMARKS, script
from tritium.tools.bench.targets import targets_in

pytest.importorskip("torch")
PATH = BENCHMARKS / "regional_compile.py"


@pytest.fixture(scope="module", name="script")
def loaded():
    return script("regional_compile")


def test_the_sides_agree(script):
    rows = [script.measure(side, "cpu", [8, 12], 64, 2) for side in ("eager", "regional")]
    assert all(len(row["first_ms"]) == len(row["steady_ms"]) == 2 for row in rows)
    assert rows[0]["error"] == 0 and rows[1]["error"] < 1e-4
    assert script.table(rows).count("regional") == 2


def test_it_is_a_benchmark(script):
    target, = targets_in(vars(script), str(PATH))
    case = target.make(8, "float32", "cpu")
    assert target.name == "regional_block" and case.error() <= case.tolerance and set(case.rivals) == {"eager", "whole"}
