"""An AMD GPU in NumPy: LLVM text for amdgcn, executed for all threads at once."""

from __future__ import annotations

import re
import time
from typing import Any, cast

import numpy as np

from tritium.backends.amdgcn import records
from tritium.backends.amdgcn.isa.target import AmdTarget
from tritium.backends.amdgcn.isa.threads import TICK
from tritium.insight.emulator.amd import buffers, lanes, matrix, numbers
from tritium.insight.emulator.amd.lds import Lds
from tritium.insight.emulator.code import split_list, split_type
from tritium.insight.emulator.faults import Fault, Unknown
from tritium.insight.emulator.machine import Machine
from tritium.insight.emulator.memory import Memory

__all__ = ["AmdMachine"]

_OWN = 1 << 53  # addresses from here on are of what the machine itself gives to kernels
_ROOM = 1 << 14  # words of records that messages have


class AmdMachine(Machine):
    """A program of one architecture: warps of 64 lanes, or of 32 on RDNA."""

    def __init__(self, text, threads, memory, shared_bytes, maps=(), blocks=1, log=None, arch="gfx942"):
        target = AmdTarget.of(arch)
        self.arch, self.generation, self.warp_size = target.cpu, target.generation, target.warp_size
        super().__init__(text, threads, memory, shared_bytes, maps, blocks, log)
        self.sites = records.sites_of(text)
        self._give(re.findall(r"^@([\w.$]+) = \w+ addrspace\(1\) ", text, re.M))

    def _give(self, names):
        """Memory of the machine's own: global variables, the implicit arguments, and the buffer of messages."""
        self.implicit, self.messages = np.zeros(64, np.uint32), np.array(records.empty(_ROOM), np.uint32)
        variables = [np.zeros(1, np.uint64) for _ in names]
        self.own = Memory([self.implicit, self.messages, *variables])
        at = [int(x) + _OWN for x in self.own.arguments]
        self.implicit_at = at[0]
        for name, place in zip(names, at[2:]):
            self.addresses[f"@{name}"] = place
            if name == records.VARIABLE:
                self._write_own(place, np.array([at[1]], np.uint64))
        self.global_memory = _Split(self.memory, self.own)

    def _write_own(self, place, words):
        self.own.store(np.array([place - _OWN]), words.view(np.uint8)[None, : words.itemsize], None)

    def make_shared(self):
        """Shared memory in which fences count."""
        return Lds(self.shared_bytes, self.members // self.warp_size, self.blocks, self.log, self.warp_size)

    def turns(self, pid, grid, length):
        """Run one program; the numbers of programs are the first of the implicit arguments."""
        for k, count in enumerate(grid):
            self._write_own(self.implicit_at + 4 * k, np.array([count], np.uint32))
        yield from super().turns(pid, grid, length)
        self._tell_messages()

    def _tell_messages(self):
        """What the program has printed; the next one finds an empty buffer."""
        self.own.read_back()
        found = records.read(self.messages.tolist(), self.sites)
        self.printed += [found.printed] if found.printed else []
        if self.messages[records.CLAIMED]:
            self._empty()
        return found

    def _empty(self):
        start = int(self.own.arguments[1])
        self.messages[:] = records.empty(_ROOM)
        self.own.bytes[start : start + self.messages.nbytes] = self.messages.view(np.uint8)
        self.own.before = self.own.bytes.copy()

    # --- instructions -----------------------------------------------------------------------------------------------
    def _fence(self, rest):
        found = re.match(r'(?:syncscope\("([\w-]*)"\) )?(acquire|release|acq_rel|seq_cst)', rest)
        if not found:
            raise Unknown(f"fence {rest}")
        scope, how = found.groups()

        def step():
            warps, lds = self.warps_of(self.active, "a fence"), cast("Lds", self.shared)
            if scope == "wavefront":
                self.warp_barrier(self.active)
            elif scope != "singlethread":
                lds.order(warps, how)

        return step

    def _addrspacecast(self, rest):
        x, _ = rest.rsplit(" to ", 1)
        return self.typed(x)

    def _freeze(self, rest):
        return self.typed(rest)

    def _call(self, rest, callee):
        rest = re.sub(r"^(?:(?:noundef|contract|fast|nnan|ninf|nsz|arcp|afn|reassoc|range\([^)]*\)) )+", "", rest)
        result, called = split_type(rest)
        name, arguments = found.groups() if (found := re.match(r"@(llvm\.[\w.]+)\((.*)\)", called)) else ("", "")
        for pattern, make in _TABLE:
            if hit := re.fullmatch(pattern, name):
                return make(self, result, [self.typed(x) for x in split_list(arguments)], *hit.groups())
        return super()._call(rest, callee)


class _Split:
    """The memory of the kernel's arguments, and that of the machine, by address."""

    def __init__(self, memory, own):
        self.memory, self.own = memory, own

    def _at(self, address):
        if len(address) and int(address[0]) >= _OWN:
            return self.own, address - np.uint64(_OWN)
        return self.memory, address

    def load(self, address, size, threads, atomic=False, align=None):
        """The elements at addresses."""
        memory, at = self._at(address)
        return memory.load(at, size, threads, atomic, align)

    def store(self, address, data, threads, atomic=False, align=None):
        """Write elements at addresses."""
        memory, at = self._at(address)
        memory.store(at, data, threads, atomic, align)


# --- who is there -----------------------------------------------------------------------------------------------------
def _index(m, result, inputs, what, axis):
    k = "xyz".index(axis)

    def step():
        value = (m.lanes if k == 0 else 0) if what == "workitem" else m.pid[k]
        return np.broadcast_to(np.asarray(value, np.uint32), m.threads)

    return step


def _implicit(m, result, inputs):
    return lambda: np.full(m.threads, m.implicit_at, np.uint64)


def _barrier(m, result, inputs):
    """All warps of the program meet."""

    def step():
        m.shared.come(m.warps_of(m.active, "a barrier"))
        m.barriers.come(m.active, np.zeros(m.threads, int))

    return step


def _warp_barrier(m, result, inputs):
    """Accesses of a warp's lanes stay in order."""
    return lambda: m.warp_barrier(m.active)


def _wait(m, result, inputs):
    """s.waitcnt: how many loads may be under way, and accesses to shared memory."""

    def step():
        bits = int(inputs[0]()[0])
        pending = bits >> 10 & 63 if m.generation == 11 else bits & 15 | bits >> 14 << 4 & 48
        warps = m.warps_of(m.active, "a wait")
        m.shared.wait_for_loads(warps, pending)
        if not (bits >> 4 if m.generation == 11 else bits >> 8) & 15:
            m.shared.release(warps)

    return step


def _end(m, result, inputs):
    """endpgm: after a failed assertion."""

    def step():
        failed = m._tell_messages().failed
        text = failed[0] if failed else "the program ends itself"
        raise Fault(f"device assertion: {text}", "assertion", threads=m.lanes[m.active])

    return step


def _nothing(m, result, inputs, *groups):
    return lambda: None


def _ticks(m, result, inputs):
    """Time goes on, and no two threads read the same."""
    return lambda: (time.perf_counter_ns() // TICK + np.arange(m.threads)).astype(np.uint64)


def _constant(dtype):
    return lambda m, result, inputs, *groups: lambda: np.zeros(m.threads, dtype)


_TABLE: list[tuple[str, Any]] = [
    (r"llvm\.amdgcn\.(workitem|workgroup)\.id\.([xyz])", _index),
    (r"llvm\.amdgcn\.implicitarg\.ptr", _implicit),
    (r"llvm\.amdgcn\.s\.barrier", _barrier),
    (r"llvm\.amdgcn\.wave\.barrier", _warp_barrier),
    (r"llvm\.amdgcn\.s\.waitcnt", _wait),
    (r"llvm\.amdgcn\.endpgm", _end),
    (r"llvm\.amdgcn\.(?:sched\.barrier|sched\.group\.barrier|s\.setprio|s\.sleep|iglp\.opt|s\.nop)", _nothing),
    (r"llvm\.amdgcn\.s\.(?:memrealtime|memtime)|llvm\.readsteadycounter|llvm\.readcyclecounter", _ticks),
    (r"llvm\.amdgcn\.s\.getreg", _constant(np.uint32)),
    *lanes.TABLE,
    *buffers.TABLE,
    *matrix.TABLE,
    *numbers.TABLE,
]
