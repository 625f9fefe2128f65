"""Finding an autotuner's choice again, and launching it: by the arguments as they are, without a tuning key of text.
What is the same in all launches that are written alike is generated once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tritium.language.source.fingerprints import COMMON
from tritium.locks import lock
from tritium.runtime.forwarding import Armed

if TYPE_CHECKING:
    from tritium.runtime.tuning import Config

__all__ = ["Choice", "Choices"]


class Choice(Armed):
    """What was chosen for launches like this one: written alike, with the same tuning key.

    `made_of` are the configuration's attributes at that time; `send(call, args, kwargs)` calls with its keywords added.

    >>> from tritium.runtime.tuning import Config
    >>> choice = Choice((), Config({"BLOCK": 64}), (1,), {"n": 2})
    >>> choice.send(lambda *args, **kwargs: (args, kwargs), (3,), {"n": 4})
    ((3,), {'n': 4, 'BLOCK': 64, 'num_warps': 4, 'num_ctas': 1, 'num_stages': 3})
    """

    __slots__ = ("config", "key", "made_of", "send")

    def __init__(self, key: tuple, config: Config, args: tuple, kwargs: dict[str, Any]):
        super().__init__()
        self.key, self.config = key, config
        self.made_of, chosen = {**vars(config), "kwargs": dict(config.kwargs)}, config.all_kwargs()
        # A call is faster with keywords that are written out.
        parts = [*(f"a[{k}]" for k in range(len(args))), *(f"{name}=k[{name!r}]" for name in kwargs),
                 *(f"{name}=chosen_{name}" for name in chosen)]  # fmt: skip
        values = {f"chosen_{name}": x for name, x in chosen.items()}
        self.send: Callable = eval(f"lambda call, a, k: call({', '.join(parts)})", values)


class Choices:
    """The choices for launches seen before.

    `finders` has a function for every way such launches are written: how many arguments are given by position, and the
    names of the others. It takes arguments and gives what was noted for such, or None; it raises an AttributeError or
    a TypeError where that cannot be told.

    >>> import numpy as np
    >>> choices, x = Choices(["x", "n"]), np.zeros(3, np.float32)
    >>> choices.note((x, 3), {}, ["n"], "the choice for three")
    >>> find = choices.finders[2]
    >>> find((np.ones(5, np.float32), 3), {}), find((x, 4), {}), find((np.zeros(3), 3), {})
    ('the choice for three', None, None)
    """

    def __init__(self, names: Sequence[str]):
        self._names = names
        self.finders: dict[Any, Callable[[tuple, dict[str, Any]], Any]] = {}
        self._dtyped: dict[Any, frozenset[str]] = {}  # the arguments that are no plain numbers and the like
        self._noted: dict[Any, Callable[[tuple, dict[str, Any], Any], None]] = {}
        self._lock = lock()  # these three change together

    def note(self, args: tuple, kwargs: dict[str, Any], keys: Sequence[str], choice: Any) -> None:
        """Remember a choice that depends on the dtypes of the arguments and the values of those named in `keys`."""
        form = (len(args), *kwargs) if kwargs else len(args)
        spelled = {name: f"a[{k}]" for k, name in enumerate(self._names[: len(args)])}
        spelled |= {name: f"k[{name!r}]" for name in kwargs if name in self._names}
        given = {**dict(zip(self._names, args)), **kwargs}
        dtyped = {name for name in spelled if type(given[name]) not in COMMON}
        with self._lock:
            before = self._dtyped.get(form)
            if before is None or not dtyped <= before:
                self._dtyped[form] = dtyped = frozenset(dtyped | (before or set()))
                self.finders[form], self._noted[form] = _functions(spelled, keys, dtyped)
            self._noted[form](args, kwargs, choice)


def _functions(spelled: dict[str, str], keys: Sequence[str], dtyped: Iterable[str]) -> tuple[Callable, Callable]:
    """(find, note) for arguments by name, as they are spelled in terms of `a` and `k`.

    Arguments that are not `dtyped` may become so in another launch; their class tells.
    """
    parts = [spelled[name] for name in keys if name in spelled]
    parts += [f"getattr({x}, 'dtype', None)" if name in dtyped else f"{x}.__class__" for name, x in spelled.items()]
    key, known = f"({''.join(part + ', ' for part in parts)})", {}
    scope = {"find": known.get, "note": known.__setitem__}
    return eval(f"lambda a, k: find({key})", scope), eval(f"lambda a, k, choice: note({key}, choice)", scope)
