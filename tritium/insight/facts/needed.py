"""Which ops of a module decide where memory is touched: the others need no values when only addresses are asked for."""

from __future__ import annotations

from tritium import ops
from tritium.analysis.accesses import accesses, writes
from tritium.ir.core import Module, Result, walk

_LOOPS = (ops.for_, ops.while_)


def without_values(module: Module) -> set[int]:
    """The ids of pure ops whose results reach no address, mask, condition or bound of the module.

    It is empty where a program may load, for an address, what programs store: then all values matter.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module('''kernel @f(%x: ptr<f32>, %i: i32) {
    ...   %0 = add %i, %i : i32
    ...   %1 = addptr %x, %0 : ptr<f32>
    ...   %2 = load %1 : f32
    ...   %3 = mul %2, %2 : f32
    ...   store %1, %3
    ... }''')
    >>> [op.kind.name for op in m.body.ops if id(op) in without_values(m)]
    ['mul']
    """
    if module.functions:
        return set()
    needed: set[int] = set()
    owners = {id(arg): (op, k - len(region.args)) for op in walk(module.body) for region in op.regions
              for k, arg in enumerate(region.args)}
    left = [x for op in walk(module.body) for x in _deciding(op)]
    while left:
        x = left.pop()
        key = hash(x) if type(x) is Result else id(x)
        if key in needed:
            continue
        needed.add(key)
        if id(x) in owners:
            left += _carried(*owners[id(x)])
            continue
        op, index = (x.op, x.index) if type(x) is Result else (x, 0)
        if not hasattr(op, "operands"):  # a parameter of the kernel
            continue
        needed.add(id(op))
        left += _sources(op, index)
    if _reads_back(module, needed):
        return set()
    return {id(op) for op in walk(module.body)
            if id(op) not in needed and op.types and not op.kind.effects and op.kind not in (*_LOOPS, ops.if_)}


def _deciding(op):
    """The operands of an op that decide what is touched."""
    if op.kind is ops.load:
        return op.operands[:2]
    if op.kind in (ops.store, ops.atomic):
        return (op.operands[0], *op.operands[2:])
    if op.kind is ops.atomic_cas:
        return op.operands
    if op.kind is ops.for_:
        return op.operands[:3]
    if op.kind is ops.while_:
        return op.regions[0].yields[:1]
    if op.kind is ops.if_:
        return op.operands
    return op.operands if op.kind.effects and not op.types else ()


def _sources(op, index):
    if op.kind in _LOOPS:
        return _carried(op, index - len(op.types))
    if op.kind is ops.if_:
        return [region.yields[index] for region in op.regions]
    return [*op.operands, *(y for region in op.regions for y in region.yields)]


def _carried(op, k):
    """What a carried value (counted from the last) starts from, and what each iteration hands on."""
    if op.kind not in _LOOPS:
        return op.operands
    found = [region.yields[k] for region in op.regions if -k <= len(region.yields)]
    return [*found, *(op.operands[k:][:1] if -k <= len(op.operands) - (3 if op.kind is ops.for_ else 0) else ())]


def _reads_back(module, needed) -> bool:
    """Whether a load that decides an address goes through a parameter that is stored to, or through none."""
    through = accesses(module)
    known = {id(op) for found in through.values() for op in found}
    for op in walk(module.body):
        if op.kind not in (ops.load, ops.atomic, ops.atomic_cas) or id(op) not in needed:
            continue
        if id(op) not in known or op.kind is not ops.load:
            return True
        if any(op in found and any(map(writes, found)) for found in through.values()):
            return True
    return False

