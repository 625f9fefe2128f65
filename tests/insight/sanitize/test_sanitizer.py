"""`tritium sanitize`: what it leaves alone, what its reports say, and the ways to turn it on."""

import json
import os
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

import tritium
import tritium as triton
import tritium.language as tl
from tests import processes
from tritium import knobs
from tritium.insight.sanitize.report import Finding, Report
from tritium.kernels.layer_norm import layer_norm, layer_norm_backward
from tritium.kernels.vector_add import add_kernel


@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i), mask=i < n)


# --- what a report says -----------------------------------------------------------------------------------------------
def test_a_report_names_the_program_the_lane_and_the_element():
    x, y = torch.ones(1000), torch.zeros(1000)
    with tritium.sanitize() as report:
        copy[(4,)](x, y, 1000, BLOCK=256)
    finding, = report
    assert (finding.kind, finding.kernel, finding.program, finding.lane) == ("out of bounds", "copy", (3, 0, 0), (232,))
    assert (finding.tensor, finding.shape, finding.index, finding.count) == ("x", (1000,), 1000, 24)
    assert "tl.load(x + i)" in finding.text() and "^^^^^^^^^^^^^^" in finding.text() and "hint: mask" in finding.text()
    assert str(report) == report.text() and finding.text() in str(report), "print shows it"
    assert y.tolist() == [1.0] * 1000, "lanes that are fine go on"


def test_a_store_out_of_bounds_does_not_happen():
    whole = np.zeros(200, np.float32)
    with tritium.sanitize() as report:
        add_kernel[(1,)](np.ones(128, np.float32), np.ones(128, np.float32), whole[:100], 128, BLOCK=128)
    assert report.kinds() == ["out of bounds"] and (whole[:100] == 2).all() and not whole[100:].any()


def test_a_race_names_both_sides():
    from tests.insight.sanitize.bugs.races import sum_without_atomics

    with tritium.sanitize() as report:
        sum_without_atomics()
    finding, = report
    assert finding.other["program"] != finding.program and finding.other["access"] == "write"
    assert finding.other["places"][0][1] == finding.line and "the other side" in finding.text()


def test_findings_of_many_launches_are_one():
    x = torch.ones(1000)
    with tritium.sanitize() as report:
        for _ in range(3):
            copy[(4,)](x, torch.zeros(1000), 1000, BLOCK=256)
    finding, = report
    assert finding.launches == 3 and finding.count == 72
    assert report.summary() == "tritium sanitize: 1 mistake in 1 kernel (1 out of bounds)"
    data = json.loads(report.json())
    assert data["findings"][0]["places"][0]["file"] == __file__ and data["findings"][0]["lane"] == [232]


def test_an_index_of_several_axes():
    x = torch.ones(8, 48)[:, :32]
    from tests.insight.sanitize.bugs.out_of_bounds import rows

    with tritium.sanitize() as report:
        rows[(1,)](x, torch.zeros(8, 32), 32, N=32, M=8)
    finding, = report
    assert finding.lane == (1, 0) and "between its elements" in finding.message and "strides" in finding.hint


# --- what it leaves alone ---------------------------------------------------------------------------------------------
def test_views_with_their_own_strides_are_fine():
    from tests.insight.sanitize.bugs.out_of_bounds import rows

    x = torch.arange(16 * 48.0).reshape(16, 48)
    y = torch.zeros(16, 32)
    with tritium.sanitize() as report:
        rows[(1,)](x[:, :32], y, 48, N=32, M=16)
        rows[(1,)](x[:, 8:40], y, 48, N=32, M=16)
        rows[(1,)](torch.ones(1, 32).expand(16, 32), y, 0, N=32, M=16)
    assert not report, report.text()


@triton.jit
def extremes(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0)
    w = tl.sort(v)
    tl.store(y, tl.max(v, 0))
    tl.store(y + 1, tl.min(v, 0))
    tl.store(y + 2, tl.sum(v * v, 0))
    tl.store(y + 3, tl.max(w, 0))


def test_several_reductions_of_one_load():
    """Loops over what a check has masked do not look for the end of the mask again."""
    x, y = torch.arange(200, dtype=torch.int32) - 100, torch.zeros(4, dtype=torch.int32)
    with tritium.sanitize() as report:
        extremes[(1,)](x, y, 200, BLOCK=256)
    assert not report and y.tolist() == [99, -100, (x * x).sum().item(), 99]


def test_what_was_found_before_a_failed_assertion_is_told():
    with tritium.sanitize() as report, pytest.raises(RuntimeError, match="never"):
        asserting[(1,)](torch.ones(8), torch.zeros(16), debug=True)
    assert report.kinds() == ["out of bounds"]


@triton.jit
def asserting(x, y):
    i = tl.arange(0, 16)
    tl.store(y + i, tl.load(x + i))
    tl.device_assert(tl.load(y) < 0, "never")


@triton.jit
def same_everywhere(y):
    tl.store(y, 7)


@triton.jit
def ask_and_answer(box, done, y):
    """Program 0 fills a box and tells program 1."""
    if tl.program_id(0) == 0:
        tl.store(box, 42)
        tl.atomic_xchg(done, 1)
    else:
        while tl.atomic_add(done, 0) == 0:
            pass
        tl.store(y, tl.load(box))


@triton.jit
def exchange(x, tmp, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(tmp + i, tl.load(x + i))
    tl.debug_barrier()
    tl.store(y + i, tl.load(tmp + BLOCK - 1 - i))


def test_programs_that_wait_for_each_other_are_fine():
    y = torch.zeros(1, dtype=torch.int32)
    with tritium.sanitize() as report:
        ask_and_answer[(2,)](torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32), y)
        same_everywhere[(16,)](y)
        exchange[(1,)](torch.randn(64), torch.zeros(64), torch.zeros(64), BLOCK=64)
        x, w = torch.randn(64, 100), torch.randn(100)
        _, mean, rstd = layer_norm(x, w, w)
        layer_norm_backward(x, x, w, mean, rstd)  # under a lock
    assert not report, report.text()
    assert y.item() == 7


def test_memory_that_was_filled_after_all():
    x = torch.empty(1000)
    x.fill_(3)
    z = np.empty(1000, np.float32)
    z[:] = 1
    with tritium.sanitize() as report:
        copy[(4,)](x, torch.empty(1000), 768, BLOCK=256)
        inner = torch.empty(1024)
        copy[(4,)](torch.ones(1024), inner, 1024, BLOCK=256)
        copy[(4,)](inner, torch.empty(1024), 1024, BLOCK=256)
    kinds = [finding.kind for finding in report if finding.kind != "out of bounds"]
    assert not kinds, report.text()


@pytest.mark.parametrize("kernel", ["softmax", "matmul", "attention", "cross_entropy", "histogram", "topk",
                                    "compaction", "transpose", "rotary", "grouped_matmul", "dropout", "conv2d"])
def test_the_collection_has_no_mistakes(kernel):
    """By the examples of its modules, which run as they stand."""
    import doctest
    import importlib

    module = importlib.import_module(f"tritium.kernels.{kernel}")
    with tritium.sanitize() as report:
        result = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert result.attempted and not result.failed and not report, report.text()


# --- turning it on and off --------------------------------------------------------------------------------------------
def test_it_ends_with_the_context():
    x = torch.ones(64)
    with tritium.sanitize():
        checked = add_kernel[(1,)](x, x, torch.zeros(64), 64, BLOCK=64)
        assert knobs.sanitize and torch.empty is not None
    plain = add_kernel[(1,)](x, x, torch.zeros(64), 64, BLOCK=64)
    assert checked.metadata.sanitized and not plain.metadata.sanitized and checked.hash != plain.hash
    assert not knobs.sanitize and "tt.check" in checked.asm["llir"] and "tt.check" not in plain.asm["llir"]
    assert not hasattr(torch.empty, "__wrapped__")


def test_contexts_nest_and_threads_share_one():
    x = torch.ones(1000)
    with tritium.sanitize() as outer:
        with tritium.sanitize() as inner:
            copy[(4,)](x, torch.zeros(1000), 1000, BLOCK=256)
        threads = [threading.Thread(target=lambda: copy[(4,)](x, torch.zeros(1000), 1000, BLOCK=256)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(inner) == 1 and len(outer) == 1 and next(iter(outer)).launches == 4


SCRIPT = """
    import sys, torch, triton, triton.language as tl

    @triton.jit
    def copy(x, y, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + i, tl.load(x + i), mask=i < n)

    x = torch.empty(int(sys.argv[1])) if len(sys.argv) > 2 else torch.ones(int(sys.argv[1]))
    copy[(4,)](x, torch.zeros(1024), 1000, BLOCK=256)
    print("done", *sys.argv[1:])
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(SCRIPT))
    return path


def run(*arguments, **env):
    root = Path(tritium.__file__).parents[1]
    return processes.run(["-m", "tritium", *map(str, arguments)], env={**os.environ, "PYTHONPATH": str(root), **env})


def test_the_command(script, tmp_path):
    done = run("sanitize", "--json", tmp_path / "out.json", script, "1000")
    assert done.returncode == 3 and done.stdout == "done 1000\n"
    assert "out of bounds in kernel `copy`" in done.stderr and f"{script}:7:21" in done.stderr
    assert done.stderr.endswith("tritium sanitize: 1 mistake in 1 kernel (1 out of bounds)\n")
    assert json.loads((tmp_path / "out.json").read_text())["findings"][0]["kind"] == "out of bounds"


def test_kernels_with_the_same_text_in_other_files(script, tmp_path):
    """Of a kernel that comes from the cache, the file is the one that was run."""
    other = tmp_path / "copy.py"
    other.write_text(script.read_text())
    assert f"{script}:7:21" in run("sanitize", script, "1000").stderr
    assert f"{other}:7:21" in run("sanitize", other, "1000").stderr


def test_the_command_on_a_program_without_mistakes(script):
    done = run("sanitize", "--json", "-", script, "1024")
    assert done.returncode == 0 and json.loads(done.stdout.partition("\n")[2])["findings"] == []
    assert done.stderr == "tritium sanitize: nothing found\n"


def test_the_command_knows_memory_without_contents(script):
    assert "uninitialised in kernel `copy`" in run("sanitize", script, "1024", "empty").stderr


@pytest.mark.parametrize("arguments, status, said", [
    ([], 2, "name a script"), (["-m"], 2, "name a script"), (["--patience", "0", "x.py"], 2, "above 0"),
    (["no_such_script.py"], 2, "cannot open 'no_such_script.py'"), (["--json", "/no/such/folder/x", "x.py"], 2,
                                                                    "cannot open '/no/such/folder/x'"),
    (["-c", "raise SystemExit(7)"], 7,
     "nothing found\nnote: the program ended with status 7: what it did not reach is"),
    (["-c", "1/0"], 1, "ZeroDivisionError"),
    (["--target", "ryzen", "-c", ""], 2, "'ryzen' is not a target"),
])
def test_the_command_on_mistakes_of_its_own(arguments, status, said):
    done = run("sanitize", *arguments)
    assert done.returncode == status and said in done.stderr, done.stderr
    if "cannot open" in said:
        assert done.stderr.startswith(f"tritium sanitize: {said}") and done.stderr.count("\n") == 1


def test_the_environment_variable(script):
    done = run("run", script, "1000", TRITIUM_SANITIZE="1")
    assert done.returncode == 3 and "out of bounds in kernel `copy`" in done.stderr and done.stdout == "done 1000\n"
    assert done.stderr.endswith("(1 out of bounds)\n")
    clean = run("run", script, "1024", TRITIUM_SANITIZE="1")
    assert clean.returncode == 0 and clean.stderr == ""
    assert "uninitialised" in run("run", script, "1024", "empty", TRITIUM_SANITIZE="1").stderr


PLAIN = "import tritium; tritium.install_as_triton()\n" + textwrap.dedent(SCRIPT)


@pytest.mark.parametrize("end, status", [("", 3), ("sys.exit()", 3), ("sys.exit(0)", 3), ("sys.exit(7)", 7),
                                         ("sys.exit('no')", 1), ("1 / 0", 1), ("import os; os._exit(5)", 5)])
def test_the_exit_status_of_a_plain_script(tmp_path, end, status):
    """Its own unless that is 0; what it registers for its end still happens."""
    path, out = tmp_path / "script.py", tmp_path / "out.json"
    path.write_text(f"{PLAIN}\nimport atexit\natexit.register(print, 'over')\n{end}\n")
    root = Path(tritium.__file__).parents[1]
    done = processes.run([path, "1000"], env={
        **os.environ, "PYTHONPATH": str(root), "TRITIUM_SANITIZE": "1", "TRITIUM_SANITIZE_JSON": str(out)})
    assert done.returncode == status and "out of bounds in kernel `copy`" in done.stderr, done.stderr
    if status != 5:
        assert done.stdout == "done 1000\nover\n"
        assert json.loads(out.read_text())["findings"][0]["kind"] == "out of bounds"


def test_the_variables_of_a_plain_script(script, tmp_path):
    done = run("run", script, "1000", TRITIUM_SANITIZE="1", TRITIUM_SANITIZE_TARGET="cuda:80")
    assert done.returncode == 3 and "warp " in done.stderr
    lost = run("run", script, "1000", TRITIUM_SANITIZE="1", TRITIUM_SANITIZE_JSON=str(tmp_path / "no" / "file"))
    assert lost.returncode == 3 and "cannot write" in lost.stderr


def test_many_threads_at_once():
    """Eight threads, each with memory of its own: nothing is taken for another's, every mistake is counted."""
    wrong, results = torch.ones(1000), []

    def work(k):
        for _ in range(5):
            x, y = torch.full((1024,), float(k)), torch.empty(1024)
            copy[(4,)](x, y, 1024, BLOCK=256)
            results.append(bool((y == k).all()))
        copy[(4,)](wrong, torch.zeros(1000), 1000, BLOCK=256)

    with tritium.sanitize() as report:
        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finding, = report
    assert results == [True] * 40 and (finding.kind, finding.launches, finding.count) == ("out of bounds", 8, 8 * 24)


def test_reports_are_data():
    report = Report()
    assert report.add(Finding("race", "k", "x")) and not report.add(Finding("race", "k", "x"))
    assert report.kinds() == ["race"] and next(iter(report)).count == 2 and "seen 2 times" in report.text()
