"""LLVM text, executed for all threads at once: a value is an array with an element for each thread.

Threads that part at a branch wait for each other by a simple rule: of the places they stand at, the one written first
goes on. In structured code that makes them meet again where the branches join. The blocks of a cluster run side by
side in the same way: their threads are numbered on, and what is a block's own is told apart by number.
"""

import itertools
import re
from typing import Any

import numpy as np

from tritium.insight.emulator import assembly, atomics, intrinsics
from tritium.insight.emulator.arithmetic import BINARY, CASTS, signed
from tritium.insight.emulator.barriers import Barriers
from tritium.insight.emulator.code import FLOATS, alignment, numpy_type, segments_of, split_list, split_type, vector_of
from tritium.insight.emulator.faults import Fault, Log, Unknown
from tritium.insight.emulator.memory import SHARED_BASE, Watch
from tritium.insight.emulator.shared import Shared

STRINGS = 1 << 50  # where constant strings lie
STACK = 1 << 51
MAPS = 1 << 52
LONGEST = 1 << 20  # segments of a program that ends


class Machine:
    """A kernel's code, and the state of one program running it: a block, or a cluster of `blocks`."""

    warp_size = 32

    def __init__(self, text, threads, memory, shared_bytes, maps=(), blocks=1, log=None):
        self.log = log or Log()
        self.maps = {MAPS + k: x for k, x in enumerate(maps)}  # what TMA knows of tensors
        self.blocks, self.members, self.threads = blocks, threads, blocks * threads
        self.memory, self.shared_bytes = memory, shared_bytes
        self.global_memory: Any = memory  # with what a machine has besides the memory of arguments
        self.lanes, self.printed, self.strings = np.arange(self.threads), [], {}
        self.lasting = {}  # registers that statements have declared for the whole kernel
        for name, body in re.findall(r'^@(\w+) = private .*? c"(.*)"$', text, re.M):
            data = re.sub(rb"\\([0-9A-F]{2})", lambda m: bytes([int(m[1], 16)]), body.encode())
            self.strings[f"@{name}"] = data[:-1].decode()
        self.string_at = {STRINGS + k: s for k, s in enumerate(self.strings.values())}
        self.addresses = {name: STRINGS + k for k, name in enumerate(self.strings)}
        self.segments = segments_of(text)

    def program(self, pid, grid):
        """Run one program; for clusters, pid and grid count clusters."""
        for _ in self.turns(pid, grid, LONGEST):
            raise Fault("the kernel does not end", "endless wait", threads=self.lanes[~self.done])

    def turns(self, pid, grid, length):
        """Run one program, and yield after every `length` segments, for others to have a turn."""
        self.pid, self.grid = pid, grid
        self.shared = self.make_shared()
        self.memory.watch = Watch(self.memory, self.shared) if self.blocks > 1 else None
        self.tensor: Any = None  # tensor memory, once somebody allocates some
        self.barriers = Barriers(self)
        self.at, self.before = np.zeros(self.threads, int), np.full(self.threads, -1)
        self.done, self.waiting, self.stalled = (np.zeros(self.threads, bool) for _ in range(3))
        self.looked, self.stack = 0, {}  # when those that wait for something to happen looked last
        for segment in self.segments:
            segment.frame.values.clear()
        self._pass_arguments(self.segments[0].frame)
        for turn in itertools.count(1):
            if self.done.all():
                return
            if turn % length == 0:
                yield
            able = ~(self.done | self.stalled | self.waiting)
            if able.any():
                number = int(self.at[able].min())
                self.segment(number, able & (self.at == number))
            else:
                self._look_again()

    def make_shared(self):
        """Shared memory of a program that begins."""
        return Shared(self.shared_bytes, self.members // self.warp_size, self.blocks, self.log, self.warp_size)

    def _pass_arguments(self, frame):
        for (t, name), x in zip(frame.parameters, [*self.memory.arguments, *self.maps], strict=True):
            kind = numpy_type(t)
            x = np.asarray(x, kind) if kind.kind == "f" else np.asarray(int(x) & (1 << 8 * kind.itemsize) - 1, kind)
            frame.values[name] = np.broadcast_to(x, self.threads)

    def _look_again(self):
        """All wait: those that look for something look again if somebody arrived since, else the oldest copy comes, or
        the oldest products are finished."""
        if self.shared.events == self.looked and not self.shared.finish_box() and not self._finish_product():
            raise self._deadlock()
        self.stalled[:], self.looked = False, self.shared.events

    def _finish_product(self):
        return self.tensor is not None and self.tensor.finish()

    def _deadlock(self):
        """Where the threads wait that no longer go on: at the end of a segment, or at the beginning of the next."""
        left = self.lanes[~self.done]
        line_of = lambda t: self.segments[self.at[t] - 1].places[-1] if self.waiting[t] else \
            self.segments[self.at[t]].places[0]
        lines = np.array([line_of(t) for t in left])
        self.log.place, apart = lines[0], lines != lines[0]
        return Fault("deadlock: all threads wait, or a barrier that not all threads of its group reach", "deadlock",
                     threads=left[~apart], other=left[apart] if apart.any() else None, did="waits, too",
                     other_place=int(lines[apart][0]) if apart.any() else None)

    def segment(self, number, active):
        """Some threads execute what stands at their place; they go on behind it if it does not say where."""
        segment = self.segments[number]
        self.here, self.block, self.active, self.together = number, segment.block, active, bool(active.all())
        self.frame, self.values, phis = segment.frame, segment.frame.values, []
        if segment.steps is None:
            segment.steps = [self.decode(line, segment.callee) for line in segment.lines]
        self.at[active] = number + 1
        log = self.log
        for place, (target, step, is_phi) in zip(segment.places, segment.steps):
            log.place = place
            if is_phi:
                phis.append((target, step()))
                continue
            for name, value in phis:
                self.assign(name, value)
            phis = []
            out = step()
            if target and out is not None:  # what a function gives comes when it returns
                self.assign(target, out)

    def assign(self, name, value, values=None):
        if self.shared.registers and self.shared.reads_register(name, self.active):
            self.log.tell(Fault("a register that a running matrix product reads is written again", "missing wait",
                                threads=self.lanes[self.active]))
        values = self.values if values is None else values
        if type(value) is tuple:
            values[name] = value
            return
        wide = (self.threads, *value.shape[1:]) if value.ndim and value.shape[0] == self.threads else None
        value = value if wide else np.broadcast_to(value, (self.threads, *value.shape))
        old = values.get(name)
        if old is not None and not self.together:
            mask = self.active.reshape(-1, *[1] * (value.ndim - 1))
            value = np.where(mask, value, old)
        values[name] = value

    # --- who is there -----------------------------------------------------------------------------------------------
    def warps_of(self, guard, what):
        """The warps of some threads, which must be whole."""
        rows = guard.reshape(-1, self.warp_size)
        some = rows.any(1)
        if not (rows.all(1) == some).all():
            raise Fault(f"{what} that not all lanes of a warp reach", "wrong barrier", threads=self.lanes[guard])
        return np.nonzero(some)[0]

    def warpgroups(self, guard, what):
        """(number, threads) of the groups of four warps, which must be whole, of each block."""
        for first in range(0, self.threads, self.members):
            for start in range(first, first + self.members, 128):
                threads = np.arange(start, min(start + 128, first + self.members))
                here = guard[threads]
                if here.any():
                    if not here.all() or len(threads) < 128:
                        raise Fault(f"{what} that not all threads of a warpgroup reach", "wrong barrier",
                                    threads=self.lanes[guard])
                    yield start, threads

    def warp_barrier(self, guard):
        """Lanes of a warp see each other's work."""
        for warp in self.warps_of(guard, "a barrier"):
            self.shared.barrier([warp])

    def blocks_of(self, warps):
        """(block, warps) of each block that has some of these warps."""
        block = warps // (self.members // self.warp_size)
        return [(b, warps[block == b]) for b in np.unique(block)]

    # --- operands ---------------------------------------------------------------------------------------------------
    def operand(self, t, text) -> Any:
        """A function that gives the operand's value."""
        if text[0] == "%":
            return lambda: self.values[text]
        constant = self.constant(t, text)
        return lambda: constant

    def constant(self, t, text) -> Any:
        if t[0] == "{":
            return tuple(self.constant(part, text) for part in split_list(t[1:-1]))
        count, element = vector_of(t)
        if count:
            if text in ("zeroinitializer", "poison", "undef"):
                return np.zeros((self.threads, count), numpy_type(element))
            splat = re.match(r"splat \((.*)\)", text)
            parts = [splat[1]] * count if splat else split_list(text[1:-1])
            values = [self.constant(*split_type(part)) for part in parts]
            return np.stack(values, axis=-1)
        return np.full(self.threads, self._number(t, text))

    def _number(self, t, text):
        kind = numpy_type(t)
        if text in ("null", "poison", "undef", "zeroinitializer", "false"):
            return np.zeros((), kind)
        if text == "true":
            return np.bool_(True)
        if text == "@smem":
            return np.uint64(SHARED_BASE)
        if text[0] == "@":
            return np.uint64(self.addresses[text])
        if t in FLOATS:
            for mark, bits in (("0xH", "u2"), ("0xR", "u2"), ("0x", "u8")):
                if text.startswith(mark):
                    raw = np.array(int(text[len(mark) :], 16), bits)
                    return (raw.view(np.float64) if bits == "u8" else raw.view(kind)).astype(kind)
            return np.array(float(text), kind)
        return np.array(int(text) & ((1 << 8 * kind.itemsize) - 1), kind)

    def typed(self, text) -> Any:
        """The function of an operand written with its type."""
        t, rest = split_type(text)
        return self.operand(t, rest)

    # --- lines ------------------------------------------------------------------------------------------------------
    def decode(self, line, callee):
        target, _, body = line.partition(" = ") if re.match(r"%[\w.]+ = ", line) else (None, "", line)
        opcode, rest = body.split(" ", 1) if " " in body else (body, "")
        if opcode == "call":
            return target, self._call(rest, callee), False
        fn = getattr(self, f"_{opcode}", None)
        if fn:
            return target, fn(rest), opcode == "phi"
        if opcode in BINARY:
            return target, self._binary(opcode, rest), False
        if opcode in CASTS:
            t, rest = split_type(rest)
            x, to = rest.rsplit(" to ", 1)
            x = self.operand(t, x)
            return target, lambda: CASTS[opcode](x(), t, to), False
        raise Unknown(line)

    def _binary(self, opcode, rest):
        rest = re.sub(r"^((contract|nsw|nuw|disjoint|exact) )+", "", rest)
        t, rest = split_type(rest)
        x, y = (self.operand(t, part) for part in split_list(rest))
        fn = BINARY[opcode]

        def step():
            with np.errstate(all="ignore"):
                return fn(x(), y())

        return step

    def _fneg(self, rest):
        x = self.typed(rest)
        return lambda: -x()

    def _icmp(self, rest):
        predicate, rest = rest.split(" ", 1)
        t, rest = split_type(rest)
        x, y = (self.operand(t, part) for part in split_list(rest))
        see = signed if predicate[0] == "s" else lambda v: v
        fn = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
              "ge": np.greater_equal}[predicate[-2:]]  # fmt: skip
        return lambda: fn(see(x()), see(y()))

    def _fcmp(self, rest):
        predicate, rest = rest.split(" ", 1)
        t, rest = split_type(rest)
        x, y = (self.operand(t, part) for part in split_list(rest))
        fn: Any = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
              "ge": np.greater_equal}.get(predicate[1:])  # fmt: skip

        def step():
            a, b = x(), y()
            nan = (a != a) | (b != b)
            if predicate in ("uno", "ord"):
                return nan if predicate == "uno" else ~nan
            return fn(a, b) & ~nan if predicate[0] == "o" else fn(a, b) | nan

        return step

    def _select(self, rest):
        c, x, y = (self.typed(part) for part in split_list(rest))

        def step():
            cond, a, b = c(), x(), y()
            cond = cond[:, None] if a.ndim > cond.ndim else cond
            return np.where(cond, a, b).astype(a.dtype, copy=False)

        return step

    def _phi(self, rest):
        t, rest = split_type(rest)
        count, element = vector_of(t)
        zeros = np.zeros((self.threads, count) if count else self.threads, numpy_type(element))
        choices = []
        for part in split_list(rest):
            x, label = part[1:-1].rsplit(", %", 1)
            choices.append((self.operand(t, x), self.frame.labels[label]))

        def step():
            out = zeros
            for x, label in choices:
                came = self.active & (self.before == label)
                if came.any():
                    out = np.where(came[:, None] if count else came, x(), out).astype(out.dtype)
            return out

        return step

    def _br(self, rest):
        rest = rest.split(", !")[0]
        if rest.startswith("label"):
            target = self.frame.labels[rest.split("%")[1]]
            return lambda: self._go(np.full(self.threads, target))
        cond, yes, no = split_list(rest)
        cond, (yes, no) = self.typed(cond), (self.frame.labels[x.split("%")[1]] for x in (yes, no))
        return lambda: self._go(np.where(cond(), yes, no))

    def _go(self, target):
        self.before[self.active] = self.block
        self.at = np.where(self.active, target, self.at)

    def _ret(self, rest):
        x, frame = None if rest == "void" else self.typed(rest), self.frame
        if not frame.outer:
            return self._leave

        def step():
            self.at[self.active] = frame.after
            if x is not None:
                values = frame.outer.values
                values[frame.target] = self.either(x(), values.get(frame.target))

        return step

    def _leave(self):
        """The active threads are done."""
        self.done = self.done | self.active
        for block in np.unique(self.lanes[self.active] // self.members):
            if self.done[block * self.members : (block + 1) * self.members].all():
                self.shared.leave(block)
                if self.tensor is not None:
                    self.tensor.leave(block)
        self.barriers.settle()

    def either(self, mine, others):
        """Values of the active threads, those of others elsewhere; of records, part by part."""
        if others is None:
            return mine
        if type(mine) is tuple:
            return tuple(map(self.either, mine, others))
        return np.where(self.active, mine, others)

    def _unreachable(self, rest):
        return lambda: None

    # --- memory -----------------------------------------------------------------------------------------------------
    def _getelementptr(self, rest):
        t, rest = split_type(rest)
        base, *index = split_list(rest.lstrip(", "))
        p = self.typed(base)
        if t[0] == "{":  # a field of a record on the stack: one slot of 8 bytes each
            field = int(index[1].split()[1])
            return lambda: p() + np.uint64(8 * field)
        x, size = self.typed(index[0]), numpy_type(t).itemsize
        return lambda: p() + signed(x()).astype(np.int64).view(np.uint64) * np.uint64(size)

    def _space(self, pointer_type):
        return self.shared if "addrspace(3)" in pointer_type else self.global_memory

    def _load(self, rest):
        align = alignment(rest)
        t, rest = split_type(re.sub(r"^(atomic |volatile )+", "", rest))
        pointer = split_list(atomics.operands(rest.lstrip(", ")))[0]
        kind, text = split_type(pointer)
        p = self.operand(kind, text)
        count, element = vector_of(t)
        dtype = numpy_type(element)

        def step():
            size = dtype.itemsize * max(count, 1)
            data = self._space(kind).load(p()[self.active], size, self.lanes[self.active], align=align)
            return self.spread(np.ascontiguousarray(data).view(dtype), count)

        return step

    def spread(self, rows, count=0):
        """Values of the active threads as values of all."""
        out = np.zeros((self.threads, max(count, 1)), rows.dtype)
        out[self.active] = rows.reshape(-1, max(count, 1))
        return out if count else out[:, 0]

    def _store(self, rest):
        align = alignment(rest)
        x, pointer = split_list(atomics.operands(re.sub(r"^(atomic |volatile )+", "", rest)))[:2]
        kind, text = split_type(pointer)
        p, x = self.operand(kind, text), self.typed(x)

        def step():
            value, address = x(), p()
            if kind == "ptr":  # the stack of a print
                self.stack[int(address[0])] = value
                return
            data = np.ascontiguousarray(value.reshape(self.threads, -1)[self.active]).view(np.uint8)
            self._space(kind).store(address[self.active], data, self.lanes[self.active], align=align)

        return step

    def _alloca(self, rest):
        def step():
            return np.full(self.threads, STACK + 1024 * len(self.stack), np.uint64)

        return step

    def _atomicrmw(self, rest):
        return atomics.update(self, rest)

    def _cmpxchg(self, rest):
        return atomics.exchange(self, rest)

    # --- vectors and records ----------------------------------------------------------------------------------------
    def _insertelement(self, rest):
        x, item, index = split_list(rest)
        (t, _), x, item, k = split_type(x), self.typed(x), self.typed(item), int(index.split()[1])
        count, _ = vector_of(t)

        def step():
            out = np.array(np.broadcast_to(x(), (self.threads, count)))
            out[:, k] = item()
            return out

        return step

    def _extractelement(self, rest):
        x, index = split_list(rest)
        x, k = self.typed(x), int(index.split()[1])
        return lambda: x()[:, k]

    def _insertvalue(self, rest):
        x, item, index = split_list(rest)
        x, item, k = self.typed(x), self.typed(item), int(index)
        return lambda: (*x()[:k], item(), *x()[k + 1 :])

    def _extractvalue(self, rest):
        x, index = split_list(rest)
        x, k = self.typed(x), int(index)
        return lambda: x()[k]

    # --- calls ------------------------------------------------------------------------------------------------------
    def _call(self, rest, callee):
        result, rest = split_type(rest)
        found = re.match(r'asm (?:sideeffect )?"(.*?)", "(.*?)"\((.*)\)$', rest)
        if found:
            body, constraints, arguments = found.groups()
            inputs = [self.typed(a) for a in split_list(arguments)]
            names = [a.split()[-1] for a in split_list(arguments)]
            return assembly.statement(self, result, body, constraints, inputs, names)
        called: Any = re.match(r"@([\w.$]+)\((.*)\)$", rest)
        name, arguments = called.groups()
        inputs = [self.typed(a) for a in split_list(arguments)]
        if callee and callee.name == name:
            return lambda: self._enter(callee, [x() for x in inputs])
        return intrinsics.call(self, name, result, inputs)

    def _enter(self, frame, arguments):
        """Go on in a function, which stands right behind; its result comes when it returns."""
        for (_, name), x in zip(frame.parameters, arguments, strict=True):
            self.assign(name, x, frame.values)
