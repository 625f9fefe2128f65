"""Random modules: text and back, passes keep meaning, backends agree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.exec.backends import backends_present
from tests.ops.samples import array_of, random_codes, special_codes
from tests.properties.modules import modules
from tritium import ops
from tritium.interp.machine import interpret
from tritium.ir.builder import Builder
from tritium.ir.core import Block, Module, Op, Result
from tritium.ir.text import parse_module, print_module
from tritium.ir.verify import verify
from tritium.ops.meaning import np_dtype
from tritium.passes import inline_calls

BACKENDS = backends_present()


def equal(one, two):
    """Whether two modules are the same, op by op."""
    return (one.name, one.attrs) == (two.name, two.attrs) and same_block(one.body, two.body, {})


def same_block(x, y, names):
    if len(x.args) != len(y.args) or len(x.ops) != len(y.ops):
        return False
    for a, b in zip(x.args, y.args):
        if a.type is not b.type or a.attrs != b.attrs:
            return False
        names[id(a)] = id(b)
    return all(same_op(a, b, names) for a, b in zip(x.ops, y.ops))


def same_op(x, y, names):
    def key(v):
        return (names[id(v.op)], v.index) if type(v) is Result else names[id(v)]

    def key_of(v):
        return (id(v.op), v.index) if type(v) is Result else id(v)

    if x.kind is not y.kind or x.types != y.types or repr(x.attrs) != repr(y.attrs) \
            or [key(v) for v in x.operands] != [key_of(v) for v in y.operands] or len(x.regions) != len(y.regions):
        return False
    names[id(x)] = id(y)
    return all(same_block(a, b, names) for a, b in zip(x.regions, y.regions))


@given(modules())
def test_what_is_printed_can_be_parsed(made):
    module = made[0]
    text = print_module(module)
    again = parse_module(text)
    assert equal(module, again)
    assert print_module(again) == text


def test_equal_sees_differences():
    text = "kernel @f(%x: i32) {\n  %1 = add %x, %x : i32\n}"
    module = parse_module(text)
    assert equal(module, parse_module(text))
    for other in ("kernel @f(%x: i32) {\n  %1 = sub %x, %x : i32\n}", "kernel @f(%x: i32) {\n}",
                  "kernel @f(%x: i64) {\n  %1 = add %x, %x : i64\n}"):
        assert not equal(module, parse_module(other))


def arguments(made, seed, n):
    """Inputs with special values among them, and empty outputs. NaNs are quiet: what CPUs make of others is theirs."""
    _, size, inputs, outputs = made
    rng = np.random.default_rng(seed)
    args = []
    for k, t in enumerate(inputs):
        codes = special_codes(t) + random_codes(t, size, seed + k)
        x = array_of(t, [codes[i] for i in rng.integers(0, len(codes), size)])
        if t.is_float:
            x[np.isnan(x)] = np.nan
        args.append(x)
    return [*args, n, *[np.zeros(count, np_dtype(t)) for t, count in outputs]]


def bits(x):
    """Comparable contents: all NaNs are one."""
    if x.dtype.kind in "iub":
        return x
    with np.errstate(invalid="ignore"):
        wide = x.astype(np.float64)
    return np.where(np.isnan(wide), 0x7FF8 << 48, wide.view(np.int64))


def run(backend, made, seed, n, grid=(2,)):
    args = arguments(made, seed, n)
    backend(made[0], args, grid)
    return args[len(made[2]) + 1:]


@pytest.mark.parametrize("backend", [name for name in BACKENDS if name != "interpreter"])
@given(made=modules(), seed=st.integers(0, 1000), n=st.sampled_from([0, 1, 3, 16, 100]))
def test_backends_agree(backend, made, seed, n):
    expected = run(lambda module, args, grid: interpret(module, args, grid), made, seed, n)
    found = run(BACKENDS[backend], made, seed, n)
    for k, (x, y) in enumerate(zip(found, expected)):
        assert np.array_equal(bits(x), bits(y)), f"out{k}: {x} against {y} of\n{made[0]}"


def moved_to_a_function(module):
    """A kernel that only calls a function, which does what the kernel did."""
    b = Builder()
    args = [b.argument(arg.type, arg.name, **arg.attrs) for arg in module.args]
    ops.call(b, *args, callee="rest")
    rest = Block(module.args, [*module.body.ops, Op(ops.yield_, (), {}, ())])
    return verify(Module(module.name, b.finish(), module.attrs, [Module("rest", rest)]))


@given(made=modules(), seed=st.integers(0, 1000), n=st.sampled_from([0, 3, 100]))
def test_functions_mean_what_kernels_do(made, seed, n):
    apart = moved_to_a_function(made[0])
    assert equal(inline_calls(apart), made[0])
    expected = run(BACKENDS["interpreter"], made, seed, n)
    for name in ("interpreter", "cpu"):
        found = run(BACKENDS[name], (apart, *made[1:]), seed, n)
        for k, (x, y) in enumerate(zip(found, expected)):
            assert np.array_equal(bits(x), bits(y)), f"{name}, out{k}: {x} against {y} of\n{apart}"
