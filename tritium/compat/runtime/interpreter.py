"""The interpreter, where Triton's users look for it."""

from tritium.interp.eager import InterpretedFunction

__all__ = ["InterpretedFunction"]
