"""Who runs inline assembly for the interpreter: a machine's backend, which registers itself here.

The interpreter knows no machine code and nothing of the backends, which stand on it.
"""

from __future__ import annotations

_runner = None


def register(function):
    """Let `function(op, arrays) -> arrays` run every inline assembly op from now on; gives the one before back."""
    global _runner
    before, _runner = _runner, function
    return before


def run(op, xs):
    """The results of an inline assembly op on arrays.

    >>> before = register(lambda op, xs: [x + 1 for x in xs])
    >>> run(None, [1, 2])
    (2, 3)
    >>> _ = register(before)
    """
    if _runner is None:
        from ..errors import InterpreterError

        raise InterpreterError(f"no backend runs the assembly {op.attrs['asm']!r}\n"
                               "hint: import tritium, which brings the one of this machine's CPU")
    return tuple(_runner(op, xs))
