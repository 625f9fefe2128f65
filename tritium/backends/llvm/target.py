"""LLVM target machines, and compilation of LLVM text to machine code.

llvmlite takes 60 ms to import, so nothing here imports it before the first compilation.

    >>> host = cpu_target()
    >>> object_code = compile_text("define i32 @seven() { ret i32 7 }", host)
    >>> cpu_target("x86-64-v4").simd
    'avx512'
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import Any, Protocol

from ... import knobs, locks
from ...errors import InternalError
from ...named_tuples import NamedTuple
from . import host, levels

# Tile code reaches LLVM folded and hoisted; four cheap passes clean up the rest. The O1 to O3
# pipelines cost 3 to 20 times as much and gain nothing on it.
PASSES = ("sroa", "newgvn", "instcombine", "simplifycfg")


@locks.once
def llvm():
    """The module `llvmlite.binding`, imported and with the host's target set up on first use.

    llvmlite lets one thread at a time into LLVM, so target machines and the engine may be shared.

    >>> llvm().llvm_version_info >= (20,)
    True
    """
    from llvmlite import binding

    # A fork must find LLVM between two calls: its own locks cannot be renewed in the child.
    locks.hold_at_fork(binding.ffi.lib._lock._lock)
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    binding.initialize_native_asmparser()  # for inline assembly
    return binding


def llvm_version() -> str:
    """The version of the LLVM that generates code: part of every cache key.

    >>> len(llvm_version().split("."))
    3
    """
    return ".".join(map(str, llvm().llvm_version_info))


class Machine(Protocol):
    """The fields of an LLVM target machine, which `CpuTarget` and each GPU target have."""

    @property
    def triple(self) -> str: ...
    @property
    def cpu(self) -> str: ...
    @property
    def features(self) -> str: ...


class CpuTarget(NamedTuple):
    """A CPU: its LLVM target machine, and the features and sizes that the lowering uses."""

    triple: str
    cpu: str
    features: str
    simd: str  # "neon", "sse", "avx", "avx2" or "avx512"
    masked: bool  # llvm.masked.load and store are one instruction each
    dot_rows: int  # rows and columns of the register tile of dot
    dot_columns: int
    W: int = 16  # lanes of a chunk: four registers of NEON, two of the others, so that chains of operations overlap
    has_fma: bool = True  # `llvm.fma` is an instruction rather than a call of libm
    has_f16_convert: bool = True  # half <-> float on vectors
    has_fp16: bool = False  # half arithmetic
    has_dot8: bool = False  # products of bytes summed by fours into i32 lanes
    amx: tuple[str, ...] = ()  # the types of operands that the tile unit multiplies


# Register tiles that fit with the operands, and with the products where multiply and add are two instructions.
_TILES = {"neon": (4, 16), "sse": (6, 8), "avx": (4, 16), "avx2": (6, 16), "avx512": (8, 32)}
_AVX512 = ("avx512f", "avx512vl", "avx512bw", "avx512dq")
_AMX = {"bf16": "amx-bf16", "i8": "amx-int8", "u8": "amx-int8", "f16": "amx-fp16"}  # what multiplies which type


def _cpu(level: levels.Level) -> CpuTarget:
    """The target of a level."""
    return (_x86 if level.machine == "x86_64" else _arm)(level.triple, level.cpu, level.features, level.has)


def _x86(triple: str, cpu: str, features: str, has: frozenset[str]) -> CpuTarget:
    simd = "avx512" if has.issuperset(_AVX512) else "avx2" if "avx2" in has else "avx" if "avx" in has else "sse"
    tile = _TILES["avx" if simd == "avx2" and "fma" not in has else simd]
    return CpuTarget(triple, cpu, features, simd, "avx2" in has, *tile,
                     W=32 if simd == "avx512" else 16, has_fma="fma" in has, has_f16_convert="f16c" in has,
                     has_fp16="avx512fp16" in has, has_dot8="avx512vnni" in has,
                     amx=tuple(kind for kind, feature in _AMX.items() if feature in has))  # fmt: skip


def _arm(triple: str, cpu: str, features: str, has: frozenset[str]) -> CpuTarget:
    return CpuTarget(triple, cpu, features, "neon", False, *_TILES["neon"],
                     has_fp16="fullfp16" in has, has_dot8="dotprod" in has)  # fmt: skip


CPU_TARGETS = {name: _cpu(level) for name, level in levels.LEVELS.items()}


def cpu_target(name: str | int | None = "host") -> CpuTarget:
    """The CPU called `name`: the one kernels run on ("host", or no name at all), or one to cross-compile for.

    "host" is this machine, or the part of it that `knobs.cpu` (TRITIUM_CPU) leaves; it is settled when first asked for.
    A name may go on with features, as in "x86-64-v2,+avx2" and "host,-avx512".

    >>> cpu_target("aarch64").simd, cpu_target("aarch64").masked
    ('neon', False)
    >>> cpu_target("x86-64-v4,-avx512").simd, cpu_target("x86-64-v2").simd
    ('avx2', 'sse')
    """
    return _process_cpu() if name in ("host", "", None) else CPU_TARGETS.get(str(name)) or _named(str(name))


def check_runs_here(name: str | None) -> None:
    """Raise unless this process can run kernels compiled for the CPU called `name`.

    LLVM is not needed for it on Linux.

    >>> check_runs_here("host")
    """
    if name in ("host", "", None):
        return
    theirs = levels.parse(name, host_level)
    if "linux" in theirs.triple and sys.platform != "linux":
        raise RuntimeError(f"a kernel compiled for {name} cannot run here: it is for Linux, and this is {sys.platform}")
    if why := _lacking(theirs, host.level() or host_level()):
        raise RuntimeError(f"a kernel compiled for {name} cannot run here: {why}")


@locks.once
def _named(name: str) -> CpuTarget:
    return _cpu(levels.parse(name, host_level))


_settled: list[str] = []  # the value of "host" in this process


def _process_cpu() -> CpuTarget:
    setting = knobs.cpu or "host"
    if _settled and _settled[0] != setting:
        raise RuntimeError(f"knobs.cpu (TRITIUM_CPU) is {setting!r} now, and this process has made code for "
                           f"{_settled[0]!r}: set it before the first kernel is compiled, or in a new process")
    target = _chosen(setting)
    _settled[:] = [setting]
    return target


@locks.once
def _chosen(setting: str) -> CpuTarget:
    """The CPU that a setting of `knobs.cpu` names, if this machine can run its code."""
    try:
        level = levels.parse(setting, host_level)
    except ValueError as error:
        raise ValueError(f"TRITIUM_CPU={setting!r}: {error}") from None
    if why := _lacking(level, host_level()):
        raise RuntimeError(f"TRITIUM_CPU={setting!r} cannot run here: {why}\n"
                           f"hint: to compile for another machine, name it as target: GPUTarget('cpu', {setting!r}, 1)")
    return _cpu(level._replace(triple=host_level().triple))


def _lacking(level: levels.Level, ours: levels.Level) -> str:
    """The reason why this machine cannot run code for `level`, and the levels it can run; empty if it can."""
    why = levels.lacking(level, ours)
    return why and f"{why}; it can run {', '.join(levels.runnable(ours))}"


def runnable_levels() -> list[str]:
    """The names of CPUs whose code this machine can run: values of TRITIUM_CPU.

    >>> runnable_levels()[0]
    'host'
    """
    return levels.runnable(host_level())


# Cores whose gathers microcode may guard against leaks (Downfall, 2023), for systems that do not tell. Loads one by one
# take half to two thirds of the time on Cascade Lake; on Emerald Rapids, without a guard, 1.5 times.
_GUARDED_GATHERS = ("skylake", "skylake-avx512", "cascadelake", "cooperlake", "cannonlake", "icelake-client",
                    "icelake-server", "tigerlake", "rocketlake")  # fmt: skip


@locks.once
def host_level() -> levels.Level:
    """This machine as LLVM describes it, with all its features.

    >>> host_level().name
    'host'
    """
    binding = llvm()
    triple, cpu, known = binding.get_process_triple(), binding.get_host_cpu_name(), binding.get_host_cpu_features()
    has = {feature for feature, present in known.items() if present}
    features = known.flatten()
    if triple.startswith("x86_64"):
        if "amx-tile" in has and not host.may_use_tiles():
            has = {feature for feature in has if not feature.startswith("amx-")}
        guarded = host.gathers_are_guarded()
        if cpu in _GUARDED_GATHERS if guarded is None else guarded:
            features += ",+prefer-no-gather"
        return levels.Level("host", "x86_64", cpu, features, levels.known("x86_64", has), triple)
    if triple.startswith(("aarch64", "arm64")):
        more = host.arm_extensions() - has
        features = ",".join(filter(None, (features, *(f"+{feature}" for feature in sorted(more)))))
        return levels.Level("host", "aarch64", cpu, features, levels.known("aarch64", has | more), triple)
    raise RuntimeError(f"tritium generates CPU code for x86-64 and AArch64, and this machine is {triple}; "
                       "set TRITON_INTERPRET=1 to run kernels in the interpreter")  # fmt: skip


@locks.once
def _all_targets() -> None:
    """Set up the targets that are not the host's, 6 ms."""
    llvm().initialize_all_targets()
    llvm().initialize_all_asmprinters()


@locks.once
def _machine(triple: str, cpu: str, features: str, opt: int):
    """(llvmlite's target machine, its data layout) per kind of machine and effort: costly, and never changed."""
    binding = llvm()
    if triple.partition("-")[0] != binding.get_process_triple().partition("-")[0]:
        _all_targets()
    target = binding.Target.from_triple(triple)
    # `small` keeps constants one instruction away; ORC puts an object's sections side by side.
    made = target.create_target_machine(cpu, features, opt, reloc="pic", codemodel="small", jit=True)
    return made, str(made.target_data)


_ADD = {"sroa": "sroa", "newgvn": "new_gvn", "instcombine": "instruction_combine", "simplifycfg": "simplify_cfg",
        "always-inline": "always_inliner"}  # fmt: skip


@contextmanager
def _verified(text: str):
    """The verified LLVM module of `text`; text that LLVM rejects is a defect of the compiler, and is kept in a file.

    Module and context are closed in this order by hand: left to the garbage collector, a context may go first and take
    the memory of its module with it.
    """
    binding = llvm()
    with binding.create_context() as context:
        try:
            module = binding.parse_assembly(text, context)
        except RuntimeError as error:
            raise InternalError(f"LLVM rejects the generated code: {error}", _save(text)) from None
        with module:
            try:
                module.verify()
            except RuntimeError as error:
                raise InternalError(f"LLVM rejects the generated code: {error}", _save(text)) from None
            yield module


def verify(text: str) -> None:
    """Raise InternalError where LLVM does not take a text.

    >>> verify("define void @f() { ret void }")
    """
    with _verified(text):
        pass


@contextmanager
def _parsed(text: str, machine: Machine, opt: int):
    """(the module of `text` for a machine, the machine)."""
    with _verified(text) as module:
        tm, layout = _machine(machine.triple, machine.cpu, machine.features, opt)
        module.triple, module.data_layout = machine.triple, layout
        yield module, tm


def _save(text: str) -> str:
    import tempfile  # it brings in a dozen modules

    folder = knobs.reproducer_dir or None
    with tempfile.NamedTemporaryFile("w", prefix="tritium-", suffix=".ll", dir=folder, delete=False) as file:
        file.write(text)
    return file.name


def _optimize(module: Any, tm: Any, passes: tuple[str, ...]) -> None:
    if not passes:
        return
    binding = llvm()
    builder = binding.create_pass_builder(tm, binding.create_pipeline_tuning_options(speed_level=2))
    manager = binding.create_new_module_pass_manager()
    for name in passes:
        getattr(manager, f"add_{_ADD[name]}_pass")()
    manager.run(module, builder)


def _emit(text: str, machine: Machine, passes: tuple[str, ...], opt: int, emit: str, plain: bool = False):
    with _parsed(text, machine, opt) as (module, tm):
        _optimize(module, tm, passes if opt else ())
        for function in module.functions if plain else ():
            if not function.is_declaration:
                function.add_function_attribute("noinline")
                function.add_function_attribute("optnone")
        try:
            return getattr(tm, emit)(module)
        except RuntimeError as error:
            raise InternalError(f"LLVM cannot generate code for {machine.cpu}: {error}", _save(text)) from None


def compile_text(text: str, machine: Machine, *, passes: tuple[str, ...] = PASSES, opt: int = 2,
                 plain: bool = False) -> bytes:
    """The object file of the LLVM module `text` for `machine`.

    `passes` names LLVM passes in order. `opt` is the effort of code generation; 0 also leaves out the passes: the quick
    tier, ready 4 times sooner and 1.2 to 5 times slower. With `plain`, code generation leaves its passes over the
    module out, and keeps registers as well allocated.

    >>> compile_text("define void @f() { ret void }", cpu_target("x86-64-v3"), opt=0)[:4]
    b'\\x7fELF'
    """
    return _emit(text, machine, passes, opt, "emit_object", plain)


def assembly(text: str, machine: Machine, *, passes: tuple[str, ...] = PASSES, opt: int = 2,
             plain: bool = False) -> str:
    """The assembly `compile_text` would assemble.

    With `plain`, code generation selects instructions and joins registers, and leaves its passes over the module out:
    for text that somebody else optimises.

    >>> "ret" in assembly("define void @f() { ret void }", cpu_target("x86-64-v3"))
    True
    """
    return _emit(text, machine, passes, opt, "emit_assembly", plain)
