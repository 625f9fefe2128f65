"""A compiled kernel: its stages, its metadata, and how it is launched."""

from __future__ import annotations

import functools
import json
import os
import weakref
from collections import namedtuple
from collections.abc import Callable, Mapping
from typing import Any

from tritium import backends, knobs
from tritium.backends.compiler import NAMES, GPUTarget, portable_options
from tritium.backends.driver import driver
from tritium.cache import Files
from tritium.errors import OutOfResources
from tritium.language.builtins.grid import grid_sizes
from tritium.locks import busy, lock
from tritium.named_tuples import NamedTuple


class LazyDict:
    """A dict some of whose items are computed when it is first read.

    >>> lazy = LazyDict({"name": "k"})
    >>> lazy.add(lambda n: {"flops": 2 * n}, (8,))
    >>> lazy.get()
    {'name': 'k', 'flops': 16}
    """

    def __init__(self, data: dict[str, Any]):
        self.data, self.extras = data, []
        self.launch: tuple[Any, tuple, tuple] | None = None  # of which launch it tells: kernel, grid, arguments

    def get(self) -> dict[str, Any]:
        """All items."""
        for func, args in self.extras:
            self.data = self.data | func(*args)
        self.extras.clear()
        return self.data

    def add(self, func: Callable, args: tuple) -> None:
        """Merge `func(*args)` when the dict is read."""
        self.extras.append((func, args))


class OnDisk(NamedTuple):
    """A stage that has not been read yet, and what makes it `again` if its file is gone or damaged by then."""

    files: Files
    name: str
    again: Callable[[], str | bytes]

    def read(self) -> bytes:
        """The content of the file."""
        data = self.files.read(self.name)
        if data is None:
            value = self.again()
            return value if isinstance(value, bytes) else value.encode()
        return data


class OnDemand:
    """A stage that is cheaper to make again, when somebody reads it, than to keep."""

    def __init__(self, make: Callable[[], Any]):
        self._make = make

    def __str__(self) -> str:
        return str(self._make())


class Stages(Mapping):
    """Extension -> content of a stage: text, or bytes for the binary. Read from disk, or computed, on demand.

    `finish(extension, text)` is what a reader gets to see of a text. Views read the `metadata` of the kernel, too, and
    the `signature` of its source.
    """

    def __init__(self, contents: dict[str, Any], source: Any, metadata: Any, finish: Callable[[str, str], str]):
        record = backends.get(metadata.target)
        self._contents, self._views, self._source, self.metadata = contents, record.views, source, metadata
        self._target, self._binary_ext, self._finish = metadata.target, record.binary_ext, finish

    @property
    def signature(self) -> dict[str, Any]:
        """Types of the parameters."""
        return self._source.signature

    def __getitem__(self, ext: str):
        if ext in self._contents:
            value = self._contents[ext]
            if isinstance(value, OnDisk):
                data = value.read()
                value = data if ext == self._binary_ext else data.decode()
            elif not isinstance(value, str | bytes):  # the module itself, or what makes it
                value = str(value)
            if isinstance(value, str):
                value = self._finish(ext, value)
            self._contents[ext] = value
            return value
        if ext in self._views:
            self._contents[ext] = self._views[ext](self, self._target)
            return self._contents[ext]
        raise KeyError(ext)

    def __contains__(self, ext: object) -> bool:
        return ext in self._contents or ext in self._views

    # What is computed on demand, perhaps by a tool that is not installed, is not iterated over.
    def __iter__(self):
        return iter(list(self._contents))  # reading a stage may add one

    def __len__(self) -> int:
        return len(self._contents)

    def __repr__(self) -> str:
        return f"Stages({', '.join(self)})"

    # In another process they are texts. The first is made of the Python function, which stays behind; so does a stage
    # that would have to be made of it again.
    def __reduce__(self):
        there = {ext: self[ext] for ext in self if ext != "source" and not self._is_gone(ext)}
        return _stages, (there, self._source, self.metadata._asdict())

    def _is_gone(self, ext: str) -> bool:
        """Whether the file of a stage was removed before anybody read it."""
        value = self._contents[ext]
        return isinstance(value, OnDisk) and not os.path.exists(value.files.paths[value.name])


def _stages(contents: dict[str, Any], source: Any, metadata: dict[str, Any]) -> Stages:
    """Stages as they came from another process, their notes in them."""
    return Stages(contents, source, metadata_tuple(metadata), lambda ext, text: text)


def _plain(value: Any) -> Any:
    """What JSON gives back: tuples where there were lists."""
    if value.__class__ is dict:
        return {name: _plain(x) for name, x in value.items()}
    if value.__class__ is not list and value.__class__ is not tuple:
        return value
    # Most values in a list are numbers and names: a call for each would take longer than all the rest.
    return tuple([_plain(x) if x.__class__ is list or x.__class__ is tuple else x for x in value])


def metadata_tuple(metadata: Mapping[str, Any]):
    """Metadata as a named tuple, from this process or from a cache file.

    >>> metadata_tuple({"name": "k", "shared": 0}).name
    'k'
    """
    fields = {name: _plain(value) for name, value in sorted(metadata.items())}
    if isinstance(target := fields.get("target"), Mapping):
        fields["target"] = GPUTarget(**target)
    return _metadata_class(tuple(fields))._make(fields.values())


@functools.cache  # making a class takes longer than loading a kernel, and a backend's kernels have the same fields
def _metadata_class(names: tuple[str, ...]) -> type:
    return namedtuple("KernelMetadata", names)


def metadata_text(metadata: Mapping[str, Any]) -> str:
    """Metadata as a cache file holds it.

    >>> metadata_text({"target": GPUTarget("cuda", 90, 32)})
    '{"target": {"backend": "cuda", "arch": 90, "warp_size": 32}}'
    """
    return json.dumps(dict(metadata), default=lambda value: getattr(value, "__dict__", None) or str(value))


_TENSOR_MEMORY_COLUMNS = 512
_GRIDS = 1024  # grids that are kept at hand

# A kernel that two threads launch first is loaded once: unloading the other copy would pull code from under a thread.
_loading = lock()


def _unload(process: int, utils: Any, module: Any, *event: Any) -> None:
    """Unload the module of a kernel that was collected. What a forked child inherits is its parent's."""
    if os.getpid() != process:
        return
    try:
        if knobs.runtime.kernel_unload_hook:
            knobs.runtime.kernel_unload_hook(module, *event)
    finally:
        if hasattr(utils, "unload_module"):  # a driver of an older framework has none
            utils.unload_module(module)


class CompiledKernel:
    """The result of a compilation. `kernel[grid](*args)` launches it on all parameters, with constants or without.

    Nothing touches a device before the first launch (or `_init_handles`), which loads the binary. The binary is
    unloaded when the kernel is collected, so keep the kernel as long as its `function` is used, in a graph for example.

    >>> import numpy as np
    >>> from tritium.kernels.vector_add import add_kernel
    >>> x = np.ones(8, np.float32)
    >>> kernel = add_kernel.warmup(x, x, x, 8, BLOCK=8, grid=(1,))
    >>> kernel.name, kernel.metadata.num_warps, "llir" in kernel.asm
    ('add_kernel', 4, True)
    """

    def __init__(self, src, metadata: Mapping[str, Any], contents: dict[str, Any], key: str,
                 metadata_group: dict[str, str] | None = None):
        self.src, self.hash = src, key
        self.metadata = metadata_tuple(metadata)
        record = backends.get(self.metadata.target)
        self.metadata_group = metadata_group or {}
        self.name = self.metadata.name
        self.asm = Stages(contents, src, self.metadata, self._noted)
        self.kernel = self.asm[record.binary_ext]
        self.packed_metadata = (self.metadata.num_warps, self.metadata.num_ctas, self.metadata.shared)
        self._forget_handles()

    def _forget_handles(self) -> None:
        """As before the first launch."""
        # From then on: the driver, what launches any arguments, and the native ways; once asked for, what `run` gives.
        self._loaded = False
        self._driver: Any = None
        self._launcher: Any = None
        self._roads: Any = None
        self._run: Any = None
        self._grids: dict[tuple, Callable] = {}
        self._failure: Exception | None = None
        self.module = self.function = None

    # A copy, or what another process gets, is not loaded.
    def __getstate__(self) -> dict[str, Any]:
        loaded = ("_loaded", "_driver", "_launcher", "_roads", "_run", "_grids", "_failure", "module", "function",
                  "_figures")  # fmt: skip
        rest = {name: value for name, value in vars(self).items() if name not in loaded}
        return rest | {"metadata": self.metadata._asdict()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, metadata=metadata_tuple(state["metadata"]))
        self._forget_handles()

    def __repr__(self) -> str:
        return f"CompiledKernel({self.name} for {self.metadata.target})"

    def _noted(self, ext: str, text: str) -> str:
        from tritium.compiler.note import noted

        return noted(ext, text, self.src.signature, self.metadata._asdict())

    def _init_handles(self) -> None:
        """Load the binary on the current device; a failure is remembered."""
        if self._loaded:
            return
        with _loading, busy():
            if self._failure is not None:
                raise self._failure
            if not self._loaded:
                self._load()

    def _load(self) -> None:
        self._driver = drv = driver.of_target(self.metadata.target)
        drv.check_target(self.metadata.target)
        device = drv.get_current_device()
        limits = drv.utils.get_device_properties(device)
        threads = (self.metadata.num_warps + getattr(self.metadata, "producer_warps", 0)) * self.metadata.warp_size
        self._require("shared memory", self.metadata.shared, limits["max_shared_mem"])
        self._require("threads", threads, limits.get("max_threads_per_block", threads))
        self._require("tensor memory", self.metadata.tmem_size, _TENSOR_MEMORY_COLUMNS)
        hooks, event = knobs.runtime, (self.name, self.metadata_group, self.hash)
        if hooks.kernel_load_start_hook:
            hooks.kernel_load_start_hook(self.module, self.function, *event)
        loaded = drv.load_kernel(self.metadata, self.kernel, device)
        self.module, self.function, *self._figures = loaded
        weakref.finalize(self, _unload, os.getpid(), drv.utils, self.module, self.function, *event).atexit = False
        self._require("threads", threads, self._figures[2])
        if hooks.kernel_load_end_hook:
            hooks.kernel_load_end_hook(self.module, self.function, *event)
        self._launcher = drv.launcher_cls(self.src, self.metadata)
        if self._has_preconditions:
            self._launcher.fallback = self.fallback_variant
        self._roads = drv.roads(self)
        self._loaded = True  # last: a thread that sees it may launch

    def fallback_variant(self) -> CompiledKernel:
        """The same kernel, compiled without preconditions on its launches."""
        kernel = self._variant(launch_checks=False)
        if kernel._has_preconditions:
            raise RuntimeError(f"{self.name} was compiled from a late stage, for launches unlike this one: with no "
                               "negative index, or with arguments that share no memory"
                               "\nhint: compile it from its source")
        return kernel

    def sanitized_variant(self, target: GPUTarget | None = None) -> CompiledKernel | None:
        """The same kernel with checks of every access, and without preconditions on its launches, perhaps for another
        target; None if it was compiled from a later stage than `ttir`."""
        return self._variant(target, sanitized=True, launch_checks=False) if "ttir" in self.asm else None

    def _variant(self, target: GPUTarget | None = None, **changed: Any) -> CompiledKernel:
        """The same kernel, compiled with other options, perhaps for another target."""
        from tritium.compiler import IRSource, compile

        options = portable_options(self.metadata)
        if target is None:
            options = {name: getattr(self.metadata, name) for name in NAMES}
        came = self.src.fn is not None and self.src.fn.fn is None  # from another process, without its function
        source = IRSource.of("ttir", str(self.asm["ttir"])) if came else self.src
        return compile(source, target or self.metadata.target, options | changed)

    @property
    def _has_preconditions(self) -> bool:
        """Whether launches must satisfy preconditions."""
        return any(getattr(self.metadata, name, ()) for name in ("preconditions", "tensor_maps"))

    def _require(self, name: str, needed: int, limit: int) -> None:
        if needed > limit:
            self._failure = OutOfResources(needed, limit, name)
            raise self._failure

    def _figure(self, index: int, name: str) -> int:
        """A figure of the binary that is not loaded: what the assembler said, else what the device says."""
        known = getattr(self.metadata, name, None)
        if known is None:
            self._init_handles()
            return self._figures[index]
        return known

    @property
    def n_regs(self) -> int:
        """Registers a thread needs."""
        return self._figure(0, "n_regs") if not self._loaded else self._figures[0]

    @property
    def n_spills(self) -> int:
        """Values that did not fit in registers."""
        return self._figure(1, "n_spills") if not self._loaded else self._figures[1]

    @property
    def n_max_threads(self) -> int:
        """Threads a program may have."""
        return self._figure(2, "n_max_threads") if not self._loaded else self._figures[2]

    @property
    def run(self) -> Any:
        """What launches it: `run(gx, gy, gz, stream, function, packed_metadata, launch_metadata, enter_hook, exit_hook,
        *args)`."""
        if self._run is None:
            self._init_handles()
            self._run = self._launcher if self._roads is None else self._roads.run
        return self._run

    @property
    def launcher(self) -> Any:
        """The driver's own launcher, which `run` goes to with what it cannot do alone."""
        self._init_handles()
        return self._launcher

    @property
    def _cubin_path(self) -> str:
        """Where torch's static launcher finds the binary; an error tells it to leave the kernel to `run`."""
        from tritium.compiler import inductor  # torch alone asks

        if (why := inductor.needs_launcher(self)) is not None:
            raise inductor.NeedsLauncher(why)
        return self._found_at

    @_cubin_path.setter
    def _cubin_path(self, path: str) -> None:
        self._found_at = path

    def result(self, ignore_errors: bool = False) -> CompiledKernel:
        """Itself: a kernel that is compiled in the background has this method too."""
        return self

    def launch_metadata(self, grid: tuple, stream, *args) -> LazyDict:
        """What launch hooks are told."""
        told = LazyDict({"name": self.name, "function": self.function, "stream": stream})
        told.launch = self, grid, args
        wanted = getattr(self.src.fn, "launch_metadata", None)
        if wanted is not None:
            names = self.src.fn.arg_names
            told.add(wanted, (grid, self.metadata, dict(zip(names, args))))
        return told

    def launch(self, grid: tuple[int, int, int], args: tuple) -> None:
        """Run the kernel over a grid; `args` are all parameters in order, for which it was compiled."""
        self._launch(self.launcher, grid, None, args)

    def _launch(self, run: Callable, grid: tuple[int, int, int], stream: int | None, args: tuple) -> None:
        if 0 in grid:
            return
        if stream is None:
            stream = self._driver.get_current_stream(self._driver.get_current_device())
        enter, leave = knobs.runtime.launch_enter_hook or None, knobs.runtime.launch_exit_hook or None
        told = self.launch_metadata(grid, stream, *args) if enter or leave else None
        run(*grid, stream, self.function, self.packed_metadata, told, enter, leave, *args)

    def __getitem__(self, grid: tuple[int, int, int]) -> Callable:
        call = self._grids.get(grid) if grid.__class__ is tuple else None
        return self._over(grid) if call is None else call

    def _over(self, grid: tuple[int, int, int]) -> Callable:
        sizes = tuple(grid)
        if len(sizes) != 3:
            raise ValueError(f"the grid of a compiled kernel has 3 sizes, not {len(sizes)}: write (n, 1, 1)")
        grid_sizes(sizes)
        self._init_handles()
        if self._roads is None:
            return functools.partial(self._launch_over, sizes)
        if len(self._grids) >= _GRIDS:
            self._grids.clear()
        call = self._grids[sizes] = self._roads.over(sizes)
        return call

    def _launch_over(self, grid: tuple[int, int, int], /, *args, stream: int | None = None) -> None:
        """Launch over a grid by way of Python."""
        args = self._with_constants(args)
        self.check_count(args)
        hooked = knobs.runtime.launch_enter_hook or knobs.runtime.launch_exit_hook
        # Without a stream and hooks, the next one may go without Python.
        roads = None if stream is not None or hooked else self._roads
        self._launch(self.run if roads is None else roads.launch, grid, stream, args)

    def _with_constants(self, args: tuple) -> tuple:
        """The arguments; of a launch that names no constant, with those that the kernel was compiled for."""
        kinds, known = list(self.src.signature.values()), getattr(self.src, "constants", None) or {}
        params = getattr(self.src.fn, "params", None)
        constant = [p.is_constexpr for p in params] if params is not None else [kind == "constexpr" for kind in kinds]
        if len(constant) != len(kinds) or len(args) != constant.count(False) or True not in constant:
            return args
        rest = iter(args)
        return tuple([known.get((i,)) if is_constant else next(rest) for i, is_constant in enumerate(constant)])

    def check_count(self, args: tuple) -> None:
        """Refuse more or fewer arguments than there are parameters."""
        names = list(self.src.signature)
        if len(args) == len(names):
            return
        if not names:
            raise TypeError(f"{self.name} was compiled from a file that does not tell its parameters\n"
                            f"hint: compile it from .ttir, or from a text as `kernel.asm` has it")
        raise TypeError(f"{self.name} takes {len(names)} arguments, constants included, and was given {len(args)}: "
                        f"{', '.join(names)}")
