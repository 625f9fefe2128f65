"""Kernels as shared objects, for programs without Python: what torch's C++ (AOTInductor, `cpp_wrapper`) loads.

`so` exports a function of the kernel's name, and `launcher_so` exports `run_from_nativert`, which calls it:

    void run_from_nativert(uint32_t gx, uint32_t gy, uint32_t gz, int threads, void **args, void *kernel)

`args` has one word for each parameter of the Python function: a pointer itself, the address of an `int64_t` or of a
`float`, and nothing for a constant. All programs run on the calling thread. LLVM makes the objects; the C compiler,
which torch needs for its own part, links them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .... import knobs
from ...llvm.notation import expand
from ...llvm.target import compile_text, cpu_target
from .job import HEADER

if TYPE_CHECKING:
    from ...compiler import GPUTarget

_LAUNCHER = """
define void @run_from_nativert(i32 %gx, i32 %gy, i32 %gz, i32 %threads, ptr %args, ptr %kernel) {
  call void %kernel(i32 %gx, i32 %gy, i32 %gz, ptr %args)
  ret void
}
"""

_ENTRY = """
declare void @tritium_programs(ptr, i64, i64, ptr, ptr)
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare void @abort()

define void @"{name}"(i32 %gx, i32 %gy, i32 %gz, ptr %args) {{
  %slots = alloca [{count} x i64]
  %grid = alloca [3 x i64]
  %x = zext i32 %gx to i64
  %y = zext i32 %gy to i64
  %z = zext i32 %gz to i64
  store i64 %x, ptr %grid
  store i64 %y, item i64 1 of %grid
  store i64 %z, item i64 2 of %grid
  %all = mul i64 %x, %y, %z
{fill}
  %room = call ptr @aligned_alloc(i64 64, i64 {room}) ; the header of the arena comes first
  jump %fail if icmp eq ptr %room, null
  call void @tritium_programs(ptr %slots, i64 0, i64 %all, ptr %grid, item i8 {header} of %room)
  call void @free(ptr %room)
  ret void
fail:
  call void @abort()
  unreachable
}}
"""


def objects(text: str, name: str, entry: str, arch: str | int) -> dict[str, bytes]:
    """File ending -> object code of a CPU kernel's text, under the name `entry`, and of the parts of the runtime it
    calls.

    The functions of the runtime are weak: objects of several kernels can be linked together. Their names have that of
    the CPU in them, for a program may hold kernels for several.

    >>> text = "define void @k(ptr %a, i64 %b, i64 %e, ptr %g, ptr %s) { ret void }"
    >>> list(objects(text, "k", "kernel", "host"))
    ['.o']
    """
    from . import alone, called, interrupt

    target = cpu_target(arch)
    needed = set(re.findall(r"^declare .*@(tt\.[\w.]+)\(", text, re.M))
    parts = {part.name: part for part in called.PARTS if needed & set(part.symbols)}
    texts = {name: part.text(target) for name, part in parts.items()}
    provided = {symbol for part in parts.values() for symbol in part.symbols}
    if "tt.poll" in needed:
        texts["poll"] = interrupt.IDLE
        provided.add("tt.poll")
    if needed & set(alone.SYMBOLS):
        texts["alone"] = alone.IDLE
        provided |= set(alone.SYMBOLS)
    if missing := needed - provided:
        raise ValueError(f"{name} calls {', '.join(sorted(missing))}, which only a Python process has: compile it "
                         "without debug")
    ours = f"@tt.{re.sub(r'[^a-z0-9]', '.', str(arch))}."
    renamed = re.sub(rf"@{re.escape(name)}\b", f"@{entry}", text).replace("@tt.", ours)
    weak = {name: re.sub(r"^define (\w+ @tt\.)", r"define weak_odr \1", text, flags=re.M).replace("@tt.", ours)
            for name, text in texts.items()}
    return {".o": compile_text(renamed, target),
            **{f".{name}.o": compile_text(text, target) for name, text in weak.items()}}


def so(asm: Any, target: GPUTarget) -> bytes:
    """A shared object with the kernel, under its name."""
    metadata = asm.metadata
    if getattr(metadata, "preconditions", None):
        raise ValueError(f"{metadata.name} counts on what tritium's launcher looks into, and cannot be started without "
                         "it: compile it with the option launch_checks=False")
    entry = _entry(metadata.name, asm.signature, metadata.arena_bytes)
    made = objects(asm["llir"], metadata.name, "tritium_programs", target.arch)
    return linked([compile_text(entry, cpu_target(target.arch)), *made.values()])


def launcher_so(asm: Any, target: GPUTarget) -> bytes:
    """A shared object with `run_from_nativert`: the same for all kernels."""
    return linked([compile_text(_LAUNCHER, cpu_target(target.arch))])


def _entry(name: str, signature: Mapping[str, object], arena: int) -> str:
    """LLVM text of the function that packs the arguments of a launch, and runs all its programs."""
    passed = [(k, type_) for k, type_ in enumerate(signature.values()) if type_ != "constexpr"]
    fill = "\n".join(_slot(name, place, k, type_) for place, (k, type_) in enumerate(passed))
    return expand(_ENTRY.format(name=name, count=max(len(passed), 1), fill=fill, header=HEADER.size,
                                room=HEADER.size + -(-max(arena, 1) // 64) * 64))


_FLOATS = {"fp16": ("fptrunc", "half"), "bf16": ("fptrunc", "bfloat"), "fp64": ("fpext", "double")}


def _slot(name: str, place: int, k: int, type_: object) -> str:
    """LLVM text that copies argument `k` to a slot."""
    if not isinstance(type_, str) or type_.startswith("tensordesc"):
        raise ValueError(f"{name} cannot be started from C++: parameter {k} is no tensor and no number")
    lines = [f"%s{k} = item i64 {place} of %slots", f"%a{k} = load ptr, item ptr {k} of %args"]
    if type_.startswith("*"):
        lines += [f"store ptr %a{k}, ptr %s{k}"]
    elif not type_.startswith(("fp", "bf")):
        lines += [f"%v{k} = load i64, ptr %a{k}", f"store i64 %v{k}, ptr %s{k}"]
    elif type_ in _FLOATS:
        cast, kind = _FLOATS[type_]
        lines += [f"%v{k} = load float, ptr %a{k}", f"%c{k} = {cast} float %v{k} to {kind}",
                  f"store i64 0, ptr %s{k}", f"store {kind} %c{k}, ptr %s{k}"]
    else:
        lines += [f"%v{k} = load float, ptr %a{k}", f"store i64 0, ptr %s{k}", f"store float %v{k}, ptr %s{k}"]
    return "\n".join("  " + line for line in lines)


def linked(parts: Iterable[bytes]) -> bytes:
    """A shared object of object files."""
    compiler = knobs.build.cc or next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise RuntimeError("a kernel for C++ is a shared object, and there is no C compiler to link it: install gcc or "
                           "clang, or set the CC environment variable")
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for k, part in enumerate(parts):
            files.append(os.path.join(folder, f"{k}.o"))
            Path(files[-1]).write_bytes(part)
        out = os.path.join(folder, "kernel.so")
        # What kernels have in common stays in each of them: several are loaded into one program.
        command = [compiler, "-shared", "-Wl,-Bsymbolic", "-o", out, *files, "-lm"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
        return Path(out).read_bytes()
