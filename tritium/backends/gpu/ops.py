"""Ops that exist only at the GPU stage: layout conversions, and shared memory filled ahead of its use."""

# The functions of an op's class have no `self`.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from ...ir import types as T
from ...ir.opdef import op


@op("convert")
class convert:
    """The same tile in another layout (the op's `layout`)."""

    def infer(x):
        return x

    def eval(m, op, x):
        return x


@op("multibuffer", attrs=("tile", "slots", "axis"), effects="write")
class multibuffer:
    """`slots` new buffers in shared memory for tiles of type `tile` with rows along `axis`; gives the address."""

    def infer(*, tile, slots, axis):
        return T.i32


@op("release", effects="write")
class release:
    """The buffer at this address, and all made after it, are not read any more: their memory may be used again."""

    def infer(address):
        return None


MIN_TRANSFER = 4  # bytes: no asynchronous copy is shorter


@op("async_load", attrs=("tile", "axis"), effects="write")
class async_load:
    """Start copying a tile from global memory into a buffer: operands (buffer address, pointers[, mask])."""

    def infer(buffer, pointers, mask=None, *, tile, axis):
        return None


@op("buffer_load", attrs=("tile", "axis"), effects="read")
class buffer_load:
    """Read a tile back from a buffer that copies have filled: operand (buffer address)."""

    def infer(buffer, *, tile, axis):
        return tile


@op("async_commit", effects="write")
class async_commit:
    """Close a group of copies."""

    def infer():
        return None


@op("async_wait", attrs=("pending",), effects="write")
class async_wait:
    """Wait until at most `pending` groups of copies are under way, then let all threads see what arrived."""

    def infer(*, pending):
        return None


@op("share", attrs=("axis",), effects="write")
class share:
    """Put tiles into shared-memory buffers of their own, rows along `axis`; gives their byte addresses."""

    def infer(*tiles, axis):
        return (T.i32,) * len(tiles)


@op("dot_shared", attrs=("lhs", "rhs", "a_axis", "b_axis", "precision", "pending"), effects="read")
class dot_shared:
    """Start acc + a @ b: operands (a, b, acc), where a and b are addresses of buffers, or a is a tile in registers.

    The attributes give the operands' tile types and the axes their rows lie along; those of a tile in registers lay so
    in the buffer it comes from. Such a tile may come unrounded, in f32: then it is rounded when the dots before are
    over, which read such registers, too. The dot waits until at most `pending` dots, this one included, are unfinished,
    or for none (None); an unfinished result may only be handed to further `dot_shared` and to `dot_wait`.

    Further operands are a barrier and a parity: with all it takes to begin at hand, the dot waits for that phase, and
    then as `ping_pong_wait` does.
    """

    def infer(a, b, acc, *phase, lhs, rhs, a_axis, b_axis, precision, pending):
        return acc


@op("dot_buffers", attrs=("lhs", "rhs", "a_axis", "b_axis"), effects="read")
class dot_buffers:
    """acc + a @ b by plain threads: operands (a, b, acc), where a and b are addresses of buffers.

    The attributes give the operands' tile types and the axes their rows lie along.
    """

    def infer(a, b, acc, *, lhs, rhs, a_axis, b_axis):
        return acc


@op("dot_wait", attrs=("pending",), effects="read")
class dot_wait:
    """The accumulator once at most `pending` started dots are unfinished."""

    def infer(acc, *, pending):
        return acc


# --- clusters: the blocks that share a program -----------------------------------------------------------------------
@op("block_rank")
class block_rank:
    """Which block of its cluster this is, counted from 0; equal in all its threads."""

    def infer():
        return T.i32

    def eval(m, op):
        return m.block_rank()


@op("cluster_all_gather", attrs=("blocks",), effects="write")
class cluster_all_gather:
    """What each of these `blocks` of the cluster holds, along a new first axis, for several values at once. All blocks
    meet here."""

    def infer(*values, blocks):
        return tuple(T.with_shape(t, (len(blocks), *T.shape(t))) for t in values)

    def eval(m, op, *values):
        return m.cluster_all_gather(values, op.attrs["blocks"])


@op("cluster_barrier", effects="write")
class cluster_barrier:
    """All threads of all blocks of the cluster meet, and see what the others have written to memory."""

    def infer():
        return None

    def eval(m, op):
        m.cluster_barrier()


# --- warps with different work ----------------------------------------------------------------------------------------
@op("warp_specialize", attrs=("registers",), effects="write", blocks=1)
class warp_specialize:
    """Two regions for two groups of warps: the second for the kernel's own, the first for one of those that come behind
    them. `registers` are how many each thread begins with, then one behind them and one of the others. If several
    `blocks` copy for each other, they meet before and after."""

    def infer(*, regions, registers, blocks):
        return None


@op("mbarrier_init", attrs=("count", "arrivals"), effects="write")
class mbarrier_init:
    """`count` new barriers in shared memory, each through with a phase when so many warps (or copies) have arrived and
    all announced bytes are there; gives the address. All threads of the program meet here."""

    def infer(*, count, arrivals):
        return T.i32


@op("mbarrier_arrive", effects="write", blocks=1)
class mbarrier_arrive:
    """Every warp that comes here arrives once at the barrier at this address, in each of so many blocks; with a second
    operand, an i1, if that holds."""

    def infer(barrier, condition=None, *, blocks):
        return None


@op("mbarrier_wait", effects="write")
class mbarrier_wait:
    """Wait until the barrier at this address is through with a phase of this parity: operands (barrier, parity)."""

    def infer(barrier, parity):
        return None


@op("ping_pong_open", effects="write")
class ping_pong_open:
    """The two halves of the kernel's own warps begin to take turns, the first with the first."""

    def infer():
        return None


@op("ping_pong_wait", effects="write")
class ping_pong_wait:
    """A group of warps waits for its turn."""

    def infer():
        return None


@op("ping_pong_signal", effects="write")
class ping_pong_signal:
    """It is the other group's turn."""

    def infer():
        return None


@op("ping_pong_close", effects="write")
class ping_pong_close:
    """The last turn has been passed on, and nobody is to take it."""

    def infer():
        return None


@op("tma_load", attrs=("tile", "axis"), effects="write", blocks=1)
class tma_load:
    """Have the copy engine bring a box of a tensor into a buffer: operands (buffer, barrier, map, *coordinates).

    Its bytes are announced to the barrier, which waits for them. The coordinates are the box's start, slowest axis
    first; what lies outside of the tensor becomes zeros. Several `blocks` that want the same box bring a part of it
    each, to all of them.
    """

    def infer(buffer, barrier, tensor, *coordinates, tile, axis, blocks):
        return None


@op("element_load", attrs=("tile", "axis", "wraps"), effects="write")
class element_load:
    """Bring a tile into a buffer element by element, for boxes the copy engine cannot read; done when it ends.

    Operands (buffer, origin, step, low, high of each axis, then start and modulus of each axis that `wraps`): element
    (i, j) lies at origin + i * step + j * step, or at (start + i) % modulus; it is zero outside of low ... high.
    """

    def infer(buffer, origin, *numbers, tile, axis, wraps):
        return None


@op("tma_store", attrs=("axis", "rank", "how", "ordered", "fenced"), effects="write")
class tma_store:
    """Have the copy engine write a tile with rows along `axis` to a box of a tensor, and go on meanwhile.

    Operands (tile, map, `rank` coordinates). What lies outside of the tensor is dropped; with `how` the rest is
    combined with what is there, by an atomic operation. If `ordered`, the program's earlier boxes are written first; if
    `fenced`, what its threads wrote to global memory is. Further operands are an i1, whether the engine can do so, and
    for the threads to do it origin, step, low and high of each axis as in `element_load`.
    """

    def infer(value, tensor, *numbers, axis, rank, how, ordered, fenced):
        return None
