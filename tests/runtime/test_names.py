"""Outer names on disk: found once, right afterwards, and never trusted further than the text they were found in."""

import ast

import pytest

from tests.runtime.test_source import PAIRS, load
from tritium import cache, knobs
from tritium.language.source.names import Names, find


@pytest.fixture(autouse=True)
def empty_cache(tmp_path):
    with knobs.cache.scope():
        knobs.cache.dir = str(tmp_path / "cache")
        yield tmp_path / "cache"


@pytest.fixture
def no_parsing(monkeypatch):
    """A function: once it was called, parsing fails."""
    def refuse(*args):
        raise AssertionError("parsed again")

    return lambda: monkeypatch.setattr(ast, "parse", refuse)


def kept(folder):
    return list(folder.glob("names/*"))


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_kept_names_give_the_hash_that_parsing_gives(tmp_path, pair, no_parsing):
    parsed = [load(tmp_path, text).cache_key for text in pair]
    no_parsing()
    assert [load(tmp_path, text).cache_key for text in pair] == parsed
    assert parsed[0] != parsed[1]


def test_one_file_for_a_function_and_all_it_calls(tmp_path, empty_cache, no_parsing):
    text = "@device\ndef h(x): return 1\n@device\ndef g(x): return h(x)\n@device\ndef f(x): return g(x)"
    f = load(tmp_path, text)
    key = f.cache_key
    assert len(kept(empty_cache)) == 1
    no_parsing()
    assert load(tmp_path, text).cache_key == key


def test_a_changed_callee_is_parsed_and_the_rest_is_not(tmp_path, monkeypatch):
    text = "@device\ndef g(x): return {}\n@device\ndef f(x): return g(x)"
    before = load(tmp_path, text.format("x")).cache_key
    parse, seen = ast.parse, []
    monkeypatch.setattr(ast, "parse", lambda text, *rest: seen.append(text) or parse(text, *rest))
    f = load(tmp_path, text.format("x + N"))
    f.__globals__["N"] = 3
    assert f.cache_key != before
    assert seen == ["def g(x): return x + N\n"]
    assert [value for value, _ in f.used_global_vals.values()] == [3]


def test_a_global_that_changes_is_seen_through_kept_names(tmp_path, no_parsing):
    module = load(tmp_path, "N = 1\n@device\ndef f(x): return x + N", None)
    key = module.f.cache_key
    no_parsing()
    module.N, module.f.hash = 2, None
    assert module.f.cache_key != key


@pytest.mark.parametrize("damage", [b"", b"0" * 64 + b" N"])
def test_a_file_cut_short_is_not_trusted(tmp_path, empty_cache, damage):
    text = "N = 1\nM = 2\n@device\ndef f(x): return x + N + M"
    key = load(tmp_path, text).cache_key
    file, = kept(empty_cache)
    whole = file.read_bytes()
    for content in (damage, whole[:-1], whole[: len(whole) // 2]):
        file.write_bytes(content)
        f = load(tmp_path, text)
        assert f.cache_key == key and len(f.used_global_vals) == 2
        assert file.read_bytes() == whole  # written again


def test_a_cache_that_cannot_be_written_costs_time_only(tmp_path, empty_cache):
    empty_cache.write_text("a file where the folder should be")
    cache.reset_stats()
    with pytest.warns(UserWarning, match="compiled kernels are not kept"):
        assert load(tmp_path, "@device\ndef f(x): return x").cache_key
    cache.reset_stats()


def test_names_in_the_order_they_are_written(tmp_path):
    f = load(tmp_path, """
        @device
        def f(x, tl):
            y = a.b.c(tl.d, e) + (lambda q: q + g)(x)
            for i in h(y):
                a.k = i
            k = [z for z in m if z]
            t: n.o = k
            return t.p + later
        """)
    assert list(find(f)) == ["a", "a.b", "a.b.c", "e", "g", "h", "m", "n", "n.o", "later"]
    assert find(f)["a.b.c"].lineno == 2
    assert Names(f).of(f) == list(find(f))
