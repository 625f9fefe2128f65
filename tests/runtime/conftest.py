"""A machine that only takes notes: its backend writes JSON, its driver remembers launches."""

import functools
import importlib
import json
import sys
import types

import pytest

import tritium
from tests.runtime.jit_kernels import add, forget, nothing, with_option
from tritium import backends, knobs
from tritium.backends.compiler import GPUTarget
from tritium.backends.driver import DriverBase, driver
from tritium.ir.core import Arg, Block, Module
from tritium.ir.types import Ptr, f32, i32
from tritium.tensors import slots

TARGET = GPUTarget("fake", "paper", 1)


class Notes(DriverBase):
    """Launches end up in `launches` as (kernel, grid, run-time values)."""

    def __init__(self):
        self.utils = self
        self.launches, self.loads, self.guarded = [], [], 0

    is_active = classmethod(lambda cls: True)

    def get_current_target(self):
        return TARGET

    def get_device_properties(self, device):
        return {"max_shared_mem": 1000}

    def load_binary(self, name, binary, shared, device):
        self.loads.append(name)
        return json.loads(binary), name, 10, 0, 64

    def launcher_cls(self, src, metadata):
        types_ = list(src.signature.values())

        def launch(gx, gy, gz, stream, function, packed, told, enter, leave, *args):
            if enter:
                enter(told)
            values = [value for type_, x in zip(types_, args) for _, value in slots(type_, x)]
            self.launches.append((function, (gx, gy, gz), values))
            if leave:
                leave(told)

        return launch

    def guarded_launch(self, kernel, call):
        """Accept calls of the same form with the very same objects as before."""
        if call.captured is None:
            return None
        names = [param.name for param, _, _ in call.arguments]
        values = {param.name: value for param, _, value in call.arguments} | call.options
        order = (*names[: call.positional], *call.keywords)

        def fits(*args, **kwargs):
            given = (*args, *kwargs.values())
            same = all(scope.get(name) is value for scope, (name, value) in call.captured)
            return (same and len(args) == call.positional and tuple(kwargs) == call.keywords
                    and all(x is values[name] for name, x in zip(order, given, strict=True)))

        def run(grid, *args, **kwargs):
            sizes = grid(values) if callable(grid) else grid
            if not isinstance(sizes, tuple) or not all(isinstance(n, int) and n >= 0 for n in sizes):
                return NotImplemented
            if 0 not in sizes:
                self.guarded += 1
                self.launches.append((kernel.name, (*sizes, 1, 1)[:3], "guarded"))
            return kernel

        return _binder, (fits, run)

    get_current_device = lambda self: 0
    set_current_device = lambda self, device: None
    get_current_stream = lambda self, device: 7
    get_device_capability = lambda self, device=0: (0, 0)
    get_device_interface = get_active_torch_device = get_benchmarker = lambda self: None
    get_empty_cache_for_benchmark = lambda self: None
    clear_cache = lambda self, cache: None
    map_python_to_cpp_type = lambda self, ty: "int"


def _binder(records):
    """Try the records in turn, else ask the first element: what native launchers do."""

    def launch(grid, *args, **kwargs):
        for fits, run in records[1:]:
            if fits(*args, **kwargs) and (result := run(grid, *args, **kwargs)) is not NotImplemented:
                return result
        return records[0](grid, *args, **kwargs)

    return lambda grid: functools.partial(launch, grid)


def lower(source, signature, constants, attrs, options, target=None):
    """A frontend that keeps only the parameters."""
    made = [Arg(Ptr(f32) if str(type_).startswith("*") else i32, name)
            for name, type_ in signature.items() if type_ != "constexpr"]  # fmt: skip
    lower.calls.append((source, signature, constants, attrs, options))
    return Module(source.__name__, Block(made, []))


def _note(module, target, options, metadata):
    metadata["shared"] = 8 * len(module.args)
    return f"note {module.name} {len(module.args)}"


def _paper(text, target, options, metadata):
    if "unwritable" in text:
        raise ZeroDivisionError("the pen broke")
    return json.dumps({"text": text, "num_warps": options.num_warps}).encode()


@pytest.fixture
def fake(monkeypatch, tmp_path):
    """The fake machine as the active driver, with an empty cache."""
    package, module = types.ModuleType("fake_backend"), types.ModuleType("fake_backend.driver")
    package.BACKEND = backends.Backend(
        "fake", lambda target: (), (("note", _note), ("paper", _paper)), {"num_stages": 2}, lambda target: "pen 1.0",
        {"upper": lambda asm, target: asm["note"].upper()})  # fmt: skip
    module.Driver = Notes
    monkeypatch.setitem(sys.modules, "fake_backend", package)
    monkeypatch.setitem(sys.modules, "fake_backend.driver", module)
    monkeypatch.setitem(backends.FOLDERS, "fake", "fake_backend")
    for name in ("backends.cpu.compile", "analysis.accesses"):  # now, while the passes are the real ones
        importlib.import_module(f"tritium.{name}")
    frontend, passes = types.ModuleType("tritium.frontend"), types.ModuleType("tritium.passes")
    frontend.lower, lower.calls = lower, []
    passes.run, passes.dumping = lambda module, pipeline, watch=None: module, lambda name: None
    for stand_in in (frontend, passes):
        monkeypatch.setitem(sys.modules, stand_in.__name__, stand_in)
        monkeypatch.setattr(tritium, stand_in.__name__.rpartition(".")[2], stand_in, raising=False)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    notes = Notes()
    notes.lowered = lower.calls
    driver.set_active(notes)
    with knobs.runtime.scope(), knobs.compilation.scope(), knobs.cache.scope():
        yield notes
    driver.reset_active()


@pytest.fixture(autouse=True)
def fresh():
    """Kernels as if they had never been launched."""
    for kernel in (add, with_option, nothing):
        forget(kernel)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A cache in which everything is kept, and the program its version was asked of."""
    from tests.runtime.cache_entries import assembler, cache_in, use_everything

    folder = tmp_path_factory.mktemp("filled")
    program = assembler(folder)
    with cache_in(folder):
        use_everything(program)
    return folder / "cache", program
