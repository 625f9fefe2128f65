"""`@triton.aggregate` as Triton 3.8 and 3.9 have it, on every engine."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.frontend import lower
from tritium.language.source import dialect


@triton.aggregate
class Tile:
    ptr: tl.tensor
    W: tl.constexpr = 16

    @triton.jit
    def offs(self):
        return self.ptr + tl.arange(0, self.W)


@triton.aggregate
class Shifted(Tile):
    by: "tl.tensor"

    @triton.jit
    def moved(self):
        return tl.aggregate_replace(self, ptr=self.ptr + self.by)


@triton.aggregate
class Complex:
    re: tl.tensor
    im: tl.tensor

    @triton.jit
    def __add__(self, other):
        if isinstance(other, Complex):
            return Complex(self.re + other.re, self.im + other.im)
        else:
            return Complex(self.re + other, self.im)

    @triton.jit
    def __radd__(self, other):
        return Complex(other + self.re, self.im)

    @triton.jit
    def __mul__(self, other):
        if isinstance(other, Complex):
            return Complex(self.re * other.re - self.im * other.im, self.re * other.im + self.im * other.re)
        else:
            return NotImplemented

    @triton.jit
    def __neg__(self):
        return Complex(-self.re, -self.im)

    @triton.jit
    def __lt__(self, other):
        return self.re < other

    @triton.jit
    def __not__(self):
        return self.re == 0


@triton.jit
def half(n):
    return n // 2


@triton.jit
def example(P, F, n, SHAPE: tl.constexpr, scale):
    w: tl.constexpr
    w, s = SHAPE[0], scale
    t = tl.aggregate_replace(Tile(P), ptr=P + n)
    if (m := n + 1) > 3:
        x = tl.cat(tl.load(t.offs()), tl.load(P + tl.arange(0, half(w))))
        tl.store(P + tl.arange(0, w), x * s)
    if 0 < m < 100:
        tl.atomic_poll(F, 1, sem="acquire", timeout_ns=1000)


def test_all_together(engine):
    """The example of every release's additions."""
    x, flag = np.arange(64, dtype=np.float32), np.ones(1, np.int32)
    engine(example, (x, flag, 8, (32, 2), 2.0))
    expected = np.arange(64, dtype=np.float32)
    expected[:32] = 2 * np.concatenate([np.arange(8, 24), np.arange(16)])
    assert x.tolist() == expected.tolist()


@triton.jit
def inherits(out, n):
    t = Shifted(out, by=n, W=4).moved()
    tl.store(t.offs(), tl.arange(0, 4))


def test_inheritance(engine):
    out = np.zeros(8, np.int32)
    engine(inherits, (out, 3))
    assert out.tolist() == [0, 0, 0, 0, 1, 2, 3, 0]


@triton.jit
def calculates(out, n):
    a = Complex(n, n + 1)
    b = 1 + a + 2
    b += a
    c = -(a * b)
    tl.store(out, b.re)
    tl.store(out + 1, b.im)
    tl.store(out + 2, c.re)
    tl.store(out + 3, c.im)
    tl.store(out + 4, (a < 10).to(tl.int32))
    tl.store(out + 5, (10 > a).to(tl.int32))
    tl.store(out + 6, (not a).to(tl.int32))


def test_operators(engine):
    out = np.zeros(8, np.int32)
    engine(calculates, (out, 2))
    a, b = 2 + 3j, (1 + (2 + 3j) + 2) + (2 + 3j)
    c = -(a * b)
    assert out[:7].tolist() == [b.real, b.imag, c.real, c.imag, 1, 1, 0]


@triton.jit
def multiplies(out, n):
    tl.store(out, (Complex(n, n) * 2).re)


def test_an_operator_nobody_has():
    with pytest.raises(triton.CompilationError, match=r"unsupported operand type\(s\) for \*: 'Complex' and 'int'"):
        lower(multiplies, {"out": "*i32", "n": "i32"})


def test_on_the_host():
    @triton.aggregate
    class Three:
        x: tl.constexpr
        y: tl.constexpr = 7
        z: tl.tuple = (1, 2)

    assert Three(3, y=8).x.value == 3 and Three(3).y.value == 7 and Three(3).z == (1, 2)
    for call, message in (
        (lambda: Three(), "missing required argument: 'x'"),
        (lambda: Three(1, 2, (3,), 4), "takes 3 positional arguments but 4 were given"),
        (lambda: Three(1, q=2), "got an unexpected keyword argument 'q'"),
        (lambda: Three(1, z=3), r"Expected <class .*> for attribute 'z', got"),
        (lambda: tl.aggregate_replace(Three(1), q=2, _semantic=object()), "has no field 'q'"),
        (lambda: tl.aggregate_replace(3, x=2, _semantic=object()), "expects an aggregate instance"),
    ):
        with pytest.raises(TypeError, match=message):
            call()
    with pytest.raises(AttributeError, match="cannot assign to field 'x' on immutable aggregate Three"):
        Three(1).x = 2
    with pytest.raises(TypeError, match="Aggregates can only inherit from other aggregates"):
        triton.aggregate(type("Wrong", (dict,), {}))


def test_kernels_that_use_them_are_of_level_3_7():
    assert dialect.of(inherits).name == "3.7"


def test_defaults_are_part_of_the_key():
    keys = []
    for width in (4, 8):

        @triton.aggregate
        class Sized:
            ptr: tl.tensor
            W: tl.constexpr = width

        @triton.jit
        def fills(out):
            t = Sized(out)
            tl.store(t.ptr + tl.arange(0, t.W), 1)

        keys.append(fills.cache_key)
    assert keys[0] != keys[1]
