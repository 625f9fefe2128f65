"""Which tensors a launch stores to, by the kernel's own stores: known before anything is compiled or launched."""

from __future__ import annotations

from typing import Any

__all__ = ["stored_arguments"]


def stored_arguments(kernel: Any, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
    """The tensors among the arguments of a launch that the kernel may store to, or change by atomics.

    The frontend makes the kernel's IR of the arguments' types, and that is looked into; nothing is compiled. Of a
    kernel that is tuned, it is that of the first configuration.

    >>> import numpy as np
    >>> from tritium.kernels.vector_add import add_kernel
    >>> x, z = np.zeros(3), np.empty(3)
    >>> [tensor is z for tensor in stored_arguments(add_kernel, (x, x, z, 3), {"BLOCK": 16})]
    [True]
    """
    from tritium.analysis.accesses import stored

    if (configs := getattr(kernel, "configs", None)) is not None:
        return stored_arguments(kernel.fn, args, {**kwargs, **configs[0].all_kwargs()})
    if (computed := getattr(kernel, "_computed", None)) is not None:  # heuristics
        return stored_arguments(kernel.fn, *computed(args, kwargs, {**dict(zip(kernel.arg_names, args)), **kwargs}))
    values, options = _bound(kernel, args, kwargs)
    source, positions = _source(kernel, values)
    module = _module(source, options)
    return [tensor for k in sorted({positions[n] for n in stored(module)}) for tensor in _tensors(values[k])]


def _bound(kernel: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    from tritium.runtime.launch import Launcher

    launcher = getattr(kernel, "launcher", None)  # an interpreted kernel has none
    return (launcher or Launcher(kernel.__name__, kernel.signature, print)).bind(*args, **kwargs)


def _source(kernel: Any, values: tuple) -> tuple[Any, list[int]]:
    """What the compiler would be given for these arguments, and the position of the argument each parameter is of."""
    from tritium.compiler.sources import ASTSource
    from tritium.language.types.signature import flatten
    from tritium.runtime.specialize import KernelParam, attrs_of, constants_of

    params = [KernelParam(i, parameter) for i, parameter in enumerate(kernel.signature.parameters.values())]
    values = tuple(map(_without_memory, values))
    types, constants, attrs = {}, {}, {}
    for i, (param, value) in enumerate(zip(params, values)):
        types[param.name], promise = param.specialize(value)
        constants |= constants_of(types[param.name], value, (i,))
        attrs |= attrs_of(types[param.name], promise, (i,))
    source = ASTSource(kernel, types, constants, attrs)
    return source, [k for k, type_ in enumerate(source.signature.values()) for _ in flatten(type_)]


def _module(source: Any, options: dict[str, Any]) -> Any:
    from tritium.backends.driver import driver
    from tritium.compiler import make_backend
    from tritium.locks import busy, imported

    for name in ("tritium.frontend", "tritium.passes"):
        imported(name)
    target = driver.active.get_current_target()
    with busy():
        return source.make_ir(target, make_backend(target).parse_options(options))


def _without_memory(x: Any) -> Any:
    """An argument with what stands for its tensors: nobody asks where those are."""
    from tritium.tensors import MockTensor, reader_of

    if isinstance(x, tuple):
        return getattr(x, "_make", tuple)(map(_without_memory, x))
    return x if reader_of(x) is None else MockTensor(x.dtype)


def _tensors(x: Any) -> list[Any]:
    """The tensors of an argument: itself, those in a tuple, the one a descriptor is of."""
    from tritium.tensors import is_descriptor, reader_of

    if isinstance(x, tuple):
        return [tensor for part in x for tensor in _tensors(part)]
    return [x] if reader_of(x) is not None else [x.base] if is_descriptor(x) else []
