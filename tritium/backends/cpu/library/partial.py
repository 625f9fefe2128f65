"""Loads and stores of some lanes of a chunk: the cold path of masked accesses where the CPU has no masked instructions.

For each element size of 1, 2, 4 and 8 bytes:

    tt.copy.SIZE(ptr to, ptr from, i64 count)                       to[l] = from[l] for l below count
    tt.load.SIZE(ptr chunk, ptr source, i64 lanes, i64 stride)      chunk[l] = source[l * stride bytes]
    tt.store.SIZE(ptr chunk, ptr target, i64 lanes, i64 stride)     target[l * stride bytes] = chunk[l]
    tt.gather.SIZE(ptr chunk, ptr pointers, i64 lanes)              chunk[l] = *pointers[l]
    tt.scatter.SIZE(ptr chunk, ptr pointers, i64 lanes)             *pointers[l] = chunk[l]

`lanes` has a bit for each active lane of up to 64, others are not touched: a load's caller fills the chunk with
the value masked-off lanes get. Plain C functions over memory leave the registers of the hot path alone.
"""

from __future__ import annotations

from ...llvm.notation import expand

SIZES = (1, 2, 4, 8)
_VERBS = ("copy", "load", "store", "gather", "scatter")
SYMBOLS = {size: tuple(f"tt.{verb}.{size}" for verb in _VERBS) for size in SIZES}

_COPY = """
define void @tt.copy.{size}(ptr %to, ptr %from, i64 %count) nounwind cold noinline {{
entry:
  ret void unless icmp sgt i64 %count, 0
lane:
  %l = phi i64 [0, %entry], [%next, %lane]
  %source = getelementptr i{bits}, ptr %from, i64 %l
  %target = getelementptr i{bits}, ptr %to, i64 %l
  %x = load i{bits}, ptr %source, align 1
  store i{bits} %x, ptr %target, align 1
  %next = add i64 %l, 1
  jump %lane if icmp slt i64 %next, %count
  ret void
}}
"""

_LOOP = """
define void @tt.{name}.{size}(ptr %chunk, ptr %memory, i64 %lanes{stride}) nounwind cold noinline {{
entry:
  ret void if icmp eq i64 %lanes, 0
lane:
  %left = phi i64 [%lanes, %entry], [%rest, %lane]
  %l = call i64 @llvm.cttz.i64(i64 %left, i1 true)
  %mine = getelementptr i{bits}, ptr %chunk, i64 %l
{address}
  %x = load i{bits}, ptr %{source}, align 1
  store i{bits} %x, ptr %{target}, align 1
  %below = sub i64 %left, 1
  %rest = and i64 %left, %below
  jump %lane unless icmp eq i64 %rest, 0
  ret void
}}
"""
_STRIDED = """  %offset = mul i64 %l, %stride
  %other = getelementptr i8, ptr %memory, i64 %offset"""
_LISTED = "  %other = load ptr, item ptr %l of %memory"
_FORMS = (
    ("load", ", i64 %stride", _STRIDED, "other", "mine"),
    ("store", ", i64 %stride", _STRIDED, "mine", "other"),
    ("gather", "", _LISTED, "other", "mine"),
    ("scatter", "", _LISTED, "mine", "other"),
)


def partial(size: int) -> str:
    """The LLVM text of the helpers for elements of `size` bytes.

    >>> partial(4).count("define void")
    5
    """
    forms = (_LOOP.format(name=name, size=size, bits=8 * size, stride=stride, address=address, source=source,
                          target=target) for name, stride, address, source, target in _FORMS)
    return expand("".join(("declare i64 @llvm.cttz.i64(i64, i1)", _COPY.format(size=size, bits=8 * size), *forms)))
