"""The table of occupancy beside what vendors publish."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.backends.amdgcn.isa.target import AmdTarget
from tritium.backends.compiler import GPUTarget
from tritium.backends.driver import driver
from tritium.backends.nvptx.isa.target import NvTarget
from tritium.backends.nvptx.runtime.cuda import CUDA
from tritium.backends.occupancy import MACHINES, machine, occupancy, occupancy_of
from tritium.runtime import memory

# Compute capability -> (warps, programs, KiB of shared memory on an SM, KiB that a program may have).
# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; NVIDIA's CCCL 3 has the same figures in
# `libcudacxx/include/cuda/__device/arch_traits.h`.
NVIDIA = {
    75: (32, 16, 64, 64), 80: (64, 32, 164, 163), 86: (48, 16, 100, 99), 87: (48, 16, 164, 163), 88: (48, 16, 100, 99),
    89: (48, 24, 100, 99), 90: (64, 32, 228, 227), 100: (64, 32, 228, 227), 103: (64, 32, 228, 227),
    110: (48, 24, 228, 227), 120: (48, 24, 100, 99), 121: (48, 24, 100, 99),
}  # fmt: skip

# LLVM's name -> (lanes, KiB of LDS, of vector registers, of scalar registers, of the vector cache).
# ROCm documentation, "AMD GPU specifications" (rocm.docs.amd.com/en/latest/reference/gpu-specs.html). The figures are
# those of a compute unit, of RDNA those of a work-group processor, whose compute units have a cache each. gfx908 has as
# many accumulation registers besides.
AMD = {
    "gfx906": (64, 64, 256, 12.5, 16), "gfx908": (64, 64, 256, 12.5, 16), "gfx90a": (64, 64, 512, 12.5, 16),
    "gfx942": (64, 64, 512, 12.5, 32), "gfx950": (64, 160, 512, 12.5, 32), "gfx1012": (32, 128, 512, 20, 16),
    "gfx1030": (32, 128, 512, 32, 16), "gfx1031": (32, 128, 512, 32, 16), "gfx1032": (32, 128, 512, 32, 16),
    "gfx1100": (32, 128, 768, 32, 32), "gfx1101": (32, 128, 768, 32, 32), "gfx1102": (32, 128, 512, 32, 32),
    "gfx1200": (32, 128, 768, 32, 32), "gfx1201": (32, 128, 768, 32, 32),
}  # fmt: skip


@pytest.mark.parametrize("sm", NVIDIA)
def test_nvidia(sm):
    has = MACHINES["cuda"][sm]
    assert (has.warps, has.programs, has.shared // 1024, has.most_shared // 1024) == NVIDIA[sm]
    assert (has.registers, has.most_registers, has.warp_size) == (65536, 255, 32)
    assert NvTarget.of(sm).machine is has


@pytest.mark.parametrize("arch", AMD)
def test_amd(arch):
    has, (lanes, lds, vectors, scalars, cache) = MACHINES["hip"][arch], AMD[arch]
    assert (has.warp_size, has.shared, 4 * has.registers) == (lanes, 1024 * lds, 1024 * vectors)
    assert has.cache == 1024 * cache * (2 if lanes == 32 else 1)
    assert AmdTarget.of(arch).machine is has and has.shared_of(1) == has.most_shared
    assert has.thread_registers == (512 if arch == "gfx908" else has.most_registers)  # two files of 256
    assert 4 * 4 * has.scalars == (1024 * scalars if lanes == 64 else 0)  # every warp of RDNA has its own


# --- NVIDIA's own calculator: a header of the CUDA toolkit, in C ------------------------------------------------------
HEADER = next((path for path in Path("/usr/local").glob("cuda*/include/cuda_occupancy.h")), None)
PROGRAM = """
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <cuda_occupancy.h>
int main(void) {
  int sm, threads, registers, warps, shared_sm, shared_block, reserved, shared;
  while (scanf("%d %d %d %d %d %d %d %d", &sm, &threads, &shared_sm, &shared_block, &reserved, &registers, &shared,
               &warps) == 8) {
    cudaOccDeviceProp device = {0};
    cudaOccFuncAttributes function = {0};
    cudaOccDeviceState state = {0};
    cudaOccResult result = {0};
    state.carveoutConfig = SHAREDMEM_CARVEOUT_DEFAULT;
    device.computeMajor = sm / 10, device.computeMinor = sm % 10;
    device.maxThreadsPerBlock = 1024, device.maxThreadsPerMultiprocessor = threads;
    device.regsPerBlock = device.regsPerMultiprocessor = 65536, device.warpSize = 32, device.numSms = 1;
    device.sharedMemPerBlock = 49152, device.sharedMemPerMultiprocessor = shared_sm;
    device.sharedMemPerBlockOptin = shared_block, device.reservedSharedMemPerBlock = reserved;
    function.maxThreadsPerBlock = 1024, function.numRegs = registers;
    function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN, function.maxDynamicSharedSizeBytes = shared;
    int status = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state, 32 * warps, shared);
    printf("%d\\n", status ? -status : result.activeBlocksPerMultiprocessor);
  }
  return 0;
}
"""
REGISTERS, WARPS = (16, 40, 41, 64, 65, 96, 128, 168, 255), (1, 2, 3, 4, 8, 16)
SHARED = (0, 1, 129, 1000, 8192, 10880, 20000, 49152)


@pytest.mark.skipif(HEADER is None, reason="there is no cuda_occupancy.h: it comes with the CUDA toolkit")
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_nvidias_calculator_says_the_same(tmp_path):
    (tmp_path / "k.c").write_text(PROGRAM)
    subprocess.run(["cc", f"-I{HEADER.parent}", tmp_path / "k.c", "-o", tmp_path / "k", "-lm"], check=True)
    wanted = [(sm, registers, shared, warps) for sm in NVIDIA for registers in REGISTERS for shared in SHARED
              for warps in WARPS]  # fmt: skip
    lines = []
    for sm, *need in wanted:
        has = MACHINES["cuda"][sm]
        lines.append(" ".join(map(str, (sm, 32 * has.warps, has.shared, has.most_shared, has.reserved, *need))))
    said = subprocess.run([tmp_path / "k"], input="\n".join(lines), capture_output=True, text=True, check=True).stdout
    ours = [occupancy_of(registers, shared, warps, GPUTarget("cuda", sm, 32)).programs
            for sm, registers, shared, warps in wanted]  # fmt: skip
    rows = zip(wanted, ours, map(int, said.split()), strict=True)
    assert not [row for row in rows if row[1] != row[2]]


# --- the driver's own call --------------------------------------------------------------------------------------------
@triton.jit
def scaled(x, N: tl.constexpr):
    at = tl.arange(0, N)
    value = tl.load(x + at)
    tl.store(x + at, value * tl.sum(value, 0))


# (elements, warps, most registers): a thread of the first has 8 elements, of the last 128.
KERNELS = [(256, 1, None), (2048, 1, None), (4096, 1, None), (512, 2, None), (1024, 4, None), (8192, 4, None),
           (16384, 4, None), (16384, 4, 64), (4096, 8, None), (32768, 8, None), (32768, 8, 40), (2048, 16, None),
           (65536, 16, None)]  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("shared", [0, 5000, 16384, 40000, 60000, 116000, 220000])
@pytest.mark.parametrize(("size", "warps", "registers"), KERNELS)
def test_the_driver_says_the_same(size, warps, registers, shared):
    """Of kernels with so many warps, at least so much shared memory, and at most so many registers."""
    target = driver.active.get_current_target()
    if shared > machine(target).most_shared:
        pytest.skip(f"{target} has no {shared} bytes of shared memory for a program")
    limit = {} if registers is None else {"maxnreg": registers}
    kernel = scaled.warmup(memory.to_device(np.zeros(size, np.float32)), N=size, grid=(1,), num_warps=warps,
                           min_shared_mem=shared, **limit)
    kernel._init_handles()
    said = ctypes.c_int()
    CUDA.call("active_blocks", ctypes.byref(said), ctypes.c_void_p(kernel.function), 32 * warps,
              ctypes.c_size_t(kernel.metadata.shared))
    found = occupancy(kernel)
    assert found.programs == said.value, (kernel.n_regs, kernel.metadata.shared, found.limits)
