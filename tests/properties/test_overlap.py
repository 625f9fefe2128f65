"""Random kernels that move elements between two arguments, which may share memory: eager and compiled agree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tritium.frontend import lower
from tritium.interp.eager import launch
from tritium.interp.machine import interpret
from tritium.ir.verify import verify

N = 64
HEADER = '''import tritium as triton
import tritium.language as tl


@triton.jit
def kernel(x, y, order, n, step, N: tl.constexpr):
    base = tl.program_id(0) * N
    i = tl.arange(0, N)
    r, c = tl.arange(0, 8)[:, None], tl.arange(0, 8)[None, :]
    p = tl.load(order + i)
'''
# Where elements are: each is a permutation of N of them (`step` is odd).
FLAT = ("i", "N - 1 - i", "(i + n) % N", "(i * step) % N", "p", "(i ^ 5)", "(base + i) % N")
SQUARE = ("r * 8 + c", "c * 8 + r", "(7 - r) * 8 + c", "r * 8 + (c ^ 3)", "(r * 8 + c + n) % N")
MASKS = {"i": ("", "i < n", "(i >= 3) & (i < n)", "p < n"), "r": ("", "c < 5", "(r < n) & (c < 7)", "r * 8 + c < n")}
POINTERS = ("x", "y", "x + 1", "y + 2", "x + n")


@st.composite
def kernels(draw):
    """A few statements that load, compute and store."""
    lines, pick = [], lambda options: draw(st.sampled_from(options))
    for k in range(draw(st.integers(1, 3))):
        offsets, names = (FLAT, "i") if draw(st.booleans()) else (SQUARE, "r")

        def access(offsets=offsets):
            return f"{pick(POINTERS)} + {pick(offsets)}"

        mask = pick(MASKS[names])
        masked = f", mask={mask}" if mask else ""
        lines.append(f"v{k} = tl.load({access()}{masked}{', other=-1' if masked else ''})")
        if draw(st.booleans()):
            lines.append(f"v{k} += tl.load({access()})")
        if draw(st.booleans()):
            lines.append(f"v{k} -= tl.sum(v{k})")
        lines.append(pick([f"tl.store({access()}, v{k}{masked})", f"tl.store({access()}, v{k}{masked})",
                           f"tl.atomic_add({access()}, v{k}{masked})"]))
        if draw(st.booleans()):
            lines.append(f"tl.store({access()}, v{k} * 3)")
    if draw(st.booleans()):
        lines = ["for t in range(step % 4):", *[f"    {line}" for line in lines], "    x += 1"]
    return HEADER + "".join(f"    {line}\n" for line in lines)


def eagerly(kernel, args):
    launch(kernel, (1,), args, {"N": N})


def on_machine(kernel, args):
    signature = {"x": "*i32", "y": "*i32", "order": "*i32", "n": "i32", "step": "i32"}
    interpret(verify(lower(kernel, signature, {"N": N})), args, (1,))


def compiled(kernel, args):
    kernel[(1,)](*args, N)


def outcome(run, kernel, places, n, step):
    rng = np.random.default_rng(n)
    memory = rng.integers(-100, 100, 6 * N).astype(np.int32)
    order = rng.permutation(N).astype(np.int32)
    run(kernel, [memory[places[0]:], memory[places[1]:], order, n, step])
    return memory


@pytest.mark.parametrize("way", [on_machine, compiled])
@given(text=kernels(), places=st.lists(
    st.tuples(*[st.sampled_from([0, 1, 4, 16, N - 1, N, 2 * N])] * 2), min_size=1, max_size=4),
    n=st.sampled_from([0, 3, 40, N]), step=st.sampled_from([3, 5, 7]))
def test_eager_and_compiled_agree(load, way, text, places, n, step):
    kernel = load(text)
    for place in places:
        found, expected = (outcome(run, kernel, place, n, step) for run in (way, eagerly))
        assert np.array_equal(found, expected), f"{text}\n{place}"
