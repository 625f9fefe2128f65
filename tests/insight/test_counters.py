"""What `benchmarks/insight_counters.py` makes of Nsight Compute's output, with a program in the place of `ncu`."""

import os
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"

LOG = '''==PROF== Connected to process 1
"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","1","void at::native::fill<int>(int)","launch__registers_per_thread","register/thread","16"
"1","1","sum_kernel","launch__registers_per_thread","register/thread","32"
"1","1","sum_kernel","gpu__time_duration.sum","us","1,234.5"
"1","1","sum_kernel","dram__bytes_read.sum","Mbyte","2.5"
"1","1","sum_kernel","sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active","%","n/a"
'''
NCU = '''#!{python}
import json, sys
args = sys.argv[1:]
if "--query-metrics" in args:
    print("Device NVIDIA H200 (GH100)")
    for name in ("dram__bytes_read", "gpu__time_duration"):
        print(name, "  # of bytes")
    sys.exit()
open(args[args.index("--log-file") + 1], "w").write({log!r})
with open(args[args.index("--notes") + 1], "w") as notes:
    notes.write(json.dumps({{"row": "sum", "kernel": "sum_kernel"}}) + "\\n")
    notes.write(json.dumps({{"row": "bad", "error": "RuntimeError: no"}}) + "\\n")
    notes.write(json.dumps({{"row": "lost", "kernel": "add_kernel"}}) + "\\n")
sys.exit({status})
'''


@pytest.fixture
def counting(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import insight_counters

    yield insight_counters
    sys.modules.pop("insight_counters")


def put_ncu(folder, monkeypatch, status=0):
    path = folder / "ncu"
    path.write_text(NCU.format(python=sys.executable, log=LOG, status=status))
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_records_go_to_the_rows_that_were_noted(counting, tmp_path, monkeypatch):
    put_ncu(tmp_path, monkeypatch)
    found, problem = counting.count_group("insight.py", "sum", counting.COUNTERS, 60)
    assert problem == "" and found["sum"] == {"registers": 32.0, "time, s": 0.0012345, "DRAM read bytes": 2.5e6}
    assert found["bad"] == {"error": "RuntimeError: no"}
    assert found["lost"] == {"error": "ncu has no record of its launch"}


def test_a_run_that_fails_says_so_and_keeps_what_there_is(counting, tmp_path, monkeypatch):
    put_ncu(tmp_path, monkeypatch, status=3)
    found, problem = counting.count_group("insight.py", "sum", counting.COUNTERS, 60)
    assert "ended with 3" in problem and found["sum"]["registers"] == 32.0


def test_metrics_that_are_not_known_are_left_out(counting, tmp_path, monkeypatch):
    put_ncu(tmp_path, monkeypatch)
    known = counting.known_metrics(counting.COUNTERS)
    assert "DRAM read bytes" in known and "registers" in known and "load sectors" not in known


def test_without_ncu(counting, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "not on PATH" in counting.missing()
    assert counting.count_group("insight.py", "sum", counting.COUNTERS, 60)[1].startswith("ncu did not start")
    assert counting.known_metrics(counting.COUNTERS) == counting.COUNTERS
