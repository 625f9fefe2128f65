"""What the kernels of the collection come to on AMD GPUs, beside NVIDIA's: instructions, registers, shared memory.

    python benchmarks/amd_code.py                 # writes docs/amd-code.md; needs ptxas and some minutes, but no GPU
    python benchmarks/amd_code.py softmax topk    # prints the rows of some kernels
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.backends.amdgcn.compiled import TARGETS, compiled, instructions  # noqa: E402
from tests.backends.amdgcn.everything import fitting, kernels_of  # noqa: E402
from tests.backends.gpu.modules import H100  # noqa: E402
from tritium import knobs, passes  # noqa: E402
from tritium.backends import get  # noqa: E402
from tritium.backends.amdgcn.compile import assembled  # noqa: E402
from tritium.backends.compiler import BaseBackend  # noqa: E402
from tritium.compiler.sources import with_options  # noqa: E402
from tritium.errors import TritonError  # noqa: E402
from tritium.tools.disasm import get_sass  # noqa: E402

PAGE = ROOT / "docs" / "amd-code.md"
HEAD = """# Code for AMD GPUs

How kernels become code objects for AMD GPUs, and what they come to. Nobody has run them on a device yet.

## From tile IR to a code object

The stages are those of every GPU ([gpu.md](gpu.md)), then LLVM's text (`llir`) and a code object (`hsaco`). LLVM makes
machine code at once; the assembly is a view, `kernel.asm["amdgcn"]`, made when somebody asks for it.

- **Global memory.** Tiles are loaded and stored through buffer resources where every address lies within 2 GiB behind
  an argument. Lanes that a mask leaves out get an offset out of bounds: no branch. Where it does not follow from the
  code, the launcher checks it from arguments and grid before a launch, and launches a variant without buffers if it
  does not hold. `AMDGCN_USE_BUFFER_OPS=0` makes none.
- **Lanes** exchange values by moves within a row of 16 (DPP), which LLVM joins with the operation that uses them, and
  by permutations of rows; only lanes that are farther apart go through the unit of shared memory.
- **Loops with dots.** The tiles of the next iteration are loaded into registers while this one multiplies, if
  `num_stages` is above 1 and registers are left beside the sums. On gfx950 they are copied straight to shared memory
  instead (`buffer_load_dwordx4 ... lds`), `num_stages` - 1 iterations ahead, if all of them may go through buffers and
  are contiguous along K: matrix instructions take neighbours along K, and only registers transpose for nothing. Lanes
  copy in the order of the buffer, so the swizzle of shared memory is in the addresses that they load from. Each
  iteration has one wait (`s_waitcnt vmcnt(n)`) and one barrier, and none for what is still under way. Copies of gfx942
  have four bytes; it keeps to registers.
- **Functions** such as `exp` and `log` are the hardware's instructions or ours: no device library is linked.
- **Atomics** are single instructions for memory of the device. Those of tiles with masks go through buffers, too, if
  the family has a buffer instruction for them. With `scope="sys"` floats are added by a loop, for memory that other
  devices see at once may be of a kind that has no such instruction.
- **Shared memory** has a fixed size in the code object. Nothing is given at a launch, unless a program wants more than
  there is; then the driver refuses it.
- **Linking.** LLVM's object is relocatable, and the HIP runtime loads shared objects. `amdgcn/assemble/link.py` links
  one object in 200 lines. It takes the place of LLVM's linker, which is no part of llvmlite: packages that have it
  (`ziglang`) weigh 90 MB. Where such a package is installed, the tests compare.
- **Inline assembly** is read by tritium, for an assembler is no part of llvmlite either. LLVM is given what the
  instructions do, and selects them. There are 100 (`amdgcn/isa/assembly.py`): arithmetic, minima and maxima, functions
  and conversions of floats, packed halves, integer arithmetic, shifts and bit fields. Operands are `$0`, `-$1`, `|$1|`
  and numbers, constraints are `=v`, `v`, `s`, `r` and the number of an output. Another instruction is an error that
  names those like it.

`waves_per_eu=n` asks LLVM for so few registers that n warps fit on a SIMD, `allow_flush_denorm=True` flushes subnormal
floats, `matrix_instr_nonkdim` and `kpack` choose the shape of matrix instructions. `maxnreg` and `num_ctas` are
refused.

A kernel's metadata have `n_regs` (vector registers), `n_agprs` among them, `n_sgprs`, `n_spills`, `scratch` (bytes of a
thread's memory), `arguments` (offset, size and kind of each) and `messages`.

## Kernels in numbers

The kernels of `tritium/kernels`, with the sizes that `tests/backends/gpu/toy/collection.py` gives them: small ones, for
emulators. Each cell has instructions, registers of a thread and bytes of shared memory. NVIDIA's instructions are those
of the machine code for sm_90 where `cuobjdump` is installed, else of PTX, which has fewer. AMD's are those of the
assembly, without what only waits or schedules (`s_waitcnt`, `s_nop`, `s_delay_alu`). Registers of CDNA are ordinary
ones and, behind a plus, those that matrix products accumulate in. No kernel keeps registers in memory unless a cell
says so.

Programs have as many warps on AMD as on NVIDIA. Those of CDNA have 64 lanes: a thread has half as many elements.

`python benchmarks/amd_code.py` writes this page.
"""
_IDLE = re.compile(r"^\s*(s_waitcnt|s_wait_|s_nop|s_delay_alu|s_clause|;)")


def amd(module, options, arch: str) -> str:
    """A cell of an AMD GPU."""
    stages, metadata = compiled(module, arch, **fitting(options, arch))
    lines = instructions(assembled(stages["llir"], arch).partition(".amdhsa_kernel")[0]).splitlines()
    count = sum(line.startswith("\t") and not _IDLE.match(line) for line in lines)
    ordinary, more = metadata["n_regs"] - metadata["n_agprs"], metadata["n_agprs"]
    registers = f"{ordinary}+{more}" if more else f"{ordinary}"
    return f"{count} / {registers} / {metadata['shared']}" + (f" ({metadata['n_spills']} kept)"
                                                              if metadata["n_spills"] else "")  # fmt: skip


def nvidia(module, options) -> str:
    """The cell of sm_90."""
    chosen = BaseBackend(H100).parse_options(options)
    value, metadata, text = passes.run(with_options(module, H100, chosen), get(H100).passes(H100)), {}, ""
    for name, stage in get(H100).stages:
        value = stage(value, H100, chosen, metadata)
        text = value if name == "ptx" else text
    return f"{_count(text, value)} / {metadata.get('n_regs', '?')} / {metadata['shared']}"


def _count(text: str, code: bytes) -> int:
    """Instructions of a cubin, or of its PTX where nobody can disassemble it."""
    if not knobs.nvidia.cuobjdump:
        return len(re.findall(r"^\t(?!\.)[^/\n]*;", text, re.MULTILINE))
    return sum(";" in line and "NOP" not in line for line in get_sass(code).splitlines())


def rows(names):
    """[kernel, cell of NVIDIA, cells of AMD] of the kernels that cases of the collection launch, each once."""
    seen = set()
    for launched in kernels_of(names).values():
        for name, module, options in launched:
            key = name, str(module), str(options)
            if key in seen:
                continue
            seen.add(key)
            yield [f"`{name}`", _tried(nvidia, module, options), *(_tried(amd, module, options, a) for a in TARGETS)]


def _tried(make, *arguments) -> str:
    try:
        return make(*arguments)
    except TritonError as error:
        return f"no: {str(error).splitlines()[0]}"


def main(names: list[str]) -> None:
    from tests.backends.gpu.toy.collection import CASES

    head = ["kernel", "sm_90", *TARGETS]
    lines = [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1)]
    wanted = [case for case in CASES if not names or case.split(",")[0] in names]
    lines += [f"| {' | '.join(row)} |" for row in rows(wanted)]
    if names:
        print("\n".join(lines))
    else:
        PAGE.write_text(HEAD + "\n" + "\n".join(lines) + "\n")
        print(f"written: docs/{PAGE.name}, {len(lines) - 2} kernels")


if __name__ == "__main__":
    main(sys.argv[1:])
