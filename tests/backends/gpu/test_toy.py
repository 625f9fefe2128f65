"""A second GPU target: kernels compile through the shared stages, LLVM verifies them, and emulated they agree with the
interpreter. Its warps have 64 lanes, and it has nothing that only NVIDIA's GPUs have."""

from pathlib import Path

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.test_modules import BATTERY, borrowed, checking
from tests.backends.gpu.toy import collection, machine
from tests.backends.gpu.toy.target import TOY
from tests.exec import test_exec
from tritium import backends, kernels, ops
from tritium.backends.gpu.lower import LOWER
from tritium.backends.nvptx.isa.target import LOWER as NVIDIA
from tritium.compiler import ASTSource
from tritium.errors import CompilationError
from tritium.ir.text import parse_module


@pytest.fixture(autouse=True)
def toy_is_installed(monkeypatch):
    monkeypatch.setitem(backends.FOLDERS, "toy", "tests.backends.gpu.toy")


# --- tile IR ----------------------------------------------------------------------------------------------------------
@pytest.fixture(autouse=True)
def on_the_toy(monkeypatch):
    for part in BATTERY:
        monkeypatch.setattr(part, "check", checking(machine.run))


globals().update(borrowed())


@pytest.mark.parametrize("run", test_exec.CASES, ids=str)
def test_text_kernels(run):
    module = parse_module(run.kernel)
    args, outputs = test_exec.arguments(run, module)
    machine.run(module, args, run.grid, num_warps=2)
    for at, wanted in zip(outputs, run.expected, strict=True):
        pointee = module.args[at].type.pointee
        expected = test_exec.array(pointee, wanted, run.bits)
        test_exec.compare(args[at], expected, run, pointee, test_exec.signless(wanted))


# --- the collection ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", collection.CASES)
def test_collection(name):
    """Every kernel compiles and, emulated, gives what the reference does."""
    collection.check(name, machine.run, machine.compiled)


def test_the_whole_collection_is_covered():
    files = {path.stem for path in Path(kernels.__file__).parent.glob("*.py")}
    files -= {"__init__", "arrays", "checks", "registry"}
    assert files == {name.split(",")[0] for name in collection.CASES}


# --- the seam ---------------------------------------------------------------------------------------------------------
@triton.jit
def doubled(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + i) * 2)


def test_compile_as_users_do(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITIUM_CACHE_DIR", str(tmp_path))
    source = ASTSource(doubled, {"x": "*fp32", "y": "*fp32", "N": "constexpr"}, {"N": 128})
    made = triton.compile(source, target=machine.TARGET)
    assert "define spir_kernel void @doubled" in made.asm["llir"] and '"toy.threads"="256"' in made.asm["llir"]


@triton.jit
def summed(x, y, N: tl.constexpr):
    tl.store(y, tl.sum(tl.load(x + tl.arange(0, N)), 0))


def test_warps_have_64_lanes():
    """A warp sums its elements by six shuffles; those of 32 lanes need five."""
    module, args = module_of(summed, [np.arange(64, dtype=np.float32), np.zeros(1, np.float32), 64])
    text, metadata = machine.compiled(module, num_warps=1)
    assert text.count("call i32 @toy.shuffle.xor") == 6 and not metadata["shared"]
    machine.run(module, args, num_warps=1)
    assert args[1][0] == 64 * 63 / 2


@triton.jit
def assembled(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [tl.load(x + i)], tl.int32, True, 1))


def test_tables_of_lowerings_are_separate():
    """What the NVIDIA backend adds is its own."""
    assert ops.inline_asm in NVIDIA and ops.inline_asm not in TOY.lower
    with pytest.raises(TypeError):
        LOWER[ops.inline_asm] = NVIDIA[ops.inline_asm]
    module, _ = module_of(assembled, [np.zeros(64, np.int32), np.zeros(64, np.int32), 64])
    with pytest.raises(CompilationError, match="inline_asm has no lowering for toy"):
        machine.compiled(module)
