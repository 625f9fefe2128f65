"""Binding and specialisation of arguments, grids, and the kernel as an object (LANGUAGE 9 to 11)."""

import inspect
import pickle

import numpy as np
import pytest

import tritium
from tests.runtime.jit_kernels import ODD, X, add, nothing, tl, with_option
from tritium import knobs
from tritium.compiler import CompiledKernel
from tritium.errors import CompilationError
from tritium.language.types import dtypes as tl_types
from tritium.runtime.jit import JITFunction, jit
from tritium.tensors import reinterpret
from tritium.tools.tensor_descriptor import TensorDescriptor

# -- what reaches the compiler -----------------------------------------------------------------------------------------


def test_do_not_specialize_a_constant_is_refused(fake):
    @jit(do_not_specialize=["BLOCK"])
    def kernel(x, BLOCK: tl.constexpr):
        pass

    with pytest.raises(CompilationError, match="BLOCK is marked as constexpr and listed in do_not_specialize"):
        kernel[(1,)](X, 4)


def test_the_frontend_gets_signature_constants_and_promises(fake):
    add[(1,)](X, ODD, 1)
    source, signature, constants, attrs, options = fake.lowered[0]
    assert source is add
    assert signature == {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "constexpr", "BLOCK": "constexpr"}
    assert constants == {"n": 1, "BLOCK": 64}
    assert attrs == {(0,): [["tt.divisibility", 16]]}
    assert options.num_warps == 4 and options.num_stages == 2


def test_tuples_reach_the_compiler_by_path(fake):
    @jit
    def kernel(pair, x):
        pass

    kernel[(1,)]((X, 1, (None, 32)), 3)
    _, signature, constants, attrs, _ = fake.lowered[0]
    assert signature["pair"] == ("*fp32", "constexpr", ("constexpr", "i32"))
    assert constants == {(0, 1): 1, (0, 2, 0): None}
    assert attrs == {(0, 0): [["tt.divisibility", 16]], (0, 2, 1): [["tt.divisibility", 16]]}
    assert fake.launches[0][2] == [X.ctypes.data, 32, 3]


def test_descriptors_are_flattened(fake):
    @jit
    def kernel(desc):
        pass

    base = np.zeros((64, 32), np.float32)
    kernel[(1,)](TensorDescriptor.from_tensor(base, [16, 32], padding="nan"))
    assert fake.lowered[0][1] == {"desc": "tensordesc<fp32[16, 32]>"}
    assert fake.lowered[0][3] == {(0,): [["tt.padding", "nan"]]}
    assert fake.launches[0][2] == [base.ctypes.data, 64, 32, 32, 1]


def test_numpy_constants_become_python_ones(fake):
    add.warmup(X, X, 2, BLOCK=np.int64(16), grid=(1,))
    assert fake.lowered[0][2]["BLOCK"] == 16 and type(fake.lowered[0][2]["BLOCK"]) is int


# -- binding -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [
    lambda k: k(X, ODD, 5, 32),
    lambda k: k(X, ODD, 5, BLOCK=32),
    lambda k: k(BLOCK=32, n=5, y_ptr=ODD, x_ptr=X),
    lambda k: k(X, n=5, BLOCK=32, y_ptr=ODD),
])
def test_positional_and_keyword_arguments(fake, call):
    kernel = call(add[(3,)])
    assert fake.launches == [("add", (3, 1, 1), [X.ctypes.data, ODD.ctypes.data, 5])]
    assert isinstance(kernel, CompiledKernel) and kernel.name == "add"


def test_wrong_calls(fake):
    with pytest.raises(TypeError, match=r"add\(\) missing 1 required positional argument: 'n'"):
        add[(1,)](X, X)
    with pytest.raises(TypeError, match="takes from 3 to 4 positional arguments but 5 were given"):
        add[(1,)](X, X, 3, 4, 5)
    with pytest.raises(TypeError, match="multiple values for argument 'n'"):
        add[(1,)](X, X, 3, n=4)
    with pytest.raises(KeyError, match="Keyword argument num_wraps was specified but unrecognised"):
        add[(1,)](X, X, 3, num_wraps=4)
    with pytest.raises(TypeError, match="failed to specialize argument of type: str"):
        add[(1,)](X, X, "n")
    with pytest.raises(TypeError, match="unhashable"):
        add[(1,)](X, X, 3, BLOCK=[1])
    assert not fake.launches


@pytest.mark.parametrize("name", ["device", "device_type", "stream"])
def test_old_keywords(fake, name):
    with pytest.raises(AssertionError, match=f"{name} option is deprecated"):
        add[(1,)](X, X, 3, **{name: 0})


def test_calling_without_a_grid():
    with pytest.raises(RuntimeError, match=r"Cannot call @triton\.jit'd outside of the scope of a kernel"):
        add(X, X, 3)


def test_variable_arguments_are_one_tuple(fake):
    @jit
    def kernel(first, *rest):
        pass

    kernel[(1,)](X, X, 3)
    kernel[(1,)](X)
    assert kernel.launcher.bind(X, X, 3)[0] == (X, (X, 3)) and kernel.launcher.bind(X)[0] == (X, ())
    with pytest.raises(TypeError, match=r"missing a required|missing 1 required"):
        kernel[(1,)]()


def test_kernel_without_parameters(fake):
    nothing[(2, 3)]()
    nothing[(2, 3)]()
    assert [grid for _, grid, _ in fake.launches] == [(2, 3, 1), (2, 3, 1)]


def test_other_vendors_options_are_accepted(fake):
    add[(1,)](X, X, 3, waves_per_eu=2, matrix_instr_nonkdim=16, maxnreg=64, cluster_dims=(1, 1, 1), num_stages=None)
    assert fake.lowered[0][4].num_stages == 2


@pytest.mark.parametrize("value", [3, 0, -4, 2.0])
def test_num_warps_must_be_a_power_of_two(fake, value):
    with pytest.raises(AssertionError, match="num_warps must be a power of 2"):
        add[(1,)](X, X, 3, num_warps=value)


def test_parameter_named_like_an_option(fake):
    with_option[(1,)](X, num_warps=8)
    with_option[(1,)](X, 8)
    (_, _, by_keyword, _, options), (_, _, by_position, _, default) = fake.lowered
    assert by_keyword["num_warps"] == by_position["num_warps"] == 8
    assert (options.num_warps, default.num_warps) == (8, 4)
    with_option[(1,)](X, 8)
    assert fake.guarded == 1 and len(fake.lowered) == 2


def test_debug_comes_from_keyword_decorator_or_setting(fake):
    @jit(debug=True)
    def debugged(x):
        pass

    add[(1,)](X, X, 3)
    add[(1,)](X, X, 3, debug=True)
    debugged[(1,)](X)
    knobs.runtime.debug = True
    add[(1,)](X, X, 3)
    assert [options.debug for *_, options in fake.lowered] == [False, True, True]
    assert len(fake.launches) == 4


def test_debug_may_be_set_between_launches(fake):
    @jit
    def kernel(x):
        pass

    for value in (False, True, None):
        kernel.debug = value
        kernel[(1,)](X)
        kernel[(1,)](X)
    assert [options.debug for *_, options in fake.lowered] == [False, True] and kernel.debug is None


# -- grids -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("grid", "sizes"), [
    (5, (5, 1, 1)), ((5,), (5, 1, 1)), ([5, 2], (5, 2, 1)), ((5, 2, 3), (5, 2, 3)), (np.int64(4), (4, 1, 1)),
    (lambda meta: (meta["n"] // meta["BLOCK"], 2), (2, 2, 1)), (lambda meta: len(meta), (4, 1, 1)),
])
def test_grids(fake, grid, sizes):
    add[grid](X, X, 128)
    add[grid](X, X, 128)
    assert [launch[1] for launch in fake.launches] == [sizes, sizes]


def test_grid_function_sees_every_argument(fake):
    seen = []
    add[lambda meta: seen.append(dict(meta)) or (1,)](X, n=3, y_ptr=ODD)
    assert seen[0].keys() == {"x_ptr", "y_ptr", "n", "BLOCK"}
    assert seen[0]["x_ptr"] is X and seen[0]["y_ptr"] is ODD and seen[0]["n"] == 3 and seen[0]["BLOCK"] == 64
    assert len(seen) == 1


@pytest.mark.parametrize(("grid", "error"), [
    ((1, 2, 3, 4), ValueError), ((), ValueError), ((-1,), ValueError), ((1.5,), TypeError), ("1", TypeError),
    (lambda meta: None, TypeError),
])
def test_wrong_grids(fake, grid, error):
    with pytest.raises(error, match="grid"):
        add[grid](X, X, 3)


@pytest.mark.parametrize("grid", [(0,), (4, 0), lambda meta: (0, 5, 1)])
def test_an_empty_grid_launches_nothing(fake, grid):
    assert isinstance(add[grid](X, X, 3), CompiledKernel)
    assert not fake.launches


# -- the object --------------------------------------------------------------------------------------------------------


def test_members():
    assert add.arg_names == ["x_ptr", "y_ptr", "n", "BLOCK"] and add.constexprs == [3]
    assert add.params[3].has_default and add.params[3].default == 64 and not add.params[0].has_default
    assert add.src.startswith("def add(x_ptr") and add.__name__ == "add" and add.fn.__name__ == "add"
    assert repr(add).startswith("JITFunction(") and repr(add).endswith(":add)")
    assert hash(add) == hash(add.cache_key) and add.is_gluon() is False
    assert tritium.JITFunction is JITFunction and tritium.jit is jit
    assert inspect.signature(add) == inspect.signature(add.fn)
    with pytest.raises(AttributeError):
        add.src = "def add(): pass"


def test_kernels_are_copied_as_themselves():
    import copy

    assert copy.deepcopy(add) is add and copy.copy(add) is add
    assert pickle.loads(pickle.dumps(tritium.cdiv)) is tritium.cdiv


def test_interpret_is_decided_when_the_decorator_runs(monkeypatch):
    from tritium.interp.eager import InterpretedFunction

    monkeypatch.setenv("TRITIUM_INTERPRET", "1")
    interpreted = jit(add.fn)
    monkeypatch.delenv("TRITIUM_INTERPRET")
    assert isinstance(interpreted, InterpretedFunction) and interpreted.arg_names == add.arg_names
    assert isinstance(jit(add.fn), JITFunction)


def test_reinterpret():
    torch = pytest.importorskip("torch")
    base = torch.zeros(4, dtype=torch.int8)
    view = reinterpret(base, tl_types.float8e5)
    assert (view.base is base, view.dtype, view.data_ptr()) == (True, tl_types.float8e5, base.data_ptr())
    assert reinterpret(view, torch.int8) is base and reinterpret(view, tl_types.float8e4nv).base is base
    assert view.element_size() == 1 and view.stride() == (1,) and view.new_empty((2,)).shape == (2,)
    with pytest.raises(TypeError, match="Cannot reinterpret"):
        reinterpret(3, tl_types.float8e5)
