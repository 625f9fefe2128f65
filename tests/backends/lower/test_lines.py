"""Which lines of the source the instructions of an NVIDIA kernel say they come from."""

import inspect
import re
import struct

import pytest

import tritium as triton
import tritium.language as tl
from tritium import knobs
from tritium.backends.compiler import GPUTarget
from tritium.backends.nvptx.assemble import ptxas
from tritium.compiler import ASTSource

# Lines that tests speak of are marked by a word in a comment behind them.


@triton.jit
def twice(x):
    return x * 2.0  # inlined


@triton.jit(noinline=True)
def third(n):
    return n // 3  # apart


@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)  # load
    y = twice(x)
    z = tl.rsqrt(y)  # root
    total = tl.sum(z, axis=0)  # sum
    tl.store(out_ptr + at, z - total, mask=at < n)  # store


@triton.jit
def calling(out_ptr, n):
    for i in range(n):  # loop
        tl.store(out_ptr + i, third(i))  # call


@triton.jit
def product(a_ptr, b_ptr, c_ptr, K, B: tl.constexpr):
    at = tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    for k in range(0, K, B):
        a = tl.load(a_ptr + at[:, None] * K + k + at[None, :])  # left
        acc += tl.dot(a, tl.load(b_ptr + (k + at[:, None]) * B + at[None, :]))  # dot
    tl.store(c_ptr + at[:, None] * B + at[None, :], acc)  # out


def compiled(fn, types, constants, arch=80, **options):
    """The stages of a kernel whose arguments are all multiples of 16."""
    aligned = {(k,): [["tt.divisibility", 16]] for k in range(len(types))}
    source = ASTSource(fn, dict(zip(fn.arg_names, types)), constants, aligned)
    return triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options).asm


def line(word):
    """The line of this file that is marked by a word."""
    text = inspect.getsource(inspect.getmodule(compiled)).splitlines()
    (found,) = [k for k, x in enumerate(text, 1) if x.endswith(f"  # {word}")]
    return found


def lines_of(ptx, pattern):
    """The lines that instructions with a pattern come from, and the file they are in."""
    files = dict(re.findall(r'\.file\s+(\d+) "(.*)"', ptx))
    here, found = None, set()
    for text in ptx.splitlines():
        if place := re.match(r"\s*\.loc\s+(\d+) (\d+)", text):
            here = files[place[1]], int(place[2])
        elif re.search(pattern, text):
            found.add(here)
    assert found, f"no {pattern} in\n{ptx}"
    return found


def here(*words):
    return {(__file__, line(word)) for word in words}


KERNEL = (kernel, ("*fp32", "*fp32", "i32"), {"BLOCK": 256})


@pytest.mark.parametrize(("pattern", "word"), [
    (r"ld\.global", "load"), (r"st\.global", "store"), (r"rsqrt", "root"), (r"shfl\.sync\.bfly", "sum"),
    (r"mul\.f32.*0f40000000|add\.f32\s+%r(\d+), %r(\d+), %r\2;", "inlined"), (r"sub\.f32|sub\.rn\.f32", "store"),
])  # fmt: skip
def test_instructions_know_their_lines(pattern, word):
    assert lines_of(compiled(*KERNEL)["ptx"], pattern) == here(word)


def test_functions_that_are_called_have_lines_of_their_own():
    ptx = compiled(calling, ("*i32", "i32"), {})["ptx"]
    assert lines_of(ptx, r"call\.uni|^\s+fn0\.third") == here("call")
    assert lines_of(ptx, r"mul\.hi|div\.s32") == here("apart")
    assert lines_of(ptx, r"@%p\d+ bra") == here("loop")


@pytest.mark.parametrize("arch", [80, 90])
def test_lines_of_pipelined_loops(arch):
    ptx = compiled(product, ("*fp16", "*fp16", "*fp32", "i32"), {"B": 64}, arch, launch_checks=False)["ptx"]
    assert lines_of(ptx, r"mma_async|mma\.sync\.") == here("dot")
    assert here("left") <= lines_of(ptx, r"cp\.async\.c[ag]")
    assert lines_of(ptx, r"st\.global") == here("out")


def test_lines_of_a_producer_warp():
    ptx = compiled(product, ("*fp16", "*fp16", "*fp32", "i32"), {"B": 64}, 90)["ptx"]
    assert lines_of(ptx, r"cp\.async\.bulk\.tensor.*mbarrier") == here("left", "dot")
    assert lines_of(ptx, r"mma_async") == here("dot")


@pytest.mark.parametrize(("fn", "types", "constants"), [
    KERNEL, (calling, ("*i32", "i32"), {}), (product, ("*fp16", "*fp16", "*fp32", "i32"), {"B": 64}),
])  # fmt: skip
@pytest.mark.parametrize("arch", [75, 80, 90])
def test_lines_change_no_instruction(fn, types, constants, arch):
    with_lines = compiled(fn, types, constants, arch)
    with knobs.compilation.scope():
        knobs.compilation.disable_line_info = True
        without = compiled(fn, types, constants, arch)
    assert "!dbg" in with_lines["llir"] and ".loc" in with_lines["ptx"]
    assert "!dbg" not in without["llir"] and ".loc" not in without["ptx"] and ".file" not in without["ptx"]
    said = r"\s*(\.loc|\.file|\.section|\$L__(tmp|func)|// callseq).*\n"
    shortened = (re.sub(r"\s+", " ", re.sub(said, "\n", asm["ptx"])) for asm in (with_lines, without))
    assert next(shortened) == next(shortened)
    if ptxas.ptxas():
        tables, none = sections(with_lines["cubin"]), sections(without["cubin"])
        code = [name for name in tables if name.startswith(".text.")]
        assert code and all(tables[name] == none[name] for name in code)
        assert b"test_lines.py" in tables[".debug_line"] and ".debug_line" not in none


def sections(elf):
    """The sections of an object file by name."""
    (table,), (size, count, names) = struct.unpack_from("<Q", elf, 0x28), struct.unpack_from("<HHH", elf, 0x3A)
    rows = [struct.unpack_from("<IIQQQQ", elf, table + size * k) for k in range(count)]
    start = rows[names][4]
    return {elf[start + row[0] : elf.index(b"\0", start + row[0])].decode(): elf[row[4] : row[4] + row[5]]
            for row in rows}  # fmt: skip
