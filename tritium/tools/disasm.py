"""Read the machine code of a compiled GPU kernel."""

from __future__ import annotations

import re
import subprocess
import tempfile

__all__ = ["extract", "get_sass"]


def get_sass(cubin: bytes, fun: str | None = None) -> str:
    """The SASS instructions in a cubin, of the function `fun` or of all; needs cuobjdump of the CUDA toolkit.

    >>> get_sass(b"")  # doctest: +SKIP
    """
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return extract(file.name, fun)


def extract(file_path: str, fun: str | None = None) -> str:
    """The SASS instructions in a cubin file, one function after the other, without encodings and addresses.

    >>> extract("kernel.cubin")  # doctest: +SKIP
    """
    from tritium import knobs

    tool = knobs.nvidia.cuobjdump
    if tool is None:
        raise RuntimeError("cuobjdump is not on the PATH: install the CUDA toolkit, or set TRITON_CUOBJDUMP_PATH to it")
    command = [tool.path, "-sass", *(["-fun", fun] if fun else []), file_path]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return readable(done.stdout)


# cuobjdump:        /*0010*/                   IMAD.MOV.U32 R1, RZ, RZ, c[0x0][0x28] ;      /* 0x00000a00ff017624 */
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?;)")
_FUNCTION = re.compile(r"^\s*Function : (\S+)")


def readable(dump: str) -> str:
    """cuobjdump's listing with function names, instructions, and labels where jumps lead.

    >>> print(readable('''    Function : k
    ...         /*0000*/                   BRA 0x10 ;     /* 0x0000 */
    ...         /*0010*/                   EXIT ;         /* 0x0001 */'''))
    k:
            BRA L_0010 ;
    L_0010:
            EXIT ;
    """
    functions: list[tuple[str, list[tuple[int, str]]]] = []
    for line in dump.splitlines():
        if named := _FUNCTION.match(line):
            functions.append((named[1], []))
        elif functions and (found := _INSTRUCTION.match(line)):
            functions[-1][1].append((int(found[1], 16), found[2]))
    return "\n".join(_listing(name, rows) for name, rows in functions)


def _listing(name: str, rows: list[tuple[int, str]]) -> str:
    starts = {address for address, _ in rows}
    jump = re.compile(r"\b(BRA|BSSY|CALL\S*|JMP)\b(.*?)\b0x([0-9a-f]+)")
    targets = {int(found[3], 16) for _, text in rows if (found := jump.search(text))} & starts

    def label(match: re.Match) -> str:
        address = int(match[3], 16)
        return f"{match[1]}{match[2]}L_{address:04x}" if address in targets else match[0]

    lines = [f"{name}:"]
    for address, text in rows:
        if address in targets:
            lines.append(f"L_{address:04x}:")
        lines.append(f"        {jump.sub(label, text)}")
    return "\n".join(lines)
