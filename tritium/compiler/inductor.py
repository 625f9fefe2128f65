"""What torch's Inductor does with the binaries of kernels: it may start them itself.

Its static launcher passes a cubin the user's arguments and `num_warps` warps, and nothing is looked into before a
launch. So does the C++ of AOTInductor and of `cpp_wrapper`, on CUDA and on the CPU. A kernel that needs more must not
be started so: the static launcher is told to leave it to `CompiledKernel.run`; C++ cannot be told, and gets a kernel
without implicit arguments and preconditions (`launch_checks=False`). Inductor writes above each kernel which of them
starts it, in a decorator with `inductor_meta={...}`.
"""

from __future__ import annotations

import ast
import functools
import os
from typing import Any

from tritium import backends, cache
from tritium.errors import fail
from tritium.ir.bounds import bounds
from tritium.ir.preconditions import preconditions_of

__all__ = ["NeedsLauncher", "meta", "needs_launcher", "options", "place"]

_MOST = 2**31 - 1  # elements along an axis of a kernel with 32-bit indices
_GRIDS = {"Grid1D": ("XBLOCK",), "Grid2D": ("XBLOCK", "YBLOCK"), "Grid3D": ("XBLOCK", "YBLOCK", "ZBLOCK")}
_LIMITS = (_MOST, 65535, 65535)  # CUDA's


class NeedsLauncher(NotImplementedError):
    """What torch's static launcher is told of a kernel that it cannot start."""


def meta(fn) -> dict[str, Any] | None:
    """The plain values in the `inductor_meta` of a kernel's decorator; None where there is no such decorator.

    >>> from tritium.kernels.vector_add import add_kernel
    >>> meta(add_kernel) is None
    True
    """
    try:
        lines = fn.raw_src
    except (AttributeError, ValueError):  # no text, or none that can be read
        return None
    if not any("inductor_meta" in line for line in lines):
        return None
    start = next((k for k, line in enumerate(lines) if line.lstrip().startswith("def ")), len(lines))
    return _meta_in("".join(line.lstrip() for line in lines[:start]))


@functools.lru_cache(64)  # it is asked for three times in each compilation
def _meta_in(decorators: str) -> dict[str, Any] | None:
    """The plain values in the `inductor_meta` of decorators."""
    try:
        decorated = ast.parse(decorators + "def f(): pass").body[0]
    except SyntaxError:  # the word stands elsewhere
        return None
    calls = [call for call in getattr(decorated, "decorator_list", ()) if isinstance(call, ast.Call)]
    found = [word.value for call in calls for word in call.keywords if word.arg == "inductor_meta"]
    rows = [(key, value) for node in found if isinstance(node, ast.Dict) for key, value in zip(node.keys, node.values)]
    return {key.value: value.value for key, value in rows  # type: ignore[union-attr]
            if isinstance(key, ast.Constant) and isinstance(value, ast.Constant)} if found else None


def options(src) -> dict[str, Any]:
    """The options of a source that C++ will start: its launcher looks into nothing.

    >>> from types import SimpleNamespace as Namespace
    >>> lines = ["@pointwise(inductor_meta={'store_cubin': True})\\n", "@triton.jit\\n", "def k(x): pass\\n"]
    >>> options(Namespace(fn=Namespace(raw_src=lines), signature={"x": "*fp32"}))
    {'launch_checks': False}
    """
    if not (meta(src.fn) or {}).get("store_cubin"):
        return {}
    for name, type_ in src.signature.items():
        if isinstance(type_, tuple) or type_.startswith("tensordesc"):
            raise fail(ValueError, f"{src.fn.__name__} cannot be started from C++: {name} is "
                       f"{'a tuple' if isinstance(type_, tuple) else 'a tensor descriptor'}, which torch's C++ passes "
                       "in another form", hint="pass a tensor, and make the descriptor in the kernel with "
                       "tl.make_tensor_descriptor; or compile without cpp_wrapper and AOTInductor")
    return {"launch_checks": False}


def needs_launcher(kernel) -> str | None:
    """Why only tritium's own launcher may start a kernel; None if the user's arguments are all it takes."""
    metadata = kernel.metadata
    if any(getattr(metadata, name, ()) for name in ("tensor_maps", "producer_warps", "persistent")):
        return f"{kernel.name} has implicit arguments, extra warps or a persistent grid: only tritium's launcher fits"
    assumed = preconditions_of(metadata)
    if assumed.disjoint or assumed.stores:
        return f"{kernel.name} assumes that arguments do not alias, which only tritium's launcher checks"
    grid = _largest_grid(kernel.src)
    if any(bounds(rows, None, grid)[0] < 0 for rows in assumed.nonnegative):
        return f"{kernel.name} assumes that indices are not negative, which only tritium's launcher checks"
    return None


def _largest_grid(src) -> tuple[int, int, int]:
    """The most programs along each axis: of kernels over blocks, as many as hold the elements that indices reach."""
    blocks = _GRIDS.get((meta(src.fn) or {}).get("grid_type", ""), ())
    constants = {} if src.fn is None else src.constant_names
    sizes = [constants.get(name, 1) for name in blocks]
    sizes = [size if isinstance(size, int) and size > 0 else 1 for size in sizes] + [1] * (3 - len(sizes))
    x, y, z = (min(limit, -(-_MOST // size)) for limit, size in zip(_LIMITS, sizes))
    return x, y, z


def place(kernel) -> None:
    """Put the binary of a kernel for a GPU where Inductor looks for it, should the cache be elsewhere."""
    folder, target = os.environ.get("TRITON_CACHE_DIR"), kernel.metadata.target
    if target.backend == "cpu" or not folder or meta(kernel.src.fn) is None:
        return
    name = f"{kernel.src.fn.__name__}.{backends.get(target).binary_ext}"
    path = os.path.join(folder, cache.base32(kernel.hash), name)
    if os.path.exists(path):
        return
    import tempfile  # a process that torch is not in does without

    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=os.path.dirname(path), delete=False) as file:
            file.write(kernel.kernel)
        os.replace(file.name, path)
    except OSError as error:  # Inductor goes on with `CompiledKernel.run`
        cache.tolerate(error)
