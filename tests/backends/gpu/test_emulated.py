"""The compiler's GPU code without a GPU: run by the emulator, which also notices races and accesses out of bounds."""

import numpy as np
import pytest

from tests.backends.gpu.test_modules import BATTERY, borrowed, checking
from tests.exec import test_exec
from tritium.insight import emulator
from tritium.insight.emulator.memory import SHARED_BASE, Fault
from tritium.insight.emulator.shared import Shared
from tritium.interp.machine import interpret
from tritium.ir.text import parse_module

pytestmark = pytest.mark.sampled

TARGETS = [(90, 4), (75, 1), (80, 8)]  # architecture, warps


@pytest.fixture(autouse=True)
def emulated(monkeypatch):
    for part in BATTERY:
        monkeypatch.setattr(part, "check", checking(emulator.run))


globals().update(borrowed())


@pytest.mark.parametrize(("arch", "warps"), TARGETS)
@pytest.mark.parametrize("run", test_exec.CASES, ids=str)
def test_text_kernels(run, arch, warps):
    module = parse_module(run.kernel)
    args, outputs = test_exec.arguments(run, module)
    emulator.run(module, args, run.grid, arch, warps)
    for at, wanted in zip(outputs, run.expected, strict=True):
        pointee = module.args[at].type.pointee
        expected = test_exec.array(pointee, wanted, run.bits)
        test_exec.compare(args[at], expected, run, pointee, test_exec.signless(wanted))


ERF = """kernel @erf(%x: ptr<f32>, %y: ptr<f32>) {
  %2 = arange {start=0, end=4096} : tile<4096xi32>
  %3 = splat %x {shape=(4096,)} : tile<4096xptr<f32>>
  %4 = addptr %3, %2 : tile<4096xptr<f32>>
  %5 = load %4 : tile<4096xf32>
  %6 = erf %5 : tile<4096xf32>
  %7 = splat %y {shape=(4096,)} : tile<4096xptr<f32>>
  %8 = addptr %7, %2 : tile<4096xptr<f32>>
  store %8, %6
}"""


def test_hyperbolic_tangent():
    """With the hardware's exponential and reciprocal, and special values."""
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.15, -1.15, 44.0, 45.0, 89.0, 1e-45, -1e-38, 3e38]
    x = np.resize(np.concatenate([special, np.linspace(-10, 10, 3000), np.linspace(1, 1.3, 1083)]), 4096).astype("f4")
    module, got = parse_module(ERF.replace("erf", "tanh")), np.empty(4096, "f4")
    emulator.run(module, [x, got])
    want = np.tanh(x.astype("f8")).astype("f4")
    np.testing.assert_array_equal(np.signbit(got[~np.isnan(x)]), np.signbit(want[~np.isnan(x)]))
    np.testing.assert_array_max_ulp(got[~np.isnan(x)], want[~np.isnan(x)], 1)
    assert np.isnan(got[np.isnan(x)]).all()


def test_error_function():
    """With the hardware's exponential, and its special values."""
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 3.95, 4.0, 1e-45, -1e-38, 3e38]
    x = np.resize(np.concatenate([special, np.linspace(-5, 5, 3000), np.linspace(0.9, 1.5, 1084)]), 4096).astype("f4")
    module, got, want = parse_module(ERF), np.empty(4096, "f4"), np.empty(4096, "f4")
    emulator.run(module, [x, got])
    interpret(module, [x, want], (1,))
    np.testing.assert_array_equal(np.signbit(got[~np.isnan(x)]), np.signbit(want[~np.isnan(x)]))
    np.testing.assert_array_max_ulp(got[~np.isnan(x)], want[~np.isnan(x)], 2)
    assert np.isnan(got[np.isnan(x)]).all()


# --- the emulator itself ----------------------------------------------------------------------------------------------
def shared_with(writer, *, barrier):
    """Shared memory of which thread `writer` has written the first word."""
    shared = Shared(64)
    shared.store(np.array([SHARED_BASE]), np.ones((1, 4), np.uint8), np.array([writer]))
    if barrier:
        shared.barrier()
    return shared


def test_races_are_noticed():
    first = np.array([SHARED_BASE])
    with pytest.raises(Fault, match="reads shared memory that another wrote"):
        shared_with(3, barrier=False).load(first, 4, np.array([4]))
    shared = shared_with(3, barrier=True)
    assert (shared.load(first, 4, np.array([4])) == 1).all()
    with pytest.raises(Fault, match="overwrites shared memory that another read"):
        shared.store(first, np.zeros((1, 4), np.uint8), np.array([3]))


def test_copies_in_flight_are_not_read():
    shared = Shared(64)
    first = np.array([SHARED_BASE])
    shared.start_copy(first, np.ones((1, 16), np.uint8), np.array([0]))
    shared.close_copies([0])
    shared.barrier()
    with pytest.raises(Fault, match="under way"):
        shared.load(first, 4, np.array([0]))
    shared.wait_copies(0, [0])
    with pytest.raises(Fault, match="race"):  # others need a barrier after the wait
        shared.load(first, 4, np.array([1]))
    shared.barrier()
    assert (shared.load(first, 4, np.array([1])) == 1).all()


def test_accesses_out_of_bounds_are_noticed():
    module = parse_module("kernel @f(%x: ptr<f32>, %n: i32) {\n  %p = addptr %x, %n : ptr<f32>\n  %v = load %p : f32\n"
                          "  store %x, %v\n}")  # fmt: skip
    x = np.arange(4, dtype=np.float32)
    emulator.run(module, [x, 3])
    assert x[0] == 3
    with pytest.raises(Fault, match="outside every buffer"):
        emulator.run(module, [x, 4])


def test_neighbours_are_updated_at_aligned_addresses():
    module = parse_module("kernel @f(%x: ptr<f32> {divisible=16}) {\n  %i = arange {start=0, end=128} : tile<128xi32>\n"
                          "  %0 = splat %x {shape=(128,)} : tile<128xptr<f32>>\n"
                          "  %p = addptr %0, %i : tile<128xptr<f32>>\n  %v = cast %i {to=f32} : tile<128xf32>\n"
                          '  %old = atomic %p, %v {how="add", sem="relaxed"} : tile<128xf32>\n}')  # fmt: skip
    text, _ = emulator.llvm_of(module, 90, 1)
    assert "red.relaxed.gpu.global.add.v4.f32" in text
    x = np.ones(132, np.float32)
    emulator.run(module, [x], num_warps=1)
    assert (x[:128] == np.arange(128) + 1).all() and (x[128:] == 1).all()
    with pytest.raises(Fault, match="unaligned"):
        emulator.run(module, [x[1:]], num_warps=1)
