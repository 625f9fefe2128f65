"""PTX instructions that compute: bits, integers, floats, comparisons. Approximations are computed like other math."""

from __future__ import annotations

from ..ir import types as T
from .expression import UNSIGNED, Expr, fma, maximum, minimum, row, sqrt, where
from .ptx_text import PACKED, SCALARS, Instructions, Unknown, join, split

ARITHMETIC = Instructions()

DIRECTIONS = {"rz": "rz", "rm": "rd", "rp": "ru"}  # PTX name: end of a row's name
_INTS = [name for name, t in SCALARS.items() if t.is_int and name[0] in "us" and t.bits > 8]
_BITS = ["b16", "b32", "b64"]
_FLOATS = ["f16", "bf16", "f32", "f64", "f16x2", "bf16x2", "f32x2"]


def _form(name):
    """(element type, number of lanes) of a type's name."""
    return (PACKED[name], 2) if name in PACKED else (SCALARS[name], 1)


def _lanes(code, kind, fn, name, *operands):
    """Write fn of the lanes of operands."""
    t, n = _form(kind)
    columns = [code.unpack(x, t, n) for x in operands]
    code.pack(name, [fn(*xs) for xs in zip(*columns)])


def saturated(x):
    """In [0, 1]; NaN and -0 give 0."""
    return where(x > 0.0, minimum(x, x.const(1.0)), x.const(0.0))


def positive(x):
    """`.relu`: at least 0, NaN stays."""
    return where(x < 0.0, x.const(0.0), x)


def _finish(modifiers, fn):
    """`fn` followed by `.sat` or `.relu`, where the instruction has them."""
    sat, relu = modifiers.take("sat"), modifiers.take("relu")
    if modifiers.left:
        modifiers.refuse()
    after = saturated if sat else positive if relu else None
    return fn if after is None else lambda *xs: after(fn(*xs))


# --- moves and bits ---------------------------------------------------------------------------------------------------
@ARITHMETIC(2, "mov")
def _mov(code, modifiers, d, a):
    t, n = _form(modifiers.last(*SCALARS, *PACKED))
    if modifiers.left:
        modifiers.refuse()
    t = UNSIGNED.get(t.bits * n, t) if not t.is_float or n > 1 else t
    if type(a) is tuple:
        a = _vector(code, a, t)
    else:
        known, a = code.known(a), code.read(a, t)
        if type(d) is not tuple:
            code.write(d, a)
            if known is not None and code.guard is None:
                code.numbers[d] = known
            return
    if type(d) is not tuple:
        code.write(d, a)
        return
    bits = t.bits // len(d)
    if bits not in UNSIGNED:
        modifiers.refuse()
    for name, part in zip(d, split(a.ubits, bits)):
        code.write(name, part)


def _vector(code, parts, t):
    """The elements of a vector side by side."""
    bits = t.bits // len(parts)
    if bits not in UNSIGNED or bits * len(parts) != t.bits:
        raise Unknown(f"a vector of {len(parts)} for {t.bits} bits")
    return join([code.read(p, UNSIGNED[bits]) for p in parts])


_LOGIC = {"and": lambda x, y: x & y, "or": lambda x, y: x | y, "xor": lambda x, y: x ^ y}


@ARITHMETIC(3, *_LOGIC)
def _logic(code, modifiers, d, a, b):
    kind = modifiers.last("pred", *_BITS)
    _lanes(code, kind, _finish(modifiers, _LOGIC[modifiers.name.partition(".")[0]]), d, a, b)


@ARITHMETIC(2, "not", "cnot")
def _not(code, modifiers, d, a):
    kind = modifiers.last("pred", *_BITS)
    inverted = modifiers.name.startswith("not")
    _lanes(code, kind, _finish(modifiers, lambda x: ~x if inverted else (x == 0).cast(x.element)), d, a)


@ARITHMETIC(3, "shl", "shr")
def _shift(code, modifiers, d, a, n):
    """A count of the width or more leaves zeros or signs."""
    left = modifiers.name.startswith("shl")
    kind = modifiers.last(*(_BITS if left else [*_BITS, *_INTS]))
    t = SCALARS[kind]
    count = code.read(n, T.u32)
    count = (minimum(count, count.const(t.bits)) if t.bits < 32 else count).cast(UNSIGNED[t.bits]).bitcast(t)
    _lanes(code, kind, _finish(modifiers, lambda x: x << count if left else x >> count), d, a)


@ARITHMETIC(4, "shf")
def _funnel(code, modifiers, d, a, b, n):
    left = modifiers.need("l", "r") == "l"
    wraps = modifiers.need("wrap", "clamp") == "wrap"
    modifiers.last("b32")
    count = code.read(n, T.u32)
    count = (count & 31 if wraps else minimum(count, count.const(32))).cast(T.u64)
    both = join([code.read(a, T.u32), code.read(b, T.u32)])
    code.write(d, ((both << count) >> 32 if left else both >> count).cast(T.u32))


@ARITHMETIC(4, "bfe")
def _extract(code, modifiers, d, a, start, count):
    t = SCALARS[modifiers.last("u32", "s32", "u64", "s64")]
    x, start, count = code.read(a, t), *_field(code, start, count, t)
    found = x >> start
    if t.signed:
        rest = where(count < t.bits, t.bits - count, 0)
        found = where(count == 0, 0, found << rest >> rest)
    else:
        found = found & ((x.const(1) << count) - 1)
    code.write(d, found)


@ARITHMETIC(5, "bfi")
def _insert(code, modifiers, d, a, b, start, count):
    t = SCALARS[modifiers.last("b32", "b64")]
    x, y = code.read(a, t), code.read(b, t)
    start, count = _field(code, start, count, t)
    mask = ((x.const(1) << count) - 1) << start
    code.write(d, (y & ~mask) | (x << start & mask))


def _field(code, start, count, t):
    """The bits of a field: their first and their number, below 256."""
    return [(code.read(x, T.u32) & 255).cast(t) for x in (start, count)]


@ARITHMETIC(2, "popc", "clz", "brev")
def _count(code, modifiers, d, a):
    name, t = modifiers.name.partition(".")[0], SCALARS[modifiers.last("b32", "b64")]
    made = row(name, code.read(a, t))
    code.write(d, made if name == "brev" else made.cast(T.u32))


@ARITHMETIC(2, "bfind")
def _leading(code, modifiers, d, a):
    t = SCALARS[modifiers.last("u32", "s32", "u64", "s64")]
    shift = modifiers.take("shiftamt")
    x = code.read(a, t)
    x = (where(x < 0, ~x, x) if t.signed else x).ubits
    zeros = row("clz", x).cast(T.u32)
    code.write(d, where(x == 0, zeros.const(-1 & 0xFFFFFFFF), zeros if shift else t.bits - 1 - zeros))


@ARITHMETIC(4, "prmt")
def _permute(code, modifiers, d, a, b, selector):
    if modifiers.left != ["b32"]:
        modifiers.refuse()
    xs, known = [code.read(x, T.u32) for x in (a, b)], code.known(selector)
    if known is None:
        code.write(d, _permuted(join(xs), code.read(selector, T.u32)))
        return
    total = None
    for k in range(4):
        pick = known >> 4 * k & 15
        x, at = xs[pick >> 2 & 1], 8 * (pick & 3)
        if pick & 8:  # the byte's sign
            byte = (x.bitcast(T.i32) << 24 - at >> 31).bitcast(T.u32) & 0xFF << 8 * k
        else:
            byte = (x >> at - 8 * k if at > 8 * k else x << 8 * k - at if at < 8 * k else x) & 0xFF << 8 * k
        total = byte if total is None else total | byte
    code.write(d, total)


def _permuted(both, selector):
    total = None
    for k in range(4):
        pick = selector >> 4 * k
        byte = (both >> (pick & 7).cast(T.u64) * 8).cast(T.u8)
        sign = (byte.bitcast(T.i8) >> 7).bitcast(T.u8)
        byte = where((pick & 8) != 0, sign, byte).cast(T.u32) << 8 * k
        total = byte if total is None else total | byte
    return total


@ARITHMETIC(5, "lop3")
def _lookup(code, modifiers, d, a, b, c, table):
    if modifiers.left != ["b32"]:
        modifiers.refuse()
    xs, known = [code.read(x, T.u32) for x in (a, b, c)], code.known(table)
    if known is not None:
        made = _table(f"{known & 255:08b}", xs)
        code.write(d, made if type(made) is Expr else xs[0].const(made))
        return
    table, total = code.read(table, T.u32), xs[0].const(0)
    for k in range(8):
        bit = 0 - (table >> k & 1)
        total = total | bit & (xs[0] if k & 4 else ~xs[0]) & (xs[1] if k & 2 else ~xs[1]) & (
            xs[2] if k & 1 else ~xs[2])
    code.write(d, total)


_ONES = 0xFFFFFFFF


def _table(bits, xs):
    """The function of `xs` whose values, the highest index first, are `bits`; 0 or _ONES where it is constant."""
    if "1" not in bits or "0" not in bits:
        return _ONES if "1" in bits else 0
    x, half = xs[0], len(bits) // 2
    high, low = _table(bits[:half], xs[1:]), _table(bits[half:], xs[1:])
    if bits[:half] == bits[half:]:
        return high
    if type(high) is int and type(low) is int:
        return x if high else ~x
    if type(high) is int:
        return x | low if high else ~x & low
    if type(low) is int:
        return ~x | high if low else x & high
    if all(p != q for p, q in zip(bits[:half], bits[half:])):
        return x ^ low
    return (x & high) | (~x & low)


# --- integers and floats ----------------------------------------------------------------------------------------------
def _rounding(modifiers, kind):
    """`.rn`, `.rz`, `.rm`, `.rp` or none; only f32 and f64 are rounded otherwise than to nearest."""
    found = modifiers.take("rn", "rz", "rm", "rp")
    if found in DIRECTIONS and SCALARS.get(kind, PACKED.get(kind)) not in (T.f32, T.f64):
        modifiers.refuse()
    modifiers.take("ftz")
    return found


def _directed(name, rounding):
    """A row rounded in a direction, or the plain one."""
    full = f"{name}_{DIRECTIONS[rounding]}" if rounding in DIRECTIONS else name
    return lambda *xs: row(full, *xs)


@ARITHMETIC(3, "add", "sub", "mul")
def _arithmetic(code, modifiers, d, a, b):
    name = modifiers.name.partition(".")[0]
    kind = modifiers.last(*_INTS, *_FLOATS, "u16x2", "s16x2")
    if kind in _FLOATS:
        rounding = _rounding(modifiers, kind)
        # .rn says that no sum is fused with a product
        apart = rounding == "rn" and _form(kind)[0] in (T.f32, T.f64)
        plain = _directed(f"{name}_rn" if apart else name, rounding)
        _lanes(code, kind, _finish(modifiers, plain), d, a, b)
    elif name == "mul":
        _multiply(code, modifiers, kind, d, a, b, None)
    elif modifiers.take("sat"):
        if kind != "s32" or modifiers.left:
            modifiers.refuse()
        x, y = (code.read(v, T.i32).cast(T.i64) for v in (a, b))
        wide = row(name, x, y)
        code.write(d, minimum(maximum(wide, wide.const(-1 << 31)), wide.const((1 << 31) - 1)).cast(T.i32))
    else:
        _lanes(code, kind, _finish(modifiers, lambda x, y: row(name, x, y)), d, a, b)


def _multiply(code, modifiers, kind, d, a, b, c):
    """mul and mad of integers: the low half, the high half, or both."""
    part = modifiers.need("lo", "hi", "wide")
    if modifiers.left or kind in PACKED or part == "wide" and kind[1:] == "64":
        modifiers.refuse()
    t = SCALARS[kind]
    x, y = code.read(a, t), code.read(b, t)
    letter = "s" if t.signed else "u"
    if part == "wide" or part == "hi" and t.bits == 16:
        wide = SCALARS[f"{letter}{2 * t.bits}"]
        made = x.cast(wide) * y.cast(wide)
        made = made if part == "wide" else (made >> 16).cast(t)
    else:
        made = row("mulhi", x, y) if part == "hi" else x * y
    code.write(d, made if c is None else made + code.read(c, made.element))


@ARITHMETIC(4, "mad", "fma")
def _fused(code, modifiers, d, a, b, c):
    kind = modifiers.last(*_FLOATS, *(_INTS if modifiers.name.startswith("mad") else ()))
    if kind not in _FLOATS:
        _multiply(code, modifiers, kind, d, a, b, c)
        return
    rounding = _rounding(modifiers, kind)
    fn = _directed("fma", rounding) if rounding in DIRECTIONS else fma
    _lanes(code, kind, _finish(modifiers, fn), d, a, b, c)


@ARITHMETIC(3, "div")
def _divide(code, modifiers, d, a, b):
    kind = modifiers.last("f32", "f64", *_INTS)
    if kind not in _FLOATS:
        _lanes(code, kind, _finish(modifiers, lambda x, y: x / y), d, a, b)
        return
    name = "div" if modifiers.take("approx", "full") else "div_rn"
    rounding = _rounding(modifiers, kind)
    fn = _directed("div", rounding) if rounding in DIRECTIONS else lambda x, y: row(name, x, y)
    _lanes(code, kind, _finish(modifiers, fn), d, a, b)


@ARITHMETIC(3, "rem")
def _remainder(code, modifiers, d, a, b):
    _lanes(code, modifiers.last(*_INTS), _finish(modifiers, lambda x, y: x % y), d, a, b)


@ARITHMETIC(2, "rcp", "sqrt", "rsqrt")
def _root(code, modifiers, d, a):
    name, kind = modifiers.name.partition(".")[0], modifiers.last("f32", "f64")
    approximate = modifiers.take("approx")
    rounding = _rounding(modifiers, kind)
    if not (approximate or rounding) or approximate and kind == "f64" and name != "rsqrt":
        modifiers.refuse()
    if name == "rsqrt":
        fn = (lambda x: row("rsqrt", x)) if approximate else modifiers.refuse()
    elif rounding in DIRECTIONS:
        directed = _directed("div" if name == "rcp" else "sqrt", rounding)
        fn = (lambda x: directed(x.const(1.0), x)) if name == "rcp" else directed
    elif approximate:
        fn = (lambda x: 1.0 / x) if name == "rcp" else sqrt
    else:
        fn = (lambda x: row("div_rn", x.const(1.0), x)) if name == "rcp" else lambda x: row("sqrt_rn", x)
    _lanes(code, kind, _finish(modifiers, fn), d, a)


_FUNCTIONS = {"ex2": "exp2", "lg2": "log2", "sin": "sin", "cos": "cos", "tanh": "tanh"}


@ARITHMETIC(2, *_FUNCTIONS)
def _function(code, modifiers, d, a):
    opcode = modifiers.name.partition(".")[0]
    narrow = ("f16", "bf16", "f16x2", "bf16x2") if opcode in ("ex2", "tanh") else ()
    kind = modifiers.last("f32", *narrow)
    modifiers.need("approx")
    modifiers.take("ftz")
    fn = lambda x: row(_FUNCTIONS[opcode], x.cast(T.f32)).cast(x.element)
    _lanes(code, kind, _finish(modifiers, fn), d, a)


@ARITHMETIC(2, "neg", "abs")
def _sign(code, modifiers, d, a):
    """Of floats the sign bit changes, also of NaN."""
    negates, kind = modifiers.name.startswith("neg"), modifiers.last(*_INTS, *_FLOATS)
    modifiers.take("ftz")
    if kind not in _FLOATS:
        fn = (lambda x: 0 - x) if negates else abs
    else:
        top = 1 << _form(kind)[0].bits - 1
        fn = lambda x: (x.ubits ^ top if negates else x.ubits & top - 1).bitcast(x.element)
    _lanes(code, kind, _finish(modifiers, fn), d, a)


@ARITHMETIC(3, "copysign")
def _copysign(code, modifiers, d, a, b):
    fn = lambda sign, x: row("copysign", x, sign)
    _lanes(code, modifiers.last("f32", "f64"), _finish(modifiers, fn), d, a, b)


@ARITHMETIC(3, "min", "max")
def _extreme(code, modifiers, d, a, b):
    """-0 lies below +0; a NaN loses unless `.NaN` says that it wins."""
    name, kind = modifiers.name.partition(".")[0], modifiers.last(*_INTS, *_FLOATS, "u16x2", "s16x2")
    fn = lambda x, y: row(name, x, y)
    if kind in _FLOATS:
        modifiers.take("ftz")
        full = f"{name}_nan" if modifiers.take("NaN") else name
        signs = modifiers.take("xorsign")
        if signs:
            modifiers.need("abs")

        def fn(x, y):
            sign = x.ubits ^ y.ubits
            x, y = (abs(x), abs(y)) if signs else (x, y)
            zeros = x.ubits | y.ubits if name == "min" else x.ubits & y.ubits
            found = where(x == y, zeros.bitcast(x.element), row(full, x, y))
            top = 1 << x.element.bits - 1
            return (found.ubits & top - 1 | sign & top).bitcast(x.element) if signs else found
    _lanes(code, kind, _finish(modifiers, fn), d, a, b)


@ARITHMETIC(4, "sad")
def _differences(code, modifiers, d, a, b, c):
    fn = lambda x, y, z: maximum(x, y) - minimum(x, y) + z
    _lanes(code, modifiers.last(*_INTS), _finish(modifiers, fn), d, a, b, c)


@ARITHMETIC(4, "dp4a")
def _dot(code, modifiers, d, a, b, c):
    kinds = [modifiers.last("u32", "s32") for _ in range(2)][::-1]
    if modifiers.left:
        modifiers.refuse()
    parts = [[x.bitcast(T.i8 if kind == "s32" else T.u8).cast(T.i32) for x in split(code.read(v, T.u32), 8)]
             for v, kind in zip((a, b), kinds)]
    total = code.read(c, T.i32)
    for x, y in zip(*parts):
        total = total + x * y
    code.write(d, total)


# --- comparison -------------------------------------------------------------------------------------------------------
_COMPARE = {"eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y, "le": lambda x, y: x <= y,
            "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y}  # fmt: skip
_UNSIGNED_NAMES = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def _nan(x, y):
    return (x != x) | (y != y)


def _compared(code, modifiers, kind, a, b):
    t, name = SCALARS[kind], modifiers.left.pop(0) if modifiers.left else ""
    modifiers.take("ftz")
    x, y = code.read(a, t), code.read(b, t)
    if t.is_float:
        if name in ("num", "nan"):
            return _nan(x, y) if name == "nan" else ~_nan(x, y)
        if name == "ne":
            return (x != y) & ~_nan(x, y)
        if name[-1:] == "u" and name[:-1] in _COMPARE:
            return _COMPARE[name[:-1]](x, y) | _nan(x, y)
    elif not t.signed:
        name = _UNSIGNED_NAMES.get(name, name)
    return _COMPARE[name](x, y) if name in _COMPARE else modifiers.refuse()


_COMPARED = ["f16", "bf16", "f32", "f64", *_BITS, *_INTS]


@ARITHMETIC((3, 4), "setp")
def _set_predicate(code, modifiers, d, a, b, *rest):
    found = _compared(code, modifiers, modifiers.last(*_COMPARED), a, b)
    if rest:
        found = _LOGIC[modifiers.need(*_LOGIC)](found, code.read(rest[0], T.i1))
    if modifiers.left:
        modifiers.refuse()
    code.write(d, found)


@ARITHMETIC(3, "set")
def _set(code, modifiers, d, a, b):
    source = modifiers.last(*_COMPARED)
    t = SCALARS[modifiers.last("u32", "s32", "f32")]
    found = _compared(code, modifiers, source, a, b)
    if modifiers.left:
        modifiers.refuse()
    one = code.number(1.0 if t.is_float else -1, t)
    code.write(d, where(found, one, one.const(0)))


@ARITHMETIC(4, "selp")
def _select(code, modifiers, d, a, b, p):
    t = SCALARS[modifiers.last("f32", "f64", *_BITS, *_INTS)]
    if modifiers.left:
        modifiers.refuse()
    code.write(d, where(code.read(p, T.i1), code.read(a, t), code.read(b, t)))


@ARITHMETIC(4, "slct")
def _select_positive(code, modifiers, d, a, b, c):
    condition = SCALARS[modifiers.last("s32", "f32")]
    t = SCALARS[modifiers.last("f32", "f64", *_BITS, *_INTS)]
    modifiers.take("ftz")
    if modifiers.left:
        modifiers.refuse()
    x = code.read(c, condition)
    code.write(d, where(x >= x.const(0), code.read(a, t), code.read(b, t)))
