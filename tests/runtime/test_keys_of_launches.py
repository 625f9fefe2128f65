"""A launch with another or a changed constant compiles another kernel; so does a change of what kernels capture."""

import math

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.runtime.constants import Data, Frozen, Scale, attribute, plain, run

# -- launches ----------------------------------------------------------------------------------------------------------


def test_objects_that_print_alike():
    assert [run(attribute, Scale(v)) for v in (1, 2, 1)] == [1, 2, 1]


@pytest.mark.parametrize("make", [lambda: plain(v=1), lambda: Scale(1), lambda: Data(1)])
def test_an_object_that_is_changed_is_compiled_anew(make):
    held = make()
    assert run(attribute, held) == run(attribute, held) == 1
    held.v = 7
    assert run(attribute, held) == 7


def test_a_default_that_is_changed_is_compiled_anew():
    held = plain(v=1)

    @triton.jit
    def kernel(p, X: tl.constexpr = held):
        tl.store(p, X.v * 1.0)

    y = np.zeros(1, np.float32)
    for v in (1, 1, 2, 3):
        held.v = v
        kernel[(1,)](y)
        assert y[0] == v


def test_a_constant_part_of_a_tuple_that_is_changed():
    held = plain(v=1)

    @triton.jit
    def kernel(p, X: tl.constexpr):
        tl.store(p, X[1].v * 1.0)

    constant = (0, held)
    assert run(kernel, constant) == run(kernel, constant) == 1
    held.v = 2
    assert run(kernel, constant) == 2


def test_one_and_true_and_floats():
    @triton.jit
    def kind(p, X: tl.constexpr):
        if X is True:
            tl.store(p, 1.0)
        elif isinstance(X, float):
            tl.store(p, 2.0)
        else:
            tl.store(p, 3.0)

    assert [run(kind, x) for x in (1, True, 1.0, 1, True, 1.0)] == [3, 1, 2, 3, 1, 2]


@triton.jit
def sign(p, X: tl.constexpr):
    tl.store(p, 1.0 / (X + tl.zeros((), tl.float32) * -1.0))


def test_zeros():
    assert [run(sign, x) for x in (0.0, -0.0, 0.0, -0.0)] == [math.inf, -math.inf] * 2


def test_a_frozen_object_goes_the_fast_way():
    held = Frozen(3)
    assert run(attribute, held) == 3
    before = len(attribute.launcher.records)
    assert run(attribute, held) == 3 and before > 1


def test_arrays_and_lists_are_refused():
    y = np.zeros(1, np.float32)
    for value, hint in (([1], "pass a tuple"), ({}, "pass a tuple"), (np.zeros(2), "take tl.constexpr off")):
        with pytest.raises(TypeError, match=f"(?s)cannot be a compile-time constant.*{hint}"):
            attribute[(1,)](y, value)


# -- what kernels capture ----------------------------------------------------------------------------------------------


def test_a_captured_object_counts():
    def make(v):
        held = tl.constexpr(plain(v=v))

        @triton.jit
        def kernel(p):
            tl.store(p, held.v * 1.0)

        return kernel, held

    (one, held), (two, _) = make(1), make(2)
    assert one.cache_key != two.cache_key
    y = np.zeros(1, np.float32)
    one[(1,)](y)
    one[(1,)](y)
    assert y[0] == 1
    held.value.v = 5
    with pytest.raises(RuntimeError, match="Global variable held has changed"):
        one[(1,)](y)


def test_a_captured_python_function_counts():
    def make(c):
        @tl.constexpr
        def add(v):
            return v + c

        @triton.jit
        def kernel(p):
            tl.store(p, add(2) * 1.0)

        return kernel

    y = np.zeros(1, np.float32)
    found = []
    for c in (1, 2):
        make(c)[(1,)](y)
        found.append(y[0])
    assert found == [3, 4]


def test_objects_a_constexpr_function_reads_count():
    def make(v):
        held = plain(v=v)

        @triton.constexpr_function
        def read(x):
            return x * held.v

        @triton.jit
        def kernel(p):
            tl.store(p, read(2) * 1.0)

        return kernel, held

    y = np.zeros(1, np.float32)
    for v in (1, 2):
        kernel, held = make(v)
        kernel[(1,)](y)
        assert y[0] == 2 * v
    held.v = 9
    with pytest.raises(RuntimeError, match="Global variable held has changed"):
        kernel[(1,)](y)


def test_globals_of_a_function_that_is_a_constant():
    def make(start):
        factor = tl.constexpr(start)

        @triton.jit
        def scaled(x):
            return x * factor

        def change(value):
            nonlocal factor
            factor = tl.constexpr(value)

        return scaled, change

    @triton.jit
    def apply(p, F: tl.constexpr):
        tl.store(p, F(2.0))

    scaled, change = make(3)
    assert run(apply, scaled) == run(apply, scaled) == 6
    change(4)
    with pytest.raises(RuntimeError, match="Global variable factor has changed"):
        run(apply, scaled)


def test_a_tuple_that_holds_the_function_itself():
    @triton.jit
    def helper(x):
        return x + TABLE[1]

    TABLE = tl.constexpr((helper, 5))
    assert helper.cache_key == helper.cache_key
