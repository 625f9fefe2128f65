"""`gluon.language`: any name can be imported from it, none can be used."""

from ..absent import Absent
from . import INSTEAD


def __getattr__(name: str) -> Absent:
    if name.startswith(("__", "pytest")):  # questions that tools ask of every module
        raise AttributeError(name)
    return Absent(f"gluon.language.{name}", INSTEAD)
