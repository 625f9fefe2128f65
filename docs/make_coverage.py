"""Write docs/coverage.md: run every name of the language on every engine of this machine.

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


def run() -> dict[tuple[str, str], str]:
    """(name, engine) -> nothing where it works, or the first line of what went wrong."""
    from tests.language.coverage.kernels import Kernels, check
    from tests.language.coverage.page import COLUMNS
    from tests.language.coverage.rows import all_rows

    kernels, results = Kernels(all_rows()), {}
    for row in all_rows():
        for name, engine in COLUMNS.items():
            try:
                with silence(), warnings.catch_warnings(action="ignore"):
                    check(row, kernels[row.name], engine)
                results[row.name, name] = ""
            except Exception as problem:  # whatever it is belongs on the page
                results[row.name, name] = str(problem).split("\n")[0] or type(problem).__name__
                print(f"{row.name} on {name}: {problem}", file=sys.stderr)
    return results


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
