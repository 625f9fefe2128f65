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

How kernels become code objects for AMD GPUs, with instruction and register counts. Nobody has run them on a device yet.

## From tile IR to a code object

The stages are those of every GPU ([gpu.md](gpu.md)), then LLVM text (`llir`) and a code object (`hsaco`). LLVM emits
machine code directly; the assembly `kernel.asm["amdgcn"]` is produced on demand.

- **Global memory.** Tiles are loaded and stored through buffer resources if every address is within 2 GiB after an
  argument. Masked lanes get an out-of-bounds offset, so no branch is needed. If the compiler cannot prove the bound, it
  is a precondition: the launcher checks it from the arguments and the grid, and launches a variant without buffers if
  it does not hold. `AMDGCN_USE_BUFFER_OPS=0` disables buffers.
- **Lanes** exchange values by moves within a row of 16 (DPP), which LLVM fuses with the operation that uses them, and
  by permutations of rows. Only more distant lanes go through the LDS unit.
- **Loops with dots.** The tiles of the next iteration are loaded into registers during the current one, if `num_stages`
  is above 1 and enough registers are left. On gfx950 they are copied directly to shared memory instead
  (`buffer_load_dwordx4 ... lds`), `num_stages` - 1 iterations ahead. This requires that all of them may go through
  buffers and are contiguous along K, because matrix instructions take neighbours along K, and only registers transpose
  for free. Lanes copy in the order of the buffer, so the swizzle is in the addresses that they load from. Each
  iteration has one wait (`s_waitcnt vmcnt(n)`), which does not wait for later copies, and one barrier. On gfx942 such
  copies move only four bytes, so it uses registers.
- **Functions** such as `exp` and `log` are hardware instructions or tritium's own code; no device library is linked.
- **Atomics** on device memory are single instructions. Atomics of masked tiles also go through buffers, if the family
  has a buffer instruction for them. With `scope="sys"` floats are added by a loop, because fine-grained memory may not
  support the instruction.
- **Shared memory** has a fixed size in the code object. No dynamic shared memory is requested at launch, unless a
  program needs more than the limit; then the driver refuses it.
- **Linking.** LLVM's object is relocatable, but the HIP runtime loads shared objects. `amdgcn/assemble/link.py` links
  one object, in 230 lines. It replaces LLVM's linker, which is not part of llvmlite; packages that have it (`ziglang`)
  take 90 MB. If such a package is installed, the tests compare the results.
- **Inline assembly** is parsed by tritium, because llvmlite has no assembler for AMD GPUs either. tritium emits LLVM
  operations with the same effect, and LLVM selects the instructions. 100 are supported (`amdgcn/isa/assembly.py`):
  arithmetic, minima and maxima, functions and conversions of floats, packed halves, integer arithmetic, shifts and bit
  fields. Operands are `$0`, `-$1`, `|$1|` and numbers; constraints are `=v`, `v`, `s`, `r` and the number of an output.
  The error for any other instruction suggests similar ones.

`waves_per_eu=n` makes LLVM limit registers so that n warps fit on a SIMD. `allow_flush_denorm=True` flushes subnormal
floats. `matrix_instr_nonkdim` and `kpack` select the shape of matrix instructions. `maxnreg` and `num_ctas` are
refused.

The metadata of a kernel include `n_regs` (vector registers), `n_agprs` among them, `n_sgprs`, `n_spills`, `scratch`
(bytes per thread), `arguments` (offset, size and kind of each) and `messages`.

## Instruction and register counts

The table has the kernels of `tritium/kernels` at the small sizes of `tests/backends/gpu/toy/collection.py`, which suit
emulators. Each cell has instructions, registers per thread and bytes of shared memory. NVIDIA's instructions are those
of the machine code for sm_90 if `cuobjdump` is installed, else of PTX, which has fewer. AMD's are those of the
assembly, without waits and scheduling hints (`s_waitcnt`, `s_nop`, `s_delay_alu`). Registers of CDNA are ordinary
registers plus accumulation registers. "kept" is the number of spilled words.

Programs have as many warps on AMD as on NVIDIA. CDNA's warps have 64 lanes, so a thread has half as many elements.

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
