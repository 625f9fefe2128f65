"""The CPU backend's battery of tile-IR kernels, and the text kernels with `# run:` lines, on the GPU."""

import inspect
import types

import numpy as np
import pytest

from tests.backends.cpu import (
    test_control,
    test_dot,
    test_elementwise,
    test_memory,
    test_programs,
    test_reductions,
    test_shapes,
)
from tests.backends.cpu.kernels import module as module_of
from tests.backends.gpu.modules import H100, binary, run_cuda
from tests.backends.gpu.samples import agree
from tests.exec import test_exec
from tritium import ops
from tritium.backends.cpu.fuse import ops as cpu_ops
from tritium.backends.nvptx import compile as stages
from tritium.backends.nvptx.isa.target import LOWER
from tritium.interp.machine import interpret
from tritium.ir import types as T
from tritium.ir.core import walk
from tritium.ir.opdef import KINDS
from tritium.ir.text import parse_module
from tritium.ir.verify import verify
from tritium.ops import checks

BATTERY = (test_control, test_dot, test_elementwise, test_memory, test_programs,
           test_reductions, test_shapes)
# Not for the GPU: tests of how CPU code looks, and of results that only the CPU defines (division by zero, shifts by
# the width).
CPU_ONLY = {"test_every_op_has_a_lowering", "test_sum_and_sum_of_squares_share_a_loop", "test_integer_arithmetic"}


def in_the_language(module):
    """Whether all tiles have the sizes users can write: powers of two."""
    tiles = [t for op in walk(module.body) for t in op.types if type(t) is T.Tile]
    return all(d & (d - 1) == 0 for t in tiles for d in t.shape)


def checking(run):
    """A `check` for the battery: a kernel's arrays after `run(module, args, grid)` agree with the interpreter's."""

    def check(build, arg_types, args, grid=(1,), tolerance=0.0, opt=2):
        m = module_of(build, *arg_types)
        if not in_the_language(m):
            pytest.skip("GPU tiles are powers of two, as in the language")
        theirs, mine = ([x.copy() if isinstance(x, np.ndarray) else x for x in args] for _ in range(2))
        interpret(m, theirs, grid)
        run(m, mine, grid)
        agree(theirs, mine, tolerance)
        return ""

    return check


@pytest.fixture(autouse=True)
def on_the_gpu(monkeypatch):
    for part in BATTERY:
        monkeypatch.setattr(part, "check", checking(run_cuda))


def borrowed():
    """Copies of the battery's tests that `check` kernels, by name: what is marked here stays unmarked there."""
    for scope, (name, test) in [(vars(part), item) for part in BATTERY for item in vars(part).items()]:
        if name.startswith("test_") and name not in CPU_ONLY and "check(" in inspect.getsource(test):
            copy = types.FunctionType(test.__code__, scope, name, test.__defaults__, test.__closure__)
            copy.__dict__.update(test.__dict__)
            yield name, copy


globals().update({name: pytest.mark.gpu(test) for name, test in borrowed()})


@pytest.mark.gpu
@pytest.mark.parametrize("t", [T.i8, T.i16, T.i32, T.i64, T.u8, T.u16, T.u32, T.u64], ids=str)
def test_integers(t):
    d = np.dtype(f"{'i' if t.signed else 'u'}{t.bits // 8}")
    info = np.iinfo(d)
    rng = np.random.default_rng(1)
    x = np.concatenate([np.array([info.min, info.max, 0, 1], d), rng.integers(info.min, info.max, 124, dtype=d)])
    y = np.concatenate([np.array([1, 2, 3, info.max], d), rng.integers(1, info.max, 124, dtype=d)])
    shifts = rng.integers(0, t.bits, 128).astype(d)
    kinds = [ops.add, ops.sub, ops.mul, ops.div, ops.rem, ops.and_, ops.or_, ops.xor, ops.min_, ops.max_]

    def build(b, x, y, n, out):
        v, w, by = (b.get(p, (128,)) for p in (x, y, n))
        results = [kind(b, v, w) for kind in kinds] + [ops.shl(b, v, by), ops.shr(b, v, by)]
        for k, z in enumerate(results):
            b.put(ops.addptr(b, out, b.c(128 * k)), z)

    P = T.Ptr(t)
    checking(run_cuda)(build, [P] * 4, [x, y, shifts, np.zeros(128 * (len(kinds) + 2), d)])


@pytest.mark.gpu
@pytest.mark.parametrize("run", test_exec.CASES, ids=str)
def test_text_kernels(run):
    module = verify(parse_module(run.kernel))
    args, outputs = test_exec.arguments(run, module)
    run_cuda(module, args, run.grid)
    for at, wanted in zip(outputs, run.expected, strict=True):
        pointee = module.args[at].type.pointee
        expected = test_exec.array(pointee, wanted, run.bits)
        if run.close and pointee is T.f32:  # the fast exponentials flush what is below the normal range to zero
            args[at], expected = (np.where(np.abs(x) < 2.0**-126, np.float32(0), x) for x in (args[at], expected))
        test_exec.compare(args[at], expected, run, pointee, test_exec.signless(wanted))


def test_every_op_has_a_gpu_lowering():
    assert stages
    others = {getattr(checks, name) for name in checks.__all__}  # the sanitizer's, in native CPU code only
    others |= {k for k in KINDS.values() if k.infer.__module__ == cpu_ops.__name__}
    missing = [k.name for k in KINDS.values() if k not in LOWER and k not in others and not k.row and not k.terminator]
    assert not missing


@pytest.mark.parametrize("run", test_exec.CASES[::7], ids=str)
def test_text_kernels_compile_without_a_gpu(run):
    code, metadata = binary(verify(parse_module(run.kernel)), H100)
    assert code and metadata["shared"] <= 232448
