"""A process that is sanitized from its first import on: TRITIUM_SANITIZE=1.

    TRITIUM_SANITIZE=1 python script.py
    TRITIUM_SANITIZE=1 TRITIUM_SANITIZE_JSON=report.json TRITIUM_SANITIZE_TARGET=cuda:90a python script.py

Findings are told on stderr as they come. At the end of the process come the summary and the JSON; the exit status is
3 if it would be 0 and something was found.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from typing import Any

from tritium import knobs

__all__ = ["FOUND", "end_with"]

FOUND = 3  # the exit status of a program that ended well, with mistakes


def end_with(report: Callable[[], Any]) -> None:
    """At the end of the process, sum up what `report()` has: call it early, so that this comes after all else."""
    ending = _Ending(report, os.getpid())
    sys.exit, sys.excepthook = ending.watching_exit(sys.exit), ending.watching_errors(sys.excepthook)
    atexit.register(ending.sum_up)


class _Ending:
    """Knows whether the program ended well: Python does not tell who is called at the end."""

    def __init__(self, report: Callable[[], Any], process: int):
        self._report, self._process, self._well = report, process, True

    def watching_exit(self, usual: Callable) -> Callable:
        """`sys.exit` that is listened to."""
        def exit(status: Any = None, /):
            self._well = status is None or status == 0
            usual(status)

        return exit

    def watching_errors(self, usual: Callable) -> Callable:
        """`sys.excepthook` that is listened to."""
        def hook(*error: Any) -> None:
            self._well = False
            usual(*error)

        return hook

    def sum_up(self) -> None:
        """Write the summary and the JSON, and end the process."""
        if os.getpid() != self._process:  # a child that was forked has none of this
            return
        report, file = self._report(), knobs.sanitize_json
        if report or report.notes:
            print(report.summary(), file=sys.stderr)
        if file:
            try:
                with open(file, "w") as out:
                    out.write(report.json() + "\n")
            except OSError as error:
                print(f"tritium sanitize: cannot write {file!r}: {error.strerror}", file=sys.stderr)
        if report and self._well:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(FOUND)
