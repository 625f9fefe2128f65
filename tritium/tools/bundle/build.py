"""Building a bundle: every kernel for every machine, the variant its launcher falls back to, and native parts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tritium import backends, cache, knobs
from tritium.compiler import bundles, facts
from tritium.compiler.bundle_file import Writer
from tritium.compiler.kernel import metadata_text
from tritium.tools.bundle.manifest import Wanted

__all__ = ["build", "index_of"]


def build(path: str, wanted: Iterable[Wanted], tuned: list[dict[str, Any]] | None = None, key: bytes = b"",
          tell: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """Compile and write a bundle; its index."""
    writer = Writer()
    index = index_of(writer, wanted, tuned or [], tell)
    writer.write(path, index, key)
    return index


def index_of(writer: Writer, wanted: Iterable[Wanted], tuned: list[dict[str, Any]],
             tell: Callable[[str], None]) -> dict[str, Any]:
    """The index of a bundle, whose blobs go to a writer."""
    from tritium.backends.launcher import parts
    from tritium.tools.version import own_version

    rows: dict[tuple[str, str], dict[str, Any]] = {}
    native: dict[tuple, dict[str, Any]] = {}
    for one in wanted:
        for target in one.targets:
            tell(f"{one.label} ({bundles.signature_text(one.source)}) for {target}")
            for kernel, kind in _variants(one, target):
                row = _row(writer, one, kernel, kind)
                rows.setdefault((row["identity"], row["target"]), row)
                for part, machine in backends.get(target).parts(target, kernel.kernel):
                    place = (part.name, machine.triple, machine.cpu, machine.features)
                    if place not in native:
                        native[place] = {"name": part.name, "symbols": part.symbols, "machine": list(place[1:]),
                                         "target": str(target), "blob": writer.add(parts.made(part, machine))}
    return {"tritium": own_version().split(" ")[0], "compiler": cache.fingerprint(), "created": int(time.time()),
            "abi": parts.abi(), "kernels": list(rows.values()), "parts": list(native.values()),
            "tuned": tuned}  # fmt: skip


def _variants(one: Wanted, target: Any) -> Iterator[tuple[Any, str]]:
    """A compiled kernel, and the one that runs where its preconditions do not hold."""
    import tritium

    kernel = tritium.compile(one.source, target=target, options=one.options)
    yield kernel, ""
    if kernel._has_preconditions:
        yield kernel.fallback_variant(), "fallback"


def _row(writer: Writer, one: Wanted, kernel: Any, kind: str) -> dict[str, Any]:
    metadata, options = kernel.metadata, options_of(kernel)
    env = knobs.cache_invalidating_env()
    known = {facts.KEY: facts.facts_of(one.source, metadata.target, options, env)}
    return {
        "kernel": one.label, "symbol": kernel.name, "source": one.source.fn.cache_key, "kind": kind,
        "identity": bundles.identity(one.source, options, env), "target": str(metadata.target),
        "signature": bundles.signature_text(one.source), "options": known[facts.KEY]["options"],
        "parameters": _parameters(one.source), "grid": one.grid,
        "metadata": writer.add(metadata_text({**metadata._asdict(), **known}).encode()),
        "binary": writer.add(kernel.kernel), "ttir": writer.add(kernel.asm["ttir"].encode()),
    }  # fmt: skip


def options_of(kernel: Any) -> Any:
    """The options a kernel was compiled with."""
    from tritium.backends.compiler import NAMES, Options

    return Options(**{name: getattr(kernel.metadata, name) for name in NAMES})


def _parameters(src: Any) -> list[list[Any]] | None:
    """(name, type, hint, constant) of each parameter, for C; None if C cannot pass them."""
    found = []
    for k, (name, type_) in enumerate(src.signature.items()):
        if not isinstance(type_, str) or type_.startswith("tensordesc"):
            return None
        value, hint = src.constants.get((k,)), next((x for _, x in src.attrs.get((k,), ())), None)
        param = src.fn.params[k]
        if value == 1 and type(value) is int and not param.is_constexpr:
            found.append([name, param.annotation_type or "i32", 1, None])  # an argument, known to be 1
            continue
        plain = value is None or isinstance(value, bool | int | float | str)
        found.append([name, type_, hint, value if plain else repr(value)])
    return found
