"""The passes that `tritium opt` runs, by name: the only place that knows which there are.

A `Step` is a pass, or a stage of a backend whose result is tile IR. `steps` finds them by name, `pipeline` gives those
that a compilation runs, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tritium import backends, passes
from tritium.backends.compiler import BaseBackend, GPUTarget, Options
from tritium.errors import fail
from tritium.ir import types as T
from tritium.ir.core import Module, walk
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
    """
    found = [_of_pass(p) for p in (*passes.PASSES, passes.legalize())]
    if target is not None:
        found += pipeline(target, options)
    return {step.name: step for step in sorted(found, key=lambda step: step.name)}


def pipeline(target: GPUTarget, options: Options | None = None) -> list[Step]:
    """The steps that a compilation for a target runs on tile IR, in order.

    >>> [step.name for step in pipeline(GPUTarget("cuda", 90, 32))][-3:]
    ['legalize', 'dce', 'gpu']
    """
    options = options or BaseBackend(target).parse_options({})
    record = backends.get(target)
    return [*map(_of_pass, record.passes(target)), *_stages(record, target, options)]


def _of_pass(run: Callable[[Module], Module]) -> Step:
    about = (run.__doc__ or "").split("\n\n")[0]
    if not about:  # made by a function that says it
        about = (getattr(passes, passes.name_of(run)).__doc__ or "").split("\n\n")[0]
    return Step(passes.name_of(run), " ".join(about.split()), lambda module, watch: passes.run(module, (run,), watch))


class _Stage:
    """A stage of a backend as a pass."""

    def __init__(self, name: str, run: Callable[[Module], Module]):
        self.pass_name, self.run = name, run

    def __call__(self, module: Module) -> Module:
        return self.run(module)


def _stages(record: backends.Backend, target: GPUTarget, options: Options) -> list[Step]:
    """The stages of a backend that give tile IR again: one step each until they are pipelines of passes."""
    if record.name == "cpu":
        from tritium.backends.cpu.compile import prepare
        from tritium.backends.llvm.target import cpu_target

        about = "the passes before loops are written: calls on tiles inlined, stores sunk, ops legal for the CPU"
        cpu = cpu_target(str(target.arch))
        return [Step("cpu", about, lambda module, watch: prepare(module, cpu, watch))]
    found = [stage for name, stage in record.stages if name == "ttgir"]
    return [_gpu(stage, target, options) for stage in found]


def _gpu(stage: Callable, target: GPUTarget, options: Options) -> Step:
    def run(module: Module) -> Module:
        if any("layout" in op.attrs for op in walk(module.body)):
            raise UsageError(f"@{module.name} has layouts, so the step `gpu` has run already: name other steps with "
                             "--passes")
        for arg in module.args:
            if T.shape(arg.type):
                raise fail(ValueError, f"%{arg.name} of @{module.name} is a tile: kernels take numbers and pointers",
                           hint="load the tile from a pointer, or name passes without a target with --passes")
        return stage(module, target, options, {})

    about = "the GPU's passes: clusters, dots, pipelined loops, producer warps, layouts"
    return Step("gpu", about, lambda module, watch: passes.run(module, (_Stage("gpu", run),), watch))
