# Written by docs/make_stubs.py from the objects themselves: change those, and run it again.

from typing import Any

from .core import Four, Operand, Pair, constexpr, dtype, tensor

__all__: list[str]
N_ROUNDS_DEFAULT: constexpr


def _round_constants(dtype: dtype) -> Any:
    """The two multipliers and the two key increments of Philox for 32- and 64-bit words."""


def philox_impl(c0: Operand, c1: Operand, c2: Operand, c3: Operand, k0: Operand, k1: Operand,
                n_rounds: int = 10) -> Four:
    """`n_rounds` of Philox on four counter words and two key words, all uint32 or all uint64.

        c0, c1, c2, c3 = tl.philox_impl(c0, c1, c2, c3, k0, k1)
    """


def philox(seed: Operand, c0: Operand, c1: Operand, c2: Operand, c3: Operand, n_rounds: int = 10) -> Four:
    """Four random words from a seed and four counter words of 32 or 64 bits.

        a, b, c, d = tl.philox(seed, offsets, 0, 0, 0)
    """


def randint4x(seed: Operand, offset: Operand, n_rounds: int = 10) -> Four:
    """Four blocks of random uint32 numbers, one of each for every offset; the cheapest way to many.

        a, b, c, d = tl.randint4x(seed, offsets)
    """


def randint(seed: Operand, offset: Operand, n_rounds: int = 10) -> tensor:
    """A block of random uint32 numbers, one for every offset.

        bits = tl.randint(seed, offsets)
    """


def uint_to_uniform_float(x: Operand) -> tensor:
    """Random integers of 32 or 64 bits as float32 numbers in [0, 1).

        u = tl.random.uint_to_uniform_float(tl.randint(seed, offsets))
    """


def rand(seed: Operand, offset: Operand, n_rounds: int = 10) -> tensor:
    """Random float32 numbers, uniform in [0, 1), one for every offset.

        keep = tl.rand(seed, offsets) > p
    """


def rand4x(seed: Operand, offsets: Operand, n_rounds: int = 10) -> Four:
    """Four blocks of random float32 numbers, uniform in [0, 1).

        u0, u1, u2, u3 = tl.rand4x(seed, offsets)
    """


def pair_uniform_to_normal(u1: Operand, u2: Operand) -> Pair:
    """Two normal numbers from two uniform ones (Box and Muller).

        n1, n2 = tl.pair_uniform_to_normal(u1, u2)
    """


def randn(seed: Operand, offset: Operand, n_rounds: int = 10) -> tensor:
    """Random float32 numbers of a standard normal distribution, one for every offset.

        noise = tl.randn(seed, offsets)
    """


def randn4x(seed: Operand, offset: Operand, n_rounds: int = 10) -> Four:
    """Four blocks of random float32 numbers of a standard normal distribution.

        n0, n1, n2, n3 = tl.randn4x(seed, offsets)
    """
