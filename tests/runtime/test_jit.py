"""Binding, specialisation, keys, hooks and grids of launches (LANGUAGE 9 to 11)."""

import gc
import inspect
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tritium
from tritium import compiler, knobs
from tritium.compiler import CompiledKernel
from tritium.compiler.background import AsyncCompileMode, FutureKernel
from tritium.errors import CompilationError, OutOfResources
from tritium.language import dtypes as tl_types
from tritium.language.constants import constexpr
from tritium.runtime import dispatch
from tritium.runtime.jit import JITFunction, jit
from tritium.tensors import MockTensor, reinterpret
from tritium.tools.tensor_descriptor import TensorDescriptor


class tl:
    constexpr, const = constexpr, tl_types.const
    int64, float64, pointer_type, int8 = tl_types.int64, tl_types.float64, tl_types.pointer_type, tl_types.int8


@jit
def add(x_ptr, y_ptr, n, BLOCK: tl.constexpr = 64):
    pass


@jit
def with_option(x, num_warps: tl.constexpr):
    pass


@jit
def nothing():
    pass


SCALE = constexpr(3)


@jit
def uses_global(x):
    x + SCALE


@pytest.fixture(autouse=True)
def fresh():
    for kernel in (add, with_option, nothing, uses_global):
        kernel.device_caches.clear()
        kernel.pre_run_hooks.clear()
        kernel.hash = None


X = np.zeros(64, np.float32)
ODD = X[1:]


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


def test_variable_arguments_are_refused(fake):
    @jit
    def kernel(*args):
        pass

    with pytest.raises(TypeError, match="a kernel cannot take \\*args"):
        kernel[(1,)](X)


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


# -- keys --------------------------------------------------------------------------------------------------------------


def kernels(function):
    return function.device_caches[0][0]


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
    assert backend.binary_ext == "paper" and binder(X, X, 3) == ((X, X, 3, 64), {})
    add[(1,)](X, X, 3)
    assert len(kernel_cache) == 1


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


# -- hooks -------------------------------------------------------------------------------------------------------------


def test_pre_run_hooks_get_the_arguments_as_written(fake):
    seen = []
    add[(1,)](X, X, 3)
    add.add_pre_run_hook(lambda *args, **kwargs: seen.append((len(args), sorted(kwargs))))
    add[(1,)](X, X, n=3, num_warps=2)
    assert seen == [(2, ["n", "num_warps"])] and len(fake.launches) == 2
    with pytest.raises(TypeError, match="a hook is a function"):
        add.add_pre_run_hook(3)


def test_launch_hooks_surround_the_launch(fake):
    events = []
    add[(1,)](X, X, 3)
    knobs.runtime.launch_enter_hook.add(lambda told: events.append(("enter", told.get()["name"], len(fake.launches))))
    knobs.runtime.launch_exit_hook.add(lambda told: events.append(("exit", told.get()["stream"], len(fake.launches))))
    add[(1,)](X, X, 3)
    assert events == [("enter", "add", 1), ("exit", 7, 2)]


def test_launch_metadata_is_computed_only_when_read(fake):
    calls = []

    @jit(launch_metadata=lambda grid, metadata, args: calls.append((grid, metadata.name, args["n"])) or {"flops": 9})
    def kernel(x, n):
        pass

    seen = []
    kernel[(1,)](X, 3)
    knobs.runtime.launch_enter_hook.add(seen.append)
    kernel[(2,)](X, 3)
    assert not calls
    assert seen[0].get()["flops"] == 9 and calls == [((2, 1, 1), "kernel", 3)]


def test_load_hooks(fake):
    events = []
    knobs.runtime.kernel_load_start_hook.add(lambda module, function, name, group, key: events.append((name, module)))
    knobs.runtime.kernel_load_end_hook.add(lambda module, function, name, group, key: events.append((name, function)))
    add[(1,)](X, X, 3)
    add[(1,)](X, X, 3)
    assert events == [("add", None), ("add", "add")]


def test_cache_hook_can_cancel_and_post_hook_is_told(fake):
    told = []
    knobs.runtime.jit_cache_hook = lambda **what: told.append(what) or True
    knobs.runtime.jit_post_compile_hook = lambda **what: told.append("post")
    assert add[(1,)](X, X, 3, num_warps=2) is None
    assert not fake.launches and not fake.lowered
    what = told[0]
    assert what["fn"].jit_function is add and what["fn"].name == "add" and what["is_manual_warmup"] is False
    assert "add[num_warps=2" in what["repr"] and "x_ptr: *fp32" in what["repr"]
    assert set(what["compile"]) == {
        "key", "signature", "device", "constants", "num_warps", "num_ctas", "num_stages", "enable_fp_fusion",
        "launch_cooperative_grid", "extern_libs", "configs", "specialization_data", "is_warmup"}  # fmt: skip
    knobs.runtime.jit_cache_hook = None
    add[(1,)](X, X, 3, num_warps=2)
    assert told[1:] == ["post"] and len(fake.launches) == 1


def test_preload_fills_the_cache(fake):
    told = []
    knobs.runtime.jit_cache_hook = lambda **what: told.append(what["compile"]["specialization_data"])
    add[(1,)](X, X, 3, BLOCK=tl_types.float16, num_warps=2)
    knobs.runtime.jit_cache_hook = None
    add.device_caches.clear()
    kernel = add.preload(told[0])
    assert kernel.metadata.num_warps == 2
    assert add[(1,)](X, X, 3, BLOCK=tl_types.float16, num_warps=2) is kernel
    with pytest.raises(RuntimeError, match=r"Specialization data is for .*add but trying to preload for .*nothing"):
        nothing.preload(told[0])


# -- warmup, compiled kernels ------------------------------------------------------------------------------------------


def test_warmup_compiles_and_the_result_can_be_launched(fake):
    kernel = add.warmup(MockTensor("fp32"), X, 3, grid=(1,))
    assert not fake.launches and not fake.loads
    kernel._init_handles()
    assert (kernel.n_regs, kernel.n_spills, kernel.n_max_threads) == (10, 0, 64) and fake.loads == ["add"]
    assert kernel.metadata.shared == 24 and kernel.metadata.target.backend == "fake"
    kernel[(4, 1, 1)](X, X, 3, 64)
    assert fake.launches == [("add", (4, 1, 1), [X.ctypes.data, X.ctypes.data, 3])]
    with pytest.raises(ValueError, match="3 sizes"):
        kernel[(4,)]


def test_warmup_takes_torch_dtypes(fake):
    torch = pytest.importorskip("torch")
    add.warmup(torch.bfloat16, torch.float32, 3, grid=(1,))
    assert fake.lowered[0][1]["x_ptr"] == "*bf16"


def test_out_of_resources_is_remembered(fake, monkeypatch):
    monkeypatch.setattr(fake, "get_device_properties", lambda device: {"max_shared_mem": 8})
    for _ in range(2):
        with pytest.raises(OutOfResources, match="out of resource: shared memory, Required: 24, Hardware limit: 8"):
            add[(1,)](X, X, 3)
    assert len(fake.lowered) == 1


def test_too_much_tensor_memory(fake, monkeypatch):
    monkeypatch.setitem(compiler._BASE, "tmem_size", 513)
    with pytest.raises(OutOfResources, match="tensor memory, Required: 513, Hardware limit: 512"):
        add[(1,)](X, X, 3)


def test_too_many_threads(fake):
    with pytest.raises(OutOfResources, match="threads, Required: 128, Hardware limit: 64"):
        add[(1,)](X, X, 3, num_warps=128)


def test_repr_names_the_kernel(fake):
    @jit(repr=lambda spec: f"copy_{spec.constants['BLOCK']}_{spec.signature['x'][1:]}")
    def kernel(x, BLOCK: tl.constexpr):
        pass

    assert kernel[(1,)](X, 32).name == "copy_32_fp32"


def test_repr_of_a_kernel_made_from_another(fake):
    @jit(repr=lambda spec: f"copy_{spec.constants['B']}")
    def kernel(x, B: tl.constexpr):
        pass

    derived = jit(kernel.fn, repr=lambda spec: f"{kernel.repr(spec)}_of_mine")
    assert derived[(1,)](X, 32).name == "copy_32_of_mine"


# -- several devices ---------------------------------------------------------------------------------------------------


class OnDevice:
    dtype = "fp32"

    def __init__(self, device):
        self.device = device

    def data_ptr(self):
        return 32


def test_tensors_on_different_devices(fake):
    with pytest.raises(ValueError, match=r"Pointer argument \(at 1\) cannot be accessed from Triton: .* is on xpu"):
        add[(1,)](OnDevice("cuda:0"), OnDevice("xpu:0"), 3)


# -- tracebacks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [lambda: add[(1,)](X, X, 3), lambda: add.warmup(X, X, 3, grid=(1,))])
def test_traceback_ends_at_the_launch(fake, monkeypatch, start):
    def broken(*args):
        raise CompilationError(None, None, "no")

    monkeypatch.setattr("tritium.frontend.lower", broken)
    with pytest.raises(CompilationError) as caught:
        start()
    names = [entry.name for entry in caught.traceback]
    assert "broken" not in names and "_compile" not in names and len(names) <= 6


# -- background compilation --------------------------------------------------------------------------------------------


def test_async_compilation_returns_futures_and_waits_at_the_end(fake):
    with ThreadPoolExecutor(2) as pool, AsyncCompileMode(pool):
        first = add.warmup(X, X, 3, grid=(1,))
        again = add.warmup(X, X, 3, grid=(1,))
        launched = add[(1,)](X, X, 16)
        assert isinstance(first, FutureKernel) and again is first
        assert isinstance(launched, CompiledKernel)
        with pytest.raises(RuntimeError, match="Another AsyncCompileMode is already active"), AsyncCompileMode(pool):
            pass
    assert all(isinstance(kernel, CompiledKernel) for kernel in kernels(add).values())
    assert first.result().name == first.name == "add" and len(fake.launches) == 1


def test_async_errors_are_raised_or_ignored(fake, monkeypatch):
    def broken(*args):
        raise CompilationError(None, None, "no")

    monkeypatch.setattr("tritium.frontend.lower", broken)
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(CompilationError, match="no"), AsyncCompileMode(pool):
            add.warmup(X, X, 3, grid=(1,))
        add.device_caches.clear()
        with AsyncCompileMode(pool, ignore_errors=True):
            future = add.warmup(X, X, 3, grid=(1,))
        assert future.result(ignore_errors=True) is None


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


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_garbage_is_not_collected_while_a_kernel_is_compiled(fake, monkeypatch, enabled, fails):
    """The program's garbage is no concern of the compiler; what the user had chosen holds again afterwards."""
    seen = []

    def build(*args, **options):
        seen.append(gc.isenabled())
        if fails:
            raise RuntimeError("no")
        return compile_(*args, **options)

    compile_ = dispatch.compile
    monkeypatch.setattr(dispatch, "compile", build)
    (gc.enable if enabled else gc.disable)()
    try:
        if fails:
            with pytest.raises(RuntimeError, match="no"):
                add[(1,)](X, X, 3)
        else:
            add[(1,)](X, X, 3)
        assert gc.isenabled() is enabled
    finally:
        gc.enable()
    assert seen == [False]
