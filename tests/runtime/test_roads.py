"""Every road to a launch does what `kernel[grid](...)` does: by Python at first, then without it (S11, S42)."""

import threading

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.runtime.roads import BLOCK, N, arrays, scale, warm
from tritium import knobs
from tritium.backends.launcher import entry_points
from tritium.backends.launcher.parts import NATIVE

torch = pytest.importorskip("torch")
native = pytest.mark.skipif(not NATIVE, reason="this interpreter takes no builtins of ours: all launches go by Python")


@triton.jit
def strided(x_ptr, out_ptr, n, step, bias_ptr, flag, wide, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i * step, i < n)
    if bias_ptr is not None:
        x += tl.load(bias_ptr)
    tl.store(out_ptr + i, tl.where(flag, x, wide.to(tl.float32)), i < n)


@triton.jit
def reverse(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + (n - 1 - i), i < n), i < n)


@triton.jit
def spread(x_ptr, out_ptr, factor: int, step: int, BLOCK: tl.constexpr):
    i = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)) * step
    tl.store(out_ptr + i, tl.load(x_ptr + i) * factor)


@pytest.fixture(autouse=True)
def fresh():
    for kernel in (scale, strided, reverse):
        kernel.device_caches.clear()
        kernel.pre_run_hooks.clear()
    yield
    for kernel in (scale, strided, reverse):
        kernel.pre_run_hooks.clear()


@pytest.fixture
def checked(monkeypatch):
    """Notes the launches of compiled kernels that Python looked at."""
    seen, original = [], entry_points.Demands.check
    noted = lambda self, args: seen.append(self.name) or original(self, args)
    monkeypatch.setattr(entry_points.Demands, "check", noted)
    return seen


def by_run(compiled, grid, *args, hooks=(None, None), told=None, stream=0):
    compiled._init_handles()
    compiled.run(*grid, stream, compiled.function, compiled.packed_metadata, told, *hooks, *args)


ROADS = {
    "over": lambda compiled, grid, *args: compiled[grid](*args),
    "run": by_run,
    "over_on_stream": lambda compiled, grid, *args: compiled[grid](*args, stream=0),
}


@pytest.fixture(params=list(ROADS))
def road(request):
    return ROADS[request.param]


# -- the same results --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_every_road_computes_the_same(road, checked, kind):
    x, out = arrays(kind)
    compiled = warm(x, out, N, 2.0)
    for factor in (2.0, 3.0, -1.5):
        road(compiled, (3, 1, 1), x, out, N, factor, BLOCK)
        np.testing.assert_array_equal(np.asarray(out), np.arange(N) * np.float32(factor))
    assert len(checked) == (1 if NATIVE else 3)  # from the second on without Python


class Buffer:
    """A view that a library makes itself: an address, a dtype and a device."""

    def __init__(self, tensor, device="cpu", first=0):
        self.tensor, self.dtype, self.device, self.first = tensor, tensor.dtype, torch.device(device), first

    def data_ptr(self):
        return self.tensor.data_ptr() + self.first * self.tensor.element_size()


@native
def test_objects_with_an_address_need_no_python(road, checked):
    x, out = arrays(torch.from_numpy)
    compiled = warm(x, out, N, 2.0)
    for factor in (2.0, 3.0, -1.5):
        road(compiled, (3, 1, 1), Buffer(x), Buffer(out), N, factor, BLOCK)
        assert torch.equal(out, x * factor)
    assert len(checked) == 1
    road(compiled, (2, 1, 1), Buffer(x, first=4), Buffer(out), N - 32, 7.0, BLOCK)
    assert torch.equal(out[:64], x[4:68] * 7) and torch.equal(out[64:], x[64:] * -1.5) and len(checked) == 1
    road(compiled, (3, 1, 1), Buffer(x, "meta"), Buffer(out), N, 2.0, BLOCK)  # Python decides what is on another device
    assert len(checked) == 2


def test_a_kept_launch_goes_on(checked):
    x, out = arrays()
    launch = warm(x, out, N, 2.0)[(3, 1, 1)]
    for factor in (2.0, 5.0):
        assert launch(x, out, N, factor, BLOCK) is None
        np.testing.assert_array_equal(out, x * np.float32(factor))


def test_arguments_of_every_kind(road):
    x, out = arrays()
    bias = np.full(1, 0.5, np.float32)
    for bias_ptr, flag in ((bias, True), (bias, False), (None, True)):
        compiled = warm(x, out, N // 2, 2, bias_ptr, flag, 2**40 + 1, kernel=strided)
        for wide in (2**40 + 1, 3):  # what fits 32 bits fits 64 too
            out[:] = 0
            road(compiled, (2, 1, 1), x, out, N // 2, 2, bias_ptr, flag, wide, BLOCK)
            expected = x[::2] + (0 if bias_ptr is None else 0.5) if flag else np.full(N // 2, wide, np.float32)
            np.testing.assert_array_equal(out[:N // 2], expected)


def test_addresses_and_nothing_stand_for_tensors(road):
    x, out = arrays()
    compiled = warm(x, out, N, 2.0)
    for _ in range(2):
        out[:] = 0
        road(compiled, (3, 1, 1), x.ctypes.data, out.ctypes.data, N, 2.0, BLOCK)
        np.testing.assert_array_equal(out, 2 * x)
        road(compiled, (3, 1, 1), None, out, 0, 2.0, BLOCK)
        road(compiled, (3, 1, 1), x, out, N, np.float32(3), BLOCK)
        np.testing.assert_array_equal(out, 3 * x)


class Interface:
    """An array that only a protocol shows."""

    def __init__(self, array):
        self.array, self.asked = array, 0

    @property
    def __array_interface__(self):
        self.asked += 1
        return self.array.__array_interface__


class Pack:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **kwargs):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("wrap", [Interface, Pack])
def test_protocols(road, wrap):
    x, out = arrays()
    compiled = warm(x, out, N, 2.0)
    road(compiled, (3, 1, 1), wrap(x), wrap(out), N, 2.0, BLOCK)
    for factor in (2.0, 3.0):
        shown = wrap(x)
        road(compiled, (3, 1, 1), shown, wrap(out), N, factor, BLOCK)
        np.testing.assert_array_equal(out, x * np.float32(factor))
        assert getattr(shown, "asked", 1) == 1


def test_a_grid_without_programs(road):
    x, out = arrays()
    compiled = warm(x, out, N, 2.0)
    for _ in range(2):
        for grid in ((0, 1, 1), (1, 0, 1), (3, 1, 0)):
            road(compiled, grid, x, out, N, 2.0, BLOCK)
    assert not out.any()


def test_arguments_that_meet_take_another_kernel(road):
    """What a kernel takes for granted is judged on every road."""
    x, y = arrays(n=BLOCK)
    compiled = warm(x, y, BLOCK, kernel=reverse)
    for _ in range(3):
        road(compiled, (1, 1, 1), x, y, BLOCK, BLOCK)
        np.testing.assert_array_equal(y, x[::-1])
        expected = x[::-1].copy()
        road(compiled, (1, 1, 1), x, x, BLOCK, BLOCK)
        np.testing.assert_array_equal(x, expected)


def test_an_annotated_one_is_demanded(road):
    """A stride annotated as `int` that was 1 is a constant of the code, and an argument of every call."""
    x, out = arrays()
    compiled = warm(x, out, 3, 1, kernel=spread)
    for _ in range(2):
        road(compiled, (2, 1, 1), x, out, 3, 1, BLOCK)
        np.testing.assert_array_equal(out[:64], 3 * x[:64])
        with pytest.raises(ValueError, match=r"argument `step` of kernel `spread`: it is 2, .* compiled for 1"):
            road(compiled, (2, 1, 1), x, out, 3, 2, BLOCK)


def test_negative_numbers_are_no_special_case(road):
    x, out = arrays()
    compiled = warm(x, out, N // 2, 2, None, True, 2**40 + 1, kernel=strided)
    for step in (2, -2, 2):
        start = x if step > 0 else x[94:]
        road(compiled, (2, 1, 1), start, out, N // 2, step, None, True, 3, BLOCK)
        np.testing.assert_array_equal(out[:N // 2], x[::2] if step > 0 else x[94::-2])


# -- what does not fit -------------------------------------------------------------------------------------------------

BROKEN = {
    "multiple": (lambda x, out: (x, out, 17, 2.0, BLOCK), ValueError,
                 "argument `n` of kernel `scale`: it is 17, and the kernel was compiled for multiples of 16"),
    "one": (lambda x, out: (x, out, 1, 2.0, BLOCK), ValueError, "it is 1, and the kernel was compiled for multiples"),
    "range": (lambda x, out: (x, out, 2**40, 2.0, BLOCK), OverflowError,
              "argument `n`.*1099511627776 does not fit i32"),
    "float": (lambda x, out: (x, out, 16.0, 2.0, BLOCK), TypeError, "it is 16.0, and the kernel was compiled for i32"),
    "constant": (lambda x, out: (x, out, N, 2.0, 64), ValueError, "argument `BLOCK`.*it is 64, .* compiled for 32"),
    "elements": (lambda x, out: (x.astype(np.float16), out, N, 2.0, BLOCK), TypeError,
                 "argument `x_ptr`.*its elements are fp16, and the kernel was compiled for fp32"),
    "list": (lambda x, out: ([1.0], out, N, 2.0, BLOCK), TypeError,
             "argument `x_ptr`.*a tensor, an int or None, not list"),
    "text": (lambda x, out: (x, out, "many", 2.0, BLOCK), ValueError,
             "argument `n` of kernel `scale`: it could not be"),
    "count": (lambda x, out: (x, out, N), TypeError, "scale takes 5 arguments, constants included, and was given"),
    "more": (lambda x, out: (x, out, N, 2.0, BLOCK, 1), TypeError, "takes 5 arguments, .* and was given 6"),
}  # fmt: skip


@pytest.mark.parametrize("case", list(BROKEN))
def test_what_does_not_fit_is_refused(road, case):
    make, error, message = BROKEN[case]
    x, out = arrays()
    compiled = warm(x, out, N, 2.0)
    compiled._init_handles()
    for _ in range(2):  # before and after there is a record
        out[:] = 7
        with pytest.raises(error, match=message):
            road(compiled, (3, 1, 1), *make(x, out))
        assert (out == 7).all()
        road(compiled, (3, 1, 1), x, out, N, 2.0, BLOCK)
        np.testing.assert_array_equal(out, 2 * x)


def test_numbers_that_were_constants(road):
    x, out = arrays()
    compiled = warm(x, out, N, 1, None, True, 2**40 + 1, kernel=strided)
    for _ in range(2):
        road(compiled, (3, 1, 1), x, out, N, 1, None, True, 3, BLOCK)
        np.testing.assert_array_equal(out, x)
        road(compiled, (3, 1, 1), x, out, N, None, None, True, 3, None)  # None may stand for a constant
        with pytest.raises(ValueError, match=r"argument `step` of kernel `strided`: it is 2, .* compiled for 1"):
            road(compiled, (3, 1, 1), x, out, N, 2, None, True, 3, BLOCK)
        with pytest.raises(ValueError, match=r"argument `bias_ptr`.*: it is a ndarray, .* compiled for None"):
            road(compiled, (3, 1, 1), x, out, N, 1, x, True, 3, BLOCK)


@pytest.mark.parametrize("given", [tl.constexpr(BLOCK), np.int64(BLOCK)], ids=["constexpr", "numpy"])
def test_constants_in_other_clothes(road, given):
    """What Python had to unwrap must not let others pass."""
    x, out = arrays()
    compiled = warm(x, out, N, 2.0)
    for _ in range(2):
        road(compiled, (3, 1, 1), x, out, N, 2.0, given)
        np.testing.assert_array_equal(out, 2 * x)
        with pytest.raises(ValueError, match=r"argument `BLOCK`.*it is 64, .* compiled for 32"):
            road(compiled, (3, 1, 1), x, out, N, 2.0, type(given)(64))


def test_addresses_need_no_alignment_on_the_cpu(road):
    x, out = arrays(n=N + 1)
    compiled = warm(x, out, N, 2.0)
    for _ in range(2):
        road(compiled, (3, 1, 1), x[1:], out[1:], N, 2.0, BLOCK)
        np.testing.assert_array_equal(out[1:], 2 * x[1:])


def test_elements_may_be_taken_for_others_of_their_size(road):
    x, out = arrays()
    compiled = warm(x, out, N, 2.0)
    for _ in range(2):
        road(compiled, (3, 1, 1), x.view(np.int32), out.view(np.uint32), N, 2.0, BLOCK)
        np.testing.assert_array_equal(out, 2 * x)


def test_read_only_arrays(road):
    x, out = arrays()
    compiled = warm(x, out, N, 2.0)
    locked = out.copy()
    locked.flags.writeable = False
    for _ in range(2):
        with pytest.raises(ValueError, match="argument `out_ptr` of kernel `scale`: the kernel stores to it, and its"):
            road(compiled, (3, 1, 1), x, locked, N, 2.0, BLOCK)
        road(compiled, (3, 1, 1), locked, out, N, 2.0, BLOCK)


@pytest.mark.parametrize("grid, message", [((1, 1, -1), "negative"), ((2**31, 1, 1), r"fewer than 2\*\*31"),
                                           ((2**30, 2**30, 8), r"fewer than 2\*\*63")])
def test_grids_that_cannot_be(road, grid, message):
    x, out = arrays()
    compiled = warm(x, out, N, 2.0)
    for _ in range(2):
        with pytest.raises(ValueError, match=message):
            road(compiled, grid, x, out, N, 2.0, BLOCK)
        road(compiled, (1, 1, 1), x, out, N, 2.0, BLOCK)


@pytest.mark.parametrize("grid", [(1,), (1, 1), (1, 1, 1, 1)])
def test_a_compiled_kernel_wants_three_sizes(grid):
    with pytest.raises(ValueError, match="3 sizes"):
        warm(*arrays(), N, 2.0)[grid]


def test_sizes_that_are_no_integers():
    with pytest.raises(TypeError, match=r"a grid is one to three ints.*\n.*triton.cdiv"):
        warm(*arrays(), N, 2.0)[(1.5, 1, 1)]


def test_the_function_that_was_given_is_the_one_that_runs():
    x, out = arrays()
    one, other = warm(x, out, N, 2.0), warm(x, out, N, 2.0, num_stages=2)
    other._init_handles()
    for _ in range(3):
        one.run(3, 1, 1, 0, one.function, None, None, None, None, x, out, N, 2.0, BLOCK)
        one.run(3, 1, 1, 0, other.function, None, None, None, None, x, out, N, 4.0, BLOCK)
        np.testing.assert_array_equal(out, 4 * x)


# -- hooks -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def scope():
    with knobs.runtime.scope():
        yield knobs.runtime


def test_hooks_see_every_launch_over_a_grid(scope, checked):
    x, out = arrays()
    compiled, events = warm(x, out, N, 2.0), []
    launch = compiled[(3, 1, 1)]
    for _ in range(2):
        launch(x, out, N, 2.0, BLOCK)
    enter = lambda told: events.append(("enter", told.get()["name"], told.get()["function"], out[1]))
    leave = lambda told: events.append(("leave", told.get()["stream"], out[1]))
    scope.launch_enter_hook.add(enter)
    scope.launch_exit_hook.add(leave)
    for _ in range(2):
        out[:] = 0
        launch(x, out, N, 2.0, BLOCK)
    assert events == [("enter", "scale", compiled.function, 0), ("leave", 0, 2)] * 2
    scope.launch_enter_hook.remove(enter)
    scope.launch_exit_hook.remove(leave)
    del checked[:]
    for factor in (3.0, 4.0):
        launch(x, out, N, factor, BLOCK)
        np.testing.assert_array_equal(out, x * np.float32(factor))
    assert len(events) == 4 and len(checked) == (1 if NATIVE else 2)


def test_launch_metadata_is_told(scope):
    @triton.jit(launch_metadata=lambda grid, metadata, args: {"work": (grid, metadata.name, args["n"])})
    def told_of(x_ptr, n, BLOCK: tl.constexpr):
        tl.store(x_ptr, n)

    x, seen = np.zeros(1, np.int32), []
    compiled = told_of.warmup(x, 16, BLOCK=BLOCK, grid=(1,))
    scope.launch_enter_hook.add(lambda told: seen.append(told.get()["work"]))
    for n in (16, 32):
        compiled[(2, 1, 1)](x, n, BLOCK)
    assert seen == [((2, 1, 1), "told_of", 16), ((2, 1, 1), "told_of", 32)]


def test_run_calls_the_hooks_it_is_given(checked):
    x, out = arrays()
    compiled, events = warm(x, out, N, 2.0), []
    hooks = (lambda told: events.append(("enter", told, out[1])), lambda told: events.append(("leave", told, out[1])))
    for _ in range(3):
        out[:] = 0
        by_run(compiled, (3, 1, 1), x, out, N, 2.0, BLOCK, hooks=hooks, told="this")
    assert events == [("enter", "this", 0), ("leave", "this", 2)] * 3
    chains = (knobs.HookChain(), knobs.HookChain(True))
    by_run(compiled, (3, 1, 1), x, out, N, 2.0, BLOCK, hooks=chains)
    chains[0].add(hooks[0])
    by_run(compiled, (3, 1, 1), x, out, N, 2.0, BLOCK, hooks=chains, told="that")
    assert events[6:] == [("enter", "that", 2)] and len(checked) == (2 if NATIVE else 5)  # a hook came


def test_hooks_of_the_settings_are_told_what_the_caller_left_out():
    """A framework that saw no hooks when it wrote its launch passes them, and nothing to tell them."""
    x, out = arrays()
    compiled, names = warm(x, out, N, 2.0), []
    hooks = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook
    by_run(compiled, (3, 1, 1), x, out, N, 2.0, BLOCK, hooks=hooks)
    with knobs.runtime.scope():
        hooks[0].add(hook := lambda told: names.append((told.get()["name"], told.launch[1])))
        for _ in range(2):
            by_run(compiled, (3, 1, 1), x, out, N, 2.0, BLOCK, hooks=hooks)
    hooks[0].remove(hook)
    by_run(compiled, (3, 1, 1), x, out, N, 2.0, BLOCK, hooks=hooks)
    assert names == [(compiled.name, (3, 1, 1))] * 2


def test_what_a_hook_raises_is_raised():
    def refuse(told):
        raise LookupError("no launch today")

    x, out = arrays()
    compiled = warm(x, out, N, 2.0)
    for _ in range(2):
        out[:] = 0
        with pytest.raises(LookupError, match="no launch today"):
            by_run(compiled, (3, 1, 1), x, out, N, 2.0, BLOCK, hooks=(refuse, None))
        assert not out.any()
        with pytest.raises(LookupError, match="no launch today"):
            by_run(compiled, (3, 1, 1), x, out, N, 2.0, BLOCK, hooks=(None, refuse))
        np.testing.assert_array_equal(out, 2 * x)


# -- figures -----------------------------------------------------------------------------------------------------------


def test_figures_before_and_after_loading():
    compiled = warm(*arrays(), N, 2.0)
    read = lambda: (compiled.n_regs, compiled.n_spills, compiled.n_max_threads, compiled.metadata.shared)
    before = read()
    compiled._init_handles()
    function = compiled.function
    compiled._init_handles()
    assert read() == before and compiled.function == function


# -- threads -----------------------------------------------------------------------------------------------------------


def test_threads_take_all_roads_at_once():
    """Eight threads, each with tensors of its own, while hooks come and go."""
    failures, done = [], threading.Event()
    compiled = warm(*arrays(), N, 2.0)

    def work(k):
        x, out = arrays(np.asarray if k % 2 else torch.from_numpy)
        for i in range(40):
            factor = float(k + i)
            found = warm(x, out, N, factor)
            (ROADS["over"] if i % 2 else by_run)(found, (3, 1, 1), x, out, N, factor, BLOCK)
            if found is not compiled or not np.array_equal(np.asarray(out), np.arange(N) * np.float32(factor)):
                failures.append((k, i))

    def disturb():
        while not done.wait(0.002):
            with knobs.runtime.scope():
                knobs.runtime.launch_enter_hook.add(lambda told: None)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    nuisance = threading.Thread(target=disturb)
    for thread in (nuisance, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    nuisance.join()
    assert not failures


@native
def test_a_launch_lets_go_of_its_arguments():
    import sys

    x, out = arrays()
    compiled = warm(x, out, N, 2.0)
    launch = compiled[(3, 1, 1)]
    for _ in range(2):
        launch(x, out, N, 2.0, BLOCK)
    before = [sys.getrefcount(each) for each in (x, out, compiled, None)]
    for _ in range(100):
        launch(x, out, N, 2.0, BLOCK)
        by_run(compiled, (3, 1, 1), x, out, N, 2.0, BLOCK)
        warm(x, out, N, 2.0)
    after = [sys.getrefcount(each) for each in (x, out, compiled, None)]
    assert all(abs(a - b) < 50 for a, b in zip(after, before))


def test_a_launch_may_name_no_constant():
    """`kernel[grid](x, out, n, factor)`: the constants are those that the kernel was compiled for."""
    x, out = arrays()
    compiled = warm(x, out, N, 2.0)
    for _ in range(3):  # before and after there is a record
        out[:] = 0
        compiled[(3, 1, 1)](x, out, N, 2.0)
        np.testing.assert_array_equal(out, 2 * x)
        compiled[(3, 1, 1)](x, out, N, 2.0, BLOCK)
