"""What Nsight Compute (`ncu`) counts in launches of the rows of `benchmarks/gpu.py`; used by `insight.py`.

A group of rows runs in one child process under ncu. The child turns counting on for one launch of each row and notes
the row in a file; records of ncu and notes are then matched in order, by the kernel's name. Nothing here raises for a
row: what went wrong is its `error`.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

# Figure -> metric. Loads and stores of threads are the LSU's; cp.async (ldgsts) is counted apart from loads. TMA passes
# by the LSU: its traffic is only among the sectors of the L2 cache. Atomics whose result is read (atom) are counted
# apart from the others (red). The passes through shared memory that the hardware counts have those in which an access
# waits for TMA, cp.async or the tensor cores; the passes of instructions have only what addresses make of them.
COUNTERS = {
    "load requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "load sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "load sectors in L1": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
    "store requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "store sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "atomic sectors, result read": "l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum",
    "atomic sectors, others": "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum",
    "cp.async sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ldgsts.sum",
    "L2 read sectors": "lts__t_sectors_srcunit_tex_op_read.sum",
    "L2 write sectors": "lts__t_sectors_srcunit_tex_op_write.sum",
    "shared passes, loads": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared passes, stores": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "passes of instructions, loads": "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "passes of instructions, stores": "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "bank conflicts, loads": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "bank conflicts, stores": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "DRAM read bytes": "dram__bytes_read.sum",
    "DRAM written bytes": "dram__bytes_write.sum",
    "instructions": "smsp__inst_executed.sum",
    "registers": "launch__registers_per_thread",
    "shared dynamic": "launch__shared_mem_per_block_dynamic",
    "shared static": "launch__shared_mem_per_block_static",
    "programs by registers": "launch__occupancy_limit_registers",
    "programs by shared memory": "launch__occupancy_limit_shared_mem",
    "programs by warps": "launch__occupancy_limit_warps",
    "programs by blocks": "launch__occupancy_limit_blocks",
    "occupancy, %": "sm__maximum_warps_per_active_cycle_pct",
    "occupancy reached, %": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "DRAM busy, %": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "L2 busy, %": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "L1 busy, %": "l1tex__throughput.avg.pct_of_peak_sustained_elapsed",
    "SM busy, %": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "issue slots busy, %": "sm__inst_issued.avg.pct_of_peak_sustained_active",
    "tensor pipe busy, %": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "clock, Hz": "sm__cycles_elapsed.avg.per_second",
    "time, s": "gpu__time_duration.sum",
}
CORE = ("load requests", "load sectors", "store requests", "store sectors", "registers", "shared dynamic", "time, s")
UNITS = {"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12, "byte/block": 1.0, "Kbyte/block": 1e3,
         "Mbyte/block": 1e6, "ns": 1e-9, "nsecond": 1e-9, "us": 1e-6, "usecond": 1e-6, "ms": 1e-3, "msecond": 1e-3,
         "s": 1.0, "second": 1.0, "hz": 1.0, "Khz": 1e3, "Mhz": 1e6, "Ghz": 1e9, "cycle/second": 1.0,
         "cycle/nsecond": 1e9, "cycle/usecond": 1e6, "cycle/msecond": 1e3, "cycle/ns": 1e9, "cycle/us": 1e6,
         "cycle/ms": 1e3, "cycle/s": 1.0}  # fmt: skip


def missing() -> str:
    """Why there are no counters on this machine, or nothing."""
    return "" if shutil.which("ncu") else "ncu, of Nsight Compute, is not on PATH"


def known_metrics(wanted: dict[str, str]) -> dict[str, str]:
    """Those that this ncu knows for its device: a name it does not know would end the whole run."""
    try:
        done = subprocess.run(["ncu", "--query-metrics"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return dict(wanted)
    listed = {line.split()[0] for line in done.stdout.splitlines() if line[:1].isalpha()}
    if "dram__bytes_read" not in listed:  # another form of the list: better to try all
        return dict(wanted)
    return {name: metric for name, metric in wanted.items()
            if metric.startswith("launch__") or "." not in metric or metric.partition(".")[0] in listed}


def count_group(script: str, group: str, metrics: dict[str, str], seconds: float) -> tuple[dict[str, dict], str]:
    """({row: its counters or {"error": why}}, what went wrong with the group as a whole)."""
    with tempfile.TemporaryDirectory() as folder:
        notes, log = os.path.join(folder, "notes"), os.path.join(folder, "log.csv")
        command = ["ncu", "--csv", "--log-file", log, "--metrics", ",".join(metrics.values()), "--profile-from-start",
                   "off", "--clock-control", "none", "--target-processes", "all",
                   sys.executable, script, "--child", group, "--notes", notes]  # fmt: skip
        said = ""
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=max(seconds, 1))
            if done.returncode:
                said = f"ncu ended with {done.returncode}: {_tail(done.stderr) or _tail(done.stdout)}"
        except subprocess.TimeoutExpired:
            said = f"ncu took more than {seconds:.0f} s"
        except OSError as problem:
            said = f"ncu did not start: {problem}"
        written = [json.loads(line) for line in _read(notes).splitlines()]
        text = _read(log)
        errors = "; ".join(line for line in text.splitlines() if line.startswith("==ERROR=="))
        return matched(written, records(text), {m: name for name, m in metrics.items()}), said or errors


def matched(notes: list[dict], found: list[tuple[str, dict]], names: dict[str, str]) -> dict[str, dict]:
    """Give each row that was noted the next record with its kernel's name.

    >>> matched([{"row": "r", "kernel": "add"}], [("fill", {}), ("add", {"m": 2.0})], {"m": "requests"})
    {'r': {'requests': 2.0}}
    """
    out, left = {}, list(found)
    for note in notes:
        if "error" in note:
            out[note["row"]] = {"error": note["error"]}
            continue
        k = next((k for k, (kernel, _) in enumerate(left) if kernel.startswith(note["kernel"])), None)
        if k is None:
            out[note["row"]] = {"error": "ncu has no record of its launch"}
            continue
        out[note["row"]] = {names[metric]: value for metric, value in left[k][1].items() if metric in names}
        del left[: k + 1]
    return out


def records(text: str) -> list[tuple[str, dict[str, float]]]:
    """(kernel, {metric: value in base units}) of each launch in what `ncu --csv` writes.

    >>> records('noise\\n"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\\n"0","f","t","us","1,000.5"')
    [('f', {'t': 0.0010005})]
    """
    if '"ID"' not in text:
        return []
    out: dict[str, tuple[str, dict[str, float]]] = {}
    for row in csv.DictReader(io.StringIO(text[text.index('"ID"'):])):
        name, value = row.get("Metric Name"), (row.get("Metric Value") or "").replace(",", "")
        kernel = out.setdefault(row["ID"], (row.get("Kernel Name") or "", {}))
        if name and re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?", value, re.I):
            scale = UNITS.get(row.get("Metric Unit") or "", 1.0)
            kernel[1][name] = round(float(value) * scale, 12)
    return list(out.values())


def launch_group(rows, launch, kernel_of, path: str) -> None:
    """In the child: launch each row twice, the second time while ncu counts, and note what was launched."""
    import torch

    with open(path, "a") as notes:
        for row in rows:
            note = {"row": row.name}
            try:
                launch(row)
                torch.cuda.synchronize()
                note["kernel"] = kernel_of(row)
                torch.cuda.cudart().cudaProfilerStart()
                launch(row)
                torch.cuda.synchronize()
                torch.cuda.cudart().cudaProfilerStop()
            except Exception as problem:
                note["error"] = f"{type(problem).__name__}: {problem}"[:300]
            notes.write(json.dumps(note) + "\n")
            notes.flush()


def _read(path: str) -> str:
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _tail(text: str) -> str:
    return " ".join(text.strip().splitlines()[-3:])[:400]
