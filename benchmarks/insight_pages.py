"""How large the pages of `tritium explain` are, and how long a browser takes to open them, for the whole collection.

    python benchmarks/insight_pages.py [--only softmax] [--target cuda:90a] [--times 3] [--keep folder]

The browser is a headless Chromium (apt's `chromium`). A page is open when it is loaded, its script has run and
something is painted; the shortest of several times is told, as other programs only add to it. Beside it stands the
processor time of the page's thread. Exit status 1 if a page has 2 MB or more, takes a second or longer, or writes an
error to the console.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.insight import browser
from tritium.insight.explain.capture import first_launch
from tritium.insight.explain.explanation import explained
from tritium.kernels.registry import Kernel
from tritium.tools import demo

MOST_BYTES, MOST_SECONDS = 2_000_000, 1.0


def write(record: Kernel, size: int, dtype: str, target: str, path: Path) -> int:
    """Write the page of a kernel's first launch; its bytes."""
    arguments = record.make_arguments(size, dtype, "numpy")
    launch = first_launch(lambda: record.wrapper(*arguments))
    if launch is None:
        raise LookupError(f"{record.name} launches no kernel")
    explained(launch.kernel, launch.grid, launch.args, launch.meta, target, owned=True).html(path)
    return path.stat().st_size


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--target", default="cuda:90a")
    parser.add_argument("--times", type=int, default=3, help="that each page is opened")
    parser.add_argument("--keep", help="a folder for the pages")
    args = parser.parse_args()
    if browser.CHROMIUM is None:
        parser.error("there is no Chromium here: install it, as by apt-get install chromium")
    folder = Path(args.keep or tempfile.mkdtemp(prefix="tritium-pages-"))
    folder.mkdir(parents=True, exist_ok=True)
    page, largest, slowest = None, 0, 0.0
    print(f"{'kernel':<52} {'KB':>6} {'opens in, ms':>13} {'of work, ms':>12}")
    for row in demo.rows():
        name, record = demo.name_of(row), row.target.record
        if args.only not in name or record is None or not record.jit:
            continue
        path = folder / f"{record.name}-{row.dtype}.html"
        size = write(record, row.size, row.dtype, args.target, path)
        taken = []
        for _ in range(args.times):
            if page is None:
                page = browser.Page(path.as_uri())
            else:
                page.open("about:blank")
                page.open(path.as_uri())
            taken.append((page.opening(), page.work()))
        opened, work = (min(column) for column in zip(*taken))
        largest, slowest = max(largest, size), max(slowest, opened)
        print(f"{name:<52} {size / 1000:>6.0f} {opened * 1e3:>13.0f} {work * 1e3:>12.0f}", flush=True)
    errors = page.errors if page else []
    if page:
        page.close()
    print(f"largest {largest / 1000:.0f} KB, slowest {slowest * 1e3:.0f} ms; errors of the console: {errors or 'none'}")
    return int(largest >= MOST_BYTES or slowest >= MOST_SECONDS or bool(errors))


if __name__ == "__main__":
    sys.exit(main())
