"""Values made of values: tuples, named tuples, aggregates; and builtins that users write."""

from typing import NamedTuple

import numpy as np
import pytest

import tritium.language as tl
from tritium.errors import CompilationError
from tritium.frontend import lower
from tritium.interp.eager import launch
from tritium.interp.machine import interpret
from tritium.language.source.function import constexpr_function, device
from tritium.language.types.values import flatten


def compiled(kernel, args, constants):
    names = [name for name in kernel.arg_names if name not in constants]
    signature = {name: f"*{'fp32' if x.dtype == np.float32 else 'i32'}" if isinstance(x, np.ndarray) else "i32"
                 for name, x in zip(names, args)}
    interpret(lower(kernel, {**signature, **dict.fromkeys(constants, "constexpr")}, constants), list(args), (1,))


def eager(kernel, args, constants):
    launch(kernel, (1,), args, constants)


@pytest.fixture(params=[compiled, eager])
def run(request):
    """Run a kernel on one program, through the compiler or as plain Python."""
    return request.param


# --- aggregates -----------------------------------------------------------------------------------------------------


@tl.core._aggregate
class Running:
    """A maximum and a sum of exponentials, as softmax keeps them."""

    maximum: tl.tensor
    total: tl.tensor
    SCALE: tl.constexpr

    def __init__(self, maximum, total, SCALE):
        self.maximum = maximum
        self.total = total
        self.SCALE = SCALE

    @device
    def add(self, x):
        top = tl.maximum(self.maximum, x * self.SCALE)
        return Running(top, self.total * tl.exp(self.maximum - top) + tl.exp(x * self.SCALE - top), self.SCALE)

    @constexpr_function
    def doubled(self):
        return self.SCALE.value * 2

    def shifted(self, by, _semantic=None):
        return Running(_semantic.add(self.maximum, by), self.total, self.SCALE)

    @device
    def __add__(self, other):
        return Running(self.maximum + other, self.total, self.SCALE)


@device
def logsumexp(x, out, n, SCALE: tl.constexpr):
    state = Running(tl.load(x) * SCALE, tl.full((), 1.0, tl.float32), SCALE)
    for i in range(1, n):
        state = state.add(tl.load(x + i))
    tl.store(out, state.maximum + tl.log(state.total))
    tl.store(out + 1, state.doubled())
    tl.store(out + 2, state.shifted(10).maximum - state.maximum)
    moved = state + 5.0
    tl.store(out + 3, moved.maximum - state.maximum)


def test_aggregates_travel_through_loops_and_methods(run):
    x, out = np.array([1, 3, 2, 0.5], np.float32), np.zeros(4, np.float32)
    run(logsumexp, (x, out, 4), {"SCALE": 2})
    np.testing.assert_allclose(out, [np.log(np.exp(x * 2).sum()), 4, 10, 5], rtol=1e-6)


@tl.core._aggregate
class Pair:
    left: tl.tensor
    right: tl.tensor

    @constexpr_function
    def __init__(self, left, right):
        self.left = left
        self.right = right


@tl.core._aggregate
class Nested:
    pair: Pair
    count: tl.constexpr

    def __init__(self, pair, count):
        self.pair = pair
        self.count = count


def test_aggregates_flatten_to_their_fields(b):
    value = Nested(Pair(b.tile("i32"), b.tile("f32", 8)), 3)
    handles, rebuild = flatten(value)
    assert [str(h.type) for h in handles] == ["i32", "tile<8xf32>"]
    again = rebuild(handles[::-1])
    assert type(again) is Nested and again.pair.left.shape == (8,) and again.count == 3
    assert value.type == Nested(Pair(b.tile("i32"), b.tile("f32", 8)), 3).type != again.type


def test_aggregate_mistakes(b):
    with pytest.raises(TypeError, match=r"Expected <class .*tensor'> for attribute 'left', got int"):
        Pair(1, b.tile("i32"))

    class Incomplete:
        x: tl.tensor
        y: tl.tensor

        def __init__(self, x):
            self.x = x

    with pytest.raises(AttributeError, match="did not initialize attribute 'y'"):
        tl.core._aggregate(Incomplete)(b.tile("i32"))

    class TooMuch:
        def __init__(self):
            self.z = 1

    with pytest.raises(AttributeError, match="has no attribute 'z'"):
        tl.core._aggregate(TooMuch)()

    class Compiled:
        __init__ = device(test_aggregate_mistakes)

    with pytest.raises(ValueError, match="__init__ cannot be a"):
        tl.core._aggregate(Compiled)


# --- tuples ---------------------------------------------------------------------------------------------------------


class Point(NamedTuple):
    x: object
    y: object


@device
def swap(p):
    return Point(p.y, p.x)


@device
def tuples(out, n, K: tl.constexpr):
    pair = (n, n + 1)
    a, b = pair
    longer = pair + (K, None)
    tl.store(out, longer[1] + len(longer))
    tl.store(out + 1, longer[-2])
    p = swap(Point(a, y=b))
    for _ in range(2):
        p = swap(p)
    tl.store(out + 2, p.x * 10 + p.y)
    first = longer[0:2]
    tl.store(out + 3, first[0] * 100 + first[1])
    tl.store(out + 4, (K, 1) == (3, 1))
    tl.store(out + 5, [v * 2 for v in pair][1])


def test_tuples(run):
    out = np.zeros(8, np.int32)
    run(tuples, (out, 7), {"K": 3})
    assert out.tolist()[:6] == [12, 3, 87, 708, 1, 16]


def test_tuple_values(b):
    x = b.tile("i32")
    fields = tl.tuple([x, 4], tl.tuple_type([tl.int32, tl.constexpr_type(4)], ["n", "k"]))
    assert fields.n is x and fields.k == 4 and fields.values == [x, 4]
    handles, rebuild = flatten(fields)
    assert len(handles) == 1 and rebuild(handles).k == 4
    with pytest.raises(AssertionError, match="compile-time constant"):
        fields[x]
    with pytest.raises(TypeError, match="cannot be changed"):
        fields[0] = 1
    assert flatten(Point(x, (1, x)))[1](flatten(Point(x, (1, x)))[0]).y[0] == 1


# --- users' own builtins --------------------------------------------------------------------------------------------


@tl.core.builtin
def scaled(x, factor, _semantic=None):
    """x * factor and x + factor; a factor is a constexpr."""
    assert isinstance(factor, tl.constexpr) and factor.value == factor
    return tl.mul(x, factor, _semantic=_semantic), _semantic.to_tensor(factor) + x


@device
def cube(x):
    return x * x * x


@tl.core.extern
def cubed(x, _semantic=None, _generator=None):
    return _generator.call_JitFunction(cube, (x,))


@device
def uses_builtins(x, out):
    a, b = scaled(tl.load(x), 3)
    tl.store(out, a)
    tl.store(out + 1, b)
    tl.store(out + 2, cubed(a))


def test_user_builtins(run):
    x, out = np.array([5], np.int32), np.zeros(3, np.int32)
    run(uses_builtins, (x, out), {})
    assert out.tolist() == [15, 8, 3375]


def marked(fn):
    """A builtin as other libraries mark them: by an attribute."""
    def wrapper(*args, _semantic, **kwargs):
        return fn(*args, builder=_semantic, **kwargs)
    wrapper.__triton_builtin__ = True
    return wrapper


@marked
def only_with(mask, value, *, builder):
    if isinstance(mask, tl.constexpr) and mask.value is None:
        return tl.constexpr(None)
    return value


@device
def uses_marked(x, out, MASK: tl.constexpr):
    tl.store(out, tl.load(x, MASK, other=only_with(MASK, 0)) + 1)
    tl.store(out + 1, tl.load(x, tl.load(x) > 9, other=only_with(tl.load(x) > 9, 7)))


def test_functions_marked_as_builtins():
    x, out = np.array([5], np.int32), np.zeros(2, np.int32)
    compiled(uses_marked, (x, out), {"MASK": None})
    assert out.tolist() == [6, 7] and uses_marked.cache_key


def test_user_builtins_need_a_kernel():
    assert tl.core.is_builtin(scaled) and not tl.core.is_builtin(cube)
    assert list(scaled.signature.parameters) == ["x", "factor"]
    with pytest.raises(ValueError, match="Did you forget to add"):
        scaled(1, 2)


@tl.core.builtin
def refuses(x, _semantic=None):
    raise ValueError("not today")


@device
def uses_refusal(x):
    refuses(tl.load(x))


def test_errors_of_user_builtins_point_at_the_call():
    with pytest.raises(CompilationError, match="not today") as raised:
        lower(uses_refusal, {"x": "*fp32"})
    assert "refuses(tl.load(x))" in str(raised.value) and isinstance(raised.value.__cause__, ValueError)


# --- functions of scalars -------------------------------------------------------------------------------------------


@device
def collatz(n, limit):
    steps = 0
    while (n != 1) & (steps < limit):
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


@device
def halves(a, b):
    return a + b, a - b, b, a


@device
def elementwise(x, out, N: tl.constexpr):
    o = tl.arange(0, N)
    values = tl.load(x + o)
    tl.store(out + o, tl.map_elementwise(collatz, values, tl.full((), 1000, tl.int32)))
    sums, swapped = tl.map_elementwise(halves, values, pack=2)
    tl.store(out + N + o, sums)
    tl.store(out + 2 * N + o, swapped)


def test_map_elementwise(run):
    x, out = np.array([1, 2, 3, 7, 9, 27, 6, 4], np.int32), np.zeros(24, np.int32)
    run(elementwise, (x, out), {"N": 8})
    assert out[:8].tolist() == [0, 1, 7, 16, 19, 111, 8, 2]
    assert out[8:16].tolist() == [3, -1, 10, -4, 36, -18, 10, 2]
    assert out[16:].tolist() == [2, 1, 7, 3, 27, 9, 4, 6]


@device
def prefer_second(a, b):
    return b + 0 * a


@device
def narrow(a, b):
    return (a + b).to(tl.int8)


def test_combine_functions_keep_their_types(b):
    out = tl.associative_scan.fn(b, b.tile("i32", 8), 0, prefer_second)
    assert out.shape == (8,)
    with pytest.raises(TypeError, match=r"must return \(int32\), it returns \(int8\)"):
        tl.reduce.fn(b, b.tile("i32", 8), 0, narrow)
