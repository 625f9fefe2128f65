"""Host functions on tensors without memory: what they return, which of their arguments the kernels they launch write.

torch's FakeTensor has a shape, a dtype and a device. A host function runs on such tensors as on others; a launch on
them does nothing. What a launch would store to is read from the kernel (`tritium.runtime.stores`).
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tritium.language.source.rehearsal import rehearsing
from tritium.named_tuples import NamedTuple
from tritium.refusals import refusal
from tritium.runtime.stores import stored_arguments

__all__ = ["quiet", "rehearse", "written_arguments"]

_SIZE = 16  # of every axis of the tensors that are made up: products fit, blocks divide it
_MOST = 400  # rehearsals with arguments that are made up


class Rehearsal(NamedTuple):
    """What a host function did: sets of the names of arguments that share memory which was written, and which results
    share memory with arguments."""

    written: list[frozenset[str]]
    aliased: list[str]


def quiet(function: Callable) -> Callable:
    """The function with its launches left out: what torch calls a fake kernel.

    >>> from tritium.kernels.softmax import softmax
    >>> with FakeTensorMode():
    ...     quiet(softmax)(torch.empty(3, 5)).shape
    torch.Size([3, 5])
    """

    @functools.wraps(function)
    def without_launches(*args, **kwargs):
        with rehearsing(lambda kernel, grid, args, kwargs: None):
            return function(*args, **kwargs)

    return without_launches


def rehearse(function: Callable, args: tuple, kwargs: dict[str, Any]) -> Rehearsal:
    """Run a host function on fake tensors, launch nothing, and note what would be written.

    >>> from tritium.kernels.vector_add import vector_add
    >>> with FakeTensorMode():
    ...     rehearse(vector_add, (torch.empty(8), torch.empty(8)), {})
    Rehearsal(written=[], aliased=[])
    """
    bound = inspect.signature(function).bind(*args, **kwargs)
    owners = _owners(bound.arguments)
    before = {id(x): x._version for _, x in _named(bound.arguments)}
    written: list[frozenset[str]] = []

    def tell(kernel, grid, args, kwargs):
        if grid is not None:
            found = {_memory(x) for x in stored_arguments(kernel, args, kwargs) if isinstance(x, torch.Tensor)}
            written.extend(owners[memory] for memory in found if memory in owners)

    with rehearsing(tell):
        result = function(*args, **kwargs)
    written += [owners[_memory(x)] for _, x in _named(bound.arguments) if x._version != before[id(x)]]
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    memories = [_memory(x) for x in results if isinstance(x, torch.Tensor)]
    return Rehearsal(sorted(set(written), key=sorted), sorted({n for m in memories for n in owners.get(m, ())}))


def _named(arguments: dict[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors among arguments, also those in lists, with the argument's name."""
    for name, value in arguments.items():
        parts = value if isinstance(value, (list, tuple)) else [value]
        yield from ((name, x) for x in parts if isinstance(x, torch.Tensor))


def _memory(x: torch.Tensor) -> int:
    return x.untyped_storage()._cdata


def _owners(arguments: dict[str, Any]) -> dict[int, frozenset[str]]:
    owners: dict[int, frozenset[str]] = {}
    for name, x in _named(arguments):
        owners[_memory(x)] = owners.get(_memory(x), frozenset()) | {name}
    return owners


# -- finding out before the first call ---------------------------------------------------------------------------------


def written_arguments(name: str, function: Callable, schema: str, example: Callable[[], Iterable] | None) -> list[str]:
    """The names of the arguments that the kernels of a host function write.

    It is rehearsed with what `example()` gives, or with tensors that are made up: of one to four axes until it runs.

    >>> from tritium.kernels.silu import silu
    >>> written_arguments("lib::silu", silu, "(Tensor x) -> Tensor", None)
    []
    """
    first: Exception | None = None
    tries = _given(example) if example is not None else _made_up(name, schema)
    for make in itertools.islice(tries, _MOST):
        try:
            with FakeTensorMode(allow_non_fake_inputs=True):
                found = rehearse(function, tuple(make()), {})
        except Exception as error:
            if example is not None:
                raise
            first = first or error
            continue
        check_aliases(name, found)
        return sorted(set().union(*found.written))
    reason = f"{type(first).__name__}: {first}".strip().split("\n")[0] if first is not None else "it takes no tensors"
    raise refusal(ValueError, f"which arguments {name} writes cannot be found out: {function.__name__} fails with the "
                  f"tensors that are made up to see it ({reason})",
                  "give example=lambda: (torch.empty(4, 8), ...), arguments that it takes: nothing is computed with "
                  "them; or mutates=(...), the names of what it writes. Kernels must be defined above it") from first


def check_aliases(name: str, found: Rehearsal) -> None:
    """Refuse a function that returns an argument: torch takes results of operators for memory of their own.

    >>> check_aliases("lib::f", Rehearsal([], []))
    """
    if found.aliased:
        raise refusal(ValueError, f"{name} returns memory of its argument {found.aliased[0]}, and torch takes the "
                      "results of an operator for memory of their own",
                      "return None where an argument is written in place, or a copy: .clone()")


def _given(example: Callable[[], Iterable]) -> Iterator[Callable[[], tuple]]:
    yield lambda: tuple(example())


def _made_up(name: str, schema: str) -> Iterator[Callable[[], tuple]]:
    """Functions that make arguments for a schema, the most likely first."""
    arguments = torch._C.parse_schema(name + schema).arguments
    tensors = [k for k, argument in enumerate(arguments) if "Tensor" in str(argument.type)]
    count, ranks = len(tensors), (1, 2, 3, 4)
    kinds = itertools.product([torch.float32, torch.float16, torch.int64], ["cpu", "cuda"])
    alike = [((rank,) * count, kind) for kind in kinds for rank in ranks]
    apart = [(each, (torch.float32, "cpu")) for each in itertools.product(ranks, repeat=count)]
    for each, (dtype, device) in alike + apart:
        yield functools.partial(_arguments, arguments, dict(zip(tensors, each)), dtype, device)


def _arguments(arguments: list, ranks: dict[int, int], dtype: torch.dtype, device: str) -> tuple:
    """One value for each argument of a schema."""
    values: list[Any] = []
    for k, argument in enumerate(arguments):
        kind = str(argument.type)
        if k in ranks:
            tensor = torch.empty((_SIZE,) * ranks[k], dtype=dtype, device=device)
            values.append([tensor] if kind.startswith("List") else tensor)
        elif argument.has_default_value():
            values.append(argument.default_value)
        else:
            values.append(_PLAIN.get(kind))
    return tuple(values)


_PLAIN = {"int": 1, "float": 0.5, "bool": False, "str": "", "number": 1, "List[int]": [1], "List[float]": [0.5],
          "List[bool]": [False]}
