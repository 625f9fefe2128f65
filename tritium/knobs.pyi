# Written by docs/make_stubs.py from the objects themselves: change those, and run it again.

import builtins
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

base_knobs: type[Group]
LIMIT: str
USUAL_LIMIT: int
env: Env
propagate_env: bool
listeners: list[Callable[[], None]]
CACHE_INVALIDATING_ENV_VARS: tuple[str, ...]
backend: str | None
verify: bool
cpu: str
cpu_opt: int
num_threads: int
compile_workers: int
why: bool
openmp: bool
fault_handler: bool
sanitize: bool
sanitize_json: str | None
sanitize_target: str | None
sanitizer: Any
reproducer_dir: str | None


class Env:
    """The value that sends a setting back to its environment variable.

    >>> repr(env)
    'knobs.env'
    """


def changed() -> None:
    """Tell the listeners that a decision may have to be taken again.

    >>> changed()
    """


class HookChain:
    """Callables run one after the other (`reverse`: last added first), empty by default.

    >>> seen = []
    >>> chain = HookChain()
    >>> chain.add(seen.append)
    >>> chain("launched")
    >>> seen, bool(chain)
    (['launched'], True)
    """
    def __init__(self, reverse: bool = False, calls: Any = ()) -> None: ...
    def add(self, func: Callable) -> None:
        """Run `func` too. Adding it twice runs it once."""
    def remove(self, func: Callable) -> None:
        """Stop running `func`; quiet when it was never added."""
    def copy(self) -> HookChain:
        """The same callables in a chain of its own."""
    def __call__(self, *args: Any, **kwargs: Any) -> None: ...
    def __bool__(self) -> bool: ...


class Tool(NamedTuple):
    """A program of the CUDA toolkit: where it is and which release.

    >>> Tool("/usr/local/cuda/bin/ptxas").path
    '/usr/local/cuda/bin/ptxas'
    """
    path: str
    @property
    def version(self) -> str:
        """The release the program reports, such as '12.8'."""


class Kind(NamedTuple):
    """`parse` reads the text of an environment variable, `show` writes it, `check` normalises a value set in Python."""
    parse: Callable[[str], Any]
    show: Callable[[Any], str] = ...
    check: Callable[[Any], Any] = ...


class Secret(str):
    """A text that is not shown with the other settings.

    >>> Secret("open sesame")
    '...'
    """


def release(value: Any) -> str:
    """A release of Triton whose programs run here, by its first two numbers.

    >>> release("3.8.0")
    '3.8'
    """


BOOL: Kind


INT: Kind


STR: Kind


PATH: Kind


SIZE: Kind


SECRET: Kind


TOOL: Kind


CLASS: Kind


RELEASE: Kind


HOOKS: Kind


OBJECT: Kind


class Knob(NamedTuple):
    """One row of the table; `key` is the environment variable, None when there is none."""
    name: str
    key: str | None
    kind: Kind
    default: Any = None
    cached: bool = False
    def read(self) -> Any:
        """The value the environment gives, or the default."""


def getenv(key: str, default: str | None = None, empty: bool = True) -> str | None:
    """The environment's word on `key`; for TRITON_X, TRITIUM_X wins. An `empty` text is a word too, unless it is False.

    >>> getenv("TRITON_SURELY_NOT_SET", "none")
    'none'
    """


def setenv(key: str, value: str | None) -> None:
    """Write `key` (None removes it), and its TRITIUM_ name where that is what readers would see.

    >>> setenv("TRITON_SURELY_NOT_SET", None)
    """


class Group:
    """The settings of one area, as attributes.

    >>> from tritium import knobs
    >>> knobs.redis.host
    'localhost'
    """
    def __init__(self, name: str, rows: builtins.tuple[Knob, ...]) -> None: ...
    @property
    def knobs(self) -> dict[str, Any]:
        """Every setting of the group with its present value."""
    @property
    def knob_descriptors(self) -> dict[str, Knob]:
        """The rows that an environment variable can set."""
    def copy(self) -> Group:
        """A group of its own with the same values."""
    def reset(self) -> Group:
        """Forget what was set from Python."""
    def scope(self) -> AbstractContextManager[Group]:
        """Undo at the end of the block whatever is set in it, in the environment too."""


def private_dir() -> str:
    """Where this user's files go when there is no home directory, or others could write there.

    >>> os.path.basename(private_dir()).startswith("tritium-")
    True
    """


def has_home() -> bool:
    """Whether the user has a home directory: HOME, or what the system knows of the user, tells an absolute path.

    >>> has_home() in (True, False)
    True
    """


def kept_limit(folder: str) -> int:
    """The bytes that a cache may take, by the file in it, or as usual.

    >>> kept_limit("/no/such/cache") == USUAL_LIMIT
    True
    """


def cache_invalidating_env() -> dict[str, str]:
    """The variables of `CACHE_INVALIDATING_ENV_VARS` that are set.

    >>> isinstance(cache_invalidating_env(), dict)
    True
    """


def refresh_knobs() -> None:
    """Read the environment again for the settings that are read only once.

    >>> refresh_knobs()
    """


class runtime_settings(Group):
    interpret: bool
    debug: bool
    override_arch: str | None
    default_backend: Any
    launch_enter_hook: HookChain
    launch_exit_hook: HookChain
    kernel_load_start_hook: HookChain
    kernel_load_end_hook: HookChain
    kernel_unload_hook: HookChain
    recompile_hook: HookChain
    jit_cache_hook: Any
    jit_post_compile_hook: Any
    add_stages_inspection_hook: Any


runtime: runtime_settings


class compilation_settings(Group):
    always_compile: bool
    dump_ir: bool
    override: bool
    store_binary_only: bool
    use_ir_loc: str | None
    enable_asan: bool
    disable_line_info: bool
    front_end_debugging: bool
    allow_non_constexpr_globals: bool
    dump_ir_extract_di_local_variables: bool
    instrumentation_mode: str
    budget: int
    listener: Any


compilation: compilation_settings


class autotuning_settings(Group):
    print: bool
    cache: bool | None
    timeout: int
    tuned: str
    listener: Any


autotuning: autotuning_settings


class cache_settings(Group):
    home_dir: str
    dir: Any
    dump_dir: Any
    override_dir: Any
    read_only_dirs: str
    bundle: str
    max_size: Any
    signing_key: Any
    signing_key_file: Any
    manager_class: Any
    remote_manager_class: Any


cache: cache_settings


class redis_settings(Group):
    key_format: str
    host: str
    port: int


redis: redis_settings


class language_settings(Group):
    fp32_default: str | None
    default_fp_fusion: bool
    force_disable_fp_fusion: bool
    dialect: Any


language: language_settings


class build_settings(Group):
    cc: str | None
    cxx: str | None


build: build_settings


class nvidia_settings(Group):
    ptxas: Tool | None
    cuobjdump: Tool | None
    nvdisasm: Tool | None
    dump_nvptx: bool
    disable_ptxas_opt: bool
    ptxas_options: str | None
    dump_ptxas_log: bool
    libdevice_path: str | None
    libcuda_path: str | None
    mock_ptx_version: str | None


nvidia: nvidia_settings


class amd_settings(Group):
    use_buffer_ops: bool
    use_buffer_atomics: bool
    dump_amdgcn: bool
    libhip_path: str | None
    lld_path: str | None
    use_block_pingpong: bool | None
    use_in_thread_transpose: bool
    use_async_copy: bool | None
    global_prefetch: int
    local_prefetch: int


amd: amd_settings


class proton_settings(Group):
    disable: bool
    cupti_lib_dir: str | None
    profile_buffer_size: int
    enable_nvtx: bool


proton: proton_settings


class internal_settings(Group):
    backend: str | None
    verify: bool
    cpu: str
    cpu_opt: int
    num_threads: int
    compile_workers: int
    why: bool
    openmp: bool
    fault_handler: bool
    sanitize: bool
    sanitize_json: str | None
    sanitize_target: str | None
    sanitizer: Any
    reproducer_dir: str | None


internal: internal_settings
