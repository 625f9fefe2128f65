"""`python -m tritium link`: join ahead-of-time kernels under one dispatching C function.

    python -m tritium link build/add.*.h -o build/add

writes `build/add.h` and `build/add.c` with, for each kernel,

    add(stream, arguments ..., algo_id)     the most specialized variant of an algorithm for these arguments
    add_default(stream, arguments ...)      the same for the first algorithm
    add_get_num_algos()                     how many algorithms there are
    load_add(), unload_add()

TT_ResultTy and TT_StreamTy are types of the device. The functions return TT_ERROR_INVALID_VALUE if no variant fits the
arguments, or if there is no algorithm `algo_id`.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path

from tritium.tools.aot import DEVICES, Variant, prototype
from tritium.tools.command import guarded


def group(variants: list[Variant]) -> dict[str, dict[str, list[Variant]]]:
    """Kernel -> algorithm -> variants, those with most hints first."""
    kernels: dict[str, dict[str, list[Variant]]] = defaultdict(lambda: defaultdict(list))
    for variant in variants:
        kernels[variant.kernel][variant.algorithm].append(variant)
    for kernel, algorithms in kernels.items():
        shapes = {tuple((p.name, p.type) for p in v.arguments) for vs in algorithms.values() for v in vs}
        if len(shapes) > 1:
            raise ValueError(f"the algorithms of {kernel} take different arguments: one C function cannot call both")
        for found in algorithms.values():
            found.sort(key=lambda v: -sum(p.hint is not None for p in v.parameters))
    return kernels


def condition(variant: Variant) -> str:
    """The C condition under which a variant's hints hold.

    >>> from tritium.tools import aot
    >>> parameters = aot.parse_signature(["x", "n", "s"], "*fp32:16, i32, i32:1")
    >>> condition(aot.variant_of("k", "cuda", parameters))
    '(uintptr_t)x % 16 == 0 && s == 1'
    """
    tests = {16: lambda p: f"{'(uintptr_t)' if p.type.startswith('*') else ''}{p.name} % 16 == 0",
             1: lambda p: f"{p.name} == 1"}
    return " && ".join(tests[p.hint](p) for p in variant.arguments if p.hint) or "1"


def dispatcher(kernel: str, algorithms: dict[str, list[Variant]]) -> str:
    """The C functions of one kernel."""
    variants = [variant for found in algorithms.values() for variant in found]
    first = variants[0]
    device = DEVICES[first.device].linked
    names = ", ".join(["stream", *(p.name for p in first.arguments)])
    parts = []
    for number, found in enumerate(algorithms.values()):
        choices = "\n".join(f"  if ({condition(v)}) return {v.name}({names});" for v in found)
        parts.append(f"static {prototype(first, f'{kernel}_algorithm_{number}', linked=True)} {{\n{choices}\n"
                     f"  return {device.invalid};\n}}\n")
    cases = "\n".join(f"    case {i}: return {kernel}_algorithm_{i}({names});" for i in range(len(algorithms)))
    parts.append(f"{prototype(first, kernel, 'int algo_id', linked=True)} {{\n  switch (algo_id) {{\n{cases}\n  }}\n"
                 f"  return {device.invalid};\n}}\n")
    parts.append(f"{prototype(first, f'{kernel}_default', linked=True)} {{\n  return {kernel}({names}, 0);\n}}\n")
    parts.append(f"int {kernel}_get_num_algos(void) {{ return {len(algorithms)}; }}\n")
    for verb in ("load", "unload"):
        calls = "\n".join(f"  if (status == {device.success}) status = {verb}_{v.name}();" for v in variants)
        parts.append(f"{device.result} {verb}_{kernel}(void) {{\n  {device.result} status = {device.success};\n"
                     f"{calls}\n  return status;\n}}\n")
    return "\n".join(parts)


def declarations(kernel: str, algorithms: dict[str, list[Variant]]) -> str:
    """What the joint header says of one kernel."""
    first = next(iter(algorithms.values()))[0]
    result = DEVICES[first.device].linked.result
    return f"""{prototype(first, kernel, "int algo_id", linked=True)};
{prototype(first, f"{kernel}_default", linked=True)};
int {kernel}_get_num_algos(void);
{result} load_{kernel}(void);
{result} unload_{kernel}(void);
"""


def link(headers: list[Path], out: Path, prefix: str = "") -> list[Path]:
    """Write the joint header and source; their paths."""
    found = [Variant.from_header(str(path)) for path in headers]
    if prefix and not prefix.isidentifier():
        raise ValueError(f"{prefix!r} cannot begin the name of a C function")
    if len({variant.device for variant in found}) > 1:
        raise ValueError("kernels for different devices cannot be called through one function")
    kernels = group(found)
    device = DEVICES[found[0].device]
    top, bottom = out.with_suffix(".h"), out.with_suffix(".c")
    out.parent.mkdir(parents=True, exist_ok=True)
    body = "\n".join(declarations(prefix + k, a) for k, a in kernels.items())
    top.write_text(f"#pragma once\n{device.include}\n#include <stdint.h>\n\n{device.words}\n\n{body}")
    includes = "\n".join(f'#include "{path.name}"' for path in headers)
    body = "\n".join(dispatcher(prefix + k, a) for k, a in kernels.items())
    bottom.write_text(f'#include "{top.name}"\n{includes}\n\n{body}')
    return [top, bottom]


def main(arguments: list[str]) -> int:
    """The command; a mistake in its arguments is one line."""
    p = argparse.ArgumentParser("python -m tritium link", description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("headers", nargs="+", type=Path, help="headers written by `python -m tritium compile`")
    p.add_argument("--out", "-o", type=Path, required=True, help="where to write, without an ending")
    p.add_argument("--prefix", default="", help="put in front of the names of the C functions")
    options = p.parse_args(arguments)
    return guarded("link", lambda: print(*link(options.headers, options.out, options.prefix), sep="\n"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
