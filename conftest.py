"""For tests and docstring examples: one cache directory per run, settings that end with the test that made them, the
`gpu` and `sampled` markers, workers that lose their GPU, how hard hypothesis tries."""

import collections
import functools
import gc
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile

import pytest

# Kernels compiled by tests neither fill nor profit from the user's own cache.
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp(prefix="tritium-test-")
    os.environ.pop("TRITIUM_CACHE_DIR", None)
    _OWNED = os.environ["TRITON_CACHE_DIR"]
else:
    _OWNED = None

try:
    from hypothesis import HealthCheck, settings
except ImportError:  # the machine with the GPU may have pytest alone
    settings = None
else:
    settings.register_profile("quick", max_examples=40, deadline=None, derandomize=True)
    settings.register_profile("fuzz", max_examples=3000, deadline=None,
                              suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    settings.load_profile("quick")


@functools.cache
def _groups_of_settings():
    """The groups, and the environment variables that set them."""
    from tritium import knobs

    groups = [value for value in vars(knobs).values() if isinstance(value, knobs.Group)]
    keys = {row.key for group in groups for row in group.knob_descriptors.values()}
    return groups, frozenset(name for key in keys for name in knobs._names(key))


@pytest.fixture(autouse=True)
def settings_end_with_the_test():
    """`monkeypatch.setattr` would leave a setting's old value behind, as one made from Python.

    As `Group.scope` of every group does it, but each kernel that was ever launched is told once rather than for each
    group: there are hundreds, and 20,000 tests.
    """
    from tritium import knobs

    groups, keys = _groups_of_settings()
    before, environment = [(group, group._values()) for group in groups], os.environ.copy()
    yield
    for group, values in before:
        for name in group._rows:
            group.__dict__.pop(name, None)
        group.__dict__.update(values)
    for key in keys & {key for key, _ in environment.items() ^ os.environ.copy().items()}:
        if key in environment:
            os.environ[key] = environment[key]
        else:
            del os.environ[key]
    knobs.changed()


def pytest_addoption(parser):
    parser.addoption("--update", action="store_true", help="rewrite the expected parts of .tir files")
    parser.addoption("--all", action="store_true", help="every combination of parameters of tests marked `sampled`")


def pytest_ignore_collect(collection_path):
    """Files that cannot be imported without hypothesis are left out where it is not installed."""
    if settings is None and collection_path.suffix == ".py":
        return "from hypothesis" in collection_path.read_text() or None


def pytest_collection_finish():
    _freeze()


_TESTS_BETWEEN = 500


def pytest_runtest_logfinish(nodeid, location):
    global _finished
    _finished += 1
    if _finished % _TESTS_BETWEEN == 0:
        _freeze()


_finished = 0


def _freeze():
    """Tests ask for collections of garbage: each would walk the 20,000 collected tests too, and what ran before."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session):
    if _OWNED:
        shutil.rmtree(_OWNED, ignore_errors=True)


# Tests of NVIDIA's own backend: they compile by its stages, whatever GPU there is.
_NVIDIAS = ("tests/backends/gpu/", "tests/insight/profile/test_cuda.py")


def _gpu() -> str | None:
    """Whose GPU this machine has: "nvidia", "amd" or None."""
    tool = shutil.which("nvidia-smi")
    if tool is not None and subprocess.run([tool, "-L"], capture_output=True).returncode == 0:
        return "nvidia"
    if os.path.exists("/dev/kfd"):
        from tritium.backends.amdgcn.driver import Driver

        return "amd" if Driver.is_usable() else None
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """A kernel that faults takes the driver's context with it, and every later test of the process fails. So a worker
    ends with the first one: pytest-xdist names it, and starts another worker."""
    report = yield
    if report.failed and item.get_closest_marker("gpu") and "PYTEST_XDIST_WORKER" in os.environ and _lost_its_gpu():
        with item.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            print(f"\n{item.nodeid} faulted on the GPU, and its worker ends:\n{report.longreprtext}",
                  file=sys.__stderr__, flush=True)
        os._exit(1)
    return report


def _lost_its_gpu() -> bool:
    """Whether no kernel can run in this process any more."""
    for module, name in (("nvptx.runtime.cuda", "CUDA"), ("amdgcn.runtime.hip", "HIP")):
        driver = getattr(sys.modules.get(f"tritium.backends.{module}"), name, None)
        if driver is not None and driver.available() and driver.function("synchronize")() in driver.sticky:
            return True
    return False


def _vendor(item) -> str | None:
    """Whose GPU a test needs; None if any will do. A marker may say it: `pytest.mark.gpu("amd")`."""
    named = item.get_closest_marker("gpu").args
    return named[0] if named else "nvidia" if any(part in item.nodeid for part in _NVIDIAS) else None


def pytest_collection_modifyitems(config, items):
    marked = [item for item in items if item.get_closest_marker("gpu")]
    here = _gpu() if marked else None
    for item in marked:
        if here is None:
            item.add_marker(pytest.mark.skip(reason="no GPU on this machine"))
        elif _vendor(item) not in (None, here):
            item.add_marker(pytest.mark.skip(reason=f"needs a GPU of {_vendor(item)}, and this machine's is of {here}"))
    if not config.getoption("--all") and not _names_one(config):
        _sample(config, items)


def _names_one(config) -> bool:
    """Whether the command line names tests, rather than files or folders: these run as named."""
    return any("::" in argument for argument in config.args)


def _sample(config, items):
    """Of the tests marked `sampled`, keep those that `_covering` chooses. Tests on a GPU are fast: all stay."""
    functions = collections.defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("gpu") and hasattr(item, "callspec"):
            functions[item.nodeid.partition("[")[0]].append(item)
    kept = {item for cases in functions.values() for item in _covering(cases)}
    left = {item for cases in functions.values() for item in cases if item not in kept}
    if left:
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]


def _covering(cases):
    """Few cases of one function in which each parameter takes each of its values; always the same ones."""
    values = {case: {(name, id(value)) for name, value in case.callspec.params.items()} for case in cases}
    missing, kept = set().union(*values.values()), []
    cases = sorted(cases, key=lambda case: hashlib.sha256(case.nodeid.encode()).digest())
    while missing:
        best = max(cases, key=lambda case: len(missing & values[case]))
        kept.append(best)
        missing -= values[best]
    return kept
