"""Roads to a launch on CUDA without a GPU: the driver's functions only take notes (S11, S42)."""

from types import SimpleNamespace

import pytest

from tests.backends.nvptx.kernels import Tensor, X, Y, Z, add, slow_launches
from tritium import knobs
from tritium.backends.launcher import entry_points

torch = pytest.importorskip("torch")


@pytest.fixture
def checked(monkeypatch):
    """Notes the launches of compiled kernels that Python looked at."""
    seen, original = [], entry_points.Demands.check
    monkeypatch.setattr(entry_points.Demands, "check", lambda self, args: seen.append(1) or original(self, args))
    return seen


def warm(*args, **options):
    return add.warmup(*args, grid=(1,), BLOCK=64, **options)


def by_run(kernel, grid, stream, *args, told=None, hooks=(None, None)):
    kernel._init_handles()
    kernel.run(*grid, stream, kernel.function, kernel.packed_metadata, told, *hooks, *args)


ROADS = {
    "over": lambda kernel, grid, *args: kernel[grid](*args),
    "run": lambda kernel, grid, *args: by_run(kernel, grid, 0, *args),
    "over_on_stream": lambda kernel, grid, *args: kernel[grid](*args, stream=0),
}


@pytest.fixture(params=list(ROADS))
def road(request):
    return ROADS[request.param]


def test_every_road_gives_the_driver_the_same(fake, road, checked):
    direct = add[(5,)](X, Y, Z, 64, BLOCK=64)
    kernel = warm(X, Y, Z, 64)
    assert kernel is direct
    for _ in range(3):
        del fake.calls[:]
        road(kernel, (5, 1, 1), X, Y, Z, 64, 64)
    assert fake.calls == ["cuCtxGetCurrent", "cuLaunchKernel"] and len(checked) == 1
    assert len(fake.launches) == 4 and len({str(noted) for noted in fake.launches}) == 1


def test_streams(fake, monkeypatch, checked):
    from tritium.backends.gpu_runtime import launch
    from tritium.backends.nvptx.runtime.launch import Runtime

    kernel = warm(X, Y, Z, 64)
    for stream in (7, 0, 9):
        by_run(kernel, (1, 1, 1), stream, X, Y, Z, 64, 64)
        kernel[(1, 1, 1)](X, Y, Z, 64, 64, stream=stream)
    assert [noted["stream"] for noted in fake.launches] == [7, 7, 0, 0, 9, 9] and len(checked) == 1
    monkeypatch.setattr(launch, "_stream_function", lambda: lambda device: 31 + device)
    Runtime.get().refresh_streams()
    for _ in range(3):
        kernel[(1, 1, 1)](X, Y, Z, 64, 64)
    assert [noted["stream"] for noted in fake.launches[7:]] == [31, 31]  # the first asks the driver's current_stream


def test_a_stream_that_is_none_of_the_drivers(fake):
    kernel = warm(X, Y, Z, 64)
    for _ in range(2):
        by_run(kernel, (1, 1, 1), 7, X, Y, Z, 64, 64)
        with pytest.raises(TypeError, match=r"a stream is a torch.cuda.Stream or the number of one, .*, not 'seven'"):
            by_run(kernel, (1, 1, 1), "seven", X, Y, Z, 64, 64)
    by_run(kernel, (1, 1, 1), None, X, Y, Z, 64, 64)
    by_run(kernel, (1, 1, 1), SimpleNamespace(cuda_stream=9), X, Y, Z, 64, 64)
    assert [noted["stream"] for noted in fake.launches] == [7, 7, 0, 9]


def test_hooks(fake, checked):
    kernel, events = warm(X, Y, Z, 64), []
    with knobs.runtime.scope():
        for _ in range(2):
            kernel[(2, 1, 1)](X, Y, Z, 64, 64)
        knobs.runtime.launch_enter_hook.add(lambda told: events.append((told.get()["name"], told.get()["stream"])))
        for _ in range(2):
            kernel[(2, 1, 1)](X, Y, Z, 64, 64)
    hooks = (lambda told: events.append(told), knobs.HookChain())
    by_run(kernel, (2, 1, 1), 0, X, Y, Z, 64, 64, told="told", hooks=hooks)
    assert events == [("add", 0), ("add", 0), "told"] and len(fake.launches) == 5
    assert len(checked) == 3, "Python looks again when a hook has come or gone"


@pytest.mark.parametrize("args, error, message", [
    ((Tensor(4100), Y, Z, 64, 64), ValueError, "argument `x_ptr`.*: its address 0x1004 is no multiple of 16"),
    ((4100, Y, Z, 64, 64), ValueError, "its address 0x1004 is no multiple of 16"),
    ((X, Y, Z, 65, 64), ValueError, "argument `n`.*: it is 65, and the kernel was compiled for multiples"),
    ((X, Y, Z, 2**40, 64), OverflowError, "does not fit i32"),
    ((Tensor(4096, "fp16"), Y, Z, 64, 64), TypeError, "its elements are fp16, and the kernel was compiled for fp32"),
    ((X, Y, Z, 64, 128), ValueError, "argument `BLOCK` of kernel `add`: it is 128, and the kernel was compiled for 64"),
    ((Tensor(4096, device=-1), Y, Z, 64, 64), ValueError, r"cannot be accessed from Triton \(cpu tensor\?\)"),
    ((X, Y, Z), TypeError, "add takes 5 arguments, constants included, and was given 3"),
], ids=["address", "number", "multiple", "width", "elements", "constant", "host", "count"])  # fmt: skip
def test_what_does_not_fit_is_refused(fake, road, args, error, message):
    kernel = warm(X, Y, Z, 64)
    for _ in range(2):
        with pytest.raises(error, match=message):
            road(kernel, (1, 1, 1), *args)
        road(kernel, (1, 1, 1), X, Y, Z, 64, 64)
    assert len(fake.launches) == 2


def test_what_the_driver_refuses(fake, road):
    kernel = warm(X, Y, Z, 64)
    for _ in range(2):
        fake.fail["cuLaunchKernel"] = 1
        with pytest.raises(RuntimeError, match=r"launching add on a grid of \(1, 70000, 1\) failed: .*\narguments: x"):
            road(kernel, (1, 70000, 1), X, Y, Z, 64, 64)
        fake.fail.clear()
        road(kernel, (1, 1, 1), X, Y, Z, 64, 64)
    assert len(fake.launches) == 2


def test_a_thread_without_a_context_gets_one(fake, road):
    kernel = warm(X, Y, Z, 64)
    for _ in range(2):
        road(kernel, (1, 1, 1), X, Y, Z, 64, 64)
    fake.current = 0
    road(kernel, (1, 1, 1), X, Y, Z, 64, 64)
    assert fake.launches[-1]["context"] == 1000 and fake.current == 1000


def test_arrays_of_other_libraries(fake, road):
    """What has a `__cuda_array_interface__`, as CuPy's arrays do."""
    class Array:
        def __init__(self, address):
            self.__cuda_array_interface__ = {"data": (address, False), "shape": (64,), "typestr": "<f4", "version": 3}

    kernel = warm(X, Y, Z, 64)
    for _ in range(3):
        road(kernel, (1, 1, 1), Array(4096), Array(8192), Array(12288), 64, 64)
    assert [noted["slots"] for noted in fake.launches] == [[4096, 8192, 12288, 64]] * 3


def test_a_known_signature_is_found_without_python(fake, monkeypatch):
    slow = slow_launches(monkeypatch)
    found = {warm(X, Y, Z, 64, num_warps=2) for _ in range(4)}
    assert len(found) == 1 and len(slow) == 2 and not fake.launches
    other = {warm(torch.float32, torch.float32, torch.float32, 64, num_warps=2) for _ in range(4)}
    assert other == found and len(slow) == 4
    assert warm(Tensor(4100), Y, Z, 64, num_warps=2) not in found


def test_lookups_with_several_devices(monkeypatch):
    """What is compiled without tensors depends on the current device."""
    from tests.backends.nvptx import fake_driver
    from tritium.backends.driver import driver

    _, drv = fake_driver.install(monkeypatch, devices=2)
    add.device_caches.clear()
    try:
        slow = slow_launches(monkeypatch)
        found = {warm(*[Tensor(4096, device=device)] * 3, 64) for device in (0, 1) for _ in range(3)}
        assert len(found) == 2 and len(slow) == 4
        drv.set_current_device(0)
        first = [warm(torch.float32, torch.float32, torch.float32, 64) for _ in range(3)]
        drv.set_current_device(1)
        second = [warm(torch.float32, torch.float32, torch.float32, 64) for _ in range(3)]
        assert {*first, *second} == found and len({*first}) == len({*second}) == 1
    finally:
        driver.reset_active()
        fake_driver.clear()
        add.device_caches.clear()
