"""The road from a kernel to a binary, on one screen: `compile`.

    source --frontend--> module --passes--> ttir --backend's stages--> ... --> binary

Each stage is a file extension: it can be read in `kernel.asm`, dumped (TRITON_KERNEL_DUMP), replaced
(TRITON_KERNEL_OVERRIDE, `ir_override`), and a file with that extension can be compiled from there on.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeGuard

from tritium import cache, knobs
from tritium.backends.compiler import BaseBackend, GPUTarget, Options
from tritium.backends.driver import driver
from tritium.compiler import bundles, facts
from tritium.compiler.background import AsyncCompileMode, FutureKernel
from tritium.compiler.collector import paused
from tritium.compiler.kernel import CompiledKernel, LazyDict, OnDemand
from tritium.compiler.names import safe_name
from tritium.compiler.sources import ASTSource, IRSource, sha256, with_options
from tritium.compiler.times import Clock, CompileTimes
from tritium.errors import CompilationError, InternalError, TritonError, cut, fail
from tritium.language.types.signature import flatten
from tritium.locks import busy, imported, once_property

if TYPE_CHECKING:  # kernels that come from a cache need no tile IR, those from a bundle no cache
    from tritium.compiler.entry import Entry
    from tritium.ir.core import Module

__all__ = [
    "ASTSource", "AsyncCompileMode", "CompilationError", "CompileTimes", "CompiledKernel", "FutureKernel", "IRSource",
    "LazyDict", "compile", "get_cache_key", "make_backend", "max_shared_mem",
]  # fmt: skip

TRITON_VERSION = "3.6.0"
__path__ = [*__path__, f"{__path__[0]}/../compat/compiler"]  # modules that only Triton's users look for


def __getattr__(name: str):
    if name in ("code_generator", "compiler", "errors"):  # reached as attributes, without an import of their own
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def compile(src, target: GPUTarget | str | None = None, options: dict | Options | None = None,
            _env_vars: dict | None = None):
    """Compile an `ASTSource`, or a file of any stage, for a target: the machine's own by default.

    No device is needed when a target is given, as a GPUTarget or by its name: "sm_90", "gfx942", "x86-64-v3". `options`
    that are complete win over those the file was written with.

    >>> compile("kernel.ttir", target=90)
    Traceback (most recent call last):
    AssertionError: target must be of GPUTarget type, not 90
    """
    target = GPUTarget.parse(target) if isinstance(target, str) else target
    if target is not None and not isinstance(target, GPUTarget):
        raise AssertionError(f"target must be of GPUTarget type, not {target!r}")
    try:
        return _compile(src, target, options, _env_vars)
    except InternalError as error:
        if not isinstance(src, ASTSource):  # whose defect it is, a file does not tell
            error.message += f"\nnote: {getattr(src, 'path', src)} is compiled as it stands: was it changed by hand?"
        raise
    except Exception as error:
        cut(error, keep=knobs.compilation.front_end_debugging)
        raise


def _compile(src, target: GPUTarget | None, options: dict | Options | None, _env_vars: dict | None):
    target = target or driver.active.get_current_target()
    src = src if isinstance(src, ASTSource | IRSource) else IRSource(src)
    with busy(), paused():  # the key alone takes a syntax tree
        making = Making(src, target, options, _env_vars)
        found = making.found()
        kernel = found or making.anew()
        if target.backend != "cpu" and "TRITON_CACHE_DIR" in os.environ:
            imported("tritium.compiler.inductor").place(kernel)
    making.tell(kernel, found is not None)
    return kernel


class Making:
    """One compilation: `found` gives the kernel if the cache has it, else `start`, `go_on` and `finish` make it.

    What `start` leaves in `contents` and `metadata` is all that the stages need: they may run in another process.
    """

    def __init__(self, src, target: GPUTarget, options: dict | Options | None, _env_vars: dict | None):
        self.src, self.target, self.backend = src, target, make_backend(target)
        self.options = options if isinstance(options, Options) else \
            self.backend.parse_options({**src.parse_options(), **(options or {})})
        if self.options.sanitized and target.backend != "cpu":
            _require_emulation(target)
        self.env = knobs.cache_invalidating_env() if _env_vars is None else _env_vars
        self.clock = Clock()
        self.contents: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}

    @once_property
    def key(self) -> str:
        """The kernel's name in the cache. What is in a bundle does without: it asks for versions of compilers."""
        return sha256(get_cache_key(self.src, self.backend, self.options, self.env))

    @once_property
    def entry(self) -> Entry:
        """The kernel's place in the cache."""
        return imported("tritium.compiler.entry").Entry(self.src, self.key, self.backend, self.options, self.env)

    def found(self) -> CompiledKernel | None:
        """The kernel as an earlier process compiled it."""
        if bundles.is_active() and (kernel := self._bundled()) is not None:
            return kernel
        return self.entry.load(lambda: _module(self.src, self.target, self.options), self.anew)

    def _bundled(self) -> CompiledKernel | None:
        """The kernel as it is in a bundle; those who change stages on the way get none."""
        changed = knobs.compilation.dump_ir or knobs.compilation.override or knobs.runtime.add_stages_inspection_hook
        if knobs.compilation.always_compile or changed:
            return None
        found = bundles.find(self.src, self.target, self.options, self.env)
        data = None if found is None else bundles.contents_of(*found)
        if found is None or data is None:
            return None
        metadata, binary, text = data
        target = GPUTarget(**metadata["target"])
        made = functools.cache(lambda: Making(self.src, target, {**vars(self.options), "arch": None}, self.env).anew())
        later = [ext for ext, _ in self.backend.record.stages[:-1]]
        contents = {"source": OnDemand(lambda: _module(self.src, target, self.options)), "ttir": text,
                    **{ext: OnDemand(lambda ext=ext: made().asm[ext]) for ext in later},
                    self.backend.binary_ext: binary}
        metadata.pop(facts.KEY, None)
        return CompiledKernel(self.src, metadata, contents, found[1]["identity"])

    def anew(self) -> CompiledKernel:
        """The kernel, compiled here and now."""
        with busy(), paused():
            self.start()
            self.go_on()
            return self.finish()

    def start(self) -> None:
        """Run the frontend."""
        for name in ("tritium.frontend", "tritium.passes"):
            imported(name)
        self.backend.record.ahead()
        src, given = self.src, vars(self.options)
        self.metadata = {**_BASE, **src.metadata(), **given, **self.env, "name": src.name, "hash": self.key,
                         "target": self.target}  # fmt: skip
        first = _module(src, self.target, self.options)
        self.contents = {src.ext if isinstance(src, IRSource) else "source": first}
        if _is_module(first):
            self.metadata["dialect"] = first.attrs["dialect"]
        self.clock.end_of_frontend()

    def go_on(self) -> None:
        """Run the stages that are still to come."""
        for ext, stage in _stages(self.src, self.backend, self.options).items():
            if ext in self.contents:
                continue
            if ext == self.backend.binary_ext and self.backend.record.long:
                self.entry.begin_store(self.contents)
            self.contents[ext] = self.entry.replaced(ext) or _guarded(
                ext, stage, self.contents, self.metadata, self.src)
            self.clock.end_of_stage(ext)

    def finish(self) -> CompiledKernel:
        """Keep the stages, and give the kernel."""
        self.metadata["stores"] = _stored(self.src, self.contents, self.metadata)
        return self.entry.store(self.contents, self.metadata)

    def tell(self, kernel: CompiledKernel, hit: bool) -> None:
        """Tell the listener of compilations, if there is one."""
        if knobs.compilation.listener:
            knobs.compilation.listener(
                src=self.src, metadata=kernel.metadata._asdict(), metadata_group=kernel.metadata_group,
                times=self.clock.times(), cache_hit=hit)


def _require_emulation(target: GPUTarget) -> None:
    """Refuse to sanitize for a GPU that is not emulated: no device runs the result."""
    if driver.chosen is None or not driver.chosen.emulates:
        raise fail(ValueError, f"`sanitized=True` makes nothing that {target} could run: `tritium sanitize --target` "
                   "and `tritium.sanitize(target=...)` check on an emulated GPU what it would do")


def make_backend(target: GPUTarget | str) -> BaseBackend:
    """The backend for a target, or for the name of one.

    >>> make_backend(GPUTarget("cpu", "host", 1)).binary_ext
    'obj'
    """
    return BaseBackend(GPUTarget.of(target))


def max_shared_mem(device: int) -> int:
    """The bytes of shared memory that a program may use on a device.

    >>> max_shared_mem(0) > 0
    True
    """
    return driver.active.utils.get_device_properties(device)["max_shared_mem"]


def get_cache_key(src, backend: BaseBackend, backend_options: Options, env_vars: dict[str, str]) -> str:
    """What a kernel's key on disk is the hash of: compiler, source, machine, options, environment.

    >>> from tritium.language.source.function import cdiv
    >>> backend, source = make_backend(GPUTarget("cpu", "host", 1)), ASTSource(cdiv, {"x": "i32", "y": "i32"})
    >>> eight, four = (get_cache_key(source, backend, backend.parse_options({"num_warps": n}), {}) for n in (8, 4))
    >>> eight == four
    False
    """
    inspected = "-".join(map(str, _inspection_key()))
    return "-".join((cache.fingerprint(), src.hash(), backend.hash(), backend_options.hash(),
                     str(sorted(env_vars.items())), inspected,
                     _home(src) if backend_options.sanitized else ""))  # fmt: skip


def _home(src) -> str:
    """The file of a kernel: what the sanitizer finds in one is not told of another with the same text."""
    code = getattr(getattr(getattr(src, "fn", None), "fn", None), "__code__", None)
    return code.co_filename if code is not None else ""


def _inspection_key() -> tuple:
    """What the stages hook adds to the key: it is asked without arguments, which one written for 3.6 does not know."""
    hook = knobs.runtime.add_stages_inspection_hook
    if not hook:
        return ()
    try:
        inspect.signature(hook).bind()
    except TypeError:
        return ()
    except ValueError:  # it has no signature to look at
        pass
    return tuple(hook())


# What every kernel's metadata has, whatever the backend adds.
_BASE = {
    "triton_version": TRITON_VERSION, "shared": 0, "tmem_size": 0, "global_scratch_size": 0, "global_scratch_align": 1,
    "profile_scratch_size": 0, "profile_scratch_align": 1, "tensordesc_meta": (), "stores": (), "dialect": "3.6",
}  # fmt: skip


def _is_module(value: Any) -> TypeGuard[Module]:
    from tritium.ir.core import Module

    return isinstance(value, Module)


def _module(src, target: GPUTarget, options: Options):
    """Where the road starts; a module carries target and options from here on."""
    value = src.make_ir(target, options)
    if _is_module(value):
        value = with_options(value, target, options)
        value = value.replace(attrs={"dialect": _BASE["dialect"], **value.attrs})
    return value


def _stages(src, backend: BaseBackend, options: Options) -> dict[str, Callable]:
    """The stages still to go, extension -> function of a value and the metadata."""
    def ttir(module: Module, metadata: dict) -> Module:
        from tritium import passes  # not needed by kernels that come from the cache

        return passes.run(module, backend.record.passes(backend.target), watch=passes.dumping(module.name))

    stages: dict[str, Callable] = {"ttir": ttir}
    backend.add_stages(stages, options)
    if knobs.runtime.add_stages_inspection_hook:
        knobs.runtime.add_stages_inspection_hook(backend, stages, options, None, None)
    names = list(stages)
    if options.ir_override and os.path.splitext(options.ir_override)[1][1:] not in names:
        raise ValueError(f"ir_override={options.ir_override!r} replaces no stage: the file's ending must be one of "
                         f"{', '.join(names)}")
    if isinstance(src, ASTSource) or src.ext == "source":
        return stages
    if src.ext not in names:
        raise ValueError(f"{src.path} is not a stage of {backend.target}: it has {', '.join(['source', *names])}")
    return {ext: stages[ext] for ext in names[names.index(src.ext) + 1:]}


def _stored(src, contents: dict[str, Any], metadata: dict[str, Any]) -> tuple[int, ...]:
    """Positions of the parameters that the kernel may store to; what a late stage was told of it."""
    from tritium.analysis.accesses import stored

    module = contents.get("ttir")
    if not _is_module(module):
        return metadata["stores"]
    positions = [k for k, type_ in enumerate(src.signature.values()) for _ in flatten(type_)]
    return tuple(sorted({positions[k] for k in stored(module)}))


def _guarded(ext: str, stage: Callable, contents: dict[str, Any], metadata: dict[str, Any], src):
    """Run a stage on the last one; what goes wrong and is not the user's doing leaves a file that shows it again."""
    last = next(reversed(contents))
    try:
        return stage(contents[last], metadata)
    except InternalError as error:
        if not isinstance(error.reproducer, str):
            error.reproducer, error.target = _save(contents, metadata), metadata["target"]
        raise
    except TritonError:
        raise
    except RecursionError:
        raise _too_deep(src) from None
    except Exception as error:
        raise InternalError(f"{ext} stage: {type(error).__name__}: {error}", _save(contents, metadata),
                            metadata["target"]) from error


def _too_deep(src) -> CompilationError:
    message = f"{src.name}: branches and loops nest too deeply to be compiled"
    hint = "each early exit, `elif` and turn of an unrolled loop that may be left opens a branch: use fewer of them"
    if not isinstance(src, ASTSource):
        return CompilationError(None, None, message, hint=hint)
    from tritium.frontend.scope import function_of

    function = function_of(src.fn)
    return CompilationError(src.fn.src, function.node, message, span=function.heading(), hint=hint)


def _save(contents: dict[str, Any], metadata: dict[str, Any]) -> str:
    """Write the latest stage to a file: the latest that can be printed, for the defect may be in the last."""
    import tempfile

    directory = knobs.reproducer_dir or tempfile.mkdtemp(prefix="tritium-")
    os.makedirs(directory, exist_ok=True)
    for ext in reversed(contents):
        try:
            text = contents[ext] if isinstance(contents[ext], bytes) else str(contents[ext]).encode()
        except LookupError:  # an operand that is defined nowhere has no name
            continue
        path = os.path.join(directory, f"{safe_name(metadata['name'])}.{ext}")
        with open(path, "wb") as file:
            file.write(text)
        return path
    raise InternalError(f"no stage of {metadata['name']} can be printed")
