"""Calls: functions, constants through calls, lambdas, named tuples, aggregates, compile-time functions."""

# ruff: noqa: RUF015

from typing import NamedTuple

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium import ops
from tritium.frontend import lower
from tritium.interp.machine import interpret
from tritium.ir.core import walk
from tritium.ir.verify import verify

from .running import ints, module_of, run


@triton.jit
def fill(out, value, N, *, start=0, STEP: tl.constexpr = 1):
    tl.store(out + start + tl.arange(0, N) * STEP, value)


@triton.jit
def argument_rules(out, x):
    fill(out, x, 2)
    fill(out, N=2, value=7, start=2)
    fill(out, 8, N=2, start=4, STEP=2)
    fill(*(out, 9, 1), start=7)


def test_keyword_default_and_keyword_only_arguments():
    assert run(argument_rules, ints(), 5).tolist() == [5, 5, 7, 7, 8, 0, 8, 9]


@triton.jit
def total(first, *rest):
    for i in tl.static_range(len(rest)):
        first += rest[i]
    return first


@triton.jit
def variable_arguments(out, x):
    tl.store(out, total(x))
    tl.store(out + 1, total(x, 1, x + 2, 3.0).to(tl.int32))


def test_variable_arguments():
    assert run(variable_arguments, ints(), 5)[:2].tolist() == [5, 16]


@triton.jit
def constant_or_not(x):
    if isinstance(x, tl.tensor):
        return 1
    return 2


@triton.jit
def constants_through_calls(out):
    b = 8
    tl.store(out, constant_or_not(8))
    tl.store(out + 1, constant_or_not(b))
    tl.store(out + 2, constant_or_not(None))
    tl.static_assert(isinstance(constant_or_not(1), tl.tensor))


def test_constants_stay_constants_in_a_callee_and_decay_when_returned():
    assert run(constants_through_calls, ints())[:3].tolist() == [2, 1, 2]


@triton.jit
def sum_down(x, N: tl.constexpr):
    if N == 1:
        return x
    else:
        return x + sum_down(x, N - 1)


@triton.jit
def static_recursion(out, x):
    tl.store(out, sum_down(x, 60))


def test_recursion_that_ends_at_compile_time():
    assert run(static_recursion, ints(), 2)[0] == 120


@triton.jit
def apply(f, x, y):
    return f(x, y)


@triton.jit
def add(x, y):
    return x + y


@triton.jit
def functions_as_values(out, x, F: tl.constexpr):
    G: tl.constexpr = tl.maximum
    table: tl.constexpr = (add, F)
    tl.store(out, apply(add, x, 1))
    tl.store(out + 1, apply(tl.minimum, x, 1))
    tl.store(out + 2, F(x, 2))
    tl.store(out + 3, G(x, 3))
    tl.store(out + 4, table[0](x, 4))
    tl.store(out + 5, apply(lambda a, b: a * b + x, x, 10))
    square = lambda a: a * a
    tl.store(out + 6, square(square(x)))
    tl.store(out + 7, [f(x, 2) for f in (add, tl.maximum)][0])


def test_functions_are_values():
    assert run(functions_as_values, ints(), 5, F=add).tolist() == [6, 1, 7, 5, 9, 55, 625, 7]


@triton.jit
def larger(a, b):
    if a > b:
        return a
    return b


@triton.jit
def steps_to_one(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@triton.jit
def combines(out, x, N: tl.constexpr):
    values = tl.load(x + tl.arange(0, N))
    tl.store(out, tl.reduce(values, 0, larger))
    tl.store(out + 1, tl.reduce(values, 0, lambda a, b: a + b))
    scanned = tl.associative_scan(values, 0, lambda a, b: tl.maximum(a, b))
    tl.store(out + 2, scanned[2])
    low, high = tl.reduce((values, values), 0, pair_of_extremes)
    tl.store(out + 3, low * 100 + high)
    tl.store(out + 4 + tl.arange(0, 4), tl.map_elementwise(steps_to_one, tl.arange(0, 4) + 3))


@triton.jit
def pair_of_extremes(a_low, a_high, b_low, b_high):
    return tl.minimum(a_low, b_low), tl.maximum(a_high, b_high)


def test_combine_functions_with_control_flow():
    assert run(combines, ints(), ints(3, 1, 4, 1, 5, 9, 2, 6), N=8).tolist() == [9, 31, 4, 109, 7, 2, 5, 8]


def test_combine_regions_use_nothing_from_outside():
    module = module_of(combines, ints(), ints(), N=8)
    for op in walk(module.body):
        if op.kind in (ops.reduce, ops.scan, ops.map_):
            inside = {id(x) for region in op.regions for x in (*region.args, *walk(region))}
            inside |= {id(arg) for inner in walk(op.regions[0]) for region in inner.regions for arg in region.args}
            assert all(id(getattr(x, "op", x)) in inside for inner in walk(op.regions[0]) for x in inner.operands)


class Pair(NamedTuple):
    a: object
    b: object


@triton.jit
def swap(pair):
    return Pair(pair.b, b=pair.a)


@triton.jit
def named_tuples(out, n):
    pair = Pair(1, n)
    pair = swap(pair)
    for i in range(n):
        pair = Pair(pair.a + i, pair.b * 2)
    tl.store(out, pair.a)
    tl.store(out + 1, pair[1])
    tl.static_assert(len(pair) == 2)
    a, b = pair
    tl.store(out + 2, a + b)


def test_named_tuples():
    assert run(named_tuples, ints(), 3)[:3].tolist() == [6, 8, 14]


@tl.core._aggregate
class Running:
    total: tl.tensor
    count: tl.tensor
    STEP: tl.constexpr

    def __init__(self, total, count, STEP):
        self.total = total
        self.count = count
        self.STEP = STEP

    @triton.jit
    def plus(self, x):
        return Running(self.total + x, self.count + self.STEP, self.STEP)

    @triton.jit
    def mean(self):
        return self.total // self.count

    def bump(self, x, _semantic=None):
        self.total = tl.add(self.total, x, _semantic=_semantic)

    @triton.constexpr_function
    def doubled(self):
        return self.STEP * 2

    @staticmethod
    @triton.jit
    def start():
        return Running(tl.core.to_tensor(0), tl.core.to_tensor(0), 1)


@triton.jit
def aggregates(out, n):
    state = Running.start()
    for i in range(n):
        state = state.plus(i * 10)
    tl.store(out, state.total)
    tl.store(out + 1, state.mean())
    tl.store(out + 2, state.doubled())
    if n > 3:
        state.bump(1000)
    for i in range(n):
        state.bump(i)
    tl.store(out + 3, state.total)


def test_aggregates():
    assert run(aggregates, ints(), 5)[:4].tolist() == [100, 20, 2, 100 + 1000 + 10]
    assert run(aggregates, ints(), 3)[3] == 30 + 3


@triton.constexpr_function
def log2(n):
    found = 0
    while n > 1:
        n, found = n // 2, found + 1
    return found


@triton.constexpr_function
def both(n):
    return n, log2(n)


@triton.jit
def compile_time_functions(out, N: tl.constexpr):
    n, log = both(N)
    tl.store(out, log2(N))
    tl.store(out + 1, n + log)
    tl.store(out + 2 + tl.arange(0, log2(N)), triton.cdiv(N, 3))
    tl.store(out + 6, triton.next_power_of_2(N + 1))


def test_constexpr_functions():
    assert run(compile_time_functions, ints(), N=4)[:7].tolist() == [2, 6, 2, 2, 0, 0, 8]


@tl.core.builtin
def twice(x, FACTOR=2, _semantic=None):
    return tl.mul(x, FACTOR, _semantic=_semantic)


@triton.jit
def own_builtin(out, x):
    tl.store(out, twice(x))
    tl.store(out + 1, twice(x, FACTOR=5))


def test_builtins_written_by_users():
    assert run(own_builtin, ints(), 7)[:2].tolist() == [14, 35]


@triton.jit(noinline=True)
def apart(x):
    return x * 3


@triton.jit
def calls_apart(out, x):
    tl.store(out, apart(x))


def test_noinline_is_called():
    assert run(calls_apart, ints(), 4)[0] == 12


@triton.jit(noinline=True)
def apply_to(f, x):
    return f(x)


@triton.jit(noinline=True)
def changes(counter, by):
    counter.grow(by)
    return counter.n


@tl.core._aggregate
class Counter:
    n: tl.tensor

    def __init__(self, n):
        self.n = n

    def grow(self, by, _semantic=None):
        self.n = tl.add(self.n, by, _semantic=_semantic)


@triton.jit
def sees_more(out, x):
    y = x + 1
    tl.store(out, apply_to(lambda z: z * y, x))
    y = x + 2
    tl.store(out + 1, apply_to(lambda z: z * y, x))
    counter = Counter(x)
    tl.store(out + 2, changes(counter, x))
    tl.store(out + 3, counter.n)


def test_noinline_with_more_than_arguments_is_inlined():
    module = lower(sees_more, {"out": "*i32", "x": "i32"})
    assert not module.functions
    assert run(sees_more, ints(), 4)[:4].tolist() == [20, 24, 8, 8]


@triton.jit
def calls_often(out, x, y, C: tl.constexpr):
    tl.store(out, apart(x) + apart(y) + apart(apart(C)))
    tl.store(out + 1, apart(2.5))
    tl.store(out + 2, apart(x.to(tl.int64)))


@triton.jit(noinline=True)
def sign_of(x, LIST: tl.constexpr):
    return tl.where(1 / (LIST[0] + 0.0 * x) < 0, -1, len(LIST))


@triton.jit
def similar_constants(out, x):
    tl.store(out, sign_of(x, (-0.0,)))
    tl.store(out + 1, sign_of(x, (0.0,)))
    tl.store(out + 2, sign_of(x, (-0.0, 1)))
    tl.store(out + 3, sign_of(x, (-0.0, True)))


def test_similar_constants_make_other_functions():
    assert len(lower(similar_constants, {"out": "*i32", "x": "i32"}).functions) == 4
    assert run(similar_constants, ints(), -2)[:4].tolist() == [-1, 1, -1, -1]


def test_one_function_for_each_set_of_types_and_constants():
    module = lower(calls_often, {"out": "*i32", "x": "i32", "y": "i32", "C": "constexpr"}, {"C": 7})
    assert [f.name for f in module.functions] == ["apart__i32", "apart__", "apart__.1", "apart__i64"]
    assert run(calls_often, ints(), 4, 5, C=7)[:3].tolist() == [12 + 15 + 63, 7, 12]


@triton.jit
def methods(out, x, N: tl.constexpr):
    values = tl.load(x + tl.arange(0, N))
    tl.store(out, values.sum(0))
    tl.store(out + 1, values.max(axis=0).to(tl.int64).to(tl.int32))
    tl.store(out + 2, values.reshape((2, N // 2)).T.sum(axis=0)[1])


def test_methods():
    assert run(methods, ints(), ints(3, 1, 4, 1, 5, 9, 2, 6), N=8)[:3].tolist() == [31, 9, 22]


@triton.jit
def nothing_returned(out):
    tl.store(out, 1)
    return


@triton.jit
def sometimes_leaves_early(out, n):
    if n > 0:
        return
    tl.store(out + 1, 5)


@triton.jit
def doubled_until(n):
    while True:
        n *= 2
        if n > 10:
            return n


@triton.jit
def odd_returns(out, n):
    tl.static_assert(nothing_returned(out) is None)
    sometimes_leaves_early(out, n)
    tl.store(out + 2, doubled_until(n))


def test_functions_without_a_value():
    assert run(odd_returns, ints(), 3)[:3].tolist() == [1, 0, 12]


@triton.jit
def checks(out, n):
    print("n is", n)
    assert n > 0, "n must be positive"
    assert n < 100
    tl.device_assert(n != 50)
    pass
    ...
    "a string"
    n


def test_print_and_assert():
    from types import SimpleNamespace
    options = SimpleNamespace(debug=True, sanitize_overflow=True)
    module = lower(checks, {"out": "*i32", "n": "i32"}, options=options)
    kinds = [op.kind for op in module.body.ops]
    assert kinds.count(ops.print_) == 1 and kinds.count(ops.assert_) == 3
    assert ops.assert_ not in [op.kind for op in lower(checks, {"out": "*i32", "n": "i32"}).body.ops]


def test_callers_are_part_of_a_location():
    module = module_of(argument_rules, ints(), 5)
    inlined = [op.loc for op in walk(module.body) if op.loc.function == "fill"]
    assert inlined and all(loc.caller.function == "argument_rules" for loc in inlined)
    assert len({loc.caller.line for loc in inlined}) == 4


# --- parameters ---------------------------------------------------------------------------------------------------
@triton.jit
def tuple_parameters(out, pair, named, SKIP: tl.constexpr):
    tl.store(out, pair[0] + pair[1][0])
    tl.static_assert(pair[1][1] == 3)
    tl.store(out + 1, named.a)
    tl.static_assert(named.b is None)


def test_tuples_as_parameters():
    signature = {"out": "*i32", "pair": ("i32", ("i64", "constexpr")), "named": Pair("i32", "constexpr"),
                 "SKIP": "constexpr"}
    module = verify(lower(tuple_parameters, signature, {(1, 1, 1): 3, (2, 1): None, "SKIP": True}))
    assert [str(arg.type) for arg in module.args] == ["ptr<i32>", "i32", "i64", "i32"]
    out = ints()
    interpret(module, [out, 1, 2, 5])
    assert out[:2].tolist() == [3, 5]


@triton.jit
def promised(x, n, m, K: tl.constexpr = 4):
    tl.store(x + n + K, m)


def test_promises_and_defaults():
    attrs = {(0,): [["tt.divisibility", 16]], "n": [["tt.divisibility", 16]], (2,): [["tt.pointer_range", 32]]}
    module = lower(promised, {"x": "*fp32", "n": "i64", "m": "fp64", "K": "constexpr"}, attrs=attrs)
    x, n, m = module.args
    assert (x.name, x.attrs, n.attrs, m.attrs) == ("x", {"divisible": 16}, {"divisible": 16}, {"pointer_range": 32})


@triton.jit
def described(desc, out):
    tile = desc.load([0, 4])
    tl.store(out + tl.arange(0, 4), tl.sum(tile, 0))


def test_a_descriptor_is_pointer_shape_and_strides():
    module = verify(lower(described, {"desc": "tensordesc<fp32[2, 4]>", "out": "*fp32"}))
    assert [str(arg.type) for arg in module.args] == ["ptr<f32>", "i32", "i32", "i64", "i64", "ptr<f32>"]
    data, out = np.arange(24, dtype=np.float32).reshape(3, 8), np.zeros(4, np.float32)
    interpret(module, [data, 3, 8, 8, 1, out])
    assert out.tolist() == (data[0, 4:8] + data[1, 4:8]).tolist()


def test_a_constant_without_value():
    with pytest.raises(ValueError, match="the constant SKIP of tuple_parameters has no value"):
        lower(tuple_parameters, {"out": "*i32", "pair": ("i32",), "named": ("i32",), "SKIP": "constexpr"})
