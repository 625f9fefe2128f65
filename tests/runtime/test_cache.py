"""Files on disk: many processes, read-only layers, remote caches, full disks (LANGUAGE 11.3 to 11.5)."""

import errno
import hashlib
import json
import os
import subprocess
import sys
import textwrap
from typing import ClassVar

import pytest

from tritium import cache, knobs
from tritium.cache import FileCacheManager, get_cache_manager, get_dump_manager, get_override_manager
from tritium.compiler import ASTSource, compile
from tritium.runtime import cache as public
from tritium.runtime.jit import jit


@pytest.fixture(autouse=True)
def settings(tmp_path):
    with knobs.cache.scope(), knobs.redis.scope():
        knobs.cache.dir = str(tmp_path / "cache")
        yield


KEY = "ab" * 32


@jit
def plain(x):
    pass


def test_put_and_get():
    manager = get_cache_manager(KEY)
    assert manager.get_file("k.llir") is None and not manager.has_file("k.llir")
    path = manager.put("text", "k.llir", binary=False)
    assert manager.get_file("k.llir") == path == os.path.join(knobs.cache.dir, cache.base32(KEY), "k.llir")
    assert open(manager.put(b"\0\1", "k.o")).read() == "\0\1"
    assert sorted(os.listdir(manager.cache_dir)) == ["k.llir", "k.o"]  # no temporary files


def test_groups_are_whole_or_absent():
    manager = get_cache_manager(KEY)
    assert manager.get_group("k.json") is None
    group = {name: manager.put(name, name) for name in ("k.json", "k.o")}
    manager.put_group("k.json", group)
    assert manager.get_group("k.json") == group
    os.unlink(group["k.o"])
    assert manager.get_group("k.json") is None


def test_a_moved_cache_still_works(tmp_path):
    manager = get_cache_manager(KEY)
    manager.put_group("k.json", {"k.json": manager.put("{}", "k.json")})
    os.rename(knobs.cache.dir, tmp_path / "elsewhere")
    knobs.cache.dir = str(tmp_path / "elsewhere")
    assert get_cache_manager(KEY).get_group("k.json")["k.json"].startswith(str(tmp_path / "elsewhere"))


def test_read_only_layers_are_read_and_never_written(tmp_path):
    shared = FileCacheManager(cache.base32(KEY), directory=str(tmp_path / "shared"))
    shared.put_group("k.json", {"k.json": shared.put("{}", "k.json")})
    before = sorted(os.listdir(shared.cache_dir))
    knobs.cache.read_only_dirs = os.pathsep.join([str(tmp_path / "none"), str(tmp_path / "shared")])
    manager = get_cache_manager(KEY)
    assert manager.get_group("k.json")["k.json"].startswith(str(tmp_path / "shared"))
    assert manager.put("mine", "own.o").startswith(knobs.cache.dir)
    assert sorted(os.listdir(shared.cache_dir)) == before


def test_dump_and_override_directories(tmp_path):
    knobs.cache.dump_dir, knobs.cache.override_dir = str(tmp_path / "d"), str(tmp_path / "o")
    assert get_dump_manager(KEY).put("x", "k.ttir").startswith(str(tmp_path / "d"))
    assert get_override_manager(KEY).get_file("k.ttir") is None
    get_override_manager(KEY).put("y", "k.ttir")
    assert open(get_override_manager(KEY).get_file("k.ttir")).read() == "y"


class Listed(cache.CacheManager):
    """A cache in a dict, as TRITON_CACHE_MANAGER may name one."""

    files: ClassVar[dict] = {}

    def get_file(self, filename):
        return self.files.get(filename)

    def put(self, data, filename, binary=True):
        self.files[filename] = data
        return filename

    def get_group(self, filename):
        return None

    def put_group(self, filename, group):
        return filename


def test_another_manager():
    knobs.cache.manager_class = Listed
    assert isinstance(get_cache_manager(KEY), Listed)


class Server(cache.RemoteCacheBackend):
    """A remote cache shared by all machines of the test."""

    files: ClassVar[dict] = {}

    def get(self, filenames):
        return {name: self.files[self.key, name] for name in filenames if (self.key, name) in self.files}

    def put(self, filename, data):
        self.files[self.key, filename] = data


def test_remote_cache_is_shared_by_machines(tmp_path, monkeypatch):
    monkeypatch.setattr(Server, "files", {})
    knobs.cache.remote_manager_class = Server
    here = get_cache_manager(KEY)
    assert here.get_group("k.json") is None and here.get_file("k.o") is None
    here.put_group("k.json", {name: here.put(name.encode(), name) for name in ("k.json", "k.o")})
    knobs.cache.dir = str(tmp_path / "another machine")
    there = get_cache_manager(KEY)
    group = there.get_group("k.json")
    assert sorted(group) == ["k.json", "k.o"] and all(open(path).read() == name for name, path in group.items())
    Server.files.clear()
    assert get_cache_manager(KEY).get_file("k.o").startswith(str(tmp_path / "another machine"))


def test_an_unwritable_cache_warns_once_and_counts(monkeypatch):
    cache.reset_stats()
    with pytest.warns(UserWarning, match="Set TRITIUM_CACHE_DIR to a writable directory"):
        cache.tolerate(OSError(errno.EROFS, "read-only"))
    cache.tolerate(OSError(errno.ENOSPC, "full"))
    assert cache.stats().failures == 2
    cache.reset_stats()


def test_a_kernel_is_compiled_where_nothing_can_be_stored(fake, tmp_path):
    (tmp_path / "file").write_text("not a directory")
    knobs.cache.dir = str(tmp_path / "file")
    cache.reset_stats()
    with pytest.warns(UserWarning, match="compiled kernels are not kept"):
        kernel = compile(ASTSource(plain, {"x": "*fp32"}), fake.get_current_target())
    assert kernel.asm["note"] == "note plain 1" and kernel.metadata_group == {}
    cache.reset_stats()


def test_fingerprint_covers_the_compiler(monkeypatch, tmp_path):
    (tmp_path / "ir").mkdir()
    (tmp_path / "ir" / "core.py").write_text("x = 1")
    monkeypatch.setattr(cache, "__file__", str(tmp_path / "cache.py"))
    cache.fingerprint.cache_clear()
    first = cache.fingerprint()
    (tmp_path / "ir" / "core.py").write_text("x = 2")
    cache.fingerprint.cache_clear()
    assert cache.fingerprint() != first
    cache.fingerprint.cache_clear()


def test_public_names():
    assert public.stats is cache.stats and public.get_cache_manager is get_cache_manager


WRITER = textwrap.dedent("""
    import sys
    from tritium.cache import get_cache_manager
    manager = get_cache_manager("ab" * 32)
    data = sys.argv[1].encode() * 200_000
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(20):
        group = manager.get_group("k.json")
        if group is not None:
            found = open(group["k.o"], "rb").read()
            assert len(found) == 200_000 and len(set(found)) == 1, (len(found), set(found))
        manager.put_group("k.json", {name: manager.put(data, name) for name in ("k.json", "k.o")})
    """)


def test_many_processes_never_see_half_a_file():
    environment = {**os.environ, "TRITON_CACHE_DIR": knobs.cache.dir}
    workers = [
        subprocess.Popen([sys.executable, "-c", WRITER, letter], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, env=environment)
        for letter in "abc"
    ]  # fmt: skip
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        worker.stdin.write("\n")
        worker.stdin.flush()
    for worker in workers:
        _, errors = worker.communicate(timeout=60)
        assert worker.returncode == 0, errors
    directory = get_cache_manager(KEY).cache_dir
    assert sorted(os.listdir(directory)) == ["__grp__k.json", "k.json", "k.o"]
    assert json.load(open(os.path.join(directory, "__grp__k.json")))


@pytest.mark.parametrize("bytecode", [True, False])
def test_the_fingerprint_is_that_of_the_files(tmp_path, monkeypatch, bytecode):
    """Kept for files that are as they were, worked out again for others."""
    package, kept = tmp_path / "package", tmp_path / "kept"
    (package / "ir").mkdir(parents=True)
    (package / "tools").mkdir()
    monkeypatch.setattr(cache, "__file__", str(package / "cache.py"))
    monkeypatch.setattr(sys, "dont_write_bytecode", not bytecode)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    monkeypatch.setattr(knobs.cache, "dir", str(kept))
    found = []
    for path, text in (("ir/types.py", "1"), ("ir/types.py", "2"), ("tools/opt.py", "3"), ("ir/more.py", "4")):
        (package / path).write_text(text)
        found.append(cache.fingerprint.__wrapped__())
    assert found[0] != found[1] == found[2] != found[3]
    places = (package / "__pycache__").glob("*.fingerprint") if bytecode else kept.glob("*/fingerprint.txt")
    (answer,) = [path for path in places if found[3] in path.read_text()]

    def compute(*_):
        raise AssertionError("the files are read again")

    real = hashlib.sha256
    with monkeypatch.context() as patch:
        patch.setattr(cache.hashlib, "sha256", lambda *text: real(*text) if text else compute())
        if bytecode:
            patch.setattr(knobs.cache, "dir", str(tmp_path / "another"))  # an empty cache
        assert cache.fingerprint.__wrapped__() == found[3]
    answer.write_text("damaged")
    knobs.cache.dir = str(tmp_path / "one more")
    assert cache.fingerprint.__wrapped__() == found[3]
