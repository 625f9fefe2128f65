"""What `dot_scaled`, `dot` of deprecated types and reductions through descriptors refuse or warn about."""

import warnings

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.backends.compiler import GPUTarget
from tritium.compiler import ASTSource

pytestmark = pytest.mark.sampled


@triton.jit
def scaled(o, CASE: tl.constexpr):
    a, b = tl.full((16, 64), 56, tl.uint8), tl.full((64, 16), 56, tl.uint8)  # 1.0 in e4m3
    s = tl.full((16, 2), 127, tl.uint8)
    c = tl.zeros((16, 16), tl.float32)
    if CASE == "right":
        c = tl.dot_scaled(a, s, "e4m3", b, s, "e4m3")
    elif CASE == "fp8 scales":
        t = tl.full((16, 4), 1.0, tl.float32).to(tl.float8e4nv)
        c = tl.dot_scaled(a, t, "e4m3", b, t, "e4m3")
    elif CASE == "float scales":
        c = tl.dot_scaled(a, s.to(tl.float32), "e4m3", b, s, "e4m3")
    elif CASE == "number":
        c = tl.dot_scaled(a, s, "e4m3", b, 1.0, "e4m3")
    elif CASE == "packed":
        c = tl.dot_scaled(a, s, "e4m3", b, s, "e4m3", rhs_k_pack=False)
    elif CASE == "ranks":
        c = tl.dot_scaled(a, s, "e4m3", b[None], s, "e4m3")
    elif CASE == "batches":
        c = tl.dot_scaled(tl.full((2, 16, 64), 56, tl.uint8), None, "e4m3", b[None], None, "e4m3")
    elif CASE == "rank of scales":
        c = tl.dot_scaled(a, s[None], "e4m3", b, s, "e4m3")
    elif CASE == "scales of b":
        c = tl.dot_scaled(a, s, "e4m3", b, tl.trans(s), "e4m3")
    elif CASE == "no tile":
        c = tl.dot_scaled(a, s, "e4m3", 1, None, "e4m3")
    elif CASE == "bytes":
        c = tl.dot_scaled(a.to(tl.float32), s, "e4m3", b, s, "e4m3")
    elif CASE == "format":
        c = tl.dot_scaled(a, s, "e3m2", b, s, "e4m3")
    elif CASE == "inner":
        c = tl.dot_scaled(a, s, "e4m3", tl.full((32, 16), 56, tl.uint8), None, "e4m3")
    elif CASE == "out_dtype":
        c = tl.dot_scaled(a, s, "e4m3", b, s, "e4m3", out_dtype=tl.float16)
    tl.store(o + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :], c)


@pytest.mark.parametrize("case", ["right", "fp8 scales"])
def test_scaled_products(anywhere, case):
    o = np.zeros((16, 16), np.float32)
    anywhere(scaled, [o, case])
    assert (o == 64).all()


@pytest.mark.parametrize("case, message", [
    ("float scales", "lhs_scale must be a tile of uint8 exponents or of fp8e4nv, not fp32"),
    ("number", "rhs_scale must be a tile of uint8 exponents or of fp8e4nv, not 1.0"),
    ("packed", "only mxfp4 inputs can be packed along a dimension different than K"),
    ("ranks", "Both inputs must be either 2D or 3D"),
    ("batches", r"batches of lhs \[2\] and of rhs \[1\] must be equal"),
    ("rank of scales", "lhs_scale must be a tensor of shape"),
    ("scales of b", "scale factor must be 16 or 32. Got 4"),
    ("no tile", "multiplies 2-d or 3-d tiles, `rhs` is 1"),
    ("bytes", "Unexpected dtype of lhs for e4m3: fp32"),
    ("format", "lhs_format must be one of"),
    ("inner", "Reduction dimension should pack the same number of elements"),
    ("out_dtype", "Only float32 is supported for out_dtype"),
])
def test_what_scaled_products_refuse(anywhere, case, message):
    with pytest.raises(triton.TritonError, match=message) as found:
        anywhere(scaled, [np.zeros((16, 16), np.float32), case])
    assert isinstance(found.value.__cause__, AssertionError)


# --- deprecated types -------------------------------------------------------------------------------------------------
@triton.jit
def product(o, x, DTYPE: tl.constexpr):
    at = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    a = tl.load(x + at).to(DTYPE)
    tl.store(o + at, tl.dot(a, a))


@pytest.mark.parametrize("arch, dtype, warned", [
    (80, tl.float8e4b15, 0), (90, tl.float8e4b15, 1), (100, tl.float8e4b15, 1), (90, tl.float8e5, 0),
    (90, tl.float8e4nv, 0),
], ids=str)
def test_products_of_deprecated_floats_warn(arch, dtype, warned):
    source = ASTSource(product, {"o": "*fp32", "x": "*fp32"}, {"DTYPE": dtype})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        from tritium.frontend import lower

        lower(product, source.signature, source.constants, target=GPUTarget("cuda", arch, 32))
    assert sum("fp8e4b15 are deprecated on Hopper" in str(warning.message) for warning in said) == warned
    assert all(warning.category is UserWarning and warning.filename == __file__ for warning in said)


def test_products_of_deprecated_floats_are_right(anywhere):
    o, x = np.zeros((32, 32), np.float32), np.full((32, 32), 1.5, np.float32)
    anywhere(product, [o, x, tl.float8e4b15])
    assert (o == 32 * 2.25).all()


# --- reductions through descriptors -----------------------------------------------------------------------------------
@triton.jit
def reduce_through(p, HOW: tl.constexpr):
    desc = tl.make_tensor_descriptor(p, [8, 16], [16, 1], [4, 16])
    getattr(desc, "atomic_" + HOW)([0, 0], tl.full((4, 16), 1, tl.int32).to(desc.dtype))


WORDS = {"u32", "i32", "u64", "i64"}
TAKEN = {"add": {"u32", "i32", "u64", "fp32", "fp16", "bf16"}, "min": WORDS, "max": WORDS, "and": WORDS, "or": WORDS,
         "xor": WORDS}


@pytest.mark.parametrize("target", [("cuda", 80, 32), ("cuda", 90, 32), ("hip", "gfx942", 64), None], ids=str)
@pytest.mark.parametrize("how", TAKEN)
def test_types_that_descriptors_reduce(target, how):
    from tritium.frontend import lower

    for dtype in ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "fp16", "bf16", "fp32", "fp64"):
        narrow = dtype in ("fp16", "bf16") and how in ("min", "max") and target in (None, ("cuda", 90, 32))
        arguments = reduce_through, {"p": f"*{dtype}", "HOW": "constexpr"}, {"HOW": how}
        target_of = GPUTarget(*target) if target else None
        if dtype in TAKEN[how] or narrow:
            lower(*arguments, target=target_of)
        else:
            with pytest.raises(triton.CompilationError, match="Unsupported dtype"):
                lower(*arguments, target=target_of)
