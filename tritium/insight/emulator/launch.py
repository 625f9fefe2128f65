"""Launches of lowered GPU programs on the emulator: on the memory of their arguments, with findings for the sanitizer.

Of a large grid only some programs run; the results are then those of the same kernel on the CPU.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tritium import knobs
from tritium.backends.compiler import GPUTarget, portable_options
from tritium.backends.cpu.checked import Argument, argument_of, parts_of
from tritium.backends.driver import driver
from tritium.backends.launcher.calls import pack
from tritium.backends.launcher.preconditions import Guard
from tritium.backends.llvm.lines import places_in
from tritium.backends.nvptx.runtime.tensor_map import Template
from tritium.compiler import compile
from tritium.insight.emulator.faults import Fault
from tritium.insight.emulator.findings import Collector
from tritium.insight.emulator.host import HostMemory
from tritium.insight.emulator.machine import Machine
from tritium.insight.emulator.programs import PROGRAMS, chosen, run_programs
from tritium.insight.emulator.targets import machine_of
from tritium.insight.emulator.tma import TensorMap, tensor_of
from tritium.insight.sanitize import sanitizer as sanitize
from tritium.ir.preconditions import preconditions_of
from tritium.locks import lock
from tritium.named_tuples import NamedTuple
from tritium.tensors import hold

__all__ = ["EmulatedLauncher"]

_one_at_a_time = lock()  # launches of several threads would see each other's stores half done


class _Launch(NamedTuple):
    """One launch: the values of all slots, the arguments that are memory, and the tensor maps."""

    grid: tuple[int, int, int]
    values: list[Any]
    arguments: list[Argument]
    maps: list[TensorMap]


class EmulatedLauncher:
    """Launches one kernel that was lowered for a GPU; the driver says how many programs of a launch run."""

    fallback: Any = None

    def __init__(self, src, metadata):
        self._src, self._metadata = src, metadata
        self._names, self._types = tuple(src.signature), tuple(src.signature.values())
        self._templates = [Template(*template) for template in metadata.tensor_maps]
        assumed = preconditions_of(metadata)
        self._preconditions = Guard(assumed) if assumed.nonnegative or assumed.disjoint else None
        self._stores = assumed.stores
        self._others: dict[str, Any] = {}  # the kernel for other launches, and on the CPU

    def __call__(self, gx, gy, gz, stream, function, packed_metadata, told, enter, leave, *args) -> None:
        args = [x if type_ == "constexpr" else hold(x) for type_, x in zip(self._types, args, strict=True)]
        parts = [part for type_, x, name in zip(self._types, args, self._names) for part in parts_of(type_, x, name)]
        launch = self._launch((gx, gy, gz), parts)
        if launch is None:
            other = self._other("fallback", self.fallback)
            other.run(gx, gy, gz, stream, other.function, packed_metadata, told, enter, leave, *args)
            return
        if enter is not None:
            enter(told)
        with _one_at_a_time:
            self._run(function, launch, args)
        if leave is not None:
            leave(told)

    def _launch(self, grid: tuple[int, int, int], parts: list[tuple]) -> _Launch | None:
        """The launch, if it is as the kernel takes for granted."""
        packed = b"".join(pack(type_, value) for type_, value, _, _ in parts)
        at = ctypes.cast(ctypes.c_char_p(packed), ctypes.c_void_p).value or 0
        if self._preconditions is not None and not self._preconditions.hold(grid, at):
            return None
        values = [value for _, value, _, _ in parts]
        try:
            maps = [tensor_of(template, values, grid) for template in self._templates]
        except Fault:  # TMA has no such tensors
            return None
        if any(_meet(x, y) for x in maps[:(self._stores or (0,))[0]] for y in self._spans(values, grid)):
            return None
        return _Launch(grid, values, [argument_of(name, value, x) for _, value, x, name in parts if x is not None],
                       maps)

    def _spans(self, values: list[Any], grid: tuple[int, int, int]) -> list[tuple[int, int]]:
        """The memory of stores that may not meet what TMA loads."""
        _, spans = self._stores or (0, ())
        return [_extent(Template("u8", size, base, offset, dims, (1,) * len(dims), 0), values, grid)
                for size, base, offset, dims in spans]

    def _other(self, name: str, make: Callable[[], Any]) -> Any:
        with _one_at_a_time:
            if name not in self._others:
                self._others[name] = make()
            return self._others[name]

    # --- running ------------------------------------------------------------------------------------------------------
    def _run(self, text: str, launch: _Launch, args: list[Any]) -> None:
        m, grid, values = self._metadata, launch.grid, list(launch.values)
        count = math.prod(grid)
        if m.persistent:  # each program does the work of two, as far as the grid goes
            values += grid
            grid = (-(-count // 2), 1, 1)
        programs = chosen(grid, getattr(driver.active, "programs", PROGRAMS))
        sampled = len(programs) < math.prod(grid)
        kept = _Kept(launch.arguments) if sampled else None
        log = Collector()
        memory = HostMemory(values, launch.arguments, log, m.foreign)
        threads = m.warp_size * (m.num_warps + m.producer_warps)
        machine, made = machine_of(GPUTarget(m.backend_name, m.arch, m.warp_size)), []

        def make() -> Machine:
            made.append(machine(text, threads, memory, m.shared, launch.maps, m.num_ctas, log))
            return made[-1]

        run_programs(make, programs, grid, log.hear)
        sys.stdout.write("".join(line for machine in made for line in machine.printed))
        self._tell(text, launch, log, threads, sampled)
        if kept is not None:
            sanitize.note(f"kernel `{m.name}`: {len(programs)} of {math.prod(grid)} programs ran; results are those of "
                          "the CPU")
            kept.put_back()
            self._on_cpu(launch.grid, args)

    def _tell(self, text: str, launch: _Launch, log: Collector, threads: int, sampled: bool) -> None:
        m = self._metadata
        failed = [fault.message for fault, _, _ in log.found.values() if fault.kind == "assertion"]
        for finding in log.findings(m.name, launch.grid, launch.arguments, places_in(text), threads, m.num_ctas,
                                    m.warp_size):
            if finding.kind == "endless wait" and sampled:
                sanitize.note(f"kernel `{m.name}`: program {finding.program} was given up; it may wait for programs "
                              "that did not run")
            else:
                sanitize.tell(finding)
        if failed:
            raise RuntimeError(failed[0])

    def _on_cpu(self, grid: tuple[int, int, int], args: list[Any]) -> None:
        """Launch the same kernel on the CPU."""
        if "cpu" not in self._others:
            self._others["cpu"] = compile(self._src, GPUTarget("cpu", "host", 1), portable_options(self._metadata))
        with knobs.internal.scope():
            knobs.sanitize = False  # else it would come back here
            self._others["cpu"].launch(grid, tuple(args))


class _Kept:
    """The memory of arguments as it was."""

    def __init__(self, arguments: list[Argument]):
        spans = sorted({(a.low, a.high) for a in arguments if a.keep is not None and a.writable and a.high > a.low})
        self._copies = [(low, ctypes.string_at(low, high - low)) for low, high in spans]

    def put_back(self) -> None:
        """Have it so again."""
        for low, data in self._copies:
            ctypes.memmove(low, data, len(data))


def _extent(template: Template, values: list[Any], grid: tuple[int, int, int]) -> tuple[int, int]:
    low, sizes, strides = template.tensor(values, grid)
    return low, low + sum((size - 1) * stride for size, stride in zip(sizes, strides)) + template.size


def _meet(x: TensorMap, span: tuple[int, int]) -> bool:
    """Whether a tensor that TMA loads and a stretch of memory overlap."""
    end = x.address + int(np.dot(np.array(x.shape) - 1, x.strides)) + x.size
    return x.address < span[1] and span[0] < end
