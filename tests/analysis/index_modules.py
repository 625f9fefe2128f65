"""Random index arithmetic, and what its values are."""

import numpy as np
from hypothesis import strategies as st

from tritium import ops
from tritium.interp.machine import Machine
from tritium.ir import types as T
from tritium.ir.builder import Builder
from tritium.ir.core import Block, Module

SCALARS = {"n": (T.i32, 16, (0, 16, 48, -32)), "m": (T.i32, 1, (1, 7, -5)), "k": (T.i64, 4, (4, 12, -8))}
SHAPES = ((16,), (8, 16), (4, 1), (1, 8), (2, 4, 8))


@st.composite
def modules(draw):
    """A module of index arithmetic whose body yields every value, and values for its parameters."""
    b = Builder()
    pick = lambda xs: draw(st.sampled_from(list(xs)))
    args = [b.argument(t, name, divisible=d) for name, (t, d, _) in SCALARS.items()]
    pointer = b.argument(T.Ptr(T.f32), "p", divisible=16)
    pool = [*args, ops.program_id(b, axis=0)]
    for _ in range(draw(st.integers(4, 14))):
        pool.append(step(b, draw, pick, pool, pointer))
    ops.yield_(b, *pool)
    given_values = [np.array(pick(vs), np.dtype(f"i{t.bits // 8}")) for t, _, vs in SCALARS.values()]
    return yielding_all(Module("f", b.finish())), [*given_values, np.array(pick((16, 4096)), np.uint64)], \
        (pick((0, 3)), 0, 0)


def yielding_all(module):
    """The module with a body that yields all of its arguments and values."""
    inner = [op for op in module.body.ops if op.types]
    b = Builder()
    end = ops.yield_(b, *module.args, *inner) or b.finish().ops[-1]
    return module.replace(body=Block(module.args, (*inner, end)))


def step(b, draw, pick, pool, pointer):
    """One more value from those at hand."""
    kind = pick(("arange", "constant", "splat", "shape", "shape", *["binary"] * 4, "cast", "pointer"))
    ints = [x for x in pool if type(T.element(x.type)) is T.Scalar and T.element(x.type) is not T.i1]
    tiles = [x for x in ints if T.shape(x.type)]
    if kind == "constant":
        return ops.constant(b, value=pick((0, 1, 2, 3, 4, 8, 12, 64, -4, -16)), type=pick((T.i32, T.i64)))
    if kind == "splat":
        return ops.splat(b, pick([x for x in ints if not T.shape(x.type)]), shape=pick(SHAPES))
    if kind == "shape" and tiles:
        return reshaped(b, pick, pick(tiles))
    if kind == "cast" and tiles:
        return ops.cast(b, pick(tiles), to=pick((T.i32, T.i64, T.u32)))
    if kind == "pointer" and tiles:
        x = pick(tiles)
        return ops.addptr(b, ops.splat(b, pointer, shape=T.shape(x.type)), x)
    if kind == "binary":
        x = pick(ints)
        y = pick([y for y in ints if y.type is x.type])
        op = pick((ops.add, ops.add, ops.sub, ops.mul, ops.div, ops.rem, ops.min_, ops.max_, ops.lt, ops.ge, ops.gt,
                   ops.le, ops.eq, ops.shl, ops.shr, ops.and_))
        if op in (ops.shl, ops.shr, ops.and_):
            number = ops.constant(b, value=pick((0, 1, 3, 7)), type=T.element(x.type))
            y = ops.splat(b, number, shape=T.shape(x.type)) if T.shape(x.type) else number
        return op(b, x, y)
    start = pick((0, 4, 16, 3))
    return ops.arange(b, start=start, end=start + pick((8, 16)))


def reshaped(b, pick, x):
    """A view of a tile."""
    dims = T.shape(x.type)
    choices = ["expand", "trans", "flat"] + (["broadcast"] if 1 in dims else [])
    choice = pick(choices)
    if choice == "expand" and len(dims) < 3:
        return ops.expand_dims(b, x, axis=pick(range(len(dims) + 1)))
    if choice == "broadcast":
        return ops.broadcast(b, x, shape=tuple(8 if d == 1 else d for d in dims))
    if choice == "flat":
        return ops.reshape(b, x, shape=pick([(T.numel(x.type),), (T.numel(x.type) // 4, 4), (2, T.numel(x.type) // 2)]
                                            if T.numel(x.type) % 4 == 0 else [(T.numel(x.type),)]))
    return ops.trans(b, x, order=tuple(range(len(dims)))[::-1])


def evaluated(module, args, pid):
    """{value: what it is} of all values that the body yields, by the interpreter."""
    machine = Machine()
    machine.pid = pid
    with np.errstate(all="ignore"):
        return dict(zip(module.body.yields, machine.run(module.body, args)))


_EXACT = {ops.add: lambda x, y: x + y, ops.sub: lambda x, y: x - y, ops.mul: lambda x, y: x * y,
          ops.shl: lambda x, y: x * 2**y}


def overflows(values):
    """Whether a sum or a product of these values is not what it is in integers without an end."""
    for op in values:
        exact = _EXACT.get(getattr(op, "kind", None))
        if exact is not None:
            x, y = (values[z].astype(object) for z in op.operands)
            if np.any(exact(x, y) != values[op].astype(object)):
                return True
    return False


def divides_by_zero(values):
    """Whether a quotient or a remainder of these values is undefined."""
    divisors = [op.operands[1] for op in values if getattr(op, "kind", None) in (ops.div, ops.rem)]
    return any((values[y] == 0).any() for y in divisors)
