"""`python -m tritium COMMAND ...`, also installed as `tritium`."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable

# command -> (module with `main(arguments) -> exit status`, or module:function, what it does)
COMMANDS = {
    "run": ("tritium.tools.run", "run a program written for Triton, with `import triton` giving tritium"),
    "enable": ("tritium.tools.switch:enable", "make `import triton` give tritium in every program of this environment"),
    "disable": ("tritium.tools.switch:disable", "undo `enable`"),
    "status": ("tritium.tools.switch:status", "show what `import triton` gives in this environment, and why"),
    "demo": ("tritium.tools.demo", "check the kernel collection and time it beside torch or NumPy"),
    "bench": ("tritium.tools.bench.command", "benchmark kernels against torch, Triton, ...; compare runs"),
    "show": ("tritium.tools.show", "compile a kernel for any target; print its resources, or a stage such as PTX"),
    "occupancy": ("tritium.tools.occupancy", "resident programs of a kernel on a GPU, and the limiting resource"),
    "sanitize": ("tritium.tools.sanitize", "run a program with every memory access of its kernels checked"),
    "opt": ("tritium.tools.opt", "run passes on tile IR; show what each pass changes"),
    "explain": ("tritium.tools.explain", "why a launch is slow: accesses, resources and predicted time, as a page"),
    "profile": ("tritium.tools.profile", "run a program; print time, GB/s and FLOP/s of each of its kernels"),
    "why": ("tritium.tools.why", "run a program; say which argument or setting caused each recompilation"),
    "tune": ("tritium.tools.tune", "autotuning results: list, show, export, merge and forget them"),
    "cache": ("tritium.tools.cache", "the cache of compiled kernels: list, verify, clear and limit it"),
    "bundle": ("tritium.tools.bundle.command", "compile kernels ahead of time for several machines, into one file"),
    "compile": ("tritium.tools.compile", "compile a kernel ahead of time into C sources"),
    "link": ("tritium.tools.link", "join ahead-of-time kernels under one dispatching C function"),
    "version": ("tritium.tools.version", "versions of tritium and its dependencies, and the available devices"),
}


def usage() -> str:
    """The list of commands.

    >>> "demo" in usage()
    True
    """
    rows = "\n".join(f"  {name:<9} {text}" for name, (_, text) in COMMANDS.items())
    return ("usage: python -m tritium COMMAND ...\n       python -m tritium --version\n\n"
            f"{rows}\n\npython -m tritium COMMAND --help says more.")


def entry(command: str) -> Callable[[list[str]], int | None]:
    """The function behind a command.

    >>> entry("version").__module__
    'tritium.tools.version'
    """
    module, _, name = COMMANDS[command][0].partition(":")
    return getattr(importlib.import_module(module), name or "main")


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the result is the exit status.

    >>> main(["--help"])
    usage: python -m tritium COMMAND ...
    ...
    0
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    command, *rest = arguments or ["--help"]
    if command in ("-h", "--help", "help"):
        print(usage())
        return 0
    if command in ("-V", "--version"):
        from tritium.tools.version import own_version

        print(f"tritium {own_version()}")
        return 0
    if command not in COMMANDS:
        from tritium.tools.command import closest

        print(f"tritium has no command {command!r}{closest(command, COMMANDS)}\n\n{usage()}", file=sys.stderr)
        return 2
    try:
        return entry(command)(rest) or 0
    except BrokenPipeError:  # the reader, `head` perhaps, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(main())
