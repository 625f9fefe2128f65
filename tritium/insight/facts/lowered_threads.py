"""The accesses to shared memory of a lowered kernel, with the addresses of a program's threads.

The kernel's LLVM text is followed for all threads at once, with the arithmetic of the emulator but without data: what
comes from arguments, program numbers or memory is not known. A branch whose condition is not known goes both ways. A
loop of the source is followed once, with what it begins with; one that the lowering of an op makes, to its end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tritium.insight.emulator.code import Frame, Segment, numpy_type, split_list, split_type, vector_of
from tritium.insight.emulator.faults import Fault, Unknown
from tritium.named_tuples import NamedTuple

_NAME = re.compile(r"%[\w.]+")
_ASM = re.compile(r'asm (?:sideeffect )?"(.*?)", "(.*?)"\((.*)\)$')
_INSTRUCTION = re.compile(r"\b(stmatrix|ldmatrix|ld\.shared::cluster)([\w.:]*)[^;]*?\[\$(\d+)(?:\+(\d+))?\]")
_KNOWN = re.compile(r"@llvm\.(?:[su](?:min|max)\.|nvvm\.read\.ptx\.sreg\.tid\.|nvvm\.shfl|amdgcn\.workitem\.id)")
_SIDES = {"load": "read", "store": "write", "atomicrmw": "atomic", "cmpxchg": "atomic"}
_LONGEST = 1 << 14  # blocks that are followed


class Access(NamedTuple):
    """One access of a program's threads: `place` and `depth` number its place in the source and count the loops of the
    source around it. Of the threads that take part, `addresses` has the bytes at which each has `size`; None if they
    depend on data."""

    place: int
    depth: int
    side: str  # "read", "write", "atomic", or "far" for reads of the memory of a cluster's blocks
    size: int
    threads: np.ndarray
    addresses: np.ndarray | None


class Threads:
    """The threads of one program of a kernel: a machine of the emulator that has its LLVM text, and `own`, which says
    whether a loop is of the lowering: of the places of its lines, and of how many loops are around it."""

    def __init__(self, machine: Any, own: Callable[[set[int], int], bool]):
        self.m = machine
        machine.pid, machine.grid = (0, 0, 0), (1, 1, 1)
        self.segments: list[Segment] = machine.segments
        self.reached: dict[int, np.ndarray] = {}  # segment -> the threads that come there
        self.came: dict[tuple[int, int], np.ndarray] = {}  # (segment, block before) -> those that come from there
        self.varying: set[tuple[int, str]] = set()  # (frame, name) of what loops of the source change
        self.loops = dict(self._loops(own))

    def _loops(self, own: Callable[[set[int], int], bool]) -> Iterator[tuple[tuple[int, int], bool]]:
        """((first segment, last segment) of each loop, whether it is of the lowering)."""
        spans = [(at, k) for k, s in enumerate(self.segments) for at in self._targets(s) if at <= k]
        for first, last in spans:
            around = sum(a <= first and last <= b and (a, b) != (first, last) for a, b in spans)
            places = {place for s in self.segments[first : last + 1] for place in s.places if place}
            yield (first, last), own(places, around)

    @staticmethod
    def _targets(segment: Segment) -> list[int]:
        line = segment.lines[-1] if segment.lines else ""
        return [segment.frame.labels[x] for x in re.findall(r"label %([\w.]+)", line)] if line.startswith("br ") else []

    def depth(self, number: int) -> int:
        """How many loops of the source are around a segment."""
        return sum(first <= number <= last for (first, last), own in self.loops.items() if not own)

    def follow(self) -> Iterator[Access]:
        """The accesses, in order."""
        everyone = np.ones(self.m.threads, bool)
        self.reached, number = {0: everyone}, 0
        for _ in range(_LONGEST):
            if number >= len(self.segments):
                return
            here = self.reached.pop(number, None)
            following = number + 1
            if here is not None and here.any():
                following = yield from self._segment(number, here)
            number = following

    def _segment(self, number: int, active: np.ndarray) -> Iterator[Access]:
        m, segment = self.m, self.segments[number]
        m.active, m.frame, m.values, m.block = active, segment.frame, segment.frame.values, segment.block
        depth, phis = self.depth(number), []
        for line, place in zip(segment.lines, segment.places):
            target, _, body = line.partition(" = ") if line[0] == "%" else ("", "", line)
            opcode, _, rest = body.partition(" ")
            if opcode == "phi":
                phis.append((target, self._phi(number, rest)))
                continue
            for name, found in phis:
                self._set(name, *found)
            phis = []
            if opcode in ("br", "ret"):
                return self._leave(number, active, opcode, rest)
            if opcode in _SIDES and "addrspace(3)" in rest:
                yield self._access(opcode, rest, place, depth)
            elif opcode == "call" and (asm := _ASM.search(rest)):
                yield from self._assembly(asm, place, depth)
            if target:
                self._set(target, self._value(line, opcode, rest), self._varies(rest))
        if segment.callee is not None:
            self._enter(segment.callee, segment.lines[-1])
        self._go(number, number + 1, active)
        return number + 1

    # --- values -----------------------------------------------------------------------------------------------------
    def _set(self, name: str, value: Any, varies: bool) -> None:
        if value is None:
            self.m.values.pop(name, None)
        else:
            self.m.values[name] = value
        (self.varying.add if varies else self.varying.discard)((id(self.m.frame), name))

    def _varies(self, text: str) -> bool:
        return any((id(self.m.frame), name) in self.varying for name in _NAME.findall(text))

    def _value(self, line: str, opcode: str, rest: str) -> Any:
        """What a line computes; None if that is not known."""
        if opcode in ("load", "alloca", *_SIDES) or opcode == "call" and not _KNOWN.search(rest):
            return None
        if any(name not in self.m.values for name in _NAME.findall(rest)):
            return None
        try:
            return self.m.decode(line, None)[1]()
        except (Fault, Unknown, KeyError):
            return None

    def _phi(self, number: int, rest: str) -> tuple[Any, bool]:
        """(value, whether it varies): that of the edges that threads came by."""
        m, (t, rest) = self.m, split_type(rest)
        out, varies = None, any(first == number and not own for (first, _), own in self.loops.items())
        for part in split_list(rest):
            text, label = part[1:-1].rsplit(", %", 1)
            came = self.came.get((number, m.frame.labels[label]))
            if came is None or not came.any():
                continue
            varies = varies or self._varies(text)
            if text[0] == "%" and text not in m.values:
                return None, varies
            value = m.operand(t, text)()
            if type(value) is tuple:
                return None, varies
            out = value if out is None else np.where(came.reshape(-1, *[1] * (value.ndim - 1)), value, out)
        return out, varies

    # --- where threads go -------------------------------------------------------------------------------------------
    def _go(self, source: int, target: int, threads: np.ndarray) -> None:
        """Threads go on at a segment."""
        block = self.segments[source].block
        self.reached[target] = threads | self.reached.get(target, np.zeros(len(threads), bool))
        before = self.came.get((target, block))
        self.came[target, block] = threads if before is None else threads | before

    def _leave(self, number: int, active: np.ndarray, opcode: str, rest: str) -> int:
        """Threads leave a segment; returns the one to follow next."""
        frame = self.segments[number].frame
        if opcode == "ret":
            if frame.outer is not None:
                self._go(number, frame.after, active)
                frame.outer.values.pop(frame.target, None)
            return number + 1
        ways, known = self._ways(frame, active, rest)
        for target, threads in ways:
            if target > number:
                self._go(number, target, threads)
                continue
            if known and self.loops[target, number] and threads.any():  # again, and only from here
                for k in [key for key in self.came if target <= key[0] <= number]:
                    del self.came[k]
                self._go(number, target, threads)
                return target
            for other, _ in ways:  # a loop of the source ends
                if other > number:
                    self._go(number, other, active)
        return number + 1

    def _ways(self, frame: Any, active: np.ndarray, rest: str) -> tuple[list[tuple[int, np.ndarray]], bool]:
        """The (segment, threads that go there) of a branch, and whether its condition is known."""
        if rest.startswith("label"):
            return [(frame.labels[_label(rest)], active)], True
        cond, yes, no = split_list(rest.split(", !")[0])
        targets, name = [frame.labels[_label(x)] for x in (yes, no)], cond.split()[-1]
        if (name[0] != "%" or name in self.m.values) and not self._varies(name):
            holds = self.m.typed(cond)().astype(bool)
            return [(targets[0], active & holds), (targets[1], active & ~holds)], True
        likely = re.search(r"!prof !(\d)", rest)  # !0 if the condition is expected to hold, !1 if not
        chosen = targets if likely is None else [targets[int(likely[1])]]
        return [(target, active) for target in chosen], False

    def _enter(self, callee: Frame, call: str) -> None:
        """Arguments of a call: what is known of them."""
        arguments = split_list(call[call.index("(", call.index("@")) + 1 : call.rindex(")")])
        values = [self.m.typed(x)() if x.split()[-1] in self.m.values else None for x in arguments]
        callee.values.clear()
        callee.values.update({name: x for (_, name), x in zip(callee.parameters, values) if x is not None})

    # --- accesses ---------------------------------------------------------------------------------------------------
    def _access(self, opcode: str, rest: str, place: int, depth: int) -> Access:
        rest = re.sub(r"^(?:(?:atomic|volatile|add|xchg|\w+) )*?(?=[<{]|i\d|ptr|half|bfloat|float|double)", "", rest)
        kind, _ = split_type(rest)
        if opcode in ("atomicrmw", "cmpxchg"):
            kind = "i32"
        pointer = next(x for x in split_list(rest) if x.startswith("ptr addrspace(3)"))
        count, element = vector_of(kind)
        size = numpy_type(element).itemsize * max(1, count)
        return self._made(_SIDES[opcode], pointer, 0, size, self.m.active, place, depth)

    def _made(self, side: str, pointer: str, more: int, size: int, active: np.ndarray, place: int,
              depth: int) -> Access:
        name, threads = pointer.split()[-1], np.nonzero(active)[0]
        if name[0] == "%" and name not in self.m.values:
            return Access(place, depth, side, size, threads, None)
        return Access(place, depth, side, size, threads, self.m.typed(pointer)()[active].astype(np.int64) + more)

    def _assembly(self, asm: re.Match, place: int, depth: int) -> Iterator[Access]:
        """Matrices, of whose rows of 16 bytes lanes have the addresses, and loads from the blocks of a cluster."""
        body, constraints, arguments = asm.groups()
        outputs = sum(c.strip().startswith("=") for c in constraints.split(","))
        inputs = split_list(arguments)
        for name, how, number, more in _INSTRUCTION.findall(body):
            side, size, active = "write" if name == "stmatrix" else "read", 16, self.m.active
            if name.startswith("ld.shared"):
                side, size = "far", _number(r"\.[bfsu](\d+)", how) // 8
            else:
                rows = 8 * _number(r"\.x(\d)", how)
                active = active & (self.m.lanes % self.m.warp_size < rows)
            yield self._made(side, inputs[int(number) - outputs], int(more or 0), size, active, place, depth)


def _number(pattern: str, how: str) -> int:
    """A number in the qualifiers of an instruction, which always have it."""
    found = re.search(pattern, how)
    assert found is not None, how
    return int(found[1])


def _label(text: str) -> str:
    return text.split("%")[1].strip()
