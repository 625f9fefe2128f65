"""The execution tests at every level this CPU can run, and on the other architecture under QEMU: `make test-arch`.

    python tests/arch/run.py                           every level of this machine, then the other architecture
    python tests/arch/run.py --levels x86-64-v2 host   these alone; feature lists too, as in docs/cpu.md
    python tests/arch/run.py --quick                   a small part of the tests
    python tests/arch/run.py -- -x tests/exec          what follows goes to pytest, and replaces the tests

The other architecture needs qemu-user and a folder with a Python for it, which TRITIUM_FOREIGN_ROOT names and
tests/arch/root.py makes. What is not run is said, with the reason. The exit status is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FOLDER = "TRITIUM_FOREIGN_ROOT"

# What runs machine code. The names of other backends are left out: they are the same at every level.
QUICK = ["tests/exec", "tests/backends/cpu/test_parts.py", "tests/backends/cpu/test_elementwise.py"]
TESTS = ["tests/exec", "tests/ops/test_rows_on_backends.py", "tests/ops/test_open_results.py",
         *(f"tests/backends/cpu/test_{part}.py" for part in (
             "control", "dot", "elementwise", "in_place", "launcher", "levels", "memory", "overlap", "parts",
             "plain_atomics", "programs", "random", "reductions", "runtime", "settled", "shapes")),
         *(f"tests/kernels/test_{part}.py" for part in ("atomics", "attention", "elementwise", "images", "matmul",
                                                        "rows")),
         "tests/compat/test_atomics.py", "tests/compat/test_casts.py", "tests/compat/test_dots.py",
         "tests/compat/test_operators.py", "tests/compat/test_reductions.py", "tests/compat/test_scans.py",
         "tests/properties/test_kernels.py", "tests/properties/test_modules.py"]  # fmt: skip
# Under QEMU, 10 to 20 times slower, and without torch.
FOREIGN = [*TESTS[:3], *(f"tests/backends/cpu/test_{part}.py" for part in (
    "cooperative", "elementwise", "faults", "memory", "plain_atomics", "programs", "reductions", "settled",
    "shapes"))]  # fmt: skip
SAME = "not interpreter and not optimised and not legalised and not blocks and not emulated"
# Between the levels: what a machine has without what usually comes along.
BETWEEN = {"x86_64": ["x86-64-v2,+avx", "x86-64-v3,-fma", "host,-avx512"], "aarch64": ["host,-fp16,-dotprod"]}
SECONDS = 3600  # for one level


class Result(NamedTuple):
    """How one run of pytest ended."""

    name: str
    line: str
    good: bool


def counts(output: str) -> str:
    """What pytest says at its end: '12 passed, 1 skipped'."""
    outcome = r"\d+ (?:passed|failed|skipped|errors?|deselected|warnings?|xfailed|xpassed)"
    found = re.findall(rf"^=*\s*({outcome}(?:, {outcome})*) in ", output, re.M)
    wanted = found[-1].split(", ") if found else []
    return ", ".join(part for part in wanted if not part.endswith(("deselected", "warning", "warnings")))


def run(name: str, command: list[str], level: str, tests: list[str], jobs: int, seconds: int) -> Result:
    """Run tests at a level; what failed is printed, and all of the output kept in a file."""
    parallel = ["-n", str(jobs)] if jobs > 1 else []
    start = time.monotonic()
    try:
        done = subprocess.run([*command, "-q", "-p", "no:cacheprovider", *parallel, *tests], cwd=ROOT,
                              env={**os.environ, "TRITIUM_CPU": level, "PYTHONPATH": str(ROOT)}, timeout=seconds,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        output, good, said = done.stdout, done.returncode == 0, f"ended with status {done.returncode}"
    except subprocess.TimeoutExpired as stopped:
        output, good = (stopped.stdout or b"").decode(errors="replace"), False
        said = f"stopped after {seconds} s; {output.count('.')} dots so far"
    took = time.monotonic() - start
    line = f"{name:<26} {counts(output) or said} in {took:.0f} s"
    if not good:
        log = Path(tempfile.gettempdir(), f"tritium-arch-{re.sub('[^a-z0-9]+', '-', name.lower())}.txt")
        log.write_text(output)
        print(*re.findall(r"^(?:FAILED|ERROR) .*$", output, re.M)[:40], sep="\n")
        line += f"  ({log})"
    print(line, flush=True)
    return Result(name, line, good)


def foreign_python(folder: str | None) -> tuple[list[str], str]:
    """(command that runs pytest on the other architecture, why there is none)."""
    other = "x86_64" if platform.machine() in ("aarch64", "arm64") else "aarch64"
    emulator = shutil.which(f"qemu-{other}") or shutil.which(f"qemu-{other}-static")
    if sys.platform != "linux":
        return [], f"{other}: QEMU's user mode needs Linux"
    if emulator is None:
        return [], f"{other}: qemu-{other} is not installed (Debian: apt-get install qemu-user)"
    if not folder:
        return [], f"{other}: {FOLDER} names no folder with a Python for it; `make test-arch-root` makes one"
    root = Path(folder).resolve()
    found = sorted(root.glob("usr/bin/python3.[0-9]*[0-9]"))
    if not found:
        return [], f"{other}: there is no usr/bin/python3.x in {root}; `make test-arch-root` makes it"
    # Tests start Python again by the name in sys.executable, which must go through the emulator as well.
    again = root / "python"
    cpu = ["-cpu", "max"] if other == "x86_64" else []
    again.write_text(f"#!/bin/sh\nexec {emulator} {' '.join(cpu)} -L {root} {found[-1]} \"$@\"\n")
    again.chmod(0o755)
    code = f"import sys, pytest; sys.executable = {str(again)!r}; sys.exit(pytest.main(sys.argv[1:]))"
    return [str(again), "-c", code], ""


def main() -> int:
    """Run what was asked for, and print a line for each level."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--levels", nargs="*", help="values of TRITIUM_CPU; by default all this machine can run")
    parser.add_argument("--quick", action="store_true", help="a small part of the tests")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes run tests of a level")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="the most time for one level")
    parser.add_argument("--foreign", choices=["yes", "no", "only"], default="yes", help="the other architecture")
    parser.add_argument("tests", nargs="*", help="what to give pytest")
    args = parser.parse_args()
    tests, abroad = (args.tests or [*(QUICK if args.quick else some), "-k", SAME] for some in (TESTS, FOREIGN))
    results = []
    if args.foreign != "only":
        sys.path.insert(0, str(ROOT))
        from tritium.backends.llvm.target import host_level, runnable_levels

        chosen = args.levels or [*runnable_levels(), *([] if args.quick else BETWEEN[host_level().machine])]
        for level in chosen:
            results.append(run(level, [sys.executable, "-m", "pytest"], level, tests, args.jobs, args.seconds))
    if args.foreign != "no":
        command, why = foreign_python(os.environ.get(FOLDER))
        if why:
            print(f"NOT RUN: {why}")
        else:
            names = args.levels if args.levels and args.foreign == "only" else ["host"]
            results += [run(f"{level} of {Path(command[0]).parent.name}", command, level, abroad, 1, args.seconds)
                        for level in names]  # fmt: skip
    failed = [result.name for result in results if not result.good]
    print(f"failed: {', '.join(failed)}" if failed else f"all {len(results)} runs passed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
