"""Kernels as public code writes them for GPUs, on this machine's CPU beside torch.

    python benchmarks/cpu_styles.py                       # all rows, one thread
    python benchmarks/cpu_styles.py --only "softmax|sum"  # a regular expression
    python benchmarks/cpu_styles.py --threads 16 --clock  # wall time; else what the processor spends

Tiles along an axis that is not contiguous, rows of a few elements, indices by division, atomic updates in the default
order: what a kernel that nobody wrote for CPUs has. Results are compared with torch's; a row that differs says so.
"""

from __future__ import annotations

import argparse
import re
import time

import torch

import tritium as triton
import tritium.language as tl

F = torch.nn.functional


# --- kernels ----------------------------------------------------------------------------------------------------------
@triton.jit
def log_softmax_first_axis(out, x, M, N, BM: tl.constexpr, BN: tl.constexpr):
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    top = tl.full([BM, BN], float("-inf"), tl.float32)
    total = tl.zeros([BM, BN], tl.float32)
    for start in range(0, M, BM):
        m = start + tl.arange(0, BM)
        mask = (m[:, None] < M) & (n < N)
        value = tl.load(x + m[:, None] * N + n, mask, float("-inf"))
        larger = tl.maximum(top, value)
        total = total * tl.exp(top - larger) + tl.exp(value - larger)
        top = larger
    column = tl.max(top, 0)
    total = tl.sum(total * tl.exp(top - column[None, :]), 0)
    for start in range(0, M, BM):
        m = start + tl.arange(0, BM)
        mask = (m[:, None] < M) & (n < N)
        value = tl.load(x + m[:, None] * N + n, mask, float("-inf"))
        tl.store(out + m[:, None] * N + n, value - column[None, :] - tl.log(total)[None, :], mask)


@triton.jit
def column_sums(out, x, M, N, BM: tl.constexpr, BN: tl.constexpr):
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    total = tl.zeros([BM, BN], tl.float32)
    for start in range(0, M, BM):
        m = start + tl.arange(0, BM)
        total += tl.load(x + m[:, None] * N + n[None, :], (m[:, None] < M) & (n[None, :] < N), 0.0)
    tl.store(out + n, tl.sum(total, 0), n < N)


@triton.jit
def sums_so_far(out, x, N, BLOCK: tl.constexpr):
    n = tl.arange(0, BLOCK)
    at = tl.program_id(0) * N + n
    tl.store(out + at, tl.cumsum(tl.load(x + at, n < N, 0.0), 0), n < N)


@triton.jit
def max_pool(out, x, H, W, OH, OW, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    image, row, column = i // (OH * OW), i % (OH * OW) // OW, i % OW
    best = tl.full([BLOCK], float("-inf"), tl.float32)
    for dy in range(3):
        for dx in range(3):
            y, z = row * 2 - 1 + dy, column * 2 - 1 + dx
            inside = (y >= 0) & (y < H) & (z >= 0) & (z < W)
            best = tl.maximum(best, tl.load(x + image * H * W + y * W + z, inside, float("-inf")))
    tl.store(out + i, best)


@triton.jit
def twice_as_large(out, x, H, W, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    image, row, column = i // (4 * H * W), i % (4 * H * W) // (2 * W), i % (2 * W)
    tl.store(out + i, tl.load(x + image * H * W + (row // 2) * W + column // 2))


@triton.jit
def depthwise(out, x, w, H, W, BLOCK: tl.constexpr):
    channel, i = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for dy in tl.static_range(3):
        for dx in tl.static_range(3):
            y, z = i // W - 1 + dy, i % W - 1 + dx
            inside = (y >= 0) & (y < H) & (z >= 0) & (z < W)
            value = tl.load(x + channel * H * W + y * W + z, inside, 0.0)
            total += value * tl.load(w + channel * 9 + dy * 3 + dx)
    tl.store(out + channel * H * W + i, total, i < H * W)


@triton.jit
def swap_axes(out, x, A, B, C, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    b, a, c = i // (A * C), i // C % A, i % C
    tl.store(out + i, tl.load(x + a * B * C + b * C + c))


@triton.jit
def reversed_rows(out, x, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + N - 1 - i, i < N), i < N)


@triton.jit
def rotated_pairs(out, x, cosines, sines, D: tl.constexpr):
    i, row = tl.arange(0, D // 2), tl.program_id(0) * D
    a, b = tl.load(x + row + 2 * i), tl.load(x + row + 2 * i + 1)
    cosine, sine = tl.load(cosines + i), tl.load(sines + i)
    tl.store(out + row + 2 * i, a * cosine - b * sine)
    tl.store(out + row + 2 * i + 1, a * sine + b * cosine)


@triton.jit
def short_rows(out, x, N, M: tl.constexpr, D: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.program_id(0) * D + tl.arange(0, D)[None, :]
    tl.store(out + at, tl.load(x + at) * 2)


@triton.jit
def dequantized(out, packed, scales, N, BLOCK: tl.constexpr):
    n, row = tl.arange(0, BLOCK), tl.program_id(0)
    value = (tl.load(packed + row * (N // 2) + n // 2) >> ((n % 2) * 4)) & 15
    tl.store(out + row * N + n, (value.to(tl.float32) - 8) * tl.load(scales + row * (N // 128) + n // 128))


@triton.jit
def cross_entropy(losses, x, targets, N, BLOCK: tl.constexpr):
    row, top, total = tl.program_id(0), float("-inf"), 0.0
    for start in range(0, N, BLOCK):
        n = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * N + n, n < N, float("-inf")).to(tl.float32)
        larger = tl.maximum(top, tl.max(value, 0))
        total, top = total * tl.exp(top - larger) + tl.sum(tl.exp(value - larger), 0), larger
    tl.store(losses + row, top + tl.log(total) - tl.load(x + row * N + tl.load(targets + row)).to(tl.float32))


@triton.jit
def gelu(out, x, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, i < N).to(tl.float32)
    tl.store(out + i, 0.5 * value * (1 + tl.erf(value * 0.7071067811865476)), i < N)


@triton.jit
def swiglu(out, x, N, BLOCK: tl.constexpr):
    row, n = tl.program_id(0), tl.arange(0, BLOCK)
    gate = tl.load(x + row * 2 * N + n, n < N).to(tl.float32)
    tl.store(out + row * N + n, gate * tl.sigmoid(gate) * tl.load(x + row * 2 * N + N + n, n < N).to(tl.float32), n < N)


@triton.jit
def embedding_gradients(out, gradients, rows, D: tl.constexpr):
    i, n = tl.program_id(0), tl.arange(0, D)
    tl.atomic_add(out + tl.load(rows + i) * D + n, tl.load(gradients + i * D + n))


@triton.jit
def histogram(out, x, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + tl.arange(0, 256), tl.histogram(tl.load(x + i), 256))


@triton.jit
def matrix_vector(out, w, x, K, BN: tl.constexpr, BK: tl.constexpr):
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    total = tl.zeros([BN, BK], tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        total += tl.load(w + n[:, None] * K + k[None, :]).to(tl.float32) * tl.load(x + k)[None, :].to(tl.float32)
    tl.store(out + n, tl.sum(total, 1))


@triton.jit
def taken(out, x, index, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + tl.load(index + i, i < N, 0), i < N), i < N)


@triton.jit
def largest(out, x, N, BLOCK: tl.constexpr):
    row, n = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(out + row, tl.argmax(tl.load(x + row * N + n, n < N, float("-inf")), 0))


@triton.jit
def sorted_rows(out, x, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + at, tl.sort(tl.load(x + at)))


@triton.jit
def quotients(out, x, by, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i)
    tl.store(out + i, (value // by) * 3 + value % by)


# --- rows -------------------------------------------------------------------------------------------------------------
def rows():
    """(name, ours, torch's, tolerance) for each kernel; both return the result."""
    x, out = torch.randn(1024, 1024), torch.empty(1024, 1024)

    def then(result, launch, *args):
        launch(*args)
        return result

    for m, n in ((8, 128), (16, 64), (64, 8), (128, 4)):
        yield (f"log_softmax, first axis, {m} x {n}", lambda m=m, n=n: then(
               out, log_softmax_first_axis[1024 // n,], out, x, 1024, 1024, m, n), lambda: F.log_softmax(x, 0), 1e-4)
    sums = torch.empty(1024)
    yield ("sums of columns, 32 x 64", lambda: then(sums, column_sums[16,], sums, x, 1024, 1024, 32, 64),
           lambda: x.sum(0), 1e-3)
    yield "cumsum of rows", lambda: then(out, sums_so_far[1024,], out, x, 1024, 1024), lambda: x.cumsum(1), 1e-3
    image, pooled, doubled = torch.randn(1, 32, 64, 64), torch.empty(1, 32, 32, 32), torch.empty(1, 32, 128, 128)
    yield ("max pool 3x3 in steps of two", lambda: then(pooled, max_pool[32,], pooled, image, 64, 64, 32, 32, 1024),
           lambda: F.max_pool2d(image, 3, 2, 1), 0)
    yield ("nearest upsampling", lambda: then(doubled, twice_as_large[512,], doubled, image, 64, 64, 1024),
           lambda: F.interpolate(image, scale_factor=2), 0)
    w, same = torch.randn(32, 1, 3, 3), torch.empty_like(image)
    yield ("depthwise 3x3", lambda: then(same, depthwise[4, 32], same, image, w, 64, 64, 1024),
           lambda: F.conv2d(image, w, padding=1, groups=32), 1e-4)
    cube, swapped = torch.randn(32, 128, 64), torch.empty(128, 32, 64)
    yield ("axes swapped", lambda: then(swapped, swap_axes[256,], swapped, cube, 32, 128, 64, 1024),
           lambda: cube.permute(1, 0, 2).contiguous(), 0)
    for dtype in (torch.float32, torch.float16):
        line, turned = torch.randn(1 << 18).to(dtype), torch.empty(1 << 18, dtype=dtype)
        yield (f"in descending order, {dtype}", lambda a=turned, b=line: then(
               a, reversed_rows[256,], a, b, 1 << 18, 1024), lambda b=line: b.flip(0), 0)
        pairs, c, s = torch.randn(2048, 128).to(dtype), torch.randn(64).to(dtype), torch.randn(64).to(dtype)
        rotated = torch.empty_like(pairs)

        def rotation(pairs=pairs, c=c, s=s):
            a, b = pairs[:, ::2], pairs[:, 1::2]
            return torch.stack([a * c - b * s, a * s + b * c], -1).flatten(1)
        yield (f"rotary embedding of pairs, {dtype}", lambda o=rotated, p=pairs, c=c, s=s: then(
               o, rotated_pairs[2048,], o, p, c, s, 128), rotation, 1e-2)
        tall = torch.randn(64, 1024).to(dtype)
        copy = torch.empty_like(tall)
        yield (f"tiles of 64 x 16, {dtype}", lambda o=copy, t=tall: then(o, short_rows[64,], o, t, 1024, 64, 16),
               lambda t=tall: t * 2, 0)
    packed, scales = torch.randint(0, 255, (1024, 512), dtype=torch.uint8), torch.randn(1024, 8)

    def unpacked():
        value = torch.stack([packed & 15, packed >> 4], -1).view(1024, 8, 128).float() - 8
        return (value * scales[:, :, None]).view(1024, 1024)
    yield ("4-bit weights to float", lambda: then(out, dequantized[1024,], out, packed, scales, 1024, 1024),
           unpacked, 1e-4)
    logits, targets, losses = torch.randn(128, 32000), torch.randint(0, 32000, (128,)), torch.empty(128)
    yield ("cross entropy", lambda: then(losses, cross_entropy[128,], losses, logits, targets, 32000, 4096),
           lambda: F.cross_entropy(logits, targets, reduction="none"), 1e-4)
    for dtype in (torch.float32, torch.bfloat16):
        given, made = x.to(dtype), out.to(dtype)
        yield (f"GELU, {dtype}", lambda a=made, b=given: then(a, gelu[1024,], a, b, 1 << 20, 1024),
               lambda b=given: F.gelu(b), 2e-2)
    gated, half = torch.randn(512, 4096).bfloat16(), torch.empty(512, 2048).bfloat16()
    yield ("SwiGLU, bfloat16", lambda: then(half, swiglu[512,], half, gated, 2048, 2048),
           lambda: F.silu(gated[:, :2048]) * gated[:, 2048:], 5e-2)
    index, gradients, table = torch.randint(0, 1000, (4096,)), torch.randn(4096, 64), torch.zeros(1000, 64)
    yield ("gradients of an embedding", lambda: then(
           table.zero_(), embedding_gradients[4096,], table, gradients, index, 64),
           lambda: torch.zeros(1000, 64).index_add_(0, index, gradients), 1e-3)
    bytes_, counts = torch.randint(0, 256, (1 << 20,), dtype=torch.int32), torch.zeros(256, dtype=torch.int32)
    yield ("histogram", lambda: then(counts.zero_(), histogram[256,], counts, bytes_, 4096),
           lambda: torch.bincount(bytes_, minlength=256), 0)
    for dtype in (torch.float32, torch.bfloat16):
        matrix, vector, product = torch.randn(4096, 1024).to(dtype), torch.randn(1024).to(dtype), torch.empty(4096)
        yield (f"matrix times vector, {dtype}", lambda o=product, m=matrix, v=vector: then(
               o, matrix_vector[256,], o, m, v, 1024, 16, 256), lambda m=matrix, v=vector: m @ v,
               1e-2 if dtype is torch.float32 else 1)
    line, found = torch.randn(1 << 12), torch.empty(1 << 18)
    where = torch.randint(0, 1 << 12, (1 << 18,))
    yield ("elements through an index", lambda: then(found, taken[256,], found, line, where, 1 << 18, 1024),
           lambda: line[where], 0)
    best = torch.empty(1024, dtype=torch.int64)
    yield "argmax of rows", lambda: then(best, largest[1024,], best, x, 1024, 1024), lambda: x.argmax(1), 0
    few = torch.empty(64, 1024)
    yield "sorted rows of 1024", lambda: then(few, sorted_rows[64,], few, x, 1024), lambda: x[:64].sort(1)[0], 0
    large = torch.randint(-(10**6), 10**6, (1 << 18,))
    by, results = 77, torch.empty_like(large)
    yield ("64-bit quotients and remainders", lambda: then(results, quotients[256,], results, large, by, 1024),
           lambda: torch.div(large, by, rounding_mode="trunc") * 3 + torch.fmod(large, by), 0)


def microseconds(function, clock, seconds: float) -> float:
    """The least time of a call, of five groups that take `seconds` together."""
    began = clock()
    function()
    count = max(1, int(seconds / 5 / max(clock() - began, 1e-6)))
    groups = []
    for _ in range(5):
        began = clock()
        for _ in range(count):
            function()
        groups.append((clock() - began) / count)
    return min(groups) * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a regular expression")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each kernel of each side")
    parser.add_argument("--clock", action="store_true", help="wall time; else what the processor spends")
    args = parser.parse_args()
    clock = time.perf_counter if args.clock else time.process_time
    torch.set_num_threads(args.threads)
    triton.set_num_threads(args.threads)
    print(f"{'':44}{'us':>9}{'torch':>9}{'ratio':>8}")
    for name, ours, theirs, tolerance in rows():
        if not re.search(args.only, name):
            continue
        for _ in range(40):  # which number of threads is best is found by then
            made = ours()
        wrong = not torch.allclose(made.double(), theirs().double(), rtol=tolerance, atol=tolerance)
        mine, other = microseconds(ours, clock, args.seconds), microseconds(theirs, clock, args.seconds)
        print(f"{name:44}{mine:9.0f}{other:9.0f}{other / mine:7.2f}x{'  WRONG' if wrong else ''}", flush=True)


if __name__ == "__main__":
    main()
