"""LLVM's operators and casts on arrays that have an element for each thread."""

import numpy as np

from tritium.insight.emulator.code import numpy_type, vector_of


def signed(x):
    return x.view(np.dtype(f"i{x.dtype.itemsize}")) if x.dtype != bool else -x.astype(np.int8)


def _quotient(x, y):
    """Towards zero; results that LLVM leaves undefined are zero here."""
    safe = np.where(y == 0, 1, y).astype(x.dtype)
    q = np.abs(x.astype(object)) // np.abs(safe.astype(object)) if x.dtype.itemsize == 8 else None
    if q is None:
        q = (np.abs(x.astype(np.int64)) // np.abs(safe.astype(np.int64))).astype(object)
    negative = (x < 0) != (safe < 0)
    out = np.where(negative, -q, q)
    limit = 1 << 8 * x.dtype.itemsize
    flat = np.array([int(v) % limit for v in out.reshape(-1)], np.dtype(f"u{x.dtype.itemsize}")).reshape(x.shape)
    return np.where(y == 0, 0, flat.view(x.dtype)).astype(x.dtype)


def _signed_division(x, y):
    return _quotient(signed(x), signed(y)).view(x.dtype)


def _signed_remainder(x, y):
    return x - _signed_division(x, y) * y


def _unsigned_division(x, y):
    return np.where(y == 0, 0, x // np.where(y == 0, 1, y)).astype(x.dtype)


def _shift(fn):
    def shift(x, n):
        bits = 8 * x.dtype.itemsize
        return fn(x, n, np.minimum(n, bits - 1).astype(n.dtype), n >= bits)

    return shift


def _boolean(fn, on_bits):
    return lambda x, y: fn(x, y) if x.dtype != bool else on_bits(x, y)


BINARY = {
    "add": _boolean(np.add, np.logical_xor),
    "sub": _boolean(np.subtract, np.logical_xor),
    "mul": _boolean(np.multiply, np.logical_and),
    "sdiv": _signed_division,
    "srem": _signed_remainder,
    "udiv": _unsigned_division,
    "urem": lambda x, y: x - _unsigned_division(x, y) * y,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": _shift(lambda x, n, low, over: np.where(over, 0, x << low).astype(x.dtype)),
    "lshr": _shift(lambda x, n, low, over: np.where(over, 0, x >> low).astype(x.dtype)),
    "ashr": _shift(lambda x, n, low, over: (signed(x) >> signed(low)).view(x.dtype)),
    "fadd": np.add,
    "fsub": np.subtract,
    "fmul": np.multiply,
    "fdiv": np.divide,
    "frem": np.fmod,
}


def _target(to):
    return numpy_type(vector_of(to)[1])


def _bitcast(x, t, to):
    lanes, _ = vector_of(to)
    rows = np.ascontiguousarray(x).reshape(x.shape[0], -1)
    out = rows.view(_target(to))
    return out if lanes else out[:, 0]


def _sext(x, t, to):
    return signed(x).astype(np.dtype(f"i{_target(to).itemsize}")).view(_target(to))


def _trunc(x, t, to):
    return (x & x.dtype.type(1)).astype(bool) if to == "i1" else x.astype(_target(to))


def _float(x, t, to):
    with np.errstate(all="ignore"):
        return x.astype(_target(to))


def _from_signed(x, t, to):
    return _float(signed(x) if x.dtype != bool else -x.astype(np.int8), t, to)


def _to_signed(x, t, to):
    with np.errstate(all="ignore"):  # what no integer holds may be any
        return x.astype(np.int64).astype(_target(to))


CASTS = {
    "zext": lambda x, t, to: x.astype(_target(to)),
    "sext": _sext,
    "trunc": _trunc,
    "fpext": _float,
    "fptrunc": _float,
    "sitofp": _from_signed,
    "fptosi": _to_signed,
    "uitofp": _float,
    "bitcast": _bitcast,
    "ptrtoint": lambda x, t, to: x.astype(_target(to)),
    "inttoptr": lambda x, t, to: x.astype(np.uint64),
}
