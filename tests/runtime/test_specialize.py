"""What the compiler is told about each argument (LANGUAGE 10)."""

import collections
import enum

import numpy as np
import pytest

from tritium.language.types import dtypes as tl_types
from tritium.language.types.constants import constexpr
from tritium.runtime.jit import jit
from tritium.runtime.specialize import How, specialize
from tritium.tensors import MockTensor, TensorWrapper
from tritium.tools.tensor_descriptor import TensorDescriptor


class tl:
    const = tl_types.const
    int64, pointer_type, int8 = tl_types.int64, tl_types.pointer_type, tl_types.int8


@jit
def add(x_ptr, y_ptr, n, BLOCK: constexpr = 64):
    pass


@jit
def annotated(a: tl.int64, b: "fp32", p: tl.pointer_type(tl.int8), c: tl.const, d: int, e: "u8"):  # noqa: F821
    pass


X = np.zeros(64, np.float32)
ODD = X[1:]
Point = collections.namedtuple("Point", "x y")
Color = enum.IntEnum("Color", {"RED": 1, "BLUE": 32})

TABLE = [
    (1, ("constexpr", 1)),
    (0, ("i32", "D")),
    (-16, ("i32", "D")),
    (17, ("i32", "")),
    (2**31 - 1, ("i32", "")),
    (-(2**31), ("i32", "D")),
    (2**31, ("i64", "D")),
    (2**63 - 1, ("i64", "")),
    (2**63, ("u64", "D")),
    (2**64 - 1, ("u64", "")),
    (True, ("u1", None)),
    (False, ("u1", None)),
    (1.0, ("fp32", None)),
    (np.float64(2.5), ("fp32", None)),
    (np.float32(2.5), ("fp32", None)),
    (np.int8(1), ("constexpr", 1)),
    (np.uint8(48), ("i32", "D")),
    (np.int64(2**40 + 1), ("i64", "")),
    (np.uint64(2**63), ("u64", "D")),
    (np.bool_(True), ("u1", None)),
    (None, ("constexpr", None)),
    (X, ("*fp32", "D")),
    (ODD, ("*fp32", "")),
    (np.zeros(0, np.float16), ("*fp16", "D")),
    (MockTensor("bf16"), ("*bf16", "D")),
    (TensorWrapper(MockTensor("i8"), tl_types.float8e5), ("*fp8e5", "D")),
    ((1, 48, X), (("constexpr", "i32", "*fp32"), (1, "D", "D"))),
    (Point(3, None), (Point("i32", "constexpr"), Point("", None))),
    (Color.RED, ("constexpr", 1)),
    (Color.BLUE, ("i32", "D")),
]


@pytest.mark.parametrize(("value", "expected"), TABLE, ids=lambda v: type(v).__name__)
def test_specialisation_table(value, expected):
    got = specialize(value)
    assert got == expected and type(got[0]) is type(expected[0])


def test_specialisation_of_constants_functions_and_descriptors():
    three = constexpr(3)
    assert specialize(three) == ("constexpr", three)
    assert specialize(add) == ("constexpr", add.cache_key)
    desc = TensorDescriptor.from_tensor(np.zeros((64, 32), np.float16), [16, 32])
    assert specialize(desc) == ("tensordesc<fp16[16, 32]>", None)


@pytest.mark.parametrize(("value", "hint"), [
    ("text", "annotate the parameter with tl.constexpr"), ([1], "pass an array or a tensor"), ({}, "as an array"),
    (tl_types.float32, "annotate"), (object(), "annotate"), (np.complex64(1), "x.real and x.imag"),
    (b"abc", "np.frombuffer"), (np.datetime64(3, "s"), "annotate"), (np.timedelta64(3), "annotate"),
    (np.str_("x"), "annotate"),
])
def test_what_cannot_be_specialised(value, hint):
    with pytest.raises(TypeError, match=f"failed to specialize argument of type: .*\nhint: .*{hint}"):
        specialize(value)


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1])
def test_ints_that_do_not_fit(value):
    with pytest.raises(OverflowError):
        specialize(value)


def test_unsupported_dtype():
    with pytest.raises(TypeError, match="complex64"):
        specialize(np.zeros(2, np.complex64))


@pytest.mark.parametrize(("how", "value", "expected"), [
    (How(ones=False, aligned=False), 1, ("i32", None)),
    (How(ones=False, aligned=False), 16, ("i32", None)),
    (How(aligned=False), 16, ("i32", "")),
    (How(aligned=False), 1, ("constexpr", 1)),
    (How(aligned=False), X, ("*fp32", "")),
    (How(const=True), X, ("*kfp32", "D")),
])
def test_specialisation_modifiers(how, value, expected):
    assert specialize(value, how) == expected


def test_annotations_force_types():
    a, b, p, c, d, e = annotated.params
    assert (a.specialize(32), a.specialize(1)) == (("i64", "D"), ("i64", 1))
    assert b.specialize(1.5) == ("fp32", None)
    assert p.specialize(X) == ("*i8", "D") and p.specialize(4096) == ("*i8", "D")
    assert p.specialize(None) == ("constexpr", None)
    assert c.specialize(X) == ("*kfp32", "D")
    assert d.specialize(2**40) == ("i32", "D") and e.specialize(3) == ("u8", "")
    assert [param.is_const for param in annotated.params] == [False, False, False, True, False, False]


def test_do_not_specialize_by_name_and_index():
    @jit(do_not_specialize=["n", 2], do_not_specialize_on_alignment=["m"])
    def kernel(x, n, k, m):
        pass

    x, n, k, m = kernel.params
    assert n.specialize(1) == ("i32", None) and k.specialize(16) == ("i32", None)
    assert m.specialize(16) == ("i32", "") and m.specialize(1) == ("constexpr", 1)
    assert x.specialize(16) == ("i32", "D")
