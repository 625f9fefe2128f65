"""Specialisation: what the compiler is told about each argument, a type string and a key.

A kernel is compiled once for each list of these pairs. An int equal to 1, and None, become constants; the key 'D'
promises a multiple of 16 (a value, or an address in bytes).

    >>> specialize(1), specialize(48), specialize(7), specialize(True), specialize(None)
    (('constexpr', 1), ('i32', 'D'), ('i32', ''), ('u1', None), ('constexpr', None))
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tritium.language.source.fingerprints import fingerprint
from tritium.language.source.function import Source
from tritium.language.types.annotations import declaration
from tritium.language.types.constants import constexpr, unwrap
from tritium.named_tuples import NamedTuple
from tritium.protocols import short
from tritium.refusals import refusal
from tritium.tensors import (
    check_constant,
    constant_value,
    element_type,
    is_descriptor,
    misfit,
    reader_of,
    scalar,
    unfit,
)


class How(NamedTuple):
    """What may be assumed of a parameter: pointers to constants, `== 1` folded, multiples of 16 noticed."""

    const: bool = False
    ones: bool = True
    aligned: bool = True


FULLY = How()
_NUMBERS = frozenset((int, float, bool))


def specialize(x: Any, how: How = FULLY) -> tuple[Any, Any]:
    """Type and key of an argument.

    >>> specialize(2**40), specialize(16, How(ones=False, aligned=False))
    (('i64', 'D'), ('i32', None))
    """
    rule = _RULES.get(type(x))
    if rule is None:
        rule = _RULES[type(x)] = _find_rule(x)
    return rule(x, how)


def _int(x: int, how: How) -> tuple[str, Any]:
    if x == 1 and how.ones:
        return "constexpr", 1
    if -(1 << 31) <= x < 1 << 31:
        name = "i32"
    elif -(1 << 63) <= x < 1 << 63:
        name = "i64"
    elif 0 <= x < 1 << 64:
        name = "u64"
    else:
        raise refusal(OverflowError, f"{short(x)} does not fit in 64 bits")
    if not how.ones and not how.aligned:
        return name, None
    return name, "D" if how.aligned and x % 16 == 0 else ""


def _tuple(x: tuple, how: How) -> tuple[tuple, tuple]:
    pairs = [specialize(part, How(how.const)) for part in x]
    make = getattr(x, "_make", tuple)
    return make(pair[0] for pair in pairs), make(pair[1] for pair in pairs)


def _tensor(x: Any, how: How) -> tuple[str, Any]:
    reader: Any = reader_of(x)
    name = f"*{'k' if how.const else ''}{reader.element(x)}"
    if not how.ones and not how.aligned:
        return name, None
    return name, "D" if how.aligned and reader.address(x) % 16 == 0 else ""


def _descriptor(x: Any, how: How) -> tuple[str, Any]:
    block = ", ".join(map(str, x.block_shape))
    key = " ".join(filter(None, ("nan" if x.padding == "nan" else "",
                                 "tf32" if getattr(x, "round_f32_to_tf32", False) else "")))
    return f"tensordesc<{element_type(x.base.dtype)}[{block}]>", key or None


_RULES: dict[type, Callable[[Any, How], tuple[Any, Any]]] = {
    int: _int,
    bool: lambda x, how: ("u1", None),
    float: lambda x, how: ("fp32", None),
    type(None): lambda x, how: ("constexpr", None),
    tuple: _tuple,
    constexpr: lambda x, how: ("constexpr", x),
}


def _find_rule(x: Any) -> Callable[[Any, How], tuple[Any, Any]]:
    """The rule for a type not met before."""
    if is_descriptor(x):
        return _descriptor
    if reader_of(x) is not None:
        return _tensor
    if isinstance(x, Source):
        return lambda fn, how: ("constexpr", fn.cache_key)
    base = next((base for base in (int, float, tuple) if isinstance(x, base)), None)
    if base is None and (number := scalar(x)) is not None:
        rule = _RULES[type(number)]
        return lambda x, how: rule(scalar(x), how)
    if base is None:
        raise unfit(x)
    return _RULES[base]


def native_specialize_impl(backend, x: Any, is_const: bool, specialize_value: bool, align: bool) -> tuple[Any, Any]:
    """Type and key of an argument, asked for as frameworks do that make an `ASTSource` of their own.

    >>> native_specialize_impl(None, 16, False, True, True), native_specialize_impl(None, 1, False, False, True)
    (('i32', 'D'), ('i32', None))
    """
    return specialize(x, How(is_const, specialize_value, specialize_value and align))


def mangle_type(x: Any, specialize: bool = False) -> Any:
    """The type of an argument in a signature; only with `specialize` is an int equal to 1 a constant.

    >>> mangle_type(1), mangle_type(1, specialize=True)
    ('i32', 'constexpr')
    """
    return native_specialize_impl(None, x, False, specialize, True)[0]


# -- parameters --------------------------------------------------------------------------------------------------------

class KernelParam:
    """A parameter of a kernel: its annotation and how its arguments are specialised."""

    def __init__(self, num: int, param: inspect.Parameter, do_not_specialize: bool = False,
                 do_not_specialize_on_alignment: bool = False):
        self.num, self.name, self._param = num, param.name, param
        self.do_not_specialize = do_not_specialize
        self.do_not_specialize_on_alignment = do_not_specialize_on_alignment
        said = declaration(param.annotation)
        self.annotation, self.annotation_type = said.text, said.type  # both empty where there is none
        # Whether its arguments are compile-time constants; whether it is a pointer to what the kernel only reads.
        self.is_constexpr, self.is_const = said.is_constexpr, said.is_const
        free = not do_not_specialize
        self.how = How(self.is_const, free, free and not do_not_specialize_on_alignment)

    @property
    def default(self) -> Any:
        """The default value."""
        return self._param.default

    @property
    def has_default(self) -> bool:
        """Whether there is a default value."""
        return self._param.default is not inspect.Parameter.empty

    def specialize(self, x: Any) -> tuple[Any, Any]:
        """Type and key of an argument for this parameter.

        >>> def kernel(n: "i64", BLOCK: "constexpr"): ...
        >>> n, BLOCK = (KernelParam(i, p) for i, p in enumerate(inspect.signature(kernel).parameters.values()))
        >>> n.specialize(32), BLOCK.specialize(32)
        (('i64', 'D'), ('constexpr', 32))
        """
        if self.is_constexpr:
            x = plain(x)
            check_constant(x)
            return "constexpr", x
        forced = self.annotation_type
        if not forced:
            return specialize(x, self.how)
        if x.__class__ not in _NUMBERS:
            self._check_forced(x, forced)
        exact = forced.startswith("fp") or forced in ("bf16", "u1")
        return ("constexpr", None) if x is None else (forced, None if exact else specialize(x, self.how)[1])

    def _check_forced(self, x: Any, forced: str) -> None:
        """A parameter annotated as a number takes numbers, one annotated as a pointer takes tensors and addresses."""
        number = isinstance(x, int | float | constexpr) or scalar(x) is not None
        if not (x is None or number or forced.startswith(("*", "tensordesc"))):
            raise misfit(x, forced)

    def __repr__(self) -> str:
        return f"KernelParam({self._param})"


# -- keys --------------------------------------------------------------------------------------------------------------


def typed(x: Any) -> Any:
    """A hashable stand-in for a constant that keeps `1`, `True` and `1.0` apart, and `0.0` from `-0.0`.

    An object stands there as it is now: one that was changed since is another constant.

    >>> typed(1) == typed(True), typed(0.0) == typed(-0.0), typed((1,)) == typed((1.0,))
    (False, False, False)
    """
    x = unwrap(x)
    kind = type(x)
    if kind in _BY_VALUE:
        return kind, x
    if isinstance(x, Source):
        return kind, x.cache_key
    if kind is tuple:
        return kind, *map(typed, x)
    check_constant(x)
    return kind, fingerprint(x)


_BY_VALUE = frozenset((int, str, bool, type(None)))


def functions_in(x: Any) -> list[Source]:
    """The compiled functions among a constant and its parts.

    >>> from tritium.language.source.function import cdiv
    >>> len(functions_in((1, cdiv)))
    1
    """
    x = unwrap(x)
    if isinstance(x, tuple):
        return [function for part in x for function in functions_in(part)]
    return [x] if isinstance(x, Source) else []


def plain(x: Any) -> Any:
    """A constant as the compiler gets it: unwrapped, with NumPy's scalars turned into Python's.

    >>> plain(constexpr(3))
    3
    """
    x = unwrap(x)
    if isinstance(x, tuple):
        parts = map(plain, x)
        return getattr(x, "_make", tuple)(parts)
    return x if x.__class__ in _NUMBERS else constant_value(x)


def key_of(pair: tuple[Any, Any]) -> Any:
    """What stands for the specialisation of an argument in a kernel's key.

    >>> key_of(("i32", "D")), key_of(("constexpr", True))
    (('i32', 'D'), ('constexpr', (<class 'bool'>, True)))
    """
    type_, key = pair
    if type_.__class__ is not str:
        return type_.__class__, *map(key_of, zip(type_, key))
    return (type_, typed(key)) if type_ == "constexpr" else pair


def constants_of(type_: Any, value: Any, path: tuple[int, ...]) -> dict[tuple[int, ...], Any]:
    """The constants in an argument, by index path.

    >>> constants_of(("i32", "constexpr"), (5, 1), (2,))
    {(2, 1): 1}
    """
    if isinstance(type_, tuple):
        found = {}
        for i, (part, item) in enumerate(zip(type_, value)):
            found.update(constants_of(part, item, (*path, i)))
        return found
    return {path: plain(value)} if type_ == "constexpr" else {}


_ATTRS = {"D": ["tt.divisibility", 16], "nan": ["tt.padding", "nan"], "tf32": ["tt.rounding", "tf32"]}
_ONE = [["tt.equal", 1]]


def attrs_of(type_: Any, key: Any, path: tuple[int, ...]) -> dict[tuple[int, ...], list]:
    """What is promised of the run-time values in an argument, by index path.

    An annotated 1 stays a run-time value of its type, known to be 1.

    >>> attrs_of("*fp32", "D", (0,)), attrs_of("i32", 1, (1,))
    ({(0,): [['tt.divisibility', 16]]}, {(1,): [['tt.equal', 1]]})
    """
    if isinstance(type_, tuple):
        found = {}
        for i, (part, inner) in enumerate(zip(type_, key)):
            found.update(attrs_of(part, inner, (*path, i)))
        return found
    if type_ == "constexpr" or key is None:
        return {}
    known = _ONE if key == 1 else [_ATTRS[word] for word in key.split() if word in _ATTRS]
    return {path: known} if known else {}
