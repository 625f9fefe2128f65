"""The cost model of NVIDIA GPUs. "Chosen" is what nobody has measured against other numbers."""

from __future__ import annotations

from ...gpu.cost_model import CostModel

__all__ = ["H200"]

# What serves an H200 (sm_90). The other architectures have it, too: nobody has measured them.
H200 = CostModel(
    held_bytes=128,  # 32 registers; chosen
    operation_bytes=1,  # an iteration of paged decode attention moves 35328 bytes instead of 105472
    converted_registers=4,  # chosen
    idle_factor=2,  # chosen
    repeated_loads=2,  # chosen
    run_bits=3,  # eight lanes write whole sectors of 32 bytes
    unrolled_trips=8,  # chosen, so that the text stays short
    unrolled_work=2048,
    # 32 registers; chosen: a block of 512 threads keeps a row of 16384 floats, and three such blocks fit an SM
    kept_bytes=128,
    slow_operations=8,  # chosen
    prefetch_share=4,  # a softmax of 8192 columns by 8 warps goes from 56 registers to 91
    prefetched_dots=0,  # only Turing and Volta have no asynchronous copies
    registers_beside_dots=63,  # 192 of 255 are left for results
    registers_beside_sums=56,  # 48 to 64 in Inductor's templates: three blocks of 64 x 128 results fit, not two
    dealt_together=48,  # in a model of causal masks with 64 heads and more, blocks end within 3 % of each other
    least_of_dot=16,  # with fewer rows or columns there is no MMA
    good_rows=64,  # of one wgmma
    far_element=16,  # chosen
    assumed_trips=8,  # chosen
)
