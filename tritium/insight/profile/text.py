"""A profile as a table for the terminal: by `rich` where it is installed, else plain."""

from __future__ import annotations

import io
from typing import Any

from tritium.insight.profile.facts import Profile, Row

__all__ = ["amount", "table", "time_text"]

COLUMNS = ("kernel", "configuration", "count", "total", "median", "GB/s", "FLOP/s", "% of copy", "compile", "tuning",
           "cache")  # fmt: skip


def time_text(ns: float | None) -> str:
    """A time with a unit, three digits.

    >>> time_text(1234), time_text(56_789_000), time_text(0), time_text(None)
    ('1.23 us', '56.8 ms', '0 ns', '-')
    """
    if ns is None:
        return "-"
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}" if ns / size < 1000 else f"{ns / size:.0f} {unit}"
    return f"{ns:.0f} ns"


def amount(value: float | None) -> str:
    """A number with a letter for its thousands.

    >>> amount(1.5e12), amount(2048.0), amount(None)
    ('1.5 T', '2.05 k', '-')
    """
    if value is None:
        return "-"
    for letter, size in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {letter}"
    return f"{value:.3g}"


def cells(row: Row) -> tuple[str, ...]:
    """The texts of a row."""
    rate, percent = row.bytes_per_second, row.percent_of_limit
    mark = "~" if row.bytes_are_estimated else ""
    seen = [f"{row.compiled} miss"] * bool(row.compiled) + [f"{row.cache_hits} hit"] * bool(row.cache_hits)
    return (row.configuration.kernel, row.configuration.text, str(row.count),
            time_text(row.total_ns) if row.timed else "-", time_text(row.median_ns) if row.timed else "-",
            "-" if rate is None else f"{mark}{rate / 1e9:.3g}", amount(row.flops_per_second),
            "-" if percent is None else f"{mark}{percent:.0f} %", time_text(row.compile_ns) if row.compiled else "-",
            time_text(row.tuning_ns) if row.tuning_ns else "-", ", ".join(seen) or "memory")  # fmt: skip


def summary(facts: Profile) -> list[str]:
    """The lines under the table."""
    count, total = sum(row.count for row in facts.rows), sum(row.total_ns for row in facts.rows)
    lines = [f"{count} launches, {time_text(total)} in kernels of {time_text(facts.wall_ns)}"] if facts.rows else []
    made = [fact for fact in facts.compilations if not fact.cache_hit]
    hits = len(facts.compilations) - len(made)
    if facts.compilations:
        lines.append(f"{len(made)} kernels compiled in {time_text(sum(fact.duration_ns for fact in made))}, "
                     f"{hits} read from the cache")  # fmt: skip
    lines += [f"{fact.kernel} tuned: {fact.configurations} configurations in {time_text(fact.duration_ns)}"
              f"{' (kept on disk)' if fact.cache_hit else ''}, best {fact.best}" for fact in facts.tunings]
    lines += [f"limit of {found.device}: a copy moves {found.bytes_per_second / 1e9:.3g} GB/s"
              for found in facts.limits]
    lines += [f"clock: {found.clock}; it adds {time_text(found.within_ns)} to each time, and a launch takes "
              f"{time_text(found.per_launch_ns)} longer in hooks" for found in facts.overheads]
    if facts.dropped:
        lines.append(f"the trace leaves out {facts.dropped} launches")
    return [*lines, *facts.notes]


def table(facts: Profile, width: int | None = None) -> str:
    """The whole text."""
    drawn = _drawn([cells(row) for row in facts.rows], width) if facts.rows else ""
    return "\n".join([*([drawn] if drawn else []), *summary(facts)]) + "\n"


def _drawn(rows: list[tuple[str, ...]], width: int | None) -> str:
    used = [k for k, name in enumerate(COLUMNS) if name not in ("FLOP/s", "tuning") or any(r[k] != "-" for r in rows)]
    names = [COLUMNS[k] for k in used]
    rows = [tuple(row[k] for k in used) for row in rows]
    try:
        return _rich(names, rows, width)
    except ImportError:
        return plain(names, rows)


def _rich(names: list[str], rows: list[tuple[str, ...]], width: int | None) -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    made: Any = Table(box=box.SIMPLE, pad_edge=False)
    for name in names:
        made.add_column(name, justify="left" if name in ("kernel", "configuration", "cache") else "right",
                        overflow="fold", no_wrap=name not in ("kernel", "configuration"))  # fmt: skip
    for row in rows:
        made.add_row(*row)
    out = io.StringIO()
    Console(file=out, width=width or 140, color_system=None, markup=False, highlight=False).print(made)
    return "\n".join(line.rstrip() for line in out.getvalue().strip("\n").split("\n"))


def plain(names: list[str], rows: list[tuple[str, ...]]) -> str:
    """Columns of text.

    >>> print(plain(["kernel", "count"], [("add", "3"), ("softmax", "12")]))
    kernel   count
    add          3
    softmax     12
    """
    widths = [max(map(len, column)) for column in zip(names, *rows)]
    left = {k for k, name in enumerate(names) if name in ("kernel", "configuration", "cache")}
    lines = ["  ".join(text.ljust(size) if k in left else text.rjust(size)
                       for k, (text, size) in enumerate(zip(row, widths))).rstrip() for row in (names, *rows)]
    return "\n".join(lines)
