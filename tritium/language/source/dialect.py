"""Which release of Triton a function is written for, where the releases give one source different results.

A function has one of three levels: "3.6", "3.7" (and 3.8) or "3.9". `LEVELS` says what differs. Code that
implements a difference asks the record of the builder, `of_builder(b)`, and compares no versions. The level is the
first that says:

1. the module's own marker, `__triton_dialect__ = "3.8"`;
2. the setting `knobs.language.dialect` (TRITON_DIALECT, "3.6" by default), raised to the release that has the names
   and the syntax the function uses, and kept below 3.9 where it uses what 3.9 removed.

Functions of the language follow their caller, all others have their own level.
"""

from __future__ import annotations

import ast
from types import ModuleType
from typing import Any

from tritium import knobs
from tritium.errors import fail
from tritium.named_tuples import NamedTuple

MARKER = "__triton_dialect__"


class Dialect(NamedTuple):
    """What a level means: each field is one difference between releases.

    >>> LEVELS["3.9"].numbers_adapt, LEVELS["3.6"].numbers_adapt
    (True, False)
    """

    name: str
    constants_return: bool  # a constant that a function returns stays one in operators
    numbers_adapt: bool  # a number takes the tensor's type in comparisons, minimum, maximum, clamp, fma, ...
    keeps_bf16: bool  # minimum, maximum, clamp, cumsum, cumprod and max with indices of bf16 give bf16
    widens_products: bool  # cumprod of integers below 32 bits is computed in 32
    fdiv_promotes: bool  # tl.fdiv promotes as `/` does: 16-bit floats give float32
    prints_hex_floats: bool  # device_print(hex=True) writes floats as C's %a
    operators_have_causes: bool  # an error in an operator keeps the exception as its cause, as one in a call does


LEVELS = {
    "3.6": Dialect("3.6", False, False, False, False, False, False, False),
    "3.7": Dialect("3.7", True, False, False, False, False, False, False),
    "3.9": Dialect("3.9", True, True, True, True, True, True, True),
}
_ORDER = list(LEVELS)
OLDEST = LEVELS["3.6"]

# Release -> its level.
RELEASES = {"3.6": "3.6", "3.7": "3.7", "3.8": "3.7", "3.9": "3.9"}

# Name of the language -> the level from which on it exists.
_SINCE = {
    **dict.fromkeys(("to_tensor", "squeeze", "unsqueeze", "aggregate_replace", "expect_zero"), "3.7"),
    **dict.fromkeys(("atomic_load", "atomic_store", "atomic_poll"), "3.9"),
}
_METHODS = ("atomic_load", "atomic_store", "atomic_poll")
# The same for keywords of functions that are older.
_KEYWORDS = {("cat", "dim"): "3.7", ("topk", "descending"): "3.7", ("fdiv", "approx"): "3.9",
             ("cumprod", "dtype"): "3.9"}  # fmt: skip
_REMOVED = ("make_block_ptr", "advance")
_REMOVED_OPTIONS = ("boundary_check", "padding_option")


def level_of(release: str, said_by: str) -> Dialect:
    """The level of a release of Triton, such as "3.8" or "3.8.0".

    >>> level_of("3.8", "a doctest").name
    '3.7'
    """
    try:
        return LEVELS[RELEASES[knobs.release(release)]]
    except ValueError as error:
        raise fail(ValueError, f"{said_by}: {error}", hint=f"use one of {', '.join(RELEASES)}") from None


def setting() -> str:
    """The release that functions are taken to be written for where nothing else says: `knobs.language.dialect`."""
    return knobs.language.dialect


def of(source) -> Dialect:
    """The level of a function.

    >>> from tritium.language.standard import cdiv
    >>> of(cdiv).name
    '3.6'
    """
    marker = source.__globals__.get(MARKER)
    if marker is not None:
        return level_of(marker, f"{MARKER} in {source.__module__}")
    default = level_of(setting(), "TRITON_DIALECT (knobs.language.dialect)")
    needs, most = _bounds(source)
    return LEVELS[_ORDER[min(max(_ORDER.index(default.name), needs), most)]]


def of_builder(b) -> Dialect:
    """The level of the function that builder `b` is in."""
    return getattr(b, "dialect", OLDEST)


# ---------------------------------------------------------------------------------------------------------------------
# Inference


def _bounds(source) -> tuple[int, int]:
    """The places in `_ORDER` of the lowest and of the highest level a function's text allows."""
    if not source.has_text:
        return 0, len(_ORDER) - 1
    tree = source.parse()
    kept = vars(source).get("_bounds")
    if kept is None or kept[0] is not tree:
        kept = source._bounds = tree, _Uses(source).bounds(tree)
    return kept[1]


class _Uses:
    """What a function's syntax tree uses of the releases after 3.6, and of what 3.9 removed."""

    def __init__(self, source):
        self._source = source
        self._needs, self._most = 0, len(_ORDER) - 1

    def bounds(self, tree) -> tuple[int, int]:
        """The lowest and the highest level, as places in `_ORDER`."""
        for node in ast.walk(tree):
            look = _LOOKS.get(type(node))
            if look is not None:
                look(self, node)
        return self._needs, self._most

    def _need(self, level: str) -> None:
        self._needs = max(self._needs, _ORDER.index(level))

    def _limit(self) -> None:
        self._most = min(self._most, _ORDER.index("3.7"))

    def _function(self, node: ast.FunctionDef) -> None:
        if node.args.vararg is not None:
            self._need("3.7")
        if node.args.kwonlyargs:
            self._need("3.9")

    def _walrus(self, node) -> None:
        self._need("3.7")

    def _annotated(self, node: ast.AnnAssign) -> None:
        if node.value is None and "constexpr" in ast.unparse(node.annotation):
            self._need("3.7")

    def _compared(self, node: ast.Compare) -> None:
        if len(node.ops) > 1:
            self._need("3.9")

    def _name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._look_at(node.id, self._outer(node))

    def _attribute(self, node: ast.Attribute) -> None:
        if node.attr in _METHODS and self._outer(node.value) is None:  # a method of a local value
            self._need(_SINCE[node.attr])
        elif node.attr in _SINCE or node.attr in _REMOVED:
            self._look_at(node.attr, self._outer(node))

    def _look_at(self, name: str, value: Any) -> None:
        since = getattr(value, "__triton_since__", None)  # of an aggregate, say
        if since is not None:
            self._need(since)
        elif _is_ours(value):
            if name in _SINCE:
                self._need(_SINCE[name])
            elif name in _REMOVED:
                self._limit()

    def _call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
        keywords = {keyword.arg for keyword in node.keywords}
        if name in ("load", "store"):
            many = len(node.args) > 3 and not any(isinstance(arg, ast.Starred) for arg in node.args)
            if keywords.intersection(_REMOVED_OPTIONS) or (many and self._is_function(node)):
                self._limit()
        for keyword in keywords:
            since = _KEYWORDS.get((str(name), str(keyword)))
            if since is not None and self._is_function(node):
                self._need(since)

    def _is_function(self, node: ast.Call) -> bool:
        return _is_ours(self._outer(node.func))

    def _outer(self, node) -> Any:
        """What a dotted name stands for outside of the function; None for anything else."""
        if isinstance(node, ast.Name):
            for scope in (self._source.closure, self._source.__globals__):
                if node.id in scope:
                    return scope[node.id]
        elif isinstance(node, ast.Attribute):
            owner = self._outer(node.value)
            if isinstance(owner, ModuleType):
                return getattr(owner, node.attr, None)
        return None


_LOOKS = {
    ast.FunctionDef: _Uses._function, ast.NamedExpr: _Uses._walrus, ast.AnnAssign: _Uses._annotated,
    ast.Compare: _Uses._compared, ast.Name: _Uses._name, ast.Attribute: _Uses._attribute, ast.Call: _Uses._call,
}  # fmt: skip


def _is_ours(value: Any) -> bool:
    """Whether a value is a function of the language, rather than a user's of the same name."""
    return str(getattr(value, "__module__", None)).startswith("tritium.language")
