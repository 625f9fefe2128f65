"""Every seeded mistake is found, at its line, and nothing else is said."""

import inspect

import pytest

import tritium
from tests.insight.sanitize import bugs

LINES = {n for n, line in enumerate(inspect.getsource(bugs).split("\n"), 1) if line.endswith("# BUG")}


@pytest.mark.parametrize("kind, run", [pytest.param(kind, run, id=name) for name, kind, run in bugs.BUGS])
def test_found(kind, run):
    with tritium.sanitize(patience=0.5) as report:
        run()
    assert report.kinds() and set(report.kinds()) == {kind}, report.text()
    assert all(finding.line in LINES for finding in report), report.text()
    for finding in report:
        assert "# BUG" in finding.text() and finding.data()["places"][0]["line"] == finding.line


def test_there_are_many():
    assert len(bugs.BUGS) >= 60 and len({name for name, _, _ in bugs.BUGS}) == len(bugs.BUGS)
