"""Processes that run the stages of a compilation for another: a nursery, and the workers it forks.

The nursery is a new interpreter, so it has none of what must not be forked: no CUDA context, no threads, no framework,
no `__main__` of the user's. It brings the compiler in once, and forks a worker for each socket that it is sent. A
worker gets modules, of which the frontend has seen to all that is the user's, and answers with the stages as text.

    parent  --- control socket: a socket for each worker wanted --->  nursery
    parent  <-- a worker's socket: jobs, replies -->                  worker

A process ends when the other side of its socket is closed, and so when the parent dies in whatever way. Nobody holds
files of the parent: standard input and output lead nowhere.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import sys
from types import SimpleNamespace
from typing import Any

from tritium import backends, knobs
from tritium.backends.compiler import GPUTarget, Options
from tritium.compiler import frames
from tritium.named_tuples import NamedTuple

__all__ = ["Job", "Reply", "nursery", "serve", "work"]

_LOOK_EVERY = 5.0  # seconds after which the nursery looks whether its parent is still there


class Job(NamedTuple):
    """The stages of one compilation: everything they depend on."""

    module: Any
    target: GPUTarget
    options: Options
    metadata: dict[str, Any]
    signature: dict[str, Any]
    last: str | None  # the stage to end with; None for the binary
    environment: dict[str, str]
    settings: dict[str, dict[str, Any]]  # group -> what was set from Python


class Reply(NamedTuple):
    """The stages a worker made, or why it made none: an `error` for the user, or a `reason` to compile it elsewhere."""

    contents: dict[str, str | bytes]
    metadata: dict[str, Any]
    times: tuple[tuple[str, int], ...] = ()
    error: Exception | None = None
    reason: str = ""


def work(job: Job) -> Reply:
    """Run the stages.

    >>> from tritium.compiler import make_backend
    >>> from tritium.ir.text import parse_module
    >>> target = GPUTarget("cpu", "host", 1)
    >>> options = make_backend(target).parse_options({})
    >>> metadata = {**vars(options), "name": "nothing", "target": target}
    >>> reply = work(Job(parse_module("kernel @nothing() {\\n}\\n"), target, options, metadata, {}, None, {}, {}))
    >>> list(reply.contents), reply.metadata["stores"]
    (['ttir', 'llir', 'obj'], ())
    """
    from tritium import compiler
    from tritium.compiler.collector import paused
    from tritium.errors import OutOfResources, PTXASError

    source = SimpleNamespace(ext="source", signature=job.signature, name=job.metadata["name"], path="module")
    contents: dict[str, Any] = {"source": job.module}
    metadata, clock = dict(job.metadata), compiler.Clock()
    try:
        with paused():
            for ext, stage in compiler._stages(source, compiler.make_backend(job.target), job.options).items():
                contents[ext] = stage(contents[next(reversed(contents))], metadata)
                clock.end_of_stage(ext)
                if ext == job.last:
                    break
            metadata["stores"] = compiler._stored(source, contents, metadata)
            del contents["source"]
            texts = {ext: value if isinstance(value, bytes) else str(value) for ext, value in contents.items()}
    except (OutOfResources, PTXASError) as error:
        return Reply({}, {}, error=error)
    except Exception as error:  # the process that asked compiles it again, meets it and can say more about it
        return Reply({}, {}, reason=f"{type(error).__name__}: {error}")
    added = {name: value for name, value in metadata.items() if name not in job.metadata
             or job.metadata[name] is not value}  # fmt: skip
    return Reply(texts, added, clock.times().lowering_stages)


def _agree(job: Job) -> None:
    """Take the settings of the process that asks."""
    if job.environment and job.environment != dict(os.environ):
        os.environ.clear()
        os.environ.update(job.environment)
    for name, values in job.settings.items():
        group = getattr(knobs, name)
        group.reset().__dict__.update(values)


def _answer(data: bytes) -> bytes:
    try:
        job = frames.loads(data)
        _agree(job)
        return frames.dumps(work(job))
    except Exception as error:  # a value that does not travel, in either direction
        return frames.dumps(Reply({}, {}, reason=f"{type(error).__name__}: {error}"))


def serve(connection: socket.socket) -> None:
    """Do jobs until there are no more; the first frame says that the worker is there."""
    frames.send(connection, b"")
    while (data := frames.receive(connection)) is not None:
        frames.send(connection, _answer(data))
        gc.collect(0)


def _die_with(parent: int) -> None:
    """Have the kernel end this process when its parent, which has one thread, dies."""
    with contextlib.suppress(Exception):  # only Linux has it; elsewhere the closed socket ends this process
        import ctypes

        signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # temporary files go, too
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(0)


def _begin(target: str) -> None:
    """Bring in what compiling for a target needs, by compiling something small."""
    from tritium.compiler import make_backend
    from tritium.ir.text import parse_module

    machine = GPUTarget.parse(target)
    options = make_backend(machine).parse_options({})
    metadata = {**vars(options), "name": "nothing", "target": machine}
    record = backends.get(machine)
    last = record.stages[-2][0] if record.long else None  # nothing is started to assemble nothing
    work(Job(parse_module("kernel @nothing() {\n}\n"), machine, options, metadata, {}, last, {}, {}))


def nursery(control: socket.socket, target: str) -> None:
    """Fork a worker for each socket that comes, until the control socket is closed or the parent is gone."""
    parent, own = os.getppid(), os.getpid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for workers: they leave nothing behind
    os.chdir("/")
    _begin(target)
    gc.freeze()
    while os.getppid() == parent:
        if not select.select([control], [], [], _LOOK_EVERY)[0]:
            continue
        data, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not data:
            break
        for descriptor in descriptors:
            if _fork() == 0:
                try:
                    _die_with(own)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    control.close()
                    serve(socket.socket(fileno=descriptor))
                finally:
                    os._exit(0)
            os.close(descriptor)
    os._exit(0)


def _fork() -> int:
    """0 in the child; -1 where there may be no more processes: the process that asked sees its socket closed."""
    try:
        return os.fork()
    except OSError:
        return -1


def main(descriptor: int, target: str) -> None:
    """The program of the nursery."""
    nursery(socket.socket(fileno=descriptor), target)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
