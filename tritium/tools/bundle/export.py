"""The kernels of a bundle for programs without Python: C sources and objects, one folder for each kind of machine.

A folder has a header and a source that choose, when a kernel is launched: the best code that the machine runs, and of
that the variant that knows most about the arguments. The sources of single variants are those of `tritium compile`.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tritium.named_tuples import NamedTuple
from tritium.tools import aot
from tritium.tools.bundle.manifest import split
from tritium.tools.command import UsageError
from tritium.tools.link import condition

__all__ = ["Code", "Function", "export_c", "functions"]

_SIZES = [aot.Parameter(f"grid_{axis}", aot.GRID) for axis in "xyz"]
# CPUs -> the C condition under which their code runs.
_CPUS = {"x86-64": "1", **{f"x86-64-v{k}": f'__builtin_cpu_supports("x86-64-v{k}")' for k in (2, 3, 4)}, "aarch64": "1"}


class Code(NamedTuple):
    """One compiled variant: for one machine, and for arguments with certain hints."""

    variant: aot.Variant
    row: dict[str, Any]
    runs: str  # a C condition

    @property
    def fits(self) -> str:
        """The C condition under which it may be launched."""
        return " && ".join(text for text in (self.runs, condition(self.variant)) if text != "1") or "1"


class Function(NamedTuple):
    """A C function: what was compiled of a kernel for arguments of the same types. Algorithms differ in constants."""

    name: str
    kernel: str
    grid: str
    algorithms: dict[str, list[Code]]  # the best code first

    @property
    def first(self) -> aot.Variant:
        """A variant that has its arguments."""
        return next(iter(self.algorithms.values()))[0].variant


def export_c(file: Any, folder: str, name: str = "", library: bool = False) -> list[Path]:
    """Write a folder for each kind of machine in a bundle; the files, those to include and to compile first.

    With `library`, the folders of this machine's CPU and of AMD's GPUs get a shared library.
    """
    name = re.sub(r"\W", "_", name or Path(file.path).stem)
    if not name.isidentifier():
        raise UsageError(f"{name!r} cannot begin the name of a C function: give another --name")
    kinds: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in file.index["kernels"]:
        if not row["kind"]:
            kinds[_kind(row["target"])].append(row)
    if not kinds:
        raise UsageError(f"{file.path} has no kernel that C could launch")
    written, libraries = [], []
    for (place, device), rows in kinds.items():
        made = _write(file, functions(rows, device), Path(folder, place), name)
        written += made
        if library and place in (f"cpu-{platform.machine()}", "hip"):
            libraries.append(_library(made, Path(folder, place, f"lib{name}.so")))
    if library and not libraries:
        raise UsageError(f"{file.path} has nothing for the CPU of this machine or for AMD GPUs, of which a library "
                         "could be made")
    return written + libraries


def _library(files: list[Path], out: Path) -> Path:
    """Compile and link the sources and objects of a folder."""
    from tritium import knobs

    compiler = knobs.build.cc or next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise UsageError("there is no C compiler to make a library with: install gcc or clang, or set CC")
    parts = [str(path) for path in files if path.suffix in (".c", ".o")]
    done = subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", str(out), *parts, "-lm", "-ldl"],
                          capture_output=True, text=True)
    if done.returncode:
        raise UsageError(f"{compiler} cannot make {out}:\n{done.stderr}")
    return out


def _kind(target: str) -> tuple[str, str]:
    """(folder, device) of a target."""
    from tritium.backends.llvm import levels

    backend, arch, _ = target.split(":")
    if backend not in aot.DEVICES:
        raise UsageError(f"C sources exist for {', '.join(aot.DEVICES)}, not for {backend}")
    if backend == "cpu" and arch not in _CPUS:
        raise UsageError(f"a C program cannot tell whether it runs on {arch}: build the bundle for {', '.join(_CPUS)}")
    return (f"cpu-{levels.LEVELS[arch].machine}" if backend == "cpu" else backend), backend


def _runs(target: str) -> str:
    """The C condition under which code for a target runs."""
    backend, arch, _ = target.split(":")
    if backend == "cpu":
        return _CPUS[arch]
    if backend == "hip":
        return f'tt_hip_is("{arch}")'
    sm = int(re.sub(r"\D", "", arch))
    return f"sm() == {sm}" if sm >= 90 else f"sm() / 10 == {sm // 10} && sm() >= {sm}"


def _rank(row: dict[str, Any]) -> tuple[int, int]:
    """Sorts the best code first: that of the highest level, then that with most hints."""
    backend, arch, _ = row["target"].split(":")
    level = {"cpu": lambda: list(_CPUS).index(arch), "cuda": lambda: int(re.sub(r"\D", "", arch)),
             "hip": lambda: 0}[backend]()  # one architecture of AMD's runs nothing of another
    return -level, -sum(hint is not None for _, _, hint, _ in row["parameters"])


def functions(rows: Iterable[dict[str, Any]], device: str) -> list[Function]:
    """The C functions for rows of a bundle's index."""
    by_types: dict[tuple[str, tuple], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_types[row["kernel"], _types(row)].append(row)
    kernels = [kernel.rpartition(".")[2].rpartition(":")[2] for kernel, _ in by_types]
    made = []
    for kernel, ((label, types), group) in zip(kernels, by_types.items()):
        words = [type_.replace("*", "p") for _, type_ in types]
        name = kernel if kernels.count(kernel) == 1 else "_".join([kernel, *words])
        algorithms: dict[str, list[Code]] = defaultdict(list)
        for row in sorted(group, key=_rank):
            variant = _variant(name, device, row)
            algorithms[variant.algorithm.partition("_")[0]].append(Code(variant, row, _runs(row["target"])))
        made.append(Function(name, label, group[0]["grid"], dict(algorithms)))
    return made


def _types(row: dict[str, Any]) -> tuple:
    """Names and types of the arguments that C passes."""
    if row["parameters"] is None:
        raise UsageError(f"{row['kernel']} takes a tuple or a tensor descriptor, which C cannot pass")
    found = tuple((name, type_) for name, type_, _, _ in row["parameters"] if type_ != "constexpr")
    for name, type_ in found:
        if not type_.startswith("*") and type_ not in aot.C_TYPES:
            raise UsageError(f"{row['kernel']}: C cannot pass {name}, a {type_}")
    return found


def _variant(name: str, device: str, row: dict[str, Any]) -> aot.Variant:
    parameters = [*_SIZES, *(aot.Parameter(*values) for values in row["parameters"])]
    options = {option: value for option, value in row["options"].items() if option not in ("arch", "warp_size")}
    found = aot.variant_of(name, device, parameters, sorted(options.items()))
    machine = re.sub(r"\W", "_", row["target"].split(":")[1])
    return found._replace(algorithm=f"{found.algorithm}_{machine}")


# -- files -------------------------------------------------------------------------------------------------------------


def _write(file: Any, found: list[Function], folder: Path, name: str) -> list[Path]:
    from tritium.tools.compile import check_grid, write

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for function in found:
        if function.grid:
            check_grid(split(function.grid, ","), [p.name for p in _arguments(function)])
        for code in (code for codes in function.algorithms.values() for code in codes):
            written += write(_compiled(file, code.row), code.variant, [p.name for p in _SIZES],
                             folder / function.name)
    top, bottom = folder / f"{name}.h", folder / f"{name}.c"
    top.write_text(_header(found, name))
    written = [*dict.fromkeys(written)]
    includes = [path.name for path in written if path.suffix == ".h"]
    bottom.write_text(_source(found, name, includes))
    return [top, bottom, *written]


def _compiled(file: Any, row: dict[str, Any]) -> Any:
    """The kernel of a row for launches that nobody checks, compiled from the stage that a bundle keeps."""
    import tritium
    from tritium.backends.compiler import NAMES, GPUTarget
    from tritium.compiler.sources import IRSource

    metadata = json.loads(file.blob(row["metadata"]))
    options = {name: metadata[name] for name in NAMES if metadata.get(name) is not None} | {"launch_checks": False}
    options = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    source = IRSource.of("ttir", file.blob(row["ttir"]).decode())
    kernel = tritium.compile(source, target=GPUTarget(**metadata["target"]), options=options)
    if kernel.metadata.global_scratch_size:
        raise UsageError(f"{row['kernel']} needs scratch memory from the runtime, which C does not give it")
    return kernel


def _arguments(function: Function) -> list[aot.Parameter]:
    """What the kernel takes."""
    return [p for p in function.first.arguments if p.type != aot.GRID]


def _header(found: list[Function], name: str) -> str:
    device = aot.DEVICES[found[0].first.device]
    declared = "\n".join(_declarations(function) for function in found)
    return f"""#pragma once
{device.include}
#include <stdint.h>

{device.words}

#ifdef __cplusplus
extern "C" {{
#endif

{declared}
/* Launch by name. The signature is that of the bundle without hints, "*fp32, i32, 1024"; `arguments` has the address of
   each argument that is no constant. TT_ERROR_INVALID_VALUE where there is no such kernel, or none for these values. */
{_launch(name, device)};

#ifdef __cplusplus
}}
#endif
"""


def _launch(name: str, device: aot.Device) -> str:
    return f"{device.result} {name}_launch(const char *kernel, const char *signature, {device.stream} stream, " \
           "uint32_t grid_x, uint32_t grid_y, uint32_t grid_z, void **arguments)"


def _declarations(function: Function) -> str:
    device = aot.DEVICES[function.first.device].linked
    return f"""/* {function.kernel} */
{_prototype(function, function.name, "int algo_id")};
{_prototype(function, f"{function.name}_default")};
int {function.name}_get_num_algos(void);
{device.result} load_{function.name}(void);
{device.result} unload_{function.name}(void);
"""


def _prototype(function: Function, name: str, extra: str = "") -> str:
    """The declaration of a launch: with the sizes of the grid, unless the manifest says what they are."""
    hidden = _SIZES if function.grid else []
    variant = function.first._replace(parameters=[p for p in function.first.parameters if p not in hidden])
    return aot.prototype(variant, name, extra, linked=True)


_SM = """/* The number of the current GPU's architecture: 90. */
static int sm(void) {
  static int known = 0;
  CUdevice device;
  int major = 0, minor = 0;
  if (known) return known;
  if (cuCtxGetDevice(&device) != CUDA_SUCCESS) return 0;
  cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  return known = 10 * major + minor;
}
"""


def _source(found: list[Function], name: str, headers: list[str]) -> str:
    device = aot.DEVICES[found[0].first.device]
    includes = "\n".join(f'#include "{header}"' for header in headers)
    parts = [f'#include "{name}.h"\n#include <string.h>\n{includes}\n', _SM if found[0].first.device == "cuda" else ""]
    parts += map(_definitions, found)
    rows = [(f, k, codes) for f in found for k, codes in enumerate(f.algorithms.values())]
    tests = "\n".join(f'  if (!strcmp(kernel, "{_short(f)}") && !strcmp(signature, {_quoted(_signature(codes[0]))}))\n'
                      f"    return {f.name}_{k}({', '.join(['stream', *(p.name for p in _SIZES), *_unpacked(f)])});"
                      for f, k, codes in rows)
    parts.append(f"{_launch(name, device)} {{\n{tests}\n  return {device.invalid};\n}}\n")
    return "\n".join(parts)


def _short(function: Function) -> str:
    return function.kernel.partition(":")[2]


def _quoted(text: str) -> str:
    return json.dumps(text)


def _signature(code: Code) -> str:
    """The signature of a row without its hints: a constant stands as it is, an argument that is 1 by its type."""
    return ", ".join(repr(value) if type_ == "constexpr" else type_ for _, type_, _, value in code.row["parameters"])


def _unpacked(function: Function) -> list[str]:
    device = aot.DEVICES[function.first.device]
    return [f"*({aot.c_type(p, device)} *)arguments[{k}]" for k, p in enumerate(_arguments(function))]


def _definitions(function: Function) -> str:
    """The C functions of one kernel."""
    device, name = aot.DEVICES[function.first.device].linked, function.name
    all_names = ", ".join(["stream", *(p.name for p in function.first.arguments)])
    sizes = [f"(uint32_t)({text})" for text in split(function.grid, ",")] if function.grid else [p.name for p in _SIZES]
    given = ", ".join(["stream", *sizes, *(p.name for p in _arguments(function))])
    parts = []
    for number, codes in enumerate(function.algorithms.values()):
        choices = "\n".join(f"  if ({code.fits}) return {code.variant.name}({all_names});" for code in codes)
        parts.append(f"static {aot.prototype(function.first, f'{name}_{number}', linked=True)} {{\n{device.ready}"
                     f"{choices}\n  return {device.invalid};\n}}\n")
    cases = "\n".join(f"    case {k}: return {name}_{k}({given});" for k in range(len(function.algorithms)))
    parts.append(f"{_prototype(function, name, 'int algo_id')} {{\n  switch (algo_id) {{\n{cases}\n  }}\n"
                 f"  return {device.invalid};\n}}\n")
    plain = ", ".join(["stream", *([] if function.grid else [p.name for p in _SIZES]),
                       *(p.name for p in _arguments(function))])
    parts.append(f"{_prototype(function, f'{name}_default')} {{\n  return {name}({plain}, 0);\n}}\n")
    parts.append(f"int {name}_get_num_algos(void) {{ return {len(function.algorithms)}; }}\n")
    for verb in ("load", "unload"):
        calls = "\n".join(f"  if (status == {device.success} && ({code.runs})) status = {verb}_{code.variant.name}();"
                          for codes in function.algorithms.values() for code in codes)
        parts.append(f"{device.result} {verb}_{name}(void) {{\n{device.ready}  {device.result} status = "
                     f"{device.success};\n{calls}\n  return status;\n}}\n")
    return "\n".join(parts)
