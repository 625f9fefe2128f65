"""Compiling in the background: inside `AsyncCompileMode`, a launch that misses the cache returns at once.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(2) as pool, AsyncCompileMode(pool) as mode:
    ...     future = mode.submit("key", lambda: "kernel", lambda kernel: None)
    >>> future.result()
    'kernel'
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from tritium.locks import lock

if TYPE_CHECKING:  # it takes longer to import than a kernel to load
    from concurrent.futures import Executor, Future

active_mode: ContextVar[AsyncCompileMode | None] = ContextVar("async_compile_mode", default=None)


class FutureKernel:
    """A kernel being compiled; whatever is asked of it waits until it is there.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(1) as pool:
    ...     FutureKernel(print, pool.submit(lambda: "a kernel")).result()
    a kernel
    'a kernel'
    """

    def __init__(self, finalize: Callable[[Any], None], future: Future | None,
                 compile_fn: Callable[[], Any] | None = None):
        self.future: Any = future
        self._finalize, self._compile, self._kernel = finalize, compile_fn, None
        self._process, self._lock = os.getpid(), lock()
        self._failed: Callable[[], Any] = lambda: None

    def when_failed(self, forget: Callable[[], Any]) -> None:
        """Call `forget` once it is seen that the compilation failed."""
        self._failed = forget

    def withdraw(self) -> None:
        """Take it out of the kernels at hand: it is compiled when somebody asks for it again."""
        self._failed()

    def result(self, ignore_errors: bool = False) -> Any:
        """The kernel, waiting for it; with `ignore_errors`, None when its compilation failed."""
        if self._kernel is None:
            try:
                kernel = self._wait()
            except Exception:
                self._failed()
                if ignore_errors:
                    return None
                raise
            with self._lock:
                if self._kernel is None:  # several threads may have waited
                    self._finalize(kernel)
                    self._kernel = kernel
        return self._kernel

    def _wait(self) -> Any:
        # A forked child has none of the executor's threads.
        if self._compile is not None and (self.future is None or self._process != os.getpid()):
            return self._compile()
        return self.future.result()

    def __getattr__(self, name: str):
        return getattr(self.result(), name)

    def __getitem__(self, grid):
        return self.result()[grid]


class AsyncCompileMode:
    """While active, cache misses are compiled by `executor`; leaving the block waits for all of them.

    What fails leaves nothing in the cache, and the first error is raised when all are done.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import numpy as np
    >>> from tritium.kernels.vector_add import add_kernel
    >>> x = np.ones(8, np.float32)
    >>> with ThreadPoolExecutor(2) as pool, AsyncCompileMode(pool):
    ...     kernels = [add_kernel.warmup(x, x, x, 8, BLOCK=block, grid=(1,)) for block in (2, 4, 8)]
    >>> {kernel.name for kernel in kernels}
    {'add_kernel'}
    """

    def __init__(self, executor: Executor, *, ignore_errors: bool = False):
        self.executor, self.ignore_errors = executor, ignore_errors
        self._futures: dict[Any, FutureKernel] = {}
        self._process, self._lock = os.getpid(), lock()

    def submit(self, key: Any, compile_fn: Callable[[], Any], finalize_fn: Callable[[Any], None]) -> FutureKernel:
        """Have `compile_fn` run; the same key is compiled once."""
        with self._lock:
            if key not in self._futures:
                self._futures[key] = FutureKernel(finalize_fn, self._begin(compile_fn), compile_fn)
            return self._futures[key]

    def _begin(self, compile_fn: Callable[[], Any]) -> Any:
        """The future of a compilation; a forked child has none, and compiles when it is asked for the kernel."""
        return self.executor.submit(compile_fn) if self._process == os.getpid() else None

    def __enter__(self) -> AsyncCompileMode:
        if active_mode.get() is not None:
            raise RuntimeError("Another AsyncCompileMode is already active")
        self._token = active_mode.set(self)
        return self

    def __exit__(self, kind, error, traceback) -> None:
        from concurrent.futures import as_completed

        active_mode.reset(self._token)
        waiting = {future.future: future for future in self._futures.values()}
        here = self._process == os.getpid()
        first = None
        for kernel in map(waiting.__getitem__, as_completed(waiting)) if here else self._futures.values():
            try:
                kernel.result(self.ignore_errors)
            except Exception as error:
                first = first or error
        if first is not None:
            raise first
