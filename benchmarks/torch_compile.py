"""torch.compile with tritium beside what it would otherwise use: Triton on an NVIDIA GPU, C++ on the CPU.

    python benchmarks/torch_compile.py [--device cuda] [--only "norm|adam"] [--jobs 16] [--json out.json] [--keep DIR]

Both sides compile the same graphs in processes of their own with empty caches, several processes at once (`--jobs`).
Results are compared with eager's in float64. Then nothing compiles any more, and the sides are timed in turns: a figure
is the least of several bursts of calls back to back, synchronised at the end, so it is the host's time where that is
more than the device's. Both sides call from one and the same processor: on another they may take half as long again. On
a GPU a second pair of columns shows the kernels' time alone, as torch's profiler sees it. Compile seconds are those of
the first call, in a process that has compiled before, without those in which it waited for the GPU. The last pair of
columns on a GPU shows how many of them are spent in `triton.compile`; the rest is Dynamo's, Inductor's and the tuner's,
alike on both sides. Ratios are the rival's time by tritium's: above 1, tritium is ahead. `--json` also lists the time
of every kernel; `--keep` keeps Inductor's caches.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
RIVAL = {"cpu": "C++", "cuda": "Triton"}
OURS = "tritium"
TURN = "TORCH_COMPILE_TURN"  # a file: who holds its lock may keep the GPU busy
SPENT = {"waiting": 0.0, "compiling": 0.0}  # seconds of a graph's first call: for the GPU, and in `triton.compile`


# --- one side, in a process of its own --------------------------------------------------------------------------------
class Side:
    """Compiles, checks and times graphs as the parent asks."""

    def __init__(self, side: str, device: str, threads: int):
        import torch
        import torch_compile_graphs as graphs
        import torch_compile_modes  # noqa: F401 - registers its graphs

        self.torch, self.graphs, self.device, self.ready = torch, graphs, device, {}
        torch.set_num_threads(threads)
        if side != RIVAL["cpu"]:
            import triton

            assert (OURS in triton.__name__) == (side == OURS), f"{side} would be {triton.__name__}"
        if device == "cpu":
            from torch._inductor import config

            config.cpu_backend = "triton" if side == OURS else "cpp"
        else:
            _tune_in_turn()
            triton.compile = _timed(triton.compile)

    def answer(self, request: dict) -> dict:
        """Do what is asked; an error is an answer too."""
        graph = self.graphs.GRAPHS.get(request["graph"])
        try:
            with contextlib.nullcontext() if graph and graph.train else self.torch.no_grad():
                return getattr(self, request["do"])(graph)
        except Exception as error:
            return {"error": f"{type(error).__name__}: {gist(str(error))}"}

    def warm(self, _):
        """Import all there is, and compile something."""
        x = self.torch.ones(64, device=self.device)
        self.torch.compile(lambda x: (x + 1).sum())(x).item()
        return {}

    def compile(self, graph):
        """The first call's seconds, and how far the results are from eager's in float64."""
        self.torch._dynamo.reset()
        with turn():
            expected = [self._kept(run()) for run in self._calls(graph, exact=True)]
        calls = self._calls(graph)
        SPENT.update(waiting=0.0, compiling=0.0)
        start = time.perf_counter()
        first = calls[0]()
        self._wait()
        seconds = time.perf_counter() - start - SPENT["waiting"]
        spent = {"compile": seconds, "kernels_compile": SPENT["compiling"]}
        found = [self._kept(first)]
        with turn():
            found += [self._kept(run()) for run in calls[1:]]
        self.ready[graph.name] = calls
        return {**spent, "wrong": self._wrong(found, expected, graph.tolerance)}

    def _calls(self, graph, exact=False):
        """What to call; with gradients if the graph trains. `exact`: in float64, not compiled."""
        function, *args = graph.make(self.graphs.Kit(self.device, exact))
        compiled = function if exact else self.torch.compile(function, **graph.options)
        return [self._call(compiled, a, graph.train) for a in (args if graph.many else [args])]

    def _call(self, function, args, train):
        grad, module = self.torch.autograd.grad, self.torch.nn.Module
        if not train:
            return lambda: function(*args)
        tensors = [t for a in args for t in (a.parameters() if isinstance(a, module) else [a])]
        wanted = [t for t in tensors if t.requires_grad]

        def both():
            loss = function(*args)
            return loss, *grad(loss, wanted)
        return both

    def _kept(self, result):
        return [x.detach().clone() for x in self.torch.utils._pytree.tree_leaves(result)]

    def _wrong(self, found, expected, tolerance):
        """What is wrong with the results; empty if nothing is."""
        for x, y in zip((x for f in found for x in f), (y for e in expected for y in e), strict=True):
            if x.shape != y.shape:
                return f"shape {tuple(x.shape)}, not {tuple(y.shape)}"
            if not y.is_floating_point():
                if not self.torch.equal(x, y):
                    return f"{(x != y).double().mean().item():.1%} of the integers differ"
                continue
            distance = ((x.double() - y).norm() / y.norm().clamp_min(1e-30)).item()
            if not distance <= tolerance:
                return f"off by {distance:.1e}"
        return ""

    def time(self, graph):
        """Milliseconds of one call, of a burst of a few hundredths of a second in a process that is awake."""
        calls = self.ready[graph.name]
        with self._on_one_processor():
            about = self._burst(calls, 0.01 / self._burst(calls, 2))
            return {"ms": self._burst(calls, 0.03 / about) * 1e3}

    @contextlib.contextmanager
    def _on_one_processor(self):
        """Call from the last processor, as the other side does, unless several threads compute."""
        several = self.device == "cpu" and self.torch.get_num_threads() > 1
        if several or not hasattr(os, "sched_setaffinity"):
            yield
            return
        every = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {max(every)})
        try:
            yield
        finally:
            os.sched_setaffinity(0, every)

    def profile(self, graph):
        """Milliseconds that the GPU's kernels take in one call, and the microseconds of each kernel."""
        from torch.profiler import ProfilerActivity, profile

        calls, times = self.ready[graph.name], 5
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            self._burst(calls, times * len(calls))
        kernels = {e.key: e.device_time_total / (times * len(calls)) for e in profiler.key_averages()
                   if e.device_time_total}  # fmt: skip
        return {"gpu": sum(kernels.values()) / 1e3, "kernels": kernels}

    def _burst(self, calls, times):
        """Seconds of one call."""
        rounds = max(1, min(2000, int(times)) // len(calls))
        self._wait()
        start = time.perf_counter()
        for _ in range(rounds):
            for run in calls:
                run()
        self._wait()
        return (time.perf_counter() - start) / (rounds * len(calls))

    def _wait(self):
        if self.device == "cuda":
            self.torch.cuda.synchronize()


@contextlib.contextmanager
def turn():
    """While this process has the GPU for itself."""
    if TURN not in os.environ:
        yield
        return
    import fcntl

    with open(os.environ[TURN], "a") as file:
        start = time.perf_counter()
        fcntl.flock(file, fcntl.LOCK_EX)
        SPENT["waiting"] += time.perf_counter() - start
        yield


def _timed(compile):
    """The function that compiles a kernel, its seconds counted."""
    def timed(*args, **kwargs):
        start = time.perf_counter()
        try:
            return compile(*args, **kwargs)
        finally:
            SPENT["compiling"] += time.perf_counter() - start
    return timed


def _tune_in_turn():
    """Have Inductor's tuner time a kernel only while no other process does: it would choose by chance."""
    from torch._inductor.runtime import benchmarking

    kind = type(benchmarking.benchmarker)
    measure = kind.benchmark_gpu

    def in_turn(self, *args, **kwargs):
        with turn():
            return measure(self, *args, **kwargs)
    kind.benchmark_gpu = in_turn


def gist(text: str) -> str:
    """The line of an error that says most."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"\w*(Error|Exception|error)\b.*:", line)]
    return (telling or lines or [""])[0][:160]


def serve(side: str, device: str, threads: int) -> None:
    """Answer the parent: a line of JSON each way. Whatever else is printed goes to stderr."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.path.insert(0, str(HERE))
    worker = Side(side, device, threads)
    for line in sys.stdin:
        print(json.dumps(worker.answer(json.loads(line))), file=out, flush=True)


# --- the parent -------------------------------------------------------------------------------------------------------
class Child:
    """The process of one side and of some graphs."""

    def __init__(self, side: str, args, folder: str):
        self.folder = tempfile.mkdtemp(dir=folder, prefix=side.lower().strip("+") + "-")
        run = ["-m", "tritium", "run", "--"] if side == OURS else []
        env = {k: v for k, v in os.environ.items() if k not in ("TRITIUM_CACHE_DIR", "TRITON_CACHE_DIR")}
        env |= {"TORCHINDUCTOR_CACHE_DIR": self.folder, "TORCHINDUCTOR_COMPILE_THREADS": str(args.compile_threads),
                "TRITIUM_NUM_THREADS": str(args.threads), TURN: os.path.join(folder, "turn")}  # fmt: skip
        if args.device == "cpu":
            del env[TURN]
        if side == OURS:
            env["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), *filter(None, [env.get("PYTHONPATH")])])
        command = [sys.executable, *run, __file__, "--serve", side, "--device", args.device]
        self.log = open(os.path.join(self.folder, "log"), "w+")
        self.process = subprocess.Popen([*command, "--threads", str(args.threads)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.log, env=env, text=True)  # fmt: skip

    def ask(self, do: str, graph: str = "", seconds: float = 240) -> dict:
        """The child's answer; an error if it dies or takes too long. `gone`: there is no child any more."""
        if self.process.poll() is not None:
            return {"error": "its process is gone", "gone": True}
        late = threading.Event()
        timer = threading.Timer(seconds, lambda: (late.set(), self.process.kill()))
        timer.start()
        try:
            self.process.stdin.write(json.dumps({"do": do, "graph": graph}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if line:
            return json.loads(line)
        self.log.seek(0)
        said = (self.log.read().strip().splitlines() or [""])[-1][:160]
        code = self.process.wait()
        return {"error": f"took more than {seconds:.0f} s" if late.is_set() else f"exit {code}: {said}", "gone": True}

    def end(self) -> None:
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()


def compiled(side: str, names: list[str], args, folder: str, found: dict) -> list[tuple[Child, list[str]]]:
    """Have some graphs compiled; children with what each can time. After a crash the rest goes to a new child."""
    made, left = [], list(names)
    while left:
        child, done = Child(side, args, folder), []
        made.append((child, done))
        failed = child.ask("warm", seconds=args.limit)
        while left:
            name = left.pop(0)
            answer = failed if "error" in failed else child.ask("compile", name, args.limit)
            found[name][side] = answer
            if "error" not in answer:
                done.append(name)
            elif answer.get("gone") and "error" not in failed:
                break
    return made


def time_in_turns(groups: list[list[tuple[Child, list[str]]]], sides, names, args, found) -> None:
    """Time graphs, one burst of each side in turn; an answer keeps its least."""
    whose = {(side, n): child for side, group in zip(sides, groups) for child, done in group for n in done}
    for name in names:
        for k in range(args.rounds):
            for side in sides[:: 1 if k % 2 else -1]:
                result = found[name][side]
                if (side, name) in whose and "error" not in result:
                    answer = whose[side, name].ask("time", name, 60)
                    result |= answer if "error" in answer else {"ms": min(answer["ms"], result.get("ms", math.inf))}
    if args.device == "cuda":  # last: launches are slower once a profiler has run
        for (side, name), child in whose.items():
            if "error" not in found[name][side]:
                found[name][side] |= child.ask("profile", name, 60)


def measure(names: list[str], args) -> dict:
    """The results of all graphs by name and side."""
    sides = RIVAL[args.device], OURS
    found = {name: {} for name in names}
    at_once = max(1, args.jobs // 2)
    count = math.ceil(len(names) / (args.chunk or min(10, max(4, math.ceil(len(names) / at_once)))))
    chunks = [names[k::count] for k in range(count)]
    place = contextlib.nullcontext(os.path.abspath(args.keep)) if args.keep else tempfile.TemporaryDirectory()
    with place as folder, ThreadPoolExecutor(args.jobs) as pool:
        os.makedirs(folder, exist_ok=True)
        for k in range(0, count, at_once):
            batch = chunks[k : k + at_once]
            work = [[pool.submit(compiled, side, c, args, folder, found) for side in sides] for c in batch]
            children = [[future.result() for future in pair] for pair in work]
            for chunk, groups in zip(batch, children):
                time_in_turns(groups, sides, chunk, args, found)
                for name in chunk:
                    print(row(name, found[name], sides), flush=True)
            for child, _ in (c for pair in children for group in pair for c in group):
                child.end()
    return found


# --- the table --------------------------------------------------------------------------------------------------------
def row(name: str, result: dict, sides) -> str:
    """One line of the table, and one for each thing that went wrong."""
    def pair(what, form):
        values = [result[side].get(what) for side in sides]
        ratio = f"{values[0] / values[1]:6.2f}" if all(values) else f"{'-':>6}"
        return "".join(f"{x:{form}}" if x else f"{'-':>9}" for x in values) + ratio
    on_gpu = sides[0] == RIVAL["cuda"]
    gpu = pair("gpu", "9.3f") + "   " if on_gpu else ""
    kernels = pair("kernels_compile", "9.2f") + "   " if on_gpu else ""
    line = f"{name:30}{pair('ms', '9.3f')}   {gpu}{pair('compile', '9.1f')}   {kernels}{verdict(result, sides)}"
    said = [(side, result[side].get("error") or result[side].get("wrong")) for side in sides]
    return "\n".join([line, *(f"    {side}: {text}" for side, text in said if text)])


def verdict(result: dict, sides) -> str:
    states = ["failed" if "error" in r else "wrong" if r["wrong"] else "right" for r in (result[s] for s in sides)]
    return states[1] if states[0] == states[1] else f"{states[1]} ({sides[0]}: {states[0]})"


def means(found: dict, sides) -> str:
    """Geometric means of the ratios, over graphs that are right on both sides."""
    lines = []
    for what in ("ms", "gpu", "compile", "kernels_compile"):
        pairs = [[r[s].get(what) for s in sides] for r in found.values() if verdict(r, sides) == "right"]
        logs = [math.log(a / b) for a, b in pairs if a and b]
        if logs:
            slower = sum(x < 0 for x in logs)
            total = [sum(p[k] for p in pairs if all(p)) for k in (0, 1)]
            mean = math.exp(sum(logs) / len(logs))
            lines.append(f"{what}: {mean:.2f} geometric mean of {len(logs)} ratios, {slower} below 1; "
                         f"sums {total[0]:.1f} and {total[1]:.1f}")  # fmt: skip
    right = sum(verdict(r, sides) == "right" for r in found.values())
    return "\n".join([*lines, f"{right} of {len(found)} graphs right on both sides"])


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=list(RIVAL), default="cpu")
    parser.add_argument("--only", default="", help="a regular expression: the graphs to take")
    parser.add_argument("--jobs", type=int, help="processes that compile at once; by default all cores, 16 at most")
    parser.add_argument("--chunk", type=int, help="graphs of one process")
    parser.add_argument("--rounds", type=int, default=12, help="bursts of each side")
    parser.add_argument("--threads", type=int, default=1, help="of both sides, on the CPU")
    parser.add_argument("--compile-threads", type=int, default=1, help="Inductor's compile workers in each process")
    parser.add_argument("--limit", type=float, default=240, help="seconds that one graph may take to compile")
    parser.add_argument("--json", help="a file for the figures")
    parser.add_argument("--keep", help="a folder for Inductor's caches, which are deleted otherwise")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.serve, args.device, args.threads)
        return
    args.jobs = args.jobs or min(16, os.cpu_count() or 2)
    sys.path.insert(0, str(HERE))
    import torch_compile_modes  # noqa: F401 - registers its graphs
    from torch_compile_graphs import GRAPHS

    names = [n for n, g in GRAPHS.items() if args.device in g.on and re.search(args.only, n)]
    sides = RIVAL[args.device], OURS
    heading = "".join(f"{s:>9}" for s in sides)
    on_gpu = args.device == "cuda"
    gpu = f"{heading + ', GPU ms':28}" if on_gpu else ""
    kernels = f"{heading}, s in triton.compile" if on_gpu else ""
    print(f"{'':30}{heading + ', ms':28}{gpu}{heading + ', s':28}{kernels}\n", flush=True)
    found = measure(names, args)
    print("\n" + means(found, sides))
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
