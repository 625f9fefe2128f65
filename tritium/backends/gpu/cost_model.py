"""What things cost on a target: the numbers by which passes prefer one way to emit a kernel to another.

None of them is needed for a right result. A vendor puts its own into `Target.cost`; the values here are those that
serve an H200. A comment gives the reason, and the measurement where one is recorded.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class CostModel:
    """The cost model of a target.

    >>> import dataclasses
    >>> dataclasses.replace(CostModel(), unrolled_trips=4).unrolled_trips
    4
    """

    # --- layouts -------------------------------------------------------------------------------------------------
    # Bytes that a thread may hold through a loop to save a conversion in each iteration: 32 registers. Chosen.
    held_bytes: int = 128
    # An operation on an element, in bytes that change threads: it decides whether a tile is recomputed or converted.
    # So an iteration of paged decode attention moves 35328 bytes instead of 105472, on sm_90.
    operation_bytes: int = 1
    # A tile that every warp needs is computed once and converted from this number of registers on; a smaller one is
    # computed by every warp, without the barriers of a conversion. Chosen.
    converted_registers: int = 4
    # A tile with idle threads is stored as it is if it takes at most `idle_factor` times the accesses of the ideal
    # layout: such tiles are small, and converting them costs more than idle threads. Chosen.
    idle_factor: int = 2
    # Loads of a thread up to which a vector is loaded in the layout of its user, by several threads, rather than
    # converted through shared memory. Chosen: converting takes a load, a store, a barrier and as many reads.
    repeated_loads: int = 2
    # A layout stores as well as the ideal one if the lowest `run_bits` lane bits of both are the same: eight lanes then
    # write whole sectors of 32 bytes.
    run_bits: int = 3

    # --- loops ---------------------------------------------------------------------------------------------------
    # The most iterations of a loop, and operations of a thread in all of them, for which it is unrolled: its loads are
    # in flight at once. Chosen, so that the text stays short.
    unrolled_trips: int = 8
    unrolled_work: int = 2048
    # A function such as a logarithm, in operations. Chosen.
    slow_operations: int = 8
    # Prefetched loads may take this fraction (1 / prefetch_share) of a thread's registers: temporaries and results are
    # as large. A softmax of 8192 columns by 8 warps goes from 56 registers to 91.
    prefetch_share: int = 4
    # Registers of a thread for loads of a loop with dots that are prefetched into registers, where there are no
    # asynchronous copies, as far as sums and what is beside them leave room; 0 to leave such loops alone. Turing's are:
    # nobody has measured them.
    prefetched_dots: int = 0

    # --- dots ----------------------------------------------------------------------------------------------------
    # Registers of a thread for operands and addresses, beside the results of dots: 192 of 255 are left for results.
    registers_beside_dots: int = 63

    # --- warp specialization -------------------------------------------------------------------------------------
    # Consumer warps beside a producer warp: one warpgroup or two. `Tma.warps` shares out registers for these.
    consumer_warps: tuple[int, ...] = (4, 8)
    # Consumer warps of a block that has its multiprocessor to itself. Such a block loads the loop-invariant tiles of
    # its next program ahead: nothing else would be multiplied while they arrive.
    warps_alone: int = 8
    # Whether a producer warp gains where several dots read a tile and the threads have other loads in each iteration.
    # On an H200 it does not: in two runs, gradients of keys and values took 1.03 and 1.10 times as long with one.
    # Gradients of queries, without such loads, took 0.75 and 0.88. Several small blocks seem to hide the latency of
    # those loads, where one block with a producer warp does not.
    producer_beside_loads: bool = False
    # Programs whose loops differ in length are dealt to persistent blocks by length, if at most so many have the same
    # length: these run side by side and share no tiles. More than that level out in the order of the grid: in a model
    # of causal masks with 64 heads and more, blocks end within 3 % of each other.
    dealt_together: int = 48
    # Ping-pong: warps of both groups together, and rows of a result that one group multiplies by itself (an MMA's).
    ping_pong_warps: int = 8
    ping_pong_rows: int = 64

    # --- clusters ------------------------------------------------------------------------------------------------
    # The fewest rows or columns of a dot in a block: with fewer there is no MMA for it.
    least_of_dot: int = 16
    # Rows of one asynchronous MMA; with fewer in a block a dot counts as half the gain.
    good_rows: int = 64
    # An element from another block, in computed elements. Chosen.
    far_element: int = 16
    # Iterations that are assumed of a loop. Chosen.
    assumed_trips: int = 8


__all__ = ["CostModel"]
