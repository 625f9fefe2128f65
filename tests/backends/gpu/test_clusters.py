"""Clusters: which axes are split, the work of each block, and equality with a program of one block."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.cluster_machine import interpret_in_blocks
from tests.backends.gpu.modules import module_of
from tritium.backends.compiler import GPUTarget
from tritium.backends.gpu import ops as gpu_ops
from tritium.backends.gpu.cluster.axes import Axes
from tritium.backends.gpu.cluster.split import split_clusters
from tritium.backends.gpu.rewrite.simplify_induction import simplify_induction
from tritium.backends.nvptx.isa.target import NvTarget
from tritium.compiler import ASTSource
from tritium.interp.machine import interpret
from tritium.ir.core import walk

rng = np.random.default_rng(3)


def kinds(module):
    return [op.kind for op in walk(module.body)]


# --- which axes -------------------------------------------------------------------------------------------------------
@triton.jit
def product(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, STEPS: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    pa, pb = a + m[:, None] * K * STEPS + k[None, :], b + k[:, None] * N + n[None, :]
    acc = tl.zeros((M, N), tl.float32)
    for _ in range(STEPS):
        acc = tl.dot(tl.load(pa), tl.load(pb), acc)
        pa += K
        pb += K * N
    tl.store(c + m[:, None] * N + n[None, :], acc)


@triton.jit
def square(a, c, M: tl.constexpr, K: tl.constexpr):
    m, k = tl.arange(0, M), tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    tl.store(c + m[:, None] * M + m[None, :], tl.dot(x, tl.trans(x)))


def f16(*shape):
    return np.round(2 * rng.standard_normal(shape)).astype(np.float16)


def axes_of_stores(module, blocks):
    module = simplify_induction(module)
    axes = Axes(module, blocks, NvTarget.of(90).cost)
    return [axes.of(op) for op in walk(module.body) if op.kind.name == "store"]


@pytest.mark.parametrize(("shape", "axis"), [((128, 128), 0), ((64, 64), 1), ((256, 64), 0), ((16, 128), 1)])
def test_products_are_cut_where_tensor_cores_gain_most(shape, axis):
    (m, n), k = shape, 16
    args = f16(m, k * 2), f16(k * 2, n), np.zeros((m, n), np.float32), m, n, k, 2
    assert axes_of_stores(module_of(product, args)[0], 2) == [axis]


def test_an_axis_that_meets_itself_is_not_cut():
    module, _ = module_of(square, (f16(32, 16), np.zeros((32, 32), np.float32), 32, 16))
    assert axes_of_stores(module, 2) == [None]


# --- meaning ----------------------------------------------------------------------------------------------------------
@triton.jit
def softmax(x, out, n, COLUMNS: tl.constexpr, ROWS: tl.constexpr):
    rows, columns = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    at = rows[:, None] * n + columns[None, :]
    v = tl.load(x + at, mask=columns[None, :] < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 1)[:, None])
    tl.store(out + at, e / tl.sum(e, 1)[:, None], mask=columns[None, :] < n)


@triton.jit
def ordered(x, out, N: tl.constexpr):
    """What needs whole tiles: orders, running sums, elements of others, counts."""
    i = tl.arange(0, N)
    v = tl.load(x + i)
    at = tl.sort(v)
    tl.store(out + i, at - v)
    tl.store(out + 4 * N + tl.arange(0, 4), tl.topk(v, 4))
    tl.store(out + N + i, tl.cumsum(v, 0) + tl.gather(v, N - 1 - i, 0))
    tl.store(out + 2 * N + i, tl.histogram(v & (N - 1), N))
    best, where = tl.max(v, 0, return_indices=True)
    tl.store(out + 3 * N, best)
    tl.store(out + 3 * N + 1, where)


@triton.jit
def counter(x, out, N: tl.constexpr):
    """Scalars that are loaded and stored again, and a ticket."""
    ticket = tl.atomic_add(x, 1)
    before = tl.load(x + 1)
    tl.store(x + 1, before + ticket + 5)
    tl.debug_barrier()
    i = tl.arange(0, N)
    old = tl.atomic_add(out + i, tl.load(x + 1) + i)
    while tl.atomic_cas(x + 2, 0, 1) == 1:
        pass
    tl.store(out + N + i, old + ticket)
    tl.atomic_xchg(x + 2, 0)


@triton.jit
def turned(x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + N - 1 - i, tl.load(x + i))


@triton.jit
def branches(x, out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    total = tl.zeros((N,), tl.int32)
    k = 0
    while k < n:
        v = tl.load(x + k * N + i)
        if tl.sum(v, 0) > 0:
            total += v
        else:
            total = tl.maximum(total, -v)
        k += 1
    a, b = tl.split(tl.reshape(total, (N // 2, 2)))
    tl.store(out + i, tl.reshape(tl.join(b, a), (N,)))


def integers(*shape):
    return rng.integers(-50, 50, shape).astype(np.int32)


CASES = {
    "softmax of a row": (softmax, (rng.standard_normal((2, 60)).astype("f4"), np.zeros((2, 60), "f4"), 60, 64, 1), 2),
    "softmax of rows": (softmax, (rng.standard_normal((8, 16)).astype("f4"), np.zeros((8, 16), "f4"), 16, 16, 4), 2),
    "product": (product, (f16(32, 32), f16(32, 32), np.zeros((32, 32), "f4"), 32, 32, 16, 2), 1),
    "square": (square, (f16(32, 16), np.zeros((32, 32), "f4"), 32, 16), 1),
    "ordered": (ordered, (integers(16), np.zeros(68, "i4"), 16), 1),
    "counter": (counter, (np.zeros(3, "i4"), np.zeros(32, "i4"), 16), 3),
    "turned": (turned, (integers(32), 32), 1),
    "branches": (branches, (integers(5, 16), np.zeros(16, "i4"), 5, 16), 1),
}


@pytest.mark.parametrize("backwards", [False, True], ids=["first first", "last first"])
@pytest.mark.parametrize("blocks", [2, 4])
@pytest.mark.parametrize("case", CASES)
def test_blocks_do_what_one_would(case, blocks, backwards):
    kernel, args, programs = CASES[case]
    module, values = module_of(kernel, args)
    mine, theirs = ([x.copy() if isinstance(x, np.ndarray) else x for x in values] for _ in range(2))
    interpret(module, theirs, (programs,))
    interpret_in_blocks(module, mine, (programs,), blocks=blocks, backwards=backwards)
    for x, y in zip(mine, theirs):
        np.testing.assert_allclose(x, y, rtol=1e-6)


def test_products_need_nothing_of_other_blocks():
    args = f16(64, 32), f16(32, 64), np.zeros((64, 64), np.float32), 64, 64, 16, 2
    module = module_of(product, args)[0]
    module = simplify_induction(module.replace(attrs={**module.attrs, "num_ctas": 2}))
    made = kinds(split_clusters(module, NvTarget.of(90)))
    assert gpu_ops.cluster_barrier not in made and gpu_ops.cluster_all_gather not in made


# --- options ----------------------------------------------------------------------------------------------------------
def compiled(arch, **options):
    source = ASTSource(softmax, {"x": "*fp32", "out": "*fp32", "n": "i32", "COLUMNS": "constexpr", "ROWS": "constexpr"},
                       {"COLUMNS": 1024, "ROWS": 1})  # fmt: skip
    return triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)


def test_machine_code_says_how_many_blocks():
    kernel = compiled(90, num_ctas=4)
    assert kernel.metadata.num_ctas == 4
    assert ".reqnctapercluster 4, 1, 1" in kernel.asm["ptx"] and "%clusterid.x" in kernel.asm["ptx"]
    alone = compiled(90).asm["ptx"]
    assert "nctapercluster" not in alone and "%ctaid.x" in alone


@pytest.mark.parametrize("arch", [75, 80, 86, 89])
def test_older_architectures_have_no_clusters(arch):
    with pytest.raises(ValueError, match=f"num_ctas=2 needs clusters of blocks, which sm_{arch} does not have"):
        compiled(arch, num_ctas=2)


def test_cpus_take_the_option_for_what_it_is():
    """A hint: there it has no meaning."""
    x, out = rng.standard_normal((2, 60)).astype("f4"), np.zeros((2, 60), "f4")
    softmax[(2,)](x, out, 60, 64, 1, num_ctas=2)
    np.testing.assert_allclose(out.sum(1), 1, rtol=1e-6)
