"""`python -m tritium compile`: compile a kernel ahead of time into C sources.

    python -m tritium compile kernels.py -n add_kernel -s "*fp32:16, *fp32:16, *fp32:16, i32, 1024" \\
        -g "(n + 1023) / 1024, 1, 1" -t cuda:90:32 -o build/add

writes `build/add.<hash>_<hints>.c` and `.h`; for a CPU also an object file. `python -m tritium link` joins several.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import os
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from tritium.alias import installed_as_triton
from tritium.tools import aot, aot_hip
from tritium.tools.command import ProgramError, UsageError, closest, code_of, guarded, show_failure


def parser() -> argparse.ArgumentParser:
    """The command's arguments.

    >>> parser().parse_args(["k.py", "-n", "k", "-s", "i32", "-g", "1,1,1"]).num_warps
    1
    """
    p = argparse.ArgumentParser("python -m tritium compile", description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("path", help="the Python file with the kernel")
    p.add_argument("--kernel-name", "-n", required=True, help="the kernel's name in the file")
    p.add_argument("--signature", "-s", required=True, help="types, hints and constants, e.g. '*fp32:16, i32, 1024'")
    p.add_argument("--grid", "-g", required=True, help="three C expressions of the arguments: 'gx, gy, gz'")
    p.add_argument("--target", "-t", help="sm_90, gfx942, x86-64-v3, cuda:90a:32, ...; default: this machine's")
    p.add_argument("--num-warps", "-w", type=int, default=1, metavar="N", help="warps per program (default: 1)")
    p.add_argument("--num-stages", "-ns", type=int, default=3, metavar="N",
                   help="pipeline stages of loops (default: 3)")
    p.add_argument("--out-name", "-on", help="name of the C function; default: the kernel's")
    p.add_argument("--out-path", "-o", type=Path, help="output path without extension; default: the C name")
    return p


def parse_target(target: Any) -> Any:
    """A target that may be given by its name, or by that of a device; None stands for this machine's.

    >>> parse_target("cuda:90:32"), str(parse_target("x86-64-v3")), str(parse_target("H100"))
    (GPUTarget(backend='cuda', arch=90, warp_size=32), 'cpu:x86-64-v3:1', 'cuda:90a:32')
    """
    from tritium.backends.compiler import GPUTarget
    from tritium.backends.driver import driver
    from tritium.insight.facts.devices import named

    if isinstance(target, str) and (device := named(target)) is not None:
        target = device.target
    return driver.active.get_current_target() if target is None else GPUTarget.of(target)


def known_target(text: str | None) -> Any:
    """A target from its text, for which there is a backend.

    >>> known_target("metal:m3:32")
    Traceback (most recent call last):
    tritium.tools.command.UsageError: there is no backend 'metal': tritium has cpu, cuda, hip
    """
    from tritium.compiler import make_backend

    target = parse_target(text)
    try:
        make_backend(target)
    except RuntimeError as error:  # nobody has written one
        raise UsageError(str(error)) from None
    return target


def load(path: str) -> ModuleType:
    """Import a file that need not be on the path, and may be written for Triton."""
    spec: Any = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None:
        raise UsageError(f"{path} is not a Python file: its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    try:
        code = code_of(path)
        sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
        with installed_as_triton():
            exec(code, module.__dict__)
    except OSError as error:
        if error.filename == os.path.abspath(path):
            raise UsageError(f"cannot open {path!r}: {error.strerror}") from None
        raise ProgramError(show_failure(error)) from None
    except Exception as error:
        raise ProgramError(show_failure(error)) from None
    return module


def kernel_in(path: str, name: str) -> Any:
    """The kernel of this name in a file, without the tuners around it."""
    module = load(path)
    fn = untuned(getattr(module, name, None))
    if fn is not None:
        return fn
    kernels = [other for other, value in vars(module).items() if untuned(value) is not None]
    has = f"it has {', '.join(kernels)}" if kernels else "it has none"
    if hasattr(module, name):
        raise UsageError(f"{name} in {path} is not a kernel: decorate it with @triton.jit ({has})")
    raise UsageError(f"{path} has no kernel {name!r}: {has}{closest(name, kernels)}")


def untuned(fn: Any) -> Any:
    """The kernel under autotune and heuristics; None for anything else.

    >>> from tritium.kernels.vector_add import add_kernel
    >>> untuned(add_kernel).__name__, untuned(3)
    ('add_kernel', None)
    """
    from tritium.language.source.function import ConstexprFunction, Source

    while not isinstance(fn, Source) and hasattr(fn, "fn"):
        fn = fn.fn
    return fn if isinstance(fn, Source) and not isinstance(fn, ConstexprFunction) else None


def source_of(fn: Any, parameters: list[aot.Parameter]) -> Any:
    """A kernel specialised for these parameters."""
    from tritium.compiler import ASTSource

    one = {p.name: 1 for p in parameters if p.hint == 1}
    constants = {p.name: p.value for p in parameters if p.is_constant} | one
    signature = {p.name: "constexpr" if p.name in constants else p.type for p in parameters}
    attrs = {(i,): [["tt.divisibility", 16]] for i, p in enumerate(parameters) if p.hint == 16}
    return ASTSource(fn, signature, constants, attrs)


def compiled(fn: Any, parameters: list[aot.Parameter], target: Any, num_warps: int, num_stages: int) -> Any:
    """Compile a kernel for these parameters."""
    import tritium

    kernel = tritium.compile(source_of(fn, parameters), target=target, options={
        "num_warps": num_warps, "num_stages": num_stages,
        "launch_checks": False,  # the C launcher makes none
    })
    if kernel.metadata.global_scratch_size:
        raise ValueError(f"{kernel.name} needs scratch memory from the runtime and cannot be compiled ahead of time")
    return kernel


def write(kernel: Any, variant: aot.Variant, grid: list[str], base: Path) -> list[Path]:
    """Write the C files (and the object, for a CPU) of a compiled kernel; their paths."""
    stem = base.with_name(f"{base.name}.{variant.algorithm}_{variant.suffix}")
    stem.parent.mkdir(parents=True, exist_ok=True)
    files: dict[str, str | bytes] = {".h": aot.header(variant)}
    meta = kernel.metadata
    if variant.device == "cuda":
        # Without an assembler the binary is PTX text, whose end the driver finds by its zero byte.
        binary = kernel.asm["cubin"] + b"\0"
        files[".c"] = aot.cuda_source(variant, stem.name, kernel.name, binary, grid, meta.num_warps * 32, meta.shared)
    elif variant.device == "hip":
        files[".c"] = hip_source(kernel, variant, stem.name, grid)
    else:
        files[".c"] = aot.cpu_source(variant, stem.name, grid, meta.arena_bytes)
        files |= objects(kernel, f"kernel_{variant.name}")
    named = {stem.with_name(stem.name + ending): content for ending, content in files.items()}
    if variant.device == "hip":
        named[stem.with_name(aot_hip.HEADER)] = aot_hip.RUNTIME
    for path, content in named.items():
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return [*named]


def hip_source(kernel: Any, variant: aot.Variant, file: str, grid: list[str]) -> str:
    """The C of a kernel for an AMD GPU."""
    meta = kernel.metadata
    if meta.messages:
        raise ValueError(f"{kernel.name} prints or asserts, which needs Python on AMD GPUs: compile it without")
    threads = meta.num_warps * meta.target.warp_size
    return aot_hip.source(variant, file, kernel.name, kernel.asm["hsaco"], grid, threads, meta.dynamic_shared)


def objects(kernel: Any, entry: str) -> dict[str, bytes]:
    """File ending -> object code of a CPU kernel, under the name `entry`, and of the parts of the runtime it calls."""
    from tritium.backends.cpu.runtime import shared_object

    return shared_object.objects(kernel.asm["llir"], kernel.name, entry, kernel.metadata.arch)


@dataclasses.dataclass
class CompileArgs:
    """What `compile_kernel` compiles: the command's arguments.

    >>> CompileArgs("k.py", "k", "*fp32, 64", "1, 1, 1").num_stages
    3
    """

    path: str = ""
    kernel_name: str = ""
    signature: str = ""
    grid: str = ""
    target: str | Any = None
    num_warps: int = 1
    num_stages: int = 3
    out_name: str | None = None
    out_path: Path | None = None


def compile_kernel(args: CompileArgs) -> tuple[str, list[Path]]:
    """Compile a kernel ahead of time; the name of the C function, and the files written."""
    grid = [part.strip() for part in args.grid.split(",")]
    if len(grid) != 3:
        raise UsageError(f"the grid needs three expressions, gx, gy, gz; {args.grid!r} has {len(grid)}")
    fn = kernel_in(args.path, args.kernel_name)
    target = parse_target(args.target)
    if target.backend not in aot.DEVICES:
        raise UsageError(f"ahead-of-time C sources exist for {', '.join(aot.DEVICES)}, not for {target.backend}")
    parameters = aot.parse_signature(fn.arg_names, args.signature)
    check_grid(grid, [p.name for p in parameters if not p.is_constant])
    if args.out_name is not None and not args.out_name.isidentifier():
        raise UsageError(f"{args.out_name!r} is not the name of a C function")
    kernel = compiled(fn, parameters, target, args.num_warps, args.num_stages)
    variant = aot.variant_of(args.out_name or args.kernel_name, target.backend, parameters, args.num_warps,
                             args.num_stages)
    return variant.name, write(kernel, variant, grid, Path(args.out_path or variant.kernel))


def check_grid(grid: list[str], arguments: list[str]) -> None:
    """Refuse an expression that the C function could not compute from its arguments.

    >>> check_grid(["(n + 1023) / 1024", "1", "1"], ["x", "n"])
    """
    for expression in grid:
        if not expression or expression.count("(") != expression.count(")"):
            raise UsageError(f"{expression!r} is not a C expression for a size of the grid")
        for name in re.findall(r"(?<![\w.])[A-Za-z_]\w*(?!\w|\s*\()", expression):
            if name not in arguments:
                has = f"it has {', '.join(arguments)}" if arguments else "it has none"
                raise UsageError(f"the grid names {name!r}, which is no argument of the C function: {has}"
                                 f"{closest(name, arguments)}")


def main(arguments: list[str]) -> int:
    """The command; a mistake in its arguments is one line, one in the kernel is shown where it stands."""
    args = CompileArgs(**vars(parser().parse_args(arguments)))
    return guarded("compile", lambda: print(*compile_kernel(args)[1], sep="\n"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
