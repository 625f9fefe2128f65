"""LLVM's atomic instructions, one thread after the other."""

import re

import numpy as np

from tritium.insight.emulator.arithmetic import signed
from tritium.insight.emulator.code import numpy_type, split_list, split_type, vector_of
from tritium.insight.emulator.faults import Unknown


def update(m, rest):
    """A function that executes `atomicrmw`, and gives what was in memory."""
    found = re.match(r"(?:volatile )?(\w+) (.*)$", rest)
    if not found or found[1] not in UPDATES:
        raise Unknown(f"atomicrmw {rest}")
    pointer, x = split_list(operands(found[2]))
    if "addrspace(3)" in pointer:
        return _add_in_shared(m, found[1], pointer, x)
    return one_by_one(m, m.typed(pointer), [m.typed(x)], split_type(x)[0], UPDATES[found[1]])


def exchange(m, rest):
    """A function that executes `cmpxchg`, and gives what was in memory and whether it was changed."""
    pointer, expected, new = split_list(operands(rest.removeprefix("weak ").removeprefix("volatile ")))
    if "addrspace(3)" in pointer:
        raise Unknown(f"cmpxchg {rest}")
    wanted = m.typed(expected)
    step = one_by_one(m, m.typed(pointer), [wanted, m.typed(new)], split_type(new)[0], compare_and_swap)

    def both():
        old = step()
        return old, old == wanted()

    return both


def compare_and_swap(old, expected, new):
    """What memory has afterwards."""
    return new if old == expected else old


def operands(text):
    """Operands without what stands behind them: scope, orders, alignment, metadata."""
    return re.sub(r'( syncscope\("[^"]*"\))? (monotonic|acquire|release|acq_rel|seq_cst)\b.*$', "", text)


def one_by_one(m, p, xs, t, fn, memory=None):
    """A function that updates memory at the addresses p() by fn(old, *values) for one thread after the other, and
    gives what was there. A vector is updated element by element."""
    count, element = vector_of(t)
    dtype, memory = numpy_type(element), memory or m.memory

    def step():
        olds, operands, address = np.zeros((m.threads, max(count, 1)), dtype), [x() for x in xs], p()
        operands = [x.reshape(m.threads, -1) for x in operands]
        for t in np.nonzero(m.active)[0]:
            at, who = address[t : t + 1], m.lanes[t : t + 1]
            data = memory.load(at, olds[t].nbytes, who, atomic=True)
            olds[t] = np.ascontiguousarray(data).view(dtype)[0]
            with np.errstate(all="ignore"):
                new = [fn(old, *(x[t, k] for x in operands)) for k, old in enumerate(olds[t])]
            memory.store(at, np.array([new]).astype(dtype).view(np.uint8), who, atomic=True)
        return olds if count else olds[:, 0]

    return step


def _add_in_shared(m, how, pointer, x):
    if how != "add" or split_type(x)[0] != "i32":
        raise Unknown(f"atomicrmw {how} {pointer}, {x}")
    p, x = m.typed(pointer), m.typed(x)
    return lambda: m.spread(m.shared.add(p()[m.active], x()[m.active], m.lanes[m.active]))


def _signed(fn):
    return lambda old, x: fn((old, x), key=lambda v: int(signed(np.asarray(v))))


UPDATES = {
    "add": lambda old, x: old + x,
    "sub": lambda old, x: old - x,
    "fadd": lambda old, x: old + x,
    "fsub": lambda old, x: old - x,
    "max": _signed(max),
    "min": _signed(min),
    "umax": max,
    "umin": min,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "and": lambda old, x: old & x,
    "nand": lambda old, x: ~(old & x),
    "or": lambda old, x: old | x,
    "xor": lambda old, x: old ^ x,
    "xchg": lambda old, x: x,
}
