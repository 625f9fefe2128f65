"""What type each operation gives: the list of the language reference, and the results of every builtin."""

import pytest
from builders import Bench, EagerBench, element

import tritium.language as tl
from tritium.ir import types as T
from tritium.language.builtins import operators
from tritium.language.types.returned_constants import settled
from tritium.language.types.values import using


def plus(symbol):
    return lambda b, x, y: operators.binary(b, symbol, x, y)


def call(fn, **kwargs):
    return lambda b, *args: b.call(fn, args, kwargs)


def on(kind, *shape):
    """A tile of a type, made when the test runs."""
    return lambda b: b.tile(kind, *(shape or (8,)))


def run(b, fn, *operands):
    made = fn(b, *[operand(b) if callable(operand) else operand for operand in operands])
    return settled(b, made)  # a constant that a function returned is a tensor in operators


def stored(value):
    """A number that was assigned to a name first: a tensor."""
    return lambda b: tl.core._to_tensor(b, value)


CASES = {
    "f16*1.0": (plus("*"), on("f16"), 1.0, "f16"),
    "f16*(a=1.0)": (plus("*"), on("f16"), stored(1.0), "f32"),
    "f16/2": (plus("/"), on("f16"), 2, "f32"),
    "bf16/bf16": (plus("/"), on("bf16"), on("bf16"), "f32"),
    "f16+bf16": (plus("+"), on("f16"), on("bf16"), "f16"),
    "i32+bf16": (plus("+"), on("i32"), on("bf16"), "f32"),
    "i8+u8": (plus("+"), on("i8"), on("u8"), "u8"),
    "i8+1": (plus("+"), on("i8"), 1, "i8"),
    "i1+1": (plus("+"), on("i1"), 1, "i32"),
    "i1+i1": (plus("+"), on("i1"), on("i1"), "i1"),
    "i1*2.0": (plus("*"), on("i1"), 2.0, "f32"),
    "i8*2.5": (plus("*"), on("i8"), 2.5, "f32"),
    "i8/i8": (plus("/"), on("i8"), on("i8"), "f32"),
    "i64/i64": (plus("/"), on("i64"), on("i64"), "f32"),
    "i8//i8": (plus("//"), on("i8"), on("i8"), "i8"),
    "i1&1": (plus("&"), on("i1"), 1, "i32"),
    "i8<<i32": (plus("<<"), on("i8"), on("i32"), "i32"),
    "ptr%16": (plus("%"), on("ptr<f32>"), 16, "i64"),
    "f8+f8": (plus("+"), on("f8e5"), on("f8e5"), "f8e5"),
    "f8e5*f8e4nv": (plus("*"), on("f8e5"), on("f8e4nv"), "f16"),
    "where(c,f16,0.0)": (call(tl.where), on("i1"), on("f16"), 0.0, "f16"),
    "where(c,i8,0.0)": (call(tl.where), on("i1"), on("i8"), 0.0, "f32"),
    "where(c,1,0.0)": (call(tl.where), on("i1"), 1, 0.0, "f32"),
    "where(c,p,p)": (call(tl.where), on("i1"), on("ptr<f32>"), on("ptr<f32>"), "ptr<f32>"),
    "maximum(f16,0.0)": (call(tl.maximum), on("f16"), 0.0, "f32"),
    "maximum(bf16,bf16)": (call(tl.maximum), on("bf16"), on("bf16"), "f32"),
    "minimum(i8,3)": (call(tl.minimum), on("i8"), 3, "i32"),
    "clamp(f16,0.0,1.0)": (call(tl.clamp), on("f16"), 0.0, 1.0, "f32"),
    "fma(f16,f16,1.0)": (call(tl.fma), on("f16"), on("f16"), 1.0, "f32"),
    "fdiv(f16,f16)": (call(tl.fdiv), on("f16"), on("f16"), "f16"),
    "sum(f16)": (call(tl.sum, axis=0), on("f16"), "f16"),
    "sum(bf16)": (call(tl.sum, axis=0), on("bf16"), "bf16"),
    "sum(i1)": (call(tl.sum, axis=0), on("i1"), "u32"),
    "sum(i8)": (call(tl.sum, axis=0), on("i8"), "i32"),
    "sum(u8)": (call(tl.sum, axis=0), on("u8"), "u32"),
    "sum(i64)": (call(tl.sum, axis=0), on("i64"), "i64"),
    "sum(i8, dtype=f32)": (call(tl.sum, axis=0, dtype=tl.float32), on("i8"), "f32"),
    "max(f16)": (call(tl.max, axis=0), on("f16"), "f32"),
    "max(u8)": (call(tl.max, axis=0), on("u8"), "i32"),
    "max(i1)": (call(tl.max, axis=0), on("i1"), "i32"),
    "max(u32)": (call(tl.max, axis=0), on("u32"), "u32"),
    "min(bf16)": (call(tl.min, axis=0), on("bf16"), "f32"),
    "cumsum(bf16)": (call(tl.cumsum), on("bf16"), "f32"),
    "cumsum(i1)": (call(tl.cumsum), on("i1"), "u32"),
    "cumsum(f16)": (call(tl.cumsum), on("f16"), "f16"),
    "cumprod(i8)": (call(tl.cumprod), on("i8"), "i8"),
    "cumprod(bf16)": (call(tl.cumprod), on("bf16"), "f32"),
    "xor_sum(i8)": (call(tl.xor_sum, axis=0), on("i8"), "i8"),
    "reduce_or(i1)": (call(tl.reduce_or, axis=0), on("i1"), "i1"),
    "topk(f16)": (call(tl.topk, k=4), on("f16"), "f32"),
    "topk(i8)": (call(tl.topk, k=4), on("i8"), "i32"),
    "topk(f16, all)": (call(tl.topk, k=8), on("f16"), "f16"),
    "sort(f16)": (call(tl.sort), on("f16"), "f16"),
    "flip(i8)": (call(tl.flip, dim=0), on("i8"), "i8"),
    "histogram": (call(tl.histogram, num_bins=16), on("i32"), "i32"),
    "randint": (call(tl.randint), 42, on("i32"), "u32"),
    "rand": (call(tl.rand), 42, on("i32"), "f32"),
    "dot(i8)": (call(tl.dot), on("i8", 16, 32), on("i8", 32, 16), "i32"),
    "dot(bf16)": (call(tl.dot), on("bf16", 16, 32), on("bf16", 32, 16), "f32"),
    "dot(f16)": (call(tl.dot), on("f16", 16, 32), on("f16", 32, 16), "f32"),
    "dot(f16, out=f16)": (call(tl.dot, out_dtype=tl.float16), on("f16", 16, 32), on("f16", 32, 16), "f16"),
    "dot(f8, out=f16)": (call(tl.dot, out_dtype=tl.float16), on("f8e5", 16, 32), on("f8e4nv", 32, 16), "f16"),
    "dot(f64)": (call(tl.dot), on("f64", 16, 32), on("f64", 32, 16), "f64"),
    "umulhi(i32)": (call(tl.umulhi), on("i32"), on("i32"), "i32"),
    "argmax": (call(tl.argmax, axis=0), on("f16"), "i32"),
    "cdiv(i32,3)": (call(tl.cdiv), on("i32"), 3, "i32"),
    "cdiv(7,3)": (call(tl.cdiv), 7, 3, "i32"),
    "abs(f8)": (call(tl.abs), on("f8e4nv"), "f8e4nv"),
    "program_id": (call(tl.program_id), 0, "i32"),
    "arange": (call(tl.arange), 0, 8, "i32"),
}


@pytest.mark.parametrize("name", CASES)
def test_result_dtype(b, name):
    fn, *operands, expected = CASES[name]
    assert element(run(b, fn, *operands)) == expected


@pytest.mark.parametrize("name", CASES)
def test_eager_kernels_give_the_same_types(name):
    fn, *operands, expected = CASES[name]
    b = EagerBench()
    with using(b):
        out = run(b, fn, *operands)
    assert element(out) == expected and out.handle.data.shape == out.shape


def test_maximum_with_indices_keeps_the_type(b):
    value, index = b.call(tl.max, (b.tile("f16", 8),), {"axis": 0, "return_indices": True})
    assert (element(value), element(index)) == ("f16", "i32")
    value, _ = b.call(tl.max, (b.tile("bf16", 8),), {"axis": 0, "return_indices": True})
    assert element(value) == "f32"


@pytest.mark.parametrize("symbol", ["==", "!=", "<", "<=", ">", ">="])
def test_comparisons_give_bools(b, symbol):
    out = operators.compare(b, symbol, b.tile("u32", 8), -1)
    assert (element(out), out.shape) == ("i1", (8,))
    compared = out.handle.operands[0].type
    assert compared.element is T.u32  # -1 becomes a tensor first, and u32 wins over i32


SHAPES = {
    "x[:, None]": (lambda b, x: operators.getitem(b, x, (slice(None), None)), (4,), (4, 1)),
    "x[None, :]": (lambda b, x: operators.getitem(b, x, (None, slice(None))), (4,), (1, 4)),
    "x[:, None, :]": (lambda b, x: operators.getitem(b, x, (slice(None), None, slice(None))), (4,), (4, 1)),
    "x[None]": (lambda b, x: operators.getitem(b, x, None), (4,), (1, 4)),
    "x[:]": (lambda b, x: operators.getitem(b, x, slice(None)), (4,), (4,)),
    "x[:, None, None]": (lambda b, x: operators.getitem(b, x, (slice(None), None, None)), (4,), (4, 1, 1)),
    "x[None, None]": (lambda b, x: operators.getitem(b, x, (None, None)), (), (1, 1)),
    "scalar[:]": (lambda b, x: operators.getitem(b, x, slice(None)), (), ()),
    "scalar[None, :]": (lambda b, x: operators.getitem(b, x, (None, slice(None))), (), (1,)),
    "scalar[:, None]": (lambda b, x: operators.getitem(b, x, (slice(None), None)), (), (1,)),
    "scalar[:, None, None]": (lambda b, x: operators.getitem(b, x, (slice(None), None, None)), (), (1, 1)),
    "x[i, j]": (lambda b, x: operators.getitem(b, x, (0, -1)), (4, 8), ()),
    "broadcast_to": (call(tl.broadcast_to), (4, 1), 4, 8, (4, 8)),
    "broadcast_to tuple": (call(tl.broadcast_to), (4, 1), [4, 8], (4, 8)),
    "expand_dims": (call(tl.expand_dims), (4,), [0, -1], (1, 4, 1)),
    "reshape": (call(tl.reshape), (4, 8), 2, 16, (2, 16)),
    "reshape ()": (call(tl.reshape), (1, 1), [], ()),
    "ravel": (call(tl.ravel), (4, 8), (32,)),
    "trans": (call(tl.trans), (2, 4, 8), (2, 8, 4)),
    "permute": (call(tl.permute), (2, 4, 8), (2, 0, 1), (8, 2, 4)),
    "gather": (lambda b, x: b.call(tl.gather, (x, b.tile("i32", 2, 8), 0), {}), (4, 8), (2, 8)),
    "sum keep": (call(tl.sum, axis=1, keep_dims=True), (4, 8), (4, 1)),
    "sum all": (call(tl.sum), (4, 8), ()),
    "sum all keep": (call(tl.sum, keep_dims=True), (4, 8), (1, 1)),
    "sum -1": (call(tl.sum, axis=-1), (4, 8), (4,)),
    "cumsum": (call(tl.cumsum, axis=1), (4, 8), (4, 8)),
    "topk 1": (call(tl.topk, k=1), (4, 8), (4, 1)),
    "zeros_like": (call(tl.zeros_like), (4, 8), (4, 8)),
    "item": (lambda b, x: x.item.__func__.fn(b, x), (1, 1), ()),
}


@pytest.mark.parametrize("name", SHAPES)
def test_result_shape(b, name):
    fn, shape, *operands, expected = SHAPES[name]
    assert fn(b, b.tile("f32", *shape), *operands).shape == expected


def test_join_split_interleave(b):
    x, y = b.tile("f32", 4, 1), b.tile("f32", 8)
    joined = b.call(tl.join, (x, y), {})
    assert joined.shape == (4, 8, 2)
    assert [part.shape for part in b.call(tl.split, (joined,), {})] == [(4, 8), (4, 8)]
    assert b.call(tl.interleave, (y, y), {}).shape == (16,)
    assert b.call(tl.interleave, (b.tile("f32"), b.tile("f32")), {}).shape == (2,)
    assert b.call(tl.cat, (y, y), {"can_reorder": True}).shape == (16,)


def test_batched_dot_has_one_batch_axis():
    b = Bench()
    out = b.call(tl.dot, (b.tile("f16", 2, 4, 16, 32), b.tile("f16", 2, 4, 32, 8)), {})
    assert out.shape == (2, 4, 16, 8)
    assert T.shape(out.handle.operands[0].type) == (8, 16, 8)


def test_a_larger_mask_enlarges_a_load(b):
    pointers = operators.binary(b, "+", b.tile("ptr<f16>"), b.tile("i32", 4, 1))
    out = b.call(tl.load, (pointers, b.tile("i1", 1, 8)), {"other": 0})
    assert (out.shape, element(out)) == ((4, 8), "f16")


def test_bools_are_bytes_in_memory(b):
    loaded = b.call(tl.load, (b.tile("ptr<i1>"),), {})
    assert element(loaded) == "i1"
    read = loaded.handle.operands[0]
    assert read.kind.name == "load" and read.type is T.i8
