"""What a compile target offers the language: 8-bit floats, ways to multiply f32 matrices, smallest `dot`."""

from __future__ import annotations

from typing import NamedTuple

from tritium.errors import fail
from tritium.ir import types as T

from .dtypes import from_ir

_ALL_FP8 = (T.f8e5, T.f8e5b16, T.f8e4nv, T.f8e4b8, T.f8e4b15)
_ALL_PRECISIONS = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")


class Limits(NamedTuple):
    """`precisions[0]` is the default; `smallest_k` is what `dot` needs along K for 8-bit and for wider elements."""

    fp8: tuple = _ALL_FP8
    precisions: tuple = _ALL_PRECISIONS
    smallest_k: tuple = (1, 1)
    imprecise_sums: int = 0  # products of 8-bit floats that may be summed in reduced precision
    narrow_extremes: bool = True  # descriptors have atomic_min and atomic_max of 16-bit floats


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
                  ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6"), (32, 16), 1 << 30 if arch == 90 else 0,
                  arch >= 90)


def _hip(target):
    tf32 = ("tf32",) if target.arch == "gfx942" else ()
    return Limits((T.f8e4nv, T.f8e5, T.f8e4b8, T.f8e5b16), (*tf32, "ieee", "bf16x3", "bf16x6"),
                  narrow_extremes=False)


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
