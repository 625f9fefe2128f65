"""The passes that `tritium opt` runs, by name: the only place that knows which there are.

A `Step` is a pass, or several that a backend runs at once. `steps` finds them by name, `pipeline` gives those
that a compilation runs, in order.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

from tritium import backends, passes
from tritium.backends.compiler import BaseBackend, GPUTarget, Options
from tritium.errors import fail
from tritium.ir import types as T
from tritium.ir.core import Module, walk
from tritium.ir.text import parse_module
from tritium.named_tuples import NamedTuple
from tritium.tools.command import UsageError

Watch = Callable[[Callable, Module, Module], Any]


class Step(NamedTuple):
    """`run(module, watch)` gives the module after the step; `watch(pass, before, after)` sees each pass in it.

    >>> from tritium.ir.text import parse_module
    >>> print(steps()["dce"].run(parse_module("kernel @f(%x: i32) { %0 = add %x, %x : i32 }"), None), end="")
    kernel @f(%x: i32) {
    }
    """

    name: str
    about: str
    run: Callable[[Module, Watch | None], Module]


def steps(target: GPUTarget | None = None, options: Options | None = None) -> dict[str, Step]:
    """Every step by its name; those of a backend only with a target.

    >>> sorted(steps()) == sorted(passes.name_of(p) for p in (*passes.PASSES, passes.legalize()))
    True
    >>> "software_pipeline" in steps(GPUTarget("cuda", 90, 32))
    True
    """
    found = [_of_pass(p) for p in (*passes.PASSES, passes.legalize())]
    if target is not None:
        options = options or BaseBackend(target).parse_options({})
        choices = [step for step in backends.get(target).tile_passes(options) if isinstance(step, passes.first_that)]
        found += [_gpu(p) for choice in choices for p in _alternatives(choice)]
        found += pipeline(target, options)
    return {step.name: step for step in sorted(found, key=lambda step: step.name)}


def pipeline(target: GPUTarget, options: Options | None = None) -> list[Step]:
    """The steps that a compilation for a target runs on tile IR, in order.

    >>> [step.name for step in pipeline(GPUTarget("cuda", 90, 32))][-3:]
    ['order_accesses', 'insert_barriers', 'fence_loads']
    """
    options = options or BaseBackend(target).parse_options({})
    record = backends.get(target)
    stages = _cpu(target) if record.name == "cpu" else map(_gpu, record.tile_passes(options))
    return [*map(_of_pass, record.passes(target)), *stages]


def _of_pass(run: Callable[[Module], Module]) -> Step:
    if isinstance(run, passes.first_that):
        names = dict.fromkeys(map(passes.name_of, _alternatives(run)))
        return Step("first_that", f"The first pipeline that fits, of several with the passes {', '.join(names)}", run)
    about = (_function(run).__doc__ or "").split("\n\n")[0]
    if not about:  # made by a function that says it
        about = (getattr(passes, passes.name_of(run)).__doc__ or "").split("\n\n")[0]
    return Step(passes.name_of(run), " ".join(about.split()), lambda module, watch: passes.run(module, (run,), watch))


def _function(run: Any) -> Any:
    """The function of a pass with settings."""
    while isinstance(run, functools.partial | passes.must_change):
        run = run.func if isinstance(run, functools.partial) else run.step
    return run


def _alternatives(choice: passes.first_that) -> list[Callable]:
    """The passes of all pipelines to choose from, each once."""
    found: dict[str, Callable] = {}
    for p in itertools.chain(*choice.alternatives(parse_module("kernel @f() { }"))):
        found.setdefault(passes.name_of(p), p.step if isinstance(p, passes.must_change) else p)
    return list(found.values())


def _cpu(target: GPUTarget) -> list[Step]:
    """The CPU's passes: those that depend on its instructions as one step, then the order of axes and the fusion of
    loops."""
    from tritium.backends.cpu.compile import arrangement, simplify
    from tritium.backends.llvm.target import cpu_target

    about = "the passes before loops are fused: calls on tiles inlined, stores sunk, ops legal for the CPU"
    cpu = cpu_target(str(target.arch))
    step = Step("cpu", about, lambda module, watch: simplify(module, cpu, watch))
    return [step, *map(_of_pass, arrangement(cpu))]


def _gpu(run: Callable[[Module], Module]) -> Step:
    """A pass of the GPU's; it refuses modules that are not as the passes before leave them."""
    step = _of_pass(run)

    def checked(module: Module, watch: Watch | None) -> Module:
        if step.name in _ON_LAYOUTS:
            return step.run(_with_layouts(module, step.name), watch)
        if any("layout" in op.attrs for op in walk(module.body)):
            raise UsageError(f"@{module.name} has layouts, so the GPU's passes have run already: name other passes "
                             "with --passes")
        for arg in module.args:
            if T.shape(arg.type):
                raise fail(ValueError, f"%{arg.name} of @{module.name} is a tile: kernels take numbers and pointers",
                           hint="load the tile from a pointer, or name passes without a target with --passes")
        return step.run(module, watch)

    return step._replace(run=checked)


# Passes that come after `assign_layouts`.
_ON_LAYOUTS = ("allocate_shared", "fence_loads", "insert_barriers", "order_accesses", "shorten_locks")


def _with_layouts(module: Module, name: str) -> Module:
    """The module, if all its tiles have layouts."""
    scalars = {inner for op in walk(module.body) if not op.kind.control_flow for r in op.regions for inner in walk(r)}
    for op in walk(module.body):
        if op not in scalars and "layout" not in op.attrs and any(type(t) is T.Tile for t in op.types):
            raise UsageError(f"the tiles of @{module.name} have no layouts: name assign_layouts before {name}")
    return module
