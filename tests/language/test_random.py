"""Philox streams, bit for bit."""

import numpy as np
import pytest
from builders import evaluate

import tritium.language as tl

WORDS = """
0            0            6627e8d5 e169c58d bc57ac4c 9b00dbd8
0            1            f8e4cca4 5cb200db b1a574eb 097eff67
0            2            04faa329 51c732a6 241513ad 459135e4
0            -1           c5b20a9d 4434ec4e 11bbe4fb 2a1ef7a5
0            -1L          f3ce744d dfb9980f 5a7caad1 25d14252
0            4294967301L  ac2fbcca 3b76c518 fb062940 826df881
42           0            9ceaf053 77f5493b 12bf50ad 5742b3d7
42           1            fcdb2127 53ba6cfd 838f5a6e 744e06fb
42           2            d36c0225 a8875dcb 9a4d6d99 c609a559
42           7            5bbd83b1 68784c85 172067aa 2e6b75b7
-1           0            72a47709 15474739 9f41b01f 22799a5a
-1           1            19fed511 4b67e034 9d2c02e2 9fe857b4
fcafeb0baX   0            f219fb5b be9182a4 f573a172 3952307c
fcafeb0baX   4294967301L  d5bc9698 134f33d4 9dca0cb2 4442db4e
"""


def integer(text):
    """An int32, an int64 ("L"), or an int64 in hexadecimal ("X")."""
    if text.endswith("X"):
        return np.int64(int(text[:-1], 16))
    return np.int64(text[:-1]) if text.endswith("L") else np.int32(text)


@pytest.mark.parametrize("row", WORDS.strip().split("\n"))
def test_words(row):
    seed, offset, *words = row.split()
    got = evaluate(tl.randint4x, integer(seed), integer(offset))
    assert [f"{int(word):08x}" for word in got] == words
    assert f"{int(evaluate(tl.randint, integer(seed), integer(offset))):08x}" == words[0]


def test_constant_seeds_give_the_same_stream():
    got = evaluate(tl.randint4x, 42, np.arange(4, dtype=np.int32))
    assert [hex(word[1]) for word in got] == ["0xfcdb2127", "0x53ba6cfd", "0x838f5a6e", "0x744e06fb"]
    assert hex(evaluate(tl.randint, -1, np.int32(0))) == "0x72a47709"


def test_uniform():
    expected = ["0x1.8c543cp-1", "0x1.926f6ap-6", "0x1.649fecp-2", "0x1.14e3ecp-1"]
    got = evaluate(tl.rand, 42, np.arange(4, dtype=np.int32))
    assert got.tolist() == [float.fromhex(x) for x in expected]
    got = evaluate(tl.rand, 0, np.arange(4, dtype=np.int32))[:3]
    assert got.tolist() == [float.fromhex(x) for x in ("0x1.989fa2p-1", "0x1.c6ccd4p-5", "0x1.3ea8c8p-5")]
    four = evaluate(tl.rand4x, 42, np.int32(0))
    assert [float(x) for x in four] == [float.fromhex(x) for x in ("0x1.8c543cp-1", "0x1.dfd522p-1", "0x1.2bf508p-3",
                                                                  "0x1.5d0acep-1")]


def test_uniform_extremes():
    words = np.array([0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0], np.uint32)
    last = float.fromhex("0x1.fffffep-1")
    assert evaluate(tl.random.uint_to_uniform_float, words).tolist() == [last, last, 0.0, 0.0]
    wide = np.array([2**63 - 1, 2**63, 2**64 - 1, 0], np.uint64)
    got = evaluate(tl.random.uint_to_uniform_float, wide)
    assert got.dtype == np.float32 and got.tolist() == [float.fromhex("0x1.fffffcp-1")] * 2 + [0.0, 0.0]


def test_normal():
    got = evaluate(tl.randn, 42, np.arange(4, dtype=np.int32))
    np.testing.assert_allclose(got, [0.660613, -1.542714, -0.590464, -0.601625], atol=2e-6)
    got = evaluate(tl.randn4x, 0, np.int32(0))
    np.testing.assert_allclose(got, [0.0465515, 0.6699952, 0.2741977, -1.095427], atol=2e-6)


def philox_64(seed, counters, rounds=10):
    mask = (1 << 64) - 1
    c0, c1, c2, c3 = counters
    k0, k1 = seed & mask, 0
    for _ in range(rounds):
        high0, low0 = divmod(0xD2E7470EE14C6C93 * c0, 1 << 64)
        high1, low1 = divmod(0xCA5A826395121157 * c2, 1 << 64)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & mask, (k1 + 0xBB67AE8584CAA73B) & mask
    return [c0, c1, c2, c3]


def test_words_of_64_bits():
    counters = [np.array([n], np.uint64) for n in (3, 1 << 40, 7, (1 << 64) - 1)]
    got = evaluate(tl.philox, np.int32(-5), *counters)
    assert [int(x[0]) for x in got] == philox_64(-5, [int(c[0]) for c in counters])


def test_seeds_must_be_integers():
    with pytest.raises(Exception, match="must be an integer"):
        evaluate(tl.rand, np.float32(1.5), np.int32(0))
