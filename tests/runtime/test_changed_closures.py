"""Variables of an enclosing function that are bound anew between launches: a kernel made of the old ones is not run."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl


@triton.jit
def one_more(x):
    return x + 1


@triton.jit
def two_more(x):
    return x + 2


def kernels(value):
    """A kernel that uses a closure variable, another that uses it through a function, and what changes it."""
    held = value

    @triton.jit
    def through(x):
        if held is None:
            return x + 10
        else:
            return held(x, 2) if held is tl.maximum or held is tl.minimum else held(x)

    @triton.jit
    def direct(o):
        x = tl.load(o)
        if held is None:
            tl.store(o, x + 10)
        else:
            tl.store(o, held(x, 2) if held is tl.maximum or held is tl.minimum else held(x))

    @triton.jit
    def indirect(o):
        tl.store(o, through(tl.load(o)))

    def change(other):
        nonlocal held
        held = other

    return {"direct": direct, "indirect": indirect}, change


def result(kernel):
    o = np.array([5], np.int32)
    kernel[(1,)](o)
    return o[0]


@pytest.mark.parametrize("road", ["direct", "indirect"])
@pytest.mark.parametrize("before, after, first, second", [
    (one_more, two_more, 6, 7), (None, one_more, 15, 6), (one_more, None, 6, 15), (tl.maximum, tl.minimum, 5, 2),
], ids=["function", "none", "to none", "builtin"])
def test_a_changed_closure_is_noticed(road, before, after, first, second):
    made, change = kernels(before)
    for _ in range(3):  # the third launch goes the fast way
        assert result(made[road]) == first
    change(after)
    for launch in (result, lambda kernel: kernel.warmup(np.zeros(1, np.int32), grid=(1,))):
        with pytest.raises(RuntimeError, match="held has changed since we compiled this kernel"):
            launch(made[road])
    change(before)
    assert result(made[road]) == first
    fresh, _ = kernels(after)
    assert result(fresh[road]) == second


def test_the_interpreter_uses_the_new_value():
    from tritium.interp.eager import launch

    made, change = kernels(one_more)
    for held, expected in ((one_more, 6), (two_more, 7), (None, 15)):
        change(held)
        o = np.array([5], np.int32)
        launch(made["direct"], (1,), (o,), {})
        assert o[0] == expected


def test_a_module_in_the_closure_leaves_the_fast_way_open():
    import tritium.language as language

    @triton.jit
    def kernel(o):
        language.store(o, 3)

    o = np.zeros(1, np.int32)
    for _ in range(3):
        kernel[(1,)](o)
    assert kernel.used_global_vals == {} and o[0] == 3
