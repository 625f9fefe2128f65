"""Libraries for serving without what their kernels do not need: stand-ins for compiled parts and absent packages.

For `serving_operators.py`. A module of a library runs if it has a kernel or is in `RUNS`; stand-ins take the place of
all others, and answer questions about the machine as on an H200.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import math
import operator
import re
import sys
import types
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

import torch

LIBRARIES = ("vllm", "sglang", "mamba_ssm", "unsloth", "torchao", "sageattention", "lightllm", "lmdeploy")
ALWAYS = ("transformers", "unsloth_zoo", "bitsandbytes", "causal_conv1d", "causal_conv1d_cuda", "sgl_kernel", "tqdm")
RUNS = (  # modules without kernels that those with kernels need, and those that call kernels
    r"vllm\.envs", r"vllm\.model_executor\.determinism\.batch_invariant_configs", r"vllm\.lora\.ops\.triton_ops\.utils",
    r"vllm\.model_executor\.layers\.mamba\.ops\.ssd_combined",
    r"vllm\.model_executor\.warmup\.jit_warmup(_triton_helper)?",
    r"sglang\.kernels\.ops\.(attention\.score_mod|quantization\.fp8_utils|sampling\.temperature_softmax)",
    r"mamba_ssm\.utils\.(determinism|torch)", r"lmdeploy\.pytorch\.kernels\.cuda\.utils",
    r"unsloth\.kernels\.(indexing|triton_launch|moe\.grouped_gemm\.(interface|kernels\.tuning))",
)  # fmt: skip
FP8 = torch.float8_e4m3fn


class Anything:
    """Stands in for a class, a function or a value that no kernel needs: a call, an attribute, an item is another."""

    def __init__(self, *args: Any, **known: Any) -> None:
        self.__dict__.update(known)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __call__(self, *args: Any, **options: Any) -> Any:
        return args[0] if len(args) == 1 and callable(args[0]) and not options else Anything()

    def __bool__(self) -> bool:
        return False

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __mro_entries__(self, bases: tuple) -> tuple:
        return ()

    def __or__(self, other: Any) -> Any:
        return self

    def __lt__(self, other: Any) -> bool:
        return False

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *args: object) -> None:
        pass

    def __getitem__(self, key: Any) -> Any:
        return self

    __ror__ = __or__
    __gt__ = __le__ = __ge__ = __lt__


class StandIn(types.ModuleType):
    """A module that has any attribute, those of `KNOWN` first."""

    __version__ = "0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in KNOWN.get(self.__name__, {}):
            return KNOWN[self.__name__][name]
        below = f"{self.__name__}.{name}"
        return importlib.import_module(below) if PathFinder.find_spec(below, self.__path__) else Anything()


class Libraries:
    """Finds modules of `LIBRARIES`: those with kernels as they are, stand-ins for the rest and for what is absent."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        top = name.partition(".")[0]
        found = PathFinder.find_spec(name, path)
        if top in LIBRARIES:
            if found is None and path is None:
                return None  # not installed
        elif top in ALWAYS:
            found = None
        else:
            return None
        if found and found.origin and name not in KNOWN and re.fullmatch(r".*\.py", found.origin):
            if "triton.jit" in Path(found.origin).read_text() or any(re.fullmatch(run, name) for run in RUNS):
                return found
        spec = ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]
        spec.submodule_search_locations = list(found.submodule_search_locations or []) if found else []
        return spec

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def known() -> dict[str, dict[str, Any]]:
    """What stand-ins need to have: answers as for an H200, of the kind that avoid compiled code."""
    import triton
    import triton.language as tl
    from triton.language.extra import libdevice

    yes, no, up, nearest = (lambda *xs: True), (lambda *xs: False), (lambda a, b: -(-a // b)), triton.next_power_of_2
    units = lambda *xs: torch.cuda.get_device_properties(0).multi_processor_count
    device, range_of_fp8 = (lambda *xs: "NVIDIA_H200"), torch.finfo(FP8)
    refused = ("is_cuda", "is_cuda_alike", "is_rocm", "is_xpu", "is_cpu", "is_tpu", "is_out_of_tree", "is_fp8_fnuz",
               "is_arch_support_pdl", "is_device_capability_family", "is_device_capability")  # fmt: skip
    platform = Anything(**dict.fromkeys(refused, no), fp8_dtype=lambda: FP8, get_device_name=device,
                        num_compute_units=units, has_device_capability=yes, current_device=lambda: 0)  # fmt: skip
    sglang_utils = {
        **dict.fromkeys(("is_hip", "is_cpu", "is_npu", "is_xpu", "is_musa", "is_gfx95_supported", "get_bool_env_var",
                         "is_gfx1250_supported", "is_arch_support_pdl"), no),
        **dict.fromkeys(("is_cuda", "is_sm90_supported", "is_hopper_or_above"), yes),
        "get_device_name": lambda *xs: "NVIDIA H200", "get_device_core_count": units, "next_power_of_2": nearest,
        "ceil_div": up, "ceil_align": lambda a, b: up(a, b) * b, "get_device_sm": lambda: 90,
    }  # fmt: skip
    to_device = lambda data, device=None, dtype=None: torch.tensor(data, device=device, dtype=dtype)
    numbers = lambda text: tuple(map(int, re.findall(r"\d+", str(text))[:3]))
    cache_modes = types.SimpleNamespace(NONE=0, FP8_PER_TENSOR=1, INT8_PER_TOKEN_HEAD=2, FP8_PER_TOKEN_HEAD=3,
                                        INT4_PER_TOKEN_HEAD=4)  # fmt: skip
    policies = types.SimpleNamespace(NONE=0, INT4=4, INT8=8, FP8=16, FP8_E5M2=17, TURBO_QUANT=42)
    vllm_quantization = "vllm.model_executor.layers.quantization.utils."
    return {
        "vllm.triton_utils": {"triton": triton, "tl": tl, "tldevice": libdevice, "HAS_TRITON": True,
                              "LOG2E": math.log2(math.e), "LOGE2": math.log(2), "use_tensor_descriptor": no},
        "vllm.platforms": {"current_platform": platform},
        "vllm.v1.kv_cache_interface": {"KVQuantMode": cache_modes, "is_quantized_kv_cache": no},
        "vllm.v1.attention.backends.utils": {"NULL_BLOCK_ID": 0, "PAD_SLOT_ID": -1},
        "vllm.utils.math_utils": {"next_power_of_2": nearest, "RCP_LN2": math.log2(math.e), "cdiv": up},
        "vllm.utils.platform_utils": {"num_compute_units": units, "get_device_name_as_file_name": device},
        "vllm.utils.torch_utils": {"is_torch_equal_or_newer": yes, "async_tensor_h2d": to_device},
        "vllm.utils.deep_gemm": {"is_deep_gemm_e8m0_used": no},
        vllm_quantization + "quant_utils": {"get_fp8_min_max": lambda: (range_of_fp8.min, range_of_fp8.max)},
        vllm_quantization + "mxfp4_utils": {},
        vllm_quantization + "nvfp4_emulation_utils": {},
        "sglang.srt.utils": sglang_utils,
        "sglang.srt.utils.common": sglang_utils,
        "unsloth.device_type": {"DEVICE_TYPE": "cuda", "DEVICE_TYPE_TORCH": "cuda", "DEVICE_COUNT": 1, "is_hip": no},
        "unsloth_zoo.utils": {"Version": numbers},
        "torchao.float8.config": {"e4m3_dtype": FP8},
        "lmdeploy.messages": {"QuantPolicy": policies},
    }  # fmt: skip


KNOWN: dict[str, dict[str, Any]] = {}


def of(path: str) -> Any:
    """module:attribute"""
    module, name = path.split(":")
    found = operator.attrgetter(name)(importlib.import_module(module))
    if isinstance(found, Anything):
        raise ImportError(f"no {name} in {module}")
    return found


def without_gpu() -> None:
    """Have questions about the GPU answered as for an H200."""
    named = types.SimpleNamespace(multi_processor_count=132, name="H200", major=9, minor=0, warp_size=32,
                                  total_memory=2**37, shared_memory_per_block_optin=232448)  # fmt: skip
    torch.cuda.get_device_properties = lambda *device: named
    torch.cuda.get_device_capability = lambda *device: (9, 0)
    torch.cuda.get_device_name = lambda *device: "NVIDIA H200"
    torch.cuda.current_device = lambda: 0
    torch.cuda.device = type("device", (contextlib.nullcontext,), {"idx": 0})
    torch._C._cuda_getCurrentRawStream = lambda device: 0  # type: ignore[attr-defined]
    torch.cuda.synchronize = lambda *device: None
    torch.compiler.set_stance("force_eager")


def install() -> None:
    """Find modules of libraries as above from here on."""
    KNOWN.update(known())
    sys.meta_path.insert(0, Libraries())
