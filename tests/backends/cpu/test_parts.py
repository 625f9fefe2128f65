"""Parts of the CPU runtime that kernels call: dot, sort, and accesses to parts of tiles."""

import ctypes
import itertools
import re
import subprocess
import sys

import numpy as np
import pytest

from tritium.backends.cpu.library import dot, dot_amx, dot_vnni, partial, sort, tile_copy
from tritium.backends.llvm.target import assembly, cpu_target
from tritium.backends.llvm.writer import Writer

RNG = np.random.default_rng(7)


OPERANDS = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i8": np.int8, "u8": np.uint8}
SIZES = [(1, 1, 1), (2, 2, 2), (4, 16, 4), (16, 16, 16), (64, 64, 32), (3, 5, 7), (5, 33, 9), (8, 20, 17), (1, 64, 64),
         (64, 1, 3), (9, 40, 0), (0, 4, 4), (16, 128, 5), (33, 65, 66), (32, 128, 64), (5, 200, 20), (4, 128, 8),
         (66, 145, 12), (3, 130, 4), (128, 64, 40), (20, 112, 300), (32, 32, 64), (96, 160, 256),
         (64, 64, 0)]  # fmt: skip


def numbers(shape, dtype):
    if np.dtype(dtype).kind == "f":
        return RNG.standard_normal(shape).astype(dtype)
    limits = np.iinfo(dtype)
    return RNG.integers(max(limits.min, -(2**20)), min(limits.max, 2**20), shape).astype(dtype)


@pytest.mark.parametrize("kind", dot.KINDS)
def test_dot(rt, kind):
    address = rt.symbols[dot.SYMBOLS[kind]]
    fn = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 6, ctypes.c_void_p, ctypes.c_bool)(address)
    dtype, panel = OPERANDS[kind], np.empty((300, dot.panel_width(rt.target, kind, 128, 200)), np.float64)
    wide = np.int32 if np.dtype(dtype).kind in "iu" else dtype
    for (m, n, k), gap, fresh, space in itertools.product(SIZES, (0, 3, 70), (False, True), (panel.ctypes.data, None)):
        a, b, c = numbers((m, k + gap), dtype), numbers((k, n + gap), dtype), numbers((m, n + gap), wide)
        want = c.copy()
        want[:, :n] *= not fresh
        with np.errstate(over="ignore"):
            want[:, :n] += a[:, :k].astype(wide) @ b[:, :n].astype(wide)
        fn(a.ctypes.data, b.ctypes.data, c.ctypes.data, m, n, k, k + gap, n + gap, n + gap, space, fresh)
        tolerance = 0 if wide is np.int32 else 1e-4
        assert np.allclose(c, want, rtol=tolerance, atol=tolerance), (m, n, k, gap)


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("m, n, k, gap", [(128, 272, 600, 500), (128, 320, 520, 4), (100, 272, 259, 800),
                                          (32, 256, 256, 900), (103, 512, 272, 0), (128, 64, 600, 0)])
def test_dot_of_several_panels(rt, kind, m, n, k, gap):
    """Panels of B are copied while others are multiplied, and rows of A that are far apart with the first."""
    fn = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 6, ctypes.c_void_p, ctypes.c_bool)(
        rt.symbols[dot.SYMBOLS[kind]])
    dtype, guard = OPERANDS[kind], 64
    a, b, c = numbers((m, k + gap), dtype), numbers((k, n + 5), dtype), numbers((m, n), dtype)
    panel = np.full(k * dot.panel_width(rt.target, kind, m, n) + guard, 7, dtype)
    want = c + a[:, :k] @ b[:, :n]
    fn(a.ctypes.data, b.ctypes.data, c.ctypes.data, m, n, k, k + gap, n + 5, n, panel.ctypes.data, False)
    assert np.allclose(c, want, rtol=1e-3, atol=1e-3)
    assert (panel[-guard:] == 7).all()  # nothing is written behind the panel


@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_dot_of_tiles(rt, kind):
    import ml_dtypes

    if not dot_amx.is_amx(cpu_target(), kind):
        pytest.skip(f"no unit here that multiplies tiles of {kind}")
    dtype = np.float16 if kind == "f16" else ml_dtypes.bfloat16
    fn = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 6, ctypes.c_void_p, ctypes.c_bool)(
        rt.symbols[dot_amx.SYMBOLS[kind]])
    sizes = [(32, 32, 32), (64, 32, 96), (32, 96, 64), (128, 64, 256), (96, 160, 1056), (288, 128, 1024),
             (16, 32, 32), (48, 96, 64), (16, 128, 1056), (48, 160, 1056)]
    for (m, n, k), gap, fresh in itertools.product(sizes, (0, 3), (False, True)):
        a, b = (numbers(s, np.float32).astype(dtype) for s in ((m, k + gap), (k, n + gap)))
        c, guard = numbers((m, n + gap), np.float32), 64
        panel = np.full(k * dot.panel_width(rt.target, kind, m, n) + guard, 7, np.float32)
        want = c.copy()
        want[:, :n] *= not fresh
        want[:, :n] += a[:, :k].astype(np.float32) @ b[:, :n].astype(np.float32)
        fn(a.ctypes.data, b.ctypes.data, c.ctypes.data, m, n, k, k + gap, n + gap, n + gap, panel.ctypes.data,
           fresh)
        assert np.allclose(c, want, rtol=1e-4, atol=1e-2 if k > 1000 else 1e-3), (m, n, k, gap)
        assert (panel[-guard:] == 7).all()  # nothing is written behind the panel


@pytest.mark.parametrize("kind, instruction", [("bf16", "tdpbf16ps"), ("f16", "tdpfp16ps"), ("i8", "tdpbssd"),
                                               ("u8", "tdpbuud")])
def test_tiles_are_kept_in_the_unit(kind, instruction):
    """The inner loop of a product loads four tiles and multiplies them four ways."""
    cpu = cpu_target("graniterapids")
    text = dot_amx.dot_tiles(kind) if kind in dot_amx.SYMBOLS else dot.dot(cpu, kind)
    blocks = assembly(text, cpu).split("\n.LBB")
    hottest = max(blocks, key=lambda block: block.count(instruction))
    assert hottest.count(instruction) == hottest.count("tileloadd") == 4
    assert hottest.count("tileloaddt1") == 2  # A
    packing = [block for block in blocks if "vpunpckl" in block]
    products = sorted(block.count(instruction) for block in packing)
    assert products == [0, 0, 2, 4]  # 16 and 32 rows: before the first step, and while the panel is multiplied
    for block in packing:  # no shuffle takes two instructions of the processor
        assert len(re.findall(r"vpunpck[lh]", block)) == (32 if kind in dot_amx.SYMBOLS else 64), block
        assert not re.search(r"vpermt2[bw]|vpermi2[bw]|vinsert|rsp.*mm", block), block


@pytest.mark.parametrize("kind, instruction", [("bf16", "tdpbf16ps"), ("i8", "tdpbssd")])
def test_columns_are_packed_in_registers(kind, instruction):
    cpu = cpu_target("graniterapids")
    blocks = assembly(dot_amx.dot_tiles(kind, by_columns=True), cpu).split("\n.LBB")
    packing = [block for block in blocks if "vpunpckl" in block]
    assert sorted(block.count(instruction) for block in packing) == [0, 0, 2, 4]
    for block in packing:
        assert len(re.findall(r"vpunpck|vshufi64x2", block)) == 2 * 64, block
        assert not re.search(r"vperm|vinsert|rsp.*mm", block), block


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("name, products", [("x86-64-v3", 48), ("x86-64-v4", 96), ("aarch64", 64)])
def test_dot_keeps_its_tile_in_registers(name, products, kind):
    """In a process of its own: what was compiled for another processor before changes LLVM's ways."""
    code = (
        "from tritium.backends.cpu.library import dot; from tritium.backends.llvm.target import assembly, cpu_target; "
        f"cpu = cpu_target({name!r}); print(assembly(dot.dot(cpu, {kind!r}), cpu))"
    )
    text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    expected = products // 2 if (name, kind) == ("aarch64", "f64") else products  # a register holds half as many ks
    counted = [(block.count("vfmadd") + block.count("fmla"), block) for block in text.split("\n.LBB")]
    large = [(count, block) for count, block in counted if count >= expected]
    for count, block in large:
        assert count == expected, block
        assert not re.search(r"rsp.*mm|mm.*rsp|\tq\d.*\[sp", block), block  # vectors to or from the stack
        others = len(re.findall(r"^\t(?!v?fm|[.#])", block, re.MULTILINE))
        assert others < count, block  # loads, addresses and the loop
    assert large
    if name == "x86-64-v4":  # loops that copy panels of B: A is copied meanwhile, or was before, or is read in place
        assert sum(block.count("prefetcht0") == 1 for _, block in large) == 3


@pytest.mark.parametrize("kind", ["i8", "u8"])
def test_dot_of_bytes_sums_by_fours(kind):
    """The inner loop of a product of bytes has a 6 x 64 tile in registers and four steps of four ks."""
    cpu = cpu_target("sapphirerapids")
    blocks = assembly(dot.dot(cpu, kind), cpu).split("\n.LBB")
    hottest = max(blocks, key=lambda block: block.count("vpdpbusd"))
    assert hottest.count("vpdpbusd") == 96 and not re.search(r"rsp.*mm|mm.*rsp", hottest), hottest
    w = Writer()
    dot_vnni.write(w, kind, "product", "general")
    assert w.text().count("call void @llvm.prefetch") == 4 * 3  # four rows of a panel of each width, further on
    assert "vpdpbusd" not in assembly(dot.dot(cpu_target("x86-64-v4"), kind), cpu_target("x86-64-v4"))


DTYPES = {"i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "u8": "u1", "u16": "u2", "u32": "u4", "u64": "u8",
          "f16": "f2", "f32": "f4", "f64": "f8"}  # fmt: skip


def sorting(rt, kind):
    """tt.sort.KIND(data, n, k, descending)."""
    number = ctypes.c_int64
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, number, number, number)(rt.symbols[sort.SYMBOLS[kind]])


@pytest.mark.parametrize("kind", DTYPES)
def test_sort(rt, kind):
    fn = sorting(rt, kind)
    dtype = np.dtype(DTYPES[kind])
    for log, descending in itertools.product(range(12), (0, 1)):
        x = np.frombuffer(RNG.bytes(dtype.itemsize << log), dtype).copy()
        x[np.isnan(x)] = -1.0 if dtype.kind == "f" else 0
        want = np.sort(x)[:: -1 if descending else 1].copy()
        fn(x.ctypes.data, 1 << log, 1 << log, descending)
        assert np.array_equal(x, want), (log, descending)


@pytest.mark.parametrize("kind", DTYPES)
def test_sort_of_the_first(rt, kind):
    fn = sorting(rt, kind)
    dtype = np.dtype(DTYPES[kind])
    for log, descending in itertools.product(range(1, 11), (0, 1)):
        for few in range(log):
            x = np.frombuffer(RNG.bytes(dtype.itemsize << log), dtype).copy()
            x[np.isnan(x)] = -1.0 if dtype.kind == "f" else 0
            want = np.sort(x)[:: -1 if descending else 1][: 1 << few].copy()
            fn(x.ctypes.data, 1 << log, 1 << few, descending)
            assert np.array_equal(x[: 1 << few], want), (log, few, descending)


@pytest.mark.parametrize("kind, name", [("bf16", "bfloat16"), ("f8", "float8_e5m2"), ("f8", "float8_e4m3fn")])
def test_sort_small_floats(rt, kind, name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = RNG.standard_normal(256).astype(getattr(ml_dtypes, name))
    want = np.sort(x.astype(np.float32))
    sorting(rt, kind)(x.ctypes.data, 256, 256, 0)
    assert np.array_equal(x.astype(np.float32), want)


@pytest.mark.parametrize("size", partial.SIZES)
def test_partial_accesses(rt, size):
    dtype = f"u{size}"

    def fn(name, *types):
        return ctypes.CFUNCTYPE(None, *types)(rt.symbols[f"tt.{name}.{size}"])

    pointer, number = ctypes.c_void_p, ctypes.c_int64
    for lanes, stride in itertools.product([0, 1, 0x8001, 0b1011, 0xFFFF, 2**64 - 1], [1, 2, -1, 0]):
        chosen = [i for i in range(64) if lanes >> i & 1]
        memory, chunk = numbers(256, np.int64).astype(dtype), numbers(64, np.int64).astype(dtype)
        middle, step = memory.ctypes.data + 128 * size, stride * size
        signed = lanes - 2**64 if lanes >> 63 else lanes
        want = chunk.copy()
        want[chosen] = [memory[128 + i * stride] for i in chosen]
        fn("load", pointer, pointer, number, number)(chunk.ctypes.data, middle, signed, step)
        assert np.array_equal(chunk, want)
        chunk, want = numbers(64, np.int64).astype(dtype), memory.copy()
        for i in chosen:
            want[128 + i * stride] = chunk[i]
        fn("store", pointer, pointer, number, number)(chunk.ctypes.data, middle, signed, step)
        assert np.array_equal(memory, want)

        where = RNG.permutation(256)[:64]
        places = (memory.ctypes.data + where * size).astype(np.int64)
        want = chunk.copy()
        want[chosen] = memory[where[chosen]]
        fn("gather", pointer, pointer, number)(chunk.ctypes.data, places.ctypes.data, signed)
        assert np.array_equal(chunk, want)
        chunk, want = numbers(64, np.int64).astype(dtype), memory.copy()
        want[where[chosen]] = chunk[chosen]
        fn("scatter", pointer, pointer, number)(chunk.ctypes.data, places.ctypes.data, signed)
        assert np.array_equal(memory, want)


def _remainder(i, n):
    """As in C: with the sign of `i`; nothing is taken from it where n is 0."""
    return int(np.fmod(i, n)) if n else i


@pytest.mark.parametrize("size", partial.SIZES)
def test_tiles_are_copied_up_to_their_edges(rt, size):
    memory = numbers(200 * 300, np.int64).astype(f"u{size}").reshape(200, 300)
    origin = memory[100:, 100:]
    load = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p, ctypes.c_int64] * 2, *[ctypes.c_int64] * 9)(
        rt.symbols["tt.tile.load"])
    for _ in range(200):
        rows, columns = (int(RNG.choice(sizes)) for sizes in ((1, 4, 16), (1, 4, 16, 33)))
        ends = int(RNG.integers(-2, 20)), int(RNG.integers(-2, 40))
        wraps = [(int(RNG.integers(-20, 20)), int(RNG.choice(by))) for by in ((0, 5, -5, 17), (0, 3, -7, 20, 50))]
        tile = numbers((rows, columns + 3), np.int64).astype(memory.dtype)
        want = tile.copy()
        for i, j in itertools.product(range(rows), range(columns)):
            r, c = (_remainder(first + k, by) for k, (first, by) in zip((i, j), wraps, strict=True))
            want[i, j] = memory[100 + r, 100 + c] if i < ends[0] and j < ends[1] else 0
        load(tile.ctypes.data, columns + 3, origin.ctypes.data, 300, rows, columns, *ends, *wraps[0], *wraps[1], size)
        assert np.array_equal(tile, want)


@pytest.mark.parametrize("name, instruction", [("x86-64-v4", r"prefetch(w|t0)\t"), ("aarch64", r"prfm\tpstl1keep")])
def test_rows_below_are_fetched_for_writing(name, instruction):
    code = assembly(tile_copy.tile_copy(), cpu_target(name))
    assert len(re.findall(instruction, code)) == 4  # lines of 64 bytes, beside as many stores


@pytest.mark.parametrize("columns", [64, 1024, 2048])
def test_long_rows_are_stored(rt, columns):
    tile, memory = numbers((9, columns + 16), np.float32), numbers((9, columns + 50), np.float32)
    want = memory.copy()
    want[:7, :columns] = tile[:7, :columns]
    store = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p, ctypes.c_int64] * 2, *[ctypes.c_int64] * 5)(
        rt.symbols["tt.tile.store"])
    store(memory.ctypes.data, columns + 50, tile.ctypes.data, columns + 16, 9, columns, 7, columns, 4)
    assert np.array_equal(memory, want)


@pytest.mark.parametrize("size", partial.SIZES)
def test_tiles_are_stored_up_to_their_edges(rt, size):
    tile = numbers((20, 40), np.int64).astype(f"u{size}")
    store = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p, ctypes.c_int64] * 2, *[ctypes.c_int64] * 5)(
        rt.symbols["tt.tile.store"])
    for ends in itertools.product((-1, 0, 5, 16, 30), (-1, 0, 7, 33, 50)):
        memory = numbers((40, 50), np.int64).astype(tile.dtype)
        want = memory.copy()
        rows, columns = (max(0, min(end, n)) for end, n in zip(ends, (16, 33), strict=True))
        want[:rows, :columns] = tile[:rows, :columns]
        store(memory.ctypes.data, 50, tile.ctypes.data, 40, 16, 33, *ends, size)
        assert np.array_equal(memory, want)
