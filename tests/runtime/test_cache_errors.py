"""Whatever the disk answers, a launch goes on: errors of every call on the cache, and a cache that is being removed."""

import errno
import os
import shutil
import threading
import warnings
from pathlib import Path

import pytest

from tests.runtime.cache_entries import cache_in, copy, forget, launch, use_everything
from tritium import cache, knobs
from tritium.cache import FileCacheManager, RemoteCacheBackend, get_cache_manager


@pytest.fixture(autouse=True)
def settings(tmp_path):
    with cache_in(tmp_path):
        yield


ERRORS = ["EIO", "ESTALE", "EBUSY", "EXDEV", "ENOENT", "ELOOP", "ENAMETOOLONG", "EMFILE", "ENOSPC", "EACCES", "EROFS",
          "ENOTDIR", "EISDIR", "EEXIST"]  # fmt: skip
READING = ["open", "lstat", "listdir", "fstat", "read"]
WRITING = ["open", "mkdir", "lstat", "write", "replace", "scandir", "stat"]


class Failing:
    """Calls of `os` that fail for paths of the cache and for the files opened there."""

    def __init__(self, monkeypatch, root, calls, number, chance=lambda: True):
        self.root, self.number, self.failed, self.ours, self.chance = str(root), number, 0, set(), chance
        for name in calls:
            monkeypatch.setattr(os, name, self.wrap(getattr(os, name)))
        closed = os.close  # a number belongs to a file only while it is open
        monkeypatch.setattr(os, "open", self.note(os.open))
        monkeypatch.setattr(os, "close", lambda file: (self.ours.discard(file), closed(file))[1])

    def note(self, opened):
        def call(path, *args, **kwargs):
            file = opened(path, *args, **kwargs)
            if str(path).startswith(self.root):
                self.ours.add(file)
            return file

        return call

    def wrap(self, function):
        def call(where, *args, **kwargs):
            ours = where in self.ours if isinstance(where, int) else str(where).startswith(self.root)
            if ours and self.chance():
                self.failed += 1
                raise OSError(self.number, os.strerror(self.number), str(where))
            return function(where, *args, **kwargs)

        return call


@pytest.mark.parametrize("number", ERRORS)
@pytest.mark.parametrize("calls", [READING, WRITING], ids=["full", "empty"])
def test_any_error_of_any_call(filled, monkeypatch, number, calls):
    source, program = filled
    for name in calls:
        if calls is READING:
            copy(source, knobs.cache.dir)
        else:
            shutil.rmtree(knobs.cache.dir, ignore_errors=True)
        cache.reset_stats()
        with monkeypatch.context() as patch, warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            failing = Failing(patch, knobs.cache.dir, [name], getattr(errno, number))
            use_everything(program)
        assert failing.failed, name
        assert len(told) <= 2, [str(w.message) for w in told]  # one for reading, one for writing


def test_all_calls_fail_now_and_then(filled, monkeypatch):
    """Every third call on the cache fails, each time another one."""
    source, program = filled
    calls = sorted({*READING, *WRITING, "unlink", "rename", "rmdir"})
    for number in (errno.EIO, errno.ENOENT, errno.ESTALE):
        for every in (2, 3, 5, 7):
            copy(source, knobs.cache.dir)
            turn = iter(range(10**9))
            with monkeypatch.context() as patch, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                failing = Failing(patch, knobs.cache.dir, calls, number,
                                  lambda turn=turn, every=every: next(turn) % every == 0)
                use_everything(program)
            assert failing.failed


def test_a_failure_to_write_is_told_once_and_counted(filled, monkeypatch):
    Path(knobs.cache.dir).mkdir()
    with monkeypatch.context() as patch, pytest.warns(UserWarning, match="compiled kernels are not kept") as told:
        Failing(patch, knobs.cache.dir, ["replace"], errno.EIO)
        use_everything(filled[1])
    assert len(told) == 1 and cache.stats().failures > 3
    assert not list(Path(knobs.cache.dir).rglob(".tmp*"))


def test_a_cache_that_is_removed_meanwhile(filled):
    """Somebody removes the cache again and again while kernels are loaded and stored."""
    source, _ = filled
    stop = threading.Event()

    def remove():
        while not stop.is_set():
            shutil.rmtree(knobs.cache.dir, ignore_errors=True)

    remover = threading.Thread(target=remove)
    copy(source, knobs.cache.dir)
    remover.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(30):
                forget()
                kernel = launch()
                assert "thrice" in kernel.asm["ttir"] and "fmul" in kernel.asm["llir"]
    finally:
        stop.set()
        remover.join()


def test_a_long_name(tmp_path):
    manager = FileCacheManager("k")
    with pytest.warns(UserWarning, match="not kept"):
        cache.write(manager, "n" * 300, b"")
    with pytest.warns(UserWarning, match="cannot be read"):
        assert cache.read(manager, "n" * 300) is None


def test_a_fingerprint_when_the_compiler_cannot_be_read(monkeypatch):
    """Two compilers that cannot be told apart do not share kernels."""
    cache.fingerprint.cache_clear()
    folder = os.path.dirname(os.path.abspath(cache.__file__))
    with monkeypatch.context() as patch, pytest.warns(UserWarning, match="not kept"):
        Failing(patch, folder, ["scandir"], errno.EMFILE)
        first, second = (cache.fingerprint.__wrapped__() for _ in range(2))
    assert len(first) == 64 and first != second


class Unreachable(RemoteCacheBackend):
    """A server that is down."""

    def get(self, filenames):
        raise ConnectionError("no route")

    def put(self, filename, data):
        raise RuntimeError("the library's own error")


def test_a_server_that_is_down(filled):
    knobs.cache.remote_manager_class = Unreachable
    with pytest.warns(UserWarning, match="not kept") as told:
        use_everything(filled[1])
    assert len(told) == 1
    cache.reset_stats()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        use_everything(filled[1])
    assert cache.stats().hits == 1


class Kept(RemoteCacheBackend):
    """A server in a dict."""

    files = {}  # noqa: RUF012

    def get(self, filenames):
        return {name: self.files[self.key, name] for name in filenames if (self.key, name) in self.files}

    def put(self, filename, data):
        self.files[self.key, filename] = data


def test_a_server_that_sends_damaged_files(filled, monkeypatch, tmp_path):
    monkeypatch.setattr(Kept, "files", {})
    knobs.cache.remote_manager_class = Kept
    use_everything(filled[1])
    for place in Kept.files:
        Kept.files[place] = Kept.files[place][:-1]
    knobs.cache.dir = str(tmp_path / "another machine")
    cache.reset_stats()
    with pytest.warns(UserWarning, match="damaged"):
        use_everything(filled[1])
    knobs.cache.dir = str(tmp_path / "a third machine")
    cache.reset_stats()
    use_everything(filled[1])
    assert cache.stats().hits == 1 and cache.stats().damaged == 0


def test_a_server_writes_nowhere_else(monkeypatch, tmp_path):
    monkeypatch.setattr(Kept, "files", {})
    knobs.cache.remote_manager_class = Kept
    manager = get_cache_manager("ab" * 32)
    for name in ("../../escaped", str(tmp_path / "escaped"), "..", ""):
        Kept.files = {(manager.key, "__grp__k.json"): f'{{"child_paths": {{"{name}": ""}}}}'.encode(),
                      (manager.key, name): b"x"}  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert manager.get_group("k.json") is None
        shutil.rmtree(knobs.cache.dir)
    assert not list(tmp_path.rglob("escaped"))
