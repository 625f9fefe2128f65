"""What `tritium.explain` predicts beside what an NVIDIA GPU measures, for the rows of `benchmarks/gpu.py`.

    python benchmarks/insight.py [--rows matmul,softmax] [--counters] [--seconds 500] [--json out.json]
    python benchmarks/insight.py --measured out.json      # the table again, by today's model; needs no GPU

Times are medians as `gpu.py` takes them. With `--counters` each row runs once more under Nsight Compute (`ncu`), whose
requests, sectors, passes through shared memory, occupancy and registers stand beside the predicted ones. The ratio is
predicted over measured. A row that fails prints why; when the time is up, the rows that are left are named.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time

import gpu
import insight_counters as counting
import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from tritium.insight.explain.capture import first_launch
from tritium.insight.explain.explanation import explained


class _OnHost(TorchFunctionMode):
    """Tensors for `device="cuda"` are zeros in host memory that take no room until something touches them."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if kwargs.get("device") != "cuda":
            return func(*args, **kwargs)
        shape = args[0] if args and isinstance(args[0], (tuple, list)) else args
        dtype = kwargs.get("dtype") or torch.float32
        zeros = torch.from_numpy(np.zeros(int(np.prod(shape)) * dtype.itemsize, np.uint8)).view(dtype)
        return zeros.reshape(shape)


def rows(wanted):
    """(group, row) of those that are wanted, by group or by part of a name; all by default."""
    if wanted and all(w in gpu.GROUPS for w in wanted):
        yield from ((group, row) for group in wanted for row in gpu.GROUPS[group]())
        return
    for group, make in gpu.GROUPS.items():
        for row in make():
            if not wanted or any(w == group or w in row.name for w in wanted):
                yield group, row


def launch(row):
    """Launch a row's first configuration."""
    return row.launch(gpu.SIDES["tritium"], **row.configs[0])


def explain_row(row, target, device):
    """The explanation of a row's first configuration. Its tensors are in host memory."""
    found = first_launch(lambda: launch(row))
    return explained(found.kernel, found.grid, found.args, found.meta, target, devices=[device], owned=True)


def predicted(found):
    """Figures by the names of the counters."""
    def by(kinds, ways, field="sectors"):
        return sum(getattr(r, field) for r in found.requests if r.kind in kinds and r.how in ways)

    r, roof = found.resources, found.roofline
    passes = lambda side, field: sum(getattr(s, field) for s in found.shared if s.side == side)
    everything = ("threads", "cp.async", "TMA")
    return {
        "load requests": by(["load"], ["threads"], "requests"), "load sectors": by(["load"], ["threads"]),
        "store requests": by(["store"], ["threads"], "requests"), "store sectors": by(["store"], ["threads"]),
        "atomic sectors": by(["atomic"], ["threads"]), "cp.async sectors": by(["load"], ["cp.async"]),
        "L2 read sectors": by(["load"], everything, "missed"), "L2 write sectors": by(["store"], everything),
        "shared passes, loads": passes("read", "total"), "shared passes, stores": passes("write", "total"),
        "passes of instructions, loads": passes("read", "total"),
        "passes of instructions, stores": passes("write", "total"),
        "bank conflicts, loads": passes("read", "total_conflicts"),
        "bank conflicts, stores": passes("write", "total_conflicts"),
        "DRAM bytes": roof.dram_bytes, "registers": r.registers, "shared memory": r.shared,
        "occupancy, %": 100 * r.occupancy.share if r.occupancy else None, "time, s": found.prediction.seconds,
    }  # fmt: skip


def counted(seen):
    """The counters, with the sums that predictions are for."""
    out = dict(seen)
    for name, parts in (("DRAM bytes", ("DRAM read bytes", "DRAM written bytes")),
                        ("atomic sectors", ("atomic sectors, result read", "atomic sectors, others")),
                        ("shared memory", ("shared dynamic", "shared static"))):
        if all(part in seen for part in parts):
            out[name] = sum(seen[part] for part in parts)
    return out


def measured(row):
    """Milliseconds of a launch."""
    run = lambda: launch(row)
    run()
    torch.cuda.synchronize()
    return statistics.median(gpu.timed(run, 20) if row.long else gpu.cold(run) for _ in range(9))


def measure_all(wanted, clock):
    """{row: {"measured ms": ..} or {"error": ..}} of all rows, until the time is up."""
    out = {}
    for _, row in rows(wanted):
        if clock.left() < 0:
            out[row.name] = {"error": "not timed: the time was up"}
            continue
        try:
            out[row.name] = {"measured ms": measured(row)}
        except Exception as problem:
            out[row.name] = {"error": f"{type(problem).__name__}: {problem}"[:300]}
        torch.cuda.empty_cache()
    return out


def count_all(wanted, clock, out):
    """Add "counters" to each row that was measured."""
    if why := counting.missing():
        print(f"no counters: {why}", flush=True)
        return
    metrics = counting.known_metrics(counting.COUNTERS)
    if unknown := sorted(set(counting.COUNTERS) - set(metrics)):
        print(f"ncu does not know the metrics of: {', '.join(unknown)}", flush=True)
    groups = [g for g in gpu.GROUPS if not wanted or g in wanted] or list(gpu.GROUPS)
    for group in groups:
        if clock.left() < 5:
            print(f"{group}: no counters, the time was up", flush=True)
            continue
        found, problem = counting.count_group(__file__, group, metrics, clock.left())
        if problem:
            print(f"{group}: {problem}", flush=True)
            if clock.left() > 20 and all("error" in values for values in found.values()):  # perhaps fewer metrics go
                core = {name: metric for name, metric in metrics.items() if name in counting.CORE}
                found, problem = counting.count_group(__file__, group, core, clock.left())
                print(f"{group}, once more with fewer metrics: {problem or 'done'}", flush=True)
        for name, values in found.items():
            if name in out:
                out[name]["counters"] = values


class Clock:
    """How much time is left."""

    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def left(self):
        """Seconds."""
        return self.end - time.monotonic()


def table(wanted, out, args, clock):
    """Print predicted, counted and their ratio for each row, and keep the predictions in `out`."""
    with _OnHost():
        for _, row in rows(wanted):
            entry = out.setdefault(row.name, {})
            if clock.left() < 0:
                print(f"{row.name:<36} not predicted: the time was up", flush=True)
                continue
            try:
                found = explain_row(row, args.target, args.device)
                mine = predicted(found)
                entry["predicted"], entry["bound"] = mine, found.bound
                entry["parts"] = found.prediction.parts | {"busy": found.prediction.busy}
                show(row.name, entry, args.counters)
            except Exception as problem:
                print(f"{row.name:<36} {type(problem).__name__}: {problem}"[:300], flush=True)
                entry["prediction error"] = f"{type(problem).__name__}: {problem}"[:300]


def show(name, entry, counters):
    """One row: its time, then its counters."""
    mine, real = entry["predicted"], entry.get("measured ms")
    ms = mine["time, s"] * 1e3
    beside = f"{real:9.4f} ms  {ms / real:5.2f}" if real else f"{entry.get('error', 'not measured'):>19}"
    print(f"{name:<36} {ms:9.4f} ms  {beside}  {entry['bound']}", flush=True)
    seen = counted(entry.get("counters", {}))
    if not counters or not seen:
        return
    if "error" in seen:
        print(f"    counters: {seen['error']}", flush=True)
        return
    for what, value in seen.items():
        guess = mine.get(what)
        if guess is None:
            print(f"    {what:<26} {'':>16} {value:16.6g}", flush=True)
        else:
            print(f"    {what:<26} {guess:16.6g} {value:16.6g}  {_ratio(guess, value)}", flush=True)


def _ratio(guess, value):
    return f"{guess / value:5.3f}" if value else "  both 0" if not guess else "counted 0"


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="", help="groups, or parts of row names")
    parser.add_argument("--device", default="H200")
    parser.add_argument("--target", default="cuda:90a")
    parser.add_argument("--counters", action="store_true")
    parser.add_argument("--seconds", type=float, default=540, help="stop after this time")
    parser.add_argument("--json", help="write every figure to this file")
    parser.add_argument("--measured", help="a file of --json: predict again, measure nothing")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--notes", help=argparse.SUPPRESS)
    args = parser.parse_args()
    wanted, clock = [name for name in args.rows.split(",") if name], Clock(args.seconds)
    if args.child:
        kernel_of = lambda row: first_launch(lambda: launch(row)).kernel.__name__
        counting.launch_group(gpu.GROUPS[args.child](), launch, kernel_of, args.notes)
        return
    out: dict = {}
    if args.measured:
        with open(args.measured) as file:
            out = json.load(file)
    elif torch.cuda.is_available():
        out = measure_all(wanted, clock)
        save(out, args.json)
        if args.counters:
            count_all(wanted, clock, out)
            save(out, args.json)
    table(wanted, out, args, clock)
    save(out, args.json)


def save(out, path):
    """Write what is known by now."""
    if path:
        with open(path, "w") as file:
            json.dump(out, file, indent=1)


if __name__ == "__main__":
    sys.exit(main())
