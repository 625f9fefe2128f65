"""The lines of a function, cut out of its file.

`inspect` runs Python's tokenizer over them, which takes longer than compiling the kernel's first pass; where a function
ends, strings, comments and brackets say, and one expression finds those.
"""

from __future__ import annotations

import inspect
import re
from types import FunctionType

_TOKEN = re.compile(r"""
    \#[^\n]* | \\\r?\n                                      # comments, lines that go on
  | \"{3}(?:[^\\]|\\.)*?\"{3} | '{3}(?:[^\\]|\\.)*?'{3}     # strings
  | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*'
  | (?P<open>[(\[{]) | (?P<close>[)\]}])
  | \n(?P<indent>[ \t]*)(?=(?P<word>[^\s\#]\w*))            # a line that begins with more than a comment
""", re.VERBOSE | re.DOTALL)
_FORMATTED = re.compile(r"\b[rR]?[fF][rR]?[\"']")  # strings with expressions in them, which have strings in them


def lines_of(fn: FunctionType) -> tuple[list[str], int]:
    """As `inspect.getsourcelines`: the lines of `fn`, decorators included, and the number of the first.

    >>> lines_of(lines_of)[0][0]
    'def lines_of(fn: FunctionType) -> tuple[list[str], int]:\\n'
    """
    lines, first = inspect.findsource(inspect.unwrap(fn))
    return _block(lines[first:]), first + 1


def _block(lines: list[str]) -> list[str]:
    """The lines of the definition that the first of `lines` begins."""
    text = "\n" + "".join(lines)
    depth, base, body = 0, None, None
    defined = False  # the line with `def` was met
    end = len(lines)
    for token in _TOKEN.finditer(text):
        if token["open"]:
            depth += 1
        elif token["close"]:
            depth -= 1
        elif token["word"] and not depth:
            indent = len(token["indent"].expandtabs())
            base = indent if base is None else base
            if defined and indent <= base:
                end = text.count("\n", 0, token.start("word")) - 1
                break
            body = indent if defined and body is None else body
            defined = defined or token["word"] in ("def", "async")
    found = lines[:end]
    if _FORMATTED.search("".join(found)) or not defined:
        return inspect.getblock(lines)
    while found and not _belongs(found[-1], body):
        found.pop()
    return found


def _belongs(line: str, body: int | None) -> bool:
    """Whether a last line is part of the function: not blank, nor a comment further left than its body."""
    text = line.lstrip()
    comment = text.startswith("#")
    return bool(text) and not (comment and (body is None or len(line) - len(text) < body))
