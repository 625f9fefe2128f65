"""Device memory without a framework, by a driver that only takes notes: buffers, copies, streams, events (S44)."""

import gc

import numpy as np
import pytest

import tritium.language as tl
from tests.backends.nvptx.kernels import add, slow_launches
from tritium.backends.gpu_runtime import memory
from tritium.backends.nvptx.runtime import cuda

torch = pytest.importorskip("torch")


def test_buffers_are_arguments(fake, monkeypatch):
    """S44."""
    x, y, z = memory.to_device(np.arange(64, dtype=np.float32)), memory.zeros(64), memory.empty(64)
    slow = slow_launches(monkeypatch)
    for _ in range(2):
        add[(1,)](x, y, z, 64, BLOCK=64)
    assert len(slow) == 1 and [noted["slots"][:3] for noted in fake.launches] == [
        [x.data_ptr(), y.data_ptr(), z.data_ptr()]] * 2
    assert (x.device, x.get_device(), x.dtype, x.shape, x.nbytes) == ("cuda:0", 0, np.float32, (64,), 256)


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "i8", "u1", "fp8e4nv", np.int16, torch.float16, tl.int64])
def test_copies_there_and_back(fake, dtype):
    x = memory.empty((4, 6), dtype)
    host = np.arange(24).reshape(4, 6).astype(x.dtype)
    x.copy_(host)
    assert (x.numpy() == host).all() and x.numpy().dtype == host.dtype
    assert (x.clone().numpy() == host).all() and (memory.empty((4, 6), dtype).zero_().numpy() == 0).all()
    assert x.stride() == (6, 1) and x.stride(0) == 6 and x.numel() == 24 and x.element_size() == host.itemsize


def test_copies_in_streams(fake):
    host, x = memory.pinned((8,), np.int32), memory.empty(8, np.int32)
    host[:] = range(8)
    stream = memory.Stream()
    x.copy_(host, stream, blocking=False)
    assert fake.copies == [stream.handle] and "cuStreamSynchronize" not in fake.calls
    with stream:
        memory.copy(host, x)
    assert fake.copies == [stream.handle] * 2 and fake.calls.count("cuStreamSynchronize") == 1
    torch_like = type("S", (), {"cuda_stream": 55})
    x.copy_(host, torch_like, blocking=False)
    assert fake.copies[-1] == 55


def test_pinned_memory_lives_as_long_as_its_arrays(fake):
    host = memory.pinned(16, np.float32)
    part = host[4:]
    address = host.ctypes.data
    del host
    gc.collect()
    assert address in fake.memory
    del part
    gc.collect()
    assert address not in fake.memory


def test_buffers_are_freed_once(fake):
    x = memory.empty(16)
    x.free()
    x.free()
    with pytest.raises(ValueError, match="has been freed"):
        x.data_ptr()
    y = memory.empty(16)
    address = y.data_ptr()
    del y
    gc.collect()
    assert address not in fake.memory and fake.calls.count("cuMemFree_v2") == 2
    assert memory.empty(0).data_ptr() == 0


def test_buffers_outlive_their_context_quietly(fake, recwarn):
    """After an illegal access everything of the context is gone: giving it back is no second error."""
    x = memory.empty(8)
    address = x.data_ptr()
    fake.fail["cuMemFree_v2"] = 700
    x.free()
    fake.fail["cuMemFree_v2"] = 1
    with pytest.raises(cuda.CudaError, match="cuMemFree_v2 failed"):
        memory.empty(8).free()
    fake.fail.clear()
    assert address in fake.memory


@pytest.mark.parametrize("device", [0, None, "cuda", "cuda:0", torch.device("cuda", 0)])
def test_names_of_devices(fake, device):
    assert memory.empty(3, device=device).get_device() == memory.Stream(device).device_index == 0


def test_what_is_no_device(fake):
    for wrong in ("cpu", "cuda:x", 1.5):
        with pytest.raises(ValueError, match="is no GPU: give its number"):
            memory.empty(3, device=wrong)


def test_arrays_without_axes_and_of_numpys_numbers(fake):
    assert memory.to_device(np.float32(3)).numpy() == 3 and memory.empty(np.int64(4)).shape == (4,)
    with pytest.raises(TypeError, match="without axes"):
        len(memory.to_device(np.float32(3)))


def test_buffers_become_arrays_and_fill_tensors(fake):
    x = memory.to_device(np.arange(3, dtype=np.float32))
    np.testing.assert_array_equal(np.asarray(x), [0, 1, 2])
    assert np.asarray(x, np.int32).dtype == np.int32
    with pytest.raises(ValueError, match="without a copy"):
        np.array(x, copy=False)
    host = torch.zeros(3)
    memory.copy(host, x)
    assert host.tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="not to list"):
        memory.copy([0, 0, 0], x)


def test_wrong_copies(fake):
    x = memory.empty((4, 4))
    with pytest.raises(ValueError, match="cannot copy float64"):
        x.copy_(np.zeros((4, 4)))
    with pytest.raises(ValueError, match=r"\(4,\)"):
        x.copy_(np.zeros(4, np.float32))
    with pytest.raises(ValueError, match="contiguous"):
        memory.copy(np.zeros((4, 8), np.float32)[:, ::2], x)
    with pytest.raises(TypeError, match="must be a DeviceBuffer"):
        memory.copy(np.zeros(4), np.zeros(4))
    with pytest.raises(TypeError, match="no dtype complex64"):
        memory.empty(4, np.complex64)
    with pytest.raises(ValueError, match="negative"):
        memory.empty(-1)


def test_events(fake):
    start, end = memory.Event(enable_timing=True), memory.Event(enable_timing=True)
    start.record()
    end.record()
    assert start.elapsed_time(end) == 1.0 and end.query()
    fake.fail["cuEventQuery"] = 600
    assert not end.query()
    fake.fail["cuEventQuery"] = 700
    with pytest.raises(cuda.CudaError, match="cuEventQuery failed"):
        end.query()
    fake.fail["cuEventElapsedTime"] = 400
    with pytest.raises(cuda.CudaError, match="hint: make both events with enable_timing=True"):
        start.elapsed_time(end)
    stream, other = memory.Stream(), memory.Stream()
    stream.wait_stream(other)
    assert fake.calls.count("cuStreamWaitEvent") == 1 and stream.query()
    assert memory.memory_info() == (100, 200)
