"""torch, Triton and tritium on the same kernels on an NVIDIA GPU, side by side in one run.

    python benchmarks/gpu.py [--rows matmul,softmax] [--json out.json] [--rounds 7]

Rivals take turns in random order. Memory-bound rows time single calls with a cold L2 cache; matrix rows time long
loops, so that every rival runs at the clock the power limit leaves it. Figures are medians; the ratio is Triton's time
over ours.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import torch  # noqa: E402
from gpu_load import kernels  # noqa: E402

import tritium  # noqa: E402
import tritium.language  # noqa: E402

try:
    import triton
    import triton.language
except ImportError:
    triton = None


def sides(name="gpu_kernels"):
    """Implementation -> the kernels of a file as it has them."""
    return {who: kernels(module, name) for who, module in (("tritium", tritium), ("triton", triton)) if module}


SIDES = sides()


class Row:
    """One line of the table: a launch for any implementation, torch's call, a check and what it is worth."""

    def __init__(self, name, launch, reference, work, unit, configs=({},), tolerance=1e-3, long=False):
        self.name, self.launch, self.reference, self.work, self.unit = name, launch, reference, work, unit
        self.configs, self.tolerance, self.long = configs, tolerance, long


def rand(*shape, dtype=torch.float32):
    return torch.randn(*shape, device="cuda", dtype=torch.float32).to(dtype)


def elementwise(name, kernel, inputs, reference, n, traffic, block=1024):
    xs = [rand(n) for _ in range(inputs)]
    out = torch.empty(n, device="cuda")

    def launch(k, BLOCK, **options):
        getattr(k, kernel)[(math.ceil(n / BLOCK),)](*xs, out, n, BLOCK=BLOCK, **options)
        return out

    configs = [dict(BLOCK=b, num_warps=w) for b, w in ((1024, 4), (2048, 8), (1024, 8))]
    return Row(name, launch, lambda: reference(*xs), traffic * 4 * n, "GB/s", configs)


def rows_elementwise(n=2**28):
    yield elementwise("add f32 2^28", "add_kernel", 2, torch.add, n, 3)
    yield elementwise("add-relu-mul f32 2^28", "add_relu_mul_kernel", 3, lambda x, y, z: torch.relu(x + y) * z, n, 4)
    yield elementwise("silu f32 2^28", "silu_kernel", 1, torch.nn.functional.silu, n, 2)


def rows_sum(n=2**28):
    x, out = rand(n), torch.zeros(1, device="cuda")

    def launch(k, BLOCK, **options):
        out.zero_()
        k.sum_kernel[(math.ceil(n / BLOCK),)](x, out, n, BLOCK=BLOCK, **options)
        return out

    configs = [dict(BLOCK=b, num_warps=w) for b, w in ((4096, 4), (8192, 8), (16384, 16))]
    yield Row("sum f32 2^28", launch, lambda: x.sum().reshape(1), 4 * n, "GB/s", configs, tolerance=2e-2)


def rows_softmax():
    for cols in (256, 781, 1024, 4096, 16384):
        x = rand(16384, cols)
        out = torch.empty_like(x)
        block = 1 << (cols - 1).bit_length()

        def launch(k, x=x, out=out, cols=cols, block=block, **options):
            k.softmax_kernel[(x.shape[0],)](out, x, x.stride(0), cols, BLOCK=block, **options)
            return out

        configs = [dict(num_warps=w) for w in (1, 2, 4, 8, 16) if block // (32 * w) >= 2 and block // (32 * w) <= 128]
        yield Row(f"softmax f32 16384x{cols}", launch, lambda x=x: torch.softmax(x, 1), 8 * x.numel(), "GB/s", configs)


def rows_norm():
    x, w = rand(16384, 4096, dtype=torch.bfloat16), rand(4096, dtype=torch.bfloat16)
    out = torch.empty_like(x)

    def launch(k, **options):
        k.rms_norm_kernel[(x.shape[0],)](out, x, w, x.stride(0), 4096, 1e-6, BLOCK=4096, **options)
        return out

    yield Row(
        "rms norm bf16 16384x4096",
        launch,
        lambda: torch.nn.functional.rms_norm(x, (4096,), w, 1e-6),
        4 * x.numel(),
        "GB/s",
        [dict(num_warps=n) for n in (4, 8, 16)],
        tolerance=2e-2,
    )


def rows_transpose(n=8192):
    x = rand(n, n)
    out = torch.empty(n, n, device="cuda")

    def launch(k, BLOCK_M, BLOCK_N, **options):
        k.transpose_kernel[(n // BLOCK_M, n // BLOCK_N)](out, x, n, n, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, **options)
        return out

    configs = [
        dict(BLOCK_M=m, BLOCK_N=k, num_warps=w) for m, k, w in ((64, 64, 4), (32, 32, 4), (128, 64, 8), (64, 128, 8))
    ]
    yield Row("transpose f32 8192x8192", launch, lambda: x.t().contiguous(), 8 * n * n, "GB/s", configs, tolerance=0)


def rows_pool():
    c, h, w = 256, 512, 512
    oh, ow = (h - 3) // 2 + 1, (w - 3) // 2 + 1
    x = rand(c, h, w)
    out = torch.empty(c, oh, ow, device="cuda")

    def launch(k, BLOCK, **options):
        k.max_pool_kernel[(math.ceil(ow / BLOCK), oh, c)](out, x, h, w, oh, ow, BLOCK=BLOCK, **options)
        return out

    yield Row(
        "max pool 3x3/2 256x512x512",
        launch,
        lambda: torch.nn.functional.max_pool2d(x, 3, 2),
        4 * (x.numel() + out.numel()),
        "GB/s",
        [dict(BLOCK=256, num_warps=n) for n in (1, 2, 4)],
        tolerance=0,
    )


def rows_conv(n=8192):
    x, w = rand(n, n), rand(3, 3)
    out = torch.empty_like(x)

    def launch(k, BLOCK_Y, BLOCK_X, **options):
        k.conv2d_kernel[(math.ceil(n / BLOCK_X), math.ceil(n / BLOCK_Y))](
            out, x, w, n, n, BLOCK_Y=BLOCK_Y, BLOCK_X=BLOCK_X, **options
        )
        return out

    configs = [
        dict(BLOCK_Y=y, BLOCK_X=b, num_warps=k) for y, b, k in ((4, 128, 4), (8, 128, 4), (1, 1024, 4), (16, 64, 4))
    ]
    yield Row(
        "conv2d 3x3 8192x8192",
        launch,
        lambda: torch.nn.functional.conv2d(x[None, None], w[None, None], padding=1)[0, 0],
        8 * n * n,
        "GB/s",
        configs,
    )


def matmul_row(name, m, n, k, dtype, turned=False, configs=None, tolerance=2e-3):
    a = rand(m, k).to(dtype)
    b = rand(n, k).to(dtype).t() if turned else rand(k, n).to(dtype)
    out_dtype = torch.float32 if dtype is torch.float32 else torch.float16
    c = torch.empty(m, n, device="cuda", dtype=out_dtype)

    def launch(kernel, BLOCK_M, BLOCK_N, BLOCK_K, **options):
        grid = (math.ceil(m / BLOCK_M) * math.ceil(n / BLOCK_N),)
        kernel.matmul_kernel[grid](
            a,
            b,
            c,
            m,
            n,
            k,
            *a.stride(),
            *b.stride(),
            *c.stride(),
            BLOCK_M=BLOCK_M,
            BLOCK_N=BLOCK_N,
            BLOCK_K=BLOCK_K,
            GROUP_M=8,
            **options,
        )
        return c

    def reference():
        if a.dtype.itemsize == 1:
            one = torch.ones((), device="cuda")
            return torch._scaled_mm(
                a, b if turned else b.t().contiguous().t(), one, one, out_dtype=torch.float16, use_fast_accum=True
            )
        return torch.matmul(a, b)

    return Row(name, launch, reference, 2 * m * n * k, "TFLOP/s", configs or MATMUL, tolerance, long=True)


MATMUL = [
    dict(BLOCK_M=m, BLOCK_N=n, BLOCK_K=k, num_warps=w, num_stages=s)
    for m, n, k, w, s in (
        (128, 256, 64, 8, 3),
        (128, 256, 64, 8, 4),
        (128, 128, 64, 4, 4),
        (128, 128, 64, 8, 4),
        (64, 128, 64, 4, 4),
    )
]
NARROW = [
    dict(BLOCK_M=m, BLOCK_N=n, BLOCK_K=k, num_warps=w, num_stages=s)
    for m, n, k, w, s in ((128, 256, 128, 8, 3), (128, 128, 128, 4, 4), (128, 128, 128, 8, 4))
]
WIDE = [
    dict(BLOCK_M=m, BLOCK_N=n, BLOCK_K=k, num_warps=w, num_stages=s)
    for m, n, k, w, s in ((128, 128, 32, 8, 3), (128, 128, 32, 4, 4), (64, 128, 32, 4, 4), (128, 256, 32, 8, 3),
                          (256, 128, 32, 8, 3))
]


def rows_matmul():
    torch.backends.cuda.matmul.allow_tf32 = True
    for n in (1024, 2048, 4096, 8192):
        yield matmul_row(f"matmul f16 {n}", n, n, n, torch.float16)
    yield matmul_row("matmul bf16 4096", 4096, 4096, 4096, torch.bfloat16, tolerance=2e-2)
    yield matmul_row("matmul f16 4096 b transposed", 4096, 4096, 4096, torch.float16, turned=True)
    yield matmul_row("matmul f16 4093x4095x4091", 4093, 4095, 4091, torch.float16)
    yield matmul_row("matmul tf32 4096", 4096, 4096, 4096, torch.float32, configs=WIDE, tolerance=5e-3)
    yield matmul_row(
        "matmul fp8 8192", 8192, 8192, 8192, torch.float8_e4m3fn, turned=True, configs=NARROW, tolerance=5e-2
    )


def rows_attention():
    b, h, length, d = 4, 32, 4096, 128
    q, k, v = (rand(b, h, length, d, dtype=torch.float16) for _ in range(3))
    out = torch.empty_like(q)
    scale = 1 / math.sqrt(d)

    def launch(kernel, BLOCK_M, BLOCK_N, **options):
        kernel.attention_kernel[(length // BLOCK_M, b * h)](
            q, k, v, out, scale * 1.4426950408889634, length, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, D=d, **options
        )
        return out

    configs = [
        dict(BLOCK_M=m, BLOCK_N=n, num_warps=w, num_stages=s)
        for m, n, w, s in ((128, 64, 8, 3), (128, 128, 8, 2), (64, 64, 4, 3), (128, 64, 4, 3), (128, 64, 8, 4))
    ]
    yield Row(
        "attention f16 4x32x4096x128",
        launch,
        lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v),
        4 * b * h * length * length * d,
        "TFLOP/s",
        configs,
        tolerance=1e-2,
        long=True,
    )


def rows_clusters():
    """Programs that several blocks share; for one block each, see the rows above."""
    rows, cols = 512, 65536
    x = rand(rows, cols)
    out = torch.empty_like(x)

    def launch(k, **options):
        k.softmax_kernel[(rows,)](out, x, x.stride(0), cols, BLOCK=cols, **options)
        return out

    for counts in ((1,), (2, 4, 8)):
        configs = [dict(num_ctas=c, num_warps=w) for c in counts for w in (8, 16)]
        name = f"softmax f32 {rows}x{cols}, {'one block' if counts == (1,) else 'clusters'}"
        yield Row(name, launch, lambda: torch.softmax(x, 1), 8 * x.numel(), "GB/s", configs)
    pairs = [dict(BLOCK_M=256, BLOCK_N=256, BLOCK_K=64, num_warps=8, num_stages=s, num_ctas=2) for s in (3, 4)]
    yield matmul_row("matmul f16 8192, clusters of 2", 8192, 8192, 8192, torch.float16, configs=pairs)


GROUPS = {
    "elementwise": rows_elementwise,
    "sum": rows_sum,
    "softmax": rows_softmax,
    "norm": rows_norm,
    "transpose": rows_transpose,
    "pool": rows_pool,
    "conv": rows_conv,
    "matmul": rows_matmul,
    "attention": rows_attention,
    "clusters": rows_clusters,
}


# --- timing -----------------------------------------------------------------------------------------------------
_CACHE = None


def cold(fn):
    """Milliseconds of one call with a cold L2 cache."""
    global _CACHE
    if _CACHE is None:
        _CACHE = torch.empty(64 * 2**20, dtype=torch.int, device="cuda")
    _CACHE.zero_()
    torch.cuda._sleep(500_000)  # the host gets ahead: what is timed is the GPU's work, not the launch
    return timed(fn, 1)


def timed(fn, count):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(count):
        fn()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / count


def measure(rivals, long, rounds, rest=0.0):
    """Median milliseconds of each rival, taking turns in random order; `rest`: a pause in seconds before each loop of a
    matrix row, which has 30 calls then."""
    times = {name: [] for name in rivals}
    count = lambda fn: 30 if rest else max(1, int(60 / max(timed(fn, 3), 1e-3)))
    counts = {name: count(fn) for name, fn in rivals.items()} if long else {}
    for _ in range(rounds):
        for name in random.sample(list(rivals), len(rivals)):
            if long:
                time.sleep(rest)
                times[name].append(timed(rivals[name], counts[name]))
            else:
                times[name] += [cold(rivals[name]) for _ in range(5)]
    return {name: statistics.median(ts) for name, ts in times.items()}


def trial(row, fn):
    """Milliseconds by which configurations are compared: measured as the row itself will be."""
    return min(timed(fn, 3) for _ in range(2)) if row.long else statistics.median(cold(fn) for _ in range(7))


def best_config(row, k):
    """The fastest configuration of a kernel that compiles, and what went wrong with the others."""
    tried, problems = [], []
    for config in row.configs:
        try:
            row.launch(k, **config)
            torch.cuda.synchronize()
            tried.append((trial(row, lambda config=config: row.launch(k, **config)), config))
        except Exception as problem:  # a configuration one side cannot run is reported, not fatal
            problems.append(f"{config}: {type(problem).__name__}: {str(problem)[:300]}")
    return (min(tried, key=lambda t: t[0])[1] if tried else None), problems


def error_of(row, k, config):
    want = row.reference()
    out = row.launch(k, **config)
    if out.numel() > 1:
        out.fill_(float("nan") if want.dtype.is_floating_point else -1)
    got, want = row.launch(k, **config).float(), want.float()
    return ((got - want).abs().max() / want.abs().max().clamp(min=1e-6)).item()


def run(row, rounds, sides, rest=0.0):
    """One line of the table as a dict; `sides` are the kernels of each implementation."""
    line = {"name": row.name, "unit": row.unit}
    rivals = {"torch": row.reference}
    for name, k in sides.items():
        config, problems = best_config(row, k)
        if name == "tritium" and problems:
            line["problems"] = problems
        if config is None:
            line[f"{name}_error"] = problems[0]
            continue
        line[f"{name}_config"] = config
        if name == "tritium":
            line["error"] = error_of(row, k, config)
            line["correct"] = line["error"] <= row.tolerance
        rivals[name] = lambda k=k, config=config: row.launch(k, **config)
    line["ms"] = measure(rivals, row.long, rounds, rest)
    scale = 1e-9 if row.unit == "TFLOP/s" else 1e-6
    line["rate"] = {name: row.work / ms * scale for name, ms in line["ms"].items()}
    return line


def show(lines):
    print("\n| work | unit | torch | Triton | tritium | vs Triton | vs torch | correct |")
    print("|---|---|---|---|---|---|---|---|")
    for line in lines:
        rate = line.get("rate", {})

        def cell(name, rate=rate):
            return f"{rate[name]:.0f}" if name in rate else "-"

        def ratio(other, rate=rate):
            return f"{rate['tritium'] / rate[other]:.2f}x" if "tritium" in rate and other in rate else "-"

        mark = "yes" if line.get("correct") else f"NO ({line.get('error', 'did not run')})"
        print(
            f"| {line['name']} | {line['unit']} | {cell('torch')} | {cell('triton')} | {cell('tritium')} "
            f"| {ratio('triton')} | {ratio('torch')} | {mark} |"
        )


def main(groups, sides, about):
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(groups), help="groups to run, or parts of row names")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rest", type=float, default=0, metavar="SECONDS",
                        help="pause before each loop of a matrix row, as FlashAttention's benchmark does")  # fmt: skip
    parser.add_argument("--json", help="write every figure to this file")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("this needs an NVIDIA GPU, and a torch that can use it; without one, gpu_code.py compiles for it")
    lines = []
    wanted = options.rows.split(",")
    for group, rows in groups.items():
        for row in rows():
            if not any(w == group or w in row.name for w in wanted):
                continue
            try:
                lines.append(run(row, options.rounds, sides, options.rest))
            except Exception as problem:
                lines.append(
                    {"name": row.name, "unit": row.unit, "error": f"{type(problem).__name__}: {problem}"[:500]}
                )
            for problem in lines[-1].get("problems", []) + [lines[-1].get("tritium_error", "")]:
                if problem:
                    print(f"  {row.name}: {problem}", file=sys.stderr)
            print(lines[-1].get("name"), lines[-1].get("rate"), lines[-1].get("error"), flush=True)
            torch.cuda.empty_cache()
    show(lines)
    if options.json:
        Path(options.json).write_text(json.dumps(lines, indent=1))
    return 0 if all(line.get("correct") for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main(GROUPS, SIDES, __doc__))
