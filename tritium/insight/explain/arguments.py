"""Arguments of a launch from their descriptions: `x=fp32[4096]`, `n=4096`, `stride=K`.

    NAME=DTYPE[SIZE, ...]              a tensor of zeros, dense and row-major
    NAME=DTYPE[SIZE, ...]@(STEP, ...)  with these strides, in elements
    NAME=DTYPE[...]:arange             0, 1, 2, ... (for indices); `:random(N)` is any numbers from 0 to below N
    NAME=EXPRESSION                    a number: arithmetic on the other arguments, cdiv, next_power_of_2, min, max
    NAME='text', NAME=None, NAME=True  constants

Sizes, strides and the grid are expressions, too. In them, names that are no parameters may stand for sizes.
No memory is touched until a program loads it.
"""

from __future__ import annotations

import ast
import contextlib
import re
from typing import Any

import numpy as np

from tritium.language.types.dtypes import parse_signature
from tritium.language.types.signature import canonical
from tritium.ops.meaning import np_dtype

_FUNCTIONS = {
    "cdiv": lambda a, b: -(-a // b), "next_power_of_2": lambda n: 1 << (n - 1).bit_length() if n > 0 else 1,
    "min": min, "max": max,
}  # fmt: skip
_NODES = (ast.Expression, ast.Constant, ast.Name, ast.Load, ast.BinOp, ast.UnaryOp, ast.Call, ast.Add, ast.Sub,
          ast.Mult, ast.FloorDiv, ast.Div, ast.Mod, ast.Pow, ast.LShift, ast.RShift, ast.USub, ast.UAdd, ast.Tuple)
_TENSOR = re.compile(r"(\*?\w+)\s*\[([^\]]*)\]\s*(?:@\s*\(([^)]*)\))?\s*(?::\s*(\w+)\s*(?:\(([^)]*)\))?)?")


def arguments(descriptions: list[str]) -> dict[str, Any]:
    """The arguments that descriptions stand for, by name; each may use the numbers of all others.

    >>> made = arguments(["x=fp16[M, 2 * M]", "M=64", "BLOCK=next_power_of_2(M - 1)", "i=i32[8]:arange"])
    >>> made["x"].shape, made["BLOCK"], made["i"][:3].tolist()
    ((64, 128), 64, [0, 1, 2])
    """
    texts = {}
    for description in descriptions:
        name, equals, text = description.partition("=")
        if not equals or not name.strip().isidentifier():
            raise ValueError(f"{description!r} describes no argument: write name=value, as in x=fp32[4096] or n=4096")
        texts[name.strip()] = text.strip()
    made: dict[str, Any] = {}
    tensors = {name: found for name, text in texts.items()
               if (found := _TENSOR.fullmatch(text)) and canonical(found[1]) is not None}
    for name in texts:
        if name not in tensors:
            _resolve(name, texts, tensors, made, ())
    for name, found in tensors.items():
        made[name] = _tensor(name, found, made)
    return {name: made[name] for name in texts}


def used_by(descriptions: list[str]) -> set[str]:
    """The names that sizes and expressions are made of.

    >>> sorted(used_by(["x=fp16[M, cdiv(K, 2)]", "n=M * 4", "how=None"]))
    ['K', 'M', 'cdiv']
    """
    found: set[str] = set()
    for description in descriptions:
        text = description.partition("=")[2]
        tensor = _TENSOR.fullmatch(text.strip())
        for part in filter(None, tensor.group(2, 3, 5) if tensor else (text,)):
            with contextlib.suppress(SyntaxError):  # which is told where the expression is evaluated
                tree = ast.parse(f"({part},)", mode="eval")
                found |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return found


def _resolve(name: str, texts: dict, tensors: dict, made: dict, waiting: tuple[str, ...]) -> None:
    if name in made:
        return
    if name in waiting:
        raise ValueError(f"{' = '.join((*waiting, name))}: these arguments are defined by each other")
    tree = _parsed(name, texts[name])
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in texts and node.id not in tensors:
            _resolve(node.id, texts, tensors, made, (*waiting, name))
    made[name] = evaluate(texts[name], made, name)


def evaluate(text: str, names: dict[str, Any], what: str = "") -> Any:
    """The value of an expression of numbers, or of a constant.

    >>> evaluate("cdiv(n, 64) * 2", {"n": 100})
    4
    """
    tree = _parsed(what or text, text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in names and node.id not in _FUNCTIONS:
            known = ", ".join((*names, *_FUNCTIONS))
            raise ValueError(f"{what or text}: {node.id!r} is neither an argument nor a function: there are {known}")
        if not isinstance(node, _NODES):
            raise ValueError(f"{what or text}: {text!r} is not a number, an expression of numbers, or a constant")
    try:
        return eval(compile(tree, "<argument>", "eval"), {"__builtins__": {}}, {**_FUNCTIONS, **names})
    except (ArithmeticError, TypeError) as error:
        raise ValueError(f"{what or text}: {text!r} cannot be computed: {error}") from None


def _parsed(name: str, text: str) -> ast.Expression:
    try:
        return ast.parse(text, mode="eval")
    except SyntaxError:
        raise ValueError(f"{name}: {text!r} is neither a value nor a tensor such as fp32[1024, 64]") from None


def _tensor(name: str, found: re.Match, names: dict[str, Any]) -> np.ndarray:
    dtype = np_dtype(parse_signature(found[1].lstrip("*")).ir)
    shape = _numbers(f"{name}: size", found[2], names)
    strides = _numbers(f"{name}: stride", found[3], names) if found[3] else None
    if strides is None:
        flat = _filled(name, dtype, int(np.prod(shape)), found, names)
        return flat.reshape(shape)
    if len(strides) != len(shape):
        raise ValueError(f"{name}: {len(shape)} sizes and {len(strides)} strides")
    extent = 1 + sum((n - 1) * s for n, s in zip(shape, strides)) if all(shape) else 0
    flat = _filled(name, dtype, extent, found, names)
    return np.lib.stride_tricks.as_strided(flat, shape, [s * dtype.itemsize for s in strides])


def _numbers(what: str, text: str, names: dict[str, Any]) -> tuple[int, ...]:
    values = [evaluate(part, names, what) for part in _split(text)]
    for value in values:
        if not isinstance(value, int) or value < 0:
            hint = ": divide by // or cdiv" if isinstance(value, float) else ""
            raise ValueError(f"{what}: {value!r} is not a size{hint}")
    return tuple(values)


def _split(text: str) -> list[str]:
    """Parts between the commas that no parentheses enclose."""
    parts, depth = [""], 0
    for c in text:
        depth += {"(": 1, ")": -1}.get(c, 0)
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts if part.strip()]


def _filled(name: str, dtype: np.dtype, count: int, found: re.Match, names: dict[str, Any]) -> np.ndarray:
    how, most = found[4], found[5]
    if how is None:
        return np.zeros(count, dtype)
    if how == "arange":
        return np.arange(count).astype(dtype)
    if how == "random":
        bound = evaluate(most, names, name) if most else 1
        made = np.random.default_rng(0).random(count, np.float32) * bound
        return np.floor(made).astype(dtype) if dtype.kind in "iu" else made.astype(dtype)
    raise ValueError(f"{name}: a tensor is filled by :arange or :random(n), not by :{how}")


def grid_of(text: str, names: dict[str, Any]) -> tuple[int, ...]:
    """A grid written as one to three expressions.

    >>> grid_of("cdiv(n, B), 2", {"n": 100, "B": 64})
    (2, 2)
    """
    sizes = _numbers("the grid", text.strip().removeprefix("(").removesuffix(")") if _wrapped(text) else text, names)
    if not 1 <= len(sizes) <= 3:
        raise ValueError(f"a grid has one to three sizes: {text!r} has {len(sizes)}")
    return sizes


def _wrapped(text: str) -> bool:
    text = text.strip()
    return text.startswith("(") and text.endswith(")") and len(_split(text)) == 1 and _balanced(text[1:-1])


def _balanced(text: str) -> bool:
    depth = 0
    for c in text:
        depth += {"(": 1, ")": -1}.get(c, 0)
        if depth < 0:
            return False
    return depth == 0
