"""Every mistake that a builtin can notice: the exception, the phrase that callers match on, and the next step."""

import warnings

import pytest
from builders import Bench, target

import tritium.language as tl
from tritium.errors import CompilationError, CompileTimeAssertionFailure
from tritium.language.builtins import operators
from tritium.language.types.values import to_tensor

CUDA = target("cuda", 90)


def tile(kind, *shape):
    return lambda b: b.tile(kind, *shape)


def op(symbol):
    return lambda b, x, y: operators.binary(b, symbol, x, y)


def index(*parts):
    return lambda b, x: operators.getitem(b, x, tuple(part(b) if callable(part) else part for part in parts))


def fn(function, **kwargs):
    def run(b, *args):
        return function.fn(b, *args, **{name: resolve(b, value) for name, value in kwargs.items()})
    return run


def pointers(kind="f32"):
    return tile(f"ptr<{kind}>", 8)


def pointer(kind="f32"):
    return tile(f"ptr<{kind}>")


MISTAKES = [
    # operators
    (op("+"), [tile("ptr<f32>"), tile("ptr<f32>")], TypeError, "cannot add pointers together"),
    (op("-"), [tile("ptr<f32>"), tile("ptr<f32>")], TypeError, "invalid operands of type"),
    (op("+"), [tile("ptr<f32>"), 1.5], TypeError, "invalid operands of type"),
    (op("*"), [tile("ptr<f32>"), 2], TypeError, "invalid operands of type"),
    (op("+"), [tile("f8e5", 8), tile("i32", 8)], TypeError, "unexpected type"),
    (op("//"), [tile("f32", 8), 2], TypeError, "unexpected type fp32"),
    (op("//"), [tile("i32", 8), tile("u32", 8)], TypeError, "because they have different signedness"),
    (op("%"), [tile("i32", 8), tile("u32", 8)], TypeError, "because they have different signedness"),
    (op("&"), [tile("f32", 8), 1], TypeError, "invalid operands of type"),
    (op("<<"), [tile("f32", 8), 1], TypeError, "invalid operands of type"),
    (op("+"), [tile("u8", 8), -1], ValueError, "unsigned tensor and a negative scalar"),
    (op("+"), [tile("u8", 8), 300], ValueError, "is out of range for type"),
    (op("+"), [tile("i32", 8), 2**40], ValueError, "is out of range for type"),
    (op("+"), [tile("i32", 8), 2**70], ValueError, "Nonrepresentable integer"),
    (op("+"), [tile("i32", 8), "text"], TypeError, "cannot convert text of type <class 'str'> to tensor"),
    (op("+"), [tile("i32", 8), None], TypeError, "cannot convert None"),
    (op("**"), [tile("f32", 8), 2], AttributeError, "'tensor' object has no attribute '__pow__'"),
    (op("@"), [tile("f32", 8), tile("f32", 8)], AttributeError, "__matmul__"),
    (op("+"), [tile("f32", 4), tile("f32", 8)], ValueError,
     "Cannot make_shape_compatible: incompatible dimensions at index 0: 4 and 8"),
    (lambda b, x: operators.unary(b, "+", x), [tile("f32")], AttributeError, "__pos__"),
    (lambda b, x: operators.unary(b, "-", x), [pointer()], ValueError, "wrong type argument to unary minus"),
    (lambda b, x: operators.unary(b, "~", x), [tile("f32")], ValueError, "wrong type argument to unary invert"),
    (lambda b, x: operators.unary(b, "not", x), [tile("i32")], ValueError, "Cannot bitcast"),
    (lambda b, x: operators.logical_and(b, x, x), [tile("i32")], ValueError, "Cannot bitcast"),
    (lambda b, x: operators.compare(b, "==", x, None), [tile("i32")], TypeError, "cannot compare int32"),
    (lambda b, x: operators.compare(b, "<", x, x), [pointer()], TypeError, "invalid operands of type"),
    (lambda b, x: operators.truth(b, x), [tile("i1", 8)], ValueError,
     "Boolean value of Tensor with more than one value is ambiguous"),
    # indexing
    (index(slice(0, 2)), [tile("f32", 4)], ValueError, "unsupported tensor index"),
    (index(...), [tile("f32", 4)], ValueError, "unsupported tensor index"),
    (index(..., None), [tile("f32", 4)], ValueError, "unsupported tensor index"),
    (index(tile("i32", 4)), [tile("f32", 4)], ValueError, "unsupported tensor index"),
    (index(0), [tile("f32", 4, 4)], ValueError, "unsupported tensor index"),
    (index(4), [tile("f32", 4)], IndexError, "index 4 is out of range for axis 0 of size 4"),
    (index(slice(None), slice(None), None), [tile("f32", 4)], ValueError, "too many indices.*no axis 1"),
    # creation and shapes
    (fn(tl.arange), [0, 100], ValueError, "arange's range must be a power of 2"),
    (fn(tl.arange), [0, tile("i32")], ValueError, "arange's arguments must be of type tl.constexpr"),
    (fn(tl.arange), [0, 64.0], ValueError, "arange's arguments must be integers, `end` is 64.0"),
    (fn(tl.arange), [None, 64], ValueError, "arange's arguments must be integers, `start` is None"),
    (fn(tl.arange), [8, 8], ValueError, "must be greater than the start argument"),
    (fn(tl.arange), [-8, 0], ValueError, "must fit in int32"),
    (fn(tl.arange), [0, 1 << 21], ValueError, "exceeds triton maximum tensor numel"),
    (fn(tl.full), [(100,), 0, tl.float32], ValueError, "must be a power of 2"),
    (fn(tl.full), [(8,), 1.5, tl.int32], TypeError, "is a float, int32 holds integers"),
    (fn(tl.full), [(8,), -1, tl.uint8], TypeError, "is negative, uint8 is unsigned"),
    (fn(tl.full), [(8,), 0, "fp32"], TypeError, "dtype must be a tl.dtype"),
    (fn(tl.program_id), [3], ValueError, "program_id axis must be 0, 1, or 2 but got 3"),
    (fn(tl.num_programs), [-1], ValueError, "num_programs axis must be 0, 1, or 2 but got -1"),
    (fn(tl.broadcast_to), [tile("f32", 8), 4, 8], ValueError, "Cannot broadcast, rank mismatch"),
    (fn(tl.broadcast_to), [tile("f32", 4, 8), 4, 16], ValueError, "Cannot broadcast, the expanded size"),
    (fn(tl.reshape), [tile("f32", 8), 16], ValueError, "cannot change total number of elements"),
    (fn(tl.trans), [tile("f32", 8)], ValueError, "0- or 1-dimensional tensor"),
    (fn(tl.permute), [tile("f32", 4, 8), (0, -1)], ValueError, "must be a permutation"),
    (fn(tl.expand_dims), [tile("f32", 8), (0, 0)], ValueError, "duplicate axes"),
    (fn(tl.join), [tile("f32", 8), 1.0], TypeError, "join takes tensors"),
    (fn(tl.join), [tile("f32", 8), tile("f16", 8)], TypeError, "join takes tensors of one dtype"),
    (fn(tl.split), [tile("f32", 4)], ValueError, "last axis of size 2"),
    (fn(tl.cat), [tile("f32", 4, 8), tile("f32", 4, 8), True], AssertionError, "takes 1-d tensors"),
    (fn(tl.gather), [tile("f32", 4, 8), tile("f32", 4, 8), 0], AssertionError, "index must be an integer tensor"),
    (fn(tl.gather), [tile("f32", 4, 8), tile("i32", 4), 0], AssertionError, "must have the same rank"),
    (fn(tl.gather), [tile("f32", 4, 8), tile("i32", 4, 4), 0], AssertionError, "must match the corresponding source"),
    # casts
    (fn(tl.cast), [tile("f32"), "fp16"], TypeError, "dtype must be a tl.dtype"),
    (fn(tl.cast), [tile("f32"), tl.int16, None, True], ValueError, "Cannot bitcast data-type of size 32"),
    (fn(tl.cast), [tile("i32"), tl.int8, "rtz"], ValueError, "only for truncating fp conversions"),
    (fn(tl.cast), [tile("f16"), tl.float32, "rtne"], ValueError, "only for truncating fp conversions"),
    (fn(tl.cast), [tile("f32"), tl.float16, "up"], ValueError, "Invalid fp_downcast_rounding"),
    (fn(tl.cast), [pointer(), tl.int32], TypeError, "cannot cast pointer<fp32> to int32"),
    # memory
    (fn(tl.load), [tile("f32", 8)], ValueError, "Unsupported ptr type"),
    (fn(tl.load, other=0.0), [pointers()], ValueError, "`other` cannot be provided without `mask`"),
    (fn(tl.load, mask=tile("i1", 8)), [pointer()], ValueError, "Mask argument cannot be block type"),
    (fn(tl.load, mask=tile("i32", 8)), [pointers()], ValueError, "Mask must have boolean scalar type"),
    (fn(tl.load, mask=tile("i1", 4)), [pointers()], ValueError, "Cannot make_shape_compatible"),
    (fn(tl.load, cache_modifier=".xx"), [pointers()], ValueError, "Cache modifier .xx not supported"),
    (fn(tl.load, eviction_policy="never"), [pointers()], ValueError, "Eviction policy never not supported"),
    (fn(tl.load, boundary_check=(0,)), [pointers()], ValueError, "need a block pointer"),
    (fn(tl.store), [tile("i32"), 1], ValueError, "Unsupported ptr type"),
    (fn(tl.store), [pointer(), tile("f32", 8)], ValueError, "Value argument cannot be block type"),
    (fn(tl.store, mask=tile("i1", 8)), [pointer(), 1.0], ValueError, "Mask argument cannot be block type"),
    (fn(tl.store), [pointers(), tile("f32", 4, 8)], ValueError, "Expected pointer argument to have shape"),
    (fn(tl.store, mask=tile("i1", 4, 8)), [pointers(), 1.0], ValueError, "Expected pointer argument to have shape"),
    (fn(tl.store, mask=tile("i32", 8)), [pointers(), 1.0], ValueError, "Mask must have boolean scalar type"),
    (fn(tl.store), [pointers("const f32"), 1.0], ValueError, "Cannot store to a constant pointer"),
    (fn(tl.store, cache_modifier=".ca"), [pointers(), 1.0], ValueError, "Cache modifier .ca not supported"),
    (fn(tl.atomic_add), [pointers("i8"), 1], ValueError, "atomic_add does not support int8"),
    (fn(tl.atomic_max), [pointers("f16"), 1], ValueError, "atomic_max does not support fp16"),
    (fn(tl.atomic_xchg), [pointers("bf16"), 1], ValueError, "atomic_xchg does not support bf16"),
    (fn(tl.atomic_or), [pointers("f32"), 1], ValueError, "atomic_or does not support fp32"),
    (fn(tl.atomic_add, sem="seq_cst"), [pointers(), 1], ValueError, "Memory semantic seq_cst not supported"),
    (fn(tl.atomic_add, scope="world"), [pointers(), 1], ValueError, "world not supported"),
    (fn(tl.atomic_cas), [pointers("i8"), 0, 1], ValueError, "does not support"),
    (fn(tl.atomic_cas), [pointers("i32"), tile("i64", 8), 1], ValueError, "`cmp` of atomic_cas must have type int32"),
    (fn(tl.atomic_add), [pointer("i32"), tile("i32", 8)], ValueError, "cannot be a block if the pointer is a scalar"),
    # math
    *[(fn(f), [tile("f16", 8)], ValueError, r"Expected dtype \['fp32', 'fp64'\] but got fp16")
      for f in (tl.exp, tl.exp2, tl.log, tl.log2, tl.sin, tl.cos, tl.sqrt, tl.rsqrt, tl.erf, tl.floor, tl.ceil)],
    (fn(tl.sqrt_rn), [tile("f64", 8)], ValueError, r"Expected dtype \['fp32'\] but got fp64"),
    (fn(tl.div_rn), [tile("f64", 8), 1.0], ValueError, r"Expected dtype \['fp32'\] but got fp64"),
    (fn(tl.umulhi), [tile("i8", 8), tile("i8", 8)], ValueError, "Expected dtype"),
    (fn(tl.fma), [tile("i32", 8), 1, 2], ValueError, "Expected a floating point dtype"),
    (fn(tl.fdiv), [tile("i32", 8), 1], TypeError, "floating scalar type"),
    (fn(tl.fdiv), [tile("f32", 8), tile("f16", 8)], TypeError, "fdiv does not promote"),
    (fn(tl.minimum, propagate_nan="yes"), [tile("f32", 8), 1.0], ValueError, "propagate_nan"),
    (fn(tl.where), [tile("i1"), pointer("f32"), pointer("i32")], TypeError, "invalid operands of type"),
    # reductions
    (fn(tl.reduce, axis=0, combine_fn=tl.standard._sum_combine), [tile("f32")], ValueError, "a scalar|works on tiles"),
    (fn(tl.reduce, axis=2, combine_fn=tl.standard._sum_combine), [tile("f32", 8)], ValueError, "invalid axis 2"),
    (fn(tl.reduce, axis=(0, 1), combine_fn=tl.standard._sum_combine), [tile("f32", 4, 8)], TypeError, "`axis` must be"),
    (fn(tl.histogram, num_bins=16), [tile("i32", 4, 8)], AssertionError, "only supports 1D input"),
    (fn(tl.histogram, num_bins=16), [tile("f32", 8)], ValueError, "only supports integer input"),
    (fn(tl.histogram, num_bins=10), [tile("i32", 8)], ValueError, "must be a power of 2"),
    (fn(tl.map_elementwise), [tl.cdiv, 3], TypeError, "takes one or more tensors"),
    # hints
    (fn(tl.multiple_of), [tile("i32", 4, 8), 16], ValueError, "does not match the length of values"),
    (fn(tl.max_contiguous), [tile("i32"), 16], ValueError, "does not match the length of values"),
    (fn(tl.multiple_of), [tile("i32", 8), 1.5], TypeError, "constexpr"),
    # debugging
    (fn(tl.static_assert), [1], NotImplementedError, "could not be determined at compile-time"),
    (fn(tl.static_assert), [tile("i1")], NotImplementedError, "could not be determined at compile-time"),
    (fn(tl.static_assert), [False, "BLOCK too small"], CompileTimeAssertionFailure, "BLOCK too small"),
    (fn(tl.device_print), [tile("i32")], AssertionError, "needs a string first"),
    (fn(tl.device_print), ["größe"], AssertionError, "not an ascii string"),
    # libraries
    (fn(tl.extra.libdevice.asin), [tile("f16", 8)], KeyError, "no overload for"),
    (fn(tl.extra.libdevice.atan2), [tile("f32", 8), 1], KeyError, "no overload for"),
    (fn(tl.core.extern_elementwise), ["lib", "", [tile("f32")], {(tl.float32,): ("my_function", tl.float32)}, True],
     ValueError, "'my_function' is not known"),
]


def resolve(b, value):
    if isinstance(value, list):
        return [resolve(b, part) for part in value]
    return value(b) if callable(value) and type(value).__name__ == "function" else value


@pytest.mark.parametrize("call, args, error, message", MISTAKES,
                         ids=[f"{k}-{m[3][:40]}" for k, m in enumerate(MISTAKES)])
def test_mistake(b, call, args, error, message):
    with pytest.raises(error, match=message) as raised:
        call(b, *[resolve(b, arg) for arg in args])
    assert not str(raised.value).endswith((" ", ":"))


DOT = [
    ((("f16", 16, 32), ("bf16", 32, 16)), {}, "Both operands must be same dtype"),
    ((("u8", 16, 32), ("u8", 32, 16)), {}, "only int8 supported"),
    ((("i32", 16, 32), ("i32", 32, 16)), {}, "Unsupported dtype int32"),
    ((("f16", 16, 8), ("f16", 8, 16)), {}, "Input shapes should have M >= 1, N >= 1 and K >= 16"),
    ((("i8", 16, 16), ("i8", 16, 16)), {}, "Input shapes should have M >= 1, N >= 1 and K >= 32"),
    ((("f16", 16, 32), ("f16", 64, 16)), {}, "are not compatible for matmul"),
    ((("f16", 32), ("f16", 32)), {}, "must be either 2D or 3D"),
    ((("f16", 2, 16, 32), ("f16", 4, 32, 16)), {}, "batch shape"),
    ((("f32", 16, 32), ("f32", 32, 16)), {"input_precision": "fp8"}, "input_precision must be one of"),
    ((("f32", 16, 32), ("f32", 32, 16)), {"input_precision": "ieee", "allow_tf32": True}, "Only one of"),
    ((("f8e5", 16, 64), ("f8e5", 64, 16)), {"max_num_imprecise_acc": 128},
     r"max_num_imprecise_acc \(128\) must be <= K \(64\)"),
]


@pytest.mark.parametrize("operands, options, message", DOT, ids=[case[-1][:30] for case in DOT])
def test_dot_mistakes(operands, options, message):
    b = Bench(CUDA)
    with pytest.raises(AssertionError, match=message):
        tl.dot.fn(b, *[b.tile(*operand) for operand in operands], **options)


def test_dot_accumulators(b):
    x, y = b.tile("i8", 16, 32), b.tile("i8", 32, 16)
    with pytest.raises(AssertionError, match="the accumulator is int32, out_dtype is fp32"):
        tl.dot.fn(b, x, y, b.tile("i32", 16, 16), out_dtype=tl.float32)
    assert tl.dot.fn(b, x, y, b.tile("i32", 16, 16)).dtype is tl.int32
    assert tl.dot.fn(b, x, y, b.tile("i32", 16, 16), out_dtype=tl.int32).dtype is tl.int32
    with pytest.raises(AssertionError, match="the accumulator has shape"):
        tl.dot.fn(b, x, y, b.tile("i32", 16, 8), out_dtype=tl.int32)
    with pytest.raises(ValueError, match="out_dtype=bf16 is unsupported"):
        tl.dot.fn(b, b.tile("f16", 16, 16), b.tile("f16", 16, 16), out_dtype=tl.bfloat16)


def test_small_dots_are_fine_where_no_tensor_core_minds(b):
    assert tl.dot.fn(b, b.tile("f16", 2, 4), b.tile("f16", 4, 2)).shape == (2, 2)
    amd = Bench(target("hip", "gfx942", 64))
    assert tl.dot.fn(amd, amd.tile("f16", 2, 4), amd.tile("f16", 4, 2)).shape == (2, 2)


@pytest.mark.parametrize("machine, options, expected", [
    (CUDA, {}, "tf32"), (CUDA, {"allow_tf32": False}, "ieee"), (CUDA, {"input_precision": "tf32x3"}, "tf32x3"),
    (target("hip", "gfx90a"), {}, "ieee"), (target("hip", "gfx942"), {}, "tf32"), (None, {}, "ieee"),
    (target("cpu", "x86-64"), {"allow_tf32": True}, "tf32"), (target("hip", "gfx90a"), {"allow_tf32": True}, "ieee"),
])
def test_dot_precision(machine, options, expected):
    b = Bench(machine)
    out = tl.dot.fn(b, b.tile("f32", 16, 16), b.tile("f32", 16, 16), **options)
    assert out.handle.attrs["precision"] == expected


def test_dot_precision_from_the_environment(monkeypatch):
    monkeypatch.setenv("TRITON_F32_DEFAULT", "ieee")
    b = Bench(CUDA)
    assert tl.dot.fn(b, b.tile("f32", 16, 16), b.tile("f32", 16, 16)).handle.attrs["precision"] == "ieee"


@pytest.mark.parametrize("arch, kind, fine", [
    (80, tl.float8e4nv, False), (90, tl.float8e4nv, True), (90, tl.float8e4b8, False), (80, tl.float8e5, True)])
def test_eight_bit_floats_of_a_target(arch, kind, fine):
    b = Bench(target("cuda", arch))
    if fine:
        assert tl.cast.fn(b, b.tile("f32", 8), kind).dtype is kind
    else:
        with pytest.raises(ValueError, match="not supported in this architecture"):
            tl.cast.fn(b, b.tile("f32", 8), kind)


def test_warnings(b):
    with pytest.warns(UserWarning, match="non-boolean condition"):
        tl.where.fn(b, b.tile("i32", 8), 1, 0)
    with pytest.warns(UserWarning, match="exceeds the maximum bitwidth"):
        operators.binary(b, "<<", b.tile("i32", 8), 32)
    with pytest.warns(UserWarning, match="view is deprecated"):
        tl.view.fn(b, b.tile("i32", 8), 2, 4)
    with pytest.warns(UserWarning, match="instead of scalar"):
        operators.truth(b, b.tile("i1", 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        operators.binary(b, "<<", b.tile("i32", 8), 31)


@pytest.mark.parametrize("function", [tl.load, tl.program_id, tl.arange, tl.extra.libdevice.sin])
def test_builtins_outside_of_kernels(function):
    with pytest.raises(ValueError, match=r"Did you forget to add @triton\.jit"):
        function(0)


def test_errors_reach_the_user_with_their_cause(b):
    with pytest.raises(CompilationError) as raised:
        b.call(tl.exp, (b.tile("f16", 8),), {})
    assert isinstance(raised.value.__cause__, ValueError)
    assert "Expected dtype ['fp32', 'fp64'] but got fp16" in str(raised.value.__cause__)


def test_sorting_other_axes_is_refused(b):
    for dim in (0, -1):
        with pytest.raises(CompilationError, match="only the last axis"):
            b.call(tl.sort, (b.tile("f32", 4, 8),), {"dim": dim})


def test_overflow_checks_only_when_debugging():
    for debug, expected in ((False, 0), (True, 3)):
        b = Bench(debug=debug)
        x = b.tile("i32", 8)
        for symbol in "+-*":
            operators.binary(b, symbol, x, x)
        operators.binary(b, "+", b.tile("i64", 8), 1)
        operators.binary(b, "+", b.tile("f32", 8), 1)
        tl.add.fn(b, x, 1, sanitize_overflow=False)
        found = [op for op in b.finish().ops if op.kind.name == "assert"]
        assert len(found) == expected
        assert not found or found[0].attrs["message"] == "int32 overflow detected for operation add"


def test_device_assert_only_when_debugging():
    for debug in (False, True):
        b = Bench(debug=debug)
        tl.device_assert.fn(b, b.tile("i1", 8), "x", mask=b.tile("i1", 8))
        assert [op.kind.name for op in b.finish().ops] == (["assert"] if debug else [])


def test_to_tensor_of_what_is_no_number(b):
    for value in ("text", [1], {}, tl.float32):
        with pytest.raises(TypeError, match="cannot convert"):
            to_tensor(b, value)
