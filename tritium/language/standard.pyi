# Written by docs/make_stubs.py from the objects themselves: change those, and run it again.

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

from .core import Operand, Pair, block_pointer, dtype, tensor

__all__: list[str]


def _log2(n: Operand) -> Any:
    """The exponent of a power of two."""


def _is_power_of_two(n: Operand) -> Any:
    """Whether n is a power of two."""


def _sum_dtype(dtype: dtype, asked: Operand) -> Any:
    """In what integers are summed: narrow ones would overflow."""


def _extreme_dtype(dtype: dtype) -> Any:
    """In what `max` and `min` work: 32 bits at least."""


def _scanned_dtype(dtype: dtype, rules: Operand) -> Any:
    """In what scans, and reductions with indices, work: up to 3.8 not in bf16."""


def _product_dtype(dtype: dtype, asked: Operand, rules: Operand) -> Any:
    """In what running products work: from 3.9 on narrow integers would overflow less."""


def _last_axis(dim: int, rank: Operand, what: Operand) -> Any:
    """The last axis, which is the only one that sorting knows."""


def _wrap(dim: int, rank: Operand) -> Any:
    """An axis counted from either end; the last where none is given."""


def _is_axis(dim: int, rank: Operand) -> Any: ...


def _without(shape: Sequence[int], axis: int) -> Any:
    """The shape without one axis."""


def _check_count(k: int, size: Operand) -> Any:
    """Refuse a number of elements that `topk` does not give."""


def _line(rank: Operand, axis: int, size: Operand) -> Any:
    """A shape of ones but for one axis."""


def _pair_shape(shape: Sequence[int], axis: int, distance: Operand) -> Any:
    """The shape in which elements `distance` apart along `axis` are neighbours along an axis of size 2."""


def _moved_last(rank: Operand, axis: int) -> Any:
    """The permutation that makes an axis the last."""


def _moved_back(rank: Operand, axis: int) -> Any:
    """The permutation that brings the last axis back to its place."""


def zeros(shape: Sequence[int], dtype: dtype) -> tensor:
    """A tile of zeros.

        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    """


def zeros_like(input: Operand) -> tensor:
    """Zeros in the shape and dtype of another tensor.

        acc = tl.zeros_like(x)
    """


def squeeze(x: Operand, dim: int) -> tensor:
    """The tensor without axis `dim`, whose size is 1.

        row = tl.squeeze(tile, 0)
    """


def unsqueeze(x: Operand, dim: int) -> tensor:
    """The tensor with a new axis of size 1 at `dim`; -1 puts it after the last.

        column = tl.unsqueeze(x, -1)
    """


def ravel(x: Operand, can_reorder: bool = False) -> tensor:
    """All elements along one axis.

        flat = tl.ravel(tile)
    """


def interleave(a: Operand, b: Operand) -> tensor:
    """The elements of two tensors in turn along the last axis.

        tl.interleave(even, odd)        # even[0], odd[0], even[1], odd[1] ...
    """


def flip(x: Operand, dim: int | None = None) -> tensor:
    """The elements along an axis, the last by default, in reverse order.

        backwards = tl.flip(x, 0)
    """


def cdiv(x: Operand, div: Operand) -> tensor:
    """How many blocks of size `div` cover `x`.

        blocks = tl.cdiv(n_elements, BLOCK)
    """


def sigmoid(x: Operand) -> tensor:
    """1 / (1 + exp(-x)).

        silu = x * tl.sigmoid(x)
    """


def softmax(x: Operand, dim: int | None = None, keep_dims: bool | None = None, ieee_rounding: bool = False) -> tensor:
    """exp(x) divided by its sum along an axis (the first if none is named); the shape stays.

        p = tl.softmax(scores, dim=1)
    """


def swizzle2d(i: Operand, j: Operand, size_i: Operand, size_j: Operand, size_g: Operand) -> Pair:
    """The place of (i, j) when a row-major grid is walked column by column inside groups of `size_g` rows.

        pid_m, pid_n = tl.swizzle2d(pid_m, pid_n, num_m, num_n, GROUP)
    """


def _check_poll(dtype: dtype, sem: str, timeout_ns: Operand) -> Any: ...


def atomic_poll(pointer: tensor | block_pointer, expected_value: Operand, sem: str | None = None,
                scope: str | None = None, timeout_ns: Operand | None = None) -> tensor:
    """Wait until memory holds a value; whether it did within `timeout_ns` nanoseconds, without one always.

    `sem` is "acquire" or "relaxed". All elements of a block of pointers share the time.

        tl.atomic_poll(flag_ptr, 1)
        ready = tl.atomic_poll(flag_ptr, 1, timeout_ns=1000)
    """


def _lacks(seen: Operand) -> Any:
    """Whether an element has not been seen."""


def _sum_combine(a: Operand, b: Operand) -> Any: ...


def _prod_combine(a: Operand, b: Operand) -> Any: ...


def _xor_combine(a: Operand, b: Operand) -> Any: ...


def _or_combine(a: Operand, b: Operand) -> Any: ...


def _elementwise_max(a: Operand, b: Operand) -> Any: ...


def _elementwise_min(a: Operand, b: Operand) -> Any: ...


def _argmax_combine(value1: Operand, index1: Operand, value2: Operand, index2: Operand,
                    tie_break_left: bool) -> Any: ...


def _argmax_combine_tie_break_left(value1: Operand, index1: Operand, value2: Operand, index2: Operand) -> Any: ...


def _argmax_combine_tie_break_fast(value1: Operand, index1: Operand, value2: Operand, index2: Operand) -> Any: ...


def _argmin_combine(value1: Operand, index1: Operand, value2: Operand, index2: Operand,
                    tie_break_left: bool) -> Any: ...


def _argmin_combine_tie_break_left(value1: Operand, index1: Operand, value2: Operand, index2: Operand) -> Any: ...


def _argmin_combine_tie_break_fast(value1: Operand, index1: Operand, value2: Operand, index2: Operand) -> Any: ...


def _reduce_with_indices(input: Operand, axis: int, combine_fn: Callable[..., Any], keep_dims: bool) -> Any:
    """Reduce the elements together with their positions along the axis."""


def sum(input: Operand, axis: int | None = None, keep_dims: bool = False, dtype: dtype | None = None) -> tensor:
    """The sum along an axis, or of everything. Integers below 32 bits are summed in 32.

        total = tl.sum(x, axis=0)
    """


@overload
def max(input: Operand, axis: int | None = None, return_indices: Literal[False] = False,
        return_indices_tie_break_left: bool = True, keep_dims: bool = False) -> tensor:
    """The largest element along an axis, or of all; NaNs are passed over. Optionally with its position.

        largest = tl.max(x, axis=0)
        value, position = tl.max(x, axis=0, return_indices=True)
    """
@overload
def max(input: Operand, axis: int | None = None, *, return_indices: Literal[True],
        return_indices_tie_break_left: bool = True, keep_dims: bool = False) -> Pair:
    """The largest element along an axis, or of all; NaNs are passed over. Optionally with its position.

        largest = tl.max(x, axis=0)
        value, position = tl.max(x, axis=0, return_indices=True)
    """
@overload
def max(input: Operand, axis: int | None, return_indices: Literal[True], return_indices_tie_break_left: bool = True,
        keep_dims: bool = False) -> Pair:
    """The largest element along an axis, or of all; NaNs are passed over. Optionally with its position.

        largest = tl.max(x, axis=0)
        value, position = tl.max(x, axis=0, return_indices=True)
    """


@overload
def min(input: Operand, axis: int | None = None, return_indices: Literal[False] = False,
        return_indices_tie_break_left: bool = True, keep_dims: bool = False) -> tensor:
    """The smallest element along an axis, or of all; NaNs are passed over. Optionally with its position.

        smallest = tl.min(x, axis=0)
    """
@overload
def min(input: Operand, axis: int | None = None, *, return_indices: Literal[True],
        return_indices_tie_break_left: bool = True, keep_dims: bool = False) -> Pair:
    """The smallest element along an axis, or of all; NaNs are passed over. Optionally with its position.

        smallest = tl.min(x, axis=0)
    """
@overload
def min(input: Operand, axis: int | None, return_indices: Literal[True], return_indices_tie_break_left: bool = True,
        keep_dims: bool = False) -> Pair:
    """The smallest element along an axis, or of all; NaNs are passed over. Optionally with its position.

        smallest = tl.min(x, axis=0)
    """


def argmax(input: Operand, axis: int, tie_break_left: bool = True, keep_dims: bool = False) -> tensor:
    """The position of the largest element along an axis, as int32; the first of equals unless told otherwise.

        winner = tl.argmax(scores, axis=0)
    """


def argmin(input: Operand, axis: int, tie_break_left: bool = True, keep_dims: bool = False) -> tensor:
    """The position of the smallest element along an axis, as int32; the first of equals unless told otherwise.

        nearest = tl.argmin(distances, axis=0)
    """


def xor_sum(input: Operand, axis: int | None = None, keep_dims: bool = False) -> tensor:
    """The exclusive or of integers along an axis, or of all.

        parity = tl.xor_sum(bits, axis=0)
    """


def reduce_or(input: Operand, axis: int, keep_dims: bool = False) -> tensor:
    """The bitwise or of integers along an axis; of bools, whether any is true.

        any_above = tl.reduce_or(x > limit, axis=0)
    """


def cumsum(input: Operand, axis: int = 0, reverse: bool = False, dtype: dtype | None = None) -> tensor:
    """Running sum along an axis, from the start or, reversed, from the end.

        offsets = tl.cumsum(lengths, axis=0) - lengths
    """


def cumprod(input: Operand, axis: int = 0, reverse: bool = False, dtype: dtype | None = None) -> tensor:
    """Running product along an axis, from the start or, reversed, from the end.

        survival = tl.cumprod(1 - hazard, axis=0)
    """


def sort_impl(x: Operand, k: int | None = None, dim: int | None = None, descending: int = 0) -> tensor:
    """Sort the last axis, and keep the first k elements of it if k is given."""


def sort(x: Operand, dim: int | None = None, descending: int = 0) -> tensor:
    """The elements of the last axis in order.

        in_order = tl.sort(x)
        largest_first = tl.sort(x, descending=True)
    """


def topk(x: Operand, k: int, dim: int | None = None, descending: int = True) -> tensor:
    """The k largest elements of the last axis, largest first, or the k smallest; k is a power of two.

        best = tl.topk(scores, 8)
        nearest = tl.topk(distances, 8, descending=False)
    """


def _compare_and_swap(x: Operand, descending: int, distance: Operand, axis: int) -> Any:
    """Put every element and the one `distance` further along the axis in order."""


def _bitonic_merge(x: Operand, descending: int, axis: int) -> Any:
    """Sort a bitonic sequence along an axis: compare elements half the length apart, then a quarter ..."""


def bitonic_merge(x: Operand, dim: int | None = None, descending: int = 0) -> tensor:
    """Sort a last axis that first rises and then falls (or the other way round).

        merged = tl.bitonic_merge(tl.cat(rising, tl.flip(other_rising, 0), can_reorder=True))
    """
