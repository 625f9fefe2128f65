"""Targets and options: what a kernel is compiled for, and how.

    >>> options = BaseBackend(GPUTarget("cpu", "host", 1)).parse_options({"num_warps": 8, "waves_per_eu": 2})
    >>> options.num_warps, options.num_stages
    (8, 3)
"""

from __future__ import annotations

import enum
import hashlib
import re
from collections.abc import Iterable
from typing import Any

from tritium import backends, knobs
from tritium.errors import fail
from tritium.frozen import Frozen


class GPUTarget(Frozen):
    """A machine: ("cpu", "host", 1), ("cuda", 90, 32) or ("hip", "gfx942", 64). Numbers may be given as text.

    >>> str(GPUTarget("cuda", 90, 32)), GPUTarget("cuda", "90", "32") == GPUTarget("cuda", 90, 32)
    ('cuda:90:32', True)
    """

    backend: str
    arch: int | str
    warp_size: int

    def __init__(self, backend: str, arch: int | str, warp_size: int | str):
        vars(self).update(backend=backend, arch=_number(arch), warp_size=_number(warp_size))

    def __str__(self) -> str:
        return f"{self.backend}:{self.arch}:{self.warp_size}"

    @classmethod
    def parse(cls, text: str) -> GPUTarget:
        """The target that a name stands for: what `str` writes, or a name alone; see `backends.targets`.

        >>> GPUTarget.parse("hip:gfx942:64").arch, GPUTarget.parse("cuda:90a").warp_size, str(GPUTarget.parse("gfx942"))
        ('gfx942', 32, 'hip:gfx942:64')
        """
        from tritium.backends.targets import resolve

        return cls(*resolve(text))

    @classmethod
    def of(cls, target: GPUTarget | str) -> GPUTarget:
        """A target that may be given by its name.

        >>> GPUTarget.of("sm_90") == GPUTarget.of(GPUTarget("cuda", 90, 32))
        True
        """
        return cls.parse(target) if isinstance(target, str) else target

    def with_arch(self, arch: str | None) -> GPUTarget:
        """The target with the architecture that the option `arch` names, in any of its spellings.

        >>> GPUTarget("cuda", 90, 32).with_arch("sm80").arch
        80
        """
        number = re.fullmatch(r"(?:sm_?)?(\d+)a?", arch or "")
        return GPUTarget(self.backend, int(number[1]) if number else arch or self.arch, self.warp_size)


def _number(value: int | str) -> int | str:
    return int(value) if isinstance(value, str) and value.isdigit() else value


class Language(enum.Enum):
    """The languages a backend may be asked to compile; tritium has one.

    >>> Language.TRITON.value
    0
    """

    TRITON = 0
    GLUON = 1


class Options(Frozen):
    """Every launch and compile option, of all vendors: what means nothing to a target is accepted and ignored.

    >>> Options().num_warps, Options(num_warps=8) == Options(num_warps=8), repr(Options())[:21]
    (4, True, 'Options(num_warps=4, ')
    """

    num_warps: int = 4
    num_stages: int = 3
    num_ctas: int = 1
    warp_size: int = 32
    maxnreg: int | None = None
    enable_fp_fusion: bool = True
    debug: bool = False
    sanitize_overflow: bool = True
    extern_libs: Any = None
    launch_cooperative_grid: bool = False
    arch: str | None = None
    backend_name: str = ""
    supported_fp8_dtypes: tuple[str, ...] = ("fp8e4nv", "fp8e5", "fp8e4b15", "fp8e4b8", "fp8e5b16")
    deprecated_fp8_dot_operand_dtypes: tuple[str, ...] = ()
    default_dot_input_precision: str = "tf32"
    allowed_dot_input_precisions: tuple[str, ...] = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
    max_num_imprecise_acc_default: int = 0
    instrumentation_mode: str = ""
    ir_override: str | None = None
    fpsan_homomorphic_casts: bool = False
    sanitized: bool = False  # with checks of every access: docs/sanitize.md
    # NVIDIA
    clc: bool = False
    min_shared_mem: int = 0  # bytes of shared memory that a program takes at least
    sched4reg: bool = False
    launch_pdl: bool = False
    launch_checks: bool = True  # code may count on what the launcher looks into before each launch
    ptx_version: int | None = None
    ptx_options: str | None = None
    enable_reflect_ftz: bool = True
    # AMD
    waves_per_eu: int = 0
    matrix_instr_nonkdim: int = 0
    kpack: int = 1
    allow_flush_denorm: bool = False
    schedule_hint: str = "none"

    def hash(self) -> str:
        """A hash of all options, part of a kernel's key on disk."""
        return hashlib.sha256(repr(self).encode()).hexdigest()


NAMES = frozenset(Options().__dict__)
_OF_TARGETS = frozenset(("arch", "backend_name", "warp_size", "sanitized", "num_ctas", "clc", "supported_fp8_dtypes"))


def portable_options(metadata: Any) -> dict[str, Any]:
    """The options of a compiled kernel that mean the same on every target.

    >>> from types import SimpleNamespace
    >>> portable_options(SimpleNamespace(**dict.fromkeys(NAMES, 8)))["num_warps"]
    8
    """
    return {name: getattr(metadata, name) for name in NAMES - _OF_TARGETS}


# Options of other releases and vendors that tune what tritium decides by itself.
IGNORED = frozenset((
    "allow_fp8e4b15", "allow_fp8e4nv", "cluster_dims", "enable_persistent", "enable_warp_specialization",
    "llvm_fn_attrs", "maxRegAutoWS", "minRegAutoWS",
    "num_buffers_warp_spec", "num_consumer_groups", "optimize_epilogue", "pingpongAutoWS", "reg_dec_producer",
    "reg_inc_consumer", "wgp_cu_mode",
))  # fmt: skip


def check_names(names: Iterable[str]) -> None:
    """Refuse options nobody knows.

    >>> check_names(["num_wraps"])
    Traceback (most recent call last):
    KeyError: 'Keyword argument num_wraps was specified but unrecognised'
    """
    for name in names:
        if name not in NAMES and name not in IGNORED:
            raise KeyError(f"Keyword argument {name} was specified but unrecognised")


class BaseBackend:
    """A backend for one target: parses options and lists the stages from a module to a binary."""

    def __init__(self, target: GPUTarget):
        self.target = target
        self.record = backends.get(target)
        self.binary_ext = self.record.binary_ext

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        """Whether a backend for the target is installed."""
        return backends.present(target.backend)

    def parse_options(self, given: dict[str, Any]) -> Options:
        """The options of a compilation; None means the default."""
        try:
            check_names(given)
        except KeyError as unknown:
            raise _with_hint(unknown, given) from None
        defaults = {
            "backend_name": self.target.backend,
            "warp_size": self.target.warp_size,
            "arch": knobs.runtime.override_arch or str(self.target.arch),
            "enable_fp_fusion": knobs.language.default_fp_fusion and not knobs.language.force_disable_fp_fusion,
            "instrumentation_mode": knobs.compilation.instrumentation_mode,
            "ptx_options": _assembler_flags(),
            **self.record.options,
        }
        if knobs.language.fp32_default:
            defaults["default_dot_input_precision"] = knobs.language.fp32_default
        chosen = {name: value for name, value in given.items() if value is not None and name in NAMES}
        if knobs.language.force_disable_fp_fusion:
            chosen["enable_fp_fusion"] = False
        if isinstance(libraries := chosen.get("extern_libs"), dict):
            chosen["extern_libs"] = tuple(sorted(libraries.items()))
        options = Options(**{**defaults, **chosen})
        _check_count("num_warps", options.num_warps, power_of_two=True)
        _check_count("num_ctas", options.num_ctas)
        _check_count("num_stages", options.num_stages, least=0)
        _check_count("min_shared_mem", options.min_shared_mem, least=0)
        if options.maxnreg is not None:
            _check_count("maxnreg", options.maxnreg)
        self.record.check(options)
        return options

    def hash(self) -> str:
        """What, besides the options, the code for this target depends on."""
        return f"{self.target}-{self.record.fingerprint(self.target)}"

    def add_stages(self, stages: dict, options: Options, language: Language = Language.TRITON) -> None:
        """Fill `stages` with extension -> function(value, metadata) -> value."""
        if language is not Language.TRITON:
            raise ValueError("tritium compiles the Triton language, not Gluon")
        for extension, function in self.record.stages:
            stages[extension] = lambda value, metadata, function=function: function(
                value, self.target, options, metadata)

    # What frameworks ask that make an ASTSource of their own.

    @staticmethod
    def parse_attr(key: str) -> list[list]:
        """The promises a specialisation key stands for."""
        return [["tt.divisibility", 16]] if "D" in key else []

    def load_dialects(self, context: Any) -> None:
        """Nothing: there is one IR for all targets."""

    def get_codegen_implementation(self, options: Options) -> dict[str, Any]:
        """Nothing: the frontend asks no target."""
        return {}

    def get_module_map(self) -> dict[str, Any]:
        """Nothing: `libdevice` is one module for all targets."""
        return {}


def _assembler_flags() -> str | None:
    """What the settings tell NVIDIA's assembler."""
    flags = (knobs.nvidia.ptxas_options, "--opt-level 0" if knobs.nvidia.disable_ptxas_opt else None)
    return " ".join(filter(None, flags)) or None


def _with_hint(unknown: KeyError, given: Iterable[str]) -> Exception:
    from difflib import get_close_matches  # for errors alone

    from tritium.refusals import UnknownName, refusal

    close = [found for name in given if name not in NAMES for found in get_close_matches(name, NAMES, 1)]
    return refusal(UnknownName, unknown.args[0], f"did you mean {close[0]}?" if close else None)


def _check_count(name: str, value: object, *, least: int = 1, power_of_two: bool = False) -> None:
    number = isinstance(value, int) and value >= least
    if power_of_two and not (isinstance(value, int) and number and value & (value - 1) == 0):
        from tritium.refusals import refusal  # for errors alone

        raise refusal(AssertionError, f"{name} must be a power of 2, not {value!r}", "use 1, 2, 4, 8, 16 or 32")
    if not number:
        raise fail(ValueError, f"{name} must be an integer of at least {least}, not {value!r}")
