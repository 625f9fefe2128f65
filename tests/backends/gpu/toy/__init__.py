"""A GPU that does not exist: warps of 64 lanes, no asynchronous copies, no MMA, no TMA, no clusters.

It proves that another vendor is a folder: the shared stages of `tritium/backends/gpu` compile for it, and nothing of
NVIDIA's is used. Its instructions are calls of functions that nobody defines; `machine.py` runs them.
"""

from tritium.backends import Backend, lazy

_STAGES = "tests.backends.gpu.toy.stages"
BACKEND = Backend(
    name="toy",
    passes=lazy(f"{_STAGES}:pipeline"),
    stages=tuple((name, lazy(f"{_STAGES}:{name}")) for name in ("ttgir", "llir", "checked")),
    fingerprint=lambda target: "toy 1",
)
