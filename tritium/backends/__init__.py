"""The machines tritium compiles for, one folder each.

A folder exports `BACKEND`, the record below, and has a module `driver` with a class `Driver`: how kernels are launched
there. Adding a machine is adding a folder and a line in `FOLDERS` (or an entry point in the group `tritium.backends`).
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tritium.locks import imported
from tritium.named_tuples import NamedTuple

__path__ = [*__path__, f"{__path__[0]}/../compat/backends"]  # modules that only Triton's users look for

# The name of a target's backend -> the package that compiles for it.
FOLDERS = {
    "cpu": "tritium.backends.cpu",
    "cuda": "tritium.backends.nvptx",
    "hip": "tritium.backends.amdgcn",
}


# Files that exist where a machine may have such a device: looking for them is cheaper than importing its driver.
_SIGNS = {"cuda": ("/dev/nvidiactl", "/dev/dxg"), "hip": ("/dev/kfd",)}


class TextForm(NamedTuple):
    """The language of a stage that is text: what begins a comment, and a pattern whose group is a kernel's name."""

    comment: str
    name: str


def _the_same(targets: Sequence[Any], here: Any) -> list[Any]:
    return [target for target in targets if target == here]


class Backend(NamedTuple):
    """How to get from tile IR to a binary.

    `passes(target)` are what turns the frontend's module into the stage `ttir`; then each stage `(extension, function)`
    makes the next one: `function(value, target, options, metadata) -> value`, where `metadata` is a dict it may add to.
    The last extension is the binary's. A view is made on demand from the stages there are, and what `asm.metadata` and
    `asm.signature` say of the kernel: `function(asm, target) -> str | bytes`. The functions are `lazy`: a kernel that
    comes from the cache needs no compiler.
    """

    name: str
    passes: Callable[[Any], tuple[Callable, ...]]
    stages: tuple[tuple[str, Callable], ...]
    options: Mapping[str, Any] = {}  # defaults that differ from those in backends.compiler.Options
    fingerprint: Callable[[Any], str] = lambda target: ""  # versions of what generates the code, and the exact machine
    views: Mapping[str, Callable] = {}
    tile_passes: Callable[[Any], tuple[Callable, ...]] = lambda options: ()  # of the stage `ttgir`, if it has one
    ahead: Callable[[], None] = lambda: None  # begins to bring in what compiling needs; returns at once
    long: bool = False  # whether the last stage takes so long that a thread is worth its while beside it (1 ms)
    check: Callable[[Any], None] = lambda options: None  # refuses options that the target cannot have
    texts: Mapping[str, TextForm] = {}  # stages that are text in a language of the vendor
    ignored: frozenset[str] = frozenset()  # options that the code does not depend on
    takes_host_memory: bool = False  # launches take memory of the host too, as far as the device reaches it
    # Prepares settings (of knobs, by group) for a process that compiles; the last stage it can do, None if all. Without
    # it a kernel may be made of what only this process has.
    hand_over: Callable[[dict[str, dict[str, Any]]], str | None] | None = None
    # For bundles. Of some targets, those whose code runs on a machine, the best first; and the parts of our own native
    # code that launches of a binary need, each with the machine it is for.
    fits: Callable[[Sequence[Any], Any], list[Any]] = _the_same
    parts: Callable[[Any, bytes], list[tuple[Any, Any]]] = lambda target, binary: []

    @property
    def binary_ext(self) -> str:
        """The extension of the last stage."""
        return self.stages[-1][0]


def lazy(path: str) -> Callable:
    """The function at "module:name", imported when it is first called.

    >>> lazy("math:isqrt")(17)
    4
    """
    module, _, name = path.partition(":")

    def call(*args: Any):
        return getattr(imported(module), name)(*args)

    call.__name__, call.__module__ = name, module
    return call


def _folder(name: str) -> str:
    if name not in FOLDERS:
        from importlib.metadata import entry_points

        FOLDERS.update({point.name: point.value for point in entry_points(group="tritium.backends")})
    if not present(name):
        raise RuntimeError(f"there is no backend {name!r}: tritium has {', '.join(filter(present, FOLDERS))}")
    return FOLDERS[name]


def present(name: str) -> bool:
    """Whether the package of a backend is installed.

    >>> present("cpu")
    True
    """
    folder = FOLDERS.get(name)
    return folder is not None and (hasattr(sys.modules.get(folder), "BACKEND") or _is_package(folder))


def _is_package(folder: str) -> bool:
    """Whether a package can be imported; a folder with a driver alone is none."""
    spec = importlib.util.find_spec(folder)
    return spec is not None and spec.origin is not None


def may_have_device(name: str) -> bool:
    """Whether this machine may have a device of a backend; only its driver knows for certain.

    >>> may_have_device("cpu")
    True
    """
    return present(name) and (name not in _SIGNS or any(map(os.path.exists, _SIGNS[name])))


def get(target: Any) -> Backend:
    """The backend of a target, or of a name.

    >>> get("cpu").name
    'cpu'
    """
    folder = _folder(getattr(target, "backend", target))
    return imported(folder).BACKEND


_LLVM = TextForm(";", r"define\s+(?!internal)(?:\w+\s+)*void\s+@\"?([\w.$]+)")


def text_form(ext: str) -> TextForm | None:
    """The form of a stage's text; None of what needs none: tile IR, binaries.

    >>> text_form("llir").comment, text_form("ttir")
    (';', None)
    """
    if ext == "llir":
        return _LLVM
    return next((get(name).texts[ext] for name in FOLDERS if present(name) and ext in get(name).texts), None)


def driver_class(name: str) -> type:
    """The class that launches kernels on a backend's devices.

    >>> driver_class("cpu").__name__
    'Driver'
    """
    return imported(f"{_folder(name)}.driver").Driver


class _Entry:
    """A backend as frameworks look for it: a class that compiles and a class that launches."""

    def __init__(self, name: str):
        self._name = name

    @property
    def compiler(self) -> type:
        """The class of what `make_backend` gives."""
        from tritium.backends.compiler import BaseBackend

        return BaseBackend

    @property
    def driver(self) -> type:
        """The class of the driver."""
        return driver_class(self._name)


# Frameworks look backends up by the names their vendors have in Triton.
_VENDORS = {"cuda": "nvidia", "hip": "amd"}
_BY_VENDOR = {vendor: name for name, vendor in _VENDORS.items()}


def target_name(name: str) -> str:
    """The name that targets have for a vendor's backend.

    >>> target_name("nvidia"), target_name("cpu")
    ('cuda', 'cpu')
    """
    return _BY_VENDOR.get(name, name)


class _Backends(Mapping):
    """Name of a vendor, or of a target's backend -> entry, for the backends that are installed."""

    def __getitem__(self, name: str) -> _Entry:
        name = target_name(name)
        if not present(name):
            raise KeyError(name)
        return _Entry(name)

    def __iter__(self) -> Iterator[str]:
        return (_VENDORS.get(name, name) for name in FOLDERS if present(name))

    def __len__(self) -> int:
        return sum(1 for _ in self)


backends = _Backends()


def __getattr__(name: str):
    if name == "BaseBackend":
        from tritium.backends.compiler import BaseBackend

        return BaseBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
