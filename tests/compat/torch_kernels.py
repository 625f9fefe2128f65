"""The kernel that the checks of torch call between what torch compiles itself."""

import tritium as triton
import tritium.language as tl


@triton.jit
def scaled_sum(x, y, out, n, scale, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask) + scale * tl.load(y + i, mask=mask), mask=mask)
