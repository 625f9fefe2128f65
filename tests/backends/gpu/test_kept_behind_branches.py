"""What a branch skips is not computed: its code stands behind the branch, and takes no registers before."""

import re

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.backends.compiler import GPUTarget
from tritium.compiler import ASTSource, compile


@triton.jit
def sines(x_ptr, y_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.sin(tl.load(x_ptr + i)))


@triton.jit
def one_of_two(x_ptr, y_ptr, first, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    if first > 0:
        tl.store(y_ptr + i, tl.load(x_ptr + i * 3) + i * 5)
    else:
        tl.store(y_ptr + i, tl.load(x_ptr + i * 7) + i * 11)


@triton.jit
def whole_numbers(x_ptr, y_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i).to(y_ptr.dtype.element_ty))


def ptx(kernel, types, **constants):
    source = ASTSource(kernel, types | dict.fromkeys(constants, "constexpr"), constants)
    return compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]


def test_the_long_reduction_of_an_angle_stands_behind_its_branch():
    text = ptx(sines, {"x_ptr": "*fp32", "y_ptr": "*fp32"}, BLOCK=128)
    before, _, behind = text.partition("bra")
    assert "mul.lo.s64" in behind and "mul.lo.s64" not in before


def test_each_side_of_a_branch_computes_its_own():
    text = ptx(one_of_two, {"x_ptr": "*fp32", "y_ptr": "*fp32", "first": "i32"}, BLOCK=128)
    before = text.partition("bra")[0]
    assert not re.search(r"mul\S* .*, (3|7|12|28);", before), before


@pytest.mark.parametrize(("source", "target", "instructions"), [
    ("fp32", "i32", 1), ("fp32", "u32", 1), ("fp16", "i32", 1), ("fp32", "i64", 3), ("fp64", "i32", 3)])
def test_conversions_to_integers_stay_in_range_by_themselves(source, target, instructions):
    text = ptx(whole_numbers, {"x_ptr": f"*{source}", "y_ptr": f"*{target}"}, BLOCK=128)
    assert len(re.findall(r"cvt\.rzi|selp|setp", text)) == instructions


SPECIAL = [0.0, -0.0, 0.75, -0.75, 2.5, -2.5, 2.0**31, -(2.0**31), 2.0**32, 2.0**63, -(2.0**63), 2.0**64, 1e30, -1e30,
           np.inf, -np.inf, np.nan, -np.nan, 2147483520.0, -2147483520.0, 1.0, -1.0]  # fmt: skip


@pytest.mark.parametrize("target", [np.int32, np.uint32, np.int64, np.uint64, np.int8, np.int16])
@pytest.mark.parametrize("source", [np.float16, np.float32, np.float64])
def test_conversions_to_integers_agree(check, source, target):
    """Values beyond the range, infinities and nan as the interpreter has them."""
    with np.errstate(over="ignore"):
        x = np.resize(np.array(SPECIAL).astype(source), 128)
    check(whole_numbers, x, np.zeros(128, target), 128)


@pytest.mark.parametrize("first", [0, 1])
def test_both_sides_of_a_branch_agree(check, first):
    check(one_of_two, np.arange(1024, dtype=np.float32), np.zeros(128, np.float32), first, 128)


@triton.jit
def shared_by_sides(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """What both sides use is computed before; and loops in them, and after them."""
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    wide = x.to(tl.float64) * 3
    total = x * 0
    if n > 2:
        for k in range(n):
            total += (wide + k).to(tl.float32)
            if k > 3:
                total += (i * 9).to(tl.float32)
    elif n > 0:
        total = (wide - i * 2).to(tl.float32)
    else:
        total = tl.sin(x) + total
    for k in range(n):
        total += (wide * k).to(tl.float32)
    tl.store(y_ptr + i, total)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_branches_and_loops_in_each_other_agree(check, n):
    check(shared_by_sides, np.linspace(-1e6, 1e6, 128, dtype=np.float32), np.zeros(128, np.float32), n, 128,
          tolerance=2e-6)
