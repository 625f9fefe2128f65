"""NVIDIA GPUs: tile IR with layouts to PTX, and the CUDA driver."""

from __future__ import annotations

from ...passes import CLEANUP
from .. import Backend
from .compile import cubin, fingerprint, llir, ptx, sass, ttgir

BACKEND = Backend(
    name="cuda",
    passes=CLEANUP,
    stages=(("ttgir", ttgir), ("llir", llir), ("ptx", ptx), ("cubin", cubin)),
    options={"default_dot_input_precision": "tf32", "max_num_imprecise_acc_default": 2**30,
             "supported_fp8_dtypes": ("fp8e4nv", "fp8e5", "fp8e4b15")},
    fingerprint=fingerprint,
    views={"sass": sass},
)
