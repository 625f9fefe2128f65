"""Bundles of compiled kernels: what `tritium bundle build` made, found again by launches.

A kernel is looked for under its *identity*: a hash of its source, the types and constants of its arguments, its options
and the settings that code depends on. It says nothing of the machine, or of LLVM: of the targets that a bundle has a
kernel for, the best that runs here is taken (`Backend.fits`). The version of tritium is compared when one is loaded.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from tritium import backends, cache, knobs
from tritium.backends.compiler import GPUTarget, Options
from tritium.compiler.bundle_file import BundleError, BundleFile
from tritium.compiler.sources import ASTSource, sha256
from tritium.errors import is_ours
from tritium.locks import lock

__all__ = ["Bundle", "BundleError", "choice", "find", "identity", "is_active", "load_bundle", "signature_text"]

_MACHINE = ("arch", "backend_name", "warp_size")  # options that say for which machine a kernel is
_MISSING = ("warn", "error", "compile")


def identity(src: ASTSource, options: Options, env: Mapping[str, str]) -> str:
    """What a kernel is found under, whatever machine it was compiled for.

    >>> from tritium.language.source.function import cdiv
    >>> src = ASTSource(cdiv, {"x": "i32", "y": "i32"})
    >>> identity(src, Options(arch="90"), {}) == identity(src, Options(arch="90a"), {})
    True
    """
    chosen = sorted((name, value) for name, value in vars(options).items() if name not in _MACHINE)
    return sha256(src.hash(), repr(chosen), str(sorted(env.items())))


def signature_text(src: Any) -> str:
    """The types, hints and constants of a kernel's parameters, as a manifest has them.

    >>> from tritium.language.source.function import cdiv
    >>> signature_text(ASTSource(cdiv, {"x": "i32", "y": "constexpr"}, {"y": 4}, {(0,): [["tt.divisibility", 16]]}))
    'i32:16, 4'
    """
    return ", ".join(_entry(src, type_, (k,)) for k, type_ in enumerate(src.signature.values()))


def _entry(src: Any, type_: Any, path: tuple[int, ...]) -> str:
    if isinstance(type_, tuple):
        return f"({', '.join(_entry(src, part, (*path, k)) for k, part in enumerate(type_))})"
    if path in src.constants or type_ == "constexpr":
        return repr(src.constants.get(path))
    return type_ + "".join(f":{value}" for _, value in src.attrs.get(path, ()))


class Bundle:
    """A bundle that is loaded: launches find their kernels in it. `hits` counts those that did.

    >>> Bundle.__name__
    'Bundle'
    """

    def __init__(self, path: str, key: bytes = b""):
        self.path, self.hits = path, 0
        self.file = BundleFile(path, key)
        index = self.index = self.file.index
        if index["compiler"] != cache.fingerprint():
            raise BundleError(f"{path} was built by another tritium, {index['tritium']}: kernels and launcher would "
                              "not fit together\nhint: build it again with the version that loads it")
        self._rows: dict[tuple[str, str], dict[str, Any]] = {
            (row["identity"], row["target"]): row for row in index["kernels"]}
        names = dict.fromkeys(row["target"] for row in index["kernels"])
        self.targets = [GPUTarget(*text.split(":")) for text in names]  # `str` wrote them: nothing is to be looked up
        self._fitting: dict[GPUTarget, list[GPUTarget]] = {}
        self.by_name: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in index["kernels"]:
            self.by_name[row["kernel"].partition(":")[2]].append(row)
        self._parts = {(symbol, *row["machine"]): row for row in index["parts"] for symbol in row["symbols"]}
        self._choices = {(record["function"], record["source"], tuple(record["key"])): record["config"]
                         for record in index.get("tuned", ())}

    def __repr__(self) -> str:
        return f"Bundle({self.path}: {len(self._rows)} kernels for {', '.join(map(str, self.targets))})"

    def fitting(self, here: GPUTarget) -> list[GPUTarget]:
        """The targets whose code runs on a machine, the best first."""
        found = self._fitting.get(here)
        if found is None:
            same = [target for target in self.targets if target.backend == here.backend]
            found = self._fitting[here] = backends.get(here).fits(same, here) if same else []
        return found

    def row(self, wanted: str, here: GPUTarget) -> dict[str, Any] | None:
        """The best kernel of this identity for a machine."""
        rows = (self._rows.get((wanted, str(target))) for target in self.fitting(here))
        return next(filter(None, rows), None)

    def choice(self, function: str, source: str, key: tuple[str, ...]) -> dict[str, Any] | None:
        """The configuration that a tuner chose when the bundle was made."""
        return self._choices.get((function, source, key))

    def unload(self) -> None:
        """Have launches look elsewhere; kernels that they found stay."""
        global _loaded
        from tritium.backends.launcher import parts

        with _loading:
            _loaded = tuple(bundle for bundle in _loaded if bundle is not self)
            parts.supplies[:] = [supply for supply in parts.supplies if supply != self.part]
            for name in [name for name in parts.preferred if parts.preferred[name].origin is self]:
                del parts.preferred[name]

    def part(self, symbol: str, machine: Any) -> tuple[bytes, list[str]] | None:
        """The part of the launcher's native code that defines a symbol, and all symbols of that part; None if it is not
        here, or damaged."""
        row = self._parts.get((symbol, machine.triple, machine.cpu, machine.features))
        try:
            return None if row is None else (self.file.blob(row["blob"]), row["symbols"])
        except BundleError as error:
            _warn(f"{error}; {row['name'] if row else symbol} is compiled")
            return None


# -- loading -----------------------------------------------------------------------------------------------------------

_loading = lock()
_loaded: tuple[Bundle, ...] = ()
_missing = "warn"  # what happens to a launch that no bundle has a kernel for
_from_environment: list[str] = []  # what TRITIUM_BUNDLE was when it was looked at
_told: set[str] = set()


def load_bundle(path: str | os.PathLike | None = None, *, key_file: str | os.PathLike | None = None,
                missing: str = "warn") -> Bundle:
    """Have launches take their kernels from a bundle: nothing is compiled, and LLVM is not imported.

    `path` is a file that `tritium bundle build` wrote, by default the one in TRITIUM_BUNDLE. A launch that it has no
    kernel for compiles as ever and warns once; with `missing="error"` it is refused, with `missing="compile"` nothing
    is said. A bundle is trusted if only this user or root could have written it, or if it is signed with the key in
    `key_file` (or TRITIUM_CACHE_KEY, TRITIUM_CACHE_KEY_FILE). BundleError says what is wrong with one.

    >>> load_bundle("no-such-file.tbundle")
    Traceback (most recent call last):
    tritium.compiler.bundle_file.BundleError: cannot open the bundle 'no-such-file.tbundle': No such file or directory
    """
    global _loaded, _missing
    if missing not in _MISSING:
        raise ValueError(f"missing is one of {', '.join(map(repr, _MISSING))}, not {missing!r}")
    if path is None:
        path = knobs.cache.bundle
        if not path:
            raise BundleError("no bundle is named\nhint: load_bundle(path), or set TRITIUM_BUNDLE")
    bundle = Bundle(os.fspath(path), cache.key_in(os.fspath(key_file)) if key_file else cache.signing_key())
    with _loading:
        _supply(bundle)
        _loaded, _missing = (bundle, *_loaded), missing
    return bundle


def _supply(bundle: Bundle) -> None:
    """Let the launchers have the parts of native code that are in a bundle."""
    from tritium.backends.launcher import parts

    if bundle.index["abi"] != parts.abi():
        return  # another kind of Python: they are compiled here
    parts.supplies.insert(0, bundle.part)
    # One core runs kernels of every level: the one that LLVM would make for this very CPU is not needed.
    best = {str(target) for target in bundle.fitting(_HOST)[:1]}
    for row in bundle.index["parts"]:
        if row["target"] in best:
            bundle.file.blob(row["blob"])  # what cannot do without is looked at now
            parts.preferred.setdefault(row["name"], parts.Machine(*row["machine"], origin=bundle))


_HOST = GPUTarget("cpu", "host", 1)


def is_active() -> bool:
    """Whether there is a bundle to look in; those in TRITIUM_BUNDLE are loaded when first asked for.

    >>> is_active()
    False
    """
    named = knobs.cache.bundle
    if named and named not in _from_environment:
        with _loading:
            if named not in _from_environment:
                for path in filter(None, named.split(os.pathsep)):
                    if not any(bundle.path == path for bundle in _loaded):
                        load_bundle(path)
                _from_environment.append(named)
    return bool(_loaded)


# -- finding -----------------------------------------------------------------------------------------------------------


def find(src: Any, target: GPUTarget, options: Options, env: Mapping[str, str]) -> tuple[Bundle, dict[str, Any]] | None:
    """The bundle that has a kernel for a machine, and its row there; None if none has."""
    if not isinstance(src, ASTSource) or options.sanitized or options.ir_override:
        return None
    wanted = identity(src, options, env)
    for bundle in _loaded:
        if (row := bundle.row(wanted, target)) is not None:
            return bundle, row
    if _missing != "compile":
        _tell(src, target, options)
    return None


def contents_of(bundle: Bundle, row: dict[str, Any]) -> tuple[dict[str, Any], bytes, str] | None:
    """(metadata, binary, text of the stage ttir) of a row; None if they are damaged, which is told."""
    try:
        data = [bundle.file.blob(row[name]) for name in ("metadata", "binary", "ttir")]
    except BundleError as error:
        if _missing == "error":
            raise
        _warn(f"{error}; {row['kernel']} is compiled")
        cache.count("damaged")
        return None
    cache.count("hits")
    bundle.hits += 1
    return json.loads(data[0]), data[1], data[2].decode()


def choice(function: str, source: str, key: tuple[str, ...]) -> dict[str, Any] | None:
    """The configuration that a tuner chose for a key when a bundle was made; None if no bundle says."""
    found = (bundle.choice(function, source, key) for bundle in _loaded)
    return next(filter(None, found), None)


def _tell(src: ASTSource, target: GPUTarget, options: Options) -> None:
    name = src.fn.__qualname__
    known = any(name in bundle.by_name for bundle in _loaded)
    if _missing == "error":
        raise BundleError(f"no bundle has {name} for this launch: {_reason(src, target, options)}")
    once = name if known else ""  # of kernels that no bundle knows, the first is told
    with _loading:
        if once in _told:
            return
        _told.add(once)
    _warn(f"{name} is compiled, as no bundle has it for this launch: {_reason(src, target, options)}")


def _warn(text: str) -> None:
    """Warn at the line of the user's that launches."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and is_ours(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, stacklevel=level)


def _reason(src: ASTSource, target: GPUTarget, options: Options) -> str:
    """Why no bundle fits."""
    paths = ", ".join(bundle.path for bundle in _loaded)
    name = src.fn.__qualname__
    rows = [(bundle, row) for bundle in _loaded for row in bundle.by_name.get(name, ())]
    if not rows:
        return f"{paths} has no kernel of this name"
    rows = [(bundle, row) for bundle, row in rows if row["source"] == src.fn.cache_key]
    if not rows:
        return f"its source, or that of what it calls, was changed or moved since {paths} was built"
    here = [row for bundle, row in rows if row["target"] in map(str, bundle.fitting(target))]
    if not here:
        return f"{paths} has it for {', '.join(dict.fromkeys(row['target'] for _, row in rows))}, and this machine " \
               f"is {target}, which runs none of them"
    text = signature_text(src)
    same = [row for row in here if row["signature"] == text]
    if not same:
        return f"its arguments are ({text}), and {paths} has it for " \
               f"({'), ('.join(dict.fromkeys(row['signature'] for row in here))})"
    usual = vars(Options())
    ours = {name: str(value) for name, value in vars(options).items()
            if name not in _MACHINE and (value != usual[name] or any(name in row["options"] for row in same))}
    return f"it was built with other options or settings: {same[0]['options']}, and this launch has {ours}"
