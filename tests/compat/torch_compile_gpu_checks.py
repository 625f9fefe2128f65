"""torch.compile for CUDA with its defaults (S42): who starts which kernel, and that all of it is right.

`test_torch_compile.py` starts it in a process of its own, on a machine with a GPU.
"""

import os
import shutil
import subprocess
import sys

import pytest
import torch

import tritium as triton
from tests.compat.torch_kernels import scaled_sum

NEEDS_COMPILER = pytest.mark.skipif(not shutil.which("g++"), reason="torch needs a C++ compiler for this")
PRODUCTS = {"max_autotune_gemm": True, "max_autotune_gemm_backends": "TRITON"}


@pytest.fixture(scope="module", autouse=True)
def as_triton():
    triton.install_as_triton()
    from torch._inductor.utils import fresh_cache

    with fresh_cache():
        yield
    triton.uninstall_as_triton()


@pytest.fixture
def results(monkeypatch):
    """(name of a kernel, name of the class that starts it), for all that are compiled in this process."""
    from torch._inductor import config
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    seen, compile_one = [], CachingAutotuner._precompile_config

    def noted(self, *args):
        made = compile_one(self, *args)
        seen.append((self.fn.__name__, type(made).__name__))
        return made

    monkeypatch.setattr(CachingAutotuner, "_precompile_config", noted)
    torch._dynamo.reset()
    with config.patch(compile_threads=1):
        yield seen


def randn(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype, device="cuda")


class Block(torch.nn.Module):
    """A product, a kernel of the user's, and what Inductor writes around them."""

    def forward(self, x, y):
        z, out = (x @ y).float(), torch.empty(x.shape[0], y.shape[1], device=x.device)
        scaled_sum[(triton.cdiv(z.numel(), 256),)](z, z.sin(), out, z.numel(), 2.0, BLOCK=256)
        return torch.softmax(out, -1)

    @staticmethod
    def expected(x, y):
        z = (x @ y).float()
        return torch.softmax(z + 2 * z.sin(), -1)


def sides(m=256, n=512, k=384):
    return randn(m, k, dtype=torch.float16) / 16, randn(k, n, dtype=torch.float16) / 16


@pytest.mark.parametrize("function", [
    lambda x: torch.nn.functional.gelu(x) + 1,
    lambda x: x.softmax(-1),
    lambda x: x.roll(3, 1).view(64, 16, 64)[:, :, ::2] * 2,
], ids=["pointwise", "rows", "remainders"])
def test_the_static_launcher_starts_plain_kernels(results, function):
    x = randn(64, 1024)
    torch.testing.assert_close(torch.compile(function, fullgraph=True)(x), function(x))
    assert results and {kind for _, kind in results} == {"StaticTritonCompileResult"}, results


def test_a_turned_view(results):
    function, x = lambda x: x.view(64, 32, 32).transpose(1, 2).contiguous() * 2, randn(64, 1024)
    torch.testing.assert_close(torch.compile(function, fullgraph=True)(x), function(x))


@pytest.mark.parametrize("shape", [(256, 512, 384), (1024, 1024, 1024), (100, 72, 200)], ids=str)
def test_products_that_only_our_launcher_can_start_are_right(results, shape):
    from torch._inductor import config

    x, y = sides(*shape)
    with config.patch(PRODUCTS):
        torch.testing.assert_close(torch.compile(torch.mm, fullgraph=True)(x, y), x @ y, rtol=2e-2, atol=2e-2)
    torch.cuda.synchronize()
    assert results, "no template was compiled"
    if shape == (1024, 1024, 1024):
        assert "TritonCompileResult" in {kind for _, kind in results}, "no template is warp-specialized"


def test_dynamic_shapes(results):
    function = lambda x: (x.t().contiguous() + 1).sum(0)
    compiled = torch.compile(function, fullgraph=True, dynamic=True)
    for n in (8, 33, 250):
        x = randn(n, 48)
        torch.testing.assert_close(compiled(x), function(x), rtol=1e-4, atol=1e-4)


def test_workers():
    from torch._inductor import config
    from torch._inductor.async_compile import AsyncCompile

    torch._dynamo.reset()
    with config.patch({"compile_threads": 4, **PRODUCTS}):
        AsyncCompile.wait_pool_ready()
        assert AsyncCompile.use_process_pool()
        x, y = sides()
        torch.testing.assert_close(torch.compile(Block(), fullgraph=True)(x, y), Block.expected(x, y), rtol=1e-2,
                                   atol=1e-2)


def test_a_second_start_is_warm():
    from torch._dynamo.utils import counters
    from torch._inductor.async_compile import CompiledTritonKernels
    from torch._inductor.codecache import PyCodeCache

    function, x = lambda x: x.sigmoid().amax(1, keepdim=True) - x, randn(40, 300)
    for start in ("cold", "warm"):
        torch._dynamo.reset()
        PyCodeCache.cache_clear()
        CompiledTritonKernels.cache_clear()
        counters.clear()
        torch.testing.assert_close(torch.compile(function, fullgraph=True)(x), function(x))
        hits = counters["inductor"]["fxgraph_cache_hit"] + counters["aot_autograd"]["autograd_cache_hit"]
        assert bool(hits) == (start == "warm"), counters
        assert not counters["inductor"]["fxgraph_cache_pickle_error"]
    assert counters["inductor"]["triton_bundler_load_static_autotuner"], counters


def test_tuning_in_a_subprocess():
    from torch._inductor import config

    torch._dynamo.reset()
    x, y = sides(128, 128, 128)
    with config.patch({"autotune_in_subproc": True, **PRODUCTS}):
        torch.testing.assert_close(torch.compile(torch.mm, fullgraph=True)(x, y), x @ y, rtol=2e-2, atol=2e-2)


@NEEDS_COMPILER
@pytest.mark.parametrize("options", [{}, PRODUCTS], ids=["aten", "templates"])
def test_cpp_wrapper(options):
    torch._dynamo.reset()
    x, y = sides()
    compiled = torch.compile(Block(), fullgraph=True, options={"cpp_wrapper": True, **options})
    for _ in range(2):
        torch.testing.assert_close(compiled(x, y), Block.expected(x, y), rtol=1e-2, atol=1e-2)


# Loads a package and calls it with each of several inputs, in a process of its own.
LOAD = """
import sys, torch
path, inputs, results = sys.argv[1:]
model = torch._inductor.aoti_load_package(path)
torch.save([model(*each) for each in torch.load(inputs)], results)
"""


def one_libstdcxx():
    """The environment of a process in which all libraries use the libstdc++ that torch has loaded.

    Some compilers link a copy of it into a package. Its locales are not those of torch's copy, and the regular
    expression by which a package reads its device ends in a segmentation fault.
    """
    loaded = {line.split()[-1] for line in open("/proc/self/maps") if "/libstdc++.so" in line}
    return {**os.environ, "LD_PRELOAD": " ".join(sorted(loaded))}


def packaged(module, folder, inputs, dynamic_shapes=None, **config):
    """The results of a module for each of the inputs: compiled ahead of time, loaded and called by another process."""
    torch._dynamo.reset()
    package, given, results = (str(folder / name) for name in ("block.pt2", "inputs", "results"))
    program = torch.export.export(module, inputs[0], strict=True, dynamic_shapes=dynamic_shapes)
    torch._inductor.aoti_compile_and_package(program, package_path=package, inductor_configs=config)
    torch.save(inputs, given)
    done = subprocess.run([sys.executable, "-c", LOAD, package, given, results], check=False, capture_output=True,
                          text=True, env=one_libstdcxx())  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return torch.load(results)


@NEEDS_COMPILER
@pytest.mark.parametrize("options", [{}, PRODUCTS], ids=["aten", "templates"])
def test_ahead_of_time(tmp_path, options):
    x, y = sides()
    (out,) = packaged(Block(), tmp_path, [(x, y)], **options)
    torch.testing.assert_close(out, Block.expected(x, y), rtol=1e-2, atol=1e-2)


@NEEDS_COMPILER
def test_ahead_of_time_for_any_number_of_rows(tmp_path):
    rows, (_, y) = torch.export.Dim("rows", min=2, max=4096), sides()
    inputs = [(randn(m, 384, dtype=torch.float16) / 16, y) for m in (256, 3, 1000, 4096)]
    for out, each in zip(packaged(Block(), tmp_path, inputs, ({0: rows}, None)), inputs):
        torch.testing.assert_close(out, Block.expected(*each), rtol=1e-2, atol=1e-2)
