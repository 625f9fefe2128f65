# Written by docs/make_stubs.py from the objects themselves: change those, and run it again.

from . import (
    _allocation as _allocation,
    autotuner as autotuner,
    build as build,
    jit as jit,
    memory as memory,
)
from ..compat.runtime import (
    async_compile as async_compile,
    cache as cache,
    driver as driver,
    errors as errors,
    interpreter as interpreter,
)
from ..compat.runtime.async_compile import (
    AsyncCompileMode as AsyncCompileMode,
    FutureKernel as FutureKernel,
)
from ..compat.runtime.cache import (
    RedisRemoteCacheBackend as RedisRemoteCacheBackend,
    RemoteCacheBackend as RemoteCacheBackend,
)
from ..compat.runtime.errors import (
    InterpreterError as InterpreterError,
    OutOfResources as OutOfResources,
)
from ._allocation import (
    set_allocator as set_allocator,
)
from .autotuner import (
    Autotuner as Autotuner,
    Config as Config,
    Heuristics as Heuristics,
    autotune as autotune,
    heuristics as heuristics,
)
from .jit import (
    JITFunction as JITFunction,
    KernelInterface as KernelInterface,
    MockTensor as MockTensor,
    TensorWrapper as TensorWrapper,
    reinterpret as reinterpret,
)
