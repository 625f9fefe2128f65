"""Records: what the arguments of a call must look like for one compiled kernel to be the right one.

    >>> import numpy as np
    >>> x = np.zeros(64, np.float32)
    >>> r = record(0, 4096, 0, [ndarray(x), INT32, constant(64)])
    >>> [guard.code for guard in r.guards]
    ['NDARRAY', 'INT32', 'EQUAL']

The launcher reads the record's bytes.
"""

from __future__ import annotations

import itertools
import struct
import sys
from collections.abc import Sequence
from typing import Any

from ...language.source.fingerprints import is_fixed
from ...named_tuples import NamedTuple
from .guards import CODES, RECORD, ROW
from .wrappers import Way

MULTIPLE, NOT_MULTIPLE = 1, 2  # of 16: an integer, or the address of a tensor
NOT_ONE = ON_CPU = WRITEABLE = 4
ON_GPU = 8


class Guard(NamedTuple):
    """What one argument must be: a code of the launcher, its flags, up to two objects, the number of a GPU, and what
    its `device` must equal."""

    code: str
    flags: int = 0
    a: Any = None
    b: Any = None
    device: int = 0
    where: Any = None


SKIP = Guard("SKIP")  # anything: somebody else has checked it
INT32 = Guard("INT32")  # an int that fits i32
INT64 = Guard("INT64")  # an int that fits i64 and not i32
UINT64 = Guard("UINT64")  # an int that fits only u64
BOOL = Guard("BOOL")
FLOAT32 = Guard("FLOAT32")  # a float, passed as f32
FLOAT64 = Guard("FLOAT64")
_RANGES = ("INT32", "INT64", "UINT64", "ANY64")


def _multiple(expected: bool | None) -> int:
    return 0 if expected is None else MULTIPLE if expected else NOT_MULTIPLE


def integer(range: str, multiple: bool | None = None, not_one: bool = False) -> Guard:
    """An `int` in `range`: "INT32", "INT64", "UINT64", or "ANY64" for a parameter annotated as 64-bit.

    `multiple` demands (True) or rules out (False) a multiple of 16; `not_one` rules out 1, which is specialised.

    >>> integer("INT32", multiple=True, not_one=True).flags
    5
    """
    if range not in _RANGES:
        raise ValueError(f"unknown range {range!r}; use one of {', '.join(_RANGES)}")
    return Guard(range, _multiple(multiple) | (NOT_ONE if not_one else 0))


def tensor(example: Any, multiple: bool | None = None, on_cpu: bool = True) -> Guard:
    """An object of the type and with the `dtype` of `example` whose `data_ptr()` is the kernel's argument.

    `multiple` demands (True) or rules out (False) an address divisible by 16. `on_cpu` asks for `is_cpu`, 0.1 us; leave
    it out where there is no other device.

    >>> class Tensor:
    ...     dtype = "f32"
    >>> tensor(Tensor(), on_cpu=False).b
    'f32'
    """
    return Guard("TENSOR", _multiple(multiple) | (ON_CPU if on_cpu else 0), type(example), example.dtype)


def gpu_tensor(example: Any, device: int, multiple: bool | None = None) -> Guard:
    """The same, on a GPU: `get_device()` must give the number `device`.

    >>> class Tensor:
    ...     dtype = "f32"
    >>> gpu_tensor(Tensor(), 3).device
    3
    """
    return Guard("TENSOR", _multiple(multiple) | ON_GPU, type(example), example.dtype, device)


def pointer(example: Any, multiple: bool | None = None) -> Guard:
    """The same for objects that are no tensors of a framework: of their device is known only what `device` says.

    >>> class Buffer:
    ...     dtype, device = "f32", "cpu"
    >>> pointer(Buffer()).where
    'cpu'
    """
    return tensor(example, multiple, on_cpu=False)._replace(where=getattr(example, "device", None))


def ndarray(example: Any, multiple: bool | None = None, writeable: bool = False) -> Guard:
    """A NumPy array of the dtype of `example`; `writeable` rules out those that say they are read-only.

    >>> import numpy as np
    >>> ndarray(np.zeros(4, np.int8)).b
    dtype('int8')
    """
    flags = _multiple(multiple) | (WRITEABLE if writeable else 0)
    return Guard("NDARRAY", flags, type(example), example.dtype)


def constant(value: Any) -> Guard | None:
    """The compile-time constant `value`: the object itself, or an equal one of its type where that is certain.

    None for an object that may change, and with it the kernel: the launcher sees only that it is the same object.

    >>> constant(64).code, constant(None).code, constant(-0.0).code, constant((1, 2)).code, constant([1])
    ('EQUAL', 'SAME', 'BITS', 'SAME', None)
    """
    if not is_fixed(value):
        return None
    if type(value) is float:
        return Guard("BITS", 0, struct.unpack("q", struct.pack("d", value))[0])
    return Guard("EQUAL" if type(value) in (int, str) else "SAME", 0, value)


def kind(example: Any) -> Guard:
    """An object of the type of `example`, which needs no slot.

    >>> kind(3).a
    <class 'int'>
    """
    return Guard("KIND", 0, type(example))


def dtyped(example: Any) -> Guard:
    """An object of any type that has the `dtype` of `example`, which needs no slot.

    >>> import numpy as np
    >>> dtyped(np.zeros(4, np.int8)).b
    dtype('int8')
    """
    return Guard("DTYPE", 0, None, example.dtype)


_shared: dict[tuple[Any, ...], tuple[Any, ...]] = {}


def keyword_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """The one tuple of these names that records have: calls with it are recognised sooner than with another.

    >>> keyword_names(("n", "BLOCK")) is keyword_names(("n", "BLOCK"))
    True
    """
    interned = tuple(map(sys.intern, names))
    return _shared.setdefault(interned, interned)


def shared(kinds: tuple[Any, ...]) -> tuple[Any, ...]:
    """The one tuple of these kinds of arguments that records have: native code compares it by identity.

    >>> shared((int, str)) is shared((int, str))
    True
    """
    return _shared.setdefault(kinds, kinds)


def kind_of(x: Any) -> Any:
    """What the choices of tuners take an argument, or what a guard lets through, for: its dtype, or its class.

    >>> import numpy as np
    >>> kind_of(np.zeros(3, np.int8)), kind_of(3), kind_of(INT32), kind_of(constant(64))
    (dtype('int8'), <class 'int'>, <class 'int'>, <class 'int'>)
    """
    if x.__class__ is Guard:
        known = _KINDS.get(x.code)
        return known or (float if x.code == "BITS" else kind_of(x.a) if x.code in _SLOTLESS else x.b)
    dtype = getattr(x, "dtype", None)
    return x.__class__ if dtype is None else dtype


_KINDS = {**dict.fromkeys((*_RANGES, "INT32"), int), "BOOL": bool, "FLOAT32": float, "FLOAT64": float}


class Record(bytes):
    """A record as the launcher reads it; it keeps the objects it mentions, and `owner`, alive."""

    guards: tuple[Guard, ...]
    slots: tuple[int, ...]
    fixed: tuple[tuple[int, bytes], ...]
    captured: tuple[tuple[Any, tuple[Any, Any]], ...]
    alike: tuple[tuple[Any, Any], ...]
    absent: tuple[tuple[dict, str], ...]
    entry: int
    extra: int
    kept: tuple[Any, ...]


def record(run: int, entry: int, extra: int, guards: Sequence[Guard], owner: Any = None, *,
           slots: Sequence[int] | None = None, fixed: Sequence[tuple[int, bytes]] = (),
           captured: Sequence[tuple[Any, tuple[Any, Any]]] = (), alike: Sequence[tuple[Any, Any]] = (),
           absent: Sequence[tuple[dict, str]] = (), keywords: tuple[str, ...] = (), result: Any = None,
           names: tuple[str | None, ...] = (), defaults: dict[str, Any] | None = None, checks: int = 0,
           on_stream: int = 0, quiet: bool = False, way: Way | None = None) -> Record:
    """The record of a kernel at address `entry`: one guard for each argument of the call, in the call's order.

    `run` is the address of what runs it, `ptr run(ptr record, ptr slots, ptr grid, ptr result)`; `extra` and `checks`,
    the address of what it looks into before, are for it. `on_stream` is the same with a stream as its last argument.
    `slots` tells which slot each guard fills, where it is not one after the other (guards that fill none ignore
    theirs); `fixed` fills further slots with (slot, its 8 bytes): defaults the call left out. `captured` holds
    (scope, (name, value)): variables that must still be the same objects; `alike` two objects that must still be equal,
    and `absent` (dict, key) where there must still be none.

    The last `len(keywords)` arguments are these keywords; a launch returns `result`, or None if `quiet`; a grid that is
    a function gets `defaults` and the arguments by name, `names` being theirs (None for what it does not get), or those
    of the positional ones. With a `way`, the record is of a wrapper, and runs no kernel of its own.

    >>> record(0, 4096, 128, [INT32, FLOAT32]).extra
    128
    """
    keywords = keyword_names(keywords)
    counter = itertools.count()
    places = [next(counter) if guard.code not in _SLOTLESS else 0 for guard in guards] if slots is None else list(slots)
    if max([*places, *(place for place, _ in fixed)], default=0) >= max(len(guards) + len(fixed), 1):
        raise ValueError(f"{len(guards)} arguments and {len(fixed)} fixed values do not fill slots {places}")
    names = names if len(names) == len(guards) else (*names, *keywords)
    try:
        kinds = shared(tuple([kind_of(guard) for guard in guards]))
    except Exception:  # a dtype without a hash
        kinds = None
    # A grid's dict begins as a copy of one with all keys. Constants are in it, other arguments replace what is there.
    known = [guard.a if guard.code in _EQUAL else None for guard in guards]
    told = {**(defaults or {}), **{name: x for name, x in zip(names, known, strict=False) if name is not None}}
    names = tuple([None if x is not None else name for name, x in zip(names, known, strict=False)])
    kept = (owner, keywords, result, names, told, way, kinds)
    rows = [ROW.ctype(CODES[guard.code], guard.flags, place, i, guard.device, _operand(guard), id(guard.b))
            for i, (guard, place) in enumerate(zip(guards, places, strict=True))]
    rows.sort(key=lambda row: row.code in _COSTLY)  # a tensor is asked several things: what tells sooner comes first
    rows += [ROW.ctype(CODES["DEVICE"], argument=i, a=id(guard.where))
             for i, guard in enumerate(guards) if guard.where is not None]
    rows += [ROW.ctype(CODES["FIXED"], slot=place, a=int.from_bytes(value, "little")) for place, value in fixed]
    rows += [ROW.ctype(CODES["CAPTURED"], a=id(scope), b=id(variable)) for scope, variable in captured]
    rows += [ROW.ctype(CODES["LIKE"], a=id(x), b=id(y)) for x, y in alike]
    rows += [ROW.ctype(CODES["ABSENT"], a=id(scope), b=id(name)) for scope, name in absent]
    head = RECORD.ctype(run=run, entry=entry, extra=extra, rows=len(rows), arguments=len(guards),
                        positional=len(guards) - len(keywords), keywords=id(keywords) if keywords else 0,
                        result=id(result), defaults=id(kept[4]), names=id(names), checks=checks, on_stream=on_stream,
                        quiet=quiet, kinds=id(kinds), way=id(way) if way is not None else 0)  # fmt: skip
    r = Record(b"".join(map(bytes, (head, *rows))))
    r.guards, r.slots, r.fixed, r.captured = tuple(guards), tuple(places), tuple(fixed), tuple(captured)
    r.alike, r.absent = tuple(alike), tuple(absent)
    r.entry, r.extra, r.kept = entry, extra, kept
    return r


def _operand(guard: Guard) -> int:
    if guard.code == "BITS":
        return guard.a
    return id(guard.a) if guard.a is not None or guard.code == "SAME" else 0


_EQUAL = frozenset(("SAME", "EQUAL"))
_SLOTLESS = frozenset(("SKIP", "SAME", "EQUAL", "BITS", "KIND", "DTYPE"))
_COSTLY = frozenset(CODES[name] for name in ("TENSOR", "NDARRAY", "DTYPE"))


if sys.byteorder != "little":
    raise ImportError("launching needs a little-endian machine")
