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

__all__ = ["BOOL", "FLOAT32", "FLOAT64", "INT32", "INT64", "SKIP", "UINT64", "Guard", "Record", "constant",
           "gpu_tensor", "integer", "ndarray", "record", "tensor"]  # fmt: skip

MULTIPLE, NOT_MULTIPLE = 1, 2  # of 16: an integer, or the address of a tensor
NOT_ONE = ON_CPU = WRITEABLE = 4
ON_GPU = 8


class Guard(NamedTuple):
    """What one argument must be: a code of the launcher, its flags, up to two objects, and the number of a GPU."""

    code: str
    flags: int = 0
    a: Any = None
    b: Any = None
    device: int = 0


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


class Record(bytes):
    """A record as the launcher reads it; it keeps the objects it mentions, and `owner`, alive."""

    guards: tuple[Guard, ...]
    slots: tuple[int, ...]
    fixed: tuple[tuple[int, bytes], ...]
    captured: tuple[tuple[Any, tuple[str, Any]], ...]
    entry: int
    extra: int
    kept: tuple[Any, ...]


def record(run: int, entry: int, extra: int, guards: Sequence[Guard], owner: Any = None, *,
           slots: Sequence[int] | None = None, fixed: Sequence[tuple[int, bytes]] = (),
           captured: Sequence[tuple[Any, tuple[str, Any]]] = (), keywords: tuple[str, ...] = (), result: Any = None,
           names: tuple[str, ...] = (), defaults: dict[str, Any] | None = None, checks: int = 0, on_stream: int = 0,
           quiet: bool = False) -> Record:
    """The record of a kernel at address `entry`: one guard for each argument of the call, in the call's order.

    `run` is the address of what runs it, `ptr run(ptr record, ptr slots, ptr grid, ptr result)`; `extra` and `checks`,
    the address of what it looks into before, are for it. `on_stream` is the same with a stream as its last argument.
    `slots` tells which slot each guard fills, where it is not one after the other (guards that fill none ignore
    theirs); `fixed` fills further slots with (slot, its 8 bytes): defaults the call left out. `captured` holds
    (scope, (name, value)): variables that must still be the same objects.

    The last `len(keywords)` arguments are these keywords; a launch returns `result`, or None if `quiet`; a grid that is
    a function gets `defaults` and the arguments by name, `names` being those of the positional ones.

    >>> record(0, 4096, 128, [INT32, FLOAT32]).extra
    128
    """
    keywords = tuple(map(sys.intern, keywords))
    counter = itertools.count()
    places = [next(counter) if guard.code not in _SLOTLESS else 0 for guard in guards] if slots is None else list(slots)
    if max([*places, *(place for place, _ in fixed)], default=0) >= max(len(guards) + len(fixed), 1):
        raise ValueError(f"{len(guards)} arguments and {len(fixed)} fixed values do not fill slots {places}")
    kept = (owner, keywords, result, names, {} if defaults is None else dict(defaults))
    rows = [ROW.ctype(CODES[guard.code], guard.flags, place, i, guard.device, _operand(guard), id(guard.b))
            for i, (guard, place) in enumerate(zip(guards, places, strict=True))]
    rows += [ROW.ctype(CODES["FIXED"], slot=place, a=int.from_bytes(value, "little")) for place, value in fixed]
    rows += [ROW.ctype(CODES["CAPTURED"], a=id(scope), b=id(variable)) for scope, variable in captured]
    head = RECORD.ctype(run=run, entry=entry, extra=extra, rows=len(rows), arguments=len(guards),
                        positional=len(guards) - len(keywords), keywords=id(keywords) if keywords else 0,
                        result=id(result), defaults=id(kept[4]), names=id(names), checks=checks, on_stream=on_stream,
                        quiet=quiet)  # fmt: skip
    r = Record(b"".join(map(bytes, (head, *rows))))
    r.guards, r.slots, r.fixed, r.captured = tuple(guards), tuple(places), tuple(fixed), tuple(captured)
    r.entry, r.extra, r.kept = entry, extra, kept
    return r


def _operand(guard: Guard) -> int:
    if guard.code == "BITS":
        return guard.a
    return id(guard.a) if guard.a is not None or guard.code == "SAME" else 0


_SLOTLESS = frozenset(("SKIP", "SAME", "EQUAL", "BITS"))


if sys.byteorder != "little":
    raise ImportError("launching needs a little-endian machine")
