"""The table of products: which types a family of AMD GPUs multiplies, and by which instructions.

MFMA, the matrix instructions of CDNA, have warps of 64 lanes, and pieces of 16 x 16 or 32 x 32. CDNA 3 multiplies 8-bit
floats of the FNUZ kind, CDNA 4 those of OCP. CDNA 2 takes subnormal f16 and bf16 for zero.

WMMA, those of RDNA, have warps of 32 lanes, and pieces of 16 x 16 with a K of 16. On RDNA 3 a lane has a whole row of
A, and both halves of the warp have the same. On RDNA 4 each half has half of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ....ir import types as T
from ....named_tuples import NamedTuple
from ...llvm.writer import mangle
from .fragments import MFMA_16, MFMA_16_F64, MFMA_32, WMMA_GFX11, WMMA_GFX12, Instruction

FNUZ = {T.f8e4b8: "fp8", T.f8e5b16: "bf8"}  # 8-bit floats without negative zero, and their names
OCP = {T.f8e4nv: "fp8", T.f8e5: "bf8"}


class Product(NamedTuple):
    """A row: products of elements `a` and `b`, summed in `out`, at these precisions (all if None)."""

    families: tuple[str, ...]
    a: T.Scalar
    b: T.Scalar
    out: T.Scalar
    precisions: tuple[str, ...] | None
    name: str
    instructions: tuple[Instruction, ...]

    def multiplies(self, family: str, a: T.Tile, b: T.Tile, out: T.Tile, precision: str) -> bool:
        """True if it has an instruction for tiles of these types."""
        kinds = (a.element, b.element, out.element) == (self.a, self.b, self.out)
        return kinds and family in self.families and (self.precisions is None or precision in self.precisions)


def of_8_bit_floats(kinds: Mapping[T.Scalar, str]) -> list[tuple[T.Scalar, T.Scalar, tuple[str, str]]]:
    """(a, b, names of the operands) of every pair; the instruction's first operand is b, see `fragments`.

    >>> [(a, b, *names) for a, b, names in of_8_bit_floats(OCP)][1]
    (f8e4nv, f8e5, 'bf8', 'fp8')
    """
    return [(a, b, (kinds[b], kinds[a])) for a in kinds for b in kinds]


# --- MFMA -------------------------------------------------------------------------------------------------------------
_WARP = 64
_SINCE_1, _SINCE_2, _SINCE_3 = (tuple(f"cdna{k}" for k in range(first, 5)) for first in (1, 2, 3))


def _mfma(families: tuple[str, ...], element: T.Scalar, name: str, operand: str, *shapes: tuple[int, int],
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
        _mfma(families, a, name.format("{}", *names), operand, *shapes, other=b)
        for a, b, names in of_8_bit_floats(kinds)
    ]


def _f8f6f4(families: tuple[str, ...], *shapes: tuple[int, int]) -> list[Product]:
    """The rows of CDNA 4's wide products, whose arguments say which types are multiplied. LLVM takes scales of zero for
    the instruction without scales."""
    name, codes = "mfma.scale.f32.{}.f8f6f4.v8i32.v8i32", {"fp8": 0, "bf8": 1}
    return [
        _mfma(families, a, name, "<8 x i32>", *shapes, other=b, behind=(*(codes[x] for x in names), 0, 0, 0, 0))
        for a, b, names in of_8_bit_floats(OCP)
    ]


# Of the rows that fit, the last one is taken: instructions with a larger K come behind those with a smaller one.
MFMA = (
    _mfma(_SINCE_1, T.f16, "mfma.f32.{}f16", "<4 x half>", (32, 8), (16, 16)),
    _mfma(("cdna4",), T.f16, "mfma.f32.{}.f16", "<8 x half>", (32, 16), (16, 32)),
    _mfma(("cdna1",), T.bf16, "mfma.f32.{}bf16", "<2 x i16>", (32, 4), (16, 8), pack=2),
    _mfma(_SINCE_2, T.bf16, "mfma.f32.{}bf16.1k", "<4 x i16>", (32, 8), (16, 16)),
    _mfma(("cdna4",), T.bf16, "mfma.f32.{}.bf16", "<8 x bfloat>", (32, 16), (16, 32)),
    *_eight_bits(("cdna3",), FNUZ, "mfma.f32.{}.{}.{}", "i64", (32, 16), (16, 32)),
    *_eight_bits(("cdna4",), OCP, "mfma.f32.{}.{}.{}", "i64", (32, 16), (16, 32)),
    *_f8f6f4(("cdna4",), (32, 64), (16, 128)),
    _mfma(("cdna1", "cdna2"), T.i8, "mfma.i32.{}i8", "i32", (32, 8), (16, 16), out=T.i32, pack=2),
    _mfma(_SINCE_3, T.i8, "mfma.i32.{}.i8", "i64", (32, 16), (16, 32), out=T.i32),
    _mfma(("cdna4",), T.i8, "mfma.i32.{}.i8", "<4 x i32>", (32, 32), (16, 64), out=T.i32),
    _mfma(_SINCE_1, T.f32, "mfma.f32.{}f32", "float", (32, 2), (16, 4), pack=4),
    _mfma(("cdna3",), T.f32, "mfma.f32.{}.xf32", "<2 x float>", (32, 4), (16, 8), precisions=("tf32",), pack=2),
    _mfma(_SINCE_2, T.f64, "mfma.f64.{}f64", "double", (16, 4), out=T.f64),
)


# --- WMMA -------------------------------------------------------------------------------------------------------------
_RDNA_3, _RDNA_4 = ("rdna3", "rdna3.5"), ("rdna4",)
_SIZE = 16


def _wmma(families: tuple[str, ...], element: T.Scalar, name: str, operand: str, out: T.Scalar = T.f32,
          other: T.Scalar | None = None) -> Product:
    """A row of the table; a bf16 is an i16 to these intrinsics, and four integers of 8 bits are one of 32."""
    kind = "i32" if out is T.i32 else "float"
    places, per_lane = (WMMA_GFX11, 16) if families is _RDNA_3 else (WMMA_GFX12, 8)
    sums = f"<8 x {kind}>"
    intrinsic = f"wmma.{name}.{mangle(sums)}.{mangle(operand)}"
    made = Instruction(intrinsic, _SIZE, _SIZE, per_lane, operand, sums, places, signed=out is T.i32)
    return Product(families, element, other or element, out, None, name, (made,))


WMMA = (
    _wmma(_RDNA_3, T.f16, "f32.16x16x16.f16", "<16 x half>"),
    _wmma(_RDNA_3, T.bf16, "f32.16x16x16.bf16", "<16 x i16>"),
    _wmma(_RDNA_3, T.i8, "i32.16x16x16.iu8", "<4 x i32>", out=T.i32),
    _wmma(_RDNA_4, T.f16, "f32.16x16x16.f16", "<8 x half>"),
    _wmma(_RDNA_4, T.bf16, "f32.16x16x16.bf16", "<8 x i16>"),
    *(
        _wmma(_RDNA_4, a, f"f32.16x16x16.{'.'.join(names)}", "<2 x i32>", other=b)
        for a, b, names in of_8_bit_floats(OCP)
    ),
    _wmma(_RDNA_4, T.i8, "i32.16x16x16.iu8", "<2 x i32>", out=T.i32),
)

PRODUCTS = (*MFMA, *WMMA)
