"""Tiles with padded rows, `tl.zeros((32, 33))`: written and read by their elements, calculated with by operators."""

import warnings

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.runtime import interpreter

pytestmark = pytest.mark.filterwarnings("ignore:a tile of shape")


@triton.jit
def doubled(tile):
    return tile + tile


@triton.jit
def turn_kernel(x_ptr, out_ptr, rows, SIZE: tl.constexpr):
    padded = SIZE + 1
    tile = tl.full((SIZE, SIZE + 1), 1, tl.float32)
    tl.static_assert(tile.shape[1] == SIZE + 1 and tile.numel == SIZE * (SIZE + 1) and tile.dtype == tl.float32)
    for i in range(rows):
        for j in range(SIZE):
            tile[i, j] = tl.load(x_ptr + i * SIZE + j)
    tile[0, -1] += 6
    if rows > 1:
        tile = 3 - doubled(tile) * tl.arange(0, SIZE)[:, None]
    tile = -tile.to(tl.int32)
    small = tile <= 0
    for i in range(SIZE):
        for j in range(padded):
            tl.store(out_ptr + j * SIZE + i, tl.where(small[i, j], tile[i, j], 1000))


@triton.jit
def seed_kernel(out_ptr):
    # With padding to avoid bank conflicts
    BLOCK_SIZE = 32
    PADDED_SIZE = 33  # Add padding to avoid conflicts
    shared_mem = tl.zeros((BLOCK_SIZE, PADDED_SIZE), dtype=tl.float32)
    tl.store(out_ptr, shared_mem[31, 32])

    # Without padding (may have bank conflicts)
    shared_mem = tl.zeros((BLOCK_SIZE, BLOCK_SIZE), dtype=tl.float32)
    tl.store(out_ptr + 1, tl.sum(shared_mem))


def both_ways(kernel):
    return [pytest.param(kernel, id="compiled"), pytest.param(interpreter.InterpretedFunction(kernel.fn), id="eager")]


@pytest.mark.parametrize("kernel", both_ways(turn_kernel))
def test_elements_and_operators(kernel):
    x, out = np.arange(-4, 12, dtype=np.float32).reshape(4, 4), np.zeros((5, 4), np.float32)
    kernel[(1,)](x, out, 3, SIZE=4)
    tile = np.ones((4, 5), np.float32)
    tile[:3, :4], tile[0, 4] = x[:3], 7
    tile = 2 * tile * np.arange(4)[:, None] - 3
    assert np.array_equal(out.T, np.where(tile <= 0, tile, 1000))


@pytest.mark.parametrize("kernel", both_ways(seed_kernel))
def test_the_program_of_the_document_says_what_its_padding_is(kernel):
    out = np.ones(2, np.float32)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        kernel[(1,)](out)
    assert not out.any()
    assert [w.filename for w in found] == [__file__]
    assert r"shape (32, 33) takes the room of (32, 64), and is no shared memory" in str(found[0].message)


def refused(expression, eager):
    """The error of a kernel that evaluates `expression` with a padded tile `t`."""
    kernel = triton.jit(make(expression))
    with pytest.raises(Exception) as raised:
        (interpreter.InterpretedFunction(kernel.fn) if eager else kernel)[(1,)](np.zeros(64, np.float32))
    return str(raised.value)


def make(expression):
    import importlib.util
    import linecache
    name = f"padded_{abs(hash(expression))}.py"
    text = f"def kernel(x_ptr):\n    t = tl.zeros((4, 5), tl.float32)\n    {expression}\n"
    linecache.cache[name] = len(text), None, text.splitlines(True), name
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader=None))
    module.tl = tl
    exec(compile(text, name, "exec"), vars(module))
    return module.kernel


@pytest.mark.parametrize("eager", [False, True], ids=["compiled", "eager"])
@pytest.mark.parametrize("expression, phrase", [
    ("tl.zeros((5,), tl.float32)", "Shape element 0 must be a power of 2"),
    ("tl.zeros((4, 6), tl.float32)", "Shape element 1 must be a power of 2"),
    ("tl.zeros((3, 5), tl.float32)", "Shape element 0 must be a power of 2"),
    ("tl.store(x_ptr, tl.sum(t))", "Use (4, 8) and mask what is past the end"),
    ("y = t[0, 5]", "index 5 is out of range for axis 1 of size 5"),
    ("t[:, 1] = 0.0", "unsupported tensor index"),
    ("y = t + tl.arange(0, 8)", "incompatible dimensions at index 1: 5 and 8"),
    ("y = x_ptr + t", "a pointer does not move by a tile of shape (4, 5)"),
])
def test_what_is_refused(expression, phrase, eager):
    assert phrase in refused(expression, eager)
