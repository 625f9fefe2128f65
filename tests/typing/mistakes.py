"""Mistakes that a type checker finds by the stubs: each marked line has an error of that rule, and no other has one."""

import tritium as triton
import tritium.language as tl
from tritium.language.extra import libdevice


@triton.jit
def kernel(x_ptr, n, BLOCK: tl.constexpr):
    """Wrong in every line but the first."""
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    y = tl.sum(x, axs=0)  # reportCallIssue
    y = tl.zeros((BLOCK,))  # reportCallIssue
    y = tl.loadd(x_ptr)  # reportAttributeAccessIssue
    y = x.tolist()  # reportAttributeAccessIssue
    y = x**2  # reportOperatorIssue
    y = x.to("fp32")  # reportArgumentType
    y = x.sum(axis="rows")  # reportArgumentType
    y = tl.float32.bitwidth  # reportAttributeAccessIssue
    y = libdevice.tanhf(x)  # reportAttributeAccessIssue
    tl.store(x_ptr + y)  # reportCallIssue


tuned = triton.autotune(configs=[triton.Config({}, num_warp=8)], key=["n"])(kernel)  # reportCallIssue
tuned.best_configuration  # reportAttributeAccessIssue
kernel.cachekey  # reportAttributeAccessIssue
triton.next_power_of_two(3)  # reportAttributeAccessIssue
triton.knobs.runtime.interpreted  # reportAttributeAccessIssue
