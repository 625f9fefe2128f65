"""Kernels that count on the signs of their indices: right for every launch, by another kernel where need be."""

import ctypes
import gc

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import binary
from tests.backends.nvptx import fake_driver
from tritium.backends.compiler import BaseBackend, GPUTarget
from tritium.backends.driver import driver
from tritium.backends.launcher.preconditions import Guard
from tritium.backends.nvptx import compile
from tritium.compiler import ASTSource
from tritium.compiler.sources import with_options
from tritium.insight import emulator
from tritium.interp.machine import interpret
from tritium.ir.preconditions import preconditions_of
from tritium.ir.text import parse_module

pytestmark = pytest.mark.sampled

WRAPPED = """kernel @f(%x: ptr<f32> {divisible=16}, %out: ptr<f32> {divisible=16}, %start: i32 {divisible=16},
                      %n: i32 {divisible=16}) {
  %pid = program_id {axis=0} : i32
  %128 = constant {value=128, type=i32} : i32
  %at = mul %pid, %128 : i32
  %first = add %at, %start : i32
  %0 = splat %first {shape=(128,)} : tile<128xi32>
  %1 = arange {start=0, end=128} : tile<128xi32>
  %2 = add %0, %1 : tile<128xi32>
  %3 = splat %n {shape=(128,)} : tile<128xi32>
  %4 = OP %2, %3 : tile<128xi32>
  %5 = splat %x {shape=(128,)} : tile<128xptr<f32>>
  %6 = addptr %5, %4 : tile<128xptr<f32>>
  %7 = load %6 : tile<128xf32>
  %8 = splat %at {shape=(128,)} : tile<128xi32>
  %9 = add %8, %1 : tile<128xi32>
  %10 = splat %out {shape=(128,)} : tile<128xptr<f32>>
  %11 = addptr %10, %9 : tile<128xptr<f32>>
  store %11, %7
}"""


def launched(module, start, n, **options):
    """What two programs write that read elements around the middle of an array."""
    module = parse_module("""kernel @g(%x: ptr<f32> {divisible=16}, %out: ptr<f32> {divisible=16},
        %start: i32 {divisible=16}, %n: i32 {divisible=16}) {
      %half = constant {value=256, type=i32} : i32
      %middle = addptr %x, %half : ptr<f32>\n""" + module.partition("{\n")[2].replace("splat %x", "splat %middle"))
    wanted, found = ([np.arange(512, dtype=np.float32), np.zeros(256, np.float32), start, n] for _ in range(2))
    interpret(module, wanted, (2,))
    emulator.run(module, found, (2,), num_warps=1, **options)
    return wanted[1], found[1]


@pytest.mark.parametrize("op", ["rem", "div"])
@pytest.mark.parametrize("start", [-256, -240, -128, -16, 0, 16])
def test_negative_starts_read_the_right_elements(op, start):
    """Without the launcher's checks, vectors are only as wide as every launch allows."""
    wanted, found = launched(WRAPPED.replace("OP", op), start, 32, launch_checks=False)
    np.testing.assert_array_equal(found, wanted)


def test_launches_that_pass_the_check_read_the_right_elements_in_wide_vectors():
    text, _ = emulator.llvm_of(parse_module(WRAPPED.replace("OP", "rem")), num_warps=1)
    assert "load <4 x float>" in text
    slow, _ = emulator.llvm_of(parse_module(WRAPPED.replace("OP", "rem")), num_warps=1, launch_checks=False)
    assert "load <4 x float>" not in slow
    wanted, found = launched(WRAPPED.replace("OP", "rem"), 48, 32)
    np.testing.assert_array_equal(found, wanted)


def guard_of(text):
    _, metadata = binary(parse_module(text), GPUTarget("cuda", 90, 32), num_warps=1)
    return Guard(preconditions_of(metadata))


def test_the_check_of_a_launch():
    guard = guard_of(WRAPPED.replace("OP", "rem"))
    judged = {}
    for start in (0, 16, -16, -256, 2**31 - 240):
        slots = (ctypes.c_int64 * 4)(4096, 8192, start, 32)
        judged[start] = guard.hold((2, 1, 1), ctypes.addressof(slots))
    assert judged == {0: True, 16: True, -16: False, -256: False, 2**31 - 240: False}


def test_nothing_is_checked_where_every_launch_is_fit():
    text = WRAPPED.replace("OP", "rem").replace("%first = add %at, %start : i32",
                                                "%p = rem %pid, %128 : i32\n  %first = mul %p, %128 : i32")
    assert "load <4 x float>" in emulator.llvm_of(parse_module(text), num_warps=1)[0]
    assert binary(parse_module(text), GPUTarget("cuda", 90, 32), num_warps=1)[1]["preconditions"] == {}


def test_the_text_of_a_stage_says_what_it_takes_for_granted():
    module = parse_module(WRAPPED.replace("OP", "rem"))
    target = GPUTarget("cuda", 90, 32)
    options = BaseBackend(target).parse_options({"num_warps": 1})
    made = compile.ttgir(with_options(module, target, options), target, options, {})
    again = parse_module(str(made))
    assert preconditions_of(again) == preconditions_of(made) and preconditions_of(made).nonnegative
    metadata = {}
    compile.llir(again, target, options, metadata)
    assert preconditions_of(metadata) == preconditions_of(made)


# --- launches, with a driver that only takes notes --------------------------------------------------------------------
@triton.jit
def wrapped(x_ptr, out_ptr, start, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK
    columns = tl.arange(0, BLOCK)
    tl.store(out_ptr + at + columns, tl.load(x_ptr + (start + at + columns) % n))


class Tensor:
    """What kernels ask of a tensor."""

    device = "cuda:0"

    def __init__(self, address=4096, dtype="fp32"):
        self.address, self.dtype = address, dtype

    def data_ptr(self):
        return self.address

    def get_device(self):
        return 0


FAST, SAFE = 1004001, 1004002  # functions of the first and the second module that are loaded


@pytest.fixture
def fake(monkeypatch):
    made, _ = fake_driver.install(monkeypatch)
    loaded = []

    def load(out, *rest):
        loaded.append(1)
        fake_driver.word(out).value = 4000 + len(loaded)

    made._cuModuleLoadDataEx = load
    wrapped.device_caches.clear()
    rows_in_turn.device_caches.clear()
    yield made
    gc.collect()
    driver.reset_active()
    fake_driver.clear()


def launched_functions(fake):
    return [(note["function"], ctypes.c_int32(note["slots"][2] & 0xFFFFFFFF).value) for note in fake.launches]


def test_a_launch_the_kernel_is_not_fit_for_goes_to_another(fake, monkeypatch):
    x, asked, judge = Tensor(), [], Guard.hold
    monkeypatch.setattr(Guard, "hold", lambda *args: asked.append(1) or judge(*args))
    starts = (0, 0, 0, 16, -16, -32, 16, 16)
    kernels = {wrapped[(2,)](x, x, start, 32, BLOCK=128, num_warps=1) for start in starts}
    assert launched_functions(fake) == [(FAST if start >= 0 else SAFE, start) for start in starts]
    assert len(asked) == 4  # for 0, 16, -16 and -32: the native launcher knows the last launch that was fit
    assert len(kernels) == 1  # whichever runs, it is the same specialisation to the outside
    fast, = kernels
    assert len(preconditions_of(fast.metadata).nonnegative) == 1
    assert fast.fallback_variant().metadata.preconditions == {}


def test_another_grid_is_judged_anew(fake):
    x = Tensor()
    for programs in (2, 2**25, 2):  # so many that the index wraps
        wrapped[(programs,)](x, x, 0, 32, BLOCK=128, num_warps=1)
    assert [function for function, _ in launched_functions(fake)] == [FAST, SAFE, FAST]


def test_what_goes_wrong_while_judging_is_raised(fake):
    x = Tensor()
    kernel = wrapped[(2,)](x, x, 0, 32, BLOCK=128, num_warps=1)

    def refuse():
        raise RuntimeError("there is no other")

    kernel.launcher.fallback = refuse
    with pytest.raises(RuntimeError, match="there is no other"):
        wrapped[(2,)](x, x, -16, 32, BLOCK=128, num_warps=1)
    assert launched_functions(fake) == [(FAST, 0)]


def test_a_launch_may_ask_for_a_kernel_that_takes_nothing_for_granted(fake):
    x = Tensor()
    kernel = wrapped[(2,)](x, x, -16, 32, BLOCK=128, num_warps=1, launch_checks=False)
    assert kernel.metadata.preconditions == {} and launched_functions(fake) == [(FAST, -16)]


# --- loads that run ahead of stores -----------------------------------------------------------------------------------
@triton.jit
def rows_in_turn(out_ptr, x_ptr, w_ptr, L, BLOCK: tl.constexpr, D: tl.constexpr):
    """A product in every iteration, stored in that iteration; programs have rows of their own."""
    base = tl.program_id(0).to(tl.int64) * L * D
    t, d = tl.arange(0, BLOCK), tl.arange(0, D)
    w = tl.load(w_ptr + d[:, None] * D + d[None, :])
    for start in range(0, L, BLOCK):
        rows = base + (start + t[:, None]) * D + d[None, :]
        tl.store(out_ptr + rows, tl.dot(tl.load(x_ptr + rows), w).to(tl.float16))


MEGABYTE = 1 << 20  # one program's rows have 32768 bytes


@pytest.mark.parametrize(("address", "programs", "function"), [
    (MEGABYTE, 1, SAFE), (MEGABYTE + 128, 1, SAFE), (MEGABYTE - 128, 1, SAFE), (MEGABYTE + 64 * 128, 1, SAFE),
    (MEGABYTE + 32640, 1, SAFE), (MEGABYTE + 32768, 1, FAST), (MEGABYTE - 32768, 1, FAST), (MEGABYTE - 32640, 1, SAFE),
    (MEGABYTE + 32640, 4, SAFE), (MEGABYTE + 4 * 32768, 4, FAST), (8 * MEGABYTE, 4, FAST)])
def test_loads_do_not_pass_stores_they_may_meet(fake, address, programs, function):
    """In place, rows or blocks further on or back another kernel is launched; neighbours in memory are no harm."""
    w = Tensor(4 * MEGABYTE, "fp16")
    fake.parameters = 4
    for _ in range(2):
        kernel = rows_in_turn[(programs,)](Tensor(8 * MEGABYTE, "fp16"), Tensor(MEGABYTE, "fp16"), w, 256, 64, 64)
        rows_in_turn[(programs,)](Tensor(address, "fp16"), Tensor(MEGABYTE, "fp16"), w, 256, 64, 64)
    assert [note["function"] for note in fake.launches] == [FAST, function] * 2
    assert preconditions_of(kernel.metadata).disjoint and "cp.async" in kernel.asm["ptx"]
    fallback = kernel.fallback_variant()
    assert fallback.metadata.preconditions == {} and "cp.async" not in fallback.asm["ptx"]


def test_stages_say_what_loads_pass():
    """The text of a stage tells the next."""
    source = ASTSource(rows_in_turn, {"out_ptr": "*fp16", "x_ptr": "*fp16", "w_ptr": "*fp16", "L": "i32"},
                       {"BLOCK": 64, "D": 64}, {(k,): [["tt.divisibility", 16]] for k in range(4)})
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    again = parse_module(made.asm["ttgir"])
    assert preconditions_of(again).disjoint and str(again) == str(parse_module(str(again)))
    assert Guard(preconditions_of(again)).words[:] == Guard(preconditions_of(made.metadata)).words[:]
