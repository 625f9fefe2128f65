"""The multiprocessor of a GPU as the search for schedules sees it: rates of its units, and latencies.

The defaults are an H200's: rates from the CUDA programming guide, latencies from measurements. None of them is needed
for a right result.
"""

from __future__ import annotations

from ...frozen import Frozen


class Multiprocessor(Frozen):
    """Rates are per cycle, latencies in cycles.

    >>> Multiprocessor().tensor_rate(16), Multiprocessor().tensor_rate(8)
    (2048, 4096)
    """

    # --- units ---------------------------------------------------------------------------------------------------
    # Multiply-adds of the tensor cores on 16-bit operands; 8-bit ones take half the time, 32-bit ones twice.
    tensor: int = 2048
    # Elements in instructions: four warps issue.
    lanes: int = 128
    # Exponentials and other functions of the special function units.
    special: int = 16
    # Bytes that shared memory reads or writes, for tensor cores, copies and threads together.
    shared: int = 128
    # Bytes from L2: all 132 multiprocessors of an H200 together read some 6150.
    l2: int = 46
    # Bytes that asynchronous copies of threads bring: twelve copies of 16 bytes take a thread some 500 cycles while the
    # threads of seven more warps copy as well.
    copied: int = 96
    # The share of a partition's issue slots that one warp uses: its instructions depend on each other. Chosen.
    issue_share: float = 0.6
    # The same of a partition's special function unit. Fitted to attention in f16 and fp8 with and without a producer.
    special_share: float = 0.7

    # Instructions of a thread in each iteration for the loop and its barriers, and for an asynchronous copy of 16
    # bytes. Counted in PTX of products and attention.
    loop_instructions: int = 40
    copy_instructions: int = 6

    # --- latencies -----------------------------------------------------------------------------------------------
    # From the end of an MMA to its result in registers, with the wait for it. Chosen.
    mma: int = 60
    # Cycles of unfinished MMAs with which a warpgroup goes on; issuing more blocks it. Four MMAs of 128 cycles block it
    # for 190 to 440 cycles while another warpgroup multiplies as well.
    mma_queue: int = 256
    # From a load to its data, mostly from DRAM.
    load: int = 600
    # Warps of a block meet.
    barrier: int = 30
    # A reduction across the lanes of a row.
    reduction: int = 50
    # A program waits for its first tiles, unless a producer warp loads them while the one before is stored.
    fill: int = 5300
    # Storing an element of a result. Both were solved from products of 4096 and 8192 with 128x256 tiles: 4400 cycles of
    # a program are no iterations with a producer warp, and 9700 without.
    store: float = 4400 / (128 * 256)
    # Iterations of a program that are assumed. Chosen.
    trips: int = 40

    # --- sizes ---------------------------------------------------------------------------------------------------
    # Warps that issue an MMA together, independent of the others; 0 if one thread issues it for the block.
    warpgroup: int = 4
    # Rows of an MMA.
    mma_rows: int = 64
    # Registers of a thread beside tiles, at least: gradients of keys and values have 224 in tiles and take 250 to 252.
    beside_tiles: int = 28
    # Registers that are spilled at no cost: they hold none of a tile.
    spilled_beside_tiles: int = 8
    # Registers beside tiles with which as many blocks as possible share a multiprocessor: the assembler is asked for
    # fewer than it would take. Products and attention with copies take 45 to 62 if they may.
    beside_tiles_at_ease: int = 48

    def tensor_rate(self, bits: int) -> int:
        """Multiply-adds of the tensor cores on operands with so many bits."""
        return self.tensor * 16 // bits
