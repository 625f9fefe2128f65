"""What is passed to the collection's functions: any strides, nothing at all, and mistakes, which get a clear error."""

import numpy as np
import pytest

from tritium.kernels import (
    add_relu_mul,
    arrays,
    attention,
    checks,
    conv2d,
    cross_entropy,
    decode_attention,
    descriptor_matmul,
    dropout,
    fused_mlp,
    grouped_matmul,
    layer_norm,
    matmul,
    max_pool,
    rms_norm,
    rotary,
    scaled_matmul,
    silu,
    softmax,
    transpose,
    vector_add,
)
from tritium.kernels.arrays import like_device
from tritium.kernels.registry import find, kernels

NAMES = [name for name in kernels() if "tuned" not in name and name != "gemm_v4"]
DEVICES = ["numpy", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


ANY_AXES = ("element-wise", "double buffering", "dropout", "dropout, backward", "reduction", "histogram", "max pooling")


def is_array(x):
    return hasattr(x, "dtype")


def spread(x):
    """The same values with a gap after each element along every axis."""
    if isinstance(x, np.ndarray):
        wide = np.full([2 * n for n in x.shape], 99).astype(x.dtype)
    else:
        wide = x.new_empty([2 * n for n in x.shape]).fill_(99) if x.itemsize > 1 else x.repeat_interleave(2, 0)
        wide = wide if x.itemsize > 1 else wide.repeat_interleave(2, 1)
    view = wide[tuple(slice(None, None, 2) for _ in x.shape)]
    view[...] = x
    return view


def turned(x):
    """The same values with the axes in the other order in memory."""
    axes = range(x.ndim)[::-1]
    return np.ascontiguousarray(x.T).T if isinstance(x, np.ndarray) else x.permute(*axes).contiguous().permute(*axes)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("how", [spread, turned])
@pytest.mark.parametrize("name", [name for name in NAMES if name != "matmul_groups"])
def test_strides(name, how, device):
    """Any strides give the same result."""
    if device != "numpy":
        pytest.importorskip("torch")
    record = find(name)
    arguments = record.make_arguments(20, record.dtypes[0], device)
    moved = tuple(how(x) if is_array(x) else x for x in arguments)
    assert record.error(*moved) <= record.tolerance(record.dtypes[0])


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("conv2d", "filter2d", "max_pool")])
def test_nothing(name):
    """No elements give results without elements, zeros where a sum is asked for, or an error that says why not."""
    record = find(name)
    try:
        arguments = record.make_arguments(0, record.dtypes[0], "numpy")
        results = record.wrapper(*arguments)
    except ValueError as error:
        assert "must" in str(error)
        assert name in ("cross_entropy", "topk")
        return
    for result in results if isinstance(results, (tuple, list)) else (results,):
        assert not np.any(np.asarray(result, np.float64)), result


def test_no_images():
    assert conv2d.conv2d(ones(0, 2, 5, 5), ones(3, 2, 3, 3)).shape == (0, 3, 3, 3)
    assert conv2d.filter2d(ones(0, 5, 5), ones(3, 3)).shape == (0, 3, 3)
    assert max_pool.max_pool(ones(0, 5, 5)).shape == (0, 2, 2)
    assert not conv2d.conv2d(ones(1, 0, 5, 5), ones(3, 0, 3, 3)).any()
    assert matmul.matmul(ones(2, 0), ones(0, 3)).tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", [name for name in NAMES if name != "matmul_groups"])
def test_mistakes(name, device):
    """Each array in turn is none, of a type that no kernel takes, on two axes more, and of another kind."""
    torch = pytest.importorskip("torch")
    record = find(name)
    arguments = list(record.make_arguments(16, record.dtypes[0], device))
    alone = sum(map(is_array, arguments)) == 1
    for i, x in enumerate(arguments):
        if not is_array(x):
            continue
        complex_ = np.zeros(x.shape, np.complex64) if device == "numpy" else torch.zeros_like(
            x, dtype=torch.complex64)  # fmt: skip
        other = torch.zeros(tuple(x.shape)) if device == "numpy" else np.zeros(tuple(x.shape), np.float32)
        for wrong, kind in (([1.0], TypeError), (complex_, TypeError), (x[None, None], ValueError), (other, TypeError)):
            changed = [*arguments[:i], wrong, *arguments[i + 1:]]
            if alone and (wrong is other or kind is ValueError and record.group in ANY_AXES) or (name, i, kind) == (
                    "filter2d", 0, ValueError):
                continue  # alone, an array of the other kind is no mistake, nor are more axes for some
            with pytest.raises(kind) as caught:
                record.wrapper(*changed)
            assert "must" in str(caught.value), caught.value


f32 = np.float32


def ones(*shape, dtype=f32):
    return np.ones(shape, dtype)


MISTAKES = [
    (lambda: fused_mlp.fused_mlp(ones(5, 3), ones(3), ones(3, 8), ones(8)), ValueError,
     r"fused_mlp: weight has the shape \(3, 8\), that is K = 8 .* Transpose weight: weight.T"),
    (lambda: fused_mlp.fused_mlp(ones(5, 3), ones(3), ones(8, 3), ones(7)), ValueError, r"bias has the shape \(7,\)"),
    (lambda: attention.attention(ones(1, 8, 16), ones(1, 5, 16), ones(1, 5, 16)), ValueError,
     r"attention: k has the shape \(1, 5, 16\), that is N = 5 .* q of shape \(1, 8, 16\) has N = 8"),
    (lambda: attention.attention(*[ones(1, 8, 20)] * 3), ValueError, r"D = 20; .* power of two.*zeros to 32"),
    (lambda: softmax.softmax(ones(3, 4, dtype=np.int32)), TypeError,
     r"softmax: x has the type int32; it must be one of .* Convert it: x.astype\('float32'\)"),
    (lambda: softmax.softmax(ones(3)), ValueError, r"x has 1 axes, its shape is \(3,\).*\(M, N\)"),
    (lambda: softmax.softmax(ones(1, 200_000)), ValueError, "softmax.online"),
    (lambda: softmax.naive(ones(3, 4, dtype=np.int64)), TypeError, "naive: x has the type int64"),
    (lambda: vector_add.vector_add(ones(3), ones(4)), ValueError, r"y has the shape \(4,\).*x of shape \(3,\)"),
    (lambda: vector_add.vector_add(ones(3), ones(3, dtype=np.float64)), TypeError, r"y.astype\(x.dtype\)"),
    (lambda: vector_add.vector_add([1.0], ones(1)), TypeError, r"x is a list; .* np.asarray\(x\)"),
    (lambda: add_relu_mul.add_relu_mul(ones(3, dtype=np.int8), ones(3, dtype=np.int8), 2), TypeError, "int8"),
    (lambda: silu.silu("x"), TypeError, "x is a str"),
    (lambda: matmul.matmul(ones(2, 3), ones(3, 4), precision="fp64"), ValueError, "precision is 'fp64'"),
    (lambda: matmul.matmul(ones(2, 3), ones(3, 4), activation="relu"), ValueError, "activation is 'relu'"),
    (lambda: matmul.matmul(ones(2, 3), ones(3, 4), out_dtype="int8"), ValueError, "out_dtype is 'int8'"),
    (lambda: matmul.matmul_fp8(ones(2, 2), ones(2, 2)), TypeError, "float8_e4m3fn, float8_e5m2"),
    (lambda: matmul.matmul(ones(4, 3), ones(4, 3)), ValueError, "K = 4"),
    (lambda: matmul.matmul(ones(4, 3), ones(5, 3)), ValueError, r"Transpose b: b.T"),
    (lambda: descriptor_matmul.descriptor_matmul(ones(4, 5), ones(5, 4)), ValueError, "a has rows 20 bytes apart"),
    (lambda: descriptor_matmul.descriptor_matmul(ones(4, 4), ones(4, 5)), ValueError, "b has rows 20 bytes apart"),
    (lambda: scaled_matmul.scaled_matmul(*[x for q in (scaled_matmul.quantize_rows, scaled_matmul.quantize_rows)
                                           for x in q(ones(200, 200))][::2],
                                         ones(200, 2), ones(2, 1)), ValueError, r"b_scale has the shape \(2, 1\)"),
    (lambda: grouped_matmul.grouped_matmul([(ones(2, 3), ones(3, 4)), (ones(2, 3), ones(2, 4))]), ValueError,
     r"pairs\[1\]\[1\] has the shape \(2, 4\)"),
    (lambda: dropout.dropout(ones(3), 1.5, 0), ValueError, "p is 1.5"),
    (lambda: dropout.dropout(ones(3), 0.5, 0.5), TypeError, "seed is 0.5"),
    (lambda: layer_norm.layer_norm(ones(3, 4), ones(3), ones(4)), ValueError, r"weight has the shape \(3,\)"),
    (lambda: layer_norm.layer_norm_backward(ones(3, 4), ones(3, 4), ones(4), ones(2), ones(3)), ValueError, "mean"),
    (lambda: rms_norm.rms_norm(ones(3, 4), ones(4, 1)), ValueError, "weight has 2 axes"),
    (lambda: conv2d.conv2d(ones(1, 1, 2, 2), ones(1, 1, 3, 3)), ValueError, "windows of 3 x 3.*larger pad"),
    (lambda: conv2d.conv2d(ones(1, 1, 5, 5), ones(1, 1, 3, 3), step=0), ValueError, "step is 0"),
    (lambda: max_pool.max_pool(ones(5, 5), window=3, pad=2), ValueError, "pad is 2"),
    (lambda: max_pool.max_pool(ones(2, 2), window=3), ValueError, "smaller window"),
    (lambda: cross_entropy.cross_entropy(ones(2, 3), ones(2)), TypeError, "target has the type float32.*int32, int64"),
    (lambda: rotary.rotary(ones(1, 2, 1, 8), ones(2, 3), ones(2, 3)), ValueError, "D = 8 and cos has 3 columns"),
    (lambda: transpose.transpose(ones(2, 2, 2)), ValueError, "x has 3 axes"),
    (lambda: decode_attention.decode_attention(ones(1, 3, 16), *[ones(1, 2, 5, 16)] * 2), ValueError, "3 heads"),
    (lambda: decode_attention.decode_attention(ones(1, 2, 16), *[ones(1, 2, 5, 16)] * 2, np.int32([6])), ValueError,
     "from 6 to 6"),
]


@pytest.mark.parametrize("call, kind, message", MISTAKES)
def test_the_error_names_the_fix(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_devices():
    """Tensors on two devices; torch's meta device stands for another one."""
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match=r"y is on meta, but x is on cpu.*y.to\(x.device\)"):
        vector_add.vector_add(torch.ones(3), torch.ones(3, device="meta"))


def test_types_of_an_argument_of_its_own():
    """Words after the colon; the others must still agree."""
    x, at = ones(2, 3), np.zeros(2, np.int64)
    for _ in range(2):  # the second time it is known
        assert checks.arguments("f", x=(x, "M N"), at=(at, "M: int32 int64")) == {"M": 2, "N": 3}
    with pytest.raises(TypeError, match=r"at has the type float32; it must be one of int32, int64"):
        checks.arguments("f", x=(x, "M N"), at=(ones(2), "M: int32 int64"))
    with pytest.raises(ValueError, match=r"at has the shape \(3,\), that is M = 3"):
        checks.arguments("f", x=(x, "M N"), at=(np.zeros(3, np.int32), "M: int32 int64"))
    with pytest.raises(TypeError, match=r"mean has the type float16; it must be one of float32"):
        layer_norm.layer_norm_backward(x, x, ones(3), ones(2, dtype=np.float16), ones(2))


def test_what_was_found_belongs_to_the_caller():
    x = ones(2, 3)
    checks.arguments("g", x=(x, "M N"))["M"] = 7
    assert checks.arguments("g", x=(x, "M N")) == {"M": 2, "N": 3}


@pytest.mark.parametrize("device", DEVICES)
def test_flat_arrays(device):
    """They are counted, whatever their axes; what has no elements has none."""
    for shape, count in (((), 1), ((0, 4), 0), ((7,), 7), ((2, 3, 4), 24)):
        x = like_device(np.zeros(shape, f32), device)
        for _ in range(2):
            assert checks.flat("h", x=x, y=x) == checks.count("h", x) == count
    with pytest.raises(ValueError, match="y has the shape"):
        checks.flat("h", x=like_device(ones(3), device), y=like_device(ones(4), device))
    with pytest.raises(TypeError, match="x is a list"):
        checks.flat("h", x=[1.0])
    for _ in range(2):  # what was refused is not remembered
        with pytest.raises(TypeError, match="x is a list"):
            checks.count("h", [1.0])
        with pytest.raises(TypeError, match="h: x has the type float32; it must be one of int32"):
            checks.count("h", like_device(ones(3), device), ("int32",))


def test_arrays_that_32_bits_do_not_count():
    many = np.broadcast_to(np.float32(1), (1 << 31,))
    with pytest.raises(ValueError, match="2147483648 elements; the kernel counts them in 32 bits"):
        checks.flat("h", x=many)
    with pytest.raises(ValueError, match="2147483648 elements; the kernel counts them in 32 bits"):
        checks.count("h", many)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("make", [arrays.empty, arrays.zeros])
def test_new_arrays(device, make):
    """Of any shape, in row-major order whatever the order of the other one."""
    x = like_device(np.ones((2, 3, 4), f32), device)
    turned = x.T if device == "numpy" else x.permute(2, 1, 0)
    assert arrays.strides(make(turned)) == (6, 2, 1) and tuple(make(turned).shape) == (4, 3, 2)
    for shape in ((), (0,), (5,), (2, 0, 3)):
        made = make(x, shape, "int32")
        assert tuple(made.shape) == shape and arrays.dtype_name(made) == "int32"
        assert tuple(make(x, shape).shape) == tuple(make(make(x, shape)).shape) == shape
        assert arrays.on_gpu(made) == arrays.on_gpu(x)


def test_threads_that_a_function_counts_on(threads):
    for n in (3, 1):
        threads(n)
        assert arrays.multiprocessors(ones(1)) == n


def test_a_target_that_is_no_class_has_no_loss():
    loss, _ = cross_entropy.cross_entropy(ones(4, 3), np.array([0, 3, -1, -100]), with_gradient=True)
    assert np.isnan(loss).tolist() == [False, True, True, False] and loss[3] == 0


def test_a_transposed_weight_of_a_square_layer_is_what_it_says(rng):
    """A view with other strides is read by its strides."""
    x, weight = rng.standard_normal((2, 16, 16)).astype(f32)
    got = fused_mlp.fused_mlp(x, ones(16), weight.T, ones(16))
    np.testing.assert_allclose(got, fused_mlp.reference(x, ones(16), weight.T, ones(16)), rtol=1e-4, atol=1e-4)
