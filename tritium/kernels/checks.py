"""Checks of the arguments of the collection's functions: an error names the argument, what it is, and the fix.

Shapes are written as words: "M K" is a matrix, "* N" any number of axes before the last. A word stands for one number
in all arguments of a call. Words after a colon are the types of this argument: "M: int32 int64".

    >>> x, weight = np.zeros((5, 3), np.float32), np.zeros((3, 8), np.float32)
    >>> arguments("linear", x=(x, "M K"), weight=(weight, "N K"))
    Traceback (most recent call last):
    ...
    ValueError: linear: weight has the shape (3, 8), that is K = 8 for (N, K), but x of shape (5, 3) has K = 3. \
Transpose weight: weight.T has a shape that fits.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from typing import Any

import numpy as np

from tritium.kernels import arrays

FLOATS = ("float16", "bfloat16", "float32")  # of kernels that compute in float32
FP8 = ("float8_e4m3fn", "float8_e5m2")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
NUMBERS = (*FLOATS, "float64", *INTEGERS)


def arguments(function: str, dtypes: tuple[str, ...] = FLOATS, mixed: tuple[str, ...] = (), /, **named: Any) -> dict:
    """Check arrays given as `name=(array, "shape in words")`, and return the numbers that the words stand for.

    All are arrays of NumPy or all are tensors of torch on one device; all have one of the types `dtypes` and, but for
    those named in `mixed` and those that have types of their own, the same one.

    >>> arguments("add", NUMBERS, x=(np.zeros((2, 3)), "M N"), y=(np.zeros(3), "N"))
    {'M': 2, 'N': 3}
    >>> arguments("take", x=(np.zeros((2, 3), np.float32), "M N"), at=(np.zeros(2, np.int64), "M: int32 int64"))
    {'M': 2, 'N': 3}
    """
    seen: list = [function, dtypes, mixed]
    try:
        for name, (x, words) in named.items():
            seen += (name, words, type(x), x.dtype, getattr(x, "device", None), x.shape)
        return _passed[tuple(seen)].copy()
    except (KeyError, TypeError, AttributeError):  # new, of sizes that have no hash, or no array at all
        pass
    return _checked(function, dtypes, mixed, named, seen)


def flat(function: str, dtypes: tuple[str, ...] = FLOATS, /, **named: Any) -> int:
    """Check arrays of one shape that a kernel walks as vectors, and return how many elements each has.

    They are alike as those of `arguments` are. 32 bits must count their elements.

    >>> flat("add", x=np.zeros((2, 3), np.float32), y=np.zeros((2, 3), np.float32))
    6
    """
    seen: list = [function, dtypes]
    try:
        for name, x in named.items():
            seen += (name, type(x), x.dtype, getattr(x, "device", None), x.shape)
        return _counted[tuple(seen)]
    except (KeyError, TypeError, AttributeError):
        pass
    arguments(function, dtypes, **{name: (x, "*") for name, x in named.items()})
    countable(function, **named)
    count = arrays.numel(next(iter(named.values())))
    with contextlib.suppress(TypeError):
        if len(_counted) >= _MOST:
            _counted.clear()
        _counted[tuple(seen)] = count
    return count


def count(function: str, x: Any, dtypes: tuple[str, ...] = FLOATS) -> int:
    """What `flat` says of one array, which is called x: there is less to look at.

    >>> count("silu", np.zeros((2, 3), np.float32))
    6
    """
    try:
        return _counted[dtypes, type(x), x.dtype, x.shape]
    except (KeyError, TypeError, AttributeError):
        pass
    found = flat(function, dtypes, x=x)
    with contextlib.suppress(TypeError):
        _counted[dtypes, type(x), x.dtype, x.shape] = found
    return found


def _checked(function: str, dtypes: tuple[str, ...], mixed: tuple[str, ...], named: dict, seen: list) -> dict:
    written = {name: words.partition(":")[::2] for name, (_, words) in named.items()}
    own = {name: tuple(types.split()) for name, (_, types) in written.items() if types}
    _alike(function, {name: own.get(name, dtypes) for name in named}, {*mixed, *own},
           {name: x for name, (x, _) in named.items()})
    sizes: dict[str, Any] = {}
    known: dict[str, str] = {}
    shapes = {name: words.split() for name, (words, _) in written.items()}
    for name, (x, _) in named.items():
        _check_shape(function, name, x, shapes, sizes, known, named)
    with contextlib.suppress(TypeError):
        if len(_passed) >= _MOST:
            _passed.clear()
        _passed[tuple(seen)] = dict(sizes)
    return sizes


# The sizes found by checks that passed: what is checked of an array is in the key.
_passed: dict[tuple, dict] = {}
_counted: dict[tuple, int] = {}
_MOST = 1024


def alike(function: str, dtypes: tuple[str, ...] = FLOATS, mixed: tuple[str, ...] = (), /, **named: Any) -> None:
    """Check all but the shapes: the kind, the device and the type of arrays.

    >>> alike("matmul", a=np.zeros(3, np.float32), b=np.zeros(3, np.float16))
    Traceback (most recent call last):
    ...
    TypeError: matmul: b has the type float16, but a has float32; they must be the same. Convert one: b.astype(a.dtype).
    """
    _alike(function, dict.fromkeys(named, dtypes), mixed, named)


def _alike(function: str, dtypes: dict[str, tuple[str, ...]], mixed: Collection[str], named: dict[str, Any]) -> None:
    first = next(iter(named))
    for name, x in named.items():
        _check_kind(function, name, x)
        _check_type(function, name, x, dtypes[name])
        if name != first:
            _check_place(function, first, named[first], name, x)
            if name not in mixed and first not in mixed:
                _check_same_type(function, first, named[first], name, x)


def _is_torch(x: Any) -> bool:
    return type(x).__module__.partition(".")[0] == "torch" or (hasattr(x, "data_ptr") and hasattr(x, "stride"))


def _check_kind(function: str, name: str, x: Any) -> None:
    if isinstance(x, np.ndarray) or _is_torch(x):
        return
    fix = "np.asarray" if isinstance(x, (list, tuple, int, float)) else "np.asarray or torch.from_dlpack"
    raise TypeError(f"{function}: {name} is a {type(x).__name__}; it must be an array of NumPy or a tensor of torch. "
                    f"Make one with {fix}({name}).")


def _check_type(function: str, name: str, x: Any, dtypes: tuple[str, ...]) -> None:
    found = arrays.dtype_name(x)
    if found in dtypes:
        return
    fix = f"{name}.astype({dtypes[0]!r})" if isinstance(x, np.ndarray) else f"{name}.to(torch.{dtypes[0]})"
    if "float32" in dtypes:
        fix = fix.replace(dtypes[0], "float32")
    raise TypeError(f"{function}: {name} has the type {found}; it must be one of {', '.join(dtypes)}. Convert it: "
                    f"{fix}.")


def _check_same_type(function: str, first: str, one: Any, name: str, x: Any) -> None:
    a, b = arrays.dtype_name(one), arrays.dtype_name(x)
    if a != b:
        fix = f"{name}.astype({first}.dtype)" if isinstance(x, np.ndarray) else f"{name}.to({first}.dtype)"
        raise TypeError(f"{function}: {name} has the type {b}, but {first} has {a}; they must be the same. Convert "
                        f"one: {fix}.")


def _check_place(function: str, first: str, one: Any, name: str, x: Any) -> None:
    if isinstance(one, np.ndarray) != isinstance(x, np.ndarray):
        array, tensor = (first, name) if isinstance(one, np.ndarray) else (name, first)
        raise TypeError(f"{function}: {array} is an array of NumPy and {tensor} a tensor of torch; they must be of one "
                        f"kind. Convert one: torch.from_numpy({array}).")
    if not isinstance(x, np.ndarray) and x.device != one.device:
        raise ValueError(f"{function}: {name} is on {x.device}, but {first} is on {one.device}; they must be on one "
                         f"device. Move one: {name}.to({first}.device).")


def _check_shape(function: str, name: str, x: Any, shapes: dict, sizes: dict, known: dict, named: dict) -> None:
    shape, words = tuple(x.shape), shapes[name]
    wanted = "(" + ", ".join(words).replace("*", "...") + ("," if len(words) == 1 else "") + ")"
    any_axes = bool(words) and words[0] == "*"
    least = len(words) - any_axes
    if len(shape) < least or (len(shape) > least and not any_axes):
        raise ValueError(f"{function}: {name} has {len(shape)} axes, its shape is {shape}; it must have the shape "
                         f"{wanted}. Use {name}.reshape, or pass the part that is meant.")
    axes = list(zip(words[any_axes:], shape[len(shape) - least:]))
    if any_axes:
        axes.insert(0, ("*", shape[:len(shape) - least]))
    for word, number in axes:
        if word.isdigit():
            sizes.setdefault(word, int(word))
            known.setdefault(word, "")
        if sizes.setdefault(word, number) != number:
            _raise_mismatch(function, name, words, shape, wanted, word, number, sizes, known, named)
        known.setdefault(word, name)


def _raise_mismatch(function, name, words, shape, wanted, word, number, sizes, known, named):
    word_of, other = word.replace("*", "..."), known[word]
    if not other:
        raise ValueError(f"{function}: {name} has the shape {shape}; it must have the shape {wanted}.")
    message = (f"{function}: {name} has the shape {shape}, that is {word_of} = {number} for {wanted}, but {other} of "
               f"shape {tuple(named[other][0].shape)} has {word_of} = {sizes[word]}.")
    turned = dict(zip(words, reversed(shape)))
    if len(shape) == 2 and all(sizes.get(w, n) == n for w, n in turned.items() if known.get(w) != name):
        raise ValueError(f"{message} Transpose {name}: {name}.T has a shape that fits.")
    raise ValueError(f"{message} They must agree.")


def positive(function: str, **named: Any) -> None:
    """Check that numbers are positive integers.

    >>> positive("max_pool", window=0)
    Traceback (most recent call last):
    ...
    ValueError: max_pool: window is 0; it must be at least 1.
    """
    for name, value in named.items():
        if type(value) is not int and (isinstance(value, bool) or not isinstance(value, (int, np.integer))):
            raise TypeError(f"{function}: {name} is {value!r}; it must be an integer.")
        if value < 1:
            raise ValueError(f"{function}: {name} is {value}; it must be at least 1.")


def one_of(function: str, name: str, value: Any, allowed: tuple) -> None:
    """Check that an option is one of a few.

    >>> one_of("matmul", "precision", "fp32", (None, "tf32", "ieee"))
    Traceback (most recent call last):
    ...
    ValueError: matmul: precision is 'fp32'; it must be one of None, 'tf32', 'ieee'.
    """
    if value not in allowed:
        raise ValueError(f"{function}: {name} is {value!r}; it must be one of {', '.join(map(repr, allowed))}.")


def fits_a_tile(function: str, name: str, x: Any, columns: int, limit: int = 1 << 17) -> None:
    """Check that a row fits into one tile.

    >>> fits_a_tile("softmax", "x", np.zeros((1, 300000)), 300000)
    Traceback (most recent call last):
    ...
    ValueError: softmax: x has rows of 300000 elements; a row must fit into one tile of 131072. Use a function that \
takes rows in parts, such as softmax.online.
    """
    if columns > limit:
        raise ValueError(f"{function}: {name} has rows of {columns} elements; a row must fit into one tile of {limit}. "
                         "Use a function that takes rows in parts, such as softmax.online.")


def countable(function: str, **named: Any) -> None:
    """Check that 32 bits count the elements of arrays.

    >>> countable("silu", x=np.zeros(3))
    """
    for name, x in named.items():
        if arrays.numel(x) >= 1 << 31:
            raise ValueError(f"{function}: {name} has {arrays.numel(x)} elements; the kernel counts them in 32 bits. "
                             "Pass parts of fewer than 2**31 elements.")
