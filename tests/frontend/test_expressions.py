"""Names, operators, indexing, strings and comprehensions, run on the machine."""

# ruff: noqa: F842, RUF015, RUF046, UP037

import math

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium import ops
from tritium.ir import types as T
from tritium.ir.core import walk

from .running import ints, module_of, run

SCALE = tl.constexpr(3)
TABLE = tl.constexpr((5, 6, 7))


@triton.jit
def constants(out, N: tl.constexpr):
    tl.store(out, N // 2 + 7 % 4 - (-7) // 2)
    tl.store(out + 1, SCALE * TABLE[1])
    tl.store(out + 2, len(TABLE) + N.bit_length() + int(2.9))
    tl.store(out + 3, N.value + (1 if N > 3 else 0))
    tl.store(out + 4, min(N, 3) + max(4, N, 2))
    tl.store(out + 5, 1 << 4 | 3 & 2 ^ 1)
    tl.store(out + 6, int(math.floor(math.pi)) + isinstance(N.type, tl.constexpr_type))
    tl.store(out + 7, not N)


def test_constants_are_computed_by_python():
    expected = [8 // 2 + 3 + 4, 18, 3 + 4 + 2, 9, 3 + 8, 1 << 4 | 3 & 2 ^ 1, 4, 0]
    assert run(constants, ints(), N=8).tolist() == expected
    kinds = {op.kind for op in module_of(constants, ints(), N=8).body.ops}
    assert kinds <= {ops.constant, ops.store, ops.addptr, ops.cast}


@triton.jit
def decays(out):
    a = 4
    b = 2**31
    c = 1.5
    flag = True
    d: tl.constexpr = 4
    e, f = 1, (2.5, None)
    tl.static_assert(a.dtype == tl.int32)
    tl.static_assert(b.dtype == tl.uint32)
    tl.static_assert(c.dtype == tl.float32)
    tl.static_assert(flag.dtype == tl.int1)
    tl.static_assert(d == 4)
    tl.static_assert(e.dtype == tl.int32 and f[0].dtype == tl.float32 and f[1] is None)
    kind = tl.float16
    nothing = None
    tl.static_assert(kind == tl.float16 and nothing is None)
    shape = tl.zeros((4, 8), tl.float32).shape
    tl.static_assert(shape[0].dtype == tl.int32)
    d = 5
    tl.static_assert(d.dtype == tl.int32)
    g = d
    g += 1.0
    tl.static_assert(g.dtype == tl.float32)


def test_a_plain_assignment_makes_tensors():
    module_of(decays, ints())


@triton.jit
def annotated(out, N: tl.constexpr):
    x: tl.int64 = 3
    flag: bool = x > 2
    half: "tl.constexpr" = N // 2
    name: str
    offsets = tl.arange(0, half)
    tl.static_assert(x.dtype == tl.int32)
    tl.store(out + offsets, offsets + flag)


def test_annotations_of_locals():
    assert run(annotated, ints(), N=8)[:4].tolist() == [1, 2, 3, 4]


@triton.jit
def operators(out, a, b):
    tl.store(out, a + b * 2 - 1)
    tl.store(out + 1, a // b)
    tl.store(out + 2, a % b)
    tl.store(out + 3, (a << 2) | (b & 1) ^ 3)
    tl.store(out + 4, -a)
    tl.store(out + 5, ~a)
    tl.store(out + 6, (a > b) and (b != 0) or not (a == b))
    tl.store(out + 7, a >> 1)


def test_operators():
    assert run(operators, ints(), -7, 2).tolist() == [-4, -3, -1, (-28) | (0 ^ 3), 7, 6, 1, -4]


@triton.jit
def short_circuit(out, n):
    if False and undefined_name(n):  # noqa: F821
        tl.store(out, 1)
    if True or undefined_name(n):  # noqa: F821
        tl.store(out, 2)
    if (n > 1 and True) or False:
        tl.store(out + 1, 3)


def test_a_constant_ends_and_or_early():
    assert run(short_circuit, ints(), 3)[:2].tolist() == [2, 3]
    assert sum(op.kind is ops.if_ for op in walk(module_of(short_circuit, ints(), 3).body)) == 1


@triton.jit
def conditional(out, n, STATIC: tl.constexpr):
    tl.store(out, n if n > 0 else -n)
    tl.store(out + 1, 1 if STATIC else undefined)  # noqa: F821
    tl.store(out + 2, tl.load(out + 100) if n > 100 else 7)


def test_conditional_expressions_evaluate_one_side():
    assert run(conditional, ints(), -5, STATIC=True)[:3].tolist() == [5, 1, 7]


@triton.jit
def elements(out, i, N: tl.constexpr):
    x = tl.arange(0, N) * 10
    y = tl.zeros((2, N), tl.int32)
    tl.store(out, x[i] + x[-1] + x[2])
    x[i] = 99
    x[0] += 5
    y[1, i] = x[i] + 1
    y[0, i + 1] = 4
    for k in range(2):
        y[k, 0] = k + 50
    tl.store(out + 1, x[i])
    tl.store(out + 2, x[0])
    tl.store(out + 3, tl.sum(tl.sum(y, 1), 0))
    tl.store(out + 4, y[:, None, :][1, 0, 0])


def test_elements_are_read_and_written():
    """S09"""
    assert run(elements, ints(), 3, N=8)[:5].tolist() == [30 + 70 + 20, 99, 5, 100 + 4 + 50 + 51, 51]


@triton.jit
def axes(out, N: tl.constexpr):
    x = tl.arange(0, N)
    tl.static_assert(x[:, None].shape == (N, 1))
    tl.static_assert(x[None, :].shape == (1, N))
    tl.static_assert(x[None].shape[0] == 1)
    tl.static_assert(x[:].shape[0] == N)
    tl.static_assert(x[:, None, None].numel == N)
    tl.static_assert(tl.program_id(0)[None, None].shape == (1, 1))
    row = tl.program_id(0)[:, None] * 8 + tl.program_id(1)[None, :]  # a scalar has no axis for `:` to stand for
    tl.static_assert(row.shape == (1,))
    tl.static_assert((row + x).shape == (N,))
    tl.static_assert((x[:, None] + tl.to_tensor(N)[:, None]).shape == (N, 1))
    tl.static_assert(x[:, None].T.shape == (1, N))


def test_axes():
    module_of(axes, ints(), N=8)


@triton.jit
def strings(N: tl.constexpr, NAME: tl.constexpr):
    tl.static_print(f"{NAME.upper()!r} has {N:04d} of {N / 3:.2f}, {[1, None]}, {N:>{N}}")


def test_f_strings_honour_conversion_and_format(capsys):
    module_of(strings, N=7, NAME="relu")
    assert capsys.readouterr().out == f"'RELU' has 0007 of 2.33, (1, None), {7:>7}\n"


@triton.jit
def condition_at_run_time(out, N: tl.constexpr):
    squares = [i * i for i in range(N)]
    even = [x for x in squares if x % 2 == 0]
    tl.store(out, even[0])


def test_a_comprehension_cannot_choose_at_run_time():
    with pytest.raises(triton.CompilationError, match="known at compile time"):
        module_of(condition_at_run_time, ints(), N=5)


@triton.jit
def comprehensions(out, N: tl.constexpr):
    squares: tl.constexpr = [i * i for i in range(N)]
    even: tl.constexpr = [x for x in squares if x % 2 == 0]
    pairs = [a + b for a in (1, 2) for b in tl.static_range(10, 30, 10)]
    tl.static_assert(len(even) == 3)
    total = 0
    for k in tl.static_range(len(pairs)):
        total += pairs[k]
    tl.store(out, total)
    tl.store(out + 1, squares[-1])
    tl.store(out + 2, squares[1:3][1])
    tl.store(out + 3, [x + 1 for x in (tl.load(out), 4)][0])


def test_comprehensions():
    """S10"""
    assert run(comprehensions, ints(), N=5)[:4].tolist() == [11 + 21 + 12 + 22, 16, 4, 67]


@triton.jit
def alignment(out, p):
    tl.store(out, (p % 16 == 0).to(tl.int32) + 2)


def test_alignment_of_a_pointer():
    """S10"""
    assert run(alignment, ints(), ints())[0] in (2, 3)


@triton.jit
def tuples(out, a, b):
    t = (a, b, 3)
    (x, y), z = (t[0], t[1]), t[2]
    u = t + (x,) * 2
    v = (*u, None)
    tl.static_assert(len(u) == 5 and len(v) == 6)
    tl.store(out, x * 100 + y * 10 + z)
    tl.store(out + 1, u[4])
    tl.store(out + 2, u[-3:][0])
    tl.store(out + 3, (a, b) == (a, b))
    [p, q] = [1, 2]
    tl.store(out + 4, p + q)


def test_tuples():
    assert run(tuples, ints(), 4, 5)[:5].tolist() == [453, 4, 3, 1, 3]


@triton.jit
def attributes_of_values(x, N: tl.constexpr, DT: tl.constexpr):
    v = tl.load(x + tl.arange(0, N)).to(DT)
    tl.static_assert(v.dtype == DT and v.shape[0] == N and v.numel == N)
    tl.static_assert(x.dtype.element_ty == tl.float32 and x.type.element_ty.is_fp32())
    tl.static_assert(DT.primitive_bitwidth == 16)
    tl.static_assert(hasattr(v, "dtype") and not hasattr(v, "data_ptr"))
    tl.static_assert(getattr(tl, "float16") == tl.float16)  # noqa: B009
    tl.static_assert(isinstance(v, tl.tensor) and not isinstance(N, tl.constexpr))
    tl.static_assert((v is not None) and (None is None))
    getattr(tl, "store")(x + tl.arange(0, N), v)  # noqa: B009


def test_attributes():
    module = module_of(attributes_of_values, np.zeros(4, np.float32), N=4, DT=tl.float16)
    assert T.f16 in {T.element(op.type) for op in walk(module.body) if op.type is not None}


def closure_over(block, function):
    BLOCK = tl.constexpr(block)

    @triton.jit
    def kernel(out):
        tl.store(out + tl.arange(0, BLOCK), function(tl.arange(0, BLOCK)))

    return kernel


@triton.jit
def double(x):
    return x + x


def test_closures():
    assert run(closure_over(4, double), ints())[:4].tolist() == [0, 2, 4, 6]


@triton.jit
def shifted_left(out):
    x = tl.arange(0, 4)
    if 1 < 2:
        y = x  \
            + 1
    tl.store(out + x, y)


def test_every_op_knows_its_place():
    module = module_of(shifted_left, ints())
    lines = {op.loc.line - shifted_left.def_line for op in walk(module.body)}
    assert lines <= {1, 3, 4, 5}
    assert all(op.loc.function == "shifted_left" and op.loc.file == __file__ for op in walk(module.body))
    add, = [op for op in walk(module.body) if op.kind is ops.add]
    assert (add.loc.end_line - add.loc.line, add.loc.col) == (1, 12)


@triton.jit
def annotated_run_time_value(out, x):
    value: tl.constexpr = tl.load(x)
    tl.store(out, value + 1)


def test_a_run_time_value_annotated_as_constexpr_is_a_tensor():
    assert run(annotated_run_time_value, ints(), ints(4))[0] == 5
