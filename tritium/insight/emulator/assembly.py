"""The PTX inside asm statements: predicated memory accesses, atomics, copies and matrix products."""

import re
import time

import ml_dtypes
import numpy as np

from tritium.insight.emulator import tensor_cores, tensor_memory
from tritium.insight.emulator.arithmetic import BINARY
from tritium.insight.emulator.code import WAITS
from tritium.insight.emulator.faults import Fault, Unknown
from tritium.insight.emulator.memory import WINDOW
from tritium.insight.emulator.tma import run_of

_BITS = {"h": 16, "r": 32, "l": 64, "f": 32, "d": 64, "b": 1, "c": 8}


def statement(m, result, body, constraints, inputs, names):
    """A function that executes one asm statement and gives its outputs; `names` are those of its inputs outside."""
    kinds = [c.strip() for c in constraints.split(",") if not c.startswith("~")]
    outputs = [c for c in kinds if c.startswith("=")]
    tied = {int(c): len(outputs) + k for k, c in enumerate(c for c in kinds if not c.startswith("=")) if c.isdigit()}
    lines = [line.strip() for line in re.sub(r"^\{|\}$", "", body.strip()).split(";") if line.strip()]
    if any(WAITS.search(line) for line in lines[:-1]):
        raise Unknown(f"threads that wait in the middle of a statement: {body}")
    instructions = [_instruction(line) for line in lines]

    def step():
        registers = {f"${len(outputs) + k}": x() for k, x in enumerate(inputs)}
        for out, source in tied.items():
            registers[f"${out}"] = registers[f"${source}"]
        run = Statement(m, registers, {f"${len(outputs) + k}": name for k, name in enumerate(names)})
        for instruction in instructions:
            run.execute(*instruction)
        made = [_as_output(registers[f"${k}"], c) for k, c in enumerate(outputs)]
        return None if not made else made[0] if result[0] not in "{%" else tuple(made)

    return step


def _instruction(text):
    """(predicate or None, function, operands, what its name says more) of one instruction."""
    predicate = None
    if text.startswith("@"):
        predicate, text = text[1:].split(" ", 1)
    name, _, rest = text.partition(" ")
    for pattern, fn in INSTRUCTIONS:
        found = re.fullmatch(pattern, name)
        if found:
            return predicate, fn, _operands(rest), found.groups()
    raise Unknown(text)


def _as_output(x, constraint):
    letter = constraint[-1]
    if letter in "fd":
        return np.ascontiguousarray(x).view(np.float32 if letter == "f" else np.float64)
    return x


class Statement:
    """The registers of one asm statement while its instructions are executed."""

    def __init__(self, m, registers, names):
        self.m, self.registers, self.names = m, registers, names

    def execute(self, predicate, fn, operands, groups):
        guard = self.m.active
        if predicate is not None:
            guard = guard & self.get(predicate).astype(bool)
        fn(self, guard, operands, *groups)

    def get(self, text):
        if re.fullmatch(r"-?\d+", text):
            return np.full(self.m.threads, int(text) & ((1 << 64) - 1), np.uint64)
        name, _, constant = text.partition("+")  # an address may have a constant behind it
        value = self.place(name)[name]
        return value + np.uint64(constant) if constant else value

    def set(self, name, value, guard):
        place = self.place(name)
        old = place.get(name)
        full = np.zeros(self.m.threads, value.dtype) if old is None else np.array(old)
        full[guard] = value[guard] if len(value) == self.m.threads else value
        place[name] = full

    def place(self, name):
        """Where a register is: in the kernel if it was declared there, else in this statement."""
        return self.m.lasting if name in self.m.lasting else self.registers


def _operands(text):
    """Operands split at commas; those in braces are a list, those in brackets an address."""
    return [re.split(r",\s*", part[1:-1]) if part[0] == "{" else part.strip("[]") for part in
            re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", text)]  # fmt: skip


def _listed(x):
    return x if isinstance(x, list) else [x]


def _declare(s, guard, operands):
    pass


def _registers(s, guard, operands):
    """`name<count>`, outside of a statement's braces, are registers of the whole kernel."""
    for name, count in (found.groups() for found in (re.fullmatch(r"(\w+)<(\d+)>", x) for x in operands[1:]) if found):
        for k in range(int(count)):
            s.m.lasting.setdefault(f"{name}{k}", np.full(s.m.threads, 0x7FC0DEAD, np.uint32))  # not a number


def _compare(s, guard, operands, how):
    target, x, y = operands
    a, b = s.get(x), s.get(y)
    s.set(target, a > b if how == "gt" else (a == b) == (how == "eq"), guard)


def _move(s, guard, operands, bits):
    target, source = operands
    if source in s.m.lasting and s.m.shared.reads_register(source, guard):
        s.m.log.tell(Fault("sums are read while a product may still be adding to them", "missing wait",
                           threads=s.m.lanes[guard]))
    if source == "%globaltimer":
        value = time.perf_counter_ns() + np.arange(s.m.threads)  # no two threads read the same
    elif source == "%laneid":
        value = s.m.lanes % s.m.warp_size
    elif source.startswith("%"):
        value = np.full(s.m.threads, 7)
    else:
        value = s.get(source)
    s.set(target, _bits_of(value, int(bits)), guard)


def _exit(s, guard, operands):
    if guard.any():
        raise Fault("a thread leaves the kernel in the middle of it", "wrong barrier", threads=s.m.lanes[guard])


def _move_predicate(s, guard, operands):
    target, source = operands
    s.set(target, s.get(source).astype(bool), guard)


def _bits_of(x, bits):
    """A register as an unsigned integer of `bits` bits."""
    kind = np.dtype(f"u{bits // 8}")
    if x.dtype.kind in "ui" or x.dtype == bool:
        return x.astype(kind)
    return np.ascontiguousarray(x).view(np.dtype(f"u{x.dtype.itemsize}")).astype(kind)


def _load(s, guard, operands, modifiers, space, vector, bits):
    targets, pointer = _listed(operands[0]), s.get(operands[1])
    size = int(bits) // 8
    assert len(targets) == int(vector or 1)
    if not guard.any():
        return
    load = s.m.memory.load if space == "global" else s.m.shared.load_far
    data = load(pointer[guard], size * len(targets), s.m.lanes[guard])
    words = np.ascontiguousarray(data).view(np.dtype(f"u{size}")).reshape(-1, len(targets))
    for k, name in enumerate(targets):
        value = np.zeros(s.m.threads, np.dtype(f"u{max(size, 2)}"))
        value[guard] = words[:, k]
        s.set(name, value, guard)


def _store(s, guard, operands, modifiers, vector, bits):
    pointer, sources = s.get(operands[0]), _listed(operands[1])
    assert len(sources) == int(vector or 1)
    if guard.any():
        words = np.stack([_bits_of(s.get(name), int(bits))[guard] for name in sources], axis=1)
        s.m.memory.store(pointer[guard], np.ascontiguousarray(words).view(np.uint8), s.m.lanes[guard])


_KINDS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
_HOW = {
    "add": lambda old, x: old + x,
    "min": min,
    "max": max,
    "and": lambda old, x: old & x,
    "or": lambda old, x: old | x,
    "xor": lambda old, x: old ^ x,
    "exch": lambda old, x: x,
}


def _atomic(s, guard, operands, name, sem, scope, how, vector, kind):
    """Neighbours are updated one by one, but lie where one access of them all would be aligned."""
    targets, pointer, *values = operands if name == "atom" else [[], *operands]
    kind, _, packed = kind.partition("x")
    kind_of = _KINDS.get(kind) or np.dtype(f"{'i' if kind[0] == 's' else 'u'}{int(kind[1:]) // 8}")
    dtype, word = np.dtype(kind_of), np.dtype(f"u{np.dtype(kind_of).itemsize * int(packed or 1)}")
    assert all(len(_listed(x)) == int(vector or 1) for x in values)
    parts = [np.stack([_bits_of(s.get(x), 8 * word.itemsize) for x in _listed(v)], axis=1).view(dtype) for v in values]
    olds, address = np.zeros(parts[0].shape, dtype), s.get(pointer)
    for t in np.nonzero(guard)[0]:  # one after the other
        at, who = address[t : t + 1], s.m.lanes[t : t + 1]
        data = s.m.memory.load(at, olds[t].nbytes, who, atomic=True)
        olds[t] = np.ascontiguousarray(data).view(dtype)[0]
        with np.errstate(all="ignore"):
            if how == "cas":
                new = [new if old == expected else old for old, expected, new in zip(olds[t], *(x[t] for x in parts))]
            else:
                new = [_HOW[how](old, x) for old, x in zip(olds[t], parts[0][t])]
        s.m.memory.store(at, np.array([new], dtype).view(np.uint8), who, atomic=True)
    for k, target in enumerate(_listed(targets)):
        s.set(target, np.ascontiguousarray(olds.view(word)[:, k]), guard)


def _copy(s, guard, operands):
    target, source, size, *read = operands
    size = int(size)
    amount = s.get(read[0]) if read else np.full(s.m.threads, size)
    data = np.zeros((s.m.threads, size), np.uint8)
    reads = guard & (amount != 0)
    assert np.all((amount == 0) | (amount == size))
    if reads.any():
        data[reads] = s.m.memory.load(s.get(source)[reads], size, s.m.lanes[reads])
    s.m.shared.start_copy(s.get(target)[guard], data[guard], s.m.lanes[guard])


def _divide(s, guard, operands, what, kind, bits):
    target, *both = operands
    x, y = (s.get(name).astype(f"u{int(bits) // 8}") for name in both)
    s.set(target, BINARY[kind + what](x, y).astype(np.uint64), guard)


def _extend(s, guard, operands):
    target, source = operands
    s.set(target, s.get(source).astype(np.uint32).astype(np.uint64), guard)


def _add(s, guard, operands):
    target, x, y = operands
    s.registers[target] = s.get(x).astype(np.uint64) + s.get(y)


_EIGHT = {"e4m3x2": (ml_dtypes.float8_e4m3fn, 448), "e5m2x2": (ml_dtypes.float8_e5m2, 57344)}


def _narrow(s, guard, operands, name):
    target, high, low = operands
    kind, most = _EIGHT[name]
    code = lambda x: np.clip(s.get(x), -most, most).astype(kind).view(np.uint8).astype(np.uint16)
    s.set(target, code(low) | code(high) << np.uint16(8), guard)


def _pack_bytes(s, guard, operands, kind):
    """Two integers as bytes, the second one lowest, below half of the third operand."""
    target, high, low, rest = operands
    least, most = (-128, 127) if kind == "s" else (0, 255)
    byte = lambda x: (np.clip(s.get(x).view(np.int32), least, most) & 255).astype(np.uint32)
    s.set(target, byte(low) | byte(high) << np.uint32(8) | np.uint32(int(rest)) << np.uint32(16), guard)


def _widen(s, guard, operands, name):
    target, source = operands
    pair = np.ascontiguousarray(s.get(source)).view(np.uint8).view(_EIGHT[name][0]).astype(np.float16)
    s.set(target, pair.view(np.uint32), guard)


def _store_matrices(s, guard, operands):
    """Lane 8 i + r gives the address of row r of matrix i; lane l has two elements of row l / 4, from 2 (l % 4) on."""
    address, names = s.get(operands[0]), operands[1]
    lanes = s.m.lanes
    s.m.warps_of(guard, "a store of matrices")
    first = lanes // 32 * 32
    for i, name in enumerate(names):
        at = address[first + 8 * i + lanes % 32 // 4] + (4 * (lanes % 4)).astype(address.dtype)
        assert not np.any(address[guard] % 16), "rows of matrices are aligned to 16 bytes"
        words = np.ascontiguousarray(_bits_of(s.get(name), 32)[guard]).view(np.uint8).reshape(-1, 4)
        s.m.shared.store(at[guard], words, lanes[guard])


def _load_matrices(s, guard, operands, count, turned):
    """Lane 8 i + r gives the address of row r of matrix i; lane l gets two elements of row (or column) l / 4."""
    names, address, lanes = _listed(operands[0]), s.get(operands[1]), s.m.lanes
    s.m.warps_of(guard, "a load of matrices")
    assert len(names) == int(count)
    for i, name in enumerate(names):
        assert not np.any(address[guard] % 16), "rows of matrices are aligned to 16 bytes"
        at = address[lanes // 32 * 32 + 8 * i + lanes % 32 // 4] + (4 * (lanes % 4)).astype(address.dtype)
        data = np.ascontiguousarray(s.m.shared.load(at[guard], 4, lanes[guard]))
        if turned:
            data = np.ascontiguousarray(data.view(np.uint16).reshape(-1, 8, 8).swapaxes(1, 2))
        words = np.zeros(s.m.threads, np.uint32)
        words[guard] = data.view(np.uint32).reshape(-1)
        s.set(name, words, guard)


def _groups(s, guard):
    return [group for group, _ in s.m.warpgroups(guard, "a matrix product")]


def _blocks(s, guard):
    return np.unique(s.m.lanes[guard] // s.m.members)


def _wait_copies(s, guard, operands):
    s.m.shared.wait_copies(int(operands[0]), _blocks(s, guard))


def _wait_products(s, guard, operands):
    s.m.shared.wait_products(int(operands[0]), _groups(s, guard))


def _barrier(s, guard, operands, how):
    """Warps come to a barrier of a number; for all threads of their blocks, or as many as are said."""
    s.m.barriers.come(guard, *map(s.get, operands), waits=how == "sync")


def _start_phases(s, guard, operands):
    for t in np.nonzero(guard)[0]:
        s.m.shared.start_phases(s.get(operands[0])[t], int(operands[1]), t)


def _arrive(s, guard, operands):
    for t in np.nonzero(guard)[0]:
        s.m.shared.arrive(s.get(operands[1])[t], t)


def _arrive_far(s, guard, operands):
    for t in np.nonzero(guard)[0]:
        s.m.shared.arrive_far(s.get(operands[1])[t], t)


def _fence_phases(s, guard, operands):
    for t in np.nonzero(guard)[0]:
        s.m.shared.fence_phases(t)


def _map_address(s, guard, operands):
    """mapa: the address in another block's shared memory that corresponds to one in the own block; checked when
    used."""
    target, address, rank = (operands[0], *[s.get(x).astype(np.uint64) for x in operands[1:]])
    s.set(target, (address % np.uint64(WINDOW) + (rank + np.uint64(1)) * np.uint64(WINDOW)).astype(np.uint32), guard)


def _expect(s, guard, operands):
    for t in np.nonzero(guard)[0]:
        s.m.shared.phases_at(s.get(operands[0])[t], t).expect(int(operands[1]))


def _try_wait(s, guard, operands):
    """Threads that must wait try again when something has happened."""
    target, address, parity = (operands[0], *map(s.get, operands[1:]))
    over = np.zeros(s.m.threads, bool)
    asked = np.stack([s.m.lanes[guard] // 32 * 32, address[guard], parity[guard]], axis=1).astype(np.int64)
    rows, which = np.unique(asked, axis=0, return_inverse=True)  # mostly the lanes of a warp ask the same
    over[guard] = np.array([s.m.shared.phase_over(at, parity, thread) for thread, at, parity in rows])[which.ravel()]
    s.set(target, over, guard)
    s.m.stalled |= guard & ~over


def _choose(s, guard, operands):
    target, yes, no, condition = operands
    s.set(target, np.where(s.get(condition), s.get(yes), s.get(no)).astype(np.uint32), guard)


def _copy_box(s, guard, operands, rank, multicast):
    target, source, barrier, *mask = operands
    tensor, *where = re.findall(r"\$\d+", source)
    assert len(where) == int(rank)
    for t in np.nonzero(guard)[0]:
        start = [int(s.get(x)[t].astype(np.uint32).view(np.int32)) for x in reversed(where)]
        box = s.m.maps[int(s.get(tensor)[t])]
        index, data = box.read(s.m.memory, start, int(s.get(target)[t]))
        blocks = _in_mask(int(s.get(mask[0])[t]), s.m.blocks) if multicast else [t // s.m.members]
        for block in blocks:
            s.m.shared.start_box(index, data, t, s.get(barrier)[t], block)


def _copy_run(s, guard, operands):
    target, source, size, barrier = operands
    for t in np.nonzero(guard)[0]:
        index, data = run_of(s.m.memory, int(s.get(source)[t]), int(size), int(s.get(target)[t]))
        s.m.shared.start_box(index, data, t, s.get(barrier)[t], t // s.m.members)


def _in_mask(mask, blocks):
    if not mask or mask >> blocks:
        raise Fault(f"a copy to blocks {mask:b} of a cluster of {blocks}")
    return [b for b in range(blocks) if mask >> b & 1]


def _store_box(s, guard, operands, rank, how=None):
    target, source = operands
    tensor, *where = re.findall(r"\$\d+", target)
    assert len(where) == int(rank)
    for t in np.nonzero(guard)[0]:
        start = [int(s.get(x)[t].astype(np.uint32).view(np.int32)) for x in reversed(where)]
        box = s.m.maps[int(s.get(tensor)[t])]
        index, write = box.write(s.m.memory, start, int(s.get(source)[t]), _HOW.get(how or ""))
        s.m.shared.lend(index, t, write)


def _close_boxes(s, guard, operands):
    for t in np.nonzero(guard)[0]:
        s.m.shared.close_boxes(t)


def _await_boxes(s, guard, operands, read):
    for t in np.nonzero(guard)[0]:
        s.m.shared.await_boxes(int(operands[0]), not read, t)


INSTRUCTIONS = [
    (r"mbarrier\.init\.shared::cta\.b64", _start_phases),
    (r"fence\.mbarrier_init\.release\.cluster", _fence_phases),
    (r"prefetch\.tensormap", _declare),
    (r"mbarrier\.arrive\.shared::cta\.b64", _arrive),
    (r"mbarrier\.arrive(?:\.release\.cluster)?\.shared::cluster\.b64", _arrive_far),
    (r"mbarrier\.expect_tx\.relaxed\.cta\.shared::cta\.b64", _expect),
    (r"mbarrier\.try_wait\.parity\.shared::cta\.b64", _try_wait),
    (r"selp\.b32", _choose),
    (r"stmatrix\.sync\.aligned\.m8n8\.x4\.shared\.b16", _store_matrices),
    (r"ldmatrix\.sync\.aligned\.m8n8\.x(\d)(\.trans)?\.shared\.b16", _load_matrices),
    (r"setmaxnreg\.(?:inc|dec)\.sync\.aligned\.u32", _declare),
    (
        r"cp\.async\.bulk\.tensor\.(\d)d\.shared::cluster\.global\.tile\.mbarrier::complete_tx::bytes(\.multicast::cluster)?",
        _copy_box,
    ),
    (r"cp\.async\.bulk\.shared::cluster\.global\.mbarrier::complete_tx::bytes", _copy_run),
    (r"cp\.async\.bulk\.tensor\.(\d)d\.global\.shared::cta\.tile\.bulk_group", _store_box),
    (r"cp\.reduce\.async\.bulk\.tensor\.(\d)d\.global\.shared::cta\.(\w+)\.tile\.bulk_group", _store_box),
    (r"cp\.async\.bulk\.commit_group", _close_boxes),
    (r"cp\.async\.bulk\.wait_group(\.read)?", _await_boxes),
    (r"griddepcontrol\.(?:wait|launch_dependents)", _declare),
    (r"bar(?:rier(?:\.cta)?)?\.(sync|arrive)(?:\.aligned)?", _barrier),
    (r"bar\.warp\.sync", lambda s, guard, operands: s.m.warp_barrier(guard)),
    (r"cvt\.rn\.satfinite\.(\w+)\.f32", _narrow),
    (r"cvt\.rn\.f16x2\.(\w+)", _widen),
    (r"cvt\.pack\.sat\.([su])8\.s32\.b32", _pack_bytes),
    (r"\.reg", _registers),
    (r"setp\.(eq|ne|gt)\.[bu]32", _compare),
    (r"exit", _exit),
    (r"mov\.[bu](\d+)", _move),
    (r"mov\.pred", _move_predicate),
    (r"ld((?:\.[\w:]+)*?)\.(global|shared::cluster)(?:\.[\w:]+?)*?(?:\.v(\d))?\.b(\d+)", _load),
    (r"mapa\.shared::cluster\.u32", _map_address),
    (r"barrier\.cluster\.arrive\.aligned", lambda s, guard, operands: s.m.barriers.come_to_cluster(guard)),
    (r"barrier\.cluster\.wait\.aligned", lambda s, guard, operands: s.m.barriers.wait_for_cluster(guard)),
    (r"st((?:\.[\w:]+)*?)\.global(?:\.[\w:]+?)*?(?:\.v(\d))?\.b(\d+)", _store),
    (r"(atom)\.(\w+)\.(\w+)\.global\.(\w+?)(?:\.noftz)?(?:\.v(\d))?\.(\w+)", _atomic),
    (r"(red)\.(relaxed|release)\.(\w+)\.global\.(\w+?)(?:\.noftz)?(?:\.v(\d))?\.(\w+)", _atomic),
    (r"cp\.async\.c[ag]\.shared\.global", _copy),
    (r"cp\.async\.commit_group", lambda s, guard, operands: s.m.shared.close_copies(_blocks(s, guard))),
    (r"cp\.async\.wait_group", _wait_copies),
    (r"fence\.proxy\.async(?:\.shared::cta)?", lambda s, guard, operands: s.m.shared.fence(_blocks(s, guard))),
    (r"add\.s64", _add),
    (r"(div|rem)\.([su])(32|64)", _divide),
    (r"cvt\.u64\.u32", _extend),
    (r"mma\.sync\.aligned\.m(\d+)n8k(\d+)\.row\.col\.\w+\.(\w+)\.(\w+)\.\w+", tensor_cores.mma),
    (
        r"mma\.sync\.aligned\.kind::(\w+)\.block_scale\.scale_vec::(\d)X\.m16n8k(\d+)\.row\.col\.f32\.(\w+)\.(\w+)\.f32\.(\w+)",
        tensor_cores.scaled_mma,
    ),
    (r"wgmma\.fence\.sync\.aligned", lambda s, guard, operands: s.m.shared.begin_products(_groups(s, guard))),
    (r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k(\d+)\.\w+\.(\w+)\.(\w+)", tensor_cores.wgmma),
    (r"wgmma\.commit_group\.sync\.aligned", lambda s, guard, operands: s.m.shared.close_products(_groups(s, guard))),
    (r"wgmma\.wait_group\.sync\.aligned", _wait_products),
    *tensor_memory.INSTRUCTIONS,
]
