"""What test suites written for Triton import: names of dtypes, random arrays, questions about the device.

    >>> numpy_random((4,), "int8", np.random.RandomState(0)).dtype
    dtype('int8')
    >>> is_cuda() and is_hip()
    False
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tritium import knobs
from tritium.tensors import TensorWrapper, reinterpret

int_dtypes = ["int8", "int16", "int32", "int64"]
uint_dtypes = ["uint8", "uint16", "uint32", "uint64"]
integral_dtypes = int_dtypes + uint_dtypes
float_dtypes = ["float16", "float32", "float64"]
float_dtypes_with_bfloat16 = [*float_dtypes, "bfloat16"]
dtypes = integral_dtypes + float_dtypes
dtypes_with_bfloat16 = [*dtypes, "bfloat16"]
torch_float8_dtypes = ["float8_e4m3fn", "float8_e5m2"]
torch_dtypes = ["bool", *int_dtypes, "uint8", *float_dtypes, "bfloat16"]
tma_dtypes = sorted(set(dtypes_with_bfloat16) - {"int64", "uint64", "float64"})


# -- where the tests run -----------------------------------------------------------------------------------------------


def is_interpreter() -> bool:
    """Whether kernels run as plain Python."""
    return knobs.runtime.interpret


def get_current_target() -> Any:
    """The target of the active driver; None where kernels run as plain Python."""
    from tritium.backends.driver import driver

    return None if is_interpreter() else driver.active.get_current_target()


def _backend() -> str | None:
    target = get_current_target()
    return None if target is None else target.backend


def _capability() -> tuple[int, int]:
    """The compute capability of an NVIDIA GPU; (0, 0) on anything else."""
    return divmod(get_current_target().arch, 10) if is_cuda() else (0, 0)


def _amd() -> str:
    return str(get_current_target().arch) if is_hip() else ""


def get_arch() -> str:
    """The architecture of the active driver's target, as text."""
    target = get_current_target()
    return "" if target is None else str(target.arch)


def is_cuda() -> bool:
    """Whether the active device is an NVIDIA GPU."""
    return _backend() == "cuda"


def is_hip() -> bool:
    """Whether the active device is an AMD GPU."""
    return _backend() == "hip"


def is_xpu() -> bool:
    """Whether the active device is an Intel GPU: tritium has no such backend."""
    return _backend() == "xpu"


def is_cpu() -> bool:
    """Whether the active device is the CPU."""
    return _backend() == "cpu"


def is_ampere_or_newer() -> bool:
    """Compute capability 8 or more."""
    return _capability() >= (8, 0)


def is_hopper() -> bool:
    """Compute capability 9."""
    return _capability()[0] == 9


def is_hopper_or_newer() -> bool:
    """Compute capability 9 or more."""
    return _capability() >= (9, 0)


def is_blackwell() -> bool:
    """Compute capability 10."""
    return _capability()[0] == 10


def is_blackwell_ultra() -> bool:
    """Compute capability 10.3."""
    return _capability() == (10, 3)


def is_sm12x() -> bool:
    """Compute capability 12."""
    return _capability()[0] == 12


def is_hip_cdna2() -> bool:
    """An AMD MI200."""
    return _amd() == "gfx90a"


def is_hip_cdna3() -> bool:
    """An AMD MI300."""
    return _amd() == "gfx942"


def is_hip_cdna4() -> bool:
    """An AMD MI350."""
    return _amd() == "gfx950"


def is_hip_cdna() -> bool:
    """Any AMD GPU for data centres."""
    return is_hip_cdna2() or is_hip_cdna3() or is_hip_cdna4()


def is_hip_rdna3() -> bool:
    """An AMD GPU of the third graphics generation."""
    return _amd().startswith("gfx11")


def is_hip_rdna4() -> bool:
    """An AMD GPU of the fourth graphics generation."""
    return _amd().startswith("gfx120")


def is_hip_gfx1250() -> bool:
    """An AMD gfx1250."""
    return _amd() == "gfx1250"


def get_hip_lds_size() -> int:
    """Bytes of shared memory of an AMD GPU's unit."""
    return 160 * 1024 if is_hip_cdna4() else 64 * 1024


def supports_tma(byval_only: bool = False) -> bool:
    """Whether kernels may use tensor descriptors: everywhere, for what has no such hardware uses pointers."""
    return True


def supports_ws() -> bool:
    """Whether the device can run warps of one program on different code."""
    return _capability()[0] in (9, 10)


def tma_skip_msg(byval_only: bool = False) -> str:
    """Why a test of descriptors is skipped."""
    return "tensor descriptors are not supported here"


def requires_tma(test: Callable) -> Callable:
    """Mark a test that uses tensor descriptors."""
    import pytest

    return pytest.mark.skipif(not supports_tma(), reason=tma_skip_msg())(test)


# -- data --------------------------------------------------------------------------------------------------------------


def numpy_random(shape, dtype_str: str, rs=None, low: int | None = None, high: int | None = None):
    """Random numbers; integers cover their whole range, bfloat16 comes as float32 with a short mantissa.

    >>> bool((numpy_random((100,), "float32", np.random.RandomState(0)) == 0).any())
    False
    """
    rs = rs or np.random.RandomState(17)
    shape = shape if isinstance(shape, tuple | list) else (shape,)
    if dtype_str in integral_dtypes:
        limits = np.iinfo(getattr(np, dtype_str))
        least = limits.min if low is None else max(low, limits.min)
        most = limits.max if high is None else min(high, limits.max)
        made = rs.randint(least, most, shape, dtype=getattr(np, dtype_str))
        made[made == 0] = 1  # a divisor
        return made
    if "float8" in dtype_str:
        made = rs.randint(20, 40, shape, dtype=np.int8)
        return made
    if dtype_str in float_dtypes:
        return rs.normal(0, 1, shape).astype(dtype_str)
    if dtype_str == "bfloat16":
        bits = rs.normal(0, 1, shape).astype("float32").view("uint32")
        return (bits & np.uint32(0xFFFF0000)).view("float32")
    if dtype_str in ("bool", "int1", "bool_"):
        return rs.normal(0, 1, shape) > 0.0
    raise RuntimeError(f"Unknown dtype {dtype_str}")


def to_triton(x: np.ndarray, device: str = "cpu", dst_type: str | None = None) -> Any:
    """A torch tensor of an array; what torch has no dtype for comes wrapped.

    >>> to_triton(np.zeros(2, np.uint16)).dtype
    triton.language.uint16
    """
    import torch

    import tritium.language as tl

    name = x.dtype.name
    if name in uint_dtypes:
        return reinterpret(torch.tensor(x.view(name.lstrip("u")), device=device), getattr(tl, name))
    if dst_type and "float8" in dst_type:
        return reinterpret(torch.tensor(x, device=device), getattr(tl, dst_type))
    made = torch.tensor(x, device=device)
    return made.bfloat16() if name == "float32" and dst_type == "bfloat16" else made


def to_numpy(x: Any) -> np.ndarray:
    """The array of a torch tensor, or of one that `to_triton` wrapped."""
    import torch

    if isinstance(x, TensorWrapper):
        return x.base.cpu().numpy().view(torch_dtype_name(x.dtype))
    if isinstance(x, torch.Tensor):
        return (x.float() if x.dtype is torch.bfloat16 else x).cpu().numpy()
    raise ValueError(f"Not a triton-compatible tensor: {x}")


def torch_dtype_name(dtype: Any) -> str:
    """The name of a dtype of torch or of the language, as NumPy has it.

    >>> import tritium.language as tl
    >>> torch_dtype_name(tl.float32)
    'float32'
    """
    from tritium.language.types.dtypes import dtype as language_dtype

    if isinstance(dtype, language_dtype):
        return repr(dtype).rpartition(".")[2]
    found = re.match(r"^torch\.(\w+)$", str(dtype))
    if found is None:
        raise TypeError(f"not a triton or torch dtype: {type(dtype)}")
    return found[1]


def str_to_triton_dtype(name: str) -> Any:
    """The language's dtype of a name.

    >>> str_to_triton_dtype("float16")
    triton.language.float16
    """
    import tritium.language as tl

    return getattr(tl, "int1" if name == "bool" else name)


def unwrap_tensor(t: Any) -> Any:
    """The torch tensor under a wrapper."""
    return t.base if isinstance(t, TensorWrapper) else t


def default_alloc_fn(size: int, align: int, _) -> Any:
    """Scratch memory from torch, on the active device."""
    import torch

    from tritium.backends.driver import driver

    return torch.empty(size, dtype=torch.int8, device=driver.active.get_active_torch_device())


# -- settings ----------------------------------------------------------------------------------------------------------


def _fresh_knobs_impl(skipped_attr: set[str] | None = None) -> tuple[Callable[[], Any], Callable[[], None]]:
    """Two functions: the settings as if nothing had been set, and the settings as they were."""
    kept = {name: group for name, group in vars(knobs).items()
            if isinstance(group, knobs.base_knobs) and name not in (skipped_attr or ())}
    environment, propagate = dict(os.environ), knobs.propagate_env

    def fresh():
        for name, group in kept.items():
            for key in filter(None, (row.key for row in group.knob_descriptors.values())):
                knobs.setenv(key, None)
            setattr(knobs, name, group.copy().reset())
        knobs.propagate_env = True
        return knobs

    def restore() -> None:
        for name, group in kept.items():
            setattr(knobs, name, group)
            for key in filter(None, (row.key for row in group.knob_descriptors.values())):
                knobs.setenv(key, environment.get(key))
        knobs.propagate_env = propagate

    return fresh, restore
