"""Warp specialization: a producer warp loads tiles by TMA, consumer warps multiply them.

    producer warp                            consumer warps
    for each program:                        for each program:
      for i:                                   for i:
        wait until slot s is empty               wait until slot s is full
        issue the TMA loads of its boxes         acc = dot_shared buffer_a[s], buffer_b[s], acc
                                                 arrive: slot s - 1 is empty
                                               store

The producer warp computes scalars only, so it runs ahead of the consumers, even into the next program: a kernel that
only loads, multiplies and stores becomes persistent. It is launched once per resident block and loops over its
programs. Where the user wrote such a loop over tiles, both roles run it; the launcher checks that its stores do not
alias the tiles loaded ahead (`stores` of its preconditions).

A cluster has a producer warp in each block. Boxes that all blocks need are multicast, a part by each block to all: a
slot is empty when the consumers of all blocks have released it.

`warp_plan` decides all of this; here a plan is emitted: buffers and mbarriers (`slots`), then a region for each role
(`producer`, `consumer`), in the loop of a persistent block (`programs`). The host encodes the tensor maps of the boxes
at every launch (`tensor_maps` of the module).
"""

from __future__ import annotations

from collections.abc import Callable

from .... import ops
from ....ir import types as T
from ....ir.builder import Builder
from ....ir.core import Arg, Block, Module, Op, Value
from ....ir.preconditions import with_preconditions
from ....passes.assumed import Assumed
from .. import ops as gpu_ops
from ..analysis.division import small_dividends
from ..analysis.preconditions import Assumptions
from ..target import Target
from ..tma import span, tensor_map
from .consumer import Consumer
from .producer import Producer
from .producer_work import AHEAD, buffers_of
from .programs import Programs
from .reordering import Reordering
from .slots import SharedBuffers, Slots, i32
from .warp_plan import WarpPlan, plans_of


def specialize_warps(module: Module, target: Target, number: int = 0) -> Module:
    """Give the kernel a producer warp that loads by TMA, if all its loops around dots can be specialized and gain.

    The launcher encodes the tensor maps, so there must be one that does. `number` is that of the plan to emit: the
    first is the best.
    """
    plans = plans_of(module, target).plans
    if number >= len(plans):
        return module
    plan, assumed = plans[number], Assumed(module)
    reordering = Reordering.of(module, assumed)
    if reordering is not None and not reordering.take(plan.pairs):
        return module
    assumptions = Assumptions(plan.lifted.module, assumed.nonnegative, plan.lifted.grid)
    made = _Kernel(plan, assumptions, target.cost.dealt_together).build()
    if small_dividends(module, assumed.nonnegative):
        made = made.replace(attrs={**made.attrs, "small_quotients": True})
    return assumed.stated_by(made)


class _Kernel:
    """Emits a plan, as the launcher lets us assume."""

    def __init__(self, plan: WarpPlan, assumptions: Assumptions, dealt_together: int):
        self.plan, self.assumptions, self.b = plan, assumptions, Builder()
        one_axis = plan.reads_one_axis and assumptions.has_one_axis()
        self.nonempty = {loop.op for loop in plan.work.loops if assumptions.has_iterations(loop.op)}
        grid = tuple(Arg(T.i32, f"grid.{x}") for x in "xyz") if plan.persistent else ()
        self.programs = Programs(grid, one_axis, plan.lengths, dealt_together)

    def build(self) -> Module:
        b, plan, lifted, work = self.b, self.plan, self.plan.lifted, self.plan.work
        maps = [Arg(T.Ptr(T.u8), f"map.{k}", {"tensor_map": True}) for k in range(len(work.loads))]
        b.arguments = [*lifted.original.args, *self.programs.grid, *maps]
        multibuffers = {}
        for (tile, axis, *_), loads in buffers_of(work.loops, plan.can).items():
            multibuffers |= dict.fromkeys(loads, gpu_ops.multibuffer(b, tile=tile, slots=plan.slots, axis=axis))
        self.rank = [gpu_ops.block_rank(b)] if lifted.blocks > 1 else []
        buffers = self.shared_buffers(multibuffers)
        producer = Producer(b, plan, buffers, maps, self.assumptions, self.nonempty)
        consumer = Consumer(b, plan, buffers, self.nonempty)
        regions = self.role(producer.program, buffers.state), self.role(consumer.program, buffers.state, plan.ping_pong)
        b.emit(gpu_ops.warp_specialize, (), {"registers": plan.roles.registers, "blocks": plan.blocks}, regions)
        return self.module(b.finish())

    def shared_buffers(self, multibuffers: dict[Op, Value]) -> SharedBuffers:
        """Emit the mbarriers of the multibuffers, and the buffers of tiles loaded ahead."""
        b, plan, warps = self.b, self.plan, self.plan.lifted.original.attrs["num_warps"]
        slots = Slots.init(b, plan.slots, warps, len(plan.work.loops[0].groups), plan.blocks)
        loads = [load.op for load in plan.work.ahead]
        ahead = {x: gpu_ops.multibuffer(b, tile=x.type, slots=AHEAD, axis=plan.can.axis(x)) for x in loads}
        return SharedBuffers(multibuffers, slots, ahead, Slots.init(b, AHEAD, warps) if ahead else None)

    def role(self, body: Callable, state: tuple[str, ...], ping_pong: bool = False) -> Block:
        """A region that runs its part of every program: body(coordinates, *state) -> state."""
        b = self.b
        with b.region() as region:
            zeros = [i32(b, 0)] * len(state)
            if ping_pong:
                gpu_ops.ping_pong_open(b)
            if not self.plan.persistent:
                coordinates = [kind(b, axis=k) for kind in (ops.program_id, ops.num_programs) for k in range(3)]
                body([*coordinates, *self.rank], *zeros)
            else:
                one: Callable = lambda index, *own: body([*index, *self.programs.grid, *self.rank], *own)
                self.programs.loop(b, state, zeros, one)
            if ping_pong:
                gpu_ops.ping_pong_close(b)
            ops.yield_(b)
        return region.block

    def module(self, body: Block) -> Module:
        """The module with a new body, and what the launcher must know."""
        plan, known, module = self.plan, self.plan.lifted.known, self.plan.lifted.original
        tensor_maps = tuple(
            tensor_map(plan.tma, known, x.op.type, plan.can.axis(x.op), x.access, x.blocks) for x in plan.work.loads
        )
        spans = tuple(span(known, x.op.operands[1].type, x.access) for x in plan.work.writes)
        attrs = {"producer_warps": plan.roles.extra}
        attrs |= {"registers": plan.roles.launched} if plan.roles.launched else {}
        attrs |= {"tensor_maps": tensor_maps, "persistent": plan.persistent}
        made = module.replace(body=body, attrs={**module.attrs, **attrs})
        return with_preconditions(made, stores=(len(tensor_maps), spans)) if spans else made
