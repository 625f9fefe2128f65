"""The methods of tensors: functions of the language whose first parameter is the tensor."""

from __future__ import annotations

import functools

from tritium.ir import types as T

from .. import core, standard
from ..types.values import tensor
from .calling import Builtin
from .casting import convert

BUILTINS = """
    cast broadcast_to trans permute split view reshape expand_dims item store advance atomic_cas atomic_xchg atomic_add
    atomic_load atomic_store
    atomic_max atomic_min atomic_and atomic_or atomic_xor exp exp2 log log2 cos sin sqrt sqrt_rn rsqrt abs erf floor
    ceil
    reduce associative_scan gather histogram logical_and logical_or
""".split()
LIBRARY = """
    cdiv sigmoid softmax ravel max argmax min argmin sum xor_sum reduce_or cumsum cumprod flip sort atomic_poll
""".split()

# As methods, these take 16-bit floats too: computed in f32 and rounded back.
MATH = "exp exp2 log log2 cos sin sqrt rsqrt erf floor ceil".split()


def _of_narrow_floats(function):
    @functools.wraps(function.fn)
    def run(b, x):
        kind = T.element(x.handle.type)
        if kind is not T.f16 and kind is not T.bf16:
            return function.fn(b, x)
        return convert(b, function.fn(b, convert(b, x, T.f32)), kind)

    return Builtin(run, function.name)


METHODS = {**{name: getattr(core, name) for name in BUILTINS}, **{name: getattr(standard, name) for name in LIBRARY},
           "to": core.cast, **{name: _of_narrow_floats(getattr(core, name)) for name in MATH}}  # fmt: skip

for _name, _method in METHODS.items():
    setattr(tensor, _name, _method)
