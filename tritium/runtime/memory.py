"""Memory of GPUs without a framework: buffers, pinned host memory, copies, streams and events.

    from tritium.runtime import memory

    x = memory.to_device(np.arange(1000, dtype=np.float32))      # a DeviceBuffer
    y = memory.empty(1000, np.float32)
    kernel[(4,)](x, y, 1000, BLOCK=256)
    y.numpy()

    start, end = memory.Event(enable_timing=True), memory.Event(enable_timing=True)
    with memory.Stream() as stream:                              # launches and copies in here go to it
        start.record()
        kernel[(4,)](x, y, 1000, BLOCK=256)
        end.record()
    stream.synchronize()
    start.elapsed_time(end)                                      # milliseconds

Kernels on the CPU take NumPy arrays as they are; this is about GPUs, NVIDIA's and AMD's. Without one, everything but
`is_available()` and `device_count()` raises a RuntimeError that says which driver is missing.

    >>> is_available() == (device_count() > 0)
    True
"""

from tritium.backends.gpu_runtime.memory import (
    DeviceBuffer,
    Event,
    Stream,
    copy,
    current_device,
    current_stream,
    device_count,
    empty,
    is_available,
    memory_info,
    pinned,
    synchronize,
    to_device,
    zeros,
)

__all__ = ["DeviceBuffer", "Event", "Stream", "copy", "current_device", "current_stream", "device_count", "empty",
           "is_available", "memory_info", "pinned", "synchronize", "to_device", "zeros"]  # fmt: skip
