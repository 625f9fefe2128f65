"""`python -m tritium bundle`: compile kernels ahead of time for several machines, into one file.

    python -m tritium bundle build kernels.toml -o kernels.tbundle   # what a manifest declares
    python -m tritium bundle record -o kernels.tbundle serve.py      # what a program launches
    python -m tritium bundle list kernels.tbundle                    # the kernels in it
    python -m tritium bundle show kernels.tbundle add_kernel         # details of some of them
    python -m tritium bundle verify kernels.tbundle                  # check it; has it code for this machine?
    python -m tritium bundle export kernels.tbundle --c DIR          # sources and objects for programs in C

`tritium.load_bundle("kernels.tbundle")`, or TRITIUM_BUNDLE=kernels.tbundle, makes launches use it. docs/bundles.md
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from tritium.tools.command import UsageError, closest, guarded

__all__ = ["main", "parser"]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"tritium bundle: {message}\n")


def parser() -> argparse.ArgumentParser:
    """The command's arguments.

    >>> parser().parse_args(["build", "k.toml", "-o", "k.tbundle", "-t", "x86-64-v3"]).target
    ['x86-64-v3']
    """
    p = _Parser("python -m tritium bundle", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = p.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)

    def add(name: str, about: str, example: str, json: bool = True) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.",
                                  epilog=f"example: python -m tritium bundle {example}")
        one.add_argument("--key-file", metavar="FILE",
                         help="the key that signs the bundle; default: TRITIUM_CACHE_KEY_FILE")
        if json:
            one.add_argument("--json", action="store_true", help="print JSON")
        return one

    def writes(one: argparse.ArgumentParser) -> None:
        one.add_argument("--out", "-o", required=True, metavar="FILE", help="the bundle to write")
        one.add_argument("--target", "-t", action="append", metavar="TARGET",
                         help="x86-64-v3, aarch64, cuda:90a, ...; may be repeated")

    one = add("build", "compile what a manifest declares", "build kernels.toml -o kernels.tbundle -t x86-64-v3")
    one.add_argument("manifest", help="a TOML file")
    writes(one)
    one = add("record", "run a program, and compile the kernels it launches for the targets",
              "record -o kernels.tbundle -t x86-64-v3 -t cuda:90a serve.py --once")
    writes(one)
    one.add_argument("--manifest", metavar="FILE", help="also write a manifest of the recorded launches, to edit")
    one.add_argument("program", nargs=argparse.REMAINDER, metavar="SCRIPT [ARGUMENT ...]",
                     help="a script, -m MODULE or -c TEXT, with its arguments")
    one = add("list", "list the kernels of a bundle", "list kernels.tbundle")
    one.add_argument("file", metavar="FILE")
    one = add("show", "show details of kernels", "show kernels.tbundle 'add*'")
    one.add_argument("file", metavar="FILE")
    one.add_argument("names", nargs="*", metavar="NAME", help="kernels, or patterns of them")
    one = add("verify", "check a bundle against its checksums, and for code for this machine", "verify kernels.tbundle")
    one.add_argument("file", metavar="FILE")
    one = add("export", "write sources and objects for programs without Python", "export kernels.tbundle --c build/c",
              json=False)
    one.add_argument("file", metavar="FILE")
    one.add_argument("--c", dest="folder", required=True, metavar="DIR", help="the folder to write C files to")
    one.add_argument("--library", action="store_true",
                     help="also make shared libraries, for the CPU of this machine and for AMD GPUs")
    one.add_argument("--name", default="", help="prefix of the file names; default: the bundle's name")
    return p


def main(arguments: list[str]) -> int:
    """The command."""
    p = parser()
    args = p.parse_args(arguments)
    if args.command is None:
        p.error("say what to do: build, record, list, show, verify or export; --help says more")
    bodies: dict[str, Callable[[argparse.Namespace], int | None]] = {
        "build": build, "record": record, "list": list_kernels, "show": show, "verify": verify, "export": export}
    return guarded("bundle", lambda: bodies[args.command](args))


def _key(args: argparse.Namespace) -> bytes:
    from tritium import cache

    return cache.key_in(args.key_file) if args.key_file else cache.signing_key()


# -- making ------------------------------------------------------------------------------------------------------------


def build(args: argparse.Namespace) -> None:
    """Compile a manifest."""
    from tritium.tools.bundle import build as building
    from tritium.tools.bundle import manifest

    found = manifest.read(args.manifest, args.target)
    index = building.build(args.out, found.kernels, found.tuned, _key(args), _progress(args))
    _report(args, index)


def record(args: argparse.Namespace) -> int:
    """Run a program, and compile what it launched; the exit status is the program's."""
    from tritium.tools.bundle import build as building
    from tritium.tools.bundle import manifest
    from tritium.tools.bundle.record import Recorder
    from tritium.tools.run import run, status_of

    how, *rest = args.program or [""]
    if not how or how in ("-m", "-c", "--") and not rest:
        raise UsageError("say which program to run: a script, -m MODULE or -c TEXT")
    targets = [manifest.target_of(text) for text in args.target or ()]
    key = _key(args)
    with Recorder() as recorder:
        try:
            status = status_of(lambda: run(how, rest))
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
    if status:
        print(f"tritium bundle: the program ended with status {status}; {args.out} is not written", file=sys.stderr)
        return status
    wanted = recorder.wanted(targets)
    if not wanted:
        raise UsageError("the program launched no kernel")
    if args.manifest:
        with open(args.manifest, "w") as file:
            file.write(manifest.text_of(wanted, os.path.dirname(os.path.abspath(args.manifest))))
    index = building.build(args.out, wanted, recorder.choices, key, _progress(args))
    _report(args, index)
    return 0


def _progress(args: argparse.Namespace) -> Callable[[str], None]:
    return (lambda text: None) if args.json else (lambda text: print(text, file=sys.stderr, flush=True))


def _report(args: argparse.Namespace, index: dict[str, Any]) -> None:
    counts = _counts(index)
    print(json.dumps({"file": args.out, **counts}) if args.json else f"{args.out}: {_counts_text(counts)}")


def _counts(index: dict[str, Any]) -> dict[str, Any]:
    rows = index["kernels"]
    return {"kernels": len({row["kernel"] for row in rows}), "binaries": len(rows),
            "targets": list(dict.fromkeys(row["target"] for row in rows)), "choices": len(index["tuned"])}


def _counts_text(counts: dict[str, Any]) -> str:
    one = {"kernels": "kernel", "binaries": "binary", "choices": "choice"}
    said = [f"{count} {name if count != 1 else one[name]}"
            for name, count in counts.items() if isinstance(count, int) and (count or name != "choices")]
    return f"{', '.join(said)} for {', '.join(counts['targets'])}"


# -- looking -----------------------------------------------------------------------------------------------------------


def _opened(args: argparse.Namespace) -> Any:
    from tritium.compiler.bundle_file import BundleFile

    return BundleFile(args.file, _key(args))


def list_kernels(args: argparse.Namespace) -> None:
    """Print one line for each binary."""
    from tritium.tools.bench.report import text_table

    file = _opened(args)
    rows = file.index["kernels"]
    if args.json:
        print(json.dumps([_plain(row) for row in rows], indent=1))
        return
    blobs = file.index["blobs"]
    table = [[row["kernel"], row["signature"], _options(row), row["target"], f"{blobs[row['binary']][0]:,}",
              row["kind"]] for row in rows]
    print(text_table(["kernel", "signature", "options", "target", "bytes", ""], table))


def _options(row: dict[str, Any]) -> str:
    machine = ("arch", "backend_name", "warp_size", "launch_checks")
    usual = ("supported_fp8_dtypes", "deprecated_fp8_dot_operand_dtypes", "max_num_imprecise_acc_default",
             "default_dot_input_precision")
    return ", ".join(f"{name}={value}" for name, value in row["options"].items() if name not in (*machine, *usual))


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("metadata", "binary", "ttir")}


def show(args: argparse.Namespace) -> None:
    """Print what is known of some kernels: how they are launched, and what for."""
    file = _opened(args)
    rows = file.index["kernels"]
    known = {row["kernel"].partition(":")[2] for row in rows}
    for name in args.names:
        if not any(fnmatch.fnmatchcase(other, name) for other in known):
            raise UsageError(f"{args.file} has no kernel {name!r}: it has {', '.join(sorted(known))}"
                             f"{closest(name, known)}")
    wanted = [row for row in rows if not args.names
              or any(fnmatch.fnmatchcase(row["kernel"].partition(":")[2], name) for name in args.names)]
    found = [{**_plain(row), "metadata": json.loads(file.blob(row["metadata"]))} for row in wanted]
    if args.json:
        print(json.dumps(found, indent=1))
        return
    index = file.index
    print(f"{args.file}: tritium {index['tritium']}, {_counts_text(_counts(index))}\n"
          f"  parts: {', '.join(sorted({row['name'] for row in index['parts']}))}")
    for row in found:
        metadata = row["metadata"]
        print(f"{row['kernel']} for {row['target']}{', where preconditions do not hold' if row['kind'] else ''}")
        for name, value in (("signature", row["signature"]), ("options", _options(row)), ("grid", row["grid"]),
                            ("preconditions", ", ".join(metadata.get("preconditions") or ())),
                            ("warps", metadata["num_warps"]), ("shared memory", metadata["shared"]),
                            ("registers", metadata.get("n_regs")), ("source", row["source"][:16])):
            if value not in ("", None):
                print(f"  {name:<14} {value}")
    for record in index["tuned"]:
        print(f"{record['function']}, tuned for {', '.join(record['key']) or '-'}: {record['config']}")


def verify(args: argparse.Namespace) -> int:
    """Read everything; 1 if this tritium or this machine could not use it."""
    from tritium.backends.driver import driver
    from tritium.compiler.bundles import Bundle, BundleError

    file = _opened(args)
    file.verify()
    faults, fitting = [], {}
    try:
        bundle = Bundle(args.file, _key(args))
        targets = dict.fromkeys(drv.get_current_target() for drv in (driver.active, driver.named("cpu")))
        fitting = {str(target): list(map(str, bundle.fitting(target))) for target in targets}
        if not any(fitting.values()):
            faults.append(f"it has nothing for this machine, {' and '.join(fitting)}")
    except BundleError as error:
        faults.append(str(error))
    if args.json:
        print(json.dumps({"file": args.file, "bytes": file.size, "faults": faults,
                          "here": [name for names in fitting.values() for name in names]}))
    else:
        used = [names[0] if names else f"nothing for {target}" for target, names in fitting.items()]
        print(f"{args.file}: {len(file.index['blobs'])} parts, {file.size:,} bytes, all whole"
              + (f"; launches here use {', '.join(used)}" if any(fitting.values()) else ""))
        print("".join(f"tritium bundle: {fault}\n" for fault in faults), end="", file=sys.stderr)
    return int(bool(faults))


def export(args: argparse.Namespace) -> None:
    """Write C files."""
    from tritium.tools.bundle.export import export_c

    print(*export_c(_opened(args), args.folder, args.name, args.library), sep="\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
