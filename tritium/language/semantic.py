"""What a user's own builtin receives as `_semantic` and `_generator`: a thin face of the builder."""

from __future__ import annotations

from .builtins.calling import Builtin
from .types.values import to_tensor


class TritonSemantic:
    """`builder` is the builder; every function of the language is a method that needs no `_semantic`.

        @tl.core.builtin
        def twice(x, _semantic=None):
            return _semantic.add(x, x)
    """

    def __init__(self, builder):
        self.builder = builder

    def to_tensor(self, value):
        """The value as a tensor."""
        return to_tensor(self.builder, value)

    def __getattr__(self, name):
        from tritium import language

        found = getattr(language, name, None)
        if not isinstance(found, Builtin):
            raise AttributeError(f"_semantic has no {name!r}")
        return lambda *args, **kwargs: found(*args, _semantic=self, **kwargs)


class Generator:
    """Calls jit functions for a user's builtin."""

    def __init__(self, builder):
        self.builder = builder

    def call_JitFunction(self, fn, args, kwargs=None):
        """The result of calling a jit function with language values."""
        return self.builder.call(fn, list(args), dict(kwargs or {}))
