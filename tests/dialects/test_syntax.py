"""The Python subset of Triton 3.7 to 3.9, on every engine."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.frontend import lower


@triton.jit
def walrus(x, out, n):
    if (a := n + 1) > 3:
        tl.store(out, a)
    tl.store(out + 1, (b := 7) + b)
    tl.store(out + 2, a)


def test_walrus(engine):
    out = np.zeros(4, np.int32)
    engine(walrus, (out, out, 5))
    assert out[:3].tolist() == [6, 14, 6]


@triton.jit
def chained(out, n, m):
    tl.store(out, (0 < n < 6).to(tl.int32))
    tl.store(out + 1, (0 < n <= m < 6).to(tl.int32))
    tl.store(out + 2, 3 if 1 < 0 < n else 4)
    v = tl.arange(0, 8)
    tl.store(out + 8 + v, (1 < v < 5).to(tl.int32))
    if n is not None is not m:
        tl.store(out + 3, 1)


def test_chained_comparisons(engine):
    out = np.zeros(16, np.int32)
    engine(chained, (out, 5, 7))
    assert out.tolist() == [1, 0, 4, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0]


@triton.jit
def evaluates_once(x, out):
    tl.store(out, (0 < tl.atomic_add(x, 1) < 10).to(tl.int32))


def test_the_middle_is_evaluated_once(engine):
    x, out = np.ones(1, np.int32), np.zeros(1, np.int32)
    engine(evaluates_once, (x, out))
    assert x[0] == 2 and out[0] == 1


@triton.jit
def declared(out, FLAG: tl.constexpr):
    size: tl.constexpr
    size = 8
    tl.store(out + tl.arange(0, size), size)
    a: tl.constexpr
    c: tl.constexpr
    a, b, (c, d) = 4, 2, (16, 3)
    tl.static_assert(a * c == 64)
    tl.store(out, b + d + a)
    kind: tl.constexpr
    if FLAG:
        kind = "wide"
    else:
        kind = "narrow"
    tl.static_assert(kind == "wide")
    size = 2
    tl.store(out + 1, size)


def test_declared_constants(engine):
    out = np.zeros(8, np.int32)
    engine(declared, (out, True))
    assert out.tolist() == [9, 2, 8, 8, 8, 8, 8, 8]


@triton.jit
def total(first, *rest):
    for i in tl.static_range(len(rest)):
        first += rest[i]
    return first


@triton.jit
def spreads(out, C: tl.constexpr):
    tl.store(out, total(*C))
    a, b, c = C
    tl.store(out + 1, a * b * c)
    tl.store(out + 2, len(C[1:] + C))
    tl.store(out + 3, total(*[x + 1 for x in C if x > 2]))
    SHAPE: tl.constexpr = (2, (4, 8))
    tl.store(out + 4, SHAPE[1][0] * tl.sum(tl.full([SHAPE[0]], 1, tl.int32), 0))
    tl.store(out + 5, C.index(2) + C.count(3) + len(C.value))


def test_constant_tuples(engine):
    out = np.zeros(8, np.int32)
    engine(spreads, (out, (16, 2, 3)))
    assert out[:6].tolist() == [21, 96, 5, 21, 8, 5]


@triton.jit
def with_rest(out, n, *rest):
    tl.store(out, n)
    for i in tl.static_range(len(rest)):
        tl.store(out + 1 + i, rest[i])


def test_kernels_take_any_number_of_arguments(engine, request):
    out = np.zeros(8, np.int32)
    if "eager" not in request.node.name and "cpu" not in request.node.name and "cuda" not in request.node.name:
        pytest.skip("the other engines are given a signature")
    for rest in ((), (2,), (3, 4, 1)):
        engine(with_rest, (out, 7, *rest))
        assert out[: 1 + len(rest)].tolist() == [7, *rest]


@triton.jit
def keyword_only(out, *, c, d=5, BLOCK: tl.constexpr):
    tl.store(out, c * 10 + d + BLOCK)


def test_keyword_only_parameters():
    out = np.zeros(1, np.int32)
    keyword_only[(1,)](out, c=4, BLOCK=16)
    assert out[0] == 61
    keyword_only[(1,)](out, BLOCK=16, d=1, c=2)
    assert out[0] == 37
    with pytest.raises(TypeError, match="positional"):
        keyword_only[(1,)](out, 4, BLOCK=16)
    from tritium.interp.eager import launch

    launch(keyword_only, (1,), (out,), {"c": 4, "BLOCK": 16})
    assert out[0] == 61


def test_keyword_dictionaries_are_refused():
    with pytest.raises(TypeError, match=r"JIT functions do not support \*\*kw parameters"):

        @triton.jit
        def takes_any(out, **kw):
            pass


@triton.jit
def pairs(out):
    t = [a * b for a, b in ((1, 2), (3, 4))]
    (p, q), r = (1, 2), 3
    tl.store(out, t[0] + t[1] + p + q + r)
    s = [a for a in (1, 2, 3, 4) if a > 2]
    tl.store(out + 1, len(s))


def test_targets(engine):
    out = np.zeros(2, np.int32)
    engine(pairs, (out,))
    assert out.tolist() == [20, 2]


@triton.jit
def counts_down(out, n):
    i = 0
    while n:
        n -= 1
        i += 2
    tl.store(out, i)


def test_while_of_an_integer(engine):
    out = np.zeros(1, np.int32)
    engine(counts_down, (out, 5))
    assert out[0] == 10


@triton.jit
def runtime_filter(out, n):
    t = [a for a in (1, 2) if a > n]
    tl.store(out, len(t))


@triton.jit
def too_many(out):
    a, b = (1, 2, 3)
    tl.store(out, a + b)


@triton.jit
def too_few(out):
    a, b, c = (1, 2)
    tl.store(out, a + b + c)


@triton.jit
def starred(out):
    a, *b = (1, 2)
    tl.store(out, a + len(b))


@pytest.mark.parametrize(("kernel", "message"), [
    (runtime_filter, "condition of a list comprehension"), (too_many, r"too many values to unpack \(expected 2\)"),
    (too_few, r"not enough values to unpack \(expected 3, got 2\)"), (starred, "Starred"),
])  # fmt: skip
def test_mistakes(kernel, message):
    types = {"out": "*i32", **({"n": "i32"} if "n" in kernel.arg_names else {})}
    with pytest.raises(triton.CompilationError, match=message):
        lower(kernel, types)
