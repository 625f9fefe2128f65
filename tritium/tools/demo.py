"""`python -m tritium demo`: every kernel of the collection, checked and timed beside torch, or NumPy without torch."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from tritium.kernels import (
    add_relu_mul,
    attention,
    conv2d,
    dropout,
    first_column,
    layer_norm,
    matmul,
    max_pool,
    rms_norm,
    silu,
    softmax,
    summation,
    transpose,
    vector_add,
)
from tritium.kernels.arrays import numpy_dtype
from tritium.tools.bench.machine import Watch
from tritium.tools.bench.measuring import HostClock, measure
from tritium.tools.bench.report import ratio_text
from tritium.tools.bench.spread import Ratio, ratio, summary
from tritium.tools.command import closest


class Row(NamedTuple):
    """One kernel of the demo."""

    name: str
    shapes: tuple[tuple[int, ...], ...]  # of the inputs, filled with normal random numbers
    run: Callable
    reference: Callable  # in NumPy, given float64 arrays
    rival: Callable  # given torch and the same inputs as torch tensors
    unit: str  # "GB/s" or "GFLOP/s"
    work: float  # bytes moved or operations done
    dtype: str = "float32"
    tolerance: float = 1e-4


def first(result: Any) -> Any:
    """The main result of a function that may return several."""
    return result[0] if isinstance(result, (tuple, list)) else result


def _layer_norm_backward(x, weight, dout):
    _, mean, rstd = layer_norm.layer_norm(x, weight, weight)
    return layer_norm.layer_norm_backward(dout, x, weight, mean, rstd)


def _torch_layer_norm_backward(torch, x, weight, dout):
    shape = [x.shape[1]]
    _, mean, rstd = torch.native_layer_norm(x, shape, weight, weight, 1e-5)
    return torch.ops.aten.native_layer_norm_backward(dout, x, shape, mean, rstd, weight, weight, [True] * 3)


def _torch_dropout(torch, x):
    return torch.nn.functional.dropout(x, 0.3)


def _torch_matmul(torch, a, b):
    """torch has no fp8 product on the CPU: it multiplies in float32 there."""
    return (a.float() @ b.float()).half() if "float8" in str(a.dtype) else a @ b


def _elementwise(name: str, run: Callable, reference: Callable, rival: Callable, inputs: int = 1,
                 tolerance: float = 1e-5) -> Row:
    n = 1 << 20
    return Row(name, ((n,),) * inputs, run, reference, rival, "GB/s", 4 * n * (inputs + 1), tolerance=tolerance)


def _matmul(name: str, run: Callable, dtype: str, n: int, tolerance: float) -> Row:
    return Row(f"{name} {n}^3 {dtype}", ((n, n), (n, n)), run, matmul.reference, _torch_matmul, "GFLOP/s", 2 * n**3,
               dtype, tolerance)


ROWS_, COLS = 512, 1000
MATRIX = 4 * ROWS_ * COLS


def rows() -> Iterator[Row]:
    """The kernels, in the order of the scenarios S20 to S24 and S27."""
    yield _elementwise("vector add", vector_add.vector_add, vector_add.reference, lambda torch, x, y: x + y, 2)
    yield _elementwise("add-ReLU-multiply", lambda x, y: add_relu_mul.add_relu_mul(x, y, 0.5),
                       lambda x, y: add_relu_mul.reference(x, y, 0.5), lambda torch, x, y: torch.relu(x + y) * 0.5, 2)
    yield _elementwise("SiLU", silu.silu, silu.reference, lambda torch, x: torch.nn.functional.silu(x))
    yield Row("first column", ((65536, 64),), first_column.first_column, first_column.reference,
              lambda torch, x: x[:, 0].contiguous(), "GB/s", 65536 * (64 + 4))
    yield Row("sum", ((1 << 20,),), summation.sum_of, summation.reference, lambda torch, x: x.sum(), "GB/s", 4 << 20,
              tolerance=0.5)
    for name, run in (("softmax, row per program", softmax.softmax), ("softmax, persistent", softmax.persistent)):
        yield Row(name, ((ROWS_, COLS),), run, softmax.reference, lambda torch, x: torch.softmax(x, 1), "GB/s",
                  2 * MATRIX)
    yield Row("RMSNorm of a vector", ((1 << 18,),) * 2, rms_norm.rms_norm_vector, rms_norm.reference,
              lambda torch, x, w: torch.nn.functional.rms_norm(x, x.shape, w, 1e-6), "GB/s", 3 * 4 << 18)
    yield Row("RMSNorm of rows", ((ROWS_, COLS), (COLS,)), rms_norm.rms_norm, rms_norm.reference,
              lambda torch, x, w: torch.nn.functional.rms_norm(x, w.shape, w, 1e-6), "GB/s", 2 * MATRIX)
    yield Row("layer norm", ((ROWS_, COLS), (COLS,), (COLS,)), layer_norm.layer_norm, layer_norm.reference,
              lambda torch, x, w, b: torch.nn.functional.layer_norm(x, w.shape, w, b), "GB/s", 2 * MATRIX)
    yield Row("layer norm, forward and backward", ((ROWS_, COLS), (COLS,), (ROWS_, COLS)), _layer_norm_backward,
              lambda x, w, d: layer_norm.reference_backward(d, x, w), _torch_layer_norm_backward, "GB/s", 5 * MATRIX)
    yield _elementwise("dropout", lambda x: dropout.dropout(x, 0.3, 42), lambda x: dropout.reference(x, 0.3, 42),
                       _torch_dropout)
    yield _matmul("matmul, plain tiles", lambda a, b: matmul.matmul_plain(a, b, "ieee"), "float32", 512, 1e-3)
    yield _matmul("matmul, grouped", lambda a, b: matmul.matmul(a, b, precision="ieee"), "float32", 512, 1e-3)
    yield _matmul("matmul, tuned", lambda a, b: matmul.matmul_tuned(a, b, precision="ieee"), "float32", 512, 1e-3)
    for dtype, tolerance in (("float16", 0.05), ("bfloat16", 0.3), ("float8_e4m3fn", 0.05)):
        yield _matmul("matmul, grouped", matmul.matmul, dtype, 256, tolerance)
    yield Row("convolution 3x3, one plane", ((1024, 1024), (3, 3)), conv2d.filter2d, conv2d.reference_filter,
              lambda torch, x, w: torch.nn.functional.conv2d(x[None, None], w[None, None])[0, 0], "GB/s", 8 << 20)
    yield Row("convolution 3x3, 16 channels", ((2, 16, 56, 56), (32, 16, 3, 3)),
              lambda x, w: conv2d.conv2d(x, w, 1, 1), lambda x, w: conv2d.reference(x, w, 1, 1),
              lambda torch, x, w: torch.nn.functional.conv2d(x, w, padding=1), "GFLOP/s",
              2 * 2 * 56 * 56 * 32 * 16 * 9, tolerance=1e-3)
    yield Row("max pooling 3x3 by 2", ((8, 256, 256),), max_pool.max_pool, max_pool.reference,
              lambda torch, x: torch.nn.functional.max_pool2d(x, 3, 2), "GB/s", 8 * 256 * 256 * 5)
    yield Row("transposition", ((1024, 1024),), transpose.transpose, transpose.reference,
              lambda torch, x: x.t().contiguous(), "GB/s", 8 << 20)
    for dtype, tolerance in (("float32", 1e-4), ("float16", 1e-2)):
        yield Row(f"attention {dtype}", ((2, 512, 64),) * 3, attention.attention, attention.reference,
                  lambda torch, q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v), "GFLOP/s",
                  4 * 2 * 512 * 512 * 64, dtype, tolerance)


# ---------------------------------------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """What came of a row: largest error, seconds per call of tritium and of its rival, their ratio, what disturbed."""

    error: float
    ours: float
    theirs: float
    ratio: Ratio
    noise: list[str]


def import_torch() -> Any:
    """torch, or None where it is not installed."""
    try:
        import torch
    except ImportError:
        return None
    return torch


def make_inputs(row: Row, torch: Any, device: str) -> tuple[list[np.ndarray], list[Any]]:
    """The inputs in float64, exactly as the kernel sees them, and as arrays or tensors."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape, dtype=np.float32).astype(numpy_dtype(row.dtype)) for shape in row.shapes]
    exact = [x.astype(np.float64) for x in arrays]
    if torch is None:
        return exact, arrays
    return exact, [torch.from_numpy(x.astype(np.float32)).to(getattr(torch, row.dtype)).to(device) for x in arrays]


def run_row(row: Row, torch: Any, device: str, seconds: float) -> Outcome:
    """Check a kernel against float64 and time it beside its rival."""
    exact, inputs = make_inputs(row, torch, device)
    result = first(row.run(*inputs))
    result = result if torch is None else result.cpu().double().numpy()
    difference = np.abs(result.astype(np.float64) - first(row.reference(*exact)))
    error = float(difference.max()) if np.isfinite(difference).all() else float("inf")
    narrow = [x.astype(np.float32) for x in exact]
    rival = (lambda: row.reference(*narrow)) if torch is None else (lambda: row.rival(torch, *inputs))
    wait = torch.cuda.synchronize if torch is not None and device == "cuda" else (lambda: None)
    watch = Watch()
    times = measure({"ours": lambda: row.run(*inputs), "theirs": rival}, HostClock(wait), seconds,
                    each_round=watch.tick)
    ours, theirs = times["ours"], times["theirs"]
    return Outcome(error, summary(ours).median, summary(theirs).median, ratio(ours, theirs), watch.noise().reasons)


def show_time(seconds: float) -> str:
    """A time in the unit that suits it.

    >>> show_time(0.0123), show_time(45e-6)
    ('12.30 ms', '45.0 us')
    """
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"


def main(arguments: list[str]) -> int:
    """Run the demo; the exit status is 1 if a result is wrong."""
    import tritium

    parser = argparse.ArgumentParser("python -m tritium demo", description=__doc__)
    parser.add_argument("--only", default="", help="only kernels whose name contains this")
    parser.add_argument("--seconds", type=float, default=0.4, help="time spent on measuring each kernel")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="by default the GPU if there is one")
    parser.add_argument("--numpy", action="store_true", help="use NumPy arrays even where torch is installed")
    options = parser.parse_args(arguments)
    names = [row.name for row in rows()]
    if not any(options.only in name for name in names):
        near = closest(options.only, [*names, *(word.strip(",") for name in names for word in name.split())])
        parser.error(f"no kernel's name contains {options.only!r}{near}\nthere are: " + "; ".join(names))
    if options.seconds <= 0:
        parser.error(f"--seconds must be above 0, not {options.seconds:g}")
    torch = None if options.numpy else import_torch()
    target = tritium.runtime.driver.active.get_current_target()
    device = options.device or ("cuda" if torch is not None and target.backend == "cuda" else "cpu")
    if device == "cuda" and (torch is None or not torch.cuda.is_available()):
        parser.error("there is no GPU here that torch can use: leave --device out, or write --device cpu"
                     if torch is not None else "kernels run on a GPU with torch's tensors, and torch is not in use")
    return show(torch, device, options.only, options.seconds)


def show(torch: Any, device: str, only: str, seconds: float) -> int:
    """Print the table row by row as results come in."""
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table

    rival = "NumPy" if torch is None else "torch"
    table = Table(title=f"tritium on {device}, beside {rival}")
    for column in ("kernel", "correct", "largest error", "tritium", rival, "speed-up", "rate"):
        table.add_column(column, justify="left" if column in ("kernel", "correct") else "right")
    wrong: dict[str, str] = {}
    noise: list[list[str]] = []
    console = Console(width=None if Console().is_terminal else 120)
    with Live(table, console=console, auto_refresh=False, vertical_overflow="visible") as live:
        for row in rows():
            if only not in row.name:
                continue
            try:
                got = run_row(row, torch, device, seconds)
            except Exception as error:  # the other kernels are still worth seeing; the exit status tells
                wrong[row.name] = f"{type(error).__name__}: {error}"
                table.add_row(row.name, f"[red]{type(error).__name__}[/]")
            else:
                if got.error > row.tolerance:
                    wrong[row.name] = f"off by {got.error:.2e}, more than {row.tolerance:.0e}"
                noise.append(got.noise if got.ratio.is_clear else got.noise or ["the times vary too much"])
                table.add_row(row.name, "[red]NO[/]" if row.name in wrong else "[green]yes[/]", *figures(row, got))
            live.refresh()
    console.print()
    for name, why in wrong.items():
        console.print(f"{name}: {why}", markup=False, style="red")
    if noisy := [reasons for reasons in noise if reasons]:
        console.print(f"too noisy to judge {len(noisy)} of {len(noise)} speed-ups: {'; '.join(max(noisy, key=len))}",
                      markup=False)
    console.print("not all correct" if wrong else "all correct")
    return 1 if wrong else 0


def figures(row: Row, got: Outcome) -> tuple[str, ...]:
    """The cells after "correct"."""
    return (f"{got.error:.1e}", show_time(got.ours), show_time(got.theirs), ratio_text(got.ratio, got.noise),
            f"{row.work / got.ours / 1e9:.1f} {row.unit}")
