"""Kernels in functions under torch.compile: the user's and Inductor's own, compiled by its workers or before."""

import json
from pathlib import Path

import pytest
import torch

import tritium
from tests.insight.sanitize.test_sanitizer import run
from tritium.backends.compiler import GPUTarget
from tritium.backends.cpu import checked
from tritium.compiler import ASTSource, compile
from tritium.kernels.vector_add import add_kernel

SCRIPT = Path(__file__).with_name("compiled_functions.py")


def findings(tmp_path, *arguments, options=(), workers=False):
    """(status, [(kind, kernel)]) of the script under the command, with caches of its own; `workers` compile for it."""
    done = run("sanitize", "--json", tmp_path / "out.json", *options, SCRIPT, *arguments,
               TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "inductor"), TORCHINDUCTOR_COMPILE_THREADS=str(1 + workers))
    assert "done" in done.stdout, done.stderr
    found = json.loads((tmp_path / "out.json").read_text())["findings"]
    return done.returncode, [(finding["kind"], finding["kernel"]) for finding in found]


def test_a_forgotten_mask(tmp_path):
    assert findings(tmp_path, "scale", "100", workers=True) == (3, [("out of bounds", "scale")])
    again = run("run", SCRIPT, "scale", "100", TRITIUM_SANITIZE="1",  # from Inductor's cache, in a process of its own
                TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "inductor"), TORCHINDUCTOR_COMPILE_THREADS="1")
    assert again.returncode == 3 and "out of bounds in kernel `scale`" in again.stderr


def test_a_forgotten_mask_on_an_emulated_gpu(tmp_path):
    """Inductor compiles for the CPU and makes its driver the active one; launches go to the GPU all the same."""
    found = findings(tmp_path, "scale", "100", options=("--target", "cuda:90a"))
    assert found == (3, [("out of bounds", "scale")])
    report = json.loads((tmp_path / "out.json").read_text())["findings"]
    assert report[0]["threads"] == "warps 1-3"


def test_memory_without_contents(tmp_path):
    status, found = findings(tmp_path, "add_to", "320")
    assert status == 3 and found[0] == ("uninitialised", "add_to")  # who reads the sum reads the pattern again


@pytest.fixture
def launched(monkeypatch):
    """The names of kernels that were launched with checks."""
    names, usual = [], checked.CheckedLauncher.__call__

    def spy(self, *args):
        names.append(self._metadata.name)
        return usual(self, *args)

    monkeypatch.setattr(checked.CheckedLauncher, "__call__", spy)
    return names


def test_what_was_compiled_before(launched):
    """By `run`, as Inductor starts kernels, and over a grid; afterwards nothing is checked."""
    source = ASTSource(add_kernel, {"x_ptr": "*fp32", "y_ptr": "*fp32", "z_ptr": "*fp32", "n": "i32",
                                    "BLOCK": "constexpr"}, {"BLOCK": 64})
    kernel = compile(source, GPUTarget("cpu", "host", 1))
    x, z = torch.ones(100), torch.zeros(128)

    def launch(n):
        kernel.run(2, 1, 1, 0, kernel.function, kernel.packed_metadata, None, None, None, x, x, z, n, 64)
        kernel[2, 1, 1](x, x, z, n, 64)

    launch(100)
    launch(100)
    assert not launched
    with tritium.sanitize() as report:
        launch(100)
        assert not report and launched == ["add_kernel"] * 2
        launch(101)
    assert report.kinds() == ["out of bounds"] * 2
    launch(100)
    assert len(launched) == 4 and z.sum() == 200


@pytest.mark.parametrize("programs", [1, 2])
def test_what_was_compiled_for_the_cpu_runs_on_an_emulated_gpu(programs):
    """If not all programs ran there, the results are still the CPU's."""
    source = ASTSource(add_kernel, {"x_ptr": "*fp32", "y_ptr": "*fp32", "z_ptr": "*fp32", "n": "i32",
                                    "BLOCK": "constexpr"}, {"BLOCK": 64})
    kernel = compile(source, GPUTarget("cpu", "host", 1))
    x, z = torch.ones(100 if programs == 2 else 101), torch.zeros(128)
    with tritium.sanitize(target="cuda:90a", programs=programs) as report:
        kernel[2, 1, 1](x, torch.ones(128), z, 101, 64)
    assert z[:100].sum() == 200
    if programs == 2:
        assert report.kinds() == ["out of bounds"] and next(iter(report)).threads.startswith("warp")
    else:
        assert not report and "1 of 2 programs ran" in report.summary()


def test_a_function_without_mistakes(tmp_path):
    """Its kernels are launched with checks, Inductor's own too, and nothing is found."""
    script = tmp_path / "script.py"
    script.write_text("import sys\nfrom tritium.backends.cpu.checked import CheckedLauncher\n"
                      "usual = CheckedLauncher.__call__\n"
                      "def spy(self, *args):\n    print(self._metadata.name)\n    usual(self, *args)\n"
                      "CheckedLauncher.__call__ = spy\n"
                      f"sys.path.insert(0, {str(SCRIPT.parent)!r})\n"
                      "import compiled_functions\ncompiled_functions.main('scale', '320')\n")
    done = run("sanitize", script, TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "inductor"))
    names = done.stdout.split()
    assert done.returncode == 0, done.stderr
    assert names.count("scale") >= 2 and any(name.startswith("triton_") for name in names)
