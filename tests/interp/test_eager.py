"""Kernels run as plain Python (S08, S09): debugging inside them, control flow, and launches."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.interp.eager_kernels import eager, run
from tritium.errors import InterpreterError
from tritium.interp.eager import InterpretedFunction, launch, observing
from tritium.interp.observe import Observer

PLAIN = {"scale": 3}


def line_of(fn, text):
    """The line of this file on which a kernel says `text`."""
    return fn.starting_line_number + next(k for k, row in enumerate(fn.raw_src) if text in row)


# --- debugging inside a kernel (S08) ----------------------------------------------------------------------------------
@eager
def printing(x_ptr, BLOCK: tl.constexpr):
    print("programs", tl.num_programs(0))
    print(tl.load(x_ptr + tl.arange(0, BLOCK)))


def test_print_shows_values(capsys):
    """S08: `tl.num_programs(0)` prints like `[2]`."""
    run(printing, np.arange(4, dtype=np.int32), 4, grid=(2,))
    assert capsys.readouterr().out == "programs [2]\n[0 1 2 3]\n" * 2


@eager
def stopping(x_ptr):
    value = tl.load(x_ptr)
    twice = value * 2
    breakpoint()
    tl.store(x_ptr, twice)


def test_breakpoint_stops_on_the_users_line(monkeypatch):
    seen = []

    def hook():
        frame = sys._getframe(1)
        seen.append((frame.f_code.co_filename, frame.f_lineno, str(frame.f_locals["twice"])))
    monkeypatch.setattr(sys, "breakpointhook", hook)
    x = np.array([21], np.int32)
    run(stopping, x)
    assert seen == [(__file__, line_of(stopping, "breakpoint()"), "[42]")] and x[0] == 42


def test_pdb_steps_through_the_users_lines(tmp_path):
    """S08: a breakpoint set from outside, in a kernel and in a function it calls."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent("""\
        import numpy as np, tritium as triton, tritium.language as tl
        @triton.jit
        def inner(v):
            w = v + 1
            return w
        @triton.jit
        def kernel(x_ptr):
            x = tl.load(x_ptr + tl.arange(0, 4))
            tl.store(x_ptr + tl.arange(0, 4), inner(x))
        kernel[(1,)](np.arange(4, dtype=np.int32))
    """))
    commands = "b 9\nb 5\nc\np x\nc\np w\nc\nq\n"
    done = subprocess.run([sys.executable, "-m", "pdb", script], input=commands, capture_output=True, text=True,
                          env=os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": "."})
    assert f"{script}(9)kernel()" in done.stdout and "[0 1 2 3]" in done.stdout
    assert f"{script}(5)inner()" in done.stdout and "[1 2 3 4]" in done.stdout


@eager
def asserting(x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    assert x >= 0, "negative element"


def test_assert_checks_every_element():
    run(asserting, np.array([1, 2, 3, 4], np.int32), 4)
    with pytest.raises(InterpreterError) as caught:
        run(asserting, np.array([1, 2, 3, 4, 5, 6, -7, 8], np.int32), 4, grid=(2,))
    assert "negative element" in str(caught.value) and "program (1, 0, 0)" in str(caught.value)
    assert f"{__file__}:{line_of(asserting, 'assert x')} in asserting" in str(caught.value)
    assert isinstance(caught.value.__cause__, AssertionError)


@eager
def with_numpy(x_ptr):
    weights = np.array([1, 2, 3])
    seen = {"sum": weights.sum()}
    tl.store(x_ptr, seen["sum"])


def test_arrays_of_numpy_stay_what_they_are():
    """S08: a plain assignment makes tensors of numbers only."""
    x = np.zeros(1, np.int32)
    run(with_numpy, x)
    assert x[0] == 6


@eager
def out_of_bounds(x_ptr, n):
    tl.store(x_ptr + tl.program_id(0) * 4 + tl.arange(0, 4), 1)


def test_out_of_bounds_is_found():
    """S32: a forgotten mask."""
    x = np.zeros(6, np.int32)
    with pytest.raises(InterpreterError) as caught:
        run(out_of_bounds, x, 6, grid=(2,))
    text = str(caught.value)
    assert "store outside of memory: program (1, 0, 0) in lane (2,) writes 4 bytes" in text
    assert "`x_ptr` (6 elements of int32): it would be element 6" in text and "hint: mask the lanes" in text
    assert f"{__file__}:{line_of(out_of_bounds, 'tl.store')} in out_of_bounds" in text
    assert x.tolist() == [1, 1, 1, 1, 0, 0]  # the program before had run


@eager
def wrong_shapes(x_ptr):
    x = tl.arange(0, 8)
    y = x + tl.arange(0, 4)
    tl.store(x_ptr + x, y)


def test_language_errors_keep_their_hint_and_line():
    with pytest.raises(InterpreterError, match="incompatible dimensions") as caught:
        run(wrong_shapes, np.zeros(8, np.int32))
    assert f"{line_of(wrong_shapes, 'y = x')} in wrong_shapes" in str(caught.value)


@eager
def python_inside(x_ptr):
    log = {}
    names = [f"lane {k}" for k in range(2)]
    log["first"] = tl.load(x_ptr)
    try:
        raise KeyError(names[0])
    except KeyError as missing:
        log["missing"] = str(missing)
    with open(os.devnull) as nothing:
        log["text"] = nothing.read()
    tl.store(x_ptr + 1, log["first"] + PLAIN["scale"])


def test_any_python_works():
    x = np.array([4, 0], np.int32)
    run(python_inside, x)
    assert x.tolist() == [4, 7]


# --- control flow and elements (S09) ----------------------------------------------------------------------------------
@eager
def first_negative(x_ptr, out_ptr, n):
    for i in range(n):
        value = tl.load(x_ptr + i)
        if value == 0:
            continue
        if value < 0:
            tl.store(out_ptr, i)
            break
    else:
        tl.store(out_ptr, -1)


@pytest.mark.parametrize("x, expected", [([1, 0, -5, -6], 2), ([1, 2], -1), ([], -1)])
def test_break_and_continue(x, expected):
    out = np.full(1, 99, np.int32)
    run(first_negative, np.array([*x, 0], np.int32), out, len(x))
    assert out[0] == expected


@eager
def collatz(out_ptr, n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
        if steps > 1000:
            return
    tl.store(out_ptr, steps)


def test_while_and_early_return():
    out = np.zeros(1, np.int32)
    run(collatz, out, 27)
    assert out[0] == 111
    run(collatz, out, -17)  # never gets to 1
    assert out[0] == 111


@eager
def elements(out_ptr, i):
    x = tl.arange(0, 4) * 10
    y = x
    y[i] = 99
    y[i - 1] += 5
    m = tl.zeros((2, 4), tl.float32)
    m[1, i] = x[2]
    a, m[0, 0] = x[-1], 7
    tl.store(out_ptr + tl.arange(0, 4), x)
    tl.store(out_ptr + 4 + tl.arange(0, 4), y)
    tl.store(out_ptr + 8 + (tl.arange(0, 2)[:, None] * 4 + tl.arange(0, 4)[None, :]), m)
    tl.store(out_ptr + 16, a)


def test_elements_are_exchanged_not_shared():
    """S09: `y[i] = v` changes y alone."""
    out = np.zeros(17, np.int32)
    run(elements, out, 2)
    assert out.tolist() == [0, 10, 20, 30, 0, 15, 99, 30, 7, 0, 0, 0, 0, 0, 20, 0, 30]


def test_python_containers_are_changed_in_place():
    @eager
    def kernel(out_ptr):
        box = [1, 2]
        same = box
        box[0] = 5
        PLAIN["seen"] = 1
        tl.store(out_ptr, same[0])
    out = np.zeros(1, np.int32)
    run(kernel, out)
    assert out[0] == 5 and PLAIN.pop("seen").handle.data == 1


# --- launching --------------------------------------------------------------------------------------------------------
@eager
def add(x_ptr, y_ptr, n, BLOCK: tl.constexpr = 4):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask) + tl.load(y_ptr + at, mask), mask)


@pytest.mark.parametrize("grid", [(3,), [3], 3, (3, 1, 1), lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)])
def test_grids(grid):
    x, y = np.arange(10, dtype=np.int32), np.ones(10, np.int32)
    run(add, x, n=10, y_ptr=y, grid=grid, num_warps=8, some_vendors_option=3)
    assert y.tolist() == [v + 1 for v in range(10)]


def test_an_empty_grid_runs_nothing():
    y = np.ones(4, np.int32)
    run(add, y, y, 4, grid=(0,))
    assert y.tolist() == [1] * 4


def test_missing_arguments():
    with pytest.raises(TypeError, match="missing a required argument"):
        add[(1,)](np.zeros(1))
    with pytest.raises(TypeError, match="failed to specialize argument of type: object"):
        add[(1,)](object(), np.zeros(1), 1)


def test_the_interface():
    kernel = InterpretedFunction(add.fn)
    seen = []
    kernel.add_pre_run_hook(lambda *args, **kwargs: seen.append((len(args), sorted(kwargs))))
    x = np.zeros(4, np.int32)
    kernel.run(x, x, 4, grid=(1,), warmup=False, BLOCK=4)
    assert seen == [(3, ["BLOCK"])]
    assert kernel.warmup(x, x, 4, grid=(1,)) is None and len(seen) == 1
    assert kernel.arg_names == ["x_ptr", "y_ptr", "n", "BLOCK"] and kernel.__name__ == "add" and callable(kernel.fn)
    with pytest.raises(RuntimeError, match=r"Cannot call @triton\.jit'd outside"):
        kernel(x, x, 4)


@triton.jit
def compiled_helper(x, SCALE: tl.constexpr):
    y = SCALE
    return x * y


@eager
def mixed(x_ptr, out_ptr):
    tl.store(out_ptr, compiled_helper(tl.load(x_ptr), 3.0))


def test_a_jit_function_called_from_an_eager_kernel_runs_eagerly():
    out = np.zeros(1, np.float32)
    run(mixed, np.array([2.0], np.float16), out)
    assert out[0] == 6


def test_a_jit_kernel_can_be_launched_eagerly():
    """Tools run kernels that were decorated for the compiler."""
    @triton.jit
    def kernel(x_ptr, n: tl.constexpr):
        tl.store(x_ptr + tl.arange(0, n), 7)
    x = np.zeros(4, np.int32)
    launch(kernel, (1,), (x,), {"n": 4})
    assert x.tolist() == [7] * 4


def test_closures():
    width, scale = tl.constexpr(4), tl.constexpr(2.5)

    @eager
    def inner(x):
        return x * scale

    @eager
    def kernel(out_ptr):
        tl.store(out_ptr + tl.arange(0, width), inner(tl.arange(0, width)))
    out = np.zeros(4, np.float32)
    run(kernel, out)
    assert out.tolist() == [0, 2.5, 5, 7.5]


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    x, y = torch.arange(10, dtype=torch.bfloat16), torch.ones(10, dtype=torch.bfloat16)
    run(add, x, y, 10, grid=(3,))
    assert torch.equal(y, x + 1)


def test_device_tensors_are_copied_there_and_back():
    torch = pytest.importorskip("torch")

    class Storage:
        """A storage that claims to be far away: its memory must not be touched directly."""

        def __init__(self, data):
            self.data, self.copied = data, 0

        def data_ptr(self):
            return 1 << 60

        def cpu(self):
            return self.data.clone().untyped_storage()

        def copy_(self, host):
            self.copied += 1
            self.data.untyped_storage().copy_(host)

    class Far:
        dtype, device = torch.int32, "cuda:0"

        def __init__(self, storage, start, size):
            self.storage, self.start, self.shape = storage, start, (size,)

        def untyped_storage(self):
            return self.storage

        def data_ptr(self):
            return self.storage.data_ptr() + 4 * self.start

        def stride(self):
            return (1,)

        def element_size(self):
            return 4

        def numel(self):
            return self.shape[0]

    storage = Storage(torch.arange(8, dtype=torch.int32))
    run(add, Far(storage, 0, 4), Far(storage, 4, 4), 4)  # two views of one storage
    assert storage.data.tolist() == [0, 1, 2, 3, 4, 6, 8, 10] and storage.copied == 1


def test_device_assert_needs_debug():
    @eager
    def kernel(n):
        tl.device_assert(n > 3, "too small")
    run(kernel, 2)
    with pytest.raises(InterpreterError, match="too small"):
        run(kernel, 2, debug=True)


def test_overflow_is_reported_with_debug():
    @eager
    def kernel(n, out_ptr):
        tl.store(out_ptr, n * n)
    out = np.zeros(1, np.int32)
    run(kernel, 1 << 20, out)
    with pytest.raises(InterpreterError, match="int32 overflow detected for operation mul"):
        run(kernel, 1 << 20, out, debug=True)


def test_observers_see_eager_kernels_with_their_lines():
    class Lines(Observer):
        def __init__(self):
            self.seen = set()

        def after(self, m, op, inputs, outputs):
            self.seen.add((op.kind.name, op.loc.file, op.loc.line, op.loc.function))

    watch, x = Lines(), np.zeros(4, np.int32)
    with observing(watch):
        run(add, x, x, 4)
    run(add, x, x, 4)
    assert ("store", __file__, line_of(add, "tl.store"), "add") in watch.seen
    assert len({line for _, _, line, _ in watch.seen}) == 3


def test_autotune_and_heuristics():
    @triton.autotune(configs=[triton.Config({"BLOCK": 4})], key=["n"])
    @eager
    def kernel(x_ptr, n, BLOCK: tl.constexpr):
        tl.store(x_ptr + tl.arange(0, BLOCK), BLOCK)
    x = np.zeros(4, np.int32)
    kernel[lambda meta: (meta["BLOCK"] // 4,)](x, 4)
    assert x.tolist() == [4] * 4


def test_the_environment_variable(tmp_path):
    """S08 as users do it."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent("""
        import numpy as np
        import tritium as triton
        import tritium.language as tl

        @triton.jit
        def inner(x):
            return x + 1

        @triton.jit
        def kernel(x_ptr, n):
            print(tl.num_programs(0))
            assert n == 5
            tl.store(x_ptr, inner(n))

        x = np.zeros(1, np.int32)
        kernel[(2,)](x, 5)
        print(type(kernel).__name__, x[0])
    """))
    for name in ("TRITON_INTERPRET", "TRITIUM_INTERPRET"):
        env = {k: v for k, v in os.environ.items() if not k.endswith("_INTERPRET")} | {name: "1", "PYTHONPATH": "."}
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=env, check=True)
        assert done.stdout == "[2]\n[2]\nInterpretedFunction 6\n"


def test_a_kernel_without_text():
    """`exec` leaves no source: nothing is rewritten, and the kernel runs as it is."""
    from tritium.interp.eager import InterpretedFunction

    scope = {"tl": tl}
    exec("def copied(x, y, N: tl.constexpr):\n    i = tl.arange(0, N)\n    for k in range(N):\n"
         "        tl.store(y + i, tl.load(x + i) + k)\n", scope)
    x, y = np.arange(4, dtype=np.int32), np.zeros(4, np.int32)
    InterpretedFunction(scope["copied"])[(1,)](x, y, N=4)
    np.testing.assert_array_equal(y, x + 3)
