"""The rivals: torch, torch.compile (inductor), Triton, numba and NumPy, for kernels of the collection."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from tritium.tools.bench.files import Loader
from tritium.tools.bench.targets import Case, Target
from tritium.tools.command import UsageError, closest

__all__ = ["RIVALS", "Rivals"]

RIVALS = ("torch", "inductor", "triton", "numba", "numpy")


def _installed(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


class Rivals:
    """The rivals that were asked for, as far as they are installed; one that is not there is a mistake of the caller.

    >>> Rivals(["numpy"], "cpu").names
    ['numpy']
    """

    def __init__(self, names: list[str] | None, device: str):
        self.device = device
        self.torch = _installed("torch")
        self.names = self._usual() if names is None else list(dict.fromkeys(names))
        self._modules: dict[str, Any] = {}
        for name in self.names:
            if name not in RIVALS:
                raise UsageError(f"there is no rival {name!r}{closest(name, RIVALS)}; there are {', '.join(RIVALS)}")
            self._modules[name] = getattr(self, f"_find_{name}")()
        self._peer = Loader(self._modules["triton"]) if "triton" in self._modules else None

    def _usual(self) -> list[str]:
        return ["numpy"] if self.torch is None else ["torch"]

    def _find_torch(self) -> Any:
        if self.torch is None:
            raise UsageError("torch is not installed: install it, or leave it out of --against")
        return self.torch

    _find_inductor = _find_torch

    def _find_numpy(self) -> Any:
        if self.device == "cuda":
            raise UsageError("NumPy runs on the CPU: leave it out of --against, or write --device cpu")
        return np

    def _find_numba(self) -> Any:
        if self.device == "cuda":
            raise UsageError("numba is a rival on the CPU: leave it out of --against, or write --device cpu")
        found = _installed("numba")
        if found is None:
            raise UsageError("numba is not installed: pip install numba, or leave it out of --against")
        return found

    def _find_triton(self) -> ModuleType:
        if self.device != "cuda":
            raise UsageError("Triton runs on GPUs only: write --device cuda, or leave it out of --against")
        found = _installed("triton")
        if found is None:
            raise UsageError("triton is not installed: pip install triton, or leave it out of --against")
        if found.__name__ != "triton":
            raise UsageError("`import triton` gives tritium here: `python -m tritium disable` undoes that")
        return found

    def of(self, target: Target, case: Case, dtype: str) -> tuple[dict[str, Callable[[], Any]], dict[str, str]]:
        """(functions that do what the case does, why some rivals cannot); a user's case brings its own."""
        found: dict[str, Callable[[], Any]] = dict(case.rivals)
        problems: dict[str, str] = {}
        if target.record is None:
            return found, problems
        for name in self.names:
            try:
                made = getattr(self, f"_{name}")(target, case)
                if made is None:
                    continue
                made()
                found[name] = made
            except Exception as error:  # what one rival cannot do keeps nobody from the others
                problems[name] = f"{type(error).__name__}: {error}".split("\n")[0][:200]
        return found, problems

    def _torch(self, target: Target, case: Case) -> Callable | None:
        rival, torch, arguments = target.record and target.record.rival, self.torch, case.arguments
        return rival and (lambda: rival(torch, *arguments))

    def _inductor(self, target: Target, case: Case) -> Callable | None:
        rival, torch, arguments = target.record and target.record.rival, self.torch, case.arguments
        if rival is None:
            return None
        torch._dynamo.reset()  # it counts compilations of one function, and gives up after eight
        compiled = torch.compile(lambda *arguments: rival(torch, *arguments), dynamic=False)
        return lambda: compiled(*arguments)

    def _triton(self, target: Target, case: Case) -> Callable | None:
        record, arguments = target.record, case.arguments
        if record is None or self._peer is None or not record.jit:
            return None
        module = self._peer.module(home_of(record))
        theirs = next(other for other in module.KERNELS if other.name == record.name)
        return lambda: theirs.wrapper(*arguments)

    def _numpy(self, target: Target, case: Case) -> Callable | None:
        record = target.record
        if record is None:
            return None
        from tritium.kernels.registry import as_float64

        arrays = [x.astype(np.float32) if hasattr(x, "astype") and x.dtype.kind == "f" else x
                  for x in map(as_float64, case.arguments)]
        return lambda: record.reference(*arrays)

    def _numba(self, target: Target, case: Case) -> Callable | None:
        make = NUMBA.get(target.name)
        if make is None:
            return None
        arrays = [x.numpy() if hasattr(x, "numpy") else x for x in case.arguments]
        return make(self._modules["numba"], *arrays)


def home_of(record: Any) -> str:
    """The module that lists a record.

    >>> from tritium.kernels.registry import find
    >>> home_of(find("softmax_persistent"))
    'tritium.kernels.softmax'
    """
    import pkgutil

    import tritium.kernels as package

    for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if any(other is record for other in getattr(importlib.import_module(info.name), "KERNELS", ())):
            return info.name
    raise LookupError(f"no module of the collection lists {record.name}")


# ---------------------------------------------------------------------------------------------------------------------
# numba has no such kernels: these are what its users would write.


def _numba_add(numba: Any, x: np.ndarray, y: np.ndarray) -> Callable:
    @numba.njit(fastmath=True, parallel=True)
    def add(x, y, out):
        for i in numba.prange(x.size):
            out[i] = x[i] + y[i]

    out = np.empty_like(x)
    return lambda: add(x, y, out)


def _numba_silu(numba: Any, x: np.ndarray) -> Callable:
    @numba.njit(fastmath=True, parallel=True)
    def silu(x, out):
        for i in numba.prange(x.size):
            out[i] = x[i] / (np.float32(1) + math.exp(-x[i]))

    out = np.empty_like(x)
    return lambda: silu(x, out)


def _numba_sum(numba: Any, x: np.ndarray) -> Callable:
    @numba.njit(fastmath=True, parallel=True)
    def total(x):
        result = np.float32(0)
        for i in numba.prange(x.size):
            result += x[i]
        return result

    return lambda: total(x)


def _numba_softmax(numba: Any, x: np.ndarray) -> Callable:
    @numba.njit(fastmath=True, parallel=True)
    def softmax(x, out):
        for i in numba.prange(x.shape[0]):
            top = x[i, 0]
            for j in range(x.shape[1]):
                top = max(top, x[i, j])
            total = np.float32(0)
            for j in range(x.shape[1]):
                out[i, j] = math.exp(x[i, j] - top)
                total += out[i, j]
            for j in range(x.shape[1]):
                out[i, j] /= total

    out = np.empty_like(x)
    return lambda: softmax(x, out)


NUMBA: dict[str, Callable] = {"vector_add": _numba_add, "silu": _numba_silu, "sum": _numba_sum,
                              "softmax": _numba_softmax}
