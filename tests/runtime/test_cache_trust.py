"""Code is loaded only from files nobody else could have written: owners, modes, links, sticky folders, signatures.

Other users are played by what the system says of a file, so that these tests need no rights.
"""

import os
import re
import stat
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import pytest

from tests.runtime.cache_entries import assembler, cache_in, files, forget, launch, use_everything
from tritium import cache, cache_folders, knobs, trusted_files
from tritium.cache import FileCacheManager, GroupWriter, read, read_group
from tritium.trusted_files import exposed, fault

STRANGER = 54321


@pytest.fixture(autouse=True)
def settings(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    trusted_files._walked.clear()
    with cache_in(tmp_path):
        yield
    trusted_files._walked.clear()


@pytest.fixture
def variables(settings):
    """A `monkeypatch` that is undone before the settings are: it would put back what they had set."""
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture
def give(monkeypatch):
    """`give(path)`: it belongs to a stranger, and so does what is put there in its place; `give(path, user)`."""
    owners, held, hold = {}, [], os.open
    calls = {name: getattr(os, name) for name in ("stat", "lstat", "fstat")}

    def asked(name):
        def call(where, *args, **kwargs):
            found = calls[name](where, *args, **kwargs)
            owner = owners.get((found.st_dev, found.st_ino))
            return found if owner is None else os.stat_result([*found[:4], owner, *found[5:]])

        return call

    for name in calls:
        monkeypatch.setattr(os, name, asked(name))

    def hand(path, user=STRANGER):
        found = calls["lstat"](path)
        owners[found.st_dev, found.st_ino] = user
        held.append(hold(path, os.O_PATH | os.O_NOFOLLOW))  # no other file gets its number

    yield hand
    for file in held:
        os.close(file)


def refusal(match):
    return pytest.warns(UserWarning, match=match)


def entry(root, key="k", text="code"):
    """A whole entry, in a directory with its checks off."""
    manager = FileCacheManager(key, directory=str(root))
    writer = GroupWriter(manager, "k.json")
    writer.put("{}", "k.json")
    writer.put(text, "k.obj")
    writer.close()
    return manager


# ---------------------------------------------------------------------------------------------------------------------
# Files


@pytest.mark.parametrize("name", ["__grp__k.json", "k.json.sum", "k.obj"])
def test_a_strangers_file_is_a_miss(give, name):
    manager = entry(knobs.cache.dir)
    give(os.path.join(manager.cache_dir, name))
    with refusal(f"belongs to user {STRANGER}.*TRITIUM_CACHE_DIR.*TRITIUM_CACHE_KEY"):
        group = read_group(manager, "k.json")
        assert group is None or group.read("k.obj") is None
    assert cache.stats().refused == 1
    assert read_group(entry(knobs.cache.dir), "k.json").read("k.obj") == b"code"  # replaced by one of our own


def test_a_file_of_root_is_trusted(give):
    manager = entry(knobs.cache.dir)
    for path in files(knobs.cache.dir):
        give(path, 0)
    assert read_group(manager, "k.json").read("k.obj") == b"code"


@pytest.mark.parametrize("mode", [0o666, 0o602, 0o777])
def test_a_file_that_others_can_write_is_a_miss(mode):
    manager = entry(knobs.cache.dir)
    os.chmod(os.path.join(manager.cache_dir, "k.obj"), mode)
    with refusal("can be written by every user"):
        assert read_group(manager, "k.json").read("k.obj") is None


def test_links_are_not_followed(tmp_path):
    manager = entry(knobs.cache.dir)
    path = Path(manager.cache_dir, "k.obj")
    path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    with pytest.warns(UserWarning, match="damaged or cannot be read"):
        assert read_group(manager, "k.json").read("k.obj") is None


def test_what_is_read_is_what_was_looked_at(give, monkeypatch):
    """A stranger who puts their file there between the look and the reading is seen: the open file is looked at."""
    manager = entry(knobs.cache.dir)
    group = read_group(manager, "k.json")
    path = group.paths["k.obj"]
    opened = os.open

    def swap(where, *args, **kwargs):
        if where == path:
            Path(path + ".theirs").write_text("code")
            os.replace(path + ".theirs", path)
            give(path)
        return opened(where, *args, **kwargs)

    monkeypatch.setattr(os, "open", swap)
    with refusal("belongs to user"):
        assert group.read("k.obj") is None


def test_modes_of_what_is_made(tmp_path):
    before = os.umask(0)
    try:
        knobs.cache.dir = str(tmp_path / "a" / "b" / "cache")
        use_everything(assembler(tmp_path))
    finally:
        os.umask(before)
    for path in (tmp_path / "a").rglob("*"):
        if path.name != ".size":
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700


# ---------------------------------------------------------------------------------------------------------------------
# Directories


def test_a_planted_object_in_a_sticky_folder_does_not_run(tmp_path, give):
    """The trial: a stranger who knows the key of a kernel makes its directory first, and whole files in it."""
    launch()
    key = launch().hash
    root = Path(knobs.cache.dir)
    root.chmod(0o1777)
    forget()
    folder = root / cache.base32(key)
    for path in (folder, *folder.iterdir()):
        give(path)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    cache.reset_stats()
    with refusal(f"belongs to user {STRANGER}") as told:
        launch()
    assert len(told) == 1 and cache.stats().hits == 0 and cache.stats().refused >= 1 and cache.stats().failures == 1
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before  # nothing is written there either


def test_our_own_entries_in_a_sticky_folder_are_used(tmp_path):
    knobs.cache.dir = str(tmp_path / "shared")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        launch()
        forget()
        launch()
    assert cache.stats().hits == 1


@pytest.mark.parametrize("where", ["cache", "cache/..", "cache/KEY"])
def test_a_directory_that_all_can_write(tmp_path, where):
    knobs.cache.dir = str(tmp_path / "above" / "cache")
    manager = entry(knobs.cache.dir, "KEY")
    Path(knobs.cache.dir, where.removeprefix("cache").lstrip("/")).resolve().chmod(0o777)
    trusted_files._walked.clear()
    with refusal("can be written by every user"):
        group = read_group(FileCacheManager("KEY"), "k.json")
    assert group is None or group.read("k.obj") is None
    assert manager.cache_dir.startswith(knobs.cache.dir)


@pytest.mark.parametrize("what", ["written by all", "a stranger's"])
def test_a_cache_that_is_not_ours_is_left_for_a_private_one(tmp_path, give, what):
    knobs.cache.dir = str(tmp_path / "theirs")
    (tmp_path / "theirs").mkdir()
    if what == "written by all":
        (tmp_path / "theirs").chmod(0o777)
    else:
        give(tmp_path / "theirs")
    program = assembler(tmp_path)
    with pytest.warns(UserWarning) as told:
        use_everything(program)
    private = tmp_path / "temporary" / f"tritium-{os.geteuid()}"
    assert len(told) == 1 and f"kept in {private}" in str(told[0].message)
    assert "TRITIUM_CACHE_KEY" in str(told[0].message)
    assert not files(tmp_path / "theirs") and len(files(private)) > 10
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    use_everything(program)
    assert cache.stats().hits == 1


@pytest.mark.parametrize("squatted", ["stranger", "open", "link", "file"])
def test_a_private_directory_somebody_made_before_is_not_used(tmp_path, give, squatted):
    knobs.cache.dir = str(tmp_path / "theirs")
    (tmp_path / "theirs").mkdir(mode=0o777)
    (tmp_path / "theirs").chmod(0o777)
    private = tmp_path / "temporary" / f"tritium-{os.geteuid()}"
    if squatted == "link":
        (tmp_path / "elsewhere").mkdir()
        private.symlink_to(tmp_path / "elsewhere")
    elif squatted == "file":
        private.write_text("")
    else:
        private.mkdir(mode=0o700)
        if squatted == "open":
            private.chmod(0o755)
        else:
            give(private)
    program = assembler(tmp_path)
    with pytest.warns(UserWarning, match="is not kept") as told:
        use_everything(program)
    assert len(told) == 1
    assert not files(tmp_path / "theirs") and not [p for p in files(tmp_path / "temporary") if p != private]
    assert not (tmp_path / "elsewhere").exists() or not files(tmp_path / "elsewhere")
    assert cache.stats().hits == 0


def test_links_on_the_way(tmp_path, give):
    """A link counts by who made it, and what it leads through counts too."""
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "inside").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "to").symlink_to(tmp_path / "open" / "inside")
    assert "open can be written" in exposed(str(tmp_path / "to"))
    (tmp_path / "fine").mkdir()
    (tmp_path / "here").symlink_to("fine")
    (tmp_path / "again").symlink_to("./here/../here")
    assert exposed(str(tmp_path / "again")) == "" == exposed(str(tmp_path / "again" / "not yet"))
    (tmp_path / "theirs").symlink_to("fine")
    give(tmp_path / "theirs")
    assert f"user {STRANGER}" in exposed(str(tmp_path / "theirs"))
    (tmp_path / "round").symlink_to("round")
    assert "too many links" in exposed(str(tmp_path / "round"))


def test_a_directory_that_appears_later_is_looked_at(tmp_path, give):
    assert exposed(str(tmp_path / "later")) == ""
    (tmp_path / "later").mkdir()
    give(tmp_path / "later")
    assert exposed(str(tmp_path / "later")) != ""


def test_a_cache_behind_a_link_of_our_own(tmp_path):
    (tmp_path / "large disk").mkdir()
    Path(knobs.cache.dir).symlink_to(tmp_path / "large disk")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        launch()
        forget()
        launch()
    assert cache.stats().hits == 1 and files(tmp_path / "large disk")


class Group:
    def __init__(self, name, members):
        self.gr_name, self.gr_mem = name, members


@pytest.mark.parametrize("name, members, first, safe", [
    ("ann", [], True, True), ("ann", ["ann"], True, True), ("ann", ["bob"], True, False),
    ("users", [], True, False), ("ann", [], False, False)])  # fmt: skip
def test_a_group_of_one(monkeypatch, tmp_path, name, members, first, safe):
    """With a umask of 002 a user's directories can be written by the user's own group."""
    import grp
    import pwd

    trusted_files._own_group.cache_clear()
    path = tmp_path / "f"
    path.write_text("")
    path.chmod(0o664)
    gid = path.stat().st_gid
    user = type("User", (), {"pw_name": "ann", "pw_gid": gid if first else gid + 1})
    monkeypatch.setattr(grp, "getgrgid", lambda gid: Group(name, members))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: user)
    assert fault(os.stat(path)) == ("" if safe else f"can be written by group {gid}")
    trusted_files._own_group.cache_clear()


def test_a_user_the_system_does_not_know_has_no_group_of_one(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    trusted_files._own_group.cache_clear()
    assert not trusted_files._own_group(STRANGER, STRANGER)


def test_layers_obey_the_same_rule(tmp_path, give):
    entry(tmp_path / "layer", "k")
    knobs.cache.read_only_dirs = str(tmp_path / "layer")
    assert read_group(FileCacheManager("k"), "k.json").read("k.obj") == b"code"
    give(tmp_path / "layer", 0)
    trusted_files._walked.clear()
    assert read_group(FileCacheManager("k"), "k.json").read("k.obj") == b"code"
    give(tmp_path / "layer")
    trusted_files._walked.clear()
    with refusal(f"layer belongs to user {STRANGER}"):
        assert read_group(FileCacheManager("k"), "k.json") is None


# ---------------------------------------------------------------------------------------------------------------------
# Signatures

KEY = "an example of a key, thirty-two b"


def test_a_shared_cache_with_a_key(tmp_path, give):
    """Everybody may write there, everything belongs to others: what is signed is used, nothing else."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    knobs.cache.dir, knobs.cache.signing_key = str(shared), KEY
    program = assembler(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        use_everything(program)
        for path in (shared, *shared.rglob("*")):
            give(path)
        use_everything(program)
    assert cache.stats().hits == 1
    (path,) = shared.rglob("thrice.obj")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.warns(UserWarning, match="checksum is wrong"):
        use_everything(program)


@pytest.mark.parametrize("theirs", [None, "another key of sufficient length"])
def test_what_is_not_signed_with_the_key_is_a_miss(tmp_path, theirs):
    knobs.cache.signing_key = theirs
    launch()
    knobs.cache.signing_key = KEY
    forget()
    with pytest.warns(UserWarning, match="not signed with the key"):
        launch()
    assert cache.stats().hits == 0
    forget()
    launch()
    assert cache.stats().hits == 1


def test_signed_files_without_the_key_are_a_miss():
    knobs.cache.signing_key = KEY
    launch()
    knobs.cache.signing_key = None
    forget()
    with pytest.warns(UserWarning, match="signed with a key"):
        launch()
    assert cache.stats().hits == 0


def test_a_signed_file_in_the_place_of_another(tmp_path):
    """A signature covers the name of the file, so a signed file does not pass for another."""
    knobs.cache.signing_key = KEY
    entry(knobs.cache.dir, "one", "first")
    entry(knobs.cache.dir, "two", "second")
    one, two = (Path(knobs.cache.dir, key) for key in ("one", "two"))
    for path in two.iterdir():
        (one / path.name).write_bytes(path.read_bytes())
    with pytest.warns(UserWarning, match="checksum is wrong"):
        assert read_group(FileCacheManager("one"), "k.json") is None


def test_keys(tmp_path):
    knobs.cache.signing_key = "short"
    with pytest.raises(ValueError, match="at least 16"):
        read(FileCacheManager("k"), "f")
    knobs.cache.signing_key, knobs.cache.signing_key_file = None, str(tmp_path / "none")
    with pytest.raises(ValueError, match="TRITIUM_CACHE_KEY_FILE names a file"):
        FileCacheManager("k")
    (tmp_path / "key").write_text(KEY + "\n")
    (tmp_path / "key").chmod(0o600)
    knobs.cache.signing_key_file = str(tmp_path / "key")
    assert cache.signing_key() == cache_folders._signing_key(KEY, None)
    (tmp_path / "open").write_text(KEY)
    (tmp_path / "open").chmod(0o666)
    knobs.cache.signing_key_file = str(tmp_path / "open")
    with pytest.raises(ValueError, match="can be written by every user"):
        FileCacheManager("k")


def test_a_key_is_not_shown():
    knobs.cache.signing_key = KEY
    assert KEY not in repr(knobs.cache) and os.environ["TRITIUM_CACHE_KEY"] == KEY


def test_shared_files_can_be_read_by_others():
    knobs.cache.signing_key = KEY
    before = os.umask(0o022)
    try:
        manager = entry(knobs.cache.dir)
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(manager.cache_dir).st_mode) == 0o755
    assert stat.S_IMODE(os.stat(os.path.join(manager.cache_dir, "k.obj")).st_mode) == 0o644


# ---------------------------------------------------------------------------------------------------------------------
# Where it is


@pytest.mark.parametrize("name", ["TRITIUM_CACHE_DIR", "TRITON_CACHE_DIR", "TRITIUM_HOME", "TRITON_DUMP_DIR"])
def test_an_empty_variable_is_one_that_is_not_set(variables, tmp_path, name):
    for key in ("TRITIUM_CACHE_DIR", "TRITON_CACHE_DIR", "TRITIUM_HOME", "TRITON_HOME", "TRITON_DUMP_DIR"):
        variables.delenv(key, raising=False)
    knobs.cache.reset()
    variables.setenv("HOME", str(tmp_path))
    wanted = knobs.cache.dir, knobs.cache.dump_dir
    variables.setenv(name, "")
    assert (knobs.cache.dir, knobs.cache.dump_dir) == wanted == (
        str(tmp_path / ".triton" / "cache"), str(tmp_path / ".triton" / "dump"))
    variables.setenv("TRITIUM_CACHE_DIR", "")
    variables.setenv("TRITON_CACHE_DIR", "/theirs")
    assert knobs.cache.dir == "/theirs"


@pytest.mark.parametrize("home", ["", "relative", None])
def test_no_home(variables, tmp_path, home):
    for key in ("TRITIUM_CACHE_DIR", "TRITON_CACHE_DIR", "TRITIUM_HOME", "TRITON_HOME"):
        variables.delenv(key, raising=False)
    knobs.cache.reset()
    if home is None:
        variables.delenv("HOME")
        variables.setattr(os.path, "expanduser", lambda path: path)  # as for a user the system does not know
    else:
        variables.setenv("HOME", home)
    private = tmp_path / "temporary" / f"tritium-{os.geteuid()}"
    assert knobs.cache.dir == str(private / ".triton" / "cache")
    with pytest.warns(UserWarning, match=f"there is no home directory.*{re.escape(str(private))}") as told:
        launch()
    forget()
    launch()
    assert len(told) == 1 and cache.stats().hits == 1 and stat.S_IMODE(private.stat().st_mode) == 0o700


def test_a_home_that_cannot_be_written(monkeypatch, tmp_path):
    (tmp_path / "home").mkdir()
    knobs.cache.dir = str(tmp_path / "home" / ".triton" / "cache")
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode, **more: path != str(tmp_path / "home") and access(path, mode))
    with pytest.warns(UserWarning, match="cannot be made.*kept in.*TRITIUM_CACHE_DIR"):
        launch()
    assert not list((tmp_path / "home").iterdir())


def test_a_relative_directory_stays_where_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    knobs.cache.dir = "somewhere"
    manager = FileCacheManager("k")
    monkeypatch.chdir("/")
    assert manager.put("x", "f") == str(tmp_path / "somewhere" / "k" / "f")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user")
def test_a_stranger_in_truth(tmp_path_factory):
    """As root: another user's entry, whole and under the right key, is not loaded from a shared folder."""
    shared = Path(tempfile.mkdtemp(dir="/tmp"))
    shared.chmod(0o1777)
    knobs.cache.dir = str(shared)
    try:
        key = launch().hash
        folder = shared / cache.base32(key)
        for path in (*folder.iterdir(), folder):
            os.chown(path, STRANGER, STRANGER)
        forget()
        cache.reset_stats()
        with refusal(f"belongs to user {STRANGER}, this process runs as user 0"):
            launch()
        assert cache.stats().hits == 0 and folder.stat().st_uid == STRANGER
    finally:
        subprocess.run([sys.executable, "-c", f"import shutil; shutil.rmtree({str(shared)!r})"], check=True)
