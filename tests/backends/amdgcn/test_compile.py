"""Kernels compile for every AMD GPU: a sample (`everything.py` has all), options, errors, messages."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.amdgcn.compiled import TARGETS, assembly, compiled
from tests.backends.amdgcn.everything import (
    Made,
    calls_of_the_collection,
    fitting,
    kernels_of,
    of_names,
    of_the_collection,
)
from tests.backends.gpu.modules import module_of
from tests.exec import test_exec
from tests.language.coverage.page import GAPS
from tests.language.coverage.rows import all_rows
from tritium import backends
from tritium.backends.amdgcn import compile as stages
from tritium.backends.amdgcn import records
from tritium.backends.amdgcn.isa.architectures import ARCHITECTURES
from tritium.backends.amdgcn.isa.target import LOWER, AmdTarget, UnknownArchitecture
from tritium.backends.compiler import BaseBackend, GPUTarget
from tritium.backends.gpu.lower import LOWER as SHARED
from tritium.backends.llvm.target import compile_text
from tritium.compiler import ASTSource
from tritium.compiler.sources import with_options
from tritium.frontend import lower
from tritium.ir.text import parse_module
from tritium.ir.verify import verify
from tritium.kernels.vector_add import add_kernel

f32 = lambda n: np.zeros(n, np.float32)

# One kernel of each kind for some architecture: it is the kinds that differ.
SAMPLE = {"softmax": "gfx90a", "matmul, fp16": "gfx950", "attention, causal": "gfx942", "topk": "gfx1201",
          "histogram": "gfx1100", "compaction": "gfx942"}  # fmt: skip


@pytest.mark.parametrize(("name", "arch"), SAMPLE.items())
def test_kernels_of_the_collection(name, arch):
    for _, module, options in kernels_of([name])[name]:
        made, metadata = compiled(module, arch, **fitting(options, arch))
        assert made["hsaco"][:4] == b"\x7fELF" and metadata["shared"] <= AmdTarget.of(arch).shared_bytes
        assert metadata["n_regs"] > 0 and not metadata["n_spills"]


@pytest.mark.parametrize("k", range(len(TARGETS)))
def test_a_sample_of_everything(k):
    """Of the collection in all types and sizes, with every configuration of what is tuned, and of the names."""
    made = Made(TARGETS[k])
    of_the_collection(made, [*calls_of_the_collection()][23 * k :: 115])
    of_names(made, [row for row in all_rows()[k::97] if (row.name, TARGETS[k]) not in GAPS])
    assert not made.failed and made.counts["names"] >= 4 and made.counts.total() >= 6


def test_what_is_not_compiled_is_counted():
    made = Made("gfx942")
    of_names(made, [row for row in all_rows() if row.name in ("tl.float8e4b15", "tl.exp")])
    assert made.counts == {"names": 1}
    assert [(group, name) for group, name, _ in made.failed] == [("names", "tl.float8e4b15")]
    calls = [call for call in calls_of_the_collection() if call[1].startswith("matmul_tuned, float16")]
    of_the_collection(made, calls)
    assert made.counts["S23"] > 1, "every configuration is a kernel"


@pytest.mark.parametrize(("run", "arch"), [*zip(test_exec.CASES[::40], TARGETS * 100)], ids=str)
def test_text_kernels(run, arch):
    assert compiled(verify(parse_module(run.kernel)), arch)[0]["hsaco"]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_llvm_knows_every_architecture(arch):
    amd = AmdTarget.of(arch)
    assert compile_text("define amdgpu_kernel void @k() { ret void }", amd, opt=0)[:4] == b"\x7fELF"
    assert amd.warp_size == GPUTarget.parse(f"hip:{arch}").warp_size


@pytest.mark.parametrize("arch", ["gfx942:sramecc+:xnack-", "gfx1201"])
def test_names_of_architectures(arch):
    assert AmdTarget.of(arch).cpu == arch.partition(":")[0]


def test_unknown_architectures():
    with pytest.raises(UnknownArchitecture, match=r"gfx12345.*\n.*gfx942"):
        AmdTarget.of("gfx12345")
    with pytest.raises(UnknownArchitecture, match="warps of gfx942 have 64 threads, not 32"):
        backends.get("hip").passes(GPUTarget("hip", "gfx942", 32))


def test_every_op_has_a_lowering():
    """All that GPUs share: what is left is written by passes for hardware that AMD's GPUs do not have."""
    assert not [kind.name for kind in SHARED if kind not in LOWER]


# --- as users compile -------------------------------------------------------------------------------------------------
def test_compile_as_users_do(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITIUM_CACHE_DIR", str(tmp_path))
    types = {"x_ptr": "*fp32", "y_ptr": "*fp32", "z_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    source = ASTSource(add_kernel, types, {"BLOCK": 256})
    made = triton.compile(source, target=GPUTarget("hip", "gfx942", 64), options={"waves_per_eu": 2})
    assert "amdgpu_kernel void @add_kernel" in made.asm["llir"] and '"amdgpu-waves-per-eu"="2"' in made.asm["llir"]
    assert made.asm["hsaco"][:4] == b"\x7fELF" and "buffer_load_dword" in made.asm["amdgcn"]
    assert made.metadata.n_sgprs and made.metadata.argument_bytes == 28


def options_of(arch="gfx942", **given):
    return BaseBackend(GPUTarget.parse(f"hip:{arch}")).parse_options(given)


@pytest.mark.parametrize(("given", "match", "hint"), [
    ({"num_ctas": 2}, "num_ctas=2 needs clusters of blocks, which gfx942 does not have", "leave it out"),
    ({"maxnreg": 64}, "maxnreg=64 means nothing to gfx942", "waves_per_eu=n"),
    ({"num_warps": 32}, "2048 threads, and gfx942 has at most 1024", "num_warps=16 is the most"),
    ({"waves_per_eu": 99}, "waves_per_eu must be between 0 and 8", "0 leaves the choice"),
])  # fmt: skip
def test_options_no_amd_gpu_has(given, match, hint):
    with pytest.raises(ValueError, match=match) as caught:
        options_of(**given)
    assert hint in caught.value.hint


def test_options_that_mean_something():
    assert options_of("gfx1100", num_warps=32).num_warps == 32 and options_of().num_stages == 2
    module, _ = module_of(add_kernel, [f32(64), f32(64), f32(64), 64, 64])
    text = compiled(module, "gfx942", allow_flush_denorm=True)[0]["llir"]
    assert '"denormal-fp-math-f32"="preserve-sign,preserve-sign"' in text
    assert "denormal-fp-math" not in compiled(module, "gfx942")[0]["llir"]


@triton.jit
def busy(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.sort(tl.load(x + i)))


def test_waves_per_eu_limits_registers():
    """More warps on a SIMD leave each fewer registers."""
    module, _ = module_of(busy, [f32(2048), f32(2048), 2048])
    free, tight = (compiled(module, "gfx942", num_warps=1, waves_per_eu=n)[1]["n_regs"] for n in (1, 8))
    assert tight <= 64 < free


@triton.jit
def programs(x):
    tl.store(x + tl.program_id(2), tl.num_programs(1))


def test_kernels_are_given_only_what_they_use():
    """Registers for the numbers of programs, and implicit arguments, cost those who ask."""
    asked = compiled(module_of(programs, [np.zeros(8, np.int32)])[0], "gfx90a")
    plain = compiled(module_of(add_kernel, [f32(64), f32(64), f32(64), 64, 64])[0], "gfx90a")
    assert asked[1]["arguments"][2] == (12, 4, "hidden_block_count_y") and "hidden" not in str(plain[1]["arguments"])
    used = lambda made: set(re.findall(r'"amdgpu-no-(workgroup-id-\w|implicitarg-ptr)"', made[0]["llir"]))
    assert used(asked) == {"workgroup-id-x", "workgroup-id-y"}
    assert used(plain) == {"workgroup-id-y", "workgroup-id-z", "implicitarg-ptr"}


# --- messages ---------------------------------------------------------------------------------------------------------
@triton.jit
def talking(x, n, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.device_print("half", v)
    tl.device_print("count", n, hex=True)
    tl.device_assert(v < n, "too large")


def test_messages_are_described_in_the_metadata():
    options = options_of(debug=True)
    module = verify(lower(talking, {"x": "*fp16", "n": "i64", "N": "constexpr"}, {"N": 64}, {}, options))
    made, metadata = compiled(module, "gfx942", num_warps=1)
    kinds = [(site["kind"], site.get("type"), site.get("columns")) for site in metadata["messages"]]
    assert kinds == [("print", "f32", [2]), ("print", "i64", []), ("assert", None, None)]
    assert metadata["messages"] == records.sites_of(made["llir"])
    assert metadata["messages"][2]["line"] > 0 and metadata["messages"][2]["text"] == "too large"
    text = assembly(module, "gfx942", num_warps=1)
    assert "tritium_messages@rel32" in text and text.count("s_endpgm") > 1 and "s_trap" not in text


def test_records_are_read():
    prints = {"kind": "print", "text": " half: ", "columns": [2], "hex": False, "exponents": False, "type": "f32"}
    wide = {**prints, "text": " count: ", "columns": [], "hex": True, "type": "i64"}
    fails = {"kind": "assert", "text": "too large", "file": "k.py", "line": 3, "function": "k"}
    buffer = records.empty(32)
    words = [1, 0, 0, 0, 7, 0x3FC00000, 2, 1, 0, 0, 0xFFFFFFFF, 0x1, 3, 1, 2, 3]
    buffer[records.CLAIMED], buffer[records.HEADER : records.HEADER + len(words)] = len(words), words
    found = records.read(buffer, [prints, wide, fails])
    assert found.printed == "pid (0, 0, 0) idx ( 7) half: 1.500000\npid (1, 0, 0) idx () count: 0x00000001ffffffff\n"
    assert found.failed == ("k.py:3: k: program (1, 2, 3): too large",) and found.lost == 0


def test_records_without_room_are_counted():
    site = {"kind": "print", "text": " x", "columns": [], "hex": False, "exponents": False, "type": None}
    buffer = records.empty(4)
    buffer[records.CLAIMED], buffer[records.HEADER : records.HEADER + 4] = 12, [1, 5, 0, 0]
    assert records.read(buffer, [site]) == ("pid (5, 0, 0) x\n", (), 8)


def test_shared_memory_that_no_program_has():
    """It compiles, so that a tuner can look at it; it is the launch that is refused."""
    target, options = GPUTarget.parse("hip:gfx942"), options_of()
    module, metadata = module_of(busy, [f32(64), f32(64), 64])[0], {"name": "busy"}
    made = stages.ttgir(with_options(module, target, options), target, options, metadata)
    made = made.replace(attrs={**made.attrs, "shared_bytes": 100_000})
    assert stages.hsaco(stages.llir(made, target, options, metadata), target, options, metadata)
    assert (metadata["shared"], metadata["static_shared"], metadata["dynamic_shared"]) == (100_000, 0, 100_000)


STATES = """
import gpu_code, gpu_code_cases, tritium, tritium.language
from tritium.backends.compiler import GPUTarget
case = next(case for case in gpu_code_cases.CASES if "delta_state" in case.name)
options = {"num_warps": case.warps, "num_stages": case.stages}
made = tritium.compile(gpu_code.source(tritium, case), target=GPUTarget("hip", "gfx942", 64), options=options)
print(len(made.asm["hsaco"]) > 1000)
"""


def test_a_large_kernel_of_four_products_and_three_stores():
    """LLVM's NewGVN ended the process on it: an assertion of LLVM cannot be caught."""
    folder = Path(__file__).resolve().parents[3] / "benchmarks"
    done = subprocess.run([sys.executable, "-c", STATES], cwd=folder, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(folder.parent)])})
    assert done.stdout == "True\n", done.stderr
