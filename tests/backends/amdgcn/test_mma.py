"""Matrix instructions of AMD GPUs: fragments as text and by the vendor's formulas, dots on NumPy, LLVM's assembly."""

import pathlib
import re
from types import SimpleNamespace

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.amdgcn import compiled, matrix_units
from tests.backends.gpu.modules import module_of
from tritium import ops
from tritium.backends.amdgcn.isa import fragments, mfma_scale, mma
from tritium.backends.amdgcn.isa.architectures import ARCHITECTURES
from tritium.backends.gpu.layout.linear import log2, span_of
from tritium.backends.llvm.target import assembly
from tritium.ir import types as T
from tritium.ir.core import walk

CPUS = ("gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201")
ALL = list(dict.fromkeys(x for product in mma.PRODUCTS for x in product.instructions))
NAMES = dict.fromkeys(x.intrinsic for x in ALL)
TEXT = pathlib.Path(__file__).with_name("fragments.txt")


# --- fragments --------------------------------------------------------------------------------------------------------
def places(bits, count):
    """{place: (row, column)} of the bits of registers or lanes."""
    rows, cols = (span_of([step if axis == name else 0 for axis, step in bits]) for name in ("row", "col"))
    return list(zip(rows, cols))[:count]


def held(found):
    """[register][lane] -> (row, column)."""
    reg, lane = (places(bits, 1 << len(bits)) for bits in found)
    return [[(r[0] + x[0], r[1] + x[1]) for x in lane] for r in reg]


def operand_places(instruction):
    """Fragments of A: neighbours along K in registers; lanes walk rows, then K. Lanes left over hold copies."""
    per_lane, lanes = instruction.per_lane, len(instruction.result.lane)
    rows, steps = log2(instruction.size), log2(instruction.shared_by)
    lane = [("row", 1 << k) for k in range(rows)] + [("col", per_lane << k) for k in range(steps)]
    copies = [("row", 0)] * (lanes - rows - steps)
    return fragments.Places(tuple(("col", 1 << k) for k in range(log2(per_lane))), (*lane, *copies))


@pytest.mark.parametrize("instruction", ALL, ids=lambda x: x.intrinsic)
def test_the_fragments_are_the_vendors(instruction):
    shape = matrix_units.Shape(instruction.intrinsic, instruction.per_lane)
    lanes, operand, result = range(shape.lanes), held(operand_places(instruction)), held(instruction.result)
    assert operand == [[shape.operand(lane, e) for lane in lanes] for e in range(instruction.per_lane)]
    assert result == [[shape.result(lane, r) for lane in lanes] for r in range(shape.sums)]


@pytest.mark.parametrize("size", [16, 32])
def test_the_fragments_with_block_scales_are_the_vendors(size):
    """Chunks of 16 bytes; the second of 8-bit floats is half of K further. Lanes have scales of groups of 32."""
    depth, groups = 2048 // size, 64 // size
    found = mfma_scale.Scaled(size, depth, (1, 1), ("e4m3", "e2m1"))
    wide, narrow = found.operand((size, depth), "a"), found.operand((depth // 2, size), "b")
    lhs_scales, rhs_scales = (found.scales((size, groups), side) for side in "ab")
    for lane in range(64):
        row, group = lane % size, lane // size
        k = [depth // 2 * (e // 16) + 16 * group + e % 16 for e in range(32)]
        assert [wide.element(e, lane) for e in range(32)] == [row * depth + x for x in k]
        assert [narrow.element(e, lane) for e in range(16)] == [x * size + row for x in k[:16]]
        assert lhs_scales.element(0, lane) == rhs_scales.element(0, lane) == row * groups + group


def run_of(pairs):
    """The places of neighbouring lanes in short: "0..15,4" walks rows, "4,0..15" columns."""
    (first_row, first_col), (last_row, last_col) = pairs[0], pairs[-1]
    walk = lambda a, b: f"{a}" if a == b else f"{a}..{b}"
    assert pairs == [(first_row + k * (first_row != last_row), first_col + k * (first_col != last_col))
                     for k in range(len(pairs))]  # fmt: skip
    return f"[{walk(first_row, last_row)},{walk(first_col, last_col)}]"


def described(name, registers, size):
    """A line for each register: which elements runs of `size` lanes hold."""
    for r, held_there in enumerate(registers):
        runs = (f"{k}-{k + size - 1} {run_of(held_there[k : k + size])}" for k in range(0, len(held_there), size))
        yield f"  {name}{r:<3} {'  '.join(runs)}"


def test_fragments_as_text(request):
    lines, known = [], {}
    for x in ALL:
        known.setdefault((x.size, x.per_lane, x.result, x.depth), []).append(x)
    for same in known.values():
        lines += dict.fromkeys(x.intrinsic for x in same)
        first = same[0]
        lines += [*described("A", held(operand_places(first)), first.size),
                  *described("D", held(first.result), first.size), ""]  # fmt: skip
    text = "Lanes, and [row,column] of what each register of theirs holds. B is A with columns for rows.\n\n"
    text += "\n".join(lines)
    if request.config.getoption("--update"):
        TEXT.write_text(text)
    assert TEXT.read_text() == text


# --- dots -------------------------------------------------------------------------------------------------------------
def target(cpu, nonkdim=0, kpack=1):
    return SimpleNamespace(cpu=cpu, family=ARCHITECTURES[cpu], nonkdim=nonkdim, kpack=kpack)


def tiles(shape, element, other=None, out=T.f32):
    *batch, m, n, k = shape
    return T.Tile((*batch, m, k), element), T.Tile((*batch, k, n), other or element), T.Tile((*batch, m, n), out)


def computed(monkeypatch, cpu, types, precision="ieee", warps=4, **options):
    """(what the lowering of a dot computes, what it should, the intrinsics it calls)."""
    monkeypatch.setattr(mma, "pack", matrix_units.pack)
    monkeypatch.setattr(mma, "_joined", matrix_units.pack)
    rng = np.random.default_rng(0)
    a, b, acc = (rng.integers(-4, 5, t.shape).astype(float) for t in types)
    unit = mma.instructions(cpu, **options)
    layouts = *unit.fragments(*types, precision, warps), unit.accumulator(*types, precision, warps)
    values = [SimpleNamespace(type=t) for t in types]
    op = SimpleNamespace(operands=values, type=types[2], attrs={"precision": precision})
    known = {id(x): layout for x, layout in zip((*values[:2], op), layouts)}
    g = matrix_units.Lowering(target(cpu, **options), warps, known)
    made = mma.dot(g, op, *map(matrix_units.spread, (a, b, acc), layouts))
    return matrix_units.gather(made, layouts[2]), a @ b + acc, set(g.w.called)


F8 = (T.f8e4b8, T.f8e5b16)
DOTS = [
    ("gfx90a", tiles((64, 64, 32), T.f16), "mfma.f32.32x32x8f16"),
    ("gfx90a", tiles((16, 32, 32), T.bf16), "mfma.f32.16x16x16bf16.1k"),
    ("gfx90a", tiles((32, 32, 32), T.i8, out=T.i32), "mfma.i32.16x16x16i8"),
    ("gfx90a", tiles((64, 64, 8), T.f32), "mfma.f32.32x32x2f32"),
    ("gfx90a", tiles((32, 16, 16), T.f64, out=T.f64), "mfma.f64.16x16x4f64"),
    ("gfx942", tiles((2, 32, 32, 32), T.f16), "mfma.f32.16x16x16f16"),
    ("gfx942", tiles((128, 16, 64), *F8), "mfma.f32.16x16x32.bf8.fp8"),
    ("gfx942", tiles((32, 32, 32), T.i8, out=T.i32), "mfma.i32.16x16x32.i8"),
    ("gfx942", tiles((32, 32, 16), T.f32), "mfma.f32.16x16x4f32"),
    ("gfx950", tiles((32, 128, 32), T.f16), "mfma.f32.32x32x16.f16"),
    ("gfx950", tiles((16, 16, 16), T.bf16), "mfma.f32.16x16x16bf16.1k"),
    ("gfx950", tiles((32, 32, 128), T.f8e4nv, T.f8e5), "mfma.scale.f32.16x16x128.f8f6f4.v8i32.v8i32"),
    ("gfx950", tiles((64, 64, 32), T.i8, out=T.i32), "mfma.i32.32x32x32.i8"),
    ("gfx1100", tiles((32, 32, 32), T.f16), "wmma.f32.16x16x16.f16.v8f32.v16f16"),
    ("gfx1100", tiles((2, 16, 64, 16), T.i8, out=T.i32), "wmma.i32.16x16x16.iu8.v8i32.v4i32"),
    ("gfx1201", tiles((64, 16, 32), T.bf16), "wmma.f32.16x16x16.bf16.v8f32.v8i16"),
    ("gfx1201", tiles((32, 32, 32), T.f8e5, T.f8e4nv), "wmma.f32.16x16x16.fp8.bf8.v8f32.v2i32"),
]


@pytest.mark.parametrize(("cpu", "types", "name"), DOTS, ids=lambda x: str(x) if isinstance(x, str) else None)
def test_a_dot_is_the_product(monkeypatch, cpu, types, name):
    found, wanted, called = computed(monkeypatch, cpu, types)
    assert np.array_equal(found, wanted)
    assert called == {name}


def test_tf32_is_xf32_where_there_is_one(monkeypatch):
    types = tiles((32, 32, 16), T.f32)
    for cpu, name in (("gfx942", "mfma.f32.16x16x8.xf32"), ("gfx950", "mfma.f32.16x16x4f32")):
        found, wanted, called = computed(monkeypatch, cpu, types, precision="tf32")
        assert np.array_equal(found, wanted) and called == {name}


@pytest.mark.parametrize(("nonkdim", "kpack"), [(16, 1), (32, 2), (16, 4)])
def test_launch_options_choose_the_shape_and_the_neighbours(monkeypatch, nonkdim, kpack):
    types = tiles((64, 64, 64), T.f16)
    found, wanted, called = computed(monkeypatch, "gfx942", types, nonkdim=nonkdim, kpack=kpack)
    assert np.array_equal(found, wanted)
    assert called == {{16: "mfma.f32.16x16x16f16", 32: "mfma.f32.32x32x8f16"}[nonkdim]}
    lhs, _ = mma.instructions("gfx942", nonkdim, kpack).fragments(*types, "ieee", 4)
    assert lhs.contiguous() == 4 * kpack


def test_an_option_that_no_instruction_fits_is_refused():
    with pytest.raises(ValueError, match="nonkdim=8") as refused:
        mma.instructions("gfx942", 8)
    assert "16 or 32" in vars(refused.value)["hint"]
    with pytest.raises(ValueError, match="kpack=3"):
        mma.instructions("gfx942", kpack=3)


def test_a_shape_larger_than_the_tile_gives_way():
    assert mma.plan("cdna3", 32, 1, *tiles((16, 64, 32), T.f16), "ieee", 4).instruction.size == 16


@pytest.mark.parametrize(
    ("cpu", "types"),
    [
        ("gfx942", tiles((8, 64, 32), T.f16)),  # fewer rows than any instruction
        ("gfx942", tiles((16, 16, 8), T.f16)),  # fewer steps
        ("gfx942", tiles((32, 32, 32), T.f8e4nv)),  # the other kind of 8-bit float
        ("gfx1100", tiles((32, 32, 32), T.f32)),
        ("gfx1030", tiles((32, 32, 32), T.f16)),
        ("gfx906", tiles((32, 32, 32), T.f16)),
        ("gfx942", tiles((32, 32, 32), T.f16, out=T.f16)),
    ],
)
def test_threads_compute_what_no_instruction_does(cpu, types):
    unit = mma.instructions(cpu)
    assert unit.accumulator(*types, "ieee", 4) is None
    assert unit.fragments(*types, "ieee", 4) is None
    assert not unit.in_shared(*types, "ieee", 4)


@pytest.mark.parametrize(
    ("cpu", "element", "precision", "nonkdim"),
    [
        ("gfx942", T.f16, "ieee", 16), ("gfx942", T.bf16, "ieee", 32), ("gfx90a", T.f32, "ieee", 16),
        ("gfx942", T.f32, "tf32", 32), ("gfx942", T.f64, "ieee", 16), ("gfx1201", T.f16, "ieee", 16),
    ],
)  # fmt: skip
def test_a_result_is_an_operand_as_it_is(cpu, element, precision, nonkdim):
    """Attention multiplies what it has just computed: the second dot's lhs needs no exchange between lanes."""
    out = T.f64 if element is T.f64 else T.f32
    unit = mma.instructions(cpu, nonkdim)
    first = unit.accumulator(*tiles((128, 64, 64), element, out=out), precision, 4)
    lhs, _ = unit.fragments(*tiles((128, 128, 64), element, out=out), precision, 4)
    assert (first.lane, first.warp) == (lhs.lane, lhs.warp) and {*first.reg} == {*lhs.reg}


# --- LLVM -------------------------------------------------------------------------------------------------------------
def plain(intrinsic):
    """The shape and the types, as the assembler writes them but for its underscores."""
    return re.sub(r"\.v\d+\w+|\.scale|\.1k|[._]", "", intrinsic)


@pytest.mark.parametrize("cpu", CPUS)
def test_llvm_assembles_every_intrinsic(cpu):
    """One kernel with all instructions of an architecture."""
    family, found = ARCHITECTURES[cpu], {}
    for product in mma.PRODUCTS:
        if family in product.families:
            found |= {(x.intrinsic, x.behind): x for x in product.instructions}
    lines, declared = [], {}
    for number, x in enumerate(found.values()):
        before, behind = (["i1 true"], ["i1 false"]) if x.signed else ([], [f"i32 {k}" for k in x.behind])
        a, b, c = f"{x.operand} %a{number}", f"{x.operand} %b{number}", f"{x.sums} %c{number}"
        arguments = ", ".join((*before, a, *before, b, c, *behind))
        name = f"llvm.amdgcn.{x.intrinsic}"
        kinds = re.sub(r" (%\w+|true|false|\d+)(?=,|$)", "", arguments)
        declared[name] = f"declare {x.sums} @{name}({kinds})"
        lines += [*(f"%{part}{number} = load volatile {kind}, ptr addrspace(1) %p" for part, kind in
                    (("a", x.operand), ("b", x.operand), ("c", x.sums))),
                  f"%d{number} = call {x.sums} @{name}({arguments})",
                  f"store volatile {x.sums} %d{number}, ptr addrspace(1) %p"]  # fmt: skip
    body = "\n  ".join([*lines, "ret void"])
    text = "\n".join([*declared.values(), f"define amdgpu_kernel void @f(ptr addrspace(1) %p) {{\n  {body}\n}}"])
    made = assembly(text, SimpleNamespace(triple="amdgcn-amd-amdhsa", cpu=cpu, features=""), passes=())
    written = re.findall(r"\bv_(?:mfma|wmma)\w+", made)
    assert len(written) == len(found) > 0
    for (intrinsic, _), name in zip(found, written):
        assert name.replace("_", "").removesuffix("1k") == "v" + plain(intrinsic)


@triton.jit
def product(a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, STEP: tl.constexpr):
    rows, cols, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, STEP)
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, K, STEP):
        a = tl.load(a_ptr + rows[:, None] * K + (k + inner)[None, :])
        b = tl.load(b_ptr + (k + inner)[:, None] * N + cols[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc)


@pytest.mark.parametrize("stages", [1, 2])
def test_an_operand_across_k_is_loaded_with_neighbours_along_it(stages):
    """Also where the loop carries what it loads for the next iteration."""
    a, b, c = np.zeros((64, 128), np.float16), np.zeros((128, 64), np.float16), np.zeros((64, 64), np.float32)
    module, _ = module_of(product, (a, b, c, 128, 64, 64, 64))
    found = compiled.tiles(module, "gfx942", num_stages=stages)
    layouts = [op.attrs["layout"] for op in walk(found.body) if op.kind is ops.load]
    assert layouts and all(reg[:3] == (1, 2, 4) for _, reg, _, _ in layouts)
    assert {reg[3:] for _, reg, _, _ in layouts} == {(2048,), (64,)}  # of a: half of the rows; of b: a pair along K


@pytest.mark.parametrize(("cpu", "read"), [("gfx942", "ds_read2?(st64)?_b64|ds_read_b128"), ("gfx1201", "ds_load_")])
def test_a_loop_multiplies_in_place(cpu, read):
    """No sum is copied in the loop, and b, contiguous across K, is regrouped by its loaders: no reads of 16 bits."""
    a, b, c = np.zeros((64, 128), np.float16), np.zeros((128, 64), np.float16), np.zeros((64, 64), np.float32)
    module, _ = module_of(product, (a, b, c, 128, 64, 64, 64))
    text = compiled.assembly(module, cpu, num_warps=2, num_stages=1)
    loop = re.search(r"(\.LBB\w+):\n((?:(?!\.LBB).*\n)*?.*v_(?:mfma|wmma)(?:.*\n)*?)\ts_cbranch\w+ \1", text)[2]
    assert "v_accvgpr" not in loop and not re.search(r"ds_(read|load)_u16|ds_(write|store)_b16", loop)
    assert re.search(read, loop) and "v_perm_b32" in loop


# --- the page ---------------------------------------------------------------------------------------------------------
PAGE = pathlib.Path(__file__).parents[3] / "docs" / "amd-matrix-instructions.md"
TARGETS = {"cdna2": "gfx90a", "cdna3": "gfx942", "cdna4": "gfx950", "rdna3": "gfx1100", "rdna4": "gfx1201"}


def table():
    """A row for each pair of types, a column for each target."""
    rows = {}
    for product in mma.PRODUCTS:
        kinds = product.a.name if product.a is product.b else f"{product.a.name} x {product.b.name}"
        for family in TARGETS:
            if family in product.families:
                cell = rows.setdefault(kinds, {}).setdefault(family, [])
                name = "xf32 " if "xf32" in product.name else ""
                cell.append(name + " / ".join(str(x.depth) for x in product.instructions))
    head = ["| types | " + " | ".join(f"{cpu} ({name})" for name, cpu in TARGETS.items()) + " |", "|---" * 6 + "|"]
    cells = lambda row: " | ".join(", ".join(row.get(family, ["-"])) for family in TARGETS)
    return "\n".join([*head, *(f"| {kinds} | {cells(row)} |" for kinds, row in rows.items())])


def test_the_page_lists_the_products(request):
    text = PAGE.read_text()
    pattern = re.compile(r"(<!-- products -->\n).*?(<!-- end -->)", re.S)
    wanted = pattern.sub(lambda m: f"{m[1]}\n{table()}\n\n{m[2]}", text)
    if request.config.getoption("--update"):
        PAGE.write_text(wanted)
    assert PAGE.read_text() == wanted
