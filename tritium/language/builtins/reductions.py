"""Functions of scalars run over tiles: `reduce`, `associative_scan`, `map_elementwise`; and histograms."""

from __future__ import annotations

import builtins
from typing import Any

from tritium.errors import fail
from tritium.ir import types as T

from ..types.constants import unwrap
from ..types.dtypes import check_shape, from_ir
from ..types.values import Tiles, tensor, to_tensor, tuple
from .broadcasting import broadcast_exactly, broadcast_together
from .calling import builtin
from .deferred import ops
from .shaping import constant_int, expand_dims, wrap_axis

__all__ = ["associative_scan", "first_of_last_axis", "histogram", "map_elementwise", "reduce", "sort_last_axis"]


def _as_list(input) -> builtins.tuple[list, Any]:
    """The tensors of a single or tuple input, and how to give results back in the same form."""
    if isinstance(input, (builtins.tuple, list)):
        return list(input), tuple
    return [input], lambda results: results[0]


def _check_tiles(what, xs):
    for x in xs:
        if not isinstance(x, tensor) or not x.shape:
            raise fail(ValueError, f"{what} works on tiles, got {x.dtype if isinstance(x, tensor) else repr(x)}",
                       hint="a scalar has no axis; the larger of two values is tl.maximum(x, y)", argument="input")
        if x.shape != xs[0].shape:
            raise fail(ValueError, f"all {what} inputs must have the same shape, got {xs[0].shape} and {x.shape}",
                       argument="input")


def _results(values):
    """What an op with one or several results handed back, as a tuple of handles."""
    return values if isinstance(values, builtins.tuple) else (values,)


def _check_parameters(fn, count, what):
    """A combine function takes the values of the left, then those of the right."""
    signature = getattr(fn, "signature", None)
    if signature is None:  # builtins and lambdas are checked where they are called
        return
    try:
        signature.bind(*[None] * count)
    except TypeError:
        tiles = "one tile" if count == 2 else f"{count // 2} tiles"
        left, right = (", ".join(f"{side}{k}" for k in range(count // 2)) for side in "ab")
        raise fail(TypeError, f"the combine function of {what} takes {count} arguments for {tiles}: {fn.__name__} has "
                   f"the parameters {', '.join(signature.parameters) or 'none'}",
                   hint=f"declare it as `def {fn.__name__}({left}, {right})`, the values of the left first, and return "
                   f"{'the combined value' if count == 2 else f'a tuple of {count // 2}'}",
                   argument="combine_fn") from None


def combination(b, fn, xs, what):
    """The region of `fn`, which maps two sets of scalars to one of the same types."""
    kinds = [T.element(x.handle.type) for x in xs]
    if fn is None or isinstance(fn, (int, float, str, tensor)):
        raise fail(TypeError, f"the combine function of {what} is {fn!r}", hint="pass a function made with @triton.jit",
                   argument="combine_fn")
    _check_parameters(fn, 2 * len(kinds), what)
    region = b.region_of(fn, kinds * 2)
    given = [value.type for value in region.yields]
    if given != kinds:
        shown = [", ".join(str(from_ir(t)) for t in types) for types in (kinds, given)]
        raise fail(TypeError, f"the combine function of {what} must return ({shown[0]}), it returns ({shown[1]})",
                   hint="cast its result back with .to()", argument="combine_fn")
    return region


@builtin
def reduce(b, input: Tiles, axis: int | None, combine_fn, keep_dims: bool = False) -> Tiles:
    """Combine the elements along an axis (all of them when `axis` is None) with a jit function of two values.

        @triton.jit
        def multiply(x, y):
            return x * y

        product = tl.reduce(x, 0, multiply)

    A tuple of tiles is reduced together: `combine_fn` takes two sets of values and returns one.
    """
    xs, give_back = _as_list(unwrap(input))
    xs = [to_tensor(b, x) for x in xs]
    _check_tiles("reduce", xs)
    rank = len(xs[0].shape)
    if axis is None:
        xs = [tensor(ops.reshape(b, x.handle, shape=(x.numel,), reorder=True)) if rank > 1 else x for x in xs]
        inserted = list(range(rank))
        where = 0
    else:
        where = wrap_axis(axis, rank)
        inserted = [where]
    region = combination(b, combine_fn, xs, "reduce")
    out = [tensor(h) for h in _results(ops.reduce(b, *[x.handle for x in xs], axis=where, regions=(region,)))]
    if keep_dims:
        out = [expand_dims.fn(b, x, inserted) for x in out]
    return give_back(out)


@builtin
def associative_scan(b, input: Tiles, axis, combine_fn, reverse: bool = False) -> Tiles:
    """Running combination along an axis: element i of the result combines elements 0 to i (or i to the last).

        prefix_maximum = tl.associative_scan(x, 0, larger)
    """
    xs, give_back = _as_list(unwrap(input))
    xs = [to_tensor(b, x) for x in xs]
    _check_tiles("associative_scan", xs)
    where = wrap_axis(axis, len(xs[0].shape))
    region = combination(b, combine_fn, xs, "associative_scan")
    out = ops.scan(b, *[x.handle for x in xs], axis=where, reverse=bool(reverse), regions=(region,))
    return give_back([tensor(h) for h in _results(out)])


@builtin
def map_elementwise(b, scalar_fn, *args, pack: int = 1) -> Any:
    """Call a jit function of scalars, control flow and all, on every element (or every `pack` neighbours).

        @triton.jit
        def collatz(n):
            steps = 0
            while n != 1:
                n = tl.where(n % 2 == 0, n // 2, 3 * n + 1)
                steps += 1
            return steps

        steps = tl.map_elementwise(collatz, x)
    """
    if not args or not all(isinstance(unwrap(x), tensor) for x in args):
        raise fail(TypeError, "map_elementwise takes one or more tensors", hint="make constants tensors with tl.full",
                   argument="args")
    pack = constant_int(pack, "pack")
    xs = broadcast_together(b, *args)
    region = b.region_of(scalar_fn, [T.element(x.handle.type) for x in xs for _ in range(pack)])
    if not region.yields or len(region.yields) % pack:
        raise fail(ValueError, f"the function must return {pack} values for each result, it returns "
                   f"{len(region.yields)}", argument="scalar_fn")
    out = [tensor(h) for h in _results(ops.map_(b, *[x.handle for x in xs], pack=pack, regions=(region,)))]
    return out[0] if len(out) == 1 else tuple(out)


@builtin
def histogram(b, input, num_bins, mask=None):
    """How often each of 0 ... num_bins - 1 occurs in a 1-d tile of integers, as int32.

        counts = tl.histogram(digits, 16, mask=offsets < n)
    """
    if len(input.shape) != 1:
        raise fail(AssertionError, f"histogram only supports 1D input, got shape {input.shape}",
                   hint="flatten it with tl.ravel", argument="input")
    if not input.dtype.is_int():
        raise fail(ValueError, f"histogram only supports integer input, got {input.dtype}: only supports 32-bit "
                   f"integer input, but got {input.dtype}", hint="compute the bin of each element and cast it with "
                   ".to(tl.int32)", argument="input")
    bins, = check_shape([constant_int(num_bins, "num_bins")])
    operands = [input]
    if mask is not None:
        mask = to_tensor(b, mask)
        if not mask.dtype.is_bool():
            raise fail(ValueError, f"Mask must have boolean scalar type, got {mask.dtype}", argument="mask")
        operands.append(broadcast_exactly(b, mask, input.shape))
    return tensor(ops.histogram(b, *[x.handle for x in operands], bins=bins))


@builtin
def sort_last_axis(b, x, descending):
    """The elements of the last axis in order: what `tl.sort` calls."""
    return tensor(ops.sort(b, x.handle, descending=bool(descending)))


@builtin
def first_of_last_axis(b, x, k, descending):
    """The first k elements of the last axis in order: what `tl.topk` calls."""
    return tensor(ops.topk(b, x.handle, k=constant_int(k, "k"), descending=bool(descending)))
