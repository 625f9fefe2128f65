"""Random numbers: Philox counters, the same stream on every target. Written in the language itself."""

from __future__ import annotations

from . import core
from .core import constexpr
from .source.function import constexpr_function, device

__all__ = [
    "pair_uniform_to_normal", "philox", "philox_impl", "rand", "rand4x", "randint", "randint4x", "randn", "randn4x",
    "uint_to_uniform_float",
]  # fmt: skip

N_ROUNDS_DEFAULT: constexpr = constexpr(10)


@constexpr_function
def _round_constants(dtype):
    """The two multipliers and the two key increments of Philox for 32- and 64-bit words."""
    words = {"uint32": (0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85),
             "uint64": (0xD2E7470EE14C6C93, 0xCA5A826395121157, 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)}
    if dtype.name not in words:
        raise ValueError(f"philox works on uint32 or uint64 words, got {dtype}")
    return words[dtype.name]


@device
def philox_impl(c0, c1, c2, c3, k0, k1, n_rounds: constexpr = N_ROUNDS_DEFAULT) -> core.Four:
    """`n_rounds` of Philox on four counter words and two key words, all uint32 or all uint64.

        c0, c1, c2, c3 = tl.philox_impl(c0, c1, c2, c3, k0, k1)
    """
    words: constexpr = _round_constants(c0.dtype)
    for _ in core.static_range(n_rounds):
        high0, low0 = core.umulhi(words[0], c0), core.mul(c0, words[0], sanitize_overflow=False)
        high1, low1 = core.umulhi(words[1], c2), core.mul(c2, words[1], sanitize_overflow=False)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0 = core.add(k0, words[2], sanitize_overflow=False)
        k1 = core.add(k1, words[3], sanitize_overflow=False)
    return c0, c1, c2, c3


@device
def philox(seed, c0, c1, c2, c3, n_rounds: constexpr = N_ROUNDS_DEFAULT) -> core.Four:
    """Four random words from a seed and four counter words of 32 or 64 bits.

        a, b, c, d = tl.philox(seed, offsets, 0, 0, 0)
    """
    seed = core.to_tensor(seed)
    core.static_assert(seed.dtype.is_int(), "the seed of philox must be an integer: of a tensor pass x.item()")
    key = seed.to(core.uint64)
    c0, c1, c2, c3 = core.to_tensor(c0), core.to_tensor(c1), core.to_tensor(c2), core.to_tensor(c3)
    if c0.dtype.primitive_bitwidth == 32:
        return philox_impl(c0.to(core.uint32), c1.to(core.uint32), c2.to(core.uint32), c3.to(core.uint32),
                           key.to(core.uint32), (key >> 32).to(core.uint32), n_rounds)
    else:
        core.static_assert(c0.dtype.primitive_bitwidth == 64, "the counters of philox must have 32 or 64 bits")
        return philox_impl(c0.to(core.uint64), c1.to(core.uint64), c2.to(core.uint64), c3.to(core.uint64),
                           key, core.full((), 0, core.uint64), n_rounds)


@device
def randint4x(seed, offset, n_rounds: constexpr = N_ROUNDS_DEFAULT) -> core.Four:
    """Four blocks of random uint32 numbers, one of each for every offset; the cheapest way to many.

        a, b, c, d = tl.randint4x(seed, offsets)
    """
    at = core.to_tensor(offset)
    zero = core.full(at.shape, 0, core.uint32)
    if at.dtype.primitive_bitwidth > 32:
        return philox(seed, at.to(core.uint32), (at >> 32).to(core.uint32), zero, zero, n_rounds)
    else:
        return philox(seed, at.to(core.uint32), zero, zero, zero, n_rounds)


@device
def randint(seed, offset, n_rounds: constexpr = N_ROUNDS_DEFAULT):
    """A block of random uint32 numbers, one for every offset.

        bits = tl.randint(seed, offsets)
    """
    word, _, _, _ = randint4x(seed, offset, n_rounds)
    return word


@device
def uint_to_uniform_float(x):
    """Random integers of 32 or 64 bits as float32 numbers in [0, 1).

        u = tl.random.uint_to_uniform_float(tl.randint(seed, offsets))
    """
    if x.dtype.primitive_bitwidth == 32:
        bits = x.to(core.int32, bitcast=True)
        return core.where(bits < 0, ~bits, bits).to(core.float32) * 4.6566127342e-10
    else:
        core.static_assert(x.dtype.primitive_bitwidth == 64, "uint_to_uniform_float takes 32- or 64-bit integers")
        bits = x.to(core.int64, bitcast=True)
        return core.where(bits < 0, ~bits, bits).to(core.float32) * 1.0842020432385337e-19


@device
def rand(seed, offset, n_rounds: constexpr = N_ROUNDS_DEFAULT):
    """Random float32 numbers, uniform in [0, 1), one for every offset.

        keep = tl.rand(seed, offsets) > p
    """
    return uint_to_uniform_float(randint(seed, offset, n_rounds))


@device
def rand4x(seed, offsets, n_rounds: constexpr = N_ROUNDS_DEFAULT) -> core.Four:
    """Four blocks of random float32 numbers, uniform in [0, 1).

        u0, u1, u2, u3 = tl.rand4x(seed, offsets)
    """
    i0, i1, i2, i3 = randint4x(seed, offsets, n_rounds)
    return uint_to_uniform_float(i0), uint_to_uniform_float(i1), uint_to_uniform_float(i2), uint_to_uniform_float(i3)


@device
def pair_uniform_to_normal(u1, u2) -> core.Pair:
    """Two normal numbers from two uniform ones (Box and Muller).

        n1, n2 = tl.pair_uniform_to_normal(u1, u2)
    """
    radius = core.sqrt(-2.0 * core.log(core.maximum(1.0e-7, u1)))
    angle = 6.283185307179586 * u2
    return radius * core.cos(angle), radius * core.sin(angle)


@device
def randn(seed, offset, n_rounds: constexpr = N_ROUNDS_DEFAULT):
    """Random float32 numbers of a standard normal distribution, one for every offset.

        noise = tl.randn(seed, offsets)
    """
    i1, i2, _, _ = randint4x(seed, offset, n_rounds)
    n1, _ = pair_uniform_to_normal(uint_to_uniform_float(i1), uint_to_uniform_float(i2))
    return n1


@device
def randn4x(seed, offset, n_rounds: constexpr = N_ROUNDS_DEFAULT) -> core.Four:
    """Four blocks of random float32 numbers of a standard normal distribution.

        n0, n1, n2, n3 = tl.randn4x(seed, offsets)
    """
    u1, u2, u3, u4 = rand4x(seed, offset, n_rounds)
    n1, n2 = pair_uniform_to_normal(u1, u2)
    n3, n4 = pair_uniform_to_normal(u3, u4)
    return n1, n2, n3, n4
