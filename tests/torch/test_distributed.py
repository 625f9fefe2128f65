"""S45: kernels in a job of two processes: written out, through DTensor, and tuning together (`distributed_checks`)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from tritium.torch import parallel, tuning

ROOT = Path(__file__).resolve().parents[2]
CHECKS = [line.split("(")[0].removeprefix("def ") for part in
          (Path(__file__).parent / "distributed_checks.py").read_text().split("@check\n")[1:]
          for line in part.splitlines()[:1]]


def job(folder, device, size):
    """The results of each process: {check: "ok" or a traceback}."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    processes = [subprocess.Popen([sys.executable, "-m", "tests.torch.distributed_checks", str(folder), str(rank),
                                   str(size), device], cwd=ROOT, env=env, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True) for rank in range(size)]
    try:
        said = [process.communicate(timeout=540)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    found = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("*.json"))]
    assert len(found) == size, "\n".join(text[-3000:] for text in said)
    return found


def test_two_processes_on_the_cpu(tmp_path):
    if not dist.is_available() or not dist.is_gloo_available():
        pytest.skip("this torch is built without gloo")
    assert job(tmp_path, "cpu", 2) == [dict.fromkeys(CHECKS, "ok")] * 2


@pytest.mark.gpu
def test_processes_on_gpus(tmp_path):
    if not dist.is_nccl_available():
        pytest.skip("this torch is built without NCCL")
    size = min(2, torch.cuda.device_count())
    assert job(tmp_path, "cuda", size) == [dict.fromkeys(CHECKS, "ok")] * size


def test_without_a_job():
    with pytest.raises(RuntimeError, match="no process group to talk through\nhint: start the program with torchrun"):
        parallel.row_parallel(torch.ones(2, 2), torch.ones(2, 2))
    with pytest.raises(RuntimeError, match=r"no torch\.distributed job to tune in\nhint: call"):
        tuning.share()
    with pytest.raises(ValueError, match="needs the number of processes"):
        tuning.share(dist.HashStore())


def test_a_torch_without_rules(monkeypatch):
    from tritium.torch import sharding

    monkeypatch.setitem(sys.modules, "torch.distributed.tensor.experimental", None)
    with pytest.raises(RuntimeError, match=r"(?s)cannot be told how to shard.*hint: use torch 2.5 or later"):
        sharding._placements()
