"""Preconditions: what the code of a kernel assumes of every launch. A module prints them, the launcher checks them.

    kernel @f(...) {launch_checks=True, preconditions={nonnegative=(...), disjoint=(...)}} {

A launch that breaks one runs a variant of the kernel that assumes nothing (`launch_checks=False`).
"""

from __future__ import annotations

from typing import Any

from tritium.named_tuples import NamedTuple

__all__ = ["NONE", "Preconditions", "preconditions_of", "with_preconditions"]


class Preconditions(NamedTuple):
    """What must hold at every launch. Empty fields demand nothing."""

    nonnegative: tuple = ()  # values that are not negative, as rows of `ir.bounds`
    disjoint: tuple = ()  # (rows, pairs) of accesses that do not alias, as `passes.assumed.packed` returns them
    stores: tuple = ()  # (number of tensor maps, spans of stores that alias no tile of these maps)

    def stated(self) -> dict[str, tuple]:
        """Those that demand something, by name: as an attribute of a module, or metadata of a kernel.

        >>> Preconditions(stores=(1, ())).stated()
        {'stores': (1, ())}
        """
        return {name: value for name, value in self._asdict().items() if value}


NONE = Preconditions()


def preconditions_of(x: Any) -> Preconditions:
    """The preconditions of a module or of a kernel's metadata.

    >>> from tritium.ir.text import parse_module
    >>> preconditions_of(parse_module('kernel @f() {preconditions={nonnegative=((("argument", "i32", 0),),)}} { }'))
    Preconditions(nonnegative=((('argument', 'i32', 0),),), disjoint=(), stores=())
    """
    if isinstance(x, dict):  # metadata of a kernel that is being compiled
        found = x.get("preconditions")
    else:
        found = x.attrs.get("preconditions") if hasattr(x, "attrs") else getattr(x, "preconditions", None)
    return Preconditions(**found) if found else NONE


def with_preconditions(module, **changed):
    """The module with some of its preconditions replaced; the same module if nothing changes.

    >>> from tritium.ir.text import parse_module
    >>> print(with_preconditions(parse_module("kernel @f() { }"), nonnegative=[(("argument", "i32", 0),)]), end="")
    kernel @f() {preconditions={nonnegative=((("argument", "i32", 0),),)}} {
    }
    """
    before = preconditions_of(module)
    after = before._replace(**{name: tuple(value) for name, value in changed.items()})
    if after == before:
        return module
    return module.replace(attrs={**module.attrs, "preconditions": after.stated()})
