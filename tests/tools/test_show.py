"""`python -m tritium show` and occupancy, with no GPU and no driver (S13, S14, S15)."""

import subprocess
import sys

import pytest

from tritium.__main__ import main
from tritium.backends.compiler import GPUTarget
from tritium.backends.nvptx.assemble.ptxas import ptxas
from tritium.tools.occupancy import MACHINES, machine, occupancy_of

KERNEL = """
import triton
import triton.language as tl

@triton.autotune([triton.Config({"B": 64})], key=[])
@triton.jit
def product(a, b, c, n, B: tl.constexpr):
    i, j = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    acc = tl.zeros((B, B), tl.float32)
    for k in range(0, n, B):
        acc = tl.dot(tl.load(a + i * n + k + j), tl.load(b + (k + i) * B + j), acc)
    tl.store(c + i * B + j, acc)
"""
SIGNATURE = "*fp16:16, *fp16:16, *fp32:16, i32:16, 64"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text(KERNEL)
    return str(path)


def show(capsys, *arguments):
    """(exit status, what it printed, what it complained of)."""
    status = main(["show", *arguments])
    return status, *capsys.readouterr()


needs_ptxas = pytest.mark.skipif(ptxas() is None, reason="ptxas is not installed")


@needs_ptxas
@pytest.mark.parametrize("arch", ["75", "80", "86", "89", "90a"])
def test_figures(file, capsys, arch):
    status, out, _ = show(capsys, file, "-n", "product", "-s", SIGNATURE, "-t", f"cuda:{arch}", "-w", "8")
    assert status == 0 and f"product for cuda:{arch}:32: 8 warps" in out
    assert "for a thread, 0 words spilled" in out and "limited by" in out


def test_stages_are_fed_back_in_another_process(file, tmp_path, capsys):
    """Each from the one before, down to PTX: the same kernel comes out."""
    given = [file, "-n", "product", "-s", SIGNATURE]
    for stage in ("ttir", "ttgir", "llir", "ptx"):
        status, text, _ = show(capsys, *given, "-t", "cuda:80", "--stage", stage)
        assert status == 0
        given = [str(tmp_path / f"k.{stage}")]
        (tmp_path / f"k.{stage}").write_text(text)
    command = [sys.executable, "-m", "tritium", "show", str(tmp_path / "k.ttgir"), "--stage", "ptx"]
    done = subprocess.run(command, capture_output=True, text=True)
    code = lambda text: [line for line in text.splitlines() if not line.startswith(("//", "\t.loc", "\t.file"))]
    assert code(done.stdout) and done.stderr == ""  # for the machine the file names
    assert "cp.async" in done.stdout and ".target sm_80" in done.stdout


@pytest.mark.parametrize(("arguments", "message"), [
    (["-n", "nothing", "-s", SIGNATURE], "has no kernel 'nothing'"),
    (["-n", "product"], "needs --kernel-name and --signature"),
    (["-n", "product", "-s", "*fp16, *fp16, *fp32, i32, 48"], "power of 2"),
    (["-n", "product", "-s", SIGNATURE, "-t", "cuda:91"], "there is no NVIDIA architecture 91"),
    (["-n", "product", "-s", SIGNATURE, "-t", "cuda:90:64"], "warps of NVIDIA GPUs have 32 threads, not 64"),
    (["-n", "product", "-s", SIGNATURE, "--stage", "amdgcn"], "has no stage 'amdgcn'"),
    (["-n", "product", "-s", SIGNATURE, "-t", "hip:gfx12345"], "gfx12345"),
])  # fmt: skip
def test_mistakes(file, capsys, arguments, message):
    status, _, said = show(capsys, file, "-t", "cuda:80", *arguments)
    assert status == (1 if "power of 2" in message else 2) and message in said and "Traceback" not in said


def test_a_file_that_is_not_there(capsys):
    assert show(capsys, "nowhere.ttir", "-t", "cuda:80")[2].startswith("tritium show: ")


# -- occupancy ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("arch", "registers", "shared", "warps", "programs", "limiter"), [
    (90, 32, 0, 4, 16, "warps"),
    (90, 168, 114688, 12, 1, "registers"),
    (90, 40, 232448, 4, 1, "shared memory"),
    (90, 40, 232449, 4, 0, "shared memory"),
    (80, 255, 0, 8, 1, "registers"),
    (86, 32, 49152, 4, 2, "shared memory"),
    (75, 16, 0, 1, 16, "programs"),
    (89, 24, 0, 32, 1, "warps"),
])  # fmt: skip
def test_occupancy_on_nvidia(arch, registers, shared, warps, programs, limiter):
    """As the vendor's calculator has it."""
    found = occupancy_of(registers, shared, warps, GPUTarget("cuda", arch, 32))
    assert (found.programs, found.limiter) == (programs, limiter)
    assert found.warps == programs * warps <= machine(GPUTarget("cuda", arch, 32)).warps


def test_occupancy_on_amd_counts_both_register_files():
    """512 registers for each lane: a kernel with 128 has four waves on each of four SIMDs."""
    found = occupancy_of(128, 0, 4, GPUTarget("hip", "gfx942", 64))
    assert found.limits["registers"] == 4 and found.share == 0.5
    assert occupancy_of(512, 0, 4, GPUTarget("hip", "gfx90a", 64)).programs == 1


def test_unknown_machines_are_named():
    with pytest.raises(ValueError, match=r"the occupancy of cpu:host:1 is not known\nhint: it is for cuda:70"):
        machine(GPUTarget("cpu", "host", 1))
    assert all(MACHINES.values())
