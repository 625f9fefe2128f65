"""Worker processes that compile: what they make, what happens when one dies, and what they must not have."""

import linecache
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium import knobs
from tritium.backends.compiler import GPUTarget
from tritium.compiler import ASTSource, frames, pool, worker
from tritium.compiler.elsewhere import Promise, _job

ROOT = Path(__file__).resolve().parents[2]
CPU, CUDA = GPUTarget("cpu", "host", 1), GPUTarget("cuda", 90, 32)

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are looked up in /proc")


@triton.jit
def scale(x, n, K: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, i < n) * K, i < n)


@pytest.fixture
def workers(monkeypatch, tmp_path):
    """A pool of two workers that are there, and an empty cache."""
    monkeypatch.setenv("TRITIUM_COMPILE_WORKERS", "2")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(pool, "_refused", False)
    if pool._pool is not None and (pool._pool.size != 2 or pool._pool.losses):
        pool.shut_down()
    found = pool.current("cpu:host:1")
    until(lambda: found.ready == 2)
    return found


@pytest.fixture(scope="module", autouse=True)
def end():
    yield
    pool.shut_down()


def until(holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came to hold"
        time.sleep(0.01)


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def promise(kernel=scale, target=CPU, block=64, k=3, options=None):
    source = ASTSource(kernel, {"x": "*fp32", "n": "i32"}, {"K": k, "BLOCK": block})
    return Promise(lambda kernel: None, partial(triton.compile, source, target, options, None))


def launch(compiled, n=100):
    x = np.ones(n, np.float32)
    compiled[(2, 1, 1)](x, n, None, None)  # constants are those it was compiled for
    return x


# -- what they make ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [CPU, CUDA], ids=["cpu", "cuda"])
def test_a_worker_makes_what_this_process_makes(workers, target, tmp_path, monkeypatch):
    made = promise(target=target)
    made.offer(workers)
    until(lambda: made.ready)
    there = made.result()
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "other"))
    here = promise(target=target).result()
    last = "obj" if target is CPU else "ptx"  # how a cubin is made depends on what the machine has
    assert list(there.asm) == list(here.asm)
    assert all(there.asm[ext] == here.asm[ext] for ext in there.asm if ext != "cubin") and last in there.asm
    assert there.hash == here.hash and there.metadata == here.metadata
    if target is CPU:
        assert (launch(there) == 3).all()


def test_what_a_worker_made_is_kept_on_disk(workers):
    first = promise()
    first.offer(workers)
    until(lambda: first.ready)
    first.result()
    again = promise()
    assert again.ready and again.result().asm["llir"] == first.result().asm["llir"]
    again.offer(workers)
    assert again.task is None, "nothing is left to do"


def test_a_kernel_that_no_worker_has_begun_is_compiled_here(workers):
    for pid in children(workers.process.pid):
        os.kill(pid, signal.SIGSTOP)
    try:
        made = [promise(k=k) for k in (3, 4, 5)]
        for one in made:
            one.offer(workers)
        until(lambda: len(workers.waiting) == 1)
        assert (launch(made[2].result()) == 5).all()
    finally:
        for pid in children(workers.process.pid):
            os.kill(pid, signal.SIGCONT)
    assert [one.result().name for one in made] == ["scale"] * 3


def test_settings_of_this_process_count(workers, monkeypatch):
    monkeypatch.setenv("TRITON_DISABLE_LINE_INFO", "1")
    monkeypatch.setattr(knobs, "cpu_opt", 0)
    made = promise()
    made.offer(workers)
    until(lambda: made.ready)
    reply = frames.loads(made.task.reply)
    assert not reply.reason
    here = promise()
    here._making.go_on()
    assert reply.contents["obj"] == here._making.contents["obj"]


def test_errors_of_the_compiler_are_those_of_this_process(workers, monkeypatch):
    made = promise(target=CUDA, options={"ptx_options": "--no-such-option"})
    made.offer(workers)
    until(lambda: made.ready)
    with pytest.raises(triton.runtime.errors.PTXASError, match="no-such-option"):
        made.result()
    with pytest.raises(triton.runtime.errors.PTXASError, match="no-such-option"):
        made.result()


class Mine:
    """A type that a worker does not have."""


def test_what_does_not_travel_is_compiled_here(workers):
    made = promise()
    made._making.metadata["mine"] = Mine()
    made.offer(workers)
    until(lambda: made.ready)
    assert "does not travel" in frames.loads(made.task.reply).reason
    del made._making.metadata["mine"]
    assert (launch(made.result()) == 3).all()
    other = promise(k=7)
    other._making.metadata["mine"] = lambda: None  # cannot even be pickled
    other.offer(workers)
    assert other.task is None


@pytest.mark.parametrize("what", ["hook", "dump", "libraries"])
def test_what_is_to_be_seen_here_is_compiled_here(workers, what, monkeypatch, tmp_path):
    with knobs.runtime.scope(), knobs.compilation.scope():
        if what == "hook":
            knobs.runtime.add_stages_inspection_hook = lambda *args: ("mine", "key")
        elif what == "dump":
            monkeypatch.setenv("TRITON_DUMP_DIR", str(tmp_path / "dump"))
            knobs.compilation.dump_ir = True
        made = promise(options={"extern_libs": {"a": "b"}} if what == "libraries" else None)
        made.offer(workers)
        assert made.task is None


NOTEBOOK = """
@triton.jit
def from_a_cell(x, n, K: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, i < n) * FACTOR + K, i < n)
"""


def test_kernels_of_notebooks(workers):
    name = "<ipython-input-1>"
    linecache.cache[name] = (len(NOTEBOOK), None, NOTEBOOK.splitlines(True), name)
    scope = {"triton": triton, "tl": tl, "FACTOR": tl.constexpr(5), "__name__": "__main__"}
    exec(compile(NOTEBOOK, name, "exec"), scope)
    made = promise(scope["from_a_cell"])
    made.offer(workers)
    until(lambda: made.ready)
    assert not frames.loads(made.task.reply).reason
    assert (launch(made.result()) == 5 + 3).all()


# -- processes that die ------------------------------------------------------------------------------------------------


def test_a_worker_that_is_killed(workers):
    """In the middle of a job: it has taken it, and stands still."""
    old = children(workers.process.pid)
    for pid in old:
        os.kill(pid, signal.SIGSTOP)
    try:
        made = promise()
        made.offer(workers)
        until(lambda: not workers.waiting)
        assert not made.ready
    finally:
        for pid in old:
            os.kill(pid, signal.SIGKILL)
    assert (launch(made.result()) == 3).all()
    until(lambda: workers.ready == 2)
    assert not set(children(workers.process.pid)) & set(old), "others took their place, and they left nothing behind"


def test_a_nursery_that_is_killed(workers):
    pids = [workers.process.pid, *children(workers.process.pid)]
    made = promise()
    os.kill(workers.process.pid, signal.SIGKILL)
    made.offer(workers)
    assert (launch(made.result()) == 3).all()
    until(lambda: not workers.open and not any(map(running, pids)))
    until(lambda: workers.process.returncode is not None)
    other = pool.current("cpu:host:1")
    assert other is not None and other is not workers


def test_workers_that_keep_dying_are_given_up(workers, monkeypatch):
    monkeypatch.setattr(pool, "_MOST_LOSSES", 3)
    while workers.open:
        for pid in children(workers.process.pid):
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    assert pool.current("cpu:host:1") is None


def test_where_nothing_may_be_started(monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(1, "not here")

    pool.shut_down()
    monkeypatch.setattr(pool, "_refused", False)
    monkeypatch.setattr(subprocess, "Popen", refuse)
    assert pool.current("cpu:host:1") is None and pool._refused
    assert (launch(promise().result()) == 3).all()


def test_an_interpreter_that_cannot_start_is_found_out(monkeypatch, tmp_path):
    monkeypatch.setenv("TRITIUM_COMPILE_WORKERS", "1")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(pool, "_refused", False)
    pool.shut_down()
    monkeypatch.setattr(sys, "executable", "/bin/false")
    found = pool.current("cpu:host:1")
    made = promise()
    made.offer(found)
    assert (launch(made.result()) == 3).all()
    until(lambda: not found.open)
    assert pool.current("cpu:host:1") is None


def test_it_can_be_switched_off(monkeypatch):
    monkeypatch.setenv("TRITIUM_COMPILE_WORKERS", "0")
    assert pool.current("cpu:host:1") is None


PARENT = """
import os, sys, time
from tritium.compiler import pool
found = pool.current("cpu:host:1")
while found.ready < 2:
    time.sleep(0.01)
workers = open(f"/proc/{found.process.pid}/task/{found.process.pid}/children").read().split()
print(found.process.pid, *workers, flush=True)
if sys.argv[1] == "fork" and os.fork() == 0:
    time.sleep(60)  # has copies of all that its parent has open
if sys.argv[1] != "exit":
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("end", ["exit", "kill", "fork"])
def test_they_end_with_their_parent(end):
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TRITIUM_COMPILE_WORKERS": "2"}
    started = subprocess.Popen([sys.executable, "-c", PARENT, end], env=env, stdout=subprocess.PIPE, text=True,
                               start_new_session=True)
    pids = [int(pid) for pid in started.stdout.readline().split()]
    started.wait(60)
    try:
        assert len(pids) == 3
        until(lambda: not any(map(running, pids)))
    finally:
        if end == "fork":
            os.killpg(started.pid, signal.SIGKILL)
        started.stdout.close()


def test_a_forked_child_does_without(workers):
    made = promise()
    made.offer(workers)
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if (launch(made.result()) == 3).all() and pool._pool is None else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert (launch(made.result()) == 3).all() and workers.open
    until(lambda: workers.ready == 2)


# -- what they must not have -------------------------------------------------------------------------------------------


def test_this_process_is_never_forked(monkeypatch, tmp_path):
    """It may have a CUDA context: the nursery is another program, and the workers are its children."""
    script = tmp_path / "script.py"
    script.write_text("""
import os, sys, time
forks = []
os.register_at_fork(before=lambda: forks.append(os.getpid()))
from tritium.compiler import pool
found = pool.current("cuda:90:32")
while not found.ready:
    time.sleep(0.01)
assert forks == []
program = open(f"/proc/{found.process.pid}/cmdline").read()
assert "tritium.compiler.worker" in program, program
""")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TRITIUM_COMPILE_WORKERS": "1"}
    subprocess.run([sys.executable, str(script)], env=env, check=True, timeout=120)


def test_they_have_no_framework_and_no_files_of_ours(workers, tmp_path):
    pytest.importorskip("torch")
    held = open(tmp_path / "held", "w")
    for pid in [workers.process.pid, *children(workers.process.pid)]:
        maps = Path(f"/proc/{pid}/maps").read_text()
        assert "libtorch" not in maps and "libcuda" not in maps
        files = [os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir()]
        assert all(file == "/dev/null" or file.startswith(("socket:", "anon_inode:")) for file in files), files
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
    held.close()


def test_frames_hold_plain_data_and_our_types_alone():
    job = _job(promise(k=11)._making)
    assert frames.loads(frames.dumps(job)).target == CPU
    with pytest.raises(frames.Foreign, match=r"os\.system|posix\.system"):
        frames.loads(frames.dumps(os.system))


def test_a_job_is_all_a_worker_needs(tmp_path):
    """In this process, so that what it runs is seen."""
    reply = worker.work(frames.loads(frames.dumps(_job(promise(k=12)._making))))
    assert list(reply.contents) == ["ttir", "llir", "obj"] and reply.metadata["stores"] == (0,)
    assert [name for name, _ in reply.times] == ["ttir", "llir", "obj"]
