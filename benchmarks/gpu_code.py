"""What kernels in the style of public libraries come to on a GPU: compile time by stage, registers, spills.

    python benchmarks/gpu_code.py                          # all cases of gpu_code_cases.py; no GPU is needed
    python benchmarks/gpu_code.py argmax --workers 4       # those with a word in their name
    python benchmarks/gpu_code.py --arch 80                # for another architecture than the H100's, sm_90a
    python benchmarks/gpu_code.py --json after.json --before before.json

Where Triton is installed, it compiles the same source for the same target beside tritium. Each case has a worker
process to itself while it is compiled, with caches that are empty. PTX of both is assembled by the same ptxas, which
says registers, spilled bytes and whether it serialises wgmma (C7511, C7515); a case that multiplies and copies nothing
asynchronously is marked. The table has the CPU time of the compiling process, the time of assembling, registers,
spilled bytes and shared memory; then come geometric means of tritium's figures over Triton's, and the ten worst.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from gpu_code_cases import CASES, words  # noqa: E402
from gpu_load import kernels  # noqa: E402

SMALL = next(case for case in CASES if case.kernel == "adamw_kernel")
SHOWN = {"ms": "ms", "assembling": "ptxas ms", "registers": "regs", "spilled": "spilled", "shared": "shared",
         "async": "async", "serialised": "serialised"}  # fmt: skip


def set_up(folder: str, sides: list[str]) -> None:
    """Give a worker process caches of its own, and have every side compile something: what is paid once is no figure
    of a case."""
    for name in ("TRITON_CACHE_DIR", "TRITIUM_CACHE_DIR"):
        os.environ[name] = str(Path(folder) / str(os.getpid()))
    for who in sides:
        measure((who, SMALL, 90))


def source(side, case):
    """(source to compile, its kernel file's module) of a case for one implementation of the language."""
    fn = getattr(kernels(side, case.file), case.kernel)
    given = iter(words(case.arguments))
    signature, constants, attributes = {}, dict(case.constants), {}
    for place, name in enumerate(fn.arg_names):
        if name in constants:
            signature[name] = "constexpr"
            continue
        word = next(given)
        signature[name] = "constexpr" if word == "1" else "i32" if word == "16" else word
        if word == "1":
            constants[name] = 1
        elif word == "16" or word.startswith("*"):
            attributes[place,] = [["tt.divisibility", 16]]
    left = list(given)
    if left:
        raise ValueError(f"{case.name}: arguments {left} are left over")
    return importlib.import_module(f"{side.__name__}.compiler").ASTSource(fn, signature, constants, attributes)


def measure(job):
    """The figures of one case on one side; an error is one of them."""
    who, case, arch = job
    try:
        return who, case.name, figures(importlib.import_module(who), case, arch)
    except Exception as error:  # a case that one side refuses is a result
        return who, case.name, {"error": f"{type(error).__name__}: {str(error).strip()[-120:]}"}


def figures(side, case, arch=90) -> dict[str, float]:
    """Compile a case and read what it came to."""
    importlib.import_module(f"{side.__name__}.language")
    target = importlib.import_module(f"{side.__name__}.backends.compiler").GPUTarget("cuda", arch, 32)
    stages, knobs = {}, importlib.import_module(f"{side.__name__}.knobs")

    def listen(**said):
        stages.update({name: us / 1e3 for name, us in said["times"].lowering_stages})
        stages["ir"] = said["times"].ir_initialization / 1e3

    knobs.compilation.listener, knobs.compilation.always_compile = listen, True
    options = {"num_warps": case.warps, "num_stages": case.stages}
    wanted, start, began = source(side, case), time.thread_time(), time.perf_counter()
    made = side.compile(wanted, target=target, options=options)
    spent, passed = (time.thread_time() - start) * 1e3, (time.perf_counter() - began) * 1e3
    text = made.asm["ptx"]
    said = assembled(text, arch)
    metadata = made.metadata._asdict()
    ours = metadata.get("n_regs") is not None and side.__name__ == "tritium"
    return {
        "ms": spent, "passed": passed, "assembling": stages.get("cubin", 0.0), "stages": stages,
        "shared": metadata["shared"],
        "registers": metadata["n_regs"] if ours else int(re.search(r"Used (\d+) registers", said)[1]),
        "spilled": 4 * metadata["n_spills"] if ours else spilled(said),
        "serialised": said.count("are serialized"),
        "products": len(re.findall(r"\b(?:wgmma\.mma_async|mma\.sync)", text)),
        "async": len(re.findall(r"cp\.async\.(?:ca|cg|bulk)", text)), "lines": text.count("\n"),
    }  # fmt: skip


def assembled(text: str, arch: int) -> str:
    """What ptxas says of a PTX text."""
    from tritium.backends.nvptx.assemble.ptxas import ptxas

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "k.ptx"
        path.write_text(text)
        name = f"sm_{arch}a" if arch >= 90 else f"sm_{arch}"
        command = [ptxas(), "-v", f"-arch={name}", str(path), "-o", str(path.with_suffix(".cubin"))]
        return subprocess.run(command, capture_output=True, text=True, check=True).stderr


def spilled(said: str) -> int:
    """Bytes that threads keep in memory of their own."""
    return max(map(int, re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", said).groups()))


def first_compile(who: str) -> float:
    """Milliseconds that pass in the first compilation of a process, after its imports."""
    code = (f"import sys; sys.path[:0] = {sys.path[:2]!r}\n"
            f"import gpu_code, importlib; side = importlib.import_module({who!r})\n"
            "print(gpu_code.figures(side, gpu_code.SMALL)['passed'])\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return float(done.stdout) if done.returncode == 0 else math.nan


def mean(ratios) -> float:
    """Geometric mean; of no ratios, not a number."""
    ratios = list(ratios)
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def cell(found, field) -> str:
    """A figure in a table."""
    if found is None or "error" in found:
        return "-"
    if field == "async":
        return "none" if found["products"] and not found["async"] else str(found["async"])
    return f"{found[field]:.0f}"


def show(title: str, mine, other, names) -> None:
    """Print figures side by side: `other`'s stand behind a slash."""
    print(f"\n## {title}\n\n| kernel | " + " | ".join(SHOWN.values()) + " |\n" + "|---" * (len(SHOWN) + 1) + "|")
    for name in names:
        cells = [cell(mine.get(name), f) + (f" / {cell(other.get(name), f)}" if other else "") for f in SHOWN]
        print(f"| {name} | " + " | ".join(cells) + " |")


def ratios(mine, other, field, least=0):
    """{case: figure over the other's} where both have one above `least`."""
    both = [name for name in mine if "error" not in mine[name] and "error" not in other.get(name, {"error": 1})]
    return {name: (mine[name][field] + least) / (other[name][field] + least) for name in both
            if other[name][field] + least > 0 and mine[name][field] + least > 0}  # fmt: skip


def summarize(label: str, mine, other) -> None:
    """Print means and the worst of each figure over another's."""
    print(f"\n## {label}\n")
    for field in ("ms", "registers", "shared"):
        found = ratios(mine, other, field)
        worst = sorted(found.items(), key=lambda item: -item[1])[:10]
        middle = sorted(found.values())[len(found) // 2] if found else math.nan
        print(f"{SHOWN[field]}: geometric mean {mean(found.values()):.3f}, median {middle:.3f} over {len(found)}; "
              "worst " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in worst) + "\n")
    more = {name: x["spilled"] - other[name]["spilled"] for name, x in mine.items()
            if "error" not in x and "error" not in other.get(name, {"error": 1})}  # fmt: skip
    worst = sorted(((bytes_, name) for name, bytes_ in more.items() if bytes_ > 0), reverse=True)[:10]
    print("bytes spilled beyond it: " + (", ".join(f"{name} {bytes_}" for bytes_, name in worst) or "none"))


def totals(label: str, found) -> None:
    """Print what stands out of one side."""
    right = {name: x for name, x in found.items() if "error" not in x}
    stages = {}
    for x in right.values():
        for stage, ms in x["stages"].items():
            stages[stage] = stages.get(stage, 0.0) + ms
    print(f"\n{label}: {len(right)} compiled; seconds by stage: "
          + ", ".join(f"{stage} {ms / 1e3:.1f}" for stage, ms in stages.items()))  # fmt: skip
    marks = {"above 1 s": lambda x: x["ms"] > 1000, "spills": lambda x: x["spilled"],
             "wgmma serialised": lambda x: x["serialised"],
             "no async copies": lambda x: x["products"] and not x["async"]}  # fmt: skip
    for mark, test in marks.items():
        names = [name for name, x in right.items() if test(x)]
        print(f"- {mark}: {len(names)}: {', '.join(names)}")
    for name, x in found.items():
        if "error" in x:
            print(f"- failed: {name}: {x['error']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="compile cases with one of these words in their names")
    parser.add_argument("--arch", type=int, default=90)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--json", help="write the figures to this file")
    parser.add_argument("--before", help="figures of an earlier run to compare with")
    parser.add_argument("--sides", default="tritium,triton")
    options = parser.parse_args()
    sides = [who for who in options.sides.split(",") if find_spec(who)]
    cases = [case for case in CASES if not options.words or any(word in case.name for word in options.words)]
    found = {who: {} for who in sides}
    started = time.perf_counter()
    first = {who: sorted(first_compile(who) for _ in range(3))[1] for who in sides}
    with tempfile.TemporaryDirectory() as folder:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(options.workers, context, set_up, (folder, sides)) as pool:
            jobs = [(who, case, options.arch) for case in cases for who in sides]
            for who, name, x in pool.map(measure, jobs):
                found[who][name] = x
    mine, names = found["tritium"], [case.name for case in cases]
    show("tritium" + (" / Triton" if "triton" in found else ""), mine, found.get("triton", {}), names)
    for who in sides:
        totals(who, found[who])
        print(f"- first compilation of a process: {first[who]:.0f} ms")
    if "triton" in found:
        summarize("tritium over Triton", mine, found["triton"])
    if options.before:
        before = json.loads(Path(options.before).read_text())["tritium"]
        show("now / before", mine, before, [name for name in names if mine[name] != before.get(name)])
        summarize("now over before", mine, before)
    print(f"\n{time.perf_counter() - started:.0f} s")
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
