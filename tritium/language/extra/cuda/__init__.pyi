# Written by docs/make_stubs.py from the objects themselves: change those, and run it again.

from . import (
    libdevice as libdevice,
)
from ...core import Operand, dtype, tensor

__all__: list[str]


def globaltimer() -> tensor:
    """Nanoseconds of a clock that all programs share, as int64.

        start = tl.extra.cuda.globaltimer()
    """


def smid() -> tensor:
    """The number of the multiprocessor this program runs on, as int32.

        sm = tl.extra.cuda.smid()
    """


def num_warps() -> int:
    """How many warps run this program: a compile-time constant.

        WARPS: tl.constexpr = tl.extra.cuda.num_warps()
    """


def num_threads() -> int:
    """How many threads run this program: a compile-time constant.

        THREADS: tl.constexpr = tl.extra.cuda.num_threads()
    """


def gdc_wait() -> None:
    """Wait until the kernel launched before this one has finished and its writes are visible.

        tl.extra.cuda.gdc_wait()
        x = tl.load(written_by_the_previous_kernel)
    """


def gdc_launch_dependents() -> None:
    """Allow the kernel launched after this one to start.

        tl.extra.cuda.gdc_launch_dependents()
    """


def convert_custom_float8_sm80(arg: Operand, dst_ty: dtype, fp_downcast_rounding: str | None = None) -> tensor:
    """Convert between float8e4b15 and wider floats, as `.to()` does.

        half = tl.extra.cuda.convert_custom_float8_sm80(x, tl.float16)
    """


def convert_custom_float8_sm70(arg: Operand, dst_ty: dtype, fp_downcast_rounding: str | None = None) -> tensor:
    """Convert between float8e4b15 and wider floats, as `.to()` does.

        half = tl.extra.cuda.convert_custom_float8_sm70(x, tl.float16)
    """
