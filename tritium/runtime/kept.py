"""What tuning found out, on disk: in the cache of compiled kernels, under a key of all that the answer depends on.

Checksums and owners are looked at as for compiled code (`tritium.cache`): what is damaged or not to be trusted is
measured again and replaced.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from tritium import cache, knobs
from tritium.compiler.names import safe_name
from tritium.language.source.fingerprints import COMMON
from tritium.named_tuples import NamedTuple
from tritium.runtime import shipped
from tritium.runtime.shipped import timings_of
from tritium.runtime.tuning import OPTIONS, Config, innermost

__all__ = ["Store", "key_text", "load", "save"]


def key_text(key: Iterable) -> tuple[str, ...]:
    """A tuning key as it stands in a file.

    >>> key_text((1024, "torch.float32"))
    ('1024', 'torch.float32')
    """
    return tuple(map(str, key))


def config_dict(config: Config) -> dict[str, Any]:
    """A configuration as it stands in a file: the arguments of `Config`.

    >>> config_dict(Config({"B": 1}))["kwargs"]
    {'B': 1}
    """
    return {"kwargs": config.kwargs, **{name: getattr(config, name) for name in OPTIONS}}


def _kind(x: Any, constant: bool) -> str:
    """What of an argument decides which code runs, as text.

    >>> _kind(7, True), _kind(7, False), _kind(32, False), _kind(1, False)
    ('7', 'int', 'int:16', 'int:1')
    """
    if constant:
        return repr(x) if x.__class__ in COMMON else type(x).__qualname__
    if (dtype := getattr(x, "dtype", None)) is not None:
        device = getattr(x, "device", "cpu")
        return f"{dtype}@{getattr(device, 'type', device)}"
    if x.__class__ is int:
        return "int:1" if x == 1 else "int:16" if x % 16 == 0 else "int"
    return type(x).__qualname__


def signature_text(kernel: Any, arguments: Mapping[str, Any]) -> str:
    """The kinds of the arguments of a launch, in the order of the parameters.

    >>> from tritium.kernels.vector_add import add_kernel
    >>> signature_text(add_kernel, {"n": 100, "grid": (1,)})
    'n=int'
    """
    return ",".join(f"{param.name}={_kind(arguments[param.name], param.is_constexpr)}"
                    for param in kernel.params if param.name in arguments)  # fmt: skip


def _device() -> str:
    """The machine code runs on: what it is compiled for does not tell two GPUs of a generation apart."""
    from tritium.backends.compiler import BaseBackend
    from tritium.backends.driver import driver

    active = driver.active
    figures = active.utils.get_device_properties(active.get_current_device())
    return f"{BaseBackend(active.get_current_target()).hash()}-{sorted(figures.items())}"


class Store(NamedTuple):
    """Where the timings for one key of one function stand in the disk cache."""

    manager: cache.CacheManager
    name: str
    configs: list[Config]
    facts: Mapping[str, Any] = {}  # what the timings are of: `shipped.IDENTITY`

    @classmethod
    def of(cls, fn: Any, name: str, key: tuple, configs: list[Config],
           arguments: Mapping[str, Any] = {}, how: str = "") -> Store | None:
        """The place for results of measuring somehow; None for what has no lasting identity: hooks, interpreted
        kernels."""
        jitted = innermost(fn, lambda f: hasattr(f, "params"))
        if jitted is None or any(config.pre_hook for config in configs):
            return None
        parts = [cache.fingerprint(), _device(), jitted.cache_key, signature_text(jitted, arguments),
                 str(sorted(knobs.cache_invalidating_env().items())), str(key_text(key)), how, *map(str, configs)]
        manager = cache.get_cache_manager(hashlib.sha256("\0".join(parts).encode()).hexdigest())
        facts = {"function": f"{jitted.__module__}.{jitted.__qualname__}", "source": jitted.cache_key,
                 "device": shipped.device(), "signature": signature_text(jitted, arguments), "key": list(key_text(key))}
        return cls(manager, safe_name(name), configs, facts)

    @property
    def filename(self) -> str:
        """The file with the timings."""
        return f"{self.name}.autotune.json"

    @property
    def folder(self) -> str:
        """Where the files lie."""
        return getattr(self.manager, "cache_dir", None) or self.manager.key

    def read(self) -> dict[Config, list[float]] | None:
        """The timings, if all configurations have one."""
        files = cache.read_group(self.manager, self.filename)
        text = files.read(self.filename) if files and self.filename in files.paths else None
        if text is None:
            return None
        try:
            by_text = timings_of(json.loads(text))
        except (ValueError, LookupError, TypeError):  # of another program, under the same name
            return None
        found = {config: by_text[str(config)] for config in self.configs if str(config) in by_text}
        return found if len(found) == len(self.configs) else None

    def shipped(self) -> dict[Config, list[float]] | None:
        """Timings that others measured on such a device: of all configurations, those that nobody timed as never."""
        known = shipped.find(self.facts)
        found = {config: known[str(config)] for config in self.configs if str(config) in known}
        if not any(times[0] < float("inf") for times in found.values()):
            return None
        return {config: found.get(config, [float("inf")] * 3) for config in self.configs}

    def write(self, key: tuple, timings: dict[Config, list[float]]) -> None:
        """Keep the timings; a configuration JSON cannot hold stays out of the cache."""
        rows = [[config_dict(config), times] for config, times in timings.items()]
        try:
            text = json.dumps({**self.facts, "key": key_text(key), "configs_timings": rows})
        except TypeError:
            return
        try:
            writer = cache.GroupWriter(self.manager, self.filename)
            writer.put(text, self.filename)
            writer.close()
        except OSError as error:
            cache.tolerate(error)

    def fatal(self) -> dict[str, str]:
        """Configurations that brought the device down before, as text, and how."""
        text = cache.read(self.manager, f"{self.name}.fatal.json")
        return json.loads(text) if text is not None else {}

    def note_fatal(self, config: Config, reason: str) -> None:
        """Have later runs leave a configuration out."""
        found = {**self.fatal(), str(config): reason}
        cache.write(self.manager, f"{self.name}.fatal.json", json.dumps(found).encode())


# ---------------------------------------------------------------------------------------------------------------------
# Files to ship


def save(path: str, name: str, records: dict[tuple[str, ...], dict[Config, list[float]]]) -> None:
    """Write measurements of one function as JSON.

    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "k.json")
    >>> save(path, "k", {("8",): {Config({"B": 1}): [1.0, 1.0, 1.0], Config({"B": 2}): [0.5, 0.5, 0.5]}})
    >>> load([path], "k", [Config({"B": 1}), Config({"B": 2})])
    {('8',): Config(B: 2, num_warps: 4, num_ctas: 1, num_stages: 3, maxnreg: None)}
    """
    results = [{"key": list(key), "configs_timings": [[config_dict(c), t] for c, t in timings.items()]}
               for key, timings in records.items()]
    with open(path, "w") as file:
        json.dump({"function": name, "results": results}, file, indent=1)


def load(paths: Iterable[str], name: str, configs: list[Config]) -> dict[tuple[str, ...], Config]:
    """The fastest known configuration per key over several files; those the kernel no longer has are passed over."""
    known = {str(config): config for config in configs}
    best: dict[tuple[str, ...], tuple[list[float], str]] = {}
    for path in paths:
        with open(path) as file:
            content = json.load(file)
        if content["function"] != name:
            raise ValueError(f"{path} holds results of {content['function']}, not of {name}")
        for result in content["results"]:
            key = tuple(result["key"])
            for config, timings in result["configs_timings"]:
                text = str(Config(**config))
                if text in known:
                    best[key] = min(best.get(key, (timings, text)), (timings, text))
    return {key: known[text] for key, (_, text) in best.items()}
