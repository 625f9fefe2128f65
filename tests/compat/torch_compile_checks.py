"""Kernels as operators of torch, under torch.compile, and torch.compile writing kernels itself (S41, S42).

torch remembers for the life of a process whether it has found a `triton`, so these checks need one of their own:
`test_torch_compile.py` starts it.
"""

import pickle

import pytest
import torch

import tritium as triton
import tritium.language as tl
from tests.compat import inductor_kernels
from tests.compat.torch_kernels import scaled_sum


@pytest.fixture(scope="module", autouse=True)
def as_triton():
    """torch looks for `triton`, keeps what it generates on disk, and compiles in worker processes, as it does by
    default."""
    triton.install_as_triton()
    from torch._inductor import config
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.utils import fresh_cache

    with fresh_cache(), config.patch(cpu_backend="triton", compile_threads=2):
        AsyncCompile.wait_pool_ready()
        yield
    triton.uninstall_as_triton()


def launch(x, y, kernel=scaled_sum):
    out = torch.empty_like(x)
    kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, out, x.numel(), 2.0, BLOCK=32)
    return out


X, Y = torch.randn(5, 20), torch.randn(5, 20)


def test_an_operator_with_a_derivative():
    @torch.library.triton_op("tritium_tests::scaled_sum", mutates_args={})
    def op(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return launch(x, y, torch.library.wrap_triton(scaled_sum))

    op.register_autograd(lambda ctx, grad: (grad, 2 * grad))
    torch.library.opcheck(op, (X, Y.clone().requires_grad_()))
    y = Y.clone().requires_grad_()
    torch.compile(lambda x, y: op(x, y).sum(), backend="aot_eager", fullgraph=True)(X, y).backward()
    assert torch.equal(y.grad, torch.full_like(Y, 2))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_kernel_inside_a_compiled_function(backend):
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, y: launch(x.sin(), y) + 1, backend=backend, fullgraph=True)
    torch.testing.assert_close(compiled(X, Y), X.sin() + 2 * Y + 1)


@triton.jit
def add(a, b):
    return a + b


@triton.jit(noinline=True)
def first_of(x, count):
    tl.atomic_add(count, 1)
    return tl.load(x)


@triton.jit
def many_accesses(x, rows, total, table, blocks, lock, count, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for _ in range(n):
        acc += tl.load(x + i)
        tl.store(rows + i, acc)
        x += BLOCK
        rows += BLOCK
    if n > 3:
        tl.store(total + first_of(table, count), tl.reduce(acc, 0, add))
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(tl.make_block_ptr(blocks, (n,), (1,), (0,), (BLOCK,), (0,)), tl.associative_scan(acc, 0, add))


def test_torch_learns_which_arguments_a_kernel_writes():
    from torch._higher_order_ops import triton_kernel_wrap as wrap

    floats, ints = torch.empty(64), torch.zeros(64, dtype=torch.int32)
    args = {"x": floats, "rows": floats, "total": floats, "table": ints, "blocks": floats, "lock": ints,
            "count": ints, "n": 5, "BLOCK": 8}  # fmt: skip
    written = {"rows", "total", "blocks", "lock", "count"}
    if not hasattr(wrap, "identify_accessed_tensors"):  # before torch 2.13
        assert set(wrap.identify_mutated_tensors(many_accesses, args, {})) == written
        return
    found = wrap.identify_accessed_tensors(many_accesses, args, {}).read_writes
    assert {access.name for access in found.writes} == written
    assert {access.name for access in found.reads} == {"x", "table"}


@pytest.mark.parametrize("function", [
    lambda x, y: torch.nn.functional.gelu(x + y).softmax(-1),
    lambda x, y: (torch.nn.functional.layer_norm(x, (20,)) * y).argmax(1),
    lambda x, y: torch.cat([x.cumsum(1), y.half().float()[:, ::2]], 1).t().contiguous(),
], ids=["pointwise", "reductions", "views"])
def test_torch_writes_the_kernels(function):
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True)
    torch.testing.assert_close(compiled(X, Y), function(X, Y), rtol=1e-4, atol=1e-3)


def test_sizes_that_are_symbols_do_not_break_the_graph():
    torch._dynamo.reset()

    def function(x):
        blocks, room = triton.cdiv(x.shape[0], 8), triton.next_power_of_2(x.shape[0])
        return x * blocks + room

    compiled = torch.compile(function, backend="eager", fullgraph=True, dynamic=True)
    for n in (5, 20, 33):
        torch.testing.assert_close(compiled(torch.ones(n)), function(torch.ones(n)))


def test_the_static_launcher_takes_what_it_can_start(tmp_path):
    from torch._inductor.runtime.hints import HeuristicType
    from torch._inductor.runtime.triton_heuristics import StaticTritonCompileResult

    def static(grid):
        kernel = inductor_kernels.turned(inductor_kernels.write(tmp_path, grid))
        return StaticTritonCompileResult.can_statically_launch(
            kernel, {}, {"device_type": "cuda", "device": 0}, HeuristicType.POINTWISE)

    taken = static("Grid1D")
    assert (taken.num_warps, taken.arg_tys) == (4, "OOi")
    assert static("FixedGrid") is None, "its indices may overflow, and the static launcher would not notice"


def test_workers_compile_what_torch_writes():
    from torch._inductor.async_compile import AsyncCompile

    torch._dynamo.reset()
    assert AsyncCompile.use_process_pool()
    function = lambda x: (x * 3).tanh().sum(0)
    torch.testing.assert_close(torch.compile(function, fullgraph=True)(X), function(X))


def test_a_second_start_is_warm():
    from torch._dynamo.utils import counters
    from torch._inductor.async_compile import CompiledTritonKernels
    from torch._inductor.codecache import PyCodeCache

    function = lambda x: x.sigmoid().amax(1, keepdim=True) - x
    for start in ("cold", "warm"):
        torch._dynamo.reset()
        PyCodeCache.cache_clear()
        CompiledTritonKernels.cache_clear()
        counters.clear()
        torch.testing.assert_close(torch.compile(function, fullgraph=True)(X), function(X))
        hits = counters["inductor"]["fxgraph_cache_hit"] + counters["aot_autograd"]["autograd_cache_hit"]
        assert bool(hits) == (start == "warm"), counters


def test_tuning_in_a_subprocess():
    from torch._inductor import config
    from torch._inductor.select_algorithm import add_feedback_saver

    seen = []
    add_feedback_saver(lambda timings, *_: seen.extend(timings.values()))
    torch._dynamo.reset()
    with config.patch({"autotune_in_subproc": True, "max_autotune_gemm": True, "max_autotune_gemm_backends": "TRITON",
                       "test_configs.autotune_choice_name_regex": "triton_mm_(6|7)$"}):
        x = torch.randn(32, 32)
        compiled = torch.compile(lambda x, y: x @ y, fullgraph=True)
        torch.testing.assert_close(compiled(x, x), x @ x, rtol=1e-3, atol=1e-3)
    assert len(seen) == 2 and all(time < float("inf") for time in seen), seen


WRITTEN = """
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.hints import DeviceProperties

@triton_heuristics.pointwise(
    size_hints={'x': 4096}, filename=__file__,
    triton_meta={'signature': {'in_ptr0': '*fp32', 'out_ptr0': '*fp32', 'xnumel': 'i32', 'XBLOCK': 'constexpr'},
                 'device': DeviceProperties(type='cuda', index=0, multi_processor_count=132, cc=90, major=9,
                                            regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048,
                                            warp_size=32),
                 'constants': {}, 'configs': [{(0,): [['tt.divisibility', 16]], (1,): [['tt.divisibility', 16]]}]},
    inductor_meta={'grid_type': 'Grid1D', 'kernel_name': 'triton_poi_0', 'store_cubin': False,
                   'backend_hash': '0', 'autotune_local_cache': False},
    min_elem_per_thread=0
)
@triton.jit
def triton_poi_0(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    tl.store(out_ptr0 + xindex, tl.load(in_ptr0 + (xindex % 64 + 128 * (xindex // 64)), xmask), xmask)
"""


def test_the_graph_cache_keeps_kernels_for_the_static_launcher(monkeypatch):
    """What torch does on a machine with a GPU, up to loading the binary."""
    from torch._inductor.codecache import PyCodeCache
    from torch._inductor.runtime import triton_helpers
    from torch._inductor.triton_bundler import TritonBundler

    monkeypatch.setattr(triton_helpers, "set_driver_to_gpu", lambda: None)
    tuner = PyCodeCache.load(WRITTEN).triton_poi_0
    tuner.precompile(warm_cache_only=True)
    assert tuner.is_statically_launchable()
    TritonBundler.begin_compile()
    try:
        TritonBundler.put_static_autotuner("key", tuner)
        (kept,) = TritonBundler._static_autotuners
        again = pickle.loads(pickle.dumps(kept)).kernel
    finally:
        TritonBundler.end_compile()
    assert tuner.fn.fn is not None and again.fn.fn is None
    for result in again.compile_results:
        result.reload_cubin_path()
        assert result.kernel.arg_names == ["in_ptr0", "out_ptr0", "xnumel", "XBLOCK"]
