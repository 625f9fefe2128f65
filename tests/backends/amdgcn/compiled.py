"""Modules of tile IR compiled for AMD GPUs, and the tools that look at the result."""

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

from tritium import passes
from tritium.backends import get
from tritium.backends.amdgcn.compile import assembled
from tritium.backends.compiler import BaseBackend, GPUTarget
from tritium.compiler.sources import with_options

TARGETS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")


def compiled(module, arch, **given):
    """({stage: value}, metadata) of a module."""
    target = GPUTarget.parse(f"hip:{arch}")
    options = BaseBackend(target).parse_options(given)
    value = passes.run(with_options(module, target, options), get(target).passes(target))
    stages, metadata = {}, {"name": module.name}
    for name, stage in get(target).stages:
        value = stages[name] = stage(value, target, options, metadata)
    return stages, metadata


def tiles(module, arch, **given):
    """The tile IR of a module, with layouts."""
    target = GPUTarget.parse(f"hip:{arch}")
    options = BaseBackend(target).parse_options(given)
    module = passes.run(with_options(module, target, options), get(target).passes(target))
    return dict(get(target).stages)["ttgir"](module, target, options, {})


def assembly(module, arch, **given):
    """The instructions of a module, without directives and comments."""
    return instructions(assembled(compiled(module, arch, **given)[0]["llir"], arch))


def instructions(text):
    """The lines of assembly that are instructions or labels."""
    lines = (line.split(";")[0].rstrip() for line in text.splitlines())
    return "\n".join(line for line in lines if line.strip() and not re.match(r"\s*\.(?!LBB)", line))


# --- LLVM's assembler and linker, where they are ----------------------------------------------------------------------
def zig():
    """The program of the package ziglang, which has LLVM's assembler and linker for AMD; None without."""
    found = importlib.util.find_spec("ziglang")
    return found and str(Path(found.origin).parent / "zig")


def machine_code(text, arch, folder):
    """The bytes of the code of an assembly text, by LLVM's assembler; None where there is none for the architecture."""
    source, made = folder / "k.s", folder / "k.o"
    source.write_text(_code_alone(text))
    if zig():
        command = [zig(), "cc", "-target", "amdgcn-amdhsa", f"-mcpu={arch}", "-c", source, "-o", made]
    elif shutil.which("llvm-mc"):
        known = subprocess.run(["llvm-mc", "-arch=amdgcn", "-mcpu=help"], capture_output=True, text=True, input="")
        if f"{arch} " not in known.stderr:
            return None
        command = ["llvm-mc", "-triple=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-filetype=obj", source, "-o", made]
    else:
        return None
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return made.read_bytes()


def _code_alone(text):
    """Without what depends on the names of targets and on the version of LLVM: descriptors and metadata."""
    text = re.sub(r"\.amdhsa_kernel.*?\.end_amdhsa_kernel", "", text, flags=re.DOTALL)
    text = re.sub(r"\.amdgpu_metadata.*?\.end_amdgpu_metadata", "", text, flags=re.DOTALL)
    others = r"^\s*\.(amdgcn_target|amdhsa_code_object_version|set|cfi_\w+|loc|file)\b.*$"
    return re.sub(others, "", text, flags=re.MULTILINE)
