"""Methods of aggregates: static ones and those of the class, plain Python or compiled, and `x[i]`."""

import textwrap

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.language.core import _aggregate


@_aggregate
class Pair:
    a: tl.tensor
    b: tl.tensor

    def __init__(self, a, b):
        self.a = a
        self.b = b

    @staticmethod
    def twice(x):
        return Pair(x, x)

    @classmethod
    def of(cls, x, scale=2):
        return cls(x, x * scale)

    @staticmethod
    @triton.jit
    def next_to(x):
        return Pair(x, x + 1)

    @triton.jit
    def __getitem__(self, i):
        return self.a * 100 + self.b * 10 + i


@triton.jit
def construct(o):
    x = tl.load(o)
    p, q, r = Pair.twice(x), Pair.of(x), Pair.next_to(x)
    tl.store(o + 1, p.a + p.b)
    tl.store(o + 2, q.a + q.b)
    tl.store(o + 3, r.a + r.b)
    tl.store(o + 4, p.twice(x + 1).b)
    tl.store(o + 5, q.of(x, scale=3).b)
    tl.store(o + 6, r.next_to(x).b)


def test_constructors_among_the_methods(anywhere):
    o = np.array([5, *[0] * 6], np.int32)
    anywhere(construct, [o])
    assert o.tolist() == [5, 10, 15, 11, 6, 15, 6]


@_aggregate
class Table:
    parts: tl.tuple
    remade: tl.constexpr  # names that the compiler's own classes have

    def __init__(self, parts, remade):
        self.parts = parts
        self.remade = remade

    @triton.jit
    def __getitem__(self, at):
        return self.parts[at]


@_aggregate
class Tile:
    values: tl.tensor

    def __init__(self, values):
        self.values = values

    @triton.jit
    def __getitem__(self, at):
        return self.values[at[0], at[1]] * len(at)


@_aggregate
class Plain:
    x: tl.tensor

    def __init__(self, x):
        self.x = x

    def __getitem__(self, at):
        return self.x


@triton.jit
def subscript(o):
    x = tl.load(o)
    p = Pair(x, x + 1)
    tl.store(o + 1, p[3] + p[x])
    table = Table((x, x * 2, x * 3), 3)
    total = 0
    for i in tl.static_range(table.remade):
        total += table[i]
    tl.store(o + 2, total)
    for _ in range(2):
        table = Table((table[1], table[2], table[0]), 3)
    tl.store(o + 3, table[0])
    tile = Tile(tl.arange(0, 4).reshape(2, 2))
    tl.store(o + 4, tile[1, 0])
    tl.store(o + 5, Plain(x)[0])


def test_an_own_getitem(anywhere):
    o = np.array([5, *[0] * 5], np.int32)
    anywhere(subscript, [o])
    assert o.tolist() == [5, 560 + 3 + 560 + 5, 30, 15, 4, 5]


@_aggregate
class Bare:
    x: tl.tensor

    def __init__(self, x):
        self.x = x


@triton.jit
def subscript_bare(o):
    tl.store(o, Bare(tl.load(o))[0])


def test_an_aggregate_without_items_says_so():
    with pytest.raises(triton.CompilationError, match="has no items"):
        subscript_bare[(1,)](np.zeros(1, np.int32))


SOURCE = """
    import tritium as triton
    import tritium.language as tl
    from tritium.language.core import _aggregate

    FACTOR = 3

    @_aggregate
    class Scaled:
        x: tl.tensor
        def __init__(self, x):
            self.x = x * 2
        @staticmethod
        def make(x):
            return Scaled(x + 10)
        def more(self):
            return Scaled(self.x * FACTOR)
        @staticmethod
        @triton.jit
        def less(x):
            return Scaled(x - 1)

    @triton.jit
    def kernel(o):
        made = Scaled.make(tl.load(o))
        tl.store(o, made.more().x + made.less(made.x).x)
"""


@pytest.mark.parametrize("old, new", [
    ("x * 2", "x * 4"), ("x + 10", "x + 20"), ("FACTOR = 3", "FACTOR = 5"), ("* FACTOR", "- FACTOR"),
    ("x - 1", "x - 2"),
])
def test_the_key_of_a_kernel_covers_methods_in_plain_python(tmp_path, old, new):
    """Otherwise a kernel of another run, from before the change, would come from the cache on disk."""
    found = []
    for text in (SOURCE, SOURCE.replace(old, new), SOURCE):
        path = tmp_path / "program.py"  # one name for both: the place of a kernel is part of its key
        path.write_text(textwrap.dedent(text))
        space = {"__name__": "program"}
        exec(compile(path.read_text(), str(path), "exec"), space)
        import linecache

        linecache.checkcache(str(path))
        found.append(space["kernel"].cache_key)
    assert found[0] == found[2] != found[1]
