"""Every setting of tritium, in one table.

Reading a setting reads the environment (`TRITIUM_X` first, then the `TRITON_X` users already set) unless it was set
from Python. Setting one also writes the environment variable, so that child processes agree; `propagate_env = False`
stops that. Assigning `knobs.env`, or `del`, goes back to the environment.

    >>> from tritium import knobs
    >>> with knobs.compilation.scope():
    ...     knobs.compilation.dump_ir = True
    ...     os.environ["TRITON_KERNEL_DUMP"]
    '1'
    >>> knobs.compilation.dump_ir
    False
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import re
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from tritium import processors
from tritium.named_tuples import NamedTuple


class Env:
    """The value that sends a setting back to its environment variable.

    >>> repr(env)
    'knobs.env'
    """

    def __repr__(self) -> str:
        return "knobs.env"


env = Env()
propagate_env = True

# Called after any change made from Python. Code that caches a decision made from settings drops it here, so that hot
# paths read no setting.
listeners: list[Callable[[], None]] = []


def changed() -> None:
    """Tell the listeners that a decision may have to be taken again.

    >>> changed()
    """
    for listener in listeners:
        listener()


class HookChain:
    """Callables run one after the other (`reverse`: last added first), empty by default.

    >>> seen = []
    >>> chain = HookChain()
    >>> chain.add(seen.append)
    >>> chain("launched")
    >>> seen, bool(chain)
    (['launched'], True)
    """

    __slots__ = ("calls", "reversed")

    def __init__(self, reverse: bool = False, calls=()):
        self.calls, self.reversed = list(calls), reverse

    def add(self, func: Callable) -> None:
        """Run `func` too. Adding it twice runs it once."""
        if func not in self.calls:
            self.calls.append(func)
            changed()

    def remove(self, func: Callable) -> None:
        """Stop running `func`; quiet when it was never added."""
        if func in self.calls:
            self.calls.remove(func)
            changed()

    def copy(self) -> HookChain:
        """The same callables in a chain of its own."""
        return HookChain(self.reversed, self.calls)

    def __call__(self, *args, **kwargs) -> None:
        for func in self.calls[::-1] if self.reversed else self.calls[:]:
            func(*args, **kwargs)

    def __bool__(self) -> bool:
        return bool(self.calls)


class Tool(NamedTuple):
    """A program of the CUDA toolkit: where it is and which release.

    >>> Tool("/usr/local/cuda/bin/ptxas").path
    '/usr/local/cuda/bin/ptxas'
    """

    path: str

    @property
    def version(self) -> str:
        """The release the program reports, such as '12.8'."""
        import subprocess

        text = subprocess.run([self.path, "--version"], capture_output=True, text=True, check=True).stdout
        found = re.search(r"release (\d+\.\d+)", text)
        if not found:
            raise RuntimeError(f"{self.path} --version does not name a release: {text.strip()!r}")
        return found[1]


# ---------------------------------------------------------------------------------------------------------------------
# How the text of an environment variable becomes a value, and back.


class Kind(NamedTuple):
    """`parse` reads the text of an environment variable, `show` writes it, `check` normalises a value set in Python."""

    parse: Callable[[str], Any]
    show: Callable[[Any], str] = str
    check: Callable[[Any], Any] = lambda value: value


def _load_class(text: str) -> type:
    module, _, name = text.partition(":")
    if not name:
        raise RuntimeError(f"{text!r} does not name a class: write it as 'module:Class'")
    return getattr(importlib.import_module(module), name)


def _chain(value: Any) -> HookChain:
    return value if isinstance(value, HookChain) else HookChain(calls=[] if value is None else [value])


class Secret(str):
    """A text that is not shown with the other settings.

    >>> Secret("open sesame")
    '...'
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "'...'"


def _bytes(value: Any) -> int:
    """A size such as 4096, 512M or 8G."""
    found = re.fullmatch(r"\s*(\d+)\s*([kKmMgGtT]?)(?:i?[bB])?\s*", str(value))
    if found is None:
        raise ValueError("a size is a number of bytes, or one with k, M, G or T behind it: 512M, 8G; 0 is no limit")
    return int(found[1]) << 10 * " kmgt".index(found[2].lower() or " ")


def release(value: Any) -> str:
    """A release of Triton whose programs run here, by its first two numbers.

    >>> release("3.8.0")
    '3.8'
    """
    short = ".".join(str(value).strip().split(".")[:2])
    if short not in RELEASES:
        raise ValueError(f"{value!r} is no release of Triton that runs here: {', '.join(RELEASES)} are")
    return short


RELEASES = ("3.6", "3.7", "3.8", "3.9")

BOOL = Kind(lambda text: text.lower() in ("1", "y", "yes", "on", "true"), lambda value: "1" if value else "0")
INT = Kind(int)
STR = Kind(str)
PATH = Kind(str)  # an empty variable is one that is not set
SIZE = Kind(_bytes, check=_bytes)
SECRET = Kind(Secret, check=lambda value: None if value is None else Secret(value))
TOOL = Kind(Tool, lambda tool: tool.path, lambda value: Tool(value) if isinstance(value, str) else value)
CLASS = Kind(_load_class, lambda cls: f"{cls.__module__}:{cls.__qualname__}")
RELEASE = Kind(release, check=release)
HOOKS = Kind(str, check=_chain)  # never in the environment
OBJECT = Kind(str)  # never in the environment


class Knob(NamedTuple):
    """One row of the table; `key` is the environment variable, None when there is none."""

    name: str
    key: str | None
    kind: Kind
    default: Any = None  # a value, or a function of no argument
    cached: bool = False  # read once, then again by refresh_knobs()

    def read(self) -> Any:
        """The value the environment gives, or the default."""
        text = getenv(self.key, empty=self.kind not in (PATH, SECRET)) if self.key else None
        if text is not None:
            try:
                return self.kind.parse(text)
            except ValueError as error:
                raise ValueError(f"{self.key}={text!r}: {error}") from None
        return self.default() if isinstance(self.default, _MAKERS) else self.default


_MAKERS = types.FunctionType, functools.partial


@functools.cache
def _names(key: str) -> tuple[str, ...]:
    """The variables that may hold a setting, strongest first."""
    return (key.replace("TRITON_", "TRITIUM_", 1), key) if key.startswith("TRITON_") else (key,)


def getenv(key: str, default: str | None = None, empty: bool = True) -> str | None:
    """The environment's word on `key`; for TRITON_X, TRITIUM_X wins. An `empty` text is a word too, unless it is False.

    >>> getenv("TRITON_SURELY_NOT_SET", "none")
    'none'
    """
    for name in _names(key):
        text = os.environ.get(name)
        if text or (empty and text is not None):
            return text
    return default


def setenv(key: str, value: str | None) -> None:
    """Write `key` (None removes it), and its TRITIUM_ name where that is what readers would see.

    >>> setenv("TRITON_SURELY_NOT_SET", None)
    """
    strongest, *_ = _names(key)
    if value is None:
        for name in _names(key):
            os.environ.pop(name, None)
        return
    os.environ[key] = value
    if strongest in os.environ:
        os.environ[strongest] = value


class Group:
    """The settings of one area, as attributes.

    >>> from tritium import knobs
    >>> knobs.redis.host
    'localhost'
    """

    def __init__(self, name: str, rows: tuple[Knob, ...]):
        self.__dict__.update(_name=name, _rows={row.name: row for row in rows})

    # Values set from Python, and cached ones, are plain attributes: only the rest comes here.
    def __getattr__(self, name: str) -> Any:
        row = self._row(name)
        value = row.read()
        return self.__dict__.setdefault(name, value) if row.cached else value  # the first of several threads decides

    def __setattr__(self, name: str, value: Any) -> None:
        row = self._row(name)
        if isinstance(value, Env):
            self.__dict__.pop(name, None)
        else:
            value = self.__dict__[name] = row.kind.check(value)
            if row.key and propagate_env:
                setenv(row.key, None if value is None else row.kind.show(value))
        changed()

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, env)

    def _row(self, name: str) -> Knob:
        row = self.__dict__["_rows"].get(name)
        if row is None:
            raise AttributeError(f"knobs.{self._name} has no setting {name!r}: it has {', '.join(self._rows)}")
        return row

    def __dir__(self):
        return [*super().__dir__(), *self._rows]

    def __repr__(self) -> str:
        return f"knobs.{self._name}({', '.join(f'{k}={v!r}' for k, v in self.knobs.items())})"

    @property
    def knobs(self) -> dict[str, Any]:
        """Every setting of the group with its present value."""
        return {name: getattr(self, name) for name in self._rows}

    @property
    def knob_descriptors(self) -> dict[str, Knob]:
        """The rows that an environment variable can set."""
        return {name: row for name, row in self._rows.items() if row.key}

    def copy(self) -> Group:
        """A group of its own with the same values."""
        other = Group(self._name, tuple(self._rows.values()))
        other.__dict__.update(self._values())
        return other

    def reset(self) -> Group:
        """Forget what was set from Python."""
        for name in self._rows:
            self.__dict__.pop(name, None)
        changed()
        return self

    def _values(self) -> dict[str, Any]:
        held = {name: value for name, value in self.__dict__.items() if name in self._rows}
        return {name: value.copy() if isinstance(value, HookChain) else value for name, value in held.items()}

    @contextlib.contextmanager
    def scope(self) -> Iterator[Group]:
        """Undo at the end of the block whatever is set in it, in the environment too."""
        values = self._values()
        keys = [name for row in self._rows.values() if row.key for name in _names(row.key)]
        environment = {key: os.environ.get(key) for key in keys}
        try:
            yield self
        finally:
            self.reset().__dict__.update(values)
            for key, text in environment.items():
                if text is None:
                    os.environ.pop(key, None)
                else:
                    os.environ[key] = text
            changed()


def private_dir() -> str:
    """Where this user's files go when there is no home directory, or others could write there.

    >>> os.path.basename(private_dir()).startswith("tritium-")
    True
    """
    import tempfile

    try:
        folder = tempfile.gettempdir()
    except OSError:  # no directory can be written: nothing is kept
        folder = os.devnull
    return os.path.join(folder, f"tritium-{os.geteuid() if hasattr(os, 'geteuid') else 'user'}")


def has_home() -> bool:
    """Whether the user has a home directory: HOME, or what the system knows of the user, tells an absolute path.

    >>> has_home() in (True, False)
    True
    """
    return bool(os.environ.get("HOME", "/")) and os.path.isabs(os.path.expanduser("~/"))


def _home() -> str:
    """The home directory; a user without one gets a private directory, never the current one."""
    return os.path.expanduser("~/") if has_home() else os.path.join(private_dir(), "")


LIMIT = ".limit"  # a file in the cache that holds its limit: `tritium cache limit 2G` writes it
USUAL_LIMIT = 8 << 30


def kept_limit(folder: str) -> int:
    """The bytes that a cache may take, by the file in it, or as usual.

    >>> kept_limit("/no/such/cache") == USUAL_LIMIT
    True
    """
    try:
        with open(os.path.join(folder, LIMIT)) as file:
            return _bytes(file.read(64))
    except (OSError, ValueError):  # UnicodeDecodeError is one
        return USUAL_LIMIT


def _under_home(*parts: str) -> Callable[[], str]:
    return lambda: os.path.join(cache.home_dir, ".triton", *parts)


def _hooks(name: str, reverse: bool = False) -> Knob:
    return Knob(name, None, HOOKS, functools.partial(HookChain, reverse), cached=True)


def _find(program: str) -> Callable[[], Tool | None]:
    def search() -> Tool | None:
        import shutil

        path = shutil.which(program)
        return Tool(path) if path else None

    return search


def _testing() -> bool:
    return "PYTEST_CURRENT_TEST" in os.environ or BOOL.parse(os.environ.get("CI", ""))


def _workers() -> int:
    """One for each processor but the one that this process uses."""
    return min(processors.count() - 1, 32)


# ---------------------------------------------------------------------------------------------------------------------
# THE TABLE

runtime = Group("runtime", (
    Knob("interpret", "TRITON_INTERPRET", BOOL, False),  # read when `jit` runs
    Knob("debug", "TRITON_DEBUG", BOOL, False, cached=True),
    Knob("override_arch", "TRITON_OVERRIDE_ARCH", STR),
    Knob("default_backend", "TRITON_DEFAULT_BACKEND", PATH, cached=True),  # of what has no tensors: nvidia, amd, cpu
    _hooks("launch_enter_hook"),
    _hooks("launch_exit_hook", reverse=True),
    _hooks("kernel_load_start_hook"),
    _hooks("kernel_load_end_hook", reverse=True),
    _hooks("kernel_unload_hook"),
    _hooks("recompile_hook"),  # hears of each kernel that is compiled, and why: docs/cache.md
    Knob("jit_cache_hook", None, OBJECT),
    Knob("jit_post_compile_hook", None, OBJECT),
    Knob("add_stages_inspection_hook", None, OBJECT),
))

compilation = Group("compilation", (
    Knob("always_compile", "TRITON_ALWAYS_COMPILE", BOOL, False),
    Knob("dump_ir", "TRITON_KERNEL_DUMP", BOOL, False),
    Knob("override", "TRITON_KERNEL_OVERRIDE", BOOL, False),
    Knob("store_binary_only", "TRITON_STORE_BINARY_ONLY", BOOL, False),
    Knob("use_ir_loc", "USE_IR_LOC", STR),
    Knob("enable_asan", "TRITON_ENABLE_ASAN", BOOL, False),
    Knob("disable_line_info", "TRITON_DISABLE_LINE_INFO", BOOL, False),
    Knob("front_end_debugging", "TRITON_FRONT_END_DEBUGGING", BOOL, False),
    Knob("allow_non_constexpr_globals", "TRITON_ALLOW_NON_CONSTEXPR_GLOBALS", BOOL, False),
    Knob("dump_ir_extract_di_local_variables", "LLVM_EXTRACT_DI_LOCAL_VARIABLES", BOOL, False),
    Knob("instrumentation_mode", "TRITON_INSTRUMENTATION_MODE", STR, "", cached=True),
    Knob("budget", "TRITIUM_COMPILE_BUDGET", INT, 300_000),  # expressions after unrolling and inlining
    Knob("listener", None, OBJECT),
))

autotuning = Group("autotuning", (
    Knob("print", "TRITON_PRINT_AUTOTUNING", BOOL, False),
    Knob("cache", "TRITON_CACHE_AUTOTUNING", BOOL),  # None: keep what our own clock measured; docs/tuning.md
    Knob("timeout", "TRITIUM_TUNING_TIMEOUT", INT, 60),  # seconds one launch of a configuration may take; 0: no limit
    Knob("tuned", "TRITIUM_TUNED", STR, ""),  # files that `tritium tune export` wrote, as in PATH: docs/tuning.md
    Knob("listener", None, OBJECT),  # called after timings were measured or read: docs/tuning.md
))

cache = Group("cache", (
    Knob("home_dir", "TRITON_HOME", PATH, _home),
    Knob("dir", "TRITON_CACHE_DIR", PATH, _under_home("cache")),
    Knob("dump_dir", "TRITON_DUMP_DIR", PATH, _under_home("dump")),
    Knob("override_dir", "TRITON_OVERRIDE_DIR", PATH, _under_home("override")),
    Knob("read_only_dirs", "TRITIUM_CACHE_READ_ONLY_DIRS", STR, ""),  # further caches to look in, as in PATH
    Knob("bundle", "TRITIUM_BUNDLE", STR, ""),  # bundles of compiled kernels to load at the first launch, as in PATH
    Knob("max_size", "TRITIUM_CACHE_MAX_SIZE", SIZE, lambda: kept_limit(cache.dir)),  # bytes, or 512M, 8G; 0: no limit
    Knob("signing_key", "TRITIUM_CACHE_KEY", SECRET),  # files signed with it are trusted wherever they lie
    Knob("signing_key_file", "TRITIUM_CACHE_KEY_FILE", PATH),  # a file that holds the key
    Knob("manager_class", "TRITON_CACHE_MANAGER", CLASS),
    Knob("remote_manager_class", "TRITON_REMOTE_CACHE_BACKEND", CLASS),
))

redis = Group("redis", (
    Knob("key_format", "TRITON_REDIS_KEY_FORMAT", STR, "triton:{key}:{filename}"),
    Knob("host", "TRITON_REDIS_HOST", STR, "localhost"),
    Knob("port", "TRITON_REDIS_PORT", INT, 6379),
))

language = Group("language", (
    Knob("fp32_default", "TRITON_F32_DEFAULT", STR),  # ieee, tf32, tf32x3
    Knob("default_fp_fusion", "TRITON_DEFAULT_FP_FUSION", BOOL, True),
    Knob("force_disable_fp_fusion", "TRITON_FORCE_DISABLE_FP_FUSION", BOOL, False),  # whatever a launch says
    Knob("dialect", "TRITON_DIALECT", RELEASE, "3.6", cached=True),  # of functions that do not say; docs/dialects.md
))

build = Group("build", (
    Knob("cc", "CC", STR),
    Knob("cxx", "CXX", STR),
))

nvidia = Group("nvidia", (
    Knob("ptxas", "TRITON_PTXAS_PATH", TOOL, _find("ptxas")),
    Knob("cuobjdump", "TRITON_CUOBJDUMP_PATH", TOOL, _find("cuobjdump")),
    Knob("nvdisasm", "TRITON_NVDISASM_PATH", TOOL, _find("nvdisasm")),
    Knob("dump_nvptx", "NVPTX_ENABLE_DUMP", BOOL, False),
    Knob("disable_ptxas_opt", "DISABLE_PTXAS_OPT", BOOL, False),
    Knob("ptxas_options", "PTXAS_OPTIONS", STR),
    Knob("dump_ptxas_log", "TRITON_DUMP_PTXAS_LOG", BOOL, False),
    Knob("libdevice_path", "TRITON_LIBDEVICE_PATH", STR),
    Knob("libcuda_path", "TRITON_LIBCUDA_PATH", STR),
    Knob("mock_ptx_version", "TRITON_MOCK_PTX_VERSION", STR),
))

amd = Group("amd", (
    Knob("use_buffer_ops", "AMDGCN_USE_BUFFER_OPS", BOOL, True),
    Knob("use_buffer_atomics", "AMDGCN_USE_BUFFER_ATOMICS", BOOL, True),
    Knob("dump_amdgcn", "AMDGCN_ENABLE_DUMP", BOOL, False),
    Knob("libhip_path", "TRITON_LIBHIP_PATH", STR),
    Knob("lld_path", "TRITON_HIP_LLD_PATH", STR),
    Knob("use_block_pingpong", "TRITON_HIP_USE_BLOCK_PINGPONG", BOOL),
    Knob("use_in_thread_transpose", "TRITON_HIP_USE_IN_THREAD_TRANSPOSE", BOOL, False),
    Knob("use_async_copy", "TRITON_HIP_USE_ASYNC_COPY", BOOL),
    Knob("global_prefetch", "TRITON_HIP_GLOBAL_PREFETCH", INT, 0),
    Knob("local_prefetch", "TRITON_HIP_LOCAL_PREFETCH", INT, 0),
))

proton = Group("proton", (
    Knob("disable", "TRITON_PROTON_DISABLE", BOOL, False),
    Knob("cupti_lib_dir", "TRITON_CUPTI_LIB_PATH", STR),
    Knob("profile_buffer_size", "TRITON_PROFILE_BUFFER_SIZE", INT, 64 * 1024 * 1024),
    Knob("enable_nvtx", "TRITON_ENABLE_NVTX", BOOL, True),
))

# Settings of tritium alone; they are read as `knobs.verify`, without a group.
internal = Group("internal", (
    Knob("backend", "TRITIUM_BACKEND", STR, cached=True),  # cpu or cuda, whatever device the tensors are on
    Knob("verify", "TRITIUM_VERIFY", BOOL, _testing),  # check the IR after every pass
    Knob("cpu", "TRITIUM_CPU", STR, "host"),  # what the CPU backend may use of this machine; docs/cpu.md
    Knob("cpu_opt", "TRITIUM_CPU_OPT", INT, 2),  # 0: compile four times faster, run slower
    Knob("num_threads", "TRITIUM_NUM_THREADS", INT, processors.count),
    Knob("compile_workers", "TRITIUM_COMPILE_WORKERS", INT, _workers),  # processes that compile for tuners; 0: none
    Knob("why", "TRITIUM_WHY", BOOL, False, cached=True),  # print why a kernel is compiled again: docs/cache.md
    Knob("openmp", "TRITIUM_OPENMP", BOOL, True),  # run CPU launches on torch's threads where that is faster
    Knob("fault_handler", "TRITIUM_FAULT_HANDLER", BOOL, True),  # tell which CPU kernel left its memory
    Knob("sanitize", "TRITIUM_SANITIZE", BOOL, False, cached=True),  # CPU kernels check each access: docs/sanitize.md
    Knob("sanitize_json", "TRITIUM_SANITIZE_JSON", STR),  # where a process that is sanitized writes what was found
    Knob("sanitize_target", "TRITIUM_SANITIZE_TARGET", STR),  # the GPU that such a process emulates
    Knob("sanitizer", None, OBJECT, lambda: _load_class("tritium.insight.sanitize.sanitizer:told")),  # hears findings
    Knob("reproducer_dir", "TRITON_REPRODUCER_PATH", STR),  # where an InternalError leaves its file
))

base_knobs = Group

# Variables that change what is compiled, so they are part of a kernel's key on disk.
CACHE_INVALIDATING_ENV_VARS = (
    "ALLOW_LHS_TMEM_LAYOUT_CONVERSION", "AMDGCN_ENABLE_DUMP", "AMDGCN_USE_BUFFER_ATOMICS", "AMDGCN_USE_BUFFER_OPS",
    "DISABLE_LLVM_OPT", "DISABLE_MMA_V3", "DISABLE_MMA_V5", "DISABLE_PTXAS_OPT", "LLVM_ENABLE_TIMING",
    "LLVM_EXTRACT_DI_LOCAL_VARIABLES", "LLVM_IR_ENABLE_DUMP", "LLVM_PASS_PLUGIN_PATH", "MLIR_DISABLE_MULTITHREADING",
    "MLIR_DUMP_PATH", "MLIR_ENABLE_DIAGNOSTICS", "MLIR_ENABLE_DUMP", "MLIR_ENABLE_TIMING", "NVPTX_ENABLE_DUMP",
    "TRITIUM_CPU_OPT", "TRITON_DEFAULT_FP_FUSION", "TRITON_DISABLE_LINE_INFO", "TRITON_DUMP_MIR",
    "TRITON_ENABLE_ASAN", "TRITON_ENABLE_EXPERIMENTAL_CONSAN", "TRITON_ENABLE_LLVM_DEBUG", "TRITON_F32_DEFAULT",
    "TRITON_FORCE_DISABLE_FP_FUSION", "TRITON_HIP_USE_ASYNC_COPY", "TRITON_HIP_USE_BLOCK_PINGPONG",
    "TRITON_HIP_USE_IN_THREAD_TRANSPOSE", "TRITON_LLVM_DEBUG_ONLY", "TRITON_OVERRIDE_ARCH",
    "TRITON_PREFER_TMEM_16x256_LAYOUT", "USE_IR_LOC",
)  # fmt: skip


def cache_invalidating_env() -> dict[str, str]:
    """The variables of `CACHE_INVALIDATING_ENV_VARS` that are set.

    >>> isinstance(cache_invalidating_env(), dict)
    True
    """
    present = _CACHE_INVALIDATING.intersection(os.environ)
    found = {key: getenv(key) for key in CACHE_INVALIDATING_ENV_VARS} if present else {}
    return {key: value for key, value in found.items() if value is not None}


_CACHE_INVALIDATING = frozenset(name for key in CACHE_INVALIDATING_ENV_VARS for name in _names(key))


def refresh_knobs() -> None:
    """Read the environment again for the settings that are read only once.

    >>> refresh_knobs()
    """
    for group in (runtime, compilation, language, internal):
        for name, row in group.knob_descriptors.items():
            if row.cached:
                delattr(group, name)


class _Module(types.ModuleType):
    """This module: it offers the `internal` settings as its own, and tells the listeners when a group is replaced."""

    def __getattr__(self, name: str) -> Any:
        if name in internal._rows:
            return getattr(internal, name)
        raise AttributeError(f"tritium.knobs has no {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in internal._rows:
            setattr(internal, name, value)
            return
        super().__setattr__(name, value)
        changed()

    def __delattr__(self, name: str) -> None:
        if name in internal._rows:
            delattr(internal, name)
        else:
            super().__delattr__(name)


sys.modules[__name__].__class__ = _Module
