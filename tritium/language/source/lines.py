"""The lines of a function, cut out of its file.

`inspect` runs Python's tokenizer over them, which takes longer than compiling the kernel's first pass; where a function
ends, strings, comments and brackets say, and one expression finds those.
"""

from __future__ import annotations

import inspect
import linecache
import os
import re
import stat
import sys
import textwrap
from types import CodeType, FunctionType

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
    fn = inspect.unwrap(fn)
    if fn.__code__.co_filename in _PROGRAMS:
        return _lines_of_program(fn)
    lines, first = inspect.findsource(fn)
    return _block(lines[first:]), first + 1


# A program without a file: by the name that stands for one, its text. None: it cannot be had.
_PROGRAMS = {"<string>": lambda: _of_command_line(), "<stdin>": lambda: _of_stdin()}


def _lines_of_program(fn: FunctionType) -> tuple[list[str], int]:
    """The lines of a function of `python -c` or `python - < file`; what `exec` ran has the same file names."""
    name, first = fn.__code__.co_filename, fn.__code__.co_firstlineno
    texts = (_PROGRAMS[name](), "".join(linecache.getlines(name)))
    for text in texts:
        lines = [line + "\n" for line in (text or "").split("\n")]
        found = _block(lines[first - 1:]) if first <= len(lines) else []
        if _defines("".join(found), fn):
            return found, first
    raise OSError(f"{name} has no text")


def _of_command_line() -> str | None:
    given = sys.orig_argv
    return given[given.index("-c") + 1] if sys.argv[:1] == ["-c"] and "-c" in given[:-1] else None


def _of_stdin() -> str | None:
    """The program, if it is a file that was redirected: it can be read once more from its start."""
    try:
        status = os.fstat(0)
        if stat.S_ISREG(status.st_mode):
            return os.pread(0, status.st_size, 0).decode()
    except (OSError, UnicodeDecodeError):
        pass
    return None


def _defines(text: str, fn: FunctionType) -> bool:
    """Whether a text is the one that a function was made from: `exec` may have run another of the same name."""
    try:
        made = compile(textwrap.dedent(text), fn.__code__.co_filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return any(_facts(part) == _facts(fn.__code__) for part in made.co_consts if isinstance(part, CodeType))


def _facts(code: CodeType) -> tuple:
    """What two codes of one function have in common, whether it stands in another function or not."""
    names = {*code.co_names, *code.co_freevars, *code.co_cellvars}
    constants = [repr(x) for x in code.co_consts if not isinstance(x, CodeType)]
    return code.co_name, code.co_varnames, names, constants


def ways_out(file: str) -> str:
    """What to do about a function of `file` whose text cannot be had.

    >>> ways_out("<stdin>")
    'save the program as a file and run that: `python file.py`'
    """
    if file == "<stdin>":
        shell = ", or use IPython or the shell of Python 3.13, which keep what was typed" if _is_typed() else ""
        return f"save the program as a file and run that: `python file.py`{shell}"
    return ("write the kernel into a file and import it, or give its text a name that Python knows: "
            "`linecache.cache[name] = (len(text), None, text.splitlines(True), name)`, then "
            "`exec(compile(text, name, 'exec'))`")


def _is_typed() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


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
