"""`python -m tritium tune`: the autotuning results of this machine, and files of them for other machines.

    python -m tritium tune list                      # functions, keys, devices, the fastest configurations
    python -m tritium tune show tuned_kernel         # every configuration with its time
    python -m tritium tune export tuned.json         # all results; a file may hold several devices
    python -m tritium tune merge tuned.json          # use them here; or set TRITIUM_TUNED=tuned.json
    python -m tritium tune forget tuned_kernel       # measure again

Results are stored by default, in the cache of compiled kernels. Exit status 2: usage error. docs/tuning.md
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from tritium.tools.command import UsageError, closest, guarded

__all__ = ["main", "parser", "records"]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"tritium tune: {message}\n")


def parser() -> argparse.ArgumentParser:
    """The command's arguments.

    >>> parser().parse_args(["export", "tuned.json", "matmul*"]).names
    ['matmul*']
    """
    p = _Parser("python -m tritium tune", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = p.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)

    def add(name: str, about: str, example: str) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.",
                                  epilog=f"example: python -m tritium tune {example}")
        one.add_argument("--json", action="store_true", help="print JSON")
        return one

    def add_names(one: argparse.ArgumentParser, needed: bool = False) -> None:
        one.add_argument("names", nargs="+" if needed else "*", metavar="NAME", help="functions, or patterns of them")
        one.add_argument("--here", action="store_true", help="only results for the devices of this machine")

    add_names(add("list", "list the results", "list --here"))
    add_names(add("show", "show every configuration with its time", "show tuned_kernel"))
    one = add("export", "write results to a file", "export tuned.json --here")
    one.add_argument("file", metavar="FILE", help="the file to write")
    add_names(one)
    one = add("merge", "use the results in files on this machine", "merge h200.json a100.json")
    one.add_argument("files", nargs="+", metavar="FILE", help="files that `export` wrote")
    one.add_argument("--dry-run", action="store_true", help="only list their contents")
    add_names(add("forget", "remove results, so that the next launch tunes again", "forget tuned_kernel"), needed=True)
    return p


def main(arguments: list[str]) -> int:
    """The command."""
    p = parser()
    args = p.parse_args(arguments)
    if args.command is None:
        p.error("say what to do: list, show, export, merge or forget; --help says more")
    bodies: dict[str, Callable[[argparse.Namespace], None]] = {
        "list": list_results, "show": show_results, "export": export, "merge": merge, "forget": forget}
    return guarded("tune", lambda: bodies[args.command](args))


# ---------------------------------------------------------------------------------------------------------------------
# What there is


def records() -> list[dict[str, Any]]:
    """All results of this cache: measured here, and merged. `origin` tells which, `place` where."""
    return [*_measured(), *_merged()]


def _measured() -> Iterator[dict[str, Any]]:
    from tritium import cache
    from tritium.runtime.shipped import identity, timings_of
    from tritium.tools.cache_contents import contents, root

    folder = root()
    for one in contents(folder):
        if one.kind != "tuning":
            continue
        name = f"{one.name}.autotune.json"
        files = cache.read_group(cache.FileCacheManager(one.key, directory=folder), name)
        text = files.read(name) if files and name in files.paths else None
        if text is None:
            continue
        try:
            record = {"function": one.name, "source": "", "device": "unknown", "signature": "", "time": one.used,
                      **json.loads(text)}
            whole = identity(record) and timings_of(record)
        except (ValueError, LookupError, TypeError):
            continue
        if whole:
            yield {**record, "origin": "measured", "place": one.key}


def _merged() -> Iterator[dict[str, Any]]:
    from tritium.runtime import shipped
    from tritium.tools.cache_contents import root

    folder = os.path.dirname(shipped.merged_path("any", root()))
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        path = os.path.join(folder, name)
        if name.endswith(".json"):
            yield from ({**record, "origin": "merged", "place": path} for record in shipped.read(path))


def _chosen(args: argparse.Namespace, needed: bool = False) -> list[dict[str, Any]]:
    found = records()
    if args.here:
        from tritium.runtime.shipped import devices

        here = devices()
        found = [record for record in found if record["device"] in here]
    known = found
    for name in args.names:
        if not any(_fits(record, name) for record in known):
            names = {part for r in known for part in (r["function"], r["function"].rpartition(".")[2])}
            raise UsageError(f"there are no results of {name!r}{closest(name, names)}; `tritium tune list` lists them")
    if args.names:
        found = [record for record in found if any(_fits(record, name) for name in args.names)]
    if needed and not found:
        raise UsageError("there are no results: launch a kernel under @triton.autotune first")
    return found


def _fits(record: dict[str, Any], name: str) -> bool:
    return any(fnmatch.fnmatchcase(text, name) for text in (record["function"],
                                                            record["function"].rpartition(".")[2]))


def _ranked(record: dict[str, Any]) -> list[tuple[str, list[float]]]:
    from tritium.runtime.shipped import timings_of

    return sorted(timings_of(record).items(), key=lambda item: item[1])


def _short(config: str) -> str:
    """A configuration without what says nothing."""
    return ", ".join(part for part in config.split(", ") if not part.endswith(": None") and part != "num_ctas: 1")


def _ms(times: list[float]) -> str:
    return "failed" if times[0] == float("inf") else f"{times[0]:.4g} ms"


def list_results(args: argparse.Namespace) -> None:
    """Print one line for each result."""
    from tritium.tools.bench.report import text_table

    found = _chosen(args)
    if args.json:
        print(json.dumps([{**record, "best": _ranked(record)[0][0] if record["configs_timings"] else None}
                          for record in found], indent=1))
        return
    if not found:
        print("no results of tuning are kept")
        return
    rows = []
    for record in found:
        best, times = (_ranked(record) or [("", [float("inf")])])[0]
        rows.append([record["function"].rpartition(".")[2], " ".join(map(str, record["key"])), _short(best), _ms(times),
                     str(len(record["configs_timings"])), record["origin"], record["device"]])
    print(text_table(["function", "key", "fastest", "time", "tried", "origin", "device"], rows))


def show_results(args: argparse.Namespace) -> None:
    """Print every configuration of some results."""
    found = _chosen(args, needed=True)
    if args.json:
        print(json.dumps(found, indent=1))
        return
    for record in found:
        print(f"{record['function']}, key {', '.join(map(str, record['key'])) or '-'}, {record['origin']}\n"
              f"  on {record['device']}\n  of {record['signature'] or 'an earlier version, which did not note more'}")
        for config, times in _ranked(record):
            spread = "" if times[0] == float("inf") else f"  ({times[1]:.4g} to {times[2]:.4g})"
            print(f"  {_ms(times):>12}  {_short(config)}{spread}")


# ---------------------------------------------------------------------------------------------------------------------
# Files


def export(args: argparse.Namespace) -> None:
    """Write results to a file."""
    from tritium.runtime import shipped

    folder = os.path.dirname(os.path.abspath(args.file))
    if not os.path.isdir(folder):
        raise UsageError(f"cannot write {args.file!r}: there is no folder {folder}")
    found = [{name: value for name, value in record.items() if name not in ("origin", "place")}
             for record in _chosen(args, needed=True) if record["source"]]
    if not found:
        raise UsageError("an earlier version kept these results, and did not note of which device they are: "
                         "`tritium tune forget` them, and measure again")
    made = shipped.merged(found)
    shipped.write(args.file, made)
    if args.json:
        print(json.dumps({"file": args.file, **_counts(made)}))
    else:
        print(f"{args.file}: {_counts_text(made)}")


def merge(args: argparse.Namespace) -> None:
    """Put the results of files into the cache."""
    from tritium import trusted_files
    from tritium.runtime import shipped
    from tritium.tools.cache_contents import root

    found = shipped.merged(*map(shipped.read, args.files))
    devices = shipped.devices()
    here = sum(record["device"] in devices for record in found)
    for function in () if args.dry_run else {record["function"] for record in found}:
        path = shipped.merged_path(function, root())
        before = shipped.read(path) if os.path.exists(path) else []
        trusted_files.make_dirs(os.path.dirname(path), 0o700)
        shipped.write(path, shipped.merged(before, [r for r in found if r["function"] == function]))
    if args.json:
        print(json.dumps({**_counts(found), "here": here, "dry_run": args.dry_run}))
    else:
        done = "would merge" if args.dry_run else "merged"
        print(f"{done} {_counts_text(found)}; {here} for the devices of this machine")


def _counts(found: list[dict[str, Any]]) -> dict[str, int]:
    return {"results": len(found), "functions": len({record["function"] for record in found}),
            "devices": len({record["device"] for record in found})}


def _counts_text(found: list[dict[str, Any]]) -> str:
    return ", ".join(f"{count} {name if count != 1 else name[:-1]}" for name, count in _counts(found).items())


def forget(args: argparse.Namespace) -> None:
    """Remove results."""
    from tritium.cache_limits import remove
    from tritium.runtime import shipped
    from tritium.tools.cache_contents import contents, root

    gone = _chosen(args)
    keys = {record["place"] for record in gone if record["origin"] == "measured"}
    for one in contents(root()):
        if one.key in keys and one.kind == "tuning":
            remove(one.entry)
    for path in {record["place"] for record in gone if record["origin"] == "merged"}:
        dropped = {shipped.identity(record) for record in gone if record["place"] == path}
        left = [record for record in shipped.read(path) if shipped.identity(record) not in dropped]
        if left:
            shipped.write(path, left)
        else:
            os.unlink(path)
    print(json.dumps({"forgotten": len(gone)}) if args.json else f"forgot {len(gone)} results")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
