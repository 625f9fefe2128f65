"""Results of tuning that travel: files of records that `tritium tune export` writes, read where nothing was measured.

A record holds for one function with one source, one kind of device, one signature and one tuning key. It says nothing
about the version of the compiler: choices outlive it. Files are those named in TRITIUM_TUNED, and what `tritium tune
merge` put into the folder `tuned` of the cache. A file chooses among the configurations a kernel has, and adds none.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tritium import knobs, locks
from tritium.compiler.names import safe_name
from tritium.runtime.tuning import Config

if TYPE_CHECKING:
    from tritium.backends.driver import DriverBase

__all__ = ["IDENTITY", "device", "devices", "find", "identity", "merged", "merged_path", "read", "timings_of", "write"]

IDENTITY = ("function", "source", "device", "signature", "key")
FORMAT = 1


def device(of: DriverBase | None = None) -> str:
    """The kind of the active device, or of a driver's: two machines with the same one choose alike.

    >>> device() != ""
    True
    """
    from tritium.backends.driver import driver

    active = of or driver.active
    target = active.get_current_target()
    if target.backend == "cpu":
        from tritium.backends.llvm.target import cpu_target

        return f"cpu {cpu_target().cpu}, {knobs.num_threads} threads"
    figures = active.utils.get_device_properties(active.get_current_device())
    wanted = ("multiprocessor_count", "max_shared_mem", "sm_clock_rate", "mem_clock_rate", "mem_bus_width")
    return f"{target.backend}:{target.arch}, " + ", ".join(f"{name} {figures.get(name)}" for name in wanted)


def devices() -> set[str]:
    """The kinds of devices that launches of this machine may go to: the active one, and the CPU.

    >>> device() in devices()
    True
    """
    from tritium.backends.driver import driver

    return {device(), device(driver.named("cpu"))}


def identity(record: Mapping[str, Any]) -> tuple:
    """What a record is of, to compare by.

    >>> identity({"function": "m.f", "source": "s", "device": "d", "signature": "n=int", "key": [8]})
    ('m.f', 's', 'd', 'n=int', ('8',))
    """
    return (*(record[name] for name in IDENTITY[:-1]), tuple(map(str, record["key"])))


def timings_of(record: Mapping[str, Any]) -> dict[str, list[float]]:
    """Configuration as text -> [median, 20 %, 80 %] in milliseconds.

    >>> list(timings_of({"configs_timings": [[{"kwargs": {"B": 1}}, [1.0, 1.0, 1.0]]]}).values())
    [[1.0, 1.0, 1.0]]
    """
    return {str(Config(**config)): list(map(float, times)) for config, times in record["configs_timings"]}


def read(path: str) -> list[dict[str, Any]]:
    """The records in a file; a ValueError says what is wrong with it."""
    with open(path, "rb") as file:
        return _parsed(file.read(), path)


def _parsed(text: bytes, path: str) -> list[dict[str, Any]]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"{path} is no JSON") from None
    if isinstance(content, dict) and "results" in content and "records" not in content:
        raise ValueError(f"{path} does not say of which device it is: `tuned.load` reads it")
    if not isinstance(content, dict) or not isinstance(content.get("records"), list):
        raise ValueError(f"{path} was not written by `tritium tune export`")
    if content.get("format") != FORMAT:
        raise ValueError(f"{path} has format {content.get('format')!r}, and this version reads {FORMAT}")
    for record in content["records"]:
        try:
            identity(record)
            timings_of(record)
        except (LookupError, TypeError, ValueError, AttributeError):
            raise ValueError(f"{path} holds a record that is not whole") from None
    return content["records"]


def write(path: str, records: Iterable[Mapping[str, Any]]) -> None:
    """Write records to a file, whole or not at all.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "tuned.json")
    >>> write(path, []); read(path)
    []
    """
    from tritium import trusted_files

    text = json.dumps({"format": FORMAT, "records": list(records)}, indent=1) + "\n"
    trusted_files.write(os.path.abspath(path), text.encode(), 0o644)


def merged(*groups: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Records of several origins, one for each identity: of a configuration that several timed, the fastest counts.

    >>> one = {"function": "f", "source": "s", "device": "d", "signature": "", "key": []}
    >>> slow, fast = ({**one, "configs_timings": [[{"kwargs": {"B": 1}}, [t] * 3]]} for t in (2.0, 1.0))
    >>> merged([slow], [fast])[0]["configs_timings"][0][1]
    [1.0, 1.0, 1.0]
    """
    found: dict[tuple, dict[str, Any]] = {}
    for record in (record for group in groups for record in group):
        known = found.get(identity(record))
        if known is None:
            found[identity(record)] = dict(record)
            continue
        best = {json.dumps(config, sort_keys=True): (config, times) for config, times in known["configs_timings"]}
        for config, times in record["configs_timings"]:
            text = json.dumps(config, sort_keys=True)
            if text not in best or times < best[text][1]:
                best[text] = config, times
        known["configs_timings"] = [list(pair) for pair in best.values()]
        known["time"] = max(known.get("time", 0), record.get("time", 0))
    return list(found.values())


def merged_path(function: str, folder: str | None = None) -> str:
    """Where what was merged of a function lies.

    >>> os.path.basename(merged_path("package.module.kernel"))
    'package_module_kernel_....json'
    """
    return os.path.join(os.path.abspath(folder or knobs.cache.dir), "tuned", f"{safe_name(function)}.json")


def find(facts: Mapping[str, Any]) -> dict[str, list[float]]:
    """The timings that files have for what `facts` describes, by configuration as text; empty if none has."""
    if not facts:
        return {}
    groups = [_tolerant(path) for path in filter(None, knobs.autotuning.tuned.split(os.pathsep))]
    path = merged_path(facts["function"])
    if os.path.exists(path):
        groups.append(_trusted(path))
    wanted = identity(facts)
    found = merged(*([record for record in group if identity(record) == wanted] for group in groups))
    return timings_of(found[0]) if found else {}


def _trusted(path: str) -> list[dict[str, Any]]:
    """The records of a file in the cache, if others could not have written it."""
    from tritium import trusted_files

    return _tolerant(path, lambda path: _parsed(trusted_files.read(path), path))


def _tolerant(path: str, read: Callable[[str], list[dict[str, Any]]] = read) -> list[dict[str, Any]]:
    try:
        return read(path)
    except (OSError, ValueError) as error:
        _warn(f"results of tuning cannot be read: {error}")
        return []


@locks.once
def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=4)
