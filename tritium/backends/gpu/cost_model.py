"""What things cost on a target: the numbers by which passes prefer one way to emit a kernel to another.

None of them is needed for a right result. A vendor's record is `Target.cost`, and says where its numbers come from.
What every GPU has must be given; what only some have is neutral unless it is: no preference, or never done.
"""

from __future__ import annotations

from ...frozen import Frozen


class CostModel(Frozen):
    """The cost model of a target.

    >>> from tritium.backends.nvptx.isa.target import NvTarget
    >>> NvTarget.of(90).cost.unrolled_trips
    8
    """

    # --- layouts -------------------------------------------------------------------------------------------------
    # Bytes that a thread may hold through a loop to save a conversion in each iteration.
    held_bytes: int
    # An operation on an element, in bytes that change threads: it decides whether a tile is recomputed or converted.
    operation_bytes: int
    # A tile that every warp needs is computed once and converted from this number of registers on; a smaller one is
    # computed by every warp, without the barriers of a conversion.
    converted_registers: int
    # A tile with idle threads is stored as it is if it takes at most `idle_factor` times the accesses of the ideal
    # layout: such tiles are small, and converting them costs more than idle threads.
    idle_factor: int
    # Loads of a thread up to which a vector is loaded in the layout of its user, by several threads, rather than
    # converted through shared memory: converting takes a load, a store, a barrier and as many reads.
    repeated_loads: int
    # A layout stores as well as the ideal one if the lowest `run_bits` lane bits of both are the same.
    run_bits: int
    # Two barriers, in instructions of a warp, where other programs run on the multiprocessor meanwhile: a conversion
    # goes by shuffles if these take fewer than shared memory and its barriers. 0: never.
    barriers: int = 0
    # The same where no other program does.
    barriers_alone: int = 0

    # --- loops ---------------------------------------------------------------------------------------------------
    # The most iterations of a loop, and operations of a thread in all of them, for which it is unrolled: its loads are
    # in flight at once.
    unrolled_trips: int
    unrolled_work: int
    # A loop whose loads cannot be in flight at once is unrolled up to this fraction (1 / idle_unrolled) of the work.
    idle_unrolled: int
    # Bytes that a thread may have in flight by unrolling a longer loop by a factor, `unrolled_trips` at most.
    unrolled_bytes: int
    # Bytes of loaded tiles that a thread may keep, once loops are unrolled, rather than load them again.
    kept_bytes: int
    # A function such as a logarithm, in operations.
    slow_operations: int
    # Bytes of shared memory for each warp that a program may take so that ops need not wait for the readers of the
    # scratch of ops before.
    scratch_per_warp: int = 0
    # The fewest load instructions of a thread that a scheduling fence keeps in front of what is computed; 0: none.
    fenced_loads: int = 0
    # What they load may take this fraction (1 / fenced_share) of a thread's registers: results need as many and more.
    fenced_share: int = 4
    # The fewest operations behind them, for each element that is loaded: with fewer the loads are in front anyway.
    fenced_work: int = 8
    # The same in kernels with dots, outside of loops.
    fenced_work_with_dots: int = 20
    # Or, in those, the fewest operations that stand between the loads, for each element.
    fenced_between: int = 1
    # Prefetched loads may take this fraction (1 / prefetch_share) of a thread's registers: temporaries and results are
    # as large.
    prefetch_share: int
    # Registers of a thread for loads of a loop with dots that are prefetched into registers, where there are no
    # asynchronous copies, as far as sums and what is beside them leave room; 0 to leave such loops alone.
    prefetched_dots: int = 0
    # Bytes that a producer warp loads ahead, also with fewer stages than that takes, if as many programs find room.
    loaded_ahead: int = 0
    # Iterations from which on blocks may run a single program each, if more of them fit a multiprocessor so.
    single_trips: int = 8
    # Registers of a thread for tiles of dots that no asynchronous copy can bring, as their elements are not aligned:
    # loaded an iteration early, and written to shared memory at its end.
    thread_copy_registers: int = 0

    # --- dots ----------------------------------------------------------------------------------------------------
    # Registers of a thread for operands and addresses, beside the results of dots.
    registers_beside_dots: int

    # Warps that take all registers of a multiprocessor, at 255 a thread. Chosen.
    warps_with_all_registers: int = 8

    # --- warp specialization -------------------------------------------------------------------------------------
    # Registers of a consumer beside the sums of its dot, as many as it may need, where its kernel loads tiles outside
    # of the loop around the dot.
    beside_loaded_sums: int = 0
    # The same, where it does not.
    beside_sums: int = 0
    # The same, as few as it may take.
    fewest_beside_sums: int = 0
    # Slots that a persistent product has at least, if they find room.
    least_slots: int = 0
    # Programs whose loops differ in length are dealt to persistent blocks by length, if at most so many have the same
    # length: these run side by side and share no tiles. More than that level out in the order of the grid.
    dealt_together: int = 0

    # --- clusters ------------------------------------------------------------------------------------------------
    # The fewest rows or columns of a dot in a block.
    least_of_dot: int = 1
    # Rows of a dot in a block; with fewer it counts as half the gain.
    good_rows: int = 1
    # An element from another block, in computed elements.
    far_element: int = 1
    # Iterations that are assumed of a loop.
    assumed_trips: int = 1
