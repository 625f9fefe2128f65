# Written by docs/make_stubs.py from the objects themselves: change those, and run it again.

from . import (
    _allocation as _allocation,
    async_compile as async_compile,
    autotuner as autotuner,
    build as build,
    cache as cache,
    driver as driver,
    errors as errors,
    interpreter as interpreter,
    jit as jit,
    memory as memory,
)
from ._allocation import (
    set_allocator as set_allocator,
)
from .async_compile import (
    AsyncCompileMode as AsyncCompileMode,
    FutureKernel as FutureKernel,
)
from .autotuner import (
    Autotuner as Autotuner,
    Config as Config,
    Heuristics as Heuristics,
    autotune as autotune,
    heuristics as heuristics,
)
from .cache import (
    RedisRemoteCacheBackend as RedisRemoteCacheBackend,
    RemoteCacheBackend as RemoteCacheBackend,
)
from .errors import (
    InterpreterError as InterpreterError,
    OutOfResources as OutOfResources,
)
from .jit import (
    JITFunction as JITFunction,
    KernelInterface as KernelInterface,
    MockTensor as MockTensor,
    TensorWrapper as TensorWrapper,
    reinterpret as reinterpret,
)
