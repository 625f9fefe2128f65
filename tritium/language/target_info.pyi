# Written by docs/make_stubs.py from the objects themselves: change those, and run it again.

from collections.abc import Callable
from typing import Any

__all__: list[str]
host_target: Callable[[], Any] | None


def current_target() -> Any:
    """The target (with `.backend`, `.arch` and `.warp_size`), or None if there is none.

        if tl.target_info.current_target().backend == "cuda": ...
    """


def is_cuda() -> bool:
    """Whether the target is an NVIDIA GPU.

        num_stages: tl.constexpr = 3 if tl.target_info.is_cuda() else 1
    """


def is_hip() -> bool:
    """Whether the target is an AMD GPU.

        WIDTH: tl.constexpr = 64 if tl.target_info.is_hip() else 32
    """


def is_hip_cdna3() -> bool:
    """Whether the target is an AMD CDNA3 GPU (gfx942).

        USE_FNUZ: tl.constexpr = tl.target_info.is_hip_cdna3()
    """


def is_hip_cdna4() -> bool:
    """Whether the target is an AMD CDNA4 GPU (gfx950).

        SCALED: tl.constexpr = tl.target_info.is_hip_cdna4()
    """


def is_hip_gfx1250() -> bool:
    """Whether the target is an AMD gfx1250 GPU.

        WIDE: tl.constexpr = tl.target_info.is_hip_gfx1250()
    """


def cuda_capability_geq(major: int, minor: int = 0) -> bool:
    """Whether the target is an NVIDIA GPU of at least this compute capability.

        HAS_TMA: tl.constexpr = tl.target_info.cuda_capability_geq(9)
    """
