"""Arguments of one launch that share memory: a block is loaded as a whole before any of it is stored, all the same."""

import numpy as np
import pytest
import torch

import tritium as triton
import tritium.language as tl
from tritium.backends.launcher.preconditions import Guard
from tritium.frontend import lower
from tritium.interp.eager import launch
from tritium.interp.machine import interpret
from tritium.ir.preconditions import preconditions_of
from tritium.ir.verify import verify

pytestmark = pytest.mark.sampled

N = 256  # several chunks
rng = np.random.default_rng(0)


@triton.jit
def move(x, y, n, stride_x, stride_y, N: tl.constexpr, HOW: tl.constexpr):
    i = tl.arange(0, N)
    if HOW == "copied":
        tl.store(y + i, tl.load(x + i) + 1)
    elif HOW == "masked":
        tl.store(y + i, tl.load(x + i, mask=i < n, other=7), mask=i < n)
    elif HOW == "reversed":
        tl.store(y + N - 1 - i, tl.load(x + i))
    elif HOW == "reversed, masked":
        tl.store(y + n - 1 - i, tl.load(x + i, mask=i < n), mask=i < n)
    elif HOW == "flipped":
        tl.store(y + i, tl.flip(tl.load(x + i), 0))
    elif HOW == "strided":
        tl.store(y + i * stride_y, tl.load(x + i * stride_x))
    elif HOW == "rotated":
        tl.store(y + (i + n) % N, tl.load(x + i))
    elif HOW == "scattered":
        tl.store(y + (i * 77) % N, tl.load(x + i))
    elif HOW == "permuted":  # what is stored depends on what was loaded
        v = tl.load(x + i)
        tl.store(y + (v % N + N) % N, i, mask=v % 2 == 0)
    elif HOW == "transposed":
        r, c = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
        tl.store(y + c * 16 + r, tl.load(x + r * 16 + c))
    elif HOW == "transposed, masked":
        r, c = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
        m = (r < n % 16) & (c < 13)
        tl.store(y + c * 16 + r, tl.load(x + r * 16 + c, mask=m), mask=m)
    elif HOW == "rows":
        r, c = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
        tl.store(y + r * stride_y + c, tl.load(x + r * stride_x + c))
    elif HOW == "summed":
        tl.store(y + i, tl.load(x + i) + tl.load(x + N - 1 - i))
    elif HOW == "both ways":  # two stores that hit the same elements in another order
        tl.store(x + i, i)
        tl.store(y + N - 1 - i, -i)
    elif HOW == "later":  # what was loaded is wanted after the store, too
        v = tl.load(x + i)
        tl.store(y + N - 1 - i, v)
        tl.store(y + N + i, v)
    elif HOW == "walked":
        p, q = x, y
        for _ in range(3):
            tl.store(q + N // 4 - 1 - tl.arange(0, N // 4), tl.load(p + tl.arange(0, N // 4)))
            p += N // 4
            q += stride_y
    elif HOW == "added":
        tl.atomic_add(y + N - 1 - i, tl.load(x + i))
    elif HOW == "exchanged":
        tl.store(x + i, tl.atomic_xchg(y + N - 1 - i, tl.load(x + i)))
    else:
        tl.atomic_cas(y + N - 1 - i, tl.load(x + i), i)


HOW = ["copied", "masked", "reversed", "reversed, masked", "flipped", "strided", "rotated", "scattered", "permuted",
       "transposed", "transposed, masked", "rows", "summed", "both ways", "later", "walked", "added", "exchanged",
       "cas"]  # fmt: skip
PLACES = [(0, 0), (0, 1), (1, 0), (0, 8), (0, N - 1), (N - 1, 0), (0, N), (N, 0), (5, 70)]
SIGNATURE = {"x": "*i32", "y": "*i32", "n": "i32", "stride_x": "i32", "stride_y": "i32"}


def eagerly(args, how):
    launch(move, (1,), args, {"N": N, "HOW": how})


def on_machine(args, how):
    interpret(verify(lower(move, SIGNATURE, {"N": N, "HOW": how})), args, (1,))


def compiled(args, how):
    move[(1,)](*args, N=N, HOW=how)


def of_torch(args, how):
    move[(1,)](*[torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in args], N=N, HOW=how)


def outcome(run, how, place, strides=(2, 2)):
    """All of the memory after a launch whose arguments begin at these places of it."""
    memory = np.random.default_rng(1).integers(-1000, 1000, 20 * N).astype(np.int32)
    x, y = (memory[at:] for at in place)
    run([x, y, 100, *strides], how)
    return memory


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("how", HOW)
def test_shared_memory(how, place):
    expected = outcome(eagerly, how, place)
    for run in (on_machine, compiled, of_torch):
        np.testing.assert_array_equal(outcome(run, how, place), expected, err_msg=run.__name__)


@pytest.mark.parametrize("how, strides", [
    *[("strided", s) for s in [(2, 2), (2, 3), (3, 2), (2, -1), (0, 2), (17, 16), (16, 17)]],
    *[("rows", s) for s in [(16, 16), (16, 17), (17, 16), (2, 16), (0, 20), (16, -16)]],
], ids=str)  # fmt: skip
def test_strides(how, strides):
    place = (2 * N, 2 * N)
    np.testing.assert_array_equal(outcome(compiled, how, place, strides), outcome(eagerly, how, place, strides))


@triton.jit
def bump(x, y, stride, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr, HOW: tl.constexpr):
    r, c = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    if HOW == "stride":
        tl.store(x + r * stride + c, tl.load(x + r * stride + c) + 1)
    elif HOW == "two":
        tl.store(y + r * stride + c, tl.load(x + r * stride + c) + 1)
    elif HOW == "masked":
        tl.store(x + r * stride + c, tl.load(x + r * stride + c, mask=c < n) + 1, mask=c < n)
    elif HOW == "half masked":
        tl.store(x + r * stride + c, tl.load(x + r * stride + c) + 1, mask=c < n)
    elif HOW == "turned":
        tl.store(x + c * stride + r, tl.load(x + c * stride + r) + 1)
    elif HOW == "carried":
        at = r * stride + c
        for _ in range(2):
            tl.store(x + at, tl.load(x + at) + 1)
            at += 1000
    else:
        tl.store(x + r * 2 + c, tl.load(x + r * 2 + c) + 1)


@pytest.mark.parametrize("stride", [64, 65, 32, 20, 2, 1, 0, -2, -64])
@pytest.mark.parametrize("how", ["stride", "two", "masked", "half masked", "turned", "carried", "constant"])
def test_elements_that_a_block_has_twice(how, stride):
    """All positions load before any of them stores, and all of one element store the same."""
    found, expected = (np.arange(16000, dtype=np.int32) for _ in range(2))
    r, c = np.indices((16, 64))
    n = 20 if how in ("masked", "half masked") else 64
    at = {"turned": c * stride + r, "constant": r * 2 + c}.get(how, r * stride + c)[:, :n]
    for start in (6000, 7000) if how == "carried" else (6000,):
        expected[at + start] += 1
    x = found[6000:]
    kernel = bump[(1,)](x, x, stride, n, ROWS=16, COLUMNS=64, HOW=how)
    np.testing.assert_array_equal(found, expected)
    if how != "constant" and stride != 1:  # these are known when the kernel is compiled
        assert others(kernel) == (stride < {"masked": 20, "turned": 16}.get(how, 64))


@triton.jit
def narrow(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + i).to(tl.int16))


@triton.jit
def wide(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + i).to(tl.int32))


def test_elements_of_other_sizes_are_not_in_step():
    values = rng.integers(-1000, 1000, N)
    memory = values.astype(np.int32)
    narrow[(1,)](memory, memory.view(np.int16), N=N)
    np.testing.assert_array_equal(memory.view(np.int16)[:N], values)
    wide[(1,)](memory.view(np.int16), memory, N=N)
    np.testing.assert_array_equal(memory, values)


# --- how many kernels there are ---------------------------------------------------------------------------------------
@triton.jit
def add(x, y, z, n, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    inside = i < n
    tl.store(z + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


@triton.jit
def scale(x, y, stride_x, stride_y, n, N: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, N)
    tl.store(y + row * stride_y + i, tl.load(x + row * stride_x + i, mask=i < n) * 2, mask=i < n)


@triton.jit
def double(x, y, stride, n, N: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, N)
    tl.store(y + row * stride + i, tl.load(x + row * stride + i, mask=i < n) * 2, mask=i < n)


@triton.jit
def reverse(x, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + n - 1 - i, tl.load(x + i, mask=i < n), mask=i < n)


def others(kernel):
    """Whether a kernel had to be compiled again for launches it is not fit for."""
    return bool(kernel.launcher._checks.other)


def floats(n, start=0):
    memory = np.zeros(n + 16, np.float32)
    at = -memory.ctypes.data % 64 // 4
    memory = memory[at:at + n]
    memory[:] = np.arange(n) + start
    return memory


def test_element_wise_kernels_in_place_are_compiled_once():
    x, y = floats(1000), floats(1000, 5)
    expected = x + y
    kernel = add[(1,)](x, y, x, 1000, N=1024)
    np.testing.assert_array_equal(x, expected)
    assert preconditions_of(kernel.metadata).disjoint and not others(kernel) and kernel.metadata.arena_bytes == 0


@pytest.mark.parametrize("n", [48, 960, 3008])
def test_neighbours_are_apart(n):
    """Arrays that touch are not shared, masked as they are; nor are those of which no program sees both."""
    memory = floats(3 * n)
    expected = memory[:n] + memory[n:2 * n]
    kernel = add[(triton.cdiv(n, 1024),)](memory, memory[n:], memory[2 * n:], n, N=1024)
    np.testing.assert_array_equal(memory[2 * n:], expected)
    assert not others(kernel)


def test_columns_of_one_matrix_are_apart():
    memory = floats(8 * 64).reshape(8, 64)
    left, right = memory[:, :32], memory[:, 32:]
    expected = left * 2
    kernel = double[(8,)](left, right, 64, 32, N=32)
    np.testing.assert_array_equal(right, expected)
    assert not others(kernel)


@triton.jit
def rotate_halves(x, y, z, N: tl.constexpr):
    """Two stores to parts of the same rows, from two other parts; one index runs over all rows."""
    i = tl.program_id(0) * N + tl.arange(0, N)
    at = i % 16 + 64 * (i // 16)
    a, b = tl.load(x + at), tl.load(x + 16 + at)
    tl.store(y + at, a - b)
    tl.store(z + at, a + b)


@pytest.mark.parametrize("y", [0, 1, 16, 20, 32, 48, 64, 128, 4096])
@pytest.mark.parametrize("z", [0, 15, 16, 17, 32, 47, 48, 64, 96, 4096 + 16])
def test_interleaved_rows_are_apart(y, z):
    found, expected = floats(12000), floats(12000)
    kernel = rotate_halves[(4,)](found[2048:], found[2048 + y:], found[2048 + z:], N=128)
    launch(rotate_halves, (4,), [expected[2048:], expected[2048 + y:], expected[2048 + z:]], {"N": 128})
    np.testing.assert_array_equal(found, expected)
    assert preconditions_of(kernel.metadata).disjoint
    kernel.launcher._checks.other = None
    interleaved = all(16 <= d % 64 <= 48 or d >= 4096 for d in (abs(z - y), y, z, abs(y - 16), abs(z - 16)))
    if interleaved:
        rotate_halves[(4,)](found[2048:], found[2048 + y:], found[2048 + z:], N=128)
        assert not others(kernel)


def test_rows_in_place_are_compiled_once():
    x = floats(8 * 64).reshape(8, 64)
    expected = x * 2
    kernel = scale[(8,)](x, x, 64, 64, 50, N=64)
    np.testing.assert_array_equal(x[:, :50], expected[:, :50])
    assert not others(kernel)


def test_launches_go_to_the_kernel_that_is_fit(monkeypatch):
    asked, hold = [], Guard.hold
    monkeypatch.setattr(Guard, "hold", lambda *args: asked.append(1) or hold(*args))
    reverse.device_caches.clear()
    x, y = floats(256), floats(256)
    kernels = set()
    for _ in range(5):
        kernels.add(reverse[(1,)](x, y, 256, N=256))
        np.testing.assert_array_equal(y, x[::-1])
        kernels.add(reverse[(1,)](x, x, 256, N=256))
        np.testing.assert_array_equal(x, y)
    kernel, = kernels
    assert others(kernel) and kernel.metadata.arena_bytes == 0
    assert len(asked) == 2  # for the first launch, and to have the other kernel compiled
    for n in (250, 200, 250, 200):
        reverse[(1,)](x, y, n, N=256)
    assert len(asked) == 4  # 250 is specialised as 200 is; each was asked once


def test_launches_of_a_compiled_kernel():
    x, y = floats(256), floats(256)
    kernel = reverse.warmup(x, y, 256, N=256, grid=(1,))
    expected = x[::-1].copy()
    kernel[(1, 1, 1)](x, x, 256, 256)
    np.testing.assert_array_equal(x, expected)


def test_what_goes_wrong_while_compiling_again_is_raised():
    reverse.device_caches.clear()
    x, y = floats(256), floats(256)
    kernel = reverse[(1,)](x, y, 256, N=256)

    def refuse():
        raise RuntimeError("there is no other")

    kernel.launcher.fallback = refuse
    with pytest.raises(RuntimeError, match="there is no other"):
        reverse[(1,)](x, x, 256, N=256)
    np.testing.assert_array_equal(x, floats(256))
    reverse[(1,)](x, y, 256, N=256)
    np.testing.assert_array_equal(y, x[::-1])
    reverse.device_caches.clear()


def test_without_checks_nothing_is_taken_for_granted():
    x = floats(256)
    expected = x[::-1].copy()
    kernel = reverse[(1,)](x, x, 256, N=256, launch_checks=False)
    np.testing.assert_array_equal(x, expected)
    assert kernel.metadata.preconditions == {} and kernel.metadata.arena_bytes > 0


def test_addresses_as_arguments():
    """An address says as much as a tensor: what is accessed follows from the kernel."""
    x = floats(256)
    kernel = reverse.warmup(x, x, 256, N=256, grid=(1,))
    expected = x[::-1].copy()
    kernel[(1, 1, 1)](x.ctypes.data, x.ctypes.data, 256, 256)
    np.testing.assert_array_equal(x, expected)


@triton.jit
def resize(x, y, n, SIZE: tl.constexpr, N: tl.constexpr):
    """The nearest and the next element of a row that is read at twice the steps; indices come about through floats."""
    i = tl.program_id(0) * N + tl.arange(0, N)
    at = (i % (2 * SIZE)).to(tl.float32) * 0.5 - 0.25
    first = tl.where((at > 0) | (at != at), at, 0.0).to(tl.int32)
    row = i // (2 * SIZE) * SIZE
    a, b = tl.load(x + row + first, i < n), tl.load(x + row + tl.minimum(first + 1, SIZE - 1), i < n)
    tl.store(y + i, a + (b - a) * (at - first), i < n)


@pytest.mark.parametrize("place", [256, 200, 60, 0, -63, -64, -127, -128, -200, -256, -400])
def test_indices_that_come_about_through_floats(place):
    """What they reach is known, so launches are told apart, and whatever meets is loaded before it is stored."""
    found, expected = floats(2000), floats(2000)
    kernel = resize[(4,)](found[1000:], found[1000 + place:], 256, SIZE=32, N=64)
    launch(resize, (4,), [expected[1000:], expected[1000 + place:], 256], {"SIZE": 32, "N": 64})
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert preconditions_of(kernel.metadata).disjoint and kernel.metadata.arena_bytes == 0
    if place == 256:
        assert not others(kernel)
