"""`python -m tritium opt`: run passes on tile IR, and show what each pass changes.

    python -m tritium opt kernel.tir -t cuda:90a              # the whole pipeline of a target
    python -m tritium opt kernel.tir --passes simplify,dce    # these passes, in this order
    python -m tritium opt kernel.tir -t cpu --diff            # what each pass changed
    python -m tritium show k.py ... --stage source | python -m tritium opt - --passes licm

A file may hold several kernels. In test files (`# ====`, `# ----`) only the inputs are read.

Exit status: 0 success; 1 the module does not parse or verify, or a pass refuses it; 2 usage error.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

from tritium.errors import InternalError, Span, is_told, render
from tritium.ir.core import Loc, Module
from tritium.tools.command import ProgramError, UsageError, closest, guarded
from tritium.tools.compile import known_target

DEFAULT_TARGETS = ("cpu:host", "cuda:90a")  # whose pipelines `--list` shows unless one is named


def parser() -> argparse.ArgumentParser:
    """The command's arguments.

    >>> parser().parse_args(["k.tir", "--passes", "simplify,dce"]).passes
    'simplify,dce'
    """
    p = argparse.ArgumentParser("python -m tritium opt", description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("path", nargs="?", metavar="FILE.tir", help="tile IR; - reads standard input")
    p.add_argument("--passes", "-p", help="names, separated by commas; default: the whole pipeline of the target")
    p.add_argument("--target", "-t", help="sm_90, gfx942, cpu, cuda:90a:32, ...; default: as in the file")
    p.add_argument("--options", "-O", default="", help="compile options, e.g. num_warps=8,num_stages=2")
    p.add_argument("--after-each", action="store_true", help="print the module after each pass that changed it")
    p.add_argument("--diff", action="store_true", help="print a unified diff for each pass that changed something")
    p.add_argument("--verify", action="store_true", help="verify the module after every pass, not only at the end")
    p.add_argument("--list", action="store_true", help="list the passes and the pipelines")
    return p


def main(arguments: list[str]) -> int:
    """The command."""
    args = parser().parse_args(arguments)
    return guarded("opt", lambda: listing(args) if args.list else optimize(args))


def optimize(args: argparse.Namespace) -> None:
    """Run what the arguments ask for on every module of the file."""
    if args.path is None:
        raise UsageError("name a file, or - for standard input; --list lists the passes")
    file, text = _text(args.path)
    for number, module in enumerate(modules(text, file)):
        if number and not args.diff:
            print()
        with _pointing(text):
            printer = _Printer(args)
            made = optimized(module, args, printer.watch)
            printer.end(made)


def _text(path: str) -> tuple[str, str]:
    if path.endswith(".py"):
        raise UsageError(f"{path} is Python, and opt reads tile IR\nhint: python -m tritium show {path} -n KERNEL "
                         '-s "SIGNATURE" --stage source | python -m tritium opt -')
    if path == "-":
        return "<stdin>", sys.stdin.read()
    with open(path) as file:
        try:
            return path, file.read()
        except UnicodeDecodeError:
            raise UsageError(f"{path} is not text") from None


def modules(text: str, file: str) -> list[Module]:
    """The verified modules of a text. Of test cases, split by `# ====`, only what stands before `# ----` is read.

    >>> [m.name for m in modules("kernel @f() { }\\n# ----\\nkernel @g() { }\\n# ====\\nkernel @h() { }", "cases.tir")]
    ['f', 'h']
    """
    from tritium.backends.cpu.fuse import ops as cpu_ops  # noqa: F401  (ops that a text of the CPU stage has)
    from tritium.backends.gpu import ops as gpu_ops  # noqa: F401  (and of the GPU stage)
    from tritium.ir.text import ParseError, parse_modules
    from tritium.ir.verify import verify

    given = re.sub(r"(?ms)^# ----$.*?(?=^# ====$|\Z)", lambda part: "\n" * part[0].count("\n"), text)
    with _pointing(text):
        try:
            return [verify(module) for module in parse_modules(given, file)]
        except ParseError as error:
            raise ProgramError(report(error.reason, error.loc, text)) from None


@contextlib.contextmanager
def _pointing(text: str):
    """A module that does not verify is an error with a caret under the op at fault."""
    try:
        yield
    except InternalError as error:
        if not isinstance(error.reproducer, Module):
            raise
        raise ProgramError(report(error.message, error.loc, text)) from None


def report(message: str, loc: Loc | None, text: str) -> str:
    """An error message that underlines a place of an IR text.

    >>> print(report("no op is called 'ad'", Loc("k.tir", 2, 2, 2, 4), "kernel @f() {\\n  ad\\n}"), end="")
    no op is called 'ad'
      --> k.tir:2:3 (at 2:2: in @f)
      2 |   ad
        |   ^^
    """
    if loc is None or not loc.file:
        return f"{message}\n"
    lines = text.split("\n")
    heads = [(n, found[1]) for n, line in enumerate(lines[:loc.line], 1)
             if (found := re.match(r"\s*(?:kernel|function)\s*(@[\w.$]+)", line))]
    line, name = heads[-1] if heads else (1, "")
    span = Span(loc.file, loc.line, loc.col, loc.end_line, loc.end_col, "\n".join(lines[loc.line - 1:loc.end_line]),
                line, name)
    return render(message, [span]) + "\n"


def optimized(module: Module, args: argparse.Namespace, watch: Callable) -> Module:
    """The module after the steps that the arguments name."""
    module, chosen = _steps(module, args)
    for step in chosen:
        module = _ran(step, module, watch)
    return module


def _steps(module: Module, args: argparse.Namespace) -> tuple[Module, list[Any]]:
    """The module with the target and options it is compiled for, if they matter, and the steps to run."""
    from tritium.tools import pass_registry

    written = args.target or module.attrs.get("target")
    if written is None and args.passes is not None and not args.options:
        return module, _named(args.passes, pass_registry.steps(), "; --target adds those of a backend")
    target = known_target(written)
    from tritium.compiler.sources import MODULE_OPTIONS, with_options

    own = {name: module.attrs[name] for name in MODULE_OPTIONS if name in module.attrs}
    options = _parsed(target, {**own, **_options(args.options)})
    module = with_options(module, target, options)
    if args.passes is None:
        return module, pass_registry.pipeline(target, options)
    return module, _named(args.passes, pass_registry.steps(target, options))


def _named(text: str, known: dict[str, Any], more: str = "") -> list[Any]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise UsageError(f"there is no pass {name!r}{closest(name, known)}\nhint: the passes are "
                             f"{', '.join(known)}{more}")
    return [known[name] for name in names]


def _options(text: str) -> dict[str, Any]:
    """`num_warps=8,debug=True` as a dictionary."""
    found = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals:
            raise UsageError(f"{part!r} is not an option: write name=value")
        try:
            found[name.strip()] = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError):
            found[name.strip()] = value.strip()
    return found


def _parsed(target: Any, given: dict[str, Any]) -> Any:
    from tritium.compiler import make_backend

    try:
        return make_backend(target).parse_options(given)
    except KeyError as error:
        raise UsageError(error.args[0]) from None


def _ran(step: Any, module: Module, watch: Callable) -> Module:
    """The module after a step; what a pass refuses is the module's fault, any other exception a defect of the pass."""
    try:
        return step.run(module, watch)
    except (InternalError, UsageError, BrokenPipeError):  # the last: who reads the output has seen enough
        raise
    except Exception as error:
        if is_told(error):
            hint = getattr(error, "hint", None) or ""
            raise ProgramError(render(f"pass {step.name}: {error}", hint="" if hint in str(error) else hint)
                               + "\n") from None
        raise InternalError(f"pass {step.name} fails on @{module.name}: {type(error).__name__}: {error}") from error


class _Printer:
    """Prints what the arguments ask for: the result, each step, or the differences."""

    def __init__(self, args: argparse.Namespace):
        from tritium.tools import ir_text

        self.args, self.ir_text, self.steps = args, ir_text, 0
        self.color = ir_text.wants_color(sys.stdout)

    def watch(self, step: Callable, before: Module, after: Module) -> None:
        """See one step."""
        from tritium.ir.verify import name_of, verify

        if after is before:
            return
        if self.args.verify or self.args.diff or self.args.after_each:  # a broken module cannot even be printed
            verify(after, made_by=step)
        if self.args.diff:
            text = self.ir_text.difference(str(before), str(after), name_of(step))
            sys.stdout.write(self.ir_text.painted_diff(text) if self.color else text)
        elif self.args.after_each:
            self.module(f"# after {name_of(step)}\n{after}\n")

    def module(self, text: str) -> None:
        sys.stdout.write(self.ir_text.painted(text) if self.color else text)
        self.steps += 1

    def end(self, made: Module) -> None:
        """Print the result unless it has been shown."""
        from tritium.ir.verify import verify

        verify(made)
        if not self.args.diff and not (self.args.after_each and self.steps):
            self.module(str(made))


def listing(args: argparse.Namespace) -> None:
    """Print the passes, and the pipelines of targets."""
    from tritium.tools import pass_registry

    targets = [known_target(text) for text in ([args.target] if args.target else DEFAULT_TARGETS)]
    known = dict(pass_registry.steps())
    for target in targets:
        known.update(pass_registry.steps(target))
    print("\n".join(_rows((step.name, step.about) for _, step in sorted(known.items()))))
    for target in targets:
        print(f"\npipeline of {target}\n  {', '.join(step.name for step in pass_registry.pipeline(target))}")


def _rows(pairs: Iterable[tuple[str, str]]) -> list[str]:
    pairs = list(pairs)
    width = max(len(name) for name, _ in pairs)
    return [f"  {name:<{width}}  {about}" for name, about in pairs]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
