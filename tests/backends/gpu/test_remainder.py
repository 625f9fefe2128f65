"""The exact remainder of floats: its LLVM text, compiled for this CPU and compared with NumPy."""

import ctypes

import numpy as np
import pytest

from tritium.backends.llvm.jit import load
from tritium.backends.llvm.target import compile_text, cpu_target
from tritium.backends.nvptx.isa.remainder import function


def compiled(kind):
    """A function of two arrays: the routine on every pair."""
    integer = {"float": "i32", "double": "i64"}[kind]
    text = f"""declare {integer} @llvm.ctlz.{integer}({integer}, i1)
        declare {integer} @llvm.smax.{integer}({integer}, {integer})
        {function(kind)}
        define {kind} @call({kind} %x, {kind} %y) {{
          %r = call {kind} @tritium.remainder.{kind}({kind} %x, {kind} %y)
          ret {kind} %r
        }}"""
    library = load(compile_text(text, cpu_target(), opt=0))
    c = {"float": ctypes.c_float, "double": ctypes.c_double}[kind]
    call = ctypes.CFUNCTYPE(c, c, c)(library.address("call"))
    return library, lambda xs, ys: np.array([call(x, y) for x, y in zip(xs.tolist(), ys.tolist())], xs.dtype)


@pytest.mark.parametrize("kind", ["float", "double"])
def test_remainder_is_exact(kind):
    dtype = np.float32 if kind == "float" else np.float64
    bits = np.dtype(f"u{np.dtype(dtype).itemsize}")
    rng = np.random.default_rng(3)
    library, remainder = compiled(kind)
    special = np.array([0.0, -0.0, 1, -1, 1.5, np.inf, -np.inf, np.nan, np.finfo(dtype).tiny, 5e-324, 1e-45,
                        np.finfo(dtype).max, 3, 0.1, 7.25], dtype)  # fmt: skip
    pairs = np.array(np.meshgrid(special, special)).reshape(2, -1)
    wild = rng.integers(0, np.iinfo(bits).max, (2, 2000), dtype=bits).view(dtype)  # any exponents, some NaNs
    near = rng.uniform(-100, 100, (2, 500)).astype(dtype)
    for xs, ys in (pairs, wild, near):
        with np.errstate(all="ignore"):
            expected = np.fmod(xs, ys)
        found = remainder(xs, ys)
        np.testing.assert_array_equal(found, expected)
        zeros = expected == 0
        assert (np.signbit(found[zeros]) == np.signbit(expected[zeros])).all()
    assert library
