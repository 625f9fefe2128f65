"""The text writer, the target machines and the engine every backend stands on."""

import ctypes
import doctest
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from tritium.backends.llvm import jit, target, writer
from tritium.backends.llvm.target import assembly, compile_text, cpu_target
from tritium.backends.llvm.writer import Writer
from tritium.errors import InternalError

CONSTANT = "define i64 @f() { ret i64 %d }"


def call(address, *types):
    return ctypes.CFUNCTYPE(*types)(address)


@pytest.mark.parametrize("module", [jit, target, writer], ids=lambda m: m.__name__)
def test_docstring_examples(module):
    assert doctest.testmod(module).failed == 0


def test_llvmlite_is_not_imported_before_it_is_needed():
    code = (
        "import sys, tritium.backends.llvm.jit, tritium.backends.llvm.writer;"
        "sys.exit('llvmlite' in sys.modules or 'torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# -- target ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, simd, masked, lanes, fused", [
    ("aarch64", "neon", False, 16, "fmla"), ("x86-64-v3", "avx2", True, 16, "vfmadd"),
    ("x86-64-v4", "avx512", True, 32, "zmm"),
])  # fmt: skip
def test_named_targets_cross_compile(name, simd, masked, lanes, fused):
    t = cpu_target(name)
    assert (t.simd, t.masked, t.W) == (simd, masked, lanes)
    w = Writer()
    with w.function("<16 x float>", "f", ["<16 x float> x"]) as (x,):
        w.ret(w.intrinsic("fma", x.type, x, x, x))
    assert fused in assembly(w.text(), t)
    assert compile_text(w.text(), t)[:4] == b"\x7fELF"


def test_unknown_target_lists_the_known_ones():
    with pytest.raises(ValueError, match="host, x86-64, x86-64-v2, x86-64-v3, x86-64-v4, sapphirerapids, "
                       "graniterapids, aarch64"):
        cpu_target("z80")


def test_passes_run_and_opt_0_leaves_them_out():
    text = "define i32 @f(i32 %x) { %p = alloca i32 store i32 %x, ptr %p %y = load i32, ptr %p ret i32 %y }"
    assert "sp" not in assembly(text, cpu_target("aarch64"))
    assert "sp" in assembly(text, cpu_target("aarch64"), passes=())
    assert "sp" in assembly(text, cpu_target("aarch64"), opt=0)


MISTYPED = "define i32 @f() { ret i64 0 }"
UNDOMINATED = """define i32 @f(i1 %c) {
  br i1 %c, label %a, label %b
a:
  %x = add i32 1, 1
  br label %b
b:
  ret i32 %x
}"""


@pytest.mark.parametrize("text", [MISTYPED, UNDOMINATED])
def test_rejected_text_is_an_internal_error_and_is_kept(text):
    with pytest.raises(InternalError, match="LLVM rejects") as caught:
        compile_text(text, cpu_target())
    saved = Path(caught.value.reproducer)
    assert saved.read_text() == text
    saved.unlink()


# -- engine ------------------------------------------------------------------------------------------------------------


def test_symbols_are_linked_and_libm_is_found():
    text = """declare float @expf(float) declare i64 @tt.seven()
    define float @e(float %x) { %y = call float @expf(float %x) ret float %y }
    define i64 @g() { %x = call i64 @tt.seven() ret i64 %x }"""
    seven = ctypes.CFUNCTYPE(ctypes.c_int64)(lambda: 7)
    symbols = {"tt.seven": ctypes.cast(seven, ctypes.c_void_p).value, "tt.unused": 1}
    library = jit.load(compile_text(text, cpu_target()), symbols)
    assert call(library.address("g"), ctypes.c_int64)() == 7
    assert call(library.address("e"), ctypes.c_float, ctypes.c_float)(1.0) == pytest.approx(np.e)


def test_missing_symbol_is_an_internal_error(capfd):
    text = "declare i32 @tt.nowhere() define i32 @g() { %x = call i32 @tt.nowhere() ret i32 %x }"
    with pytest.raises(InternalError, match="linking"):
        jit.load(compile_text(text, cpu_target())).address("g")
    assert "tt.nowhere" in capfd.readouterr().err


def test_threads_compile_and_link_at_once():
    got = {}

    def work(n):
        library = jit.load(compile_text(CONSTANT % n, cpu_target(), opt=0))
        got[n] = call(library.address("f"), ctypes.c_int64)()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(12)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got == {n: n for n in range(12)}


# -- writer ------------------------------------------------------------------------------------------------------------

FLOATS = [0.0, -0.0, 1.0, -2.5, 0.1, 1e-45, 3.4e38, 65504.0, 1e-8, 5e-324, 1.7e308, float("inf"), float("-inf"),
          float("nan"), 9999.75, 12345.678]  # fmt: skip


@pytest.mark.parametrize("type, dtype", [("half", np.float16), ("float", np.float32), ("double", np.float64)])
def test_float_constants_are_exact_to_the_bit(type, dtype):
    w = Writer()
    bits = f"i{dtype().itemsize * 8}"
    with w.function("void", "f", ["ptr out"]) as (out,):
        for k, x in enumerate(FLOATS):
            w.store(w.const(type, x), w.gep(type, out, w.const("i64", k)))
            lanes = w.const(f"<2 x {type}>", x)
            w.store(w.extract(w.cast("bitcast", lanes, f"<2 x {bits}>"), 1),
                    w.gep(type, out, w.const("i64", k + len(FLOATS))))  # fmt: skip
        w.ret()
    got = np.zeros(2 * len(FLOATS), dtype)
    library = jit.load(compile_text(w.text(), cpu_target()))
    call(library.address("f"), None, ctypes.c_void_p)(got.ctypes.data)
    with np.errstate(over="ignore"):
        want = np.array(FLOATS * 2).astype(dtype)
    assert np.array_equal(got.view(bits.replace("i", "uint")), want.view(bits.replace("i", "uint")))


def test_what_a_loop_does_not_change_leaves_it():
    w = Writer()
    with w.function("void", "f", ["ptr p", "float s", "i64 n"]) as (p, s, n):
        with w.loop(0, n) as rows:
            with w.loop(0, n) as columns:
                twice = w.binary("fadd", s, s)
                row = w.binary("mul", rows.index, n)
                at = w.binary("add", row, columns.index)
                w.store(twice, w.gep("float", p, at))
            assert (twice.level, row.level, at.level) == (0, 1, 2)
        w.ret()
    blocks = w.text().split("body")
    assert "fadd" in blocks[0] and "mul" not in blocks[0]
    got = np.zeros((5, 5), np.float32)
    library = jit.load(compile_text(w.text(), cpu_target()))
    call(library.address("f"), None, ctypes.c_void_p, ctypes.c_float, ctypes.c_int64)(got.ctypes.data, 1.5, 5)
    assert (got == 3).all()


@pytest.mark.parametrize("n", [0, 1, 7])
def test_carried_values_survive_loops_that_may_be_empty(n):
    w = Writer()
    with w.function("i64", "f", ["i64 n"]) as (x,):
        with w.loop(0, x, carry=[w.const("i64", 0), w.const("i64", 1)]) as outer:
            total, product = outer.carried
            with w.loop(0, outer.index, carry=[total]) as inner:
                inner.next = [w.binary("add", inner.carried[0], inner.index)]
            outer.next = [inner.results[0], w.binary("mul", product, w.const("i64", 3))]
        w.ret(w.binary("sub", outer.results[0], outer.results[1]))
    library = jit.load(compile_text(w.text(), cpu_target()))
    want = sum(i for k in range(n) for i in range(k)) - 3**n
    assert call(library.address("f"), ctypes.c_int64, ctypes.c_int64)(n) == want


def test_branches_levels_and_slots():
    w = Writer()
    with w.function("i64", "clip", ["i64 x"]) as (x,):
        slot = w.alloca("i64")
        w.store(x, slot)
        with w.when(w.compare("icmp sgt", x, w.const("i64", 9)), likely=False):
            w.store(w.const("i64", 9), slot)
            with w.level():
                w.call("void", "twice", slot)
        w.ret(w.load("i64", slot))
    with w.function("void", "twice", ["ptr p"], linkage="internal") as (p,):
        w.store(w.binary("shl", w.load("i64", p), w.const("i64", 1)), p)
        w.ret()
    library = jit.load(compile_text(w.text(), cpu_target()))
    clip = call(library.address("clip"), ctypes.c_int64, ctypes.c_int64)
    assert [clip(4), clip(9), clip(10)] == [4, 9, 18]


def test_vectors():
    w = Writer()
    with w.function("void", "f", ["ptr p", "i32 s"]) as (p, s):
        v = w.binary("add", w.splat(s, 4), w.lanes_of("i32", range(4)))
        v = w.shuffle(v, w.const(v.type, -1), [3, 2, 4, 0])
        v = w.insert(v, w.extract(v, 0), 3)
        v = w.select(w.compare("icmp slt", v, w.const(v.type, 0)), w.const(v.type, 50), v)
        w.store(w.intrinsic("smax", v.type, v, w.const(v.type, 12)), p, align=4)
        w.ret()
    got = np.zeros(4, np.int32)
    library = jit.load(compile_text(w.text(), cpu_target()))
    call(library.address("f"), None, ctypes.c_void_p, ctypes.c_int32)(got.ctypes.data, 10)
    assert got.tolist() == [13, 12, 50, 13]
