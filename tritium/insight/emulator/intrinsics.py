"""LLVM's intrinsics, NVIDIA's among them, and the calls that talk to the host."""

import re

import ml_dtypes
import numpy as np

from tritium.insight.emulator.faults import Fault, Unknown


def call(m, name, result, inputs):
    """A function that executes one call of @name."""
    for pattern, make in TABLE:
        found = re.fullmatch(pattern, name)
        if found:
            return make(m, result, inputs, *found.groups())
    raise Unknown(name)


def _plain(fn):
    """An intrinsic of values alone."""

    def make(m, result, inputs, *groups):
        def step():
            with np.errstate(all="ignore"):
                return fn(*[x() for x in inputs], *groups)

        return step

    return make


def _in_f64(fn):
    """Computed in double precision and rounded: at least as exact as the hardware's approximation."""
    return _plain(lambda *xs: fn(*[x.astype(np.float64) for x in xs]).astype(xs[0].dtype))


def _fma(x, y, z):
    wide = np.longdouble if x.dtype == np.float64 else np.float64
    return (x.astype(wide) * y.astype(wide) + z.astype(wide)).astype(x.dtype)


def _pair(high, low, name):
    """Two rounded values, the second in the lower half."""
    kind = ml_dtypes.bfloat16 if name == "bf16" else np.float16
    return np.stack([low.astype(kind), high.astype(kind)], axis=-1)


def _signed(fn):
    def on_signed(x, y):
        kind = np.dtype(f"i{x.dtype.itemsize}")
        return fn(x.view(kind), y.view(kind)).view(x.dtype)

    return _plain(on_signed)


def _saturate(x, sign, bits, _source):
    bits = int(bits)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if sign == "s" else (0, (1 << bits) - 1)
    flat = []
    for v in x.astype(np.float64).reshape(-1):
        whole = 0 if v != v else low if v <= low else high if v >= high else int(v)
        flat.append(whole % (1 << max(bits, 8)))
    return np.array(flat, np.dtype(f"u{max(bits, 8) // 8}")).reshape(x.shape)


def _add_toward_zero(x, y):
    """The sum, or its neighbour nearer to zero where float64 says that it is too large."""
    near, exact = x + y, x.astype(np.float64) + y
    return np.where(np.abs(near) > np.abs(exact), np.nextafter(near, np.float32(0)), near)


def _cut(x, source, unsigned, size):
    """As the instruction has it: of a nan it makes 0 if both have 32 bits, else the sign bit."""
    bits = 32 if size == "i" else 64
    made = _saturate(x, "u" if unsigned else "s", bits, source)
    odd = 0 if (source, bits) == ("f", 32) else 1 << bits - 1
    return np.where(np.isnan(x), made.dtype.type(odd), made)


def _bits(fn):
    """An integer function of each element's bits."""

    def on_bits(x, *rest):
        width = 8 * x.dtype.itemsize
        return np.array([fn(int(v), width) for v in x.reshape(-1)], x.dtype).reshape(x.shape)

    return _plain(on_bits)


def _round(x):
    """Halves away from zero."""
    whole = np.floor(np.abs(x))
    return np.copysign(whole + (np.abs(x) - whole >= 0.5), x)


def _extreme(fn, sign):
    """NumPy's minimum or maximum with -0 below +0: which zero NumPy picks depends on where in an array it stands."""

    def pick(x, y):
        return np.where(x == y, np.where(np.signbit(x) == sign, x, y), fn(x, y))

    return _plain(pick)


def _register(m, result, inputs, name, axis):
    k = "xyz".index(axis)

    def step():
        value = {
            "tid": lambda: m.lanes % m.members,
            "ctaid": lambda: m.pid[k] if k else m.pid[0] * m.blocks + m.lanes // m.members,
            "nctaid": lambda: m.grid[k] if k else m.grid[0] * m.blocks,
            "clusterid": lambda: m.pid[k],
            "nclusterid": lambda: m.grid[k],
        }[name]()
        return np.broadcast_to(np.asarray(value, np.uint32), m.threads)

    return step


def _rank(m, result, inputs):
    return lambda: (m.lanes // m.members).astype(np.uint32)


def _warp_barrier(m, result, inputs):
    """The lanes of a warp see each other's work."""
    return lambda: m.warp_barrier(m.active)


def _barrier(m, result, inputs, how, extent):
    """A barrier of a number, for all threads of a block or as many as are said; `arrive` does not wait."""

    def step():
        m.barriers.come(m.active, *[x() for x in inputs], waits=how == "sync")

    return step


def _shuffle(m, result, inputs, mode):
    _, x, by, _ = inputs

    def step():
        m.warps_of(m.active, "a shuffle")
        lane, first = m.lanes % 32, m.lanes // 32 * 32
        wanted = {"bfly": lane ^ by().astype(int), "idx": by().astype(int)}[mode]
        return x()[first + wanted]

    return step


def _assume(m, result, inputs):
    def step():
        if not inputs[0]()[m.active].all():
            wrong = m.active & ~inputs[0]()
            m.log.tell(Fault("an assumption does not hold", "broken assumption", threads=m.lanes[wrong]))

    return step


def _print(m, result, inputs):
    def step():
        text = m.string_at[int(inputs[0]()[0])]
        base = int(inputs[1]()[0])
        fields = re.findall(r"%[\d.]*(?:ll)?[dufxp]", text)
        columns = [m.stack[base + 8 * k] for k in range(len(fields))]
        for thread in np.nonzero(m.active)[0]:
            items = [_shown(field, column[thread]) for field, column in zip(fields, columns)]
            m.printed.append(text.replace("ll", "").replace("%u", "%d") % tuple(items) if fields else text)
        return np.zeros(m.threads, np.uint32)

    return step


def _shown(field, x):
    if field[-1] == "f":
        return float(x)
    return int(x.view(f"i{x.itemsize}")) if field[-1] == "d" else int(x)


def _assertion(m, result, inputs):
    def step():
        raise Fault(f"device assertion: {m.string_at[int(inputs[0]()[0])]}", "assertion", threads=m.lanes[m.active])

    return step


TABLE = [
    (r"llvm\.fma\.\w+", _plain(_fma)),
    (r"llvm\.fabs\.\w+", _plain(np.abs)),
    (r"llvm\.sqrt\.\w+", _plain(np.sqrt)),
    (r"llvm\.floor\.\w+", _plain(np.floor)),
    (r"llvm\.ceil\.\w+", _plain(np.ceil)),
    (r"llvm\.trunc\.\w+", _plain(np.trunc)),
    (r"llvm\.roundeven\.\w+", _plain(np.rint)),
    (r"llvm\.round\.\w+", _plain(_round)),
    (r"llvm\.minnum\.\w+", _extreme(np.fmin, True)),
    (r"llvm\.maxnum\.\w+", _extreme(np.fmax, False)),
    (r"llvm\.minimum\.\w+", _extreme(np.minimum, True)),
    (r"llvm\.maximum\.\w+", _extreme(np.maximum, False)),
    (r"llvm\.copysign\.\w+", _plain(np.copysign)),
    (r"llvm\.umin\.\w+", _plain(np.minimum)),
    (r"llvm\.umax\.\w+", _plain(np.maximum)),
    (r"llvm\.smin\.\w+", _signed(np.minimum)),
    (r"llvm\.smax\.\w+", _signed(np.maximum)),
    (r"llvm\.fpto([su])i\.sat\.i(\d+)\.(\w+)", _plain(_saturate)),
    (r"llvm\.nvvm\.([fd])2(u?)(i|ll)\.rz", _plain(_cut)),
    (r"llvm\.abs\.\w+", _bits(lambda v, n: min(v, (1 << n) - v))),
    (r"llvm\.ctpop\.\w+", _bits(lambda v, n: v.bit_count())),
    (r"llvm\.ctlz\.\w+", _bits(lambda v, n: n - v.bit_length())),
    (r"llvm\.cttz\.\w+", _bits(lambda v, n: (v & -v).bit_length() - 1 if v else n)),
    (r"llvm\.bitreverse\.\w+", _bits(lambda v, n: int(f"{v:0{n}b}"[::-1], 2))),
    (r"llvm\.assume", _assume),
    (r"llvm\.nvvm\.ex2\.approx\.ftz\.f", _in_f64(np.exp2)),
    (r"llvm\.nvvm\.lg2\.approx\.ftz\.f", _in_f64(np.log2)),
    (r"llvm\.nvvm\.sqrt\.approx\.ftz\.f", _in_f64(np.sqrt)),
    (r"llvm\.nvvm\.rsqrt\.approx\.ftz\.f", _in_f64(lambda x: 1 / np.sqrt(x))),
    (r"llvm\.nvvm\.rcp\.approx\.ftz\.f", _in_f64(lambda x: 1 / x)),
    (r"llvm\.nvvm\.div\.full", _in_f64(np.divide)),
    (r"llvm\.nvvm\.add\.rz\.f", _plain(_add_toward_zero)),
    (r"llvm\.nvvm\.ff2(b?f16)x2\.rn", _plain(_pair)),
    (r"llvm\.nvvm\.read\.ptx\.sreg\.(\w+)\.([xyz])", _register),
    (r"llvm\.nvvm\.read\.ptx\.sreg\.cluster\.ctarank", _rank),
    (r"llvm\.nvvm\.bar\.warp\.sync", _warp_barrier),
    (r"llvm\.nvvm\.barrier\.cta\.(sync|arrive)\.aligned\.(all|count)", _barrier),
    (r"llvm\.nvvm\.shfl\.sync\.(\w+)\.i32", _shuffle),
    (r"vprintf", _print),
    (r"__assertfail", _assertion),
]
