"""The writer that numbers values: the same results from fewer lines."""

import ctypes

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llvmlite import binding

from tritium.backends.llvm.numbering import NumberingWriter
from tritium.backends.llvm.target import llvm
from tritium.backends.llvm.writer import Writer

OPCODES = ("add", "sub", "mul", "and", "or", "xor", "shl", "lshr", "ashr")
NUMBERS = (0, 1, 2, 3, -1, 5, 31, 1 << 30, -(1 << 31))


def written(writer, steps):
    """LLVM of a function of two integers: each step applies an opcode to two values before it, or numbers."""
    with writer.function("i32", "f", ["i32 x", "i32 y"]) as (x, y):
        pool = [x, y]
        for opcode, a, b in steps:
            pick = lambda k: writer.const("i32", NUMBERS[k % len(NUMBERS)]) if k >= 0 else pool[k % len(pool)]
            right = writer.const("i32", abs(b) % 32) if opcode in ("shl", "lshr", "ashr") else pick(b)
            pool.append(writer.binary(opcode, pick(a), right))
        writer.ret(pool[-1])
    return writer.text()


def call(text, x, y):
    llvm()
    module = binding.parse_assembly(text)
    machine = binding.Target.from_default_triple().create_target_machine()
    with binding.create_mcjit_compiler(module, machine) as engine:
        engine.finalize_object()
        return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_int32)(engine.get_function_address("f"))(x, y)


@given(st.lists(st.tuples(st.sampled_from(OPCODES), st.integers(-9, 8), st.integers(-9, 8)), min_size=1, max_size=12),
       st.integers(-(2**31), 2**31 - 1), st.integers(-5, 5))  # fmt: skip
def test_folding_keeps_the_meaning(steps, x, y):
    plain, numbered = written(Writer(), steps), written(NumberingWriter(), steps)
    assert numbered.count("\n") <= plain.count("\n")
    assert call(plain, x, y) == call(numbered, x, y)


def test_a_line_is_found_again_only_where_it_was_written():
    w = NumberingWriter()
    with w.function("void", "f", ["i1 c", "ptr p", "i32 n"]) as (c, p, n):
        for _ in range(2):
            with w.when(c):
                x = w.effect(f"load i32, ptr {p}", "i32")
                w.store(w.binary("mul", x, n), p)  # depends on what was loaded: once in each branch
                w.store(w.binary("add", n, n), p)  # does not: once, before both
        w.ret()
    assert (w.text().count("mul i32"), w.text().count("add i32")) == (2, 1)
    llvm().parse_assembly(w.text()).verify()


SCRIPTS = st.recursive(
    st.lists(st.tuples(st.sampled_from(["store", "sum"]), st.integers(0, 3)), max_size=6),
    lambda inner: st.lists(st.one_of(st.tuples(st.sampled_from(["store", "sum"]), st.integers(0, 3)),
                                     st.tuples(st.sampled_from(["when", "loop"]), st.integers(0, 1), inner)),
                           max_size=6), max_leaves=8)  # fmt: skip


def follow(w, script, p, flags, x):
    """Write a script of stores, sums, branches and loops; what is stored tells the order of all stores."""
    for word, k, *inner in script:
        if word == "when":
            with w.when(flags[k]):
                follow(w, inner[0], p, flags, x)
        elif word == "loop":
            with w.loop(0, 2, type="i32") as loop:
                follow(w, inner[0], p, flags, loop.index)
        elif word == "sum":
            x = w.binary("add", x, w.const("i32", k))
        else:
            old = w.effect(f"load i32, ptr {p}", "i32")
            scaled = w.binary("mul", old, w.const("i32", 31))
            w.store(w.binary("add", scaled, w.binary("add", x, w.const("i32", k))), p)


def branching(writer, script):
    """LLVM of a function of two integers whose bits are the conditions of a script."""
    with writer.function("i32", "f", ["i32 x", "i32 y"]) as (x, y):
        p, one = writer.alloca("i32"), writer.const("i32", 1)
        writer.store(one, p)
        flags = [writer.compare("icmp eq", writer.binary("and", v, one), one) for v in (x, y)]
        follow(writer, script, p, flags, x)
        writer.ret(writer.load("i32", p))
    return writer.text()


@given(SCRIPTS)
def test_joining_branches_keeps_the_order_of_effects(script):
    plain, joined = branching(Writer(), script), branching(NumberingWriter(), script)
    assert joined.count("br i1") <= plain.count("br i1")
    for x in range(2):
        for y in range(2):
            assert call(plain, x, y) == call(joined, x, y)


@pytest.mark.parametrize("stores", range(1, 8))
def test_branches_within_joined_parts(stores):
    """What was the last branch within the first part is none of the second's, however many lines that has."""
    script = [("when", 0, [("when", 1, [("store", 1)])]),
              ("when", 0, [*[("store", 2)] * stores, ("when", 1, [("store", 3)])])]  # fmt: skip
    plain, joined = branching(Writer(), script), branching(NumberingWriter(), script)
    assert (plain.count("br i1"), joined.count("br i1")) == (4, 3)
    assert call(plain, 1, 1) == call(joined, 1, 1)


def test_parts_with_an_effect_between_them_stay_apart():
    script = [("when", 0, [("store", 1)]), ("store", 2), ("when", 0, [("store", 3)])]
    assert branching(NumberingWriter(), script).count("br i1") == 2


@pytest.mark.parametrize("opcode, x, y, made", [
    ("add", 2**31 - 1, 1, -(2**31)), ("sub", 3, 5, -2), ("shl", 1, 31, -(2**31)), ("mul", -1, 7, -7), ("xor", 6, 3, 5),
])  # fmt: skip
def test_constants_wrap_as_integers_do(opcode, x, y, made):
    w = NumberingWriter()
    with w.function("i32", "f", []):
        found = w.binary(opcode, w.const("i32", x), w.const("i32", y))
        w.ret(found)
    assert found == str(made)


def test_a_stack_slot_between_joined_branches():
    """Slots come before everything else, whenever they are asked for."""
    w = NumberingWriter()
    with w.function("void", "f", ["i1 c", "ptr p"]) as (c, p):
        with w.when(c):
            w.store(w.const("i32", 1), p)
        slot = w.alloca("i32")
        with w.when(c):
            w.store(w.const("i32", 2), slot)
        w.ret()
    lines = [line.strip() for line in w.text().split("\n")]
    assert lines[2].endswith("= alloca i32") and lines[3].startswith("br i1 %c")
    assert lines[4:8] == ["then.1:", "store i32 1, ptr %p", f"store i32 2, ptr {slot}", "br label %done.1"]
