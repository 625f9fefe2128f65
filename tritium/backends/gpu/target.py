"""A GPU as the shared stages see it: one record for each architecture.

The fields say how large things are and which features there are; the functions write the instructions that vendors
spell differently. A function that emits takes the lowering `g` first: `g.w` writes LLVM text. Everything else about a
vendor is in its table of lowerings, `lower`: what all GPUs share (`gpu.lower.LOWER`), and the ops that are its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...errors import TritonError
from ...frozen import Frozen
from ...named_tuples import NamedTuple
from .multiprocessor import Multiprocessor

if TYPE_CHECKING:
    from ...ir.core import Op
    from ...ir.opdef import OpKind
    from ...ir.types import Scalar
    from ..llvm.writer import Val
    from ..occupancy import Machine
    from .cost_model import CostModel
    from .lower.function import Lowering
    from .tma import Tma


class UnknownArchitecture(TritonError, ValueError):
    """A name that stands for no GPU that tritium compiles for."""


def _none(*_: Any) -> None:
    return None


def _no(*_: Any) -> bool:
    return False


def _one(*_: Any) -> int:
    return 1


class Mma(NamedTuple):
    """The matrix instructions (MMA) of a target; by default it has none, and dots are FMAs of threads.

    accumulator(a, b, out, precision, warps, by_rows): the layout of the result of a dot of these tile types, None
    without an MMA for it; `by_rows` if warps should hold whole rows. fragments(a, b, out, precision, warps, by_rows):
    the layouts of both operands if the MMA reads them from registers, else None.
    in_shared(a, b, out, precision, warps): the MMA is asynchronous, and reads shared memory.
    vector(dot, warps): how many registers of the result the MMA takes and returns as one vector.
    gathers(dot, element, warps): how many neighbours along K a thread should load of an operand's elements that are
    contiguous across it; None if transposing in shared memory costs nothing. subnormals: those of 16-bit floats are
    multiplied, not taken for zero.

    The others are asked about asynchronous ones only. started(dot, warps): the layouts of a `dot_shared`, and of its
    lhs if that is in registers. takes(tile, operand, axis): operand "a" or "b" may be contiguous along `axis` in shared
    memory. lhs_once(rows, warps): no two threads hold the same element of the lhs.
    hold(g, dot, init, nonempty): a place for the sums of a dot in a loop, which has an iteration if `nonempty`; None if
    they are carried as other values are. columns(op, warps): how many columns of tensor memory the sums of an op take,
    None if it is no dot or its sums are in registers. scaled(a, b, out, scales, formats, warps): the layouts of a
    `dot_scaled`, None if it has no MMA for it: (result, a, b, scales of a, scales of b), None for those that may be in
    any; `scales` are the types of both.
    """

    accumulator: Callable[..., Any] = _none
    fragments: Callable[..., Any] = _none
    in_shared: Callable[..., bool] = _no
    started: Callable[..., tuple] | None = None
    takes: Callable[..., bool] = _no
    lhs_once: Callable[..., bool] = _no
    hold: Callable[..., Any] = _none
    columns: Callable[..., int | None] = _none
    scaled: Callable[..., tuple | None] = _none
    vector: Callable[..., int] = _one
    gathers: Callable[..., int] | None = None
    subnormals: bool = True

    def result_of(self, dot: Op, warps: int) -> Any:
        """The layout of the result of a dot."""
        return self.accumulator(*_types_of(dot), warps, dot.attrs.get("by_rows", False))

    def operands_of(self, dot: Op, warps: int) -> Any:
        """The layouts of the operands of a dot that reads registers, else None."""
        return self.fragments(*_types_of(dot), warps, dot.attrs.get("by_rows", False))


def _types_of(dot: Op) -> tuple[Any, ...]:
    a, b = (x.type for x in dot.operands[:2])
    return a, b, dot.type, dot.attrs["precision"]


NO_MMA = Mma()


class AsyncCopies(NamedTuple):
    """Copies from global to shared memory that run beside the computation.

    copy(g, to, constant, source, size, mask, attrs): copy `size` bytes to `constant` bytes behind `to`; zeros where the
    mask is off. commit(g): close a group of copies. wait(g, pending): until at most `pending` groups of this thread are
    in flight. sizes: bytes that one copy may have. in_lane_order: the lanes of a warp copy to one place after the
    other, from that of the first lane on.
    """

    copy: Callable[..., None]
    commit: Callable[..., None]
    wait: Callable[..., None]
    sizes: tuple[int, ...] = (4, 8, 16)
    in_lane_order: bool = False


def plain_quotient(g: Lowering, spell: str, x: Val, y: Val) -> Val:
    """The `wide_quotient` of targets that LLVM has a fast one for."""
    return g.w.binary(spell, x, y)


def exact_reciprocal(g: Lowering, x: Val) -> Val:
    """The `reciprocal` of targets without an instruction for it."""
    return g.w.binary("fdiv", g.w.const("float", 1.0), x)


class Target(Frozen):
    """One architecture of a vendor.

    >>> from tritium.backends.nvptx.isa.target import NvTarget
    >>> NvTarget.of(80).warp_size, NvTarget.of(80).tma is None
    (32, True)
    """

    name: str  # of the backend, for messages
    triple: str  # LLVM's names for the architecture
    cpu: str
    features: str = ""

    # --- sizes ---------------------------------------------------------------------------------------------------
    machine: Machine  # the registers, shared memory and warps of a multiprocessor
    tensor_columns: int = 0  # of tensor memory, the most that a program can have
    cost: CostModel
    multiprocessor: Multiprocessor = Multiprocessor()

    # --- instructions --------------------------------------------------------------------------------------------
    lower: Mapping[OpKind, Callable]  # op kind -> its lowering
    native: Mapping[tuple[str, Scalar], Callable] = MappingProxyType({})  # (row, type) -> its instruction
    kernel: Callable[[int], tuple[str, str]]  # threads -> LLVM's result type and attributes of a kernel
    index: Callable[..., Any]  # (g, "thread", "program" or "programs", axis): who this is, as i32
    clock: Callable[..., Any]  # (g, what)
    barrier: Callable[..., None]  # (g): all threads of the program meet, or of `g.members` warps; memory is in order
    uniform: Callable[..., Any]  # (g, x): an i32 equal in all lanes of the warp, known to be
    shuffle: Callable[..., Any]  # (g, x, "xor" or "from", lane): what another lane has
    load: Callable[..., list]  # (g, pointer, kind, count, mask, fill, attrs): neighbours; `fill` where the mask is off
    store: Callable[..., None]  # (g, pointer, items, mask, attrs): neighbours
    atomic: Callable[..., list]  # (g, op, pointer, type, values, mask): the old neighbours
    float_to_int: Callable[..., Any]  # (g, x, to): saturating; NaN to 0
    print_values: Callable[..., None]  # (g, op, values)
    assert_failed: Callable[..., None]  # (g, op): report the message, stop the kernel

    # --- what some have ------------------------------------------------------------------------------------------
    widest_atomic: Callable[..., int] = _one  # (how, element): the most neighbours that one atomic instruction updates
    carries_words: bool = False  # loaded elements that share words are carried through loops in them
    pair_rows: frozenset[tuple[str, Scalar]] = frozenset()  # (row, type): one instruction computes two neighbours
    pair_cast: Callable[..., Any] = _none  # (source, to): a function (g, low, high) that converts two at once, or None
    wide_quotient: Callable[..., Any] = plain_quotient  # (g, "sdiv", "urem" ..., x, y): of i64 by no constant
    reciprocal: Callable[..., Any] = exact_reciprocal  # (g, x): of a float, with a relative error below 2^-22
    exchange: Callable[..., tuple] | None = None  # (g, x, y, bit): words (i32); x of lanes with the bit for y of others
    exchange_bits: tuple[int, ...] = ()  # bits of lanes it is for
    schedule_fence: Callable[..., None] = _none  # (g): loads before it are issued before what is computed behind it
    async_fence: Callable[..., None] = _none  # (g): units that read shared memory by themselves see what threads wrote
    load_matrices: Callable | None = None  # (g, address, constant, count, transposed): words of 8x8 16-bit matrices
    store_matrices: Callable | None = None  # (g, address, words): four such matrices
    async_copies: AsyncCopies | None = None
    mma: Mma = NO_MMA
    tma: Tma | None = None

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return object.__hash__(self)

    @property
    def warp_size(self) -> int:
        """Threads of a warp."""
        return self.machine.warp_size

    @property
    def shared_bytes(self) -> int:
        """The most shared memory that a program can have."""
        return self.machine.most_shared
