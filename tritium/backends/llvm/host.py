"""This machine's CPU as the system describes it, without LLVM, which takes longer to load than a kernel to start.

    >>> found = level()
    >>> found is None or found.machine in ("x86_64", "aarch64")
    True
"""

from __future__ import annotations

import os
import re
import sys

from ... import locks
from . import levels

# Linux's words for features that have other names in LLVM, apart from _.
_WORDS = {"pni": "sse3", "sse4_1": "sse4.1", "sse4_2": "sse4.2", "lahf_lm": "sahf", "abm": "lzcnt", "bmi1": "bmi"}


@locks.once
def level() -> levels.Level | None:
    """This machine with the features that levels are made of; None where only LLVM can tell: not on Linux."""
    machine = os.uname().machine if sys.platform == "linux" else ""
    if machine == "x86_64":
        has = features_in(_cpuinfo())
        if "amx-tile" in has and not may_use_tiles():
            has = frozenset(feature for feature in has if not feature.startswith("amx-"))
        if "amx-tile" in has and has_amx_fp16():
            has |= {"amx-fp16"}
    elif machine == "aarch64":
        has = levels.known(machine, arm_extensions())
    else:
        return None
    return levels.Level("host", machine, "", "", has, f"{machine}-unknown-linux-gnu") if has else None


def _cpuinfo() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return file.read(1 << 16)  # the first CPU's: the others have the same
    except OSError:
        return ""


def features_in(text: str) -> frozenset[str]:
    """The features among the flags of /proc/cpuinfo.

    >>> sorted(features_in("flags\\t\\t: fpu pni sse4_1 avx512_bf16 amx_tile\\n"))
    ['amx-tile', 'avx512bf16', 'sse3', 'sse4.1']
    """
    found = re.search(r"^flags\s*:(.*)$", text, re.M)
    spelled = ((_WORDS.get(word, word), word.replace("_", ""), word.replace("_", "-"))
               for word in (found[1].split() if found else ()))
    return levels.known("x86_64", (name for names in spelled for name in names))


def may_use_tiles() -> bool:
    """Request AMX tiles, once per process: Linux saves them for threads only on request."""
    if sys.platform != "linux":
        return False
    import ctypes

    request, permission, tiles = 158, 0x1023, 18  # arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)
    return ctypes.CDLL(None).syscall(*map(ctypes.c_long, (request, permission, tiles))) == 0


def has_amx_fp16() -> bool:
    """Whether an x86-64 CPU multiplies tiles of f16. Linux has no word for it, so the CPU is asked."""
    import ctypes
    import mmap

    code = bytes.fromhex("53 89f8 89f1 0fa2 5b c3")  # push rbx; mov eax, edi; mov ecx, esi; cpuid; pop rbx; ret
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        return False
    page.write(code)
    place = ctypes.c_char.from_buffer(page)
    cpuid = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32)(ctypes.addressof(place))
    return cpuid(7, 0) >= 1 and bool(cpuid(7, 1) >> 21 & 1)


def gathers_are_guarded() -> bool | None:
    """Whether microcode guards gathers against leaks (Downfall, 2023); None where the system does not tell."""
    try:
        with open("/sys/devices/system/cpu/vulnerabilities/gather_data_sampling") as file:
            return guards_gathers(file.read())
    except OSError:
        return None


def guards_gathers(text: str) -> bool | None:
    """What the system says of it.

    >>> guards_gathers("Mitigation: Microcode"), guards_gathers("Not affected"), guards_gathers("Unknown")
    (True, False, None)
    """
    return {"Mitigation": True, "Not affected": False, "Vulnerable": False}.get(text.strip().partition(":")[0])


# Linux's auxiliary vector: (entry, bit) of a feature on AArch64.
_HWCAPS = {"crc": (16, 7), "lse": (16, 8), "fullfp16": (16, 10), "rdm": (16, 12), "rcpc": (16, 15), "dotprod": (16, 20),
           "i8mm": (26, 13), "bf16": (26, 14)}  # fmt: skip


def arm_extensions() -> set[str]:
    """The features that LLVM infers from a CPU's name, but does not list among the host's features."""
    if sys.platform == "darwin":
        return {"crc", "lse", "rdm", "rcpc", "fullfp16", "dotprod"}
    import ctypes

    ask = ctypes.CDLL(None).getauxval
    ask.restype, ask.argtypes = ctypes.c_ulong, (ctypes.c_ulong,)
    return {feature for feature, (entry, bit) in _HWCAPS.items() if ask(entry) >> bit & 1}
