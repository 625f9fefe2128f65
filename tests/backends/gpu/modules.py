"""Modules of tile IR of kernels, and their runs on the GPU: `run_cuda(module, args, grid)` changes arrays in place."""

import ctypes
import functools
import struct

import numpy as np

from tritium import passes
from tritium.backends import get
from tritium.backends.compiler import BaseBackend, GPUTarget
from tritium.backends.driver import driver
from tritium.backends.nvptx.runtime import cuda, tensor_map
from tritium.compiler.sources import with_options
from tritium.frontend import lower
from tritium.insight.emulator import fit
from tritium.insight.emulator.tma import tensor_of
from tritium.ir import types as T
from tritium.ir.verify import verify
from tritium.runtime.specialize import attrs_of, constants_of

_LETTER = {T.f16: "e", T.f32: "f", T.f64: "d"}


def module_of(kernel, args):
    """(module, its arguments) of a kernel specialised for some values."""
    pairs = [param.specialize(x) for param, x in zip(kernel.params, args, strict=True)]
    constants, attrs = {}, {}
    for i, ((kind, promise), x) in enumerate(zip(pairs, args)):
        constants |= constants_of(kind, x, (i,))
        attrs |= attrs_of(kind, promise, (i,))
    signature = {name: kind for name, (kind, _) in zip(kernel.arg_names, pairs)}
    return verify(lower(kernel, signature, constants, attrs)), [x for x, p in zip(args, pairs) if p[0] != "constexpr"]


@functools.lru_cache(maxsize=64)
def compiled(module, num_warps=4, num_stages=3, launch_checks=True, num_ctas=1):
    """(function, metadata) of a module, loaded on the current device."""
    target = driver.named("cuda").get_current_target()
    return load(module, target, num_warps, num_stages, launch_checks, num_ctas)


def binary(module, target, num_warps=4, num_stages=3, launch_checks=True, num_ctas=1):
    """(machine code, metadata) of a module for a target; needs no GPU."""
    backend = BaseBackend(target)
    options = backend.parse_options({"num_warps": num_warps, "num_stages": num_stages, "launch_checks": launch_checks,
                                     "num_ctas": num_ctas})  # fmt: skip
    module = with_options(module, target, options)
    value, metadata = passes.run(module, get(target).passes(target)), {}
    for _, stage in get(target).stages:
        value = stage(value, target, options, metadata)
    return value, metadata


def load(module, target, num_warps, num_stages=3, launch_checks=True, num_ctas=1):
    code, metadata = binary(module, target, num_warps, num_stages, launch_checks, num_ctas)
    _, function, *_ = cuda.load(module.name, code, metadata["shared"], cuda.current())
    return function, metadata


def run_cuda(module, args, grid=(1,), num_warps=4, num_stages=3, num_ctas=1):
    """Copy the arrays to the GPU, run, and copy them back."""
    cuda.use(cuda.current())
    function, metadata = compiled(module, num_warps, num_stages, num_ctas=num_ctas)
    if not fit(metadata, args, (*grid, 1, 1)[:3]):
        function, metadata = compiled(module, num_warps, num_stages, launch_checks=False, num_ctas=num_ctas)
    buffers, slots, values = [], [], []
    for arg, x in zip(module.args, args, strict=True):
        if isinstance(x, np.ndarray):
            address = ctypes.c_uint64()
            cuda.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(x.nbytes, 1)))
            cuda.call("cuMemcpyHtoD_v2", address, x.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(x.nbytes))
            buffers.append((address, x))
            slots.append(ctypes.create_string_buffer(struct.pack("<Q", address.value)))
            values.append(address.value)
        else:
            values.append(x)
            letter = _LETTER.get(arg.type) or {1: "b", 8: "b", 16: "h", 32: "i", 64: "q"}[arg.type.bits]
            letter = letter.upper() if not arg.type.signed and not arg.type.is_float else letter
            slots.append(ctypes.create_string_buffer(struct.pack("<" + letter, x)))
    (x, y, z), more = hidden_parameters(metadata, values, (*grid, 1, 1)[:3])
    slots += more
    pointers = (ctypes.c_void_p * len(slots))(*map(ctypes.addressof, slots))
    cuda.call(
        "cuLaunchKernel",
        ctypes.c_void_p(function),
        x * num_ctas,
        y,
        z,
        32 * (num_warps + metadata["producer_warps"]),
        1,
        1,
        metadata["shared"],
        None,
        pointers,
        None,
    )
    cuda.call("cuCtxSynchronize")
    for address, x in buffers:
        if x.nbytes:
            cuda.call("cuMemcpyDtoH_v2", x.ctypes.data_as(ctypes.c_void_p), address, ctypes.c_size_t(x.nbytes))
        cuda.call("cuMemFree_v2", address)


def hidden_parameters(metadata, values, grid):
    """(how many programs to start, what the kernel takes besides its arguments), as the launcher would have it."""
    more, sizes = [], grid
    if metadata["persistent"]:
        more = [ctypes.c_int32(n) for n in grid]
        grid = (min(BLOCKS, grid[0] * grid[1] * grid[2]), 1, 1)
    for template in (tensor_map.Template(*r) for r in metadata["tensor_maps"]):
        found = tensor_of(template, values, sizes)
        strides = [s // template.size for s in found.strides]
        more.append(tensor_map.encode(found.address, template.element, template.size, found.shape, strides,
                                      template.box, template.swizzle))  # fmt: skip
    return grid, more


BLOCKS = 3  # places for programs that kernels share out among themselves: few, so that each has several
H100 = GPUTarget("cuda", 90, 32)
