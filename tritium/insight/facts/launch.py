"""One launch, bound and compiled but not run: the kernel, its grid and arguments, and every stage as an object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tritium.backends.compiler import NAMES, GPUTarget
from tritium.compiler import ASTSource, Making, make_backend
from tritium.compiler.sources import with_options
from tritium.errors import InternalError, cut
from tritium.ir.core import Module
from tritium.language.builtins.grid import asked, grid_sizes
from tritium.language.types.signature import flatten
from tritium.runtime.dispatch import check_keywords
from tritium.runtime.specialize import attrs_of, constants_of
from tritium.tensors import hold, is_descriptor, reader_of


@dataclass(frozen=True)
class Launch:
    """A launch of one kernel for one target.

    `stages` maps a stage's name to its content: a `Module` for `source`, `ttir` and `ttgir`, text or bytes for the
    others. `slots` are the run-time arguments in the order of the module's parameters, each with the name it goes by.
    """

    fn: Any
    target: GPUTarget
    grid: tuple[int, int, int]
    values: tuple
    source: ASTSource
    options: dict[str, Any]
    stages: dict[str, Any]
    metadata: dict[str, Any]
    kernel: Any
    slots: tuple[tuple[str, Any], ...]
    note: str = ""
    owned: bool = False  # whether the tensors are nobody else's: no need to copy them

    @property
    def name(self) -> str:
        """The name of the kernel's function."""
        return self.fn.__name__

    @property
    def is_gpu(self) -> bool:
        """Whether the target is a GPU, whose tiles have layouts."""
        return "ttgir" in self.stages

    @property
    def num_warps(self) -> int:
        """Warps of a program, producer warps not counted."""
        return self.metadata["num_warps"]

    @property
    def constants(self) -> dict[str, Any]:
        """The compile-time constants by name."""
        return {str(name): value for name, value in self.source.constant_names.items()}

    @property
    def text(self) -> list[tuple[int, str]]:
        """The kernel's Python text: (line of the file, text) for each line."""
        first = self.fn.starting_line_number
        return [(first + k, line.rstrip("\n")) for k, line in enumerate(self.fn.raw_src)]


def prepared(kernel: Any, grid: Any, args: tuple, meta: dict[str, Any], target: GPUTarget,
             owned: bool = False) -> Launch:
    """Bind the arguments of a launch, specialise and compile the kernel for `target`.

    >>> import numpy as np
    >>> from tritium.kernels.vector_add import add_kernel
    >>> x = np.zeros(100, np.float32)
    >>> launch = prepared(add_kernel, (4,), (x, x, x, 100), {"BLOCK": 32}, GPUTarget("cuda", 80, 32))
    >>> launch.grid, list(launch.stages)[:4], launch.constants
    ((4, 1, 1), ['source', 'ttir', 'ttgir', 'llir'], {'BLOCK': 32})
    """
    fn, meta, note = _unwrapped(kernel, args, meta)
    values, options = fn.launcher.bind(*args, **meta)
    options |= {name: meta[name] for name in fn.arg_names if name in NAMES and name in meta}
    check_keywords(fn.__name__, fn.arg_names, options)
    if callable(grid):
        grid = asked(grid, fn.__name__, dict(zip(fn.arg_names, values)))
    values = tuple(x if param.is_constexpr else hold(x) for param, x in zip(fn.params, values))
    source = _specialised(fn, values)
    stages, metadata, kernel = compiled(source, target, options)
    return Launch(fn, target, grid_sizes(grid), values, source, options, stages, metadata, kernel,
                  _slots(source, values), note, owned)


def _unwrapped(kernel: Any, args: tuple, meta: dict[str, Any]) -> tuple[Any, dict[str, Any], str]:
    """The kernel under its tuners, the keywords with what they add, and a sentence about that."""
    from tritium.language.source.function import ConstexprFunction, Source

    note = ""
    while not isinstance(kernel, Source) and hasattr(kernel, "fn"):
        if configs := getattr(kernel, "configs", None):
            best = getattr(kernel, "best_config", None)
            config = best or configs[0]
            chosen = {name: value for name, value in config.all_kwargs().items() if name not in meta}
            note = f"{'the fastest' if best else 'the first'} of {len(configs)} configurations: {config}"
            meta = {**chosen, **meta}
        elif isinstance(values := getattr(kernel, "values", None), dict):
            given = {**dict(zip(kernel.arg_names, args)), **meta}
            for name, compute in values.items():
                given[name] = compute(dict(given))
                meta = {**meta, name: given[name]}
        kernel = kernel.fn
    if not isinstance(kernel, Source) or isinstance(kernel, ConstexprFunction) or not hasattr(kernel, "params"):
        raise TypeError(f"explain takes a kernel, a function decorated with @triton.jit, not {kernel!r}")
    return kernel, meta, note


def _specialised(fn: Any, values: tuple) -> ASTSource:
    constants: dict = {}
    attrs: dict = {}
    signature = {}
    for k, (param, value) in enumerate(zip(fn.params, values)):
        type_, promise = param.specialize(value)
        constants |= constants_of(type_, value, (k,))
        attrs |= attrs_of(type_, promise, (k,))
        signature[param.name] = type_
    return ASTSource(fn, signature, constants, attrs)


def compiled(source: ASTSource, target: GPUTarget, options: dict[str, Any]) -> tuple[dict, dict, Any]:
    """The stages, the metadata and the kernel that a source becomes."""
    making = Making(source, target, options, None)
    try:
        kernel = making.anew()
    except InternalError:
        raise
    except Exception as error:
        cut(error)
        raise
    return dict(making.contents), dict(making.metadata), kernel


def gpu_module(source: ASTSource, target: GPUTarget, options: dict[str, Any]) -> Module:
    """The `ttgir` stage of a kernel alone: what a compilation with other promises would make of it."""
    from tritium import passes

    backend = make_backend(target)
    chosen, steps = backend.parse_options(options), {}
    module = with_options(source.make_ir(target, chosen), target, chosen)
    backend.add_stages(steps, chosen)
    return steps["ttgir"](passes.run(module, backend.record.passes(target)), {})


def _slots(source: ASTSource, values: tuple) -> tuple[tuple[str, Any], ...]:
    """(name, tensor or number) for each run-time argument, flattened as the module's parameters are."""
    found: list[tuple[str, Any]] = []

    def add(name: str, type_: Any, value: Any) -> None:
        if isinstance(type_, tuple):
            for k, (part, item) in enumerate(zip(type_, value)):
                add(f"{name}[{k}]", part, item)
        elif is_descriptor(value):
            found.append((name, value.base))
            found.extend((f"{name}.shape[{k}]", int(n)) for k, n in enumerate(value.shape))
            found.extend((f"{name}.strides[{k}]", int(n)) for k, n in enumerate(value.strides))
        elif flatten(type_):
            found.append((name, value))

    for (name, type_), value in zip(source.signature.items(), values):
        add(name, type_, value)
    return tuple(found)


def tensors_of(launch: Launch) -> list[tuple[int, str, Any]]:
    """(number of the parameter, name, tensor) of each tensor argument.

    >>> import numpy as np
    >>> from tritium.kernels.vector_add import add_kernel
    >>> x = np.zeros(4, np.float32)
    >>> launch = prepared(add_kernel, (1,), (x, x, x, 4), {"BLOCK": 4}, GPUTarget("cpu", "host", 1))
    >>> [name for _, name, _ in tensors_of(launch)]
    ['x_ptr', 'y_ptr', 'z_ptr']
    """
    return [(k, name, x) for k, (name, x) in enumerate(launch.slots) if reader_of(x) is not None]
