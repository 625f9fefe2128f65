"""A builder to call the language with, outside of any kernel's text."""

from types import SimpleNamespace

import numpy as np

import tritium.language as tl
from tritium.frontend.lower import KernelBuilder
from tritium.frontend.scope import Frame, function_of
from tritium.interp.eager import Datum, EagerBuilder
from tritium.interp.machine import Machine, interpret
from tritium.ir import types as T
from tritium.ir.core import Module
from tritium.language.source.function import device
from tritium.language.types.values import flatten, tensor
from tritium.ops.meaning import np_dtype


@device
def nothing():
    """The kernel that the builder is said to be in."""
    return


class Bench(KernelBuilder):
    """A kernel under construction, with tensors of any type to try the language on."""

    def __init__(self, target=None, **options):
        defaults = dict(num_warps=4, num_stages=3, num_ctas=1, debug=False, sanitize_overflow=True,
                        enable_fp_fusion=True, sanitized=False)
        super().__init__(nothing, SimpleNamespace(**{**defaults, **options}), target)
        function = function_of(nothing)
        self.frame = Frame(function, {}, is_kernel=True)
        self.at(function.node)

    def tile(self, kind, *shape):
        """A tensor of an IR element type (or its name) that nothing is known of; without a shape, a scalar."""
        kind = T.parse_type(kind) if isinstance(kind, str) else kind
        return tensor(self.argument(T.with_shape(kind, shape)))


class EagerBench(EagerBuilder):
    """The same for kernels that run as plain Python: tensors of ones."""

    def __init__(self):
        super().__init__(Machine(), nothing)

    def tile(self, kind, *shape):
        """A tensor of ones (address 1 for pointers)."""
        kind = T.parse_type(kind) if isinstance(kind, str) else kind
        return tensor(Datum(T.with_shape(kind, shape), np.ones(shape, np_dtype(kind))))


def target(backend, arch, warp_size=32):
    """What a builder knows of the machine it compiles for."""
    return SimpleNamespace(backend=backend, arch=arch, warp_size=warp_size)


def element(value):
    """The name of a tensor's IR element type."""
    return str(T.element(value.handle.type))


KIND_OF = {np_dtype(kind): kind for kind in T.SCALARS.values() if kind is not T.f8e4b15}


def evaluate(fn, *inputs, **constants):
    """What the interpreter computes: `fn` is a function of the language, or of a builder and tensors.

    Arrays become tensors (0-d ones scalars); other inputs are passed on. Gives one array, or a tuple of them.
    """
    b = Bench()
    arrays = [np.array(x, order="C") for x in inputs if isinstance(x, (np.ndarray, np.generic))]
    pointers = [tensor(b.argument(T.Ptr(KIND_OF[x.dtype]))) for x in arrays]
    loaded = iter([tl.load.fn(b, _row_major(b, p, x.shape)) for p, x in zip(pointers, arrays)])
    args = [next(loaded) if isinstance(x, (np.ndarray, np.generic)) else x for x in inputs]
    result = b.call(fn, args, constants) if hasattr(fn, "fn") else fn(b, *args, **constants)
    outs = [tensor(handle) for handle in flatten(result)[0]]
    targets = [np.zeros(out.shape, np_dtype(out.handle.type)) for out in outs]
    for out in outs:
        pointer = tensor(b.argument(T.Ptr(T.element(out.handle.type))))
        tl.store.fn(b, _row_major(b, pointer, out.shape), out)
    interpret(Module("k", b.finish()), [*arrays, *targets], (1,))
    return tuple(targets) if isinstance(result, tuple) else targets[0]


def _row_major(b, pointer, shape):
    """Pointers to the elements of an array, in its shape."""
    if not shape:
        return pointer
    flat = tl.arange.fn(b, 0, int(np.prod(shape)))
    return tl.reshape.fn(b, tl.add.fn(b, pointer, flat), list(shape))
