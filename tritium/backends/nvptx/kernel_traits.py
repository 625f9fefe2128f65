"""The traits of a kernel, read off its ops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ... import ops
from ...ir import types as T
from ...ir.core import walk
from ...passes.regions import trip_count
from ..gpu import ops as gpu_ops
from ..gpu.layout.values import layout_of
from .assemble.traits import Traits
from .isa import wgmma


def traits_of(module: Any, target: Any, maxnreg: int | None = None) -> Traits:
    """The traits of a module with layouts; `maxnreg` registers are allowed, unless it shares them out itself.

    >>> from tritium.backends.nvptx.isa.target import NvTarget
    >>> from tritium.ir.text import parse_module
    >>> module = parse_module('kernel @k(%p: ptr<i32>) { print %p {prefix="p"} }')
    >>> traits_of(module.replace(attrs={"num_warps": 4}), NvTarget.of("90a"))
    Traits(threads=128, registers=None, products=False, async_copies=False, exchanges=False, sums=(), calls=True,
           short_loops=False, loads_little=False)
    """
    warps = module.attrs["num_warps"]
    made = [op for block in (module.body, *(function.body for function in module.functions)) for op in walk(block)]
    asm = [op.attrs["asm"] for op in made if op.kind is ops.inline_asm]  # only its author knows what is in it
    mentions = lambda word: any(word in text for text in asm)
    products = [op for op in made if _is_product(op, target, warps)]
    return Traits(
        threads=target.warp_size * (warps + module.attrs.get("producer_warps", 0)),
        registers=module.attrs.get("registers") or maxnreg,
        products=bool(products) or mentions("mma"),
        async_copies=any(op.kind.async_copy for op in made) or mentions("cp.async"),
        exchanges=any(op.kind is gpu_ops.warp_specialize and op.attrs["registers"][0] for op in made)
        or mentions("setmaxnreg"),
        sums=tuple(_sums(products, target, warps)),
        calls=any(op.kind.message for op in made) or mentions(".extern"),
        short_loops=any(op.kind is ops.for_ and trip_count(op) and any(x in products for x in op.regions[0].ops)
                        for op in made),
        loads_little=not products and _loads_little(made),
    )


def _loads_little(made: list[Any]) -> bool:
    """Whether loops load, and no more in an iteration than a thread is done with at once."""
    loops = [[load for region in op.regions for load in walk(region) if load.kind is ops.load]
             for op in made if op.kind.loop]  # fmt: skip
    loaded = [sum(map(_words, loads)) for loads in loops]
    return 0 < max(loaded, default=0) <= _FEW_WORDS


_FEW_WORDS = 2  # chosen


def _words(load: Any) -> int:
    """Registers of a thread that a load fills."""
    layout = layout_of(load)
    return 1 if layout is None else -(-layout.registers * T.element(load.type).bytes // 4)


def _is_product(op: Any, target: Any, warps: int) -> bool:
    """Whether tensor cores compute it."""
    if op.kind is gpu_ops.dot_shared:
        return True
    if op.kind is not ops.dot:
        return False
    a, b = (x.type for x in op.operands[:2])
    return target.mma.accumulator(a, b, op.type, op.attrs["precision"], warps) is not None


def _sums(products: list[Any], target: Any, warps: int) -> Iterator[int]:
    """Registers of sums that an asynchronous MMA adds to in place; those in tensor memory are no such."""
    for op in products:
        if "column" in op.attrs:
            continue
        a, b = (x.type for x in op.operands[:2])
        if op.kind is gpu_ops.dot_shared or target.mma.in_shared(a, b, op.type, op.attrs["precision"], warps):
            registers, count = wgmma.accumulators(op.type.shape, warps)
            yield from (registers,) * count
