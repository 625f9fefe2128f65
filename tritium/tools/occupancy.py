"""`python -m tritium occupancy`: the programs of a kernel that fit on a multiprocessor, and the limiting resource.

    python -m tritium occupancy kernels.py -n add_kernel -s "*fp32:16, *fp32:16, *fp32:16, i32, 1024" -t sm_90
    python -m tritium occupancy -t gfx942 --registers 96 --shared 16384 --num-warps 4
    python -m tritium occupancy --list

With a file, the kernel is compiled for the target and its resources are used. Without one, give --registers, --shared
and --num-warps. No GPU is needed. In Python: `tritium.tools.occupancy.occupancy(kernel)`.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from tritium.backends.occupancy import MACHINES, Machine, Occupancy, machine, occupancy, occupancy_of
from tritium.tools.command import UsageError, guarded

__all__ = ["MACHINES", "Machine", "Occupancy", "machine", "main", "occupancy", "occupancy_of", "report"]


def parser() -> argparse.ArgumentParser:
    """The command's arguments.

    >>> parser().parse_args(["-t", "gfx942", "--registers", "96"]).registers
    96
    """
    p = argparse.ArgumentParser("python -m tritium occupancy", description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("path", nargs="?", help="the Python file with the kernel, or the file of a stage")
    p.add_argument("--kernel-name", "-n", help="the kernel's name in the Python file")
    p.add_argument("--signature", "-s", help="types, hints and constants, e.g. '*fp32:16, i32, 1024'")
    p.add_argument("--target", "-t", help="sm_90, gfx942, ...; default: this machine's, or as in the file")
    p.add_argument("--num-warps", "-w", type=int, metavar="N", help="warps per program")
    p.add_argument("--num-stages", "-ns", type=int, metavar="N", help="pipeline stages of loops")
    p.add_argument("--maxnreg", type=int, metavar="N", help="the limit of registers per thread")
    p.add_argument("--registers", type=int, metavar="N",
                   help="registers per thread; AMD: vector registers, accumulators included")
    p.add_argument("--scalars", type=int, default=0, metavar="N", help="AMD: scalar registers per warp")
    p.add_argument("--shared", type=int, metavar="N", help="bytes of shared memory (LDS) per program")
    p.add_argument("--list", action="store_true", help="list the resources of a multiprocessor of each known GPU")
    return p


def main(arguments: list[str]) -> int:
    """The command."""
    args = parser().parse_args(arguments)
    return guarded("occupancy", lambda: print("\n".join(_lines(args))))


def _lines(args: argparse.Namespace) -> list[str]:
    if args.list:
        return table()
    if args.path is not None:
        return _of_kernel(args)
    if args.registers is None:
        raise UsageError("name a file with a kernel, or say what a program needs: --registers, --shared, --num-warps; "
                         "--list lists the GPUs")
    for name, least in (("registers", 1), ("shared", 0), ("num_warps", 1), ("scalars", 0)):
        if (getattr(args, name) or least) < least:
            raise UsageError(f"--{name.replace('_', '-')} must be at least {least}, not {getattr(args, name)}")
    from tritium.tools.compile import parse_target

    target, warps = parse_target(args.target), args.num_warps or 4
    has = _machine(target, args)
    if args.registers > has.most_registers:
        raise UsageError(f"a thread of {target} has at most {has.most_registers} registers, not {args.registers}")
    return report(args.registers, args.shared or 0, warps, target, args.scalars)


def _of_kernel(args: argparse.Namespace) -> list[str]:
    from tritium.tools.show import compiled

    given = [f"--{name}" for name in ("registers", "shared") if getattr(args, name) is not None]
    if given:
        raise UsageError(f"{' and '.join(given)} cannot be given with a kernel: its own figures count")
    kernel = compiled(args)
    meta = kernel.metadata
    _machine(meta.target, args)
    if not hasattr(meta, "n_regs"):
        raise UsageError(f"the registers of {kernel.name} are not known: it was not assembled, for want of an "
                         "assembler or of shared memory\nhint: give them by --registers, without the kernel")
    warps = meta.num_warps + getattr(meta, "producer_warps", 0)
    scalars = getattr(meta, "n_sgprs", 0) or 0
    return [f"{kernel.name} for {meta.target}", *report(meta.n_regs, meta.shared, warps, meta.target, scalars)]


def _machine(target: Any, args: argparse.Namespace) -> Any:
    """The limits of a target; without --target this machine's may be none of a GPU."""
    if args.target is None and target.backend == "cpu":
        raise UsageError("this machine has no GPU: name one, as in --target sm_90 or --target H100; --list lists them")
    return machine(target)


def report(registers: int, shared: int, warps: int, target: Any, scalars: int = 0) -> list[str]:
    """Lines on a program's needs: the occupancy, what each limit allows, what another program would take.

    >>> from tritium.backends.compiler import GPUTarget
    >>> print("\\n".join(report(96, 16384, 4, GPUTarget("hip", "gfx942", 64))))
    4 programs of 4 warps on each processor, 16 of 32 warps (50%); limited by shared memory
    warps              8 programs
    programs          16 programs
    registers          5 programs   96 for a thread
    shared memory      4 programs   16384 bytes
    one program more   needs 12800 bytes of shared memory or fewer
    """
    found = occupancy_of(registers, shared, warps, target, scalars)
    needs = {"registers": f"   {registers} for a thread", "shared memory": f"   {shared} bytes",
             "scalar registers": f"   {scalars} for a warp"}  # fmt: skip
    rows = [f"{name:<16} {count:>3} program{'s' if count != 1 else ' '}{needs.get(name, '')}".rstrip()
            for name, count in found.limits.items()]
    return [str(found), *rows, *_another(found, registers, shared, warps, target, scalars)]


def _another(found: Occupancy, registers: int, shared: int, warps: int, target: Any, scalars: int) -> list[str]:
    """What one program more would take, if registers and shared memory are all that keeps it out."""
    wanted = found.programs + 1
    if occupancy_of(1, 0, warps, target, scalars).programs < wanted:
        return []
    parts = []
    if found.limits["registers"] < wanted:
        fits = lambda r: occupancy_of(r, 0, warps, target).limits["registers"] >= wanted
        most = next(filter(fits, range(registers, 0, -1)))
        parts.append(f"{most} registers")
    if found.limits["shared memory"] < wanted:
        unit = machine(target).shared_unit
        fits = lambda m: occupancy_of(1, m, warps, target).limits["shared memory"] >= wanted
        most = next(filter(fits, range(shared // unit * unit, -1, -unit)))
        parts.append(f"{most} bytes of shared memory")
    return [f"one program more   needs {' and '.join(parts)} or fewer"]


def table() -> list[str]:
    """What a processor of each known GPU has.

    >>> table()[1].split()
    ['sm_70', '64', '32', '65536', '98304', '98304']
    """
    rows = [f"{'target':<9}{'warps':>6}{'programs':>9}{'registers':>10}{'shared':>8}{'of a program':>13}"]
    for names in MACHINES.values():
        for arch, has in names.items():
            name = f"sm_{arch}" if isinstance(arch, int) else arch
            rows.append(f"{name:<9}{has.warps:>6}{has.programs:>9}{has.registers:>10}{has.shared:>8}"
                        f"{has.most_shared:>13}")
    return rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
