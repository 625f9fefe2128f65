"""Performance over a range of sizes: what to measure, tables, plots and pages of the results.

pandas and matplotlib are used where they are installed; without them `perf_report` prints and saves plain tables.
"""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Benchmark", "Mark", "Table", "perf_report"]


class Benchmark:
    """What to run and how to draw it: one line per value of `line_arg`, one point per entry of `x_vals`.

    An entry of `x_vals` is one value given to every name in `x_names`, or a tuple with one value each.

    >>> Benchmark(["n"], [1, 2], "provider", ["a"], ["A"], "demo", args={}).x_names
    ['n']
    """

    def __init__(self, x_names: list[str], x_vals: list, line_arg: str, line_vals: list, line_names: list[str],
                 plot_name: str, args: dict[str, Any], xlabel: str = "", ylabel: str = "", x_log: bool = False,
                 y_log: bool = False, styles: list[tuple[str, str]] | None = None):
        self.x_names, self.x_vals = x_names, x_vals
        self.line_arg, self.line_vals, self.line_names = line_arg, line_vals, line_names
        self.plot_name, self.args = plot_name, args
        self.xlabel, self.ylabel, self.x_log, self.y_log, self.styles = xlabel, ylabel, x_log, y_log, styles

    def point(self, x: Any) -> tuple:
        """The value of each name in `x_names` for one entry of `x_vals`."""
        values = tuple(x) if isinstance(x, (list, tuple)) else (x,) * len(self.x_names)
        if len(values) != len(self.x_names):
            raise ValueError(f"{self.plot_name}: the entry {x!r} of x_vals has {len(values)} values "
                             f"for {len(self.x_names)} names {self.x_names}")
        return values


class Table:
    """Columns and rows, for where pandas is not installed.

    >>> print(Table(["n", "GB/s"], [(1, 2.5), (1024, 10.0)]))
          n       GB/s
    0     1   2.500000
    1  1024  10.000000
    """

    def __init__(self, columns: Sequence[str], rows: Sequence[Sequence]):
        self.columns, self.rows = list(columns), [tuple(row) for row in rows]

    def __str__(self) -> str:
        cells = [["", *self.columns]] + [[str(i), *map(_cell, row)] for i, row in enumerate(self.rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.columns) + 1)]
        return "\n".join("  ".join(text.rjust(width) for text, width in zip(row, widths)) for row in cells)

    def to_csv(self, path: str, float_format: str = "%.6f", index: bool = False) -> None:
        """Write the rows, floats in `float_format`."""
        with open(path, "w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["", *self.columns] if index else self.columns)
            for i, row in enumerate(self.rows):
                shown = [float_format % x if isinstance(x, float) else x for x in row]
                writer.writerow([i, *shown] if index else shown)


def _cell(x: Any) -> str:
    return f"{x:.6f}" if isinstance(x, float) else str(x)


def perf_report(benchmarks: Benchmark | list[Benchmark]) -> Callable[[Callable], Mark]:
    """Decorator: the function measures one point of a `Benchmark`; `.run()` on the result measures them all.

    >>> @perf_report(Benchmark(["n"], [1, 2], "who", ["me"], ["Me"], "powers", args={"p": 3}, ylabel="value"))
    ... def power(n, who, p):
    ...     return float(n**p)
    >>> power.run(print_data=True)
    powers:
         n  Me (value)
    0  ...
    """
    return lambda fn: Mark(fn, benchmarks)


class Mark:
    """A measuring function with its benchmarks.

    >>> bench = Benchmark(["n"], [1, 2], "how", ["fast"], ["Fast"], plot_name="steps", args={})
    >>> Mark(lambda n, how: 10.0 * n, bench).run(return_df=True).shape
    (2, 2)
    """

    def __init__(self, fn: Callable, benchmarks: Benchmark | list[Benchmark]):
        self.fn, self.benchmarks = fn, benchmarks

    def __call__(self, *args, **kwargs):
        return self.fn(*args, **kwargs)

    def run(self, show_plots: bool = False, print_data: bool = False, save_path: str = "", return_df: bool = False,
            diff_col: bool = False, save_precision: int = 6, **kwargs) -> Any:
        """Measure every point; print, draw and save as asked. `kwargs` go to the measuring function.

        With `save_path`, writes `<plot_name>.csv`, `<plot_name>.png` (given matplotlib) and `results.html` there.
        """
        if save_path:
            os.makedirs(save_path, exist_ok=True)
        several = not isinstance(self.benchmarks, Benchmark)
        frames, pages = [], []
        for bench in [self.benchmarks] if isinstance(self.benchmarks, Benchmark) else self.benchmarks:
            means, spread = self._measure(bench, kwargs)
            picture = _draw(bench, means, spread, show_plots, save_path) if show_plots or save_path else None
            table = _with_difference(means) if diff_col and len(bench.line_names) == 2 else means
            frame = _frame(table)
            if print_data:
                print(f"{bench.plot_name}:")
                print(frame)
            if save_path:
                frame.to_csv(os.path.join(save_path, f"{bench.plot_name}.csv"),
                             float_format=f"%.{save_precision}f", index=False)
                pages.append(picture or f"{bench.plot_name}.csv")
            frames.append(frame)
        if save_path:
            _write_index(save_path, pages)
        return (frames if several else frames[0]) if return_df else None

    def _measure(self, bench: Benchmark, kwargs: dict) -> tuple[Table, dict[str, list[tuple[float, float]]]]:
        """The means as a table, and (min, max) per line."""
        titles = [f"{name} ({bench.ylabel})" if bench.ylabel else name for name in bench.line_names]
        spread: dict[str, list] = {title: [] for title in titles}
        rows = []
        for x in bench.x_vals:
            point = bench.point(x)
            row = list(point)
            for title, value in zip(titles, bench.line_vals):
                result = self.fn(**dict(zip(bench.x_names, point)), **{bench.line_arg: value}, **bench.args, **kwargs)
                mean, low, high = result if isinstance(result, (list, tuple)) else (result, result, result)
                row.append(mean)
                spread[title].append((low, high))
            rows.append(row)
        return Table([*bench.x_names, *titles], rows), spread


def _with_difference(table: Table) -> Table:
    return Table([*table.columns, "Diff"], [(*row, row[-1] - row[-2]) for row in table.rows])


def _frame(table: Table) -> Any:
    try:
        import pandas
    except ImportError:
        return table
    return pandas.DataFrame(table.rows, columns=table.columns)


def _draw(bench: Benchmark, means: Table, spread: dict, show: bool, save_path: str) -> str | None:
    """Draw one line per provider with its band; the name of the file written, if one was."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        if show:
            print("matplotlib is not installed: no plots (pip install matplotlib)", file=sys.stderr)
        return None
    figure, axes = plt.subplots()
    n_names = len(bench.x_names)
    xs = [row[0] for row in means.rows]
    for i, title in enumerate(means.columns[n_names:]):
        colour, line = bench.styles[i] if bench.styles else (None, None)
        ys = [row[n_names + i] for row in means.rows]
        drawn, = axes.plot(xs, ys, label=title, color=colour, linestyle=line)
        low, high = zip(*spread[title])
        if list(low) != ys or list(high) != ys:
            axes.fill_between(xs, low, high, alpha=0.15, color=drawn.get_color())
    axes.legend()
    axes.set(xlabel=bench.xlabel or bench.x_names[0], ylabel=bench.ylabel,
             xscale="log" if bench.x_log else "linear", yscale="log" if bench.y_log else "linear")
    name = f"{bench.plot_name}.png" if save_path else None
    if name:
        figure.savefig(os.path.join(save_path, name))
    if show:
        plt.show()
    plt.close(figure)
    return name


def _write_index(save_path: str, names: list[str]) -> None:
    lines = [f'<img src="{name}"/>' if name.endswith(".png") else f'<a href="{name}">{name}</a>' for name in names]
    with open(os.path.join(save_path, "results.html"), "w") as page:
        page.write("<html><body>\n" + "\n".join(lines) + "\n</body></html>\n")
