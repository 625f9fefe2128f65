"""The notation of LLVM text that is written by hand."""

import doctest

import pytest

from tritium.backends.llvm import notation
from tritium.backends.llvm.notation import expand
from tritium.backends.llvm.target import assembly, cpu_target


def body(text):
    """The expanded lines of a function with these lines."""
    return expand(f"define void @f() {{\n{text}\n}}").split("\n")[1:-1]


def test_docstring_examples():
    assert doctest.testmod(notation).failed == 0


def test_llvm_of_other_hands_stays_as_it_is():
    text = "define i32 @f(i32 %x) {\nentry:\n  %y = add i32 %x, 1  ; why\n  br label %end\nend:\n  ret i32 %y\n}\n"
    assert expand(text) == text
    assert expand(expand("define void @f(i1 %c) {\n  ret void if %c\n  ret void\n}")).count("br i1") == 1


@pytest.mark.parametrize(("line", "yes", "no"), [
    ("jump %a if %c", "a", "on.0"), ("jump %a unless %c", "on.0", "a"), ("jump %a if %c else %b", "a", "b"),
    ("jump %a unless %c else %b", "b", "a"), ("ret void if %c", "return.0", "on.0"),
    ("ret void unless %c", "on.0", "return.0"),
])  # fmt: skip
def test_conditions(line, yes, no):
    assert f"  br i1 %c, label %{yes}, label %{no}" in body(f"  {line}  ; why\n  ret void")


def test_a_jump_goes_on_with_the_block_below():
    below = body("  jump %a if icmp eq i32 %x, 0\n\nb:\n  ret void")
    assert below == ["  %if.0 = icmp eq i32 %x, 0", "  br i1 %if.0, label %a, label %b", "", "b:", "  ret void"]


def test_a_block_that_does_not_end_goes_on():
    found = body("a:\nb:\n  switch i32 %x, label %c [\n    i32 0, label %a\n  ]\nc:\n  call void @g(i32 1,\n      i32"
                 " 2)\nd:\n  ret void")
    assert [line for line in found if "br label" in line] == ["  br label %b", "  br label %d"]
    assert found.index("  br label %d") == found.index("d:") - 1


def test_equal_returns_are_one_block():
    found = body("  ret i1 false if %a\n  ret i1 false unless %b\n  ret i1 true if %c\n  ret i1 %d")
    assert found[-4:] == ["return.0:", "  ret i1 false", "return.1:", "  ret i1 true"]
    assert sum("label %return.0" in line for line in found) == 2


def test_operands_are_taken_from_left_to_right():
    assert body("  %x = and i1 %a, %b, %c, %d ; all") == [
        "  %part.0 = and i1 %a, %b", "  %part.1 = and i1 %part.0, %c", "  %x = and i1 %part.1, %d"]  # fmt: skip


def test_a_condition_may_be_any_instruction():
    assert body("  jump %a if and i1 %x, %y, %z else %b") == [
        "  %part.1 = and i1 %x, %y", "  %if.0 = and i1 %part.1, %z", "  br i1 %if.0, label %a, label %b"]  # fmt: skip
    assert body("  ret i1 false unless call i1 @g(ptr %p)")[0] == "  %if.0 = call i1 @g(ptr %p)"


def test_returns_of_instructions():
    assert body("  ret i1 or i1 %a, %b, %c") == [
        "  %part.1 = or i1 %a, %b", "  %result.0 = or i1 %part.1, %c", "  ret i1 %result.0"]  # fmt: skip
    assert body("  ret i64 load i64, item i64 1 of %p")[0] == "  %result.0.p = getelementptr i64, ptr %p, i64 1"
    for line in ("  ret ptr null", "  ret i1 true", "  ret ptr inttoptr (i64 -1 to ptr)", "  ret void"):
        assert body(line) == [line]


def test_bits():
    assert body("  %x = icmp eq i32 %flags & 4, 0  ; why") == [
        "  %bits.0 = and i32 %flags, 4", "  %x = icmp eq i32 %bits.0, 0"]  # fmt: skip
    assert body("  jump %a if icmp ne i64 %x & 7, 0 else %b")[:2] == [
        "  %bits.1 = and i64 %x, 7", "  %if.0 = icmp ne i64 %bits.1, 0"]  # fmt: skip


def test_splat():
    assert body("  %v = splat <4 x i64> %x")[1] == (
        "  %v = shufflevector <4 x i64> %first.0, <4 x i64> poison, <4 x i32> zeroinitializer")
    assert body("  %v = add <4 x i64> %x, splat (i64 8)") == ["  %v = add <4 x i64> %x, splat (i64 8)"]


def test_addresses():
    assert body("  store i8 1, item i8 -1 of @p, align 1") == [
        "  %at.0 = getelementptr i8, ptr @p, i64 -1", "  store i8 1, ptr %at.0, align 1"]  # fmt: skip
    assert body("  %p = item <8 x i8> %k of %q") == ["  %p = getelementptr <8 x i8>, ptr %q, i64 %k"]
    assert body("  %x = atomicrmw add item i64 1 of %p, i64 2 monotonic")[1] == (
        "  %x = atomicrmw add ptr %at.0, i64 2 monotonic")


def test_llvm_takes_it():
    text = """
define i64 @sum(ptr %p, i64 %n) {
entry:
  ret i64 0 unless icmp sgt i64 %n, 0
each:
  %k = phi i64 [0, %entry], [%next, %each]
  %so_far = phi i64 [0, %entry], [%sum, %each]
  %x = load i64, item i64 %k of %p
  %sum = add i64 %so_far, %x, 1
  %next = add i64 %k, 1
  jump %each if icmp slt i64 %next, %n
  ret i64 %sum
}"""
    assert "sum" in assembly(expand(text), cpu_target("x86-64-v3"))
