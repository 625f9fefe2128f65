"""Implicit kernel arguments: tensor maps for TMA, and the grid of a persistent kernel.

Tensor maps are functions of the arguments and the grid (`tensor_map.Template`). The native launcher evaluates them and
has the driver encode a map again only if a value differs from the last launch; if only the address differs, the
driver replaces that. Quotients and the like, of which sizes may be made, are computed once for all maps.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...llvm.structs import Struct, resolve
from . import tensor_map
from .tensor_map import COMPUTED, MOST_MAPS

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
MOST_FACTORS = 4  # slots that are multiplied in a term; further ones are multiplied before
_TERM = Struct("term", factor="i64", slots=f"[{MOST_FACTORS} x i64]")  # -1 - axis: the grid, -5 - k: computed, or none
_NONE = -4

IMPLICIT = Struct(
    "implicit",
    maps="i64",
    persistent="i64",
    places="i64",  # programs that fit on the device at once
    slots="i64",
    known="ptr",  # the grid, a word that none has, then the computed values: ~slot is the place of a negative slot
    values="i64",
    computed="ptr",  # for each value: which of COMPUTED, and two sums
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
        self._computed: dict[str, list[int]] = {}  # by their spelling: values that differ
        loads, spans = stores or (0, ())
        self.maps = [self._map(tensor_map.Template(*template)) for template in maps]
        self.spans = [self._map(tensor_map.Template(_NO_MAP, size, base, offset, dims, (1,) * len(dims), 0))
                      for size, base, offset, dims in spans]
        values, known = len(self._computed), (ctypes.c_int64 * (~_NONE + 1 + len(self._computed)))()
        computed = self._program(word for words in self._computed.values() for word in words)
        self._kept.append(known)
        self.memory = IMPLICIT.ctype(maps=len(maps), persistent=persistent, slots=slots, loads=loads, spans=len(spans),
                                     known=ctypes.addressof(known), values=values, computed=computed)
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
        program, memory = self._program(word for terms in sums for word in self._sum(terms)), (ctypes.c_char * 192)()
        start = ctypes.addressof(memory) + -ctypes.addressof(memory) % 64
        self._kept.append(memory)
        return _MAP.ctype(type=tensor_map.TYPES[template.element], rank=len(template.dims),
                          swizzle=tensor_map.SWIZZLES[template.swizzle], map=start,
                          box=tuple(reversed(template.box)), ones=(1,) * 5, count=len(sums),
                          sums=program, size=template.size)

    def _program(self, words: Iterable[int]) -> int:
        """The address of words that are kept."""
        words = tuple(words)
        self._kept.append((ctypes.c_int64 * len(words))(*words))
        return ctypes.addressof(self._kept[-1])

    def _sum(self, terms: Sequence) -> list[int]:
        """The words of a sum of (factor, slots): how many terms, and those."""
        return [len(terms), *(word for factor, slots in terms for word in (factor, *self._product(tuple(slots))))]

    def _product(self, slots: tuple) -> list[int]:
        if len(slots) > MOST_FACTORS:
            first, others = slots[:MOST_FACTORS - 1], slots[MOST_FACTORS - 1:]
            slots = (*first, ("mul", ((1, others),), ((1, ()),)))
        return [*map(self._slot, slots), *[_NONE] * (MOST_FACTORS - len(slots))]

    def _slot(self, slot: Any) -> int:
        """The number of a slot; one that is computed gets the next, behind those it is computed from."""
        if isinstance(slot, int):
            return slot
        name, left, right = slot
        words = [COMPUTED.index(name), *self._sum(left), *self._sum(right)]
        self._computed.setdefault(str(words), words)
        return _NONE - 1 - list(self._computed).index(str(words))

    def fit(self, sizes: Sequence[int]) -> bool:
        """True if the driver could encode all tensor maps of the current launch, on a grid of these sizes, and the
        tensors that must be disjoint are."""
        return all(found.state == 1 for found in self.maps) and not self.memory.meet and math.prod(sizes) < 1 << 31

    def settle(self, count: Callable[[], int]) -> None:
        """Find the number of resident programs by `count()`; only for persistent kernels, and once."""
        if self.memory.persistent and not self.memory.places:
            self.memory.places = max(1, count())


_TEXT = """
; The product of the slots of a term and its factor.
define internal i64 @product(ptr %term, ptr %slots, ptr %known) nounwind {
entry:
  %times = load i64, field term.factor of %term
  %list = field term.slots of %term
next:
  %k = phi i64 [0, %entry], [%k1, %more]
  %so.far = phi i64 [%times, %entry], [%product, %more]
  ret i64 %so.far if icmp eq i64 %k, MOST_FACTORS
  %slot = load i64, item i64 %k of %list
  ret i64 %so.far if icmp eq i64 %slot, NONE
  %behind = xor i64 %slot, -1
  %is.known = icmp slt i64 %slot, 0
  %from = select i1 %is.known, ptr %known, ptr %slots
  %which = select i1 %is.known, i64 %behind, i64 %slot
more:
  %value = load i64, item i64 %which of %from
  %product = mul i64 %so.far, %value
  %k1 = add i64 %k, 1
  br label %next
}

; The value of a sum, and what stands behind it.
define internal {i64, ptr} @total(ptr %sum, ptr %slots, ptr %known) nounwind {
entry:
  %n = load i64, ptr %sum
  %first = getelementptr i64, ptr %sum, i64 1
term:
  %t = phi i64 [0, %entry], [%t1, %add]
  %total = phi i64 [0, %entry], [%total1, %add]
  %at = phi ptr [%first, %entry], [%next, %add]
  jump %done if icmp eq i64 %t, %n
add:
  %part = call i64 @product(ptr %at, ptr %slots, ptr %known)
  %total1 = add i64 %total, %part
  %t1 = add i64 %t, 1
  %next = getelementptr %term, ptr %at, i64 1
  br label %term
done:
  %first.out = insertvalue {i64, ptr} poison, i64 %total, 0
  %out = insertvalue {i64, ptr} %first.out, ptr %at, 1
  ret {i64, ptr} %out
}

; What a kernel's maps know beside its slots: the grid, and computed values. No division traps.
define internal ptr @compute(ptr %implicit, ptr %slots, ptr %grid) nounwind {
entry:
  %known, %values, %computed = load known, values, computed of implicit %implicit
  call void @llvm.memcpy.p0.p0.i64(ptr %known, ptr %grid, i64 24, i1 false)
  %results = getelementptr i64, ptr %known, i64 FIRST
next:
  %k = phi i64 [0, %entry], [%k1, %one]
  %at = phi ptr [%computed, %entry], [%further, %one]
  ret ptr %known if icmp eq i64 %k, %values
one:
  %name = load i64, ptr %at
  %left.p = getelementptr i64, ptr %at, i64 1
  %left = call {i64, ptr} @total(ptr %left.p, ptr %slots, ptr %known)
  %right.p = extractvalue {i64, ptr} %left, 1
  %right = call {i64, ptr} @total(ptr %right.p, ptr %slots, ptr %known)
  %further = extractvalue {i64, ptr} %right, 1
  %a = extractvalue {i64, ptr} %left, 0
  %b = extractvalue {i64, ptr} %right, 0
  %mul = mul i64 %a, %b
  %is.0 = icmp eq i64 %b, 0
  %is.minus.1 = icmp eq i64 %b, -1
  %special = or i1 %is.0, %is.minus.1
  %by = select i1 %special, i64 1, i64 %b
  %ordinary = sdiv i64 %a, %by
  %minus.a = sub i64 0, %a
  %unless.0 = select i1 %is.minus.1, i64 %minus.a, i64 %ordinary
  %div = select i1 %is.0, i64 0, i64 %unless.0
  %rem = srem i64 %a, %by
  %less = icmp slt i64 %a, %b
  %min = select i1 %less, i64 %a, i64 %b
  %max = select i1 %less, i64 %b, i64 %a
  %is.div = icmp eq i64 %name, DIV
  %is.rem = icmp eq i64 %name, REM
  %is.min = icmp eq i64 %name, MIN
  %is.max = icmp eq i64 %name, MAX
  %or.div = select i1 %is.div, i64 %div, i64 %mul
  %or.rem = select i1 %is.rem, i64 %rem, i64 %or.div
  %or.min = select i1 %is.min, i64 %min, i64 %or.rem
  %chosen = select i1 %is.max, i64 %max, i64 %or.min
  store i64 %chosen, item i64 %k of %results
  %k1 = add i64 %k, 1
  br label %next
}

; Compute the values of a map: whether any but the address changed, whether the address did.
define internal {i1, i1} @evaluate(ptr %map, ptr %slots, ptr %known) nounwind {
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
sum:
  %found = call {i64, ptr} @total(ptr %at, ptr %slots, ptr %known)
  %total = extractvalue {i64, ptr} %found, 0
  %next = extractvalue {i64, ptr} %found, 1
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
define internal i1 @describe(ptr %map, ptr %slots, ptr %known) nounwind {
  %news = call {i1, i1} @evaluate(ptr %map, ptr %slots, ptr %known)
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
current:
  ret i1 true
exchange:
  %exchanged = call i32 @cuTensorMapReplaceAddress(ptr %bytes, ptr %address)
  jump %current if icmp eq i32 %exchanged, 0 else %ask
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
define internal i1 @spans_meet(ptr %implicit, ptr %slots, ptr %known) nounwind {
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
  %news = call {i1, i1} @evaluate(ptr %one.span, ptr %slots, ptr %known)
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
  %known = call ptr @compute(ptr %implicit, ptr %slots, ptr %grid)
  %count = load i64, field implicit.maps of %implicit
  %maps = field implicit.map of %implicit
next:
  %k = phi i64 [0, %entry], [%k1, %one]
  %good = phi i1 [true, %entry], [%good1, %one]
  jump %done if icmp eq i64 %k, %count
one:
  %map = load ptr, item ptr %k of %maps
  %fine = call i1 @describe(ptr %map, ptr %slots, ptr %known)
  %good1 = and i1 %good, %fine
  %k1 = add i64 %k, 1
  br label %next
done:
  %meet = call i1 @spans_meet(ptr %implicit, ptr %slots, ptr %known)
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
    said, names = _TEXT, {name.upper(): number for number, name in enumerate(COMPUTED)}
    for name, number in {"MOST_FACTORS": MOST_FACTORS, "NONE": _NONE, "FIRST": ~_NONE + 1, **names}.items():
        said = said.replace(name, str(number))
    return resolve("\n".join((*(struct.definition for struct in structs), said)), *structs)
