"""The methods of tensors: functions of the language whose first parameter is the tensor."""

from __future__ import annotations

from . import core, standard
from .values import tensor

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

METHODS = {**{name: getattr(core, name) for name in BUILTINS}, **{name: getattr(standard, name) for name in LIBRARY},
           "to": core.cast}  # fmt: skip

for _name, _method in METHODS.items():
    setattr(tensor, _name, _method)
