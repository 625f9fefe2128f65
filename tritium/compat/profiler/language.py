"""Scopes inside kernels, for Proton: kernels are timed as a whole here, so these cost and do nothing.

    >>> import tritium.profiler.language as pl
    >>> pl.enter_scope("load")
"""

from tritium.language.source.function import constexpr_function

__all__ = ["disable_semantic", "enable_semantic", "enter_scope", "exit_scope"]


@constexpr_function
def enter_scope(name):
    """A scope begins here."""


@constexpr_function
def exit_scope(name):
    """A scope ends here."""


def enable_semantic(name: str) -> None:
    """Have kernels of a language name scopes; Triton's always may.

    >>> enable_semantic("triton")
    """


def disable_semantic(name: str) -> None:
    """Undo `enable_semantic`.

    >>> disable_semantic("triton")
    """
