"""Elements: their LLVM types, and the 32-bit words they travel in between threads and memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ....ir import types as T
from ....later import np
from ....ops.meaning import convert
from ...llvm.writer import Val, Writer, lanes, value
from ...llvm.writer import vector as vector_of

if TYPE_CHECKING:
    from ...llvm.numbering import NumberingWriter
    from .function import Lowering

_NAMES = {"i1": "i1", "f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}
_BYTES = {"half": 2, "bfloat": 2, "float": 4, "double": 8}


def llvm_type(t: T.Type) -> str:
    """LLVM's name of an element type: 8-bit floats are their codes, pointers global.

    >>> llvm_type(T.u16), llvm_type(T.Ptr(T.f32)), llvm_type(T.f8e5)
    ('i16', 'ptr addrspace(1)', 'i8')
    """
    element = T.element(t)
    if type(element) is T.Ptr:
        return "ptr addrspace(1)"
    return _NAMES.get(element.name) or f"i{element.bits}"


def bytes_of(kind: str) -> int:
    """Bytes of an LLVM element type.

    >>> bytes_of("bfloat"), bytes_of("i1"), bytes_of("ptr addrspace(1)")
    (2, 1, 8)
    """
    return _BYTES.get(kind) or (8 if kind.startswith("ptr") else max(1, int(kind[1:]) // 8))


def memory_type(t: T.Scalar | T.Ptr) -> str:
    """The LLVM type of an element in memory: bools are bytes, pointers integers.

    >>> memory_type(T.i1), memory_type(T.Ptr(T.f32)), memory_type(T.f16)
    ('i8', 'i64', 'half')
    """
    return "i8" if t is T.i1 else "i64" if type(t) is T.Ptr else llvm_type(t)


def to_memory(w: NumberingWriter, t: T.Scalar | T.Ptr, x: Val) -> Val:
    """A value as memory holds it."""
    return w.cast("zext", x, "i8") if t is T.i1 else w.cast("ptrtoint", x, "i64") if type(t) is T.Ptr else x


def constant(w: Writer, t: T.Scalar | T.Ptr, x: float) -> Val:
    """A number as a register holds it, rounded to its type; null for pointers.

    >>> [constant(Writer(), t, 1) for t in (T.i32, T.f32, T.bf16, T.f8e5)]
    ['1', '1.0', '0xR3F80', '60']
    """
    if type(t) is T.Ptr:
        return value(llvm_type(t), "null")
    if t is T.bf16 or (t.bits == 8 and t.is_float):
        code = int(np.asarray(convert(np.asarray(float(x)), T.f64, t)).view(f"u{t.bits // 8}"))
        return value("bfloat", f"0xR{code:04X}") if t is T.bf16 else w.const("i8", code)
    return w.const(llvm_type(t), x)


def pack(w: NumberingWriter, items: Sequence[Val]) -> Val:
    """Several values as one vector."""
    if len(items) == 1:
        return items[0]
    vector, first = w.neighbours(items) or (None, 0)
    if vector is not None and first == 0 and lanes(vector.type) == len(items):
        return vector
    out = value(vector_of(len(items), items[0].type), "poison")
    for k, x in enumerate(items):
        out = w.emit(out.type, f"insertelement {out.typed}, {x.typed}, i32 {k}", out, x)
    return out


def unpack(w: NumberingWriter, x: Val) -> list[Val]:
    """The values that a vector holds; a scalar is one."""
    count = lanes(x.type)
    return [x] if count == 1 else [w.extract(x, k) for k in range(count)]


def pack_words(g: Lowering, items: Sequence[Val]) -> list[Val]:
    """Elements as 32-bit words (64-bit ones as they are; fewer than 4 bytes as one small integer)."""
    w, size = g.w, bytes_of(items[0].type)
    if size == 8:
        return [w.cast("bitcast", x, "i64") for x in items]
    per = min(len(items), 4 // size)
    vector, first = w.neighbours(items) or (None, 0)
    if vector is not None and per > 1 and first % per == 0 and lanes(vector.type) % per == 0:
        words = w.cast("bitcast", vector, vector_of(lanes(vector.type) // per, f"i{8 * size * per}"))
        count = len(items) // per
        return [words] if words.type[0] == "i" else [w.extract(words, first // per + k) for k in range(count)]
    return [_packed_word(w, items[k : k + per]) for k in range(0, len(items), per)]


def _packed_word(w: NumberingWriter, items: Sequence[Val]) -> Val:
    """Elements as one integer; bytes that are neighbours by twos already move so."""
    if len(items) == 4 and w.neighbours(items) is None:
        pairs = [w.neighbours(items[k : k + 2]) for k in (0, 2)]
        halves = [_half(w, *pair) for pair in pairs if pair is not None and pair[1] % 2 == 0]
        items = halves if len(halves) == 2 else items
    return w.cast("bitcast", pack(w, items), f"i{8 * bytes_of(items[0].type) * len(items)}")


def _half(w: NumberingWriter, vector: Val, first: int) -> Val:
    """Two bytes of a vector as an i16."""
    count = lanes(vector.type) // 2
    pairs = w.cast("bitcast", vector, vector_of(count, "i16"))
    return w.extract(pairs, first // 2) if count > 1 else pairs


def unpack_word(g: Lowering, word: Val, kind: str) -> list[Val]:
    """The elements of LLVM type `kind` in an integer word, lowest first."""
    count = int(word.type[1:]) // (8 * bytes_of(kind))
    return unpack(g.w, g.w.cast("bitcast", word, vector_of(count, kind)))


def through_words(g: Lowering, x: Val, fn: Callable[[Val], Val]) -> Val:
    """Apply a function of 32-bit words to a value of any type."""
    w = g.w
    bits = 1 if x.type == "i1" else 8 * bytes_of(x.type)
    if x.type.startswith("ptr"):
        back = through_words(g, w.cast("ptrtoint", x, "i64"), fn)
        return w.cast("inttoptr", back, x.type)
    whole = w.cast("bitcast", x, f"i{bits}")
    if bits < 32:
        return w.cast("bitcast", w.cast("trunc", fn(w.cast("zext", whole, "i32")), f"i{bits}"), x.type)
    if bits == 32:
        return w.cast("bitcast", fn(whole), x.type)
    pair = w.cast("bitcast", whole, "<2 x i32>")
    low, high = (fn(w.extract(pair, k)) for k in range(2))
    both = w.insert(w.insert(value("<2 x i32>", "poison"), low, 0), high, 1)
    return w.cast("bitcast", both, x.type)
