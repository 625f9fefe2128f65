"""The viewer of proton's profiles: `proton-viewer -m time/ms profile.hatchet`, and the same from Python.

    tree, metrics = viewer.parse(["tflop16/s", "time/ms"], "profile.hatchet")
    viewer.print_tree(tree, metrics)
"""

from __future__ import annotations

import argparse
import html
import json
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from .tree import Node, read_document

__all__ = ["get_min_time_bytes", "get_min_time_flops", "main", "parse", "print_tree", "read", "show_metrics",
           "write_html"]  # fmt: skip

TIMES = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
AMOUNTS = {"": 1.0, "g": 1e9, "t": 1e12}
WIDTHS = ("8", "16", "32", "64")
FORMATS = ("full", "file_function_line", "function_line", "file_function")
# Operations of one multiprocessor in a cycle, from the vendor's tables: with 16-bit operands by compute capability.
_DENSE = {80: 2048, 86: 512, 89: 1024, 90: 4096, 100: 8192}


class Frame(Node):
    """A node of a tree that is looked at: `values` are the derived metrics, of the node with all below it."""

    __slots__ = ("values",)

    def __init__(self, name: str, metrics: dict[str, Any]):
        super().__init__(name)
        self.metrics, self.values = metrics, {}

    def total(self, name: str) -> float:
        """A metric of this node and all below; one that ends in (exc) is the node's own."""
        if name.endswith("(exc)"):
            return self.metrics.get(name, 0)
        return sum(node.metrics.get(name, 0) for node in self.walk() if not isinstance(node.metrics.get(name), str))


class GraphFrame:
    """A tree, with the names of hatchet's class of that name that programs use: `dataframe`, `filter`, `tree`."""

    def __init__(self, root: Frame, names: list[str]):
        self.root, self.names = root, names

    @property
    def dataframe(self) -> Any:
        """A pandas frame with one row for each node: its name, own metrics and derived ones."""
        import pandas

        rows = [{"name": node.name, **{name: node.metrics.get(name) for name in self.names}, **_values(node)}
                for node in self.root.walk()]  # fmt: skip
        return pandas.DataFrame(rows)

    def filter(self, wanted: str | Callable[[Any], bool], squash: bool = True) -> GraphFrame:
        """The tree of the nodes that a function of a row, or a query, is true for, and of those above them.

        A query is as in `MATCH ('*', c) WHERE c.'name' =~ '.*matmul.*' AND c IS LEAF`.
        """
        keep = _query(wanted) if isinstance(wanted, str) else lambda node: bool(wanted({"name": node.name,
                                                                                       **node.metrics}))
        root = _kept(self.root, keep, isinstance(wanted, str))
        return GraphFrame(root or Frame("ROOT", {}), self.names)

    def tree(self, metric_column: Any = None, depth: int = 10000, **_: Any) -> str:
        """The tree as text."""
        names = [metric_column] if isinstance(metric_column, str) else list(metric_column or self.names[:1])
        return "\n".join(_lines(self.root, names, depth, None, False))

    def __str__(self) -> str:
        return self.tree()


def _values(node: Node) -> dict[str, Any]:
    return node.values if isinstance(node, Frame) else {}


def _query(text: str) -> Callable[[Node], bool]:
    condition = re.search(r"\bWHERE\b(.*)", text, re.S | re.I)
    tests: list[Callable[[Node], bool]] = []
    for part in re.split(r"\bAND\b", condition[1] if condition else ""):
        matched = re.search(r"""['"]name['"]\s*=~\s*(['"])(.*)\1""", part)
        if matched:
            tests.append(lambda node, pattern=matched[2]: re.match(pattern, node.name) is not None)
        elif re.search(r"\bIS\s+LEAF\b", part):
            tests.append(lambda node: not node.children)
        else:
            raise ValueError(f"the viewer cannot read {part.strip() or text!r}: conditions are c.'name' =~ '...' and "
                             "c IS LEAF, joined by AND; pass a function of a row for others")
    return lambda node: all(test(node) for test in tests)


def _kept(node: Frame, keep: Callable[[Node], bool], alone: bool) -> Frame | None:
    """The part of a tree with what is kept; `alone`: nothing else counts, not even those above."""
    below = [made for child in node.children.values() if (made := _kept(_frame(child), keep, alone)) is not None]
    own = keep(node)
    if not own and not below:
        return None
    made = Frame(node.name, node.metrics if own or not alone else {})
    made.values = node.values
    made.children = {child.name: child for child in below}
    return made


def _frame(node: Node) -> Frame:
    if isinstance(node, Frame):
        return node
    made = Frame(node.name, node.metrics)
    made.children = {child.name: _frame(child) for child in node.children.values()}
    return made


# -- reading -----------------------------------------------------------------------------------------------------------


def read(filename: str) -> tuple[GraphFrame, list[str], list[str], dict[str, Any]]:
    """(tree, metrics that add up over a tree, metrics of single nodes, devices) of a file.

    >>> import tempfile; path = tempfile.mkstemp()[1]
    >>> json.dump([{"frame": {"name": "ROOT"}, "metrics": {"bytes": 8}, "children": []}, {}], open(path, "w"))
    >>> read(path)[1:]
    (['bytes'], [], {})
    """
    with open(filename) as file:
        try:
            node, devices = read_document(json.load(file))
        except ValueError as error:
            raise ValueError(f"{filename} is no profile of proton: {error}") from None
    root = _frame(node)
    names = list(dict.fromkeys(name for found in root.walk() for name, value in found.metrics.items()
                               if not isinstance(value, str)))  # fmt: skip
    exclusive = [name for name in names if name.endswith("(exc)")]
    return GraphFrame(root, names), [name for name in names if name not in exclusive], exclusive, devices


def _metrics_of(names: list[str]) -> list[str]:
    """The derived metrics that a file with these has."""
    found = []
    for own, shown in (("time (ns)", "time"), ("cpu_time (ns)", "cpu_time")):
        if own in names:
            found += [f"{kind}/{unit}" for kind in (shown, f"avg_{shown}") for unit in TIMES]
            found.append(f"{shown}/%")
    if "time (ns)" in names:
        for width in ("", *WIDTHS):
            if f"flops{width}" in names or not width and any(f"flops{w}" in names for w in WIDTHS):
                found += [f"{letter}flop{width}/s" for letter in AMOUNTS]
        if "bytes" in names:
            found += [f"{letter}byte/s" for letter in AMOUNTS]
        if "bytes" in names or any(name.startswith("flops") for name in names):
            found.append("util")
    return [*found, *names]


def _derive(metric: str, node: Frame, root: Frame, devices: dict[str, Any]) -> float | None:
    timed = re.fullmatch(r"(avg_)?(cpu_)?time/(s|ms|us|ns|%)", metric)
    if timed:
        own = f"{timed[2] or ''}time (ns)"
        total = node.total(own)
        if timed[3] == "%":
            whole = root.total(own)
            return 100 * total / whole if whole else None
        count = node.total("count") if timed[1] else 1
        return total / TIMES[timed[3]] / count if count else None
    rate = re.fullmatch(r"([gt]?)(flop|byte)(8|16|32|64|)/s", metric)
    if rate:
        seconds = node.total("time (ns)") / 1e9
        amount = _amount(node, rate[2], rate[3])
        return amount / AMOUNTS[rate[1]] / seconds if seconds else None
    if metric == "util":
        spent, least = node.total("time (ns)"), _least(node, devices)
        return least / spent if spent and least is not None else None
    return node.total(metric)


def _amount(node: Frame, kind: str, width: str) -> float:
    if kind == "byte":
        return node.total("bytes")
    return node.total(f"flops{width}") if width else sum(node.total(f"flops{w}") for w in ("", *WIDTHS))


# -- what a device could do --------------------------------------------------------------------------------------------


def _peaks(device: dict[str, Any]) -> tuple[float, float] | None:
    """(operations with 16-bit operands, bytes) per nanosecond at most, of a GPU that is described in a file."""
    arch = re.match(r"\d+", str(device.get("arch", "")))
    known = [capability for capability in _DENSE if arch and capability <= int(arch[0])]
    if not known or not device.get("memory_clock_rate"):
        return None
    flops = device["num_sms"] * device["clock_rate"] * 1e3 * _DENSE[max(known)] / 1e9
    return flops, device["memory_clock_rate"] * 1e3 * 2 * device["bus_width"] / 8 / 1e9


def _floor(metrics: dict[str, Any], devices: dict[str, Any]) -> tuple[float, float] | None:
    """(nanoseconds that the operations take at least, and the bytes) of one node's own metrics."""
    device = (devices.get(str(metrics.get("device_type"))) or {}).get(str(metrics.get("device_id")))
    peaks = _peaks(device) if device else None
    if peaks is None:
        return None
    scale = {"8": 2.0, "16": 1.0, "32": 0.5, "64": 0.0625, "": 1.0}
    flops = sum((metrics.get(f"flops{width}") or 0) / (peaks[0] * factor) for width, factor in scale.items())
    return flops, (metrics.get("bytes") or 0) / peaks[1]


def _least(node: Frame, devices: dict[str, Any]) -> float | None:
    found = [floor for part in node.walk() if (floor := _floor(part.metrics, devices)) is not None]
    return sum(map(max, found)) if found else None


def get_min_time_flops(df: Any, device_info: dict[str, Any]) -> Any:
    """A frame with the column `min_time`: nanoseconds that each row's operations take at least on its device."""
    return _minima(df, device_info, 0)


def get_min_time_bytes(df: Any, device_info: dict[str, Any]) -> Any:
    """A frame with the column `min_time`: nanoseconds that each row's bytes take at least on its device."""
    return _minima(df, device_info, 1)


def _minima(df: Any, devices: dict[str, Any], which: int) -> Any:
    import pandas

    rows = [_floor(dict(row), devices) for _, row in df.iterrows()]
    return pandas.DataFrame({"min_time": [row[which] if row else 0.0 for row in rows]}, index=df.index)


# -- showing -----------------------------------------------------------------------------------------------------------


def parse(metrics: list[str] | None, filename: str, include: str | None = None, exclude: str | None = None,
          threshold: float | None = None) -> tuple[GraphFrame, list[str]]:
    """The tree of a file with derived metrics, and their names.

    `include` and `exclude` are patterns of names: paths through a match alone, or all that is below none. Nodes with
    less than `threshold` of the first metric's largest value are left out.
    """
    tree, inclusive, exclusive, devices = read(filename)
    known = _metrics_of([*inclusive, *exclusive])
    usual = [name for name in ("time/ns", "cpu_time/ns", *known) if name in known][:1]
    wanted = list(metrics) if metrics else usual
    for name in wanted:
        if name not in known:
            raise ValueError(f"{filename} has no metric {name!r}: it has {', '.join(known) or 'none'}")
    root = tree.root
    for node in list(root.walk()):
        frame: Any = node
        frame.values = {name: _derive(name, frame, root, devices) for name in wanted}
    if include is not None:
        root = _through(root, re.compile(include)) or Frame(root.name, {})
    if exclude is not None:
        root = _without(root, re.compile(exclude))
    if threshold is not None and wanted:
        largest = max((_values(node).get(wanted[0]) or 0 for node in root.walk()), default=0)
        root = _above(root, wanted[0], threshold * largest)
    return GraphFrame(root, [*inclusive, *exclusive]), wanted


def _rebuilt(node: Frame, children: list[Frame]) -> Frame:
    made = Frame(node.name, node.metrics)
    made.values = node.values
    made.children.update({child.name: child for child in children})
    return made


def _through(node: Frame, pattern: re.Pattern) -> Frame | None:
    if pattern.search(node.name):
        return node
    below = [made for child in node.children.values() if (made := _through(_frame(child), pattern)) is not None]
    return _rebuilt(node, below) if below else None


def _without(node: Frame, pattern: re.Pattern) -> Frame:
    return _rebuilt(node, [_without(_frame(child), pattern) for child in node.children.values()
                           if not pattern.search(child.name)])  # fmt: skip


def _above(node: Frame, metric: str, least: float) -> Frame:
    return _rebuilt(node, [_above(_frame(child), metric, least) for child in node.children.values()
                           if (_values(child).get(metric) or 0) >= least])  # fmt: skip


def _named(name: str, style: str | None) -> str:
    """The name of a frame, `file:function@line`, in one of FORMATS.

    >>> _named("dir/k.py:run@7", "function_line"), _named("dir/k.py:run@7", "file_function"), _named("add", "full")
    ('run@7', 'k.py:run', 'add')
    """
    parts = re.fullmatch(r"(.*):([^:@]+)@(\d+)", name)
    if parts is None or style in (None, "full"):
        return name
    file = parts[1].rpartition("/")[2]
    return {"file_function_line": f"{file}:{parts[2]}@{parts[3]}", "function_line": f"{parts[2]}@{parts[3]}",
            "file_function": f"{file}:{parts[2]}"}[style or ""]  # fmt: skip


def _lines(root: Frame, names: list[str], depth: int, style: str | None, ordered: bool, bar: str = "",
           branch: str = "") -> Iterator[str]:
    shown = [_values(root).get(name, root.metrics.get(name)) for name in names]
    texts = [f"{value:.3f}" if isinstance(value, int | float) else "nan" for value in shown]
    yield f"{branch}{' '.join([*texts, _named(root.name, style)])}"
    children = list(root.children.values()) if depth > 0 else []
    if ordered and names:
        children.sort(key=lambda node: -(_values(node).get(names[0]) or 0))
    for k, child in enumerate(children):
        last = k == len(children) - 1
        yield from _lines(_frame(child), names, depth - 1, style, ordered, bar + ("   " if last else "│  "),
                          bar + ("└─ " if last else "├─ "))  # fmt: skip


def print_tree(gf: GraphFrame, metrics: list[str], depth: int = 100, format: str | None = None,
               print_sorted: bool = False) -> None:
    """Print a tree: each node's metrics, and its name."""
    if format is not None and format not in FORMATS:
        raise ValueError(f"there is no format {format!r}: it is one of {', '.join(FORMATS)}")
    print("\n".join(_lines(gf.root, list(metrics), depth, format, print_sorted)))
    if print_sorted and metrics:
        leaves = (node for node in gf.root.walk() if not node.children)
        rows = sorted(((_values(node).get(metrics[0]) or 0, node.name) for node in leaves), reverse=True)
        print(f"\nby {metrics[0]}:\n" + "\n".join(f"{value:12.3f}  {_named(name, format)}" for value, name in rows))


def show_metrics(file_name: str) -> None:
    """Print the metrics that a file has, and those derived from them."""
    _, inclusive, exclusive, _ = read(file_name)
    print("\n".join(_metrics_of([*inclusive, *exclusive])))


def write_html(gf: GraphFrame, metrics: list[str], filename: str) -> None:
    """Write a tree as a page that loads nothing else."""
    text = html.escape("\n".join(_lines(gf.root, list(metrics), 1000, None, False)))
    with open(filename, "w", encoding="utf-8") as file:
        file.write("<!doctype html><html lang=en><meta charset=utf-8><style>:root { color-scheme: light dark }</style>"
                   f"<title>proton</title><h1>{html.escape(', '.join(metrics))}</h1><pre>{text}</pre></html>\n")


# -- the command -------------------------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"proton-viewer: {message}\n")


def parser() -> argparse.ArgumentParser:
    """The command's arguments.

    >>> parser().parse_args(["-m", "time/ms,util", "p.hatchet"]).metrics
    'time/ms,util'
    """
    p = _Parser("proton-viewer", description="Show a profile that proton wrote.")
    p.add_argument("-l", "--list", action="store_true", help="list the metrics of the file")
    p.add_argument("-m", "--metrics", help="metrics, separated by commas: time/ms, tflop16/s, gbyte/s, util, ...")
    p.add_argument("-i", "--include", help="show only paths through names that match a pattern")
    p.add_argument("-x", "--exclude", help="leave out names that match a pattern, and all below them")
    p.add_argument("-t", "--threshold", type=float, help="leave out what has less than this share of the largest value")
    p.add_argument("-d", "--depth", type=int, default=100, help="levels to show")
    p.add_argument("-f", "--format", choices=FORMATS, default="full", help="how frames of Python are written")
    p.add_argument("--print-sorted", action="store_true", help="sort by the first metric, and list the leaves by it")
    p.add_argument("-df", "--diff-profile", metavar="FILE", help="subtract the metrics of another profile")
    p.add_argument("profile", metavar="FILE.hatchet")
    return p


def main(arguments: list[str] | None = None) -> int:
    """`proton-viewer`."""
    args = parser().parse_args(arguments)
    try:
        if args.list:
            show_metrics(args.profile)
            return 0
        metrics = args.metrics.split(",") if args.metrics else None
        tree, names = parse(metrics, args.profile, args.include, args.exclude, args.threshold)
        if args.diff_profile:
            _subtract(tree.root, parse(names, args.diff_profile, args.include, args.exclude)[0].root)
        print_tree(tree, names, args.depth, args.format, args.print_sorted)
    except (OSError, ValueError, re.error) as error:
        told = f"cannot open {error.filename!r}: {error.strerror}" if isinstance(error, OSError) else error
        print(f"proton-viewer: {told}", file=sys.stderr)
        return 2
    return 0


def _subtract(node: Frame, other: Node) -> None:
    """Take another tree's values from those at the same places."""
    for name, value in _values(other).items():
        if value is not None:
            node.values[name] = (node.values.get(name) or 0) - value
    for name, child in other.children.items():
        if name in node.children:
            _subtract(_frame(node.children[name]), child)


if __name__ == "__main__":
    sys.exit(main())
