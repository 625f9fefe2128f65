"""The kernels that the server launches."""

import tritium as triton
import tritium.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * columns + at
    x = tl.load(x_ptr + row, at < columns, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row, e / tl.sum(e, 0), at < columns)
