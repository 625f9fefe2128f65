"""The notation of LLVM text that is written by hand: the text of the runtime, of launchers and of the library.

It is LLVM's own, and besides

    jump %done if icmp eq ptr %p, null            go to a block, or go on
    jump %done unless %more                       the same where a value is false
    jump %one if %a else %other                   go to one of two blocks
    ret i32 1 if icmp ne i32 %flags & 4, 0        return, or go on; whether some bits are set
    ret i64 load i64, ptr %p                      return what an instruction gives
    %x = and i1 %a, %b, %c                        more than two operands, from left to right
    %v = splat <4 x i64> %x                       a vector of equal lanes
    item i64 %k of %p                             the address of an element of an array
    store i64 %x, item i64 %k of %p, align 1      an address stands where LLVM has `ptr %name`
    %x = load i64, item i64 %k of %p              that of a load has a name, too: %x.p

A block that does not end goes on with the block below it. `structs.resolve` adds addresses of fields.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

# Text, which is compiled when it is used: most processes write no code. A line is matched where a word of it says that
# it may fit, for few do.
_LABEL = r"([\w.]+):"
_ENDS = ("  br ", "  ret ", "  switch ", "  unreachable")
_JUMP = r"  jump (%[\w.]+) (if|unless) ([^;]+?)(?: else (%[\w.]+))?(?: *;.*)?"
_RETURN = r"  (ret .+?) (if|unless) ([^;]+?)(?: *;.*)?"
_RESULT = r"  ret (<[^>]+>|\w+) ([a-z]+ [^(].*)"  # a constant expression has parentheses
_BITS = r"(  %[\w.]+ = icmp \w+) (\w+) ([^ ,]+ & [^ ,]+), (\w+)(?: *;.*)?"
_SPLAT = r"  (%[\w.]+) = splat <(\d+) x (\w+)> ([^ ;]+)(?: *;.*)?"
_SEVERAL = r"  (%[\w.]+) = ((?:and|or|xor|add|mul) (?:<[^>]+>|\w+)) ([^ ,]+), ([^ ,]+), ([^;]+?)(?: *;.*)?"
_LOAD = r"  (%[\w.]+) = load\b"
_ADDRESS = r"(?<!= )\b(?:item|field) [^,()]+ (?:of|before) [%@][\w.]+"
_ITEM = r"item ([^,()]+) ([^ ]+) of ([%@][\w.]+)"


def expand(text: str) -> str:
    """LLVM text for a text in this notation.

    >>> print(expand('''define i64 @element(ptr %p, i64 %k) {
    ...   ret i64 0 if icmp eq ptr %p, null
    ...   %x = load i64, item i64 %k of %p
    ...   ret i64 %x
    ... }'''))
    define i64 @element(ptr %p, i64 %k) {
      %if.0 = icmp eq ptr %p, null
      br i1 %if.0, label %return.0, label %on.0
    on.0:
      %x.p = getelementptr i64, ptr %p, i64 %k
      %x = load i64, ptr %x.p
      ret i64 %x
    return.0:
      ret i64 0
    }
    """
    given = text.split("\n")
    numbers = itertools.count()
    lines: list[str] = []
    returns: dict[str, str] = {}  # by what is returned, labels of blocks at the end: returns on conditions are rare
    goes_on = False  # the block above has not ended
    label_of = re.compile(_LABEL).match
    below = [""]  # of each line, the first from it on that is not empty
    for line in reversed(given):
        below.append(line or below[-1])
    below.reverse()
    for k, line in enumerate(given):
        if line[:1] not in ("", " ") and (label := label_of(line)):
            lines += [f"  br label %{label[1]}"] if goes_on else []
            goes_on = True
        elif line[:2] == "  " and line[2:3] not in "] ;":  # further lines are indented more, or close a bracket
            if line.startswith("  ret ") and (m := re.fullmatch(_RETURN, line)):
                label = returns.setdefault(m[1], f"return.{len(returns)}")
                line = f"  jump %{label} {m[2]} {m[3]}"
            lines += _expanded(line, below[k + 1], numbers)
            line = lines.pop()
            goes_on = not line.startswith(_ENDS)
        elif line.startswith("}"):
            lines += [part for returned, label in returns.items() for part in (f"{label}:", f"  {returned}")]
            returns, goes_on = {}, False
        lines.append(line)
    return "\n".join(lines)


def _expanded(line: str, below: str, numbers: Iterator[int]) -> list[str]:
    """The lines of one instruction, or of a jump; `below` is the line after it."""
    if line.startswith("  jump ") and (m := re.fullmatch(_JUMP, line)):
        n, condition, label = next(numbers), m[3], re.match(_LABEL, below)
        test = [] if condition.startswith("%") else _expanded(f"  %if.{n} = {condition}", "", numbers)
        onward = m[4] or (f"%{label[1]}" if label else f"%on.{n}")
        yes, no = (m[1], onward) if m[2] == "if" else (onward, m[1])
        branch = f"  br i1 {f'%if.{n}' if test else condition}, label {yes}, label {no}"
        return [*test, branch, *([] if m[4] or label else [f"on.{n}:"])]
    if line.startswith("  ret ") and (m := re.fullmatch(_RESULT, line)):
        result = f"%result.{next(numbers)}"
        return [*_expanded(f"  {result} = {m[2]}", "", numbers), f"  ret {m[1]} {result}"]
    if line.count(", ") > 1 and (m := re.fullmatch(_SEVERAL, line)):
        operands = (m[4], *m[5].split(", "))
        names = [*(f"%part.{next(numbers)}" for _ in operands[1:]), m[1]]
        return [f"  {name} = {m[2]} {x}, {y}" for name, x, y in zip(names, (m[3], *names), operands)]
    if " & " in line and (m := re.fullmatch(_BITS, line)):
        bits = f"%bits.{next(numbers)}"
        return [f"  {bits} = and {m[2]} {m[3].replace(' & ', ', ')}", f"{m[1]} {m[2]} {bits}, {m[4]}"]
    if " = splat " in line and (m := re.fullmatch(_SPLAT, line)):
        first, vector = f"%first.{next(numbers)}", f"<{m[2]} x {m[3]}>"
        return [f"  {first} = insertelement {vector} poison, {m[3]} {m[4]}, i64 0",
                f"  {m[1]} = shufflevector {vector} {first}, {vector} poison, <{m[2]} x i32> zeroinitializer"]
    if " of " not in line and " before " not in line:
        return [line]
    addresses: list[str] = []
    loaded = re.match(_LOAD, line)

    def name(m: re.Match[str]) -> str:
        found = f"{loaded[1]}.p" if loaded else f"%at.{next(numbers)}"
        addresses.append(f"  {found} = {m[0]}")
        return f"ptr {found}"

    line = re.sub(_ADDRESS, name, line)
    return [re.sub(_ITEM, r"getelementptr \1, ptr \3, i64 \2", x) for x in (*addresses, line)]
