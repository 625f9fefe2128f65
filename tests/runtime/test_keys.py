"""Constants that differ never share a kernel, in one process or through the cache; plain data that is equal does."""

import enum
import functools
import math
import os
import re
import struct
import subprocess
import sys
import textwrap
import threading
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tritium as triton
import tritium.language as tl
from tests.runtime.constants import Data, Frozen, Plain, Scale, attribute, call, plain, run
from tritium.compiler import ASTSource
from tritium.language.source import fingerprints
from tritium.language.source.fingerprints import fingerprint, is_fixed
from tritium.runtime import saved
from tritium.runtime.specialize import typed

# -- functions ---------------------------------------------------------------------------------------------------------

FACTOR = 3


def adder(c):
    return lambda v: v + c


def with_default(c):
    def scaled(v, c=c):
        return v * c
    return scaled


def with_keyword(c):
    def scaled(v, *, c=c):
        return v * c
    return scaled


def by_global(v):
    return v * FACTOR


def indirectly(v):
    return by_global(v)


def even(n):
    return n == 0 or odd(n - 1)


def odd(n):
    return n != 0 and even(n - 1)


@pytest.mark.parametrize("make", [
    adder, with_default, with_keyword, lambda c: functools.partial(lambda a, b: a + b, c), Scale,
    lambda c: Scale(c).times, lambda c: functools.partial(Scale(c)), lambda c: functools.lru_cache(adder(c)),
    lambda c: adder(adder(c)(1)),
], ids=["closure", "default", "keyword", "partial", "callable", "method", "nested", "cached", "deep"])
def test_functions_count_with_what_they_hold(make):
    one, two = make(3), make(5)
    assert fingerprint(one) == fingerprint(make(3))
    assert fingerprint(one) != fingerprint(two)
    assert typed(one) == typed(make(3)) and typed(one) != typed(two)


def test_closures_are_compiled_anew():
    assert [run(call, adder(c)) for c in (1, 2, 3, 1)] == [3, 4, 5, 3]


def test_lambdas_of_one_line():
    one, two = (lambda v: v + 1), (lambda v: v + 2)
    assert [run(call, one), run(call, two)] == [3, 4]


def test_a_cell_that_changes():
    c = 1

    def add(v):
        return v + c

    assert run(call, add) == 3
    c = 10
    assert run(call, add) == 12


def test_globals_count(monkeypatch):
    before = fingerprint(indirectly)
    assert run(call, indirectly) == 6
    monkeypatch.setitem(globals(), "FACTOR", 4)
    assert fingerprint(indirectly) != before
    assert run(call, indirectly) == 8


def test_functions_of_modules_count(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "key_helpers.py").write_text("SCALE = 2\n\ndef scale(v):\n    return v * SCALE\n\ndef other(v): pass\n")
    import key_helpers

    def scaled(v):
        return key_helpers.scale(v)

    before, whole = fingerprint(scaled), fingerprint(key_helpers)
    monkeypatch.setattr(key_helpers, "other", None)
    assert fingerprint(key_helpers) != whole
    assert fingerprint(scaled) == before  # nobody asks for it
    monkeypatch.setattr(key_helpers, "SCALE", 3)
    assert fingerprint(scaled) != before


def test_recursion_ends():
    assert fingerprint(even) == fingerprint(even) != fingerprint(odd)


def test_code_counts_and_its_place_does_not():
    def made(text):
        scope = {}
        exec(text, scope)
        return fingerprint(scope["f"])

    base = made("def f(x): return x + 1")
    assert made("\n\ndef f(x): return x + 1") == base
    different = ["def f(x): return x + 2", "def f(x): return x + 1.0", "def f(x): return x - 1",
                 "def f(x): return 1 + x", "def f(x): return x + True", "def f(y): return y + 1",
                 "def f(x, *a): return x + 1",
                 "def f(x): return x + (lambda: 1)()", "def f(x): return x + (lambda: 2)()"]  # fmt: skip
    found = [made(text) for text in different]
    assert base not in found and len({*found}) == len(found)


def test_builtins_and_methods_of_c():
    values = [len, max, math.sqrt, math.floor, str.upper, str.lower, "a".upper, "b".upper, int.from_bytes]
    found = [fingerprint(value) for value in values]
    assert len({*found}) == len(found) and not any(" at 0x" in text for text in found)


# -- objects -----------------------------------------------------------------------------------------------------------


class Slotted:
    __slots__ = ("__hidden", "a", "b")

    def __init__(self, a, hidden=0):
        self.a, self.__hidden = a, hidden


class Child(Slotted):
    pass


class Fields(NamedTuple):
    v: int


class Other(NamedTuple):
    v: int


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Shade(enum.Enum):
    RED = 1


class Number(enum.IntEnum):
    ONE = 1


class Text(str):
    pass


class Bag(list):
    pass


def marked(text, mark):
    made = Text(text)
    made.mark = mark
    return made


class One:
    def v(self):
        return 1


class Two:
    def v(self):
        return 2


def local_class(v):
    class Local:
        value = v
    return Local


DIFFERENT = [
    lambda: plain(v=1), lambda: plain(v=2), lambda: plain(v=1.0), lambda: plain(v=True), lambda: plain(w=1),
    lambda: plain(v=1, w=1), lambda: plain(v=[1]), lambda: plain(v=(1,)), lambda: plain(v={1: 2, 3: 4}),
    lambda: plain(v={3: 4, 1: 2}), lambda: Slotted(1), lambda: Slotted(2), lambda: Slotted(1, hidden=2),
    lambda: Child(1), lambda: Data(1), lambda: Data(2), lambda: Data(1, [1]), lambda: Frozen(1), lambda: Frozen(2),
    lambda: Fields(1), lambda: Other(1), lambda: (1,), lambda: (True,), lambda: Color.RED, lambda: Color.BLUE,
    lambda: Shade.RED, lambda: Number.ONE, lambda: 1, lambda: True, lambda: 1.0, lambda: "1", lambda: b"1",
    lambda: 1 + 0j, lambda: None, lambda: ..., lambda: 0.0, lambda: -0.0, lambda: float("inf"), lambda: float("nan"),
    lambda: -float("nan"), lambda: Text("1"), lambda: marked("1", 1), lambda: marked("1", 2), lambda: Bag([1]),
    lambda: Bag([2]), lambda: Decimal("1"), lambda: Decimal("1.0"), lambda: Fraction(1), lambda: Fraction(1, 2),
    lambda: re.compile("a"), lambda: re.compile("b"), lambda: re.compile("a", re.I), lambda: range(3),
    lambda: range(4), lambda: slice(1), lambda: slice(2), lambda: np.int32(1), lambda: np.int64(1),
    lambda: np.float32(1), lambda: np.float64(1), lambda: np.bool_(True), lambda: np.dtype("f4"),
    lambda: np.dtype("f8"), lambda: np.float32, lambda: np.zeros(2), lambda: np.ones(2), lambda: np.zeros((2, 1)),
    lambda: np.zeros(2, np.int64), lambda: plain(v=np.zeros(2)), lambda: plain(v=np.ones(2)), lambda: tl.float32,
    lambda: tl.float16, lambda: tl.pointer_type(tl.float32), lambda: int, lambda: float, lambda: Plain,
    lambda: Frozen, lambda: One(), lambda: Two(), lambda: local_class(1), lambda: local_class(2),
    lambda: local_class(1)(), lambda: local_class(2)(), lambda: SimpleNamespace(v=1), lambda: SimpleNamespace(v=2),
    lambda: frozenset((1, 2)), lambda: frozenset((1, 3)), lambda: bytearray(b"1"), lambda: 10**5000,
    lambda: 10**5000 + 1, lambda: call, lambda: attribute,
]  # fmt: skip


def test_different_constants_have_different_keys():
    texts = [fingerprint(make()) for make in DIFFERENT]
    twice = [(i, j) for i, x in enumerate(texts) for j, y in enumerate(texts[:i]) if x == y]
    assert not twice, [(texts[i], texts[j]) for i, j in twice]


@pytest.mark.parametrize("make", DIFFERENT)
def test_equal_constants_have_one_key(make):
    assert fingerprint(make()) == fingerprint(make())
    assert " at 0x" not in fingerprint(make())


def test_bits_of_nan():
    nans = [struct.unpack("<d", struct.pack("<Q", bits))[0] for bits in
            (0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000001)]  # fmt: skip
    assert len({fingerprint(x) for x in nans}) == len({typed(x) for x in nans}) == 3


def test_torch_constants():
    torch = pytest.importorskip("torch")
    values = [torch.float32, torch.float16, torch.device("cpu"), torch.device("meta"), torch.Size((1, 2))]
    found = [fingerprint(value) for value in values]
    assert len({*found}) == len(found)
    assert fingerprint(torch.device("cpu")) == fingerprint(torch.device("cpu"))
    assert is_fixed(torch.float32) and is_fixed(torch.device("cpu"))
    one, two = torch.zeros(1), torch.zeros(1)
    assert fingerprint(plain(v=one)) != fingerprint(plain(v=two))
    before = fingerprint(plain(v=one))
    one += 1
    assert fingerprint(plain(v=one)) != before


def test_objects_that_contain_themselves():
    def ring(v):
        made = plain(v=v)
        made.me = [made, {"me": made}]
        return made

    assert fingerprint(ring(1)) == fingerprint(ring(1)) != fingerprint(ring(2))
    nested = []
    nested.append(nested)
    assert fingerprint(plain(v=nested)) == fingerprint(plain(v=nested))


def test_one_object_twice_and_two_that_are_alike():
    one = plain(v=1)
    assert fingerprint((one, one)) != fingerprint((one, plain(v=1)))
    assert fingerprint(([1], [1])) == fingerprint(([1],) * 2)


def test_objects_without_a_readable_state_are_themselves_only():
    one, two = object(), object()
    assert fingerprint(one) == fingerprint(one) != fingerprint(two)
    assert fingerprint(iter(())) != fingerprint(sys.stdout)
    generators = [(x for x in ()) for _ in range(2)]
    assert fingerprint(generators[0]) == fingerprint(generators[0]) != fingerprint(generators[1])
    # An address that is used again is not the same object.
    assert len({fingerprint(threading.Event().wait) for _ in range(3)}) == 1  # its state is readable
    assert len({fingerprint(x for x in ()) for _ in range(20)}) == 20


def test_a_constant_that_holds_a_program_is_refused(monkeypatch):
    monkeypatch.setattr(fingerprints, "_MOST", 50)
    with pytest.raises(TypeError, match="reaches more than 50 objects"):
        fingerprint([plain(v=i) for i in range(60)])
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(TypeError, match="nested too deeply"):
        fingerprint(deep)


def test_classes_count(monkeypatch):
    one = One()
    before = fingerprint(one)
    monkeypatch.setattr(One, "v", Two.v)
    assert fingerprint(one) != before


class Named:
    """Knows its own key."""

    def __init__(self, key):
        self.key = key

    @property
    def cache_key(self):
        return self.key


def test_objects_with_a_key_of_their_own():
    assert fingerprint(Named("a")) == fingerprint(Named("a")) != fingerprint(Named("b"))
    assert fingerprint(plain(cache_key="a", v=1)) != fingerprint(plain(cache_key="a", v=2))


def test_what_cannot_change():
    for value in (1, "a", (1, (2.0, None)), Color.RED, Frozen(1), Fields(1), tl.float32, np.float32(1), call, range(3)):
        assert is_fixed(value), value
    for value in ([1], (1, [2]), Data(1), Frozen(1, []), Frozen(1, call), plain(v=1), by_global, adder(1), Plain,
                  np.zeros(1), [].append, functools.partial(len)):  # fmt: skip
        assert not is_fixed(value), value


# -- across processes --------------------------------------------------------------------------------------------------

SCRIPT = """
import dataclasses, enum, functools, re, sys
sys.path.insert(0, {root!r})
from tritium.language.source.fingerprints import fingerprint
class Plain: pass
o = Plain(); o.v = {{"a", "b", "c"}}; o.w = frozenset(("x", "y", "z")); o.me = o
@dataclasses.dataclass
class Data:
    v: int = 3
    w: list = dataclasses.field(default_factory=list)
class Color(enum.Enum):
    RED = 1
SCALE = 3
def f(v, k=frozenset(("p", "q", "r"))): return v * SCALE + (v in {{"l", "m", "n"}})
for value in (o, Data(), Color.RED, f, functools.partial(f, 1), re.compile("a"), Data().__eq__, lambda: f(o)):
    print(fingerprint(value))
print(fingerprint(object()))
"""


def test_keys_are_those_of_another_process(tmp_path):
    path = tmp_path / "script.py"
    root = os.path.dirname(os.path.dirname(triton.__file__))
    path.write_text(textwrap.dedent(SCRIPT).format(root=root))
    outputs = [subprocess.run([sys.executable, path], env={**os.environ, "PYTHONHASHSEED": seed}, check=True, text=True,
                              capture_output=True, timeout=300).stdout.splitlines() for seed in "12"]  # fmt: skip
    assert outputs[0][:-1] == outputs[1][:-1]
    assert outputs[0][-1] != outputs[1][-1]  # an `object()` is nobody else's


def test_what_is_told_to_another_process_is_exact():
    constants = {(0,): Color.RED, (1,): Fields(1), (2,): (1, True, 1.0, None), (3,): tl.float16, (4,): Number.ONE}
    data = saved.Specialization("k", {}, constants, {}, {}, "key")
    found = saved.load(saved.dump(data)).constants
    assert found == constants and {k: type(x) for k, x in found.items()} == {k: type(x) for k, x in constants.items()}
    lost = saved.dump(data._replace(constants={(0,): plain(v=1)}))
    with pytest.raises(TypeError, match="a constant of type Plain cannot be carried"):
        saved.load(lost)


# -- in general --------------------------------------------------------------------------------------------------------

ATOMS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=3), st.binary(max_size=3),
    st.sampled_from([Color.RED, Color.BLUE, Shade.RED, Number.ONE, tl.float32, tl.int1]))
VALUES = st.recursive(ATOMS, lambda inner: st.one_of(
    st.lists(inner, max_size=3), st.lists(inner, max_size=3).map(tuple), st.dictionaries(st.text(max_size=2), inner,
                                                                                         max_size=3),
    inner.map(Frozen), inner.map(Data), inner.map(lambda v: plain(v=v)), inner.map(Fields)), max_leaves=6)


def observed(value):
    """All that a kernel can see of a value, as data that compares exactly."""
    if isinstance(value, float):
        return float, struct.pack("d", value)
    if isinstance(value, list | tuple):
        return type(value), [observed(part) for part in value]
    if isinstance(value, dict):
        return dict, [(key, observed(part)) for key, part in value.items()]
    if isinstance(value, Frozen | Data | Plain):
        return type(value), observed(vars(value))
    return type(value), value


@settings(max_examples=300, deadline=None)
@given(VALUES, VALUES)
def test_keys_are_alike_exactly_where_values_are(x, y):
    alike = observed(x) == observed(y)
    assert (fingerprint(x) == fingerprint(y)) is alike
    assert fingerprint(x) == fingerprint(x)
    sources = [ASTSource(attribute, {"p": "*fp32"}, {"X": value}).hash() for value in (x, y)]
    assert (sources[0] == sources[1]) is alike
