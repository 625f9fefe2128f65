"""Write docs/environment.md: every environment variable, from the table of settings in tritium/knobs.py.

    python docs/make_environment.py            # write it
    python docs/make_environment.py --check    # say whether it is up to date

A setting that is added to the table needs a sentence in MEANING.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "environment.md"
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

from generated import write_or_check  # noqa: E402

from tritium import knobs  # noqa: E402

INTRODUCTION = """\
# Environment variables

This page is written by `docs/make_environment.py` from the table in `tritium/knobs.py`; `make docs` writes it again.

Every `TRITON_X` may also be written `TRITIUM_X`; where both are set, `TRITIUM_X` counts. `1`, `y`, `yes`, `on` and
`true` switch on, whatever their case. Each variable has an attribute of `tritium.knobs`, for programs to read and set:

```python
from tritium import knobs

with knobs.compilation.scope():  # undone at the end of the block
    knobs.compilation.dump_ir = True
    assert knobs.compilation.dump_ir
```

Setting an attribute writes the variable too, so that child processes agree. A variable marked *once* is read when it is
first needed; `knobs.refresh_knobs()` reads it again. The others are read whenever they are needed. A variable marked
*not read* is accepted because Triton has it, and changes no code here.
"""

# Groups of knobs, in the order of the page: title, and a sentence.
GROUPS = {
    "runtime": ("Running kernels", ""),
    "internal": ("Devices, threads and checks", "Settings of tritium's own: `knobs.verify`, without a group."),
    "compilation": ("Compiling", ""),
    "language": ("The language", ""),
    "autotuning": ("Tuning", "[tuning.md](tuning.md) tells more."),
    "cache": ("The cache on disk", "[cache.md](cache.md) and [security.md](security.md) tell more."),
    "redis": ("A remote cache in Redis", "Read by `tritium.cache:RedisRemoteCacheBackend`."),
    "nvidia": ("NVIDIA GPUs", ""),
    "amd": ("AMD GPUs", ""),
    "proton": ("Profiling", "[profile.md](profile.md) tells more."),
    "build": ("C compilers", ""),
}

# Variable -> (what it does, its default in words where the table has a function).
MEANING: dict[str, tuple[str, str]] = {
    "TRITON_INTERPRET": ("Run kernels as plain Python over NumPy: [debugging.md](debugging.md). Read when `jit` "
                         "decorates a function.", ""),
    "TRITON_DEBUG": ("Check `tl.device_assert` in every kernel, as `debug=True` does at one launch.", ""),
    "TRITON_OVERRIDE_ARCH": ("Compile for this architecture instead of the device's own.", ""),
    "TRITON_DEFAULT_BACKEND": ("The device of launches without tensors: `nvidia`, `amd` or `cpu`.", ""),
    "TRITIUM_BACKEND": ("Run every kernel there, `cpu` or `cuda`, whatever device the tensors are on.", ""),
    "TRITIUM_VERIFY": ("Verify the IR after every pass.", "on in tests and where `CI` is set"),
    "TRITIUM_CPU": ("The CPU that kernels are compiled for: [cpu.md](cpu.md).", ""),
    "TRITIUM_CPU_OPT": ("LLVM's optimisation level for CPU kernels; 0 compiles faster and runs slower.", ""),
    "TRITIUM_NUM_THREADS": ("Threads that work on one CPU launch; `tritium.set_num_threads` does the same.",
                            "the processors of the process, or its quota"),
    "TRITIUM_COMPILE_WORKERS": ("Processes that compile configurations for tuners; 0: none.",
                                "one less than processors, at most 32"),
    "TRITIUM_WHY": ("Print why a kernel is compiled again: [cache.md](cache.md).", ""),
    "TRITIUM_OPENMP": ("Run CPU launches on the threads that torch computes with, where that is faster.", ""),
    "TRITIUM_FAULT_HANDLER": ("Name the CPU kernel that touched memory it may not.", ""),
    "TRITIUM_SANITIZE": ("CPU kernels check each access of memory: [sanitize.md](sanitize.md).", ""),
    "TRITIUM_SANITIZE_JSON": ("Where a sanitized process writes its findings, as JSON.", ""),
    "TRITIUM_SANITIZE_TARGET": ("The GPU that a sanitized process emulates, such as `cuda:90a`.", ""),
    "TRITON_REPRODUCER_PATH": ("The folder where an internal error leaves a file that reproduces it.",
                               "a temporary folder"),
    "TRITON_ALWAYS_COMPILE": ("Compile anew instead of reading the cache on disk.", ""),
    "TRITON_KERNEL_DUMP": ("Write every stage of each compiled kernel to `TRITON_DUMP_DIR`.", ""),
    "TRITON_KERNEL_OVERRIDE": ("Take the stages found in `TRITON_OVERRIDE_DIR` instead of those compiled.", ""),
    "TRITON_STORE_BINARY_ONLY": ("Keep the binary alone in the cache, without the texts of the stages.", ""),
    "USE_IR_LOC": ("Lines of debug information from this stage's text.", ""),
    "TRITON_ENABLE_ASAN": ("Address sanitizer; here, `TRITIUM_SANITIZE` finds such mistakes.", ""),
    "TRITON_DISABLE_LINE_INFO": ("Leave the lines of the source out of GPU code.", ""),
    "TRITON_FRONT_END_DEBUGGING": ("Keep the compiler's own frames in tracebacks.", ""),
    "TRITON_ALLOW_NON_CONSTEXPR_GLOBALS": ("Let kernels read global variables that are not `tl.constexpr`.", ""),
    "LLVM_EXTRACT_DI_LOCAL_VARIABLES": ("Debug information of local variables.", ""),
    "TRITON_INSTRUMENTATION_MODE": ("The default of the launch option `instrumentation_mode`.", ""),
    "TRITIUM_COMPILE_BUDGET": ("Expressions that compiling one kernel may visit, after unrolling and inlining.", ""),
    "TRITON_PRINT_AUTOTUNING": ("Print what tuning measured and chose.", ""),
    "TRITON_CACHE_AUTOTUNING": ("Keep the results of tuning on disk.", "kept if measured by the usual clock"),
    "TRITIUM_TUNING_TIMEOUT": ("Seconds that a launch of one configuration may take; 0: no limit.", ""),
    "TRITIUM_TUNED": ("Files of tuning results to use, separated as in PATH; `python -m tritium tune export` "
                      "writes them.", ""),
    "TRITON_HOME": ("The folder above `.triton`.", "the home directory"),
    "TRITON_CACHE_DIR": ("The cache of compiled kernels.", "`~/.triton/cache`"),
    "TRITON_DUMP_DIR": ("Where `TRITON_KERNEL_DUMP` writes.", "`~/.triton/dump`"),
    "TRITON_OVERRIDE_DIR": ("Where `TRITON_KERNEL_OVERRIDE` looks.", "`~/.triton/override`"),
    "TRITIUM_BUNDLE": ("Bundles of compiled kernels to load at the first launch, separated as in PATH: "
                       "[bundles.md](bundles.md).", ""),
    "TRITIUM_CACHE_READ_ONLY_DIRS": ("Further caches to look in, separated as in PATH.", ""),
    "TRITIUM_CACHE_MAX_SIZE": ("The cache's limit: bytes, or `512M`, `8G`; 0: no limit.",
                               "`python -m tritium cache limit`, else 8G"),
    "TRITIUM_CACHE_KEY": ("The secret that files of the cache are signed with.", ""),
    "TRITIUM_CACHE_KEY_FILE": ("A file that holds the secret.", ""),
    "TRITON_CACHE_MANAGER": ("The class that keeps files, as `module:Class`.", ""),
    "TRITON_REMOTE_CACHE_BACKEND": ("The class of a remote cache, as `module:Class`.", ""),
    "TRITON_REDIS_KEY_FORMAT": ("Names of entries.", ""),
    "TRITON_REDIS_HOST": ("The server.", ""),
    "TRITON_REDIS_PORT": ("Its port.", ""),
    "TRITON_F32_DEFAULT": ("`input_precision` of float32 products that do not say: `ieee`, `tf32`, `tf32x3`.", ""),
    "TRITON_DEFAULT_FP_FUSION": ("Allow fused multiply-add by default.", ""),
    "TRITON_FORCE_DISABLE_FP_FUSION": ("Forbid fused multiply-add, whatever a launch says.", ""),
    "TRITON_DIALECT": ("The release of Triton that functions are written for: [dialects.md](dialects.md).", ""),
    "CC": ("The C compiler; only ahead-of-time code and programs' own C extensions need one.", "clang or gcc"),
    "CXX": ("The C++ compiler, likewise.", "clang++ or g++"),
    "TRITON_PTXAS_PATH": ("NVIDIA's assembler.", "`ptxas` on the PATH"),
    "TRITON_CUOBJDUMP_PATH": ("The tool that shows machine code (SASS).", "`cuobjdump` on the PATH"),
    "TRITON_NVDISASM_PATH": ("The disassembler.", "`nvdisasm` on the PATH"),
    "NVPTX_ENABLE_DUMP": ("Print the PTX of each compiled kernel.", ""),
    "DISABLE_PTXAS_OPT": ("Assemble with `--opt-level 0`.", ""),
    "PTXAS_OPTIONS": ("Further options of the assembler.", ""),
    "TRITON_DUMP_PTXAS_LOG": ("Print what the assembler says.", ""),
    "TRITON_LIBDEVICE_PATH": ("A bitcode library of functions; here, they are ops of the language.", ""),
    "TRITON_LIBCUDA_PATH": ("The driver's library.", "`libcuda.so.1`"),
    "TRITON_MOCK_PTX_VERSION": ("A version of PTX to pretend.", ""),
    "AMDGCN_USE_BUFFER_OPS": ("Use buffer instructions for loads and stores.", ""),
    "AMDGCN_USE_BUFFER_ATOMICS": ("Use buffer instructions for atomics.", ""),
    "AMDGCN_ENABLE_DUMP": ("Print the assembly of each compiled kernel.", ""),
    "TRITON_LIBHIP_PATH": ("The library of the HIP runtime.", ""),
    "TRITON_HIP_LLD_PATH": ("LLVM's linker.", ""),
    "TRITON_HIP_USE_BLOCK_PINGPONG": ("Ping-pong scheduling of products.", ""),
    "TRITON_HIP_USE_IN_THREAD_TRANSPOSE": ("Transpose operands of products in registers.", ""),
    "TRITON_HIP_USE_ASYNC_COPY": ("Asynchronous copies to shared memory.", ""),
    "TRITON_HIP_GLOBAL_PREFETCH": ("Iterations that loads from memory run ahead.", ""),
    "TRITON_HIP_LOCAL_PREFETCH": ("Iterations that loads from shared memory run ahead.", ""),
    "TRITON_PROTON_DISABLE": ("Proton's calls do nothing.", ""),
    "TRITON_CUPTI_LIB_PATH": ("The folder of NVIDIA's profiling library, `libcupti.so`.", "torch's, or the toolkit's"),
    "TRITON_PROFILE_BUFFER_SIZE": ("Bytes of a profile's buffer.", ""),
    "TRITON_ENABLE_NVTX": ("Ranges of NVTX around kernels.", ""),
}

OTHERS = """\
## Read elsewhere

| variable | what it does |
|---|---|
| `TRITIUM_AS_TRITON` | `1`: `import triton` gives tritium in this process: [switch.md](switch.md). |
| `MLIR_ENABLE_DUMP` | `1`, or a kernel's name: print the IR after each pass. |
| `CUDA_LAUNCH_BLOCKING` | The driver's own: `1` lets each launch wait, so that an error names its kernel. |
| `CUDA_HOME` | Where the CUDA toolkit is, for NVIDIA's profiling library. |
| `CI` | Switches `TRITIUM_VERIFY` on. |
| `NO_COLOR` | No colours in the terminal. |

The cache on disk keeps kernels apart that were compiled with different values of the variables in
`knobs.CACHE_INVALIDATING_ENV_VARS`.
"""


def groups() -> dict[str, knobs.Group]:
    """The groups of the table by name."""
    return {name: value for name, value in vars(knobs).items() if isinstance(value, knobs.Group)}


def rows() -> dict[str, tuple[str, knobs.Knob]]:
    """Variable -> (group, row of the table)."""
    found = [(name, row) for name, group in groups().items() for row in group.knob_descriptors.values()]
    return {row.key: (name, row) for name, row in found if row.key}


def unread() -> set[str]:
    """The variables whose settings no module reads."""
    text = "\n".join(path.read_text() for path in (ROOT / "tritium").rglob("*.py"))
    own = (ROOT / "tritium" / "knobs.py").read_text().partition("# THE TABLE")[0]
    found = set()
    for key, (group, row) in rows().items():
        prefix = r"knobs\." if group == "internal" else rf"\b{group}\."
        if not re.search(rf"{prefix}{row.name}\b", text + own):
            found.add(key)
    return found


def default(row: knobs.Knob) -> str:
    """The default as the page shows it."""
    said = MEANING[row.key or ""][1]
    if said:
        return said
    if isinstance(row.default, bool):
        return "on" if row.default else "off"
    if row.default is None or row.default == "":
        return ""
    if callable(row.default):
        raise SystemExit(f"docs/make_environment.py: the default of {row.key} is computed: say in MEANING how")
    return f"`{row.default}`"


def table(name: str, nobody: set[str]) -> str:
    """The section of one group."""
    title, sentence = GROUPS[name]
    lines = [f"## {title}\n", *([f"{sentence}\n"] if sentence else []),
             "| variable | `knobs.` | default | what it does |", "|---|---|---|---|"]
    for row in groups()[name].knob_descriptors.values():
        attribute = row.name if name == "internal" else f"{name}.{row.name}"
        marks = [mark for mark, holds in (("once", row.cached), ("not read", row.key in nobody)) if holds]
        note = f" *{', '.join(marks)}*" if marks else ""
        lines.append(f"| `{row.key}` | `{attribute}` | {default(row)} | {MEANING[row.key or ''][0]}{note} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The text of the page."""
    known = rows()
    for missing in (known.keys() - MEANING.keys(), MEANING.keys() - known.keys()):
        if missing:
            raise SystemExit(f"docs/make_environment.py: MEANING and tritium/knobs.py differ in {', '.join(missing)}")
    nobody = unread()
    return "\n".join([INTRODUCTION, *(table(name, nobody) for name in GROUPS), OTHERS])


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page(), sys.argv[1:]))
