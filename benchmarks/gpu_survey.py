"""Triton and tritium on kernels that training and serving code is made of, side by side in one run on an NVIDIA GPU.

    python benchmarks/gpu_survey.py [--rows products,attention] [--json out.json] [--rounds 7]

Timed as `gpu.py` does. torch's column is its own operator where it has one, else the same in plain operations; where a
gradient is known beforehand, it is only copied.
"""

from __future__ import annotations

import math
import sys

import gpu
import torch
import torch.nn.functional as F
from gpu import Row, rand

SIDES = gpu.sides("gpu_survey_kernels")
for name, loops in gpu.sides("gpu_loop_kernels").items():
    SIDES[name].cross_entropy_kernel = loops.cross_entropy_kernel
HALF, BF16, FP8, I32 = torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.int32
PROGRAMS = torch.cuda.get_device_properties(0).multi_processor_count if torch.cuda.is_available() else 1
BASE_2 = math.log2(math.e)


def row(name, out, args, grid, reference, work, unit, configs, kernel=None, clear=False, **options):
    """A row whose kernel takes its results first; the first of them is compared."""
    outs = out if isinstance(out, tuple) else (out,)
    kernel = f"{kernel or name.split()[0].replace('-', '_')}_kernel"

    def launch(k, **config):
        if clear:
            outs[0].zero_()
        getattr(k, kernel)[grid(config)](*outs, *args, **config)
        return outs[0]

    return Row(name, launch, reference, work, unit, configs, **options)


def empty(*shape, dtype=torch.float32):
    return torch.empty(*shape, device="cuda", dtype=dtype)


def integers(low, high, *shape, dtype=I32):
    return torch.randint(low, high, shape, device="cuda", dtype=dtype)


def choices(names, *values):
    """Configurations: the values of `names`, in order."""
    return [dict(zip(names.split(), v)) for v in values]


# --- one pass over memory ---------------------------------------------------------------------------------------------
BLOCKS = choices("BLOCK num_warps", (1024, 4), (2048, 8), (4096, 8))


def over(n):
    """The grid of a pass over n elements."""
    return lambda config: (math.ceil(n / config["BLOCK"]),)


def swiglu(n=2**27):
    x, y = rand(n, dtype=BF16), rand(n, dtype=BF16)
    yield row("swiglu bf16 2^27", torch.empty_like(x), (x, y, n), over(n), lambda: F.silu(x) * y, 6 * n, "GB/s", BLOCKS,
              tolerance=2e-2)  # fmt: skip


def gelu(n=2**27):
    x = rand(n, dtype=BF16)
    yield row("gelu bf16 2^27", torch.empty_like(x), (x, n), over(n), lambda: F.gelu(x), 4 * n, "GB/s", BLOCKS,
              tolerance=2e-2)  # fmt: skip


class Share:
    """The part of a tensor's elements that are not zero, counted only when it is asked for."""

    def __init__(self, tensor):
        self.tensor, self.dtype = tensor, tensor.dtype

    def numel(self):
        return self.tensor.numel()

    def fill_(self, value):
        self.tensor.fill_(value)

    def float(self):
        return self.tensor.ne(0).float().mean()


def dropout(n=2**27):
    """torch draws other numbers, so what is compared is how many elements are kept."""
    x = rand(n, dtype=BF16)
    out = torch.empty_like(x)

    def launch(k, BLOCK, **options):
        k.dropout_kernel[(math.ceil(n / BLOCK),)](out, x, n, 0.5, 1234, BLOCK=BLOCK, **options)
        return Share(out)

    yield Row("dropout bf16 2^27", launch, lambda: Share(F.dropout(x, 0.5)), 4 * n, "GB/s", BLOCKS, tolerance=1e-2)


def adamw(n=2**25):
    p, g, m, v = (rand(n) for _ in range(4))
    v.abs_()
    made = tuple(torch.empty_like(p) for _ in range(3))
    lr, b1, b2, eps, decay = 1e-2, 0.9, 0.99, 1e-8, 0.1

    def reference():
        new = torch.lerp(m, g, 1 - b1)
        return p * (1 - lr * decay) - lr * (new * 1.25) / (torch.sqrt((b2 * v + (1 - b2) * g * g) * 1.5) + eps)

    yield row("adamw f32 2^25", made, (p, g, m, v, lr, b1, b2, eps, decay, 1.25, 1.5, n), over(n), reference, 28 * n,
              "GB/s", BLOCKS)  # fmt: skip


def rotary(batch=8, length=4096, heads=32, half=64):
    q = rand(batch * length, heads, 2 * half, dtype=BF16)
    angle = torch.rand(length, half, device="cuda") * 6
    cos, sin = angle.cos(), angle.sin()

    def reference():
        c, s = (t.repeat(batch, 1)[:, None] for t in (cos, sin))
        x, y = q.float().chunk(2, -1)
        return torch.cat((x * c - y * s, y * c + x * s), -1)

    yield row("rotary bf16 32768x32x128", torch.empty_like(q), (q, cos, sin, length), lambda c: (batch * length,),
              reference, 4 * q.numel(), "GB/s", [dict(HEADS=heads, HALF=half, num_warps=w) for w in (4, 8)],
              tolerance=2e-2)  # fmt: skip


def permute(batch=8, length=4096, heads=32, d=128):
    x = rand(batch, length, heads, d, dtype=BF16)
    yield row("permute bf16 8x4096x32x128", empty(batch, heads, length, d, dtype=BF16), (x, length, heads),
              lambda c: (math.ceil(length / c["BLOCK"]), batch * heads), lambda: x.transpose(1, 2).contiguous(),
              4 * x.numel(), "GB/s", choices("D BLOCK num_warps", (d, 32, 4), (d, 64, 4), (d, 128, 8)),
              tolerance=0)  # fmt: skip


def embedding(words=32000, d=1024, n=65536):
    table, ids, x = rand(words, d, dtype=BF16), integers(0, words, n, dtype=torch.int64), rand(n, d)
    configs = choices("D ROWS num_warps", (d, 1, 4), (d, 4, 4), (d, 4, 8))
    grid = lambda c: (math.ceil(n / c["ROWS"]),)
    yield row("embedding bf16 65536x1024", empty(n, d, dtype=BF16), (ids, table, n), grid,
              lambda: F.embedding(ids, table), 4 * n * d, "GB/s", configs, tolerance=0)  # fmt: skip
    total = empty(words, d)
    sums = lambda: torch.zeros_like(total).index_add_(0, ids, x)
    yield row("scatter-add f32 65536x1024", total, (ids, x, n), grid, sums, 8 * n * d, "GB/s", configs, clear=True)


def histogram(n=2**26):
    x = integers(0, 256, n)
    yield row("histogram i32 2^26", empty(256, dtype=I32), (x, n), over(n), lambda: torch.bincount(x, minlength=256),
              4 * n, "GB/s", choices("BINS BLOCK num_warps", (256, 4096, 4), (256, 8192, 8), (256, 16384, 8)),
              clear=True, tolerance=0)  # fmt: skip


# --- rows -------------------------------------------------------------------------------------------------------------
def layer_norm(m=8192, n=4096):
    x, dy, w, b = rand(m, n, dtype=BF16), rand(m, n, dtype=BF16), rand(n), rand(n)
    yield row("layer-norm bf16 8192x4096", (torch.empty_like(x), empty(m), empty(m)), (x, w, b, n, n, 1e-5),
              lambda c: (m,), lambda: F.layer_norm(x.float(), (n,), w, b), 4 * m * n, "GB/s", BLOCKS,
              tolerance=2e-2)  # fmt: skip
    mean, rstd = x.float().mean(1), 1 / (x.float().var(1, unbiased=False) + 1e-5).sqrt()
    parts = empty(m // 16, n)

    def backward():
        hat, wdy = (x.float() - mean[:, None]) * rstd[:, None], w * dy.float()
        return (wdy - hat * (hat * wdy).mean(1, keepdim=True) - wdy.mean(1, keepdim=True)) * rstd[:, None]

    yield row("layer-norm backward bf16 8192x4096", (torch.empty_like(x), parts, torch.empty_like(parts)),
              (dy, x, w, mean, rstd, n, m, n), lambda c: (m // 16,), backward, 6 * m * n, "GB/s",
              choices("ROWS BLOCK num_warps", (16, n, 4), (16, n, 8), (16, n, 16)), "layer_norm_backward",
              tolerance=2e-2)  # fmt: skip


def cross_entropy(m=4096, n=50257):
    x, labels = rand(m, n, dtype=BF16), integers(0, n, m, dtype=torch.int64)
    yield row("cross-entropy bf16 4096x50257", empty(m), (x, labels, n), lambda c: (m,),
              lambda: F.cross_entropy(x.float(), labels, reduction="none"), 2 * m * n, "GB/s",
              choices("BLOCK num_warps", (2048, 4), (4096, 8), (8192, 8)))  # fmt: skip


def along_rows(m=8192, n=4096):
    x, y = rand(m, n, dtype=BF16), rand(m, n)
    each, configs = lambda c: (m,), choices("BLOCK num_warps", (n, 4), (n, 8), (n, 16))
    quantized = lambda: (x / (x.abs().amax(1, keepdim=True).float() / 448)).to(FP8)
    yield row("quantize bf16 to fp8 8192x4096", (empty(m, n, dtype=FP8), empty(m)), (x, n), each, quantized, 3 * m * n,
              "GB/s", configs, tolerance=7e-2)  # fmt: skip
    yield row("cumsum f32 8192x4096", torch.empty_like(y), (y, n), each, lambda: y.cumsum(1), 8 * m * n, "GB/s",
              configs)  # fmt: skip
    yield row("argmax f32 8192x4096", empty(m, dtype=torch.int64), (y, n), each, lambda: y.argmax(1), 4 * m * n, "GB/s",
              configs, tolerance=0)  # fmt: skip


def sort(m=8192, n=1024):
    x = rand(m, n)
    yield row("sort f32 8192x1024", torch.empty_like(x), (x,), lambda c: (m,), lambda: x.sort(1).values, 8 * m * n,
              "GB/s", choices("N num_warps", (n, 1), (n, 2), (n, 4), (n, 8)), tolerance=0)  # fmt: skip


def group_norm(batch=32, channels=320, space=4096, groups=32):
    x, w, b = rand(batch, channels, space, dtype=HALF), rand(channels), rand(channels)
    each = channels // groups
    yield row("group-norm f16 32x320x4096", torch.empty_like(x), (x, w, b, groups, space, 1e-5),
              lambda c: (batch * groups,), lambda: F.group_norm(x.float(), groups, w, b), 4 * x.numel(), "GB/s",
              choices("PER_GROUP ROWS BLOCK num_warps", (each, 16, space, 8), (each, 16, space, 16)),
              tolerance=1e-2)  # fmt: skip


def recurrence(batch=8, length=4096, d=2048):
    a, b = torch.rand(batch, length, d, device="cuda"), rand(batch, length, d)

    def reference():
        h, out = torch.zeros(batch, d, device="cuda"), []
        for t in range(length):
            h = a[:, t] * h + b[:, t]
            out.append(h)
        return torch.stack(out, 1)

    yield row("recurrence f32 8x4096x2048", torch.empty_like(a), (a, b, length, d),
              lambda c: (d // c["BLOCK_D"], batch), reference, 12 * a.numel(), "GB/s",
              choices("BLOCK_L BLOCK_D num_warps", (64, 32, 4), (128, 32, 4), (64, 64, 4)))  # fmt: skip


def causal_conv(batch=8, length=4096, d=2048):
    x, w, b = rand(batch, length, d, dtype=BF16), rand(d, 4, dtype=BF16), rand(d)
    conv = lambda: F.silu(F.conv1d(x.float().mT, w.float()[:, None], b, padding=3, groups=d)[..., :length]).mT
    yield row("causal-conv bf16 8x4096x2048", torch.empty_like(x), (x, w, b, length, d),
              lambda c: (d // c["BLOCK_D"], length // c["BLOCK_L"], batch), conv, 4 * x.numel(), "GB/s",
              choices("BLOCK_L BLOCK_D num_warps", (16, 128, 4), (32, 128, 4), (16, 256, 4)),
              tolerance=2e-2)  # fmt: skip


def matvec(m=16384, n=8192):
    a, x = rand(m, n, dtype=HALF), rand(n, dtype=HALF)
    yield row("matvec f16 16384x8192", empty(m), (a, x, m, n), lambda c: (math.ceil(m / c["BLOCK_M"]),), lambda: a @ x,
              2 * m * n, "GB/s",
              choices("BLOCK_M BLOCK_K num_warps", (4, 512, 4), (8, 512, 4), (16, 256, 4), (1, 2048, 4)))  # fmt: skip


# --- products ---------------------------------------------------------------------------------------------------------
TILES = "BLOCK_M BLOCK_N BLOCK_K num_warps num_stages"
HALVES = choices(TILES, (128, 256, 64, 8, 3), (128, 128, 64, 8, 3), (128, 128, 64, 4, 4))
BYTES = choices(TILES, (128, 256, 128, 8, 3), (128, 128, 128, 8, 3), (128, 128, 128, 4, 4))
LONG = dict(unit="TFLOP/s", long=True, tolerance=1e-2)


def with_(configs, **more):
    return [config | more for config in configs]


def all_tiles(m, n):
    """The grid of one program for each tile of a result."""
    return lambda c: (math.ceil(m / c["BLOCK_M"]) * math.ceil(n / c["BLOCK_N"]),)


def linear(m=4096, n=4096, k=4096):
    x, w, b, r = rand(m, k, dtype=HALF), rand(n, k, dtype=HALF) / 64, rand(n, dtype=HALF), rand(m, n, dtype=HALF)
    yield row("linear f16 4096, bias, gelu, residual", torch.empty_like(r), (x, w, b, r, m, n, k), all_tiles(m, n),
              lambda: F.gelu(F.linear(x, w, b)) + r, 2 * m * n * k, configs=HALVES, **LONG)  # fmt: skip


def batched(count=128, n=512):
    a, b = rand(count, n, n, dtype=HALF), rand(count, n, n, dtype=HALF)
    yield row("batched f16 128x512x512x512", torch.empty_like(a), (a, b, n, n, n),
              lambda c: (n // c["BLOCK_M"], n // c["BLOCK_N"], count), lambda: a @ b, 2 * count * n**3, configs=HALVES,
              **LONG)  # fmt: skip


def split_k(n=4096, k=8192):
    b = rand(k, n, dtype=HALF) / 64
    for m in (16, 64):
        a = rand(m, k, dtype=HALF)
        configs = choices(TILES, (m, 64, 128, 4, 3), (m, 128, 64, 4, 4), (m, 32, 128, 4, 4))
        yield row(f"split-k f16 {m}x4096x8192", empty(m, n), (a, b, m, n, k),
                  lambda c: (n // c["BLOCK_N"], 1, c["SPLIT"]), lambda a=a: a @ b, 2 * m * n * k,
                  configs=with_(configs, SPLIT=4) + with_(configs, SPLIT=8), clear=True, **LONG)  # fmt: skip


def int8(n=4096):
    a, b = (integers(-127, 128, n, n, dtype=torch.int8) for _ in range(2))
    sa, sb = torch.rand(n, device="cuda") / 4096, torch.rand(n, device="cuda")
    yield row("int8 4096, scaled rows", empty(n, n, dtype=HALF), (a, b, sa, sb, n, n, n), all_tiles(n, n),
              lambda: torch._int_mm(a, b.t()).float() * sa[:, None] * sb, 2 * n**3, configs=BYTES, **LONG)  # fmt: skip


def block_scaled(n=4096, size=128):
    a, b = rand(n, n).to(FP8), rand(n, n).to(FP8)
    sa, sb = torch.rand(n, n // size, device="cuda"), torch.rand(n // size, n // size, device="cuda")

    def reference():
        left = a.float().view(n, -1, size) * sa[..., None]
        right = b.float().view(n // size, size, -1, size) * sb[:, None, :, None]
        return left.view(n, n) @ right.view(n, n).t()

    configs = choices(TILES, (128, 128, 128, 8, 3), (128, 128, 128, 4, 4), (64, 128, 128, 4, 4))
    yield row("block-scaled fp8 4096", empty(n, n, dtype=BF16), (a, b, sa, sb, n, n, n), all_tiles(n, n), reference,
              2 * n**3, configs=with_(configs, GROUP=size), **LONG)  # fmt: skip


def int4(n=8192, size=128):
    q, zero = integers(-(2**31), 2**31, n // 8, n), integers(0, 16, n // size, n)
    scale = torch.rand(n // size, n, device="cuda", dtype=HALF) / 256
    nibbles = torch.stack([(q >> 4 * i) & 15 for i in range(8)], 1).view(-1, size, n)
    weights = ((nibbles - zero[:, None]) * scale[:, None]).view(n, n).to(HALF)
    for m in (16, 128):
        a = rand(m, n, dtype=HALF)
        configs = choices(TILES, (m, 64, 64, 4, 3), (m, 128, 64, 4, 4), (m, 64, 128, 4, 3), (m, 32, 128, 4, 4))
        yield row(f"int4 weights {m}x8192x8192", empty(m, n, dtype=HALF), (a, q, scale, zero, m, n, n),
                  lambda c: (n // c["BLOCK_N"], 1), lambda a=a: a @ weights, 2 * m * n * n,
                  configs=with_(configs, GROUP=size), **LONG)  # fmt: skip


def grouped(n=4096, k=2048):
    sizes = [307, 1945, 1024, 512, 2252, 102, 1433, 1024, 716, 1331, 921, 1126, 1638, 409, 1075, 614]
    ends = torch.tensor(sizes, device="cuda").cumsum(0).to(I32)
    m, groups = sum(sizes), len(sizes)
    a, b = rand(m, k, dtype=HALF), rand(groups, k, n, dtype=HALF)
    configs = with_(HALVES, PROGRAMS=PROGRAMS) + with_(HALVES[2:], PROGRAMS=2 * PROGRAMS)
    yield row("grouped f16, 16 groups", empty(m, n, dtype=HALF), (a, b, ends, groups, n, k), lambda c: (c["PROGRAMS"],),
              lambda: torch.cat([x @ w for x, w in zip(a.split(sizes), b)]), 2 * m * n * k, configs=configs,
              **LONG)  # fmt: skip


def by_expert(choice, experts, block):
    """Positions by expert, padded to whole blocks with a position past the last; and the expert of each block."""
    order, owner = [], []
    for e in range(experts):
        mine = (choice == e).nonzero().flatten().tolist()
        mine += [len(choice)] * (-len(mine) % block)
        order += mine
        owner += [e] * (len(mine) // block)
    return (torch.tensor(x, device="cuda", dtype=I32) for x in (order, owner))


def mixture(tokens=4096, experts=8, top=2, n=4096, k=2048):
    a, b = rand(tokens, k, dtype=BF16), rand(experts, n, k, dtype=BF16)
    choice = torch.rand(tokens, experts, device="cuda").topk(top).indices.flatten()
    order, owner = by_expert(choice, experts, 128)
    c = empty(tokens * top, n, dtype=BF16)

    def reference():
        out = torch.empty_like(c)
        for e in range(experts):
            mine = (choice == e).nonzero().flatten()
            out[mine] = a[mine // top] @ b[e].t()
        return out

    yield row("experts bf16 4096 tokens, 8x4096x2048", c, (a, b, order, owner, tokens * top, n, k),
              lambda c: (len(owner) * math.ceil(n / c["BLOCK_N"]),), reference, 2 * tokens * top * n * k,
              configs=with_(HALVES, TOP=top), **LONG)  # fmt: skip


def descriptor(n=8192):
    a, b = rand(n, n, dtype=HALF), rand(n, n, dtype=HALF)
    for module in filter(None, (gpu.tritium, gpu.triton)):
        module.set_allocator(lambda size, alignment, stream: empty(size, dtype=torch.int8))
    yield row("descriptor f16 8192, persistent", empty(n, n, dtype=HALF), (a, b, n, n, n), lambda c: (PROGRAMS,),
              lambda: a @ b.t(), 2 * n**3, configs=with_(HALVES, PROGRAMS=PROGRAMS, GROUP_M=8), **LONG)  # fmt: skip


# --- attention --------------------------------------------------------------------------------------------------------
def attention(d, batch=4, heads=32, length=4096):
    q, k, v, do = (rand(batch, heads, length, d, dtype=HALF) for _ in range(4))
    lse = empty(batch, heads, length)
    scale, work, shape = BASE_2 / math.sqrt(d), 4 * batch * heads * length * length * d, f"f16 4x32x4096x{d}"
    grid = lambda block: lambda c: (length // c[block], batch * heads)
    pairs = lambda *values: with_(choices("BLOCK_M BLOCK_N num_warps num_stages", *values), D=d)
    yield row(f"causal-attention {shape}", (torch.empty_like(q), lse), (q, k, v, scale, length), grid("BLOCK_M"),
              lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True), work / 2,
              configs=pairs((128, 64, 8, 3), (128, 64, 4, 3), (128, 128, 8, 2), (64, 64, 4, 3)), **LONG)  # fmt: skip
    inputs = [t.detach().requires_grad_() for t in (q, k, v)]
    made = F.scaled_dot_product_attention(*inputs)
    dq, dk, _ = (t * math.sqrt(d) for t in torch.autograd.grad(made, inputs, do))  # of the scores before scaling
    delta = (made.detach().float() * do).sum(-1)
    for b in range(batch):
        lse[b] = torch.logsumexp(q[b].float() @ k[b].float().mT / math.sqrt(d), -1) * BASE_2
    args = (q, k, v, do, lse, delta, scale, length)
    yield row(f"attention-dkdv {shape}", tuple(torch.empty_like(q) for _ in range(2)), args, grid("BLOCK_N"), dk.clone,
              2 * work, configs=pairs((64, 128, 8, 2), (64, 128, 4, 2), (64, 64, 4, 3), (32, 128, 4, 3)),
              **LONG)  # fmt: skip
    yield row(f"attention-dq {shape}", torch.empty_like(q), args, grid("BLOCK_M"), dq.clone, 1.5 * work,
              configs=pairs((128, 64, 8, 2), (128, 32, 4, 3), (64, 64, 4, 3), (128, 64, 4, 2)), **LONG)  # fmt: skip


def decode(sequences=64, heads=8, group=4, d=128, page=16, length=4096, split=4):
    pages, last = length // page, length - 7
    k, v = (rand(sequences * pages, page, heads, d, dtype=HALF) for _ in range(2))
    table = torch.randperm(sequences * pages, device="cuda").to(I32).view(sequences, pages)
    q, lengths = rand(sequences, heads, group, d, dtype=HALF), torch.full((sequences,), last, device="cuda", dtype=I32)
    out = empty(sequences, heads, group, split, d)

    def reference():
        each = length // split
        ks, vs = (t[table.long()].view(sequences, length, heads, d).transpose(1, 2) for t in (k, v))
        parts = [slice(s * each, min((s + 1) * each, last)) for s in range(split)]
        return torch.stack([F.scaled_dot_product_attention(q, ks[:, :, s], vs[:, :, s]) for s in parts], -2)

    shape = dict(HEADS=heads, GROUP=group, D=d, PAGE=page, SPLIT=split)
    yield row("decode f16 64x4096, 32 heads of 8", (out, empty(out.shape[:-1])),
              (q, k, v, table, lengths, BASE_2 / math.sqrt(d), pages), lambda c: (sequences, heads, split), reference,
              4 * k.numel(), "GB/s", with_(choices("BLOCK_N num_warps num_stages", (64, 4, 2), (64, 4, 3), (32, 2, 3),
                                                   (64, 2, 2)), **shape), tolerance=1e-2, long=True)  # fmt: skip


def linear_attention(batch=512, length=4096, d=64):
    q, k, v = (rand(batch, length, d, dtype=BF16) / 8 for _ in range(3))

    def reference():
        state, made = torch.zeros(batch, d, d, device="cuda"), []
        for t in range(0, length, 64):
            x, y, z = (s[:, t : t + 64].float() for s in (q, k, v))
            made.append((x @ y.mT).tril() @ z + x @ state)
            state = state + y.mT @ z
        return torch.cat(made, 1)

    yield row("linear-attention bf16 512x4096x64", torch.empty_like(q), (q, k, v, length), lambda c: (batch,),
              reference, 8 * batch * length * d * d,
              configs=with_(choices("num_warps num_stages", (4, 1), (4, 2), (4, 3), (8, 2)), BLOCK=64, D=d),
              **(LONG | dict(tolerance=2e-2)))  # fmt: skip


# --- branches and loaded offsets in loops around dots -----------------------------------------------------------------
def one_loop(n=4096):
    a, b = rand(n, n, dtype=BF16), rand(n, n, dtype=BF16)
    yield row("one-loop bf16 4096, persistent", empty(n, n, dtype=BF16), (a, b, n, n, n), lambda c: (PROGRAMS,),
              lambda: a @ b, 2 * n**3, configs=with_(HALVES, GROUP_M=8, PROGRAMS=PROGRAMS), **LONG)  # fmt: skip


def biased(n=4096):
    a, b, bias = rand(n, n, dtype=BF16), rand(n, n, dtype=BF16), rand(n, n)
    yield row("biased bf16 4096, in a branch", empty(n, n, dtype=BF16), (a, b, bias, n, n, n, 64), all_tiles(n, n),
              lambda: a @ b + bias, 2 * n**3, configs=HALVES[1:], **LONG)  # fmt: skip


def states(heads=8, d=128, chunk=64):
    lengths = torch.tensor([2048, 1000, 512, 4096, 37, 3000])
    rows, chunks = (F.pad(x.cumsum(0), (1, 0)).to("cuda", I32) for x in (lengths, (lengths + chunk - 1) // chunk))
    k, v = (rand(int(rows[-1]), heads, d, dtype=BF16) / 8 for _ in range(2))

    def reference():
        made = []
        for begin, end in zip(rows[:-1].tolist(), rows[1:].tolist()):
            parts = [x[begin:end].float().transpose(0, 1).split(chunk, 1) for x in (k, v)]
            steps = torch.stack([x.mT @ y for x, y in zip(*parts)])
            made.append(steps.cumsum(0) - steps)
        return torch.cat(made)

    grid = lambda c: (d // c["BLOCK_K"], d // c["BLOCK_V"], heads * len(lengths))
    tiles = choices("BLOCK_K BLOCK_V num_warps num_stages", (64, 64, 4, 3), (128, 64, 4, 3), (64, 64, 2, 3))
    yield row("states bf16, 6 sequences", empty(int(chunks[-1]), heads, d, d, dtype=BF16), (k, v, rows, chunks), grid,
              reference, 2 * k.numel() * d, configs=with_(tiles, H=heads, D=d, CHUNK=chunk),
              **(LONG | dict(tolerance=2e-2)))  # fmt: skip


def window(d=128, heads=32, length=8192, size=1024):
    q, k, v = (rand(heads, length, d, dtype=HALF) for _ in range(3))
    i = torch.arange(length, device="cuda")
    mask = (i[:, None] >= i) & (i[:, None] - i < size)
    grid = lambda c: (length // c["BLOCK_M"], heads)
    tiles = choices("BLOCK_M BLOCK_N num_warps num_stages", (128, 64, 8, 3), (128, 64, 4, 3), (64, 64, 4, 3))
    yield row(f"window f16 32x8192x{d}, of 1024", torch.empty_like(q), (q, k, v, BASE_2 / math.sqrt(d), length, size),
              grid, lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=mask),
              4 * heads * length * size * d, configs=with_(tiles, D=d), **LONG)  # fmt: skip


def all_of(*makers):
    return lambda: (made for make in makers for made in make())


GROUPS = {
    "passes": all_of(swiglu, gelu, dropout, adamw, rotary, permute, embedding, histogram),
    "rows": all_of(layer_norm, cross_entropy, along_rows, sort, group_norm, recurrence, causal_conv, matvec),
    "products": all_of(linear, batched, split_k, int8, block_scaled, int4, grouped, mixture, descriptor),
    "attention": all_of(lambda: attention(64), lambda: attention(128), decode, linear_attention),
    "branches": all_of(one_loop, biased, states, window),
}

if __name__ == "__main__":
    sys.exit(gpu.main(GROUPS, SIDES, __doc__))
