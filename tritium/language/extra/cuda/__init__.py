"""`tl.extra.cuda`: readings of NVIDIA hardware, and launches that depend on each other.

On other targets the timer and the launch shape still answer, and dependent launches are not a thing to wait for.
"""

from __future__ import annotations

from tritium.ir import types as T

from ...builtins.calling import builtin
from ...builtins.casting import convert, scalar_type
from ...builtins.deferred import ops
from ...types.limits import capability
from ...types.values import tensor
from . import libdevice


@builtin
def globaltimer(b):
    """Nanoseconds of a clock that all programs share, as int64.

        start = tl.extra.cuda.globaltimer()
    """
    return tensor(ops.clock(b, what="globaltimer"))


@builtin
def smid(b):
    """The number of the multiprocessor this program runs on, as int32.

        sm = tl.extra.cuda.smid()
    """
    return tensor(ops.clock(b, what="smid"))


@builtin
def num_warps(b) -> int:
    """How many warps run this program: a compile-time constant.

        WARPS: tl.constexpr = tl.extra.cuda.num_warps()
    """
    return b.options.num_warps


@builtin
def num_threads(b) -> int:
    """How many threads run this program: a compile-time constant.

        THREADS: tl.constexpr = tl.extra.cuda.num_threads()
    """
    return 32 * b.options.num_warps


def _dependent_launch(b, asm):
    if capability(b.target) >= 90:
        ops.inline_asm(b, asm=asm, constraints="~{memory}", types=(), pure=False, pack=1)


@builtin
def gdc_wait(b) -> None:
    """Wait until the kernel launched before this one has finished and its writes are visible.

        tl.extra.cuda.gdc_wait()
        x = tl.load(written_by_the_previous_kernel)
    """
    _dependent_launch(b, "griddepcontrol.wait;")


@builtin
def gdc_launch_dependents(b) -> None:
    """Allow the kernel launched after this one to start.

        tl.extra.cuda.gdc_launch_dependents()
    """
    _dependent_launch(b, "griddepcontrol.launch_dependents;")


def _convert_float8(b, arg, dst_ty, fp_downcast_rounding):
    rounding = "rtz" if fp_downcast_rounding == "rtz" else None
    kind, source = scalar_type(dst_ty, "dst_ty"), T.element(arg.handle.type)
    return convert(b, arg, kind, rounding if source.bits > kind.bits else None)


@builtin
def convert_custom_float8_sm80(b, arg, dst_ty, fp_downcast_rounding=None):
    """Convert between float8e4b15 and wider floats, as `.to()` does.

        half = tl.extra.cuda.convert_custom_float8_sm80(x, tl.float16)
    """
    return _convert_float8(b, arg, dst_ty, fp_downcast_rounding)


@builtin
def convert_custom_float8_sm70(b, arg, dst_ty, fp_downcast_rounding=None):
    """Convert between float8e4b15 and wider floats, as `.to()` does.

        half = tl.extra.cuda.convert_custom_float8_sm70(x, tl.float16)
    """
    return _convert_float8(b, arg, dst_ty, fp_downcast_rounding)


__all__ = ["convert_custom_float8_sm70", "convert_custom_float8_sm80", "gdc_launch_dependents", "gdc_wait",
           "globaltimer", "libdevice", "num_threads", "num_warps", "smid"]  # fmt: skip
