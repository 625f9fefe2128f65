"""A builder to call the language with, outside of any kernel's text."""

from types import SimpleNamespace

from tritium.frontend.lower import KernelBuilder
from tritium.frontend.scope import Frame, function_of
from tritium.ir import types as T
from tritium.language.source import device
from tritium.language.values import tensor


@device
def nothing():
    """The kernel that the builder is said to be in."""
    return


class Bench(KernelBuilder):
    """A kernel under construction, with tensors of any type to try the language on."""

    def __init__(self, target=None, **options):
        defaults = dict(num_warps=4, num_stages=3, num_ctas=1, debug=False, sanitize_overflow=True, enable_fp_fusion=True)
        super().__init__(nothing, SimpleNamespace(**{**defaults, **options}), target)
        function = function_of(nothing)
        self.frame = Frame(function, {}, is_kernel=True)
        self.at(function.node)

    def tile(self, kind, *shape):
        """A tensor of an IR element type (or its name) that nothing is known of; without a shape, a scalar."""
        kind = T.parse_type(kind) if isinstance(kind, str) else kind
        return tensor(self.argument(T.with_shape(kind, shape)))


def target(backend, arch, warp_size=32):
    """What a builder knows of the machine it compiles for."""
    return SimpleNamespace(backend=backend, arch=arch, warp_size=warp_size)


def element(value):
    """The name of a tensor's IR element type."""
    return str(T.element(value.handle.type))
