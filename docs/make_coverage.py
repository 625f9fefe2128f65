"""Write docs/coverage.md: run every name of the language on every engine, and emulated on every kind of GPU.

    python docs/make_coverage.py            # run them and write the page
    python docs/make_coverage.py --check    # run them and say whether the page is up to date
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


@contextlib.contextmanager
def silence():
    """Keep what kernels print off the terminal, also what machine code writes by itself."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        with open(os.devnull, "w") as python_too, contextlib.redirect_stdout(python_too):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def mark(row: Any, kernel: Any, engine: Any) -> str:
    """What the page says of a name on an engine: runs, compiles, or neither, and why not."""
    from tests.language.coverage.engines import GPUS, cuda
    from tests.language.coverage.kernels import arguments_of, check
    from tests.language.coverage.page import RUNS
    from tritium.backends.driver import driver

    stage = "no"
    try:
        with silence(), warnings.catch_warnings(action="ignore"):
            if engine in GPUS.values():
                engine.compile(kernel, [x for values in arguments_of(row) for x in values.values()])
                stage = "compiles"
            check(row, kernel, engine)
            if engine is GPUS["sm_90a"] and driver.active.get_current_target().backend == "cuda":
                check(row, kernel, cuda)
        return RUNS
    except Exception as problem:  # whatever it is belongs on the page
        print(f"{row.name}: {problem}", file=sys.stderr)
        return f"{stage}: {str(problem).split(chr(10))[0] or type(problem).__name__}"


def run() -> dict[tuple[str, str], str]:
    """(name, engine) -> the mark."""
    from tests.language.coverage.kernels import Kernels
    from tests.language.coverage.page import COLUMNS
    from tests.language.coverage.rows import all_rows

    kernels = Kernels(all_rows())
    return {(row.name, name): mark(row, kernels[row.name], engine)
            for name, engine in COLUMNS.items() for row in all_rows()}  # fmt: skip


def main(arguments: list[str]) -> int:
    from tests.language.coverage.page import PAGE, render

    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        page = render(run())
    if "--check" in arguments:
        same = PAGE.is_file() and PAGE.read_text() == page
        print(f"{PAGE.name} is {'' if same else 'not '}up to date")
        return 0 if same else 1
    PAGE.write_text(page)
    print(page[page.index("| all |"):].split("\n")[0])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
