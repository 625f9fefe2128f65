"""Tiles with padded rows, `tl.zeros((32, 33))`: the one size of a tile that need not be a power of two.

CUDA programs pad shared memory like this. A tile is no shared memory, so the padding changes nothing but the shape; a
program that writes and reads such a tile by its elements still means what it says.
"""

from __future__ import annotations

import builtins

from tritium.errors import fail
from tritium.ir import types as T

from ..types.dtypes import from_ir
from ..types.values import number, size_of_tile, tensor, tuple
from .broadcasting import common_shape
from .calling import Builtin, builtin
from .casting import cast
from .indexing import element_at, with_element
from .operators import METHODS, binary, compare, is_pointer, unary

__all__ = ["padded_tile", "room_for"]


def room_for(shape):
    """The shape of the tile that has room for a tile with padded rows; None where `shape` is not of that kind.

    Padded rows are the last of several axes: a power of two and up to a quarter more. Other axes stay powers of two.

    >>> room_for((32, 33)), room_for((32, 100)), room_for((33,))
    ((32, 64), None, None)
    """
    *others, row = sizes = [number(size_of_tile(size)) for size in shape] or [None]
    if not others or not all(isinstance(size, int) and size > 0 for size in sizes):
        return None
    plain = 1 << (row.bit_length() - 1)
    if row == plain or 4 * (row - plain) > plain or any(size & (size - 1) for size in others):
        return None
    return (*others, 2 * plain)


class padded_type:
    """The type of a tile with padded rows.

    >>> from tritium.language.core import float32
    >>> padded_type(float32, (32, 33))
    <[32, 33], fp32>
    """

    def __init__(self, element_ty, shape):
        self.element_ty, self.shape = element_ty, builtins.tuple(shape)

    def is_block(self):
        """True."""
        return True

    def is_tuple(self):
        """False."""
        return False

    @property
    def scalar(self):
        """The type of one element."""
        return self.element_ty

    def __eq__(self, other):
        return isinstance(other, padded_type) and (self.element_ty, self.shape) == (other.element_ty, other.shape)

    def __hash__(self):
        return hash((self.element_ty, self.shape))

    def __repr__(self):
        return f"<{list(self.shape)}, {self.element_ty}>"


class padded_tile:
    """A tile with padded rows, as `tl.zeros((32, 33), tl.float32)` makes it.

    Its elements are read and written, `t[i, j] = x`; operators and `.to` work on all of them. What lies past its shape
    in `tile`, which has room for it, is never seen.
    """

    __slots__ = ("shape", "tile")
    operator_hint = "operators take a tile with padded rows and a number, a scalar or a tile that broadcasts to it"

    def __init__(self, tile, shape):
        self.tile, self.shape = tile, tuple(shape)

    @property
    def type(self) -> padded_type:
        """Its shape and the type of one element."""
        return padded_type(self.dtype, self.shape)

    @property
    def dtype(self):
        """The type of one element."""
        return from_ir(T.element(self.tile.handle.type))

    @property
    def numel(self) -> int:
        """How many elements it has, the padding counted."""
        out = 1
        for size in self.shape:
            out *= size
        return out

    @property
    def tensor_hint(self) -> str:
        """What an error says where only a tensor will do."""
        return (f"sizes of tiles are powers of two; of a tile of shape {self.shape} elements are read and written, and "
                f"operators take it. Use {builtins.tuple(room_for(self.shape) or ())} and mask what is past the end")

    def parts(self):
        """The run-time value inside."""
        return (self.tile,)

    def remade(self, parts):
        """A tile of the same shape with other elements."""
        return padded_tile(parts[0], self.shape)

    def __repr__(self):
        return f"{self.dtype}{list(self.shape)}"

    __hash__ = object.__hash__

    def with_item(self, b, index, value):
        """What a name holds after `t[index] = value`."""
        return padded_tile(with_element(b, self.tile, index, value, self.shape), self.shape)


@builtin
def _item(b, x, index):
    """`t[i, j]`: one element."""
    return element_at(b, x.tile, index, x.shape)


@builtin
def _to(b, x, dtype, fp_downcast_rounding=None, bitcast=False):
    """`t.to(dtype)`, as of a tensor."""
    return padded_tile(cast.fn(b, x.tile, dtype, fp_downcast_rounding, bitcast), x.shape)


def _operator(how, symbol, mirrored=False):
    def run(b, x, other):
        if not isinstance(other, (tensor, padded_tile)) and number(other) is None:
            return NotImplemented
        shape = common_shape(x.shape, () if number(other) is not None else other.shape)
        if is_pointer(other):
            raise fail(TypeError, f"a pointer does not move by a tile of shape {x.shape}", hint=x.tensor_hint)
        operands = x.tile, other.tile if isinstance(other, padded_tile) else other
        return padded_tile(how(b, symbol, *(reversed(operands) if mirrored else operands)), shape)
    return run


def _of_one(symbol):
    return lambda b, x: padded_tile(unary(b, symbol, x.tile), x.shape)


_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
_NEITHER = ("**", "@")  # tensors have no such operators

for _symbol, _name in METHODS.items():
    if _symbol in _COMPARISONS:
        setattr(padded_tile, f"__{_name}__", Builtin(_operator(compare, _symbol), f"__{_name}__"))
    elif _symbol not in _NEITHER:
        setattr(padded_tile, f"__{_name}__", Builtin(_operator(binary, _symbol), f"__{_name}__"))
        setattr(padded_tile, f"__r{_name}__", Builtin(_operator(binary, _symbol, True), f"__r{_name}__"))
for _symbol, _name in {"-": "__neg__", "~": "__invert__", "not": "__not__"}.items():
    setattr(padded_tile, _name, Builtin(_of_one(_symbol), _name))
for _name, _method in {"__getitem__": _item, "to": _to, "cast": _to}.items():
    setattr(padded_tile, _name, _method)
