"""What `tritium.explain` predicts beside what an NVIDIA GPU measures, for the rows of `benchmarks/gpu.py`.

    python benchmarks/insight.py [--rows matmul,softmax] [--device H200] [--counters] [--json out.json]

Times are medians as `gpu.py` takes them. With `--counters` each row runs once more under Nsight Compute (`ncu`), whose
requests, sectors, bank conflicts, registers and bytes of DRAM stand beside the predicted ones. The ratio is predicted
over measured.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import statistics
import subprocess
import sys

import gpu
import torch

from tritium.insight.explain.capture import first_launch
from tritium.insight.explain.explanation import explained

COUNTERS = {
    "load requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "load sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "store requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "store sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "bank conflicts": "l1tex__data_bank_conflicts_pipe_lsu.sum",
    "registers": "launch__registers_per_thread",
    "DRAM bytes": "dram__bytes.sum",
}


def rows(wanted):
    """The rows of the groups that are wanted, all by default."""
    for name, make in gpu.GROUPS.items():
        if not wanted or name in wanted:
            yield from make()


def explain_row(row, device):
    """The explanation of a row's first configuration."""
    found = first_launch(lambda: row.launch(gpu.SIDES["tritium"], **row.configs[0]))
    arch = "".join(map(str, torch.cuda.get_device_capability()))
    return explained(found.kernel, found.grid, found.args, found.meta, f"cuda:{arch}{'a' if arch == '90' else ''}",
                     devices=[device])


def predicted(found):
    """Figures by the names of the counters. What goes by TMA or cp.async is not among the LSU's requests."""
    by = lambda kind, field: sum(getattr(r, field) for r in found.requests if r.kind == kind and r.how == "threads")
    return {"load requests": by("load", "requests"), "load sectors": by("load", "sectors"),
            "store requests": by("store", "requests"), "store sectors": by("store", "sectors"),
            "registers": found.resources.registers, "DRAM bytes": found.roofline.dram_bytes}  # fmt: skip


def measured(row):
    """Milliseconds of a launch."""
    launch = lambda: row.launch(gpu.SIDES["tritium"], **row.configs[0])
    launch()
    torch.cuda.synchronize()
    return statistics.median(gpu.timed(launch, 20) if row.long else gpu.cold(launch) for _ in range(9))


def counters(name):
    """What Nsight Compute counts in one launch of a row."""
    command = ["ncu", "--csv", "--metrics", ",".join(COUNTERS.values()), "--launch-count", "1", "--profile-from-start",
               "off", sys.executable, __file__, "--once", name]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:3])} failed:\n{done.stderr or done.stdout}")
    return read_counters(done.stdout)


def read_counters(text):
    """{name of a figure: value} in the table that `ncu --csv` prints, after what the program printed."""
    table = text[text.index('"ID"'):]
    values = {row["Metric Name"]: float(row["Metric Value"].replace(",", "")) * _unit(row.get("Metric Unit", ""))
              for row in csv.DictReader(io.StringIO(table)) if row.get("Metric Value")}
    return {name: values[metric] for name, metric in COUNTERS.items() if metric in values}


def _unit(name):
    return {"Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}.get(name, 1.0)


def once(name):
    """Launch a row twice, the second time while Nsight Compute looks on."""
    row = next(row for row in rows(()) if row.name == name)
    for profiled in (False, True):
        if profiled:
            torch.cuda.cudart().cudaProfilerStart()
        row.launch(gpu.SIDES["tritium"], **row.configs[0])
        torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="")
    parser.add_argument("--device", default="H200")
    parser.add_argument("--counters", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--once")
    args = parser.parse_args()
    if args.once:
        once(args.once)
        return
    out = []
    for row in rows([name for name in args.rows.split(",") if name]):
        found, real = explain_row(row, args.device), measured(row)
        guess = found.prediction.seconds * 1e3
        entry = {"row": row.name, "predicted ms": guess, "measured ms": real, "bound": found.bound}
        print(f"{row.name:<36} {guess:9.4f} ms  {real:9.4f} ms  {guess / real:5.2f}  {found.bound}", flush=True)
        if args.counters:
            seen, mine = counters(row.name), predicted(found)
            entry["counters"] = {name: [mine.get(name), value] for name, value in seen.items()}
            for name, value in seen.items():
                ratio = f"{mine[name] / value:5.2f}" if value and name in mine else ""
                print(f"    {name:<16} {mine.get(name, float('nan')):16.0f} {value:16.0f}  {ratio}")
        out.append(entry)
    if args.json:
        with open(args.json, "w") as file:
            json.dump(out, file, indent=1)


if __name__ == "__main__":
    main()
