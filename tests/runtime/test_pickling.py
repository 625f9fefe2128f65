"""Kernels and compiled kernels in another process: by name, or without their function as frameworks send them."""

import copy
import pickle
import shutil
import sys
import types

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.backends.compiler import GPUTarget
from tritium.compiler import ASTSource, CompiledKernel
from tritium.ir.preconditions import preconditions_of


@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


@triton.autotune([triton.Config({"BLOCK": 8})], key=[])
@triton.jit
def tuned(x, n, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), n)


@triton.jit
def shifted(x, y, n, BLOCK: tl.constexpr):
    """Compiled for arguments that share no memory."""
    i = tl.arange(0, BLOCK)
    for k in range(n):
        tl.store(y + k * BLOCK + i, tl.load(x + k * BLOCK + i) + 1)


def sent(x):
    return pickle.loads(pickle.dumps(x))


def without_function(kernel):
    """A kernel as Inductor sends it to its workers' parent: what does not pickle is taken away."""
    stripped = copy.copy(kernel) if kernel.fn is None else triton.JITFunction(kernel.fn)
    stripped.cache_key, stripped.signature
    stripped.fn = stripped.__globals__ = stripped.used_global_vals = stripped._hash_lock = None
    return stripped


def test_a_kernel_is_found_by_name():
    assert sent(double) is double


def test_a_kernel_under_a_tuner_is_found_by_name():
    assert sent(tuned.fn) is tuned.fn


def test_a_kernel_of_a_module_that_cannot_be_imported_travels_as_text(monkeypatch):
    """Inductor makes modules by hand: their names mean nothing in another process."""
    monkeypatch.setitem(sys.modules, "made_by_hand", types.ModuleType("made_by_hand"))
    kernel = triton.JITFunction(double.fn)
    kernel.__module__, sys.modules["made_by_hand"].double = "made_by_hand", kernel
    data = pickle.dumps(kernel)
    monkeypatch.delitem(sys.modules, "made_by_hand")
    other = pickle.loads(data)
    assert other is not kernel and other.src == double.src and other.fn is None


def test_a_kernel_without_its_function_keeps_text_parameters_and_key():
    stripped = without_function(double)
    for other in (sent(stripped), copy.deepcopy(stripped)):
        assert other is not stripped and other.fn is None
        assert (other.src, other.cache_key, other.arg_names) == (double.src, double.cache_key, double.arg_names)
        assert [p.is_constexpr for p in other.params] == [False, False, True]


def test_a_copy_stays_as_it_was_when_the_function_comes_back():
    stripped = without_function(double)
    other = copy.deepcopy(stripped)
    stripped.fn, stripped.__globals__ = double.fn, double.fn.__globals__
    assert other.fn is None and sent(other).src == double.src


def test_a_kernel_that_no_module_has_runs_where_it_was_compiled_before():
    @triton.jit
    def local(x, BLOCK: tl.constexpr):
        tl.store(x + tl.arange(0, BLOCK), 7)

    x = np.zeros(8, np.float32)
    local[(1,)](x, BLOCK=8)
    other, x[:] = sent(local), 0
    other[(1,)](x, BLOCK=8)
    assert (x == 7).all()
    with pytest.raises(ValueError, match="local came from another process without its function"):
        other[(1,)](x, BLOCK=4)


@pytest.mark.parametrize("send", [sent, copy.deepcopy])
def test_a_compiled_kernel_travels_without_stages_whose_files_are_gone(monkeypatch, tmp_path, send):
    """Inductor copies kernels while their functions are taken away: nothing could be compiled again then."""
    monkeypatch.setenv("TRITIUM_CACHE_DIR", str(tmp_path))
    src = ASTSource(triton.JITFunction(double.fn), {"x": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 8})
    target = GPUTarget("cpu", "host", 1)
    triton.compile(src, target=target)
    found = triton.compile(src, target=target)  # its stages are read on demand
    shutil.rmtree(tmp_path)
    src.fn.fn = src.fn.__globals__ = None
    other, x = send(found), np.arange(8, dtype=np.float32)
    assert "llir" not in other.asm
    other[(1, 1, 1)](x, 8, 8)
    assert (x == 2 * np.arange(8)).all()


@pytest.mark.parametrize("launched", [False, True])
@pytest.mark.parametrize("send", [sent, copy.deepcopy, copy.copy])
def test_a_compiled_kernel_is_launched_elsewhere(send, launched):
    x = np.arange(8, dtype=np.float32)
    compiled = double.warmup(x, 8, BLOCK=8, grid=(1,))
    if launched:
        compiled[(1, 1, 1)](x, 8, 8)
    other = send(compiled)
    assert isinstance(other, CompiledKernel) and other.metadata == compiled.metadata
    assert other.function is None and {ext: other.asm[ext] for ext in ("ttir", "llir", "obj")} == {
        ext: compiled.asm[ext] for ext in ("ttir", "llir", "obj")}
    before = x.copy()
    other[(1, 1, 1)](x, 8, 8)
    assert (x == 2 * before).all()


def test_views_of_stages_are_made_elsewhere():
    compiled = double.warmup(np.zeros(8, np.float32), 8, BLOCK=8, grid=(1,))
    assert sent(compiled).asm["asm"] == compiled.asm["asm"]


def test_launches_that_it_is_not_fit_for_are_right_without_the_function():
    memory = np.arange(64, dtype=np.float32)
    x, y = memory[:48], memory[8:56]
    compiled = shifted.warmup(x, y, 4, BLOCK=8, grid=(1,))
    assert preconditions_of(compiled.metadata).disjoint, "the test needs a kernel that takes something for granted"
    compiled.src.fn = without_function(shifted)
    wanted = memory.copy()
    for k in range(4):
        wanted[8 + 8 * k:16 + 8 * k] = wanted[8 * k:8 * k + 8] + 1
    sent(compiled)[(1, 1, 1)](x, y, 4, 8)
    assert (memory == wanted).all()
