"""Cross-entropy of logits against class indices, with the gradient computed in the same pass over the logits."""

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays


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
    picked = tl.load(logits_ptr + target, mask=counts, other=0.0).to(tl.float32)
    tl.store(loss_ptr + row, tl.where(counts, log_sum - picked, 0.0))
    if grad_ptr is not None:
        grad_ptr += row.to(tl.int64) * stride
        for start in range(0, classes, BLOCK):
            columns = start + tl.arange(0, BLOCK)
            x = tl.load(logits_ptr + columns, mask=columns < classes, other=-float("inf")).to(tl.float32)
            grad = tl.exp(x - log_sum) - tl.where(columns == target, 1.0, 0.0)
            tl.store(grad_ptr + columns, tl.where(counts, grad, 0.0), mask=columns < classes)


def cross_entropy(logits, target, with_gradient: bool = False, ignore: int = -100, block: int = 1024):
    """(loss of each row of contiguous logits, gradient of their sum or None); a row whose target is `ignore` has none.

    >>> loss, _ = cross_entropy(np.zeros((1, 4), np.float32), np.array([2]))
    >>> bool(np.allclose(loss, np.log(4)))
    True
    """
    rows, classes = logits.shape
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
