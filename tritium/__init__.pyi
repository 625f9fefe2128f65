# Written by docs/make_stubs.py from the objects themselves: change those, and run it again.

from . import (
    alias as alias,
    backends as backends,
    cache as cache,
    compiler as compiler,
    errors as errors,
    insight as insight,
    interp as interp,
    ir as ir,
    kernels as kernels,
    knobs as knobs,
    language as language,
    ops as ops,
    passes as passes,
    runtime as runtime,
    tensors as tensors,
    testing as testing,
    tools as tools,
)
from .alias import (
    install_as_triton as install_as_triton,
    uninstall_as_triton as uninstall_as_triton,
)
from .compiler import (
    compile as compile,
)
from .compiler.background import (
    AsyncCompileMode as AsyncCompileMode,
    FutureKernel as FutureKernel,
)
from .compiler.bundle_file import (
    BundleError as BundleError,
)
from .compiler.bundles import (
    load_bundle as load_bundle,
)
from .errors import (
    CompilationError as CompilationError,
    InterpreterError as InterpreterError,
    OutOfResources as OutOfResources,
    TritonError as TritonError,
)
from .insight.explain.explanation import (
    explain as explain,
)
from .insight.profile.profiler import (
    profile as profile,
)
from .insight.sanitize.sanitizer import (
    sanitize as sanitize,
)
from .language.source.function import (
    cdiv as cdiv,
    constexpr_function as constexpr_function,
    must_use_result as must_use_result,
    next_power_of_2 as next_power_of_2,
)
from .language.types.aggregate import (
    aggregate as aggregate,
)
from .runtime._allocation import (
    set_allocator as set_allocator,
)
from .runtime.autotuner import (
    Config as Config,
    autotune as autotune,
    heuristics as heuristics,
)
from .runtime.jit import (
    JITFunction as JITFunction,
    KernelInterface as KernelInterface,
    jit as jit,
)
from .runtime.recompile import (
    explain_recompile as explain_recompile,
    watch_recompiles as watch_recompiles,
)
from .tensors import (
    MockTensor as MockTensor,
    TensorWrapper as TensorWrapper,
    reinterpret as reinterpret,
)

__version__: str


def set_num_threads(n: int) -> None:
    """Let up to `n` threads work on one launch on the CPU.

    >>> import tritium
    >>> before = tritium.get_num_threads()
    >>> tritium.set_num_threads(1); tritium.get_num_threads()
    1
    >>> tritium.set_num_threads(before)
    """


def get_num_threads() -> int:
    """How many threads may work on one launch on the CPU, the caller's included.

    >>> import tritium
    >>> tritium.get_num_threads() >= 1
    True
    """
