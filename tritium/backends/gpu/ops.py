"""Ops of the GPU stage: layout conversions, shared-memory buffers, asynchronous copies, MMAs, mbarriers, TMA."""

# The functions of an op's class have no `self`.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

from ...ir import types as T
from ...ir.core import Block, Op
from ...ir.opdef import Access, op


def bytes_of(t: T.Type) -> int:
    """Bytes of a tile, or of a scalar.

    >>> bytes_of(T.Tile((4, 8), T.f16)), bytes_of(T.Ptr(T.f32))
    (64, 8)
    """
    return T.numel(t) * T.element(t).bytes


@op("convert")
class convert:
    """The same tile in another layout (the op's `layout`)."""

    def infer(x):
        return x

    def eval(m, op: Op, x: Any):
        return x


@op("multibuffer", attrs=("tile", "slots", "axis"), effects="write")
class multibuffer:
    """Allocate `slots` buffers in shared memory for tiles of type `tile` with rows along `axis`; gives the address."""

    def infer(*, tile: T.Tile, slots: int, axis: int) -> T.Scalar:
        return T.i32


@op("release", effects="write")
class release:
    """Free the buffer at this address, and all allocated after it."""

    def infer(address) -> None:
        return None


@op("schedule_fence", effects="write")
class schedule_fence:
    """A scheduling fence: loads before it are issued before what is computed behind it. Nobody waits for them; where a
    target has no such thing it is nothing. All threads of a warp are there together."""

    def infer() -> None:
        return None

    def eval(m, op: Op) -> None:
        pass


MIN_TRANSFER = 4  # bytes: no asynchronous copy is shorter


@op("async_load", attrs=("tile", "axis"), effects="write", traits=("async_copy",), access=Access(1, mask=2))
class async_load:
    """Start an asynchronous copy of a tile from global memory into a buffer: operands (buffer address, pointers[,
    mask])."""

    def infer(buffer, pointers: T.Tile, mask: T.Tile | None = None, *, tile: T.Tile, axis: int) -> None:
        return None


@op("buffer_load", attrs=("tile", "axis"), effects="read", cost="cheap")
class buffer_load:
    """Read a tile back from a filled buffer: operand (buffer address). Any layout costs about the same."""

    def infer(buffer, *, tile: T.Tile, axis: int) -> T.Tile:
        return tile


@op("buffer_store", attrs=("axis",), effects="write")
class buffer_store:
    """Write a tile into a buffer, rows along `axis`: operands (buffer address, tile). A barrier must come before
    others read it: `async_wait` has one."""

    def infer(buffer, tile: T.Tile, *, axis: int) -> None:
        return None


@op("async_commit", effects="write", traits=("async_copy",))
class async_commit:
    """Close a group of asynchronous copies."""

    def infer() -> None:
        return None


@op("async_wait", attrs=("pending",), effects="write", fenced=True)
class async_wait:
    """Wait until at most `pending` groups of copies are in flight, then make what arrived visible to all threads; if
    `fenced`, also to units that read shared memory by themselves."""

    def infer(*, pending: int, fenced: bool) -> None:
        return None


@op("share", attrs=("axis",), effects="write")
class share:
    """Write tiles into newly allocated buffers in shared memory, rows along `axis`; gives their byte addresses."""

    def infer(*tiles: Any, axis: int) -> tuple[T.Scalar, ...]:
        return (T.i32,) * len(tiles)


@op("dot_shared", attrs=("lhs", "rhs", "a_axis", "b_axis", "precision", "pending"), effects="read", traits=("mma",))
class dot_shared:
    """Issue acc + a @ b: operands (a, b, acc), where a and b are addresses of buffers, or a is a tile in registers.

    The attributes give the operands' tile types and contiguous axes; for a tile in registers, the axis in the buffer it
    was read from. Such a tile may be unrounded, in f32: it is rounded when the earlier dots, which may read the same
    registers, are finished. The dot waits until at most `pending` dots, this one included, are unfinished, or for none
    (None); an unfinished result may only be used by further `dot_shared` and by `dot_wait`.

    Further operands are an mbarrier and a parity: when its operands are ready, the dot waits for that phase, and then
    as `ping_pong_wait` does.
    """

    def infer(a, b: T.Scalar, acc: T.Tile, *phase: T.Scalar, lhs: T.Tile, rhs: T.Tile, a_axis: int, b_axis: int,
              precision: str, pending: int | None) -> T.Tile:
        return acc


@op("dot_buffers", attrs=("lhs", "rhs", "a_axis", "b_axis"), effects="read")
class dot_buffers:
    """acc + a @ b without MMA: operands (a, b, acc), where a and b are addresses of buffers.

    The attributes give the operands' tile types and contiguous axes.
    """

    def infer(a, b: T.Scalar, acc: T.Tile, *, lhs: T.Tile, rhs: T.Tile, a_axis: int, b_axis: int) -> T.Tile:
        return acc


@op("dot_wait", attrs=("pending",), effects="read", traits=("mma",))
class dot_wait:
    """The accumulator once at most `pending` issued dots are unfinished."""

    def infer(acc, *, pending: int):
        return acc


@op("cleared")
class cleared:
    """Sums, or zeros if an i1 holds. A dot that adds to them overwrites where they are kept."""

    def infer(acc, fresh: T.Scalar):
        return acc


# --- tensor memory: where some targets keep the sums of dots ----------------------------------------------------------
@op("tensor_memory_alloc", attrs=("columns",), effects="write")
class tensor_memory_alloc:
    """Allocate `columns` of tensor memory, and the mbarriers that signal finished dots. The first op of a kernel; a
    barrier of the block."""

    def infer(*, columns: int) -> None:
        return None


@op("tensor_memory_free", attrs=("columns",), effects="write")
class tensor_memory_free:
    """Free the columns that `tensor_memory_alloc` allocated; last in a kernel. A barrier of the block."""

    def infer(*, columns: int) -> None:
        return None


@op("dot_scaled", attrs=("formats",), traits=("mma",))
class dot_scaled:
    """acc + a @ b, where groups of elements along K share a scale: operands (a, b, acc, scales of a, scales of b), as
    those of a `dot` with block-scaled operands."""

    def infer(a, b: T.Tile, acc: T.Tile, a_scale: T.Tile, b_scale: T.Tile, *, formats: tuple[str, str]) -> T.Tile:
        return acc


# --- clusters: the blocks that share a program -----------------------------------------------------------------------
@op("block_rank")
class block_rank:
    """The rank of this block in its cluster, from 0; uniform in the block."""

    def infer() -> T.Scalar:
        return T.i32

    def eval(m, op: Op):
        return m.block_rank()


@op("cluster_all_gather", attrs=("blocks",), effects="write", traits=("cross_lane",))
class cluster_all_gather:
    """All-gather over these `blocks` of the cluster, along a new first axis, for several values at once. A cluster
    barrier."""

    def infer(*values: Any, blocks: tuple[int, ...]) -> tuple[T.Tile, ...]:
        return tuple(T.with_shape(t, (len(blocks), *T.shape(t))) for t in values)

    def eval(m, op: Op, *values: Any):
        return m.cluster_all_gather(values, op.attrs["blocks"])


@op("cluster_barrier", effects="write", traits=("cross_lane",))
class cluster_barrier:
    """Barrier of all threads of the cluster, which makes their writes to memory visible to each other."""

    def infer() -> None:
        return None

    def eval(m, op: Op) -> None:
        m.cluster_barrier()


# --- warps with different work ----------------------------------------------------------------------------------------
@op("warp_specialize", attrs=("registers",), effects="write", traits=("control_flow",), blocks=1)
class warp_specialize:
    """Two regions: the first for the producer warp, the second for the consumer warps. `registers` are those of a
    thread at launch, of a producer, and of a consumer after `setmaxnreg`; 0 at launch if none change hands. If several
    `blocks` multicast, a cluster barrier precedes and follows."""

    def infer(*, regions: tuple[Block, ...], registers: tuple[int, ...], blocks: int) -> None:
        return None


@op("mbarrier_init", attrs=("count", "arrivals"), effects="write")
class mbarrier_init:
    """Allocate `count` mbarriers in shared memory; a phase completes after `arrivals` arrivals of warps (or copies) and
    all expected bytes. Gives the address. A barrier of the block."""

    def infer(*, count: int, arrivals: int) -> T.Scalar:
        return T.i32


@op("mbarrier_arrive", effects="write", blocks=1)
class mbarrier_arrive:
    """Every warp arrives once at the mbarrier at this address, in each of `blocks` blocks; with a second operand, an
    i1, if that holds."""

    def infer(barrier, condition: T.Scalar | None = None, *, blocks: int) -> None:
        return None


@op("mbarrier_wait", effects="write")
class mbarrier_wait:
    """Wait until the mbarrier at this address has completed a phase of this parity: operands (barrier, parity)."""

    def infer(barrier, parity: T.Scalar) -> None:
        return None


@op("ping_pong_open", effects="write")
class ping_pong_open:
    """Ping-pong scheduling of the two consumer warpgroups begins, with the first group."""

    def infer() -> None:
        return None


@op("ping_pong_wait", effects="write")
class ping_pong_wait:
    """A warpgroup waits for the signal of the other one."""

    def infer() -> None:
        return None


@op("ping_pong_signal", effects="write")
class ping_pong_signal:
    """A warpgroup signals the other one."""

    def infer() -> None:
        return None


@op("ping_pong_close", effects="write")
class ping_pong_close:
    """Consume the last signal, for which no group waits."""

    def infer() -> None:
        return None


@op("tma_load", attrs=("tile", "axis"), effects="write", traits=("global_memory", "async_copy"), blocks=1)
class tma_load:
    """Issue a TMA load of a box of a tensor into a buffer: operands (buffer, barrier, map, *coordinates).

    The mbarrier expects its bytes. The coordinates are the start of the box, slowest axis first; elements outside of
    the tensor become zeros. Several `blocks` that need the same box multicast a part of it each.
    """

    def infer(buffer, barrier: T.Scalar, tensor: T.Ptr, *coordinates: T.Scalar, tile: T.Tile, axis: int,
              blocks: int) -> None:
        return None


@op("row_load", attrs=("tile",), effects="write", traits=("global_memory", "async_copy"))
class row_load:
    """Issue the copy of a 1-D tile into a buffer: operands (buffer, barrier, address). It lies in one piece, at a
    multiple of 16 bytes. The mbarrier expects its bytes."""

    def infer(buffer, barrier: T.Scalar, address: T.Ptr, *, tile: T.Tile) -> None:
        return None


@op("element_load", attrs=("tile", "axis", "wraps"), effects="write", traits=("global_memory",))
class element_load:
    """Load a tile into a buffer element by element, for boxes that TMA cannot read; complete when it returns.

    Operands (buffer, origin, step, low, high of each axis, then start and modulus of each axis that `wraps`): element
    (i, j) is at origin + i * step + j * step, or at (start + i) % modulus; it is zero outside of low ... high.
    """

    def infer(buffer, origin: T.Ptr, *numbers: T.Scalar, tile: T.Tile, axis: int, wraps: tuple[bool, ...]) -> None:
        return None


@op("tma_store", attrs=("axis", "rank", "how", "ordered", "fenced"), effects="write",
    traits=("global_memory", "async_copy"))
class tma_store:
    """Issue a TMA store of a tile with rows along `axis` to a box of a tensor.

    Operands (tile, map, `rank` coordinates). Elements outside of the tensor are dropped; with `how` the others update
    memory by an atomic operation. If `ordered`, earlier TMA stores of the program complete first; if `fenced`, the
    threads' writes to global memory are visible to TMA. Further operands are an i1, whether TMA can store the box, and
    for the threads to store it instead origin, step, low and high of each axis as in `element_load`.
    """

    def infer(value, tensor: T.Ptr, *numbers: T.Type, axis: int, rank: int, how: str | None, ordered: bool,
              fenced: bool) -> None:
        return None


@op("tma_wait", attrs=("written",), effects="write")
class tma_wait:
    """The thread that issued TMA stores waits until TMA has read shared memory for all of them; with `written`, until
    it has also written global memory."""

    def infer(*, written: bool) -> None:
        return None
