"""From tile IR to LLVM text for the toy GPU: the passes and lowerings that all GPUs share."""

from tests.backends.gpu.toy.target import CASTS, TOY
from tritium import passes
from tritium.backends.gpu.lower import lower_kernel
from tritium.backends.gpu.passes import pipeline as tile_pipeline
from tritium.backends.gpu.rewrite.inline_for_gpu import inline_for_gpu
from tritium.backends.gpu.rewrite.unroll_loops import unroll_loops
from tritium.backends.llvm.target import llvm
from tritium.passes.legalize import BETWEEN_WIDE


def pipeline(target):
    """The passes to the stage `ttir`."""
    info = passes.TargetInfo(rare=True, casts=BETWEEN_WIDE | CASTS)
    return (inline_for_gpu, *passes.CLEANUP, unroll_loops(TOY.warp_size, TOY.cost), passes.legalize(info), passes.dce)


def tile_passes(options):
    """The passes of the stage `ttgir`: what the target lacks, they leave alone."""
    return tile_pipeline(TOY)


def ttgir(module, target, options, metadata):
    """Tile IR with layouts."""
    return passes.run(module, tile_passes(options))


def llir(module, target, options, metadata):
    """LLVM text."""
    metadata["shared"] = module.attrs["shared_bytes"]
    assert metadata["shared"] <= TOY.shared_bytes
    return lower_kernel(module, TOY)


def checked(text, target, options, metadata):
    """The text, if LLVM takes it: there is nothing to make of it."""
    with llvm().create_context() as context, llvm().parse_assembly(text, context) as module:
        module.verify()
    return text.encode()
