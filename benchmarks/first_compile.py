"""From the start of a process to the first compiled kernel, with an empty cache.

    python benchmarks/first_compile.py [--times 7]

A kernel that adds is compiled for sm_90 up to PTX, for which no GPU is needed, and for the CPU up to its first result.
Figures are milliseconds, the least of several processes and after a slash their median: of the clock since the process
began, and of the processor. `import` is tritium and its language; NumPy is imported by the program on the CPU alone.
The time of `ptxas` is not in it, but that of asking for its version, where there is one.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bundle_start import KERNELS, ROOT

PROGRAM = '''
import json, os, sys, time
marks = {}
def mark(name):
    marks[name] = time.process_time()
mark("Python")
import tritium
from kernels import add_kernel
mark("import")
if sys.argv[1] == "ptx":
    from tritium.compiler import ASTSource
    types = {"x": "*fp32", "y": "*fp32", "z": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    aligned = {(k,): [["tt.divisibility", 16]] for k in range(4)}
    class Done(BaseException):
        pass
    def stop(backend, stages, *rest):
        def end(value, metadata):
            raise Done
        stages["cubin"] = end
    tritium.knobs.runtime.add_stages_inspection_hook = lambda *given: stop(*given) if given else ("", "")
    try:
        tritium.compile(ASTSource(add_kernel, types, {"BLOCK": 1024}, aligned), target="cuda:90")
    except Done:
        pass
else:
    import numpy as np
    x = np.ones(1024, np.float32)
    mark("NumPy")
    add_kernel[(1,)](x, x, x, 1024, BLOCK=1024)
mark("compile")
started = float(open("/proc/self/stat").read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
print(json.dumps({"clock": time.clock_gettime(time.CLOCK_BOOTTIME) - started, "marks": marks}))
'''


def run(folder: Path, what: str) -> dict[str, float]:
    """Seconds of the clock, of the processor, and of the parts of that, in one process."""
    cache = folder / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    environment = {**os.environ, "TRITIUM_CACHE_DIR": str(cache), "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}",
                   "PYTHONPYCACHEPREFIX": str(folder / "pyc")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run([sys.executable, "-c", PROGRAM, what], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    found = json.loads(done.stdout)
    ends = list(found["marks"].values())
    parts = {name: end - before for (name, end), before in zip(found["marks"].items(), (0.0, *ends))}
    return {"clock": found["clock"], "processor": ends[-1], **parts}


def main() -> None:
    """Print a table."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--times", type=int, default=7)
    args = p.parse_args()
    columns = ("clock", "processor", "Python", "import", "NumPy", "compile")
    print(f"| up to | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "kernels.py").write_text(KERNELS)
        for what, label in (("ptx", "PTX for sm_90"), ("cpu", "a result on the CPU")):
            run(folder, what)  # writes bytecode
            rows = [run(folder, what) for _ in range(args.times)]
            print(f"| {label} | {' | '.join(_least_and_median(rows, name) for name in columns)} |", flush=True)


def _least_and_median(rows: list[dict[str, float]], name: str) -> str:
    seconds = [row[name] for row in rows if name in row]
    return f"{1e3 * min(seconds):.0f} / {1e3 * statistics.median(seconds):.0f}" if seconds else ""


if __name__ == "__main__":
    main()
