"""The manifest of a bundle: which kernels are compiled for which arguments, options and machines. A TOML file.

    targets = ["x86-64-v3", "x86-64-v4", "cuda:80", "cuda:90a"]

    [[kernel]]
    name = "kernels:add_kernel"                  # module:name, beside the manifest or installed; or file.py:name
    signature = "*fp32:16, *fp32:16, *fp32:16, i32:16|i32, 1024"
    options = { num_warps = 8 }                  # of the launch; may be left out
    grid = "(n + 1023) / 1024, 1, 1"             # for C only; may be left out

A signature has an entry for each parameter, or is a table of them by name. An entry is a type, perhaps with a hint
(`:16` for a multiple of 16, `:1` for an int that is 1), or a constant. Alternatives stand between bars.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import importlib
import itertools
import json
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tritium.named_tuples import NamedTuple
from tritium.tools.command import UsageError, closest

__all__ = ["Entry", "Manifest", "Wanted", "entries", "level_here", "read", "source_of", "split", "target_of",
           "text_of"]  # fmt: skip

_KEYS = ("name", "signature", "options", "grid", "targets")
_TOP = ("targets", "kernel", "tuned")
_NUMBERS = ("i1", "u1", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "fp16", "bf16", "fp32", "fp64")


class Entry(NamedTuple):
    """What is known of one argument: a type, perhaps with a hint, or a constant."""

    type: str  # "constexpr" for a constant
    hint: int | None = None
    value: Any = None


@dataclasses.dataclass
class Wanted:
    """One kernel to compile: for these arguments, with these options, for these machines."""

    label: str  # module:name
    source: Any  # an ASTSource
    options: dict[str, Any]
    targets: list[Any]
    grid: str = ""


class Manifest(NamedTuple):
    """What a bundle is made of."""

    kernels: list[Wanted]
    tuned: list[dict[str, Any]]  # choices of tuners


def read(path: str, targets: list[str] | None = None) -> Manifest:
    """The manifest in a file; `targets` replace those that it names."""
    try:
        with open(path, "rb") as file:
            content = tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from None
    _check_names(content, _TOP, path)
    rows = content.get("kernel")
    if not isinstance(rows, list) or not rows:
        raise UsageError(f"{path} names no kernel: write a table [[kernel]] with name and signature")
    folder = os.path.dirname(os.path.abspath(path))
    found: list[Wanted] = []
    for number, row in enumerate(rows, 1):
        try:
            found += _wanted(row, targets or content.get("targets"), folder)
        except UsageError as error:
            raise UsageError(f"{path}, kernel {number} ({row.get('name', 'without a name')}): {error}") from None
    tuned = [record for name in _texts(content.get("tuned", []), "tuned") for record in _choices(Path(folder, name))]
    return Manifest(found, tuned)


def _check_names(row: dict[str, Any], known: tuple[str, ...], where: str) -> None:
    for name in row:
        if name not in known:
            raise UsageError(f"{where} has an entry {name!r}; known are {', '.join(known)}{closest(name, known)}")


def _texts(value: Any, name: str) -> list[str]:
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise UsageError(f"{name} is a list of texts, not {value!r}")
    return found


def _wanted(row: dict[str, Any], targets: Any, folder: str) -> list[Wanted]:
    _check_names(row, _KEYS, "it")
    for name in ("name", "signature"):
        if name not in row:
            raise UsageError(f"it lacks `{name}`")
    fn = kernel_named(row["name"], folder)
    machines = [target_of(text) for text in _texts(row.get("targets", targets) or [], "targets")]
    if not machines:
        raise UsageError('there is no target: write targets = ["x86-64-v3", "cuda:90a"] at the top of the manifest')
    options, grid = row.get("options", {}), row.get("grid", "")
    if not isinstance(options, dict) or not isinstance(grid, str):
        raise UsageError("options is a table such as { num_warps = 8 }, and grid a text")
    check_options(options, fn)
    return [Wanted(f"{fn.module}:{fn.__qualname__}", source_of(fn, chosen), options, machines, grid)
            for chosen in entries(fn, row["signature"])]


def check_options(options: dict[str, Any], fn: Any) -> None:
    """Refuse options that no launch has."""
    from tritium.refusals import UnknownName
    from tritium.runtime.dispatch import check_keywords

    try:
        check_keywords(fn.__name__, fn.arg_names, options)
    except UnknownName as error:
        raise UsageError(str(error.args[0])) from None


def _choices(path: Path) -> list[dict[str, Any]]:
    """The fastest configurations in a file that `tritium tune export` wrote."""
    from tritium.runtime import shipped

    found = []
    for record in shipped.read(str(path)):
        config = min(record["configs_timings"], key=lambda pair: pair[1], default=None)
        if config is not None:
            found.append({"function": record["function"], "source": record["source"],
                          "key": list(map(str, record["key"])), "config": config[0]})
    return found


# -- kernels -----------------------------------------------------------------------------------------------------------


def kernel_named(name: str, folder: str) -> Any:
    """The kernel at module:name, or at file.py:name, without the tuners around it."""
    from tritium.alias import installed_as_triton
    from tritium.tools.compile import load, untuned

    home, colon, path = str(name).rpartition(":")
    if not colon or not home or not path:
        raise UsageError(f"{name!r} is not the name of a kernel: write module:name, or file.py:name")
    if home.endswith(".py"):
        found: Any = load(os.path.join(folder, home))
    else:
        with _first_on_path(folder), installed_as_triton():
            try:
                found = importlib.import_module(home)
            except ModuleNotFoundError as error:
                raise UsageError(f"there is no module {error.name!r}: it is looked for in {folder} and among the "
                                 "installed") from None
    module = found
    for part in path.split("."):
        found = getattr(found, part, None)
    kernel = untuned(found)
    if kernel is None:
        known = [other for other, value in vars(module).items() if untuned(value) is not None]
        said = "is not a kernel: decorate it with @triton.jit" if found is not None else "is not there"
        raise UsageError(f"{path} {said}; {home} has {', '.join(known) or 'no kernels'}{closest(path, known)}")
    return kernel


@contextlib.contextmanager
def _first_on_path(folder: str) -> Iterator[None]:
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)


# -- signatures --------------------------------------------------------------------------------------------------------


def entries(fn: Any, signature: str | dict[str, Any]) -> list[list[Entry]]:
    """The arguments a signature stands for: one list for each combination of alternatives.

    >>> from tritium.kernels.vector_add import add_kernel
    >>> found = entries(add_kernel, "*fp32:16, *fp32:16, *fp32:16, i32:16|i32, 1024")
    >>> len(found), found[1][3:]
    (2, [Entry(type='i32', hint=None, value=None), Entry(type='constexpr', hint=None, value=1024)])
    """
    names = fn.arg_names
    if isinstance(signature, dict):
        if unknown := [name for name in signature if name not in names]:
            raise UsageError(f"there is no parameter {unknown[0]!r}: the kernel has {', '.join(names)}"
                             f"{closest(unknown[0], names)}")
        texts: list[Any] = [signature.get(p.name, p.default if p.has_default else None) for p in fn.params]
        missing = [p.name for p in fn.params if p.name not in signature and not p.has_default]
        if missing:
            raise UsageError(f"the signature lacks {', '.join(missing)}")
    elif isinstance(signature, str):
        texts = list(split(signature, ","))
        if len(texts) != len(names):
            raise UsageError(f"the signature has {len(texts)} entries for {len(names)} parameters: {', '.join(names)}")
    else:
        raise UsageError(f"a signature is a text or a table, not {signature!r}")
    columns = []
    for param, text in zip(fn.params, texts):
        alternatives = split(text, "|") if isinstance(text, str) else [text]
        columns.append([_entry(param, alternative) for alternative in alternatives])
    return [list(chosen) for chosen in itertools.product(*columns)]


def split(text: str, mark: str) -> list[str]:
    """The parts between marks that stand in no bracket and in no quotes.

    >>> split("*fp32, (1, 2), 'a,b'", ",")
    ['*fp32', '(1, 2)', "'a,b'"]
    """
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "([{<":
            depth += 1
        elif letter in ")]}>":
            depth -= 1
        if letter == mark and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _entry(param: Any, text: Any) -> Entry:
    if param.is_constexpr or not isinstance(text, str):
        return Entry("constexpr", value=_constant(param.name, text))
    try:
        return Entry("constexpr", value=ast.literal_eval(text))
    except (ValueError, SyntaxError):
        pass  # not a literal, so it is a type
    type_, _, hint = text.partition(":") if not text.startswith("tensordesc") else (text, "", "")
    known = type_.startswith(("*", "tensordesc<")) or type_ in _NUMBERS
    if not known:
        raise UsageError(f"{param.name}: {type_!r} is neither a constant nor a type: {', '.join(_NUMBERS)}, *type"
                         f"{closest(type_, _NUMBERS)}")
    if param.annotation_type and param.annotation_type != type_:
        raise UsageError(f"{param.name} is annotated as {param.annotation_type}, and the signature says {type_}")
    if param.is_const and type_.startswith("*") and not type_.startswith("*k"):
        type_ = f"*k{type_[1:]}"
    if hint not in ("", "1", "16") or hint == "1" and not type_.startswith(("i", "u")):
        raise UsageError(f"{param.name}: the hint {hint!r} is none: :16 is a multiple of 16, and :1 an int that is 1")
    if (hint == "1" and not param.how.ones) or (hint == "16" and not param.how.aligned):
        raise UsageError(f"{param.name} is declared with do_not_specialize, so no launch has the hint :{hint}")
    if hint == "1":
        return Entry("constexpr", value=1)
    return Entry(type_, 16 if hint else None)


def _constant(name: str, text: Any) -> Any:
    if not isinstance(text, str):
        return text
    from tritium.language.types import dtypes

    if (found := re.fullmatch(r"(?:tl|triton\.language)\.(\w+)", text)) and isinstance(
            dtype := getattr(dtypes, found[1], None), dtypes.dtype):
        return dtype
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise UsageError(f"{name} is a constant, and {text!r} is none: a number, a text in quotes, True, None, a "
                         "tuple, or a dtype such as tl.float16") from None


def source_of(fn: Any, chosen: list[Entry]) -> Any:
    """A kernel specialised for these arguments."""
    from tritium.compiler import ASTSource

    pairs = list(zip(fn.arg_names, chosen))
    return ASTSource(fn, {name: entry.type for name, entry in pairs},
                     {name: entry.value for name, entry in pairs if entry.type == "constexpr"},
                     {(k,): [["tt.divisibility", 16]] for k, (_, entry) in enumerate(pairs) if entry.hint == 16})


# -- targets -----------------------------------------------------------------------------------------------------------


def target_of(text: str) -> Any:
    """A target from its text; this machine's own CPU is the highest level that it has, for only levels travel.

    >>> str(target_of("x86-64-v3")), str(target_of("cuda:90a"))
    ('cpu:x86-64-v3:1', 'cuda:90a:32')
    """
    from tritium.backends.llvm import levels
    from tritium.tools.compile import known_target

    try:
        target = known_target(text)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if target.backend != "cpu":
        return target
    if target.arch == "host":
        return dataclasses.replace(target, arch=level_here())
    try:
        levels.parse(str(target.arch), lambda: levels.LEVELS["x86-64"])
    except ValueError as error:
        raise UsageError(str(error)) from None
    if str(target.arch).startswith(("host", "+", "-")):
        raise UsageError(f"{target.arch} says nothing on another machine: name a level, such as x86-64-v3")
    return target


def level_here() -> str:
    """The highest level that this machine runs.

    >>> level_here() in ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "sapphirerapids", "graniterapids", "aarch64")
    True
    """
    from tritium.backends.llvm import levels
    from tritium.backends.llvm.target import runnable_levels

    return max((name for name in runnable_levels() if name != "host"), key=lambda name: len(levels.LEVELS[name].has))


# -- writing -----------------------------------------------------------------------------------------------------------


def text_of(wanted: list[Wanted], folder: str = ".") -> str:
    """A manifest that declares these kernels, for a file in `folder`. What no manifest can say stands in a comment.

    >>> text_of([])
    'targets = []\\n'
    """
    targets = dict.fromkeys(f"{target.backend}:{target.arch}" for one in wanted for target in one.targets)
    return f"targets = {json.dumps(list(targets))}\n" + "".join(_table(one, folder) for one in wanted)


def _table(one: Wanted, folder: str) -> str:
    from tritium.compiler.bundles import signature_text

    fn, text = one.source.fn, signature_text(one.source)
    home = os.path.relpath(fn.file, folder) if fn.module == "__main__" else fn.module
    rows = [f"name = {json.dumps(f'{home}:{fn.__qualname__}')}", f"signature = {json.dumps(text)}"]
    if one.options:
        chosen = (f"{name} = {json.dumps(value, default=str)}" for name, value in one.options.items())
        rows.append(f"options = {{ {', '.join(chosen)} }}")
    try:
        said = [source_of(fn, chosen).hash() for chosen in entries(fn, text)]
    except UsageError:
        said = []
    plain = all(isinstance(value, bool | int | float | str) for value in one.options.values())
    if said != [one.source.hash()] or not plain:
        rows = ["# an argument or an option that no manifest can say: `tritium bundle record` again", *rows]
        return "\n# [[kernel]]\n" + "".join(f"# {row}\n".replace("# # ", "# ") for row in rows)
    return "\n[[kernel]]\n" + "".join(f"{row}\n" for row in rows)
