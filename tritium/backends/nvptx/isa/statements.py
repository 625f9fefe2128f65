"""Statements of PTX: inline assembly whose operands are in registers of their types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...llvm.writer import Val
    from .target import NvLowering

# The letter of a register, by LLVM's type; addresses in shared memory have 32 bits, others 64.
_LETTERS = {"i1": "b", "i16": "h", "i32": "r", "i64": "l", "float": "f", "double": "d", "ptr addrspace(3)": "r"}


def bracketed(register: str, constant: int) -> str:
    """An address in assembly.

    >>> bracketed("$1", 16), bracketed("$1", 0)
    ('[$1+16]', '[$1]')
    """
    return f"[{register}+{constant}]" if constant else f"[{register}]"


def statement(g: NvLowering, body: str, *inputs: Val, gives: Sequence[str] = (), tied: int = 0, early: bool = False,
              memory: bool = True, named: bool = True, at: int = -1) -> list[Val]:
    """The results, of the types `gives`, of a statement with effects: operands $0, $1, ... are these, then the inputs.

    The first `tied` inputs are in the registers of the results. With `early`, results are written before all inputs are
    read. `memory` says whether the statement reads or writes any. Several results are a structure, `named` or not.
    """
    letters = [str(k) if k < tied else _LETTERS.get(x.type, "l") for k, x in enumerate(inputs)]
    outs = [f"={'&' if early else ''}{_LETTERS[kind]}" for kind in gives]
    listed = ",".join([*outs, *letters, *["~{memory}"] * memory])
    several = g.w.struct(gives) if named and len(gives) > 1 else f"{{{', '.join(gives)}}}"
    result = "void" if not gives else gives[0] if len(gives) == 1 else several
    call = f'call {result} asm sideeffect "{body}", "{listed}"({", ".join([x.typed for x in inputs])})'
    made = g.w.effect(call, result, at)
    if len(gives) < 2:
        return [made] * len(gives)
    return [g.w.emit(kind, f"extractvalue {result} {made}, {k}", made) for k, kind in enumerate(gives)]
