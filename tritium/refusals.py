"""What is said of a launch that cannot be: which argument of which kernel, what is wrong with it, and a next step.

    >>> print(of_argument(refusal(TypeError, "a list is no tensor", "pass an array"), "add", "x"))
    argument `x` of kernel `add`: a list is no tensor
    hint: pass an array
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from inspect import signature
from typing import ParamSpec, TypeVar

from tritium.errors import Failure, cut, explain, render

__all__ = ["UnknownName", "misnamed", "of_argument", "refusal", "told_at_the_call"]

P = ParamSpec("P")
R = TypeVar("R")


def refusal(kind: type[Failure], problem: str, hint: str | None = None) -> Failure:
    """An exception about an argument of a launch, whose text ends with the hint.

    >>> print(refusal(TypeError, "no such type", "pass a number"))
    no such type
    hint: pass a number
    """
    return explain(kind(render(problem, hint=hint)), hint=hint)


_KEPT = (TypeError, ValueError, OverflowError, RuntimeError, BufferError)


def of_argument(error: Exception, kernel: str, name: str) -> Exception:
    """An error about one argument, or out of the object that it is, with the parameter and the kernel named.

    >>> print(of_argument(refusal(TypeError, "a list"), "add", "x"))
    argument `x` of kernel `add`: a list
    """
    if hasattr(error, "parameter"):
        return error
    whose, text, cause = f"argument `{name}` of kernel `{kernel}`", str(error), error
    hint = getattr(error, "hint", None)
    if hasattr(error, "hint"):
        cause = None
        text = text if hint is None or "\nhint: " in text else f"{text}\nhint: {hint}"
    else:
        text = f"it could not be read: {type(error).__name__}: {text}"
    named = next((kind for kind in _KEPT if isinstance(error, kind)), RuntimeError)(f"{whose}: {text}")
    named.__cause__ = cause
    return explain(named, hint=hint, parameter=name)


class UnknownName(KeyError):
    """A name that is not among those there are; its text is printed as it is.

    >>> print(UnknownName("no parameter BLOK"))
    no parameter BLOK
    """

    def __str__(self) -> str:
        return self.args[0] if self.args else ""


_LISTED = 16  # parameters of a kernel, in a hint


def misnamed(kernel: str, name: str, names: Sequence[str], others: Iterable[str] = ()) -> str:
    """A hint for a name a kernel does not have: the nearest one of its parameters, or of `others`, and what there are.
    Of many parameters it lists some.

    >>> misnamed("add", "BLOK", ["x", "BLOCK"])
    'did you mean BLOCK? kernel `add` has the parameters x, BLOCK'
    >>> misnamed("add", "warps", ["x", "BLOCK"])
    'kernel `add` has the parameters x, BLOCK, and warps is none of them'
    """
    found = _nearest(name, (*others, *names))
    guess = f"did you mean {found}? " if found else ""
    method = "; a kernel is no method: write @staticmethod above @triton.jit and leave self out"
    absent = f", and {name} is none of them" if name and names and not found else ""
    shown = names if len(names) <= _LISTED else [*names[:_LISTED], f"and {len(names) - _LISTED} more"]
    return f"{guess}kernel `{kernel}` has " + (f"the parameters {', '.join(shown)}" if names else "no parameters") + \
        absent + (method if names and names[0] == "self" else "")


def _nearest(name: str, names: Iterable[str]) -> str | None:
    from difflib import get_close_matches  # its imports are slow, errors are rare

    near = {other.lower(): other for other in names}
    return near[found[0]] if (found := get_close_matches(name.lower(), near, n=1)) else None


# Keywords of functions of former releases of Triton: what is written for them today.
_FORMER = {
    "trans_a": "transpose the operand: tl.dot(tl.trans(a), b)",
    "trans_b": "transpose the operand: tl.dot(a, tl.trans(b))",
    "enable_warp_specialization": "write tl.range(..., warp_specialize=True) in the kernel",
    "num_buffers_warp_spec": "write tl.range(..., warp_specialize=True) in the kernel",
    "num_consumer_groups": "write tl.range(..., warp_specialize=True) in the kernel",
    "reg_dec_producer": "write tl.range(..., warp_specialize=True) in the kernel",
    "reg_inc_consumer": "write tl.range(..., warp_specialize=True) in the kernel",
    "fast_flush": "leave it out: the cache of a GPU is emptied before each call",
    "percentiles": "write quantiles",
    "interpret": "leave it out and set TRITON_INTERPRET=1",
}


def instead_of_former(keyword: str, known: Iterable[str]) -> str | None:
    """What to write for a keyword of a former release of Triton; None if it never was one, or is one of `known`.

    >>> instead_of_former("trans_a", ["input", "other"]), instead_of_former("mask", ["input", "other"])
    ('transpose the operand: tl.dot(tl.trans(a), b)', None)
    """
    return None if keyword in known else _FORMER.get(keyword)


def told_at_the_call(fn: Callable[P, R]) -> Callable[P, R]:
    """Decorator of what users call in Python: a keyword that `fn` lacks is refused with the nearest one it has, and
    what refuses an argument leaves no frames of ours in the traceback.

    >>> @told_at_the_call
    ... def tuned(key, num_warps=4): ...
    >>> tuned([], num_warp=8)
    Traceback (most recent call last):
    TypeError: tuned() got an unexpected keyword argument 'num_warp'
    hint: did you mean num_warps? it takes key, num_warps
    """
    names = [name for name in signature(fn).parameters if name != "self"]

    @wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            for name in kwargs:
                if name not in names:
                    former, near = instead_of_former(name, names), _nearest(name, names)
                    guess = f"{former}; " if former else f"did you mean {near}? " if near else ""
                    raise refusal(TypeError, f"{fn.__qualname__}() got an unexpected keyword argument {name!r}",
                                  f"{guess}it takes {', '.join(names)}")
            return fn(*args, **kwargs)
        except Exception as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:
                explain(error, hint=getattr(error, "hint", None))  # `fn` was not even entered
            cut(error)
            raise

    return call
