"""What the native launcher does with the guards of a record, in Python: tests compare the two."""

import ctypes
import operator
import struct

from tritium.backends.launcher.record import MULTIPLE, NOT_MULTIPLE, NOT_ONE, ON_CPU, ON_GPU, WRITEABLE

_RANGES = {
    "INT32": lambda x: -(1 << 31) <= x < 1 << 31,
    "INT64": lambda x: -(1 << 63) <= x < 1 << 63 and not -(1 << 31) <= x < 1 << 31,
    "UINT64": lambda x: 1 << 63 <= x < 1 << 64,
    "ANY64": lambda x: -(1 << 63) <= x < 1 << 63,
}


def pack(codes, values):
    """The 8-byte slots of a kernel's runtime parameters: `codes` as in guards, pointers as addresses."""
    return b"".join(_SLOT[code](value) for code, value in zip(codes, values, strict=True))


def _unsigned(x):
    return struct.pack("Q", x & (1 << 64) - 1)


_SLOT = {
    **dict.fromkeys(("INT32", "INT64", "UINT64", "ANY64", "BOOL", "TENSOR", "NDARRAY"), _unsigned),
    "FLOAT32": lambda x: bytes(ctypes.c_float(x)) + bytes(4),
    "FLOAT64": lambda x: struct.pack("d", x),
}


def check(r, args):
    """The slots of a call's arguments, or None if one of them is not what its guard wants."""
    if len(r.guards) != len(args) or any(scope.get(name) is not was for scope, (name, was) in r.captured):
        return None
    if any(x != y for x, y in r.alike) or any(name in scope for scope, name in r.absent):
        return None
    found = dict(r.fixed)
    for guard, place, x in zip(r.guards, r.slots, args, strict=True):
        try:
            value = _CHECK[guard.code](guard, x)
        except Exception:  # the slow road meets the same error and says whose it is
            return None
        if value is None:
            return None
        if value is not _NO_SLOT:
            found[place] = pack([guard.code], [value])
    return b"".join(found[place] for place in sorted(found))


_NO_SLOT = object()


def _when(holds, value=_NO_SLOT):
    return value if holds else None


def _agrees(flags, x):
    return not flags & 3 or bool(flags & (MULTIPLE if x % 16 == 0 else NOT_MULTIPLE))


def _check_tensor(guard, x):
    if type(x) is not guard.a or (guard.flags & ON_CPU and x.is_cpu is not True) or x.dtype is not guard.b:
        return None
    if guard.flags & ON_GPU and x.get_device() != guard.device:
        return None
    if guard.where is not None and x.device != guard.where:
        return None
    address = operator.index(x.data_ptr())
    known = 0 < address < 1 << 64 or address == x.numel() == 0
    return _when(known and _agrees(guard.flags, address), address)


def _check_ndarray(guard, x):
    if type(x) is not guard.a or x.dtype is not guard.b or (guard.flags & WRITEABLE and not x.flags.writeable):
        return None
    address = x.__array_interface__["data"][0]
    return _when(_agrees(guard.flags, address), address)


def _check_integer(guard, x):
    return _when(type(x) is int and _RANGES[guard.code](x) and _agrees(guard.flags, x)
                 and not (x == 1 and guard.flags & NOT_ONE), x)  # fmt: skip


_CHECK = {
    "SKIP": lambda guard, x: _NO_SLOT,
    "SAME": lambda guard, x: _when(x is guard.a),
    "EQUAL": lambda guard, x: _when(type(x) is type(guard.a) and x == guard.a),
    "BITS": lambda guard, x: _when(type(x) is float and struct.pack("d", x) == struct.pack("q", guard.a)),
    "KIND": lambda guard, x: _when(type(x) is guard.a),
    "DTYPE": lambda guard, x: _when(x.dtype is guard.b),
    "TENSOR": _check_tensor,
    "NDARRAY": _check_ndarray,
    **dict.fromkeys(_RANGES, _check_integer),
    "BOOL": lambda guard, x: _when(x is True or x is False, int(x) if isinstance(x, bool) else None),
    "FLOAT32": lambda guard, x: _when(type(x) is float, x),
    "FLOAT64": lambda guard, x: _when(type(x) is float, x),
}
