"""Attention as people write it, on an NVIDIA GPU: torch (cuDNN), Triton and tritium in one run.

    python benchmarks/gpu_attention.py [--rows forward,backward] [--json out.json] [--rounds 5]

Heads of 64, 128 and 256; pointers, descriptors and block pointers; causal or not; f16, bf16 and fp8; grouped heads,
scores changed in the kernel, sequences of different lengths; gradients. Timed as `gpu.py` does, 16K tokens of 2048
features, as FlashAttention's own benchmark has them. `--rest 1 --rounds 1` also pauses as that does: 30 calls after a
second's rest do not run into the power limit. Operations are 4 * heads * length^2 * D, half of it if causal,
and 2.5 times that for gradients. torch has no attention in fp8: its column is f16 there.
"""

from __future__ import annotations

import math
import sys

import gpu
import torch
import torch.nn.functional as F
from gpu import Row, rand
from torch.nn.attention import SDPBackend, sdpa_kernel

SIDES = gpu.sides("gpu_attention_kernels")
HALF, BF16, FP8 = torch.float16, torch.bfloat16, torch.float8_e5m2
BASE_2 = math.log2(math.e)
TOKENS, FEATURES = 16384, 2048
FORWARD = {  # head size -> tiles, warps, stages
    64: ((128, 64, 8, 3), (128, 128, 8, 2), (128, 64, 4, 3), (128, 128, 8, 3), (64, 64, 4, 3)),
    128: ((128, 128, 8, 2), (128, 64, 8, 3), (128, 64, 4, 3), (64, 64, 4, 3)),
    256: ((128, 64, 8, 2), (128, 32, 8, 3), (64, 64, 4, 2), (64, 32, 4, 3)),
}
NARROW = {64: (), 128: ((128, 128, 8, 3),), 256: ((128, 128, 8, 2),)}  # more of them, where elements have a byte
KEYS = {
    64: ((64, 128, 8, 2), (64, 64, 4, 3), (32, 128, 4, 3)),
    128: ((64, 128, 8, 2), (32, 128, 8, 3), (64, 64, 4, 3)),
}
QUERIES = {
    64: ((128, 64, 8, 2), (128, 64, 4, 2), (64, 64, 4, 3)),
    128: ((128, 64, 8, 2), (128, 32, 4, 3), (64, 64, 4, 3)),
}


TOGETHER = {
    64: ((64, 128, 8, 2), (128, 128, 8, 2), (64, 64, 4, 2), (32, 128, 8, 2)),
    128: ((64, 128, 8, 2), (32, 128, 8, 2), (32, 64, 4, 2)),
}


def configs(shapes, **more):
    return [dict(zip(("BLOCK_M", "BLOCK_N", "num_warps", "num_stages"), s), **more) for s in shapes]


def sdpa(q, k, v, **options):
    """torch's attention by cuDNN, or by what torch prefers where cuDNN has none."""
    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH], set_priority=True):
        return F.scaled_dot_product_attention(q, k, v, **options)


def forward(style, d, dtype=HALF, causal=False, length=TOKENS, group=1):
    """A row of one style; inputs in fp8 are rounded from halves, which torch's column multiplies."""
    batch, heads = TOKENS // length, FEATURES // d
    narrow = dtype == FP8
    q = rand(batch, heads, length, d, dtype=HALF if narrow else dtype)
    k, v = (rand(batch, heads // group, length, d, dtype=q.dtype) for _ in range(2))
    given = [q, k, v]
    if narrow:
        given = [t.to(FP8) for t in (q, k, v.mT.contiguous())]
        q, k = given[0].to(HALF), given[1].to(HALF)
        v = given[2].to(HALF).mT.contiguous()
    out = torch.empty_like(q)
    scale, options = BASE_2 / math.sqrt(d), dict(D=d, GROUP=group, CAUSAL=int(causal), V_ALONG_KEYS=narrow)

    def launch(kernels, BLOCK_M, **config):
        kernel = getattr(kernels, f"{style}_kernel")
        kernel[(length // BLOCK_M, batch * heads)](out, *given, scale, length, BLOCK_M=BLOCK_M, **options, **config)
        return out

    name = f"{style.replace('_', ' ')} {'fp8' if narrow else str(dtype)[6:]} {batch}x{heads}x{length}x{d}"
    name += ", causal" * causal + f", groups of {group}" * (group > 1)
    return Row(name, launch, lambda: sdpa(q, k, v, is_causal=causal, enable_gqa=group > 1),
               4 * batch * heads * length**2 * d / (1 + causal), "TFLOP/s", configs(FORWARD[d] + NARROW[d] * narrow),
               tolerance=1e-1 if narrow else 2e-2, long=True)  # fmt: skip


def rows_forward():
    for d in (64, 128, 256):
        for causal in (False, True):
            for style in ("pointer", "descriptor", "block_pointer"):
                yield forward(style, d, causal=causal)
    yield from (forward("pointer", d, causal=causal, length=4096) for d in (64, 128) for causal in (False, True))
    yield from (forward("pointer", d, BF16, causal=True) for d in (64, 128, 256))
    yield from (forward(style, d, causal=True, group=4) for style in ("pointer", "descriptor") for d in (64, 128))


def rows_fp8():
    for d in (64, 128, 256):
        for causal in (False, True):
            yield from (forward(style, d, FP8, causal) for style in ("pointer", "descriptor"))


def rows_scores(d=64, length=TOKENS, window=1024):
    heads = FEATURES // d
    q, k, v = (rand(1, heads, length, d, dtype=HALF) for _ in range(3))
    out, slopes = torch.empty_like(q), torch.exp2(-torch.arange(1.0, heads + 1, device="cuda") * 8 / heads)
    for kind, work in (("slopes", length / 2), ("softcap", length / 2), ("window", window)):

        def launch(kernels, BLOCK_M, kind=kind, **config):
            given = (q, k, v, slopes, BASE_2 / math.sqrt(d), length, window)
            kernels.score_kernel[(length // BLOCK_M, heads)](out, *given, D=d, KIND=kind, BLOCK_M=BLOCK_M, **config)
            return out

        def reference(kind=kind):
            """One head after the other: torch has no fused form."""
            made, at = torch.empty_like(q), torch.arange(length, device="cuda")
            for h in range(heads):
                s = (q[0, h].float() @ k[0, h].float().mT) * (BASE_2 / math.sqrt(d))
                s = s + slopes[h] * (at[None, :] - at[:, None]) if kind == "slopes" else s
                s = 30 * torch.tanh(s / 30) if kind == "softcap" else s
                far = (at[:, None] < at[None, :]) | ((at[:, None] - at[None, :] > window) & (kind == "window"))
                made[0, h] = torch.softmax(s.masked_fill_(far, -1e6) / BASE_2, 1).half() @ v[0, h]
            return made

        yield Row(f"{kind} f16 1x{heads}x{length}x{d}, causal", launch, reference, 4 * heads * length * work * d,
                  "TFLOP/s", configs(FORWARD[d]), tolerance=2e-2, long=True)  # fmt: skip


def rows_ragged(d=128):
    heads = FEATURES // d
    lengths = torch.tensor([4096, 117, 2048, 3001, 1024, 64, 5000, 1034])
    starts = torch.cat([torch.zeros(1), lengths.cumsum(0)]).to("cuda", torch.int32)
    q, k, v = (rand(int(lengths.sum()), heads, d, dtype=HALF) for _ in range(3))
    out = torch.empty_like(q)

    def launch(kernels, BLOCK_M, **config):
        kernels.ragged_kernel[(math.ceil(int(lengths.max()) / BLOCK_M), heads, len(lengths))](
            out, q, k, v, starts, BASE_2 / math.sqrt(d), heads, D=d, BLOCK_M=BLOCK_M, **config)  # fmt: skip
        return out

    def reference():
        parts = zip(*(t.split(lengths.tolist()) for t in (q, k, v)))
        return torch.cat([sdpa(*(t.transpose(0, 1)[None] for t in part), is_causal=True)[0].transpose(0, 1)
                          for part in parts])  # fmt: skip

    yield Row(f"ragged f16 8 sequences, {heads}x{d}, causal", launch, reference,
              2 * heads * d * int((lengths**2).sum()), "TFLOP/s", configs(FORWARD[d]), tolerance=2e-2,
              long=True)  # fmt: skip


def backward(d, causal, together, length=TOKENS):
    """Gradients by two kernels and seven products, or by one kernel and five, which adds to the queries' atomically."""
    heads, scale = FEATURES // d, BASE_2 / math.sqrt(d)
    q, k, v, do = (rand(1, heads, length, d, dtype=HALF) for _ in range(4))
    inputs = [t.detach().requires_grad_() for t in (q, k, v)]
    made = sdpa(*inputs, is_causal=causal)
    at = torch.arange(length, device="cuda")
    lse = torch.empty(heads, length, device="cuda")
    for h in range(heads):
        scores = (q[0, h].float() @ k[0, h].float().mT) / math.sqrt(d)
        lse[h] = torch.logsumexp(scores.masked_fill_((at[:, None] < at[None, :]) & causal, -math.inf), 1) * BASE_2
    delta, sums = torch.empty_like(lse), torch.empty(q.shape, device="cuda")
    dq, dk, dv = (torch.empty_like(q) for _ in range(3))
    inner, options = (q, k, v, do, lse, delta, scale, length), dict(D=d, CAUSAL=int(causal))
    grid = lambda block: (length // block, heads)

    def two(kernels, keys, queries):
        kernels.delta_kernel[(heads * length // 64,)](delta, made.detach(), do, D=d, BLOCK=64)
        kernels.keys_kernel[grid(keys["BLOCK_N"])](sums, dk, dv, *inner, TOGETHER=False, **options, **keys)
        kernels.queries_kernel[grid(queries["BLOCK_M"])](dq, *inner, **options, **queries)
        return dk

    def one(kernels, **config):
        kernels.delta_kernel[(heads * length // 64,)](delta, made.detach(), do, D=d, BLOCK=64)
        sums.zero_()
        kernels.keys_kernel[grid(config["BLOCK_N"])](sums, dk, dv, *inner, TOGETHER=True, **options, **config)
        torch.mul(sums, 1 / math.sqrt(d), out=dq)
        return dq

    pairs = [dict(keys=a, queries=b) for a in configs(KEYS[d]) for b in configs(QUERIES[d])]
    name = f"gradients {'together ' * together}f16 1x{heads}x{length}x{d}" + ", causal" * causal
    return Row(name, one if together else two,
               lambda: torch.autograd.grad(made, inputs, do, retain_graph=True)[0 if together else 1],
               10 * heads * length**2 * d / (1 + causal), "TFLOP/s", configs(TOGETHER[d]) if together else pairs,
               tolerance=2e-2, long=True)  # fmt: skip


def rows_backward():
    for together in (False, True):
        yield from (backward(d, causal, together) for d in (64, 128) for causal in (False, True))


GROUPS = {"forward": rows_forward, "fp8": rows_fp8, "scores": rows_scores, "ragged": rows_ragged,
          "backward": rows_backward}  # fmt: skip

if __name__ == "__main__":
    for side in filter(None, (gpu.tritium, gpu.triton)):
        side.set_allocator(lambda size, alignment, stream: torch.empty(size, device="cuda", dtype=torch.int8))
    sys.exit(gpu.main(GROUPS, SIDES, __doc__))
