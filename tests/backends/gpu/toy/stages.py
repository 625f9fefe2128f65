"""From tile IR to LLVM text for the toy GPU: the passes and lowerings that all GPUs share."""

from tests.backends.gpu.toy.target import CASTS, TOY
from tritium import passes
from tritium.backends.gpu.layout.assign import assign_layouts
from tritium.backends.gpu.lower import lower_kernel
from tritium.backends.gpu.pipeline.prefetch import prefetch_loads
from tritium.backends.gpu.pipeline.schedule import capabilities
from tritium.backends.gpu.pipeline.software_pipeline import software_pipeline
from tritium.backends.gpu.pipeline.specialize_warps import specialize_warps
from tritium.backends.gpu.rewrite.hoist_scales import hoist_scales
from tritium.backends.gpu.rewrite.inline_for_gpu import inline_for_gpu
from tritium.backends.gpu.rewrite.redundant_loads import eliminate_redundant_loads
from tritium.backends.gpu.rewrite.simplify_induction import simplify_induction
from tritium.backends.gpu.rewrite.split_dots import split_dots
from tritium.backends.gpu.rewrite.swap_operands import swap_operands
from tritium.backends.gpu.rewrite.unroll_loops import unroll_loops
from tritium.backends.llvm.target import llvm
from tritium.passes.axis_info import analyze
from tritium.passes.legalize import BETWEEN_WIDE

REGISTERS = 64  # of a thread, for tiles that are loaded an iteration early


def pipeline(target):
    """The passes to the stage `ttir`."""
    info = passes.TargetInfo(rare=True, casts=BETWEEN_WIDE | CASTS)
    return (inline_for_gpu, *passes.CLEANUP, unroll_loops(TOY.warp_size), passes.legalize(info), passes.dce)


def ttgir(module, target, options, metadata):
    """Every pass that all GPUs share; what the target lacks, they leave alone."""
    able = lambda module: capabilities(TOY, analyze(module), options.num_warps)
    module = simplify_induction(split_dots(module, TOY))
    module = swap_operands(eliminate_redundant_loads(module, able, None), able)
    assert specialize_warps(module, able, TOY.tma) is module
    made = passes.dce(prefetch_loads(module, TOY.warp_size, REGISTERS))
    made = hoist_scales(software_pipeline(made, able(made)), None)
    made = assign_layouts(made, TOY)
    if not made.functions:
        return made
    functions = [simplify_induction(f.replace(attrs=made.attrs)) for f in passes.promise_arguments(module).functions]
    return made.replace(functions=[assign_layouts(f, TOY).replace(attrs={}) for f in functions])


def llir(module, target, options, metadata):
    """LLVM text."""
    text, metadata["shared"] = lower_kernel(module, TOY)
    assert metadata["shared"] <= TOY.shared_bytes
    return text


def checked(text, target, options, metadata):
    """The text, if LLVM takes it: there is nothing to make of it."""
    with llvm().create_context() as context, llvm().parse_assembly(text, context) as module:
        module.verify()
    return text.encode()
