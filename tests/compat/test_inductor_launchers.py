"""Kernels that torch's Inductor starts itself: by its static launcher, or from C++ (S42). No GPU is needed."""

import ctypes
import functools
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import tritium as triton
from tests.compat.inductor_kernels import H200, product, turned, write
from tritium import cache
from tritium.backends.compiler import GPUTarget
from tritium.compiler import ASTSource, inductor
from tritium.ir.preconditions import preconditions_of


@pytest.fixture
def kernels(tmp_path):
    """`kernels(grid=, store=)`: a module as Inductor writes it."""
    return functools.partial(write, tmp_path)


def test_what_inductor_says_of_a_kernel_is_read_off_its_decorator(kernels):
    assert inductor.meta(kernels().turned) == {
        "grid_type": "Grid1D", "store_cubin": False, "kernel_name": "turned"}


def test_the_static_launcher_takes_a_kernel_whose_terms_every_grid_of_inductor_keeps(kernels):
    kernel = turned(kernels())
    assert preconditions_of(kernel.metadata).nonnegative, "the test needs a kernel that takes something for granted"
    assert inductor.needs_launcher(kernel) is None
    kernel._cubin_path = "somewhere"
    assert kernel._cubin_path == "somewhere"


def test_the_static_launcher_is_refused_where_a_grid_could_break_them(kernels):
    kernel = turned(kernels(grid="FixedGrid"))
    kernel._cubin_path = "somewhere"
    with pytest.raises(NotImplementedError, match="indices are not negative"):
        kernel._cubin_path


def test_the_static_launcher_is_refused_where_a_kernel_takes_more_than_the_users_arguments(kernels):
    kernel = product(kernels())
    assert kernel.metadata.tensor_maps and kernel.metadata.producer_warps, "the test needs a warp-specialized kernel"
    with pytest.raises(NotImplementedError, match="only tritium's launcher"):
        kernel._cubin_path


def test_from_cpp_a_kernel_takes_the_users_arguments_alone(kernels):
    kernel = product(kernels(store=True))
    metadata = kernel.metadata
    assert not (metadata.tensor_maps or metadata.producer_warps or metadata.persistent)
    assert not metadata.preconditions
    assert inductor.needs_launcher(kernel) is None and not turned(kernels(store=True)).metadata.preconditions


def test_descriptors_are_refused_from_cpp(kernels):
    types = {"in_ptr0": "tensordesc<fp32[64]>", "out_ptr0": "*fp32", "xnumel": "i32", "XBLOCK": "constexpr"}
    with pytest.raises(ValueError, match="in_ptr0 is a tensor descriptor"):
        triton.compile(ASTSource(kernels(store=True).turned, types, {"XBLOCK": 64}), H200)


@pytest.mark.parametrize("variables", [("TRITON_CACHE_DIR",), ("TRITON_CACHE_DIR", "TRITIUM_CACHE_DIR")])
def test_inductor_finds_the_binary_whichever_variable_is_set(kernels, tmp_path, monkeypatch, variables):
    monkeypatch.delenv("TRITIUM_CACHE_DIR", raising=False)
    for name in variables:
        monkeypatch.setenv(name, str(tmp_path / name))
    for _ in range(2):  # compiled, then out of the cache
        kernel = turned(kernels())
        path = tmp_path / "TRITON_CACHE_DIR" / cache.base32(kernel.hash) / "turned.cubin"
        assert path.read_bytes() == kernel.asm["cubin"]
        if "TRITIUM_CACHE_DIR" in variables:
            path.unlink()


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_a_cpu_kernel_runs_from_cpp(kernels, tmp_path):
    kernel = turned(kernels(store=True), GPUTarget("cpu", "host", 1))
    libraries = []
    for ext in ("so", "launcher.so"):
        path = tmp_path / f"{ext}.so"
        path.write_bytes(kernel.asm[ext])
        libraries.append(ctypes.CDLL(os.fspath(path)))
    x, out, n = np.arange(4096, dtype=np.float32), np.zeros(2000, np.float32), ctypes.c_int64(2000)
    args = (ctypes.c_void_p * 4)(x.ctypes.data, out.ctypes.data, ctypes.addressof(n), None)
    entry = ctypes.cast(getattr(libraries[0], kernel.metadata.name), ctypes.c_void_p)
    libraries[1].run_from_nativert(2, 1, 1, 1, args, entry)
    index = np.arange(2000)
    assert (out == x[index % 64 + 128 * (index // 64)]).all()


def test_a_cpu_kernel_that_takes_something_for_granted_has_no_shared_object(kernels):
    kernel = turned(kernels(), GPUTarget("cpu", "host", 1))
    assert kernel.metadata.preconditions, "the test needs such a kernel"
    with pytest.raises(ValueError, match="launch_checks=False"):
        kernel.asm["so"]


def test_without_a_c_compiler_there_is_a_clear_error(kernels, monkeypatch):
    kernel = turned(kernels(store=True), GPUTarget("cpu", "host", 1))
    monkeypatch.setattr("tritium.knobs.build.cc", None)
    monkeypatch.setenv("PATH", str(Path(__file__).parent))
    with pytest.raises(RuntimeError, match="no C compiler to link it"):
        kernel.asm["so"]
