"""Every seeded mistake is found, at its line, and nothing else is said."""

import inspect
import os
from pathlib import Path

import pytest

import tritium
from tests import processes
from tests.insight.sanitize import bugs
from tests.insight.sanitize.bugs import out_of_bounds
from tritium.backends.compiler import GPUTarget
from tritium.compiler import ASTSource, compile

LINES = {(module.__file__, n) for module in bugs.MODULES
         for n, line in enumerate(inspect.getsource(module).split("\n"), 1) if line.endswith("# BUG")}


@pytest.mark.parametrize("kind, run", [pytest.param(kind, run, id=name) for name, kind, run in bugs.BUGS])
def test_found(kind, run):
    with tritium.sanitize(patience=0.5) as report:
        run()
    assert report.kinds() and set(report.kinds()) == {kind}, report.text()
    assert all(finding.places[0][:2] in LINES for finding in report), report.text()
    for finding in report:
        assert "# BUG" in finding.text() and finding.data()["places"][0]["line"] == finding.line


def test_what_they_do_without_it():
    """benchmarks/sanitize_baseline.py: a mistake that is refused, and one that only shows in the result."""
    root = Path(tritium.__file__).parents[1]
    for only, row in (("read-only", "| read-only | 2 |  |  | 2 |  |  |"),
                      ("load_unmasked_torch.bool", "| out of bounds | 1 |")):
        done = processes.run([root / "benchmarks" / "sanitize_baseline.py", "--times", "1", "--only", only],
                             env={**os.environ, "PYTHONPATH": str(root)})
        assert done.returncode == 0 and row in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("arch", ["aarch64", "x86-64-v2"])
def test_checked_kernels_compile_for_other_machines(arch):
    """Machine code with all checks, for machines that are not this one."""
    target = GPUTarget("cpu", arch, 1)
    for kernel in (out_of_bounds.load_unmasked, out_of_bounds.store_unmasked):
        source = ASTSource(kernel, {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 256})
        made = compile(source, target, {"sanitized": True})
        assert made.metadata.sanitized and "tt.check" in made.asm["llir"]
        assert made.asm["obj"][18:20] == (b"\xb7\x00" if arch == "aarch64" else b"\x3e\x00"), "ELF's e_machine"


def test_there_are_many():
    assert len(bugs.BUGS) >= 60 and len({name for name, _, _ in bugs.BUGS}) == len(bugs.BUGS)
