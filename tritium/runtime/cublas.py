"""NVIDIA's products of matrices, to measure and check kernels against; torch calls them.

    >>> import pytest; torch = pytest.importorskip("torch")
    >>> a, b, c = torch.eye(2), torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.empty(2, 2)
    >>> CublasLt().matmul(a, b, c)
    >>> c.tolist()                                       # a times the transpose of b
    [[1.0, 3.0], [2.0, 4.0]]
"""

from __future__ import annotations

from typing import Any

__all__ = ["CublasLt"]


class CublasLt:
    """Products of A, of shape (M, K), with the transpose of B, of shape (N, K).

    The library's workspace is torch's; the one that is given here is kept and not used. On the CPU the product is that
    of torch, too.
    """

    def __init__(self, workspace: Any = None):
        self.workspace = workspace

    def matmul(self, A: Any, B: Any, C: Any) -> None:
        """C = A B^T."""
        self.gemm(A, B, C, C, 1.0, 0.0)

    def gemm(self, A: Any, B: Any, C: Any, D: Any, alpha: float, beta: float) -> None:
        """D = alpha A B^T + beta C, computed in float32; what C holds is not read where `beta` is 0."""
        _check(A, B, C, D)
        if alpha == 1 and beta == 0 and A.dtype == D.dtype:
            _torch().mm(A, B.t(), out=D)
            return
        found = _product(A, B).float() * alpha
        D.copy_(found + C.float() * beta if beta else found)


def _torch() -> Any:
    import torch

    return torch


def _check(A: Any, B: Any, C: Any, D: Any) -> None:
    shapes = [tuple(x.shape) for x in (A, B, C, D)]
    if A.dtype != B.dtype:
        raise ValueError(f"A and B must have one dtype, not {A.dtype} and {B.dtype}")
    if any(len(shape) != 2 for shape in shapes):
        raise ValueError(f"matrices have two axes, and these have the shapes {', '.join(map(str, shapes))}")
    (m, k), (n, other_k), *rest = shapes
    if k != other_k or any(shape != (m, n) for shape in rest):
        raise ValueError(f"A {(m, k)} times the transpose of B {(n, other_k)} does not fit {rest[-1]}: "
                         "B has a row for each column of the result")


def _product(a: Any, b: Any) -> Any:
    """A B^T in a type that holds it: 8-bit floats are multiplied as they are where the GPU can."""
    torch = _torch()
    if a.element_size() > 1:
        return torch.mm(a, b.t())
    if not a.is_cuda:
        return torch.mm(a.float(), b.float().t())
    one = torch.ones((), device=a.device)
    return torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.float32)
