"""What a GPU could do: peak rates of memory and arithmetic, and fixed clocks to measure at."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["get_dram_gbps", "get_max_simd_tflops", "get_max_tensorcore_tflops", "nvsmi", "set_gpu_clock"]


def _driver():
    from tritium.runtime import driver

    return driver.active


def _properties(device: int | None) -> tuple[dict[str, int], tuple[int, int]]:
    driver = _driver()
    device = driver.get_current_device() if device is None else device
    return driver.utils.get_device_properties(device), driver.get_device_capability(device)


def get_dram_gbps(device: int | None = None) -> float:
    """The device memory's peak bandwidth in GB/s: clock times bus width times two transfers per clock."""
    properties, _ = _properties(device)
    return properties["mem_clock_rate"] * properties["mem_bus_width"] * 2 / 1e6 / 8


# The names torch, NumPy and tl give to the types that have a peak rate.
_KINDS = {
    **dict.fromkeys(("float32", "fp32", "float"), ("float", 32)),
    **dict.fromkeys(("int32",), ("int", 32)),
    **dict.fromkeys(("float16", "fp16", "half"), ("float", 16)),
    **dict.fromkeys(("bfloat16", "bf16"), ("bfloat", 16)),
    **dict.fromkeys(("int16",), ("int", 16)),
    **dict.fromkeys(("int8", "uint8"), ("int", 8)),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "fp8e4nv", "fp8e5"), ("float", 8)),
}


def _kind(dtype: Any) -> tuple[str, int]:
    """Kind and width: ("float", 16), ("int", 8)."""
    name = str(dtype).rpartition(".")[2]
    if name not in _KINDS:
        raise RuntimeError(f"no peak rate is known for {dtype}")
    return _KINDS[name]


def get_max_tensorcore_tflops(dtype: Any, clock_rate: float, device: int | None = None) -> float:
    """Peak of the matrix units in TFLOP/s at `clock_rate` kHz: four sub-cores in each multiprocessor."""
    properties, capability = _properties(device)
    kind, bits = _kind(dtype)
    if capability[0] >= 8:
        operations = {32: 256, 16: 512, 8: 1024}[bits]
    elif (kind, bits) == ("float", 16):
        operations = 256
    else:
        raise AssertionError(f"before compute capability 8.0 the matrix units take float16 only, not {dtype}")
    return properties["multiprocessor_count"] * 4 * clock_rate * operations * 1e-9


def get_max_simd_tflops(dtype: Any, clock_rate: float, device: int | None = None) -> float:
    """Peak of the ordinary units in TFLOP/s at `clock_rate` kHz."""
    properties, capability = _properties(device)
    rates = {("float", 32): 32, ("float", 16): 64}
    if capability[0] >= 8:
        rates["bfloat", 16] = 64
    operations = rates.get(_kind(dtype))
    if operations is None:
        raise RuntimeError(f"no figure for {dtype} on a device of compute capability {capability}")
    return properties["multiprocessor_count"] * 4 * clock_rate * operations * 1e-9


def nvsmi(attrs: Sequence[str]) -> list[int]:
    """Ask nvidia-smi for attributes of the first GPU, such as `["clocks.current.sm"]`."""
    command = ["nvidia-smi", "-i", "0", f"--query-gpu={','.join(attrs)}", "--format=csv,noheader,nounits"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [int(x) for x in answer.strip().split(",")]


@contextlib.contextmanager
def set_gpu_clock(ref_sm_clock: int = 1350, ref_mem_clock: int = 1215) -> Iterator[tuple[float, float]]:
    """Hold the first GPU at fixed clocks (MHz) inside the block; yields (tflops, gbps) it can reach at them."""

    def smi(*arguments: str) -> None:
        subprocess.run(["nvidia-smi", "-i", "0", *arguments], check=True, stdout=subprocess.DEVNULL)

    try:
        smi("-pm", "1")
        smi(f"--lock-gpu-clocks={ref_sm_clock},{ref_sm_clock}")
        smi(f"--lock-memory-clocks={ref_mem_clock},{ref_mem_clock}")
        sm_clock, mem_clock = nvsmi(["clocks.current.sm", "clocks.current.memory"])
        if abs(sm_clock - ref_sm_clock) > 10 or abs(mem_clock - ref_mem_clock) > 10:
            raise RuntimeError(f"the GPU runs at {sm_clock} and {mem_clock} MHz instead of {ref_sm_clock} "
                               f"and {ref_mem_clock}: it may not support these clocks")
        yield get_max_tensorcore_tflops("float16", sm_clock * 1e3), get_dram_gbps()
    finally:
        smi("-pm", "0")
        smi("-rgc")
        smi("-rmc")
