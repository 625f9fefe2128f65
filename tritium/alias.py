"""Answer `import triton` with tritium, so that programs written for Triton run unmodified.

    >>> from tritium.alias import install_as_triton, uninstall_as_triton
    >>> install_as_triton()
    >>> import triton.language, tritium.language
    >>> triton.language is tritium.language
    True
    >>> uninstall_as_triton()

The names `triton` and `triton.x.y` become second names of the very same module objects: there is one `tl.float32`, one
cache, one set of knobs. One finder is put in front of `sys.meta_path`, and one folder in front of PYTHONPATH and
`sys.path`, by which Python processes started from this one get tritium as well. Nothing else is patched.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["forget_children", "install_as_triton", "installed_as_triton", "prepare_children", "uninstall_as_triton"]

ALIAS = "triton"
REAL = __name__.partition(".")[0]
# Triton 2 had a package of this name: programs that look for it must not take ours for it.
_HIDDEN = "ops"
# A folder that holds nothing but a module `triton`, which gives tritium, and the metadata of such a distribution.
STAND_IN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools", "stand_in")


class _SameModule(Loader):
    """Loads nothing: hands out the module that already exists under its own name."""

    def __init__(self, module: ModuleType):
        self.module, self.own_spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has just written the alias into `__spec__`; a module keeps its own.
        module.__spec__ = self.own_spec

    def get_code(self, fullname: str) -> Any:
        """What `python -m triton.x` runs."""
        spec: Any = self.own_spec
        return spec.loader.get_code(spec.name)


class _Finder(MetaPathFinder):
    def find_spec(self, fullname, path=None, target=None):
        head, dot, rest = fullname.partition(".")
        if head != ALIAS:
            return None
        if rest.partition(".")[0] == _HIDDEN:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        try:
            module = importlib.import_module(REAL + dot + rest)
        except ModuleNotFoundError as error:
            if error.name and error.name.partition(".")[0] == REAL:
                return None  # no such module: the import system says so under the name that was asked for
            raise
        is_package = hasattr(module, "__path__")
        spec = ModuleSpec(fullname, _SameModule(module), is_package=is_package)
        spec.submodule_search_locations = list(module.__path__) if is_package else None
        return spec

    def find_distributions(self, context=None):
        """What `importlib.metadata.version("triton")` reads: libraries ask it before they import."""
        from importlib.metadata import DistributionFinder, MetadataPathFinder

        context = context or DistributionFinder.Context()
        if context.path is not sys.path or STAND_IN in sys.path:  # asked about other folders, or answered there
            return []
        return MetadataPathFinder.find_distributions(DistributionFinder.Context(name=context.name, path=[STAND_IN]))


def install_as_triton() -> None:
    """From now on `import triton` gives tritium, and `import triton.x` gives `tritium.x`.

    So it does in Python processes that are started afterwards, such as the workers of torch.compile. Calling it twice
    is harmless. It has to come before the first `import triton`.

    >>> install_as_triton()
    >>> import triton
    >>> triton.__name__
    'tritium'
    >>> uninstall_as_triton()
    """
    present = sys.modules.get(ALIAS)
    if present is not None and present is not sys.modules[REAL]:
        raise RuntimeError(
            f"{ALIAS} is already imported from {getattr(present, '__file__', None)}: call "
            f"{REAL}.install_as_triton() before anything imports {ALIAS}, or start with `python -m {REAL} run`")
    if not _is_installed():
        sys.meta_path.insert(0, _Finder())
    prepare_children()


def _is_installed() -> bool:
    return any(isinstance(finder, _Finder) for finder in sys.meta_path)


def uninstall_as_triton() -> None:
    """Undo `install_as_triton`: a later `import triton` finds whatever is installed under that name.

    >>> uninstall_as_triton()
    """
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
    forget_children()
    for name in [name for name in sys.modules if name.partition(".")[0] == ALIAS]:
        if sys.modules[name].__name__.partition(".")[0] == REAL:
            del sys.modules[name]


def prepare_children() -> None:
    """Let Python processes started from here find tritium as `triton`: by the environment, or by this one's path.

    >>> before = os.environ.get("PYTHONPATH")
    >>> prepare_children(); sys.path[0] == STAND_IN == os.environ["PYTHONPATH"].split(os.pathsep)[0]
    True
    >>> forget_children(); os.environ.get("PYTHONPATH") == before
    True
    """
    forget_children()
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (STAND_IN, os.environ.get("PYTHONPATH"))))
    sys.path.insert(0, STAND_IN)  # multiprocessing and torch hand it on


def forget_children() -> None:
    """Undo `prepare_children`.

    >>> forget_children(); STAND_IN in sys.path
    False
    """
    sys.path[:] = [path for path in sys.path if path != STAND_IN]
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if STAND_IN in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path != STAND_IN)
        if not os.environ["PYTHONPATH"]:
            del os.environ["PYTHONPATH"]


@contextlib.contextmanager
def installed_as_triton() -> Iterator[None]:
    """`import triton` gives tritium inside the `with`.

    >>> with installed_as_triton():
    ...     import triton
    """
    before = _is_installed()
    install_as_triton()
    try:
        yield
    finally:
        if not before:
            uninstall_as_triton()
