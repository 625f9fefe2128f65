"""Small branches between tiles as selects: which are replaced, and what kernels with them compute."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.backends.cpu.fuse.flatten_branches import flatten_branches
from tritium.ir.core import walk
from tritium.ir.text import parse_module
from tritium.ir.verify import verify


def branch(side, other="%o = mul %x, %x : tile<16xf32>", kind="f32"):
    return verify(parse_module(f"""kernel @f(%p: ptr<{kind}>, %c: i1, %n: i32) {{
      %k = splat %p {{shape=(16,)}} : tile<16xptr<{kind}>>
      %i = arange {{start=0, end=16}} : tile<16xi32>
      %at = addptr %k, %i : tile<16xptr<{kind}>>
      %x = load %at : tile<16x{kind}>
      %r = if %c : tile<16x{kind}> {{
        {side}
        yield %s
      }} {{
        {other}
        yield %o
      }}
      store %at, %r
    }}"""))


@pytest.mark.parametrize("side", [
    "%s = add %x, %x : tile<16xf32>",
    "%s = div %x, %x : tile<16xf32>",
    "%z = constant {value=1.0, type=f32} : f32 %s = splat %z {shape=(16,)} : tile<16xf32>",
])
def test_a_small_branch_becomes_a_select(side):
    kinds = [op.kind.name for op in walk(flatten_branches(branch(side)).body)]
    assert "if" not in kinds and "select" in kinds


@pytest.mark.parametrize("side, other, kind", [
    ("%s = exp %x : tile<16xf32>", "%o = mul %x, %x : tile<16xf32>", "f32"),  # costs more than memory
    ("%s = div %x, %x : tile<16xi32>", "%o = mul %x, %x : tile<16xi32>", "i32"),  # may divide by zero
    ("%s = load %at : tile<16xf32>", "%o = mul %x, %x : tile<16xf32>", "f32"),  # may be out of bounds
    ("store %at, %x %s = add %x, %x : tile<16xf32>", "%o = mul %x, %x : tile<16xf32>", "f32"),
    (" ".join(["%a0 = add %x, %x : tile<16xf32>",
               *[f"%a{k} = add %a{k - 1}, %x : tile<16xf32>" for k in range(1, 16)],
               "%s = add %a15, %x : tile<16xf32>"]), "%o = mul %x, %x : tile<16xf32>", "f32"),
])
def test_other_branches_stay(side, other, kind):
    module = branch(side, other, kind)
    assert flatten_branches(module) is module


def test_a_side_that_hands_on_a_tile_in_memory_stays():
    module = verify(parse_module("""kernel @f(%n: i32, %s: tile<16xf32>, %c: i1) {
      %0 = constant {value=1, type=i32} : i32
      %1 = for %0, %n, %0, %s : tile<16xf32> {
      ^(%i: i32, %sum: tile<16xf32>):
        %2 = if %c : tile<16xf32> {
          %3 = add %sum, %sum : tile<16xf32>
          yield %3
        } {
          yield %sum
        }
        yield %2
      }
      print %1 {prefix=""}
    }"""))
    assert flatten_branches(module) is module


@triton.jit
def _combine(mean_1, m2_1, weight_1, mean_2, m2_2, weight_2):
    delta = mean_2 - mean_1
    weight = weight_1 + weight_2
    part = tl.where(weight == 0.0, 0.0, weight_2 / weight)
    return mean_1 + delta * part, m2_1 + m2_2 + delta * delta * weight_1 * part, weight


@triton.jit
def moments(x_ptr, mean_ptr, m2_ptr, rows, n, ROWS: tl.constexpr, N: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    mean = tl.zeros([ROWS, N], tl.float32)
    m2 = tl.zeros([ROWS, N], tl.float32)
    weight = tl.zeros([ROWS, N], tl.float32)
    for start in tl.range(0, n, N):
        i = start + tl.arange(0, N)[None, :]
        mask = (i < n) & (row < rows)
        x = tl.load(x_ptr + row * n + i, mask, other=0.0)
        if start == 0:
            new_weight = tl.full(weight.shape, 1, tl.float32)
            new_mean = x
            new_m2 = tl.zeros_like(m2)
        else:
            delta = x - mean
            new_weight = weight + 1
            new_mean = mean + delta / new_weight
            new_m2 = m2 + delta * (x - new_mean)
        mean = tl.where(mask, new_mean, mean)
        m2 = tl.where(mask, new_m2, m2)
        weight = tl.where(mask, new_weight, weight)
    mean, m2, weight = tl.reduce((mean, m2, weight), 1, _combine)
    index = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    tl.store(mean_ptr + index, mean, index < rows)
    tl.store(m2_ptr + index, m2, index < rows)


@pytest.mark.parametrize("n", [1, 63, 64, 65, 1000])
@pytest.mark.parametrize("rows, block", [(5, 1), (6, 4)])
def test_running_moments(rows, block, n):
    x = np.random.default_rng(n).standard_normal((rows, n)).astype(np.float32) + 100
    mean, m2 = np.zeros(rows, np.float32), np.zeros(rows, np.float32)
    moments[(-(-rows // block),)](x, mean, m2, rows, n, ROWS=block, N=64)
    exact = x.astype(np.float64)
    assert np.allclose(mean, exact.mean(1), rtol=1e-5)
    assert np.allclose(m2, exact.var(1) * n, rtol=1e-3, atol=1e-3 * n)


def test_the_side_not_taken_leaves_no_trace():
    """NaN and infinity of one side do not reach the other."""
    x = np.array([[np.nan, np.inf, -np.inf, 1.0]], np.float32)
    mean, m2 = np.zeros(1, np.float32), np.zeros(1, np.float32)
    moments[(1,)](x[:, 3:], mean, m2, 1, 1, ROWS=1, N=64)
    assert mean[0] == 1 and m2[0] == 0
    moments[(1,)](x, mean, m2, 1, 4, ROWS=1, N=64)
    assert np.isnan(mean[0])
