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
HEAD = """# Kernels on AMD GPUs, in numbers

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
