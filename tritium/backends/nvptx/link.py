"""PTX to machine code by the driver, in this process: starting `ptxas` takes longer than a small kernel needs.

The driver's linker compiles for the GPU whose context is current, as parts of a program. A kernel without calls does
not notice, but for `setmaxnreg`, which the linker ignores.
"""

from __future__ import annotations

import ctypes

from ...errors import PTXASError
from . import cuda

_INFO, _INFO_SIZE, _ERROR, _ERROR_SIZE, _VERBOSE = 3, 4, 5, 6, 12  # CUjit_option
_PTX = 1  # CUjitInputType
_ROOM = 8192  # bytes of a log
_NOT_FOR_IT = ("setmaxnreg", ".extern .func")


def version():
    """The driver's version, part of the cache key; 0 where there is no driver."""
    lib, found = cuda.library(), ctypes.c_int()
    if lib is not None and hasattr(lib, "cuDriverGetVersion"):
        lib.cuDriverGetVersion(ctypes.byref(found))
    return found.value


def makes(ptx, sm):
    """Whether the driver can be asked for the machine code of a PTX text for this architecture.

    Only where a GPU of that kind is in use already: a process that merely compiles may want to fork.
    """
    lib, context = cuda.library(), ctypes.c_void_p()
    if lib is None or not hasattr(lib, "cuLinkCreate_v2") or any(word in ptx for word in _NOT_FOR_IT):
        return False
    if lib.cuCtxGetCurrent(ctypes.byref(context)) or not context.value:
        return False
    found = cuda.properties(cuda.current())
    return found["major"] * 10 + found["minor"] == sm


def link(ptx):
    """(cubin, what the driver's compiler said) of a PTX text; PTXASError if it does not compile."""
    data = ptx.encode() + b"\0"
    said, wrong = (ctypes.create_string_buffer(_ROOM) for _ in range(2))
    options = (ctypes.c_int * 5)(_INFO, _INFO_SIZE, _ERROR, _ERROR_SIZE, _VERBOSE)
    values = (ctypes.c_void_p * 5)(ctypes.addressof(said), _ROOM, ctypes.addressof(wrong), _ROOM, 1)
    state, binary, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
    cuda.call("cuLinkCreate_v2", 5, options, values, ctypes.byref(state))
    try:
        add, complete = cuda.function("cuLinkAddData_v2"), cuda.function("cuLinkComplete")
        code = add(state, _PTX, data, ctypes.c_size_t(len(data)), b"kernel", 0, None, None)
        code = code or complete(state, ctypes.byref(binary), ctypes.byref(size))
        if code:
            raise PTXASError(f"the driver cannot compile the kernel: {cuda.explain(code)}\n"
                             f"{wrong.value.decode(errors='replace').strip()}")
        return ctypes.string_at(binary, size.value), said.value.decode(errors="replace")
    finally:
        cuda.call("cuLinkDestroy", state)
