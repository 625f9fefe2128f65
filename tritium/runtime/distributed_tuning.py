"""Distributed tuning: each process measures a share of the configurations, and all processes use the same result.

The processes exchange timings through a key-value store, such as `torch.distributed` has; `tritium.torch.tuning`
connects it. The configurations are divided into as many shares as there are processes. A process takes the next free
share, measures it, and takes another. No process waits for one that never tunes this kernel. All use the first complete
result; a process that comes later measures nothing. Processes on other devices, or with another source of the kernel,
use other keys.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from tritium.errors import AutotunerError
from tritium.runtime import kept

if TYPE_CHECKING:
    from tritium.runtime.tuning import Config

__all__ = ["KeyValueStore", "TuningGroup", "current", "join"]

Timings = dict[Any, list[float]]


class KeyValueStore(Protocol):
    """The methods that a store needs: those of `torch.distributed.Store`."""

    def add(self, key: str, amount: int, /) -> int:
        """Add to a number that starts at 0, atomically; the sum."""
        ...

    def set(self, key: str, value: str, /) -> None:
        """Keep a value."""
        ...

    def get(self, key: str, /) -> bytes:
        """The value of a key that is there."""
        ...

    def check(self, keys: list[str], /) -> bool:
        """Whether all keys are there."""
        ...

    def wait(self, keys: list[str], timeout: timedelta, /) -> None:
        """Wait for all keys; `TimeoutError` or `RuntimeError` (torch's stores) after `timeout`."""
        ...

    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes:
        """Set a key that nobody has set (`expected` empty); the value it has then."""
        ...


class TuningGroup:
    """The processes that tune together: their store, their number, how long one waits for another's share.

    >>> from tritium.runtime.tuning import Config
    >>> store, configs = _Alone(), [Config({"B": 1}), Config({"B": 2}), Config({"B": 4})]
    >>> def measure(share):
    ...     print("measuring", len(share))
    ...     return {config: [1.0 / config.kwargs["B"]] * 3 for config in share}
    >>> for _ in range(2):
    ...     timings = TuningGroup(store, 2).timings("k", configs, None, measure)
    measuring 2
    measuring 1
    >>> min(timings, key=timings.get).kwargs
    {'B': 4}
    """

    def __init__(self, store: KeyValueStore, processes: int, patience: timedelta = timedelta(minutes=10)):
        self.store, self.processes, self.patience = store, max(1, processes), patience

    def timings(self, name: str, configs: list[Config], known: Timings | None,
                measure: Callable[[list[Config]], Timings]) -> Timings:
        """What all of them agree on: the timings that are there, those `known` here, or what they measure together."""
        place = f"tritium/tuning/{name}"
        if not self.store.check([f"{place}/result"]):
            if known is None:
                known = self._measured(place, configs, measure)
            self.store.compare_set(f"{place}/result", "", _text(configs, known))
        return _timings(configs, self.store.get(f"{place}/result"))

    def _measured(self, place: str, configs: list[Config], measure: Callable[[list[Config]], Timings]) -> Timings:
        shares = min(self.processes, len(configs))
        parts = [configs[k::shares] for k in range(shares)]
        while (k := self.store.add(f"{place}/taken", 1) - 1) < shares:
            if self.store.check([f"{place}/result"]):
                break
            self._measure(f"{place}/{k}", parts[k], measure)
        found: Timings = {}
        for k, part in enumerate(parts):
            try:
                self.store.wait([f"{place}/{k}"], self.patience)
            except (TimeoutError, RuntimeError):  # the process that took the share is gone
                self._measure(f"{place}/{k}", part, measure)
            found |= _timings(part, self.store.get(f"{place}/{k}"))
        return {config: found[config] for config in configs}

    def _measure(self, place: str, share: list[Config], measure: Callable[[list[Config]], Timings]) -> None:
        """Measure a share and store it; an error is stored too and ends the tuning of all: each would meet it."""
        try:
            self.store.set(place, _text(share, measure(share)))
        except Exception as error:
            self.store.set(place, json.dumps({"error": f"{type(error).__name__}: {error}"}))
            raise


def _text(configs: list[Config], timings: Timings) -> str:
    """Timings in the order of configurations that all processes have."""
    return json.dumps({"timings": [timings[config] for config in configs]})


def _timings(configs: list[Config], text: bytes) -> Timings:
    found = json.loads(text)
    if "error" in found:
        raise AutotunerError(f"another process failed while it measured its share: {found['error']}")
    return dict(zip(configs, found["timings"]))


def name_of(kernel: str, store: kept.Store | None, key: tuple, configs: list[Config]) -> str:
    """The key of one tuning in the store: the key of its results on disk, or else a hash of what it depends on.

    >>> len(name_of("k", None, (1024,), []))
    64
    """
    if store is not None:
        return store.manager.key
    parts = [kernel, kept._device(), str(kept.key_text(key)), *map(str, configs)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


# The group of this process, if any. It is one for all threads: backward passes launch from threads of their own.
current: TuningGroup | None = None


def join(group: TuningGroup | None) -> TuningGroup | None:
    """Tune with this group from now on (None: alone); returns the group before.

    >>> before = join(TuningGroup(_Alone(), 1))
    >>> join(before) is not before
    True
    """
    global current
    before, current = current, group
    return before


if hasattr(os, "register_at_fork"):  # a child tunes alone: the connection is its parent's
    os.register_at_fork(after_in_child=lambda: join(None) and None)


class _Alone:
    """A store of one process, for examples."""

    def __init__(self):
        self._values: dict[str, Any] = {}

    def add(self, key: str, amount: int) -> int:
        self._values[key] = self._values.get(key, 0) + amount
        return self._values[key]

    def set(self, key: str, value: str) -> None:
        self._values[key] = value.encode()

    def get(self, key: str) -> bytes:
        return self._values[key]

    def check(self, keys: list[str]) -> bool:
        return all(key in self._values for key in keys)

    def wait(self, keys: list[str], timeout: timedelta) -> None:
        if not self.check(keys):
            raise TimeoutError(keys)

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        return self._values.setdefault(key, desired.encode())
