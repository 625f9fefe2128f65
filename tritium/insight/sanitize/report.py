"""What the sanitizer found, as data, as text and as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import Any

from tritium.backends.cpu.checked import Argument, Found
from tritium.backends.cpu.library.check import KINDS
from tritium.errors import Span, place_of, render
from tritium.ir.core import Loc
from tritium.locks import lock

__all__ = ["Finding", "Report", "findings"]

_READ = 1 << 40  # marks the reader's side of a race
_VERBS = {"load": "reads", "store": "writes", "atomic": "updates"}


@dataclasses.dataclass(frozen=True)
class Finding:
    """One mistake: where it stands, who made it first, and how often it was seen.

    `program` and `lane` are indices; `places` are (file, line, column, end line, end column, function), the kernel's
    line first, then those of the calls around it. `other` tells the other side of a race.

    >>> Finding("overflow", "k", "2147483648 does not fit in 32 bits").text()
    'overflow in kernel `k`: 2147483648 does not fit in 32 bits'
    """

    kind: str
    kernel: str
    message: str
    program: tuple[int, int, int] | None = None
    grid: tuple[int, int, int] | None = None
    lane: tuple[int, ...] | None = None
    tensor: str | None = None
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    index: tuple[int, ...] | int | None = None
    value: Any = None
    address: int | None = None
    other: dict[str, Any] | None = None
    places: tuple[tuple, ...] = ()
    hint: str | None = None
    count: int = 1
    launches: int = 1
    threads: str | None = None  # of a GPU's program

    @property
    def key(self) -> tuple:
        """Equal for findings that are one mistake."""
        return self.kind, self.kernel, self.tensor, self.places or self.message

    @property
    def line(self) -> int | None:
        """The line of the kernel."""
        return self.places[0][1] if self.places else None

    def text(self) -> str:
        """The finding as an error with a caret."""
        spans = [_span(place) for place in self.places]
        notes: list[tuple[str, Span | None]] = [("called from here", span) for span in spans[1:]]
        if self.program is not None:
            lane = f", lane {_tuple(self.lane)}" if self.lane else f", {self.threads}" if self.threads else ""
            of = f" of a grid of {_tuple(self.grid)}" if self.grid else ""
            notes.append((f"in program {_tuple(self.program)}{of}{lane}", None))
        if self.other is not None:
            places = self.other.get("places") or ()
            which = "; the other side is one of these" if len(places) > 1 else "; the other side" if places else ""
            notes.append((f"{self.other['text']}{which}", _span(places[0]) if places else None))
            notes += [("or here", _span(place)) for place in places[1:3]]
        if self.count > 1:
            runs = f" of {self.launches} launches" if self.launches > 1 else ""
            notes.append((f"seen {self.count} times{runs}; this is the first", None))
        return render(f"{self.kind} in kernel `{self.kernel}`: {self.message}", spans[:1], notes, self.hint)

    def data(self) -> dict[str, Any]:
        """The finding as a dictionary for JSON."""
        out = dataclasses.asdict(self)
        names = ("file", "line", "column", "end_line", "end_column", "function")
        out["places"] = [dict(zip(names, place)) for place in self.places]
        if self.other is not None:
            out["other"]["places"] = [dict(zip(names, place)) for place in self.other.get("places", ())]
        return out


class Report:
    """All findings of a run, each mistake once. It is true if there are any. `tell` is called with each new one.

    >>> report = Report()
    >>> report.add(Finding("overflow", "k", "2147483648 does not fit in 32 bits"))
    True
    >>> report.add(Finding("overflow", "k", "2147483648 does not fit in 32 bits"))
    False
    >>> len(report), report.summary()
    (1, 'tritium sanitize: 1 mistake in 1 kernel (1 overflow)')
    """

    def __init__(self, tell: Callable[[Finding], None] | None = None):
        self._found: dict[tuple, Finding] = {}
        self._lock, self._tell = lock(), tell
        self.notes: list[str] = []  # what is to be known besides, such as what did not run

    def add(self, finding: Finding) -> bool:
        """Add a finding; true if nothing like it was known."""
        with self._lock:
            known = self._found.get(finding.key)
            self._found[finding.key] = finding if known is None else dataclasses.replace(
                known, count=known.count + finding.count, launches=known.launches + 1)
        if known is None and self._tell is not None:
            self._tell(finding)
        return known is None

    def note(self, text: str) -> None:
        """Add what is to be known besides the findings; once.

        >>> report = Report()
        >>> report.note("half of it ran"); report.note("half of it ran")
        >>> report.summary()
        'tritium sanitize: nothing found\\nnote: half of it ran'
        """
        with self._lock:
            if text not in self.notes:
                self.notes.append(text)

    def __iter__(self) -> Iterator[Finding]:
        return iter(list(self._found.values()))

    def __len__(self) -> int:
        return len(self._found)

    def __bool__(self) -> bool:
        return bool(self._found)

    def kinds(self) -> list[str]:
        """The kinds of the findings, in order.

        >>> Report().kinds()
        []
        """
        return [finding.kind for finding in self]

    def summary(self) -> str:
        """One line: how many mistakes, of which kinds. Notes follow."""
        return "\n".join([self._counted(), *(f"note: {note}" for note in self.notes)])

    def _counted(self) -> str:
        if not self:
            return "tritium sanitize: nothing found"
        kinds = self.kinds()
        each = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
        kernels = len({finding.kernel for finding in self})
        return (f"tritium sanitize: {len(self)} mistake{'s' * (len(self) > 1)} in {kernels} "
                f"kernel{'s' * (kernels > 1)} ({each})")

    def text(self) -> str:
        """All findings and the summary."""
        return "\n\n".join([*(finding.text() for finding in self), self.summary()])

    def json(self) -> str:
        """All findings as JSON."""
        return json.dumps({"findings": [finding.data() for finding in self], "summary": self._counted(),
                           "notes": self.notes}, indent=1,
                          default=str)

    def __repr__(self) -> str:
        return f"Report({', '.join(self.kinds())})"

    def __str__(self) -> str:
        return self.text()


def findings(found: Found) -> Iterator[Finding]:
    """What a launch did wrong, one finding for each site and kind.

    >>> list(findings(Found(None, (1, 1, 1), {}, [], {})))
    []
    """
    told = set()
    for row in found.records:
        key = row["site"], row["kind"]
        if key not in told:
            told.add(key)
            yield _Reader(found, row).finding(found.counts[key])


class _Reader:
    """Turns one record into a finding."""

    def __init__(self, found: Found, row: dict[str, int]):
        self.found, self.row = found, row
        access, self.origin, self.element, self.tile, self.places = found.kernel.sites[row["site"]]
        self.access: Any = {"volatile": "load", "swap": "atomic", "wait": "loop"}.get(access, access)
        self.argument: Argument | None = found.arguments.get(self.origin) or self.nearest()

    def nearest(self) -> Argument | None:
        address, known = self.row["address"], [a for a in self.found.arguments.values() if a.keep is not None]
        if not address:
            return None
        return min(known, key=lambda a: max(a.low - address, address - a.high + 1, 0), default=None)

    def finding(self, count: int) -> Finding:
        kind, a = KINDS[self.row["kind"]], self.argument
        message, hint, more = getattr(self, kind.replace(" ", "_").replace("-", "_"))()
        return Finding(kind, self.found.kernel.name, message, self.program(self.row["program"]), self.found.grid,
                       self.lane(self.row["lane"]), a.name if a else None, a.shape if a else None,
                       a.dtype if a else None, self.element_of(self.row["address"]) if a else None,
                       address=self.row["address"] or None, places=self.places, hint=hint, count=count, **more)

    def program(self, number: int) -> tuple[int, int, int]:
        gx, gy, _ = self.found.grid
        return number % gx, number // gx % gy, number // (gx * gy)

    def lane(self, number: int) -> tuple[int, ...] | None:
        out: list[int] = []
        for n in reversed(self.tile):
            number, i = divmod(number, n)
            out.insert(0, i)
        return tuple(out) or None

    def element_of(self, address: int) -> tuple[int, ...] | int | None:
        a = self.argument
        if a is None or not address or a.keep is None:
            return None
        index = a.index(address)
        return (address - a.address) // a.itemsize if index is None else index[0] if len(index) == 1 else index

    def tensor(self) -> str:
        a = self.argument
        if a is None:
            return "memory of no argument"
        return f"`{a.name}`" + (f", {a.dtype} of shape {_tuple(a.shape)}" if a.shape is not None else "")

    # --- kinds ----------------------------------------------------------------------------------------------------
    def out_of_bounds(self):
        a, address = self.argument, self.row["address"]
        verb = _VERBS[self.access]
        if a is None or address < 1 << 16:
            return f"the {self.access} {verb} address {address:#x}, where nothing is", "is it a null pointer?", {}
        element = self.element_of(address)
        where = (f"{a.low - address} bytes before its start" if address < a.low else
                 f"{address - a.high} bytes past its end" if address >= a.high else "between its elements")
        view = " (of a larger storage)" if a.storage_low <= address < a.storage_high else ""
        hint = "check the strides: they must be those of the tensor" if a.low <= address < a.high else \
            "mask the lanes that lie outside, as in tl.load(p, mask=offsets < n), or check offsets and strides"
        return f"the {self.access} {verb} element {element} of {self.tensor()}: {where}{view}", hint, {}

    def read_only(self):
        return (f"the {self.access} writes {self.tensor()}, whose memory is read-only",
                "pass a copy that may be written", {})

    def uninitialised(self):
        return (f"the {self.access} reads element {_shown(self.element_of(self.row['address']))} of {self.tensor()}, "
                "which nobody has written", "fill it first, or make it with zeros", {})

    def overflow(self):
        x = self.row["value"]
        wrapped = (x + (1 << 31)) % (1 << 32) - (1 << 31)
        return (f"the offset {x} does not fit in 32 bits and becomes {wrapped}, in the address of {self.tensor()}",
                "compute it in 64 bits, as in pid.to(tl.int64) * BLOCK", {"value": x})

    def race(self):
        other = self.row["other"]
        reads, program = bool(other & _READ), self.row["by"]
        how = "read" if reads else "atomic" if other & 1 else "write"
        did, plural = {"read": ("reads", "read"), "atomic": ("updates", "update"), "write": ("writes", "write")}[how]
        who = f"several programs {plural}" if program < 0 else f"program {_tuple(self.program(program))} {did}"
        wanted = {"read": ("load", "volatile"), "atomic": ("atomic", "swap"), "write": ("store",)}[how]
        places = tuple(dict.fromkeys(places for access, origin, _, _, places in self.found.kernel.sites
                                     if access in wanted and self.shares(origin) and places))
        message = (f"the {self.access} {_VERBS[self.access]} element {_shown(self.element_of(self.row['address']))} of "
                   f"{self.tensor()}, and {who} it in the same launch")
        hint = "have one program write each element, or use atomics; programs run in no order"
        told = {"text": f"{who} it", "program": None if program < 0 else self.program(program), "access": how,
                "places": tuple(place[0] for place in places)}
        return message, hint, {"other": told}

    def shares(self, origin: int) -> bool:
        """Whether accesses through a parameter may be to the memory of this one."""
        if origin < 0 or self.argument is None:
            return True
        other = self.found.arguments.get(origin)
        return other is not None and (other is self.argument or other.group is self.argument.group)

    def race_in_program(self):
        lane = self.row["other"]
        return (f"lane {_tuple(self.lane(self.row['lane']) or ())} reads element "
                f"{_shown(self.element_of(self.row['address']))} of {self.tensor()}, which lane {lane} of the same "
                "program has stored", "put tl.debug_barrier() between the store and the load", {})

    def double_store(self):
        return (f"two lanes store to element {_shown(self.element_of(self.row['address']))} of {self.tensor()}, with "
                "different values", "check the strides, or combine the values before the store", {})

    def misaligned(self):
        what, x = self.element, self.row["value"]
        shown = f"{x:#x}" if what == "base" else f"{x} bytes"
        return (f"the {what} of the descriptor is {shown}, no multiple of 16: a GPU cannot load through it",
                "pad the tensor, or load through pointers", {"value": x})

    def missing_reset(self):
        hint = "name it in reset_to_zero, or in restore_value, of @triton.autotune"
        return f"every trial of the autotuner updates {self.tensor()} again, and nobody puts it right", hint, {}

    def endless_wait(self):
        return ("the loop waits for another program, and nothing comes",
                "programs need not run at the same time: launch fewer than the device holds, or use "
                "launch_cooperative_grid=True", {})


def _shown(index: Any) -> str:
    return _tuple(index) if isinstance(index, tuple) else str(index)


def _tuple(xs: Any) -> str:
    return f"({', '.join(map(str, xs))}{',' if len(xs) == 1 else ''})"


def _span(place: tuple) -> Span:
    found = place_of(Loc(*place))
    assert found is not None
    return found
