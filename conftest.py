"""For tests and docstring examples: one cache directory per run, settings that end with the test that made them, the
`gpu` marker, how hard hypothesis tries."""

import contextlib
import os
import shutil
import subprocess
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


@pytest.fixture(autouse=True)
def settings_end_with_the_test():
    """`monkeypatch.setattr` would leave a setting's old value behind, as one made from Python."""
    from tritium import knobs

    with contextlib.ExitStack() as stack:
        for group in filter(lambda value: isinstance(value, knobs.Group), list(vars(knobs).values())):
            stack.enter_context(group.scope())
        yield


def pytest_addoption(parser):
    parser.addoption("--update", action="store_true", help="rewrite the expected parts of .tir files")


def pytest_ignore_collect(collection_path):
    """Files that cannot be imported without hypothesis are left out where it is not installed."""
    if settings is None and collection_path.suffix == ".py":
        return "from hypothesis" in collection_path.read_text() or None


def pytest_sessionfinish(session):
    if _OWNED:
        shutil.rmtree(_OWNED, ignore_errors=True)


def _has_gpu() -> bool:
    tool = shutil.which("nvidia-smi")
    return tool is not None and subprocess.run([tool, "-L"], capture_output=True).returncode == 0


def pytest_collection_modifyitems(items):
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not _has_gpu():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no NVIDIA GPU on this machine"))
