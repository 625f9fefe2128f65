"""The figures of a run as a table, as CSV and as a plot."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable
from typing import Any

from tritium.insight.explain.units import mean_text, time_text
from tritium.tools.bench.comparing import Change
from tritium.tools.bench.machine import disturbances
from tritium.tools.bench.spread import Ratio, ratio, summary

__all__ = ["changes_table", "csv_text", "figures", "plot", "show", "table", "text_table"]

OURS = "tritium"


def figures(row: dict[str, Any]) -> dict[str, Any]:
    """What is concluded from one row: seconds, rate, share of the limit, ratios; and why nothing is.

    >>> row = {"samples": {"tritium": [1e-3] * 9, "torch": [2e-3] * 9}, "bytes": 4e6, "bound": "memory", "limit": 8e9}
    >>> found = figures(row)
    >>> found["rate"], found["unit"], found["share"], found["ratios"]["torch"].value
    (4.0, 'GB/s', 0.5, 2.0)
    """
    ours = row.get("samples", {}).get(OURS)
    if not ours:
        return {"noise": [], "ratios": {}}
    found: dict[str, Any] = {"seconds": summary(ours), "noise": disturbances(row),
                             "ratios": {name: ratio(ours, theirs) for name, theirs in row["samples"].items()
                                        if name != OURS}}
    work, unit, scale = (row.get("flops"), "TFLOP/s", 1e-12) if row.get("bound") == "compute" else \
        (row.get("bytes"), "GB/s", 1e-9)
    if row.get("unit"):  # the user's function told it
        value = found["seconds"].median
        return {**found, "rate": 1 / value if row.get("is_rate") else value * 1e3, "unit": row["unit"]}
    if work:
        found["rate"], found["unit"] = work / found["seconds"].median * scale, unit
        if found["rate"] < 1 and unit == "TFLOP/s":
            found["rate"], found["unit"] = found["rate"] * 1e3, "GFLOP/s"
        if row.get("limit"):
            found["share"] = work / found["seconds"].median / row["limit"]
    return found


def ratio_text(found: Ratio, noise: list[str]) -> str:
    """A ratio as a result, or that it is none.

    >>> ratio_text(Ratio(2.0, 1.9, 2.1), []), ratio_text(Ratio(17.0, 1.1, 18.0), [])
    ('2.00x ± 5 %', 'noisy: 1.1x to 18x')
    """
    return found.text if found.is_clear and not noise else f"noisy: {found.range_text}"


def rivals_in(run: dict[str, Any]) -> list[str]:
    """The rivals that a run has figures of."""
    return list(dict.fromkeys(name for row in run["rows"] for name in row.get("samples", {}) if name != OURS))


def table(run: dict[str, Any]) -> tuple[list[str], list[list[str]], list[str]]:
    """(columns, rows of text, remarks) of a run."""
    rivals = rivals_in(run)
    columns = ["benchmark", "size", "dtype", "time", "rate", "of limit", *(f"vs {name}" for name in rivals), "correct"]
    rows, remarks = [], []
    for row in run["rows"]:
        found = figures(row)
        rows.append([row["name"], str(row["size"]) if row["size"] is not None else "", row["dtype"],
                     *_measured(row, found, rivals), _correct(row)])
        if row.get("problem"):
            remarks.append(f"{row['name']}: {row['problem']}")
        remarks += [f"{row['name']}: {name} left out: {why}" for name, why in row.get("problems", {}).items()]
    return columns, rows, remarks + _noise_remarks(run)


def _measured(row: dict[str, Any], found: dict[str, Any], rivals: list[str]) -> list[str]:
    if "seconds" not in found:
        return [""] * (3 + len(rivals))
    seconds = found["seconds"]
    time = "" if row.get("is_rate") else f"{time_text(seconds.median)} ± {seconds.spread / 2:.0%}".replace("%", " %")
    rate = f"{mean_text(found['rate'])} {found['unit']}" if "rate" in found else ""
    share = f"{found['share']:.0%}".replace("%", " %") if "share" in found else ""
    return [time, rate, share,
            *(ratio_text(found["ratios"][name], found["noise"]) if name in found["ratios"] else "" for name in rivals)]


def _correct(row: dict[str, Any]) -> str:
    if row.get("skipped"):
        return "not run"
    return {True: "yes", False: "NO", None: "not checked"}[row["correct"]]


def _noise_remarks(run: dict[str, Any]) -> list[str]:
    """What the reader has to know before believing anything."""
    timed = [row for row in run["rows"] if row.get("samples", {}).get(OURS)]
    judged = [(row, figures(row)) for row in timed]
    noisy = [(row, found) for row, found in judged
             if found["noise"] or any(not r.is_clear for r in found["ratios"].values())]
    if not noisy:
        return []
    worst = max((found["noise"] for _, found in noisy), key=len)
    why = f" ({'; '.join(worst)})" if worst else " (the interval of the ratio is too wide)"
    return [f"too noisy to judge {len(noisy)} of {len(timed)} rows{why}: "
            "take them as hints, and measure again on a quiet machine or with a larger --iterations"]


def show(columns: list[str], rows: list[list[str]], title: str = "", file: Any = None) -> None:
    """Print a table: by rich where it is installed, plainly otherwise and where nobody looks."""
    file = file or sys.stdout
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        Table = None
    if Table is None or not file.isatty():
        print(text_table(columns, rows, title), file=file)
        return
    made = Table(title=title or None)
    for k, column in enumerate(columns):
        made.add_column(column, justify="left" if k in (0, len(columns) - 1) else "right")
    for row in rows:
        made.add_row(*(cell.replace("[", "\\[") for cell in row), style="red" if "NO" in row or "slower" in row else "")
    Console(file=file).print(made)


def text_table(columns: list[str], rows: Iterable[list[str]], title: str = "") -> str:
    """A table in plain text.

    >>> print(text_table(["name", "time"], [["softmax", "1 ms"]]))
    name     time
    softmax  1 ms
    """
    cells = [columns, *rows]
    widths = [max(len(row[k]) for row in cells) for k in range(len(columns))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in cells]
    return "\n".join(([title, ""] if title else []) + lines)


def csv_text(run: dict[str, Any]) -> str:
    """The figures as CSV: one line for each row, times in seconds.

    >>> csv_text({"rows": []}).startswith("name,size,dtype,device,threads,")
    True
    """
    rivals = rivals_in(run)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["name", "size", "dtype", "device", "threads", "correct", "error", "median_s", "low_s", "high_s",
                     "rate", "unit", "share_of_limit", "noisy",
                     *(f"{name}{part}" for name in rivals for part in ("_ratio", "_low", "_high"))])
    for row in run["rows"]:
        found = figures(row)
        seconds = list(found["seconds"][:3]) if "seconds" in found else ["", "", ""]
        ratios = [value for name in rivals for value in found["ratios"].get(name, ("", "", ""))]
        writer.writerow([row["name"], row["size"], row["dtype"], row["device"], row["threads"], row["correct"],
                         row.get("error", ""), *seconds, found.get("rate", ""), found.get("unit", ""),
                         found.get("share", ""), int(bool(found["noise"])), *ratios])
    return out.getvalue()


def plot(run: dict[str, Any], path: str) -> None:
    """Draw how many times faster than each rival the rows are, with intervals; noisy ones are hollow."""
    try:
        import matplotlib
    except ImportError:
        raise ValueError("--plot needs matplotlib: pip install matplotlib") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [(row, figures(row)) for row in run["rows"]]
    rivals = rivals_in(run)
    rows = [(row, found) for row, found in rows if found["ratios"]]
    figure, axis = pyplot.subplots(figsize=(8, 1.5 + 0.35 * max(len(rows), 1)))
    for k, rival in enumerate(rivals):
        for place, (_, found) in enumerate(rows):
            if rival not in found["ratios"]:
                continue
            r = found["ratios"][rival]
            clear = r.is_clear and not found["noise"]
            axis.errorbar([r.value], [place + 0.15 * k], xerr=[[r.value - r.low], [r.high - r.value]], fmt="o",
                          color=f"C{k}", mfc=f"C{k}" if clear else "none", label=rival if place == 0 else None)
    axis.axvline(1.0, color="gray", lw=1)
    axis.set_xscale("log")
    axis.set_yticks(range(len(rows)), [f"{row['name']} {row['size']} {row['dtype']}" for row, _ in rows])
    axis.invert_yaxis()
    axis.set_xlabel("times faster than the rival (hollow: too noisy to judge)")
    axis.set_title(f"tritium on {run['machine']['device']}, {run['device']}")
    if rivals and rows:
        axis.legend()
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)


def changes_table(found: list[Change]) -> tuple[list[str], list[list[str]]]:
    """(columns, rows of text) of a comparison.

    >>> changes_table([Change("softmax", "slower", Ratio(1.5, 1.4, 1.6), 1e-3, 1.5e-3)])[1]
    [['softmax', '1 ms', '1.5 ms', '1.50x ± 7 %', 'slower', '']]
    """
    rows = [[change.name, *(time_text(t) if change.ratio else "" for t in (change.before, change.after)),
             "" if change.ratio is None else change.ratio.text if change.ratio.is_clear else change.ratio.range_text,
             change.verdict, change.why] for change in found]
    return ["benchmark", "before", "after", "time after / before", "verdict", "why"], rows
