"""Random kernels in tile IR, of which every backend must make the same bits.

Only ops with one right answer take part: integer and IEEE arithmetic, casts, comparison, moving, control flow, and
reductions whose order does not matter. Values are read from memory and every tile of the pool is written back.
"""

from hypothesis import strategies as st

from tritium import ops
from tritium.ir import types as T
from tritium.ir.builder import Builder
from tritium.ir.core import Module
from tritium.ir.verify import verify

INTS = (T.i8, T.u8, T.i16, T.u16, T.i32, T.u32, T.i64, T.u64)
FLOATS = (T.f16, T.bf16, T.f32, T.f64)
ELEMENTS = (T.i1, *INTS, *FLOATS)
ARITHMETIC = {
    "bool": ("add", "and", "or", "xor", "mul"),
    "int": ("add", "sub", "mul", "div", "rem", "min", "max", "and", "or", "xor", "shl", "shr"),
    "uint": ("add", "sub", "mul", "div", "rem", "min", "max", "and", "or", "xor", "shl", "shr"),
    "float": ("add", "sub", "mul", "div", "min", "max"),
}
UNARY = {"bool": (), "int": ("abs", "popc", "clz", "brev"), "uint": ("popc", "clz", "brev"), "float": ("abs",)}
WIDE_UNARY = ("floor", "ceil", "trunc", "rint", "sqrt")
COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")
ORDERLESS = {"bool": ("and", "or", "xor"), "int": ("add", "mul", "min", "max", "and", "or", "xor"),
             "uint": ("add", "min", "max", "xor"), "float": ("min", "max")}
KIND = ops.KINDS


class Maker:
    """Emits random ops through a builder; `pool` are the tiles (and scalars) in scope."""

    def __init__(self, draw, b, size):
        self.draw, self.b, self.size = draw, b, size
        self.pool = []

    def pick(self, options):
        return self.draw(st.sampled_from(list(options)))

    def tile(self, element=None):
        """A tile in scope, made if there is none of this element."""
        found = [x for x in self.pool if T.shape(x.type) == (self.size,) and element in (None, T.element(x.type))]
        return self.pick(found) if found else self.constant(element or T.i32)

    def scalar(self, element):
        found = [x for x in self.pool if x.type is element]
        return self.pick(found) if found else self.number(element)

    def number(self, element):
        value = self.draw(st.booleans()) if element is T.i1 else \
            self.draw(st.sampled_from([0, 1, 2, 3, 7, 100])) if element.is_int else \
            self.draw(st.sampled_from([0.0, 1.0, -1.5, 0.25, 1e3, -0.0]))
        return ops.constant(self.b, value=value, type=element)

    def constant(self, element):
        return ops.splat(self.b, self.number(element), shape=(self.size,))

    def keep(self, x):
        self.pool.append(x)
        return x

    # --- steps ----------------------------------------------------------------------------------------------------
    def arithmetic(self):
        x = self.tile()
        t = T.element(x.type)
        names = ARITHMETIC[t.kind]
        name, y = self.pick(names), self.tile(t)
        if name in ("min", "max") and t.is_float:  # which zero they give is not said: leave only one
            zero = ops.splat(self.b, ops.constant(self.b, value=0.0, type=t), shape=(self.size,))
            x, y = ops.add(self.b, x, zero), ops.add(self.b, y, zero)
        self.keep(KIND[name](self.b, x, y))

    def one_operand(self):
        x = self.tile()
        t = T.element(x.type)
        names = UNARY[t.kind] + (WIDE_UNARY if t in (T.f32, T.f64) else ())
        if names:
            self.keep(KIND[self.pick(names)](self.b, x))

    def compare(self):
        x = self.tile()
        self.keep(KIND[self.pick(COMPARE)](self.b, x, self.tile(T.element(x.type))))

    def select(self):
        x = self.tile()
        self.keep(ops.select(self.b, self.tile(T.i1), x, self.tile(T.element(x.type))))

    def cast(self):
        x, to = self.tile(), self.pick(ELEMENTS)
        source = T.element(x.type)
        if source is to or (source.is_float and to.is_int and to.bits in (8, 16)):  # there overflow means nothing
            return
        self.keep(ops.cast(self.b, x, to=to))

    def bitcast(self):
        x = self.tile(self.pick(INTS))  # the bits of a float may be those of any NaN
        options = [t for t in (*INTS, *FLOATS) if t.bits == T.element(x.type).bits]
        self.keep(ops.bitcast(self.b, x, to=self.pick(options)))

    def combine(self, t):
        """A region that combines two scalars."""
        name = self.pick(ORDERLESS[t.kind])
        with self.b.region([t, t]) as r:
            x, y = r.args
            if t.is_float:
                zero = ops.constant(self.b, value=0.0, type=t)
                x, y = ops.add(self.b, x, zero), ops.add(self.b, y, zero)
            ops.yield_(self.b, KIND[name](self.b, x, y))
        return r.block

    def reduce(self):
        x = self.tile()
        out = ops.reduce(self.b, x, axis=0, regions=(self.combine(T.element(x.type)),))
        self.keep(out)
        self.keep(ops.splat(self.b, out, shape=(self.size,)))

    def scan(self):
        x = self.tile()
        self.keep(ops.scan(self.b, x, axis=0, reverse=self.draw(st.booleans()),
                           regions=(self.combine(T.element(x.type)),)))

    def reduce_rows(self):
        if self.size < 4:
            return
        x = self.tile()
        rows = ops.reshape(self.b, x, shape=(self.size // 4, 4))
        if self.draw(st.booleans()):
            rows = ops.trans(self.b, rows, order=(1, 0))
        axis = self.draw(st.integers(0, 1))
        out = ops.reduce(self.b, rows, axis=axis, regions=(self.combine(T.element(x.type)),))
        out = ops.broadcast(self.b, ops.expand_dims(self.b, out, axis=axis), shape=T.shape(rows.type))
        self.keep(ops.reshape(self.b, out, shape=(self.size,)))

    def halves(self):
        x = self.tile()
        y = self.tile(T.element(x.type))
        joined = ops.join(self.b, x, y)
        if self.draw(st.booleans()):
            joined = ops.reshape(self.b, ops.reshape(self.b, joined, shape=(2 * self.size,)), shape=(self.size, 2))
        for part in ops.split(self.b, joined):
            self.keep(part)

    def gather(self):
        x, index = self.tile(), self.tile(T.i32)
        last = ops.splat(self.b, ops.constant(self.b, value=self.size - 1, type=T.i32), shape=(self.size,))
        self.keep(ops.gather(self.b, x, ops.and_(self.b, index, last), axis=0))

    def element(self):
        x = self.tile()
        t = T.element(x.type)
        at = ops.and_(self.b, self.scalar(T.i32), ops.constant(self.b, value=self.size - 1, type=T.i32))
        if self.draw(st.booleans()):
            self.keep(ops.extract(self.b, x, at))
        else:
            self.keep(ops.insert(self.b, x, self.scalar(t), at))

    def sort(self):
        x = self.tile(self.pick(INTS))
        down = self.draw(st.booleans())
        if self.draw(st.booleans()):
            self.keep(ops.sort(self.b, x, descending=down))
        else:  # the first half, twice
            first = ops.topk(self.b, x, k=self.size // 2, descending=down)
            self.keep(ops.cat(self.b, first, first, axis=0))

    def scalar_arithmetic(self):
        t = self.pick((T.i32, T.i64, T.f32))
        self.keep(KIND[self.pick(("add", "sub", "mul"))](self.b, self.scalar(t), self.scalar(t)))

    def branch(self, depth):
        x = self.tile()
        t = self.scalar(T.i32)
        test = KIND[self.pick(COMPARE)](self.b, t, self.scalar(T.i32))
        regions = []
        for _ in range(2):
            with self.b.region() as r:
                ops.yield_(self.b, *self.inside(depth, [x.type, T.i32]))
            regions.append(r.block)
        for out in ops.if_(self.b, test, regions=tuple(regions)):
            self.keep(out)

    def loop(self, depth):
        x, n = self.tile(), self.scalar(T.i32)
        trips = ops.and_(self.b, n, ops.constant(self.b, value=3, type=T.i32))
        zero, one = (ops.constant(self.b, value=v, type=T.i32) for v in (0, 1))
        with self.b.region([T.i32, x.type, T.i32]) as r:
            ops.yield_(self.b, *self.inside(depth, [x.type, T.i32], r.args))
        for out in ops.for_(self.b, zero, trips, one, x, n, regions=(r.block,)):
            self.keep(out)

    def while_(self, depth):
        x = self.tile()
        limit = ops.constant(self.b, value=self.draw(st.integers(0, 4)), type=T.i32)
        zero, one = (ops.constant(self.b, value=v, type=T.i32) for v in (0, 1))
        with self.b.region([T.i32, x.type]) as test:
            ops.yield_(self.b, ops.lt(self.b, test.args[0], limit))
        with self.b.region([T.i32, x.type]) as body:
            out, = self.inside(depth, [x.type], body.args)
            ops.yield_(self.b, ops.add(self.b, body.args[0], one), out)
        for out in ops.while_(self.b, zero, x, regions=(test.block, body.block)):
            self.keep(out)

    def inside(self, depth, types, args=()):
        """Random steps in a region; gives values of these types for its yield."""
        outer = self.pool
        self.pool = [*outer, *args]
        self.steps(self.draw(st.integers(0, 4)), depth - 1)
        found = [self.tile(T.element(t)) if T.shape(t) else self.scalar(t) for t in types]
        self.pool = outer
        return found

    SIMPLE = (arithmetic, arithmetic, arithmetic, one_operand, compare, select, cast, cast, bitcast, reduce, scan,
              reduce_rows, halves, gather, element, sort, scalar_arithmetic)
    NESTED = (branch, loop, while_)

    def steps(self, count, depth):
        for _ in range(count):
            if depth and self.draw(st.integers(0, 4)) == 0:
                self.pick(self.NESTED)(self, depth)
            else:
                self.pick(self.SIMPLE)(self)


@st.composite
def modules(draw, most_steps=12):
    """A kernel, its input and output types: it reads `inputs` and writes every value it made to the outputs."""
    size = draw(st.sampled_from([4, 16, 64]))
    b = Builder()
    inputs = draw(st.lists(st.sampled_from(ELEMENTS), min_size=1, max_size=3))
    sources = [b.argument(T.Ptr(t), f"in{k}") for k, t in enumerate(inputs)]
    n = b.argument(T.i32, "n")
    maker = Maker(draw, b, size)
    lanes = ops.arange(b, start=0, end=size)
    maker.keep(lanes)
    maker.keep(n)
    maker.keep(ops.program_id(b, axis=0))

    def pointers(p):
        return ops.addptr(b, ops.splat(b, p, shape=(size,)), lanes)

    for p in sources:
        mask = ops.lt(b, lanes, ops.splat(b, n, shape=(size,))) if draw(st.booleans()) else None
        maker.keep(ops.load(b, pointers(p), *([mask] if mask is not None else [])))
    maker.steps(draw(st.integers(1, most_steps)), depth=2)
    outputs = []
    for value in maker.pool[3:]:
        out = b.argument(T.Ptr(T.element(value.type)), f"out{len(outputs)}")
        outputs.append((T.element(value.type), size if T.shape(value.type) else 1))
        ops.store(b, pointers(out) if T.shape(value.type) else out, value)
    return verify(Module("random", b.finish(), {"enable_fp_fusion": False})), size, inputs, outputs
