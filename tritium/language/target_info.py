"""What a kernel runs on: inside a kernel, the target it is compiled for; on the host, the active driver's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .builtins.calling import Builtin, current
from .types.limits import capability

# Set by the runtime, which knows the drivers: the language does not.
host_target: Callable[[], Any] | None = None


class Question(Builtin):
    """A builtin that may be asked on the host too."""

    def __call__(self, *args, _semantic=None, _generator=None, **kwargs):
        return self.fn(current(), *args, **kwargs)


def _target(b) -> Any:
    if b is not None:
        return b.target
    return host_target() if host_target is not None else None


@Question
def current_target(b) -> Any:
    """The target (with `.backend`, `.arch` and `.warp_size`), or None if there is none.

        if tl.target_info.current_target().backend == "cuda": ...
    """
    return _target(b)


def _backend(b):
    target = _target(b)
    return None if target is None else target.backend


@Question
def is_cuda(b) -> bool:
    """Whether the target is an NVIDIA GPU.

        num_stages: tl.constexpr = 3 if tl.target_info.is_cuda() else 1
    """
    return _backend(b) == "cuda"


@Question
def is_hip(b) -> bool:
    """Whether the target is an AMD GPU.

        WIDTH: tl.constexpr = 64 if tl.target_info.is_hip() else 32
    """
    return _backend(b) == "hip"


@Question
def is_hip_cdna3(b) -> bool:
    """Whether the target is an AMD CDNA3 GPU (gfx942).

        USE_FNUZ: tl.constexpr = tl.target_info.is_hip_cdna3()
    """
    return _backend(b) == "hip" and _target(b).arch == "gfx942"


@Question
def is_hip_cdna4(b) -> bool:
    """Whether the target is an AMD CDNA4 GPU (gfx950).

        SCALED: tl.constexpr = tl.target_info.is_hip_cdna4()
    """
    return _backend(b) == "hip" and _target(b).arch == "gfx950"


@Question
def is_hip_gfx1250(b) -> bool:
    """Whether the target is an AMD gfx1250 GPU.

        WIDE: tl.constexpr = tl.target_info.is_hip_gfx1250()
    """
    return _backend(b) == "hip" and _target(b).arch == "gfx1250"


@Question
def cuda_capability_geq(b, major: int, minor: int = 0) -> bool:
    """Whether the target is an NVIDIA GPU of at least this compute capability.

        HAS_TMA: tl.constexpr = tl.target_info.cuda_capability_geq(9)
    """
    return _backend(b) == "cuda" and capability(_target(b)) >= major * 10 + minor


__all__ = ["cuda_capability_geq", "current_target", "is_cuda", "is_hip", "is_hip_cdna3", "is_hip_cdna4",
           "is_hip_gfx1250"]  # fmt: skip
