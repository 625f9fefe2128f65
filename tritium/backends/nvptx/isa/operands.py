"""Operands of PTX in inline assembly: registers and addresses."""

from __future__ import annotations

LETTER = {16: "h", 32: "r", 64: "l"}  # of a register, by its bits


def bracketed(register: str, constant: int) -> str:
    """An address in assembly.

    >>> bracketed("$1", 16), bracketed("$1", 0)
    ('[$1+16]', '[$1]')
    """
    return f"[{register}+{constant}]" if constant else f"[{register}]"
