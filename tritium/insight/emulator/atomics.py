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
    return np.where(old == expected, new, old)


def operands(text):
    """Operands without what stands behind them: scope, orders, alignment, metadata."""
    return re.sub(r'( syncscope\("[^"]*"\))? (monotonic|acquire|release|acq_rel|seq_cst)\b.*$', "", text)


def one_by_one(m, p, xs, t, fn):
    """A function that updates memory at the addresses p() by fn(old, *values), one thread after the other where they
    meet, and gives what was there. A vector is updated element by element."""
    count, element = vector_of(t)
    dtype = numpy_type(element)

    def step():
        memory = m.global_memory
        olds, address = np.zeros((m.threads, max(count, 1)), dtype), p()
        values = [x().reshape(m.threads, -1) for x in xs]
        for who in _turns(address, np.nonzero(m.active)[0]):
            data = memory.load(address[who], olds[0].nbytes, m.lanes[who], atomic=True)
            olds[who] = np.ascontiguousarray(data).view(dtype)
            with np.errstate(all="ignore"):
                new = np.ascontiguousarray(fn(olds[who], *(x[who] for x in values)).astype(dtype))
            memory.store(address[who], new.view(np.uint8), m.lanes[who], atomic=True)
        return olds if count else olds[:, 0]

    return step


def _turns(address, threads):
    """Threads in groups that have different addresses; those of one address in order."""
    order = np.argsort(address[threads], kind="stable")
    placed = address[threads][order]
    rank = np.empty(len(threads), int)
    rank[order] = np.arange(len(threads)) - np.searchsorted(placed, placed)
    for turn in range(rank.max(initial=-1) + 1):
        yield threads[rank == turn]


def _add_in_shared(m, how, pointer, x):
    if how != "add" or split_type(x)[0] != "i32":
        raise Unknown(f"atomicrmw {how} {pointer}, {x}")
    p, x = m.typed(pointer), m.typed(x)
    return lambda: m.spread(m.shared.add(p()[m.active], x()[m.active], m.lanes[m.active]))


def _signed(fn):
    return lambda old, x: fn(signed(old), signed(x)).view(old.dtype)


UPDATES = {
    "add": np.add,
    "sub": np.subtract,
    "fadd": np.add,
    "fsub": np.subtract,
    "max": _signed(np.maximum),
    "min": _signed(np.minimum),
    "umax": np.maximum,
    "umin": np.minimum,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "and": np.bitwise_and,
    "nand": lambda old, x: ~(old & x),
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "xchg": lambda old, x: x,
}
