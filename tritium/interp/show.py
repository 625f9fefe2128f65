"""How the interpreter writes values: the lines of `tl.device_print`, and a tensor in a Python `print`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir import types as T
from ..ops import meaning


def print_lines(pid, prefix, types, values, hexadecimal=False, exponents=False):
    """The lines of one device_print: one for each element of each value.

    >>> for line in print_lines((0, 0, 0), " x: ", [T.Tile((2,), T.i32)], [np.array([7, -1], np.int32)]):
    ...     print(line, end="")
    pid (0, 0, 0) idx (0) x: 7
    pid (0, 0, 0) idx (1) x: -1
    """
    head = f"pid ({', '.join(map(str, pid))})"
    if not values:
        yield f"{head}{prefix}\n"
    for k, (t, value) in enumerate(zip(types, values)):
        operand = f"(operand {k}) " if len(values) > 1 else ""
        widths = [max(1, math.ceil(math.log10(n))) if n > 1 else 1 for n in value.shape]
        for index in np.ndindex(value.shape):
            at = ", ".join(f"{i:>{w}}" for i, w in zip(index, widths))
            text = element_text(T.element(t), value[index], hexadecimal, exponents)
            yield f"{head} idx ({at}){prefix}{operand}{text}\n"


def element_text(t: Any, x, hexadecimal=False, exponents=False):
    """One element as C's printf writes it: %d or %u, %f, %p, or 0x with every digit of the type; floats perhaps as %a.

    >>> element_text(T.f32, np.float32(1.5), True), element_text(T.f32, np.float32(1.5), True, True)
    ('0x3fc00000', '0x1.8p+0')
    """
    pointer = isinstance(t, T.Ptr)
    if exponents and not pointer and t.is_float:
        mantissa, mark, exponent = float(meaning.convert(np.asarray(x), t, T.f64)).hex().partition("p")
        return (mantissa.rstrip("0").rstrip(".") if mark and mantissa.strip("-") != "0x0.0" else
                mantissa.removesuffix(".0")) + mark + exponent
    if hexadecimal:
        size = np.asarray(x).dtype.itemsize
        return f"0x{int(np.asarray(x).view(f'u{size}')):0{size * 2}x}"
    if pointer:
        return f"{int(x):#x}"
    if t.is_float:
        return f"{float(meaning.convert(np.asarray(x), t, T.f64)):f}"
    return str(int(x))


def tensor_text(t, x):
    """A concrete tensor in a Python `print`; a scalar is a list of one.

    >>> tensor_text(T.i32, np.array(2, np.int32))
    '[2]'
    """
    if T.element(t) is T.f8e4b15:
        x = meaning.convert(x, T.f8e4b15, T.f32)
    return str(np.reshape(x, (1,)) if np.ndim(x) == 0 else x)
