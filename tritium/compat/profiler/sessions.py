"""Sessions of proton: `start` one, `deactivate` and `activate` it, `finalize` it into a file."""

from __future__ import annotations

import atexit
import functools
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from tritium import knobs
from tritium.errors import is_ours
from tritium.insight.profile.clocks import Sample
from tritium.insight.profile.launches import watch
from tritium.locks import lock, once

from . import scopes
from .tree import Node, document

__all__ = ["activate", "deactivate", "finalize", "profile", "start"]

CONTEXTS, DATAS, HOOKS = ("shadow", "python"), ("tree", "trace"), (None, "triton")
BACKENDS = (None, "cupti")
FORMATS = {"tree": "hatchet", "trace": "chrome_trace"}
_FULL = 8192  # launches of a session that may wait to be added up

_guard = lock()
_sessions: dict[int, Session] = {}
_numbers = iter(range(1 << 62))
command_line = False  # the command `proton` has started the one session there is


class Session:
    """One profile: where it goes, and what it has seen."""

    def __init__(self, number: int, name: str, context: str, data: str, hook: str | None):
        self.number, self.name, self.context, self.data, self.hook = number, name, context, data, hook
        self.root, self.active = Node("ROOT"), False
        self.devices: dict[str, Any] = {}
        self.events: list[dict[str, Any]] = []
        self._waiting: list[tuple[tuple[str, ...], Sample]] = []
        self._guard = lock()

    def turn(self, on: bool) -> None:
        """Watch launches and scopes, or do not."""
        with self._guard:
            if on == self.active:
                return
            self.active = on
        if on:
            scopes.listeners.append(self)
            watch.add(self)
        else:
            scopes.listeners.remove(self)
            watch.remove(self)

    # -- told by the hooks ---------------------------------------------------------------------------------------------

    def launched(self, sample: Sample) -> None:
        """A kernel was launched."""
        above = scopes.path() if self.context == "shadow" else (*_frames(), *scopes.path()[len(scopes._own.scopes):])
        kernel = sample.kernel
        name = sample.name if self.hook or kernel is None else kernel.name
        with self._guard:
            self._waiting.append(((*above, name or "kernel"), sample))
            full = len(self._waiting) >= _FULL
        if full:
            watch.settle()
            self.add_up()

    def compiled(self, fact: Any) -> None:
        """Compilations are no part of proton's profiles."""

    tuned = compiled

    def counted(self, path: tuple[str, ...], metrics: dict[str, Any]) -> None:
        """A scope was entered or left, and brings these metrics."""
        with self._guard:
            self.root.at(path).count(metrics)

    def add_up(self) -> None:
        """Put the launches whose times are known into the tree."""
        with self._guard:
            waiting, self._waiting = self._waiting, []
            for path, sample in waiting:
                node, device = self.root.at(path), "CPU" if sample.device == "cpu" else sample.device.upper()
                if device not in self.devices:
                    self.devices[device] = {"0": _device(sample.device)}
                told = sample.metrics if self.hook else {}
                given = {name: value for name, value in told.items()
                         if name not in ("name", "function", "stream") and isinstance(value, int | float)}
                node.count({"count": 1, "time (ns)": sample.duration or 0, **given, "device_id": "0",
                            "device_type": device})  # fmt: skip
                if self.data == "trace":
                    self.events.append({"name": path[-1], "cat": "kernel", "ph": "X", "ts": sample.start / 1e3,
                                        "dur": (sample.duration or 0) / 1e3, "pid": os.getpid(), "tid": sample.thread,
                                        "args": {"call_path": list(path)}})  # fmt: skip

    def write(self, kind: str) -> str:
        """Write the profile; the path of the file."""
        self.add_up()
        kind = kind or FORMATS[self.data]
        content: Any = document(self.root, self.devices)
        if kind == "chrome_trace":
            content = {"traceEvents": self.events, "displayTimeUnit": "ns"}
        path = f"{self.name}.{kind}"
        with open(path, "w") as file:
            json.dump(content, file)
        return path


def _frames() -> tuple[str, ...]:
    """The Python frames that led to a launch, outermost first: file:function@line."""
    found, frame = [], sys._getframe(1)
    while frame is not None:
        code, module = frame.f_code, frame.f_globals.get("__name__", "")
        generated = code.co_filename.startswith("<") and module.startswith("tritium.")
        if not is_ours(code.co_filename) and not generated and not code.co_filename.startswith("<frozen"):
            found.append(f"{code.co_filename}:{code.co_name}@{frame.f_lineno}")
        frame = frame.f_back
    return tuple(found[::-1])


@once
def _device(backend: str) -> dict[str, Any]:
    from tritium.backends.driver import driver

    found: Any = driver.named(backend)
    figures = found.utils.get_device_properties(found.get_current_device())
    target = found.get_current_target()
    names = {"num_sms": "multiprocessor_count", "clock_rate": "sm_clock_rate", "memory_clock_rate": "mem_clock_rate",
             "bus_width": "mem_bus_width"}  # fmt: skip
    return {"arch": str(target.arch), **{name: figures[ours] for name, ours in names.items()}}


def _one_of(what: str, value: Any, known: tuple, why: str = "") -> None:
    if value not in known:
        names = ", ".join(repr(name) for name in known)
        raise ValueError(f"proton has no {what} {value!r} here: it is one of {names}{why}")


def start(name: str | None = None, *, context: str = "shadow", data: str = "tree", backend: str | None = None,
          mode: Any = None, hook: str | None = None) -> int | None:
    """Start a session that is written to `name`.hatchet by `finalize`; its number.

    `context` says what kernels stand under: "shadow" the scopes, "python" the frames of the program. With
    `hook="triton"`, names and metrics come from the kernels' `launch_metadata`. `data="trace"` keeps single launches
    for Perfetto. TRITON_PROTON_DISABLE=1 makes it do nothing.

    >>> import os, tempfile
    >>> number = start(os.path.join(tempfile.mkdtemp(), "profile"))
    >>> finalize(number)
    """
    if knobs.proton.disable:
        return None
    if command_line:
        return 0
    _one_of("context", context, CONTEXTS)
    _one_of("data", data, DATAS)
    _one_of("hook", hook, HOOKS)
    _one_of("backend", backend, BACKENDS, "; CPU kernels need none")
    if mode not in (None, "", "periodic_flushing"):
        raise ValueError(f"proton has no mode {mode!r} here: kernels are timed as a whole, so leave it out")
    path = os.fspath(name) if name is not None else "proton"
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise ValueError(f"a profile cannot be written to {path!r}: there is no such folder, or it is read-only")
    with _guard:
        found = next((s for s in _sessions.values() if s.name == path), None)
        if found is None:
            found = Session(next(_numbers), path, context, data, hook)
            _sessions[found.number] = found
    _at_exit()
    found.turn(True)
    return found.number


@once
def _at_exit() -> None:
    atexit.register(_finish)


def _finish() -> None:
    """A program that never finalizes has its profile all the same."""
    for session in list(_sessions.values()):
        _end(session, "")


def _chosen(session: int | None) -> list[Session]:
    with _guard:
        if session is None:
            return list(_sessions.values())
        if command_line and session != 0:
            raise ValueError(f"there is no session {session!r}: the command proton has one, 0")
        number = min(_sessions, default=None) if command_line else session
        if number not in _sessions:
            known = ", ".join(map(str, _sessions)) or "none is there"
            raise ValueError(f"there is no session {session!r}: {known}")
        return [_sessions[number]]


def activate(session: int | None = None) -> None:
    """Go on with a session that was deactivated, or with all.

    >>> activate()
    """
    if not knobs.proton.disable:
        for found in _chosen(session):
            found.turn(True)


def deactivate(session: int | None = None, flushing: bool = False) -> None:
    """Take no notice of launches until `activate`; they are as fast as without proton then.

    >>> deactivate()
    """
    if not knobs.proton.disable:
        for found in _chosen(session):
            found.turn(False)


def finalize(session: int | None = None, output_format: str = "") -> None:
    """Write the file of a session, or of all, and end it.

    >>> finalize()
    """
    _one_of("output format", output_format, ("", *FORMATS.values()))
    if command_line or knobs.proton.disable:
        return
    for found in _chosen(session):
        _end(found, output_format)


def _end(session: Session, kind: str) -> None:
    session.turn(False)
    with _guard:
        _sessions.pop(session.number, None)
    session.write(kind)


def profile(func: Callable | None = None, *, name: str | None = None, context: str = "shadow", data: str = "tree",
            backend: str | None = None, mode: Any = None, hook: str | None = None) -> Callable:
    """Decorator: a session is active while the function runs; `finalize` writes it.

    >>> import os, tempfile
    >>> @profile(name=os.path.join(tempfile.mkdtemp(), "profile"))
    ... def work(x):
    ...     return x + 1
    >>> work(1)
    2
    >>> finalize()
    """
    if func is None:
        return functools.partial(profile, name=name, context=context, data=data, backend=backend, mode=mode, hook=hook)

    @functools.wraps(func)
    def inside(*args, **kwargs):
        session = start(name, context=context, data=data, backend=backend, mode=mode, hook=hook)
        try:
            return func(*args, **kwargs)
        finally:
            if session is not None:
                deactivate(session)

    return inside
