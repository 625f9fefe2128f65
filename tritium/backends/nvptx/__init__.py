"""NVIDIA GPUs: tile IR with layouts to PTX, and the CUDA driver."""

from __future__ import annotations

from ... import passes
from ...ir import types as T
from ...passes.legalize import BETWEEN_WIDE
from .. import Backend
from .compile import cubin, fingerprint, llir, ptx, sass, ttgir
from .target import NATIVE

FACTS = passes.Facts(
    rare=True,
    casts=BETWEEN_WIDE | {(T.f16, T.f32), (T.f32, T.f16), (T.bf16, T.f32), (T.f32, T.bf16)},
    rows=frozenset(NATIVE),
    # LLVM has no code for these on NVPTX, or an inexact one
    lacks=frozenset((name, t) for name in ("rem", "min_nan", "max_nan") for t in (T.f32, T.f64))
    - {("min_nan", T.f32), ("max_nan", T.f32)},
)

BACKEND = Backend(
    name="cuda",
    passes=(*passes.CLEANUP, passes.legalize(FACTS), passes.dce),
    stages=(("ttgir", ttgir), ("llir", llir), ("ptx", ptx), ("cubin", cubin)),
    options={
        "default_dot_input_precision": "tf32",
        "max_num_imprecise_acc_default": 2**30,
        "supported_fp8_dtypes": ("fp8e4nv", "fp8e5", "fp8e4b15"),
    },
    fingerprint=fingerprint,
    views={"sass": sass},
)
