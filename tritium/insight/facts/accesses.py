"""What each program of a launch touches, found by running the interpreter on copies of the arguments.

    facts = observe(launch)
    facts.sites        # one for each load, store and atomic of the source: lanes, masked lanes, out of bounds
    facts.tensors      # one for each tensor argument: elements loaded, stored, stored by two programs, never touched
    facts.programs     # which parts of which tensor each program touches
    facts.steps        # a few programs, op by op

Large grids are sampled (`sampling`): totals are estimates then, and `facts.sampling` says of how many programs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tritium import ops
from tritium.analysis.accesses import accesses as accesses_of
from tritium.insight.facts.launch import Launch
from tritium.insight.facts.needed import without_values
from tritium.insight.facts.pictures import Picture, Runs, runs_of
from tritium.insight.facts.places import code_at, in_kernel, line_of
from tritium.insight.facts.quiet_machine import QuietMachine
from tritium.insight.facts.repetitions import Repetitions
from tritium.insight.facts.replicas import replicas
from tritium.insight.facts.sampling import Pid, sample, weights
from tritium.interp.float_state import default_floats
from tritium.interp.memory import Memory
from tritium.interp.observe import Observer
from tritium.ir import types as T

PROGRAMS, LANES, OPS = 256, 4_000_000, 2_000_000  # most programs, lanes of all accesses, and ops of one program
WORK, ACCESS = 200_000, 16  # of all programs, in ops that compute (seconds); an access takes as long as this many
STEPPED, STEPS = 5, 240  # programs that are shown op by op, and their steps
KINDS = {ops.load: "load", ops.store: "store", ops.atomic: "atomic", ops.atomic_cas: "atomic"}


@dataclass(frozen=True)
class Site:
    """One load, store or atomic of the source. Counts are for the whole launch; estimates where it was sampled."""

    number: int
    kind: str  # "load", "store" or "atomic"
    line: int
    column: int
    code: str
    tensors: tuple[str, ...]  # the arguments it may go through
    shape: tuple[int, ...]
    itemsize: int
    executions: float
    lanes: float
    masked: float
    out_of_bounds: float
    bad_example: str  # where the first access out of bounds is, in words
    same_as: int | None = None  # of a load: the site whose elements every program loads again, itself if in a loop

    @property
    def bytes(self) -> float:
        """Bytes of the lanes that are neither masked nor out of bounds."""
        return (self.lanes - self.masked - self.out_of_bounds) * self.itemsize


@dataclass(frozen=True)
class Tensor:
    """One tensor argument in the order of memory: rows of `pitch` elements, drawn as `cells` = (rows, columns).

    Counts are of elements; None where the tensor is too large to count, or where programs that were not run might
    have changed the answer.
    """

    name: str
    dtype: str
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    extent: int
    pitch: int
    cells: tuple[int, int]
    cell: tuple[int, int]  # rows and columns of elements in a cell
    loaded: int | None
    stored: int | None
    stored_by_two: int | None
    never: int | None
    loads_each: float | None  # times a loaded element is loaded, by all programs together
    loaded_sectors: int | None  # of 32 bytes, each once
    stored_sectors: int | None

    @property
    def bytes(self) -> int:
        """Bytes of its elements."""
        return math.prod(self.shape) * self.itemsize


@dataclass(frozen=True)
class Touches:
    """The cells of each tensor that one program loads and stores, as runs (first, last)."""

    pid: Pid
    loads: dict[str, Runs]
    stores: dict[str, Runs]


@dataclass(frozen=True)
class Step:
    """One line of the source that a program runs: what it does, in which iteration of its loops, what it touches."""

    line: int
    what: str
    iteration: tuple[int, ...]
    kind: str  # "load", "store", "atomic", "dot", "reduce" or "compute"
    tensor: str = ""
    runs: Runs = ()
    lanes: int = 0
    masked: int = 0
    out_of_bounds: int = 0


@dataclass(frozen=True)
class Accesses:
    """What a launch touches."""

    grid: tuple[int, int, int]
    sites: tuple[Site, ...]
    tensors: tuple[Tensor, ...]
    programs: tuple[Touches, ...]
    steps: dict[Pid, tuple[Step, ...]]
    complete: bool
    sampling: str

    def at(self, line: int, kind: str | None = None) -> list[Site]:
        """The sites on a line."""
        return [s for s in self.sites if s.line == line and kind in (None, s.kind)]

    @property
    def repeated(self) -> list[Site]:
        """Loads of what their program has loaded before, from tensors that nothing stores to."""
        stored = {name for s in self.sites if s.kind != "load" for name in s.tensors}
        return [s for s in self.sites if s.same_as is not None and stored.isdisjoint(s.tensors)]

    def tensor(self, name: str) -> Tensor:
        """The tensor argument of this name."""
        return next(t for t in self.tensors if t.name == name)


@dataclass
class Event:
    """One execution of an access. Addresses are those of a device on which every storage starts a page of its own."""

    site: int
    op: Any
    addresses: np.ndarray
    active: np.ndarray


class Meter(Protocol):
    """Measures accesses: `begin` hears of each program, `measure` makes a few numbers of each access, `add`
    gets them with the share of the launch that they stand for."""

    def begin(self) -> None: ...

    def measure(self, event: Event) -> np.ndarray: ...

    def add(self, site: int, op: Any, numbers: np.ndarray) -> None: ...


def observe(launch: Launch, meter: Meter | None = None, count: Callable[[Any, float], None] | None = None,
            programs: int = PROGRAMS) -> Accesses:
    """Run a launch, or a sample of it, on copies of its arguments. The `meter` hears of each access, `count(op, times)`
    of each op.

    >>> import numpy as np
    >>> from tritium.backends.compiler import GPUTarget
    >>> from tritium.insight.facts.launch import prepared
    >>> from tritium.kernels.vector_add import add_kernel
    >>> x = np.zeros(100, np.float32)
    >>> launch = prepared(add_kernel, (4,), (x, x, x.copy(), 100), {"BLOCK": 32}, GPUTarget("cpu", "host", 1))
    >>> [(s.kind, s.tensors, int(s.lanes), int(s.masked)) for s in observe(launch).sites]
    [('load', ('x_ptr',), 128, 28), ('load', ('y_ptr',), 128, 28), ('store', ('z_ptr',), 128, 28)]
    """
    return _Run(launch, meter, count).run(programs)


class _Cut(Exception):
    """A program was stopped: it ran too long."""


class _Run(Observer):
    def __init__(self, launch: Launch, meter: Meter | None, count: Callable | None):
        self.launch, self.counter = launch, count
        self.meter: Any = meter
        self.module = launch.stages["ttir"]
        self.replicas = replicas(launch)
        self.pictures = {k: Picture(r) for k, r in self.replicas.items()}
        self.spans = {k: (r.data_ptr(), r.data_ptr() + r.extent * r.itemsize) for k, r in self.replicas.items()}
        through: dict[int, list[int]] = {}
        self.ops = {}
        for k, found in accesses_of(self.module).items():
            for op in found:
                through.setdefault(id(op), []).append(k)
                self.ops[id(op)] = op
        self.through = through
        self.sites: dict[tuple, dict[str, Any]] = {}
        storages = {id(r.storage): r.storage for r in self.replicas.values()}
        self.starts = sorted((s.data_ptr(), s.nbytes()) for s in storages.values())
        self.bad: np.ndarray | None = None
        self.loops: list[list[int]] = []
        self.again = Repetitions()
        self.cut = 0

    # --- running ----------------------------------------------------------------------------------------------------
    def run(self, most: int) -> Accesses:
        """Run the sampled programs."""
        grid = self.launch.grid
        wanted, chosen = sample(grid, most), []
        stepped = wanted if len(wanted) <= STEPPED else [wanted[k * (len(wanted) - 1) // (STEPPED - 1)]
                                                         for k in range(STEPPED)]
        self.lanes, self.work, self.touches, self.steps, totals = 0, 0, [], {}, []
        machine = QuietMachine(without_values(self.module), self.starts, Memory(), grid, (self,))
        args = [self.replicas.get(k, x) for k, (_, x) in enumerate(self.launch.slots)]
        values = [machine.argument(arg.type, x, arg.name) for arg, x in zip(self.module.args, args, strict=True)]
        with default_floats():
            for pid in wanted:
                if chosen and (self.lanes > LANES or self.work > WORK):
                    break
                self.events, self.worked = [], {}
                self._begin(pid, pid in stepped or not chosen)
                try:
                    machine.run_kernel(self.module, values, pid)
                except _Cut:
                    self.cut += 1
                self._close()
                chosen.append(pid)
                totals.append((self.events, self.worked))
        shares = weights(grid, chosen) if chosen else []
        for share, (events, worked) in zip(shares, totals):
            self._add(share, events, worked)
        return self._facts(chosen)

    def _begin(self, pid: Pid, stepped: bool) -> None:
        grid = self.launch.grid
        self.pid, self.number, self.executed = pid, pid[0] + grid[0] * (pid[1] + grid[1] * pid[2]), 0
        self.loops, self.now = [], {"load": {}, "store": {}}
        if self.meter is not None:
            self.meter.begin()
        self.stepping: Any = self.steps.setdefault(pid, []) if stepped and len(self.steps) < STEPPED + 1 else None

    def _close(self) -> None:
        names = {k: r.name for k, r in self.replicas.items()}
        loads, stores = ({names[k]: runs_of(np.unique(np.concatenate(cells))) for k, cells in part.items()}
                         for part in (self.now["load"], self.now["store"]))
        self.touches.append(Touches(self.pid, loads, stores))
        self.again.close()

    def _add(self, share: float, events: list, worked: dict) -> None:
        for key, op, lanes, masked, bad, measured in events:
            site = self.sites[key]
            for name, amount in (("executions", 1), ("lanes", lanes), ("masked", masked), ("out_of_bounds", bad)):
                site[name] += share * amount
            if measured is not None:
                self.meter.add(site["number"], op, share * measured)
        if self.counter is not None:
            for op, times in worked.values():
                self.counter(op, share * times)

    # --- what the machine tells -------------------------------------------------------------------------------------
    def before(self, m, op, inputs):
        """Count ops, and the iterations of loops."""
        self.executed, self.work = self.executed + 1, self.work + 1
        if self.executed > OPS:
            raise _Cut
        self.bad = None
        if self.loops and id(op) == self.loops[-1][0]:
            self.loops[-1][1] += 1
        if op.kind in (ops.for_, ops.while_):
            body = op.regions[-1].ops
            self.loops.append([id(body[0]) if body else 0, -1])

    def after(self, m, op, inputs, outputs):
        """Note what an op did."""
        if op.kind in (ops.for_, ops.while_):
            self.loops.pop()
        found = self.worked.get(id(op))
        if found is None:
            self.worked[id(op)] = [op, 1]
        else:
            found[1] += 1
        if op.kind in KINDS:
            self._access(op, inputs)
        elif self.stepping is not None:
            self._step(op)

    def fault(self, m, op, fault) -> bool:
        """Leave the lanes out, and remember them."""
        self.bad = np.asarray(fault.bad)
        return True

    def _access(self, op, inputs) -> None:
        addresses = np.atleast_1d(np.asarray(inputs[0]))
        mask = _mask(op, inputs)
        active = np.ones(addresses.shape, bool) if mask is None else np.broadcast_to(mask, addresses.shape).copy()
        lanes, masked = addresses.size, addresses.size - int(active.sum())
        numbers = self.through.get(id(op), [])
        outside = self._outside(op, addresses, active, numbers)
        if self.bad is not None:
            outside |= np.broadcast_to(self.bad, addresses.shape) & active
        key = self._site(op, numbers)
        bad = int(outside.sum())
        if bad and not self.sites[key]["bad_example"]:
            self.sites[key]["bad_example"] = self._in_words(addresses, outside, numbers)
        active &= ~outside
        if op.kind is ops.load:
            self.again.note(key, numbers, addresses[active])
        self.lanes, self.work = self.lanes + lanes, self.work + ACCESS
        measured = None
        if self.meter is not None:
            measured = self.meter.measure(Event(self.sites[key]["number"], op, self._virtual(addresses), active))
        self.events.append((key, op, lanes, masked, bad, measured))
        self._touch(op, addresses[active], numbers, (lanes, masked, bad))

    def _outside(self, op, addresses, active, numbers) -> np.ndarray:
        """Active lanes that lie in none of the tensors the access goes through."""
        inside = np.zeros(addresses.shape, bool)
        for k in numbers:
            low, high = self.spans.get(k, (0, 0))
            if not high or low <= int(addresses.min()) and int(addresses.max()) < high:
                numbers = ()  # an address that was passed as a number, or all lanes lie in the tensor
                break
            inside |= (addresses >= np.uint64(low)) & (addresses < np.uint64(high))
        return active & ~inside if numbers else inside & False

    def _in_words(self, addresses, outside, numbers) -> str:
        at = tuple(int(i) for i in np.argwhere(outside)[0])
        picture = self.pictures.get(numbers[0]) if numbers else None
        if picture is None:
            return f"program {self.pid}, lane {at}"
        element = int(picture.elements(addresses[at]))
        return (f"program {self.pid}, lane {at}: element {element} of `{picture.replica.name}`, which has "
                f"{picture.extent}")

    def _virtual(self, addresses: np.ndarray) -> np.ndarray:
        """Addresses on a device: each storage starts at a multiple of 2^40."""
        starts = np.array([start for start, _ in self.starts], np.uint64)
        if not len(starts):
            return addresses
        ends = np.array([addresses.min(), addresses.max()], np.uint64)
        k = np.maximum(np.searchsorted(starts, ends, "right"), 1)
        k = k[0] if k[0] == k[1] else np.maximum(np.searchsorted(starts, addresses, "right"), 1)
        return (np.asarray(k, np.uint64) << np.uint64(40)) + addresses - starts[k - 1]

    def _touch(self, op, addresses, numbers, counts) -> None:
        kind, step = KINDS[op.kind], None
        for k in numbers:
            picture = self.pictures.get(k)
            if picture is None:
                continue
            elements = picture.elements(addresses)
            elements = elements[(elements >= 0) & (elements < picture.extent)]
            if not len(elements) and len(numbers) > 1:
                continue
            picture.count(kind, elements, self.number)
            cells = picture.cells_of(elements)
            for part in ("load", "store") if kind == "atomic" else (kind,):
                self.now[part].setdefault(k, []).append(cells)
            step = picture.replica.name, cells
        if self.stepping is not None and len(self.stepping) < STEPS:
            name, cells = step or ("", np.empty(0, np.int64))
            what = f"{kind} {'x'.join(map(str, T.shape(op.operands[0].type))) or 'a scalar'} of {name or 'memory'}"
            self.stepping.append(Step(line_of(op), what, self._iteration(), kind, name, runs_of(cells), *counts))

    def _step(self, op) -> None:
        """A line that computes is one step, however many ops it has."""
        if len(self.stepping) >= STEPS or not op.loc or op.kind in (ops.for_, ops.while_, ops.if_, ops.constant):
            return
        kind = "dot" if op.kind is ops.dot else "reduce" if op.kind.combines else "compute"
        if kind == "compute" and (not op.types or type(op.types[0]) is not T.Tile or T.is_ptr(op.types[0])):
            return
        last, at = self.stepping[-1] if self.stepping else None, (line_of(op), self._iteration())
        if kind == "compute" and last is not None and (last.line, last.iteration) == at:
            return
        shape = "x".join(map(str, T.shape(op.types[0]))) if op.types else ""
        verb = {"dot": "multiply into", "reduce": "reduce to", "compute": "compute"}[kind]
        self.stepping.append(Step(at[0], f"{verb} {shape or 'a scalar'}", at[1], kind))

    def _iteration(self) -> tuple[int, ...]:
        return tuple(count for _, count in self.loops)

    # --- facts ------------------------------------------------------------------------------------------------------
    def _site(self, op, numbers) -> tuple:
        """The key of an op's site: its place, kind and tile."""
        key = op.loc, op.kind.name, op.operands[0].type
        if key not in self.sites:
            loc = in_kernel(op.loc) if op.loc else None
            names = tuple(self.launch.slots[k][0] for k in numbers)
            pointee = T.element(op.operands[0].type).pointee
            self.sites[key] = {
                "number": len(self.sites), "kind": KINDS[op.kind], "line": loc.line if loc else 0,
                "column": loc.col if loc else 0, "code": code_at(loc), "tensors": names,
                "shape": T.shape(op.operands[0].type), "itemsize": 8 if type(pointee) is T.Ptr else pointee.bytes,
                "executions": 0.0, "lanes": 0.0, "masked": 0.0, "out_of_bounds": 0.0, "bad_example": ""}  # fmt: skip
        return key

    def _facts(self, chosen: list[Pid]) -> Accesses:
        grid, total = self.launch.grid, math.prod(self.launch.grid)
        complete = len(chosen) == total and not self.cut
        said = f"all {total} programs were run" if complete else f"{len(chosen)} of {total} programs were run"
        if not complete and len(chosen) < total:
            said += ", the corners of the grid among them; totals are estimates"
        if self.cut:
            said += f"; {self.cut} stopped after {OPS} ops"
        rounded: list[dict[str, Any]] = [{k: round(v, 3) if isinstance(v, float) else v for k, v in site.items()}
                                         for site in self.sites.values()]
        for key, earlier in self.again.found().items():
            rounded[self.sites[key]["number"]]["same_as"] = self.sites[earlier]["number"]
        sites = tuple(Site(**site) for site in rounded)
        tensors = tuple(self._tensor(p, complete, sites) for p in self.pictures.values())
        steps = {pid: tuple(found) for pid, found in self.steps.items()}
        touched = tuple(sorted(self.touches, key=lambda t: t.pid[::-1]))
        return Accesses(grid, sites, tensors, touched, steps, complete, said)

    def _tensor(self, picture: Picture, complete: bool, sites: tuple[Site, ...]) -> Tensor:
        r = picture.replica
        loaded = stored = twice = never = each = None
        sectors: tuple[int | None, int | None] = (None, None)
        if picture.loads is not None:
            loads, stores = picture.loads > 0, picture.owner > 0
            twice = int(picture.shared.sum())
            if complete:
                loaded, stored = int(loads.sum()), int(stores.sum())
                each = float(picture.loads.sum()) / loaded if loaded else None
                never = int(math.prod(r.shape)) - int((loads | stores).sum())
                sectors = picture.sectors(loads), picture.sectors(stores)
        return Tensor(r.name, r.dtype, r.itemsize, r.shape, r.strides, picture.extent, picture.pitch, picture.cells,
                      picture.cell, loaded, stored, twice, never, each, *sectors)


def _mask(op, inputs):
    if op.kind is ops.load:
        return inputs[1] if len(inputs) > 1 else None
    if op.kind is ops.atomic_cas:
        return None
    return inputs[2] if len(inputs) > 2 else None
