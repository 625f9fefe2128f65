"""Tile IR with layouts -> LLVM: each thread computes the registers its layout gives it.

A tile value is a list of LLVM values, one for each register of its layout; a scalar is a list of one, equal in all
threads. A lowering sees only the op it lowers: `lower[kind](g, op, *operand lists) -> list, or tuple of lists`, where
`lower` is the table of the target: `LOWER`, and what the target does otherwise or besides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from .... import knobs, ops
from ....analysis.arithmetic import ARITHMETIC, lowest_bit
from ....errors import CompilationError, outermost
from ....ir import types as T
from ....ir.core import Arg, Block, Module, Op, Result, Value, walk
from ....ir.opdef import OpKind
from ....ir.rewrite import uses
from ...llvm.lines import Lines
from ...llvm.numbering import NumberingWriter
from ...llvm.writer import NO_BRANCH, Val, value
from ..layout.linear import Layout, image, log2
from ..layout.values import layout_of
from ..shared_memory.needs import Need
from ..target import Target
from .overlaps import overlapping_loads
from .registers import Registers
from .rows import row
from .shared_memory import Passage, SharedMemory
from .words import llvm_type

LOWER = {}
_LESS = {"icmp slt": True, "icmp sgt": True, "icmp sge": False, "icmp sle": False,
         "icmp ult": True, "icmp ugt": True, "icmp uge": False, "icmp ule": False}  # fmt: skip
LONGEST_CHAIN = 100  # of ops whose registers wait to be asked for: each is a Python call


def lower(*kinds: OpKind) -> Callable[[Callable], Callable]:
    """Register a lowering for op kinds."""

    def register(fn: Callable) -> Callable:
        LOWER.update(dict.fromkeys(kinds, fn))
        return fn

    return register


class Lowering:
    """The state of lowering one kernel: the writer, the values so far, and what the target offers."""

    def __init__(self, module: Module, target: Target):
        self.module, self.target, self.shared = module, target, SharedMemory()
        self.w = NumberingWriter()
        self.lines = Lines(not knobs.compilation.disable_line_info)
        self.values = {}
        self.late_loads = {}
        self.overlapping: frozenset[Op] = frozenset()  # loads of the block that share elements
        self._overlapping: dict[Block, frozenset[Op]] = {}  # those of blocks that were seen: regions may be many times
        self.shared_loads: dict[int, tuple[int, Registers]] = {}  # those that wait, with the width of their accesses
        self.loaded = {}  # what they loaded, by address, mask and value for the rest
        self.used = uses(module.body)
        self.warps, self.lanes = module.attrs["num_warps"], target.warp_size
        self.lane_bits, self.threads = log2(self.lanes), self.lanes * self.warps
        self.small_quotients = module.attrs.get("small_quotients", False)
        specialized = module.attrs.get("producer_warps")
        # MMAs are faster where a warp's number is known to be one for all lanes.
        self.by_thread = not specialized and not any(kind.mma for kind in module.kinds)
        self.callees = {}  # functions by name
        self.members = None  # how many warps meet at barriers, where it is not all
        self._once: dict[Any, Any] = {}
        self._head = 0  # level of what is computed once
        self.loops: list[int] = []  # the levels of those that are open
        self._sums = {}  # value -> (value, number) whose sum it is, without wrapping
        self._below = {}  # value -> power of two it is below, if it is not negative
        self._zeros = {}  # value -> how many of its lowest bits are 0
        self._ranges = {}  # value -> the least and the most it may be
        self.same_bits = {}  # value -> one of another type that it was made of
        self._selected = {}  # value -> (condition, value, value) that it is one of
        self._different = {}  # value -> the two whose bits differ in its own
        self._heard = {}  # (value, mask) -> (level, what the other lane has)
        self._divisors = {}  # argument -> how many of its lowest bits are 0 in every launch

    # --- values -------------------------------------------------------------------------------------------------
    def get(self, x: Value) -> Sequence[Val]:
        """The registers of a value."""
        return self.values[x.op][x.index] if type(x) is Result else self.values[x][0]

    def layout(self, x: Value) -> Any:
        return layout_of(x)

    def set(self, op: Value, out: Sequence[Val] | tuple[Sequence[Val], ...]) -> None:
        self.values[op] = out if type(out) is tuple else (out,)

    def function(self, result: str, name: str, parameters: Sequence[str], attributes: str,
                 linkage: str = "") -> AbstractContextManager:
        """Write the function of the module: as the writer's `function`, with its place."""
        loc = next((op.loc for op in walk(self.module.body) if op.loc), None)
        place = self.lines.function(name, loc and outermost(loc))
        self.w.here = self.lines.at(loc)
        return self.w.function(result, name, parameters, f"{attributes} {place}".rstrip(), linkage)

    # --- blocks -------------------------------------------------------------------------------------------------
    def block(self, block: Block) -> list[Sequence[Val]]:
        """Lower every op of a block but its closing yield; returns what it yields."""
        earlier, here = frozenset(self.late_loads), self.w.here
        around = self.overlapping
        if block not in self._overlapping:
            self._overlapping[block] = overlapping_loads(block)
        self.overlapping = self._overlapping[block]
        for op in block.ops:
            if op.kind.terminator:
                break
            self.op(op)
        self.w.here, self.overlapping = here, around
        self.load_shared()
        self.load_now(spare=earlier)  # what was begun here is not visible outside
        return [self.get(y) for y in block.yields]

    def op(self, op: Op) -> None:
        fn = self.target.lower.get(op.kind) or (row if op.kind.row else None)
        if fn is None:
            raise CompilationError(None, None, f"op {op.kind.name} has no lowering for {self.target.name}")
        self.w.here = self.lines.at(op.loc) or self.w.here
        operands = [self.get(x) for x in op.operands]
        waiting = [x for x in operands if type(x) is Registers]
        if self.shared_loads and not _waits(op):
            self.load_shared()
        if self.late_loads and (op.kind.effects == "write" or op.regions):
            self.load_now(spare=frozenset().union(*[x.loads for x in waiting]) if op.kind is ops.store else frozenset())
        out = fn(self, op, *operands)
        if type(out) is Registers:
            if waiting:
                out.depth += max([x.depth for x in waiting])
                out.loads = out.loads.union(*[x.loads for x in waiting])
            out.come_from(self.w)
            if out.depth > LONGEST_CHAIN:
                out = list(out)
        if op.types:
            self.set(op, out)

    def load_late(self, count: int, make: Callable[[int], Any]) -> Registers:
        """Registers of a large tile, loaded when they are asked for: all at once they would not fit. Whatever else
        writes memory meanwhile makes the rest load first."""
        out = Registers(count, make)
        out.loads = frozenset((id(out),))
        self.late_loads[id(out)] = out
        return out

    def load_together(self, count: int, width: int, make: Callable[[int], Any]) -> Registers:
        """Registers of a tile that overlaps with others, loaded once all of these are known: the widest first, of which
        the others take what they share."""
        out = Registers(count, make)
        self.shared_loads[id(out)] = width, out
        return out

    def load_shared(self) -> None:
        """Finish the loads of tiles that overlap. What is loaded later may differ."""
        if not self.shared_loads:
            return
        for _, registers in sorted(self.shared_loads.values(), key=lambda found: -found[0]):
            list(registers)
        self.shared_loads, self.loaded = {}, {}

    def load_now(self, spare: frozenset[int] = frozenset()) -> None:
        """Finish the late loads, but for those a store is about to ask for."""
        if not self.late_loads:
            return
        for key in [k for k in self.late_loads if k not in spare]:
            list(self.late_loads.pop(key))

    def inline(self, block: Block, args: Iterable[Val]) -> list[Val]:
        """Lower a region of scalars in place: `args` are single LLVM values; returns the yielded ones."""
        for arg, x in zip(block.args, args, strict=True):
            self.values[arg] = ([x],)
        return [y[0] for y in self.block(block)]

    def kept_here(self) -> AbstractContextManager[None]:
        """Within it lines stay where they are written: what a branch skips is not computed."""
        return self.kept_in(len(self.w.levels) - 1)

    @contextmanager
    def kept_in(self, level: int) -> Iterator[None]:
        """Within it lines are not hoisted out of a level."""
        floor, self.w.floor = self.w.floor, max(self.w.floor, level)
        yield
        self.w.floor = floor

    @contextmanager
    def kept_in_branch(self) -> Iterator[None]:
        """Within it, the innermost level being a branch, lines that depend on the iteration of the innermost loop stay
        in the branch; others are written before the loop."""
        outer, self.w.kept = self.w.kept, (self.loops[-1], len(self.w.levels) - 1)
        yield
        self.w.kept = outer

    @contextmanager
    def group(self, warps: int) -> Iterator[None]:
        """Within it, barriers are for `warps` warps, and values that only they need are computed only by them."""
        kept, self._once = self._once, dict(self._once)
        self.members, self._head = warps, len(self.w.levels) - 1
        with self.kept_here():
            yield
        self.members, self._head = None, 0
        self._once = kept | {key: x for key, x in self._once.items() if x is None}  # functions that were defined

    # --- places -------------------------------------------------------------------------------------------------
    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """What `make()` gave the first time `key` was asked for: for values at the head of the kernel."""
        if key not in self._once:
            kept, (self.w.floor, self.w.kept) = (self.w.floor, self.w.kept), (self._head, NO_BRANCH)
            self._once[key] = make()
            self.w.floor, self.w.kept = kept
        return self._once[key]

    def place(self, part: str) -> Val:
        """This thread's "lane" or "warp" number, or its own in the program ("thread"), as i32."""
        if part == "thread":
            return self.target.index(self, "thread")
        return self.once(part, lambda: self._lane() if part == "lane" else self._warp())

    def _lane(self) -> Val:
        return self.w.binary("and", self.place("thread"), self.int(self.lanes - 1))

    def _warp(self) -> Val:
        return self.target.uniform(self, self.w.binary("lshr", self.place("thread"), self.int(self.lane_bits)))

    def spread(self, images: Iterable[int], part: str) -> Val:
        """XOR over the set bits k of this thread's lane, warp or own number of images[k], as i32."""
        images = tuple(images)
        if part == "warp" and self.by_thread:
            part, images = "thread", (0,) * self.lane_bits + images
        return self.once((part, images), lambda: self._spread(images, part))

    def _spread(self, images: tuple[int, ...], part: str) -> Val:
        w, total = self.w, None
        runs = {}  # bits that move by the same distance move together
        odd = []
        for k, x in enumerate(images):
            if x and x & (x - 1) == 0:
                runs.setdefault(x.bit_length() - 1 - k, []).append(k)
            elif x:
                odd.append((k, x))
        disjoint = not odd and len({*images} - {0}) == sum(map(bool, images))
        for distance, bits in runs.items():
            piece = self.place(part)
            if part != "thread" or len(bits) < len(images):
                piece = w.binary("and", piece, w.const("i32", sum(1 << k for k in bits)))
            piece = w.binary("shl" if distance > 0 else "lshr", piece, w.const("i32", abs(distance)))
            total = piece if total is None else w.binary("or disjoint" if disjoint else "xor", total, piece)
        for k, x in odd:
            bit = w.binary("and", w.binary("lshr", self.place(part), w.const("i32", k)), w.const("i32", 1))
            piece = w.binary("mul", bit, w.const("i32", x))
            total = piece if total is None else w.binary("xor", total, piece)
        return w.const("i32", 0) if total is None else total

    def linear(self, layout: Layout, fn: Callable[[int], int]) -> tuple[Val, list[int]]:
        """i32 value of a linear function of this thread's element index: `fn` maps each image to what it adds.

        Returns (thread part, [register parts as ints]): element of register r is thread part ^ register part.
        """
        lanes, warps = [fn(x) for x in layout.lane], [fn(x) for x in layout.warp]
        parts = [image([fn(x) for x in layout.reg], r) for r in range(layout.registers)]
        if self.by_thread and layout.threads == self.threads:
            return self.spread(lanes + warps, "thread"), parts
        lane, warp = self.spread(lanes, "lane"), self.spread(warps, "warp")
        return self.w.binary("xor", lane, warp), parts

    def addresses(self, layout: Layout, fn: Callable[[int], int]) -> Registers:
        """As `linear`, for addresses: [(i32 value, number to add)] of the registers.

        Bits no thread's part has are added as a number, which accesses to memory take with them, so that few registers
        need a value of their own.
        """
        base, numbers = self.base_and_numbers(layout, fn)
        return Registers(len(numbers), lambda r: (base[r], numbers[r]))

    def base_and_numbers(self, layout: Layout, fn: Callable[[int], int]) -> tuple[Registers, list[int]]:
        """The values and the numbers of `addresses`, apart."""
        thread, parts = self.linear(layout, fn)
        taken = 0
        for x in (*layout.lane, *layout.warp):
            taken |= fn(x)
        zeros = log2(taken & -taken) if taken else 0
        here = lambda bits: self.note_zeros(self.w.binary("xor", thread, self.int(bits)), zeros)
        base = Registers(len(parts), lambda r: here(parts[r] & taken), len({x & taken for x in parts}))
        return base, [x & ~taken for x in parts]

    def note_sum(self, x: Val, base: Val, constant: int, below: int = 0) -> Val:
        """Remember that an integer or pointer is `base` and a number, and perhaps which power of two is above; returns
        it."""
        if constant:
            self._sums[x] = base, constant
        if below:
            self._below[x] = below
        return x

    def sum_of(self, x: Val) -> tuple[Val, int]:
        """(value, number) whose sum `x` is: memory is accessed at a register and a number, so neighbours share one."""
        return self._sums.get(x, (x, 0))

    def add(self, x: Val, y: Val, made: Val) -> Val:
        """Note what is known of the sum of two integers: to a multiple of 2^k, what is below 2^k adds no carry."""
        for multiple, small in ((x, y), (y, x)):
            base, constant = self.sum_of(small)
            if constant and self._below.get(small, 1 << 63) <= 1 << self._zeros.get(multiple, 0):
                zeros = min(self.zeros_of(multiple), self.zeros_of(base))
                return self.note_sum(made, self.note_zeros(self.w.binary("add", multiple, base), zeros), constant)
        if y[0] != "%":
            base, constant = self.sum_of(x)
            total = constant + int(y)
            if not total and constant:
                return base
            if 0 < total < 1 << self._zeros.get(base, 0):
                self.note_sum(made, base, total)
        return self.note_zeros(made, min(self.zeros_of(x), self.zeros_of(y)))

    def mul(self, x: Val, y: Val, made: Val) -> Val:
        """Note what is known of the product of two integers."""
        return self.note_zeros(made, sum(map(self.zeros_of, (x, y))))

    def note_zeros(self, x: Val, count: int) -> Val:
        """Remember how many of an integer's lowest bits are 0; returns it."""
        if count and x[0] == "%":
            self._zeros[x] = count
        return x

    def zeros_of(self, x: Val) -> int:
        """How many of an integer's lowest bits are known to be 0."""
        return self._zeros.get(x, 0) if x[0] == "%" or x == "0" else log2(int(x) & -int(x))

    def note_range(self, x: Val, least: int, most: int) -> Val:
        """Remember the least and the most that an integer may be; returns it."""
        if x[0] == "%":
            self._ranges[x] = least, most
        return x

    def decided(self, spell: str, x: Val, y: Val) -> Val | None:
        """The result of a comparison of integers, if it is the same for all threads by what they may be; else None."""
        wants_less, left, right = _LESS.get(spell), self._range_of(x), self._range_of(y)
        if wants_less is None or left is None or right is None:
            return None
        if spell.startswith("icmp u") and min(left[0], right[0]) < 0:
            return None
        if spell[-2:] in ("gt", "le"):
            left, right = right, left
        surely, never = left[1] < right[0], left[0] >= right[1]
        return self.w.const("i1", surely == wants_less) if surely or never else None

    def _range_of(self, x: Val) -> tuple[int, int] | None:
        return self._ranges.get(x) if x[0] == "%" else (int(x), int(x)) if x.lstrip("-").isdigit() else None

    def aligned(self, spell: str, x: Val, y: Val) -> tuple[Val, Val]:
        """The operands of a comparison: of multiples of 2^k, x + c < y is x < y where c is below 2^k. So neighbours
        that a bound cannot part have one mask."""
        if spell in ("icmp sgt", "icmp sle", "icmp ugt", "icmp ule"):
            return (x, self._aligned(y, x))
        less = "icmp slt", "icmp sge", "icmp ult", "icmp uge"
        return (self._aligned(x, y), y) if spell in less else (x, y)

    def _aligned(self, x: Val, bound: Val) -> Val:
        base, constant = self.sum_of(x)
        zeros = self._zeros.get(base, 0)
        if not 0 < constant < 1 << zeros:
            return x
        divides = bound == "0" or max(self.zeros_of(bound), self._divisors.get(bound, 0)) >= zeros
        return base if divides else x

    # --- values that change places ------------------------------------------------------------------------------
    def heard(self, x: Val, mask: int) -> Val:
        """What the lane has whose number differs by `mask`; it is asked once."""
        level = self.w.levels[-1]
        known = self._heard.get((x, mask))
        if known is None or known[0] is not level:
            known = self._heard[x, mask] = level, self.target.shuffle(self, x, "xor", mask) if x[0] == "%" else x
        return known[1]

    def select(self, condition: Val, x: Val, y: Val) -> Val:
        """`x` where `condition`, else `y`."""
        if x == y and x.type == y.type:
            return x
        made = self.w.select(condition, x, y)
        self._selected[made] = condition, x, y
        a, b = self._range_of(x), self._range_of(y)
        return self.note_range(made, min(a[0], b[0]), max(a[1], b[1])) if a and b else made

    def xor(self, x: Val, y: Val) -> Val:
        """x ^ y. A value and the difference to another, where they are to change places, make a choice of the two:
        x ^ (x ^ y if c else 0) is y if c else x."""
        a, b = self._selected.get(x), self._selected.get(y)
        if a and b and a[0] == b[0] and a[1:] == b[:0:-1]:  # the two in either order
            return self.xor(*a[1:])
        for mine, chosen in ((x, b), (y, a)):
            if chosen and "0" in chosen[1:]:
                pair = self._different.get(chosen[1] if chosen[2] == "0" else chosen[2], ())
                if mine in pair:
                    other = pair[1] if mine == pair[0] else pair[0]
                    return self.select(chosen[0], *((other, mine) if chosen[2] == "0" else (mine, other)))
        made = self.w.binary("xor", x, y)
        if made[0] == "%" and made not in (x, y):  # it is not folded
            self._different[made] = x, y
        return made

    def note_divisor(self, x: Val, arg: Arg) -> None:
        """Remember what divides an integer argument."""
        if type(arg.type) is T.Scalar and arg.type.is_int:
            self._divisors[x] = log2(lowest_bit(arg.attrs.get("divisible", 1)))

    def owns(self, layout: Layout | None) -> Val | None:
        """i1: this place is the lowest that holds its elements (None if all are); scalars belong to thread 0."""
        w = self.w
        if layout is None:
            return w.compare("icmp eq", self.place("thread"), self.int(0))
        lanes, warps = layout.free("lane"), layout.free("warp")
        whole = (("thread", lanes | warps << self.lane_bits),)
        masks = whole if self.by_thread else (("lane", lanes), ("warp", warps))
        return w.all_of(*(w.compare("icmp eq", w.binary("and", self.place(part), self.int(mask)), self.int(0))
                          for part, mask in masks if mask))

    def spread_owned(self, op: Op, registers: Sequence[Val], t: T.Scalar | T.Ptr,
                     layout: Layout | None) -> Sequence[Val]:
        """Hand what owning places hold to their replicas, through the op's shared memory (`spread_need`)."""
        owner = self.owns(layout)
        if owner is None:
            return registers
        shared, w = self.shared, self.w
        passage = Passage(self, op)
        (base,) = passage.bases
        thread, parts = self.linear(layout, lambda e: e) if layout else (self.int(0), [0])
        at = [w.binary("xor", thread, self.int(p)) for p in parts]
        passage.before_write()
        with w.when(owner):
            for x, index in zip(registers, at):
                shared.store(self, base, index, x, t)
        passage.after_write()
        return [shared.load(self, base, index, t) for index in at]

    def const(self, t: T.Scalar | str, x: float) -> Val:
        return self.w.const(t if isinstance(t, str) else llvm_type(t), x)

    def int(self, x: int) -> Val:
        return self.w.const("i32", x)


def _waits(op: Op) -> bool:
    """Whether the lowering of an op asks for no registers, or only for those that loads are made of."""
    pure = (op.kind.elementwise or op.kind in ARITHMETIC) and not op.kind.effects_of(op)
    return pure or op.kind is ops.load and not op.attrs["volatile"]


def spread_need(t: T.Scalar | T.Ptr, layout: Layout | None) -> Need | None:
    """What `spread_owned` takes of shared memory."""
    if layout is not None and not layout.free("lane") and not layout.free("warp"):
        return None
    return Need([(layout.numel if layout else 1) * t.bytes])


def lower_kernel(module: Module, target: Target, attributes: str = "", exact: bool = False) -> str:
    """LLVM text of a kernel whose tiles have layouts, whose shared memory is allocated, and which has its barriers.

    With `exact`, lines say their columns and callers.
    """
    from .calls import callees, write_functions

    if "shared_bytes" not in module.attrs:
        raise CompilationError(None, None, f"the shared memory of {module.name} is not allocated: run allocate_shared")
    g = Lowering(module, target)
    g.callees = callees(module)
    if exact:
        g.lines = Lines(exact=True)
    names = [_name(k, arg) for k, arg in enumerate(module.args)]
    parameters = [f"{_parameter_type(target, arg)} {name}" for arg, name in zip(module.args, names)]
    threads = g.lanes * (g.warps + module.attrs.get("producer_warps", 0))
    result, own = target.kernel(threads)
    with g.function(result, module.name, parameters, f"nounwind {own} {attributes}".rstrip()):
        for arg, name in zip(module.args, names):
            kind = "i8" if arg.type is T.i1 else "ptr" if "tensor_map" in arg.attrs else llvm_type(arg.type)
            x = value(kind, f"%{name}")
            g.set(arg, [g.w.cast("trunc", x, "i1") if arg.type is T.i1 else x])
            g.note_divisor(x, arg)
        g.block(module.body)
        g.w.ret()
    write_functions(g)
    head = ["@smem = external addrspace(3) global [0 x i8], align 1024"] if module.attrs["shared_bytes"] else []
    return "\n".join([*head, *g.lines.text(), g.w.text()])


def _name(k: int, arg: Arg) -> str:
    return f"a{k}.{arg.name}" if arg.name and arg.name.isascii() else f"a{k}"  # LLVM takes no other letters


def _parameter_type(target: Target, arg: Arg) -> str:
    if arg.type is T.i1:
        return "i8"
    if "tensor_map" in arg.attrs:
        assert target.tma is not None
        return target.tma.parameter
    align = arg.attrs.get("divisible")
    if type(arg.type) is T.Ptr and align:
        return f"{llvm_type(arg.type)} align {align}"
    return llvm_type(arg.type)
