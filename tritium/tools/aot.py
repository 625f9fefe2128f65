"""Kernels compiled ahead of time: their signatures, and the C that loads and launches them.

A signature is one entry per parameter, separated by commas: `*fp32:16` (a pointer known to be a multiple of 16),
`i32:16`, `i32:1` (known to be 1), `fp32`, or a plain value such as `1024` for a constant. Two compilations of a kernel
with the same types and constants are *variants* of one *algorithm*: they differ in the hints, and the dispatcher the
linker writes chooses among them by looking at the arguments.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from typing import Any

from tritium.named_tuples import NamedTuple

C_TYPES = {
    "i1": "int8_t", "u1": "uint8_t", "i8": "int8_t", "u8": "uint8_t", "i16": "int16_t", "u16": "uint16_t",
    "i32": "int32_t", "u32": "uint32_t", "i64": "int64_t", "u64": "uint64_t", "fp32": "float", "fp64": "double",
}  # fmt: skip
GRID = "grid"  # the type of a parameter that is a size of the grid: the launch takes it, the kernel does not
HINTS = {16: "d", 1: "c"}  # a hint, and its letter in the suffix of a variant
MARK = "tritium kernel: "


class Parameter(NamedTuple):
    """One parameter of a kernel: a type, perhaps with a hint, or a constant."""

    name: str
    type: str  # "constexpr" for a constant
    hint: int | None = None
    value: Any = None

    @property
    def is_constant(self) -> bool:
        """Whether the value is compiled in and no longer an argument of the C function."""
        return self.type == "constexpr"

    @property
    def is_passed(self) -> bool:
        """Whether the compiled kernel still takes it: one known to be 1 is gone from there."""
        return not self.is_constant and self.hint != 1 and self.type != GRID


def parse_signature(names: list[str], text: str) -> list[Parameter]:
    """The parameters of a kernel from the text of a signature.

    >>> parse_signature(["x", "n", "BLOCK"], "*fp32:16, i32, 1024")[0]
    Parameter(name='x', type='*fp32', hint=16, value=None)
    """
    entries = [entry.strip() for entry in text.split(",")]
    if len(entries) != len(names):
        raise ValueError(f"the signature has {len(entries)} entries for {len(names)} parameters: {', '.join(names)}")
    return [_parse_entry(name, entry) for name, entry in zip(names, entries)]


def _parse_entry(name: str, entry: str) -> Parameter:
    try:
        return Parameter(name, "constexpr", value=ast.literal_eval(entry))
    except (ValueError, SyntaxError):
        pass  # not a literal, so it is a type
    type_, colon, hint = entry.partition(":")
    if not type_.startswith("*") and type_ not in C_TYPES:
        raise ValueError(f"{name}: {type_!r} is neither a constant nor a type C can pass: {', '.join(C_TYPES)}, *type")
    if not colon:
        return Parameter(name, type_)
    if hint not in ("1", "16"):
        raise ValueError(f"{name}: the hint {hint!r} is neither 1 nor 16")
    if hint == "1" and type_.startswith("*"):
        raise ValueError(f"{name}: a pointer cannot be 1")
    return Parameter(name, type_, int(hint))


class Variant(NamedTuple):
    """One compiled kernel as the linker knows it."""

    kernel: str
    algorithm: str
    suffix: str
    device: str  # "cuda", "hip" or "cpu"
    parameters: list[Parameter]

    @property
    def name(self) -> str:
        """The C function."""
        return f"{self.kernel}_{self.algorithm}_{self.suffix}"

    @property
    def old_name(self) -> str | None:
        """The name by the rule of Triton 3.6, whose suffix has the number of every parameter; None if it is the same.

        >>> variant_of("add", "cuda", parse_signature(["x", "n", "s"], "*fp32:16, i32, i32:1")).old_name[-6:]
        '_0d12c'
        """
        suffix = "".join(f"{i}{HINTS[p.hint] if p.hint else ''}" for i, p in enumerate(self.parameters))
        return None if suffix == self.suffix else f"{self.kernel}_{self.algorithm}_{suffix}"

    @property
    def arguments(self) -> list[Parameter]:
        """What the C function takes."""
        return [p for p in self.parameters if not p.is_constant]

    def to_text(self) -> str:
        """A line for the header, which `from_header` reads."""
        return MARK + json.dumps([*self[:4], [list(p) for p in self.parameters]])

    @classmethod
    def from_header(cls, path: str) -> Variant:
        """The variant a header declares."""
        with open(path, errors="replace") as file:
            found = re.search(re.escape(MARK) + r"(.*) \*/", file.read())
        try:
            kernel, algorithm, suffix, device, parameters = json.loads(found[1] if found else "")
            return cls(kernel, algorithm, suffix, device, [Parameter(*p) for p in parameters])
        except (ValueError, TypeError):
            raise ValueError(f"{path} was not written by tritium.tools.compile") from None


def variant_of(kernel: str, device: str, parameters: list[Parameter], *options: Any) -> Variant:
    """Name a compilation: types, constants and options make the algorithm, hints the variant.

    >>> variant_of("add", "cuda", parse_signature(["x", "n"], "*fp32:16, i32:1")).suffix
    '0d1c'
    """
    identity = [[p.name, p.type, p.value] for p in parameters]
    algorithm = hashlib.sha256(json.dumps([identity, options], default=str).encode()).hexdigest()[:8]
    suffix = "".join(f"{i}{HINTS[p.hint]}" for i, p in enumerate(parameters) if p.hint)
    return Variant(kernel, algorithm, suffix, device, parameters)


# ---------------------------------------------------------------------------------------------------------------------
# C


class Device(NamedTuple):
    """How a kind of device is spelled in C: what to include, then types and values."""

    include: str
    result: str
    success: str
    invalid: str
    stream: str
    pointer: str
    ready: str = ""  # a statement that returns an error where the device cannot be used at all

    @property
    def linked(self) -> Device:
        """The same in the words of the linker, which are those of every device."""
        return self._replace(result="TT_ResultTy", invalid="TT_ERROR_INVALID_VALUE", stream="TT_StreamTy")

    @property
    def words(self) -> str:
        """What these words mean on this device, in C."""
        return f"""#ifndef TT_ERROR_INVALID_VALUE
#define TT_ERROR_INVALID_VALUE {self.invalid}
typedef {self.result} TT_ResultTy;
typedef {self.stream} TT_StreamTy;
#endif"""


DEVICES = {
    "cuda": Device("#include <cuda.h>", "CUresult", "CUDA_SUCCESS", "CUDA_ERROR_INVALID_VALUE", "CUstream",
                   "CUdeviceptr"),
    "hip": Device('#include "tritium_hip.h"', "int", "0", "1 /* hipErrorInvalidValue */", "void *", "void *",
                  "  if (!tt_hip()) return TT_HIP_NO_LIBRARY;\n"),
    "cpu": Device("", "int", "0", "22 /* EINVAL */", "void *", "void *"),
}


def c_type(parameter: Parameter, device: Device) -> str:
    """The C type of an argument.

    >>> c_type(Parameter("n", "i32"), DEVICES["cpu"]), c_type(Parameter("x", "*fp32"), DEVICES["cpu"])
    ('int32_t', 'void *')
    """
    return device.pointer if parameter.type.startswith("*") else C_TYPES.get(parameter.type, "uint32_t")


def prototype(variant: Variant, name: str | None = None, extra: str = "", linked: bool = False) -> str:
    """The C declaration of a launch, without the semicolon; `linked` ones are in the words of the linker.

    >>> prototype(variant_of("add", "cpu", parse_signature(["x", "n", "B"], "*fp32, i32, 8")), "add")
    'int add(void * stream, void * x, int32_t n)'
    """
    device = DEVICES[variant.device]
    device = device.linked if linked else device
    typed = [f"{c_type(p, device)} {p.name}" for p in variant.arguments]
    values = [f"{device.stream} stream", *typed, *filter(None, [extra])]
    return f"{device.result} {name or variant.name}({', '.join(values)})"


def aliases(variant: Variant) -> dict[str, str]:
    """The functions of a variant under the names of Triton 3.6: declaration -> body.

    >>> list(aliases(variant_of("add", "cpu", parse_signature(["x", "n"], "*fp32, i32"))).values())[0]
    '{ return load_add_326262e4_(); }'
    """
    if variant.old_name is None:
        return {}
    result, names = DEVICES[variant.device].result, ", ".join(["stream", *(p.name for p in variant.arguments)])
    found = {f"{result} {verb}_{variant.old_name}(void)": f"{{ return {verb}_{variant.name}(); }}"
             for verb in ("load", "unload")}
    return found | {prototype(variant, variant.old_name): f"{{ return {variant.name}({names}); }}"}


def definitions(variant: Variant) -> str:
    """The aliases in C.

    >>> definitions(variant_of("add", "cpu", parse_signature(["x"], "*fp32:16")))
    ''
    """
    lines = "".join(f"{declaration} {body}\n" for declaration, body in aliases(variant).items())
    return lines and f"\n/* the names of Triton 3.6 */\n{lines}"


def header(variant: Variant) -> str:
    """The header of one variant."""
    device = DEVICES[variant.device]
    old = "".join(f"{declaration};\n" for declaration in aliases(variant))
    return f"""/* {variant.to_text()} */
// tt-linker-backend: {variant.device}
#pragma once
{device.include}
#include <stdint.h>

{device.result} load_{variant.name}(void);
{device.result} unload_{variant.name}(void);
{prototype(variant)};
{old}"""


def image(data: bytes) -> str:
    """Bytes as a C initialiser.

    >>> image(b"ab")
    '0x61,0x62'
    """
    return ",\\\n".join(",".join(f"0x{byte:02x}" for byte in data[i:i + 24]) for i in range(0, len(data), 24))


def cuda_source(variant: Variant, file: str, entry: str, binary: bytes, grid: list[str], threads: int,
                shared: int) -> str:
    """C that holds a cubin, or PTX for the driver to finish, and launches it."""
    parameters = ", ".join(f"&{p.name}" for p in variant.parameters if p.is_passed)
    gx, gy, gz = grid
    name = variant.name
    return f"""#include "{file}.h"

static const unsigned char image[] = {{
{image(binary)}
}};
static CUmodule module;
static CUfunction function;

CUresult load_{name}(void) {{
  if (function) return CUDA_SUCCESS;
  CUresult status = cuModuleLoadData(&module, image);
  if (status == CUDA_SUCCESS) status = cuModuleGetFunction(&function, module, "{entry}");
  if (status == CUDA_SUCCESS && {shared} > 49152)
    status = cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, {shared});
  return status;
}}

CUresult unload_{name}(void) {{
  CUresult status = module ? cuModuleUnload(module) : CUDA_SUCCESS;
  module = 0;
  function = 0;
  return status;
}}

{prototype(variant)} {{
  CUresult status = load_{name}();
  if (status != CUDA_SUCCESS) return status;
  unsigned int gx = {gx}, gy = {gy}, gz = {gz};
  if (gx == 0 || gy == 0 || gz == 0) return CUDA_SUCCESS;
  void *parameters[] = {{{parameters or "0"}}};
  return cuLaunchKernel(function, gx, gy, gz, {threads}, 1, 1, {shared}, stream, parameters, 0);
}}
{definitions(variant)}"""


def cpu_source(variant: Variant, file: str, grid: list[str], arena: int) -> str:
    """C that calls the kernel in the object file beside it, on the calling thread, for the whole grid."""
    passed = [p for p in variant.parameters if p.is_passed]
    fill = "\n".join(f"  memcpy(&slots[{i}], &{p.name}, sizeof {p.name});" if p.type.startswith(("*", "fp"))
                     else f"  slots[{i}] = (int64_t){p.name};" for i, p in enumerate(passed))
    gx, gy, gz = grid
    name = variant.name
    arena = -(-max(arena, 1) // 64) * 64
    return f"""#include "{file}.h"
#include <stdlib.h>
#include <string.h>

/* Programs begin <= p < end of the grid; `slots` holds 8 bytes for each argument. */
extern void kernel_{name}(void *slots, int64_t begin, int64_t end, int64_t *grid, void *arena);

int load_{name}(void) {{ return 0; }}
int unload_{name}(void) {{ return 0; }}

{prototype(variant)} {{
  int64_t grid[3] = {{{gx}, {gy}, {gz}}};
  int64_t slots[{max(len(passed), 1)}] = {{0}};
{fill}
  char *arena = aligned_alloc(64, 64 + {arena}); /* the first 64 bytes are for notes */
  if (!arena) return 12; /* ENOMEM */
  kernel_{name}(slots, 0, grid[0] * grid[1] * grid[2], grid, arena + 64);
  free(arena);
  return 0;
}}
{definitions(variant)}"""
