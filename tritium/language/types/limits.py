"""What a compile target offers the language: 8-bit floats, ways to multiply f32 matrices, smallest `dot`; and how large
constants may grow while a kernel is compiled."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from types import MappingProxyType

from tritium.errors import fail
from tritium.ir import types as T
from tritium.named_tuples import NamedTuple

from .dtypes import from_ir

_ALL_FP8 = (T.f8e5, T.f8e5b16, T.f8e4nv, T.f8e4b8, T.f8e4b15)
_ALL_PRECISIONS = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")


_CUDA_K = MappingProxyType({8: 32, 16: 16, 32: 8, 64: 4})


class Limits(NamedTuple):
    """`precisions[0]` is the default; `smallest_k` is what `dot` needs along K, by the bits of an element."""

    fp8: tuple = _ALL_FP8
    precisions: tuple = _ALL_PRECISIONS
    smallest_k: Mapping[int, int] = MappingProxyType({})
    imprecise_sums: int = 0  # products of 8-bit floats that may be summed in reduced precision
    narrow_extremes: bool = True  # descriptors have atomic_min and atomic_max of 16-bit floats
    scaled: bool = False  # block-scaled operands of `dot_scaled` may be multiplied as they are
    mixes_scaled: bool = False  # also one of 4 bits with one of 8
    reports_steps: bool = True  # a run-time step of 0 stops the kernel; else only with debug, and the loop has no turn


def capability(target):
    """The compute capability of an NVIDIA target; 0 for every other.

    >>> from types import SimpleNamespace
    >>> capability(SimpleNamespace(backend="cuda", arch="90a")), capability(None)
    (90, 0)
    """
    if target is None or target.backend != "cuda":
        return 0
    return int("".join(filter(str.isdigit, str(target.arch))))


def _cuda(target):
    arch = capability(target)
    return Limits((T.f8e5, T.f8e4b15, T.f8e4nv) if arch >= 89 else (T.f8e5, T.f8e4b15),
                  ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6"), _CUDA_K, 1 << 30 if arch == 90 else 0,
                  arch >= 90, arch >= 100, reports_steps=False)


def _hip(target):
    tf32 = ("tf32",) if target.arch == "gfx942" else ()
    return Limits((T.f8e4nv, T.f8e5, T.f8e4b8, T.f8e5b16), (*tf32, "ieee", "bf16x3", "bf16x6"),
                  narrow_extremes=False, scaled=target.arch == "gfx950", mixes_scaled=True,
                  reports_steps=False)


_VENDORS = {"cuda": _cuda, "hip": _hip}


def limits(b):
    """The limits of the target builder `b` compiles for; a CPU and the interpreter take everything."""
    vendor = _VENDORS.get(b.target.backend) if b.target is not None else None
    return vendor(b.target) if vendor else Limits()


def check_fp8(b, kind):
    """Refuse an 8-bit float that the target does not have."""
    if type(kind) is T.Scalar and kind.is_float and kind.bits == 8 and kind not in limits(b).fp8:
        names = ", ".join(str(from_ir(t)) for t in limits(b).fp8)
        raise fail(ValueError, f"type {from_ir(kind)} not supported in this architecture. "
                   f"The supported fp8 dtypes are ({names})", hint="keep the bytes as uint8, or use a supported dtype")


# ---------------------------------------------------------------------------------------------------------------------
# Constants

BITS = 1 << 16  # of an int
LETTERS = 1 << 20  # of a text
PARTS = 1 << 16  # of a tuple, those of its parts included


def check_operator(symbol, x, y):
    """Refuse an operation on constants whose result would fill the memory, or take for ever.

    >>> check_operator("**", 2, 64)
    >>> check_operator("<<", 1, 10**11)
    Traceback (most recent call last):
    ValueError: `<<` of these constants makes an int of more than 65536 bits
    """
    rule = _GROWING.get(symbol)
    if rule is not None and (what := rule(x, y)) is not None:
        raise _too_large(f"`{symbol}` of these constants", what)


def _too_large(which, what):
    return fail(ValueError, f"{which} makes {what}", hint="a kernel needs no constant of that size: compute it on the "
                "host, or at run time")


_INT, _TEXT = f"an int of more than {BITS} bits", f"a text of more than {LETTERS} letters"


_SEQUENCES = (str, bytes, tuple, list)


def _power(x, y):
    return _INT if type(x) is type(y) is int and y > 0 and abs(x) > 1 and (x.bit_length() - 1) * y > BITS else None


def _shift(x, y):
    return _INT if type(x) is type(y) is int and x and x.bit_length() + y > BITS else None


def _product(x, y):
    if type(y) is not int:
        x, y = y, x
    if type(x) is int:
        return _INT if type(y) is int and x.bit_length() + y.bit_length() > BITS else None
    return _length(x, len(x) * y) if type(y) is int and isinstance(x, _SEQUENCES) else None


def _sum(x, y):
    return _length(x, len(x) + len(y)) if isinstance(x, _SEQUENCES) and isinstance(y, _SEQUENCES) else None


def _length(x, size):
    if isinstance(x, str | bytes):
        return _TEXT if size > LETTERS else None
    return f"a tuple of more than {PARTS} values" if size > PARTS else None


def _format(x, y):
    widths = y if isinstance(y, tuple) else (y,)
    wide = any(type(width) is int and width > LETTERS for width in widths) and "*" in str(x)
    return _TEXT if type(x) in (str, bytes) and (wide or is_wide(str(x))) else None


_GROWING = {"**": _power, "<<": _shift, "*": _product, "+": _sum, "%": _format}


def is_wide(spec):
    """Whether a format asks for a very wide field.

    >>> is_wide("%8.3f"), is_wide(">10000000000")
    (False, True)
    """
    return any(int(width) > LETTERS for width in re.findall(r"\d{7,}", spec))


_COSTLY = {math.factorial: 10_000, math.comb: 10_000, math.perm: 10_000}


def check_call(function, args):
    """Refuse a call of a function written in C, on constants, whose result would be too large.

    >>> check_call(math.factorial, [10**8])
    Traceback (most recent call last):
    ValueError: factorial() of these constants makes an int of more than 65536 bits
    """
    most = _COSTLY.get(function) if type(function) is type(len) and function.__self__ is math else None
    if most is not None and any(type(x) is int and x > most for x in args):
        raise _too_large(f"{function.__name__}() of these constants", _INT)
    if isinstance(getattr(function, "__self__", None), str | bytes) and any(
            type(x) is int and LETTERS < x < 1 << 63 for x in args):  # ljust, zfill and the like
        raise _too_large(f"{function.__name__}() of these constants", _TEXT)
