"""MFMA, the matrix instructions of CDNA: warps of 64 lanes, pieces of 16 x 16 or 32 x 32.

CDNA 3 multiplies 8-bit floats of the FNUZ kind, CDNA 4 those of OCP. CDNA 2 takes subnormal f16 and bf16 for zero.
"""

from __future__ import annotations

from collections.abc import Mapping

from ....ir import types as T
from .fragments import MFMA_16, MFMA_16_F64, MFMA_32, Instruction
from .products import FNUZ, OCP, Product, of_8_bit_floats

_WARP = 64
_SINCE_1, _SINCE_2, _SINCE_3 = (tuple(f"cdna{k}" for k in range(first, 5)) for first in (1, 2, 3))


def _product(families: tuple[str, ...], element: T.Scalar, name: str, operand: str, *shapes: tuple[int, int],
             out: T.Scalar = T.f32, precisions: tuple[str, ...] | None = None, other: T.Scalar | None = None,
             pack: int = 1, behind: tuple[int, ...] = (0, 0, 0)) -> Product:
    """A row of the table; `shapes` are pairs of size and K, `name` has a place for them."""
    made = []
    for size, depth in shapes:
        places = MFMA_32 if size == 32 else MFMA_16_F64 if out is T.f64 else MFMA_16
        kind = {T.f32: "float", T.i32: "i32", T.f64: "double"}[out]
        sums = f"<{size * size // _WARP} x {kind}>"
        intrinsic = name.format(f"{size}x{size}x{depth}")
        made.append(Instruction(intrinsic, size, depth, size * depth // _WARP, operand, sums, places, pack, behind))
    return Product(families, element, other or element, out, precisions, name, tuple(made))


def _eight_bits(families: tuple[str, ...], kinds: Mapping[T.Scalar, str], name: str, operand: str,
                *shapes: tuple[int, int]) -> list[Product]:
    """The rows of all pairs of 8-bit floats."""
    return [
        _product(families, a, name.format("{}", *names), operand, *shapes, other=b)
        for a, b, names in of_8_bit_floats(kinds)
    ]


def _f8f6f4(families: tuple[str, ...], *shapes: tuple[int, int]) -> list[Product]:
    """The rows of CDNA 4's wide products, whose arguments say which types are multiplied. LLVM takes scales of zero for
    the instruction without scales."""
    name, codes = "mfma.scale.f32.{}.f8f6f4.v8i32.v8i32", {"fp8": 0, "bf8": 1}
    return [
        _product(families, a, name, "<8 x i32>", *shapes, other=b, behind=(*(codes[x] for x in names), 0, 0, 0, 0))
        for a, b, names in of_8_bit_floats(OCP)
    ]


# Of the rows that fit, the last one is taken: instructions with a larger K come behind those with a smaller one.
MFMA = (
    _product(_SINCE_1, T.f16, "mfma.f32.{}f16", "<4 x half>", (32, 8), (16, 16)),
    _product(("cdna4",), T.f16, "mfma.f32.{}.f16", "<8 x half>", (32, 16), (16, 32)),
    _product(("cdna1",), T.bf16, "mfma.f32.{}bf16", "<2 x i16>", (32, 4), (16, 8), pack=2),
    _product(_SINCE_2, T.bf16, "mfma.f32.{}bf16.1k", "<4 x i16>", (32, 8), (16, 16)),
    _product(("cdna4",), T.bf16, "mfma.f32.{}.bf16", "<8 x bfloat>", (32, 16), (16, 32)),
    *_eight_bits(("cdna3",), FNUZ, "mfma.f32.{}.{}.{}", "i64", (32, 16), (16, 32)),
    *_eight_bits(("cdna4",), OCP, "mfma.f32.{}.{}.{}", "i64", (32, 16), (16, 32)),
    *_f8f6f4(("cdna4",), (32, 64), (16, 128)),
    _product(("cdna1", "cdna2"), T.i8, "mfma.i32.{}i8", "i32", (32, 8), (16, 16), out=T.i32, pack=2),
    _product(_SINCE_3, T.i8, "mfma.i32.{}.i8", "i64", (32, 16), (16, 32), out=T.i32),
    _product(("cdna4",), T.i8, "mfma.i32.{}.i8", "<4 x i32>", (32, 32), (16, 64), out=T.i32),
    _product(_SINCE_1, T.f32, "mfma.f32.{}f32", "float", (32, 2), (16, 4), pack=4),
    _product(("cdna3",), T.f32, "mfma.f32.{}.xf32", "<2 x float>", (32, 4), (16, 8), precisions=("tf32",), pack=2),
    _product(_SINCE_2, T.f64, "mfma.f64.{}f64", "double", (16, 4), out=T.f64),
)
