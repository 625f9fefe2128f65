"""Inline assembly for AMD GPUs: what its instructions compute, the code they become, and what is refused."""

import re

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.amdgcn.compiled import assembly, compiled
from tests.backends.gpu.modules import module_of
from tritium.backends.amdgcn.isa.assembly import INSTRUCTIONS
from tritium.errors import CompilationError
from tritium.insight import emulator

rng = np.random.default_rng(5)
N = 128


@triton.jit
def applied(x, y, z, out, N: tl.constexpr, asm: tl.constexpr, constraints: tl.constexpr, to: tl.constexpr,
            pack: tl.constexpr, count: tl.constexpr):
    i = tl.arange(0, N)
    if count == 1:
        r = tl.inline_asm_elementwise(asm, constraints, [tl.load(x + i)], to, True, pack)
    elif count == 2:
        r = tl.inline_asm_elementwise(asm, constraints, [tl.load(x + i), tl.load(y + i)], to, True, pack)
    else:
        v = [tl.load(x + i), tl.load(y + i), tl.load(z + i)]
        r = tl.inline_asm_elementwise(asm, constraints, v, to, True, pack)
    tl.store(out + i, r)


NAMES = {np.float16: tl.float16, np.float32: tl.float32, np.float64: tl.float64, np.int32: tl.int32,
         np.uint32: tl.uint32}  # fmt: skip


def arguments(asm, dtypes, to, constraints=None, pack=1):
    random = lambda t: (rng.integers(-(1 << 31), 1 << 31, N).astype(t) if t in (np.int32, np.uint32)
                        else (30 * rng.standard_normal(N)).astype(t))  # fmt: skip
    data = [random(t) for t in dtypes]
    constraints = constraints or ",".join(["=v", *"v" * len(data)])
    three = [*data, *[data[0]] * (3 - len(data))]
    return [*three, np.zeros(N, to), N, asm, constraints, NAMES[to], pack, len(data)]


def run(arch, *given, **more):
    """(inputs, result) of an emulated launch."""
    args = arguments(*given, **more)
    module, values = module_of(applied, args)
    emulator.run(module, values, (1,), arch, num_warps=1)
    return args[: args[-1]], values[3]


u32, i32, f16, f32, f64 = np.uint32, np.int32, np.float16, np.float32, np.float64
near = lambda fn: lambda *xs: fn(*(x.astype(f64) for x in xs)).astype(xs[0].dtype)
CASES = {
    "v_add_f32 $0, $1, $2": ((f32, f32), f32, np.add),
    "v_sub_f32_e32 $0, $1, -$2": ((f32, f32), f32, np.add),
    "v_subrev_f32 $0, $1, $2": ((f32, f32), f32, lambda x, y: y - x),
    "v_mul_f16 $0, $1, $2": ((f16, f16), f16, np.multiply),
    "v_fma_f32 $0, $1, $2, $3": ((f32, f32, f32), f32, near(lambda x, y, z: x * y + z)),
    "v_fma_f32 $0, |$1|, 0.5, -$2": ((f32, f32), f32, near(lambda x, y: abs(x) * 0.5 - y)),
    "v_max_f32 $0, $1, $2": ((f32, f32), f32, np.maximum),
    "v_min_f64 $0, $1, $2": ((f64, f64), f64, np.minimum),
    "v_med3_f32 $0, $1, $2, $3": ((f32, f32, f32), f32, lambda *xs: np.sort(xs, 0)[1]),
    "v_max3_f32 $0, $1, $2, 1.0": ((f32, f32), f32, lambda x, y: np.maximum(np.maximum(x, y), 1)),
    "v_rcp_f32 $0, $1": ((f32,), f32, near(lambda x: 1 / x)),
    "v_exp_f32 $0, $1": ((f32,), f32, near(np.exp2)),
    "v_rndne_f32 $0, $1": ((f32,), f32, np.rint),
    "v_add_u32 $0, $1, $2": ((u32, u32), u32, np.add),
    "v_mul_hi_u32 $0, $1, $2": ((u32, u32), u32, lambda x, y: (x.astype(np.uint64) * y >> np.uint64(32)).astype(u32)),
    "v_mul_u32_u24 $0, $1, $2": ((u32, u32), u32, lambda x, y: (x & 0xFFFFFF) * (y & 0xFFFFFF)),
    "v_lshlrev_b32 $0, $2, $1": ((u32, u32), u32, lambda x, y: x << (y & 31)),
    "v_ashrrev_i32 $0, 3, $1": ((i32,), i32, lambda x: x >> 3),
    "v_max_i32 $0, $1, $2": ((i32, i32), i32, np.maximum),
    "v_and_or_b32 $0, $1, 0xff00, $2": ((u32, u32), u32, lambda x, y: x & 0xFF00 | y),
    "v_lshl_add_u32 $0, $1, 2, $2": ((u32, u32), u32, lambda x, y: (x << 2) + y),
    "v_bfe_u32 $0, $1, 4, 9": ((u32,), u32, lambda x: x >> 4 & 511),
    "v_perm_b32 $0, $1, $2, 0x07000501": ((u32, u32), u32, lambda x, y: (
        x & 0xFF000000 | (y & 255) << 16 | x & 0xFF00 | y >> 8 & 255)),
    "v_alignbit_b32 $0, $1, $2, 8": ((u32, u32), u32, lambda x, y: x << 24 | y >> 8),
    "v_cvt_i32_f32 $0, $1": ((f32,), i32, lambda x: np.trunc(x).astype(i32)),
    "v_cvt_f32_u32 $0, $1": ((u32,), f32, lambda x: x.astype(f32)),
    "v_cvt_f16_f32 $0, $1": ((f32,), f16, lambda x: x.astype(f16)),
    "v_cvt_f64_f32 $0, $1": ((f32,), f64, lambda x: x.astype(f64)),
    "v_mul_f32 $0, $1, $1\n v_add_f32 $0, $0, $2; v_mov_b32 $0, $0": ((f32, f32), f32, lambda x, y: x * x + y),
}  # fmt: skip


@pytest.mark.parametrize("asm", CASES)
def test_results(amd, asm):
    dtypes, to, fn = CASES[asm]
    inputs, found = run(amd, asm, dtypes, to)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found, fn(*inputs).astype(to), rtol=3e-7 if to is f32 else 0)


def test_halves_share_a_register(amd):
    (x, y), found = run(amd, "v_pk_add_f16 $0, $1, $2", (f16, f16), f16, pack=2)
    np.testing.assert_array_equal(found, x + y)


def test_an_output_may_begin_as_an_input(amd):
    (x, y, z), found = run(amd, "v_fmac_f32 $0, $1, $2", (f32, f32, f32), f32, "=v,v,v,0")
    np.testing.assert_allclose(found, x.astype(f64) * y + z, rtol=2e-7)


PTX = [  # text, constraints, types of the arguments, type of the result, pack, meaning
    ("{ .reg .f32 t; ex2.approx.f32 t, $1; add.f32 $0, t, $2; }", "=f,f,f", (f32, f32), f32, 1,
     lambda x, y: np.exp2(x.astype(f64)).astype(f32) + y),
    ("fma.rn.f16x2 $0, $1, $2, $1;", "=r,r,r", (f16, f16), f16, 2,
     lambda x, y: (x.astype(f64) * y + x).astype(f16)),
    ("prmt.b32 $0, $1, $2, 0x7610;", "=r,r,r", (u32, u32), u32, 1, lambda x, y: x & 0xFFFF | y & 0xFFFF0000),
    ("{ .reg .pred p; setp.lt.s32 p, $1, $2; selp.b32 $0, $1, $2, p; }", "=r,r,r", (i32, i32), i32, 1, np.minimum),
    ("{ add.u32 $0, $2, 1; add.u32 $1, $3, 1; }", "=r,=r,r,r", (u32,), u32, 2, lambda x: x + 1),
]  # fmt: skip


@pytest.mark.parametrize(("asm", "constraints", "dtypes", "to", "pack", "fn"), PTX)
def test_ptx(amd, asm, constraints, dtypes, to, pack, fn):
    inputs, found = run(amd, asm, dtypes, to, constraints, pack)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found, fn(*inputs), rtol=3e-7 if to is f32 else 0)


@pytest.mark.parametrize("name", ["v_add_f32", "v_mul_f64", "v_pk_fma_f16", "v_rsq_f32", "v_mul_lo_u32",
                                  "v_lshl_add_u32", "v_perm_b32", "v_alignbit_b32", "v_cvt_u32_f32", "v_add3_u32",
                                  "v_max3_f32", "v_bfe_i32", "v_exp_f32"])  # fmt: skip
def test_they_become_themselves(name):
    """One instruction of that name, for each element of a thread."""
    row = INSTRUCTIONS[name]
    kind = {"half": f16, "float": f32, "double": f64, "i32": i32, "<2 x half>": f16}
    operands = [kind[t] for t in row.operands]
    text = f"{name} $0, {', '.join(f'${k + 1}' for k in range(len(operands)))}"
    packed = 2 if row.result == "<2 x half>" else 1
    module = module_of(applied, arguments(text, operands, kind[row.result], pack=packed))[0]
    assert len(re.findall(rf"^\s*{name}", assembly(module, "gfx942", num_warps=1), re.MULTILINE)) == N // 64 // packed


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_every_instruction_compiles(name):
    row = INSTRUCTIONS[name]
    kind = {"half": f16, "float": f32, "double": f64, "i32": i32, "<2 x half>": f16}
    operands = [kind[t] for t in row.operands]
    extra = [kind[row.result]] if row.accumulates else []
    text = f"{name} $0, {', '.join(f'${k + 1}' for k in range(len(operands)))}"
    constraints = ",".join(["=v", *"v" * len(operands), *["0"] * len(extra)])
    packed = 2 if row.result == "<2 x half>" else 1
    args = arguments(text, operands + extra, kind[row.result], constraints, packed)
    assert compiled(module_of(applied, args)[0], "gfx1100", num_warps=1)[0]["hsaco"]


@pytest.mark.parametrize(("asm", "constraints", "message"), [
    ("v_frobnicate_f32 $0, $1", "=v,v", "'v_frobnicate_f32' is no instruction that tritium knows"),
    ("v_add_f23 $0, $1, $1", "=v,v", r"(?s)v_add_f23.*hint: it knows .*v_add_f32"),
    ("bar.sync 0;", "=r,r", "'bar.sync' is no instruction .*; as PTX it has the instruction 'bar.sync'"),
    ("v_add_f32 $0, $1", "=v,v", "'v_add_f32' takes 2 operands behind its result, not 1"),
    ("v_add_f32 $1, $1, $1", "=v,v", r"'v_add_f32' writes '\$1'"),
    ("v_add_f32 v0, $1, $1", "=v,v", "'v_add_f32' writes 'v0'"),
    ("v_add_f32 $0, $1, v7", "=v,v", "'v_add_f32' has the operand 'v7'"),
    ("v_add_f32 $0, $1, $4", "=v,v", r"reads '\$4', which has no value"),
    ("v_add_f64 $0, $1, $1", "=v,v", r"reads '\$1', a register of 32 bits"),
    ("v_cvt_f64_f32 $0, $1", "=v,v", "writes 64 bits to an output of 32"),
    ("v_add_u32 $0, -$1, $1", "=v,v", "only floats are negated"),
    ("", "=v,v", r"nothing is written to \$0"),
    ("v_mov_b32 $0, $1", "=f,f", "the constraint '=f' is unknown"),
    ("v_mov_b32 $0, $1", "=v,=v,v", "it has 2 outputs, and its results fill 1"),
    ("v_mov_b32 $0, $1", "=v,v,v", "it has 2 inputs, and its arguments fill 1"),
])  # fmt: skip
def test_what_is_refused(asm, constraints, message):
    with pytest.raises(CompilationError, match=message):
        compiled(module_of(applied, arguments(asm, [f32], f32, constraints))[0], "gfx942")
