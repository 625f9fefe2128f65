"""Compile everything for AMD GPUs: the collection of kernels, every text kernel, and the kernels of the language tests.

    python tests/backends/amdgcn/everything.py [gfx942 ...]     # all five architectures, about a minute for each

It prints how many specialisations were compiled to code objects, and which were not, and why. Where an `llvm-mc` knows
the architecture, machine code must come back from its disassembler and assembler unchanged. docs/amd.md has the
figures, and `test_compile.py` a sample.
"""

import inspect
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[3]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import pytest  # noqa: E402

from tests.backends.amdgcn.compiled import TARGETS, comes_back, compiled, llvm_mc, object_of  # noqa: E402
from tests.backends.gpu.toy import collection  # noqa: E402
from tests.exec import test_exec  # noqa: E402
from tests.language.coverage.engines import lowered  # noqa: E402
from tests.language.coverage.kernels import Kernels, arguments_of  # noqa: E402
from tests.language.coverage.rows import all_rows  # noqa: E402
from tritium.backends.amdgcn import MOST_THREADS  # noqa: E402
from tritium.backends.amdgcn.compile import assembled  # noqa: E402
from tritium.backends.amdgcn.isa.target import AmdTarget  # noqa: E402
from tritium.backends.compiler import NAMES, BaseBackend, GPUTarget  # noqa: E402
from tritium.insight import emulator  # noqa: E402
from tritium.ir.text import parse_module  # noqa: E402
from tritium.ir.verify import verify  # noqa: E402
from tritium.kernels.registry import kernels  # noqa: E402
from tritium.runtime.autotuner import Autotuner  # noqa: E402
from tritium.runtime.jit import JITFunction  # noqa: E402

SIZES = (96, 256)  # of the arguments of kernels of the collection: one is a power of 2, one is not
GROUPS = {
    "S20": "S20: elementwise, first column, sum", "S21": "S21: softmax", "S22": "S22: norms, dropout",
    "S23": "S23: matrix products, every configuration", "S24": "S24: convolution, pooling, double buffering",
    "S25": "S25: ladder of transposes", "S26": "S26: ladder of products", "S27": "S27: attention, fused MLP",
    "": "the rest of the collection", "text": "text kernels (`tests/exec`)",
    "names": "every name of the language (`tests/language/coverage`)", "language": "language tests (`tests/language`)",
    "gpu": "language tests of GPUs (`tests/backends/gpu/test_{language,scans_and_sorts}.py`)",
}  # fmt: skip


def fitting(options, arch):
    """The options with as many warps as a program may have."""
    return {**options, "num_warps": min(options.get("num_warps", 4), MOST_THREADS // AmdTarget.of(arch).warp_size)}


class Made:
    """What was compiled for one architecture: how many of each group, and what failed. A `folder` is for the files of
    `llvm-mc`; without one, machine code is not disassembled."""

    def __init__(self, arch, folder=None):
        self.arch, self.folder = arch, folder if llvm_mc(arch) else None
        self.counts, self.failed, self._seen = Counter(), [], set()

    def take(self, group, label, make):
        """Compile what `make()` gives, (module, options), unless it was compiled before."""
        try:
            module, options = make()
            options = fitting(options, self.arch)
            if (key := (str(module), *sorted(options.items()))) in self._seen:
                return
            self._seen.add(key)
            stages, metadata = compiled(module, self.arch, **options)
            assert stages["hsaco"] and metadata["shared"] <= AmdTarget.of(self.arch).shared_bytes, "too much LDS"
            if self.folder is not None:
                back = comes_back(object_of(stages["llir"], self.arch), assembled(stages["llir"], self.arch), self.arch,
                                  self.folder)  # fmt: skip
                assert back, "machine code does not come back from the disassembler"
            self.counts[group] += 1
        except Exception as error:  # whatever it is, it is printed beside the others
            text = (str(error) or type(error).__name__).split("\n")[0]
            self.failed.append((group, label, text))


# --- kernels as they are launched ------------------------------------------------------------------------------------
@contextmanager
def launches(take, really=False):
    """Launches go to take(kernel, arguments, options): of tuned kernels, every configuration."""
    plain = JITFunction.__getitem__

    def launch(kernel, grid, args, kwargs):
        options = {name: kwargs[name] for name in NAMES if name in kwargs and name not in kernel.arg_names}
        bound = inspect.signature(kernel.fn).bind(*args, **{k: x for k, x in kwargs.items() if k not in options})
        bound.apply_defaults()
        done = plain(kernel, grid)(*args, **kwargs) if really else None  # what no machine takes is not taken here
        take(kernel, list(bound.arguments.values()), options)
        return done

    def every(tuner, grid, args, kwargs):
        for config in tuner.configs:
            tuner.fn[grid](*args, **kwargs, **config.all_kwargs())

    with (mock.patch.object(JITFunction, "__getitem__", lambda self, grid: lambda *x, **o: launch(self, grid, x, o)),
          mock.patch.object(Autotuner, "__getitem__", lambda self, grid: lambda *x, **o: every(self, grid, x, o)),
          mock.patch.object(JITFunction, "warmup", lambda self, *args, **kwargs: None)):  # fmt: skip
        yield


def module_for(arch, kernel, args, options):
    """The tile IR of a kernel for an architecture."""
    target = GPUTarget.parse(f"hip:{arch}")
    known = BaseBackend(target).parse_options(fitting(options, arch))
    return lowered(kernel, args, options=known, target=target)[0]


def kernels_of(names=tuple(collection.CASES), arch="gfx942"):
    """{name of the case: [(name, module, options)]} of kernels of the collection, as their functions launch them."""
    found = {}
    for name in names:
        rows = found[name] = []
        with launches(lambda kernel, args, options, rows=rows: rows.append(
                (kernel.fn.__name__, module_for(arch, kernel, args, options), options))), np.errstate(all="ignore"):
            collection.CASES[name]()
    return found


# --- the groups -------------------------------------------------------------------------------------------------------
def calls_of_the_collection():
    """(scenario, label, what to call): every record for every dtype, and what tests run on little data besides."""
    for record in kernels().values():
        for dtype, size in ((dtype, size) for dtype in record.dtypes for size in SIZES):
            scenario = record.scenario if record.scenario in GROUPS else ""
            run = lambda record=record, size=size, dtype=dtype: record.wrapper(
                *record.make_arguments(size, dtype, "numpy"))
            yield scenario, f"{record.name}, {dtype}, {size}", run
    for name, case in collection.CASES.items():
        yield "", name, case


def of_the_collection(made, calls=None):
    """The kernels that the collection launches, or some of its calls."""
    for group, label, call in calls or calls_of_the_collection():
        take = lambda kernel, args, options, group=group, label=label: made.take(
            group, f"{label}: {kernel.fn.__name__}", lambda: (module_for(made.arch, kernel, args, options), options))
        with launches(take), np.errstate(all="ignore"):
            call()


def of_texts(made):
    """The kernels of tests/exec."""
    for run in test_exec.CASES:
        made.take("text", str(run), lambda run=run: (verify(parse_module(run.kernel)), {}))


def of_names(made, rows=None):
    """The kernels of docs/coverage.md, or of some rows."""
    rows = rows or all_rows()
    found = Kernels(rows)
    for row in rows:
        values = [x for part in arguments_of(row) for x in part.values()]
        made.take("names", row.name, lambda row=row, values=values: (
            module_for(made.arch, found[row.name], values, {}), {}))  # fmt: skip


class _Emulated:
    """A plugin for pytest: what tests would run emulated is compiled, and compared with nothing."""

    def __init__(self, made):
        self.made = made

    def pytest_collection_modifyitems(self, config):
        for module in config.pluginmanager.get_plugins():  # `check` is a fixture of conftest.py
            if hasattr(module, "interpret"):
                module.interpret = module.agree = lambda *x: None

    def take(self, module, args, grid=(1,), arch=90, num_warps=4, num_stages=3):
        self.made.take("gpu", module.name, lambda: (module, {"num_warps": num_warps, "num_stages": num_stages}))


def of_language_tests(made):
    """What the tests of the language launch, and those that run it on an emulated GPU."""
    quiet = ["-q", "--tb=no", "-p", "no:cacheprovider", "-m", "not gpu"]
    take = lambda kernel, args, options: made.take("language", kernel.fn.__name__, lambda: (
        module_for(made.arch, kernel, args, options), options))  # fmt: skip
    with launches(take, really=True):
        files = [path for path in (ROOT / "tests" / "language").glob("test_*.py") if "[(1,)](" in path.read_text()]
        pytest.main([*quiet, *map(str, files)])
    plugin = _Emulated(made)
    with mock.patch.object(emulator, "run", plugin.take):  # a test that looks at results itself fails, of course
        files = [ROOT / f"tests/backends/gpu/test_{name}.py" for name in ("language", "scans_and_sorts")]
        pytest.main([*quiet, *map(str, files)], plugins=[plugin])


def main(architectures, folder):
    """Print a table of Markdown: a row for each group, and what failed."""
    columns = []
    for arch in architectures or TARGETS:
        start, made = time.perf_counter(), Made(arch, folder)
        for compile_all in (of_the_collection, of_texts, of_names, of_language_tests):
            compile_all(made)
        columns.append(made)
        seconds = time.perf_counter() - start
        round_trip = "disassembled and assembled again" if made.folder else "not disassembled: no llvm-mc knows it"
        print(f"{arch}: {made.counts.total()} compiled, {len(made.failed)} not, {round_trip}, {seconds:.0f} s",
              flush=True)
        for group, label, why in made.failed:
            print(f"  {group}: {label}: {why}")
    print(f"\n| | {' | '.join(made.arch for made in columns)} |\n|---|{'---:|' * len(columns)}")
    for group, title in GROUPS.items():
        print(f"| {title} | {' | '.join(str(made.counts[group]) for made in columns)} |")
    print(f"| all | {' | '.join(str(made.counts.total()) for made in columns)} |")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1:], Path(folder))
