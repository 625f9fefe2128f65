"""How long the driver of an NVIDIA GPU takes to start a kernel, by every entry that it has: the floor of all launchers.

    python benchmarks/driver_calls.py [--rounds 41] [--json out.json]

An empty kernel of one block is started 200 times in a row by machine code, with an empty queue at first, so that only
the host's part is timed, and nothing of Python. The ways take turns in random order; figures are the best of all rounds
and their median, in microseconds of one call. The last column is what a call takes between lines of Python, as programs
make it: Python's own time, that of a call of nothing, is taken off. At the end stand the calls about contexts that a
launcher may make besides.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tritium.backends.llvm.jit import load
from tritium.backends.llvm.target import compile_text, cpu_target
from tritium.backends.nvptx.runtime import cuda
from tritium.backends.nvptx.runtime.launcher import CONFIG

CALLS = 200  # fewer than the driver queues before it makes the host wait
POINTER, END, SIZE = 1, 0, 2  # CU_LAUNCH_PARAM_...
CLUSTER, SERIALIZATION = 4, 6  # CU_LAUNCH_ATTRIBUTE_...
EMPTY = "a call of nothing"
NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING

LOOP = """
define i32 @{name}(ptr %call, i64 %count{parameters}) {{
entry:
  br label %body
body:
  %k = phi i64 [0, %entry], [%next, %body]
  %worst = phi i32 [0, %entry], [%now, %body]
  %code = call i32 %call({arguments})
  %now = or i32 %worst, %code
  %next = add i64 %k, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %body, label %done
done:
  ret i32 %now
}}
"""
SHAPE = "i32 1, i32 1, i32 1, i32 32, i32 1, i32 1, i32 0"
NOTHING = "define i32 @nothing() { ret i32 0 }\n"
LOOPS = {  # name -> how many pointers a call takes, and its arguments
    "plain": (4, f"ptr %p0, {SHAPE}, ptr %p1, ptr %p2, ptr %p3"),
    "configured": (3, "ptr %p0, ptr %p1, ptr %p2, ptr null"),
    "one": (1, "ptr %p0"),
    "two": (2, "ptr %p0, ptr %p1"),
}


def loops() -> Callable:
    """`run(loop, entry, count, *pointers)`: call an entry of the driver so many times; the codes it gave, or'ed."""
    text = "".join(LOOP.format(name=name, arguments=arguments, parameters="".join(f", ptr %p{k}" for k in range(n)))
                   for name, (n, arguments) in LOOPS.items())  # fmt: skip
    library = load(compile_text(text + NOTHING, cpu_target()), exports=(*LOOPS, "nothing")).pin()
    pointer = ctypes.c_void_p
    found = {name: ctypes.CFUNCTYPE(ctypes.c_int, pointer, ctypes.c_uint64, *[pointer] * n)(library.address(name))
             for name, (n, _) in LOOPS.items()}  # fmt: skip
    nothing = library.address("nothing")
    return lambda loop, entry, count, *pointers: found[loop](nothing if entry is None else entry, count, *pointers)


def kernel_text(parameters: int) -> str:
    """PTX of a kernel that does nothing with its pointers."""
    listed = ", ".join(f".param .u64 p{k}" for k in range(parameters))
    return f".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry nothing({listed}) {{ ret; }}\n"


def function_of(parameters: int) -> ctypes.c_void_p:
    """A kernel as a CUfunction."""
    function, module = ctypes.c_void_p(), cuda.CUDA.load_module("nothing", kernel_text(parameters))
    cuda.call("cuModuleGetFunction", ctypes.byref(function), module, b"nothing")
    return function


def library_kernel(parameters: int) -> ctypes.c_void_p:
    """The same as a CUkernel, which belongs to no context."""
    library, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    cuda.call("cuLibraryLoadData", ctypes.byref(library), kernel_text(parameters).encode() + b"\0", None, None, 0, None,
              None, 0)  # fmt: skip
    cuda.call("cuLibraryGetKernel", ctypes.byref(kernel), library, b"nothing")
    return kernel


def attribute(kind: int, *words: int) -> bytes:
    """A CUlaunchAttribute."""
    return kind.to_bytes(4, "little") + bytes(4) + b"".join(w.to_bytes(4, "little") for w in words).ljust(64, b"\0")


class Arguments:
    """Arguments of a kernel of `count` pointers in both forms, and a configuration; they stay where they are."""

    def __init__(self, count: int, stream: int | None, *attributes: bytes):
        self.values = (ctypes.c_uint64 * max(1, count))()
        start = ctypes.addressof(self.values)
        self.each = (ctypes.c_void_p * max(1, count))(*[start + 8 * k for k in range(count)])
        self.size = ctypes.c_size_t(8 * count)
        self.together = (ctypes.c_void_p * 5)(POINTER, start, SIZE, ctypes.addressof(self.size), END)
        self.attributes = ctypes.create_string_buffer(b"".join(attributes))
        at = ctypes.cast(self.attributes, ctypes.c_void_p)
        self.config = CONFIG.ctype(grid=(1, 1, 1), block=(32, 1, 1), stream=stream, attributes=at,
                                   count=len(attributes))  # fmt: skip


def graph_of(start: Callable[[int], object], stream: int) -> ctypes.c_void_p:
    """An executable graph of the launch that `start` makes on a stream."""
    graph, made = ctypes.c_void_p(), ctypes.c_void_p()
    cuda.call("cuStreamBeginCapture_v2", ctypes.c_void_p(stream), 1)
    start(1)
    cuda.call("cuStreamEndCapture", ctypes.c_void_p(stream), ctypes.byref(graph))
    cuda.call("cuGraphInstantiateWithFlags", ctypes.byref(made), graph, ctypes.c_uint64(0))
    return made


def ways() -> dict[str, Callable[[int], int]]:
    """By the name of a way to launch: a function that launches so many times, and returns the driver's error code."""
    run, made = loops(), ctypes.c_void_p()
    cuda.call("cuStreamCreate", ctypes.byref(made), NON_BLOCKING)
    stream = made.value or 0
    plain, configured = cuda.address("cuLaunchKernel"), cuda.address("cuLaunchKernelEx")
    functions = {n: function_of(n).value for n in (0, 4, 16)}
    found: dict[str, Callable[[int], int]] = {}

    def launch(name: str, function: int | None, arguments: Arguments, on: int | None, together: bool = False) -> None:
        def start(count: int) -> int:  # keeps `arguments`, which its arrays point into
            given = (None, arguments.together) if together else (arguments.each, None)
            return run("plain", plain, count, function, on, *given)

        found[name] = start

    def launch_with(name: str, function: int | None, arguments: Arguments) -> None:
        config = ctypes.addressof(arguments.config)
        found[name] = lambda count: run("configured", configured, count, config, function, arguments.each)

    for n, function in functions.items():
        launch(f"cuLaunchKernel, {n} parameters", function, Arguments(n, None), None)
    four = functions[4]
    launch("cuLaunchKernel, 4 parameters in one buffer", four, Arguments(4, None), None, together=True)
    launch("cuLaunchKernel, 4 parameters, a stream of its own", four, Arguments(4, stream), stream)
    launch("cuLaunchKernel, 4 parameters, the thread's stream", four, Arguments(4, 2), 2)
    launch("cuLaunchKernel, 4 parameters, a CUkernel", library_kernel(4).value, Arguments(4, None), None)
    launch_with("cuLaunchKernelEx, no attribute", four, Arguments(4, None))
    launch_with("cuLaunchKernelEx, a cluster of one block", four, Arguments(4, None, attribute(CLUSTER, 1, 1, 1)))
    launch_with("cuLaunchKernelEx, programmatic serialization", four,
                Arguments(4, None, attribute(SERIALIZATION, 1)))  # fmt: skip
    executable = graph_of(found["cuLaunchKernel, 4 parameters, a stream of its own"], stream)
    found["cuGraphLaunch of one kernel"] = lambda count: run("two", cuda.address("cuGraphLaunch"), count,
                                                             executable, stream)  # fmt: skip
    current, context = ctypes.c_void_p(), cuda.context(0)
    get, put = cuda.address("cuCtxGetCurrent"), cuda.address("cuCtxSetCurrent")
    found["cuCtxGetCurrent"] = lambda count: run("one", get, count, ctypes.addressof(current))
    found["cuCtxSetCurrent"] = lambda count: run("one", put, count, context)
    found[EMPTY] = lambda count: run("one", None, count, None)
    return found


def once(call: Callable[[int], int]) -> float:
    """Microseconds of a call, of many that machine code makes in a row."""
    start = time.perf_counter()
    if code := call(CALLS):
        raise cuda.CudaError(f"a launch failed: {cuda.explain(code)}")
    return (time.perf_counter() - start) / CALLS * 1e6


def between(call: Callable[[int], int]) -> float:
    """Microseconds of a call, of many that Python makes."""
    start = time.perf_counter()
    for _ in range(CALLS):
        call(1)
    return (time.perf_counter() - start) / CALLS * 1e6


def measure(rounds: int) -> dict[str, tuple[list[float], list[float]]]:
    """By the name of a way to launch: the microseconds of one call, in a row and between lines of Python, a figure for
    each round."""
    found = ways()
    times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in found}
    for k in range(rounds + 1):
        for name in random.sample(list(found), len(found)):
            for way, noted in zip((once, between), times[name]):
                cuda.call("cuCtxSynchronize")
                took = way(found[name])
                if k:  # the first round warms up
                    noted.append(took)
    cuda.call("cuCtxSynchronize")
    return times


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--json", help="write the figures to this file")
    args = parser.parse_args()
    if not cuda.available():
        parser.error("there is no NVIDIA GPU here")
    cuda.use(0)
    times = measure(args.rounds)
    own = min(times.pop(EMPTY)[1])
    print(f"{'us of a call':55}   best  median  between Python's")
    for name, (took, apart) in times.items():
        print(f"{name:55} {min(took):6.2f}  {statistics.median(took):6.2f}  {min(apart) - own:6.2f}")
    if args.json:
        Path(args.json).write_text(json.dumps(times, indent=1))


if __name__ == "__main__":
    main()
