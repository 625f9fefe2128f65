"""Occupancy and `python -m tritium occupancy`, with no GPU and no driver (S13)."""

import re
from types import SimpleNamespace

import pytest
from llvmlite import binding as llvm

from tritium.__main__ import main
from tritium.backends.compiler import GPUTarget
from tritium.backends.llvm.target import cpu_target
from tritium.backends.occupancy import MACHINES, machine, occupancy, occupancy_of
from tritium.kernels import softmax

NAMES = [f"sm_{arch}" if isinstance(arch, int) else arch for rows in MACHINES.values() for arch in rows]


def target(name):
    if name.startswith("sm_"):
        return GPUTarget("cuda", int(name[3:]), 32)
    return GPUTarget("hip", name, 64 if name.startswith("gfx9") else 32)


@pytest.mark.parametrize(("name", "registers", "shared", "warps", "programs", "limiter"), [
    # NVIDIA's occupancy calculator
    ("sm_75", 16, 0, 1, 16, "programs"),
    ("sm_75", 64, 65536, 4, 1, "shared memory"),
    ("sm_80", 255, 0, 8, 1, "registers"),
    ("sm_80", 32, 166912, 4, 1, "shared memory"),
    ("sm_86", 32, 49152, 4, 2, "shared memory"),
    ("sm_87", 40, 0, 1, 16, "programs"),
    ("sm_89", 24, 0, 32, 1, "warps"),
    ("sm_89", 24, 0, 1, 24, "programs"),
    ("sm_90", 32, 0, 4, 16, "warps"),
    ("sm_90", 168, 114688, 12, 1, "registers"),
    ("sm_90", 40, 232448, 4, 1, "shared memory"),
    ("sm_90", 40, 232449, 4, 0, "shared memory"),
    ("sm_100", 64, 49152, 8, 4, "registers"),
    ("sm_103", 32, 232448, 4, 1, "shared memory"),
    ("sm_120", 32, 101376, 4, 1, "shared memory"),
    ("sm_121", 40, 0, 4, 12, "warps"),
    # LLVM's user guide and the instruction set manuals of AMD
    ("gfx908", 24, 0, 4, 10, "warps"),
    ("gfx908", 128, 0, 4, 2, "registers"),
    ("gfx90a", 128, 0, 4, 4, "registers"),
    ("gfx90a", 512, 0, 4, 1, "registers"),
    ("gfx942", 32, 65536, 8, 1, "shared memory"),
    ("gfx942", 32, 65537, 8, 0, "shared memory"),
    ("gfx942", 32, 0, 1, 32, "warps"),
    ("gfx942", 32, 0, 2, 16, "warps"),
    ("gfx950", 32, 65536, 4, 2, "shared memory"),
    ("gfx950", 32, 163840, 4, 1, "shared memory"),
    ("gfx1030", 32, 0, 1, 64, "warps"),
    ("gfx1030", 32, 0, 2, 32, "warps"),
    ("gfx1100", 96, 0, 4, 16, "warps"),
    ("gfx1100", 97, 0, 4, 12, "registers"),
    ("gfx1100", 32, 65536, 4, 2, "shared memory"),
    ("gfx1102", 97, 0, 4, 9, "registers"),
    ("gfx1201", 256, 0, 8, 2, "registers"),
])  # fmt: skip
def test_golden_values(name, registers, shared, warps, programs, limiter):
    found = occupancy_of(registers, shared, warps, target(name))
    assert (found.programs, found.limiter) == (programs, limiter)
    assert found.warps == programs * warps <= machine(target(name)).warps


@pytest.mark.parametrize(("scalars", "programs"), [(80, 10), (81, 8), (96, 8), (102, 7)])
def test_scalar_registers_of_amd(scalars, programs):
    """800 for the warps of a SIMD, by sixteen; of RDNA every warp has its own."""
    assert occupancy_of(24, 0, 4, target("gfx908"), scalars).programs == programs
    assert "scalar registers" not in occupancy_of(24, 0, 4, target("gfx1100"), scalars).limits


NEEDS = ((1, 0), (40, 0), (65, 0), (97, 0), (129, 0), (250, 0), (1, 8192), (1, 16384), (1, 65536))


def said_by_llvm(name, warp_size):
    """Warps on each SIMD, for programs of four warps with each of the NEEDS: `; Occupancy:` in LLVM's assembly."""
    made = llvm.Target.from_triple("amdgcn-amd-amdhsa").create_target_machine(cpu=name)
    made.set_asm_verbosity(True)
    text = f'attributes #0 = {{ "amdgpu-flat-work-group-size"="{4 * warp_size},{4 * warp_size}" }}\n'
    for k, (registers, lds) in enumerate(NEEDS):
        touch = f"store volatile i8 0, ptr addrspace(3) @lds{k}\n" if lds else ""
        text += (f"@lds{k} = internal addrspace(3) global [{lds} x i8] undef\ndefine amdgpu_kernel void @k{k}() #0 {{\n"
                 f'{touch}call void asm sideeffect "", "~{{v{registers - 1}}}"()\nret void\n}}\n')
    said = made.emit_assembly(llvm.parse_assembly(f'target triple = "amdgcn-amd-amdhsa"\n{text}'))
    return list(map(int, re.findall(r"; Occupancy: (\d+)", said)))


@pytest.mark.parametrize("name", ["gfx908", "gfx90a", "gfx942", "gfx950", "gfx1010", "gfx1030", "gfx1100", "gfx1102",
                                  "gfx1151", "gfx1201"])  # fmt: skip
def test_llvm_says_the_same_of_amd(name):
    cpu_target()  # has LLVM begun
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    found = [occupancy_of(registers, lds, 4, target(name)).programs for registers, lds in NEEDS]
    assert found == said_by_llvm(name, target(name).warp_size)


def test_unknown_machines_are_named():
    with pytest.raises(ValueError, match=r"the occupancy of cpu:host:1 is not known\nhint: it is for cuda:70"):
        machine(GPUTarget("cpu", "host", 1))
    assert all(MACHINES.values())


def kernel(name, n_regs, shared=0, num_warps=8, **more):
    metadata = SimpleNamespace(num_warps=num_warps, shared=shared, target=target(name), **more)
    return SimpleNamespace(metadata=metadata, n_regs=n_regs, name="k", _init_handles=lambda: None)


def test_the_persistent_softmax_sizes_its_grid_by_it():
    """On every target, in full waves of the processors there are."""
    for made in (kernel(name, 40, 8192) for name in NAMES):
        assert softmax.resident_programs(made, 100) == 100 * occupancy(made).programs > 0
    assert softmax.resident_programs(None, 100) == 100


def test_figures_of_a_kernel_count_producers_and_scalars():
    assert occupancy(kernel("sm_90", 64, num_warps=4, producer_warps=4)).programs == 4
    assert occupancy(kernel("gfx942", 24, num_warps=4, n_sgprs=102)).limiter == "scalar registers"


# -- the command -------------------------------------------------------------------------------------------------------


def test_command(capsys):
    assert main(["occupancy", "-t", "hip:gfx942", "--registers", "128", "--shared", "8192"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("4 programs of 4 warps on each processor, 16 of 32 warps (50%); limited by registers\n")
    assert "one program more   needs 96 registers or fewer" in out
    assert main(["occupancy", "-t", "cuda:90", "--registers", "32", "-w", "4"]) == 0
    assert "one program more" not in capsys.readouterr().out
    assert main(["occupancy", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == NAMES


@pytest.mark.parametrize(("arguments", "why"), [
    ([], "name a file with a kernel, or say what a program needs"),
    (["-t", "hip:gfx942", "--registers", "600"], "a thread of hip:gfx942:64 has at most 512 registers, not 600"),
    (["-t", "hip:gfx942", "--registers", "8", "-w", "-1"], "--num-warps must be at least 1, not -1"),
    (["--registers", "8"], "this machine has no GPU: name one, as in --target sm_90 or --target H100"),
    (["-t", "cpu", "--registers", "8"], "the occupancy of cpu:host:1 is not known"),
    (["k.py", "--registers", "8"], "--registers cannot be given with a kernel"),
])
def test_mistakes(capsys, monkeypatch, arguments, why):
    monkeypatch.setenv("TRITIUM_BACKEND", "cpu")
    assert main(["occupancy", *arguments]) == 2
    assert why in capsys.readouterr().err


def test_a_kernel_by_its_own_figures(capsys, tmp_path):
    file = tmp_path / "k_of_occupancy.py"
    file.write_text("import triton, triton.language as tl\n@triton.jit\ndef k(x):\n    tl.store(x, 1.0)\n")
    status = main(["occupancy", str(file), "-n", "k", "-s", "*fp32", "-t", "cuda:80", "-w", "4"])
    out, err = capsys.readouterr()
    if status:  # without an assembler nobody knows the registers
        assert "the registers of k are not known" in err
    else:
        assert out.startswith("k for cuda:80:32\n16 programs of 4 warps") and "limited by warps" in out
