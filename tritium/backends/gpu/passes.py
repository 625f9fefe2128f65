"""The passes between tile IR and LLVM, in order: the stage `ttgir` of every GPU.

A kernel with dots gets a producer warp where the target has TMA (`specialize_warps`), else its loops are pipelined
(`software_pipeline`), in as many stages as find room in shared memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ... import passes
from ...analysis.accesses import origins_of
from ...passes import first_that, must_change, promise_arguments
from ...passes.inline_calls import inline_calls
from .cluster.split import split_clusters
from .layout.assign import assign_layouts
from .pipeline.ping_pong import keeps_ping_pong
from .pipeline.prefetch import prefetch_loads
from .pipeline.share_invariants import share_invariants
from .pipeline.share_loads import share_loads
from .pipeline.software_pipeline import most_stages, software_pipeline
from .pipeline.specialize_warps import specialize_warps
from .pipeline.tma_stores import tma_stores
from .pipeline.warp_plan import plans_of
from .rewrite.assume_sizes import assume_sizes
from .rewrite.clear_sums import clear_sums
from .rewrite.drop_unit_axes import drop_unit_axes
from .rewrite.fence_loads import fence_loads
from .rewrite.flatten_branches import flatten_branches
from .rewrite.guard_masks import guard_masks
from .rewrite.hoist_scales import hoist_scales
from .rewrite.inline_for_gpu import inline_for_gpu
from .rewrite.join_sums import join_sums
from .rewrite.keep_rows import keep_rows
from .rewrite.leave_early import leave_early
from .rewrite.merge_repeated import merge_repeated
from .rewrite.multiply_scaled import multiply_scaled
from .rewrite.narrow_dots import narrow_dots
from .rewrite.narrow_loops import narrow_loops
from .rewrite.narrow_tiles import narrow_tiles
from .rewrite.nest_loops import nest_loops
from .rewrite.reduce_in_chunks import reduce_in_chunks
from .rewrite.reduce_late import reduce_late
from .rewrite.reduce_to_extrema import reduce_to_extrema
from .rewrite.redundant_loads import eliminate_redundant_loads
from .rewrite.scale_induction import scale_induction
from .rewrite.shorten_conditions import shorten_conditions
from .rewrite.shorten_locks import shorten_locks
from .rewrite.simplify_induction import simplify_induction
from .rewrite.sort_topk import sort_topk
from .rewrite.split_dots import split_dots
from .rewrite.sum_small_dots import sum_small_dots
from .rewrite.swap_operands import swap_operands
from .rewrite.transpose_scores import transpose_scores
from .rewrite.unroll_loops import unroll_loops
from .shared_memory.allocate import allocate_shared, fits_shared_memory, shares_multiprocessor
from .shared_memory.barriers import insert_barriers
from .shared_memory.order_accesses import order_accesses
from .target import Target, UnknownArchitecture
from .tensor_memory import allocate_tensor_memory

if TYPE_CHECKING:
    from ...ir.core import Module
    from ..compiler import GPUTarget, Options


def early_passes(asked: GPUTarget, target: Target, what: str, has: passes.TargetInfo) -> tuple[Callable, ...]:
    """The passes to the stage `ttir` of a target, which was asked for by name; errors call its GPUs `what`."""
    if asked.warp_size != target.warp_size:
        raise UnknownArchitecture(f"warps of {what} have {target.warp_size} threads, not {asked.warp_size}: {asked}")
    makers = reduce_late, unroll_loops, merge_repeated
    reduce, unroll, merge = (make(target.warp_size, target.cost) for make in makers)
    return (inline_for_gpu, *passes.CLEANUP, narrow_tiles, drop_unit_axes, scale_induction, reduce, unroll,
            sum_small_dots(target), passes.apply_ranges, leave_early, merge, reduce_to_extrema, passes.legalize(has),
            passes.dce)  # fmt: skip


def with_layouts(module: Module, steps: tuple[Callable, ...], options: Options, metadata: dict[str, Any]) -> Module:
    """The module of the stage `ttgir`; the metadata of a sanitized kernel say whether it has foreign pointers."""
    if options.sanitized:
        metadata["foreign"] = any(not origins for _, origins in origins_of(inline_calls(module)))
    return passes.run(module, steps, passes.dumping(module.name))


def launch_metadata(module: Module) -> dict[str, Any]:
    """Metadata for the launcher: preconditions of a kernel, and what its implicit arguments need."""
    usual = {"preconditions": {}, "producer_warps": 0, "tensor_maps": (), "persistent": False}
    return {name: module.attrs.get(name, value) for name, value in usual.items()}


def pipeline(target: Target) -> tuple[Callable, ...]:
    """The passes for a target, as `passes.run` takes them."""
    on = lambda step, **options: functools.partial(step, target=target, **options)
    finish = on(tma_stores), hoist_scales, on(join_sums), guard_masks, on(assign_layouts), shorten_locks
    finish = *finish, on(allocate_tensor_memory), on(allocate_shared)

    def alternatives(module: Module) -> Iterator[tuple[Callable, ...]]:
        yield must_change(on(specialize_warps)), *finish
        yield must_change(on(specialize_warps, number=1)), *finish
        share = on(share_loads), on(share_invariants)
        yield assume_sizes, on(prefetch_loads), on(software_pipeline), *share, *finish
        for most in range(most_stages(module) - 1, 0, -1):
            yield assume_sizes, on(prefetch_loads, copies=most > 1), on(software_pipeline, most=most), *share, *finish

    def serves(made: Module) -> bool:
        return fits_shared_memory(made, target) and keeps_ping_pong(made) and shares_multiprocessor(made, target)

    to_dots = (
        shorten_conditions,
        flatten_branches,
        on(multiply_scaled),
        on(split_clusters),
        on(sort_topk),
        on(reduce_in_chunks),
        on(narrow_dots),
        on(split_dots),
        on(eliminate_redundant_loads),
        on(swap_operands),
        on(transpose_scores),
        on(clear_sums),
        keep_rows,
    )

    def runs_ahead(module: Module) -> bool:
        """True if a producer warp loads for a kernel: it runs ahead into the next task."""
        return bool(plans_of(passes.run(module, to_dots), target).plans)

    return (
        promise_arguments,  # to functions
        simplify_induction,
        narrow_loops,
        functools.partial(nest_loops, gains=runs_ahead),
        *to_dots,
        first_that(serves, alternatives),
        on(order_accesses),
        on(insert_barriers),
        on(fence_loads),
    )
