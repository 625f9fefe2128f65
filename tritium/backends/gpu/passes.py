"""The passes between tile IR and LLVM, in order: the stage `ttgir` of every GPU.

A kernel with dots gets a producer warp where the target has TMA (`specialize_warps`), else its loops are pipelined
(`software_pipeline`), in as many stages as find room in shared memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ...passes import first_that, must_change, promise_arguments
from .cluster.split import split_clusters
from .layout.assign import assign_layouts
from .pipeline.ping_pong import keeps_ping_pong
from .pipeline.prefetch import prefetch_loads
from .pipeline.share_loads import share_loads
from .pipeline.software_pipeline import most_stages, software_pipeline
from .pipeline.specialize_warps import specialize_warps
from .pipeline.tma_stores import tma_stores
from .rewrite.guard_masks import guard_masks
from .rewrite.hoist_scales import hoist_scales
from .rewrite.join_sums import join_sums
from .rewrite.multiply_scaled import multiply_scaled
from .rewrite.order_programs import order_programs
from .rewrite.redundant_loads import eliminate_redundant_loads
from .rewrite.simplify_induction import simplify_induction
from .rewrite.sort_topk import sort_topk
from .rewrite.split_dots import split_dots
from .rewrite.swap_operands import swap_operands
from .shared_memory.allocate import allocate_shared, fits_shared_memory
from .shared_memory.barriers import insert_barriers
from .target import Target
from .tensor_memory import allocate_tensor_memory

if TYPE_CHECKING:
    from ...ir.core import Module

__all__ = ["pipeline"]


def pipeline(target: Target) -> tuple[Callable, ...]:
    """The passes for a target, as `passes.run` takes them."""
    on = lambda step, **options: functools.partial(step, target=target, **options)
    finish = on(tma_stores), hoist_scales, on(join_sums), guard_masks, on(assign_layouts)
    finish = *finish, on(allocate_tensor_memory), on(allocate_shared)

    def alternatives(module: Module) -> Iterator[tuple[Callable, ...]]:
        yield must_change(on(specialize_warps)), *finish
        yield must_change(on(specialize_warps, number=1)), *finish
        yield order_programs, on(prefetch_loads), on(software_pipeline), on(share_loads), *finish
        for most in range(most_stages(module) - 1, 0, -1):
            pipelined = on(prefetch_loads, copies=most > 1), on(software_pipeline, most=most), on(share_loads)
            yield order_programs, *pipelined, *finish

    return (
        promise_arguments,  # to functions
        simplify_induction,
        on(multiply_scaled),
        on(split_clusters),
        on(sort_topk),
        on(split_dots),
        on(eliminate_redundant_loads),
        on(swap_operands),
        first_that(lambda made: fits_shared_memory(made, target) and keeps_ping_pong(made), alternatives),
        on(insert_barriers),
    )
