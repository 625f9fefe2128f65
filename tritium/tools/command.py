"""What the commands do about mistakes: a sentence and an exit status, never tritium's own frames.

Exit status 2: the command was called wrongly. 1: the user's program, or its kernel, failed.
"""

from __future__ import annotations

import difflib
import io
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from types import CodeType, TracebackType

from tritium.errors import InternalError, is_told, users_frames

__all__ = ["ProgramError", "UsageError", "closest", "code_of", "guarded", "show_failure"]


class UsageError(ValueError):
    """A mistake in the arguments of a command.

    >>> issubclass(UsageError, ValueError)
    True
    """


class ProgramError(Exception):
    """The user's own program failed: `text` is what Python would have printed.

    >>> ProgramError("NameError: name 'x' is not defined").args
    ("NameError: name 'x' is not defined",)
    """


def guarded(name: str, body: Callable[[], int | None]) -> int:
    """Run the body of a command; a mistake of the user becomes one message.

    >>> guarded("show", lambda: None)
    0
    """
    try:
        return body() or 0
    except ProgramError as error:
        sys.stderr.write(str(error))
        return 1
    except (InternalError, BrokenPipeError):
        raise
    except (ValueError, OSError, AssertionError) as error:
        if is_told(error) or not isinstance(error, AssertionError) or str(error):
            print(f"tritium {name}: {_sentence(error)}", file=sys.stderr)
            return 2
        raise
    except Exception as error:
        if not is_told(error) and not isinstance(error, RuntimeError):
            raise
        print(f"tritium {name}: {error}", file=sys.stderr)
        return 1


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"cannot open {os.fspath(error.filename)!r}: {error.strerror}"
    return str(error)


def closest(wanted: str, known: Iterable[str]) -> str:
    """A question about the most similar name, or nothing.

    >>> closest("sofmax", ["softmax", "matmul"])
    "; did you mean 'softmax'?"
    """
    found = difflib.get_close_matches(wanted, list(known), 1, 0.5)
    return f"; did you mean {found[0]!r}?" if found else ""


def code_of(path: str) -> CodeType:
    """The code of a Python file; errors are the user's."""
    with io.open_code(os.path.abspath(path)) as file:
        text = file.read()
    return compile(text, path, "exec", dont_inherit=True)  # this file's __future__ is not the script's


def show_failure(error: BaseException) -> str:
    """What Python prints about an exception of the user's program, from the user's first line on."""
    return "".join(traceback.format_exception(type(error), error, from_program(error.__traceback__)))


def from_program(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without our frames, and without those of Python's machinery that runs programs.

    >>> from_program(None) is None
    True
    """
    trace = users_frames(trace)
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith("<frozen "):
        trace = trace.tb_next
    return trace
