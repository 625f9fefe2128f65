"""AMD's instructions on numbers: fast functions, and conversions to and from few bits."""

import ml_dtypes
import numpy as np

from tritium.insight.emulator.amd.matrix import float8
from tritium.insight.emulator.faults import Unknown

_SMALLEST = np.float32(2.0**-126)  # of the normal numbers


def _plain(fn):
    """An intrinsic of values alone."""

    def make(m, result, inputs, *groups):
        def step():
            with np.errstate(all="ignore"):
                return fn(*[x() for x in inputs], *groups)

        return step

    return make


def _flushed(x):
    return np.where(np.abs(x) < _SMALLEST, np.copysign(np.float32(0), x), x) if x.dtype == np.float32 else x


def _fast(fn):
    """Computed in double precision and rounded. The hardware's functions take and give no subnormal floats."""
    return _plain(lambda x, *_: _flushed(fn(_flushed(x).astype(np.float64)).astype(x.dtype)))


def _turns(fn):
    """Of an angle in turns."""
    return _fast(lambda x: fn(2 * np.pi * (x - np.floor(x))))


def _fraction(x):
    return np.minimum(x - np.floor(x), np.nextafter(x.dtype.type(1), x.dtype.type(0)))


def _middle(x, y, z):
    """The median; of a nan and two others, the lesser."""
    rows = np.stack([x, y, z])
    return np.where(np.isnan(rows).any(0), np.fmin(np.fmin(x, y), z), np.sort(rows, axis=0)[1])


def _pair(x, y, kind):
    """Two values in one register, as f16 towards zero or as integers that 16 bits hold."""
    if kind == "rtz":
        return np.stack([towards_zero(x), towards_zero(y)], axis=-1)
    limits = {"i16": (-32768, 32767), "u16": (0, 65535)}
    if kind not in limits:
        raise Unknown(f"llvm.amdgcn.cvt.pk.{kind}")
    kept = [np.clip(v.view(np.int32) if kind == "i16" else v, *limits[kind]) for v in (x, y)]
    return np.stack([v.astype(np.int32).astype(np.uint16) for v in kept], axis=-1)


def towards_zero(x):
    """f32 as f16, without the digits that do not fit; what is too large is the largest number."""
    near = x.astype(np.float16)
    over = np.abs(near.astype(np.float64)) > np.abs(x.astype(np.float64))
    return np.where(over & ~np.isnan(x), np.nextafter(near, np.float16(0)), near)


# --- 8-bit floats -----------------------------------------------------------------------------------------------------
def _bytes(x):
    return np.ascontiguousarray(x.astype(np.uint32)).view(np.uint8).reshape(-1, 4)


def _from_byte(m, result, inputs, kind):
    """cvt.f32.fp8: of one byte of a register."""
    x, which = inputs
    return lambda: np.ascontiguousarray(_bytes(x())[:, int(which()[0])]).view(float8(m)[kind]).astype(np.float32)


def _from_half(m, result, inputs, kind):
    """cvt.pk.f32.fp8: of two bytes, the lower or the upper of a register."""
    x, upper = inputs

    def step():
        first = 2 * int(upper()[0])
        both = np.ascontiguousarray(_bytes(x())[:, first : first + 2])
        return both.view(float8(m)[kind]).astype(np.float32)

    return step


def _to_half(m, result, inputs, kind):
    """cvt.pk.fp8.f32: two floats into the lower or the upper half of a register; the other half stays."""
    x, y, old, upper = inputs

    def step():
        out, first = _bytes(old()).copy(), 2 * int(upper()[0])
        for k, v in enumerate((x(), y())):
            out[:, first + k] = rounded(v, float8(m)[kind]).view(np.uint8)
        return out.view(np.uint32)[:, 0]

    return step


def rounded(x, dtype):
    """f32 as 8-bit floats, to the nearest; what is too large is infinite, or not a number where there is none."""
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(x.astype(dtype))


def _to_byte(m, result, inputs, kind):
    """cvt.sr.fp8.f32: a float rounded by random bits, into one byte of a register; the others stay."""
    x, random, old, which = inputs

    def step():
        out, dtype = _bytes(old()).copy(), float8(m)[kind]
        drop = np.uint32(20 if kind == "fp8" else 21)
        v, noise = x(), random() >> (np.uint32(32) - drop)
        bits = np.ascontiguousarray(v).view(np.uint32)
        moved = np.where(np.isfinite(v), bits + noise, bits) & ~((np.uint32(1) << drop) - np.uint32(1))
        out[:, int(which()[0])] = rounded(np.where(np.isfinite(v), moved, bits).view(np.float32), dtype).view(np.uint8)
        return out.view(np.uint32)[:, 0]

    return step


# --- integers ---------------------------------------------------------------------------------------------------------
def _field(x, first, width, sign):
    """Bits of a number, extended."""
    first, width = (v & np.uint32(31) for v in (first, width))
    kept = x >> first & ((np.uint32(1) << width) - np.uint32(1))
    top = np.where(width > 0, kept >> np.where(width > 0, width - np.uint32(1), np.uint32(0)) & np.uint32(1), 0)
    negative = (sign == "s") & top.astype(bool)
    return np.where(negative, kept | ~((np.uint32(1) << width) - np.uint32(1)), kept).astype(np.uint32)


def _select_bytes(x, y, selector):
    """perm: bytes of two registers, the second below the first, by number."""
    pool = np.concatenate([_bytes(y), _bytes(x)], axis=1)
    which = _bytes(selector)
    made = pool[np.arange(len(pool))[:, None], which & 7]
    constant = np.where(which == 12, 0, 255).astype(np.uint8)
    if np.any((which >= 8) & (which < 12)):
        raise Unknown("a permutation of bytes that extends a sign")
    return np.ascontiguousarray(np.where(which >= 12, constant, made)).view(np.uint32)[:, 0]


def _shift_pair(x, y, by, bytes_):
    """alignbit, alignbyte: 32 of 64 bits."""
    whole = x.astype(np.uint64) << np.uint64(32) | y.astype(np.uint64)
    shift = by.astype(np.uint64) & np.uint64(3 if bytes_ == "byte" else 31)
    return (whole >> shift * np.uint64(8 if bytes_ == "byte" else 1)).astype(np.uint32)


def _dot4(sign_a, x, sign_b, y, acc, clamp):
    """sudot4: four products of bytes, signed or not, and a sum."""
    parts = []
    for sign, v in ((sign_a, x), (sign_b, y)):
        wide = _bytes(v).astype(np.int64)
        parts.append(np.where(sign[0] & (wide > 127), wide - 256, wide))
    total = (parts[0] * parts[1]).sum(1) + acc.view(np.int32)
    return ((np.clip(total, -(1 << 31), (1 << 31) - 1) if clamp[0] else total) & 0xFFFFFFFF).astype(np.uint32)


def _dot4_of(x, y, acc, clamp, sign):
    every = np.full(len(x), sign == "s")
    return _dot4(every, x, every, y, acc, clamp)


def _class(x, mask):
    """is one of the classes that a mask names."""
    tiny = np.finfo(x.dtype).tiny if x.dtype != ml_dtypes.bfloat16 else ml_dtypes.finfo(x.dtype).tiny
    negative, size = np.signbit(x), np.abs(x)
    nan, infinite, zero = np.isnan(x), np.isinf(x), x == 0
    small = (size < tiny) & ~zero & ~nan
    normal = ~(nan | infinite | zero | small)
    classes = [nan & False, nan, negative & infinite, negative & normal, negative & small, negative & zero,
               ~negative & zero, ~negative & small, ~negative & normal, ~negative & infinite]
    return np.any([c & (mask >> np.uint32(k) & np.uint32(1)).astype(bool) for k, c in enumerate(classes)], axis=0)


def _scaled(x, power):
    """ldexp."""
    with np.errstate(all="ignore"):
        return np.ldexp(x.astype(np.float64), power.view(f"i{power.itemsize}")).astype(x.dtype)


TABLE = [
    (r"llvm\.amdgcn\.exp2\.\w+", _fast(np.exp2)),
    (r"llvm\.amdgcn\.log\.\w+", _fast(np.log2)),
    (r"llvm\.amdgcn\.rcp\.\w+", _fast(lambda x: 1 / x)),
    (r"llvm\.amdgcn\.rsq\.\w+", _fast(lambda x: 1 / np.sqrt(x))),
    (r"llvm\.amdgcn\.sqrt\.\w+", _fast(np.sqrt)),
    (r"llvm\.amdgcn\.sin\.\w+", _turns(np.sin)),
    (r"llvm\.amdgcn\.cos\.\w+", _turns(np.cos)),
    (r"llvm\.amdgcn\.tanh\.\w+", _fast(np.tanh)),
    (r"llvm\.amdgcn\.fract\.\w+", _plain(_fraction)),
    (r"llvm\.amdgcn\.fmed3\.\w+", _plain(_middle)),
    (r"llvm\.amdgcn\.class\.\w+", _plain(_class)),
    (r"llvm\.ldexp\.\w+\.\w+", _plain(_scaled)),
    (r"llvm\.amdgcn\.cvt\.pk(rtz)", _plain(_pair)),
    (r"llvm\.amdgcn\.cvt\.pk\.([iu]16)", _plain(_pair)),
    (r"llvm\.amdgcn\.cvt\.f32\.(fp8|bf8)", _from_byte),
    (r"llvm\.amdgcn\.cvt\.pk\.f32\.(fp8|bf8)", _from_half),
    (r"llvm\.amdgcn\.cvt\.pk\.(fp8|bf8)\.f32", _to_half),
    (r"llvm\.amdgcn\.cvt\.sr\.(fp8|bf8)\.f32", _to_byte),
    (r"llvm\.amdgcn\.([su])bfe\.i32", _plain(lambda x, first, width, sign: _field(x, first, width, sign))),
    (r"llvm\.amdgcn\.perm", _plain(_select_bytes)),
    (r"llvm\.amdgcn\.align(bit|byte)(?:\.\w+)?", _plain(_shift_pair)),
    (r"llvm\.fshr\.i32", _plain(lambda high, low, by: _shift_pair(high, low, by, "bit"))),
    (r"llvm\.amdgcn\.sudot4", _plain(_dot4)),
    (r"llvm\.amdgcn\.([su])dot4", _plain(_dot4_of)),
]
