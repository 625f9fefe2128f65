"""A kernel that records its launches, one that runs, and what tunes them."""

import tritium as triton
import tritium.language as tl
from tritium.runtime.autotuner import Config, autotune
from tritium.runtime.jit import KernelInterface


class Recorder(KernelInterface):
    """A kernel that notes its launches; a launch costs what `cost[BLOCK]` says, or raises it."""

    def __init__(self, cost=None):
        self.arg_names = ["x", "n", "BLOCK", "EVEN"]
        self.cost = cost or {}
        self.launches, self.warmups = [], []

        def kernel(x, n, BLOCK, EVEN):
            pass

        self.fn = kernel

    def run(self, *args, **kwargs):
        cost = self.cost.get(kwargs.get("BLOCK"), 1.0)
        if isinstance(cost, Exception):
            raise cost
        self.launches.append((args, kwargs))
        self.last_cost = cost
        return "launched"

    def warmup(self, *args, **kwargs):
        self.warmups.append((args, kwargs))
        return f"kernel {kwargs['BLOCK']}"


def timer(kernel):
    """A benchmarker whose clock is the kernel's own cost."""

    def do_bench(fn, quantiles):
        assert quantiles == (0.5, 0.2, 0.8)
        fn()
        return [kernel.last_cost] * 3

    return do_bench


def tuner(kernel, blocks=(1, 2, 4), key=("n",), **options):
    configs = [Config({"BLOCK": b}) for b in blocks]
    return autotune(configs, list(key), do_bench=timer(kernel), **options)(kernel)


def launch(t, *args, **kwargs):
    return t.run(*args, grid=(1,), warmup=False, **kwargs)


@triton.jit
def double_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) * 2, mask=mask)
