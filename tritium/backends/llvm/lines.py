"""Debug metadata of a module: the source line of each LLVM line.

Line tables only: debuggers and profilers show source lines, but no variables. Functions of the language's own library
have the line of their call. The emulator of GPU programs wants to know columns and callers, too: `exact` lines have
them as a comment.
"""

from __future__ import annotations

import json
import re

from ...errors import innermost, places_of
from ...ir.core import Loc
from .writer import escaped

_FIRST = 2  # first metadata number; the writer uses those below


class Lines:
    """The places of a module's lines. Those between two calls of `function` are in the function it was called for.

    >>> lines, call = Lines(), Loc("k.py", 3, 0, 3, 9, "kernel")
    >>> lines.function("kernel", call)
    '!dbg !4'
    >>> lines.at(call), lines.at(None), lines.at(Loc("k.py", 7, 0, 7, 9, "device", call))
    (', !dbg !5', '', ', !dbg !6')
    >>> print(lines.text()[-2])
    !6 = !DILocation(line: 7, scope: !4)
    """

    def __init__(self, wanted: bool = True, exact: bool = False):
        self._wanted, self._exact = wanted, exact
        self._nodes: dict[str, int] = {}  # the metadata and its numbers
        self._places: dict[int, tuple[Loc, str]] = {}  # by id of a place, which is kept so that no other gets its id
        self._unit = self._scope = 0
        self._file = ""

    def function(self, name: str, loc: Loc | None) -> str:
        """The attachment of a function defined at `loc`; "" if it has no location or line tables are off."""
        self._places, self._scope = {}, 0
        if loc is None or not self._wanted:
            return ""
        self._file, file = loc.file, self._file_node(loc.file)
        if not self._unit:
            self._unit = self._node(f"distinct !DICompileUnit(language: DW_LANG_Python, file: !{file}, "
                                    "emissionKind: DebugDirectivesOnly)")  # fmt: skip
        self._scope = self._node(
            f'distinct !DISubprogram(name: "{escaped(name.encode())}", file: !{file}, line: {loc.line}, '
            f"scopeLine: {loc.line}, unit: !{self._unit}, spFlags: DISPFlagDefinition)")  # fmt: skip
        return f"!dbg !{self._scope}"

    def at(self, loc: Loc | None) -> str:
        """The attachment of a line from `loc`; "" if it has no location."""
        if loc is None or not self._scope:
            return ""
        found = self._places.get(id(loc))
        if found is None:
            found = self._places[id(loc)] = loc, self._exactly(loc) if self._exact else self._line(innermost(loc))
        return found[1]

    def text(self) -> list[str]:
        """The metadata, for the head of the module: LLVM takes longer to read lines that name what is still to come."""
        if not self._unit:
            return []
        flags = self._node('!{i32 2, !"Debug Info Version", i32 3}')
        return [f"!llvm.dbg.cu = !{{!{self._unit}}}", f"!llvm.module.flags = !{{!{flags}}}",
                *(f"!{number} = {node}" for node, number in self._nodes.items())]  # fmt: skip

    def _line(self, loc: Loc) -> str:
        scope = self._scope
        if loc.file != self._file:
            file = self._file_node(loc.file)
            scope = self._node(f"!DILexicalBlockFile(scope: !{scope}, file: !{file}, discriminator: 0)")
        return f", !dbg !{self._node(f'!DILocation(line: {loc.line}, scope: !{scope})')}"

    def _exactly(self, loc: Loc) -> str:
        line, column = innermost(loc)[1:3]
        node = f"!DILocation(line: {line}, column: {column + 1}, scope: !{self._scope})  ; {json.dumps(places_of(loc))}"
        return f", !dbg !{self._node(node)}"

    def _file_node(self, path: str) -> int:
        return self._node(f'!DIFile(filename: "{escaped(path.encode())}", directory: "")')

    def _node(self, text: str) -> int:
        return self._nodes.setdefault(text, len(self._nodes) + _FIRST)


def places_in(text: str) -> dict[int, tuple[tuple, ...]]:
    """The places of LLVM text with exact lines, by number: what `errors.places_of` says of each.

    >>> lines = Lines(exact=True)
    >>> _ = lines.function("k", Loc("k.py", 3, 0, 3, 9, "k")), lines.at(Loc("k.py", 4, 2, 4, 9, "k"))
    >>> places_in("\\n".join(lines.text()))
    {5: (('k.py', 4, 2, 4, 9, 'k'),)}
    """
    found = re.findall(r"^!(\d+) = !DILocation\(.*?\)  ; (.*)$", text, re.M)
    return {int(number): tuple(map(tuple, json.loads(places))) for number, places in found}
