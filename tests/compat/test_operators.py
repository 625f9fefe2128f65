"""Operators on every pair of dtypes: the type Triton promotes to, and NumPy's values in that type."""

import itertools
import operator
import textwrap

import ml_dtypes
import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.language.extra import libdevice

pytestmark = pytest.mark.sampled

NUMPY = {
    "int1": np.bool_, "int8": np.int8, "uint8": np.uint8, "int16": np.int16, "uint16": np.uint16, "int32": np.int32,
    "uint32": np.uint32, "int64": np.int64, "uint64": np.uint64, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16,
    "float32": np.float32, "float64": np.float64,
}  # fmt: skip
RANK = {name: k for k, name in enumerate(NUMPY)}
FLOATS = ("float16", "bfloat16", "float32", "float64")
ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul}
DIVISION = {"/": None, "//": None, "%": None}
BITS = {"&": operator.and_, "|": operator.or_, "^": operator.xor}
COMPARISONS = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
               ">=": operator.ge}  # fmt: skip


def width(name):
    return 1 if name == "int1" else int("".join(c for c in name if c.isdigit()))


def promoted(a, b):
    """The type of `a + b` of tensors."""
    for wide in ("float64", "float32", "float16"):
        if wide in (a, b):
            return wide
    if "bfloat16" in (a, b):
        return "bfloat16" if a == b else "float32"
    if is_signed(a) == is_signed(b):
        return max(a, b, key=width)
    unsigned, signed = (b, a) if is_signed(a) else (a, b)
    return unsigned if width(unsigned) >= width(signed) else signed


def is_signed(name):
    return name.startswith("int") and name != "int1"


def result_type(op, a, b):
    """The type of `a op b`, or None where it does not compile."""
    both_int = a not in FLOATS and b not in FLOATS
    if op in COMPARISONS:
        return "int1"
    if op in BITS:
        return promoted(a, b) if both_int else None
    if op in DIVISION and both_int:
        if is_signed(a) != is_signed(b):
            return None
        return "float32" if op == "/" else promoted(a, b)
    if op == "//":
        return None
    kind = promoted(a, b)
    return "float32" if op in ("/", "%") and kind in ("float16", "bfloat16") else kind


def reference(op, x, y, a, b):
    """NumPy's answer in the promoted type."""
    kind = result_type("+", a, b) if op in COMPARISONS else result_type(op, a, b)
    wide = NUMPY[kind]
    if kind == "int1" and op in ("+", "-", "*"):
        return {"+": x ^ y, "-": x ^ y, "*": x & y}[op]
    x, y = x.astype(wide), y.astype(wide)
    if op == "/":
        return x / y
    if op == "//":
        return np.trunc(x.astype(np.float64) / y.astype(np.float64)).astype(wide)
    if op == "%":
        return np.fmod(x, y)
    return {**ARITHMETIC, **BITS, **COMPARISONS}[op](x, y)


def values(name, seed):
    """Eight small numbers, none of them zero, so that all types hold them and quotients exist."""
    rng = np.random.default_rng(seed)
    if name == "int1":
        return np.ones(8, bool) if seed else rng.integers(0, 2, 8).astype(bool)
    low = 1 if name.startswith("u") or name == "int1" else -90
    numbers = rng.integers(low, 100, 8)
    numbers[numbers == 0] = 7
    return (numbers / 8 if name in FLOATS else numbers).astype(NUMPY[name])


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """One kernel for each left type: all operators with all right types, each result's type asserted."""
    folder = tmp_path_factory.mktemp("operators")
    text = "import tritium as triton\nimport tritium.language as tl\n"
    for a in NUMPY:
        body, params = [], ["x"]
        for b in NUMPY:
            params.append(f"y_{b}")
            body.append(f"y = tl.load(y_{b} + i)")
            for op in (*ARITHMETIC, *DIVISION, *BITS, *COMPARISONS):
                kind = result_type(op, a, b)
                if kind is None:
                    continue
                out = f"out_{b}_{RANK[kind]}_{list(OPS).index(op)}"
                params.append(out)
                body.append(f"z = v {op} y")
                body.append(f"tl.static_assert(z.dtype == tl.{kind}, '{a} {op} {b}')")
                body.append(f"tl.store({out} + i, z)")
        text += f"\n\n@triton.jit\ndef left_{a}({', '.join(params)}):\n"
        text += textwrap.indent("i = tl.arange(0, 8)\nv = tl.load(x + i)\n" + "\n".join(body), "    ") + "\n"
    path = folder / "operator_kernels.py"
    path.write_text(text)
    import importlib.util

    spec = importlib.util.spec_from_file_location("operator_kernels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


OPS = (*ARITHMETIC, *DIVISION, *BITS, *COMPARISONS)


@pytest.mark.parametrize("a", NUMPY)
def test_left(kernels, run, a):
    kernel = getattr(kernels, f"left_{a}")
    args, wanted = {"x": values(a, 0)}, {}
    for b, op in itertools.product(NUMPY, OPS):
        args[f"y_{b}"] = values(b, 1)
        kind = result_type(op, a, b)
        if kind is not None:
            name = f"out_{b}_{RANK[kind]}_{OPS.index(op)}"
            args[name] = np.zeros(8, NUMPY[kind])
            wanted[name] = (op, b)
    run(kernel, (1,), *[args[name] for name in kernel.arg_names])
    for name, (op, b) in wanted.items():
        with np.errstate(all="ignore"):
            expected = reference(op, args["x"], args[f"y_{b}"], a, b)
        got = args[name]
        exact = op not in ("/", "%")
        np.testing.assert_allclose(got.astype(np.float64), expected.astype(np.float64), rtol=0 if exact else 3e-7,
                                   atol=0 if exact else 1e-6, err_msg=f"{a} {op} {b}")


@triton.jit
def refused(x, y, OP: tl.constexpr):
    v, w = tl.load(x), tl.load(y)
    if OP == "//":
        z = v // w
    elif OP == "%":
        z = v % w
    elif OP == "&":
        z = v & w
    elif OP == "+":
        z = v + w
    tl.store(x, z)


@pytest.mark.parametrize("a, b, op, phrase", [
    ("float32", "float32", "//", "unexpected type"), ("int32", "uint32", "//", "different signedness"),
    ("uint8", "int16", "%", "different signedness"), ("int1", "int32", "%", "different signedness"),
    ("float32", "int32", "&", "invalid operands of type"), ("float16", "float16", "&", "invalid operands of type"),
])
def test_pairs_that_do_not_compile(a, b, op, phrase):
    with pytest.raises(triton.CompilationError, match=phrase):
        refused[(1,)](values(a, 0), values(b, 1), OP=op)


@triton.jit
def powers(x, out, EXPONENT: tl.constexpr):
    i = tl.program_id(0)
    tl.store(out + i, libdevice.pow(tl.load(x + i), EXPONENT))


def test_powers_of_scalars(run):
    """C's pow, not a square root: NumPy takes one where the exponent is one number."""
    x, out = np.float32([-np.inf, -0.0, 4, np.inf]), np.zeros(4, np.float32)
    run(powers, (4,), x, out, 0.5)
    np.testing.assert_array_equal(out, [np.inf, 0, 2, np.inf])
    assert not np.signbit(out[1])


@triton.jit
def shares(x, o, total, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.load(x + i) / total)
    tl.store(o + N + i, tl.load(x + i) / -3.0)


@pytest.mark.parametrize("total", [2.5, -0.3, 1e30])
def test_quotients_by_one_number_keep_their_signs(run, total):
    x, out = np.float32([0, -0.0, 1.5, -1.5, 7e-5, -3, np.inf, -np.inf]), np.zeros(16, np.float32)
    run(shares, (1,), x, out, total, N=8)
    want = np.concatenate([x / np.float32(total), x / np.float32(-3)])
    np.testing.assert_array_equal(np.signbit(out), np.signbit(want))
    np.testing.assert_allclose(out, want, rtol=3e-7)
