"""`python -m tritium show`: compile a kernel for any target, and print its resources or one of its stages.

    python -m tritium show kernels.py -n add_kernel -s "*fp32:16, *fp32:16, *fp32:16, i32, 1024" -t cuda:90a
    python -m tritium show kernels.py -n add_kernel -s "..." -t cuda:80 --stage ttgir > add.ttgir
    python -m tritium show add.ttgir -t cuda:80 --stage ptx

No GPU and no driver is needed. Compilation of a stage's file (.ttir, .ttgir, .llir, .ptx) continues from that stage.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from tritium.tools import aot
from tritium.tools.command import UsageError, guarded
from tritium.tools.compile import kernel_in, known_target, source_of


def parser() -> argparse.ArgumentParser:
    """The command's arguments.

    >>> parser().parse_args(["k.py", "-n", "k", "-s", "i32", "--stage", "ptx"]).stage
    'ptx'
    """
    p = argparse.ArgumentParser("python -m tritium show", description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("path", help="the Python file with the kernel, or the file of a stage")
    p.add_argument("--kernel-name", "-n", help="the kernel's name in the Python file")
    p.add_argument("--signature", "-s", help="types, hints and constants, e.g. '*fp32:16, i32, 1024'")
    p.add_argument("--target", "-t", help="sm_90, gfx942, x86-64-v3, cuda:90a:32, ...; default: as in the file")
    p.add_argument("--num-warps", "-w", type=int, metavar="N", help="warps per program")
    p.add_argument("--num-stages", "-ns", type=int, metavar="N", help="pipeline stages of loops")
    p.add_argument("--maxnreg", type=int, metavar="N", help="the limit of registers per thread")
    p.add_argument("--stage",
                   help="print this stage instead of the resources: source, ttir, ttgir, llir, ptx, sass, ...")
    return p


def compiled(args: argparse.Namespace) -> Any:
    """The kernel the arguments ask for."""
    import tritium
    from tritium.compiler import IRSource

    options = {name: getattr(args, name) for name in ("num_warps", "num_stages", "maxnreg")}
    chosen = {name: value for name, value in options.items() if value is not None}
    if not args.path.endswith(".py"):
        try:
            file = IRSource(args.path)
            written = file.module.attrs.get("target") if file.module is not None else None
        except ValueError as error:
            raise UsageError(f"{args.path}: {error}") from None
        return tritium.compile(file, known_target(args.target or written), chosen)
    if not (args.kernel_name and args.signature):
        raise UsageError("a Python file needs --kernel-name and --signature as well")
    fn = kernel_in(args.path, args.kernel_name)
    source = source_of(fn, aot.parse_signature(fn.arg_names, args.signature))
    return tritium.compile(source, known_target(args.target), chosen)


def figures(kernel: Any) -> list[str]:
    """Lines that say what a kernel needs."""
    from tritium.tools.occupancy import MACHINES, occupancy

    meta = kernel.metadata
    lines = [f"{kernel.name} for {meta.target}: {meta.num_warps} warps, {meta.num_stages} stages",
             f"shared memory  {meta.shared} bytes"]  # fmt: skip
    if hasattr(meta, "n_regs"):
        lines.append(f"registers      {meta.n_regs} for a thread, {meta.n_spills} words spilled")
        if meta.target.backend in MACHINES:
            lines.append(f"occupancy      {occupancy(kernel)}")
    elif meta.target.backend in MACHINES:
        lines.append("registers      not known: it was not assembled, for want of an assembler or of shared memory")
    return [*lines, f"stages         {', '.join(kernel.asm)}"]


def main(arguments: list[str]) -> int:
    """The command; a mistake in its arguments is one line, one in the kernel is shown where it stands."""
    args = parser().parse_args(arguments)
    return guarded("show", lambda: show(compiled(args), args.stage))


def show(kernel: Any, stage: str | None) -> None:
    """Print one stage of a kernel, or its figures."""
    if stage is None:
        print("\n".join(figures(kernel)))
    elif stage not in kernel.asm:
        raise UsageError(f"{kernel.metadata.target} has no stage {stage!r}: it has {', '.join(kernel.asm)}")
    elif isinstance(content := kernel.asm[stage], bytes):
        sys.stdout.buffer.write(content)
    else:
        sys.stdout.write(content)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
