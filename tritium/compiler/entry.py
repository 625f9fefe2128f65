"""A kernel's place in the cache, and where its stages are dumped to and replaced from."""

from __future__ import annotations

import functools
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tritium import cache, knobs
from tritium.backends.compiler import BaseBackend, Options
from tritium.compiler import facts
from tritium.compiler.kernel import CompiledKernel, OnDemand, OnDisk, metadata_text
from tritium.compiler.names import safe_name
from tritium.compiler.sources import IR_STAGES, parse_stage


class Entry:
    """One compilation's files: `load` finds what another process compiled, `store` keeps what this one did."""

    def __init__(self, src, key: str, backend: BaseBackend, options: Options, env: dict[str, str]):
        self.src, self.key, self.backend = src, key, backend
        self.supplied, self._options, self._env = options.ir_override, options, env
        self.file = safe_name(src.name)
        self.manager: Any = cache.get_cache_manager(key)  # None once the user supplies a stage
        self.dump = cache.get_dump_manager(src.hash()) if knobs.compilation.dump_ir else None
        self.override = cache.get_override_manager(src.hash()) if knobs.compilation.override else None
        self._begun: _Writing | None = None

    def load(self, source: Callable[[], Any], again: Callable[[], CompiledKernel]) -> CompiledKernel | None:
        """The kernel as an earlier process compiled it; `source` makes the stage that is not kept, `again` compiles it
        for those who read a stage later on and find it gone."""
        anew = knobs.compilation.always_compile or self.dump or self.override or self.supplied
        files = None if anew else cache.read_group(self.manager, f"{self.file}.json")
        metadata, binary = f"{self.file}.json", f"{self.file}.{self.backend.binary_ext}"
        texts: list[Any] = [files.read(name) for name in (metadata, binary) if name in files.paths] if files else []
        if files is None or len(texts) < 2 or None in texts:
            cache.count("misses")
            return None
        remade = functools.cache(again)  # one compilation serves all its stages
        contents: dict[str, Any] = {}
        for ext in ("ttir", *(ext for ext, _ in self.backend.record.stages)):
            if f"{self.file}.{ext}" in files.paths:
                contents[ext] = OnDisk(files, f"{self.file}.{ext}", lambda ext=ext: remade().asm[ext])
        contents[self.backend.binary_ext] = texts[1]
        if "ttir" in contents and (self.src.fn is not None or self.src.ext == "source"):
            contents = {"source": OnDemand(source), **contents}
        cache.count("hits")
        found = json.loads(texts[0])
        found.pop(facts.KEY, None)
        return CompiledKernel(self.src, found, contents, self.key, files.paths)

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
            self._begun = _Writing(cache.GroupWriter(self.manager, f"{self.file}.json"), self.file, _kept(contents))

    def store(self, contents: dict[str, Any], metadata: dict[str, Any]) -> CompiledKernel:
        """Keep the stages on disk, if the disk lets us, and give the kernel."""
        written = self._begun.texts() if self._begun else {}
        texts = {ext: written[ext] if ext in written else _text(value) for ext, value in _kept(contents).items()}
        if self.dump:
            for ext, value in (*{**contents, **texts}.items(), ("json", metadata_text(metadata))):
                try:
                    self.dump.put(_text(value), f"{self.file}.{ext}")
                except OSError as error:
                    cache.tolerate(error)
        if knobs.compilation.store_binary_only:
            texts = {self.backend.binary_ext: texts[self.backend.binary_ext]}
        group = self._write(texts, metadata) if self.manager else {}
        return CompiledKernel(self.src, metadata, contents, self.key, group)

    def _write(self, texts: dict[str, Any], metadata: dict[str, Any]) -> dict[str, str]:
        try:
            writer = self._begun.writer() if self._begun else cache.GroupWriter(self.manager, f"{self.file}.json")
            for name, text in [*texts.items(), ("json", metadata_text({**metadata, **self._facts()}))]:
                file = f"{self.file}.{name}"
                if file not in writer.paths:
                    writer.put(text, file)
            writer.close()
            cache.count("stores")
        except OSError as error:
            cache.tolerate(error)
            return {}
        return writer.paths

    def _facts(self) -> dict[str, Any]:
        """What the kernel was compiled for, for `tritium why`; nothing of a file that was compiled as it stands."""
        if self.src.fn is None:
            return {}
        return {facts.KEY: facts.facts_of(self.src, self.backend.target, self._options, self._env)}


def _kept(contents: dict[str, Any]) -> dict[str, Any]:
    """The stages that are stored: the first is made again sooner than it is printed."""
    return {ext: value for ext, value in contents.items() if ext != "source"}


def _text(value: Any) -> str | bytes:
    return value if isinstance(value, bytes) else str(value)


class _Writing(threading.Thread):
    """Stages on their way to the disk, in a thread."""

    def __init__(self, writer: cache.GroupWriter, file: str, contents: dict[str, Any]):
        super().__init__(name="tritium store")
        self._writer, self._file, self._contents = writer, file, contents
        self._texts: dict[str, str | bytes] = {}
        self._error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            for ext, value in self._contents.items():
                self._texts[ext] = _text(value)
                self._writer.put(self._texts[ext], f"{self._file}.{ext}")
        except Exception as error:  # raised where the files are waited for
            self._error = error

    def texts(self) -> dict[str, str | bytes]:
        """The stages as text, as far as they were printed."""
        self.join()
        return self._texts

    def writer(self) -> cache.GroupWriter:
        """What wrote the files, for those that are still to come."""
        self.join()
        if self._error is not None:
            raise self._error
        return self._writer
