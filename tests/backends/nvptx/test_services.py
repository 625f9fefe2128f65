"""What frameworks ask the CUDA driver for by names of newer releases, without a GPU; unloading of modules."""

import gc
import inspect
import struct

import pytest

from tests.backends.nvptx import fake_driver
from tests.backends.nvptx.kernels import Tensor, X, Y, Z, add, f32
from tritium import knobs
from tritium.backends.driver import driver
from tritium.backends.nvidia.driver import make_tensordesc_arg
from tritium.tools.tensor_descriptor import TensorDescriptor


def test_tensor_maps(fake):
    utils = driver.active.utils
    made = utils.fill_tma_descriptor_tiled(65536, 3, 2, 6, (64, 32), (512, 256), (256, 1), 0)
    assert fake.maps == [(6, 65536, [256, 512], [512], [32, 64], [1, 1], 0, 3, 2, 0, 0)]
    assert len(made) == 128
    utils.fill_tma_descriptor(65536, 1, 2, "bf16", (64, 32), (512, 256), (256, 1), 1)
    assert fake.maps == [(9, 65536, [256, 512], [512], [32, 64], [1, 1], 0, 1, 2, 1, 0)]
    with pytest.raises(ValueError, match="last stride"):
        utils.fill_tma_descriptor_tiled(65536, 3, 2, 6, (64, 32), (512, 256), (1, 512))


def test_descriptors_as_arguments_of_other_launchers(fake):
    assert len(inspect.signature(make_tensordesc_arg).parameters) == 3  # frameworks count them
    x = TensorDescriptor(Tensor(65536, "fp32"), [16, 8], [8, 1], [4, 8], "nan", round_f32_to_tf32=True)
    sizes = [16, 8, 8, 1]
    assert make_tensordesc_arg(x, None, None) == [x.base, *sizes, True, True, *sizes]
    meta = {"swizzle": 1, "elem_size": 4, "elem_type": 7, "block_size": [4, 8]}
    made, *rest = make_tensordesc_arg(x, meta)
    assert len(made) == 128 and rest == sizes
    assert fake.maps == [(11, 65536, [8, 16], [32], [8, 4], [1, 1], 0, 1, 2, 1, 0)]


def test_services_of_newer_releases(fake):
    utils = driver.active.utils
    fake.captured = 7
    assert utils.is_stream_capturing(7) and not utils.is_stream_capturing(8)
    assert (utils.get_current_device(), utils.get_device_capability(0), utils.get_default_stream(0)) == (0, (9, 0), 0)


def test_launching_a_function(fake):
    """Of a compiled kernel: all parameters. Of a module somebody else made: what is passed at run time."""
    utils, events = driver.active.utils, []
    kernel = add.warmup(X, Y, Z, 64, grid=(1,), BLOCK=64)
    kernel._init_handles()
    utils.launch(5, 1, 1, 77, kernel.function, kernel.packed_metadata, "told", events.append, None, X, Y, Z, 64, 64)
    assert events == ["told"] and fake.launches[-1]["slots"] == [4096, 8192, 12288, 64]
    assert (fake.launches[-1]["stream"], fake.launches[-1]["grid"]) == (77, (5, 1, 1))
    _, function, *_ = utils.load_binary("other", b"\x7fELF", 0, 0)
    utils.launch(3, 2, 1, 0, function, (8, 2, 1024), None, None, None, X, -3, 1.5, True)
    noted = fake.launches[-1]
    assert (noted["grid"], noted["block"], noted["shared"], noted["attributes"]) == (
        (6, 2, 1), (256, 1, 1), 1024, [(4, (2, 1, 1))])
    assert [noted["slots"][0], noted["slots"][1] & 0xFFFFFFFF, noted["slots"][2], noted["slots"][3] & 255] == [
        4096, 2**32 - 3, f32(1.5), 1]
    utils.launch(1, 1, 1, 0, function, (4, 1, 0), None, None, None, X, 2, 0.5, 1,
                 signature=["*fp32", "i64", "fp64", "i8"])
    assert fake.launches[-1]["slots"][2] == struct.unpack("<Q", struct.pack("<d", 0.5))[0]
    utils.launch(0, 1, 1, 0, function, (4, 1, 0), None, None, None)
    with pytest.raises(TypeError, match="1 types for 2 arguments"):
        utils.launch(1, 1, 1, 0, function, (4, 1, 0), None, None, None, X, 2, signature=["*fp32"])
    assert len(fake.launches) == 3


# -- unloading ---------------------------------------------------------------------------------------------------------


def collected(fake):
    """The modules that are unloaded when the kernels of `add` go."""
    add.device_caches.clear()
    before = fake.calls.count("cuModuleUnload")
    gc.collect()
    return fake.calls.count("cuModuleUnload") - before


def test_a_collected_kernel_unloads_its_module(fake):
    gc.collect()  # those of other tests
    events = []
    knobs.runtime.kernel_unload_hook.add(lambda *event: events.append((*event, fake.calls.count("cuModuleUnload"))))
    try:
        add.warmup(X, Y, Z, 64, grid=(1,), BLOCK=32)  # never loaded
        kernel = add[(1,)](X, Y, Z, 64, BLOCK=64)
        told = (kernel.module, kernel.function, "add", kernel.metadata_group, kernel.hash, 0)
        assert collected(fake) == 0  # it is held here
        launch_it = kernel[(1, 1, 1)]
        del kernel
        assert collected(fake) == 0  # by what launches it
        del launch_it
        fake.current = 0  # another thread, which has no context
        assert collected(fake) == 1 and events == [told]
    finally:
        knobs.runtime.reset()


def test_a_module_is_unloaded_once_and_where_it_was_loaded(fake):
    add[(1,)](X, Y, Z, 64, BLOCK=64)
    seen = []
    fake._cuModuleUnload = lambda module: seen.append((module, fake.current))
    kernel = add[(1,)](X, Y, Z, 64, BLOCK=64)
    module = kernel.module
    driver.active.utils.unload_module(module)
    del kernel
    assert collected(fake) == 0 and seen == [(module, 1000)]


def test_captured_graphs_outlive_an_unloading(fake):
    """The thread allows what would end a capture, and forbids it again."""
    modes = []
    fake._cuThreadExchangeStreamCaptureMode = lambda mode: modes.append(fake_driver.word(mode, fake_driver.I).value)
    add[(1,)](X, Y, Z, 64, BLOCK=64)
    assert collected(fake) == 1 and len(modes) == 2 and modes[0] == 2


def test_forked_children_unload_nothing(fake, monkeypatch):
    add[(1,)](X, Y, Z, 64, BLOCK=64)
    monkeypatch.setattr("os.getpid", lambda: -1)
    assert collected(fake) == 0
