"""Places of the source as the reader of a kernel knows them: lines of its file, and names of its variables.

    b_u = helper(tl.load(p))        # line 7: what `helper`, in another file, does is told at this line
"""

from __future__ import annotations

import ast
import functools
import linecache
from typing import Any

from tritium.errors import innermost
from tritium.ir.core import Loc


def in_kernel(loc: Loc) -> Loc:
    """The place in the kernel's file that an op comes from. What a function of another file does belongs to its call.

    >>> call = Loc("kernel.py", 3, 0, 3, 9, "kernel")
    >>> in_kernel(Loc("helper.py", 88, 4, 88, 9, "helper", call)).line
    3
    """
    outermost = loc
    while outermost.caller is not None:
        outermost = outermost.caller
    loc = innermost(loc)
    while loc.file != outermost.file and loc.caller is not None:
        loc = loc.caller
    return loc


def line_of(op: Any) -> int:
    """The line of the kernel's file that an op comes from, 0 if it has none."""
    return in_kernel(op.loc).line if op.loc else 0


def code_at(loc: Loc | None) -> str:
    """The text of a place, on one line."""
    if loc is None:
        return ""
    lines = [linecache.getline(loc.file, n) for n in range(loc.line, loc.end_line + 1)]
    if not any(lines):
        return ""
    lines[-1] = lines[-1].encode()[: loc.end_col].decode(errors="replace")
    lines[0] = lines[0].encode()[loc.col :].decode(errors="replace")
    return " ".join(" ".join(lines).split())


def name_at(loc: Loc | None) -> str:
    """What the reader calls the value of a place: the variable that its statement assigns, else its text.

    In `b_u = tl.dot(b_A, b_v.to(tl.float16))`, the product is `b_u`, and its second operand is `b_v.to(tl.float16)`.
    """
    text = code_at(loc)
    if loc is None or not text:
        return text
    target = _assigned(loc.file).get((loc.line, loc.col, loc.end_line, loc.end_col))
    return target or (text if len(text) <= 40 else f"{text[:37]}...")


@functools.lru_cache(maxsize=64)
def _assigned(file: str) -> dict[tuple[int, int, int, int], str]:
    """{the place of a statement, or of its value: the variables that it assigns}."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:  # not Python, or another version's
        return {}
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            name = " = ".join(map(ast.unparse, targets))
            for part in (node, node.value):
                found[part.lineno, part.col_offset, part.end_lineno or 0, part.end_col_offset or 0] = name
    return found
