"""Implicit kernel arguments: tensor maps for TMA, and the grid of a persistent kernel.

Tensor maps are functions of the arguments (`tensor_map.Template`). The native launcher evaluates them from the slots
and has the driver encode a map again only if a value differs from the last launch; if only the address differs, the
driver replaces that.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any

from ...llvm.structs import Struct, resolve
from . import tensor_map
from .tensor_map import MOST_MAPS

__all__ = ["IMPLICIT", "MOST_MAPS", "ImplicitArguments", "text"]

_NO_MAP = "u8"  # spans are never described to the driver: their elements are bytes to it


# One tensor.
_MAP = Struct(
    "map",
    type="i32",
    rank="i32",
    swizzle="i32",
    state="i32",  # 0 not encoded yet, 1 encoded, 2 there is no such map
    map="ptr",
    box="[5 x i32]",  # fastest axis first, like the values
    ones="[5 x i32]",
    count="i64",
    values="[10 x i64]",  # address, elements on each axis, bytes between those of all but the fastest
    sums="ptr",  # for each value: how many terms, and those
    size="i64",  # of an element
)
_TERM = Struct("term", factor="i64", x="i64", y="i64")  # and up to two slots, or -1

IMPLICIT = Struct(
    "implicit",
    maps="i64",
    persistent="i64",
    places="i64",  # programs that fit on the device at once
    slots="i64",
    map=f"[{MOST_MAPS} x ptr]",
    loads="i64",  # maps of tensors that may not meet the spans
    spans="i64",
    meet="i64",  # whether they do in the launch under way
    span=f"[{MOST_MAPS} x ptr]",
)


class ImplicitArguments:
    """The implicit arguments of one kernel, in the memory the native launcher reads.

    `maps` are templates of tensor maps; slots are numbered as the kernel's arguments. `stores` is (number of maps,
    spans): the tensors of the first maps must be disjoint from the spans in memory.
    """

    def __init__(self, maps: Sequence[tuple], persistent: bool, slots: int, stores: tuple = ()):
        self._kept = []
        loads, spans = stores or (0, ())
        self.maps = [self._map(tensor_map.Template(*template)) for template in maps]
        self.spans = [self._map(tensor_map.Template(_NO_MAP, size, base, offset, dims, (1,) * len(dims), 0))
                      for size, base, offset, dims in spans]
        self.memory = IMPLICIT.ctype(maps=len(maps), persistent=persistent, slots=slots, loads=loads, spans=len(spans))
        for k, found in enumerate(self.maps):
            self.memory.map[k] = ctypes.addressof(found)
        for k, found in enumerate(self.spans):
            self.memory.span[k] = ctypes.addressof(found)

    @property
    def address(self) -> int:
        """The address of the record."""
        return ctypes.addressof(self.memory)

    def _map(self, template: tensor_map.Template) -> Any:
        byte = lambda terms: [(factor * template.size, slots) for factor, slots in terms]
        sums = [[(1, (template.base,)), *byte(template.offset)]]
        sums += [elements for elements, _ in reversed(template.dims)]
        sums += [byte(distance) for _, distance in reversed(template.dims[:-1])]
        words = [word for terms in sums for word in (len(terms), *(x for term in terms for x in _three(term)))]
        program, memory = (ctypes.c_int64 * len(words))(*words), (ctypes.c_char * 192)()
        start = ctypes.addressof(memory) + -ctypes.addressof(memory) % 64
        self._kept += [program, memory]
        return _MAP.ctype(type=tensor_map.TYPES[template.element], rank=len(template.dims),
                          swizzle=tensor_map.SWIZZLES[template.swizzle], map=start,
                          box=tuple(reversed(template.box)), ones=(1,) * 5, count=len(sums),
                          sums=ctypes.addressof(program), size=template.size)

    def fit(self, sizes: Sequence[int]) -> bool:
        """True if the driver could encode all tensor maps of the current launch, on a grid of these sizes, and the
        tensors that must be disjoint are."""
        return all(found.state == 1 for found in self.maps) and not self.memory.meet and math.prod(sizes) < 1 << 31

    def settle(self, count: Callable[[], int]) -> None:
        """Find the number of resident programs by `count()`; only for persistent kernels, and once."""
        if self.memory.persistent and not self.memory.places:
            self.memory.places = max(1, count())


def _three(term: tuple[int, Sequence[int]]) -> tuple[int, ...]:
    factor, slots = term
    return (factor, *slots, *[-1] * (2 - len(slots)))


_TEXT = """
; The value of a slot, or 1 for none.
define internal i64 @factor(ptr %slots, i64 %which) nounwind {
entry:
  %none = icmp slt i64 %which, 0
  br i1 %none, label %one, label %some
one:
  ret i64 1
some:
  %p = getelementptr i64, ptr %slots, i64 %which
  %x = load i64, ptr %p
  ret i64 %x
}

; Compute the values of a map: whether any but the address changed, whether the address did.
define internal {i1, i1} @evaluate(ptr %map, ptr %slots) nounwind {
entry:
  %count.p = field map.count of %map
  %count = load i64, ptr %count.p
  %values = field map.values of %map
  %sums.p = field map.sums of %map
  %sums = load ptr, ptr %sums.p
  br label %value
value:
  %v = phi i64 [0, %entry], [%v1, %sum]
  %at = phi ptr [%sums, %entry], [%next, %sum]
  %changed = phi i1 [false, %entry], [%changed1, %sum]
  %moved = phi i1 [false, %entry], [%moved1, %sum]
  %all = icmp eq i64 %v, %count
  br i1 %all, label %done, label %begin
begin:
  %n = load i64, ptr %at
  %first = getelementptr i64, ptr %at, i64 1
  br label %term
term:
  %t = phi i64 [0, %begin], [%t1, %add]
  %total = phi i64 [0, %begin], [%total1, %add]
  %next = phi ptr [%first, %begin], [%next1, %add]
  %last = icmp eq i64 %t, %n
  br i1 %last, label %sum, label %add
add:
  %times.p = field term.factor of %next
  %times = load i64, ptr %times.p
  %a.p = field term.x of %next
  %a = load i64, ptr %a.p
  %b.p = field term.y of %next
  %b = load i64, ptr %b.p
  %x = call i64 @factor(ptr %slots, i64 %a)
  %y = call i64 @factor(ptr %slots, i64 %b)
  %xy = mul i64 %x, %y
  %part = mul i64 %times, %xy
  %total1 = add i64 %total, %part
  %t1 = add i64 %t, 1
  %next1 = getelementptr %term, ptr %next, i64 1
  br label %term
sum:
  %old.p = getelementptr i64, ptr %values, i64 %v
  %old = load i64, ptr %old.p
  %differs = icmp ne i64 %old, %total
  %is_address = icmp eq i64 %v, 0
  %moved1 = select i1 %is_address, i1 %differs, i1 %moved
  %other = select i1 %is_address, i1 false, i1 %differs
  %changed1 = or i1 %changed, %other
  store i64 %total, ptr %old.p
  %v1 = add i64 %v, 1
  br label %value
done:
  %first.out = insertvalue {i1, i1} poison, i1 %changed, 0
  %out = insertvalue {i1, i1} %first.out, i1 %moved, 1
  ret {i1, i1} %out
}

; Bring a map up to date; false if the driver cannot describe the tensor.
define internal i1 @describe(ptr %map, ptr %slots) nounwind {
entry:
  %news = call {i1, i1} @evaluate(ptr %map, ptr %slots)
  %changed = extractvalue {i1, i1} %news, 0
  %moved = extractvalue {i1, i1} %news, 1
  %values = field map.values of %map
  %state.p = field map.state of %map
  %state = load i32, ptr %state.p
  %made = icmp eq i32 %state, 1
  %bytes.p = field map.map of %map
  %bytes = load ptr, ptr %bytes.p
  %address = load ptr, ptr %values
  %keep = xor i1 %changed, true
  %right = and i1 %made, %keep
  br i1 %right, label %where, label %again
where:
  br i1 %moved, label %exchange, label %known
known:
  ret i1 true
exchange:
  %exchanged = call i32 @cuTensorMapReplaceAddress(ptr %bytes, ptr %address)
  %fine = icmp eq i32 %exchanged, 0
  br i1 %fine, label %known, label %ask
again:                                            ; not made yet, or for another tensor, or refused
  %differs.any = or i1 %changed, %moved
  %refused = icmp eq i32 %state, 2
  %same = xor i1 %differs.any, true
  %still = and i1 %refused, %same
  br i1 %still, label %no, label %ask
no:
  ret i1 false
ask:
  %type.p = field map.type of %map
  %type = load i32, ptr %type.p
  %rank.p = field map.rank of %map
  %rank = load i32, ptr %rank.p
  %swizzle.p = field map.swizzle of %map
  %swizzle = load i32, ptr %swizzle.p
  %box = field map.box of %map
  %ones = field map.ones of %map
  %dims = getelementptr i64, ptr %values, i64 1
  %rank.i = zext i32 %rank to i64
  %strides = getelementptr i64, ptr %dims, i64 %rank.i
  %code = call i32 @cuTensorMapEncodeTiled(ptr %bytes, i32 %type, i32 %rank, ptr %address, ptr %dims, ptr %strides,
                                           ptr %box, ptr %ones, i32 0, i32 %swizzle, i32 2, i32 0)
  %good = icmp eq i32 %code, 0
  %state1 = select i1 %good, i32 1, i32 2
  store i32 %state1, ptr %state.p
  ret i1 %good
}

; Where the tensor of a map ends.
define internal i64 @end_of(ptr %map) nounwind {
entry:
  %rank.p = field map.rank of %map
  %rank.n = load i32, ptr %rank.p
  %rank = zext i32 %rank.n to i64
  %size.p = field map.size of %map
  %size = load i64, ptr %size.p
  %values = field map.values of %map
  %address = load i64, ptr %values
  %first = add i64 %address, %size
  br label %next
next:
  %k = phi i64 [0, %entry], [%k1, %one]
  %end = phi i64 [%first, %entry], [%end1, %one]
  %stride = phi i64 [%size, %entry], [%stride1, %one]
  %all = icmp eq i64 %k, %rank
  br i1 %all, label %done, label %one
one:
  %k1 = add i64 %k, 1
  %elements.p = getelementptr i64, ptr %values, i64 %k1
  %elements = load i64, ptr %elements.p
  %steps = sub i64 %elements, 1
  %bytes = mul i64 %steps, %stride
  %end1 = add i64 %end, %bytes
  %behind = add i64 %rank, %k1
  %stride.p = getelementptr i64, ptr %values, i64 %behind
  %stride1 = load i64, ptr %stride.p
  br label %next
done:
  ret i64 %end
}

; Whether two tensors share memory.
define internal i1 @overlap(ptr %a, ptr %b) nounwind {
entry:
  %a.values = field map.values of %a
  %b.values = field map.values of %b
  %a.start = load i64, ptr %a.values
  %b.start = load i64, ptr %b.values
  %a.end = call i64 @end_of(ptr %a)
  %b.end = call i64 @end_of(ptr %b)
  %a.first = icmp ult i64 %a.start, %b.end
  %b.first = icmp ult i64 %b.start, %a.end
  %out = and i1 %a.first, %b.first
  ret i1 %out
}

; Whether one of a kernel's spans meets a tensor it may not meet; noted for Python too.
define internal i1 @spans_meet(ptr %implicit, ptr %slots) nounwind {
entry:
  %loads.p = field implicit.loads of %implicit
  %loads = load i64, ptr %loads.p
  %spans.p = field implicit.spans of %implicit
  %spans = load i64, ptr %spans.p
  %meet.p = field implicit.meet of %implicit
  %maps = field implicit.map of %implicit
  %list = field implicit.span of %implicit
  br label %span
span:
  %j = phi i64 [0, %entry], [%j1, %inner]
  %met = phi i1 [false, %entry], [%so.far, %inner]
  %all = icmp eq i64 %j, %spans
  br i1 %all, label %done, label %begin
begin:
  %j1 = add i64 %j, 1
  %span.p = getelementptr ptr, ptr %list, i64 %j
  %one.span = load ptr, ptr %span.p
  %news = call {i1, i1} @evaluate(ptr %one.span, ptr %slots)
  br label %inner
inner:
  %k = phi i64 [0, %begin], [%k1, %pair]
  %so.far = phi i1 [%met, %begin], [%or, %pair]
  %last = icmp eq i64 %k, %loads
  br i1 %last, label %span, label %pair
pair:
  %k1 = add i64 %k, 1
  %map.p = getelementptr ptr, ptr %maps, i64 %k
  %map = load ptr, ptr %map.p
  %both = call i1 @overlap(ptr %map, ptr %one.span)
  %or = or i1 %so.far, %both
  br label %inner
done:
  %noted = zext i1 %met to i64
  store i64 %noted, ptr %meet.p
  ret i1 %met
}

; Bring all maps of a kernel up to date; false if there is one the driver cannot make, or tensors meet that may not.
define internal i1 @describe_all(ptr %implicit, ptr %slots) nounwind {
entry:
  %count.p = field implicit.maps of %implicit
  %count = load i64, ptr %count.p
  %maps = field implicit.map of %implicit
  br label %next
next:
  %k = phi i64 [0, %entry], [%k1, %one]
  %good = phi i1 [true, %entry], [%good1, %one]
  %all = icmp eq i64 %k, %count
  br i1 %all, label %done, label %one
one:
  %map.p = getelementptr ptr, ptr %maps, i64 %k
  %map = load ptr, ptr %map.p
  %fine = call i1 @describe(ptr %map, ptr %slots)
  %good1 = and i1 %good, %fine
  %k1 = add i64 %k, 1
  br label %next
done:
  %meet = call i1 @spans_meet(ptr %implicit, ptr %slots)
  %disjoint = xor i1 %meet, true
  %out = and i1 %good, %disjoint
  ret i1 %out
}

; Add a kernel's implicit arguments behind the others: the grid (at %sizes), the maps. How many programs to start.
define internal i64 @add_implicit(ptr %implicit, ptr %parameters, ptr %sizes, i64 %programs) nounwind {
entry:
  %slots.p = field implicit.slots of %implicit
  %slots = load i64, ptr %slots.p
  %behind = getelementptr ptr, ptr %parameters, i64 %slots
  %persistent.p = field implicit.persistent of %implicit
  %persistent.i = load i64, ptr %persistent.p
  %persistent = icmp ne i64 %persistent.i, 0
  %places.p = field implicit.places of %implicit
  %places = load i64, ptr %places.p
  %fewer = icmp ult i64 %programs, %places
  %start = select i1 %fewer, i64 %programs, i64 %places
  br i1 %persistent, label %grid, label %maps
grid:
  store ptr %sizes, ptr %behind
  %y.p = getelementptr ptr, ptr %behind, i64 1
  %y = getelementptr i64, ptr %sizes, i64 1
  store ptr %y, ptr %y.p
  %z.p = getelementptr ptr, ptr %behind, i64 2
  %z = getelementptr i64, ptr %sizes, i64 2
  store ptr %z, ptr %z.p
  %further = getelementptr ptr, ptr %behind, i64 3
  br label %maps
maps:
  %out = phi ptr [%behind, %entry], [%further, %grid]
  %count.p = field implicit.maps of %implicit
  %count = load i64, ptr %count.p
  %first = field implicit.map of %implicit
  br label %next
next:
  %k = phi i64 [0, %maps], [%k1, %one]
  %all = icmp eq i64 %k, %count
  br i1 %all, label %done, label %one
one:
  %map.p = getelementptr ptr, ptr %first, i64 %k
  %map = load ptr, ptr %map.p
  %bytes.p = field map.map of %map
  %bytes = load ptr, ptr %bytes.p
  %parameter = getelementptr ptr, ptr %out, i64 %k
  store ptr %bytes, ptr %parameter
  %k1 = add i64 %k, 1
  br label %next
done:
  ret i64 %start
}
"""


def text() -> str:
    """The LLVM text that evaluates tensor maps and adds implicit arguments.

    >>> text().count("define internal i64 @add_implicit(")
    1
    """
    structs = (_MAP, _TERM, IMPLICIT)
    return resolve("\n".join((*(struct.definition for struct in structs), _TEXT)), *structs)
