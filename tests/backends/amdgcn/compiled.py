"""Modules of tile IR compiled for AMD GPUs, and the tools that look at the result."""

import functools
import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np

from tritium import passes
from tritium.backends import get
from tritium.backends.amdgcn import compile as amd_stages
from tritium.backends.amdgcn.compile import assembled
from tritium.backends.compiler import BaseBackend, GPUTarget
from tritium.backends.llvm import elf
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


@functools.cache
def llvm_mc(arch):
    """The path of an `llvm-mc`, LLVM's assembler and disassembler, that knows the architecture; None without. The one
    called so goes first, then the newest of those with a version in their names."""
    for name in ("llvm-mc", *(f"llvm-mc-{version}" for version in range(40, 13, -1))):
        if found := shutil.which(name):
            known = subprocess.run([found, "-arch=amdgcn", "-mcpu=help"], capture_output=True, text=True, input="")
            if re.search(rf"\b{arch} ", known.stderr):
                return found
    return None


def machine_code(text, arch, folder):
    """The object of an assembly text, by LLVM's assembler; None where there is none for the architecture."""
    source, made = folder / "k.s", folder / "k.o"
    source.write_text(_code_alone(text))
    if llvm_mc(arch):
        command = [llvm_mc(arch), "-triple=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-filetype=obj", source, "-o", made]
    elif zig():
        command = [zig(), "cc", "-target", "amdgcn-amdhsa", f"-mcpu={arch}", "-c", source, "-o", made]
    else:
        return None
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return made.read_bytes()


def text_of(data):
    """The machine code of an object."""
    return elf.read(data).named(".text").data


def disassembled(code, arch):
    """The assembly of machine code, by LLVM's disassembler; bytes that it takes for no instruction are an error."""
    done = subprocess.run([llvm_mc(arch), "-disassemble", "-triple=amdgcn-amd-amdhsa", f"-mcpu={arch}"],
                          input=" ".join(map(hex, code)), capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr[:2000]
    return done.stdout


def object_of(llir, arch):
    """The object that `hsaco` links."""
    return amd_stages.machine_code(llir, arch)


def comes_back(data, text, arch, folder):
    """Whether LLVM's disassembler and assembler turn the code of an object into itself, and its assembler makes it of
    this assembly as well."""
    code = text_of(data)
    again = (machine_code(source, arch, folder) for source in (disassembled(code, arch), text))
    return all(_is_same(code, text_of(back), arch) for back in again)


def _is_same(code, back, arch):
    """Whether code is the same but for the upper halves of literals that instructions take 16 bits of: code generation
    writes their sign there, and the assembler zeros."""
    if code == back:
        return True
    mine, theirs = (np.frombuffer(x, np.uint16) for x in (code, back))
    lower_halves = len(mine) == len(theirs) and np.array_equal(mine[::2], theirs[::2])
    return lower_halves and disassembled(code, arch) == disassembled(back, arch)


def _code_alone(text):
    """Without what depends on the names of targets and on the version of LLVM: descriptors and metadata."""
    text = re.sub(r"\.amdhsa_kernel.*?\.end_amdhsa_kernel", "", text, flags=re.DOTALL)
    text = re.sub(r"\.amdgpu_metadata.*?\.end_amdgpu_metadata", "", text, flags=re.DOTALL)
    others = r"^\s*\.(amdgcn_target|amdhsa_code_object_version|set|cfi_\w+|loc|file)\b.*$"
    return re.sub(others, "", text, flags=re.MULTILINE)
