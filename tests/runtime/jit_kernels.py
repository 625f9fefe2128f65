"""Kernels that do nothing, for tests of how they are launched."""

import numpy as np

from tritium.language.types import dtypes as tl_types
from tritium.language.types.constants import constexpr
from tritium.runtime.jit import jit


class tl:
    constexpr, const = constexpr, tl_types.const
    int64, float64, pointer_type, int8 = tl_types.int64, tl_types.float64, tl_types.pointer_type, tl_types.int8


@jit
def add(x_ptr, y_ptr, n, BLOCK: tl.constexpr = 64):
    pass


@jit
def with_option(x, num_warps: tl.constexpr):
    pass


@jit
def nothing():
    pass


X = np.zeros(64, np.float32)
ODD = X[1:]


def kernels(function):
    return function.device_caches[0][0]


def forget(kernel):
    """The kernel is as if it had never been launched."""
    kernel.device_caches.clear()
    kernel.pre_run_hooks.clear()
    kernel.hash = None
