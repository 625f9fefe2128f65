"""Runs of the benchmarks on disk: a line of JSON for each, so that processes append without asking each other.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "history.jsonl")
    >>> append({"id": "one", "rows": []}, path)
    >>> [run["id"] for run in read(path)]
    ['one']
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from tritium import knobs, trusted_files
from tritium.tools.command import UsageError, closest

__all__ = ["append", "default_path", "new_id", "pick", "read"]

FORMAT = 1


def default_path() -> str:
    """Where runs are kept unless a path is given: beside the compiled kernels; their limit does not reach it.

    >>> os.path.basename(default_path())
    'history.jsonl'
    """
    return os.path.join(os.path.abspath(knobs.cache.dir), "bench", "history.jsonl")


def new_id(now: float | None = None) -> str:
    """A name for a run that sorts by time.

    >>> len(new_id())
    19
    """
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(time.time() if now is None else now))
    return f"{stamp}-{os.urandom(2).hex()[:3]}"


def append(run: dict[str, Any], path: str) -> None:
    """Add a run at the end of the file, which is made if it is not there."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        trusted_files.make_dirs(folder, 0o700)
    line = json.dumps({"format": FORMAT, **run}, separators=(",", ":")).encode() + b"\n"
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, line)  # one call: lines of two processes do not mix
    finally:
        os.close(handle)


def read(path: str) -> list[dict[str, Any]]:
    """The runs in a file, oldest first: lines of a history, or one run as `--json` writes it. None of a missing file.

    Lines that are damaged, or of a later version, are passed over.
    """
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except FileNotFoundError:
        return []
    whole = _run(text)
    if whole is not None:
        return [whole]
    return [run for run in map(_run, text.split("\n")) if run is not None]


def _run(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    known = isinstance(found, dict) and isinstance(found.get("rows"), list) and found.get("format", FORMAT) <= FORMAT
    return found if known and isinstance(found.get("id"), str) else None


def pick(runs: list[dict[str, Any]], wanted: str, path: str = "the history") -> dict[str, Any]:
    """The run of a name: its id or the beginning of it, its label (the latest counts), or a number: -1 is the last.

    >>> runs = [{"id": "20260101-aaa", "label": "old"}, {"id": "20260102-bbb", "label": "new"}]
    >>> pick(runs, "old")["id"], pick(runs, "-1")["id"], pick(runs, "20260102")["id"]
    ('20260101-aaa', '20260102-bbb', '20260102-bbb')
    """
    if wanted.lstrip("-").isdigit() and len(wanted) < 6:
        number = int(wanted)
        if not -len(runs) <= number < len(runs):
            raise UsageError(f"{path} has {len(runs)} runs, and none is number {number}")
        return runs[number]
    named = [run for run in runs if run.get("label") == wanted] or [r for r in runs if r["id"].startswith(wanted)]
    if not named:
        names = [name for run in runs for name in (run["id"], run.get("label")) if name]
        raise UsageError(f"{path} has no run {wanted!r}{closest(wanted, names)}; `tritium bench history` lists them")
    return named[-1]
