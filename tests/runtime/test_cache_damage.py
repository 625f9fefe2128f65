"""A damaged cache costs time: every damage to every file is told once, repaired, and never seen in a result."""

import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runtime.cache_entries import (
    DAMAGES,
    assembler,
    cache_in,
    copy,
    files,
    forget,
    launch,
    thrice,
    use_everything,
)
from tritium import cache, knobs
from tritium.cache import FileCacheManager, GroupWriter, read, read_group
from tritium.trusted_files import Damaged, checksum, seal, unseal


@pytest.fixture(autouse=True)
def settings(tmp_path):
    with cache_in(tmp_path):
        yield


KINDS = {"fingerprint.txt", "tiny.o", "version.txt", "thrice.ttir", "thrice.llir", "thrice.obj", "thrice.json",
         "thrice.json.sum", "__grp__thrice.json", "thrice.autotune.json", "thrice.autotune.json.sum",
         "__grp__thrice.autotune.json"}  # fmt: skip


def test_there_are_files_of_every_kind(filled):
    found = {path.name for path in files(filled[0])}
    assert found >= KINDS and [path for path in files(filled[0]) if path.parent.name == "names"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_any_damage_to_any_file_heals(filled, damage):
    source, program = filled
    root = Path(knobs.cache.dir)
    for file in files(source):
        copy(source, root)
        DAMAGES[damage](root / file.relative_to(source))
        cache.reset_stats()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            use_everything(program)
        assert len(told) <= 1, [str(w.message) for w in told]
        # Now it is as if nothing had happened; what is read late is made again only if somebody reads it.
        cache.reset_stats()
        use_everything(program)
        found = cache.stats()
        assert (found.hits, found.misses, found.damaged, found.refused) == (1, 0, 0, 0), (file, found)


def test_all_files_damaged_at_once_are_told_of_once(filled):
    copy(filled[0], knobs.cache.dir)
    for file in files(knobs.cache.dir):
        file.write_bytes(b"")
    with pytest.warns(UserWarning, match="is damaged or cannot be read") as told:
        use_everything(filled[1])
    assert len(told) == 1 and cache.stats().damaged > 1


def test_a_stage_that_is_gone_when_it_is_read_is_made_again(filled):
    copy(filled[0], knobs.cache.dir)
    forget()
    kernel = launch()
    (text,) = [path for path in files(knobs.cache.dir) if path.name == "thrice.llir"]
    before = text.read_text()
    (folder,) = {Path(path).parent for path in kernel.metadata_group.values()}
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    assert kernel.asm["llir"].startswith(before[:100]) and "thrice" in kernel.asm["ttir"]
    assert text.read_text() == before  # and kept again


def test_a_stage_that_is_damaged_when_it_is_read_is_made_again(filled):
    copy(filled[0], knobs.cache.dir)
    forget()
    kernel = launch()
    path = Path(kernel.metadata_group["thrice.llir"])
    whole = path.read_text()
    path.write_text(whole.replace("fmul", "fadd"))
    with pytest.warns(UserWarning, match="checksum is wrong"):
        assert "fmul" in kernel.asm["llir"]
    assert path.read_text() == whole


def test_files_that_others_read_are_plain(filled):
    copy(filled[0], knobs.cache.dir)
    forget()
    kernel = launch()
    assert sorted(kernel.metadata_group) == ["thrice.json", "thrice.llir", "thrice.obj", "thrice.ttir"]
    assert Path(kernel.metadata_group["thrice.obj"]).read_bytes() == kernel.asm["obj"]
    assert Path(kernel.metadata_group["thrice.json"]).read_bytes().startswith(b"{")


def test_no_bit_of_the_code_may_change(filled):
    """Flips in the object are seen before anything is loaded."""
    copy(filled[0], knobs.cache.dir)
    forget()
    (path,) = [path for path in files(knobs.cache.dir) if path.name == "thrice.obj"]
    whole = path.read_bytes()
    group = read_group(FileCacheManager(path.parent.name), "thrice.json")
    assert group.read("thrice.obj") == whole
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for bit in range(0, 8 * len(whole), 37):
            changed = bytearray(whole)
            changed[bit // 8] ^= 1 << bit % 8
            path.write_bytes(changed)
            assert group.read("thrice.obj") is None
    assert thrice.device_caches is not None and cache.stats().damaged == len(range(0, 8 * len(whole), 37))


@given(st.binary(max_size=200), st.sampled_from(["", "a", "names/f"]), st.sampled_from([b"", b"k" * 64]), st.data())
def test_what_is_sealed_comes_back_or_not_at_all(content, name, key, data):
    sealed = seal(content, name, key)
    assert unseal(sealed, name, key) == content
    start = data.draw(st.integers(0, len(sealed)))
    stop = data.draw(st.integers(start, len(sealed)))
    other = sealed[:start] + data.draw(st.binary(max_size=8)) + sealed[stop:]
    if other != sealed:
        with pytest.raises(Damaged):
            unseal(other, name, key)
    for wrong in ((sealed, name + "x", key), (sealed, name, b"another"), (b"", name, key)):
        with pytest.raises(Damaged):
            unseal(*wrong)


def test_an_entry_of_another_key_is_no_entry():
    writer = GroupWriter(FileCacheManager("one"), "k.json")
    writer.put("{}", "k.json")
    writer.close()
    cache.write(FileCacheManager("one"), "single", b"text")
    (Path(knobs.cache.dir) / "one").rename(Path(knobs.cache.dir) / "two")
    with pytest.warns(UserWarning, match="checksum is wrong"):
        assert read_group(FileCacheManager("two"), "k.json") is None
    assert read(FileCacheManager("two"), "single") is None
    assert checksum(b"", "one/x") != checksum(b"", "two/x")


class Listed(cache.CacheManager):
    """A cache of the user's own whose constructor forgets the key."""

    root = ""

    def __init__(self, key, override=False, dump=False):
        self._files = FileCacheManager(key, directory=self.root)
        self.get_file, self.get_group = self._files.get_file, self._files.get_group
        self.put, self.put_group = self._files.put, self._files.put_group

    def get_file(self, filename): ...

    def get_group(self, filename): ...

    def put(self, data, filename, binary=True): ...

    def put_group(self, filename, group): ...


def test_damage_in_a_cache_of_the_users_own_class(tmp_path, monkeypatch):
    monkeypatch.setattr(Listed, "root", str(tmp_path / "theirs"))
    knobs.cache.manager_class = Listed
    program = assembler(tmp_path)
    use_everything(program)
    damaged = [path for path in files(tmp_path / "theirs") if path.suffix in (".obj", ".o", ".sum")]
    for path in damaged:
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="damaged"):
        use_everything(program)
    cache.reset_stats()
    use_everything(program)
    assert cache.stats().hits == 1 and cache.stats().damaged == 0 and len(damaged) == 4


def test_an_index_with_the_paths_of_another_machine(filled):
    """Frameworks carry entries elsewhere and rewrite the paths in the index: only its names count."""
    copy(filled[0], knobs.cache.dir)
    (index,) = Path(knobs.cache.dir).rglob("__grp__thrice.json")
    index.write_text(index.read_text().replace(str(filled[0]), "[elsewhere]"))
    forget()
    launch()
    assert cache.stats().hits == 1 and cache.stats().damaged == 0
