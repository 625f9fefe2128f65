"""Roads to a launch on a real NVIDIA GPU: results, streams, graphs, hooks, errors (S11, S42)."""

import threading

import pytest

import tritium as triton
import tritium.language as tl
from tritium import knobs
from tritium.backends.launcher import entry_points

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu
N, BLOCK = 4096, 1024


@triton.jit
def scale(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, i < n) * factor, i < n)


@triton.jit
def product(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr):
    rows, columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, n, BLOCK):
        inner = k + tl.arange(0, BLOCK)
        total += tl.dot(tl.load(a_ptr + rows[:, None] * n + inner), tl.load(b_ptr + inner[:, None] * n + columns))
    tl.store(c_ptr + rows[:, None] * n + columns, total.to(tl.float16))


def tensors():
    return torch.arange(N, device="cuda", dtype=torch.float32), torch.zeros(N, device="cuda")


def warm(x, out):
    kernel = scale.warmup(x, out, N, 2.0, BLOCK=BLOCK, grid=(1,))
    kernel._init_handles()
    return kernel


def by_run(kernel, grid, *args, hooks=(None, None), stream=None):
    stream = torch.cuda.current_stream().cuda_stream if stream is None else stream
    kernel.run(*grid, stream, kernel.function, kernel.packed_metadata, None, *hooks, *args)


ROADS = {"over": lambda kernel, grid, *args: kernel[grid](*args), "run": by_run}


@pytest.fixture(params=list(ROADS))
def road(request):
    return ROADS[request.param]


def test_results(road):
    x, out = tensors()
    kernel = warm(x, out)
    for factor in (2.0, 3.0, 4.0):
        road(kernel, (4, 1, 1), x, out, N, factor, BLOCK)
        assert torch.equal(out, x * factor)
    assert warm(x, out) is kernel


def test_python_is_asked_once(road, monkeypatch):
    seen, original = [], entry_points.Demands.check
    monkeypatch.setattr(entry_points.Demands, "check", lambda self, args: seen.append(1) or original(self, args))
    scale.device_caches.clear()
    x, out = tensors()
    kernel = warm(x, out)
    for _ in range(4):
        road(kernel, (4, 1, 1), x, out, N, 2.0, BLOCK)
    assert len(seen) == 1


def test_streams(road):
    x, out = tensors()
    kernel, side = warm(x, out), torch.cuda.Stream()
    for factor in (2.0, 3.0, 4.0):
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(1_000_000)
            road(kernel, (4, 1, 1), x, out, N, factor, BLOCK)
            result = out.clone()
        side.synchronize()
        assert torch.equal(result, x * factor)


def test_graphs(road):
    x, out = tensors()
    kernel = warm(x, out)
    for _ in range(2):
        road(kernel, (4, 1, 1), x, out, N, 2.0, BLOCK)
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        road(kernel, (4, 1, 1), x, out, N, 5.0, BLOCK)
    assert torch.equal(out, x * 2)
    x += 1
    graph.replay()
    assert torch.equal(out, x * 5)


def test_hooks():
    x, out = tensors()
    kernel, events = warm(x, out), []
    with knobs.runtime.scope():
        knobs.runtime.launch_enter_hook.add(lambda told: events.append(told.get()["stream"]))
        for _ in range(3):
            kernel[(4, 1, 1)](x, out, N, 2.0, BLOCK)
    kernel[(4, 1, 1)](x, out, N, 3.0, BLOCK)
    by_run(kernel, (4, 1, 1), x, out, N, 3.0, BLOCK, hooks=(events.append, knobs.HookChain()))
    assert events == [torch.cuda.current_stream().cuda_stream] * 3 + [None] and torch.equal(out, x * 3)


def test_what_does_not_fit_is_refused(road):
    x, out = tensors()
    kernel = warm(x, out)
    for _ in range(2):
        with pytest.raises(ValueError, match="is no multiple of 16"):
            road(kernel, (4, 1, 1), x[1:], out, N, 2.0, BLOCK)
        with pytest.raises(ValueError, match="compiled for multiples of 16"):
            road(kernel, (4, 1, 1), x, out, N - 1, 2.0, BLOCK)
        with pytest.raises(ValueError, match=r"cannot be accessed from Triton \(cpu tensor\?\)"):
            road(kernel, (4, 1, 1), x.cpu(), out, N, 2.0, BLOCK)
        with pytest.raises(RuntimeError, match=r"launching scale on a grid of \(1, 70000, 1\) failed"):
            road(kernel, (1, 70000, 1), x, out, N, 2.0, BLOCK)
        road(kernel, (4, 1, 1), x, out, N, 2.0, BLOCK)
        assert torch.equal(out, x * 2)


def test_kernels_with_parameters_of_their_own(road):
    """Copies by TMA, programs that share themselves out: the launcher adds what they need."""
    n, block = 512, 128
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(2))
    c = torch.zeros_like(a)
    kernel = product.warmup(a, b, c, n, BLOCK=block, grid=(1,), num_warps=8)
    kernel._init_handles()
    for _ in range(3):
        c.zero_()
        road(kernel, (n // block, n // block, 1), a, b, c, n, block)
        torch.testing.assert_close(c, a @ b, rtol=1e-2, atol=1e-1)
        a, b = b, a.clone()


def test_pinned_memory_and_other_tensors(road):
    x, out = tensors()
    kernel = warm(x, out)
    pinned = x.cpu().pin_memory()
    for factor in (2.0, 3.0):
        road(kernel, (4, 1, 1), pinned, out, N, factor, BLOCK)
        assert torch.equal(out, x * factor)
        road(kernel, (4, 1, 1), torch.nn.Parameter(x), out, N, factor + 1, BLOCK)
        assert torch.equal(out, x * (factor + 1))


def test_threads():
    failures = []

    def work(k):
        x, out = tensors()
        kernel = warm(x, out)
        for i in range(50):
            (ROADS["over"] if i % 2 else by_run)(kernel, (4, 1, 1), x, out, N, float(k + i), BLOCK)
            if not torch.equal(out, x * float(k + i)):
                failures.append((k, i))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
