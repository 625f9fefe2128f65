"""Why a launch compiles again: its arguments, options and settings beside those of the nearest kernel that is there."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tritium import cache, knobs
from tritium.compiler import ASTSource
from tritium.compiler.facts import KEY, default_option, facts_of
from tritium.compiler.names import safe_name
from tritium.errors import is_ours
from tritium.named_tuples import NamedTuple
from tritium.protocols import short
from tritium.runtime import tuning
from tritium.runtime.jit import JITFunction

__all__ = ["Reason", "Recompile", "explain_recompile", "reasons", "watch_recompiles"]

_ALIGNED = "tt.divisibility=16"
_MOST_ON_DISK = 200  # entries of one kernel that are looked at


class Reason(NamedTuple):
    """One difference: `kind` is "type", "alignment", "one", "none", "constant", "option", "environment", "source",
    "compiler" or "target"; `name` the argument, option or variable."""

    kind: str
    name: str
    before: str
    after: str
    text: str


class Recompile(NamedTuple):
    """A kernel that was compiled or loaded for a launch, and why no kernel in memory fitted the launch."""

    kernel: str
    how: str  # "compiled", "loaded" (from disk), "submitted" (compiled in the background) or "needed"
    reasons: tuple[Reason, ...]  # empty: there was none of this name
    nearest: str  # where the nearest one is: "memory", "disk" or ""
    where: str = ""  # file:line of the launch
    seconds: float = 0.0
    tuning: bool = False  # a trial of a tuner

    @property
    def text(self) -> str:
        """One line.

        >>> print(Recompile("add", "compiled", (), "", "k.py:3", 0.25).text)
        add compiled for the first time at k.py:3 (0.25 s)
        """
        why = "; ".join(reason.text for reason in self.reasons)
        again = "again" if self.nearest else "for the first time"
        done = {"needed": f"would be compiled {again}", "submitted": f"is being compiled {again}",
                "loaded": "loaded from disk"}.get(self.how, f"compiled {again}")
        place = f" at {self.where}" if self.where else ""
        spent = f" ({self.seconds:.2f} s)" if self.seconds else ""
        return f"{self.kernel} {done}{place}{spent}{': ' + why if why else ''}"

    def facts(self) -> dict[str, Any]:
        """The same as plain data, for JSON.

        >>> Recompile("add", "loaded", (), "").facts()["how"]
        'loaded'
        """
        return {**self._asdict(), "reasons": [reason._asdict() for reason in self.reasons]}


# ---------------------------------------------------------------------------------------------------------------------
# Comparing


def reasons(before: Mapping[str, Any], after: Mapping[str, Any], values: Mapping[str, Any] = {}) -> list[Reason]:
    """The differences between two compilations, the weightiest first; `values` are arguments of the second.

    >>> old = {"arguments": {"n": ["i32", "tt.divisibility=16"]}, "constants": {"BLOCK": "64"}}
    >>> new = {"arguments": {"n": ["i64", ""]}, "constants": {"BLOCK": "128"}}
    >>> [reason.text for reason in reasons(old, new, {"n": 2**40 + 1})]
    ['n = 1099511627777 has type i64, before i32', 'BLOCK is 128, before 64']
    """
    found = [Reason(kind, "", before.get(kind, ""), after.get(kind, ""), text) for kind, text in (
        ("compiler", "tritium itself has changed"),
        ("source", "the source of the kernel, or of what it calls, has changed"),
        ("target", f"the target is {after.get('target')}, before {before.get('target')}"),
    ) if before.get(kind, "") != after.get(kind, "")]  # fmt: skip
    names = list(dict.fromkeys([*_names(after), *_names(before)]))
    found += filter(None, (_of_argument(name, before, after, values) for name in names))
    found += _of_mappings("option", before, after, default_option)
    found += _of_mappings("environment", before, after, lambda name: "not set")
    return found


def _names(facts: Mapping[str, Any]) -> Iterable[str]:
    return [*facts.get("arguments", {}), *facts.get("constants", {})]


def _of_mappings(kind: str, before: Mapping, after: Mapping, usual: Callable[[str], str]) -> Iterator[Reason]:
    field = f"{kind}s" if kind == "option" else kind
    old, new = before.get(field, {}), after.get(field, {})
    for name in sorted({*old, *new}):
        was, now = old.get(name, usual(name)), new.get(name, usual(name))
        if was != now:
            yield Reason(kind, name, was, now, f"{name} is {now}, before {was}")


def _of_argument(name: str, before: Mapping, after: Mapping, values: Mapping[str, Any]) -> Reason | None:
    """Why one argument is specialised in another way."""
    old, new = (facts.get("arguments", {}).get(name) for facts in (before, after))
    was, now = (facts.get("constants", {}).get(name) for facts in (before, after))
    shown = _shown(name, values)
    if old is None and new is None:
        return None if was == now else _of_constant(name, was, now)
    if old is None or new is None:
        return _of_folded(name, shown, old, was, new, now)
    if list(old) == list(new):
        return None
    texts = " ".join(filter(None, old)), " ".join(filter(None, new))
    if old[0] != new[0]:
        return Reason("type", name, *texts, f"{shown} {_type_text(new[0])}, before {_type_text(old[0], short=True)}")
    what = f"the address of {name}" if new[0].startswith("*") else shown
    if new[1] == _ALIGNED and not old[1]:
        return Reason("alignment", name, *texts, f"{what} is a multiple of 16, and was none before")
    if old[1] == _ALIGNED and not new[1]:
        return Reason("alignment", name, *texts, f"{what} is no multiple of 16")
    return Reason("alignment", name, *texts, f"of {name} is known {new[1] or 'nothing'}, before {old[1] or 'nothing'}")


def _of_constant(name: str, was: str | None, now: str | None) -> Reason:
    return Reason("constant", name, was or "not given", now or "not given",
                  f"{name} is {now or 'not given'}, before {was or 'not given'}")


def _of_folded(name: str, shown: str, old: Any, was: str | None, new: Any, now: str | None) -> Reason:
    """An argument that is compiled in now, or was before: 1, or None."""
    before, after = was if old is None else " ".join(filter(None, old)), now if new is None else " ".join(
        filter(None, new))
    kind = {"1": "one", "None": "none"}.get((now if new is None else was) or "", "type")
    if new is None:
        text = f"{name} is {now}, which is compiled in; before it was {old and old[0]}"
    else:
        text = f"{shown} is not {was}, which was compiled in before"
    return Reason(kind, name, before or "not given", after or "not given", text)


def _shown(name: str, values: Mapping[str, Any]) -> str:
    value = values.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{name} = {short(value)}"
    return f"{name} = {value!r}" if isinstance(value, float) else name


def _type_text(type_: str, short: bool = False) -> str:
    if type_.startswith("*"):
        return f"{'to' if short else 'points to'} {type_[1:].removeprefix('k')}"
    return type_ if short else f"has type {type_}"


_WEIGHTS = {"compiler": 100, "source": 100, "target": 50}


def nearest(known: Iterable[Mapping[str, Any]], wanted: Mapping[str, Any],
            values: Mapping[str, Any] = {}) -> list[Reason] | None:
    """The differences from the compilation that is most like the wanted one; None if there is none.

    >>> one, two = ({"constants": {"A": a, "B": b}} for a, b in (("1", "1"), ("2", "1")))
    >>> [reason.name for reason in nearest([one, two], {"constants": {"A": "2", "B": "2"}})]
    ['B']
    """
    found = [reasons(facts, wanted, values) for facts in known]
    return min(found, key=lambda rs: sum(_WEIGHTS.get(reason.kind, 1) for reason in rs), default=None)


# ---------------------------------------------------------------------------------------------------------------------
# What is known


def _in_memory(fn: JITFunction) -> list[dict[str, Any]]:
    """The compilations of a kernel that this process has."""
    held = {(str(device.target), key) for device in list(fn.device_caches.values()) for key in list(device.kernels)}
    return [_facts(fn, target, request, {}) for (target, key), request in list(fn.requests.items())
            if (target, key) in held]


def _facts(fn: JITFunction, target: Any, request: Any, env: Mapping[str, str]) -> dict[str, Any]:
    src = ASTSource(fn, request.signature, request.constants, request.attrs)
    return facts_of(src, target, request.options, env)


def on_disk(name: str) -> Iterator[dict[str, Any]]:
    """What kernels of a name in the cache were compiled for, the latest first.

    >>> list(on_disk("no_such_kernel"))
    []
    """
    file = f"{safe_name(name)}.json"
    found = []
    with contextlib.suppress(OSError), os.scandir(knobs.cache.dir) as entries:
        for entry in entries:
            path = os.path.join(entry.path, file)
            with contextlib.suppress(OSError):
                found.append((os.stat(path).st_mtime, path))
    for _, path in sorted(found, reverse=True)[:_MOST_ON_DISK]:
        with contextlib.suppress(OSError, ValueError), open(path) as opened:
            facts = json.load(opened).get(KEY)
            if isinstance(facts, dict):
                yield facts


def _compared(fn: JITFunction, target: Any, request: Any) -> tuple[list[Reason], str]:
    """(differences from the nearest compilation, where that is)."""
    values = dict(zip(fn.arg_names, request.values))
    found = nearest(_in_memory(fn), _facts(fn, target, request, {}), values)
    if found is not None:
        return found, "memory"
    env = knobs.cache_invalidating_env()
    src = ASTSource(fn, request.signature, request.constants, request.attrs)
    found = nearest(on_disk(src.name), facts_of(src, target, request.options, env), values)
    return ([], "") if found is None else (found, "disk")


# ---------------------------------------------------------------------------------------------------------------------
# Telling


@contextlib.contextmanager
def telling(fn: JITFunction, target: Any, request: Any, submitted: bool) -> Iterator[None]:
    """Tell, after the `with` in which a kernel is compiled, what made it necessary."""
    try:
        why, where = _compared(fn, target, request)
    except Exception as error:  # a failure to explain must not stop the launch
        warnings.warn(f"tritium why cannot compare {fn.__name__}: {type(error).__name__}: {error}", stacklevel=2)
        why, where = [], ""
    hits, start = cache.stats().hits, time.perf_counter()
    yield
    loaded = cache.stats().hits > hits
    how = "submitted" if submitted else "loaded" if loaded else "compiled"
    if loaded and where == "disk":
        why, where = [], ""
    told = Recompile(fn.__name__, how, tuple(why), where, _line(), time.perf_counter() - start, tuning.is_measuring())
    if knobs.why and how != "loaded" and not told.tuning:
        print(f"tritium why: {told.text}", file=sys.stderr, flush=True)
    knobs.runtime.recompile_hook(told)


def _line() -> str:
    """file:line of the user's code that launches."""
    frame = sys._getframe(1)
    library = os.path.dirname(os.__file__)
    while frame is not None:
        file = frame.f_code.co_filename
        if not is_ours(file) and not (file.startswith(library) and "site-packages" not in file) and file[:1] != "<":
            return f"{os.path.relpath(file) if os.path.isabs(file) and _is_near(file) else file}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _is_near(file: str) -> bool:
    try:
        return file.startswith(os.path.join(os.getcwd(), ""))
    except OSError:
        return False


@contextlib.contextmanager
def watch_recompiles() -> Iterator[list[Recompile]]:
    """Within it, every kernel that is compiled, or loaded from disk, is added to the list.

    >>> with watch_recompiles() as seen:
    ...     pass
    >>> seen
    []
    """
    seen: list[Recompile] = []
    knobs.runtime.recompile_hook.add(seen.append)
    try:
        yield seen
    finally:
        knobs.runtime.recompile_hook.remove(seen.append)


def explain_recompile(kernel: Any, *args: Any, **meta: Any) -> Recompile | None:
    """What a launch with these arguments would be compiled for, beside what is there; None if it has its kernel.

    Nothing is compiled or launched. `meta` are the constants and options, as in `kernel[grid](*args, **meta)`.

        >>> import numpy as np
        >>> from tritium.kernels.vector_add import add_kernel
        >>> x = np.ones(64, np.int16)
        >>> _ = add_kernel[(1,)](x, x, x, 64, BLOCK=64)
        >>> print(explain_recompile(add_kernel, x, x, x, 63, BLOCK=64).text)
        add_kernel would be compiled again: n = 63 is no multiple of 16
        >>> explain_recompile(add_kernel, x, x, x, 32, BLOCK=64) is None
        True

    `TRITIUM_WHY=1` prints such a line on stderr for every kernel that is compiled, `tritium why script.py` sums them
    up, and `with watch_recompiles() as seen:` lists them. Kernels of this process are compared first, then those on
    disk.
    """
    fn = tuning.innermost(kernel, lambda fn: isinstance(fn, JITFunction))
    if fn is None:
        raise TypeError(f"a kernel is a function decorated with @triton.jit, not {kernel!r}")
    from tritium.runtime import dispatch

    values, options = fn.launcher.bind(*args, **meta)
    device, request, known = dispatch.wanted(fn, values, options)
    if known:
        return None
    why, where = _compared(fn, device.target, request)
    return Recompile(fn.__name__, "needed", tuple(why), where)
