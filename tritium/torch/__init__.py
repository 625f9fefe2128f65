"""Kernels as operators of PyTorch. Importing this imports torch, and gives it the kernels of `tritium.kernels`.

    >>> import torch, tritium.torch
    >>> x = torch.randn(2, 8, requires_grad=True)
    >>> torch.ops.tritium.softmax(x).sum(1).round(decimals=4)
    tensor([1., 1.], grad_fn=<RoundBackward1>)

`operator` makes an operator of a function of yours that launches kernels: docs/operators.md. What works on several
devices together is in `sharding`, `parallel` and `tuning`: docs/distributed.md.
"""

from tritium.torch.library import OPERATORS, register
from tritium.torch.operator import operator

__all__ = ["OPERATORS", "operator"]

register()
