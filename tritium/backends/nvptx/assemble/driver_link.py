"""PTX to machine code by the driver, in this process: starting `ptxas` takes longer than a small kernel needs.

The driver's linker compiles for the GPU whose context is current, as parts of a program. A kernel without calls does
not notice, but for `setmaxnreg`, which the linker ignores: all its warps have the registers they begin with.
"""

from __future__ import annotations

import ctypes

from ..runtime import cuda
from .ptxas import directed, failure, has_lines, spills, usage
from .traits import Traits

_INFO, _INFO_SIZE, _ERROR, _ERROR_SIZE, _VERBOSE, _LINES = 3, 4, 5, 6, 12, 13  # CUjit_option
_PTX = 1  # CUjitInputType
_ROOM = 8192  # bytes of a log
_BESIDE_SUMS = 36  # registers a product needs besides those of its sums


def version() -> int:
    """The driver's version, part of the cache key; 0 where there is no driver."""
    lib, found = cuda.CUDA.library(), ctypes.c_int()
    if lib is not None and hasattr(lib, "cuDriverGetVersion"):
        lib.cuDriverGetVersion(ctypes.byref(found))
    return found.value


def makes(traits: Traits, sm: int) -> bool:
    """Whether the driver can be asked for the machine code of a kernel with these traits for this architecture.

    Only where a GPU of that kind is in use already: a process that merely compiles may want to fork.
    """
    if traits.calls or (traits.exchanges and not _enough(traits)) or context() is None:
        return False
    found = cuda.properties(cuda.current())
    return found["major"] * 10 + found["minor"] == sm


def context() -> int | None:
    """The context that is current in this thread, of a driver that can link; else None."""
    lib, found = cuda.CUDA.library(), ctypes.c_void_p()
    if lib is None or not hasattr(lib, "cuLinkCreate_v2") or lib.cuCtxGetCurrent(ctypes.byref(found)):
        return None
    return found.value


def _enough(traits: Traits) -> bool:
    """Whether the registers that threads begin with are likely enough: for the sums of one product, if they fit.

    >>> _enough(Traits(256, registers=168, sums=(128,))), _enough(Traits(256, registers=168, sums=(64, 64)))
    (True, False)
    """
    if traits.registers is None or len(traits.sums) != 1:
        return False
    return traits.sums[0] + _BESIDE_SUMS <= traits.registers


def lacks_registers(traits: Traits, said: str) -> bool:
    """Whether a kernel that was to exchange registers may not be well made without, as the driver's compiler said; it
    says nothing of a text that it remembers.

    >>> lacks_registers(Traits(256, exchanges=True), "Used 90 registers, 8 bytes spill stores, 8 bytes spill loads")
    True
    """
    return traits.exchanges and (usage(said).get("n_spills", 1) > 0 or "serialized" in said)


def link_to_fit(ptx: str, traits: Traits, most_threads: int) -> tuple[bytes, str]:
    """As `link`; of large programs, with so few registers that half of the `most_threads` threads of a processor find
    room at once, if nothing spills then.

    The linker takes whatever registers make a single thread fast. Large programs leave a processor in large steps: one
    of 512 threads that takes 72 registers is alone on it, and while its warps wait for each other nothing else has
    something to do. All threads at once are too many: 32 registers leave a thread few loads in flight.
    """
    settled = traits.products or traits.registers  # tensor cores want their registers, others have been told
    count = most_threads // 2 // traits.threads
    if not settled and traits.threads >= _LARGE and count > 1 and len(ptx) <= _LONGEST:
        made = link(directed(ptx, traits.threads, f".minnctapersm {count}"))
        if not spills(made[0]):
            return made
    return link(ptx)


_LARGE, _LONGEST = 512, 64_000  # threads; characters of a text that is not too long to be linked twice


def link(ptx: str) -> tuple[bytes, str]:
    """(cubin, what the driver's compiler said) of a PTX text; errors as `assemble`'s."""
    data = ptx.encode() + b"\0"
    said, wrong = (ctypes.create_string_buffer(_ROOM) for _ in range(2))
    options = (ctypes.c_int * 6)(_INFO, _INFO_SIZE, _ERROR, _ERROR_SIZE, _VERBOSE, _LINES)
    values = (ctypes.c_void_p * 6)(ctypes.addressof(said), _ROOM, ctypes.addressof(wrong), _ROOM, 1, has_lines(ptx))
    state, binary, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
    cuda.call("cuLinkCreate_v2", 6, options, values, ctypes.byref(state))
    try:
        add, complete = cuda.function("cuLinkAddData_v2"), cuda.function("cuLinkComplete")
        code = add(state, _PTX, data, ctypes.c_size_t(len(data)), b"kernel", 0, None, None)
        code = code or complete(state, ctypes.byref(binary), ctypes.byref(size))
        if code:
            raise failure(f"the driver cannot compile the kernel: {cuda.explain(code)}\n"
                          f"{wrong.value.decode(errors='replace').strip()}")
        return ctypes.string_at(binary, size.value), said.value.decode(errors="replace")
    finally:
        cuda.call("cuLinkDestroy", state)
