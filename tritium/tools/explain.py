"""`python -m tritium explain`: accesses, resources and predicted time of a launch, for any target, as one HTML page.

    python -m tritium explain kernels.py:add_kernel x_ptr=fp32[n] y_ptr=fp32[n] z_ptr=fp32[n] n=65536 BLOCK=1024 \\
        --grid "cdiv(n, BLOCK)" -t cuda:90a -o add.html
    python -m tritium explain train.py:add_kernel            # run the program; explain its first launch of the kernel
    python -m tritium explain kernels.py:add_kernel ... --compare BLOCK=2048 num_warps=8
    python -m tritium explain kernels.py:add_kernel ... --text

Arguments are described as name=value:

    x=fp32[4096, 64]         a tensor of zeros; element types as in signatures: fp16, bf16, fp8e4nv, i32, ...
    x=fp32[4096, 64]@(1, 4096)   with strides, in elements
    i=i32[4096]:arange       0, 1, 2, ...; :random(100) fills with random numbers below 100
    n=4096, B=cdiv(n, 8)     numbers; sizes and the grid may be expressions of these
    num_warps=8              launch options

No GPU and no driver is needed. Without arguments the file runs as a program, which is stopped at the launch.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from tritium.tools.command import ProgramError, UsageError, guarded, show_failure
from tritium.tools.compile import load, untuned


def parser() -> argparse.ArgumentParser:
    """The command's arguments.

    >>> parser().parse_args(["k.py:k", "n=4", "--grid", "n", "-t", "cuda:80"]).arguments
    ['n=4']
    """
    p = argparse.ArgumentParser("python -m tritium explain", description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("kernel", metavar="FILE.py:KERNEL", help="the kernel, or a program that launches it")
    p.add_argument("arguments", nargs="*", metavar="NAME=VALUE", help="arguments and options of the launch")
    p.add_argument("--grid", "-g", help="one to three expressions, e.g. 'cdiv(M, BM), cdiv(N, BN)'")
    p.add_argument("--target", "-t", help="cpu, sm_80, gfx942, cuda:90a, ...; default: this machine's")
    p.add_argument("--output", "-o", help="the page to write; default: KERNEL.html")
    p.add_argument("--text", action="store_true", help="print a report instead of writing the page")
    p.add_argument("--compare", nargs="+", metavar="NAME=VALUE",
                   help="compare with a second launch that has these changes")
    p.add_argument("--devices", default="", help="devices whose times are predicted, e.g. 'H200, A100'")
    p.add_argument("--measure", action="store_true",
                   help="also launch the kernel here, on copies, and show the measured time")
    p.add_argument("--programs", type=int, default=256,
                   help="analyze at most this many programs of the grid (default: %(default)s)")
    p.add_argument("--launch", type=int, default=1, metavar="N",
                   help="explain the program's N-th launch of the kernel (default: %(default)s)")
    return p


def main(arguments: list[str]) -> int:
    """The command; a mistake in its arguments is one line, one in the kernel is shown where it stands."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    p = parser()
    if end == 0:
        p.error("name a kernel, as in kernels.py:add_kernel")
    args = p.parse_intermixed_args(arguments[:end])  # options may stand between descriptions
    for option, given in (("--programs", args.programs), ("--launch", args.launch)):
        if given < 1:
            p.error(f"{option} must be at least 1, not {given}")
    return guarded("explain", lambda: explain(args, arguments[end + 1 :]))


def explain(args: argparse.Namespace, given: list[str]) -> None:
    """Explain what the arguments ask for; `given` goes to the program that is run."""
    from tritium.insight.facts.devices import named

    path, colon, name = args.kernel.rpartition(":")
    if not colon or not name.isidentifier():
        raise UsageError(f"{args.kernel!r} names no kernel: write {_kernels_of(args.kernel)}")
    if args.output and not args.text:
        _check_writable(args.output)
    devices = [part.strip() for part in args.devices.split(",") if part.strip()]
    if not devices and args.target and (device := named(args.target)) is not None:
        devices = [device.name]
    chosen: dict[str, Any] = {"target": args.target, "devices": devices, "programs": args.programs,
                              "measure": args.measure}
    launch = _described(path, name, args) if args.arguments or args.grid else _run(path, name, args, given)
    found = _explained(launch, {}, chosen)
    if args.compare:
        found = found.compared(_explained(launch, dict(_changes(args.compare)), chosen))
    if args.text:
        from tritium.insight.explain.text import report

        sys.stdout.write(report(found, color=sys.stdout.isatty()))
        return
    output = args.output or f"{name}.html"
    _check_writable(output)
    found.html(output)
    print(f"wrote {output}: {os.path.getsize(output) // 1024} KiB")
    for finding in found.findings[:5]:
        where = f"line {finding.line}: " if finding.line else ""
        print(f"{finding.kind}: {where}{finding.title}")


def _kernels_of(path: str) -> str:
    """What to write instead of the name of a file alone."""
    import ast

    try:
        with open(path, encoding="utf-8") as file:
            tree = ast.parse(file.read())
    except (OSError, ValueError, SyntaxError):
        return "FILE.py:KERNEL"
    found = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)
             and any("jit" in ast.unparse(decorator) for decorator in node.decorator_list)]
    return " or ".join(f"{path}:{name}" for name in found) or f"{path}:KERNEL; it defines none by @triton.jit"


def _check_writable(path: str) -> None:
    """Refuse a path that cannot be written before any work is done."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise UsageError(f"cannot write {path!r}: there is no folder {folder!r}")
    if os.path.isdir(path) or not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise UsageError(f"cannot write {path!r}: choose another path with -o")


class _Launch:
    """A launch that can be made again with changes: `make(changes)` gives kernel, grid, arguments and keywords. Those
    that are `owned` were made for it."""

    def __init__(self, make: Any, owned: bool):
        self.make, self.owned = make, owned


def _described(path: str, name: str, args: argparse.Namespace) -> _Launch:
    from tritium.insight.explain.arguments import arguments, grid_of, used_by

    kernel = _kernel(path, name)
    names = untuned(kernel).arg_names
    if not args.grid:
        raise UsageError("say over which grid, as in --grid 'cdiv(n, BLOCK)'")

    helpers = used_by([*args.arguments, f"the grid={args.grid}"])  # sizes that are no parameters of the kernel

    def make(changes: dict[str, str]) -> tuple[Any, Any, tuple, dict[str, Any]]:
        texts = {d.partition("=")[0].strip(): d for d in args.arguments} | changes
        values = arguments(list(texts.values()))
        given = {name: value for name, value in values.items() if name in names or name not in helpers}
        return kernel, lambda meta: grid_of(args.grid, {**dict(meta), **values}), (), given

    missing = [n for n in _needed(kernel, names) if n not in {d.partition("=")[0].strip() for d in args.arguments}]
    if missing:
        raise UsageError(f"{name} needs {', '.join(missing)} as well: describe them as in x=fp32[4096], n=4096")
    return _Launch(make, owned=True)


def _needed(kernel: Any, names: list[str]) -> list[str]:
    """Parameters without a default value that no tuner sets."""
    import inspect

    given: set[str] = set()
    while hasattr(kernel, "fn") and not hasattr(kernel, "signature"):
        given |= set(getattr(kernel, "values", None) or ())
        for config in getattr(kernel, "configs", ())[:1]:
            given |= set(config.all_kwargs())
        kernel = kernel.fn
    parameters = kernel.signature.parameters
    return [n for n in names if n not in given and parameters[n].default is inspect.Parameter.empty]


def _kernel(path: str, name: str) -> Any:
    """The kernel of this name in a file, with the tuners around it."""
    from tritium.tools.compile import kernel_in

    kernel_in(path, name)  # says what is wrong with the name
    return getattr(load(path), name)


def _run(path: str, name: str, args: argparse.Namespace, given: list[str]) -> _Launch:
    from tritium.alias import installed_as_triton
    from tritium.insight.explain.capture import first_launch, own_main
    from tritium.tools.run import run_script

    if not os.path.exists(path):
        raise UsageError(f"cannot open {path!r}: No such file or directory")

    def program() -> None:
        try:
            run_script([path, *given])
        except Exception as error:
            raise ProgramError(show_failure(error)) from None

    with installed_as_triton(), own_main():
        found = first_launch(program, name, args.launch)
    if found is None:
        made = "did not launch" if args.launch == 1 else f"made no launch {args.launch} of"
        raise UsageError(f"{path} ran to its end and {made} {name!r}\nhint: describe the arguments, as in "
                         "x=fp32[4096] n=4096 --grid 'cdiv(n, 1024)'; see --help")

    def make(changes: dict[str, str]) -> tuple[Any, Any, tuple, dict[str, Any]]:
        from tritium.insight.explain.arguments import arguments

        return found.kernel, found.grid, found.args, {**found.meta, **arguments(list(changes.values()))}

    return _Launch(make, owned=False)


def _changes(texts: list[str]) -> list[tuple[str, str]]:
    return [(text.partition("=")[0].strip(), text) for text in texts]


def _explained(launch: _Launch, changes: dict[str, str], chosen: dict[str, Any]) -> Any:
    from tritium.insight.explain.explanation import explained

    return explained(*launch.make(changes), **chosen, owned=launch.owned)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
