"""Which level a function has: its module's marker, what it uses, the setting; and where the level shows."""

import threading
import types

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium import knobs
from tritium.frontend import lower
from tritium.language.source import dialect


def level(kernel):
    return dialect.of(kernel).name


@triton.jit
def plain(x, n):
    tl.store(x, n)


@triton.jit
def with_walrus(x, n):
    if (m := n + 1) > 3:
        tl.store(x, m)


@triton.jit
def with_rest(x, *rest):
    tl.store(x, rest[0])


@triton.jit
def declared(x):
    size: tl.constexpr
    size = 8
    tl.store(x, size)


@triton.jit
def chained(x, n):
    tl.store(x, (0 < n < 3).to(tl.int32))


@triton.jit
def keyword_only(x, *, n):
    tl.store(x, n)


@triton.jit
def squeezed(x):
    tl.store(x, tl.sum(tl.squeeze(tl.zeros((8, 1), tl.float32), 1), 0))


@triton.jit
def loads(x):
    tl.store(x, tl.atomic_load(x))


@triton.jit
def loads_by_method(x):
    tl.store(x, x.atomic_load())


@triton.jit
def block_pointer(x, n):
    p = tl.make_block_ptr(x, (n,), (1,), (0,), (16,), (0,))
    tl.store(p, tl.load(p, boundary_check=(0,)) + (0 < n < 8), boundary_check=(0,))


@triton.jit
def by_position(x):
    tl.store(x, tl.load(x, None, None, (), "", ".cg"))


@triton.jit
def squeeze(x, dim):
    return x


@triton.jit
def calls_its_own(x):
    tl.store(x, squeeze(1, 0))


@pytest.mark.parametrize(("kernel", "expected"), [
    (plain, "3.6"), (with_walrus, "3.7"), (with_rest, "3.7"), (declared, "3.7"), (squeezed, "3.7"), (chained, "3.9"),
    (keyword_only, "3.9"), (loads, "3.9"), (loads_by_method, "3.9"), (block_pointer, "3.7"), (by_position, "3.6"),
    (calls_its_own, "3.6"),
])  # fmt: skip
def test_what_a_function_uses(kernel, expected):
    assert level(kernel) == expected


def test_the_setting_holds_where_nothing_else_says():
    with knobs.language.scope():
        knobs.language.dialect = "3.9.0"
        assert [level(kernel) for kernel in (plain, with_walrus, by_position)] == ["3.9", "3.9", "3.7"]
        assert triton.__version__ == "3.9.0"
        knobs.language.dialect = "3.8"
        assert [level(kernel) for kernel in (plain, chained)] == ["3.7", "3.9"]
        with pytest.raises(ValueError, match=r"no release of Triton that runs here: 3\.6"):
            knobs.language.dialect = "2.1"
    assert level(plain) == "3.6" and triton.__version__ == "3.6.0"


def test_the_environment(monkeypatch):
    monkeypatch.setenv("TRITON_DIALECT", "3.9")
    knobs.refresh_knobs()
    assert level(plain) == "3.9"
    monkeypatch.delenv("TRITON_DIALECT")
    knobs.refresh_knobs()
    assert level(plain) == "3.6"


def marked(kernel, marker):
    """A copy of a kernel in a module with a marker."""
    space = {**kernel.fn.__globals__, dialect.MARKER: marker}
    made = types.FunctionType(kernel.fn.__code__, space, kernel.fn.__name__)
    made.__module__, made.__qualname__ = "marked", kernel.fn.__qualname__
    return triton.jit(made)


def test_a_modules_own_marker_wins():
    assert level(marked(plain, "3.8")) == "3.7"
    assert level(marked(chained, "3.6")) == "3.6"
    assert level(marked(block_pointer, "3.9")) == "3.9"
    with pytest.raises(ValueError, match=r"__triton_dialect__ in marked: '3\.5' is no release"):
        level(marked(plain, "3.5"))


@triton.jit
def equal(x):
    return x == 0.1


@triton.jit
def asks(x, out, other: tl.constexpr):
    v = tl.load(x + tl.arange(0, 8))
    tl.store(out, tl.max(other(v).to(tl.int32), 0))
    tl.store(out + 1, tl.max((v == 0.1).to(tl.int32), 0))


def test_a_callee_has_its_own_level():
    x, out = np.full(8, 0.1, np.float16), np.zeros(2, np.int32)
    for inner, outer in (("3.6", "3.9"), ("3.9", "3.6")):
        marked(asks, outer)[(1,)](x, out, marked(equal, inner))
        assert out.tolist() == [inner == "3.9", outer == "3.9"]


def test_the_level_is_shown_and_part_of_the_key():
    x, out = np.full(8, 0.1, np.float16), np.zeros(2, np.int32)
    keys = set()
    for setting, expected in (("3.6", "3.6"), ("3.8", "3.7"), ("3.9", "3.9")):
        with knobs.language.scope():
            knobs.language.dialect = setting
            compiled = asks[(1,)](x, out, equal)
            keys.add((asks.cache_key, compiled.hash))
        assert compiled.metadata.dialect == expected
        assert f'dialect="{expected}"' in compiled.asm["ttir"].splitlines()[0]
        assert f'dialect="{expected}"' in compiled.asm["source"].splitlines()[0]
        assert out.tolist() == [setting == "3.9"] * 2
    assert len(keys) == 3
    asks[(1,)](x, out, equal)
    assert out.tolist() == [0, 0]


def test_a_marker_that_changes_is_noticed():
    kernel = marked(plain, "3.8")
    x = np.zeros(1, np.int32)
    kernel[(1,)](x, 3)
    kernel.fn.__globals__[dialect.MARKER] = "3.9"
    with pytest.raises(RuntimeError, match="__triton_dialect__ has changed"):
        kernel[(1,)](x, 3)


def test_threads_lower_at_different_levels():
    kernels = {name: marked(asks, name) for name in ("3.6", "3.9")}
    found = {name: set() for name in kernels}

    def work(name):
        for _ in range(5):
            module = lower(kernels[name], {"x": "*fp16", "out": "*i32", "other": "constexpr"}, {"other": equal})
            found[name].add(str(module))

    threads = [threading.Thread(target=work, args=(name,)) for name in kernels for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(len(texts) == 1 for texts in found.values()) and found["3.6"] != found["3.9"]
