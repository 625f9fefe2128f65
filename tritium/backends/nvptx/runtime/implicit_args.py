"""Implicit kernel arguments: tensor maps for TMA, and the grid of a persistent kernel.

Tensor maps are functions of the arguments and the grid (`tensor_map.Template`). The native launcher evaluates them and
has the driver encode a map again only if a value differs from the last launch; if only the address differs, the
driver replaces that.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any

from ...llvm.structs import Struct, resolve
from . import tensor_map
from .tensor_map import MOST_FACTORS, MOST_MAPS

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
_TERM = Struct("term", factor="i64", slots=f"[{MOST_FACTORS} x i64]")  # -1 - axis for the grid, or none
_NONE = -4

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
        words = [word for terms in sums for word in (len(terms), *(x for term in terms for x in _words(term)))]
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


def _words(term: tuple[int, Sequence[int]]) -> tuple[int, ...]:
    factor, slots = term
    return (factor, *slots, *[_NONE] * (MOST_FACTORS - len(slots)))


_TEXT = """
; The product of the slots of a term and its factor.
define internal i64 @product(ptr %term, ptr %slots, ptr %grid) nounwind {
entry:
  %times = load i64, field term.factor of %term
  %list = field term.slots of %term
next:
  %k = phi i64 [0, %entry], [%k1, %more]
  %so.far = phi i64 [%times, %entry], [%product, %more]
  ret i64 %so.far if icmp eq i64 %k, MOST_FACTORS
  %slot = load i64, item i64 %k of %list
  ret i64 %so.far if icmp eq i64 %slot, NONE
  %axis = xor i64 %slot, -1
  %of.grid = icmp slt i64 %slot, 0
  %from = select i1 %of.grid, ptr %grid, ptr %slots
  %which = select i1 %of.grid, i64 %axis, i64 %slot
more:
  %value = load i64, item i64 %which of %from
  %product = mul i64 %so.far, %value
  %k1 = add i64 %k, 1
  br label %next
}

; Compute the values of a map: whether any but the address changed, whether the address did.
define internal {i1, i1} @evaluate(ptr %map, ptr %slots, ptr %grid) nounwind {
entry:
  %count = load i64, field map.count of %map
  %values = field map.values of %map
  %sums = load ptr, field map.sums of %map
value:
  %v = phi i64 [0, %entry], [%v1, %sum]
  %at = phi ptr [%sums, %entry], [%next, %sum]
  %changed = phi i1 [false, %entry], [%changed1, %sum]
  %moved = phi i1 [false, %entry], [%moved1, %sum]
  jump %done if icmp eq i64 %v, %count
begin:
  %n = load i64, ptr %at
  %first = getelementptr i64, ptr %at, i64 1
term:
  %t = phi i64 [0, %begin], [%t1, %add]
  %total = phi i64 [0, %begin], [%total1, %add]
  %next = phi ptr [%first, %begin], [%next1, %add]
  jump %sum if icmp eq i64 %t, %n
add:
  %part = call i64 @product(ptr %next, ptr %slots, ptr %grid)
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
define internal i1 @describe(ptr %map, ptr %slots, ptr %grid) nounwind {
  %news = call {i1, i1} @evaluate(ptr %map, ptr %slots, ptr %grid)
  %changed = extractvalue {i1, i1} %news, 0
  %moved = extractvalue {i1, i1} %news, 1
  %values = field map.values of %map
  %state.p = field map.state of %map
  %state = load i32, ptr %state.p
  %made = icmp eq i32 %state, 1
  %bytes = load ptr, field map.map of %map
  %address = load ptr, ptr %values
  %keep = xor i1 %changed, true
  jump %again unless and i1 %made, %keep
  jump %exchange if %moved
known:
  ret i1 true
exchange:
  %exchanged = call i32 @cuTensorMapReplaceAddress(ptr %bytes, ptr %address)
  jump %known if icmp eq i32 %exchanged, 0 else %ask
again:                                            ; not made yet, or for another tensor, or refused
  %differs.any = or i1 %changed, %moved
  %refused = icmp eq i32 %state, 2
  %same = xor i1 %differs.any, true
  ret i1 false if and i1 %refused, %same
ask:
  %type, %rank, %swizzle = load type, rank, swizzle of map %map
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
  %rank.n = load i32, field map.rank of %map
  %rank = zext i32 %rank.n to i64
  %size = load i64, field map.size of %map
  %values = field map.values of %map
  %address = load i64, ptr %values
  %first = add i64 %address, %size
next:
  %k = phi i64 [0, %entry], [%k1, %one]
  %end = phi i64 [%first, %entry], [%end1, %one]
  %stride = phi i64 [%size, %entry], [%stride1, %one]
  ret i64 %end if icmp eq i64 %k, %rank
one:
  %k1 = add i64 %k, 1
  %elements = load i64, item i64 %k1 of %values
  %steps = sub i64 %elements, 1
  %bytes = mul i64 %steps, %stride
  %end1 = add i64 %end, %bytes
  %behind = add i64 %rank, %k1
  %stride1 = load i64, item i64 %behind of %values
  br label %next
}

; Whether two tensors share memory.
define internal i1 @overlap(ptr %a, ptr %b) nounwind {
  %a.start = load i64, field map.values of %a
  %b.start = load i64, field map.values of %b
  %a.end = call i64 @end_of(ptr %a)
  %b.end = call i64 @end_of(ptr %b)
  %a.first = icmp ult i64 %a.start, %b.end
  %b.first = icmp ult i64 %b.start, %a.end
  ret i1 and i1 %a.first, %b.first
}

; Whether one of a kernel's spans meets a tensor it may not meet; noted for Python too.
define internal i1 @spans_meet(ptr %implicit, ptr %slots, ptr %grid) nounwind {
entry:
  %loads, %spans = load loads, spans of implicit %implicit
  %meet.p = field implicit.meet of %implicit
  %maps = field implicit.map of %implicit
  %list = field implicit.span of %implicit
span:
  %j = phi i64 [0, %entry], [%j1, %inner]
  %met = phi i1 [false, %entry], [%so.far, %inner]
  jump %done if icmp eq i64 %j, %spans
begin:
  %j1 = add i64 %j, 1
  %one.span = load ptr, item ptr %j of %list
  %news = call {i1, i1} @evaluate(ptr %one.span, ptr %slots, ptr %grid)
inner:
  %k = phi i64 [0, %begin], [%k1, %pair]
  %so.far = phi i1 [%met, %begin], [%or, %pair]
  jump %span if icmp eq i64 %k, %loads
pair:
  %k1 = add i64 %k, 1
  %map = load ptr, item ptr %k of %maps
  %both = call i1 @overlap(ptr %map, ptr %one.span)
  %or = or i1 %so.far, %both
  br label %inner
done:
  %noted = zext i1 %met to i64
  store i64 %noted, ptr %meet.p
  ret i1 %met
}

; Bring all maps of a kernel up to date; false if there is one the driver cannot make, or tensors meet that may not.
define internal i1 @describe_all(ptr %implicit, ptr %slots, ptr %grid) nounwind {
entry:
  %count = load i64, field implicit.maps of %implicit
  %maps = field implicit.map of %implicit
next:
  %k = phi i64 [0, %entry], [%k1, %one]
  %good = phi i1 [true, %entry], [%good1, %one]
  jump %done if icmp eq i64 %k, %count
one:
  %map = load ptr, item ptr %k of %maps
  %fine = call i1 @describe(ptr %map, ptr %slots, ptr %grid)
  %good1 = and i1 %good, %fine
  %k1 = add i64 %k, 1
  br label %next
done:
  %meet = call i1 @spans_meet(ptr %implicit, ptr %slots, ptr %grid)
  %disjoint = xor i1 %meet, true
  ret i1 and i1 %good, %disjoint
}

; Add a kernel's implicit arguments behind the others: the grid (at %sizes), the maps. How many programs to start.
define internal i64 @add_implicit(ptr %implicit, ptr %parameters, ptr %sizes, i64 %programs) nounwind {
entry:
  %slots = load i64, field implicit.slots of %implicit
  %behind = getelementptr ptr, ptr %parameters, i64 %slots
  %persistent.i = load i64, field implicit.persistent of %implicit
  %persistent = icmp ne i64 %persistent.i, 0
  %places = load i64, field implicit.places of %implicit
  %fewer = icmp ult i64 %programs, %places
  %start = select i1 %fewer, i64 %programs, i64 %places
  jump %maps unless %persistent
grid:
  store ptr %sizes, ptr %behind
  %y = getelementptr i64, ptr %sizes, i64 1
  store ptr %y, item ptr 1 of %behind
  %z = getelementptr i64, ptr %sizes, i64 2
  store ptr %z, item ptr 2 of %behind
  %further = getelementptr ptr, ptr %behind, i64 3
maps:
  %out = phi ptr [%behind, %entry], [%further, %grid]
  %count = load i64, field implicit.maps of %implicit
  %first = field implicit.map of %implicit
next:
  %k = phi i64 [0, %maps], [%k1, %one]
  ret i64 %start if icmp eq i64 %k, %count
one:
  %map = load ptr, item ptr %k of %first
  %bytes = load ptr, field map.map of %map
  store ptr %bytes, item ptr %k of %out
  %k1 = add i64 %k, 1
  br label %next
}
"""


def text() -> str:
    """The LLVM text that evaluates tensor maps and adds implicit arguments.

    >>> text().count("define internal i64 @add_implicit(")
    1
    """
    structs = (_MAP, _TERM, IMPLICIT)
    said = _TEXT.replace("MOST_FACTORS", str(MOST_FACTORS)).replace("NONE", str(_NONE))
    return resolve("\n".join((*(struct.definition for struct in structs), said)), *structs)
