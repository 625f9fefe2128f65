"""An operator of torch made of any host function that launches kernels."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
from torch.utils._pytree import tree_map_only

from tritium.refusals import refusal
from tritium.torch.rehearsal import check_aliases, quiet, rehearse, written_arguments

__all__ = ["operator"]


def operator(name: str, function: Callable | None = None, /, *, mutates: Iterable[str] | None = None,
             example: Callable[[], Iterable] | None = None, fake: Callable | None = None,
             schema: str | None = None) -> Any:
    """Make a host function an operator of torch: `torch.ops` has it, and all of torch can work with it.

    The schema comes from the annotations. Which tensors the function writes comes from the kernels it launches: it is
    run once on tensors without memory, and their stores are read. Where the tensors that are made up for this do not
    suit the function, `example()` gives arguments that do, or `mutates` names what is written. The shapes of results
    come from the function too, run with its launches left out, unless `fake` computes them.

    The result is what `torch.library.custom_op` makes: call it, or go on with its `register_autograd`,
    `register_vmap` and `register_kernel`.

    >>> import tritium as triton, tritium.language as tl
    >>> @triton.jit
    ... def double_kernel(x_ptr, n, BLOCK: tl.constexpr):
    ...     at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ...     tl.store(x_ptr + at, 2 * tl.load(x_ptr + at, mask=at < n), mask=at < n)
    >>> @operator("docs::double_")
    ... def double_(x: torch.Tensor) -> None:
    ...     double_kernel[(triton.cdiv(x.numel(), 256),)](x, x.numel(), BLOCK=256)
    >>> torch.ops.docs.double_.default._schema
    docs::double_(Tensor(a0!) x) -> ()
    >>> x = torch.ones(3)
    >>> double_(x)
    >>> x
    tensor([2., 2., 2.])
    """
    if function is None:
        return functools.partial(operator, name, mutates=mutates, example=example, fake=fake, schema=schema)
    if name.count("::") != 1:
        raise refusal(ValueError, f"the name of an operator has a namespace: {name!r}", f'write "mylib::{name}"')
    plain = schema or _inferred(name, function, ())
    if mutates is None:
        written = written_arguments(name, function, plain, example)
    else:
        written = list(mutates)
    if schema is None:
        schema = _inferred(name, function, written)
    elif written and "!" not in schema:
        raise refusal(ValueError, f"{name} writes {', '.join(written)}, and its schema does not say so",
                   'write "Tensor(a!) x" for an argument that is written, or leave the schema out')
    done = torch.library.custom_op(name, _Watched(name, function, written), mutates_args=written, schema=schema)
    done.register_fake(fake or quiet(function))
    return done


def _inferred(name: str, function: Callable, written: Iterable[str]) -> str:
    """The schema that the annotations of a function say."""
    try:
        return torch.library.infer_schema(function, mutates_args=list(written))
    except ValueError as error:
        raise refusal(ValueError, f"{name} needs annotations that torch knows: {error}".split("Got func")[0].strip(),
                   f"annotate each parameter of {function.__name__} and its result, as in "
                   "(x: torch.Tensor, n: int) -> torch.Tensor") from None


class _Watched:
    """The host function, rehearsed before its first call with arguments of a kind: it may write what it says, no more.

    A function that reads a size or a branch from memory cannot be rehearsed and just runs. If the rehearsal fails for
    another reason and the call does not, a warning says that the call was not checked.
    """

    def __init__(self, name: str, function: Callable, written: Iterable[str]):
        functools.update_wrapper(self, function)
        self._name, self._function, self._written = name, function, frozenset(written)
        self._seen: set[tuple] = set()

    def __call__(self, *args, **kwargs):
        kind = (*map(_kind, args), *((name, _kind(x)) for name, x in kwargs.items()))
        if kind in self._seen:
            return self._function(*args, **kwargs)
        failure = self._check(args, kwargs)
        result = self._function(*args, **kwargs)  # if it raises too, that error is the one to see
        self._seen.add(kind)
        if failure is not None:
            reason = f"{type(failure).__name__}: {failure}".strip().split("\n")[0]
            warnings.warn(f"what {self._name} writes was not checked: it fails on tensors without memory ({reason})",
                          stacklevel=2)
        return result

    def _check(self, args: tuple, kwargs: dict[str, Any]) -> Exception | None:
        """Refuse a call that writes what was not declared; the error that kept the function from being rehearsed."""
        try:
            with FakeTensorMode(allow_non_fake_inputs=True) as mode:
                args, kwargs = tree_map_only(torch.Tensor, mode.from_tensor, (args, kwargs))
                found = rehearse(self._function, args, kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException):
            return None
        except Exception as error:  # the function is the user's: it may raise anything
            return error
        check_aliases(self._name, found)
        for names in found.written:
            if not names & self._written:
                argument, declared = ", ".join(sorted(names)), ", ".join(sorted(self._written)) or "nothing"
                raise refusal(ValueError, f"{self._name} writes its argument {argument} in this call, and was declared "
                              f"to write {declared}",
                              f"declare it: operator({self._name!r}, mutates={(*sorted(self._written | names),)!r})")
        return None


def _kind(x: Any) -> Any:
    """What of an argument may decide which kernels are launched, and how."""
    if isinstance(x, torch.Tensor):
        return x.dtype, x.dim(), x.device.type
    if isinstance(x, (list, tuple)):
        return tuple(map(_kind, x))
    return x if isinstance(x, (bool, str, type(None))) else type(x)
