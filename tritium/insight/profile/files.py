"""Files of a profile: the end of a path says which kind."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

from tritium.insight.profile.facts import Profile

__all__ = ["check_path", "save"]


def _json(facts: Profile) -> str:
    return json.dumps(facts.as_dict(), indent=1)


def _trace(facts: Profile) -> str:
    from tritium.insight.profile.trace import trace

    return json.dumps(trace(facts))


def _page(facts: Profile) -> str:
    from tritium.insight.profile.page import page

    return page(facts)


def _text(facts: Profile) -> str:
    from tritium.insight.profile.text import table

    return table(facts)


KINDS: dict[str, Callable[[Profile], str]] = {".trace.json": _trace, ".json": _json, ".html": _page, ".txt": _text}


def check_path(path: str | os.PathLike) -> Callable[[Profile], str]:
    """What writes such a file; a path that says nothing, or cannot be written, is refused.

    >>> check_path("profile.pdf")
    Traceback (most recent call last):
    ValueError: profile.pdf: a profile is written to a file that ends in .trace.json, .json, .html or .txt
    """
    name = os.fspath(path)
    make = next((make for end, make in KINDS.items() if name.endswith(end)), None)
    if make is None:
        *first, last = KINDS
        raise ValueError(f"{name}: a profile is written to a file that ends in {', '.join(first)} or {last}")
    folder = os.path.dirname(os.path.abspath(name))
    if not os.path.isdir(folder):
        raise ValueError(f"{name}: there is no folder {folder}")
    if not os.access(name if os.path.exists(name) else folder, os.W_OK) or os.path.isdir(name):
        raise ValueError(f"{name}: it cannot be written")
    return make


def save(facts: Profile, path: str | os.PathLike) -> None:
    """Write the facts to a file of the kind that its name says.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "p.json")
    >>> save(Profile(7, (), (), (), (), (), ()), path)
    >>> json.load(open(path))["wall_ns"]
    7
    """
    text = check_path(path)(facts)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
