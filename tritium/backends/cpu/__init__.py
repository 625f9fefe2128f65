"""Native CPUs: loop nests of vector instructions over tiles, on all cores."""

from __future__ import annotations

from typing import Any

from .. import Backend, lazy

_HERE = "tritium.backends.cpu.compile"


def fingerprint(target: Any) -> str:
    """The version of LLVM and the machine."""
    from ..llvm.target import cpu_target, llvm_version

    cpu = cpu_target(target.arch)
    return f"{llvm_version()}-{cpu.triple}-{cpu.cpu}-{cpu.features}-{cpu.amx}"


BACKEND = Backend(
    name="cpu",
    passes=lazy(f"{_HERE}:pipeline"),
    stages=(("llir", lazy(f"{_HERE}:llir")), ("obj", lazy(f"{_HERE}:obj"))),
    ignored=frozenset(("num_warps", "num_stages", "maxnreg")),
    options={"default_dot_input_precision": "ieee"},
    fingerprint=fingerprint,
    views={"asm": lazy(f"{_HERE}:assembly_view"), "so": lazy("tritium.backends.cpu.runtime.shared_object:so"),
           "launcher.so": lazy("tritium.backends.cpu.runtime.shared_object:launcher_so")},
    hand_over=lambda settings: None,
    fits=lazy("tritium.backends.cpu.bundled:fits"),
    parts=lazy("tritium.backends.cpu.bundled:parts"),
)
