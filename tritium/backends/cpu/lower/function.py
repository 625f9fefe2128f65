"""Tile IR -> LLVM for CPUs: loop nests over vector chunks of a tile, 16 lanes each.

`lo.ev(x, idx)` emits the code that computes one chunk of a tile (see index.py) and returns it: a vector, or a scalar if
all lanes are equal. Code is emitted in the outermost loop in which its operands are defined: loop-invariant code is
hoisted as it is written. Statements open loop nests: what shares one, and which tiles pass through scratch memory, the
pass `fuse_loops` has written into the module.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, TypeGuard

from .... import ops
from ....analysis.axis_info import AxisAnalysis
from ....errors import CompilationError
from ....ir import types as T
from ....ir.core import Arg, Block, Module, Op, Result, Value, closure, op_of
from ....ir.preconditions import Preconditions, preconditions_of
from ....named_tuples import NamedTuple
from ....passes.assumed import Assumed
from ...llvm.rows import llvm_type, memory_type
from ...llvm.target import CpuTarget
from ...llvm.writer import Val, lanes, symbol
from ..fuse import ops as cpu_ops
from ..fuse import polls, uniform_quotients
from ..fuse.demanded_dots import masks_of_stores
from ..fuse.index import Index
from ..fuse.plan import is_scalar
from ..runtime.job import before_arena
from . import loop_nests, scratch_chunks, table
from .emit import Emitter
from .fault_record import record
from .scratch import Arena, Buffer, View
from .table import is_lazy, puller, statement, statement_of


class Lowered(NamedTuple):
    """A kernel as LLVM text, how much scratch memory a worker needs to run it, and its preconditions."""

    text: str
    name: str
    arena_bytes: int
    preconditions: Preconditions


class Scope:
    """The values of a block that have scratch memory, and their last uses, as positions in the block."""

    def __init__(self, block: Block):
        self.block = block

    @functools.cached_property
    def held(self) -> list[Value]:
        """Values that the block writes to scratch memory."""
        return [x for op in self.block.ops for x in (op.operands if cpu_ops.is_marker(op) else op.results)]

    @functools.cached_property
    def owned(self) -> set[Value]:
        """These and the block's parameters."""
        return {*self.held, *self.block.args}

    @functools.cached_property
    def freed(self) -> dict[Value, int]:
        """Value -> position of the op that `free` follows."""
        return {x: at - 1 for at, op in enumerate(self.block.ops) if op.kind is cpu_ops.free for x in op.operands}

    @functools.cached_property
    def dots(self) -> dict[Value, Op]:
        """Operand of a dot that nothing else in the block reads -> the dot."""
        found = [op for op in self.block.ops if op.kind is ops.dot]
        reads = cpu_ops.reads(self.block) if found else {}
        return {x: op for op in found for x in op.operands[:2] if reads[op_of(x)] == 1}

    def last_use(self, x: Value) -> int:
        """The last op that reads a value; the end of the block for values that are not freed before."""
        return self.freed.get(x, len(self.block.ops) - 1)


class InductionTile(NamedTuple):
    """A loop-carried tile as a scalar induction variable: the tile `start` plus `offset` (elements, i64) everywhere."""

    start: Value
    offset: Val


def lower(module: Module, target: CpuTarget, written: Module | None = None) -> Lowered:
    """The LLVM text of a kernel whose ops the passes (`cpu.compile.prepare`) have made simple enough.

    Reports of faults name the accesses of `written`: the kernel as the user wrote it, where that is another module.

    >>> from tritium.backends.llvm.target import cpu_target
    >>> from tritium.ir.text import parse_module
    >>> kernel = parse_module('''kernel @seven(%p: ptr<i32>) {
    ...   %x = constant {value=7, type=i32} : i32
    ...   store %p, %x
    ... }''')
    >>> "store i32 7, ptr " in lower(kernel, cpu_target("aarch64")).text
    True
    """
    table.fill()
    assumed = Assumed(module)
    lo = Lowering(module, target, assumed.nonnegative)
    if module.functions:
        from .calls import write_functions

        lo.callees = write_functions(lo, lambda function: Lowering(function, target))
    lo.kernel(record(written or module))
    return Lowered(lo.w.text(), lo.name, lo.arena.bytes, preconditions_of(assumed.stated_by(module)))


# Functions that LLVM inserts calls of: a kernel of such a name would be called instead.
_TAKEN = frozenset(("memcpy", "memmove", "memset", "bcmp", "fmod", "fmodf", "clock_gettime", "dprintf", "main"))


def _symbol(name: str) -> str:
    """A kernel's name as a symbol."""
    plain = symbol(name)
    return f"kernel.{plain}" if plain != name or plain in _TAKEN else name


class Lowering(Emitter):
    """The state of lowering one kernel, or one function that it calls (see calls.py).

    values: scalars     buffers: tiles in scratch memory     inductions: loop-carried tiles as induction variables
    pending: tiles whose chunks are written to scratch when computed
    """

    def __init__(self, module: Module, target: CpuTarget, nonnegative: list | None = None):
        super().__init__()
        self.module, self.target, self.name = module, target, _symbol(module.name)
        self.width = target.W
        self.contract = module.attrs.get("enable_fp_fusion", True) is not False
        self.arena = Arena()
        self.values, self.buffers, self.inductions, self.pending, self.written = {}, {}, {}, {}, set()
        self.nonnegative = nonnegative  # values that are assumed not to be negative; None: nothing is assumed
        self.destinations = {}  # value -> the loop-carried buffer it should be computed in
        self.starts = {}  # loop-carried accumulator of dots -> whether this is the first iteration (i1)
        self.pending_dots: dict[Value, Val] = {}  # dot -> its product that is put off (deferred_dots.py)
        self.axis_info: AxisAnalysis | None = None  # AxisInfo by value (uniform_quotients.py)
        self.divides: bool | None = None  # whether to compute it
        self.rows_ahead: dict[Op, int] = {}  # load -> by how many rows it is prefetched, if not by as many as others
        # What quotients do in the chunks of the open branch, and along which axis (runs.py).
        self.runs: Mapping[Value, tuple[uniform_quotients.Fact, int]] = {}
        self.run_start: Val | None = None  # where the run begins that all these chunks are parts of
        self.run_end: Val | None = None  # where chunks end, though they have more lanes
        self.by_lane = False  # whether chunks are accessed by masks of lanes, and not tested for being inside
        self.bytes_ahead = 0  # by which rows of the open loop are prefetched; 0 if they are not
        self.assumed = frozenset()  # masks known to be true everywhere
        self.denied = frozenset()  # masks known to be false in the open branch
        self.store_masks = masks_of_stores(module.body)  # dot -> the masks of the stores that its result reaches
        self.scope = Scope(module.body)  # the block that is lowered
        self.now = 0  # the position in it
        self.kept = ()  # tiles that the loops of the next op also write to scratch
        self.callees = {}  # functions by name
        self.stop: Callable[[], Any] = self.w.ret  # emits the end of the program
        self._slots, self._lazy, self._fills = {}, {}, {}

    # --- the kernel -----------------------------------------------------------------------------------------------
    def kernel(self, fault_record: bytes) -> None:
        """The entry point: a loop over the programs from %begin to %end."""
        w = self.w
        parameters = ["ptr args", "i64 begin", "i64 end", "ptr grid", "ptr noalias arena"]
        with w.function("void", self.name, parameters) as (args, begin, end, self.grid, self.scratch):
            self.base = self.scratch  # where the arena begins, for functions too
            at = lambda field: w.gep("i8", self.scratch, w.const("i64", before_arena(field)))
            noted = at("record")
            w.effect(f"store ptr {w.string(fault_record)}, ptr {noted}")
            running = at("program")
            for k, arg in enumerate(self.module.args):
                self.values[arg] = self.argument(args, k, arg.type)
            body = self.module.body
            with self.loop(begin, end) as programs:
                self.program = programs.index
                w.effect(f"store volatile i64 {programs.index}, ptr {running}")
                w.hide(programs.index)
                if every := polls.programs(body):
                    turn = w.binary("and", programs.index, w.const("i64", every - 1))
                    with nullcontext() if every == 1 else self.when(w.compare("icmp eq", turn, w.const("i64", 0))):
                        w.call("void", "tt.poll", self.base)
                self.region = 1
                self.block(body)
            w.ret()

    def argument(self, args: Val, k: int, t: T.Scalar | T.Ptr) -> Val:
        """Parameter `k` from its 8-byte slot."""
        w = self.w
        slot = w.gep("i64", args, w.const("i64", k)) if k else args
        x = w.load(memory_type(t), slot, at=0)
        return w.cast("trunc", x, "i1") if t is T.i1 else x

    def axis(self, axis: int, count: bool = False) -> Val:
        """This program's index along an axis of the grid, or the grid's size there, as i64."""
        w = self.w

        def size(k: int) -> Val:
            return self.cse(("grid", k), lambda: w.load("i64", w.gep("i64", self.grid, w.const("i64", k)), at=0))
        if count:
            return size(axis)
        p = self.program
        for k in range(axis):
            p = self.cse(("pid/", k), lambda p=p, k=k: w.binary("udiv", p, size(k)))
        return p if axis == 2 else self.cse(("pid", axis), lambda: w.binary("urem", p, size(axis)))

    # --- blocks ---------------------------------------------------------------------------------------------------
    def block(self, block: Block, finish: Callable[[], Any] | None = None) -> None:
        """Lower the ops of a block; `finish` does its closing yield."""
        outer = self.scope, self.now
        self.scope = Scope(block)
        for self.now, op in enumerate(block.ops):
            if self.is_lazy(op):
                continue
            if is_scalar(op):
                self.eager(op)
            elif op.kind.terminator and finish is not None:
                finish()
            else:
                self.statement(op)
        for x in self.scope.held:
            self.drop(x)
        self.scope, self.now = outer

    def run(self, region: Block, args: Sequence[Val]) -> list[Val]:
        """Lower a region of scalars with control flow; returns the values it yields."""
        known = set(self.memo)
        for arg, x in zip(region.args, args, strict=True):
            self.values[arg] = x
        self.block(region, lambda: None)
        made = [self.scalar(y) for y in region.yields]
        for key in self.memo.keys() - known:  # the next copy of the region has other values
            del self.memo[key]
        return made

    def eager(self, op: Op) -> None:
        """Lower a scalar op in program order."""
        fn = puller(op.kind)
        if fn is None:
            statement_of(op.kind)(self, op)
            return
        out = fn(self, op, ())
        for x, y in zip(op.results, out if type(out) is list else (out,), strict=True):
            self.values[x] = y

    def statement(self, op: Op) -> None:
        """Lower a statement; its loops also write the tiles of the `buffer` before it."""
        kept, self.kept = self.kept, ()
        with self.keeping(kept):
            statement_of(op.kind)(self, op)

    @contextmanager
    def keeping(self, xs: Iterable[Value]) -> Iterator[None]:
        """While open, chunks of `xs` are also written to scratch when computed; afterwards `xs` are buffered."""
        mine = {x: self.allocate(x) for x in xs if x not in self.buffers}
        self.written -= mine.keys()
        outer = self.pending, self._fills
        self.pending, self._fills = {**self.pending, **mine}, {}
        yield
        self.pending, self._fills = outer
        for k, buffer in mine.items():
            if k in self.written:
                self.buffers[k] = buffer
            else:
                self.arena.release(buffer)

    def fills(self, x: Value) -> bool:
        """Whether the computation of a tile also writes others to scratch: all elements of it have to be computed."""
        if not self.pending or type(x.type) is not T.Tile or x in self.buffers:
            return False
        found = self._fills.get(x)
        if found is None:
            op = op_of(x)
            behind = op.operands if type(op) is Op and self.is_lazy(op) else ()
            found = self._fills[x] = any(y in self.pending or self.fills(y) for y in behind)
        return found

    @contextmanager
    def keeping_loaded(self) -> Iterator[None]:
        """While open, tiles that are computed without memory are not written to scratch: later loops do that again."""
        outer = self.pending, self._fills
        self.pending, self._fills = {x: y for x, y in self.pending.items() if not self._is_computable(x)}, {}
        yield
        self.pending, self._fills = outer

    @contextmanager
    def by_lanes(self) -> Iterator[None]:
        """While open, masks of chunks are computed lane by lane."""
        self.by_lane = True
        yield
        self.by_lane = False

    def _is_computable(self, x: Value) -> bool:
        """Whether a tile is a function of scalars and indices."""
        made = lambda y: self.computes(y) and y.kind is not ops.load
        return all(type(y.type) is not T.Tile or made(y) for y in closure([x], lambda y: y.operands if made(y) else ()))

    def computes(self, x: Value) -> TypeGuard[Op]:
        """Whether a loop that reads a tile computes it: it is in no scratch memory."""
        return type(x) is Op and type(x.type) is T.Tile and x not in self.buffers and self.is_lazy(x)

    # --- scratch --------------------------------------------------------------------------------------------------
    def allocate(self, x: Value) -> Buffer:
        """A buffer for a value: its destination if that may be overwritten, else a new one."""
        destination = self.destinations.get(x)
        if destination is not None and destination.allows(self, x):
            destination.buffer.users += 1
            return destination.buffer
        return self.arena.take(T.shape(x.type), T.element(x.type))

    def force(self, x: Value, buffer: Buffer | None = None) -> Buffer:
        """Materialize a tile in scratch memory if it is not there yet; returns its buffer."""
        found = self.buffers.get(x)
        if found is not None and buffer is None:
            return found
        buffer = buffer or self.allocate(x)
        loop_nests.fill(self, [(x, buffer)])
        self.buffers[x] = buffer
        return buffer

    def postpone(self, x: Value) -> None:
        """Materialize a tile here if its buffer is read later."""
        level, region = len(self.w.levels) - 1, self.region
        buffer = self.buffers[x] = self.allocate(x)

        def fill() -> None:
            outer, self.region = (self.region, self.w.rare, self.pending), region
            self.w.rare, self.pending = 0, {}
            run, self.runs, self.run_start, self.run_end = (self.runs, self.run_start, self.run_end), {}, None, None
            del self.buffers[x]
            with self.at(level):
                loop_nests.fill(self, [(x, buffer)])
            self.buffers[x] = buffer
            self.region, self.w.rare, self.pending = outer
            self.runs, self.run_start, self.run_end = run
        buffer.late = fill

    def adopt(self, x: Value, buffer: Buffer) -> None:
        """Add value `x` to the users of `buffer`."""
        buffer.users += 1
        self.buffers[x] = buffer

    def drop(self, k: Value) -> None:
        """Release a value's buffer."""
        buffer = self.buffers.pop(k, None)
        if buffer is not None:
            self.arena.release(buffer)

    def dying(self, x: Value) -> Any:
        """The buffer of a value of this block that is dead after the current op; None if it has none, or lives on.

        Of values of other blocks it is not known here where they are freed.
        """
        return self.buffers.get(x) if x in self.scope.owned and self.scope.last_use(x) <= self.now else None

    def address(self, buffer: Buffer | View) -> Val:
        """The address of a buffer."""
        if type(buffer) is View:
            return buffer.start
        if buffer.late is not None:
            fill, buffer.late = buffer.late, None
            fill()
        if not buffer.offset:
            return self.scratch
        return self.cse(("buffer", buffer.offset), lambda: self.w.gep("i8", self.scratch, self.const(buffer.offset)))

    def slot(self, name: str, size: int = 256) -> Val:
        """A stack slot for vectors that pass through memory."""
        if name not in self._slots:
            self._slots[name] = self.w.alloca(f"[{size} x i8]", align=64)
        return self._slots[name]

    # --- chunks ---------------------------------------------------------------------------------------------------
    def is_lazy(self, op: Op) -> bool:
        """Whether an op is evaluated by chunks, inside the loop nests that use it."""
        found = self._lazy.get(op)
        if found is None:
            found = self._lazy[op] = is_lazy(op)
        return found

    def scalar(self, x: Value) -> Val:
        """A value that is not a tile."""
        found = self.values.get(x)
        if found is None:
            op = op_of(x)
            if type(op) is Arg or puller(op.kind) is None:
                raise CompilationError(None, None, f"{x!r} is used before it is computed")
            self.eager(op)
            found = self.values[x]
        return found

    def ev(self, x: Value, idx: Index) -> Val:
        """The chunk of a value at an index: a vector, or a scalar if all lanes are equal."""
        if type(x.type) is not T.Tile:
            return self.scalar(x)
        found = self.memo.get((x, idx))
        if found is not None:
            return found
        out = uniform_quotients.chunk(self, x, idx)
        buffer = self.buffers.get(x) if out is None else None
        if buffer is not None:
            return self.remember((x, idx), scratch_chunks.read(self, buffer, idx))
        if x in self.inductions:
            return self.remember((x, idx), self.advanced(x, self.inductions[x], idx))
        op = op_of(x)
        out = puller(op.kind)(self, op, idx) if out is None else out
        if type(out) is list:
            for y, chunk in zip(op.results, out, strict=True):
                self.computed(y, idx, chunk)
            return out[x.index if type(x) is Result else 0]
        self.computed(x, idx, out)
        return out

    def computed(self, x: Value, idx: Index, chunk: Val) -> None:
        """Record a computed chunk, and write it to scratch if its tile is buffered."""
        self.remember((x, idx), chunk)
        buffer = self.pending.get(x)
        if buffer is not None:
            self.written.add(x)
            scratch_chunks.write(self, buffer, idx, chunk)

    def advanced(self, x: Value, induction: InductionTile, idx: Index) -> Val:
        """A chunk of an induction tile."""
        w, start, offset, t = self.w, self.ev(induction.start, idx), induction.offset, T.element(x.type)
        if type(t) is T.Ptr:
            text = f"getelementptr {memory_type(t.pointee)}, {start.typed}, {offset.typed}"
            return w.emit(start.type, text, start, offset)
        return w.binary("add", start, self.widen(w.cast("trunc", offset, llvm_type(t)), lanes(start.type)))

    def literal(self, t: T.Scalar | T.Ptr, x: Any) -> Val:
        """A constant of an element type."""
        if type(t) is T.Scalar and t.is_float and llvm_type(t)[0] == "i":
            return self.w.const(llvm_type(t), _code(t, x))
        return self.w.const(llvm_type(t), x)


@statement(ops.yield_)
def _yield(lo: Lowering, op: Op) -> None:
    """Lowered by the op whose region it terminates."""


def _code(t: T.Scalar, x: Any) -> int:
    """The bits of a constant of a type that is represented by its encoding."""
    import numpy as np

    from ....ops.meaning import scalar_of

    return int(np.asarray(scalar_of(x, t)).view(f"u{t.bits // 8}"))
