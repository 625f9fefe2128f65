"""The passes between tile IR and LLVM, in order: the stage `ttgir` of every GPU.

A kernel with dots gets a producer warp where the target has TMA (`specialize_warps`), else its loops are pipelined
(`software_pipeline`), in as many stages as find room in shared memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from ...passes import first_that, must_change, promise_arguments
from .cluster.split import split_clusters
from .layout.assign import assign_layouts
from .pipeline.ping_pong import keeps_ping_pong
from .pipeline.prefetch import prefetch_loads
from .pipeline.shared_budget import fits_shared_memory
from .pipeline.software_pipeline import most_stages, software_pipeline
from .pipeline.specialize_warps import specialize_warps
from .pipeline.tma_stores import tma_stores
from .rewrite.hoist_scales import hoist_scales
from .rewrite.redundant_loads import eliminate_redundant_loads
from .rewrite.simplify_induction import simplify_induction
from .rewrite.split_dots import split_dots
from .rewrite.swap_operands import swap_operands
from .tma import Tma

__all__ = ["Machine", "pipeline"]


class Machine(NamedTuple):
    """What the passes ask of a target, with the options of a kernel."""

    warp_size: int  # lanes
    shared_bytes: int  # of a block, at most
    registers: int  # of a thread, at most
    exchanges_registers: bool  # whether warps with different work may share out the registers of their block
    tma: Tma | None  # its TMA; None if it has none that feeds its tensor cores
    # (a, b, out, precision, warps) -> whether tensor cores multiply tiles of these types
    multiplies: Callable[..., bool]
    # (module, nonnegative) -> the `pipeline.schedule.Capabilities` for its dots and loads; values that are assumed not
    # to be negative are added to the list `nonnegative`
    capabilities: Callable[..., Any]
    # (a, b, out, precision, warps) -> the layout of a dot's accumulator, None without tensor cores
    dot_layout: Callable[..., Any]
    # (a, b, out, precision, warps) -> the layouts of both operands of a dot that reads registers, None for others
    fragments: Callable[..., Any]
    # (op, warps) -> the layouts of a `dot_shared` and of its lhs in registers
    dot_shared_layouts: Callable[..., Any]
    # (how, element) -> the number of neighbouring elements that one atomic instruction updates
    widest_atomic: Callable[..., int]


def pipeline(target: Machine) -> tuple[Callable, ...]:
    """The passes for a target, as `passes.run` takes them."""
    on = lambda step, **options: functools.partial(step, target=target, **options)
    finish = on(tma_stores), hoist_scales, on(assign_layouts)

    def alternatives(module):
        yield must_change(on(specialize_warps)), *finish
        yield must_change(on(specialize_warps, ping_pong=False)), *finish
        yield on(prefetch_loads), on(software_pipeline), *finish
        for most in range(most_stages(module) - 1, 0, -1):
            yield on(prefetch_loads), on(software_pipeline, most=most), *finish

    return (
        promise_arguments,  # to functions
        simplify_induction,
        split_clusters,
        on(split_dots),
        on(eliminate_redundant_loads),
        on(swap_operands),
        first_that(lambda made: fits_shared_memory(made, target) and keeps_ping_pong(made), alternatives),
    )
