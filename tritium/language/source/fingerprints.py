"""Text that tells constants apart: two that a kernel could see a difference between never have one fingerprint.

Plain data is keyed by its value, a Python function by its code and all that the code reads, an object by its class and
its state. Such a fingerprint is the same in every process, so kernels are shared through the cache on disk.

An object whose state cannot be read, such as one made by a C library, is keyed by its identity and by this process:
no other object and no other process ever gets its kernel.

    >>> fingerprint(1), fingerprint(True), fingerprint((1, -0.0))
    ('int:1', 'bool:True', 'tuple(int:1,float:-0.0)')
"""

from __future__ import annotations

import copyreg
import dis
import enum
import functools
import hashlib
import itertools
import os
import struct
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from ...locks import lock
from ..types.constants import constexpr
from ..types.dtypes import dtype

COMMON = frozenset((int, str, bool, float, type(None)))  # what most constants are

# Constants that reach more objects than this are refused: they hold a program, not a setting.
_MOST = 100_000


class Keyed:
    """Base of what has a `cache_key` that stands for all it depends on: functions that are compiled."""

    cache_key: str


def fingerprint(value: object, callees: list[Keyed] | None = None) -> str:
    """Text that tells apart any two values that would compile differently.

    With `callees`, functions that are compiled are added to it and stand in the text by name.

    >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 2)
    False
    """
    if isinstance(value, constexpr):
        value = value.value
    if value.__class__ in COMMON:
        return _common(value)
    walk = _Walk(callees)
    try:
        return walk.text(value)
    except RecursionError:
        raise TypeError(f"a constant of type {type(value).__name__} is nested too deeply to be told from others: pass "
                        "the numbers a kernel needs") from None


def is_fixed(value: object) -> bool:
    """Whether the state of a constant cannot change, so that the same object always means the same kernel.

    >>> is_fixed((1, "relu")), is_fixed([1]), is_fixed(lambda: 1)
    (True, False, False)
    """
    if isinstance(value, constexpr):
        value = value.value
    kind = type(value)
    if kind in _FIXED or isinstance(value, dtype | Keyed):
        return True
    if kind is tuple or kind is frozenset:
        return all(map(is_fixed, value))  # type: ignore[call-overload]
    if isinstance(value, enum.Enum):
        return is_fixed(value._value_)
    if isinstance(value, type):
        return _is_library(value.__module__)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return not hasattr(value, "__dict__") and all(map(is_fixed, value))
    if getattr(getattr(kind, "__dataclass_params__", None), "frozen", False):
        state: Any = [getattr(value, name, None) for name in kind.__dataclass_fields__]  # type: ignore[attr-defined]
        return all(is_fixed(part) and not isinstance(part, Keyed) for part in state) and \
            len(getattr(value, "__dict__", ())) <= len(state)
    if kind.__module__ == "tritium.language.builtins.calling":  # a function of the language
        return True
    return kind.__module__ in ("numpy", "torch") and kind.__name__ in _FIXED_THERE


_FIXED = COMMON | {complex, bytes, type(Ellipsis), type(NotImplemented), range}
_FIXED_THERE = frozenset((
    "dtype", "device", "bool", "bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64",
))  # fmt: skip


def _common(value: Any) -> str:
    kind = value.__class__
    if kind is float and value != value:  # repr shows neither the sign nor the payload of a NaN
        return f"float:nan {struct.pack('>d', value).hex()}"
    if kind is int and value.bit_length() > 4096:  # Python refuses to write very long ints in decimal
        return f"int:{value:#x}"
    return f"{kind.__qualname__}:{value!r}"


# -- what never changes ------------------------------------------------------------------------------------------------


def _is_installed(file: str | None) -> bool:
    """Whether a file belongs to an installed library, which changes only with its version."""
    return file is not None and ("site-packages" in file or "dist-packages" in file)


def _is_fixed_module(name: str) -> bool:
    """Whether a module's functions are part of Python or of this compiler: both have a place in every key."""
    top = name.partition(".")[0]
    return top == "tritium" or top in sys.stdlib_module_names


def _version(module: str) -> str:
    return str(getattr(sys.modules.get(module.partition(".")[0]), "__version__", ""))


def _home(thing: Any) -> str:
    """`module.name`, with the version of an installed library."""
    module = getattr(thing, "__module__", None) or ""
    return f"{module}.{getattr(thing, '__qualname__', type(thing).__qualname__)}@{_version(module)}"


@functools.lru_cache(4096)
def _is_library(module: str | None) -> bool:
    """Whether a module is Python's, ours or installed."""
    if not isinstance(module, str):
        return False
    return _is_fixed_module(module) or _is_installed(getattr(sys.modules.get(module), "__file__", None))


# -- code --------------------------------------------------------------------------------------------------------------


class _Code:
    """A code object: the hash of what it does, the globals it reads, the attributes it asks for."""

    __slots__ = ("attributes", "digest", "globals")

    def __init__(self, code: types.CodeType):
        parts = [str((code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags, code.co_names,
                      code.co_varnames, code.co_freevars, code.co_cellvars, code.co_name)),
                 code.co_code.hex(), code.co_exceptiontable.hex()]  # fmt: skip
        names: dict[str, None] = {}
        for instruction in dis.get_instructions(code):
            if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                names[instruction.argval] = None
        attributes = dict.fromkeys(code.co_names)
        for value in code.co_consts:
            if isinstance(value, types.CodeType):
                inner = _code(value)
                parts.append(inner.digest)
                names |= dict.fromkeys(inner.globals)
                attributes |= dict.fromkeys(inner.attributes)
            else:
                parts.append(fingerprint(value))
        self.digest = hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()
        self.globals, self.attributes = tuple(names), tuple(attributes)


_codes: weakref.WeakKeyDictionary[types.CodeType, _Code] = weakref.WeakKeyDictionary()


def _code(code: types.CodeType) -> _Code:
    found = _codes.get(code)
    if found is None:
        found = _codes[code] = _Code(code)
    return found


# -- identity ----------------------------------------------------------------------------------------------------------

_numbers = itertools.count()
_known: dict[int, tuple[Any, int]] = {}  # id -> (the object or a reference to it, its number)
_lock = lock()


@functools.cache
def _process(pid: int) -> str:
    return os.urandom(16).hex()


def _identity(value: object) -> str:
    """Text for this very object in this very process."""
    key = id(value)
    with _lock:
        held = _known.get(key)
        if held is None:
            number = next(_numbers)
            try:
                # The number goes with the object, before another can have its address.
                held = weakref.ref(value, lambda _: _known.pop(key, None)), number
            except TypeError:
                held = value, number
            _known[key] = held
    return f"{_home(type(value))} #{held[1]} of {_process(os.getpid())}"


# -- the walk ----------------------------------------------------------------------------------------------------------


class _Walk:
    """One walk through all that a constant reaches; an object met again is named by the place of its first meeting.

    That also tells two parameters that are one object from two that are alike.
    """

    def __init__(self, callees: list[Keyed] | None = None) -> None:
        self._callees = callees
        self._places: dict[int, int] = {}
        self._met = itertools.count()
        self._asked: set[tuple[int, tuple[str, ...]]] = set()  # modules, and what was asked of them
        self._alive: list[object] = []  # what was made on the way must not lose its id to another

    def text(self, value: Any) -> str:
        if isinstance(value, constexpr):
            value = value.value
        kind = value.__class__
        if kind in COMMON:
            return _common(value)
        rule = _RULES.get(kind)
        if rule is not None:
            return rule(self, value)
        if isinstance(value, Keyed):
            return self._keyed(value)
        if isinstance(value, dtype):
            return f"{kind.__qualname__}:{value!r}"
        return self._object(value)

    def _keyed(self, value: Keyed) -> str:
        if self._callees is None:
            return f"function:{value.cache_key}"
        self._callees.append(value)
        return f"callee:{_home(value)}"

    def texts(self, values: Iterable[Any]) -> str:
        return ",".join(map(self.text, values))

    def pairs(self, items: Iterable[tuple[Any, Any]]) -> str:
        return ",".join(f"{self.text(key)}={self.text(value)}" for key, value in items)

    def once(self, value: Any, describe: Callable[[Any], str]) -> str:
        """`describe(value)` the first time, and its place from then on."""
        place = self._places.get(id(value))
        if place is not None:
            return f"^{place}"
        if len(self._places) >= _MOST:
            raise TypeError(f"a constant that reaches more than {_MOST} objects cannot be told from others: pass the "
                            "numbers a kernel needs, or a smaller object")
        self._places[id(value)] = next(self._met)
        self._alive.append(value)
        return describe(value)

    # -- plain data ---------------------------------------------------------------------------------------------------

    def sequence(self, value: Any) -> str:
        if not value:
            return f"{type(value).__qualname__}()"
        return f"{type(value).__qualname__}({self._nested(value, self.texts)})"

    def set(self, value: Any) -> str:
        return f"{type(value).__qualname__}({','.join(sorted(map(self.text, value)))})"

    def mapping(self, value: Any) -> str:
        return f"{type(value).__qualname__}({self._nested(value, lambda value: self.pairs(value.items()))})"

    def _nested(self, value: Any, describe: Callable[[Any], str]) -> str:
        """Data that may contain itself. Equal parts read alike, one object or two."""
        place = self._places.get(id(value))
        if place is not None:
            return f"^{place}"
        self._places[id(value)] = next(self._met)
        made = describe(value)
        del self._places[id(value)]
        return made

    def member(self, value: enum.Enum) -> str:
        return f"enum:{self.cls(type(value))}.{value._name_}={self.text(value._value_)}"

    # -- functions ----------------------------------------------------------------------------------------------------

    def function(self, fn: types.FunctionType) -> str:
        return self.once(fn, self._function)

    def _function(self, fn: types.FunctionType) -> str:
        module = fn.__module__ or ""
        if _is_fixed_module(module) and not fn.__closure__ and "<" not in fn.__qualname__:
            return f"def:{_home(fn)}"
        code = _code(fn.__code__)
        parts = [f"def:{fn.__qualname__} {code.digest}"]
        for cell in fn.__closure__ or ():
            try:
                value = cell.cell_contents
            except ValueError:  # not bound yet
                parts.append("unbound")
                continue
            parts.append(self._module(value, code.attributes) if isinstance(value, types.ModuleType) else
                         self.text(value))
        if fn.__defaults__:
            parts.append(f"defaults {self.texts(fn.__defaults__)}")
        if fn.__kwdefaults__:
            parts.append(f"keywords {self.pairs(fn.__kwdefaults__.items())}")
        if fn.__dict__:
            parts.append(f"attributes {self.pairs(fn.__dict__.items())}")
        if not _is_fixed_module(module):
            parts += self._read(fn, code, _is_installed(fn.__code__.co_filename))
        return f"({';'.join(parts)})"

    def _read(self, fn: types.FunctionType, code: _Code, installed: bool) -> list[str]:
        """The globals a function reads; of an installed library's only its data, for the rest goes with its version."""
        found = [_version(fn.__module__ or "")] if installed else []
        for name in code.globals:
            if name not in fn.__globals__:
                continue
            value = fn.__globals__[name]
            if isinstance(value, types.ModuleType):
                found.append(f"{name}={self._module(value, code.attributes)}")
            elif not installed or type(value) in COMMON or type(value) in (tuple, list, dict):
                found.append(f"{name}={self.text(value)}")
        return found

    def _module(self, module: types.ModuleType, attributes: tuple[str, ...]) -> str:
        """A module, of which code may ask for these attributes."""
        if _is_library(module.__name__):
            return f"module:{module.__name__}@{_version(module.__name__)}"
        if (id(module), attributes) in self._asked:
            return f"module:{module.__name__}"
        self._asked.add((id(module), attributes))
        parts = []
        for name in attributes:
            value = vars(module).get(name, module)
            if isinstance(value, types.ModuleType):
                parts += [f"{name}={self._module(value, attributes)}"] if value is not module else []
            else:
                parts.append(f"{name}={self.text(value)}")
        return f"module:{module.__name__}({','.join(parts)})"

    def module(self, module: types.ModuleType) -> str:
        """A module that a constant holds, all of whose content a kernel may ask for."""
        return self._module(module, tuple(name for name in vars(module) if not name.startswith("__")))

    def method(self, value: types.MethodType) -> str:
        return f"method:{self.text(value.__func__)} of {self.text(value.__self__)}"

    def builtin(self, value: types.BuiltinFunctionType) -> str:
        owner = value.__self__
        if owner is None or isinstance(owner, types.ModuleType):
            return f"builtin:{_home(value)}"
        return f"builtin:{value.__name__} of {self.text(owner)}"

    def partial(self, value: functools.partial) -> str:
        return f"partial:{self.text(value.func)}({self.texts(value.args)};{self.pairs(value.keywords.items())})"

    def wrapped(self, value: Any) -> str:
        """A function in a wrapper of Python's own."""
        return f"{type(value).__qualname__}:{self.text(value.__wrapped__)}"

    def accessor(self, value: property) -> str:
        return f"property:{self.texts((value.fget, value.fset, value.fdel))}"

    def named(self, value: Any) -> str:
        """What its name within a class tells: a method or a member written in C."""
        return f"{type(value).__qualname__}:{value.__objclass__.__module__}.{value.__qualname__}"

    # -- classes and objects ------------------------------------------------------------------------------------------

    def cls(self, cls: type) -> str:
        if _is_library(cls.__module__) and "<" not in cls.__qualname__:
            return f"type:{_home(cls)}"
        return self.once(cls, self._class)

    def _class(self, cls: type) -> str:
        content = [(name, value) for name, value in vars(cls).items() if name not in _BOOKKEEPING]
        if isinstance(cls, enum.EnumMeta):  # of its members the values
            content = [(name, value) for name, value in content if not name.startswith("_") and type(value) is not cls]
            members: Any = cls.__members__
            content += [(name, member._value_) for name, member in members.items()]
        bases = [base for base in cls.__bases__ if base is not object]
        return f"type:{cls.__module__}.{cls.__qualname__}[{self.texts(bases)}]({self.pairs(content)})"

    def _object(self, value: Any) -> str:
        if isinstance(value, type):
            return self.cls(value)
        if isinstance(value, enum.Enum):
            return self.member(value)
        return self._state(value) if is_fixed(value) else self.once(value, self._state)

    def _state(self, value: Any) -> str:
        kind = type(value)
        own = self._own_key(value)
        if own is not None:
            return f"{self.cls(kind)}:{own}"
        if kind.__module__ == "numpy" or "numpy" in sys.modules and isinstance(value, sys.modules["numpy"].ndarray):
            return self._of_numpy(value)
        base = _native_base(kind)
        if kind is object or base is not object and base not in _CONTENT:
            return self._of_c(value)
        content = "" if base is object else f"={_CONTENT[base](self, value)}"
        return f"{self.cls(kind)}{content}{{{self._variables(value)}}}"

    def _own_key(self, value: Any) -> str | None:
        """The key that an object's class gives it."""
        for base in type(value).__mro__:
            if "cache_key" in vars(base):
                key = value.cache_key
                return repr(key) if isinstance(key, str) else None
        return None

    def _variables(self, value: Any) -> str:
        """The instance variables, with those in slots."""
        found = dict(getattr(value, "__dict__", None) or {})
        for base in type(value).__mro__:
            for name, member in vars(base).items():
                if type(member) is types.MemberDescriptorType:
                    try:
                        found.setdefault(name, member.__get__(value))
                    except AttributeError:  # not set
                        continue
        return self.pairs(found.items())

    def _of_numpy(self, value: Any) -> str:
        """A NumPy scalar, type or array: by its bytes."""
        numpy = sys.modules["numpy"]
        if isinstance(value, numpy.dtype):
            return f"numpy.dtype:{value!r}"
        if isinstance(value, numpy.ndarray | numpy.generic) and not value.dtype.hasobject:
            digest = hashlib.sha256(numpy.ascontiguousarray(value).tobytes()).hexdigest()
            return f"{_home(type(value))}:{value.dtype!r}{value.shape}{digest}"
        if isinstance(value, numpy.ndarray):
            return f"{_home(type(value))}:{value.shape}({self.texts(value.ravel().tolist())})"
        return self._of_c(value)

    def _of_c(self, value: Any) -> str:
        """An object with a state that only C sees: as it would be copied, or by its identity."""
        kind = type(value)
        if kind in _STATELESS:
            return f"{kind.__qualname__}"
        if kind is object or kind.__module__.partition(".")[0] == "torch" and hasattr(value, "data_ptr"):
            return f"{_identity(value)} {getattr(value, '_version', '')}"
        try:
            made = copyreg.dispatch_table[kind](value) if kind in copyreg.dispatch_table else value.__reduce_ex__(2)
        except Exception:  # it cannot be copied, whatever it raises to say so
            return _identity(value)
        if isinstance(made, str):
            return f"{_home(kind)}:{made}"
        self._alive.append(made)
        make, args, *more = made
        rest: list[Any] = [tuple(part) if part is not None and hasattr(part, "__next__") else part for part in more]
        self._alive.append(rest)
        return f"{_home(kind)}:{self.text(make)}({self.texts(args)})({self.texts(rest)}){{{self._variables(value)}}}"


def _native_base(kind: type) -> type:
    """The class written in C whose content an object has, `object` where all its state is in variables."""
    for base in kind.__mro__:
        new = vars(base).get("__new__")
        if isinstance(new, types.BuiltinFunctionType) and new.__self__ is base or not base.__flags__ & _HEAP:
            return base
        seen = sum(name in ("__dict__", "__weakref__") or type(member) is types.MemberDescriptorType
                   for name, member in vars(base).items())
        if base.__base__ is not None and base.__basicsize__ > base.__base__.__basicsize__ + 8 * seen:
            return base  # it has more than its variables
    return object


_HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE: classes made in Python have it, and some of C's

# What classes hold for Python's own use, or for readers.
_BOOKKEEPING = frozenset((
    "__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__annotations__", "__annotate__",
    "__annotate_func__", "__annotations_cache__", "__conditional_annotations__", "__static_attributes__",
    "__firstlineno__", "__slotnames__", "_abc_impl", "__abstractmethods__", "__dataclass_fields__",
    "__dataclass_params__",
    "__parameters__", "__orig_bases__", "__match_args__",
))  # fmt: skip

_STATELESS = frozenset((type(threading.Lock()), type(threading.RLock())))

# The content of an object of a subclass, as the class written in C sees it.
_CONTENT: dict[type, Callable[[_Walk, Any], str]] = {
    int: lambda walk, value: _common(int(value)),
    float: lambda walk, value: _common(float.__float__(value)),
    str: lambda walk, value: _common(str.__str__(value)),
    complex: lambda walk, value: repr(complex.__complex__(value)),
    bytes: lambda walk, value: repr(bytes(memoryview(value))),
    tuple: lambda walk, value: walk.texts(tuple.__iter__(value)),
    list: lambda walk, value: walk.texts(list.__iter__(value)),
    dict: lambda walk, value: walk.pairs(dict.items(value)),
    set: lambda walk, value: ",".join(sorted(map(walk.text, set.__iter__(value)))),
    frozenset: lambda walk, value: ",".join(sorted(map(walk.text, frozenset.__iter__(value)))),
}

_RULES: dict[type, Callable[[_Walk, Any], str]] = {
    tuple: _Walk.sequence, list: _Walk.sequence, set: _Walk.set, frozenset: _Walk.set, dict: _Walk.mapping,
    complex: lambda walk, value: f"complex:{_common(value.real)},{_common(value.imag)}",
    **dict.fromkeys((bytes, bytearray, type(Ellipsis), type(NotImplemented), range),
                    lambda walk, value: f"{type(value).__qualname__}:{value!r}"),
    type: _Walk.cls, enum.EnumMeta: _Walk.cls,
    types.FunctionType: _Walk.function, types.MethodType: _Walk.method, types.BuiltinFunctionType: _Walk.builtin,
    types.ModuleType: _Walk.module,
    types.CodeType: lambda walk, value: f"code:{_code(value).digest}",
    functools.partial: lambda walk, value: walk.once(value, walk.partial),
    functools.cached_property: lambda walk, value: f"cached:{walk.text(value.func)}",
    type(functools.lru_cache(len)): _Walk.wrapped, staticmethod: _Walk.wrapped, classmethod: _Walk.wrapped,
    property: _Walk.accessor,
    **dict.fromkeys((types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType,
                     types.GetSetDescriptorType, types.MemberDescriptorType), _Walk.named),
}  # fmt: skip
