"""The command `tritium cache`: what it counts, lists, checks, removes and limits; mistakes are one line."""

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest

from tritium import cache, cache_limits, knobs
from tritium.__main__ import main
from tritium.cache import FileCacheManager, GroupWriter, base32
from tritium.kernels.vector_add import add_kernel
from tritium.tools.cache_contents import contents, root


@pytest.fixture(autouse=True)
def filled(tmp_path, monkeypatch):
    """A cache with a kernel, a part of tritium's own and results of tuning."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("TRITIUM_CACHE_DIR", str(folder))
    monkeypatch.delenv("TRITIUM_CACHE_MAX_SIZE", raising=False)
    cache_limits._known.clear()
    add_kernel.device_caches.clear()
    x = np.ones(64, np.float32)
    add_kernel.warmup(x, x, x, 64, BLOCK=64, grid=(1,))
    add_kernel.device_caches.clear()
    cache.write(FileCacheManager(base32("ab" * 32)), "version.txt", b"12.8")
    writer = GroupWriter(FileCacheManager(base32("cd" * 32)), "add_kernel.autotune.json")
    writer.put('{"key": [], "configs_timings": []}', "add_kernel.autotune.json")
    writer.close()
    yield folder
    cache_limits._known.clear()


def told(capsys, *arguments, status=0):
    assert main(["cache", *arguments]) == status
    return capsys.readouterr().out


def asked(capsys, *arguments, status=0):
    return json.loads(told(capsys, *arguments, "--json", status=status))


def kernel_folder(filled):
    return next(path.parent for path in filled.glob("*/add_kernel.json"))


def test_stats(filled, capsys):
    found = asked(capsys, "stats")
    assert found["folder"] == str(filled) and found["limit"] == 8 << 30
    assert found["kinds"]["kernel"]["entries"] == 1 and found["kinds"]["tuning"]["entries"] == 1
    assert found["targets"] == {"cpu:host": 1}
    assert found["bytes"] == sum(kind["bytes"] for kind in found["kinds"].values()) > 0
    out = told(capsys, "stats")
    assert "1 compiled kernels" in out and "1 results of tuning" in out and "of 8 GiB" in out


def test_an_empty_cache(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TRITIUM_CACHE_DIR", str(tmp_path / "none"))
    assert "0 entries, 0 B" in told(capsys, "stats")
    assert told(capsys, "list") == "no entry\n" and "all whole" in told(capsys, "verify")
    assert not (tmp_path / "none").exists()


def test_list(filled, capsys):
    found = asked(capsys, "list", "add*")
    assert {(one["name"], one["kind"]) for one in found} == {("add_kernel", "kernel"), ("add_kernel", "tuning")}
    (one,) = asked(capsys, "list", "--kind", "kernel")
    assert one["key"] == kernel_folder(filled).name and one["target"] == "cpu:host"
    assert [o["key"] for o in asked(capsys, "list", one["key"])] == [one["key"]]
    sizes = [o["size"] for o in asked(capsys, "list", "--sort", "size")]
    assert sizes == sorted(sizes, reverse=True)
    assert "version.txt" in told(capsys, "list") and "fits nothing*" in told(capsys, "list", "nothing*")


def test_what_is_whole(capsys):
    assert asked(capsys, "verify")["wrong"] == [] and "all whole" in told(capsys, "verify")


@pytest.mark.parametrize("name, damage, fault", [
    ("add_kernel.obj", lambda path: path.write_bytes(b"other"), "damaged"),
    ("add_kernel.json.sum", lambda path: path.write_text("nonsense"), "damaged"),
    ("add_kernel.ttir", lambda path: path.unlink(), "incomplete"),
    ("add_kernel.obj", lambda path: path.chmod(0o666), "not trusted: others could have written it"),
])
def test_what_is_not_whole_is_found_and_removed(filled, capsys, name, damage, fault):
    damage(kernel_folder(filled) / name)
    found = asked(capsys, "verify", status=1)["wrong"]
    assert [(one["name"], one["fault"]) for one in found] == [("add_kernel", fault)]
    assert f"add_kernel (kernel) in {kernel_folder(filled).name}: {fault}" in told(capsys, "verify", status=1)
    assert ", removed" in told(capsys, "verify", "--remove")
    assert not list(filled.glob("*/add_kernel.json")) and "all whole" in told(capsys, "verify")


def test_a_damaged_part_is_found(filled, capsys):
    next(filled.glob("*/version.txt")).write_text("13")
    assert "version.txt (part)" in told(capsys, "verify", status=1)


def test_what_is_named_is_removed(filled, capsys):
    assert "would remove 2 entries" in told(capsys, "clear", "add_kernel", "--dry-run")
    assert len(asked(capsys, "clear", "add_kernel", "--kind", "kernel")["entries"]) == 1
    assert not list(filled.glob("*/add_kernel.json")) and list(filled.glob("*/add_kernel.autotune.json"))


def test_what_is_old_is_removed(filled, capsys):
    then = time.time() - 3 * 3600
    for path in kernel_folder(filled).iterdir():
        os.utime(path, (then, then))
    assert "removed 0 entries" in told(capsys, "clear", "--older-than", "4h")
    assert "removed 1 entries" in told(capsys, "clear", "--older-than", "2h")


def test_everything_of_the_cache_is_removed_and_nothing_else(filled, capsys):
    (filled / "mine.txt").write_text("kept")
    (filled / "bench").mkdir()
    (filled / "bench" / "history.jsonl").write_text("{}\n")
    told(capsys, "clear", "--all")
    assert contents(str(filled)) == [] and (filled / "mine.txt").exists()
    assert (filled / "bench" / "history.jsonl").exists()
    x = np.ones(64, np.float32)
    assert add_kernel.warmup(x, x, x, 64, BLOCK=64, grid=(1,)).name == "add_kernel"  # is made again
    assert list(filled.glob("*/add_kernel.json"))


def test_a_limit_lasts(filled, capsys):
    assert asked(capsys, "limit") == {"folder": str(filled), "limit": 8 << 30, "by_variable": None,
                                      "bytes": sum(one.size for one in contents(str(filled)))}
    assert "may take 2 GiB" in told(capsys, "limit", "2G") and knobs.cache.max_size == 2 << 30
    assert "any number of bytes" in told(capsys, "limit", "0") and knobs.cache.max_size == 0
    assert "may take 8 GiB" in told(capsys, "limit", "usual") and knobs.cache.max_size == 8 << 30
    assert not (filled / knobs.LIMIT).exists()


def test_setting_a_limit_makes_room(filled, capsys):
    for path in filled.glob("*/*"):
        os.utime(path, (1e9, 1e9))
    told(capsys, "limit", "1k")
    assert sum(one.size for one in contents(str(filled))) <= 1024


def test_what_was_just_used_stays(filled, capsys):
    assert "what was used in the last ten minutes stays" in told(capsys, "limit", "1")
    assert list(filled.glob("*/add_kernel.json"))


def test_the_variable_is_stronger_than_the_file(monkeypatch, capsys):
    told(capsys, "limit", "2G")
    monkeypatch.setenv("TRITIUM_CACHE_MAX_SIZE", "3G")
    assert knobs.cache.max_size == 3 << 30
    assert "TRITIUM_CACHE_MAX_SIZE=3G decides; without it the limit is 2 GiB" in told(capsys, "limit")


@pytest.mark.parametrize("text", ["", "much", "\xff", "-3"])
def test_a_damaged_limit_is_the_usual_one(filled, text):
    (filled / knobs.LIMIT).write_bytes(text.encode("latin-1"))
    assert knobs.cache.max_size == 8 << 30


def test_the_limit_holds_for_launches(filled, capsys):
    for path in filled.glob("*/*"):
        os.utime(path, (1e9, 1e9))
    Path(filled, knobs.LIMIT).write_text("2k\n")
    cache_limits._known.clear()
    (filled / cache_limits.STAMP).unlink(missing_ok=True)
    FileCacheManager(base32("ef" * 32)).put(b"x" * 100, "k.obj")
    assert sum(one.size for one in contents(root())) <= 2048


@pytest.mark.parametrize("arguments, said", [
    ([], "say what to do: stats, list, verify, clear or limit"), (["stat"], "invalid choice: 'stat'"),
    (["clear"], "say what to remove: names, --kind, --older-than or --all"),
    (["clear", "--older-than", "long"], "'long' is no age: write 30m, 12h, 7d or 4w"),
    (["limit", "much"], "'much': a size is a number of bytes"), (["list", "--kind", "x"], "invalid choice: 'x'"),
])
def test_mistakes_are_one_line(capsys, arguments, said):
    try:
        status = main(["cache", *arguments])
    except SystemExit as end:
        status = end.code
    err = capsys.readouterr().err
    assert status == 2 and said in err and err.startswith("tritium cache: ") and err.count("\n") == 1


@pytest.mark.parametrize("command", ["stats", "list", "verify", "clear", "limit"])
def test_help_has_an_example(capsys, command):
    with pytest.raises(SystemExit) as end:
        main(["cache", command, "--help"])
    assert end.value.code == 0 and "example: python -m tritium cache" in capsys.readouterr().out


