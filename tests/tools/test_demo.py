"""`python -m tritium demo` runs the whole collection, and its exit status says whether all of it is right."""

import dataclasses

import pytest

from tritium.kernels import registry
from tritium.tools import demo
from tritium.tools.bench import targets


def test_every_kernel_has_a_row_of_its_own():
    for device in ("cpu", "cuda"):
        assert {row.target.name for row in demo.rows(device)} == set(registry.kernels())
    names = [demo.name_of(row) for row in demo.rows()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("options", [[], ["--numpy"]], ids=["torch", "numpy"])
def test_results_and_rivals(capsys, options):
    pytest.importorskip("rich")
    assert demo.main(["--only", "first column", "--seconds", "0.01", "--device", "cpu", *options]) == 0
    said = capsys.readouterr().out
    assert "all 1 correct" in said and "GB/s" in said
    assert ("numpy" in said) == (bool(options) or demo.import_torch() is None)


def test_a_wrong_result_is_told(capsys, monkeypatch):
    pytest.importorskip("rich")
    record = registry.find("first_column")
    wrong = dataclasses.replace(record, wrapper=lambda x: record.wrapper(x) + 1)
    monkeypatch.setattr(demo, "collected", lambda: {record.name: targets._from_record(wrong)})
    assert demo.main(["--seconds", "0.01", "--device", "cpu", "--numpy"]) == 1
    said = capsys.readouterr().out
    assert "NO" in said and "first column: off by" in said and "not all correct" in said
