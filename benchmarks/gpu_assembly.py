"""How long the ways from PTX to machine code take on an NVIDIA GPU's host.

    python benchmarks/gpu_assembly.py [--rounds 9] [--json out.json]

tritium asks the driver's linker. Beside it: the same with less effort, with another linker open meanwhile (so that the
driver keeps its compiler loaded), the driver's loader of modules, `ptxas` in a process of its own, and nvJitLink where
it is installed. The ways take turns in random order; figures are medians in milliseconds of wall-clock time.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import random
import re
import statistics
import sys
import time
from pathlib import Path

os.environ["CUDA_CACHE_DISABLE"] = "1"  # the driver would remember the texts
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

ARCH = "sm_90a"
EMPTY = f".version 8.0\n.target {ARCH}\n.address_size 64\n.visible .entry nothing() {{ ret; }}\n"
LEVEL, PTX = 7, 1  # CU_JIT_OPTIMIZATION_LEVEL, CU_JIT_INPUT_PTX


def texts():
    """Name -> PTX of the kernels whose compilation `gpu_compile.py` times, and of attention."""
    import gpu_load
    import torch

    import tritium

    k = gpu_load.kernels(tritium)
    x = torch.empty(1 << 20, device="cuda")
    a, q = (torch.empty(1024, 1024, device="cuda", dtype=torch.float16) for _ in range(2))
    blocks = {"BLOCK_M": 128, "BLOCK_N": 128}
    made = {
        "add": k.add_kernel.warmup(x, x, x, 1 << 20, BLOCK=1024, grid=(1,)),
        "softmax": k.softmax_kernel.warmup(x, x, 1024, 1024, BLOCK=1024, grid=(1,)),
        "matmul": k.matmul_kernel.warmup(a, a, a, 1024, 1024, 1024, 1024, 1, 1024, 1, 1024, 1, **blocks, BLOCK_K=64,
                                         GROUP_M=8, num_warps=8, num_stages=3, grid=(1,)),
        "attention": k.attention_kernel.warmup(q, q, q, q, 1.0, 1024, **blocks, D=128, num_warps=8, grid=(1,)),
    }  # fmt: skip
    return {name: kernel.asm["ptx"] for name, kernel in made.items()}


def linker(text, level=None, parts=None):
    """Machine code by the driver's linker; notes in `parts` what its calls took."""
    from tritium.backends.nvptx import cuda

    state, binary, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
    options, values = (ctypes.c_int * 1)(LEVEL), (ctypes.c_void_p * 1)(level)
    data = text.encode() + b"\0"

    def call(name, *args):
        start = time.perf_counter()
        cuda.call(name, *args)
        if parts is not None:
            parts.setdefault(name, []).append((time.perf_counter() - start) * 1e3)

    call("cuLinkCreate_v2", int(level is not None), options, values, ctypes.byref(state))
    call("cuLinkAddData_v2", state, PTX, data, ctypes.c_size_t(len(data)), b"kernel", 0, None, None)
    call("cuLinkComplete", state, ctypes.byref(binary), ctypes.byref(size))
    call("cuLinkDestroy", state)


@contextlib.contextmanager
def another_linker():
    """The driver has another linker open meanwhile."""
    from tritium.backends.nvptx import cuda

    state, data = ctypes.c_void_p(), EMPTY.encode() + b"\0"
    cuda.call("cuLinkCreate_v2", 0, None, None, ctypes.byref(state))
    cuda.call("cuLinkAddData_v2", state, PTX, data, ctypes.c_size_t(len(data)), b"nothing", 0, None, None)
    try:
        yield
    finally:
        cuda.call("cuLinkDestroy", state)


def module(text):
    """The driver compiles a module as it loads it, and keeps the machine code to itself."""
    from tritium.backends.nvptx import cuda

    loaded = ctypes.c_void_p()
    cuda.call("cuModuleLoadData", ctypes.byref(loaded), text.encode() + b"\0")
    cuda.call("cuModuleUnload", loaded)


def ptxas(text, *options):
    from tritium.backends.nvptx import assemble

    assemble.assemble(text, ARCH, options)


def nvjitlink(text):
    from cuda.bindings import nvjitlink as jit

    options = [f"-arch={ARCH}", "-lineinfo", "-no-cache"]
    handle = jit.create(len(options), options)
    data = text.encode() + b"\0"
    jit.add_data(handle, jit.InputType.PTX, data, len(data), "kernel")
    jit.complete(handle)
    binary = bytearray(jit.get_linked_cubin_size(handle))
    jit.get_linked_cubin(handle, binary)
    jit.destroy(handle)


def own_count(text):
    """What the driver's compiler says it took; nothing if it does not say."""
    from tritium.backends.nvptx import link

    said = re.search(r"Compile time = ([\d.]+) ms", link.link(text)[1])
    return float(said[1]) if said else float("nan")


def compiler_is_loaded():
    """Whether the driver's compiler is in this process's memory now."""
    return "ptxjitcompiler" in Path("/proc/self/maps").read_text()


WAYS = {
    "linker": linker,
    **{f"linker, level {level}": (lambda text, level=level: linker(text, level)) for level in range(4)},
    "module": module,
    "ptxas": ptxas,
    "ptxas -O1": lambda text: ptxas(text, "-O1"),
    "nvJitLink": nvjitlink,
}


def timed(way, text):
    """Milliseconds."""
    start = time.perf_counter()
    way(text)
    return (time.perf_counter() - start) * 1e3


def possible(name, way):
    """Whether a way is open on this machine."""
    try:
        way(EMPTY)
    except Exception as error:  # a library that is not there, or one that does not know the GPU
        print(f"left out: {name}: {error}", file=sys.stderr)
        return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", help="write the figures to this file")
    options = parser.parse_args()
    kernels, figures, parts = texts(), {}, {}
    print(f"the driver's compiler stays loaded: {'yes' if compiler_is_loaded() else 'no'}\n")
    ways = {name: way for name, way in WAYS.items() if possible(name, way)}
    for _ in range(options.rounds):
        for name, way in random.sample([*ways.items()], len(ways)):
            for kernel, text in kernels.items():
                figures.setdefault((name, kernel), []).append(timed(way, text))
        for kernel, text in kernels.items():
            linker(text, parts=parts.setdefault(kernel, {}))
            parts[kernel].setdefault("by its own count", []).append(own_count(text))
        with another_linker():
            for kernel, text in kernels.items():
                figures.setdefault(("linker beside another", kernel), []).append(timed(linker, text))
    rows = {name: {kernel: statistics.median(figures[name, kernel]) for kernel in kernels}
            for name in [*ways, "linker beside another"]}  # fmt: skip
    rows |= {f"of the linker, {call}": {kernel: statistics.median(parts[kernel][call]) for kernel in kernels}
             for call in parts["add"]}  # fmt: skip
    print("| ms | " + " | ".join(kernels) + " |")
    print("|---" * (len(kernels) + 1) + "|")
    for name, row in rows.items():
        print(f"| {name} | " + " | ".join(f"{ms:.1f}" for ms in row.values()) + " |")
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
