"""The stages of an NVIDIA kernel: ttir -> ttgir (layouts) -> llir -> ptx -> cubin."""

from __future__ import annotations

import contextlib

from ... import knobs, ops
from ...errors import OutOfResources
from ...ir.core import walk
from ...locks import once
from ...passes import dce, licm, promise_arguments
from ...passes.alias import packed
from ...passes.axis_info import analyze
from ..gpu import ops as gpu_ops
from ..gpu.analysis.division import small_dividends
from ..gpu.cluster.split import split_clusters
from ..gpu.layout.assign import assign_layouts
from ..gpu.lower import LOWER, lower_kernel
from ..gpu.pipeline.ping_pong import keeps_ping_pong
from ..gpu.pipeline.prefetch import prefetch_loads
from ..gpu.pipeline.shared_budget import fits_shared_memory
from ..gpu.pipeline.software_pipeline import software_pipeline
from ..gpu.pipeline.specialize_warps import specialize_warps
from ..gpu.pipeline.tma_stores import tma_stores
from ..gpu.rewrite.hoist_scales import hoist_scales
from ..gpu.rewrite.redundant_loads import eliminate_redundant_loads
from ..gpu.rewrite.simplify_induction import simplify_induction
from ..gpu.rewrite.split_dots import split_dots
from ..gpu.rewrite.swap_operands import swap_operands
from ..llvm.target import assembly, llvm
from .assemble import driver_link, ptxas
from .isa import inline_asm, mma, tma, wgmma
from .isa.target import NvTarget

# What TMA writes in kernels without a producer warp. Threads store as fast there; one by one they do not
# combine so.
BY_TMA = (ops.atomic,)

LOWER.update({**mma.LOWER, **inline_asm.LOWER})


def ttgir(module, target, options, metadata):
    """Share the work out to the blocks of a cluster, split dots that tensor cores cannot do at once, load what repeats
    once, turn dots, pipeline the loops around them, load ahead in others, give every tile a layout.

    The module's `nonnegative` holds the values assumed not to be negative, its `reordered` the loads that are hoisted
    above stores to other memory: preconditions that the launcher checks.
    """
    nv = NvTarget.of(options.arch)
    if options.num_ctas > 1:
        module = licm(split_clusters(simplify_induction(module), options.num_ctas))
    module = simplify_induction(split_dots(module, mma.multiplies(nv, options.num_warps)))
    module = _swapped_operands(_loaded_once(module, nv, options), nv, options)
    return _specialized(module, nv, options) or _pipelined(module, nv, options)


def _pipelined(module, nv, options):
    """The module with pipelined loops and layouts; with fewer stages than asked for if their buffers find no room."""
    most = None
    while True:
        preconditions = list(module.attrs.get("nonnegative", ())) if options.launch_checks else None
        pairs = [] if options.launch_checks and options.num_ctas == 1 else None  # blocks pass each other's stores
        made = prefetch_loads(module, _ahead_registers(options), pairs)
        made = made if made is module else dce(made)
        capabilities = mma.capabilities(nv, analyze(made, preconditions), options.num_warps)
        made = software_pipeline(made, capabilities, most, pairs)
        slots = max((op.attrs["slots"] for op in walk(made.body) if op.kind is gpu_ops.multibuffer), default=1)
        if options.launch_checks:
            boxed = tma_stores(made, tma.support(nv), len(module.args), BY_TMA, preconditions)
            made = made if boxed is made else dce(boxed)
        made = hoist_scales(made, preconditions)
        made = assign_layouts(made, mma.dot_layout(nv), wgmma.layouts, preconditions, mma.fragments(nv),
                              nv.widest_atomic)
        if slots == 1 or fits_shared_memory(made, nv.shared_bytes):
            break
        most = slots - 1
    if made.functions:
        made = made.replace(functions=[_function(f, made.attrs, nv) for f in promise_arguments(module).functions])
    attrs = {"nonnegative": tuple(preconditions)} if preconditions else {}
    attrs |= {"reordered": packed(pairs)} if pairs else {}
    return made.replace(attrs={**made.attrs, **attrs}) if attrs else made


def _ahead_registers(options):
    """The register budget of prefetched loads: a quarter of a thread's registers. The tile in use and its result are as
    large."""
    return (ptxas.registers(options.num_warps, options.maxnreg) + 1) // 4


def _function(function, attrs, nv):
    """A function with layouts; it has no dots."""
    function = simplify_induction(function.replace(attrs=attrs))
    return assign_layouts(function, widest_atomic=nv.widest_atomic).replace(attrs={})


def _loaded_once(module, nv, options):
    """The module without redundant loads, and the preconditions of that."""
    preconditions = [] if options.launch_checks else None
    capabilities = lambda module: mma.capabilities(nv, analyze(module, []), options.num_warps)
    made = eliminate_redundant_loads(module, capabilities, preconditions)
    if made is module:
        return module
    attrs = {"nonnegative": tuple(preconditions)} if preconditions else {}
    return dce(licm(made.replace(attrs={**made.attrs, **attrs})))


def _swapped_operands(module, nv, options):
    """The module with dots turned that read their right side better as the left one."""
    made = swap_operands(module, lambda module: mma.capabilities(nv, analyze(module, []), options.num_warps))
    return module if made is module else dce(made)


def _specialized(module, nv, options):
    """The module with a producer warp and layouts; None if it cannot have one."""
    if not options.launch_checks or options.maxnreg:  # the launcher describes tensors; warps share out all registers
        return None
    made = _with_ping_pong(module, nv, options, True)
    if made is not None and not keeps_ping_pong(made):
        made = _with_ping_pong(module, nv, options, False)
    return made if made is None or fits_shared_memory(made, nv.shared_bytes) else None


def _with_ping_pong(module, nv, options, ping_pong):
    capabilities = lambda module: mma.capabilities(nv, analyze(module, []), options.num_warps)
    preconditions = list(module.attrs.get("nonnegative", ()))
    made = specialize_warps(module, capabilities, tma.support(nv), ping_pong, preconditions)
    if made is module:
        return None
    if small_dividends(module, preconditions):
        made = made.replace(attrs={**made.attrs, "small_quotients": True})
    made = dce(tma_stores(made, tma.support(nv), len(module.args), preconditions=preconditions))
    made = hoist_scales(made, preconditions)
    made = assign_layouts(made, mma.dot_layout(nv), wgmma.layouts, None, mma.fragments(nv), nv.widest_atomic)
    return made.replace(attrs={**made.attrs, "nonnegative": tuple(preconditions)}) if preconditions else made


def llir(module, target, options, metadata):
    """LLVM text; the metadata gets the shared memory and the preconditions of the kernel."""
    metadata |= {name: module.attrs.get(name, usual) for name, usual in _LAUNCH_METADATA.items()}
    text, shared = lower_kernel(module, NvTarget.of(options.arch), _attributes(options, module))
    metadata["shared"] = max(shared, options.min_shared_mem)
    return text


# Metadata for the launcher, with defaults: preconditions of the kernel, and what its implicit arguments need.
_LAUNCH_METADATA = {
    "nonnegative": (), "producer_warps": 0, "tensor_maps": (), "disjoint": (), "reordered": (), "persistent": False,
}  # fmt: skip


def _attributes(options, module):
    most, blocks = module.attrs.get("registers") or options.maxnreg, module.attrs.get("num_ctas", 1)
    found = {"nvvm.maxnreg": most, "nvvm.cluster_dim": f"{blocks},1,1" if blocks > 1 else None}
    return " ".join(f'"{name}"="{value}"' for name, value in found.items() if value)


def ptx(text, target, options, metadata):
    """LLVM's PTX: instructions selected and registers joined, mostly no more.

    The lowering has folded and shared what it could; ptxas optimises again. LLVM's own passes over addresses cost more
    time than all the rest, and hoist sums out of loops that keep the copies in them apart. Products without copies are
    another matter: there every thread loads element by element, and the passes keep its addresses in few registers.
    """
    _set_up()
    waits_for_loads = "mma" in text and "cp.async" not in text
    return assembly(text, NvTarget.of(options.arch), passes=(), plain=not waits_for_loads)


@once
def _set_up():
    """What LLVM must hear before it is asked about the target. No other target's code has to do with any of it.

    Addresses in shared memory have 32 bits. What comes from no line of the source counts to the line before. Reading a
    module whose lines are known need not verify it: we do after, when a defect does not end the process.
    """
    for option in ("nvptx-short-ptr", "use-unknown-locations=Disable", "disable-auto-upgrade-debug-info"):
        llvm().set_option("", f"--{option}")


def cubin(text, target, options, metadata):
    """Machine code by the driver or by ptxas; without both, the PTX itself, for a driver that is there one day.

    The driver is faster, but lets no warps exchange registers. A kernel that needs more shared memory than there is
    stays PTX, too: nobody loads it, and assembling such large tiles takes minutes.
    """
    if knobs.nvidia.dump_nvptx:
        print(f"// {metadata['name']}: PTX\n{text}")
    if metadata.get("shared", 0) > NvTarget.of(options.arch).shared_bytes:
        return text.encode()
    binary, used = _assembled(text, options)
    freer = ptxas.with_all_registers(text, used)
    if freer is not None:
        binary, used = min((binary, used), _assembled(freer, options), key=lambda made: made[1].get("n_spills", 0))
    tighter = ptxas.with_room_for_another(text, used, metadata.get("shared", 0)) if _is_hopper(options) else None
    if tighter is not None:
        with contextlib.suppress(OutOfResources):  # some instructions need more registers than that
            found, fewer = _assembled(tighter, options)
            if not fewer.get("n_spills", 1):
                binary, used = found, fewer
    metadata.update(used)
    return binary


def _is_hopper(options):
    return NvTarget.of(options.arch).sm == 90


def _assembled(text, options):
    """(machine code, what is known of the registers it uses) of a PTX text."""
    nv, extra = NvTarget.of(options.arch), tuple((options.ptx_options or "").split())
    if not extra and driver_link.makes(text, nv.sm):
        binary, said = driver_link.link_to_fit(text, nv.most_threads)
        if not driver_link.lacks_registers(text, said):
            return binary, ptxas.usage(said)
    if ptxas.ptxas() is None:
        return text.encode(), {}
    return ptxas.assemble(text, nv.cpu, extra)


def sass(asm, target):
    """Disassembly of the machine code (needs cuobjdump)."""
    from ...tools.disasm import get_sass

    return get_sass(asm["cubin"])
