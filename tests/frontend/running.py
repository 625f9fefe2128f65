"""Runs a kernel through the frontend and the machine."""

import numpy as np

from tritium.frontend import lower
from tritium.interp.machine import interpret
from tritium.ir.verify import verify

SIGNATURES = {"int32": "*i32", "int64": "*i64", "float32": "*fp32", "float16": "*fp16", "bool": "*u1"}


def module_of(kernel, *args, **constants):
    """The verified module for these arguments: arrays, ints (i32), floats (fp32); `constants` by name."""
    signature = {}
    for name, arg in zip(kernel.arg_names, args):
        signature[name] = SIGNATURES[arg.dtype.name] if isinstance(arg, np.ndarray) else \
            "fp32" if isinstance(arg, float) else "i32"
    signature |= dict.fromkeys(constants, "constexpr")
    return verify(lower(kernel, signature, constants))


def run(kernel, *args, grid=(1,), **constants):
    """Launch; returns the first array."""
    interpret(module_of(kernel, *args, **constants), list(args), grid)
    return next(arg for arg in args if isinstance(arg, np.ndarray))


def ints(*values, size=8):
    """An int32 array."""
    return np.array([*values, *[0] * (size - len(values))], np.int32)
