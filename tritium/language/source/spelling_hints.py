"""What functions of NumPy, PyTorch and Python are called in a kernel: hints for names the language does not have."""

from __future__ import annotations

import builtins
import importlib
import inspect
from collections.abc import Collection

from ...refusals import instead_of_former

__all__ = ["instead_of", "instead_of_builtin", "is_of_language"]

# Where the language has another name, or no function because an expression does it.
_OTHERS = {row.split()[0]: row.split(maxsplit=1)[1] for row in """
    _experimental_descriptor_load         descriptor.load(offsets), of tl.make_tensor_descriptor
    _experimental_descriptor_store        descriptor.store(offsets, x), of tl.make_tensor_descriptor
    _experimental_make_tensor_descriptor  tl.make_tensor_descriptor(base, shape, strides, block_shape)
    absolute         tl.abs(x)
    add              x + y
    all              tl.min(condition.to(tl.int32), axis)
    amax             tl.max(x, axis)
    amin             tl.min(x, axis)
    any              tl.max(condition.to(tl.int32), axis)
    append           tl.join(x, y) or tl.cat(x, y, can_reorder=True)
    arccos           tl.extra.libdevice.acos(x)
    arcsin           tl.extra.libdevice.asin(x)
    arctan           tl.extra.libdevice.atan(x)
    arctan2          tl.extra.libdevice.atan2(y, x)
    argsort          tl.sort(x), which gives the values only
    array            tl.full(shape, value, dtype), or tl.load of a pointer
    asarray          tl.full(shape, value, dtype)
    astype           x.to(dtype)
    bfloat16         x.to(tl.bfloat16)
    bitwise_and      x & y
    bitwise_not      ~x
    bitwise_or       x | y
    bitwise_xor      x ^ y
    block_id         tl.program_id(0)
    bmm              tl.dot(x, y)
    bool             x != 0
    clip             tl.clamp(x, low, high)
    clone            x itself: blocks never change
    concat           tl.join(x, y) or tl.cat(x, y, can_reorder=True)
    concatenate      tl.join(x, y) or tl.cat(x, y, can_reorder=True)
    contiguous       x itself: a block is contiguous
    copy             x itself: blocks never change
    cummax           tl.associative_scan(x, axis, combine)
    cummin           tl.associative_scan(x, axis, combine)
    detach           x itself
    div              x / y
    divide           x / y
    double           x.to(tl.float64)
    elu              tl.where(x > 0, x, tl.exp(x) - 1)
    empty            tl.zeros(shape, dtype)
    empty_like       tl.zeros_like(x)
    eq               x == y
    equal            x == y
    e                2.718281828459045, or math.e
    einsum           tl.dot(x, y), or tl.sum(x * y, axis)
    expand           tl.broadcast_to(x, shape)
    fabs             tl.abs(x)
    flatten          tl.ravel(x)
    float            x.to(tl.float32)
    float_power      tl.extra.libdevice.pow(x, y)
    floor_divide     x // y
    fmax             tl.maximum(x, y)
    fmin             tl.minimum(x, y)
    full_like        tl.full(x.shape, value, x.dtype)
    ge               x >= y
    gelu             0.5 * x * (1 + tl.erf(x * 0.70710678))
    greater          x > y
    gt               x > y
    half             x.to(tl.float16)
    inf              float("inf")
    inner            tl.sum(x * y, axis)
    int              x.to(tl.int32)
    isclose          tl.abs(x - y) < tolerance
    item             a scalar, which a reduction gives: tl.sum(x, axis)
    layer_norm       (x - mean) * tl.rsqrt(var + eps)
    le               x <= y
    leaky_relu       tl.where(x > 0, x, x * slope)
    less             x < y
    libdevice        tl.extra.libdevice
    log_softmax      x - top - tl.log(tl.sum(tl.exp(x - top), axis)) with top = tl.max(x, axis)
    logical_not      ~x
    logical_xor      x ^ y
    logsumexp        tl.log(tl.sum(tl.exp(x - top), axis)) + top with top = tl.max(x, axis)
    long             x.to(tl.int64)
    lt               x < y
    masked_fill      tl.where(mask, value, x)
    matmul           tl.dot(x, y)
    mean             tl.sum(x, axis) / n
    mm               tl.dot(x, y)
    mod              x % y
    movedim          tl.permute(x, axes)
    multiply         x * y
    nan              float("nan")
    ndim             len(x.shape)
    ne               x != y
    newaxis          None: x[:, None]
    neg              -x
    negative         -x
    nelement         x.numel
    norm             tl.sqrt(tl.sum(x * x, axis))
    not_equal        x != y
    ones             tl.full(shape, 1, dtype)
    ones_like        tl.full(x.shape, 1, x.dtype)
    outer            x[:, None] * y[None, :]
    pi               3.141592653589793, or math.pi
    power            tl.extra.libdevice.pow(x, y)
    printf           tl.device_print(text, x)
    prod             tl.reduce(x, axis, combine)
    reciprocal       1 / x
    relu             tl.maximum(x, 0)
    remainder        x % y
    repeat           tl.broadcast_to(x, shape)
    rms_norm         x * tl.rsqrt(tl.sum(x * x, axis) / n + eps)
    roll             tl.gather(x, index, axis)
    scatter          tl.store(ptr + index, x)
    sign             tl.where(x > 0, 1, tl.where(x < 0, -1, 0))
    silu             x * tl.sigmoid(x)
    size             x.numel, or x.shape[axis]
    softplus         tl.log(1 + tl.exp(x))
    square           x * x
    squeeze          tl.reshape(x, shape)
    stack            tl.join(x, y)
    std              tl.sqrt(tl.sum((x - mean) * (x - mean), axis) / n)
    sub              x - y
    subtract         x - y
    swapaxes         tl.permute(x, axes)
    swish            x * tl.sigmoid(x)
    syncthreads      tl.debug_barrier()
    t                tl.trans(x)
    take             tl.gather(x, index, axis)
    take_along_axis  tl.gather(x, index, axis)
    tensor           tl.full(shape, value, dtype)
    thread_id        nothing: a program works on whole blocks
    tile             tl.broadcast_to(x, shape)
    transpose        tl.trans(x)
    tril             tl.where(rows[:, None] >= columns[None, :], x, 0)
    triu             tl.where(rows[:, None] <= columns[None, :], x, 0)
    true_divide      x / y
    unsqueeze        tl.expand_dims(x, axis), or x[:, None]
    var              tl.sum((x - mean) * (x - mean), axis) / n
    vdot             tl.sum(x * y, axis)
""".strip().splitlines()}


def instead_of(name: str) -> str | None:
    """What to write for a function or method of NumPy or PyTorch; None where nothing is known.

    >>> instead_of("relu"), instead_of("exp"), instead_of("tanh"), instead_of("frobnicate")
    ('use tl.maximum(x, 0)', 'use tl.exp', 'use tl.extra.libdevice.tanh', None)
    """
    if name in _OTHERS:
        return f"use {_OTHERS[name]}"
    for path in ("tritium.language", "tritium.language.extra.libdevice"):
        module = importlib.import_module(path)
        if callable(getattr(module, name, None)) and not name.startswith("_"):
            return f"use {path.replace('tritium.language', 'tl')}.{name}"
    return None


def is_of_language(name: str) -> bool:
    """Whether a name is one of the language, so that `tl.` is missing before it.

    >>> is_of_language("arange"), is_of_language("float32"), is_of_language("range"), is_of_language("core")
    (True, True, False, False)
    """
    if name.startswith("_") or hasattr(builtins, name):
        return False
    found = getattr(importlib.import_module("tritium.language"), name, None)
    return found is not None and not inspect.ismodule(found)


# Python's own functions that kernels do not have.
_BUILTINS = {
    "abs": "use tl.abs",
    "sum": "use tl.sum(x, axis), or a loop over tl.static_range(len(t)) for a tuple",
    "bool": "compare instead: `x != 0`",
    "round": "use tl.extra.libdevice.round",
    "pow": "use `**` on constants, tl.extra.libdevice.pow on tensors",
    "tuple": "write (a, b), or [f(x) for x in t]",
    "zip": "index the tuples with `for i in tl.static_range(len(t))`",
    "enumerate": "index the tuple with `for i in tl.static_range(len(t))`",
    "reversed": "count down: `for i in range(n - 1, -1, -1)`",
    "sorted": "use tl.sort",
    "divmod": "use // and %",
    "any": "use tl.max of the comparison",
    "all": "use tl.min of the comparison",
    "str": "write an f-string of constants",
    "type": "use x.dtype or x.type",
    "dict": "pass the entries as separate tl.constexpr arguments, or use a tuple",
    "set": "use a tuple",
    "input": "pass the value as an argument",
    "open": "pass the data as an argument",
    "breakpoint": "a compiled kernel cannot stop: run the program with TRITON_INTERPRET=1, where breakpoint() and pdb "
    "work",
}


def instead_of_builtin(name: str) -> str | None:
    """What to write for a function of Python that kernels do not have.

    >>> instead_of_builtin("abs")
    'use tl.abs'
    """
    return _BUILTINS.get(name)


# Calls that NumPy and PyTorch complete by themselves.
_WHOLE_CALLS = {
    "arange": "give both ends: tl.arange(0, BLOCK)",
    "zeros": "say of what type, too: tl.zeros((BLOCK,), tl.float32)",
    "full": "give shape, value and type: tl.full((BLOCK,), 0.0, tl.float32)",
    "maximum": "the largest element of one tile is tl.max(x, axis)",
    "minimum": "the smallest element of one tile is tl.min(x, axis)",
    "argmax": "name the axis: tl.argmax(x, axis=0)",
    "argmin": "name the axis: tl.argmin(x, axis=0)",
    "rand": "give a seed, and an offset for each number: tl.rand(seed, offsets)",
    "randn": "give a seed, and an offset for each number: tl.randn(seed, offsets)",
    "randint": "give a seed, and an offset for each number: tl.randint(seed, offsets)",
    "where": "give both sides: tl.where(condition, x, 0.0)",
}


def whole_call(name: str) -> str | None:
    """How a function of the language is called that others call with less.

    >>> whole_call("arange")
    'give both ends: tl.arange(0, BLOCK)'
    """
    return _WHOLE_CALLS.get(name)


def declaration(name: str, signature: inspect.Signature, unknown: str | None = None) -> str:
    """How a function is called, without annotations; before it what to write for an unknown keyword of a call.

    >>> def scaled(x, factor: float = 2.0): pass
    >>> declaration("scaled", inspect.signature(scaled))
    'it is declared as scaled(x, factor=2.0)'
    >>> declaration("scaled", inspect.signature(scaled), "fctor")
    'did you mean `factor`? it is declared as scaled(x, factor=2.0)'
    """
    known = signature.parameters
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in known.values()]
    former = instead_of_former(unknown, known) if unknown else None
    near = near_parameter(unknown, known) if unknown and unknown not in known else None
    guess = f"{former}; " if former else f"{near} " if near else ""
    return f"{guess}it is declared as {name}{inspect.Signature(bare)}"


def near_parameter(name: str, known: Collection[str]) -> str | None:
    """The parameter that a keyword was meant to name: one spelled alike, or what other libraries call it.

    >>> near_parameter("dim", ["input", "axis"]), near_parameter("msk", ["mask"]), near_parameter("size", ["mask"])
    ('did you mean `axis`?', 'did you mean `mask`?', None)
    >>> near_parameter("other", ["pointer", "value", "mask"])
    'leave `other` out: nothing is accessed where the mask is false;'
    """
    from difflib import get_close_matches  # for errors alone

    if name == "other" and "mask" in known:
        return "leave `other` out: nothing is accessed where the mask is false;"

    other = _PARAMETERS.get(name)
    close = [other] if other in known else get_close_matches(name, known, 1)
    return f"did you mean `{close[0]}`?" if close else None


_PARAMETERS = {"dim": "axis", "axis": "dim", "keepdim": "keep_dims", "keepdims": "keep_dims"}

DEBUGGERS = ("pdb", "ipdb", "pudb", "debugpy", "bdb")


def of_callable(name: str, module: str) -> str:
    """The hint for a call of a Python function that is not compiled.

    >>> of_callable("exp", "numpy")
    'use tl.exp'
    >>> of_callable("uniform", "random")
    'use tl.rand(seed, offsets), which gives every element a number of its own'
    >>> of_callable("area", "__main__")
    'decorate area with @triton.jit, or with @triton.constexpr_function if it only computes constants'
    """
    package = module.partition(".")[0]
    if package in DEBUGGERS:
        return _BUILTINS["breakpoint"]
    if package == "random":
        return "use tl.rand(seed, offsets), which gives every element a number of its own"
    if package in _FOREIGN:
        found = instead_of(name)
        if found is not None:
            return found
        return f"{package} works on whole arrays outside of kernels: compute it before the launch, or write it with " \
               "functions of tl"
    return f"decorate {name} with @triton.jit, or with @triton.constexpr_function if it only computes constants"


_FOREIGN = ("numpy", "torch", "math", "cmath", "jax", "cupy", "scipy")
