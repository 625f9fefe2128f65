"""The CPU runtime against what users would otherwise call: launches against torch.add, dot against torch.mm.

    python benchmarks/cpu_runtime.py

Machines are noisy: each figure is the best of many short runs, rivals measured in turn.
"""

import ctypes
import os
import subprocess
import sys
import tempfile
import time
import timeit

import numpy as np

from tritium.backends.cpu.library import dot
from tritium.backends.cpu.runtime.image import Runtime
from tritium.backends.launcher.record import constant, integer, ndarray, tensor
from tritium.backends.llvm.target import compile_text, cpu_target
from tritium.backends.llvm.writer import Writer

try:
    import torch
except ImportError:
    torch = None

SIZES = [(16, 16, 16), (32, 32, 32), (64, 64, 32), (64, 64, 64), (128, 128, 32), (16, 64, 64), (128, 128, 64),
         (64, 64, 128), (128, 256, 64)]  # fmt: skip
OPERANDS = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i8": np.int8}


def best(run, rounds=50):
    """The shortest of so many runs, in seconds."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def per_call(call, n=20000):
    """Microseconds of one call."""
    return min(timeit.repeat(call, number=n, repeat=7)) / n * 1e6


def launches(rt):
    """Microseconds of one launch of an empty kernel on three tensors, an int and a constant."""
    w = Writer()
    with w.function("void", "k", ["ptr args", "i64 begin", "i64 end", "ptr grid", "ptr arena"]):
        w.ret()
    library = rt.load(compile_text(w.text(), cpu_target()))
    entry, n = library.address("k"), 64

    def row(name, x, y, z, guard):
        guards = [guard(x), guard(y), guard(z), integer("INT32", True, not_one=True), constant(64)]
        names = ("x", "y", "z", "n")
        bind = rt.binder([None, rt.record(entry, 0, guards, library, keywords=("BLOCK",), names=names)])
        bound, function = bind((1,)), bind(lambda meta: (1,))
        print(f"  {name:32} {per_call(lambda: bound(x, y, z, n, BLOCK=64)):5.2f}"
              f"   grid function {per_call(lambda: function(x, y, z, n, BLOCK=64)):5.2f}")  # fmt: skip

    print("launch, us (an empty Python call included)")
    row("NumPy", *(np.zeros(64, np.float32) for _ in range(3)), lambda x: ndarray(x))
    if torch:
        x, y, z = (torch.zeros(64) for _ in range(3))
        row("torch", x, y, z, lambda t: tensor(t, True))
        row("torch, no other device", x, y, z, lambda t: tensor(t, True, on_cpu=False))
        print(f"  torch.add(x, y, out=z)           {per_call(lambda: torch.add(x, y, out=z)):5.2f}")
    print(f"  an empty Python call             {per_call(lambda: None):5.2f}")


def dots(rt):
    """G operations per second of tt.dot on contiguous operands, and of torch on one thread."""
    if torch:
        torch.set_num_threads(1)
    heading = "  ".join(f"{m}x{n}x{k}".rjust(10) for m, n, k in SIZES)
    print(f"\ndot, G operations/s, one thread\n  {'':10} {heading}")
    for kind, dtype in OPERANDS.items():
        repeat = _repeater(rt, kind)
        wide = np.int32 if kind == "i8" else dtype
        ours, theirs = [], []
        for m, n, k in SIZES:
            a, b, c = np.ones((m, k), dtype), np.ones((k, n), dtype), np.zeros((m, n), wide)
            panel = np.empty((k, dot.panel_width(rt.target, kind, m, n)), np.float64)
            pointers = [x.ctypes.data for x in (a, b, c, panel)]
            times = max(1, 4_000_000 // (m * n * k))
            seconds = best(lambda f=repeat, p=pointers, s=(m, n, k), t=times: f(*p, *s, t)) / times
            ours.append(2 * m * n * k / seconds / 1e9)
            if torch and kind in ("f32", "f64"):
                ta, tb, tc = map(torch.from_numpy, (a, b, c))
                run = lambda x=ta, y=tb, z=tc, t=times: [torch.mm(x, y, out=z) for _ in range(t)]
                theirs.append(2 * m * n * k / (best(run) / times) / 1e9)
        print(f"  {kind:10} " + "  ".join(f"{x:10.1f}" for x in ours))
        if theirs:
            print(f"  {'torch':10} " + "  ".join(f"{x:10.1f}" for x in theirs))


def _repeater(rt, kind):
    """A function that calls tt.dot so many times, so that no Python is timed."""
    w = Writer()
    parameters = ["ptr a", "ptr b", "ptr c", "ptr panel", "i64 m", "i64 n", "i64 k", "i64 times"]
    with w.function("void", "repeat", parameters) as values:
        a, b, c, panel, m, n, k, times = values
        with w.loop(0, times):
            w.call("void", dot.SYMBOLS[kind], a, b, c, m, n, k, k, n, n, panel, w.const("i1", False))
        w.ret()
    library = rt.load(compile_text(w.text(), cpu_target())).pin()
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, *[ctypes.c_int64] * 4)(library.address("repeat"))


def sharing(rt):
    """Seconds of a launch of 512 programs of about 30 us each on 1, 2, 4, ... threads."""
    w = Writer()
    with w.function("void", "work", ["ptr args", "i64 begin", "i64 end", "ptr grid", "ptr arena"]) as values:
        _, begin, end, _, arena = values
        with w.loop(begin, end), w.loop(0, 30000) as rounds:
            w.effect(f"store volatile i64 {rounds.index}, ptr {arena}")
        w.ret()
    library = rt.load(compile_text(w.text(), cpu_target()))
    entry, before = library.address("work"), rt.num_threads
    print("\n512 programs shared by threads, ms")
    threads = 1
    while threads <= before:
        rt.set_num_threads(threads)
        shared = best(lambda: rt.launch_raw(entry, 64, 512, 1, 1, b""), 10)
        print(f"  {threads:3} threads  {shared * 1e3:8.2f}")
        threads *= 2
    rt.set_num_threads(before)


START = """if True:
    import time, tritium.backends.cpu.runtime.image as runtime
    from tritium.backends.llvm import jit
    runtime.cpu_target()                            # imports llvmlite
    start = time.process_time(); jit._engine(); engine = time.process_time() - start
    start = time.process_time(); rt = runtime.Runtime.get(); core = time.process_time() - start
    start = time.process_time(); rt.symbols["tt.dot.f32"]; dot = time.process_time() - start
    print(f"engine {engine * 1e3:6.2f}   core {core * 1e3:6.2f}   tt.dot.f32 {dot * 1e3:6.2f}")
"""


def start():
    """Milliseconds of processor time to bring the runtime up with an empty and a full cache, llvmlite imported."""
    print("\nstart, ms of processor time")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("compiled", "from the cache", "from the cache"):
            env = {**os.environ, "TRITIUM_CACHE_DIR": folder}
            out = subprocess.run([sys.executable, "-c", START], env=env, capture_output=True, text=True, check=True)
            print(f"  {name:16} {out.stdout.strip()}")


def main():
    """Print every table."""
    rt = Runtime.get()
    t = rt.target
    print(f"{t.cpu} ({t.simd}), {rt.num_threads} threads, dot tile {t.dot_rows}x{t.dot_columns}\n")
    launches(rt)
    dots(rt)
    sharing(rt)
    start()


if __name__ == "__main__":
    main()
