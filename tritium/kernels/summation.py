"""The sum of all elements, a tile per program and step.

On a GPU the programs stride through the array together, and each adds its sum to the result by one atomic addition. On
a CPU each program has a share to itself, which it walks in order, as a core reads ahead; the same kernel then sums what
they found. The shares depend on the size of the array alone: any number of threads gives the same result.
"""

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays, checks
from tritium.kernels.registry import Kernel, nbytes, normal

SHARE = 1 << 15  # elements that are worth a program of a CPU
SHARES = 256  # about as many at most: one more program sums what they found
MOST = 2 * SHARES


@triton.jit
def sum_kernel(x_ptr, out_ptr, n, share, BLOCK: tl.constexpr):
    """Each program keeps BLOCK partial sums until its end. With no share, all add to one result."""
    program = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    if share is None:
        offsets += program * BLOCK
        first, last, step = 0, n, tl.num_programs(0) * BLOCK
    else:
        first, step = program * share, BLOCK
        last = first + tl.minimum(share, n - first)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(first, last, step):
        at = start + offsets
        total += tl.load(x_ptr + at, mask=at < last, other=0.0).to(tl.float32)
    if share is None:
        tl.atomic_add(out_ptr, tl.sum(total), sem="relaxed")
    else:
        tl.store(out_ptr + program, tl.sum(total))


def sum_of(x, block: int = 4096, programs: int | None = None, shares: bool | None = None):
    """The float32 sum of an array, as an array of one element.

    With `shares`, the default on a CPU, each program has a part of the array, and the result is always the same.
    Without, programs stride through it together, and their sums are added in the order of their arrival.

    >>> import numpy as np
    >>> sum_of(np.arange(100, dtype=np.float32))
    array([4950.], dtype=float32)
    """
    n = checks.count("sum_of", x)
    numpy = isinstance(x, np.ndarray)
    x = arrays.contiguous(x)
    if shares is None:
        shares = numpy or not x.is_cuda
    if not shares:
        programs = 8 * arrays.multiprocessors(x) if programs is None else programs
        out = arrays.zeros(x, (1,), "float32")
        sum_kernel[(min(programs, triton.cdiv(n, block)),)](x, out, n, None, BLOCK=block)
        return out
    if programs is None:
        share = SHARE if n <= SHARE * SHARES else triton.next_power_of_2(n // SHARES)
    else:
        share = triton.cdiv(max(n, 1), programs * block) * block
    out = np.empty(1, np.float32) if numpy else x.new_empty(1, dtype=arrays.torch_dtype("float32"))
    if n <= share:
        sum_kernel[(1,)](x, out, n, share, BLOCK=block)
        return out
    programs = (n + share - 1) // share
    kept = type(programs) is int and programs <= MOST and (numpy or x.is_cpu)
    parts = _kept_parts() if kept else arrays.scratch(x, programs)
    sum_kernel[(programs,)](x, parts, n, share, BLOCK=block)
    sum_kernel[(1,)](parts, out, programs, programs, BLOCK=SHARES)
    if kept:
        _parts.append(parts)
    return out


# Arrays for MOST sums, as many as calls were at work at once: after a kernel that has read megabytes, the code that
# makes an array is cold.
_parts: list[np.ndarray] = []


def _kept_parts() -> np.ndarray:
    try:
        return _parts.pop()
    except IndexError:  # the first call, or another thread has it
        return np.empty(MOST, np.float32)


def reference(x):
    """The same in NumPy."""
    return x.sum(keepdims=True).reshape(1)


def _make(size, dtype, device):
    return (abs(normal((size,), dtype, device)),)  # of one sign: a sum near zero would have a large relative error


KERNELS = (Kernel(
    "sum", sum_of, reference, _make, bytes=lambda x: nbytes(x), flops=lambda x: arrays.numel(x),
    group="reduction", title="sum", size_is="elements", scenario="S20", sizes={"cpu": 1 << 20, "cuda": 1 << 26},
    jit=(sum_kernel,), rival=lambda torch, x: x.sum(dtype=torch.float32)),)
