"""What Triton 3.7 to 3.9 changed on the host's side, and block pointers and descriptors as 3.8 has them."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.language.builders import Bench, target
from tritium import knobs, testing
from tritium.backends.compiler import GPUTarget
from tritium.backends.driver import Drivers
from tritium.backends.nvptx.runtime import cuda
from tritium.compiler import max_shared_mem
from tritium.runtime.jit import get_jit_fn_file_line
from tritium.tools.ragged_tma import create_ragged_descriptor, load_ragged, store_ragged
from tritium.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def copies(x, out, n):
    tl.store(out, tl.load(x) * n)


def test_options_of_newer_releases_are_accepted():
    x, out = np.ones(1, np.float32), np.zeros(1, np.float32)
    copies[(1,)](x, out, 3, clc=False, min_shared_mem=0, sched4reg=True, fpsan_homomorphic_casts=False)
    assert out[0] == 3


def test_options_of_newer_releases_on_a_gpu():
    source = triton.compiler.ASTSource(copies, {"x": "*fp32", "out": "*fp32", "n": "i32"})
    made = triton.compile(source, GPUTarget("cuda", 100, 32), {"clc": True, "min_shared_mem": 4096}).metadata
    assert (made.clc, made.min_shared_mem, made.shared, made.sched4reg, made.fpsan_homomorphic_casts) == (
        True, 4096, 4096, False, False)
    assert (made.global_scratch_size, made.global_scratch_align) == (0, 1)
    with pytest.raises(ValueError, match="sm_90 does not have"):
        triton.compile(source, GPUTarget("cuda", 90, 32), {"clc": True})
    with pytest.raises(ValueError, match="min_shared_mem must be an integer"):
        triton.compile(source, GPUTarget("cuda", 90, 32), {"min_shared_mem": -1})


@triton.jit
def plus_one(x):
    return x + 1


@triton.jit
def applies(x, out, F: tl.constexpr, T: tl.constexpr):
    tl.store(out, F(tl.load(x)) + T[1])


def test_saved_specialisations_tell_their_target():
    knobs.backend = "cpu"  # also where there is a GPU
    x, out, told = np.ones(1, np.float32), np.zeros(1, np.float32), []
    with knobs.runtime.scope():
        knobs.runtime.jit_cache_hook = lambda **what: told.append(what["compile"]["specialization_data"])
        applies[(1,)](x, out, plus_one, (3, 4))
    data = json.loads(told[0])
    assert data["target"] == {"backend": "cpu", "arch": "host", "warp_size": 1}
    assert data["constant_vals"][0] == {"jit_function": f"{__name__}:plus_one"}
    applies.device_caches.clear()
    kernel = applies.preload(told[0])
    assert applies[(1,)](x, out, plus_one, (3, 4)) is kernel and out[0] == 6
    assert applies.preload(json.dumps({name: value for name, value in data.items() if name != "target"}))  # of 3.6
    data["target"] = {"backend": "cuda", "arch": "90", "warp_size": 32}
    with pytest.raises(RuntimeError, match="Specialization data is for cuda:90:32 but trying to preload for cpu:host"):
        applies.preload(json.dumps(data))


@triton.jit
def fits(x, N: tl.constexpr):
    tl.static_assert(N == 2)
    tl.store(x, N)


def test_kernels_that_fail_in_the_background_leave_nothing():
    knobs.backend = "cpu"  # also where there is a GPU
    x = np.zeros(1, np.int32)
    with pytest.raises(triton.compiler.errors.CompileTimeAssertionFailure), ThreadPoolExecutor(1) as pool, \
            triton.compiler.AsyncCompileMode(pool):
        kernels = [fits.warmup(x, n, grid=(1,)) for n in (1, 2, 3)]
        assert len(fits.device_caches[0][0]) == 3  # all are there at once
    assert list(fits.device_caches[0][0].values()) == [kernels[1].result()]
    fits[(1,)](x, 2)
    assert x[0] == 2


@triton.jit
def by_both_names(x, out, N: tl.constexpr):
    a = load_ragged(x, slice_off=0, slice_size=2, coords=[0, 0])
    b = load_ragged(x, batch_offset=0, batch_size=3, coords=[0, 0])
    store_ragged(out, slice_off=0, slice_size=2, coords=[0, 0], data=a)
    store_ragged(out, batch_offset=4, batch_size=3, coords=[0, 0], data=b)


def test_names_of_ragged_batches():
    x, out = np.ones((8, 4), np.float32), np.zeros((8, 4), np.float32)
    by_both_names[(1,)](*(create_ragged_descriptor(each, [4, 4]) for each in (x, out)), 4)
    assert out[:, 0].tolist() == [1, 1, 0, 0, 1, 1, 1, 0]


@triton.jit
def without_a_batch(x, out):
    store_ragged(out, coords=[0, 0], data=load_ragged(x, 0, 2, [0, 0]))


@triton.jit
def without_coordinates(x, out):
    load_ragged(x, 0, 2)


@pytest.mark.parametrize("kernel, message", [(without_a_batch, "name the batch once"),
                                             (without_coordinates, "accessed at coords")])
def test_ragged_accesses_that_lack_something(kernel, message):
    x = create_ragged_descriptor(np.ones((8, 4), np.float32), [4, 4])
    with pytest.raises(triton.compiler.errors.CompileTimeAssertionFailure, match=message):
        kernel.warmup(x, x, grid=(1,))


def test_scratch_memory_for_profilers():
    pytest.importorskip("torch")
    found = Drivers().named("cpu").allocate_default_profile_scratch(100, 256, 0)
    assert found.numel() == 100 and found.data_ptr() % 256 == 0


def test_hooks_on_stages_of_both_kinds():
    seen = []

    def old(backend, stages, options, language, capability):
        seen.append("old")

    def new(*args):
        seen.append(len(args))
        return ("key", "hash") if not args else None

    x, out = np.ones(1, np.float32), np.zeros(1, np.float32)
    for hook in (old, new):
        with knobs.runtime.scope(), knobs.compilation.scope():
            knobs.compilation.always_compile = True
            knobs.runtime.add_stages_inspection_hook = hook
            copies.device_caches.clear()
            copies[(1,)](x, out, 5)
    assert "old" in seen and 0 in seen and out[0] == 5


def test_contraction_can_be_forbidden():
    x, out = np.ones(1, np.float32), np.zeros(1, np.float32)
    with knobs.language.scope():
        knobs.language.force_disable_fp_fusion = True
        copies.device_caches.clear()
        assert copies[(1,)](x, out, 7, enable_fp_fusion=True).metadata.enable_fp_fusion is False


def test_small_names():
    assert str(triton.Config({"B": 1}, ir_override="k.ttir")).endswith(", ir_override: k.ttir")
    assert "ir_override" not in str(triton.Config({"B": 1}))
    assert tl.pointer_type(tl.float32, "global") is tl.pointer_type(tl.float32, 1)
    assert tl.pointer_type(tl.float32).address_space == 1 and tl.pointer_type(tl.float32).address_space == "global"
    assert get_jit_fn_file_line(copies) == (copies.file_name, copies.def_file_line_number)
    assert copies.file_name == __file__ and copies.def_file_col_number == 1
    assert testing.do_bench_proton is testing.do_bench and max_shared_mem(0) > 0
    assert callable(tl.extra.hip.libdevice.popc) and callable(tl.extra.hip.libdevice.rint)


@triton.jit
def moves_a_window(x, out, n):
    p = tl.make_block_ptr(x, (n,), (1,), (tl.full((), 0, tl.int64),), (8,), (0,))
    q = tl.make_block_ptr(out, (n,), (1,), (0,), (8,), (0,))
    p = p.advance((8,))
    q.store(p.load(boundary_check=(0,)).to(tl.int32), boundary_check=(0,))
    tl.static_assert(len(p.offsets) == 1 and p.block_shape[0] == 8 and p.order[0] == 0)
    q = tl.advance(q, (8,))
    tl.store(q, 7, boundary_check=(0,))


def test_block_pointers(engine):
    """64-bit offsets, values that are cast and broadcast, and the methods."""
    x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    engine(moves_a_window, (x, out, 14))
    assert out.tolist() == [8, 9, 10, 11, 12, 13, 0, 0, 7, 7, 7, 7, 7, 7, 0, 0]


@triton.jit
def from_a_tuple(out, t):
    tl.store(out + tl.arange(0, 16), tl.reshape(t[0].load([0, 0]) + t[1].load([0, 0]) * t[2], [16]))


def test_descriptors_in_tuples():
    from tritium.interp.eager import launch

    x, y = np.arange(16, dtype=np.float32).reshape(2, 8), np.ones((2, 8), np.float32)
    for run in (lambda *args: from_a_tuple[(1,)](*args), lambda *args: launch(from_a_tuple, (1,), args, {})):
        out = np.zeros(16, np.float32)
        run(out, (TensorDescriptor.from_tensor(x, [2, 8]), TensorDescriptor.from_tensor(y, [2, 8]), 3))
        assert out.tolist() == (x + 3).ravel().tolist()


def test_targets_with_numbers_as_text():
    text, number = GPUTarget("cuda", "90", "32"), GPUTarget("cuda", 90, 32)
    assert text == number and hash(text) == hash(number) and text.arch == 90 and text.warp_size == 32
    assert GPUTarget("hip", "gfx942", "64").arch == "gfx942"
    source = triton.compiler.ASTSource(copies, {"x": "*fp32", "out": "*fp32", "n": "i32"})
    assert "ptx" in triton.compile(source, text).asm


def test_the_default_backend(monkeypatch):
    """It decides where no tensor does."""
    drivers = Drivers()
    with knobs.runtime.scope(), knobs.internal.scope():
        knobs.backend = None
        for name in ("cpu", "nvidia", "cuda"):
            monkeypatch.setenv("TRITON_DEFAULT_BACKEND", name)
            monkeypatch.setattr(cuda.CUDA, "available", lambda: True)
            knobs.refresh_knobs()
            assert drivers.default is drivers.named("cpu" if name == "cpu" else "cuda") is drivers.of_device(None)
            assert drivers.of_device("cpu") is drivers.named("cpu")
        monkeypatch.setattr(cuda.CUDA, "available", lambda: False)
        with pytest.raises(RuntimeError, match=r"Backend device 'cuda' is not active\."):
            drivers.default.get_current_device()
        knobs.runtime.default_backend = "abacus"
        with pytest.raises(RuntimeError, match="Unknown backend device 'abacus'"):
            drivers.default.get_current_device()


def test_strides_that_tma_does_not_take():
    for arch, refused in ((90, True), (80, False)):
        b = Bench(target("cuda", arch))
        arguments = [b.tile("ptr<f32>"), [8, 5], [5, 1], [4, 4]]
        if refused:
            with pytest.raises(ValueError, match="16-byte aligned"):
                tl.make_tensor_descriptor.fn(b, *arguments)
        else:
            tl.make_tensor_descriptor.fn(b, *arguments)


def test_what_libraries_still_call():
    b = Bench()
    assert tl.core._promote_bfloat16_to_float32(b.tile("bf16", 8), _semantic=b).dtype is tl.float32
    assert tl.core._promote_bfloat16_to_float32(b.tile("f16", 8), _semantic=b).dtype is tl.float16


def test_offsets_of_rows():
    b = Bench()
    described = tl.make_tensor_descriptor.fn(b, b.tile("ptr<f32>"), [64, 8], [8, 1], [1, 8])
    for kind in ("i16", "i32"):
        described.gather(b.tile(kind, 8), 0, _semantic=b)
    with pytest.raises(AssertionError, match="x offsets must have dtype"):
        described.gather(b.tile("i64", 8), 0, _semantic=b)
