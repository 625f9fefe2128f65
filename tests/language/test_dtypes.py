"""Types as users see them."""

import copy
import pickle

import pytest

import tritium.language as tl
from tritium.ir import types as T
from tritium.language.types import dtypes

SCALARS = {
    "int1": ("u1", 1), "int8": ("i8", 8), "int16": ("i16", 16), "int32": ("i32", 32), "int64": ("i64", 64),
    "uint8": ("u8", 8), "uint16": ("u16", 16), "uint32": ("u32", 32), "uint64": ("u64", 64),
    "float8e5": ("fp8e5", 8), "float8e5b16": ("fp8e5b16", 8), "float8e4nv": ("fp8e4nv", 8),
    "float8e4b8": ("fp8e4b8", 8), "float8e4b15": ("fp8e4b15", 8), "float16": ("fp16", 16), "bfloat16": ("bf16", 16),
    "float32": ("fp32", 32), "float64": ("fp64", 64),
}


@pytest.mark.parametrize("name", SCALARS)
def test_scalar_types(name):
    kind = getattr(tl, name)
    signature, bits = SCALARS[name]
    assert kind.signature == signature and kind.primitive_bitwidth == bits and kind.itemsize == bits // 8
    assert dtypes.parse_signature(signature) is kind
    assert tl.dtype(kind.name) is kind
    assert dtypes.from_ir(kind.ir) is kind
    assert repr(kind) == f"triton.language.{name}"
    assert eval(repr(kind), {"triton": type("", (), {"language": tl})}) is kind
    assert str(kind) == kind.name
    assert getattr(kind, f"is_{kind.name}")()
    for clone in (copy.deepcopy(kind), pickle.loads(pickle.dumps(kind))):
        assert clone is kind
    assert kind == tl.constexpr(kind) and tl.constexpr(kind) == kind
    assert hash(kind) == hash(tl.dtype(kind.name))


def test_groups_of_names():
    assert tl.dtype.SINT_TYPES == ["int8", "int16", "int32", "int64"]
    assert "int1" in tl.dtype.UINT_TYPES and len(tl.dtype.UINT_TYPES) == 5
    assert tl.dtype.STANDARD_FP_TYPES == ["fp16", "bf16", "fp32", "fp64"]
    assert set(tl.dtype.FP_TYPES) > set(tl.dtype.STANDARD_FP_TYPES)
    assert [k.value for k in tl.dtype.KIND] == [0, 1, 2]


def test_predicates():
    assert tl.int1.is_bool() and tl.int1.is_int() and tl.int1.is_int_unsigned() and not tl.int1.is_int_signed()
    assert tl.float8e5.is_fp8() and tl.float8e5.is_floating() and not tl.float8e5.is_standard_floating()
    assert tl.bfloat16.is_bf16() and tl.bfloat16.is_standard_floating()
    assert tl.int32.kind() is tl.dtype.KIND.INTEGRAL and tl.int1.kind() is tl.dtype.KIND.BOOLEAN
    assert tl.float16.kind() is tl.dtype.KIND.FLOATING
    assert not tl.int32.is_ptr() and not tl.int32.is_block() and not tl.int32.is_const()
    assert (tl.int8.get_int_min_value(), tl.int8.get_int_max_value()) == (-128, 127)
    assert (tl.uint16.get_int_min_value(), tl.uint16.get_int_max_value()) == (0, 65535)
    assert (tl.float16.fp_mantissa_width, tl.float16.exponent_bias) == (10, 15)
    assert (tl.float8e4b8.fp_mantissa_width, tl.float8e4b8.exponent_bias) == (3, 8)
    assert tl.dtype.is_dtype("fp32") and not tl.dtype.is_dtype("float32")


def test_unknown_dtype():
    with pytest.raises(ValueError, match="'float32' is not a dtype"):
        tl.dtype("float32")


def test_pointers():
    pointer = tl.pointer_type(tl.float32)
    assert pointer.is_ptr() and not pointer.is_const() and pointer.element_ty is tl.float32
    assert pointer.scalar is pointer and str(pointer) == "pointer<fp32>" and pointer.signature == "*fp32"
    const = tl.pointer_type(tl.float32, const=True)
    assert const.is_const() and const != pointer and str(const) == "const_pointer<fp32>"
    assert const.signature == "*kfp32" and const.ir is T.Ptr(T.f32, True)
    assert tl.pi32_t == tl.pointer_type(tl.int32)
    assert pickle.loads(pickle.dumps(const)) is const
    with pytest.raises(TypeError, match="expected `dtype`"):
        tl.pointer_type("fp32")


def test_blocks():
    block = tl.block_type(tl.float16, [16, tl.constexpr(32)])
    assert block.shape == (16, 32) and block.numel == 512 and block.nbytes == 1024 and block.is_block()
    assert block.scalar is tl.float16 and block.with_element_ty(tl.int8).element_ty is tl.int8
    assert block.get_block_shapes() == (16, 32) and block == tl.block_type(tl.float16, (16, 32))
    assert block.ir is T.Tile((16, 32), T.f16)


@pytest.mark.parametrize("shape, error, message", [
    ([100], ValueError, "must be a power of 2"), ([4, 3], ValueError, "Shape element 1 must be a power of 2"),
    ([1 << 21], ValueError, "exceeds triton maximum tensor numel"), ([2048, 1024], ValueError, "1048576"),
    ([], TypeError, "0d block_type"), (["x"], TypeError, r"must have type `constexpr\[int\]`"),
    ([1.5], TypeError, r"must have type `constexpr\[int\]`"),
])
def test_shapes_that_no_block_has(shape, error, message):
    with pytest.raises(error, match=message):
        tl.block_type(tl.float32, shape)


def test_tuples_constants_and_descriptors():
    kinds = tl.tuple_type([tl.int32, tl.float32], ["n", "x"])
    assert list(kinds) == [tl.int32, tl.float32] and kinds[1] is tl.float32 and kinds.fields == ["n", "x"]
    assert kinds != tl.tuple_type([tl.int32, tl.float32])
    assert tl.constexpr_type(3) == tl.constexpr_type(3) != tl.constexpr_type(4)
    assert tl.constexpr_type(1) != tl.constexpr_type(True)
    described = dtypes.parse_signature("tensordesc<fp16[64, 32]>")
    assert described.block_type == tl.block_type(tl.float16, [64, 32])
    assert described.signature == "tensordesc<fp16[64, 32]>"


@pytest.mark.parametrize("alias, name", [
    ("bool", "int1"), ("i1", "int1"), ("B", "int1"), ("half", "fp16"), ("float16", "fp16"), ("bfloat16", "bf16"),
    ("float", "fp32"), ("float32", "fp32"), ("double", "fp64"), ("int", "int32"), ("int32", "int32"),
    ("float8_e4m3fn", "fp8e4nv"), ("float8_e5m2", "fp8e5"), ("float8_e4m3fnuz", "fp8e4b8"),
    ("float8_e5m2fnuz", "fp8e5b16"), ("float8e5", "fp8e5"), ("int32_t", "int32"), ("uint8_t", "uint8"),
])
def test_aliases(alias, name):
    assert dtypes.parse_signature(alias).name == name


def test_signatures():
    assert dtypes.parse_signature("**i64") == tl.pointer_type(tl.pointer_type(tl.int64))
    assert dtypes.parse_signature(("i32", ("*fp32", "constexpr")))[1][0] == tl.pointer_type(tl.float32)
    assert tl.str_to_ty("constexpr", 7) == tl.constexpr_type(7)
    with pytest.raises(ValueError, match="not a type of a signature"):
        dtypes.parse_signature("complex64")


def test_constexpr():
    size = tl.constexpr(tl.constexpr(8))
    assert size.value == 8 and size.type == tl.constexpr_type(8) and repr(size) == "constexpr[8]"
    for result, expected in ((size + 1, 9), (1 + size, 9), (size // 3, 2), (-7 // size, -1), (size**2, 64),
                             (size << 1, 16), (-size, -8), (~size, -9), (size == 8, True), (size < 3, False)):
        assert type(result) is tl.constexpr and result.value == expected
    assert size.bit_length() == 4 and list(range(size)) == list(range(8)) and bool(tl.constexpr(0)) is False
    assert tl.constexpr("relu").upper() == "RELU" and tl.constexpr((1, 2))[1] == 2
    assert pickle.loads(pickle.dumps(size)).value == 8
