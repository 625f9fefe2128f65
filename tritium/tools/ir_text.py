"""Tile IR for the eyes: colours for a terminal, and what a pass changed as a unified diff."""

from __future__ import annotations

import difflib
import itertools
import os
import re
from collections.abc import Iterator
from typing import IO

_RESET = "\x1b[0m"
_COLORS = {
    "comment": "\x1b[2m", "string": "\x1b[32m", "value": "\x1b[36m", "type": "\x1b[33m", "symbol": "\x1b[1;34m",
    "attribute": "\x1b[35m", "op": "\x1b[1m", "added": "\x1b[32m", "removed": "\x1b[31m", "place": "\x1b[36m",
}  # fmt: skip
_PIECES = re.compile(
    r"""(?P<comment>\#(?!\d).*)|(?P<string>"(?:[^"\\]|\\.)*")|(?P<value>%\w+(?:\#\d+)?)
    |(?P<symbol>@[\w.$]+)|(?P<type>(?:tile|ptr)<[^\s{},:]*|\b(?:[iu](?:1|8|16|32|64)|b?f\d+\w*)\b)
    |(?P<attribute>\b\w+)(?==)|(?P<op>(?:(?<==\ )|(?<=^))[a-z]\w*)""", re.X)


def wants_color(stream: IO[str]) -> bool:
    """Whether to colour what is written to a stream: to terminals, unless NO_COLOR is set.

    >>> import io
    >>> wants_color(io.StringIO())
    False
    """
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(text: str) -> str:
    """A module's text in colours.

    >>> painted("@f").strip("\\x1b")
    '[1;34m@f\\x1b[0m'
    """
    return "\n".join(_indented(line) for line in text.split("\n"))


def _indented(line: str) -> str:
    rest = line.lstrip(" ")
    return line[:len(line) - len(rest)] + _PIECES.sub(lambda m: f"{_COLORS[m.lastgroup or '']}{m[0]}{_RESET}", rest)


def painted_diff(text: str) -> str:
    """A unified diff in colours.

    >>> painted_diff("+x").strip("\\x1b")
    '[32m+x\\x1b[0m'
    """
    kinds = {"+": "added", "-": "removed", "@": "place"}
    return "\n".join(f"{_COLORS[kinds[line[0]]]}{line}{_RESET}" if line[:1] in kinds else line
                     for line in text.split("\n"))


def difference(before: str, after: str, name: str) -> str:
    """What the pass `name` changed, as a unified diff. Values that stay keep the names they have in `before`.

    >>> before, after = "kernel @f() {\\n  %0 = a\\n  %1 = b\\n}\\n", "kernel @f() {\\n  %0 = b\\n}\\n"
    >>> print(difference(before, after, "dce"), end="")
    --- before dce
    +++ after dce
    @@ -1,4 +1,3 @@
     kernel @f() {
    -  %0 = a
       %1 = b
     }
    """
    lines = difflib.unified_diff(before.splitlines(True), renamed(before, after).splitlines(True),
                                 f"before {name}", f"after {name}")
    return "".join(lines)


_VALUE = re.compile(r"%\w+")
_VALUE_OR_ATTRIBUTES = re.compile(r"%\w+| \{\w.*\}")
_NUMBER = re.compile(r"%\d+\b")
_DEFINES = re.compile(r"^\s*(%\d+)(?::\d+)? = |(?<=[(,])\s*(%\d+): ")


def renamed(before: str, after: str) -> str:
    """The text `after` with the names of `before`: lines that are equal but for names define the same values.

    Only numbers change. They are local to a kernel or function, and no two values of one get the same.
    """
    old = dict(map(_headed, _functions(before)))
    return "".join(_renamed(old.get(head, ""), text) for head, text in map(_headed, _functions(after)))


def _functions(text: str) -> list[str]:
    return [part for part in re.split(r"(?m)^(?=kernel @|function @)", text) if part]


def _headed(text: str) -> tuple[str, str]:
    return text.partition("(")[0], text


def _renamed(before: str, after: str) -> str:
    old, new = before.splitlines(), after.splitlines()
    names: dict[str, str] = {}
    for i, j in _aligned(old, new):
        names.update(zip(_numbered(new[j]), _numbered(old[i])))
    number = itertools.count(1 + max((int(name[1:]) for name in _NUMBER.findall(before + after)), default=-1))
    for name in dict.fromkeys(_NUMBER.findall(after)):
        if name not in names:
            names[name] = f"%{next(number)}"
    return _NUMBER.sub(lambda m: names[m[0]], after)


def _aligned(old: list[str], new: list[str]) -> Iterator[tuple[int, int]]:
    """Positions of lines that say the same: but for names first, between those but for attributes, too."""
    i = j = 0
    for block in _matches(old, new, _VALUE):
        for gap in _matches(old[i:block.a], new[j:block.b], _VALUE_OR_ATTRIBUTES):
            yield from ((i + gap.a + k, j + gap.b + k) for k in range(gap.size))
        yield from ((block.a + k, block.b + k) for k in range(block.size))
        i, j = block.a + block.size, block.b + block.size


def _matches(old: list[str], new: list[str], but_for: re.Pattern[str]) -> list[difflib.Match]:
    shapes = [[but_for.sub("", line) for line in lines] for lines in (old, new)]
    return difflib.SequenceMatcher(None, *shapes, autojunk=False).get_matching_blocks()


def _numbered(line: str) -> list[str]:
    """The numbered values that a line of IR defines: results of an op, or parameters."""
    return [a or b for a, b in _DEFINES.findall(line)]
