"""Kernels run as plain Python (S08, S09): debugging inside them, and the types and values of compiled ones."""

import os
import subprocess
import sys
import textwrap
from collections import namedtuple

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.errors import InterpreterError
from tritium.interp.eager import InterpretedFunction, launch, observing
from tritium.interp.observe import Observer

eager = InterpretedFunction
SIZE = tl.constexpr(8)
PLAIN = {"scale": 3}


def line_of(fn, text):
    """The line of this file on which a kernel says `text`."""
    return fn.starting_line_number + next(k for k, row in enumerate(fn.raw_src) if text in row)


def run(kernel, *args, grid=(1,), **kwargs):
    assert kernel[grid](*args, **kwargs) is None


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


# --- types as in compiled kernels -------------------------------------------------------------------------------------
NOTED = []


def note(value):
    """Called by kernels: the type of a tensor, a constant itself."""
    NOTED.append(str(value.dtype) if isinstance(value, tl.tensor) else value)


def noted(kernel, *args, **kwargs):
    NOTED.clear()
    run(kernel, *args, **kwargs)
    return list(NOTED)


@eager
def promotions(n, one, big, flag, half, ptr):
    x = tl.zeros((4,), tl.float16)
    a = 1.0
    note(x * 1.0)
    note(x * a)
    b = 4
    note(b)
    c, (d, e) = 1, (2.5, True)
    note(c)
    note(d)
    note(e)
    note(n)
    note(one)
    note(big)
    note(flag)
    note(half)
    note(ptr)
    for i in range(3):
        note(i)
        break
    for i in range(0, n.to(tl.int64)):
        note(i)
        break
    for k in tl.static_range(2):
        note(k)
    note(x / 2)
    f: tl.constexpr = 7
    note(f)
    f += 1
    note(f)


def test_types():
    seen = noted(promotions, 7, 1, 2**31, True, 0.5, np.zeros(1, np.int16))
    assert seen == ["fp16", "fp32", "int32", "int32", "fp32", "int1", "int32", 1, "int64", "int1", "fp32",
                    "pointer<int16>", "int32", "int64", 0, 1, "fp32", 7, "int32"]


def test_an_argument_of_one_may_stay_a_value():
    kernel = InterpretedFunction(promotions.fn, do_not_specialize=["one"])
    assert noted(kernel, 7, 1, 2**31, True, 0.5, np.zeros(1, np.int16))[7] == "int32"


@eager
def annotated(a: tl.int64, b: "u8", c: float, d: "*i8", e: tl.const, f: int):  # noqa: F722, F821
    note(a)
    note(b)
    note(c)
    note(d)
    note(e)
    note(f)


def test_annotations_force_types():
    x = np.zeros(4, np.float32)
    assert noted(annotated, 1, 300, 2, x, x, 1) == \
        ["int64", "uint8", "fp32", "pointer<int8>", "const_pointer<fp32>", "int32"]


@eager
def returning(out_ptr):
    pair = helper(3)
    note(pair[0])
    note(helper(3, flag=False)[1])


@eager
def helper(x, flag=True):
    return x, 2.5 if flag else 7


def test_returned_constants_are_tensors():
    assert noted(returning, None) == ["int32", "int32"]


@eager
def logic(x_ptr, none_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    both = (x > 0) and (x < 3)
    neither = not (x > 0)
    if none_ptr is not None and tl.load(none_ptr) > 0:
        both = neither
    if BLOCK == 4 or none_ptr + 1:
        tl.store(out_ptr + tl.arange(0, BLOCK), both.to(tl.int32) + 2 * (neither or x == 3).to(tl.int32))


def test_and_or_not():
    out = np.zeros(4, np.int32)
    run(logic, np.array([-1, 1, 2, 3], np.int32), None, out, 4)
    assert out.tolist() == [2, 1, 1, 2]


@eager
def extremes(out_ptr, n):
    note(max(n, 3))
    note(min(2, 3))
    note(max(n, 2.5))
    tl.store(out_ptr, max(n, 3))
    tl.store(out_ptr + 1, min(n, 3, tl.load(out_ptr)))


def test_min_and_max():
    out = np.zeros(2, np.int32)
    assert noted(extremes, out, 7) == ["int32", 2, "fp32"]
    assert out.tolist() == [7, 3]


@eager
def choosing(n, x_ptr):
    x = tl.load(x_ptr)
    note(x * (1.0 if n > 3 else 2.0))  # a run-time condition makes a tensor
    note(x * (1.0 if SIZE > 3 else 2.0))
    note(n if None is None else 1)


def test_conditional_expressions():
    assert noted(choosing, 5, np.zeros(1, np.float16)) == ["fp32", "fp16", "int32"]


@eager
def constants(out_ptr, BLOCK: tl.constexpr, DTYPE: tl.constexpr):
    note(BLOCK.value)
    note(SIZE.value + 1)
    note(isinstance(BLOCK.type, tl.constexpr_type))
    note(SIZE is None)
    note(DTYPE)
    tl.static_assert(BLOCK == 4)
    half: tl.constexpr = BLOCK // 2
    tl.store(out_ptr + tl.arange(0, half), tl.zeros((half,), DTYPE))


def test_constants():
    assert noted(constants, np.ones(2, np.float16), tl.constexpr(4), tl.float16) == [4, 9, True, False, tl.float16]


def test_static_assert_fails():
    with pytest.raises(InterpreterError, match="static assertion failed"):
        run(constants, np.ones(2, np.float16), 8, tl.float16)


# --- what the language offers -----------------------------------------------------------------------------------------
@triton.jit
def larger(a, ai, b, bi):
    if a > b:
        r, ri = a, ai
    else:
        r, ri = b, bi
    return r, ri


@triton.jit
def digits(n):
    count = 0
    while n > 0:
        n = n // 10
        count += 1
    return count


@eager
def library(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr, x.sum())
    tl.store(out_ptr + 1, tl.max(x, 0))
    tl.store(out_ptr + 2, tl.argmin(x, 0))
    best, where = tl.reduce((x, at), 0, larger)
    tl.store(out_ptr + 3, best)
    tl.store(out_ptr + 4, where)
    tl.store(out_ptr + 8 + at, tl.sort(x))
    tl.store(out_ptr + 16 + at, tl.cumsum(x, 0))
    tl.store(out_ptr + 24 + at, tl.map_elementwise(digits, x))
    tl.store(out_ptr + 5, tl.cdiv(x[0], 4))
    tl.store(out_ptr + 6, tl.sum(tl.where(x > 5, 1, 0)))


def test_functions_of_the_language():
    x = np.array([5, 12, 3, 100, 8, 1, 77, 2], np.int32)
    out = np.zeros(32, np.int32)
    run(library, x, out, 8)
    assert out[:7].tolist() == [208, 100, 5, 100, 3, 2, 4]
    assert out[8:16].tolist() == sorted(x.tolist())
    assert out[16:24].tolist() == np.cumsum(x).tolist()
    assert out[24:].tolist() == [len(str(v)) for v in x]


@eager
def matmul(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, BK: tl.constexpr):
    rows, cols, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptr + rows[:, None] * K + (k + inner)[None, :])
        b = tl.load(b_ptr + (k + inner)[:, None] * N + cols[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc.to(c_ptr.dtype.element_ty))


def test_matmul():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((16, 64)).astype(np.float16), rng.standard_normal((64, 32)).astype(np.float16)
    c = np.zeros((16, 32), np.float16)
    run(matmul, a, b, c, 16, 32, 64, 16)
    assert np.allclose(c, a.astype(np.float64) @ b.astype(np.float64), atol=0.02, rtol=2e-3)


@eager
def nan_rules(x_ptr, out_ptr):
    x = tl.load(x_ptr + tl.arange(0, 2))
    tl.store(out_ptr + tl.arange(0, 2), tl.maximum(x, 5.0))
    tl.store(out_ptr + 2, tl.max(x, 0))


def test_nan_loses():
    """The official interpreter lets it win."""
    out = np.zeros(3, np.float32)
    run(nan_rules, np.array([np.nan, 7], np.float32), out)
    assert out.tolist() == [5, 7, 7]


@eager
def spin(lock_ptr, count_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(count_ptr, tl.load(count_ptr) + 1)
    tl.atomic_xchg(lock_ptr, 0)


def test_spin_lock():
    lock, count = np.zeros(1, np.int32), np.zeros(1, np.int32)
    run(spin, lock, count, grid=(5,))
    assert count[0] == 5 and lock[0] == 0


Pair = namedtuple("Pair", "x y")


@eager
def tuples(pair, nested, out_ptr):
    tl.store(out_ptr, pair.x + pair[1])
    ptr, (n, nothing) = nested
    tl.store(ptr, n)
    tl.static_assert(nothing is None)


def test_tuple_arguments():
    out, other = np.zeros(1, np.int32), np.zeros(1, np.int32)
    run(tuples, Pair(3, 4), (other, (5, None)), out)
    assert out[0] == 7 and other[0] == 5


@eager
def descriptor(desc, y_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    tile = desc.load([tl.program_id(0) * BM, 0])
    out = tl.make_tensor_descriptor(y_ptr, [M, N], [N, 1], [BM, BN])
    out.store([tl.program_id(0) * BM, 0], tile * 2)


def test_descriptors():
    from tritium.tools.tensor_descriptor import TensorDescriptor
    x = np.arange(6 * 8, dtype=np.float32).reshape(6, 8)
    y = np.zeros_like(x)
    run(descriptor, TensorDescriptor.from_tensor(x, [4, 8]), y, 6, 8, 4, 8, grid=(2,))
    assert np.array_equal(y, 2 * x)


@eager
def block_pointer(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    p = tl.make_block_ptr(x_ptr, (n,), (1,), (0,), (BLOCK,), (0,))
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(0, n, BLOCK):
        total += tl.load(p, boundary_check=(0,), padding_option="zero")
        p = p.advance((BLOCK,))
    tl.store(out_ptr, tl.sum(total, 0))


def test_block_pointers():
    x, out = np.arange(10, dtype=np.float32), np.zeros(1, np.float32)
    run(block_pointer, x, out, 10, 4)
    assert out[0] == 45


@eager
def table_of_pointers(addresses, out_ptr, n):
    for i in range(n):
        p = tl.load(addresses + i).to(tl.pointer_type(tl.float16))
        tl.store(out_ptr + i, tl.load(p))


def test_pointers_from_integers():
    hidden = [np.array([k + 0.5], np.float16) for k in range(3)]
    out = np.zeros(3, np.float16)
    run(table_of_pointers, np.array([h.ctypes.data for h in hidden]), out, 3)
    assert out.tolist() == [0.5, 1.5, 2.5]


@eager
def library_math(x_ptr, out_ptr):
    from tritium.language.extra import libdevice
    x = tl.load(x_ptr)
    tl.store(out_ptr, libdevice.pow(x, x) + tl.exp(x))


def test_libdevice():
    out = np.zeros(1, np.float32)
    run(library_math, np.array([2.0], np.float32), out)
    assert out[0] == pytest.approx(4 + np.exp(2.0), rel=1e-6)


# --- random numbers: golden words -------------------------------------------------------------------------------------
PHILOX = [
    (0, 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"), (0, 1, "f8e4cca4 5cb200db b1a574eb 097eff67"),
    (0, 2, "04faa329 51c732a6 241513ad 459135e4"), (0, -1, "c5b20a9d 4434ec4e 11bbe4fb 2a1ef7a5"),
    (0, 2**32 + 5, "ac2fbcca 3b76c518 fb062940 826df881"), (42, 0, "9ceaf053 77f5493b 12bf50ad 5742b3d7"),
    (42, 1, "fcdb2127 53ba6cfd 838f5a6e 744e06fb"), (42, 2, "d36c0225 a8875dcb 9a4d6d99 c609a559"),
    (42, 7, "5bbd83b1 68784c85 172067aa 2e6b75b7"), (-1, 0, "72a47709 15474739 9f41b01f 22799a5a"),
    (-1, 1, "19fed511 4b67e034 9d2c02e2 9fe857b4"), (0xFCAFEB0BA, 0, "f219fb5b be9182a4 f573a172 3952307c"),
    (0xFCAFEB0BA, 2**32 + 5, "d5bc9698 134f33d4 9dca0cb2 4442db4e"),
]


@InterpretedFunction
def words(seed, offset, out_ptr):
    a, b, c, d = tl.randint4x(seed, tl.zeros((1,), offset.dtype) + offset)
    at = tl.arange(0, 1)
    tl.store(out_ptr + at, a)
    tl.store(out_ptr + 1 + at, b)
    tl.store(out_ptr + 2 + at, c)
    tl.store(out_ptr + 3 + at, d)


@pytest.mark.parametrize("seed, offset, expected", PHILOX)
def test_philox(seed, offset, expected):
    out = np.zeros(4, np.uint32)
    run(InterpretedFunction(words.fn, do_not_specialize=["seed", "offset"]), seed, offset, out)
    assert " ".join(f"{w:08x}" for w in out) == expected


@eager
def uniform(seed, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.rand(seed, at))
    tl.store(out_ptr + N + at, tl.randn(seed, at))


def test_rand_and_randn():
    out = np.zeros(8, np.float32)
    run(uniform, 42, out, 4)
    golden = ["0x1.8c543cp-1", "0x1.926f6ap-6", "0x1.649fecp-2", "0x1.14e3ecp-1"]
    assert [float(v) for v in out[:4]] == [float.fromhex(v) for v in golden]
    assert out[4:] == pytest.approx([0.660613, -1.542714, -0.590464, -0.601625], abs=1e-5)


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
