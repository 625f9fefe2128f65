"""Objects in memory without LLVM's linker: they must do what LLVM's own make of them does."""

import ctypes
import os
import struct

import pytest

from tritium.backends.launcher import image
from tritium.backends.llvm import jit
from tritium.backends.llvm.target import CPU_TARGETS, compile_text

TEXT = """
@count = global i64 5
@zeros = global [1000 x i64] zeroinitializer
@outside = external global i64
@row = internal constant [4 x i64] [i64 2, i64 3, i64 5, i64 7]
@pointer = global ptr @row

declare i64 @callback(i64)
declare i64 @labs(i64)

define internal i64 @third() noinline {
  %p = load ptr, ptr @pointer
  %q = getelementptr i64, ptr %p, i64 2
  %x = load i64, ptr %q
  ret i64 %x
}

define i64 @run(i64 %x) {
  %a = call i64 @callback(i64 %x)
  %b = call i64 @labs(i64 %a)
  %c = load i64, ptr @count
  %c1 = add i64 %c, 1
  store i64 %c1, ptr @count
  %d = load i64, ptr @outside
  %z.p = getelementptr i64, ptr @zeros, i64 999
  %z = load i64, ptr %z.p
  %t = call i64 @third()
  %s0 = add i64 %b, %c
  %s1 = add i64 %s0, %d
  %s2 = add i64 %s1, %z
  %s3 = mul i64 %s2, %t
  ret i64 %s3
}
"""
here = pytest.mark.skipif(image.host() is None, reason="objects of this kind of machine go through LLVM")


@ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
def callback(x):
    return -2 * x


outside = ctypes.c_int64(100)
KNOWN = {"callback": ctypes.cast(callback, ctypes.c_void_p).value, "outside": ctypes.addressof(outside)}


def function(address):
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)


@here
def test_code_data_and_what_lies_elsewhere():
    code = compile_text(TEXT, image.host())
    found = image.load(code, KNOWN, ("run", "count"))
    library = jit.load(code, KNOWN, ("run",))
    ours, theirs = function(found["run"]), function(library.address("run"))
    assert [ours(4), ours(-4)] == [theirs(4), theirs(-4)] == [5 * (8 + 5 + 100), 5 * (8 + 6 + 100)]
    assert ctypes.c_int64.from_address(found["count"]).value == 7


@here
def test_a_child_process_has_its_own_data():
    found = image.load(compile_text(TEXT, image.host()), KNOWN, ("count",))
    count = ctypes.c_int64.from_address(found["count"])
    child = os.fork()
    if child == 0:
        count.value = 9
        os._exit(0)
    os.waitpid(child, 0)
    assert count.value == 5


@here
@pytest.mark.parametrize("text", [
    "@x = thread_local global i32 0\ndefine ptr @f() { ret ptr @x }",
    "declare void @surely_nowhere()\ndefine void @f() { call void @surely_nowhere() ret void }",
])
def test_what_needs_a_linker_is_refused(text):
    with pytest.raises(image.UnknownObject):
        image.load(compile_text(text, image.host()), {}, ("f",))


def test_relocations_of_x86():
    """The bytes of a call and of a load through the table, for a machine that may be another one."""
    text = """
    declare i64 @callback(i64)
    @outside = external global i64
    define i64 @run(i64 %x) {
      %a = call i64 @callback(i64 %x)
      %b = load i64, ptr @outside
      %c = add i64 %a, %b
      ret i64 %c
    }"""
    plan = image._Plan(*image._read(compile_text(text, CPU_TARGETS["x86-64-v3"]), "x86_64"))
    memory, base = bytearray(plan.size), 1 << 40
    defined = plan.write(memory, base, {"callback": 0x1111, "outside": 0x2222})
    run = defined["run"] - base
    call = memory.index(b"\xe8", run)  # call rel32
    stub = call + 5 + struct.unpack_from("<i", memory, call + 1)[0]
    assert memory[stub:stub + 6] == bytes.fromhex("ff2502000000")  # jmp *2(%rip)
    assert struct.unpack_from("<Q", memory, stub + 8) == (0x1111,)
    load = memory.index(b"\x48\x8b", run)  # mov disp(%rip), %reg
    slot = load + 7 + struct.unpack_from("<i", memory, load + 3)[0]
    assert struct.unpack_from("<Q", memory, slot) == (0x2222,)
