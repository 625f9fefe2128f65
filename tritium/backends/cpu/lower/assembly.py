"""Inline assembly is checked before LLVM compiles it with the kernel."""

from __future__ import annotations

import functools
import pickle
import subprocess
import sys
from pathlib import Path

from ....errors import CompilationError, InternalError, place_of
from ....ir.core import Op
from ....ops import ptx
from ...llvm.target import Machine

# LLVM ends the process at assembly it cannot read, and offers no way to ask first. So a process of its own asks.
_CHILD = """
import pickle, sys
sys.path[:0], text, machine = pickle.load(sys.stdin.buffer)
from tritium.backends.llvm.target import compile_text, llvm
try:
    llvm().parse_assembly(text)
except RuntimeError as wrong:
    sys.exit(f"error: {str(wrong).partition('error: ')[2].splitlines()[0]}")
compile_text(text, pickle.loads(machine), passes=(), opt=0)
"""


def check(op: Op, call: str, cpu: Machine) -> None:
    """Refuse assembly that `cpu` does not have. `call` is the LLVM function of the op's one statement."""
    said = _refusal(call, cpu)
    if said:
        arch, unknown = cpu.triple.split("-")[0], ptx.refusal(op)
        raise CompilationError(None, None, f"inline assembly is not {arch}: {said}", span=place_of(op.loc),
                               hint=f"nor is it PTX that a CPU can run, because of {unknown}; guard what needs an "
                               "NVIDIA GPU with `if tl.target_info.is_cuda():`")


@functools.lru_cache(maxsize=256)
def _refusal(text: str, cpu: Machine) -> str:
    """What LLVM says against a text, or nothing."""
    if not sys.executable:  # embedded in another program: nobody to ask
        return ""
    root = str(Path(__file__).resolve().parents[4])
    done = subprocess.run([sys.executable, "-c", _CHILD], input=pickle.dumps(([root], text, pickle.dumps(cpu))),
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if not done.returncode:
        return ""
    said = done.stderr.decode(errors="replace").strip()
    if "Traceback" in said:
        raise InternalError(f"checking inline assembly: {said}")
    for prefix in ("error: <inline asm>:", "error: ", "LLVM ERROR: "):
        if said.startswith(prefix):
            return said.removeprefix(prefix)
    return "the operands do not fit the constraints"  # an assertion of LLVM's failed
