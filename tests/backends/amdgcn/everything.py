"""Compile every kernel of the collection, every text kernel with `# run:` lines, and the kernels of the GPU language
tests for AMD GPUs: `python tests/backends/amdgcn/everything.py [gfx942 ...]`. It takes minutes for each architecture;
`test_compile.py` has a sample. Where an `llvm-mc` knows the architecture, machine code must come back from its
disassembler and assembler unchanged."""

import inspect
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[3]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import pytest  # noqa: E402

from tests.backends.amdgcn.compiled import TARGETS, comes_back, compiled, llvm_mc, object_of  # noqa: E402
from tests.backends.gpu import test_language  # noqa: E402
from tests.backends.gpu.toy import collection  # noqa: E402
from tests.exec import test_exec  # noqa: E402
from tritium.backends.amdgcn import MOST_THREADS  # noqa: E402
from tritium.backends.amdgcn.compile import assembled  # noqa: E402
from tritium.backends.amdgcn.isa.target import AmdTarget  # noqa: E402
from tritium.insight import emulator  # noqa: E402
from tritium.ir.text import parse_module  # noqa: E402
from tritium.ir.verify import verify  # noqa: E402
from tritium.runtime.jit import JITFunction  # noqa: E402

OPTIONS = ("num_warps", "num_stages", "enable_fp_fusion")


@contextmanager
def launches(take):
    """Launches of kernels go to take(name, module, options)."""

    def launch(kernel, args, kwargs):
        options = {name: kwargs.pop(name) for name in OPTIONS if name in kwargs and name not in kernel.arg_names}
        bound = inspect.signature(kernel.fn).bind(*args, **kwargs)
        bound.apply_defaults()
        take(kernel.fn.__name__, test_language.module_of(kernel, list(bound.arguments.values()))[0], options)

    with (mock.patch.object(JITFunction, "__getitem__", lambda self, grid: lambda *x, **more: launch(self, x, more)),
          mock.patch.object(JITFunction, "warmup", lambda self, *args, **kwargs: None)):  # fmt: skip
        yield


def kernels_of(names=tuple(collection.CASES)):
    """{name of the case: [(name, module, options)]} of kernels of the collection, as their functions launch them."""
    found = {}
    for name in names:
        with launches(lambda *row, name=name: found.setdefault(name, []).append(row)), np.errstate(all="ignore"):
            collection.CASES[name]()
    return found


def fitting(options, arch):
    """The options with as many warps as a program may have."""
    return {**options, "num_warps": min(options.get("num_warps", 4), MOST_THREADS // AmdTarget.of(arch).warp_size)}


class Compile:
    """A plugin for pytest: what tests would run emulated is compiled, and compared with nothing."""

    def __init__(self, arch):
        self.arch, self.count, self.failed = arch, 0, []

    def pytest_collection_modifyitems(self, items):
        for module in {item.module for item in items}:
            module.interpret = module.agree = lambda *x: None

    def take(self, module, args, grid=(1,), arch=90, num_warps=4, num_stages=3):
        try:
            compiled(module, self.arch, **fitting({"num_warps": num_warps, "num_stages": num_stages}, self.arch))
        except Exception as error:
            self.failed.append((module.name, repr(error)))
        self.count += 1


def language_tests(arch):
    """How many kernels of the language tests were compiled."""
    plugin = Compile(arch)
    with mock.patch.object(emulator, "run", plugin.take):
        pytest.main(["-q", "--tb=no", "-m", "not gpu", str(ROOT / "tests/backends/gpu/test_language.py")],
                    plugins=[plugin])  # results are wrong, of course  # fmt: skip
    assert not plugin.failed, plugin.failed
    return plugin.count


def _comes_back(llir, arch, folder):
    return comes_back(object_of(llir, arch), assembled(llir, arch), arch, folder)


def main(architectures, folder):
    everything = [row for rows in kernels_of().values() for row in rows]
    everything += [(str(run), verify(parse_module(run.kernel)), {}) for run in test_exec.CASES]
    for arch in architectures or TARGETS:
        start = time.perf_counter()
        for name, module, options in everything:
            try:
                stages, metadata = compiled(module, arch, **fitting(options, arch))
                assert stages["hsaco"] and metadata["shared"] <= AmdTarget.of(arch).shared_bytes
                assert not llvm_mc(arch) or _comes_back(stages["llir"], arch, folder)
            except Exception as error:
                raise AssertionError(f"{name} for {arch}") from error
        count = language_tests(arch)
        seconds = time.perf_counter() - start
        checked = "disassembled and assembled again" if llvm_mc(arch) else "not disassembled: no llvm-mc knows them"
        print(f"{arch}: {len(everything)} kernels, {checked}, and {count} of the language tests, {seconds:.0f} s",
              flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1:], Path(folder))
