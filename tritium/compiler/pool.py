"""Worker processes that compile for this one: started once, kept warm, shared by all who compile many kernels.

`submit` queues a job; a thread hands jobs to workers that are free and takes their replies, as bytes, so that it hardly
ever needs Python's lock. The process that needs a result compiles the kernel itself if no worker has begun the job
(`Task.take`) or its worker died (`Task.lost`). Nothing here fails; at worst there is no help.

What the processes are is told in `worker`.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from typing import Any

from tritium import knobs, locks
from tritium.compiler import frames

__all__ = ["Pool", "Task", "current", "shut_down"]

_MOST_LOSSES = 8  # of workers, after which the pool is given up: something ends them
_SLOW = 300.0  # seconds after which a worker is not waited for any longer

_BOOT = """import sys
sys.path[:] = sys.argv[3:]
from tritium.compiler.worker import main
main(int(sys.argv[1]), sys.argv[2])
"""


class Task:
    """A job on its way: waiting, begun by a worker, or over with a reply or without."""

    __slots__ = ("_pool", "data", "lost", "reply", "taken")

    def __init__(self, pool: Pool, data: bytes):
        self._pool, self.data = pool, data
        self.reply: bytes | None = None
        self.lost = self.taken = False

    @property
    def over(self) -> bool:
        """Whether nothing more comes of it."""
        return self.reply is not None or self.lost or self.taken

    def take(self) -> bool:
        """Take the job back; whether no worker had begun it."""
        with self._pool.guard:
            if self.over or self not in self._pool.waiting:
                return False
            self._pool.waiting.remove(self)
            self.taken = True
            return True

    def wait(self) -> bytes | None:
        """The reply; None if there is none to come."""
        end = time.monotonic() + _SLOW
        with self._pool.changed:
            while not self.over:
                if not self._pool.changed.wait(max(end - time.monotonic(), 0)):
                    self.lost = True
        return self.reply


class _Worker:
    """A worker's socket, what came of its next reply, and the task it has begun."""

    def __init__(self, connection: socket.socket):
        self.connection, self.data = connection, bytearray()
        self.task: Task | None = None
        self.free = False  # once it has said that it is there

    def frame(self) -> bytes | None:
        """A whole frame, if one has come."""
        if len(self.data) < frames.HEAD.size:
            return None
        (size,) = frames.HEAD.unpack_from(self.data)
        end = frames.HEAD.size + size
        if len(self.data) < end:
            return None
        found = bytes(memoryview(self.data)[frames.HEAD.size : end])
        del self.data[:end]
        return found


class Pool:
    """The processes, and the thread that looks after them. `start` returns at once; `ready` says how many are there."""

    def __init__(self, count: int, target: str):
        self.count, self.target = count, target
        self.guard = locks.lock()
        self.changed = threading.Condition(self.guard)
        self.waiting: deque[Task] = deque()
        self.born = self.losses = 0  # workers that said they are there; workers that died
        self.open = True
        self._workers: list[_Worker] = []
        self._wake, self._woken = socket.socketpair()
        self._control, there = socket.socketpair(socket.AF_UNIX)
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-S", "-c", _BOOT, str(there.fileno()), target, *_path()], pass_fds=[there.fileno()],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=True,
                start_new_session=True, env=_environment())
        except BaseException:
            for one in (self._wake, self._woken, self._control):
                one.close()
            raise
        finally:
            there.close()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._selector.register(self._control, selectors.EVENT_READ)
        for _ in range(count):
            self._add()
        self._thread = threading.Thread(target=self._run, name="tritium pool", daemon=True)
        self._thread.start()

    @property
    def ready(self) -> int:
        """How many workers are there and have nothing to do."""
        return sum(worker.free for worker in self._workers)

    @property
    def size(self) -> int:
        """How many workers there are, or will be."""
        return len(self._workers)

    def submit(self, data: bytes) -> Task:
        """Queue a job."""
        task = Task(self, data)
        with self.guard:
            if self.open:
                self.waiting.append(task)
            else:
                task.lost = True
        self._nudge()
        return task

    def wait_for_any(self, tasks: list[Task]) -> None:
        """Wait until one of these is over."""
        end = time.monotonic() + _SLOW
        with self.changed:
            while not any(task.over for task in tasks):
                if not self.changed.wait(max(end - time.monotonic(), 0)):
                    return

    def close(self) -> None:
        """End the processes, and wait for them."""
        with self.guard:
            if not self.open:
                return
            self.open = False
        self._nudge()
        if self._thread is not threading.current_thread():
            self._thread.join(2.0)

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _nudge(self) -> None:
        with contextlib.suppress(OSError):
            self._wake.send(b"!", socket.MSG_DONTWAIT)

    def _add(self) -> None:
        """Have the nursery fork one more worker."""
        here, there = socket.socketpair()
        try:
            socket.send_fds(self._control, [b"+"], [there.fileno()])
        except OSError:
            here.close()
            return
        finally:
            there.close()
        worker = _Worker(here)
        self._workers.append(worker)
        self._selector.register(here, selectors.EVENT_READ, worker)

    def _run(self) -> None:
        try:
            while self.open:
                for key, _ in self._selector.select():
                    self._look(key.fileobj, key.data)
                self._hand_out()
        finally:  # whatever it is, those who wait must hear of it
            self._end()

    def _look(self, connection: Any, worker: _Worker | None) -> None:
        try:
            data = connection.recv(1 << 20)
        except OSError:
            data = b""
        if connection is self._woken:
            return
        if worker is None:  # the nursery says nothing while it lives
            with self.guard:
                self.open = False
        elif not data:
            self._lose(worker)
        else:
            worker.data += data
            while (reply := worker.frame()) is not None:
                self._over(worker, reply)

    def _over(self, worker: _Worker, reply: bytes) -> None:
        with self.changed:
            if worker.task is None:
                self.born += 1
            else:
                worker.task.reply, worker.task = reply, None
            worker.free = True
            self.changed.notify_all()

    def _lose(self, worker: _Worker) -> None:
        self._selector.unregister(worker.connection)
        worker.connection.close()
        with self.changed:
            self._workers.remove(worker)
            if worker.task is not None:
                worker.task.lost = True
            self.losses += 1
            if self.losses >= _MOST_LOSSES:
                self.open = False
            self.changed.notify_all()
        if self.open:
            self._add()

    def _hand_out(self) -> None:
        for worker in list(self._workers):
            with self.guard:
                if not worker.free or not self.waiting:
                    continue
                task = worker.task = self.waiting.popleft()
                worker.free = False
            try:
                frames.send(worker.connection, task.data)
            except OSError:
                self._lose(worker)

    def _end(self) -> None:
        with self.changed:
            self.open = False
            for worker in self._workers:
                if worker.task is not None:
                    worker.task.lost = True
            for task in self.waiting:
                task.lost = True
            self.waiting.clear()
            self.changed.notify_all()
        self.let_go()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(0.2 if self.born else 0.0)
            return
        self.process.kill()  # it is importing, or does not hear
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5.0)

    def let_go(self) -> None:
        """Close our ends of the sockets."""
        for one in (self._selector, self._control, self._wake, self._woken, *(w.connection for w in self._workers)):
            with contextlib.suppress(OSError):
                one.close()
        self._workers.clear()


def _path() -> list[str]:
    """Where the nursery imports from: what this process has imported, wherever it found it."""
    import llvmlite

    homes = [os.path.dirname(os.path.dirname(os.path.abspath(file)))
             for file in (knobs.__file__, llvmlite.__file__)]  # fmt: skip
    return [*homes[:1], *(os.path.abspath(place) for place in sys.path), *homes[1:]]


def _environment() -> dict[str, str]:
    """The nursery is forked: libraries that it imports start no threads."""
    return {**os.environ, **dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")}


# ---------------------------------------------------------------------------------------------------------------------
# The one pool of this process

_starting = locks.lock()
_pool: Pool | None = None
_refused = False  # by the system, or because workers kept dying


def current(target: str, start: bool = True) -> Pool | None:
    """The pool of this process; None if there is none, it is switched off, or it cannot be had. Nothing is waited for.

    >>> current("cpu:host:1", start=False) is None or True
    True
    """
    global _pool, _refused
    count = knobs.compile_workers
    if count < 1 or _refused or not _possible():
        return None
    with _starting:
        if _pool is not None and not _pool.open:
            _refused = _pool.losses >= _MOST_LOSSES or _pool.born == 0
            _pool = None
        if _pool is None and start and not _refused:
            try:
                _pool = Pool(count, target)
            except (OSError, ImportError, ValueError):  # nothing may be started here
                _refused = True
        return _pool


def _possible() -> bool:
    return bool(sys.executable) and hasattr(os, "fork") and hasattr(socket, "send_fds")


def shut_down() -> None:
    """End the workers; the next who compiles many kernels starts others.

    >>> shut_down()
    """
    global _pool
    with _starting:
        pool, _pool = _pool, None
    if pool is not None:
        pool.close()


def _in_child() -> None:
    """A forked child has no pool: its parent's must see the sockets closed when the parent closes them."""
    global _pool
    pool, _pool = _pool, None
    if pool is not None:
        pool.open = False
        pool.let_go()


atexit.register(shut_down)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
