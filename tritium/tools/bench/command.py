"""`python -m tritium bench`: benchmark kernels against torch, Triton, ..., keep the results, compare runs.

    python -m tritium bench list
    python -m tritium bench run softmax matmul --against torch,inductor --threads 2
    python -m tritium bench run --device cuda --against torch,triton --seconds 300 --json h200.json
    python -m tritium bench run my_benchmarks.py --plot mine.png
    python -m tritium bench history
    python -m tritium bench compare                # the last run with the previous one
    python -m tritium bench compare main -1 --json -

Exit status: 1 if a result is wrong or a kernel became slower; 2 for a usage error. docs/bench.md
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from tritium.tools.command import UsageError, closest, guarded

__all__ = ["main", "parser"]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"tritium bench: {message}\n")


def parser() -> argparse.ArgumentParser:
    """The command's arguments.

    >>> parser().parse_args(["run", "softmax", "--against", "torch,numpy"]).against
    ['torch', 'numpy']
    """
    p = _Parser("python -m tritium bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = p.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    one = commands.add_parser("list", help="list the benchmarks", description="List the benchmarks.",
                              epilog="example: python -m tritium bench list --json -")
    one.add_argument("names", nargs="*", metavar="NAME", help="names, patterns, or a file of your own")
    _json(one)
    _add_run(commands)
    one = commands.add_parser("history", help="list the stored runs", description="List the stored runs.",
                              epilog="example: python -m tritium bench history")
    _history(one)
    _json(one)
    one = commands.add_parser("compare", help="show what became slower or faster",
                              description="Compare two runs; default: the last one with the previous one.",
                              epilog="example: python -m tritium bench compare -2 -1")
    one.add_argument("runs", nargs="*", metavar="RUN", help="an id, a label, a number (-1: the last), or a JSON file")
    _history(one)
    _json(one)
    return p


def _history(p: argparse.ArgumentParser) -> None:
    p.add_argument("--history", metavar="FILE",
                   help="the file of stored runs; default: in the cache of compiled kernels")


def _json(p: argparse.ArgumentParser) -> None:
    p.add_argument("--json", metavar="FILE", help="write JSON; - prints it instead of the table")


def _words(text: str) -> list[str]:
    found = [word.strip() for word in text.split(",") if word.strip()]
    if not found:
        raise argparse.ArgumentTypeError("names are separated by commas")
    return found


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no positive number")
    return int(text)


def _sizes(text: str) -> list[int]:
    return [_count(word) for word in _words(text)]


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no positive number of seconds")
    return value


def _add_run(commands: Any) -> None:
    p = commands.add_parser("run", help="check and measure",
                            description="Check the results of benchmarks and measure them against rivals.",
                            epilog="example: python -m tritium bench run softmax --against torch --iterations 50")
    p.add_argument("names", nargs="*", metavar="NAME",
                   help="names, patterns (soft*), groups, or files of your own; default: all")
    p.add_argument("--iterations", type=_count, metavar="N", help="rounds, each with one sample of every rival")
    p.add_argument("--warmup", type=_count, default=3, metavar="N",
                   help="untimed calls before the first round (default: 3)")
    p.add_argument("--device", choices=("cpu", "cuda"), help="default: the GPU if there is one")
    p.add_argument("--threads", type=_count, metavar="N", help="CPU threads, for rivals too")
    p.add_argument("--processor-time", action="store_true",
                   help="CPU time of one thread instead of wall time, for a busy machine")
    p.add_argument("--against", type=_words, metavar="A,B",
                   help="rivals: torch (default), inductor, triton, numba, numpy, or none")
    p.add_argument("--size", type=_sizes, metavar="N,M", help="sizes instead of the default ones")
    p.add_argument("--dtype", type=_words, metavar="T,U", help="dtypes instead of the default ones")
    p.add_argument("--seconds", type=_positive, metavar="S", help="time limit of the whole run; later rows are skipped")
    p.add_argument("--label", default="", help="a name for the run, to refer to in `compare`")
    p.add_argument("--compare", action="store_true", help="compare with the last stored run of the same rows")
    p.add_argument("--csv", metavar="FILE", help="write CSV; - prints it instead of the table")
    p.add_argument("--plot", metavar="FILE", help="draw the ratios: .png, .svg or .pdf")
    p.add_argument("--no-limit", action="store_true", help="do not measure the peak rates of the machine")
    p.add_argument("--no-history", action="store_true", help="do not store the run")
    p.add_argument("--quiet", "-q", action="store_true", help="no progress on stderr")
    _history(p)
    _json(p)


def main(arguments: list[str]) -> int:
    """The command."""
    p = parser()
    args = p.parse_args(_protected(arguments))
    if args.command is None:
        p.error("say what to do: list, run, history or compare; --help says more")
    bodies: dict[str, Callable[[argparse.Namespace], int | None]] = {
        "list": list_targets, "run": run_targets, "history": list_runs, "compare": compare_runs}
    return guarded("bench", lambda: bodies[args.command](args))


def _protected(arguments: list[str]) -> list[str]:
    """`compare -2 -1`: numbers of runs are no options."""
    if arguments[:1] != ["compare"]:
        return arguments
    minus = [k for k, word in enumerate(arguments) if word[:1] == "-" and word[1:].isdigit()]
    return [word for k, word in enumerate(arguments) if k not in minus] + \
        (["--", *(arguments[k] for k in minus)] if minus else [])


# ---------------------------------------------------------------------------------------------------------------------
# What to measure


def chosen(names: list[str]) -> list[Any]:
    """The targets of some names: of the collection, by name, pattern or group; of files, all that they register.

    >>> [target.name for target in chosen(["softmax_p*"])]
    ['softmax_persistent']
    """
    from tritium.tools.bench.targets import collected

    known = collected()
    found: dict[str, Any] = {} if names else dict(known)
    for name in names:
        if name.endswith(".py") or os.sep in name:
            found.update((target.name, target) for target in _of_file(name))
            continue
        hits = {name: known[name]} if name in known else {
            key: t for key, t in known.items() if fnmatch.fnmatchcase(key, name) or t.group == name}
        if not hits:
            words = [*known, *(target.group for target in known.values())]
            raise UsageError(f"there is no benchmark {name!r}{closest(name, words)}; `tritium bench list` lists them")
        found.update(hits)
    return list(found.values())


def _of_file(path: str) -> list[Any]:
    import tritium
    from tritium.tools.bench.files import Loader
    from tritium.tools.bench.targets import targets_in
    from tritium.tools.command import ProgramError, show_failure

    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        module = Loader(tritium).file(path)
    except OSError as error:
        if error.filename is not None and os.path.abspath(error.filename) == os.path.abspath(path):
            raise UsageError(f"cannot open {path!r}: {error.strerror}") from None
        raise ProgramError(show_failure(error)) from None
    except Exception as error:
        raise ProgramError(show_failure(error)) from None
    finally:
        sys.path.pop(0)
    found = targets_in(vars(module), path)
    if not found:
        raise UsageError(f"{path} has no benchmark: decorate a function with tritium.tools.bench.benchmark, or with "
                         "triton.testing.perf_report")
    return found


def list_targets(args: argparse.Namespace) -> None:
    """Print what can be measured."""
    from tritium.tools.bench.report import show

    targets = chosen(args.names)
    if args.json:
        _write(args.json, json.dumps([{"name": t.name, "title": t.title, "group": t.group, "size_is": t.size_is,
                                       "sizes": {key: list(value) for key, value in t.sizes.items()},
                                       "dtypes": list(t.dtypes)} for t in targets], indent=1))
    if args.json != "-":
        rows = [[t.name, t.group, t.title, ", ".join(map(str, t.sizes.get("cpu", ()))),
                 ", ".join(map(str, t.sizes.get("cuda", ()))), ", ".join(t.dtypes)] for t in targets]
        show(["name", "group", "what", "size, cpu", "size, cuda", "dtypes"], rows)


# ---------------------------------------------------------------------------------------------------------------------
# Measuring


def run_targets(args: argparse.Namespace) -> int:
    """Measure, print, write files, keep the run."""
    from tritium.tools.bench import comparing, history, report
    from tritium.tools.bench.peers import Rivals
    from tritium.tools.bench.running import Settings, plan, run

    _check_files(args)
    if args.processor_time and (args.threads or 1) != 1:
        raise UsageError("--processor-time is that of one thread: leave --threads out")
    if args.processor_time:
        args.threads, args.no_limit = 1, True  # limits are measured by the time that passes
    if args.threads:
        os.environ["OMP_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = str(args.threads)
    targets = chosen(args.names)
    device = _device(args.device)
    if args.processor_time and device == "cuda":
        raise UsageError("--processor-time is for kernels on the CPU: write --device cpu")
    rivals = Rivals([] if args.against == ["none"] else args.against, device)
    threads = _set_threads(args.threads, rivals.torch)
    rows = plan(targets, device, args.size, args.dtype)
    if not rows:
        raise UsageError(f"none of these benchmarks is for {', '.join(args.dtype or [device])}")
    settings = Settings(device, threads, args.iterations, args.warmup, args.seconds, not args.no_limit, args.label,
                        args.processor_time)
    with _progress(len(rows), args.quiet) as told:
        done = run(rows, rivals, settings, told)
    kept = args.history or history.default_path()
    before = comparing.latest_pair([*history.read(kept), done]) if args.compare else None
    if not args.no_history:
        history.append(done, kept)
    columns, cells, remarks = report.table(done)
    if "-" not in (args.json, args.csv):
        clock = "processor time of one thread" if args.processor_time else f"{threads} threads"
        report.show(columns, cells, f"{done['machine']['device']}, {device}, {clock}; run {done['id']}")
        print("".join(f"\n{remark}" for remark in remarks))
    else:
        print("".join(f"{remark}\n" for remark in remarks), end="", file=sys.stderr)
    for path, text in ((args.json, lambda: json.dumps(done, indent=1)), (args.csv, lambda: report.csv_text(done))):
        if path:
            _write(path, text())
    if args.plot:
        report.plot(done, args.plot)
    slower = before is not None and _show_changes(*before, sys.stderr if "-" in (args.json, args.csv) else sys.stdout)
    return int(slower or any(row["correct"] is False for row in done["rows"]))


def _check_files(args: argparse.Namespace) -> None:
    """Find out before the measurement what could not be written after it."""
    for path in filter(None, (args.json, args.csv, args.plot, args.history)):
        folder = os.path.dirname(os.path.abspath(path))
        if path != "-" and not os.path.isdir(folder):
            raise UsageError(f"cannot write {path!r}: there is no folder {folder}")
    if args.json == args.csv == "-":
        raise UsageError("one of --json and --csv can be printed: name a file for the other")
    if args.plot:
        if os.path.splitext(args.plot)[1] not in (".png", ".svg", ".pdf"):
            raise UsageError(f"--plot writes .png, .svg and .pdf, not {args.plot!r}")
        import importlib.util

        if importlib.util.find_spec("matplotlib") is None:
            raise UsageError("--plot needs matplotlib: pip install matplotlib")


def _device(wanted: str | None) -> str:
    from tritium.backends.driver import driver
    from tritium.tools.demo import import_torch

    torch = import_torch()
    has_gpu = torch is not None and torch.cuda.is_available()
    if wanted == "cuda" and not has_gpu:
        raise UsageError("there is no GPU here that torch can use: leave --device out, or write --device cpu")
    usual = "cuda" if has_gpu and driver.active.get_current_target().backend != "cpu" else "cpu"
    return wanted or usual


def _set_threads(wanted: int | None, torch: Any) -> int:
    import tritium

    if wanted:
        tritium.set_num_threads(wanted)
        if torch is not None:
            torch.set_num_threads(wanted)
    return tritium.get_num_threads()


@contextlib.contextmanager
def _progress(total: int, quiet: bool) -> Iterator[Callable[[int, Any, Any], None]]:
    """What is told of rows: a bar on a terminal, by rich; lines elsewhere."""
    if quiet:
        yield lambda number, row, done: None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError:
        Progress: Any = None
    if Progress is None or not sys.stderr.isatty():
        def line(number: int, row: Any, done: Any) -> None:
            if done is None:
                size = "" if row.size is None else f" {row.size}"
                print(f"[{number + 1}/{total}] {row.target.name}{size} {row.dtype}", file=sys.stderr, flush=True)

        yield line
        return
    bar = Progress(TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"),
                   TimeElapsedColumn(), console=Console(stderr=True), transient=True)
    with bar:
        task = bar.add_task("", total=total)
        yield lambda number, row, done: bar.update(
            task, completed=number + (done is not None), description=f"{row.target.name} {row.dtype}")


def _write(path: str, text: str) -> None:
    if path == "-":
        print(text.rstrip("\n"))
        return
    with open(path, "w") as file:
        file.write(text if text.endswith("\n") else text + "\n")


# ---------------------------------------------------------------------------------------------------------------------
# Runs that were kept


def list_runs(args: argparse.Namespace) -> None:
    """Print the runs that were kept."""
    from tritium.tools.bench import history
    from tritium.tools.bench.report import show

    path = args.history or history.default_path()
    runs = history.read(path)
    if args.json:
        _write(args.json, json.dumps([{**run, "rows": len(run["rows"])} for run in runs], indent=1))
    if args.json == "-":
        return
    if not runs:
        print(f"no run is kept in {path}: `python -m tritium bench run` makes one")
        return
    rows = [[str(k), run["id"], run.get("label", ""), _when(run), run.get("machine", {}).get("device", ""),
             str(run.get("threads", "")), str(len(run["rows"]))] for k, run in enumerate(runs)]
    show(["", "id", "label", "when", "device", "threads", "rows"], rows)


def _when(run: dict[str, Any]) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(run.get("time", 0)))


def compare_runs(args: argparse.Namespace) -> int:
    """Print what changed between two runs; 1 if something became slower or wrong."""
    from tritium.tools.bench import comparing, history

    path = args.history or history.default_path()
    before, after = _pair(args.runs, history.read(path), path)
    found = comparing.changes(before, after)
    if args.json:
        _write(args.json, json.dumps({"before": before["id"], "after": after["id"], "changes": [
            {**change._asdict(), "ratio": change.ratio and change.ratio._asdict()} for change in found]}, indent=1))
    if args.json != "-":
        _show_changes(before, after, sys.stdout)
    return int(any(change.is_regression for change in found))


def _show_changes(before: dict[str, Any], after: dict[str, Any], file: Any) -> bool:
    """Print what changed; whether something became slower or wrong."""
    from tritium.tools.bench.comparing import changes
    from tritium.tools.bench.report import changes_table, show

    found = changes(before, after)
    print(file=file)
    show(*changes_table(found), title=f"{_named(before)} -> {_named(after)}", file=file)
    slower = [change.name for change in found if change.is_regression]
    untold = sum(change.verdict in ("noisy", "unclear") for change in found)
    print(f"\n{len(slower)} became slower or wrong{': ' + ', '.join(slower) if slower else ''}"
          + (f"; {untold} cannot be judged: too noisy" if untold else ""), file=file)
    return bool(slower)


def _named(run: dict[str, Any]) -> str:
    return f"{run['id']} {run['label']}".strip() if run.get("label") else run["id"]


def _pair(wanted: list[str], runs: list[dict[str, Any]], path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    from tritium.tools.bench import comparing, history

    if len(wanted) > 2:
        raise UsageError(f"two runs are compared, not {len(wanted)}")
    if len(wanted) < 2 and not runs:
        raise UsageError(f"no run is kept in {path}: `python -m tritium bench run` makes one")
    if not wanted:
        found = comparing.latest_pair(runs)
        if found is None:
            raise UsageError(f"{path} has no two runs of one machine with a benchmark in common: name two")
        return found

    def one(word: str) -> dict[str, Any]:
        if os.path.isfile(word):
            inside = history.read(word)
            if not inside:
                raise UsageError(f"{word} holds no run: `tritium bench run --json FILE` writes one")
            return inside[-1]
        return history.pick(runs, word, path)

    first = one(wanted[0])
    return (first, one(wanted[1])) if len(wanted) == 2 else (first, runs[-1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
