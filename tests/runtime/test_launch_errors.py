"""What is said of launches that are written wrongly, and where the traceback ends."""

import traceback
import warnings

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium import knobs
from tritium.interp import eager
from tritium.refusals import misnamed

X = np.zeros(64, np.float32)


@triton.jit
def fill(x, value, n, BLOCK: tl.constexpr = 16):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, value, mask=i < n)


def compiled(grid, *args, **kwargs):
    return fill[grid](*args, **kwargs)


def interpreted(grid, *args, **kwargs):
    eager.launch(fill, grid, args, kwargs)


ROADS = pytest.mark.parametrize("launch", [compiled, interpreted])


def frames(error):
    """The functions a traceback goes through, the last one last."""
    return [entry.name for entry in traceback.extract_tb(error.__traceback__)]


def refused(launch, *args, **kwargs):
    """What is said of a launch, twice: the second time there may be a native launcher."""
    said = set()
    for _ in range(2):
        with pytest.raises(Exception) as caught:
            launch(*args, **kwargs)
        assert caught.value.__cause__ is None
        assert not any("tritium" in entry.filename for entry in traceback.extract_tb(caught.value.__traceback__)
                       if "test" not in entry.filename)
        said.add((type(caught.value), str(caught.value)))
        interpreted((1,), X, 1.0, 64) if launch is interpreted else compiled((1,), X, 1.0, 64)
    assert len(said) == 1
    return caught.value


# -- grids -------------------------------------------------------------------------------------------------------------


def test_a_float_that_is_refused_does_not_stand_for_the_int():
    compiled((4,), X, 1.0, 64)  # there is a native launcher now, which grids are kept for
    for size in (2.0, np.float32(3)):
        with pytest.raises(TypeError, match="one to three ints"):
            compiled((size,), X, 1.0, 64)
        compiled((int(size),), X, float(size), 64)
        assert (X[:int(size) * 16] == size).all()


@ROADS
@pytest.mark.parametrize("grid, kind, text", [
    (1.5, TypeError, "(?s)one to three ints.*not 1.5.*cdiv"), ((64 / 16,), TypeError, r"(?s)not \(4.0,\).*cdiv"),
    ((1, 2, 3, 4), ValueError, "one to three axes, not 4"), ((), ValueError, "one to three axes, not 0"),
    ((-1,), ValueError, "negative"), (None, TypeError, "not None"), ("4", TypeError, "not '4'"),
    (lambda meta: None, TypeError, "(?s)not None.*return a tuple"), (lambda meta: 2.0, TypeError, "not 2.0"),
    (lambda meta: (meta["n"] / 16,), TypeError, "(?s)not .4.0,.*cdiv"), ({1}, TypeError, "one to three ints"),
    (lambda meta: np.zeros(2), TypeError, "(?s)one to three ints.*int.x"),
])  # fmt: skip
def test_grids_that_are_none(launch, grid, kind, text):
    error = refused(launch, grid, X, 1.0, 64)
    with pytest.raises(kind, match=text):
        raise error


@ROADS
def test_further_axes_of_one_program(launch):
    """Triton never reads a grid behind its third size."""
    for _ in range(3):
        for grid in ((4, 1, 1, 1), lambda meta: (4, 1, 1, 1), (4, 1, 1)):
            X[:] = 0
            launch(grid, X, 1.0, 64)
            assert (X[:64] == 1).all()


@ROADS
def test_a_name_the_grid_function_cannot_have(launch):
    def grid(meta):
        return (triton.cdiv(meta["n"], meta["BLOK"]),)

    error = refused(launch, grid, X, 1.0, 64)
    assert isinstance(error, KeyError) and str(error) == (
        "the grid function of kernel `fill` asks for 'BLOK'\n"
        "hint: did you mean BLOCK? kernel `fill` has the parameters x, value, n, BLOCK")
    assert frames(error)[-1] == "grid"


@ROADS
def test_an_attribute_of_what_the_grid_function_gets(launch):
    error = refused(launch, lambda meta: (meta.n,), X, 1.0, 64)
    assert isinstance(error, AttributeError) and str(error).endswith("is called with a dict: write ['n']")


@ROADS
def test_other_errors_of_a_grid_function_are_the_users(launch):
    mine = {}

    def missing(meta):
        return (mine["BLOK"],)

    def broken(meta):
        return (1 // (meta["n"] - 64),)

    error = refused(launch, missing, X, 1.0, 64)
    assert type(error) is KeyError and str(error) == "'BLOK'" and frames(error)[-1] == "missing"
    error = refused(launch, broken, X, 1.0, 64)
    assert type(error) is ZeroDivisionError and frames(error)[-1] == "broken"


@ROADS
def test_a_grid_function_without_a_parameter(launch):
    error = refused(launch, lambda: (4,), X, 1.0, 64)
    assert type(error) is TypeError and "the grid function of kernel `fill` cannot be called" in str(error)
    assert "one argument, a dict of the kernel's arguments by name" in str(error)


# -- names -------------------------------------------------------------------------------------------------------------


@ROADS
@pytest.mark.parametrize("args, kwargs, text", [
    ((X, 1.0), {}, "missing .*'n'"),
    ((X, 1.0), {"N": 64}, r"(?s)missing .*'n'.*hint: N is no parameter: did you mean n\?"),
    ((X, 1.0, 64, 16, 5), {}, "(?s)(takes|too many).*the parameters x, value, n, BLOCK"),
    ((X, 1.0, 64), {"x": X}, "multiple values for argument 'x'"),
], ids=["missing", "misspelt", "too many", "twice"])  # fmt: skip
def test_arguments_that_do_not_fit_the_parameters(launch, args, kwargs, text):
    error = refused(launch, (1,), *args, **kwargs)
    assert type(error) is TypeError and str(error).startswith("fill() ")
    with pytest.raises(TypeError, match=text):
        raise error


def eagerly(grid, *args, **kwargs):
    with knobs.runtime.scope():
        knobs.runtime.interpret = True
        kernel = triton.jit(fill.fn)
    kernel[grid](*args, **kwargs)


def test_warps_that_are_no_power_of_two():
    said = str(refused(compiled, (1,), X, 1.0, 64, num_warps=3))
    assert said == "num_warps must be a power of 2, not 3\nhint: use 1, 2, 4, 8, 16 or 32"


@pytest.mark.parametrize("launch", [compiled, eagerly])
def test_keywords_that_are_no_parameters(launch):
    error = refused(launch, (1,), X, 1.0, 64, num_warps=2, BLCK=8)
    assert isinstance(error, KeyError) and str(error) == (
        "Keyword argument BLCK was specified but unrecognised\n"
        "hint: did you mean BLOCK? kernel `fill` has the parameters x, value, n, BLOCK")
    assert "did you mean num_warps?" in str(refused(launch, (1,), X, 1.0, 64, num_wraps=8))
    assert "deprecated" in str(refused(launch, (1,), X, 1.0, 64, stream=0))


NAMES = ("x", "grid", "self", "args", "sizes", "kwargs", "values", "options", "form", "fn", "name", "kernel", "warmup",
         "meta", "source", "launch", "like", "make", "pid", "machine", "body")  # fmt: skip


@triton.jit
def named(x, grid, self, args, sizes, kwargs, values, options, form, fn, name, kernel, warmup, meta, source, launch,
          like, make, pid, machine, body):
    tl.store(x, grid + self + args + sizes + kwargs + values + options + form + fn + name + kernel + warmup + meta
             + source + launch + like + make + pid + machine + body)  # fmt: skip


def test_parameters_may_be_called_anything():
    x = np.zeros(1, np.int32)
    numbers = dict(zip(NAMES[1:], range(2, 100)))
    for _ in range(3):
        x[0] = 0
        named[(1,)](x=x, **numbers)
        assert x[0] == sum(numbers.values())
    named[lambda meta: (meta["grid"] - 1,)](x=x, **numbers)
    eager.launch(named, (1,), (), {"x": x, **numbers})
    assert x[0] == sum(numbers.values())
    sized = triton.heuristics({"body": lambda args: args["grid"]})(named)
    sized[(1,)](x, *[1] * 19)
    assert x[0] == 20


def test_a_tuned_kernel_names_what_it_keeps_for_itself():
    tuned = triton.autotune([triton.Config({})], key=[])(named)
    with pytest.raises(TypeError, match="takes `grid` for its own\nhint: pass grid by position"):
        tuned[(1,)](X, grid=3)


# -- decorators --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decorator, name", [
    (triton.autotune([triton.Config({"BLOCK": 4})], key=["n"]), "autotune"),
    (triton.heuristics({"BLOCK": lambda args: 4}), "heuristics"),
])
def test_decorators_in_the_wrong_order(decorator, name):
    def kernel(x, n, BLOCK: tl.constexpr):
        pass

    with pytest.raises(TypeError, match=f"@triton.{name} takes a kernel.*\nhint: write @triton.{name}.* above @triton"):
        triton.jit(decorator(kernel))
    with pytest.raises(TypeError, match=r"makes a kernel of a function, not .*\nhint: write @triton.jit right above"):
        triton.jit(decorator(fill))


def test_a_key_that_names_nothing_is_warned_of():
    configs = [triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32})]
    with pytest.warns(UserWarning, match="(?s)kernel `fill`: the key 'N' is no parameter.*did you mean n?") as caught:
        triton.autotune(configs, key=["N"])(fill)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        triton.autotune(configs, key=["n", "BLOCK", "x", "num_warps"])(fill)
        triton.autotune([triton.Config({"GROUP": 3})], key=["GROUP"])(fill)


CONFIGS = [triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32})]


def prune(rule):
    return lambda: triton.autotune(CONFIGS, [], {"early_config_prune": rule})(fill)[(1,)](X, 1.0, 8)


@pytest.mark.parametrize("call, text", [
    (lambda: triton.Config({}, num_warp=4), r"Config.__init__\(\) got .*'num_warp'\nhint: did you mean num_warps\? it"),
    (lambda: triton.Config(BLOCK=4), "hint: it takes kwargs, num_warps, "),
    (lambda: triton.Config({}, num_consumer_groups=2), r"hint: write tl.range\(..., warp_specialize=True\)"),
    (lambda: triton.testing.do_bench(print, fast_flush=True), "hint: leave it out: the cache of a GPU is emptied"),
    (lambda: triton.Config(["BLOCK", 4]), "a Config maps names of parameters to values"),
    (lambda: triton.jit(no_inline=True), r"jit\(\) got .*'no_inline'\nhint: did you mean noinline\?"),
    (lambda: triton.autotune(CONFIGS, [], reset_to_zeros=["x"]), r"hint: did you mean reset_to_zero\?"),
    (lambda: triton.autotune(fill), "missing 1 required positional argument: 'key'"),
    (lambda: triton.autotune(CONFIGS[0], [])(fill), r"a list of triton.Config, not one: .*\nhint: write \[...\]"),
    (lambda: triton.autotune([{"BLOCK": 4}], [])(fill), "a list of triton.Config, and {'BLOCK': 4} is none"),
    (lambda: triton.autotune(CONFIGS, None)(fill), r"not None\nhint: key=\[\] tunes once"),
    (lambda: triton.heuristics(fill), "heuristics maps names of parameters to functions, not JITFunction"),
    (lambda: triton.heuristics({"BLOCK": 4})(fill), "is no function: 4"),
    (prune(lambda configs, args: configs), r"cannot be called: .*\nhint: it is called with \(configs, named_args"),
    (prune(lambda configs, args, **kwargs: None), "returned None, not a list of configurations"),
    (lambda: triton.testing.do_bench(compiled((1,), X, 1.0, 8)), r"hint: write do_bench\(lambda: kernel\[grid\]"),
    (lambda: compiled((1,), X.sum, 1.0, 8), r"argument `x`.*\nhint: call it: sum\(\)"),
])
def test_decorators_and_functions_that_are_called_wrongly(call, text):
    with pytest.raises(TypeError, match=text) as caught:
        call()
    assert frames(caught.value)[-1] in ("<lambda>", "compiled")


def test_letters_that_name_parameters_are_a_key():
    assert triton.autotune(CONFIGS, "xn")(fill).keys == ["x", "n"]
    with pytest.warns(UserWarning, match=r"the key 'value' is text.*\nhint: write key=\['value'\]") as caught:
        assert triton.autotune(CONFIGS, "value")(fill).keys == []
    assert caught[0].filename == __file__


@pytest.mark.parametrize("call, text", [
    (lambda: triton.autotune(CONFIGS, [])(fill)(X, 1.0, 8), r"hint: launch it over a grid of programs: fill\[grid\]"),
    (lambda: triton.heuristics({"n": len})(fill)(X, 1.0, 8), r"hint: launch it over a grid of programs: fill\[grid\]"),
    (lambda: fill(X, 1.0, 8), r"hint: launch it over a grid of programs: fill\[grid\]"),
    (lambda: tl.sum(X), "hint: sum works inside a kernel only$"),
    (lambda: tl.cdiv(9, 4), "hint: cdiv works inside a kernel only; in Python call triton.cdiv"),
    (lambda: tl.arange(0, 4), "hint: arange works inside a kernel only"),
])
def test_calls_without_a_grid_or_outside_of_kernels(call, text):
    with pytest.raises((RuntimeError, ValueError), match=text) as caught:
        call()
    assert frames(caught.value)[-1] == "<lambda>"


def test_a_heuristic_that_fails_is_the_users():
    with pytest.raises(AttributeError, match="no attribute 'size'") as caught:
        triton.heuristics({"BLOCK": lambda args: args["n"].size})(fill)[(1,)](X, 1.0, 8)
    assert frames(caught.value) == ["test_a_heuristic_that_fails_is_the_users", "<lambda>"]


def test_a_hint_lists_some_of_many_parameters():
    names = [f"x{k}" for k in range(40)]
    hint = misnamed("wide", "length", names)
    assert hint == f"kernel `wide` has the parameters {', '.join(names[:16])}, and 24 more, and length is none of them"


def test_a_parameter_not_to_specialize_that_does_not_exist_is_warned_of():
    @triton.jit(do_not_specialize=["N", 3])
    def kernel(x, n):
        tl.store(x, n)

    with pytest.warns(UserWarning, match="do_not_specialize lists") as caught:
        kernel[(1,)](X, 3)
    assert [entry.filename for entry in caught] == [__file__] * 2
    assert "'N'" in str(caught[0].message) and "did you mean n?" in str(caught[0].message)


def test_names_that_tritium_does_not_have():
    with pytest.raises(AttributeError) as caught:
        triton.autotunes
    assert (caught.value.name, caught.value.obj) == ("autotunes", triton)


def test_an_error_is_shown_once_and_ends_at_the_launch():
    with pytest.raises(TypeError) as caught:
        compiled((1,), [1], 1.0, 64)
    shown = "".join(traceback.format_exception(caught.value))
    assert shown.count("argument `x` of kernel `fill`") == 1 and shown.count("Traceback") == 1
    assert frames(caught.value)[-1] == "compiled"


def test_an_error_out_of_an_argument_keeps_its_cause():
    class Broken:
        dtype = "float32"

        def data_ptr(self):
            raise OSError("the device is gone")

    with pytest.raises(RuntimeError, match=r"argument `x` of kernel `fill`: .* read: OSError: the device is") as caught:
        compiled((1,), Broken(), 1.0, 64)
    cause = caught.value.__cause__
    assert isinstance(cause, OSError) and frames(cause)[-1] == "data_ptr"


# -- kernels -----------------------------------------------------------------------------------------------------------


def test_a_lambda_is_no_kernel():
    with pytest.raises(ValueError, match="a lambda is no kernel: it should be defined with `def`") as caught:
        triton.jit(lambda x: tl.store(x, 1.0))
    assert frames(caught.value) == ["test_a_lambda_is_no_kernel"]


@triton.jit
def two_names(x):
    a = b = 1.0
    tl.store(x, a + b)


def test_an_error_found_while_hashing_shows_no_frames_of_ours():
    with pytest.raises(TypeError, match=r"(?s)Simultaneous multiple assign.*a = b = 1.0.*one assignment") as caught:
        two_names[(1,)](X)
    assert frames(caught.value) == ["test_an_error_found_while_hashing_shows_no_frames_of_ours"]


class Holder:
    @triton.jit
    def method(self, x):
        tl.store(x, 1.0)

    @staticmethod
    @triton.jit
    def function(x):
        tl.store(x, 7.0)


def test_a_method_is_no_kernel():
    with pytest.raises(TypeError, match=r"(?s)missing .*'x'.*a kernel is no method: write @staticmethod"):
        Holder().method[(1,)](X)
    Holder().function[(1,)](X)
    assert X[0] == 7


# -- tensors -----------------------------------------------------------------------------------------------------------


def test_tensors_of_torch_that_are_not_one_block_of_memory():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"(?s)argument `x` of kernel `fill`: a sparse tensor.*x.values\(\)"):
        compiled((1,), torch.eye(4).to_sparse(), 1.0, 4)
    with pytest.raises(TypeError, match=r"(?s)argument `BLOCK`.*pass the number in it, x.item\(\)"):
        compiled((1,), X, 1.0, 4, BLOCK=torch.tensor(16))
