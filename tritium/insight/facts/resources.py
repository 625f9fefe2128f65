"""What a program of a kernel takes from a GPU's processor: registers, shared memory, and so how many run at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tritium.backends.compiler import GPUTarget
from tritium.backends.gpu import ops as gpu_ops
from tritium.backends.occupancy import Machine, Occupancy, machine, occupancy_of
from tritium.insight.facts.launch import Launch
from tritium.insight.facts.liveness import Held, Pressure, most_registers, pressure
from tritium.insight.facts.places import line_of
from tritium.ir.core import Module, walk

_L1_LEAST = 28 << 10  # bytes of L1 that no shared memory takes: 256 KiB of both less 228, 192 less 164, 128 less 100


@dataclass(frozen=True)
class Buffer:
    """Shared memory that one op of the GPU stage takes."""

    line: int
    what: str
    bytes: int
    reused: bool  # scratch: later ops write over it


@dataclass(frozen=True)
class Point:
    """Occupancy at other amounts of one resource."""

    amount: int
    programs: int
    share: float


@dataclass(frozen=True)
class Resources:
    """What a program takes, and what that leaves room for. On a CPU only `scratch` means something."""

    target: str
    warps: int
    producer_warps: int
    registers: int
    registers_estimated: bool
    registers_lacking: int  # beyond what a thread can have, by the estimate; 0 where an assembler has said
    spills: int | None  # 32-bit words; None where no assembler has said
    shared: int
    buffers: tuple[Buffer, ...]
    occupancy: Occupancy | None
    by_registers: tuple[Point, ...]
    by_warps: tuple[Point, ...]
    by_shared: tuple[Point, ...]
    scratch: int = 0
    pressure: Pressure | None = None  # where a thread holds the most registers
    consumer_registers: int = 0  # of a thread that computes, where producer warps gave it some of theirs

    @property
    def held(self) -> tuple[Held, ...]:
        """The tiles that a thread holds there, the largest first."""
        return self.pressure.held if self.pressure else ()

    @property
    def limiter(self) -> str:
        """What keeps more programs off a processor."""
        return self.occupancy.limiter if self.occupancy else ""


def resources(launch: Launch) -> Resources:
    """The resources of a compiled launch.

    >>> import numpy as np
    >>> from tritium.backends.compiler import GPUTarget
    >>> from tritium.insight.facts.launch import prepared
    >>> from tritium.kernels.vector_add import add_kernel
    >>> x = np.zeros(4096, np.float32)
    >>> launch = prepared(add_kernel, (4,), (x, x, x, 4096), {"BLOCK": 1024}, GPUTarget("cuda", 80, 32))
    >>> found = resources(launch)
    >>> found.shared, found.limiter, found.occupancy.share
    (0, 'warps', 1.0)
    """
    meta = launch.metadata
    if not launch.is_gpu:
        return Resources(str(launch.target), 1, 0, 0, True, 0, None, 0, (), None, (), (), (),
                         meta.get("arena_bytes", 0))
    module, shared = launch.stages["ttgir"], meta["shared"]
    estimated = "n_regs" not in meta
    producers = meta.get("producer_warps", 0)
    warps = launch.num_warps + producers
    target = launch.target
    registers, lacking = registers_of(target, module, meta)
    has = _machine(target)
    if has is None:
        return Resources(str(target), launch.num_warps, producers, registers, estimated, 0, meta.get("n_spills"),
                         shared, buffers(module), None, (), (), (), pressure=pressure(module))
    occupancy = occupancy_of(registers, shared, warps, target)
    at = lambda amount, found: Point(amount, found.programs, found.share)
    return Resources(
        str(target), launch.num_warps, producers, registers, estimated, lacking, meta.get("n_spills"),
        shared, buffers(module), occupancy,
        tuple(at(n, occupancy_of(n, shared, warps, target)) for n in range(16, has.most_registers + 1, 8)),
        tuple(at(n, occupancy_of(registers, shared, n, target)) for n in (1, 2, 4, 8, 16, 32)),
        tuple(at(n, occupancy_of(registers, n, warps, target))
              for n in range(0, has.most_shared + 1, 8192)),
        pressure=pressure(module), consumer_registers=min(_given(module), has.most_registers))  # fmt: skip


def _given(module: Module) -> int:
    """The registers of a thread that computes, after producer warps gave up theirs; 0 without producer warps."""
    roles = (op.attrs["registers"] for op in walk(module.body) if op.kind is gpu_ops.warp_specialize)
    return max((registers[-1] for registers in roles if registers), default=0)


def registers_of(target: GPUTarget, module: Module, metadata: dict[str, Any]) -> tuple[int, int]:
    """The registers of a thread, and those that it lacks: 0 where an assembler has said, an estimate elsewhere."""
    if "n_regs" in metadata:
        return metadata["n_regs"], 0
    wanted, has = most_registers(module), _machine(target)
    if has is None:
        return wanted, 0
    warps = metadata["num_warps"] + metadata.get("producer_warps", 0)
    registers = min(wanted, has.most_registers, has.registers // (warps * has.warp_size))
    return registers, wanted - registers


def _machine(target: GPUTarget) -> Machine | None:
    """The limits of a GPU; None for an architecture whose limits nobody has written down."""
    try:
        return machine(target)
    except ValueError:
        return None


def l1_bytes(launch: Launch, used: Resources) -> int:
    """The L1 cache that is left for each program: what shared memory does not take of the processor's."""
    if used.occupancy is None or not used.occupancy.programs:
        return _L1_LEAST
    has, programs = machine(launch.target), used.occupancy.programs
    if has.cache:  # L1 is a memory of its own
        return has.cache // programs
    total = has.shared + _L1_LEAST
    return max(_L1_LEAST, total - programs * used.shared) // programs


def buffers(module) -> tuple[Buffer, ...]:
    """The shared memory of a GPU module op by op: multibuffers, operands, mbarriers, scratch of other ops."""
    out, scratch = [], {}
    for op in walk(module.body):
        line, sizes = line_of(op), [size for _, size in op.attrs.get("shared", ())]
        if op.kind is gpu_ops.multibuffer:
            out.append(Buffer(line, f"multibuffer: {op.attrs['slots']} slots of {op.attrs['tile']}", sum(sizes), False))
        elif op.kind is gpu_ops.share:
            out += [Buffer(line, f"operand {x.type}", size, False) for x, size in zip(op.operands, sizes)]
        elif op.kind is gpu_ops.mbarrier_init:
            out.append(Buffer(line, f"{op.attrs['count']} mbarriers", sum(sizes), False))
        elif sizes:
            scratch[line] = max(scratch.get(line, 0), sum(sizes))
    return (*out, *(Buffer(line, "scratch", size, True) for line, size in scratch.items()))
