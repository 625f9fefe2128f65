"""Random kernels in tile IR: what the CPU computes is what the interpreter computes, bit for bit on integers."""

import random

import numpy as np
import pytest

from tests.backends.cpu.kernels import launch, module
from tritium import ops
from tritium.interp.machine import interpret
from tritium.ir import types as T

SHAPES = [(16,), (64,), (256,), (4, 32), (32, 8), (2, 4, 16), (64, 2), (1, 16), (8, 1)]
P = T.Ptr(T.i32)
BUFFERS, SIZE = 4, 1024


class Maker:
    """Grows a kernel statement by statement; every value is an i32 tile of a known shape."""

    def __init__(self, b, pointers, n, seed):
        self.b, self.n, self.random = b, n, random.Random(seed)
        self.pointers, self.out = pointers[:-1], pointers[-1]  # the last buffer is only written
        self.tiles, self.scalars, self.masks = [], [n], []

    def kernel(self):
        for _ in range(self.random.randint(4, 14)):
            self.statement(depth=0)
        for x in self.random.sample(self.tiles, min(3, len(self.tiles))):
            self.store(x)

    def statement(self, depth):
        choices = [
            self.load,
            self.load,
            self.arithmetic,
            self.arithmetic,
            self.arithmetic,
            self.mix,
            self.shape,
            self.store_any,
            self.reduce,
            self.scan,
            self.select,
            self.scalar,
            self.odd,
        ]
        if depth < 2:
            choices += [self.loop, self.loop, self.branch]
        self.random.choice(choices)(depth)

    # --- picking ------------------------------------------------------------------------------------------------
    def tile(self, shape=None):
        fitting = [x for x in self.tiles if shape is None or x.type.shape == shape]
        if not fitting or self.random.random() < 0.15:
            return self.fresh(shape or self.random.choice(SHAPES))
        return self.random.choice(fitting[-8:])

    def fresh(self, shape):
        b, r = self.b, self.random
        if r.random() < 0.5:
            return b.full(r.randint(-9, 9), shape)
        axis = r.randrange(len(shape))
        return b.range(shape[axis], axis, len(shape), shape)

    def keep(self, x):
        self.tiles.append(x)
        return x

    # --- statements ---------------------------------------------------------------------------------------------
    def addresses(self, shape):
        """Pointers into a random buffer: often contiguous, sometimes strided, transposed, wrapped or gathered."""
        b, r = self.b, self.random
        p = r.choice(self.pointers)
        kind = r.random()
        total = int(np.prod(shape))
        if kind < 0.45:
            base = ops.addptr(b, p, b.c(r.randrange(0, SIZE - total + 1)))
            return b.rows(base, shape)
        if kind < 0.7 and len(shape) > 1 and shape[0] * 40 < SIZE:
            strides = [1, *[s * 40 for s in range(1, len(shape))]] if r.random() < 0.5 else [*range(len(shape), 0, -1)]
            reach = sum(s * (n - 1) for s, n in zip(strides, shape))
            if reach < SIZE:
                return b.at(p, *strides, shape=shape)
        i = self.tile(shape)
        size = r.choice((SIZE, 37, 200))
        return ops.addptr(b, b.full(p, shape), ops.rem(b, ops.and_(b, i, b.full(0x7FFF, shape)), b.full(size, shape)))

    def mask(self, shape):
        """A mask of before, or a new one."""
        fitting = [m for m in self.masks if m.type.shape == shape]
        if fitting and self.random.random() < 0.6:
            return self.random.choice(fitting)
        self.masks.append(self.new_mask(shape))
        return self.masks[-1]

    def new_mask(self, shape):
        b, r = self.b, self.random
        axis = r.randrange(len(shape))
        i = b.range(shape[axis], axis, len(shape), shape)
        limit = b.full(r.choice(self.scalars) if r.random() < 0.5 else r.randint(0, shape[axis] + 1), shape)
        m = (ops.lt if r.random() < 0.7 else ops.ge)(b, i, limit)
        if r.random() < 0.3:
            m = ops.and_(b, m, ops.gt(b, self.tile(shape), b.full(0, shape)))
        if r.random() < 0.3:
            m = ops.and_(b, m, self.new_mask(shape))
        return m

    def load(self, depth):
        b, r = self.b, self.random
        shape = r.choice(SHAPES)
        p = self.addresses(shape)
        if r.random() < 0.6:
            m = self.mask(shape)
            other = self.tile(shape) if r.random() < 0.3 else b.full(r.randint(-5, 5), shape)
            self.keep(ops.load(b, p, m, other))
        else:
            self.keep(ops.load(b, p))

    def store(self, x):
        shape = x.type.shape
        b, r = self.b, self.random
        total = int(np.prod(shape))
        start = self.out
        if r.random() < 0.5:  # a store that overlaps what the same chunks read is a race without a barrier
            start = r.choice(self.pointers)
            ops.barrier(b)
        p = b.rows(ops.addptr(b, start, b.c(r.randrange(0, SIZE - total + 1))), shape)
        if r.random() < 0.5:
            ops.store(b, p, x, self.mask(shape))
        else:
            ops.store(b, p, x)

    def store_any(self, depth):
        if self.tiles:
            self.store(self.tile())

    def arithmetic(self, depth):
        b, r, x = self.b, self.random, self.tile()
        y = self.tile(x.type.shape)
        if r.random() < 0.3:  # in another type and back
            t = r.choice([T.i8, T.i16, T.i64, T.u8, T.u32, T.f16, T.bf16, T.f32, T.f64])
            kind = r.choice([ops.add, ops.mul, ops.sub, ops.div, ops.max_, ops.lt])
            out = kind(b, *[ops.cast(b, v, to=t) for v in (x, y)])
            self.keep(ops.cast(b, out, to=T.i32))
        else:
            kind = r.choice([ops.add, ops.sub, ops.mul, ops.xor, ops.max_, ops.min_, ops.and_, ops.div, ops.rem])
            self.keep(kind(b, x, y))

    def mix(self, depth):
        """Rows and columns against a tile."""
        b, r = self.b, self.random
        shape = r.choice([s for s in SHAPES if len(s) == 2])
        axis = r.randrange(2)
        v = self.tile((shape[1 - axis],))
        wide = ops.broadcast(b, ops.expand_dims(b, v, axis=axis), shape=shape)
        self.keep(ops.add(b, self.tile(shape), wide))

    def shape(self, depth):
        b, r = self.b, self.random
        x = self.tile()
        shape = x.type.shape
        if len(shape) > 1 and r.random() < 0.5:
            order = list(range(len(shape)))
            r.shuffle(order)
            self.keep(ops.trans(b, x, order=tuple(order)))
        else:
            same = [s for s in SHAPES if np.prod(s) == np.prod(shape)] or [shape]
            self.keep(ops.reshape(b, x, shape=r.choice(same)))

    def reduce(self, depth):
        b, r = self.b, self.random
        x = self.tile()
        out = ops.reduce(
            b, x, axis=r.randrange(len(x.type.shape)), regions=[b.fold(r.choice([ops.add, ops.max_, ops.xor]), T.i32)]
        )
        (self.tiles if type(out.type) is T.Tile else self.scalars).append(out)

    def scan(self, depth):
        b, r = self.b, self.random
        x = self.tile()
        self.keep(
            ops.scan(
                b, x, axis=r.randrange(len(x.type.shape)), reverse=r.random() < 0.5, regions=[b.fold(ops.add, T.i32)]
            )
        )

    def select(self, depth):
        x = self.tile()
        shape = x.type.shape
        self.keep(ops.select(self.b, self.mask(shape), x, self.tile(shape)))

    def scalar(self, depth):
        b, r = self.b, self.random
        x, y = r.choice(self.scalars), r.choice(self.scalars)
        self.scalars.append(ops.rem(b, ops.add(b, ops.mul(b, x, b.c(3)), y), b.c(61)))
        self.keep(ops.add(b, self.tile((64,)), b.full(self.scalars[-1], (64,))))

    def odd(self, depth):
        b, r = self.b, self.random
        x = self.tile((4, 32))
        kind = r.randrange(5)
        if kind == 0:
            self.keep(ops.reshape(b, ops.join(b, x, self.tile((4, 32))), shape=(256,)))
        elif kind == 1:
            one, two = ops.split(b, self.tile((64, 2)))
            self.keep(ops.sub(b, one, two))
        elif kind == 2:
            index = ops.and_(b, self.tile((4, 32)), b.full(31, (4, 32)))
            self.keep(ops.gather(b, x, index, axis=1))
        elif kind == 3:
            right = ops.rem(b, self.tile((32, 8)), b.full(7, (32, 8)))
            left = ops.reshape(b, right, shape=(8, 32))
            self.keep(ops.reshape(b, ops.dot(b, left, right, b.full(1, (8, 8))), shape=(64,)))
        else:
            at = ops.and_(b, r.choice(self.scalars), b.c(3))
            self.scalars.append(ops.extract(b, x, at, b.c(5)))
            self.keep(ops.insert(b, x, r.choice(self.scalars), b.c(2), at))

    def loop(self, depth):
        b, r = self.b, self.random
        inits = [self.tile() for _ in range(r.randint(1, 3))] + [r.choice(self.scalars)]
        saved = list(self.tiles), list(self.scalars), list(self.masks)
        with b.region([T.i32, *[x.type for x in inits]]) as region:
            i, *args = region.args
            self.scalars.append(i)
            for x in args:
                (self.tiles if type(x.type) is T.Tile else self.scalars).append(x)
            for _ in range(r.randint(1, 4)):
                self.statement(depth + 1)
            yields = [self.pick(x) for x in args]
            ops.yield_(b, *yields)
        self.tiles, self.scalars, self.masks = saved
        out = ops.for_(b, b.c(0), b.c(r.randint(0, 3)), b.c(1), *inits, regions=[region.block])
        for x in out if isinstance(out, tuple) else (out,):
            (self.tiles if type(x.type) is T.Tile else self.scalars).append(x)

    def pick(self, x):
        """Something of x's type: itself, another carried value, or something made in the loop."""
        b, r = self.b, self.random
        if type(x.type) is not T.Tile:
            return r.choice(self.scalars)
        y = r.choice([x, *[y for y in self.tiles if y.type is x.type]])
        return ops.add(b, y, b.full(r.choice(self.scalars), x.type.shape)) if r.random() < 0.3 else y

    def branch(self, depth):
        b, r = self.b, self.random
        types = [self.tile().type for _ in range(r.randint(0, 2))]
        condition = ops.gt(b, r.choice(self.scalars), b.c(r.randint(-2, 20)))
        blocks = []
        for _ in range(2):
            saved = list(self.tiles), list(self.scalars), list(self.masks)
            with b.region() as region:
                for _ in range(r.randint(0, 3)):
                    self.statement(depth + 1)
                ops.yield_(b, *[self.tile(t.shape) for t in types])
            self.tiles, self.scalars, self.masks = saved
            blocks.append(region.block)
        out = ops.if_(b, condition, regions=blocks)
        for x in out if isinstance(out, tuple) else () if out is None else (out,):
            self.tiles.append(x)


def check(seed):
    m = module(lambda b, *args: Maker(b, args[:BUFFERS], args[-1], seed).kernel(), *[P] * BUFFERS, T.i32)
    data = np.random.default_rng(seed)
    arrays = [data.integers(-50, 50, SIZE).astype(np.int32) for _ in range(BUFFERS)]
    n = int(data.integers(0, 70))
    theirs, mine = ([x.copy() for x in arrays] for _ in range(2))
    interpret(m, [*theirs, n])
    launch(m, [*mine, n], opt=0)
    for k, (x, y) in enumerate(zip(theirs, mine)):
        np.testing.assert_array_equal(y, x, err_msg=f"seed {seed}, argument {k}\n{m}")


@pytest.mark.parametrize("seed", range(60))
def test_random_kernel(seed):
    check(seed)
