"""How long the ways from PTX to machine code take on an NVIDIA GPU's host.

    python benchmarks/gpu_assembly.py [--rounds 9] [--json out.json]

tritium asks the driver's linker. Beside it: the same with less effort, the same with another linker open meanwhile (so
that the driver keeps its compiler loaded), the driver's loader of modules, `ptxas` in a process of its own, and
nvJitLink where it is installed. The ways take turns in random order; figures are medians in milliseconds.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import functools
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

from tritium.backends.nvptx.assemble import driver_link, ptxas  # noqa: E402
from tritium.backends.nvptx.runtime import cuda  # noqa: E402

ARCH = "sm_90a"
EMPTY = f".version 8.0\n.target {ARCH}\n.address_size 64\n.visible .entry nothing() {{ ret; }}\n"
LEVEL, LINES, PTX = 7, 13, 1  # CU_JIT_OPTIMIZATION_LEVEL, CU_JIT_GENERATE_LINE_INFO, CU_JIT_INPUT_PTX


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


@contextlib.contextmanager
def linker(text, level=4, call=cuda.call):
    """A linker of the driver that was given a text; 4 is the driver's own level."""
    options, values = (ctypes.c_int * 2)(LEVEL, LINES), (ctypes.c_void_p * 2)(level, ptxas.has_lines(text))
    state, data = ctypes.c_void_p(), text.encode() + b"\0"
    call("cuLinkCreate_v2", 2, options, values, ctypes.byref(state))
    try:
        call("cuLinkAddData_v2", state, PTX, data, ctypes.c_size_t(len(data)), b"kernel", 0, None, None)
        yield state
    finally:
        call("cuLinkDestroy", state)


def linked(text, **options):
    """As tritium links, but for options; without what the compiler has to say."""
    with linker(text, **options) as state:
        options.get("call", cuda.call)("cuLinkComplete", state, ctypes.byref(ctypes.c_void_p()),
                                       ctypes.byref(ctypes.c_size_t()))  # fmt: skip


def beside_another(text):
    with linker(EMPTY):
        return timed(driver_link.link, text)


def calls_of_the_linker(text):
    """What each call of the driver took, and what its compiler says itself, if it does."""
    took = {}

    def call(name, *args):
        took[f"of the linker, {name}"] = timed(cuda.call, name, *args)

    linked(text, call=call)
    said = re.search(r"Compile time = ([\d.]+) ms", driver_link.link(text)[1])
    return took | {"of the linker, by its own count": float(said[1]) if said else float("nan")}


def module(text):
    """The driver compiles a module as it loads it, and keeps the machine code to itself."""
    loaded = ctypes.c_void_p()
    cuda.call("cuModuleLoadData", ctypes.byref(loaded), text.encode() + b"\0")
    cuda.call("cuModuleUnload", loaded)


def by_ptxas(text, *options):
    ptxas.assemble(text, ARCH, options)


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


def compiler_is_loaded():
    """Whether the driver's compiler is in this process's memory now."""
    return "ptxjitcompiler" in Path("/proc/self/maps").read_text()


WAYS = {
    "linker": driver_link.link,
    **{f"linker, level {level}": functools.partial(linked, level=level) for level in range(5)},
    "module": module,
}
INSTALLED = {"ptxas": by_ptxas, "ptxas -O1": lambda text: by_ptxas(text, "-O1"), "nvJitLink": nvjitlink}  # or not


def timed(work, *args):
    """Milliseconds of a call."""
    start = time.perf_counter()
    work(*args)
    return (time.perf_counter() - start) * 1e3


def is_installed(name):
    """Whether a way that does not come with the driver can be tried."""
    try:
        INSTALLED[name](EMPTY)
    except Exception as error:  # each of them has its own way to say that it is not there, or too old for the GPU
        print(f"left out: {name}: {error}", file=sys.stderr)
        return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", help="write the figures to this file")
    options = parser.parse_args()
    kernels, figures = texts(), {}
    print(f"the driver's compiler stays loaded: {'yes' if compiler_is_loaded() else 'no'}\n")
    ways = {name: functools.partial(timed, way) for name, way in WAYS.items()}
    ways |= {name: functools.partial(timed, way) for name, way in INSTALLED.items() if is_installed(name)}
    ways |= {"linker beside another": beside_another, "of the linker": calls_of_the_linker}
    for _ in range(options.rounds):
        for name, way in random.sample([*ways.items()], len(ways)):
            for kernel, text in kernels.items():
                took = way(text)
                for row, ms in (took if isinstance(took, dict) else {name: took}).items():
                    figures.setdefault(row, {}).setdefault(kernel, []).append(ms)
    rows = {row: {kernel: statistics.median(times) for kernel, times in by_kernel.items()}
            for row, by_kernel in sorted(figures.items())}  # fmt: skip
    print("| ms | " + " | ".join(kernels) + " |")
    print("|---" * (len(kernels) + 1) + "|")
    for row, by_kernel in rows.items():
        print(f"| {row} | " + " | ".join(f"{ms:.1f}" for ms in by_kernel.values()) + " |")
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
