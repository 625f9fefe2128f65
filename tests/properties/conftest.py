"""Random kernels are text; `load(text)` makes a kernel of one."""

import importlib.util
import itertools
import linecache

import pytest


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    """The kernel of a text, from a file: a kernel is compiled from its source."""
    folder, count = tmp_path_factory.mktemp("kernels"), itertools.count()

    def load(text):
        path = folder / f"kernel{next(count)}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        linecache.checkcache(str(path))
        return module.kernel

    return load
