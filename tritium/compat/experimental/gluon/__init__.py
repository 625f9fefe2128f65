"""Gluon, Triton's lower-level dialect with explicit layouts, is not part of tritium.

Files that import it can be imported; its functions explain themselves on use.

    >>> from tritium.experimental import gluon
    >>> from . import language as gl
    >>> gl.BlockedLayout
    <gluon.language.BlockedLayout: not part of tritium>
"""

from ..absent import AbsentDecorator

INSTEAD = "tritium chooses layouts itself; write the kernel with triton.jit and triton.language"

jit = AbsentDecorator("gluon.jit", INSTEAD)
constexpr_function = AbsentDecorator("gluon.constexpr_function", INSTEAD)
aggregate = AbsentDecorator("gluon.aggregate", INSTEAD)

from . import language  # noqa: E402

__all__ = ["aggregate", "constexpr_function", "jit", "language"]
