"""Mistakes of those who come from NumPy and PyTorch."""

# ruff: noqa: B007, F841, UP031

import tritium as triton
import tritium.language as tl

from .cases import mistake


@triton.jit
def returns_nothing(x):
    y = x + 1


@triton.jit
def returns_sometimes(x, n):
    if n > 3:
        return x * 2


@triton.jit
def returns_from_a_loop(x, n):
    for i in range(n):
        if x > i:
            return x


@mistake(out_ptr="*fp32", x_ptr="*fp32")
def stored_pointer(out_ptr, x_ptr):
    offsets = tl.arange(0, 64)
    tl.store(out_ptr + offsets, x_ptr + offsets)


@mistake(out_ptr="*fp32", x_ptr="*fp32")
def indexed_pointer(out_ptr, x_ptr):
    i = tl.arange(0, 64)
    out_ptr[i] = x_ptr[i]


@mistake(out_ptr="*fp32")
def assigned_pointer(out_ptr):
    out_ptr[3] = 1.0


@mistake(out_ptr="*fp32", x_ptr="*fp32")
def helper_without_return(out_ptr, x_ptr):
    tl.store(out_ptr, returns_nothing(tl.load(x_ptr)))


@mistake(out_ptr="*fp32", x_ptr="*fp32")
def variable_without_value(out_ptr, x_ptr):
    y = returns_nothing(tl.load(x_ptr))
    tl.store(out_ptr, y * 2)


@mistake(out_ptr="*fp32", x_ptr="*fp32", n="i32")
def helper_returns_on_one_path(out_ptr, x_ptr, n):
    tl.store(out_ptr, returns_sometimes(tl.load(x_ptr), n))


@mistake(out_ptr="*fp32", x_ptr="*fp32", n="i32")
def helper_returns_from_a_loop(out_ptr, x_ptr, n):
    tl.store(out_ptr, returns_from_a_loop(tl.load(x_ptr), n))


@mistake(x_ptr="*fp32")
def kernel_returns_a_value(x_ptr):
    return tl.load(x_ptr)


@mistake(x_ptr="*fp32")
def relu_of_torch(x_ptr):
    tl.store(x_ptr, tl.relu(tl.load(x_ptr)))


@mistake(x_ptr="*fp32")
def mean_of_torch(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 64))
    tl.store(x_ptr, x.mean())


@mistake(x_ptr="*fp32")
def matmul_of_torch(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :])
    y = tl.matmul(x, x)


@mistake(x_ptr="*fp32")
def tanh_of_torch(x_ptr):
    tl.store(x_ptr, tl.tanh(tl.load(x_ptr)))


@mistake(x_ptr="*fp32")
def astype_of_numpy(x_ptr):
    y = tl.load(x_ptr).astype(tl.float16)


@mistake(x_ptr="*fp32", n="i32")
def block_of_run_time_size(x_ptr, n):
    tl.store(x_ptr + tl.arange(0, n), 0.0)


@mistake(x_ptr="*fp32")
def breakpoint_in_a_kernel(x_ptr):
    breakpoint()


@mistake(x_ptr="*fp32")
def debugger_in_a_kernel(x_ptr):
    import pdb
    pdb.set_trace()


@mistake(x_ptr="*fp32")
def appended_list(x_ptr):
    parts = []
    parts.append(tl.load(x_ptr))


@mistake(x_ptr="*fp32")
def max_of_one_block(x_ptr):
    tl.store(x_ptr, max(tl.load(x_ptr + tl.arange(0, 64))))


@mistake(x_ptr="*fp32")
def sum_of_python(x_ptr):
    tl.store(x_ptr, sum(tl.load(x_ptr + tl.arange(0, 64))))


@mistake(x_ptr="*fp32")
def shape_of_a_pointer(x_ptr):
    n = x_ptr.shape[0]


@mistake(x_ptr="*fp32")
def len_of_a_pointer(x_ptr):
    n = len(x_ptr)


@mistake(n="i32")
def loop_over_a_number(n):
    for i in n:
        pass


@mistake(x_ptr="*fp32")
def loop_over_a_block(x_ptr):
    for x in tl.load(x_ptr + tl.arange(0, 64)):
        pass


@mistake(n="i32")
def printed_format(n):
    print("n is %d" % n)


@mistake(n="i32")
def printed_texts(n):
    print("n is", n, "now")


@mistake(out_ptr="*fp32")
def arange_with_one_end(out_ptr):
    tl.store(out_ptr + tl.arange(64), 0.0)


@mistake(out_ptr="*fp32")
def arange_of_numpy_without_its_module(out_ptr):
    tl.store(out_ptr + arange(0, 64), 1.0)  # noqa: F821


@mistake(out_ptr="*fp32")
def dtype_without_its_module(out_ptr):
    tl.store(out_ptr, tl.full((), 1, float32))  # noqa: F821


@mistake(out_ptr="*fp32", x_ptr="*fp32")
def half_of_a_tile(out_ptr, x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 64))
    tl.store(out_ptr + tl.arange(0, 32), x[0:32])


@mistake(out_ptr="*fp32", x_ptr="*fp32")
def elements_by_condition(out_ptr, x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 64))
    tl.store(out_ptr, tl.sum(x[x > 0]))


@mistake(x_ptr="*fp32")
def assigned_shape(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 64))
    x.shape[0] = 32


@mistake(out_ptr="*fp32", bias_ptr=[None])
def moved_pointer_that_is_none(out_ptr, bias_ptr):
    bias_ptr += 16
    tl.store(out_ptr, tl.load(bias_ptr))


@mistake(out_ptr="*fp32", limit=[None])
def compared_argument_that_is_none(out_ptr, limit):
    if limit > 0:
        tl.store(out_ptr, 1.0)


@mistake(out_ptr="*fp32", x_ptr="*fp32")
def stored_list(out_ptr, x_ptr):
    i = tl.arange(0, 64)
    tl.store(out_ptr + i, [tl.load(x_ptr + i), 1])


@mistake(x_ptr="*fp32")
def stride_of_a_pointer(x_ptr):
    n = x_ptr.stride(0)


@mistake(x_ptr="*fp32")
def method_call_of_an_attribute(x_ptr):
    n = tl.load(x_ptr + tl.arange(0, 64)).numel()


@mistake(out_ptr="*fp32", n="i32")
def type_called_as_a_function(out_ptr, n):
    tl.store(out_ptr, tl.float32(n))


@mistake(out_ptr="*fp32")
def infinity_of_torch(out_ptr):
    tl.store(out_ptr, -tl.inf)


@mistake(out_ptr="*fp32")
def generator(out_ptr):
    yield out_ptr


@mistake(x_ptr="*fp32", BLOCK=["64"])
def block_size_that_is_text(x_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK


@mistake(x_ptr="*fp32")
def axis_that_is_text(x_ptr):
    i = tl.program_id("x")


@mistake(x_ptr="*fp32")
def arange_to_a_negative_end(x_ptr):
    i = tl.arange(0, -64)


@mistake()
def dot_that_lacks_a_transpose():
    q, k = tl.zeros((16, 64), tl.float16), tl.zeros((32, 64), tl.float16)
    s = tl.dot(q, k)


@mistake(out_ptr="*fp32", x_ptr="*fp32")
def other_of_a_store(out_ptr, x_ptr):
    i = tl.arange(0, 64)
    tl.store(out_ptr + i, tl.load(x_ptr + i), mask=i < 50, other=0.0)


@mistake(out_ptr="*i32", x_ptr="*fp32")
def bits_before_comparisons(out_ptr, x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 64))
    tl.store(out_ptr + tl.arange(0, 64), tl.where(x > 0.0 & x < 1.0, 1, 0))


@mistake(out_ptr="*fp32", x_ptr="*fp32", n="i32")
def mask_with_an_axis_more(out_ptr, x_ptr, n):
    i = tl.arange(0, 64)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i[:, None] < n))


@mistake(out_ptr="*fp32", x_ptr="*fp32", k=5)
def five_largest(out_ptr, x_ptr, k: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, 8), tl.topk(tl.load(x_ptr + tl.arange(0, 64)), k))


@mistake(out_ptr="*fp32", x_ptr="*fp32")
def positions_of_a_sort(out_ptr, x_ptr):
    x, order = tl.sort(tl.load(x_ptr + tl.arange(0, 64)))
    tl.store(out_ptr + order, x)


@mistake(out_ptr="*fp32", x_ptr="*fp32")
def max_of_a_tile_and_a_number(out_ptr, x_ptr):
    tl.store(out_ptr, tl.max(tl.load(x_ptr + tl.arange(0, 64)), 0.0))


@mistake(out_ptr="*fp32", x_ptr="*fp32")
def min_of_two_tiles(out_ptr, x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 64))
    tl.store(out_ptr + tl.arange(0, 64), tl.min(x, -x))


@mistake(out_ptr="*fp32", x_ptr="*fp32")
def maximum_of_one_tile(out_ptr, x_ptr):
    tl.store(out_ptr, tl.maximum(tl.load(x_ptr + tl.arange(0, 64))))


@mistake(out_ptr="*i32", x_ptr="*fp32")
def argmax_without_axis(out_ptr, x_ptr):
    tl.store(out_ptr, tl.argmax(tl.load(x_ptr + tl.arange(0, 64))))


@mistake(out_ptr="*fp32", n="i32")
def loaded_descriptor(out_ptr, n):
    rows = tl.make_tensor_descriptor(out_ptr, [n, 16], [16, 1], [16, 16])
    tl.store(rows, tl.load(rows) * 2)


@mistake(out_ptr="*fp32", n="i32")
def descriptor_stores_first_what(out_ptr, n):
    rows = tl.make_tensor_descriptor(out_ptr, [n, 16], [16, 1], [16, 16])
    rows.store(rows.load([0, 0]), [16, 0])


@mistake(out_ptr="*fp32", DIM=64)
def root_of_an_integer_constant(out_ptr, DIM: tl.constexpr):
    tl.store(out_ptr, 1 / tl.sqrt(DIM))


@mistake(out_ptr="*fp32", n=[None])
def unrolled_over_none(out_ptr, n: tl.constexpr):
    for i in tl.static_range(n):
        tl.store(out_ptr + i, 0.0)
