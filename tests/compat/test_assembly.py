"""Inline assembly: this machine's own and PTX that computes run in every way; other assembly is refused, not the end
of Python."""

import platform

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.language.coverage.engines import cuda

# 3 * x; -x and x; ~x on four bytes at once; 7
_AARCH64 = ("add ${0:w}, ${1:w}, ${1:w}, lsl #1", "neg ${0:w}, ${2:w}\nmov ${1:w}, ${2:w}", "mvn ${0:w}, ${1:w}",
            "mov ${0:w}, #7")  # fmt: skip
_X86 = ("leal ($1,$1,2), $0", "movl $2, $0\nnegl $0\nmovl $2, $1", "movl $1, $0\nnotl $0", "movl $$7, $0")
_PTX = ("mul.lo.s32 $0, $1, 3;", "neg.s32 $0, $2; mov.b32 $1, $2;", "not.b32 $0, $1;", "mov.b32 $0, 7;")
TEXTS = {"aarch64": _AARCH64, "arm64": _AARCH64, "x86_64": _X86, "AMD64": _X86}.get(platform.machine())


@triton.jit
def assembled(x, thrice, both, inverted, seven, T: tl.constexpr):
    i = tl.arange(0, 8)
    v = tl.load(x + i)
    y = tl.inline_asm_elementwise(T[0], "=r,r", [v], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(thrice + i, y)
    a, b = tl.inline_asm_elementwise(T[1], "=&r,=&r,r", [v], dtype=(tl.int32, tl.int32), is_pure=True, pack=1)
    tl.store(both + i, a)
    tl.store(both + 8 + i, b)
    z = tl.inline_asm_elementwise(T[2], "=&r,r", args=[v.to(tl.int8)], dtype=tl.int8, is_pure=True, pack=4)
    tl.store(inverted + i, z)
    tl.store(seven, tl.inline_asm_elementwise(T[3], "=r", [], dtype=tl.int32, is_pure=False, pack=1))


@pytest.mark.skipif(TEXTS is None, reason="no assembly written for this machine")
def test_own_assembly(engine):
    x = np.arange(8, dtype=np.int32)
    thrice, both, inverted, seven = (np.zeros(n, t) for n, t in ((8, "i4"), (16, "i4"), (8, "i1"), (1, "i4")))
    engine(assembled, [x, thrice, both, inverted, seven, _PTX if engine is cuda else TEXTS])
    np.testing.assert_array_equal(thrice, 3 * x)
    np.testing.assert_array_equal(both, [*-x, *x])
    np.testing.assert_array_equal(inverted, ~x.astype(np.int8))
    assert seven[0] == 7


def test_ptx(engine):
    x = np.arange(8, dtype=np.int32)
    thrice, both, inverted, seven = (np.zeros(n, t) for n, t in ((8, "i4"), (16, "i4"), (8, "i1"), (1, "i4")))
    engine(assembled, [x, thrice, both, inverted, seven, _PTX])
    np.testing.assert_array_equal(thrice, 3 * x)
    np.testing.assert_array_equal(both, [*-x, *x])
    np.testing.assert_array_equal(inverted, ~x.astype(np.int8))
    assert seven[0] == 7


@triton.jit
def foreign(x, ASM: tl.constexpr, CONSTRAINTS: tl.constexpr):
    i = tl.arange(0, 8)
    y = tl.inline_asm_elementwise(ASM, CONSTRAINTS, [tl.load(x + i)], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(x + i, y)


@pytest.mark.parametrize("asm, constraints", [("bar.sync 0; add.s32 $0, $1, $1;", "=r,r"),
                                              ("bogus", "zz,")])  # fmt: skip
def test_foreign_assembly_is_refused_where_it_stands(asm, constraints):
    said = r"(?s)inline assembly is not .* in foreign\).*because of .*(bar\.sync|bogus).*is_cuda"
    with pytest.raises(triton.CompilationError, match=said):
        foreign[(1,)](np.zeros(8, np.int32), ASM=asm, CONSTRAINTS=constraints)
