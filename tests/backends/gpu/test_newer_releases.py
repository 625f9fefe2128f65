"""What newer releases of Triton ask of the driver, on a real NVIDIA GPU: unloading, services, rounding descriptors."""

import gc

import pytest

import tritium as triton
import tritium.language as tl
from tritium import knobs, testing
from tritium.backends.driver import driver
from tritium.tools.tensor_descriptor import TensorDescriptor

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu


def fresh(steps=1):
    """A kernel of its own, which nobody else keeps; it adds one `steps` times, after each other."""

    @triton.jit
    def add_steps(x_ptr, n, STEPS: tl.constexpr):
        at = tl.program_id(0) * 128 + tl.arange(0, 128)
        for _ in range(STEPS):
            tl.store(x_ptr + at, tl.load(x_ptr + at, at < n, volatile=True) + 1, at < n)
            tl.debug_barrier()

    return lambda x: add_steps[(x.numel() // 128,)](x, x.numel(), STEPS=steps)


@pytest.fixture
def unloaded():
    """Names of the kernels that were unloaded."""
    gc.collect()
    names = []
    with knobs.runtime.scope():
        knobs.runtime.kernel_unload_hook.add(lambda module, function, name, group, key: names.append(name))
        yield names


def test_a_collected_kernel_is_unloaded(unloaded):
    x = torch.zeros(1024, device="cuda")
    launch = fresh()
    launch(x)
    del launch
    gc.collect()
    assert unloaded == ["add_steps"] and x.eq(1).all()
    fresh()(x)  # loaded again, from the cache
    assert x.eq(2).all()


def test_a_kernel_that_runs_is_not_pulled_away(unloaded):
    """It is still running when its module is unloaded: the driver waits, or keeps it."""
    x = torch.zeros(128, device="cuda")
    launch = fresh(200_000)
    launch(x)
    torch.cuda.synchronize()
    x.zero_()
    launch(x)
    del launch
    gc.collect()
    assert unloaded == ["add_steps"]
    torch.cuda.synchronize()
    assert x.eq(200_000).all()


def test_a_capture_outlives_an_unloading(unloaded):
    x = torch.zeros(1024, device="cuda")
    other, captured = fresh(2), fresh(3)
    other(x), captured(x)
    torch.cuda.synchronize()
    x.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured(x)
        del other
        gc.collect()
    assert unloaded == ["add_steps"]
    graph.replay()
    torch.cuda.synchronize()
    assert x.eq(3).all()


def test_graphs_without_garbage_collection():
    x, launch, graph = torch.zeros(1024, device="cuda"), fresh(4), torch.cuda.CUDAGraph()
    launch(x)
    with testing.cuda_graph_without_gc(graph):
        assert not gc.isenabled()
        assert driver.active.utils.is_stream_capturing(torch.cuda.current_stream().cuda_stream)
        launch(x)
    assert gc.isenabled() and not driver.active.utils.is_stream_capturing(torch.cuda.current_stream().cuda_stream)
    graph.replay()
    torch.cuda.synchronize()
    assert x.eq(8).all()


@triton.jit
def scaled(x_ptr, n, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at, at < n) * scale, at < n)


def test_launching_functions():
    """Of a compiled kernel, and of a module that only its binary is known of."""
    utils, x = driver.active.utils, torch.ones(100, device="cuda")
    kernel = scaled.warmup(x, 100, 3.0, BLOCK=64, grid=(1,))
    kernel._init_handles()
    stream = torch.cuda.current_stream().cuda_stream
    utils.launch(2, 1, 1, stream, kernel.function, kernel.packed_metadata, None, None, None, x, 100, 3.0, 64)
    torch.cuda.synchronize()
    assert x.eq(3).all()
    source = triton.compiler.ASTSource(scaled, {"x_ptr": "*fp32", "n": "i32", "scale": "fp32", "BLOCK": "constexpr"},
                                       {"BLOCK": 64})
    plain = triton.compile(source, options={"launch_checks": False})
    module, function, *_ = utils.load_binary(plain.name, plain.kernel, plain.metadata.shared, 0)
    utils.launch(2, 1, 1, stream, function, plain.packed_metadata, None, None, None, x, 100, 2.0)
    torch.cuda.synchronize()
    assert x.eq(6).all()
    utils.unload_module(module)
    assert (utils.get_current_device(), utils.get_default_stream()) == (torch.cuda.current_device(), 0)
    assert utils.get_device_capability(0) == torch.cuda.get_device_capability(0)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float8_e4m3fn"])
def test_cublas(name):
    dtype = getattr(torch, name)
    a, b = (torch.randint(-3, 4, (64, 64), device="cuda").to(dtype) for _ in range(2))
    c = torch.empty(64, 64, device="cuda", dtype=torch.float16 if "8_" in name else dtype)
    testing.cublas.matmul(a, b, c)
    assert torch.equal(c.float(), (a.double() @ b.double().t()).float())


@triton.jit
def rounds(x, out):
    out.store([0, 0], x.load([0, 0]))


@triton.jit
def multiplies(a, b, c, K: tl.constexpr):
    total = tl.zeros([64, 64], tl.float32)
    for k in range(0, K, 32):
        total = tl.dot(a.load([0, k]), b.load([0, k]).T, total, input_precision="tf32")
    c.store([0, 0], total)


def to_tf32(x):
    bits = x.view(torch.int32)
    rounded = (bits + 0xFFF + ((bits >> 13) & 1)) & -8192
    return torch.where(x.isfinite(), rounded.view(torch.float32), x)


def test_descriptors_round():
    x, out = torch.randn(64, 64, device="cuda"), torch.empty(64, 64, device="cuda")
    x[0, :3] = torch.tensor([float("nan"), float("inf"), 3.4028234663852886e38])
    rounds[(1,)](TensorDescriptor.from_tensor(x, [64, 64], round_f32_to_tf32=True),
                 TensorDescriptor.from_tensor(out, [64, 64]))
    assert torch.equal(out.view(torch.int32), to_tf32(x).view(torch.int32))


def test_products_of_rounded_operands():
    """Tensor cores cut bits off; rounded operands have none to cut, so the sum is that of exact products."""
    a, b = (torch.randn(64, 128, device="cuda") for _ in range(2))
    c = torch.empty(64, 64, device="cuda")
    described = [TensorDescriptor.from_tensor(x, [64, 32], round_f32_to_tf32=True) for x in (a, b)]
    multiplies[(1,)](*described, TensorDescriptor.from_tensor(c, [64, 64]), K=128)
    expected = to_tf32(a).double() @ to_tf32(b).double().t()
    torch.testing.assert_close(c.double(), expected, atol=2e-4, rtol=0)
