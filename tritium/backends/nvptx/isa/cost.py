"""The cost models of NVIDIA GPUs. "Chosen" is what nobody has measured against other numbers."""

from __future__ import annotations

import dataclasses

from ...gpu.cost_model import CostModel

__all__ = ["H200", "TENSOR_MEMORY"]

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
    consumer_warps=(4, 8),  # one warpgroup or two
    warps_alone=8,
    # In two runs, gradients of keys and values took 1.03 and 1.10 times as long with a producer warp. Gradients of
    # queries, without such loads, took 0.75 and 0.88. Several small blocks seem to hide the latency of those loads,
    # where one block with a producer warp does not.
    producer_beside_loads=False,
    dealt_together=48,  # in a model of causal masks with 64 heads and more, blocks end within 3 % of each other
    ping_pong_warps=8,
    ping_pong_rows=64,  # of one wgmma
    least_of_dot=16,  # with fewer rows or columns there is no MMA
    good_rows=64,  # of one wgmma
    far_element=16,  # chosen
    assumed_trips=8,  # chosen
)

# Where one thread multiplies for the block, warpgroups do not by themselves.
TENSOR_MEMORY = dataclasses.replace(H200, ping_pong_warps=0)
