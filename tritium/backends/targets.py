"""The names of machines, wherever a target is asked for.

    cpu, host, x86-64-v3, aarch64, x86-64-v2,+avx2      a CPU
    sm_90, sm_90a, cuda:90a, cuda:90:32                 a GPU of NVIDIA's
    gfx942, hip:gfx942, hip:gfx942:64                   a GPU of AMD's

`GPUTarget.parse` is the function that everything calls: commands, `compile`, `sanitize`, `explain`.
"""

from __future__ import annotations

import difflib
import re
from typing import NoReturn

from tritium import backends
from tritium.backends.occupancy import MACHINES, sm_number


def known() -> list[str]:
    """The names of machines that can stand alone.

    >>> {"cpu", "x86-64-v3", "aarch64", "sm_90", "gfx942"} <= set(known())
    True
    """
    from tritium.backends.llvm.levels import LEVELS

    gpus = (f"sm_{arch}" if isinstance(arch, int) else arch for rows in MACHINES.values() for arch in rows)
    return ["cpu", *LEVELS, *gpus]


def resolve(text: str) -> tuple[str, str, int]:
    """(backend, architecture, threads of a warp) of a target's name.

    >>> resolve("gfx942"), resolve("sm_90a"), resolve("cuda:80:32"), resolve("aarch64")
    (('hip', 'gfx942', 64), ('cuda', '90a', 32), ('cuda', '80', 32), ('cpu', 'aarch64', 1))
    >>> resolve("gfx924")
    Traceback (most recent call last):
    ValueError: 'gfx924' is not a target; did you mean 'gfx942'? Write backend:arch:warp_size, such as cuda:90:32, ...
    """
    backend, arch, warp_size = _parts(text.strip())
    if backend == "cuda":
        arch = re.sub(r"^sm_?(?=\d)", "", arch)
    size = warp_size or str(_warp_size(backend, arch))
    if not (backend and arch and size.isdigit()):
        _refuse(text)
    if backend in MACHINES and (sm_number(arch) or arch) not in MACHINES[backend]:
        _refuse(text, backend)
    if backend == "cpu":
        _check_cpu(text, arch)
    return backend, arch, int(size)


def _parts(text: str) -> tuple[str, str, str]:
    """The backend, the architecture and the warp size, as far as they are written."""
    if text in ("cpu", "host"):
        return "cpu", "host", ""
    if re.match(r"gfx\w+(:|$)", text):  # a device's own name goes on with features: gfx90a:sramecc+:xnack-
        name, _, rest = text.partition(":")
        return "hip", name, "" if re.fullmatch(r"(\w+[+-]:?)*", rest) else rest
    if re.match(r"sm_?\d+[af]?(:|$)", text):
        name, _, rest = text.partition(":")
        return "cuda", name, rest
    if ":" not in text and _is_cpu(text):
        return "cpu", text, ""
    if text.count(":") > 2:
        return "", "", ""
    backend, arch, warp_size = (*text.split(":"), "", "")[:3]
    return backends.target_name(backend), arch, warp_size


def _is_cpu(name: str) -> bool:
    from tritium.backends.llvm.levels import LEVELS

    first = name.partition(",")[0].strip()
    return first in LEVELS or first == "host" or first[:1] in ("+", "-")


def _check_cpu(text: str, arch: str) -> None:
    if not _is_cpu(arch):
        from tritium.backends.llvm.levels import LEVELS

        first = arch.partition(",")[0]
        raise ValueError(f"unknown CPU target {first!r}; use one of: host, {', '.join(LEVELS)}, and features after a "
                         f"comma, as in 'host,-avx512' or 'x86-64-v2,+avx2'{_closest(text)}")


def _warp_size(backend: str, arch: str) -> int | str:
    """Threads of a warp, where the name of the machine tells."""
    return {"cuda": 32, "cpu": 1, "hip": 64 if arch.startswith("gfx9") else 32}.get(backend, "")


def _closest(text: str) -> str:
    """A question about the most similar name, spelled as the text is."""
    names = known()
    if ":" in text:
        names = [f"{backend}:{arch}" for backend, rows in MACHINES.items() for arch in rows]
        names += [f"cpu:{name}" for name in known()[1:] if _is_cpu(name)]
    found = difflib.get_close_matches(text.lower(), names, 1, 0.6)
    return f"; did you mean {found[0]!r}?" if found else ""


def _refuse(text: str, backend: str = "") -> NoReturn:
    """Say what there is: of all, or of one backend."""
    of = MACHINES.get(backend)
    names = known() if of is None else [f"sm_{arch}" if isinstance(arch, int) else arch for arch in of]
    raise ValueError(f"{text!r} is not a target{_closest(text)}{'' if _closest(text) else '.'} Write "
                     f"backend:arch:warp_size, such as cuda:90:32, or one of the names {', '.join(names)}")
