"""LLVM text, executed for all threads at once: a value is an array with an element for each thread.

Threads that part at a branch wait for each other by a simple rule: of the blocks they stand at, the one written first
goes on. In structured code that makes them meet again where the branches join.
"""

import functools
import re

import ml_dtypes
import numpy as np

from tests.gpu.emulator import assembly, intrinsics
from tests.gpu.emulator.memory import SHARED_BASE, Fault, Shared

FLOATS = {"half": np.float16, "bfloat": ml_dtypes.bfloat16, "float": np.float32, "double": np.float64}
STRINGS = 1 << 50  # where constant strings lie
STACK = 1 << 51
MAPS = 1 << 52


def split_type(text):
    """(type, rest) of text that begins with a type."""
    if text[0] in "{<":
        depth = 0
        for k, c in enumerate(text):
            depth += (c in "{<") - (c in "}>")
            if depth == 0:
                return text[: k + 1], text[k + 1 :].strip()
    found = re.match(r"ptr addrspace\(\d\)|%?[\w.]+", text)
    return found[0], text[found.end() :].strip()


def split_list(text):
    """The parts between commas that no bracket encloses."""
    parts, depth, start = [], 0, 0
    for k, c in enumerate(text):
        depth += (c in "({[<") - (c in ")}]>")
        if c == "," and depth == 0:
            parts.append(text[start:k].strip())
            start = k + 1
    return [*parts, text[start:].strip()] if text.strip() else []


@functools.cache
def numpy_type(t):
    if t in FLOATS:
        return np.dtype(FLOATS[t])
    if t.startswith("ptr"):
        return np.dtype(np.uint64)
    bits = int(t[1:])
    return np.dtype(bool) if bits == 1 else np.dtype(f"u{max(8, 1 << (bits - 1).bit_length()) // 8}")


def vector_of(t):
    """(lanes, element type); lanes is 0 for a scalar."""
    found = re.fullmatch(r"<(\d+) x (.*)>", t)
    return (int(found[1]), found[2]) if found else (0, t)


def signed(x):
    return x.view(np.dtype(f"i{x.dtype.itemsize}")) if x.dtype != bool else -x.astype(np.int8)


_FRAME = ("code", "values", "at", "before", "done", "active", "here", "result")


class Code:
    """One function: its parameters, and the lines of its blocks, decoded when they are first reached."""

    def __init__(self, head, body):
        self.parameters = [(split_type(p)[0], p.split()[-1]) for p in split_list(head)]
        self.labels, self.blocks, self.decoded = {}, [], {}
        for line in body.splitlines():
            if line.endswith(":"):
                self.labels[line[:-1]] = len(self.blocks)
                self.blocks.append([])
            else:
                self.blocks[-1].append(line.strip())
        meets = r"barrier\.cta\.sync\.aligned\.count\(i32 \d+, i32 (\d+)\)"
        found = [re.search(meets, "\n".join(lines)) for lines in self.blocks]
        self.meeting = [int(x[1]) if x else 0 for x in found]  # threads that a block's barrier is for


class Machine:
    """A kernel's code, and the state of one program running it."""

    def __init__(self, text, threads, memory, shared_bytes, maps=()):
        self.maps = {MAPS + k: x for k, x in enumerate(maps)}  # what the copy engine knows of tensors
        self.threads, self.memory, self.shared_bytes = threads, memory, shared_bytes
        self.lanes, self.printed, self.strings = np.arange(threads), [], {}
        for name, body in re.findall(r'^@(\w+) = private .*? c"(.*)"$', text, re.M):
            data = re.sub(rb"\\([0-9A-F]{2})", lambda m: bytes([int(m[1], 16)]), body.encode())
            self.strings[f"@{name}"] = data[:-1].decode()
        self.string_at = {STRINGS + k: s for k, s in enumerate(self.strings.values())}
        self.addresses = {name: STRINGS + k for k, name in enumerate(self.strings)}
        whole = r"^define (?:internal|ptx_kernel) [^@\n]+ @([\w.$]+)\((.*?)\) nounwind[^\n]*\{\n(.*?)^\}"
        self.codes = {name: Code(head, body) for name, head, body in re.findall(whole, text, re.M | re.S)}
        self.kernel = re.search(r"^define ptx_kernel void @([\w.$]+)", text, re.M)[1]

    def program(self, pid, grid):
        self.pid, self.grid, self.shared = pid, grid, Shared(self.shared_bytes, self.threads // 32)
        self.stalled, self.looked = np.zeros(self.threads, bool), 0  # waiting for something to happen; and since when
        self.stack, arguments = {}, []
        given = [*self.memory.arguments, *self.maps]
        for (t, _), x in zip(self.codes[self.kernel].parameters, given, strict=True):
            kind = numpy_type(t)
            x = np.asarray(x, kind) if kind.kind == "f" else np.asarray(int(x) & (1 << 8 * kind.itemsize) - 1, kind)
            arguments.append(np.broadcast_to(x, self.threads))
        self.function(self.kernel, arguments, np.ones(self.threads, bool))
        self.shared.end()

    def function(self, name, arguments, active):
        """Run a function for some threads; returns what each returned."""
        code = self.codes[name]
        self.code, self.result = code, None
        self.values = {p: x for (_, p), x in zip(code.parameters, arguments, strict=True)}
        self.at = np.zeros(self.threads, int)
        self.before = np.full(self.threads, -1)
        self.done = ~active
        held = np.zeros(self.threads, bool)  # before a barrier that others have yet to reach
        for _ in range(1 << 20):
            if self.done.all():
                return self.result
            able = ~self.done & ~self.stalled & ~held
            if not able.any():  # all wait: look again if somebody arrived meanwhile, else the oldest copy comes
                if self.shared.events == self.looked and not self.shared.finish_box():
                    raise Fault("deadlock: all threads wait, or a barrier that not all threads of its group reach")
                self.stalled[:], self.looked, held[:] = False, self.shared.events, False
                continue
            block = int(self.at[able].min())
            self.active = (self.at == block) & able
            if self.active.sum() < code.meeting[block] and not (self.active | self.done).all():
                held |= self.active
                continue
            self.block(block)
            held[:] = False
        raise Fault("the kernel does not end")

    def active_warps(self):
        return np.unique(self.lanes[self.active] // 32)

    def warp_barrier(self, guard):
        """Lanes of a warp see each other's work."""
        if not (guard.reshape(-1, 32).all(1) | ~guard.reshape(-1, 32).any(1)).all():
            raise Fault("a barrier that not all lanes of a warp reach")
        for warp in np.nonzero(guard.reshape(-1, 32).all(1))[0]:
            self.shared.barrier([warp])

    def call(self, name, arguments):
        """Run another function for the active threads, and come back."""
        kept = {key: getattr(self, key) for key in _FRAME}
        result = self.function(name, arguments, self.active)
        for key, value in kept.items():
            setattr(self, key, value)
        return result

    def block(self, number):
        code = self.code
        if number not in code.decoded:
            code.decoded[number] = [self.decode(line) for line in code.blocks[number]]
        self.here, phis = number, []
        for target, step, is_phi in code.decoded[number]:
            if is_phi:
                phis.append((target, step()))
                continue
            for name, value in phis:
                self.assign(name, value)
            phis = []
            out = step()
            if target:
                self.assign(target, out)

    def assign(self, name, value):
        if any(name in group for group in self.shared.registers):
            raise Fault("a register that a running matrix product reads is written again")
        if type(value) is tuple:
            self.values[name] = value
            return
        wide = (self.threads, *value.shape[1:]) if value.ndim and value.shape[0] == self.threads else None
        value = value if wide else np.broadcast_to(value, (self.threads, *value.shape))
        old = self.values.get(name)
        if old is not None and not self.active.all():
            mask = self.active.reshape(-1, *[1] * (value.ndim - 1))
            value = np.where(mask, value, old)
        self.values[name] = value

    # --- operands ---------------------------------------------------------------------------------------------------
    def operand(self, t, text):
        """A function that gives the operand's value."""
        if text[0] == "%":
            return lambda: self.values[text]
        constant = self.constant(t, text)
        return lambda: constant

    def constant(self, t, text):
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

    def typed(self, text):
        """The function of an operand written with its type."""
        t, rest = split_type(text)
        return self.operand(t, rest)

    # --- lines ------------------------------------------------------------------------------------------------------
    def decode(self, line):
        target, _, body = line.partition(" = ") if re.match(r"%[\w.]+ = ", line) else (None, "", line)
        opcode, rest = body.split(" ", 1) if " " in body else (body, "")
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
        raise NotImplementedError(line)

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
        fn = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
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
        choices = []
        for part in split_list(rest):
            x, label = part[1:-1].rsplit(", %", 1)
            choices.append((self.operand(t, x), self.code.labels[label]))

        def step():
            out = np.zeros(self.threads, numpy_type(t)) if not vector_of(t)[0] else None
            for x, label in choices:
                came = self.active & (self.before == label)
                if came.any():
                    value = x()
                    out = value if out is None else np.where(came, value, out).astype(out.dtype)
            return out

        return step

    def _br(self, rest):
        rest = rest.split(", !")[0]
        if rest.startswith("label"):
            target = self.code.labels[rest.split("%")[1]]
            return lambda: self._go(np.full(self.threads, target))
        cond, yes, no = split_list(rest)
        cond, (yes, no) = self.typed(cond), (self.code.labels[x.split("%")[1]] for x in (yes, no))
        return lambda: self._go(np.where(cond(), yes, no))

    def _go(self, target):
        self.before[self.active] = self.here
        self.at = np.where(self.active, target, self.at)

    def _ret(self, rest):
        x = None if rest == "void" else self.typed(rest)

        def step():
            self.done = self.done | self.active
            if x is not None:
                self.result = self.either(x(), self.result)

        return step

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
        return self.shared if "addrspace(3)" in pointer_type else self.memory

    def _load(self, rest):
        rest = rest.removeprefix("volatile ")
        t, rest = split_type(rest)
        pointer = split_list(rest.lstrip(", "))[0]
        kind, text = split_type(pointer)
        p = self.operand(kind, text)
        count, element = vector_of(t)
        dtype = numpy_type(element)

        def step():
            data = self._space(kind).load(p()[self.active], dtype.itemsize * max(count, 1), self.lanes[self.active])
            return self.spread(np.ascontiguousarray(data).view(dtype), count)

        return step

    def spread(self, rows, count=0):
        """Values of the active threads as values of all."""
        out = np.zeros((self.threads, max(count, 1)), rows.dtype)
        out[self.active] = rows.reshape(-1, max(count, 1))
        return out if count else out[:, 0]

    def _store(self, rest):
        x, pointer = split_list(rest)[:2]
        kind, text = split_type(pointer)
        p, x = self.operand(kind, text), self.typed(x)

        def step():
            value, address = x(), p()
            if kind == "ptr":  # the stack of a print
                self.stack[int(address[0])] = value
                return
            data = np.ascontiguousarray(value.reshape(self.threads, -1)[self.active]).view(np.uint8)
            self._space(kind).store(address[self.active], data, self.lanes[self.active])

        return step

    def _alloca(self, rest):
        def step():
            return np.full(self.threads, STACK + 1024 * len(self.stack), np.uint64)

        return step

    def _atomicrmw(self, rest):
        how, rest = rest.split(" ", 1)
        pointer, x = split_list(rest.removesuffix(" monotonic"))
        p, x = self.typed(pointer), self.typed(x)

        def step():
            assert how == "add" and "addrspace(3)" in pointer
            self.shared.add(p()[self.active], x()[self.active], self.lanes[self.active])
            return np.zeros(self.threads, np.uint32)

        return step

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
        return lambda: (*x()[:k], item(), *x()[k + 1:])

    def _extractvalue(self, rest):
        x, index = split_list(rest)
        x, k = self.typed(x), int(index)
        return lambda: x()[k]

    # --- calls ------------------------------------------------------------------------------------------------------
    def _call(self, rest):
        result, rest = split_type(rest)
        found = re.match(r'asm (?:sideeffect )?"(.*?)", "(.*?)"\((.*)\)$', rest)
        if found:
            body, constraints, arguments = found.groups()
            inputs = [self.typed(a) for a in split_list(arguments)]
            names = [a.split()[-1] for a in split_list(arguments)]
            return assembly.statement(self, result, body, constraints, inputs, names)
        name, arguments = re.match(r"@([\w.$]+)\((.*)\)$", rest).groups()
        inputs = [self.typed(a) for a in split_list(arguments)]
        if name in self.codes:
            return lambda: self.call(name, [x() for x in inputs])
        return intrinsics.call(self, name, result, inputs)


# --- arithmetic -----------------------------------------------------------------------------------------------------
def _quotient(x, y):
    """Towards zero; what LLVM leaves undefined is zero here."""
    safe = np.where(y == 0, 1, y).astype(x.dtype)
    q = np.abs(x.astype(object)) // np.abs(safe.astype(object)) if x.dtype.itemsize == 8 else None
    if q is None:
        q = (np.abs(x.astype(np.int64)) // np.abs(safe.astype(np.int64))).astype(object)
    negative = (x < 0) != (safe < 0)
    out = np.where(negative, -q, q)
    limit = 1 << 8 * x.dtype.itemsize
    flat = np.array([int(v) % limit for v in out.reshape(-1)], np.dtype(f"u{x.dtype.itemsize}")).reshape(x.shape)
    return np.where(y == 0, 0, flat.view(x.dtype)).astype(x.dtype)


def _signed_division(x, y):
    return _quotient(signed(x), signed(y)).view(x.dtype)


def _signed_remainder(x, y):
    return x - _signed_division(x, y) * y


def _unsigned_division(x, y):
    return np.where(y == 0, 0, x // np.where(y == 0, 1, y)).astype(x.dtype)


def _shift(fn):
    def shift(x, n):
        bits = 8 * x.dtype.itemsize
        return fn(x, n, np.minimum(n, bits - 1).astype(n.dtype), n >= bits)

    return shift


def _boolean(fn, on_bits):
    return lambda x, y: fn(x, y) if x.dtype != bool else on_bits(x, y)


BINARY = {
    "add": _boolean(np.add, np.logical_xor),
    "sub": _boolean(np.subtract, np.logical_xor),
    "mul": _boolean(np.multiply, np.logical_and),
    "sdiv": _signed_division,
    "srem": _signed_remainder,
    "udiv": _unsigned_division,
    "urem": lambda x, y: x - _unsigned_division(x, y) * y,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": _shift(lambda x, n, low, over: np.where(over, 0, x << low).astype(x.dtype)),
    "lshr": _shift(lambda x, n, low, over: np.where(over, 0, x >> low).astype(x.dtype)),
    "ashr": _shift(lambda x, n, low, over: (signed(x) >> signed(low)).view(x.dtype)),
    "fadd": np.add,
    "fsub": np.subtract,
    "fmul": np.multiply,
    "fdiv": np.divide,
    "frem": np.fmod,
}


def _target(to):
    return numpy_type(vector_of(to)[1])


def _bitcast(x, t, to):
    lanes, _ = vector_of(to)
    rows = np.ascontiguousarray(x).reshape(x.shape[0], -1)
    out = rows.view(_target(to))
    return out if lanes else out[:, 0]


def _sext(x, t, to):
    return signed(x).astype(np.dtype(f"i{_target(to).itemsize}")).view(_target(to))


def _trunc(x, t, to):
    return (x & x.dtype.type(1)).astype(bool) if to == "i1" else x.astype(_target(to))


def _float(x, t, to):
    with np.errstate(all="ignore"):
        return x.astype(_target(to))


def _from_signed(x, t, to):
    return _float(signed(x) if x.dtype != bool else -x.astype(np.int8), t, to)


CASTS = {
    "zext": lambda x, t, to: x.astype(_target(to)),
    "sext": _sext,
    "trunc": _trunc,
    "fpext": _float,
    "fptrunc": _float,
    "sitofp": _from_signed,
    "uitofp": _float,
    "bitcast": _bitcast,
    "ptrtoint": lambda x, t, to: x.astype(_target(to)),
    "inttoptr": lambda x, t, to: x.astype(np.uint64),
}
