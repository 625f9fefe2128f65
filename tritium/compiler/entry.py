"""A kernel's place in the cache, and where its stages are dumped to and replaced from."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tritium import cache, knobs
from tritium.backends.compiler import BaseBackend, Options
from tritium.compiler.kernel import CompiledKernel, OnDemand, OnDisk, metadata_text
from tritium.compiler.names import safe_name
from tritium.compiler.sources import IR_STAGES, parse_stage


class Entry:
    """One compilation's files: `load` finds what another process compiled, `store` keeps what this one did."""

    def __init__(self, src, key: str, backend: BaseBackend, options: Options):
        self.src, self.key, self.backend = src, key, backend
        self.supplied = options.ir_override
        self.file = safe_name(src.name)
        self.manager: Any = cache.get_cache_manager(key)  # None once the user supplies a stage
        self.dump = cache.get_dump_manager(src.hash()) if knobs.compilation.dump_ir else None
        self.override = cache.get_override_manager(src.hash()) if knobs.compilation.override else None
        self._begun: _Writing | None = None

    def load(self, source: Callable[[], Any]) -> CompiledKernel | None:
        """The kernel as an earlier process compiled it; `source` makes the stage that is not kept."""
        anew = knobs.compilation.always_compile or self.dump or self.override or self.supplied
        group = None if anew else self.manager.get_group(f"{self.file}.json")
        if group is None:
            cache.count("misses")
            return None
        with open(group[f"{self.file}.json"], "rb") as file:
            metadata = json.loads(file.read().decode())
        stages = ("ttir", *(ext for ext, _ in self.backend.record.stages))
        paths = ((ext, group.get(f"{self.file}.{ext}")) for ext in stages)
        contents: dict[str, Any] = {ext: OnDisk(path) for ext, path in paths if path is not None}
        if "ttir" in contents and (self.src.fn is not None or self.src.ext == "source"):
            contents = {"source": OnDemand(source), **contents}
        cache.count("hits")
        return CompiledKernel(self.src, metadata, contents, self.key, group)

    def replaced(self, ext: str):
        """A stage the user supplies in place of ours, None where they do not."""
        path = self.override.get_file(f"{self.file}.{ext}") if self.override else None
        if self.supplied and self.supplied.endswith(f".{ext}"):
            path = self.supplied
        if path is None:
            return None
        print(f"\nOverriding kernel with file {path}", file=sys.stderr)
        self.manager = None  # the key says nothing of the user's stage
        data = Path(path).read_bytes()
        if ext in IR_STAGES:
            return parse_stage(ext, data.decode())
        return data if ext == self.backend.binary_ext else data.decode()

    def begin_store(self, contents: dict[str, Any]) -> None:
        """Write the stages there are while the next is made, by code that does without Python."""
        if self.manager and not knobs.compilation.store_binary_only:
            self._begun = _Writing(self.manager, self.file, _kept(contents))

    def store(self, contents: dict[str, Any], metadata: dict[str, Any]) -> CompiledKernel:
        """Keep the stages on disk, if the disk lets us, and give the kernel."""
        written = self._begun.texts() if self._begun else {}
        texts = {ext: written[ext] if ext in written else _text(value) for ext, value in _kept(contents).items()}
        if self.dump:
            for ext, value in (*{**contents, **texts}.items(), ("json", metadata_text(metadata))):
                self.dump.put(_text(value), f"{self.file}.{ext}")
        if knobs.compilation.store_binary_only:
            texts = {self.backend.binary_ext: texts[self.backend.binary_ext]}
        group = self._write(texts, metadata) if self.manager else {}
        return CompiledKernel(self.src, metadata, contents, self.key, group)

    def _write(self, texts: dict[str, Any], metadata: dict[str, Any]) -> dict[str, str]:
        group: dict[str, str] = {}
        try:
            if self._begun:
                group |= self._begun.group()
            for name, text in [*texts.items(), ("json", metadata_text(metadata))]:
                file = f"{self.file}.{name}"
                if file not in group:
                    group[file] = self.manager.put(text, file)
            self.manager.put_group(f"{self.file}.json", group)
            cache.count("stores")
        except OSError as error:
            cache.tolerate(error)
            return {}
        return group


def _kept(contents: dict[str, Any]) -> dict[str, Any]:
    """The stages that are stored: the first is made again sooner than it is printed."""
    return {ext: value for ext, value in contents.items() if ext != "source"}


def _text(value: Any) -> str | bytes:
    return value if isinstance(value, bytes) else str(value)


class _Writing(threading.Thread):
    """Stages on their way to the disk, in a thread."""

    def __init__(self, manager, file: str, contents: dict[str, Any]):
        super().__init__(name="tritium store")
        self._manager, self._file, self._contents = manager, file, contents
        self._texts: dict[str, str | bytes] = {}
        self._group: dict[str, str] = {}
        self._error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            for ext, value in self._contents.items():
                self._texts[ext] = _text(value)
                file = f"{self._file}.{ext}"
                self._group[file] = self._manager.put(self._texts[ext], file)
        except Exception as error:  # whoever waits for the files is told
            self._error = error

    def texts(self) -> dict[str, str | bytes]:
        """The stages as text, as far as they were printed."""
        self.join()
        return self._texts

    def group(self) -> dict[str, str]:
        """Name -> path of the files written."""
        self.join()
        if self._error is not None:
            raise self._error
        return self._group


class CompileTimes(NamedTuple):
    """Where a compilation spent its time, in microseconds: what `knobs.compilation.listener` is told.

    >>> CompileTimes(900, (("llir", 400), ("obj", 2000)), 100).total
    3400
    """

    ir_initialization: int
    lowering_stages: tuple[tuple[str, int], ...]
    store_results: int

    @property
    def total_lowering(self) -> int:
        """All stages together."""
        return sum(time for _, time in self.lowering_stages)

    @property
    def total(self) -> int:
        """Everything."""
        return self.ir_initialization + self.total_lowering + self.store_results


class Clock:
    """Takes the times of one compilation."""

    def __init__(self):
        self._last = time.perf_counter_ns()
        self._frontend = 0
        self._laps: list[tuple[str, int]] = []

    def _split(self) -> int:
        now = time.perf_counter_ns()
        elapsed, self._last = (now - self._last) // 1000, now
        return elapsed

    def end_of_frontend(self) -> None:
        """The module is there."""
        self._frontend = self._split()

    def end_of_stage(self, ext: str) -> None:
        """A stage is there."""
        self._laps.append((ext, self._split()))

    def times(self) -> CompileTimes:
        """What was measured; the rest went into storing."""
        return CompileTimes(self._frontend, tuple(self._laps), self._split())
