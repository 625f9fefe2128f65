"""Settings: environment, Python, scopes, hooks (LANGUAGE 18)."""

import os
import sys

import pytest

from tritium import knobs, processors


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    """Leave the settings and the environment as they were."""
    groups = [value for value in vars(knobs).values() if isinstance(value, knobs.Group)]
    held = {group: group._values() for group in groups}
    saved = dict(os.environ)
    yield
    for group in groups:
        group.reset().__dict__.update(held[group])
    os.environ.clear()
    os.environ.update(saved)
    knobs.propagate_env = True


@pytest.mark.parametrize(("text", "value"), [
    ("1", True), ("y", True), ("YES", True), ("on", True), ("True", True), ("0", False), ("", False), ("2", False)])
def test_booleans(monkeypatch, text, value):
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", text)
    assert knobs.compilation.always_compile is value


def test_our_name_wins_over_tritons(monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", "/theirs")
    assert knobs.cache.dir == "/theirs"
    monkeypatch.setenv("TRITIUM_CACHE_DIR", "/ours")
    assert knobs.cache.dir == "/ours"


def test_default_directories_follow_home(monkeypatch):
    for name in ("TRITIUM_HOME", "TRITON_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("TRITIUM_CACHE_DIR", raising=False)
    monkeypatch.delenv("TRITON_CACHE_DIR", raising=False)
    assert knobs.cache.dir == os.path.expanduser("~/.triton/cache")
    monkeypatch.setenv("TRITON_HOME", "/home/of/caches")
    assert knobs.cache.dir == "/home/of/caches/.triton/cache"
    assert knobs.cache.dump_dir == "/home/of/caches/.triton/dump"


def test_setting_writes_the_environment_unless_told_not_to(monkeypatch):
    knobs.cache.dir = "/here"
    assert knobs.cache.dir == os.environ["TRITON_CACHE_DIR"] == "/here"
    knobs.propagate_env = False
    knobs.cache.dir = "/there"
    assert knobs.cache.dir == "/there" and os.environ["TRITON_CACHE_DIR"] == "/here"
    del knobs.cache.dir
    assert knobs.cache.dir == "/here"
    knobs.cache.dir = "/there"
    knobs.cache.dir = knobs.env
    assert knobs.cache.dir == "/here"


def test_setting_reaches_children_that_see_our_name(monkeypatch):
    monkeypatch.setenv("TRITIUM_CACHE_DIR", "/ours")
    knobs.cache.dir = "/here"
    assert os.environ["TRITIUM_CACHE_DIR"] == "/here"


def test_none_removes_the_variable(monkeypatch):
    monkeypatch.setenv("TRITON_OVERRIDE_ARCH", "sm80")
    assert knobs.runtime.override_arch == "sm80"
    knobs.runtime.override_arch = None
    assert "TRITON_OVERRIDE_ARCH" not in os.environ and knobs.runtime.override_arch is None


def test_scope_restores_values_hooks_and_environment():
    seen = []
    with knobs.runtime.scope():
        knobs.runtime.override_arch = "sm80"
        knobs.runtime.launch_enter_hook.add(seen.append)
        knobs.runtime.launch_enter_hook(1)
    assert seen == [1] and not knobs.runtime.launch_enter_hook
    assert "TRITON_OVERRIDE_ARCH" not in os.environ and knobs.runtime.override_arch is None


def test_copy_is_independent_and_reset_forgets():
    knobs.redis.port = 1
    other = knobs.redis.copy()
    other.port = 2
    assert (knobs.redis.port, other.port) == (1, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TRITON_REDIS_PORT")
        assert knobs.redis.reset().port == 6379


def test_debug_is_cached_until_refreshed(monkeypatch):
    assert knobs.runtime.debug is False
    monkeypatch.setenv("TRITON_DEBUG", "1")
    assert knobs.runtime.debug is False
    knobs.refresh_knobs()
    assert knobs.runtime.debug is True


def test_hook_chains_run_in_order_and_assigning_a_callable_makes_one():
    seen = []
    one, two = (lambda x: seen.append(("one", x))), (lambda x: seen.append(("two", x)))
    knobs.runtime.launch_enter_hook = one
    knobs.runtime.launch_enter_hook.add(two)
    knobs.runtime.launch_enter_hook.add(two)
    knobs.runtime.launch_exit_hook.add(one)
    knobs.runtime.launch_exit_hook.add(two)
    knobs.runtime.launch_enter_hook(0)
    knobs.runtime.launch_exit_hook(1)
    assert seen == [("one", 0), ("two", 0), ("two", 1), ("one", 1)]
    knobs.runtime.launch_enter_hook.remove(two)
    knobs.runtime.launch_enter_hook = None
    assert not knobs.runtime.launch_enter_hook


def test_listeners_hear_of_every_change():
    calls = []
    knobs.listeners.append(lambda: calls.append(1))
    try:
        changes = [
            lambda: setattr(knobs.runtime, "debug", True),
            lambda: delattr(knobs.runtime, "debug"),
            lambda: knobs.runtime.launch_enter_hook.add(print),
            lambda: knobs.runtime.launch_enter_hook.remove(print),
            lambda: setattr(knobs, "runtime", knobs.runtime),
            lambda: knobs.runtime.reset(),
        ]
        for change in changes:
            before = len(calls)
            change()
            assert len(calls) > before
    finally:
        knobs.listeners.pop()


def test_internal_settings_are_read_without_a_group(monkeypatch):
    monkeypatch.setenv("TRITIUM_NUM_THREADS", "7")
    assert knobs.num_threads == 7
    knobs.num_threads = 3
    assert knobs.num_threads == knobs.internal.num_threads == 3 and "num_threads" not in vars(knobs)
    del knobs.num_threads
    assert knobs.num_threads == 3 and os.environ["TRITIUM_NUM_THREADS"] == "3"


@pytest.mark.parametrize("files, wanted", [
    ({"cpu.max": "200000 100000"}, 2), ({"cpu.max": "150000 100000"}, 2), ({"cpu.max": "max 100000"}, None),
    ({"cpu.max": "10000 100000"}, 1), ({"cpu/cpu.cfs_quota_us": "400000", "cpu/cpu.cfs_period_us": "100000"}, 4),
    ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None), ({}, None),
])  # fmt: skip
def test_a_container_has_as_many_processors_as_its_quota(tmp_path, files, wanted):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert processors.quota(str(tmp_path)) == wanted


def test_verify_is_on_under_pytest():
    assert knobs.verify is True


def test_unknown_setting_names_the_known_ones():
    with pytest.raises(AttributeError, match=r"knobs.redis has no setting 'hots': it has key_format, host, port"):
        knobs.redis.hots = 1
    with pytest.raises(AttributeError, match="no setting 'hots'"):
        knobs.redis.hots


def test_bad_text_names_the_variable(monkeypatch):
    monkeypatch.setenv("TRITON_REDIS_PORT", "many")
    with pytest.raises(ValueError, match="TRITON_REDIS_PORT='many'"):
        knobs.redis.port


def test_classes_are_loaded_by_name(monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_MANAGER", "collections:OrderedDict")
    assert knobs.cache.manager_class.__name__ == "OrderedDict"
    monkeypatch.setenv("TRITON_CACHE_MANAGER", "collections")
    with pytest.raises(RuntimeError, match="module:Class"):
        knobs.cache.manager_class


def test_tools_have_a_path_and_a_version(tmp_path, monkeypatch):
    program = tmp_path / "ptxas"
    program.write_text(f"#!{sys.executable}\nprint('Cuda compilation tools, release 12.8, V12.8.93')\n")
    program.chmod(0o755)
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(program))
    assert knobs.nvidia.ptxas.path == str(program) and knobs.nvidia.ptxas.version == "12.8"


def test_cache_invalidating_variables(monkeypatch):
    monkeypatch.setenv("TRITIUM_F32_DEFAULT", "ieee")
    monkeypatch.setenv("DISABLE_LLVM_OPT", "1")
    found = knobs.cache_invalidating_env()
    assert found["TRITON_F32_DEFAULT"] == "ieee" and found["DISABLE_LLVM_OPT"] == "1"
