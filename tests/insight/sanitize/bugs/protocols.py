"""Descriptors, tuning and waiting."""

import torch

import tritium as triton
import tritium.language as tl
from tests.insight.sanitize.bugs.collection import bug


@triton.jit
def describes(x, y, n, BLOCK: tl.constexpr):
    d = tl.make_tensor_descriptor(x, [4, n], [n, 1], [4, BLOCK])  # BUG
    v = d.load([0, 0])
    tl.store(y + tl.arange(0, 4)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :], v)


@bug("misaligned")
def stride_of_a_descriptor():
    describes[(1,)](torch.ones(4, 30), torch.zeros(4, 16), 30, BLOCK=16)


@bug("misaligned")
def base_of_a_descriptor():
    describes[(1,)](torch.ones(129)[1:], torch.zeros(4, 16), 32, BLOCK=16)


@triton.jit
def tuned_sum(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum(tl.load(x + i, mask=i < n)))  # BUG


@triton.jit
def tuned_in_place(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)  # BUG


def _tuned(kernel):
    configs = [triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})]
    return triton.autotune(configs, key=["n"], do_bench=lambda fn, quantiles: [fn() or 1.0] * 3)(kernel)


@bug("missing reset")
def sum_without_reset_to_zero():
    _tuned(tuned_sum)[lambda meta: (triton.cdiv(256, meta["BLOCK"]),)](torch.ones(256), torch.zeros(1), 256)


@bug("missing reset")
def update_without_restore_value():
    _tuned(tuned_in_place)[lambda meta: (triton.cdiv(256, meta["BLOCK"]),)](torch.ones(256), 256)


@triton.jit
def waits_for_nobody(flag, y):
    while tl.atomic_add(flag, 0) == 0:  # BUG
        pass
    tl.store(y, 1)


@bug("endless wait")
def nobody_sets_the_flag():
    waits_for_nobody[(1,)](torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32))


@triton.jit
def never_unlocked(lock, y):
    while tl.atomic_cas(lock, 0, 1) == 1:  # BUG
        pass
    tl.store(y + tl.program_id(0), 1)


@bug("endless wait")
def lock_is_never_released():
    never_unlocked[(2,)](torch.zeros(1, dtype=torch.int32), torch.zeros(2, dtype=torch.int32))
