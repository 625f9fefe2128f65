"""Which launches share a kernel, and which go the fast way; what globals a kernel keeps to (LANGUAGE 9 to 11)."""

import gc
import weakref

import numpy as np
import pytest

from tests.runtime.jit_kernels import ODD, X, add, forget, kernels
from tritium import knobs
from tritium.language.types import dtypes as tl_types
from tritium.language.types.constants import constexpr
from tritium.runtime import jit as triton_jit
from tritium.runtime.jit import jit

SCALE = constexpr(3)


@jit
def uses_global(x):
    x + SCALE


@pytest.fixture(autouse=True)
def fresh_global():
    forget(uses_global)


# -- keys --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "second"), [
    (1, True), (1, 1.0), (0, False), (0.0, -0.0), ((1,), (True,)), ((0.0,), (-0.0,)), ("1", 1), (None, 0),
    (tl_types.float16, tl_types.bfloat16),
])
def test_constants_that_compare_equal_are_different_kernels(fake, first, second):
    add[(1,)](X, X, 3, BLOCK=first)
    add[(1,)](X, X, 3, BLOCK=second)
    add[(1,)](X, X, 3, BLOCK=first)
    compiled = [call[2]["BLOCK"] for call in fake.lowered]
    assert [repr(value) for value in compiled] == [repr(first), repr(second)]


def test_nan_constants_hit_the_cache(fake):
    add[(1,)](X, X, 3, BLOCK=float("nan"))
    add[(1,)](X, X, 3, BLOCK=float("nan"))
    assert len(kernels(add)) == 1


def test_one_kernel_for_each_specialisation(fake):
    for n in (16, 32, 48, 3, 5, 1, 2**40):
        add[(1,)](X, X, n)
    assert len(kernels(add)) == 4  # multiples of 16, others, one, 64-bit
    add[(1,)](ODD, X, 16)
    add[(1,)](X.astype(np.float64), X, 16)
    assert len(kernels(add)) == 6


def test_explicit_default_option_is_another_entry_but_not_another_compilation(fake):
    add[(1,)](X, X, 3)
    add[(1,)](X, X, 3, num_warps=4)
    assert len(kernels(add)) == 2 and len(fake.lowered) == 1  # the second one comes from the disk


def test_new_text_is_a_new_kernel(fake):
    @jit
    def kernel(x):
        pass

    kernel[(1,)](X)
    kernel[(1,)](X)
    kernel._unsafe_update_src(kernel.src + "    x")
    kernel[(1,)](X)
    assert fake.guarded == 1 and len(fake.lowered) == 2 and len(kernels(kernel)) == 2


def test_caches_can_be_looked_at_before_the_first_launch(fake):
    kernel_cache, key_cache, target, backend, binder = add.device_caches[0]
    assert kernel_cache == {} and key_cache == {} and target == fake.get_current_target()
    assert backend.binary_ext == "paper" and binder(X, X, 3, num_warps=8) == (
        {"x_ptr": X, "y_ptr": X, "n": 3, "BLOCK": 64}, [("*fp32", "D")] * 2 + [("i32", ""), ("constexpr", 64)],
        {"num_warps": 8})
    add[(1,)](X, X, 3)
    assert len(kernel_cache) == 1


def test_a_framework_compiles_what_a_launch_would(fake):
    kernels_, _, target, backend, binder = add.create_binder()
    bound, specialization, options = binder(X, ODD, n=1, num_warps=2)
    types, keys = zip(*specialization)
    constants = {path: triton_jit.get_iterable_path(list(bound.values()), path)
                 for path in triton_jit.find_paths_if(types, lambda _, type_: type_ == "constexpr")}
    attrs = {path: backend.parse_attr(triton_jit.get_iterable_path(keys, path))
             for path in triton_jit.find_paths_if(keys, lambda _, key: isinstance(key, str))}
    source = add.ASTSource(add, dict(zip(add.arg_names, types)), constants, attrs)
    compiled = add.compile(source, target=target, options=backend.parse_options(options).__dict__)
    assert not kernels_ and add[(1,)](X, ODD, 1, num_warps=2).hash == compiled.hash and len(fake.lowered) == 1


def test_functions_as_arguments(fake):
    @jit
    def f(x):
        return x

    @jit
    def g(x):
        return -x

    add[(1,)](X, X, f)
    add[(1,)](X, X, g)
    add[(1,)](X, X, 3, BLOCK=f)
    assert [call[2].get("n") for call in fake.lowered] == [f, g, None]


# -- the fast way ------------------------------------------------------------------------------------------------------


def test_the_second_launch_is_guarded(fake):
    first = add[(1,)](X, X, 3)
    second = add[(2,)](X, X, 3)
    assert first is second and fake.guarded == 1
    add[lambda meta: (5,)](X, X, 3)
    assert fake.guarded == 2 and [grid for _, grid, _ in fake.launches] == [(1, 1, 1), (2, 1, 1), (5, 1, 1)]


def test_specialisations_at_hand_are_tried_in_turn(fake):
    for _ in range(3):
        add[(1,)](X, X, 3)
        add[(1,)](ODD, X, 3)
    assert len(fake.launches) == 6 and fake.guarded == 4


def test_options_are_part_of_the_guard(fake):
    add[(1,)](X, X, 3)
    add[(1,)](X, X, 3, num_warps=8)
    assert fake.guarded == 0 and [call[4].num_warps for call in fake.lowered] == [4, 8]


def test_clearing_the_caches_compiles_again(fake):
    add[(1,)](X, X, 3)
    add.device_caches.clear()
    knobs.compilation.always_compile = True
    add[(1,)](X, X, 3)
    assert len(fake.lowered) == 2 and fake.guarded == 0


def test_setting_anything_disarms(fake):
    add[(1,)](X, X, 3)
    knobs.runtime.override_arch = "other"
    add[(1,)](X, X, 3)
    assert fake.guarded == 0
    add[(1,)](X, X, 3)
    assert fake.guarded == 1


def test_a_kernel_can_be_collected(fake):
    @jit
    def kernel(x):
        pass

    kernel[(1,)](X)
    kernel[(1,)](X)
    gone = weakref.ref(kernel)
    fake.launches.clear()
    fake.lowered.clear()
    del kernel
    gc.collect()
    assert gone() is None


# -- globals -----------------------------------------------------------------------------------------------------------


def test_changed_global_is_refused_on_both_ways(fake, monkeypatch):
    uses_global[(1,)](X)
    uses_global[(1,)](X)
    assert fake.guarded == 1
    monkeypatch.setitem(globals(), "SCALE", constexpr(4))
    with pytest.raises(RuntimeError, match="Global variable SCALE has changed since we compiled this kernel, from 3"):
        uses_global[(1,)](X)
    with pytest.raises(RuntimeError, match="SCALE has changed"):
        uses_global.warmup(X, grid=(1,))


def test_global_set_again_to_an_equal_value_is_fine(fake, monkeypatch):
    uses_global[(1,)](X)
    monkeypatch.setitem(globals(), "SCALE", constexpr(3))
    uses_global[(1,)](X)
    assert len(fake.launches) == 2
