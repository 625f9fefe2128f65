"""Write the .pyi files beside the modules whose names type checkers and editors cannot see for themselves.

    python docs/make_stubs.py            # write them
    python docs/make_stubs.py --check    # say whether they are up to date

Some names are made while Python runs: those imported when first used, functions written in the language, methods of
tensors, device libraries, settings. Their stubs come from the objects themselves (`stub_writer`).
"""

from __future__ import annotations

import importlib
import inspect
import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

from stub_writer import Stub, import_lines  # noqa: E402

from tritium.language.builtins.calling import Builtin  # noqa: E402
from tritium.language.source.function import Source  # noqa: E402

# What `tl.core` declares before its own names.
CORE = '''\
__all__: list[str]

# Of one parameter: a tensor, or a number that becomes one.
Operand: TypeAlias = tensor | float

Pair: TypeAlias = builtins.tuple[tensor, tensor]
Four: TypeAlias = builtins.tuple[tensor, tensor, tensor, tensor]
Tiles = TypeVar("Tiles", bound=tensor | builtins.tuple[tensor, ...])


def anything(cls: builtins.type) -> builtins.type[Any]:
    """The class of an annotation that a parameter of any kind may have, and which can be called."""


class bools(tensor, Any):
    """What comparisons give: a tensor that Python's own `min` and `max` take for a bool."""
'''

SKIPPED = {"annotations", "Pair", "Four", "Tiles", "_internal", "_to_tensor"}


def hand_on(names: dict[str, str]) -> str:
    """Import lines of {name: module} that offer the names to others."""
    homes: dict[str, set[str]] = {}
    for name, home in names.items():
        homes.setdefault(home, set()).add(name)
    return "".join(import_lines(homes[home], home, public=True) for home in sorted(homes))


def place(package: str, module: str) -> str:
    """How a stub of `package` names one of its modules: where its file is, which may be in `compat`."""
    path = Path(importlib.import_module(f"{package}.{module}").__file__).resolve().with_suffix("")
    inside = path.relative_to(ROOT / "tritium").parts
    if inside[0] != "compat":
        return f".{module}"
    return "." * len(package.split(".")) + ".".join(inside)


def lazy_package(name: str) -> str:
    """A package that imports its names when they are first used: `_HOMES` says from where."""
    package = importlib.import_module(name)
    stub = Stub(package)
    for key, value in vars(package).items():
        if isinstance(value, types.FunctionType) and value.__module__ == name and not key.startswith("_"):
            stub.add(key, value)
    names = {key: place(name, home) for key, home in package._HOMES.items()}
    names |= {key: place(name, key).rpartition(key)[0].rstrip(".") or "." for key in package._MODULES}
    return stub.text("__version__: str\n" if hasattr(package, "__version__") else "", hand_on(names))


def core(name: str) -> str:
    """`tl.core`: all types, values and builtins."""
    module = importlib.import_module(name)
    stub = Stub(module, home=".")
    names = {key: value for key, value in vars(module).items() if not isinstance(value, types.ModuleType)
             and not key.startswith("__") and key not in SKIPPED}  # fmt: skip
    # Types come first: functions have them as defaults.
    for key, value in sorted(names.items(), key=lambda item: isinstance(item[1], (Builtin, Source))):
        stub.add(key, value)
    return stub.text(CORE)


def functions(name: str, home: str) -> str:
    """A module of functions of the language, the private ones that programs use included."""
    module = importlib.import_module(name)
    stub = Stub(module, home)
    handed = {}
    for key, value in vars(module).items():
        if isinstance(value, (Builtin, Source)) and value.__module__ == name:
            stub.add(key, value)
        elif isinstance(value, (Builtin, Source)) and key in module.__all__:
            handed[key] = home
    modules = {key: "." for key in module.__all__ if isinstance(getattr(module, key), types.ModuleType)}
    variables = "".join(f"{key}: {kind}\n" for key, kind in inspect.get_annotations(module).items())
    return stub.text(f"__all__: list[str]\n{variables}", hand_on({**modules, **handed}))


def library(name: str) -> str:
    """One vendor's part of the device library."""
    module = importlib.import_module(name)
    return Stub(module).text(handed_on=hand_on(dict.fromkeys(module.__all__, "..libdevice")))


def language(name: str) -> str:
    """`tl` itself: what its modules export."""
    tl = importlib.import_module(name)
    modules = {key: "." for key, value in vars(tl).items() if isinstance(value, types.ModuleType)
               and key in ("core", "extra", "math", "random", "semantic", "standard", "target_info")}  # fmt: skip
    exports = {key: f".{home}" for home in ("core", "standard", "random") for key in getattr(tl, home).__all__}
    return Stub(tl).text(handed_on=hand_on({**modules, **exports}))


def settings(name: str) -> str:
    """`knobs`: every group with the type of each of its settings."""
    knobs = importlib.import_module(name)
    stub = Stub(knobs)
    groups = {key: value for key, value in vars(knobs).items() if type(value) is knobs.Group}
    for key, value in vars(knobs).items():
        own = isinstance(value, (type, types.FunctionType)) and value.__module__ == name or type(value) is knobs.Kind
        if own and not key.startswith("_") and key != "base_knobs":
            stub.add(key, value)
    for key, group in groups.items():
        rows = "".join(f"    {row.name}: {setting_type(knobs, row)}\n" for row in group._rows.values())
        stub.parts.append(f"class {key}_settings(Group):\n{rows}\n\n{key}: {key}_settings\n")
    own = "".join(f"{row.name}: {setting_type(knobs, row)}\n" for row in knobs.internal._rows.values())
    return stub.text("base_knobs: type[Group]\nLIMIT: str\nUSUAL_LIMIT: int\nenv: Env\npropagate_env: bool\n"
                     "listeners: list[Callable[[], None]]\nCACHE_INVALIDATING_ENV_VARS: tuple[str, ...]\n" + own)


def setting_type(knobs, row) -> str:
    """What a setting holds, by the kind of its row; one without a default may be None."""
    kinds = {id(knobs.BOOL): "bool", id(knobs.INT): "int", id(knobs.STR): "str", id(knobs.TOOL): "Tool",
             id(knobs.HOOKS): "HookChain"}
    kind = kinds.get(id(row.kind), "Any")
    if isinstance(row.default, types.FunctionType) and "return" in row.default.__annotations__:
        return row.default.__annotations__["return"]
    return f"{kind} | None" if kind != "Any" and row.default is None else kind


STUBS = {
    "tritium": lazy_package,
    "tritium.runtime": lazy_package,
    "tritium.knobs": settings,
    "tritium.language": language,
    "tritium.language.core": core,
    "tritium.language.standard": lambda name: functions(name, ".core"),
    "tritium.language.random": lambda name: functions(name, ".core"),
    "tritium.language.math": lambda name: functions(name, ".core"),
    "tritium.language.target_info": lambda name: functions(name, ".core"),
    "tritium.language.extra.libdevice": lambda name: functions(name, "..core"),
    "tritium.language.extra.cuda": lambda name: functions(name, "...core"),
    "tritium.language.extra.hip": lambda name: functions(name, "...core"),
    "tritium.language.extra.cuda.libdevice": library,
    "tritium.language.extra.hip.libdevice": library,
}


def path_of(name: str) -> Path:
    """Where the stub of a module lies: beside it."""
    return Path(importlib.import_module(name).__file__).with_suffix(".pyi")


def stubs() -> dict[Path, str]:
    """{path: text} of all stubs."""
    return {path_of(name): write(name) for name, write in STUBS.items()}


def main(arguments: list[str]) -> int:
    if sys.version_info >= (3, 13):
        print("the stubs were not looked at: Python 3.11 or 3.12 makes them, which knows how docstrings are indented")
        return 0 if "--check" in arguments else 1
    stale = [path for path, text in stubs().items() if not path.is_file() or path.read_text() != text]
    if "--check" in arguments:
        print("the stubs are up to date" if not stale else
              f"not up to date: {', '.join(str(path.relative_to(ROOT)) for path in stale)}")
        return 1 if stale else 0
    for path, text in stubs().items():
        path.write_text(text)
    print(f"wrote {len(STUBS)} stubs, {len(stale)} of them new or changed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
