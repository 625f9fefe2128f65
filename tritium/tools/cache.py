"""`python -m tritium cache`: list, verify, clear and limit the cache of compiled kernels.

    python -m tritium cache stats                    # sizes, counts and location
    python -m tritium cache list "softmax*"          # kernels, tuning results and parts
    python -m tritium cache verify                   # read every entry; exit status 1 if one is damaged
    python -m tritium cache clear --older-than 30d   # or: NAME ..., --kind tuning, --all
    python -m tritium cache limit 2G                 # set a permanent size limit; without a size: show it

The cache is TRITIUM_CACHE_DIR (~/.triton/cache). Exit status 2: usage error. docs/cache.md
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NoReturn

from tritium.tools.command import UsageError, guarded

__all__ = ["main", "parser"]

_AGES = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"tritium cache: {message}\n")


def _age(text: str) -> float:
    found = re.fullmatch(r"(\d+)([mhdw])", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no age: write 30m, 12h, 7d or 4w")
    return int(found[1]) * _AGES[found[2]]


def parser() -> argparse.ArgumentParser:
    """The command's arguments.

    >>> parser().parse_args(["clear", "--older-than", "2h"]).older_than
    7200
    """
    from tritium.tools.cache_contents import KINDS

    p = _Parser("python -m tritium cache", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = p.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)

    def add(name: str, about: str, example: str) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.",
                                  epilog=f"example: python -m tritium cache {example}")
        one.add_argument("--json", action="store_true", help="print JSON")
        return one

    add("stats", "show sizes, counts and location", "stats --json")
    one = add("list", "list entries, the most recently used first", 'list "softmax*" --sort size')
    one.add_argument("names", nargs="*", metavar="NAME", help="names or patterns of kernels, or keys")
    one.add_argument("--kind", choices=KINDS, help="only such entries")
    one.add_argument("--sort", choices=("used", "size", "name"), default="used", help="the order (default: used)")
    one = add("verify", "read every entry as a launch would, and report damaged ones", "verify --remove")
    one.add_argument("--remove", action="store_true", help="remove damaged entries; they are recreated when needed")
    one = add("clear", "remove entries", "clear --older-than 30d")
    one.add_argument("names", nargs="*", metavar="NAME", help="names or patterns of kernels, or keys")
    one.add_argument("--kind", choices=KINDS, help="only such entries")
    one.add_argument("--older-than", type=_age, metavar="AGE", help="not used for this long: 30m, 12h, 7d, 4w")
    one.add_argument("--all", action="store_true", help="all entries")
    one.add_argument("--dry-run", action="store_true", help="only print what would be removed")
    one = add("limit", "show the size limit, or set it and evict entries", "limit 2G")
    one.add_argument("size", nargs="?", help="512M, 8G; 0 is no limit; `usual` is 8G")
    return p


def main(arguments: list[str]) -> int:
    """The command."""
    p = parser()
    args = p.parse_args(arguments)
    if args.command is None:
        p.error("say what to do: stats, list, verify, clear or limit; --help says more")
    bodies: dict[str, Callable[[argparse.Namespace], int | None]] = {
        "stats": stats, "list": list_entries, "verify": verify_entries, "clear": clear, "limit": limit}
    return guarded("cache", lambda: bodies[args.command](args))


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=1))


def stats(args: argparse.Namespace) -> None:
    """Print how much there is."""
    from tritium import knobs
    from tritium.insight.explain.units import bytes_text
    from tritium.tools.cache_contents import KINDS, contents, root

    folder = root()
    held = contents(folder)
    kinds = {kind: {"entries": sum(one.kind == kind for one in held),
                    "bytes": sum(one.size for one in held if one.kind == kind)} for kind in KINDS}
    targets = Counter(one.target for one in held if one.target)
    size = sum(one.size for one in held)
    layers = [layer for layer in knobs.cache.read_only_dirs.split(os.pathsep) if layer]
    if args.json:
        _print_json({"folder": folder, "entries": len(held), "bytes": size, "limit": knobs.cache.max_size,
                     "kinds": kinds, "targets": targets, "read_only": layers})
        return
    print(f"{folder}: {len(held)} entries, {bytes_text(size)} of {_limit_text(knobs.cache.max_size)}")
    for kind, what in zip(KINDS, ("compiled kernels", "results of tuning", "parts of tritium")):
        print(f"  {kinds[kind]['entries']:>6} {what}, {bytes_text(kinds[kind]['bytes'])}")
    for target, count in targets.most_common():
        print(f"  {count:>6} kernels for {target}")
    if held:
        print(f"  used last {_ago(held[0].used)}, used longest ago {_ago(held[-1].used)}")
    for layer in layers:
        print(f"  also read: {layer}")


def _limit_text(size: int) -> str:
    from tritium.insight.explain.units import bytes_text

    return bytes_text(size) if size else "any number of bytes"


def _ago(when: float) -> str:
    seconds = max(time.time() - when, 0)
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{seconds:.0f} seconds ago"


def list_entries(args: argparse.Namespace) -> None:
    """Print the entries."""
    from tritium.insight.explain.units import bytes_text
    from tritium.tools.bench.report import text_table
    from tritium.tools.cache_contents import contents, matching, root

    held = list(matching(contents(root()), args.names, args.kind))
    if args.sort != "used":
        held.sort(key=lambda one: -one.size if args.sort == "size" else one.name)
    if args.json:
        _print_json([one.facts() for one in held])
        return
    if not held:
        print("no entry" + (f" fits {' '.join(args.names)}" if args.names else ""))
        return
    print(text_table(["name", "kind", "target", "size", "used", "key"],
                     [[one.name, one.kind, one.target, bytes_text(one.size), _ago(one.used), one.key] for one in held]))


def verify_entries(args: argparse.Namespace) -> int:
    """Check all entries; 1 if one is not whole and is still there."""
    from tritium.cache_limits import count_again, remove
    from tritium.tools.cache_contents import contents, root, verify

    folder = root()
    held = contents(folder)
    wrong = [(one, fault) for one in held if (fault := verify(one, folder))]
    if args.remove:
        for one, _ in wrong:
            remove(one.entry)
        count_again(folder)
    if args.json:
        _print_json({"folder": folder, "entries": len(held), "removed": args.remove,
                     "wrong": [{**one.facts(), "fault": fault} for one, fault in wrong]})
        return int(bool(wrong) and not args.remove)
    for one, fault in wrong:
        print(f"{one.name} ({one.kind}) in {one.key}: {fault}")
    verdict = f"{len(wrong)} not whole" if wrong else "all whole"
    done = ", removed" if wrong and args.remove else "; --remove removes them" if wrong else ""
    print(f"{len(held)} entries in {folder}: {verdict}{done}")
    return int(bool(wrong) and not args.remove)


def clear(args: argparse.Namespace) -> None:
    """Remove what was asked for."""
    from tritium.cache_limits import count_again, remove
    from tritium.insight.explain.units import bytes_text
    from tritium.tools.cache_contents import contents, matching, root

    if not (args.all or args.names or args.kind or args.older_than is not None):
        raise UsageError("say what to remove: names, --kind, --older-than or --all")
    folder = root()
    before = None if args.older_than is None else time.time() - args.older_than
    gone = list(matching(contents(folder), args.names, args.kind, before))
    if not args.dry_run:
        for one in gone:
            remove(one.entry)
        count_again(folder)
    size = sum(one.size for one in gone)
    if args.json:
        _print_json({"folder": folder, "dry_run": args.dry_run, "bytes": size, "entries": [o.facts() for o in gone]})
        return
    print(f"{'would remove' if args.dry_run else 'removed'} {len(gone)} entries, {bytes_text(size)}, from {folder}")


def limit(args: argparse.Namespace) -> None:
    """Show the limit, or keep another one in the cache and make room."""
    from tritium import knobs, trusted_files
    from tritium.cache_limits import count_again, make_room
    from tritium.insight.explain.units import bytes_text
    from tritium.tools.cache_contents import contents, root

    folder, path = root(), os.path.join(root(), knobs.LIMIT)
    by_variable = knobs.getenv("TRITIUM_CACHE_MAX_SIZE")
    if args.size is not None:
        size = _checked_size(args.size)
        trusted_files.make_dirs(folder, 0o700)
        if args.size == "usual":
            if os.path.lexists(path):
                os.unlink(path)
        else:
            trusted_files.write(path, f"{size}\n".encode(), 0o644)
        make_room(folder, size if by_variable is None else knobs.cache.max_size)
        count_again(folder)
    held = sum(one.size for one in contents(folder))
    counted = knobs.cache.max_size
    if args.json:
        _print_json({"folder": folder, "limit": counted, "bytes": held, "by_variable": by_variable})
        return
    print(f"{folder} may take {_limit_text(counted)}, and takes {bytes_text(held)}")
    if by_variable is not None:
        print(f"TRITIUM_CACHE_MAX_SIZE={by_variable} decides; without it the limit is "
              f"{_limit_text(knobs.kept_limit(folder))}")
    if counted and held > counted:
        print("what was used in the last ten minutes stays")


def _checked_size(text: str) -> int:
    from tritium import knobs

    if text == "usual":
        return knobs.USUAL_LIMIT
    try:
        return knobs.SIZE.parse(text)
    except ValueError as error:
        raise UsageError(f"{text!r}: {error}") from None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
