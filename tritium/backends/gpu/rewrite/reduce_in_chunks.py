"""Reductions of tiles that do not fit the registers become loops over chunks of them.

    x = load p + arange(0, 131072)                  for s in 4096, 131072, 4096:
    m = reduce x {max}                      ->        acc = max(acc, load p + (arange(0, 4096) + s))
                                                    m = reduce acc {max}

A thread of four warps would hold 1024 elements; the assembler takes a minute for that, and keeps them in memory. What
is computed from such elements is computed in the loop as well. Reductions that do not wait for each other share a loop;
others load again. A tile that is stored, too, stays as it is. The order of a reduction is open.
"""

from __future__ import annotations

from .... import ops
from ....ir import types as T
from ....ir.builder import several
from ....ir.core import Block, Module, Op, Value, closure, op_of, walk
from ....ir.rewrite import Rewriter, effects, sweep
from ....passes.dce import dce
from ....passes.functions import each_function
from ..target import Target

MOST = 128  # elements of a tile in each thread that are reduced at once
CHUNK = MOST // 4  # elements of a chunk in each thread for one or two tiles; half of that for four, a quarter for more


def reduce_in_chunks(module: Module, target: Target) -> Module:
    """Reduce tiles of which a thread would hold too many elements chunk by chunk.

    >>> from types import SimpleNamespace
    >>> from tritium.ir.text import parse_module
    >>> m = parse_module('''kernel @f(%p: ptr<i32>) {num_warps=1} {
    ...   %0 = arange {start=0, end=8192} : tile<8192xi32>
    ...   %1 = splat %p {shape=(8192,)} : tile<8192xptr<i32>>
    ...   %2 = addptr %1, %0 : tile<8192xptr<i32>>
    ...   %3 = load %2 : tile<8192xi32>
    ...   %4 = reduce %3 {axis=0} : i32 {
    ...   ^(%a: i32, %b: i32):
    ...     %5 = add %a, %b : i32
    ...     yield %5
    ...   }
    ...   store %p, %4
    ... }''')
    >>> made = reduce_in_chunks(m, SimpleNamespace(warp_size=32))
    >>> [(op.kind.name, str(op.type)) for op in made.body.ops[-3:-1]]
    [('for', 'tile<1024xi32>'), ('reduce', 'i32')]
    """
    if ops.reduce not in module.kinds or module.attrs.get("num_ctas", 1) > 1:
        return module
    threads = module.attrs["num_warps"] * target.warp_size

    @each_function
    def run(module: Module) -> Module:
        groups = _groups(module.body, MOST * threads)
        made: dict[Op, tuple[Value, ...]] = {}

        def rule(b: Rewriter, op: Op) -> tuple[Value, ...] | None:
            if op.kind is not ops.reduce or b.original not in groups:
                return None
            if b.original not in made:
                made.update(_in_chunks(b, groups[b.original], CHUNK * threads))
            return made[b.original]

        return dce(sweep(module, rule)) if groups else module

    return run(module)


# --- which reductions -------------------------------------------------------------------------------------------------
def _groups(body: Block, most: int) -> dict[Op, list[Op]]:
    """The reductions of large tiles that are computed, element by element, from what is loaded just before them; each
    with those that share its loop."""
    slices, blocks = {}, _blocks(body)
    for block in blocks:
        for at, op in enumerate(block.ops):
            if op.kind is ops.reduce and _large(op, most) and _elementwise(op.regions[0]):
                made = _slice(op)
                if made is not None and _loaded_before(made, block, at):
                    slices[op] = made
    users: dict[Op, list[Op]] = {}
    for op in walk(body):
        for x in op.operands:
            if type(x) is Op:
                users.setdefault(x, []).append(op)
    while slices:  # an element that is needed elsewhere is in a register anyway
        inside = {*slices}.union(*slices.values())
        needed = [op for op, made in slices.items() if any(user not in inside for x in _from_memory(made)
                                                           for user in users.get(x, ()))]
        if not needed:
            break
        slices = {op: made for op, made in slices.items() if op not in needed}
    return {op: group for block in blocks for group in _together(block, slices) for op in group}


def _together(block: Block, slices: dict[Op, set[Op]]) -> list[list[Op]]:
    """The reductions of a block, those of one size together that can be computed where the first of them stands."""
    groups: list[list[Op]] = []
    place = {op: at for at, op in enumerate(block.ops)}
    for op in block.ops:
        if op not in slices:
            continue
        numbers = {op_of(x) for made in slices[op] for x in made.operands}
        numbers = {x for x in numbers if type(x) is Op and type(x.type) is not T.Tile}
        for group in groups:
            first = place[group[0]]
            alike = T.numel(group[0].operands[0].type) == T.numel(op.operands[0].type)
            quiet = all(effects(x) != "write" for x in block.ops[first : place[op]])
            if alike and quiet and all(place.get(x, -1) < first for x in numbers):
                group.append(op)
                break
        else:
            groups.append([op])
    return groups


def _blocks(block: Block) -> list[Block]:
    return [block, *[inner for op in block.ops for region in op.regions for inner in _blocks(region)]]


def _large(op: Op, most: int) -> bool:
    return all(len(T.shape(x.type)) == 1 and T.numel(x.type) > most for x in op.operands)


def _elementwise(region: Block) -> bool:
    """Whether two elements are combined by ops that tiles have as well."""
    return all((op.kind.elementwise or op.kind is ops.constant) and not effects(op) for op in region.ops[:-1])


def _slice(reduction: Op) -> set[Op] | None:
    """The ops that compute the tiles of a reduction; None if one of them is not computed element by element."""
    tiles = lambda values: [x for x in values if type(x.type) is T.Tile]
    made = {*closure(tiles(reduction.operands), lambda x: tiles(x.operands) if type(x) is Op else ())}
    known = lambda x: type(x) is Op and (x.kind.elementwise or x.kind in _CHUNK) and len(x.types) == 1
    return made if all(known(x) and effects(x) != "write" for x in made) else None


def _loaded_before(made: set[Op], block: Block, at: int) -> bool:
    """Whether a slice loads, all in the block of its reduction, and nothing is written in between."""
    loads = {x for x in made if effects(x)}
    first = next((k for k, op in enumerate(block.ops[:at]) if op in loads), None)
    if first is None or not all(op in {*block.ops[first:at]} for op in loads):
        return False
    return all(effects(op) != "write" for op in block.ops[first:at])


def _from_memory(made: set[Op]) -> set[Op]:
    """The ops of a slice that load, or compute with what was loaded."""
    found: set[Op] = set()
    while True:
        more = {x for x in made if x not in found and (effects(x) or any(y in found for y in x.operands))}
        if not more:
            return found
        found |= more


# --- loops over chunks ------------------------------------------------------------------------------------------------
def _in_chunks(b: Rewriter, group: list[Op], chunk: int) -> dict[Op, tuple[Value, ...]]:
    """The results of reductions, whose tiles a loop combines chunk by chunk."""
    integer = lambda n: b.emit(ops.constant, (), {"value": n, "type": T.i32})
    tiles = [x for op in group for x in op.operands]
    size, chunk = T.numel(tiles[0].type), chunk >> min(2, max(0, (len(tiles) - 1).bit_length() - 1))
    first = _chunks(b, tiles, integer(0), chunk)
    bounds = integer(chunk), integer(size), integer(chunk)
    with b.region([T.i32, *[x.type for x in first]], ["start", *[""] * len(first)]) as inner:
        start, *sums = inner.args
        new, out = _chunks(b, tiles, start, chunk), []
        for op in group:
            k, n = len(out), len(op.operands)
            out += _combined(b, op.regions[0], [*sums[k : k + n], *new[k : k + n]], chunk)
        ops.yield_(b, *out)
    made = b.emit_as_is(ops.for_, (*bounds, *first), {**ops.for_.defaults, "nonempty": True}, [inner.block])
    rest, results = list(several(made)), {}
    for op in group:
        xs, rest = rest[: len(op.operands)], rest[len(op.operands) :]
        results[op] = several(b.emit_as_is(ops.reduce, xs, op.attrs, op.regions, op.loc))
    return results


def _chunks(b: Rewriter, xs: list[Value], start: Value, chunk: int) -> list[Value]:
    """`chunk` elements of each tile of the old module, from the element `start`."""
    made: dict[Value, Value] = {}

    def of(x: Value) -> Value:
        if type(x.type) is not T.Tile or type(x) is not Op:
            return b.value(x)
        if x not in made:
            made[x] = _CHUNK.get(x.kind, _same)(b, x, [of(y) for y in x.operands], start, chunk)
        return made[x]

    return [of(x) for x in xs]


def _same(b: Rewriter, x: Op, operands: list[Value], start: Value, chunk: int) -> Value:
    return b.emit(x.kind, operands, x.attrs, loc=x.loc)


def _splat(b: Rewriter, x: Op, operands: list[Value], start: Value, chunk: int) -> Value:
    return b.emit(ops.splat, operands, {"shape": (chunk,)}, loc=x.loc)


def _arange(b: Rewriter, x: Op, operands: list[Value], start: Value, chunk: int) -> Value:
    numbers = b.emit(ops.arange, (), {**x.attrs, "end": x.attrs["start"] + chunk})
    return b.emit(ops.add, (numbers, b.emit(ops.splat, (start,), {"shape": (chunk,)})), loc=x.loc)


_CHUNK = {ops.arange: _arange, ops.splat: _splat, ops.load: _same}  # beside elementwise ops, which are the same


def _combined(b: Rewriter, region: Block, xs: list[Value], chunk: int) -> list[Value]:
    """The ops of a region on tiles instead of elements."""
    made: dict[Value, Value] = dict(zip(region.args, xs, strict=True))

    def of(x: Value) -> Value:
        if x not in made:  # known outside
            made[x] = b.emit(ops.splat, (b.value(x),), {"shape": (chunk,)})
        return made[x]

    for op in region.ops[:-1]:
        if op.kind is ops.constant:
            made[op] = b.emit(ops.splat, (b.emit(op.kind, (), op.attrs),), {"shape": (chunk,)})
        else:
            made[op] = b.emit(op.kind, [of(x) for x in op.operands], op.attrs, loc=op.loc)
    return [of(x) for x in region.yields]
