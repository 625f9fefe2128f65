"""Cross-entropy of logits against class indices, with the gradient computed in the same pass over the logits."""

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays, checks
from tritium.kernels.registry import Kernel, nbytes, normal


@triton.jit
def cross_entropy_kernel(logits_ptr, target_ptr, loss_ptr, grad_ptr, stride, classes, ignore, BLOCK: tl.constexpr):
    """One row per program, in blocks: a running maximum and sum first, then the gradient if `grad_ptr` is not None."""
    row = tl.program_id(0)
    logits_ptr += row.to(tl.int64) * stride
    target = tl.load(target_ptr + row)
    top = -float("inf")
    total = 0.0
    for start in range(0, classes, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + columns, mask=columns < classes, other=-float("inf")).to(tl.float32)
        grown = tl.maximum(top, tl.max(x, axis=0))
        total = total * tl.exp(top - grown) + tl.sum(tl.exp(x - grown), axis=0)
        top = grown
    log_sum = top + tl.log(total)
    counts = target != ignore
    # A target that is no class has no loss: the result says so.
    picked = tl.load(logits_ptr + target, mask=(target >= 0) & (target < classes), other=float("nan")).to(tl.float32)
    tl.store(loss_ptr + row, tl.where(counts, log_sum - picked, 0.0))
    if grad_ptr is not None:
        grad_ptr += row.to(tl.int64) * stride
        for start in range(0, classes, BLOCK):
            columns = start + tl.arange(0, BLOCK)
            x = tl.load(logits_ptr + columns, mask=columns < classes, other=-float("inf")).to(tl.float32)
            grad = tl.exp(x - log_sum) - tl.where(columns == target, 1.0, 0.0)
            tl.store(grad_ptr + columns, tl.where(counts, grad, 0.0), mask=columns < classes)


def cross_entropy(logits, target, with_gradient: bool = False, ignore: int = -100, block: int = 1024):
    """(loss of each row, gradient of their sum or None); a row whose target is `ignore` has none.

    The loss of a row whose target is no class is NaN.

    >>> loss, _ = cross_entropy(np.zeros((1, 4), np.float32), np.array([2]))
    >>> bool(np.allclose(loss, np.log(4)))
    True
    """
    rows, classes = checks.arguments("cross_entropy", logits=(logits, "M N"),
                                     target=(target, "M: int32 int64")).values()
    if classes == 0:
        raise ValueError(f"cross_entropy: logits has the shape {tuple(logits.shape)}; it must have a column.")
    logits, target = arrays.contiguous(logits), arrays.contiguous(target)
    loss = arrays.empty(logits, (rows,), "float32")
    grad = arrays.empty(logits) if with_gradient else None
    cross_entropy_kernel[(rows,)](logits, target, loss, grad, arrays.strides(logits)[0], classes, ignore,
                                  BLOCK=min(block, triton.next_power_of_2(classes)))
    return loss, grad


def reference(logits, target, ignore=-100):
    """The same in NumPy: (loss, gradient)."""
    counts = target != ignore
    at = np.where(counts, target, 0)
    shifted = logits - logits.max(1, keepdims=True)
    log_sum = np.log(np.exp(shifted).sum(1, keepdims=True))
    rows = np.arange(len(target))
    loss = np.where(counts, log_sum[:, 0] - shifted[rows, at], 0)
    grad = np.exp(shifted - log_sum)
    grad[rows, at] -= 1
    return loss, grad * counts[:, None]


def _make(size, dtype, device):
    target = np.random.default_rng(1).integers(0, size, size)
    return normal((size, size), dtype, device), arrays.like_device(target, device), True


KERNELS = (Kernel(
    "cross_entropy", cross_entropy, lambda logits, target, _: reference(logits, target), _make,
    bytes=lambda logits, target, _: 3 * nbytes(logits) + nbytes(target),
    flops=lambda logits, *_: 8 * arrays.numel(logits), group="cross entropy", title="cross entropy with gradient",
    size_is="rows and classes", scenario="S22", sizes={"cpu": 1024, "cuda": 8192}, jit=(cross_entropy_kernel,),
    main=0),)
