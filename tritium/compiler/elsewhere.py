"""Kernels whose stages run in worker processes: inside `Elsewhere`, a launch that misses the cache is promised.

The frontend runs here and at once: it reads the user's functions, their globals and constants, whatever notebook,
string or test they were defined in. What it leaves is a module of our own ops, and that travels.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from tritium import backends, knobs
from tritium.compiler import ASTSource, Making, frames, pool
from tritium.compiler.background import FutureKernel, active_mode
from tritium.compiler.collector import paused
from tritium.compiler.kernel import CompiledKernel
from tritium.compiler.worker import Job, Reply
from tritium.errors import cut
from tritium.locks import busy, lock

__all__ = ["Elsewhere", "Promise", "code_of"]

_GROUPS = ("runtime", "compilation", "language", "build", "nvidia", "amd", "internal")
_PLAIN = (str, int, float, bool, type(None), knobs.Tool)


class Promise(FutureKernel):
    """A kernel that a worker compiles. The thread that asks for it compiles it if no worker has begun, or one died."""

    def __init__(self, finalize: Callable[[Any], None], compile_fn: partial):
        super().__init__(finalize, None, compile_fn)
        self._making, self._anew = Making(*compile_fn.args), compile_fn
        self._guard, self._error = lock(), None
        self.task: pool.Task | None = None
        self._found = self._making.found()
        if self._found is None:
            with busy(), paused():
                self._making.start()

    @property
    def target(self) -> str:
        """What it is compiled for."""
        return str(self._making.target)

    @property
    def ready(self) -> bool:
        """Whether it can be had without waiting, or for little work."""
        return self._kernel is not None or self._found is not None or self.task is not None and self.task.over

    @property
    def module(self) -> Any:
        """What the frontend left; None if the cache has the kernel."""
        return self._making.contents.get("source")

    def offer(self, workers: pool.Pool) -> None:
        """Let a worker have it, if it travels."""
        if self._found is None and self.task is None and _travels(self._making):
            try:
                data = frames.dumps(_job(self._making))
            except Exception:  # pickling raises anything; the kernel is compiled in this process instead
                return
            self.task = workers.submit(data)

    def _wait(self) -> CompiledKernel:
        if self._process != os.getpid():  # a forked child has no workers, and does not wait for its parent's
            return self._anew()
        with self._guard:
            if self._error is not None:
                raise self._error
            if self._found is not None:
                return self._found
            try:
                reply = self._reply()
                self._found = self._finished(reply)
            except Exception as error:
                self._error = cut(error, keep=knobs.compilation.front_end_debugging)
                raise
            finally:
                self.task = None
        self._making.tell(self._found, hit=False)
        return self._found

    def _reply(self) -> Reply | None:
        """What a worker made; None if this process is to."""
        data = None if self.task is None or self.task.take() else self.task.wait()
        if data is None:
            return None
        try:
            return frames.loads(data)
        except Exception:  # a reply cut short by the death of its worker: the kernel is compiled here
            return None

    def _finished(self, reply: Reply | None) -> CompiledKernel:
        making = self._making
        if reply is not None and reply.error is not None:
            raise reply.error
        with busy(), paused():
            if reply is not None and not reply.reason:
                making.contents.update(reply.contents)
                making.metadata.update(reply.metadata)
                making.clock.stages_elsewhere(reply.times)
            making.go_on()
            return making.finish()


def code_of(kernel: Promise | CompiledKernel) -> str | None:
    """What the machine code of a kernel follows from, promised or compiled: equal texts give equal code.

    None where options that change the code are not known from those that do not.

    >>> import numpy as np
    >>> from tritium.kernels.vector_add import add_kernel
    >>> x = np.ones(8, np.float32)
    >>> two = [add_kernel.warmup(x, x, x, 8, BLOCK=8, grid=(1,), num_warps=n) for n in (2, 4)]
    >>> len({code_of(kernel) for kernel in two})
    1
    """
    from tritium.ir.text import parse_module

    promised = isinstance(kernel, Promise)
    ignored = backends.get(kernel._making.target if promised else kernel.metadata.target).ignored
    if not ignored:
        return None
    module = promised and kernel.module or parse_module(kernel.asm["source"])
    return str(module.replace(attrs={name: x for name, x in module.attrs.items() if name not in ignored}))


def _travels(making: Making) -> bool:
    """Whether another process can do it as this one would: nothing is shown, replaced or linked on the way."""
    shown = knobs.compilation.dump_ir or knobs.nvidia.dump_nvptx or knobs.nvidia.dump_ptxas_log
    watched = any(os.environ.get(name, "0") not in ("", "0") for name in (
        "MLIR_ENABLE_DUMP", "LLVM_IR_ENABLE_DUMP", "MLIR_ENABLE_TIMING", "LLVM_ENABLE_TIMING"))
    replaced = knobs.runtime.add_stages_inspection_hook or knobs.compilation.override or making.options.ir_override
    return (isinstance(making.src, ASTSource) and backends.get(making.target).hand_over is not None
            and not (shown or watched or replaced or making.options.extern_libs))


def _job(making: Making) -> Job:
    settings = {name: {key: value for key, value in vars(getattr(knobs, name)).items()
                       if isinstance(value, _PLAIN) and not key.startswith("_")} for name in _GROUPS}
    hand_over = backends.get(making.target).hand_over
    last = hand_over(settings) if hand_over else None
    return Job(making.contents["source"], making.target, making.options, making.metadata, making.src.signature, last,
               dict(os.environ), settings)


class Elsewhere:
    """While active, launches and `warmup` that miss the cache give promises; leaving the block waits for nothing.

    >>> import numpy as np
    >>> from tritium.kernels.vector_add import add_kernel
    >>> x = np.ones(8, np.float32)
    >>> with Elsewhere() as promised:
    ...     kernels = [add_kernel.warmup(x, x, x, 8, BLOCK=block, grid=(1,)) for block in (2, 4, 8)]
    >>> {kernel.result().name for kernel in kernels}
    {'add_kernel'}
    """

    def __init__(self):
        self._promises: dict[Any, Promise] = {}

    def submit(self, key: Any, compile_fn: Any, finalize_fn: Callable[[Any], None]) -> Promise:
        """Run the frontend; the same key is compiled once."""
        if key not in self._promises:
            self._promises[key] = Promise(finalize_fn, compile_fn)
        return self._promises[key]

    def __enter__(self) -> Elsewhere:
        if active_mode.get() is not None:
            raise RuntimeError("Another AsyncCompileMode is already active")
        mode: Any = self  # one that launches submit to
        self._token = active_mode.set(mode)
        return self

    def __exit__(self, kind, error, traceback) -> None:
        active_mode.reset(self._token)
