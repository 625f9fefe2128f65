"""The standard library, written in the language itself: compiled into the kernel that calls it."""

from __future__ import annotations

from ..errors import fail
from . import core
from .core import constexpr
from .source.function import constexpr_function, device

__all__ = [
    "argmax", "argmin", "atomic_poll", "bitonic_merge", "cdiv", "cumprod", "cumsum", "flip", "interleave", "max", "min",
    "ravel", "reduce_or", "sigmoid", "softmax", "sort", "squeeze", "sum", "swizzle2d", "topk", "unsqueeze", "xor_sum",
    "zeros", "zeros_like",
]  # fmt: skip

# ---------------------------------------------------------------------------------------------------------------------
# Compile-time arithmetic


@constexpr_function
def _log2(n):
    """The exponent of a power of two."""
    return n.bit_length() - 1


@constexpr_function
def _is_power_of_two(n):
    """Whether n is a power of two."""
    return n > 0 and n & (n - 1) == 0


@constexpr_function
def _sum_dtype(dtype, asked):
    """In what integers are summed: narrow ones would overflow."""
    if asked is not None:
        return asked
    if dtype.is_int() and dtype.primitive_bitwidth < 32:
        return core.int32 if dtype.is_int_signed() else core.uint32
    return dtype


@constexpr_function
def _extreme_dtype(dtype):
    """In what `max` and `min` work: 32 bits at least."""
    if dtype.primitive_bitwidth >= 32:
        return dtype
    return core.float32 if dtype.is_floating() else core.int32


@constexpr_function
def _scanned_dtype(dtype, rules):
    """In what scans, and reductions with indices, work: up to 3.8 not in bf16."""
    return core.float32 if dtype.is_bf16() and not rules.keeps_bf16 else dtype


@constexpr_function
def _product_dtype(dtype, asked, rules):
    """In what running products work: from 3.9 on narrow integers would overflow less."""
    return _sum_dtype.fn(dtype, asked) if asked is not None or rules.widens_products else dtype


@constexpr_function
def _last_axis(dim, rank, what):
    """The last axis, which is the only one that sorting knows."""
    if dim is not None and dim != rank - 1:
        raise ValueError(f"{what}: only the last axis is supported, dim must be {rank - 1} or None, got {dim}")
    return rank - 1


@constexpr_function
def _wrap(dim, rank):
    """An axis counted from either end; the last where none is given."""
    if dim is None:
        return rank - 1
    if not -rank <= dim < rank:
        raise ValueError(f"invalid axis {dim}. Expected {-rank} <= axis < {rank}")
    return dim % rank


@constexpr_function
def _is_axis(dim, rank):
    return -rank <= dim < rank


@constexpr_function
def _without(shape, axis):
    """The shape without one axis."""
    return (*shape[:axis], *shape[axis + 1:])


@constexpr_function
def _check_count(k, size):
    """Refuse a number of elements that `topk` does not give."""
    if k < 1 or k & (k - 1):
        raise fail(ValueError, f"topk: k must be a power of two, got {k}",
                        hint=f"take {1 << k.bit_length()}, and mask the rest when they are stored")
    if k > size:
        raise fail(ValueError, f"topk: k must not exceed the size of the axis, got {k} of {size}",
                        hint="load more elements: the rest is masked with the smallest value as `other`")
    return k


@constexpr_function
def _line(rank, axis, size):
    """A shape of ones but for one axis."""
    return tuple(size if k == axis else 1 for k in range(rank))


@constexpr_function
def _pair_shape(shape, axis, distance):
    """The shape in which elements `distance` apart along `axis` are neighbours along an axis of size 2."""
    size = shape[axis]
    return (*shape[:axis], size // (2 * distance), 2, distance, *shape[axis + 1:])


@constexpr_function
def _moved_last(rank, axis):
    """The permutation that makes an axis the last."""
    return (*(k for k in range(rank) if k != axis), axis)


@constexpr_function
def _moved_back(rank, axis):
    """The permutation that brings the last axis back to its place."""
    return (*range(axis), rank - 1, *range(axis, rank - 1))


# ---------------------------------------------------------------------------------------------------------------------
# Making and reshaping


@device
def zeros(shape, dtype):
    """A tile of zeros.

        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    """
    return core.full(shape, 0, dtype)


@device
def zeros_like(input):
    """Zeros in the shape and dtype of another tensor.

        acc = tl.zeros_like(x)
    """
    return zeros(input.shape, input.dtype)


@device
def squeeze(x, dim):
    """The tensor without axis `dim`, whose size is 1.

        row = tl.squeeze(tile, 0)
    """
    core.static_assert(_is_axis(dim, len(x.shape)), "squeeze: dim is out of range")
    axis: constexpr = _wrap(dim, len(x.shape))
    core.static_assert(x.shape[axis] == 1, "squeeze: the size of the axis must be 1")
    return core.reshape(x, _without(x.shape, axis))


@device
def unsqueeze(x, dim):
    """The tensor with a new axis of size 1 at `dim`; -1 puts it after the last.

        column = tl.unsqueeze(x, -1)
    """
    core.static_assert(_is_axis(dim, len(x.shape) + 1), "unsqueeze: dim is out of range")
    return core.expand_dims(x, _wrap(dim, len(x.shape) + 1))


@device
def ravel(x, can_reorder=False):
    """All elements along one axis.

        flat = tl.ravel(tile)
    """
    return core.reshape(x, (x.numel,), can_reorder=can_reorder)


@device
def interleave(a, b):
    """The elements of two tensors in turn along the last axis.

        tl.interleave(even, odd)        # even[0], odd[0], even[1], odd[1] ...
    """
    c = core.join(a, b)
    if len(c.shape) == 1:  # two scalars
        return c
    else:
        return core.reshape(c, c.shape[:-2] + (2 * c.shape[-2],))


@device
def flip(x, dim=None):
    """The elements along an axis, the last by default, in reverse order.

        backwards = tl.flip(x, 0)
    """
    axis: constexpr = _wrap(dim, len(x.shape))
    size: constexpr = x.shape[axis]
    backwards = core.reshape(size - 1 - core.arange(0, size), _line(len(x.shape), axis, size))
    return core.gather(x, core.broadcast_to(backwards, x.shape), axis)


# ---------------------------------------------------------------------------------------------------------------------
# Elementwise


@device
def cdiv(x, div):
    """How many blocks of size `div` cover `x`.

        blocks = tl.cdiv(n_elements, BLOCK)
    """
    return (x + (div - 1)) // div


@device
def sigmoid(x):
    """1 / (1 + exp(-x)).

        silu = x * tl.sigmoid(x)
    """
    return 1 / (1 + core.exp(-x))


@device
def softmax(x, dim=None, keep_dims=None, ieee_rounding=False):
    """exp(x) divided by its sum along an axis (the first if none is named); the shape stays.

        p = tl.softmax(scores, dim=1)
    """
    axis: constexpr = 0 if dim is None else dim
    if keep_dims is not None:
        core.warn("tl.softmax ignores keep_dims: its result has the shape of its input")
    weights = core.exp(x - max(x, axis, keep_dims=True))
    return core.fdiv(weights, sum(weights, axis, keep_dims=True), ieee_rounding)


@device
def swizzle2d(i, j, size_i, size_j, size_g) -> core.Pair:
    """The place of (i, j) when a row-major grid is walked column by column inside groups of `size_g` rows.

        pid_m, pid_n = tl.swizzle2d(pid_m, pid_n, num_m, num_n, GROUP)
    """
    ij = i * size_j + j
    size_gj = size_g * size_j
    group_id = ij // size_gj
    off_i = group_id * size_g
    rows = core.minimum(size_i - off_i, size_g)
    inside = ij % size_gj
    return off_i + inside % rows, inside // rows


# ---------------------------------------------------------------------------------------------------------------------
# Waiting for other programs


@constexpr_function
def _check_poll(dtype, sem, timeout_ns):
    if not dtype.is_int() or dtype.primitive_bitwidth not in (16, 32, 64):
        raise ValueError(f"atomic_poll waits for integers of 16, 32 or 64 bits, not for {dtype}")
    if sem not in (None, "acquire", "relaxed"):
        raise ValueError(f"Memory semantic {sem} not supported: atomic_poll takes 'acquire' or 'relaxed'")
    if isinstance(timeout_ns, float) or (isinstance(timeout_ns, int) and timeout_ns < 0):
        raise ValueError(f"timeout_ns must be an integer that is not negative, got {timeout_ns}")


@device
def atomic_poll(pointer, expected_value, sem=None, scope=None, timeout_ns=None):
    """Wait until memory holds a value; whether it did within `timeout_ns` nanoseconds, without one always.

    `sem` is "acquire" or "relaxed". All elements of a block of pointers share the time.

        tl.atomic_poll(flag_ptr, 1)
        ready = tl.atomic_poll(flag_ptr, 1, timeout_ns=1000)
    """
    _check_poll(pointer.dtype.element_ty, sem, timeout_ns)
    wanted = core.broadcast_to(core.cast(expected_value, pointer.dtype.element_ty), pointer.shape)
    seen = core.atomic_load(pointer, None, sem, scope) == wanted
    if timeout_ns is None:
        while _lacks(seen):
            seen = core.atomic_load(pointer, None, sem, scope) == wanted
    else:
        budget = core.cast(timeout_ns, core.int64)
        start = core.nanoseconds()
        while _lacks(seen) and core.nanoseconds() - start < budget:
            seen = seen | (core.atomic_load(pointer, None, sem, scope) == wanted)
    return seen


@device
def _lacks(seen):
    """Whether an element has not been seen."""
    if len(seen.shape) == 0:
        return seen == 0
    else:
        return core.reduce(seen.to(core.int32), None, _elementwise_min) == 0


# ---------------------------------------------------------------------------------------------------------------------
# Reductions


@device
def _sum_combine(a, b):
    return a + b


@device
def _prod_combine(a, b):
    return a * b


@device
def _xor_combine(a, b):
    return a ^ b


@device
def _or_combine(a, b):
    return a | b


@device
def _elementwise_max(a, b):
    return core.maximum(a, b)


@device
def _elementwise_min(a, b):
    return core.minimum(a, b)


@device
def _argmax_combine(value1, index1, value2, index2, tie_break_left):
    if tie_break_left:
        take = (value1 > value2) | ((value1 == value2) & (index1 < index2))
    else:
        take = value1 > value2
    return core.where(take, value1, value2), core.where(take, index1, index2)


@device
def _argmax_combine_tie_break_left(value1, index1, value2, index2):
    return _argmax_combine(value1, index1, value2, index2, True)


@device
def _argmax_combine_tie_break_fast(value1, index1, value2, index2):
    return _argmax_combine(value1, index1, value2, index2, False)


@device
def _argmin_combine(value1, index1, value2, index2, tie_break_left):
    if tie_break_left:
        take = (value1 < value2) | ((value1 == value2) & (index1 < index2))
    else:
        take = value1 < value2
    return core.where(take, value1, value2), core.where(take, index1, index2)


@device
def _argmin_combine_tie_break_left(value1, index1, value2, index2):
    return _argmin_combine(value1, index1, value2, index2, True)


@device
def _argmin_combine_tie_break_fast(value1, index1, value2, index2):
    return _argmin_combine(value1, index1, value2, index2, False)


@device
def _reduce_with_indices(input, axis, combine_fn, keep_dims):
    """Reduce the elements together with their positions along the axis."""
    core.static_assert(axis is not None, "indices need an axis, such as axis=0")
    where: constexpr = _wrap(axis, len(input.shape))
    size: constexpr = input.shape[where]
    index = core.reshape(core.arange(0, size), _line(len(input.shape), where, size))
    index = core.broadcast_to(index, input.shape)
    return core.reduce((input, index), where, combine_fn, keep_dims=keep_dims)


@device
def sum(input, axis=None, keep_dims=False, dtype=None):
    """The sum along an axis, or of everything. Integers below 32 bits are summed in 32.

        total = tl.sum(x, axis=0)
    """
    kind: constexpr = _sum_dtype(input.dtype, dtype)
    return core.reduce(input.to(kind), axis, _sum_combine, keep_dims=keep_dims)


@device
def max(input, axis=None, return_indices=False, return_indices_tie_break_left=True, keep_dims=False):
    """The largest element along an axis, or of all; NaNs are passed over. Optionally with its position.

        largest = tl.max(x, axis=0)
        value, position = tl.max(x, axis=0, return_indices=True)
    """
    if return_indices:
        wide = input.to(_scanned_dtype(input.dtype, core.dialect_rules()))
        if return_indices_tie_break_left:
            return _reduce_with_indices(wide, axis, _argmax_combine_tie_break_left, keep_dims)
        else:
            return _reduce_with_indices(wide, axis, _argmax_combine_tie_break_fast, keep_dims)
    else:
        return core.reduce(input.to(_extreme_dtype(input.dtype)), axis, _elementwise_max, keep_dims=keep_dims)


@device
def min(input, axis=None, return_indices=False, return_indices_tie_break_left=True, keep_dims=False):
    """The smallest element along an axis, or of all; NaNs are passed over. Optionally with its position.

        smallest = tl.min(x, axis=0)
    """
    if return_indices:
        wide = input.to(_scanned_dtype(input.dtype, core.dialect_rules()))
        if return_indices_tie_break_left:
            return _reduce_with_indices(wide, axis, _argmin_combine_tie_break_left, keep_dims)
        else:
            return _reduce_with_indices(wide, axis, _argmin_combine_tie_break_fast, keep_dims)
    else:
        return core.reduce(input.to(_extreme_dtype(input.dtype)), axis, _elementwise_min, keep_dims=keep_dims)


@device
def argmax(input, axis, tie_break_left=True, keep_dims=False):
    """The position of the largest element along an axis, as int32; the first of equals unless told otherwise.

        winner = tl.argmax(scores, axis=0)
    """
    _, index = max(input, axis, True, tie_break_left, keep_dims)
    return index


@device
def argmin(input, axis, tie_break_left=True, keep_dims=False):
    """The position of the smallest element along an axis, as int32; the first of equals unless told otherwise.

        nearest = tl.argmin(distances, axis=0)
    """
    _, index = min(input, axis, True, tie_break_left, keep_dims)
    return index


@device
def xor_sum(input, axis=None, keep_dims=False):
    """The exclusive or of integers along an axis, or of all.

        parity = tl.xor_sum(bits, axis=0)
    """
    core.static_assert(input.dtype.is_int(), "xor_sum only supported for integers")
    return core.reduce(input, axis, _xor_combine, keep_dims=keep_dims)


@device
def reduce_or(input, axis, keep_dims=False):
    """The bitwise or of integers along an axis; of bools, whether any is true.

        any_above = tl.reduce_or(x > limit, axis=0)
    """
    core.static_assert(input.dtype.is_int(), "reduce_or only supported for integers")
    return core.reduce(input, axis, _or_combine, keep_dims=keep_dims)


# ---------------------------------------------------------------------------------------------------------------------
# Scans


@device
def cumsum(input, axis=0, reverse=False, dtype=None):
    """Running sum along an axis, from the start or, reversed, from the end.

        offsets = tl.cumsum(lengths, axis=0) - lengths
    """
    kind: constexpr = _sum_dtype(_scanned_dtype(input.dtype, core.dialect_rules()), dtype)
    return core.associative_scan(input.to(kind), axis, _sum_combine, reverse)


@device
def cumprod(input, axis=0, reverse=False, dtype=None):
    """Running product along an axis, from the start or, reversed, from the end.

        survival = tl.cumprod(1 - hazard, axis=0)
    """
    rules: constexpr = core.dialect_rules()
    kind: constexpr = _product_dtype(_scanned_dtype(input.dtype, rules), dtype, rules)
    return core.associative_scan(input.to(kind), axis, _prod_combine, reverse)


# ---------------------------------------------------------------------------------------------------------------------
# Sorting


@device
def sort_impl(x, k=None, dim=None, descending=0):
    """Sort the last axis, and keep the first k elements of it if k is given."""
    _last_axis(dim, len(x.shape), "sort")
    if k is None:
        return core.sort_last_axis(x, descending)
    else:
        return core.first_of_last_axis(x, k, descending)


@device
def sort(x, dim=None, descending=0):
    """The elements of the last axis in order.

        in_order = tl.sort(x)
        largest_first = tl.sort(x, descending=True)
    """
    return sort_impl(x, None, dim, descending)


@device
def topk(x, k, dim=None, descending=True):
    """The k largest elements of the last axis, largest first, or the k smallest; k is a power of two.

        best = tl.topk(scores, 8)
        nearest = tl.topk(distances, 8, descending=False)
    """
    axis: constexpr = _last_axis(dim, len(x.shape), "topk")
    count: constexpr = _check_count(k, x.shape[axis])
    if count == 1:
        if descending:
            return max(x, axis, keep_dims=True)
        else:
            return min(x, axis, keep_dims=True)
    elif count < x.shape[axis]:
        return sort_impl(x.to(_extreme_dtype(x.dtype)), count, dim, descending)
    else:
        return sort_impl(x, None, dim, descending)


@device
def _compare_and_swap(x, descending, distance, axis):
    """Put every element and the one `distance` further along the axis in order."""
    pairs = core.reshape(x, _pair_shape(x.shape, axis, distance))
    left, right = core.split(core.permute(pairs, _moved_last(len(pairs.shape), axis + 1)))
    low, high = core.minimum(left, right).to(x.dtype), core.maximum(left, right).to(x.dtype)
    if descending:
        both = core.join(high, low)
    else:
        both = core.join(low, high)
    return core.reshape(core.permute(both, _moved_back(len(pairs.shape), axis + 1)), x.shape)


@device
def _bitonic_merge(x, descending, axis):
    """Sort a bitonic sequence along an axis: compare elements half the length apart, then a quarter ..."""
    steps: constexpr = _log2(x.shape[axis])
    for step in core.static_range(steps):
        x = _compare_and_swap(x, descending, x.shape[axis] >> (step + 1), axis)
    return x


@device
def bitonic_merge(x, dim=None, descending=0):
    """Sort a last axis that first rises and then falls (or the other way round).

        merged = tl.bitonic_merge(tl.cat(rising, tl.flip(other_rising, 0), can_reorder=True))
    """
    axis: constexpr = _last_axis(dim, len(x.shape), "bitonic_merge")
    return _bitonic_merge(x, descending, axis)
