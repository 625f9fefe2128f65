"""WMMA, the matrix instructions of RDNA: warps of 32 lanes, pieces of 16 x 16 with a K of 16.

On RDNA 3 a lane has a whole row of A, and both halves of the warp have the same. On RDNA 4 each half has half of it.
"""

from __future__ import annotations

from ....ir import types as T
from ...llvm.writer import mangle
from .fragments import WMMA_GFX11, WMMA_GFX12, Instruction
from .products import OCP, Product, of_8_bit_floats

_RDNA_3, _RDNA_4 = ("rdna3", "rdna3.5"), ("rdna4",)
_SIZE = 16


def _product(families: tuple[str, ...], element: T.Scalar, name: str, operand: str, out: T.Scalar = T.f32,
             other: T.Scalar | None = None) -> Product:
    """A row of the table; a bf16 is an i16 to these intrinsics, and four integers of 8 bits are one of 32."""
    kind = "i32" if out is T.i32 else "float"
    places, per_lane = (WMMA_GFX11, 16) if families is _RDNA_3 else (WMMA_GFX12, 8)
    sums = f"<8 x {kind}>"
    intrinsic = f"wmma.{name}.{mangle(sums)}.{mangle(operand)}"
    made = Instruction(intrinsic, _SIZE, _SIZE, per_lane, operand, sums, places, signed=out is T.i32)
    return Product(families, element, other or element, out, None, name, (made,))


WMMA = (
    _product(_RDNA_3, T.f16, "f32.16x16x16.f16", "<16 x half>"),
    _product(_RDNA_3, T.bf16, "f32.16x16x16.bf16", "<16 x i16>"),
    _product(_RDNA_3, T.i8, "i32.16x16x16.iu8", "<4 x i32>", out=T.i32),
    _product(_RDNA_4, T.f16, "f32.16x16x16.f16", "<8 x half>"),
    _product(_RDNA_4, T.bf16, "f32.16x16x16.bf16", "<8 x i16>"),
    *(
        _product(_RDNA_4, a, f"f32.16x16x16.{'.'.join(names)}", "<2 x i32>", other=b)
        for a, b, names in of_8_bit_floats(OCP)
    ),
    _product(_RDNA_4, T.i8, "i32.16x16x16.iu8", "<2 x i32>", out=T.i32),
)
