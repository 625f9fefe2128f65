"""The cache stays small: unfinished files of dead processes are swept, what was used longest ago goes first."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.runtime.cache_entries import cache_in, files, forget, launch
from tritium import cache, cache_limits, knobs
from tritium.cache import FileCacheManager, read, write

DAY, HOUR = 86400, 3600


@pytest.fixture(autouse=True)
def settings(tmp_path):
    cache_limits._known.clear()
    with cache_in(tmp_path):
        yield
    cache_limits._known.clear()


def as_a_new_process(stamped=True):
    """Forget what this process knows, and what others have counted."""
    cache_limits._known.clear()
    if not stamped:
        Path(knobs.cache.dir, cache_limits.STAMP).unlink(missing_ok=True)


def age(path, seconds):
    then = time.time() - seconds
    os.utime(path, (then, then), follow_symlinks=False)


def key(number):
    """The name of an entry's directory."""
    return cache.base32(f"{number:064x}")


def fill(count, size=1000, ages=lambda number: 2 * HOUR):
    """Entries of `size` bytes, the first used longest ago."""
    for number in range(count):
        manager = FileCacheManager(key(number))
        manager.put(b"x" * size, "k.obj")
        manager.put("{}", "__grp__k.json")
        for path in Path(manager.cache_dir).iterdir():
            age(path, ages(number) + count - number)


def present():
    return [number for number in range(100) if Path(knobs.cache.dir, key(number)).exists()]


def dead():
    """The number of a process that is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.parametrize("limit", [0, 1 << 30])
@pytest.mark.parametrize("folder", ["", "names", key(1)])
def test_unfinished_files_of_dead_processes_are_swept(folder, limit):
    knobs.cache.max_size = limit
    root = Path(knobs.cache.dir, folder)
    root.mkdir(parents=True)
    gone, here = dead(), os.getpid()
    names = {f".tmp.{gone}.{'0' * 16}": (HOUR, True), f".tmp.{gone}.{'1' * 16}": (60, False),
             f".tmp.{here}.{'2' * 16}": (HOUR, False), f".tmp.{here}.{'3' * 16}": (2 * DAY, True),
             f".tmp.{10**30}.{'4' * 16}": (2 * DAY, True), ".tmp.notes": (9 * DAY, False),
             f"tmp.{gone}.{'5' * 16}": (9 * DAY, False)}  # fmt: skip
    for name, (seconds, _) in names.items():
        (root / name).write_text("half")
        age(root / name, seconds)
    write(FileCacheManager(key(2)), "f", b"x")
    assert {name for name in names if not (root / name).exists()} == {name for name, (_, goes) in names.items() if goes}
    # Once in a process, and once an hour.
    again = root / f".tmp.{gone}.{'6' * 16}"
    again.write_text("half")
    age(again, HOUR)
    write(FileCacheManager(key(2)), "g", b"x")
    as_a_new_process()
    write(FileCacheManager(key(2)), "g", b"x")
    assert again.exists()
    as_a_new_process()
    age(Path(knobs.cache.dir, cache_limits.STAMP), 2 * HOUR)
    write(FileCacheManager(key(2)), "g", b"x")
    assert not again.exists()


def test_what_was_used_longest_ago_goes_first():
    knobs.cache.max_size = 0
    fill(10)
    knobs.cache.max_size = 8000
    as_a_new_process(stamped=False)
    write(FileCacheManager(key(50)), "f", b"x")
    assert present() == [5, 6, 7, 8, 9, 50]  # three quarters of the limit
    assert int(Path(knobs.cache.dir, cache_limits.STAMP).read_text()) <= 6000


def test_a_use_counts(monkeypatch):
    """Reading an entry makes it a recent one."""
    knobs.cache.max_size = 0
    for number in range(10):
        write(FileCacheManager(key(number)), "f", b"x" * 1000)
        age(Path(knobs.cache.dir, key(number), "f"), 2 * DAY + 100 - number)
    assert read(FileCacheManager(key(0)), "f") == b"x" * 1000
    assert time.time() - Path(knobs.cache.dir, key(0), "f").stat().st_mtime < HOUR
    knobs.cache.max_size = 9000
    as_a_new_process(stamped=False)
    write(FileCacheManager(key(50)), "f", b"x")
    assert 0 in present() and 1 not in present() and 9 in present()


def test_what_was_just_written_stays():
    knobs.cache.max_size = 2000
    fill(10, ages=lambda number: 0)
    assert len(present()) == 10
    write(FileCacheManager(key(50)), "f", b"x" * 5000)
    assert len(present()) == 11


def test_counting_is_rare(monkeypatch):
    counted = []
    entries = cache_limits._entries
    monkeypatch.setattr(cache_limits, "_entries", lambda *args: counted.append(args) or entries(*args))
    fill(5)
    assert len(counted) == 1
    as_a_new_process()
    fill(5)
    assert len(counted) == 1, "another process counted within the hour"
    age(Path(knobs.cache.dir, cache_limits.STAMP), 2 * HOUR)
    as_a_new_process()
    fill(5)
    assert len(counted) == 2
    knobs.cache.max_size = 20_000
    counted.clear()
    as_a_new_process()
    fill(60, ages=lambda number: 0)  # three times the limit, and nothing may go
    assert 1 <= len(counted) <= 25


def test_a_limit_holds_in_a_long_process():
    knobs.cache.max_size = 20_000
    for start in range(0, 90, 10):
        for number in range(start, start + 10):
            write(FileCacheManager(key(number)), "f", b"x" * 1000)
            age(Path(knobs.cache.dir, key(number), "f"), HOUR)
    assert sum(path.stat().st_size for path in files(knobs.cache.dir)) < 26_000 and 89 in present()


def test_names_are_entries_of_their_own():
    knobs.cache.max_size = 0
    for number in range(10):
        write(FileCacheManager("names"), f"{number:064x}", b"x" * 1000)
        age(Path(knobs.cache.dir, "names", f"{number:064x}"), 2 * HOUR - number)
    knobs.cache.max_size = 8000
    as_a_new_process(stamped=False)
    write(FileCacheManager(key(50)), "f", b"x")
    assert [path.name[-1] for path in sorted(Path(knobs.cache.dir, "names").iterdir())] == list("56789")


def test_nothing_else_is_removed(tmp_path):
    """The cache may be somebody's home directory."""
    root = Path(knobs.cache.dir)
    for name in ("thesis/chapter", "A" * 51 + "/x", "names/notes.txt", "a" * 52 + "/x"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x" * 10_000)
        age(root / name, 9 * DAY)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("x" * 10_000)
    (root / key(1)).symlink_to(tmp_path / "outside")
    (root / key(2) / "folder").mkdir(parents=True)
    (root / key(2) / "folder" / "file").write_text("x" * 10_000)
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    knobs.cache.max_size = 1
    write(FileCacheManager(key(50)), "f", b"x")
    assert before <= {path for path in tmp_path.rglob("*") if path.is_file()}


def test_no_limit():
    knobs.cache.max_size = 0
    fill(5, ages=lambda number: 9 * DAY)
    assert present() == [0, 1, 2, 3, 4]
    as_a_new_process()
    age(Path(knobs.cache.dir, cache_limits.STAMP), 2 * HOUR)
    fill(6, ages=lambda number: 9 * DAY)
    assert present() == [0, 1, 2, 3, 4, 5]


def test_an_entry_removed_under_a_running_process_is_a_miss():
    launch()
    for path in files(knobs.cache.dir):
        age(path, HOUR)
    knobs.cache.max_size = 1
    as_a_new_process(stamped=False)
    write(FileCacheManager(key(50)), "f", b"x")
    assert [path.name for path in files(knobs.cache.dir)] == ["f"]
    forget()
    launch()
    assert cache.stats() == (0, 2, 2, 0, 0, 0)


@pytest.mark.parametrize("stamp", [b"", b"many", b"-5", b"\xff", b"9" * 10_000])
def test_a_damaged_stamp(stamp):
    fill(2)
    Path(knobs.cache.dir, cache_limits.STAMP).write_bytes(stamp)
    as_a_new_process()
    fill(3)
    assert present() == [0, 1, 2]


@pytest.mark.parametrize("text, size", [("0", 0), ("4096", 4096), ("512k", 512 << 10), ("3M", 3 << 20), ("8G", 8 << 30),
                                        ("1 GiB", 1 << 30), ("2TB", 2 << 40)])  # fmt: skip
def test_sizes(monkeypatch, text, size):
    knobs.cache.reset()
    monkeypatch.setenv("TRITIUM_CACHE_MAX_SIZE", text)
    assert knobs.cache.max_size == size
    knobs.cache.max_size = text
    assert knobs.cache.max_size == size


def test_a_size_that_is_none(monkeypatch):
    knobs.cache.reset()
    assert knobs.cache.max_size == 8 << 30
    for text in ("much", "-1", "1.5G", ""):
        monkeypatch.setenv("TRITIUM_CACHE_MAX_SIZE", text)
        with pytest.raises(ValueError, match=r"TRITIUM_CACHE_MAX_SIZE.*512M, 8G"):
            knobs.cache.max_size
