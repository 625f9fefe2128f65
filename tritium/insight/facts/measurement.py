"""How long a launch takes on this machine, measured on copies of its arguments."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from tritium.insight.facts.launch import Launch, tensors_of
from tritium.insight.facts.replicas import Replica, Storage, replicas
from tritium.tensors import is_descriptor

__all__ = ["measured_seconds"]


def measured_seconds(launch: Launch) -> float:
    """Seconds of a launch, the median of a tenth of a second of them; the target must be this machine's GPU, or a CPU.

    >>> from tritium.insight.facts.launch import prepared
    >>> from tritium.kernels.vector_add import add_kernel
    >>> from tritium.tools.compile import known_target
    >>> x = np.zeros(100, np.float32)
    >>> 0 < measured_seconds(prepared(add_kernel, (4,), (x, x, x, 100), {"BLOCK": 32}, known_target("cpu"))) < 1
    True
    """
    from tritium import testing
    from tritium.backends.driver import driver

    wanted = launch.target
    if launch.is_gpu and ((here := driver.active.get_current_target()).backend != wanted.backend
                          or _number(here.arch) != _number(wanted.arch)):
        raise ValueError(f"explain cannot measure a kernel for {wanted}: this machine runs {here}. "
                         "Leave out the target, or do not measure.")
    places: dict[int, Any] = {}
    found = replicas(launch)
    copies = {id(x): _copied(x, found[k], launch.is_gpu, places) for k, _, x in tensors_of(launch)}
    take = lambda x: tuple(map(take, x)) if isinstance(x, tuple) else copies.get(id(x), x)
    arguments = [take(x) for x in launch.values]
    return 1e-3 * testing.do_bench(lambda: launch.fn[launch.grid](*arguments, **launch.options), return_mode="median")


def _number(arch: Any) -> str:
    """The number of an architecture: 90 of 90a; the name of one that has none."""
    return "".join(filter(str.isdigit, str(arch))) if str(arch)[:1].isdigit() else str(arch)


def _copied(x: Any, replica: Replica, on_gpu: bool, places: dict[int, Any]) -> Any:
    """The argument in the copy of its storage, on the GPU if the kernel runs there."""
    if is_descriptor(x):
        x = copy.copy(x)
        x.base = _copied(x.base, replica, on_gpu, places)
        return x
    if isinstance(x, np.ndarray) and not on_gpu:
        return np.ndarray(x.shape, x.dtype, replica.storage.bytes, replica.offset, x.strides)
    import torch

    dtype = x.dtype if isinstance(x, torch.Tensor) else getattr(torch, x.dtype.name)
    data = _placed(replica.storage, on_gpu, places)[replica.offset :]
    whole = data[: data.numel() // replica.itemsize * replica.itemsize]
    return whole.view(dtype).as_strided(replica.shape, replica.strides)


def _placed(storage: Storage, on_gpu: bool, places: dict[int, Any]) -> Any:
    """The bytes of a storage as a tensor, the same one each time."""
    import torch

    if id(storage) not in places:
        places[id(storage)] = torch.from_numpy(storage.bytes).to("cuda" if on_gpu else "cpu")
    return places[id(storage)]
